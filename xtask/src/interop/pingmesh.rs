//! Pingmesh between the kernel's Soft-RoCE in the guest and a soft NIC: two agents, and a collector beside the soft one.

use core::time::Duration;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::guest::Guest;
use super::{HOST, PATIENCE, TAP, image};
use crate::lab::{Lab, NOBODY, Running};
use crate::workspace;

pub(super) const NAME: &str = "pingmesh: an agent on rxe0, another on a soft NIC";
const TOPOLOGY: &str = "scenarios/pingmesh/four-hosts.toml";
const PORT: u16 = 4792;
const WINDOW_MS: &str = "2000";
/// How long the guest's agent runs, by its own clock: an emulated one may go three times as fast as ours, and windows that
/// end more than a minute ahead of the collector are refused.
const SECONDS: u64 = 45;
/// Probes that each has to have answered of the other's, at least: half of those of a window.
const ANSWERED_MIN: u64 = 10;

/// Returns what was seen, or why that is wrong.
pub(super) fn run(lab: &Lab, guest: &mut Guest) -> Result<String> {
    let key = format!("{:032x}", fastrand::u128(..));
    let files = [
        ("key", key.clone()),
        ("four-hosts.toml", fs::read_to_string(workspace::root().join(TOPOLOGY))?),
    ];
    for (name, text) in files {
        let file = lab.folder().join(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        chown(&file, Some(NOBODY), Some(NOBODY))?;
    }
    let address = format!("{}:{PORT}", HOST.address);
    let ferroce = |name: &str, words: &[&str]| -> Result<Running> {
        let mut command = lab.plain(&lab.command().to_string_lossy());
        lab.start(name, {
            command.arg("pingmesh").args(words);
            command
        })
    };
    let mut collector = ferroce(
        "collector",
        &[
            "collect",
            "--topology",
            "four-hosts.toml",
            "--db",
            "mesh.db",
            "--key",
            "key",
            "--listen",
            &address,
            "--window-ms",
            WINDOW_MS,
        ],
    )?;
    if !collector.listens(PORT, Instant::now() + PATIENCE)? {
        bail!("the collector does not listen: {}", collector.finish(Instant::now())?.stderr);
    }
    let device = format!("{TAP}/{}", HOST.address);
    let agent = ferroce(
        "agent",
        &[
            "agent",
            "--collector",
            &address,
            "--key",
            "key",
            "--host",
            "h0",
            "--dev",
            &device,
            "--spool",
            "spool",
        ],
    )?;
    let words = [image::PINGMESH.0.to_owned(), address.clone(), key, SECONDS.to_string()];
    let job = guest.start(&words, SECONDS + PATIENCE.as_secs())?;
    let done = guest.finish(&job, || ())?;
    let soon = Instant::now() + Duration::from_secs(10);
    for running in [agent, collector] {
        running.interrupt()?;
        running.finish(soon)?;
    }
    let mut command = lab.plain(&lab.command().to_string_lossy());
    command.args(["pingmesh", "report", "mesh.db", "--json"]);
    let report = lab.finish("report", command, Instant::now() + PATIENCE)?;
    let told: Value = serde_json::from_str(&report.stdout).with_context(|| {
        format!("no report: {}\nthe guest's agent: {}", report.stderr, done.printed)
    })?;
    let pairs = told["pairs"].as_array().context("a report has pairs")?;
    let answered = |from: &str, to: &str| {
        let pair = pairs.iter().find(|pair| pair["from"] == from && pair["to"] == to);
        pair.and_then(|pair| pair["answered"].as_u64()).unwrap_or(0)
    };
    let (there, back) = (answered("h0", "h1"), answered("h1", "h0"));
    if there < ANSWERED_MIN || back < ANSWERED_MIN {
        bail!(
            "{there} and {back} probes were answered\n{}\nthe guest's agent: {}",
            report.stdout,
            done.printed
        );
    }
    Ok(format!("the kernel has answered {there} probes of ours, and we {back} of its"))
}
