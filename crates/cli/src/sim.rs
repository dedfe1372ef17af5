//! `ferroce sim`: runs a scenario in the simulator.

use std::fs;
use std::path::Path;

use fabric::check::Check;
use fabric::report::Report;
use fabric::scenario::Scenario;
use fabric::{Network, Verdict};

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
    let mut network = Network::new(scenario.network)
        .map_err(|error| Failure::from_message(&format!("{}: {error}", path.display())))?;
    if arguments.check {
        return Ok(());
    }
    let verdict = network.run(scenario.end);
    let report = Report::new(&scenario.title, &network, &verdict);
    if let Some(folder) = &arguments.output {
        write(folder, &report)?;
    }
    print(&report.summary())?;
    match verdict {
        Verdict::Finished | Verdict::TimeOver | Verdict::Stalled | Verdict::Interrupted => Ok(()),
        Verdict::Deadlock(_) => Err(Failure::new("the network is deadlocked")),
    }
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
