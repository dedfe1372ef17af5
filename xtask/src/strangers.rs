//! `cargo xtask strangers`: what another user of the host tries, and what comes of it
//! (`docs/book/threats.md`). Only root can become another user.

use anyhow::{Result, bail};
use rustix::process::geteuid;

use crate::tally::{self, Tally};
use crate::workspace::whole;

/// Tests that become another user, or stand in for one.
const OVER_NICS: [&str; 5] =
    ["strangers::", "flood::", "forged::", "same_host::a_process_of_another_user", "--nocapture"];
const OF_FOLDERS: [&str; 3] = ["host::registry::", "host::runtime::", "--nocapture"];

/// Fails where the tests cannot become another user.
pub(crate) fn prepare() -> Result<()> {
    if !geteuid().is_root() {
        bail!("only root can become another user");
    }
    Ok(())
}

pub(crate) fn run() -> Result<Tally> {
    let mut sum = Tally::default();
    for (target, tests) in
        [(["--test", "nic"].as_slice(), &OVER_NICS[..]), (&["--lib"], &OF_FOLDERS)]
    {
        let mut command = whole("test");
        command.arg("--quiet").args(target).arg("--").args(tests);
        let counted = tally::tests(&mut command)?;
        sum.passed += counted.passed;
        sum.failed += counted.failed;
    }
    Ok(sum)
}
