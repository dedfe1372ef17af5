//! `ferroce sim`: runs a scenario in the simulator.

use std::fs;
use std::path::Path;

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
    let scenario = Scenario::parse(&text, arguments.seed)
        .map_err(|error| Failure::from_message(&format!("{}: {error}", path.display())))?;
    let mut network = Network::new(scenario.network)
        .map_err(|error| Failure::from_message(&format!("{}: {error}", path.display())))?;
    if arguments.check {
        return print(&check(&scenario.title, &network));
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

/// What the scenario comes to, without running it.
fn check(title: &str, network: &Network) -> String {
    let topology = network.topology();
    let mut text = format!(
        "{title}: {} hosts, {} switches, {} links, {} flows\n",
        topology.hosts.len(),
        topology.switches.len(),
        topology.links.len(),
        network.flows().len()
    );
    for (index, switch) in topology.switches.iter().enumerate() {
        let index = index as u32;
        let Some(config) = network.switch_config(index) else { continue };
        let shared = network.shared_bytes(index).unwrap_or(0);
        let reserved = config.buffer_bytes - shared;
        text += &format!(
            "  {}: buffer {} bytes, {reserved} in reserves and headroom, {shared} shared\n",
            switch.name, config.buffer_bytes
        );
    }
    text
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
