//! Programs that ignore devices on loopback: they run in a network namespace, over one end of a
//! veth pair.
//!
//! The namespace belongs to no file: it and its interfaces are gone when its last process ends. Making
//! one takes privileges; without them, the output says what was not run.

use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};
use rustix::process::geteuid;

use super::Choice;
use crate::tally::{self, Tally};
use crate::workspace;

/// Says that this process is in the namespace.
pub(super) const INSIDE: &str = "--inside";
/// Says below which root folder its programs are.
pub(super) const ROOT: &str = "--root";
/// Where the device is.
pub(super) const INTERFACE: &str = "ferroce-a";
pub(super) const ADDRESS: &str = "10.79.0.1";
const OTHER_END: &str = "ferroce-b";

/// Whether a namespace may be made here; why not, otherwise.
pub(super) fn may_be_made() -> Result<()> {
    if !geteuid().is_root() {
        anyhow::bail!("a network namespace is made by root");
    }
    workspace::output(Command::new("unshare").args(["--net", "true"]))
        .context("no network namespace may be made")?;
    Ok(())
}

/// Runs the rows of this kind, in a namespace made for them.
pub(super) fn run(choice: &Choice) -> Result<Tally> {
    let mut command = Command::new("unshare");
    command.arg("--net").arg(env::current_exe()?).args(["programs", INSIDE]).args(choice.words());
    tally::tests(&mut command)
}

/// Makes the interface, in the namespace.
pub(super) fn make_interface() -> Result<()> {
    let address = format!("{ADDRESS}/24");
    // No check for duplicates: during it, a second or two, nothing can be sent from the address.
    let probes = "/proc/sys/net/ipv6/conf/default/dad_transmits";
    fs::write(probes, "0").with_context(|| format!("cannot write {probes}"))?;
    for line in [
        &["link", "set", "lo", "up"][..],
        &["link", "add", INTERFACE, "type", "veth", "peer", "name", OTHER_END],
        &["address", "add", &address, "dev", INTERFACE],
        &["link", "set", INTERFACE, "up"],
        &["link", "set", OTHER_END, "up"],
    ] {
        workspace::run(Command::new("ip").args(line))?;
    }
    Ok(())
}
