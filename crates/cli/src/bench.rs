//! `ferroce bench`: verbs workloads, measured.

mod arguments;
mod isolation;
mod nics;
mod simulated;
mod watch;

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use bench::load::Tally;
use bench::plan::{self, Flow, Plan, Sweep, Verb};
use bench::report::{self, Report};
use telemetry::Table;

pub(crate) use arguments::Bench;
use arguments::{Action, Compare, Serve};
use nics::{Nics, World};
use simulated::Place;

use crate::failure::{Failure, Status};
use crate::output::{cannot_write, make_folder, print, write_table};
use watch::Watch;

pub(crate) fn run(arguments: &Bench) -> Result<(), Failure> {
    match &arguments.action {
        Some(Action::Serve(arguments)) => serve(arguments),
        Some(Action::Compare(arguments)) => compare(arguments),
        Some(Action::Isolation(arguments)) => isolation::run(arguments),
        None => measure(arguments),
    }
}

fn failure(failure: bench::Failure) -> Failure {
    Failure::from_message(&failure)
}

fn measure(arguments: &Bench) -> Result<(), Failure> {
    let what = arguments.what.as_deref().ok_or_else(|| {
        let verbs: Vec<&str> = Verb::ALL.into_iter().map(Verb::name).collect();
        Failure::new("there is nothing to measure")
            .hint(format!("name a verb ({}), or a flow file", verbs.join(", ")))
    })?;
    let plan = planned(what, arguments)?;
    let sweeps: Result<Vec<Sweep>, _> =
        arguments.sweep.iter().map(|text| Sweep::parse(text)).collect();
    let points = plan.points(&sweeps.map_err(failure)?).map_err(failure)?;
    if let Some(folder) = &arguments.output {
        make_folder(folder)?;
    }
    if let Some(path) = arguments.json.as_deref().filter(|path| *path != Path::new("-")) {
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened
            .map_err(|error| cannot_write(path, error).hint("name a file in a folder of yours"))?;
    }
    let address = arguments.connect.as_deref();
    let place = Place::open(&arguments.common, &arguments.simulated, address)?;
    let mut report = place.report(arguments.common.world, address);
    let mut interrupted = false;
    let mut watch = Watch::new(points.len())?;
    for point in &points {
        let tallies: Vec<Arc<Tally>> = point.plan.flows.iter().map(|_| Arc::default()).collect();
        watch.begin(&point.plan, &point.label(), &tallies);
        let ran = place.run(&point.plan, address, &tallies, &mut watch)?;
        report.add(point, &ran);
        interrupted = watch.is_interrupted();
        if ran.cut_short.is_some() {
            break;
        }
    }
    watch.end();
    let to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    print(&if to_stdout { report.to_json() } else { report.to_string() })?;
    if let Some(path) = arguments.json.as_deref().filter(|_| !to_stdout) {
        fs::write(path, report.to_json()).map_err(|error| cannot_write(path, error))?;
    }
    if let Some(folder) = &arguments.output {
        write(folder, &report)?;
    }
    verdict(&report, interrupted)
}

/// How the command ends.
fn verdict(report: &Report, interrupted: bool) -> Result<(), Failure> {
    if interrupted {
        return Err(
            Failure::new("interrupted: the results are partial").status(Status::Interrupted)
        );
    }
    if let Some(why) = report.partial() {
        return Err(Failure::new(format!("the results are partial: {why}")));
    }
    match report.misses().count() {
        0 => Ok(()),
        count => {
            let missed = format!("missed {count} of what was to be reached");
            Err(Failure::new(missed).status(Status::Missed))
        }
    }
}

/// The plan of a verb or of a file, as the flags have changed it.
fn planned(what: &str, arguments: &Bench) -> Result<Plan, Failure> {
    let word = what.replace('-', "_");
    let verb = Verb::ALL.into_iter().find(|verb| verb.name() == word);
    let mut plan = match verb {
        Some(verb) => {
            let mut flow = Flow::new(verb);
            if verb == Verb::WriteWrite {
                flow.wait = plan::WaitMode::Memory;
            }
            let mut plan = Plan { title: word, flows: vec![flow], ..Plan::default() };
            if arguments.common.world == World::Sim {
                // What is simulated needs no seconds to settle.
                (plan.warmup_ms, plan.length_ms) = (1.0, 10.0);
            }
            plan
        }
        None => {
            let text = fs::read_to_string(what).map_err(|error| {
                let verbs: Vec<&str> = Verb::ALL.into_iter().map(Verb::name).collect();
                Failure::new(format!("{what} is no verb, and cannot be read as a file: {error}"))
                    .hint(format!("the verbs are {}", verbs.join(", ")))
            })?;
            plan::read(&text).map_err(|error| Failure::from_message(&format!("{what}: {error}")))?
        }
    };
    for (key, value) in arguments.settings()? {
        if plan::PLAN_KEYS.iter().any(|(name, _)| *name == key) {
            plan.set(&key, &value).map_err(failure)?;
            continue;
        }
        for flow in &mut plan.flows {
            flow.set(&key, &value).map_err(failure)?;
        }
    }
    // A short run has short windows.
    if !arguments.names("window_ms") && verb.is_some() {
        plan.window_ms = plan.window_ms.min(plan.length_ms / 4.0).max(1.0);
    }
    plan.check().map_err(failure)?;
    Ok(plan)
}

fn write(folder: &Path, report: &Report) -> Result<(), Failure> {
    let texts = [
        ("report.html", report::page(report)),
        ("results.json", report.to_json()),
        ("summary.txt", report.to_string()),
    ];
    let about = [("world", report.world.as_str()), ("about", report.about.as_str())];
    write_files(folder, &texts, &report::tables(report), &about)
}

/// Texts by name, and tables as Parquet that says what it is `about`.
fn write_files(
    folder: &Path,
    texts: &[(&str, String)],
    tables: &[Table],
    about: &[(&str, &str)],
) -> Result<(), Failure> {
    for (name, text) in texts {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| cannot_write(&path, error))?;
    }
    for table in tables {
        write_table(folder, table, about)?;
    }
    Ok(())
}

fn serve(arguments: &Serve) -> Result<(), Failure> {
    let nics = Nics::open(&arguments.common)?;
    let listener = TcpListener::bind(&arguments.listen).map_err(|error| {
        Failure::new(format!("cannot listen at {}: {error}", arguments.listen))
            .hint("give an address of this host and a free port, with --listen HOST:PORT")
    })?;
    let address = listener.local_addr().map_or(arguments.listen.clone(), |at| at.to_string());
    let world = arguments.common.world.name();
    print(&format!("serving at {address}; world {world}: {}\n", nics.server()))?;
    let mut watch = Watch::new(0)?;
    let sessions = arguments.once.then_some(1);
    let mut tell = |text: &str| drop(print(&format!("{text}\n")));
    nics.serve(&listener, sessions, &mut watch, &mut tell)
}

fn compare(arguments: &Compare) -> Result<(), Failure> {
    let read = |path: &str| -> Result<Report, Failure> {
        let path = Path::new(path);
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        Report::read(&text).map_err(|error| failure(error.within(path.display())))
    };
    let side = |paths: &str| paths.split(',').map(read).collect::<Result<Vec<_>, _>>();
    let (first, second) = (side(&arguments.first)?, side(&arguments.second)?);
    let comparison = report::compare(&first, &second).map_err(failure)?;
    print(&comparison.to_string())
}
