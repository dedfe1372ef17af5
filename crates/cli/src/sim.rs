//! `ferroce sim`: runs a scenario in the simulator.

use core::time::Duration;
use std::fs;
use std::path::Path;
use std::time::Instant;

use fabric::check::Check;
use fabric::report::Report;
use fabric::scenario::Scenario;
use fabric::{Network, NetworkConfig, Speed, Verdict};

use crate::args::Sim;
use crate::failure::Failure;
use crate::output::print;

pub(crate) fn run(arguments: &Sim) -> Result<(), Failure> {
    let path = &arguments.scenario;
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let scenario = Scenario::parse_in(&text, folder, arguments.seed)
        .map_err(|error| Failure::from_message(&format!("{}: {error}", path.display())))?;
    if arguments.check {
        print(&Check::new(&scenario).to_string())?;
    } else {
        for note in scenario.notes.iter().filter(|note| note.warning) {
            eprintln!("warning: {}", note.text);
        }
    }
    let mut network =
        Network::new(NetworkConfig { threads: arguments.threads, ..scenario.network }).map_err(
            |error| {
                let error = scenario.origin.explain(&error);
                Failure::from_message(&format!("{}: {error}", path.display()))
            },
        )?;
    if arguments.check {
        return Ok(());
    }
    let begin = Instant::now();
    let verdict = network.run(scenario.end);
    let took = begin.elapsed();
    let report = Report::new(&scenario.title, &network, &verdict);
    if let Some(folder) = &arguments.output {
        write(folder, &report)?;
    }
    print(&report.summary())?;
    if arguments.bench {
        print(&cost(&network, took))?;
    }
    match verdict {
        Verdict::Finished | Verdict::TimeOver | Verdict::Stalled | Verdict::Interrupted => Ok(()),
        Verdict::Deadlock(_) => Err(Failure::new("the network is deadlocked")),
    }
}

/// What a run has cost of this machine.
fn cost(network: &Network, took: Duration) -> String {
    let speed = Speed::of(network, took);
    let packets = network.packets_at_most();
    let mut text = format!("  speed        {speed}\n  memory       {packets} packets at most");
    // The most that was in memory at a time, as Linux counts it.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
        text += &format!(", {} for the whole process", peak.trim());
    }
    text + "\n"
}

fn write(folder: &Path, report: &Report<'_>) -> Result<(), Failure> {
    let files = [
        ("summary.txt", report.summary()),
        ("flows.csv", report.flows_csv()),
        ("counters.csv", report.counters_csv()),
    ];
    let wrong =
        |path: &Path, error| Failure::new(format!("cannot write {}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| wrong(&path, error))?;
    }
    Ok(())
}
