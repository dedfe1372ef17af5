//! `cargo xtask ci`: every check. `--only WORD` runs the stages that have the word in their names.
//!
//! What is not well formed or cannot be built ends the run. After that a red stage does not keep the others
//! from running, so that one run tells everything that is wrong. The last lines say which stages took longest,
//! count the tests and the programs together, and name the stages that failed.

use core::cmp::Reverse;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::tally::{self, Tally};
use crate::workspace::{self, Build, cargo};
use crate::{
    abi, book, crowd, dist, distributions, extensions, interop, labs, mistakes, network, pingmesh,
    programs, pyverbs, routed, speed, storm, strangers, terminal, tidy,
};

/// How many storms run over the engine: about two minutes.
const STORMS: &str = "15000";
/// How many storms run over NICs, on each path.
const LINK_STORMS: &str = "4000";
/// What is injected in the second run of the programs.
const FAULTS: &str = "loss=0.01,reorder=0.01,seed=7";

/// How many of the stages that took longest are named at the end.
const STAGES_NAMED: usize = 12;

/// What has become of the stages so far.
#[derive(Default)]
struct Outcome {
    tally: Tally,
    failed: Vec<String>,
    /// What this machine could not run.
    not_run: Vec<String>,
    took: Vec<(&'static str, Duration)>,
    /// The only stages, if not all: those whose names have this in them.
    only: Option<String>,
}

pub(crate) fn run(only: Option<String>) -> Result<()> {
    let mut outcome = Outcome { only, ..Outcome::default() };
    outcome.source()?;
    outcome.programs();
    outcome.machines();
    let Outcome { tally, failed, not_run, took, only } = outcome;
    if let Some(only) = only.filter(|_| took.is_empty()) {
        bail!("no stage has {only:?} in its name");
    }
    println!("\n{}", longest(&took));
    let not_run: String = not_run.iter().map(|name| format!("; {name} was not run")).collect();
    println!("{tally}{not_run}");
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

impl Outcome {
    /// How the source reads, and whether it builds.
    fn source(&mut self) -> Result<()> {
        self.timed("fmt", || workspace::run(cargo().args(["fmt", "--all", "--check"])))?;
        self.timed("tidy", || tidy::run(&tidy::Choice::default()))?;
        self.timed("clippy", || {
            let what = [
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ];
            workspace::run(cargo().args(what))
        })?;
        self.timed("doc", || {
            let what = ["doc", "--workspace", "--no-deps", "--all-features"];
            workspace::run(cargo().args(what).env("RUSTDOCFLAGS", "-D warnings"))
        })?;
        self.timed("build", || {
            // What users run is linked by one processor for minutes. Meanwhile another compiles the tests.
            thread::scope(|scope| {
                let tests =
                    scope.spawn(|| workspace::run(workspace::whole("test").arg("--no-run")));
                dist::run()?;
                tests.join().expect("it does not panic")
            })
        })
    }

    /// Tests, and programs on this host.
    fn programs(&mut self) {
        self.stage("abi", abi::run);
        self.tests("test", || tally::tests(workspace::whole("test").arg("--no-fail-fast")));
        self.tests("test over UDP", || {
            // The default path between processes of a host is shared memory.
            tally::tests(Build::Ci.nics().env("FERROCE_LINK", "udp"))
        });
        self.tests("extensions", extensions::run);
        self.stage("speed", speed::run);
        self.stage("storm", || storm::of_ci(STORMS));
        self.stage("storm over both links", || {
            let over = |link| storm::over(link, "0", LINK_STORMS, Build::Ci);
            ["shm", "udp"].into_iter().try_for_each(over)
        });
        self.stage("crowd", || crowd::of_ci().iter().try_for_each(crowd::run));
        self.tests("pyverbs", || pyverbs::run(&pyverbs::Choice::default()));
        self.tests("pyverbs over UDP", || pyverbs::run(&pyverbs::Choice::over("udp")));
        self.tests("programs", || programs::run(&programs::Choice::default()));
        self.tests("book", || book::run(false));
        self.tests("mistakes", mistakes::run);
        self.tests("programs over UDP", || programs::run(&programs::Choice::over("udp")));
        self.tests("programs under faults", || programs::run(&programs::Choice::under(FAULTS)));
        self.tests("labs", || labs::run(&labs::Choice::default()));
    }

    /// What not every machine can run: namespaces, other distributions, a machine with another kernel.
    fn machines(&mut self) {
        self.if_it_can("strangers", strangers::prepare, strangers::run);
        self.if_it_can("routed", routed::prepare, || routed::run(&routed::Choice::default()));
        self.if_it_can("networks", network::can_be_tried, network::try_out);
        let mesh = pingmesh::Choice::default();
        self.if_it_can("pingmesh", pingmesh::prepare, || pingmesh::run(&mesh));
        let others = distributions::Choice::default();
        let prepared = || distributions::prepare(&others);
        self.if_it_can("distributions", prepared, || distributions::run(&others));
        let peer = interop::Choice::default();
        self.if_it_can("interop", || interop::prepare(&peer), || interop::run(&peer));
    }

    fn stage(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) {
        if let Err(why) = self.timed(name, work) {
            eprintln!("error: {why:#}");
            self.failed.push(name.to_owned());
        }
    }

    /// A stage that counts what it runs.
    fn tests(&mut self, name: &'static str, work: impl FnOnce() -> Result<Tally>) {
        let mut all = self.tally;
        self.stage(name, || {
            let tally = work()?;
            all.passed += tally.passed;
            all.failed += tally.failed;
            tally::require_all_passed(tally)
        });
        self.tally = all;
    }

    fn if_it_can(
        &mut self,
        name: &'static str,
        prepared: impl FnOnce() -> Result<()>,
        run: impl FnOnce() -> Result<Tally>,
    ) {
        let mut is_run = true;
        self.tests(name, || {
            prepared().map_or_else(
                |why| {
                    println!("not run: {why:#}");
                    is_run = false;
                    Ok(Tally::default())
                },
                |()| run(),
            )
        });
        if !is_run {
            self.not_run.push(name.to_owned());
        }
    }

    fn timed(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.only.as_ref().is_some_and(|only| !name.contains(only)) {
            return Ok(());
        }
        terminal::heading(name);
        let start = Instant::now();
        let result = work();
        let took = start.elapsed();
        self.took.push((name, took));
        let word = if result.is_ok() { terminal::green("ok") } else { terminal::red("FAILED") };
        println!("{word} {name}, {:.1} s", took.as_secs_f64());
        result.with_context(|| format!("stage {name}"))
    }
}

/// The time of all stages, and the names of those that took most of it.
fn longest(took: &[(&'static str, Duration)]) -> String {
    let total: Duration = took.iter().map(|(_, took)| took).sum();
    let mut by_time = took.to_vec();
    by_time.sort_by_key(|(_, took)| Reverse(*took));
    let named: Vec<String> = by_time
        .iter()
        .take(STAGES_NAMED)
        .map(|(name, took)| format!("{name} {} s", took.as_secs()))
        .collect();
    format!("{} s: {}", total.as_secs(), named.join(", "))
}
