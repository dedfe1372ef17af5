//! `cargo xtask ci`: every check there is, each a command that can be run alone.
//!
//! The first red stage ends the run. The last line counts the tests and the programs together.

use core::fmt;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pico_args::Arguments;

use crate::workspace::{self, cargo};
use crate::{abi, dist, interop, programs, pyverbs, speed, storm, terminal, tidy};

/// How many storms the engine must weather: a minute's worth.
const STORMS: &str = "20000";
/// And as many NICs on each link.
const LINK_STORMS: &str = "4000";
/// What is injected in the second run of the programs.
const FAULTS: &str = "loss=0.01,reorder=0.01,seed=7";

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

pub(crate) fn run() -> Result<()> {
    let mut tally = Tally::default();
    let result = stages(&mut tally);
    match result.as_ref() {
        Ok(Some(not_run)) => println!("\n{tally}; {not_run}"),
        _ => println!("\n{tally}"),
    }
    result.map(drop)
}

/// What this machine could not run, if all that it could has passed.
fn stages(tally: &mut Tally) -> Result<Option<String>> {
    stage("fmt", || workspace::run(cargo().args(["fmt", "--all", "--check"])))?;
    stage("tidy", tidy::run)?;
    stage("clippy", || {
        let what =
            ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
        workspace::run(cargo().args(what))
    })?;
    stage("doc", || {
        let what = ["doc", "--workspace", "--no-deps", "--all-features"];
        workspace::run(cargo().args(what).env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    stage("dist", dist::run)?;
    stage("abi", abi::run)?;
    stage("test", || {
        let what = ["test", "--workspace", "--all-features", "--profile", "ci", "--no-fail-fast"];
        judged(tally, tests(cargo().args(what)))
    })?;
    stage("test over UDP", || {
        // The default is memory, between processes of a host.
        let what = ["test", "--package", "ferroce-softnic", "--profile", "ci", "--test", "nic"];
        judged(tally, tests(cargo().args(what).env("FERROCE_LINK", "udp")))
    })?;
    stage("speed", speed::run)?;
    stage("storm", || {
        storm::run(Arguments::from_vec(["--seeds", STORMS].map(OsString::from).to_vec()))
    })?;
    stage("storm over both links", || {
        ["shm", "udp"].into_iter().try_for_each(|link| storm::over(link, "0", LINK_STORMS))
    })?;
    stage("pyverbs", || judged(tally, pyverbs::run(&pyverbs::Choice::default())))?;
    stage("pyverbs over UDP", || judged(tally, pyverbs::run(&pyverbs::Choice::over("udp"))))?;
    stage("programs", || judged(tally, programs::run(&programs::Choice::default())))?;
    stage("programs over UDP", || judged(tally, programs::run(&programs::Choice::over("udp"))))?;
    stage("programs under faults", || {
        judged(tally, programs::run(&programs::Choice::under(FAULTS)))
    })?;
    let peer = interop::Choice::default();
    let mut not_run = None;
    stage("interop", || match interop::prepare(&peer) {
        Ok(()) => judged(tally, interop::run(&peer)),
        Err(why) => {
            println!("not run: {why:#}");
            not_run = Some("interop was not run".to_owned());
            Ok(())
        }
    })?;
    Ok(not_run)
}

fn stage(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    terminal::heading(name);
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    match &result {
        Ok(()) => println!("{} {name}, {seconds:.1} s", terminal::green("ok")),
        Err(_) => println!("{} {name}, {seconds:.1} s", terminal::red("FAILED")),
    }
    result.with_context(|| format!("stage {name}"))
}

/// Adds what a stage has run to all that was run.
fn judged(tally: &mut Tally, stage: Result<Tally>) -> Result<()> {
    let stage = stage?;
    tally.passed += stage.passed;
    tally.failed += stage.failed;
    require_all_passed(stage)
}

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
