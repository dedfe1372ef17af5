//! What is seen of a lab at a moment: its clock, every port's counters, its programs.
//!
//! ```text
//!   lab: copies the counters ─► scribe (a thread): adds the programs' own, writes JSON ─► client::look
//! ```
//!
//! The lab's thread copies and goes on. Whoever asks is never waited for.

use std::collections::BTreeMap;

use fabric::counters::PortCounted;
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// What the lab is called.
    pub lab: String,
    /// What its network is called.
    pub title: String,
    /// How long it has lived on the wall, in nanoseconds.
    pub wall_ns: u64,
    /// How long it has lived in the model, in picoseconds.
    pub model_ps: u64,
    /// By how much its time is diluted.
    pub factor: f64,
    /// How often its clock slipped.
    pub slips: u64,
    /// By how much in all, in nanoseconds.
    pub slipped_ns: u64,
    /// Every port: those of switches, then those of hosts.
    pub ports: Vec<PortCounted>,
    /// Packets dropped, by cause; causes that did not occur are left out.
    pub drops: BTreeMap<String, u64>,
    /// Packets that no program had.
    pub unclaimed: u64,
    /// Deadlocks that were found.
    pub deadlocks: u64,
    /// Packets that were put on a link.
    pub link_hops: u64,
    /// The programs that run.
    pub programs: Vec<ProgramSeen>,
}

/// A program, as the lab sees it, and what it counts itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ProgramSeen {
    /// Its host.
    pub host: String,
    /// Its process.
    pub process: u32,
    /// What it is called.
    pub command: String,
    /// Packets that it has sent.
    pub sent: u64,
    /// Packets that it has received.
    pub received: u64,
    /// Packets of it that were refused.
    pub refused: u64,
    /// What its NIC has counted, under the names of Linux (`hw_counters`).
    pub counters: BTreeMap<String, u64>,
}

impl Seen {
    /// Adds what the programs count themselves: the sum of all NICs of each process.
    pub(crate) fn add_counters(&mut self) {
        let all = softnic::counters::read_all();
        for program in &mut self.programs {
            for of in all.iter().filter(|of| of.pid == program.process) {
                for (name, value) in &of.counters {
                    *program.counters.entry(name.clone()).or_default() += value;
                }
            }
        }
    }
}
