//! Configuration: what is there against what is desired, and against rules that each have an incident behind them
//! (guo16, 5.1 and 6.2).
//!
//! ```text
//!   Folder (files per device) ─► source (a reader for each command's output) ─► Cluster: switches, hosts, links
//!   desired.toml ─► Desired ─┐                                                     │
//!                            ├─► rules ─► Findings ─► Mutes ─► report: text, JSON, SARIF
//!                            ├─► path     (one DSCP hop by hop)
//!                            └─► what_if  (a fault in the simulator, as it runs and as it is desired)
//! ```
//!
//! # What holds
//!
//! - SONiC's `config_db.json` is read by [`fabric::scenario::sonic`], once, and what it means for a port is what a
//!   simulated switch would do: a rule and a simulation cannot disagree about a file.
//! - A file that cannot be read, that is cut, or that another vendor wrote is a finding (`FD000`) with line and remedy;
//!   everything else is still judged. Nothing in a file makes anything panic, and what is kept of one is bounded
//!   ([`limits`]).
//! - A fact that no file states is not judged: no rule fires because a snapshot is missing.
//!
//! **What is deliberately absent:** access to devices (`--collect` prints the commands), and changing anything on them.

pub mod cluster;
mod collect;
mod desired;
mod explain;
mod finding;
mod folder;
mod here;
pub mod limits;
mod mute;
mod path;
pub mod report;
mod rules;
mod shell;
mod source;
pub mod what_if;
mod wiring;

use core::time::Duration;
use std::time::SystemTime;

use crate::times;
use cluster::Cluster;

pub use collect::collect;
pub use desired::Desired;
pub use explain::explain;
pub use finding::{Difference, Finding, Place, Rule, Severity};
pub use folder::{File, Folder};
pub use here::{Ask, here};
pub use mute::{Muted, Mutes};
pub use path::{NoPath, path};

/// What is said of a folder.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// What the files say is there.
    pub cluster: Cluster,
    /// What every device should be, if a file says so.
    pub desired: Desired,
    /// What is wrong: the gravest first, then by device and rule.
    pub findings: Vec<Finding>,
    /// What is wrong and was said to be known, with the reason.
    pub muted: Vec<Muted>,
}

impl Diagnosis {
    /// Judges a folder. `desired` takes the place of the folder's own `desired.toml`; `now` is what mutes with an
    /// end are held by.
    pub fn of(folder: &Folder, desired: Option<&File>, now: Option<SystemTime>) -> Self {
        // Clocks of devices are of any zone: tomorrow may be there already.
        let tomorrow = now.and_then(|now| now.checked_add(Duration::from_secs(86_400)));
        let (cluster, mut findings) = Cluster::of(folder, &date(tomorrow));
        let own = folder.file("desired.toml");
        let desired = match desired.or(own) {
            Some(file) => Desired::parse(file).unwrap_or_else(|finding| {
                findings.push(*finding);
                Desired::default()
            }),
            None => Desired::default(),
        };
        let mut mutes = match folder.file("doctor.toml") {
            Some(file) => Mutes::parse(file).unwrap_or_else(|finding| {
                findings.push(*finding);
                Mutes::default()
            }),
            None => Mutes::default(),
        };
        mutes.today = date(now);
        rules::check(&cluster, &desired, &mut findings);
        findings.sort();
        findings.dedup();
        let (findings, muted) = mutes.apply(findings);
        Self { cluster, desired, findings, muted }
    }

    /// What could not be judged because no file says it, in sentences that name the devices: that nothing is found there
    /// means nothing.
    pub fn not_judged(&self) -> Vec<String> {
        rules::unjudged(&self.cluster, &self.desired)
    }

    /// The gravest severity there is.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// As in `2026-11-25`; empty without a time.
fn date(time: Option<SystemTime>) -> String {
    let text = time.and_then(times::text).unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
