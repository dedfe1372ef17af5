//! `cargo xtask labs`: the experiments of `scenarios/lab/`, each carried out as users do it, once, and then the hard days.
//!
//! What they expect holds on a machine that does other things as well. After them nothing may be left: no process, no
//! file of a lab.

mod hard_days;
pub(crate) mod scale;
mod up;

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pico_args::Arguments;
use rustix::process::geteuid;

use crate::lab::{Lab, NOBODY};
use crate::tally::Tally;
use crate::terminal;
use crate::workspace;

const FOLDER: &str = "scenarios/lab";
const EXAMPLES: &str = "examples/c";
/// How long one may take: rows that wait for each other end much sooner.
const LIMIT: Duration = Duration::from_secs(240);

/// Which are run, and how often each row.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    filter: Option<String>,
    draws: Option<u32>,
    times: Option<u32>,
    /// The long forms of hard days.
    full: bool,
}

impl Choice {
    pub(crate) fn parse(arguments: &mut Arguments) -> Result<Self> {
        Ok(Self {
            filter: arguments.opt_value_from_str("--filter")?,
            draws: arguments.opt_value_from_str("--draws")?,
            times: arguments.opt_value_from_str("--times")?,
            full: arguments.contains("--full"),
        })
    }
}

pub(crate) fn run(choice: &Choice) -> Result<Tally> {
    let lab = Lab::open()?;
    // Whoever runs them can read the copy.
    let experiments = copies(&lab)?;
    let is_chosen = |path: &&PathBuf| {
        choice.filter.as_ref().is_none_or(|text| path.to_string_lossy().contains(text))
    };
    let chosen: Vec<&PathBuf> = experiments.iter().filter(is_chosen).collect();
    let is_chosen = |name: &str| choice.filter.as_ref().is_none_or(|text| name.contains(text));
    let days: Vec<_> = hard_days::DAYS.iter().filter(|(name, _)| is_chosen(name)).collect();
    if chosen.is_empty() && days.is_empty() {
        bail!("no experiment and no hard day is called so");
    }
    println!("as {}", lab.user());
    let mut tally = Tally::default();
    for _ in 0..choice.times.unwrap_or(1) {
        for path in &chosen {
            let passed = one(&lab, path, choice)?;
            tally.passed += usize::from(passed);
            tally.failed += usize::from(!passed);
        }
        for (name, day) in &days {
            let begin = Instant::now();
            let outcome = day(&lab, choice.full);
            let seconds = begin.elapsed().as_secs_f64();
            tally.passed += usize::from(outcome.is_ok());
            tally.failed += usize::from(outcome.is_err());
            match outcome {
                Ok(()) => println!("{} {name}, {seconds:.1} s", terminal::green("ok")),
                Err(why) => {
                    println!("{} {name}, {seconds:.1} s: {why:#}", terminal::red("FAILED"));
                }
            }
        }
    }
    let mut left = left_over();
    left.extend(lab.processes());
    if !left.is_empty() {
        println!("{} left behind: {}", terminal::red("FAILED"), left.join(", "));
        tally.failed += 1;
    }
    println!("{tally}");
    Ok(tally)
}

fn one(lab: &Lab, path: &Path, choice: &Choice) -> Result<bool> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let begin = Instant::now();
    let mut command = lab.plain(&lab.command().to_string_lossy());
    // By its bare name, as people do who are in the folder.
    command.current_dir(path.parent().unwrap_or(lab.folder()));
    command.args(["lab", "exec"]).args(path.file_name());
    match choice.draws {
        Some(draws) => command.args(["--draws", &draws.to_string()]),
        None => command.arg("--quick"),
    };
    let ended = lab.finish(&name, command, begin + LIMIT)?;
    let seconds = begin.elapsed().as_secs_f64();
    let passed = ended.status.is_some_and(|status| status.success());
    if passed {
        let verdict = ended.stdout.lines().last().unwrap_or_default();
        println!("{} {name}, {seconds:.1} s: {verdict}", terminal::green("ok"));
    } else {
        println!(
            "{} {name}, {seconds:.1} s\n{}{}",
            terminal::red("FAILED"),
            ended.stdout,
            ended.stderr
        );
    }
    Ok(passed)
}

/// The experiments and what they compile, where whoever runs them can read them.
fn copies(lab: &Lab) -> Result<Vec<PathBuf>> {
    let mut experiments = Vec::new();
    for folder in [FOLDER, EXAMPLES] {
        let to = lab.folder().join(folder);
        fs::create_dir_all(&to)?;
        let from = workspace::root().join(folder);
        for entry in
            fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))?
        {
            let path = entry?.path();
            let Some(name) = path.file_name().filter(|_| path.is_file()) else { continue };
            fs::copy(&path, to.join(name))?;
            // Those that begin with a number are experiments, and the others networks.
            let is_numbered =
                name.to_string_lossy().starts_with(|first: char| first.is_ascii_digit());
            if folder == FOLDER && is_numbered {
                experiments.push(to.join(name));
            }
        }
    }
    experiments.sort();
    Ok(experiments)
}

/// The folder in which programs of the user find each other.
fn runtime_folder() -> PathBuf {
    let user = if geteuid().is_root() { NOBODY } else { geteuid().as_raw() };
    PathBuf::from(format!("/dev/shm/ferroce-{user}"))
}

/// Files of labs in that folder.
fn left_over() -> Vec<String> {
    let entries = fs::read_dir(runtime_folder()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // Numbers of labs are from 2^31 on (`crates/softnic/src/lab/mod.rs`).
    let is_of_lab = |name: &String| {
        let mut parts = name.split('-').filter_map(|part| part.parse::<u64>().ok());
        parts.any(|number| (0x8000_0000..0xc000_0000).contains(&number))
    };
    names.filter(is_of_lab).collect()
}
