//! How many tests passed and failed, counted from the output of commands that test.

use core::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// How many passed and how many failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// An error that says how many failed, if any did.
pub(crate) fn require_all_passed(tally: Tally) -> Result<()> {
    match tally.failed {
        0 => Ok(()),
        failed => bail!("{failed} of {} failed", tally.passed + failed),
    }
}

/// Runs a command that tests, passes its output on and counts its summaries.
pub(crate) fn tests(command: &mut Command) -> Result<Tally> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", workspace::shown(command)))?;
    let stdout = child.stdout.take().context("a child has no stdout")?;
    let mut tally = Tally::default();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        let counted = summary(&line);
        tally.passed += counted.passed;
        tally.failed += counted.failed;
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        bail!("{} failed: {status}", workspace::shown(command));
    }
    Ok(tally)
}

/// cargo's `test result: ok. 25 passed; 0 failed; 0 ignored; ...`, or our own `25 passed, 0 failed`;
/// any other line counts nothing.
fn summary(line: &str) -> Tally {
    let count = |what: &str| {
        let before = line.split_once(what)?.0;
        before.split_whitespace().next_back()?.parse().ok()
    };
    let counted = Tally {
        passed: count(" passed").unwrap_or_default(),
        failed: count(" failed").unwrap_or_default(),
    };
    let ours = line == counted.to_string();
    if ours || line.starts_with("test result: ") { counted } else { Tally::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_cargo_test_are_counted() {
        let line = "test result: FAILED. 15 passed; 2 failed; 1 ignored; 0 measured; finished";
        let Tally { passed, failed } = summary(line);
        assert_eq!((passed, failed), (15, 2));
        let Tally { passed, failed } = summary("test tidy::tests::passes ... ok");
        assert_eq!((passed, failed), (0, 0));
    }

    #[test]
    fn our_own_summaries_are_counted() {
        let tally = Tally { passed: 98, failed: 3 };
        assert_eq!(summary(&tally.to_string()), tally);
        assert_eq!(summary("of 98 passed, 3 failed to compile"), Tally::default());
    }
}
