//! `cargo xtask ci`: every check, each a command that can be run alone.
//!
//! The first red stage ends the run. The last line counts the tests and the programs together.

use std::ffi::OsString;
use std::time::Instant;

use anyhow::{Context, Result};
use pico_args::Arguments;

use crate::tally::{self, Tally};
use crate::workspace::{self, cargo};
use crate::{
    abi, book, crowd, dist, distributions, extensions, interop, labs, mistakes, pingmesh, programs,
    pyverbs, routed, speed, storm, strangers, terminal, tidy,
};

/// How many storms run over the engine: about a minute.
const STORMS: &str = "20000";
/// How many storms run over NICs, on each path.
const LINK_STORMS: &str = "4000";
/// What is injected in the second run of the programs.
const FAULTS: &str = "loss=0.01,reorder=0.01,seed=7";

pub(crate) fn run() -> Result<()> {
    let mut tally = Tally::default();
    let result = stages(&mut tally);
    match result.as_ref() {
        Ok(Some(not_run)) => println!("\n{tally}; {not_run}"),
        _ => println!("\n{tally}"),
    }
    result.map(drop)
}

/// What this machine could not run, if everything else has passed.
fn stages(tally: &mut Tally) -> Result<Option<String>> {
    stage("fmt", || workspace::run(cargo().args(["fmt", "--all", "--check"])))?;
    stage("tidy", || tidy::run(&tidy::Choice::default()))?;
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
        judged(tally, tally::tests(cargo().args(what)))
    })?;
    stage("test over UDP", || {
        // The default path between processes of a host is shared memory.
        let what = ["test", "--package", "ferroce-softnic", "--profile", "ci", "--test", "nic"];
        judged(tally, tally::tests(cargo().args(what).env("FERROCE_LINK", "udp")))
    })?;
    stage("extensions", || judged(tally, extensions::run()))?;
    stage("speed", speed::run)?;
    stage("storm", || {
        storm::run(Arguments::from_vec(["--seeds", STORMS].map(OsString::from).to_vec()))
    })?;
    stage("storm over both links", || {
        ["shm", "udp"].into_iter().try_for_each(|link| storm::over(link, "0", LINK_STORMS))
    })?;
    stage("crowd", || crowd::of_ci().iter().try_for_each(crowd::run))?;
    stage("pyverbs", || judged(tally, pyverbs::run(&pyverbs::Choice::default())))?;
    stage("pyverbs over UDP", || judged(tally, pyverbs::run(&pyverbs::Choice::over("udp"))))?;
    stage("programs", || judged(tally, programs::run(&programs::Choice::default())))?;
    stage("book", || judged(tally, book::run(false)))?;
    stage("mistakes", || judged(tally, mistakes::run()))?;
    stage("programs over UDP", || judged(tally, programs::run(&programs::Choice::over("udp"))))?;
    stage("programs under faults", || {
        judged(tally, programs::run(&programs::Choice::under(FAULTS)))
    })?;
    stage("labs", || judged(tally, labs::run(&labs::Choice::default())))?;
    let mut not_run = Vec::new();
    // What not every machine can run.
    let mut if_it_can =
        |name: &str, prepared: &dyn Fn() -> Result<()>, run: &dyn Fn() -> Result<Tally>| {
            stage(name, || match prepared() {
                Ok(()) => judged(tally, run()),
                Err(why) => {
                    println!("not run: {why:#}");
                    not_run.push(format!("{name} was not run"));
                    Ok(())
                }
            })
        };
    if_it_can("strangers", &strangers::prepare, &strangers::run)?;
    if_it_can("routed", &routed::prepare, &|| routed::run(&routed::Choice::default()))?;
    let mesh = pingmesh::Choice::default();
    if_it_can("pingmesh", &pingmesh::prepare, &|| pingmesh::run(&mesh))?;
    let others = distributions::Choice::default();
    let prepared = || distributions::prepare(&others);
    if_it_can("distributions", &prepared, &|| distributions::run(&others))?;
    let peer = interop::Choice::default();
    if_it_can("interop", &|| interop::prepare(&peer), &|| interop::run(&peer))?;
    Ok((!not_run.is_empty()).then(|| not_run.join("; ")))
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
    tally::require_all_passed(stage)
}
