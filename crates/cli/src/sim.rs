//! `ferroce sim`: runs a scenario in the simulator.

mod inputs;
mod meter;
mod seeds;
mod trials;
mod watch;

use std::fs;
use std::path::Path;
use std::time::Instant;

use fabric::check::Check;
use fabric::extend::Extensions;
use fabric::record::{self, Samples};
use fabric::report::{Report, Seeds};
use fabric::scenario;
use fabric::{Network, NetworkConfig, Verdict};

use crate::args::Sim;
use crate::failure::{Failure, Status};
use crate::output::{cannot_write, make_folder, print, write_table};
use inputs::{Input, inputs};
use meter::Meter;
use watch::{Building, Interrupt, Watch};

pub(crate) fn run(arguments: &Sim, extensions: &Extensions) -> Result<(), Failure> {
    if let Some(table) = &arguments.keys {
        return keys(table, extensions);
    }
    let inputs = inputs(arguments, extensions)?;
    if arguments.init {
        return inputs.iter().try_for_each(Input::init);
    }
    inputs.iter().for_each(Input::say_if_switch);
    // Of several, a mistake in the last is told before the first runs.
    if inputs.len() > 1 {
        for input in &inputs {
            input.read(arguments.seed)?;
        }
    }
    let interrupt = Interrupt::catch()?;
    let mut deadlock = Ok(());
    for (number, input) in inputs.iter().enumerate() {
        if number > 0 {
            print("\n")?;
        }
        let ran = match arguments.seeds {
            Some(count) => seeds::run(arguments, input, count, &interrupt),
            None => one(arguments, input, &interrupt),
        };
        match ran {
            // That is a result, and others may have other ones.
            Err(failure) if failure.is_deadlock() => deadlock = Err(failure),
            other => other?,
        }
    }
    deadlock
}

/// Runs one scenario once.
fn one(arguments: &Sim, input: &Input<'_>, interrupt: &Interrupt) -> Result<(), Failure> {
    let building = Building::start();
    let scenario = input.read(arguments.seed)?;
    building.read(scenario.network.topology.hosts.len());
    let check = Check::new(&scenario);
    if arguments.check {
        let text = if arguments.json { check.json() } else { check.to_string() };
        building.aside(|| print(&text))?;
    }
    if arguments.strict {
        input.strictly(&check)?;
    }
    let mut network =
        Network::new(NetworkConfig { threads: arguments.threads, ..scenario.network })
            .map_err(|error| input.wrong(&scenario.origin.explain(&error)))?;
    drop(building);
    if arguments.check {
        return Ok(());
    }
    input.warn(&scenario.notes, &check);
    if let Some(folder) = &input.output {
        make_folder(folder)?;
    }
    // Samples are for the files alone: without a folder there are none.
    let mut samples = input
        .output
        .is_some()
        .then(|| Samples::new(&network, scenario.end, scenario.sample_interval));
    let mut watch = Watch::new(scenario.end, interrupt);
    let end = scenario.end;
    let meter = arguments.bench.then(Meter::start);
    let begin = Instant::now();
    let verdict = record::run(&mut network, end, samples.as_mut(), |network| watch.next(network));
    let took = begin.elapsed();
    let cost = meter.map(|meter| meter.cost(&network, took));
    watch.end();
    let mut report = Report::new(&scenario.title, &network, &verdict);
    if let Some(samples) = &samples {
        report = report.with_samples(samples);
    }
    let trials::Tried { moot, trials } =
        trials::tried(arguments, input, &report, (&network, &verdict), interrupt);
    report = report.without(moot).with_trials(trials);
    let summary = report.summary();
    let mut text = summary.clone();
    let written = input.output.as_ref().map(|folder| write(folder, &report, &summary));
    if let Some((Ok(files), folder)) = written.as_ref().zip(input.output.as_ref()) {
        let page = folder.join("report.html");
        text += &format!("  {:<12} {files} files: see {}\n", "written", page.display());
    }
    print(&if arguments.json { report.json() } else { text })?;
    if let Some(cost) = cost {
        print(&cost)?;
    }
    written.transpose()?;
    match verdict {
        Verdict::Finished | Verdict::TimeOver | Verdict::Stalled => Ok(()),
        Verdict::Deadlock(_) => {
            Err(Failure::new("the network is deadlocked").status(Status::Deadlock))
        }
        Verdict::Interrupted => {
            Err(Failure::new("interrupted: the results are partial").status(Status::Interrupted))
        }
    }
}

/// Says what may be written in `table`, or in all of them.
fn keys(table: &str, extensions: &Extensions) -> Result<(), Failure> {
    let all =
        scenario::reference_extended(extensions).map_err(|error| Failure::from_message(&error))?;
    let named: Vec<String> = all
        .iter()
        .filter(|text| table.is_empty() || text.is_called(table))
        .map(ToString::to_string)
        .collect();
    if named.is_empty() {
        let names: Vec<&str> =
            all.iter().map(|text| text.name.as_str()).filter(|name| !name.is_empty()).collect();
        return Err(Failure::new(format!("there is no table {table:?}"))
            .hint(format!("tables are {}", names.join(", "))));
    }
    print(&named.join("\n"))
}

/// Writes the files of a run, and returns how many.
pub(crate) fn write(folder: &Path, report: &Report<'_>, summary: &str) -> Result<usize, Failure> {
    let texts = [("report.html", report.page()), ("summary.txt", summary.to_owned())];
    let mut count = 0;
    for (name, text) in &texts {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| cannot_write(&path, error))?;
        count += 1;
    }
    if let Some(frames) = report.capture() {
        let path = folder.join("capture.pcapng");
        fs::write(&path, frames).map_err(|error| cannot_write(&path, error))?;
        count += 1;
    }
    let mut figures = Seeds::default();
    figures.add(report, false);
    let about = report.about();
    let about: Vec<(&str, &str)> =
        about.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let tables = [
        Some(report.flows()),
        Some(figures.table()),
        report.samples(),
        Some(report.counters()),
        report.jobs(),
        report.programs(),
    ];
    for table in tables.iter().flatten() {
        write_table(folder, table, &about)?;
        count += 1;
    }
    Ok(count)
}
