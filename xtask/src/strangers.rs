//! `cargo xtask strangers`: what another user of the host tries, and what comes of it
//! (`docs/book/threats.md`). Only root can become another user.

use anyhow::Result;

use crate::tally::{self, Tally};
use crate::workspace::cargo;

/// Tests that become another user, or stand in for one.
const OVER_NICS: [&str; 5] =
    ["strangers::", "flood::", "forged::", "same_host::a_process_of_another_user", "--nocapture"];
const OF_FOLDERS: [&str; 3] = ["host::registry::", "host::runtime::", "--nocapture"];

/// Whether the tests can become another user here.
pub(crate) fn can_run() -> bool {
    // The owner of what belongs to this process.
    std::fs::metadata("/proc/self")
        .is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

pub(crate) fn run() -> Result<Tally> {
    let mut sum = Tally::default();
    for (target, tests) in
        [(["--test", "nic"].as_slice(), &OVER_NICS[..]), (&["--lib"], &OF_FOLDERS)]
    {
        let mut command = cargo();
        command.args(["test", "--quiet", "--package", "ferroce-softnic", "--profile", "ci"]);
        command.args(target).arg("--").args(tests);
        let counted = tally::tests(&mut command)?;
        sum.passed += counted.passed;
        sum.failed += counted.failed;
    }
    Ok(sum)
}
