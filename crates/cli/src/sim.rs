//! `ferroce sim`: runs a scenario in the simulator.

mod meter;
mod seeds;
mod watch;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use fabric::check::Check;
use fabric::record::{self, Samples};
use fabric::report::Report;
use fabric::scenario::{self, Scenario};
use fabric::{Network, NetworkConfig, Verdict};
use telemetry::Table;

use crate::args::Sim;
use crate::failure::{Failure, Status};
use crate::output::{cannot_write, make_folder, print};
use meter::Meter;
use watch::{Building, Watch};

pub(crate) fn run(arguments: &Sim) -> Result<(), Failure> {
    if let Some(table) = &arguments.keys {
        return keys(table);
    }
    let Some(path) = &arguments.scenario else {
        return Err(Failure::new("there is no scenario"));
    };
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display())).hint(
            "a scenario is a TOML file, such as those in the folder scenarios of Ferroce's source",
        )
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    if let Some(count) = arguments.seeds {
        return seeds::run(arguments, path, &text, count);
    }
    let building = Building::start();
    let scenario = Scenario::parse_in(&text, folder, arguments.seed)
        .map_err(|error| Failure::from_message(&format!("{}: {error}", path.display())))?;
    building.read(scenario.network.topology.hosts.len());
    if arguments.check {
        building.aside(|| print(&Check::new(&scenario).to_string()))?;
    }
    let mut network =
        Network::new(NetworkConfig { threads: arguments.threads, ..scenario.network }).map_err(
            |error| {
                let error = scenario.origin.explain(&error);
                Failure::from_message(&format!("{}: {error}", path.display()))
            },
        )?;
    drop(building);
    if arguments.check {
        return Ok(());
    }
    for note in scenario.notes.iter().filter(|note| note.warning) {
        eprintln!("warning: {}", note.text);
    }
    if let Some(folder) = &arguments.output {
        make_folder(folder)?;
    }
    // Samples are for the files alone: without a folder there are none.
    let mut samples = arguments
        .output
        .is_some()
        .then(|| Samples::new(&network, scenario.end, scenario.sample_interval));
    let mut watch = Watch::new(scenario.end)
        .map_err(|error| Failure::new(format!("cannot catch Ctrl-C: {error}")))?;
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
    let summary = report.summary();
    let mut text = summary.clone();
    let written = arguments.output.as_ref().map(|folder| write(folder, &report, &summary));
    if let Some((Ok(files), folder)) = written.as_ref().zip(arguments.output.as_ref()) {
        let page = folder.join("report.html");
        text += &format!("  {:<12} {files} files: see {}\n", "written", page.display());
    }
    print(&text)?;
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
fn keys(table: &str) -> Result<(), Failure> {
    let all = scenario::reference();
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
fn write(folder: &Path, report: &Report<'_>, summary: &str) -> Result<usize, Failure> {
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
    let about = report.about();
    let about: Vec<(&str, &str)> =
        about.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let tables = [
        ("flows.parquet", Some(report.flows())),
        ("samples.parquet", report.samples()),
        ("counters.parquet", Some(report.counters())),
        ("jobs.parquet", report.jobs()),
    ];
    for (name, table) in tables {
        let Some(table) = table else { continue };
        write_table(&folder.join(name), &table, &about)?;
        count += 1;
    }
    Ok(count)
}

fn write_table(path: &Path, table: &Table, about: &[(&str, &str)]) -> Result<(), Failure> {
    let file = File::create(path).map_err(|error| cannot_write(path, error))?;
    let mut file = BufWriter::new(file);
    table.write_parquet(&mut file, about).map_err(|error| cannot_write(path, error))?;
    file.flush().map_err(|error| cannot_write(path, error))
}
