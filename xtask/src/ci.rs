//! `cargo xtask ci`: every check there is, each a command that can be run alone.
//!
//! The first red stage ends the run. The last line counts the tests and the programs together.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::programs::Choice;
use crate::workspace::{self, cargo};
use crate::{abi, dist, programs, pyverbs, storm, terminal, tidy};

/// How many storms the engine must weather: a minute's worth.
const STORMS: &str = "20000";
/// What is injected in the second run of the programs.
const FAULTS: &str = "loss=0.01,reorder=0.01,seed=7";

/// How many passed and how many failed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

pub(crate) fn run() -> Result<()> {
    let mut tally = Tally::default();
    let result = stages(&mut tally);
    println!("\n{} passed, {} failed", tally.passed, tally.failed);
    result
}

fn stages(tally: &mut Tally) -> Result<()> {
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
        tests(cargo().args(what), tally)
    })?;
    stage("storm", || storm::run(["--seeds", STORMS].map(OsString::from).to_vec()))?;
    stage("pyverbs", || {
        let suite = pyverbs::run(&pyverbs::Choice::default())?;
        tally.add(suite);
        pyverbs::require_all_passed(suite)
    })?;
    stage("programs", || judged(tally, &Choice::default()))?;
    stage("programs under faults", || judged(tally, &Choice::under(FAULTS)))
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

fn judged(tally: &mut Tally, choice: &Choice) -> Result<()> {
    let programs = programs::run(choice)?;
    tally.add(programs);
    programs::require_all_passed(programs)
}

/// Runs `cargo test`, passes its output on and counts its summaries.
fn tests(command: &mut Command, tally: &mut Tally) -> Result<()> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", workspace::shown(command)))?;
    let stdout = child.stdout.take().context("cargo test has no stdout")?;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        tally.add(summary(&line));
    }
    if !child.wait()?.success() {
        bail!("{} failed", workspace::shown(command));
    }
    Ok(())
}

/// `test result: ok. 25 passed; 0 failed; 0 ignored; ...`; any other line counts nothing.
fn summary(line: &str) -> Tally {
    let Some(counts) = line.strip_prefix("test result: ") else { return Tally::default() };
    let count = |what: &str| {
        let before = counts.split(what).next()?;
        before.split_whitespace().next_back()?.parse().ok()
    };
    Tally {
        passed: count(" passed").unwrap_or_default(),
        failed: count(" failed").unwrap_or_default(),
    }
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
}
