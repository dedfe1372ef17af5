//! `ferroce lab`: programs as hosts of a modelled fabric.

mod capture;
mod counters;
mod event;
mod exec;
mod top;

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::env;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::thread::sleep;
use std::time::Instant;

use fabric::Verdict;
use fabric::report::Report;
use fabric::scenario::Scenario;
use lab::{LabError, Settings, client};
use rustix::process::{Signal, set_parent_process_death_signal};
use softnic::lab::{Channel, Found, Site};

use crate::args::{Down, Lab, RunIn, Up, Which};
use crate::failure::Failure;
use crate::output::{cannot_write, fitted, make_folder, print, tell};

impl Which {
    fn find(&self) -> Result<Found, Failure> {
        client::find(self.lab.as_deref()).map_err(|error| Failure::from_message(&error))
    }
}

pub(crate) fn run(command: Lab) -> Result<(), Failure> {
    match command {
        Lab::Up(up) if up.detach => detach(&up),
        Lab::Up(up) => stay(&up),
        Lab::Event(event) => event::run(&event),
        Lab::Events(which) => event::list(&which.find()?),
        Lab::Exec(exec) => exec::run(&exec),
        Lab::Run(RunIn { host, which, mut run, with_parent }) => {
            if with_parent {
                // Whoever has started it may have ended already: then nobody waits for it.
                let _ = set_parent_process_death_signal(Some(Signal::TERM));
            }
            let found = which.find()?;
            let site = Site::new(&found.socket, &host);
            run.site = Some(site.map_err(|error| Failure::from_message(&error))?);
            if !run.dev.is_empty() || run.link.is_some() || run.wire.is_some() {
                let message = "a host of a lab has one device, and one path for its packets";
                return Err(Failure::new(message).hint("leave out --dev, --link and --wire"));
            }
            crate::run::run(&run)
        }
        Lab::Status(which) => {
            let found = which.find()?;
            print(&fitted(&ask(&found, "status")?))
        }
        Lab::Capture(arguments) => capture::run(&arguments),
        Lab::Top(arguments) => top::run(&arguments),
        Lab::Counters(arguments) => counters::run(&arguments),
        Lab::Down(arguments) => down(&arguments),
    }
}

fn ask(found: &Found, request: &str) -> Result<String, Failure> {
    client::ask(found, request).map_err(|error| Failure::from_message(&error))
}

impl Up {
    /// What the lab is to be called.
    fn name(&self) -> String {
        let stem = self.scenario.file_stem().unwrap_or_default().to_string_lossy();
        self.name.clone().unwrap_or_else(|| client::name_of(&stem))
    }
}

/// Is the lab, until it ends.
fn stay(up: &Up) -> Result<(), Failure> {
    let path = &up.scenario;
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display())).hint(
            "a lab is made of a scenario, such as those in the folder scenarios/lab of Ferroce's source",
        )
    })?;
    let of_file = |error: &dyn core::fmt::Display| {
        Failure::from_message(&format!("{}: {error}", path.display()))
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let scenario = Scenario::parse_in(&text, folder, up.seed).map_err(|error| {
        let failure = of_file(&error);
        if opens(&text, &["row", "program", "event", "expect", "scenario"]) {
            failure.hint("this is an experiment, which `ferroce lab exec` carries out")
        } else {
            failure
        }
    })?;
    let warnings = scenario.notes.iter().filter(|note| note.warning && !of_workloads(&note.text));
    for note in warnings {
        tell(&format!("warning: {}", note.text));
    }
    let settings = Settings {
        name: up.name(),
        title: scenario.title,
        network: scenario.network,
        factor: up.factor.or(scenario.dilution),
        metrics: up.metrics,
    };
    if let Some(folder) = &up.output {
        make_folder(folder)?;
    }
    let stop = crate::signals::stopper()?;
    let mut lab = lab::Lab::begin(settings).map_err(|error| match &error {
        LabError::Network(why) => of_file(&scenario.origin.explain(why)),
        LabError::NoHosts => of_file(&error),
        _ => Failure::from_message(&error),
    })?;
    print(&fitted(&lab.greeting()))?;
    lab.run(|_| stop.load(Ordering::Relaxed));
    let told = print(&fitted(&lab.farewell()));
    if let Some(folder) = lab.heir().map(Path::to_owned) {
        let outcome = leave(&lab, &folder);
        let why = outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(&why);
        lab.tell_heir(outcome.as_deref().map_err(|_| why));
    }
    if let Some(folder) = &up.output {
        print(&leave(&lab, folder)?)?;
    }
    told
}

/// Whether a file has a table, or an array of tables, of one of these names.
fn opens(text: &str, names: &[&str]) -> bool {
    let inner = |line: &str| line.trim().trim_start_matches('[').trim_end_matches(']').to_owned();
    text.lines()
        .filter(|line| line.starts_with('[') && line.trim_end().ends_with(']'))
        .any(|line| names.contains(&inner(line).as_str()))
}

/// Writes the results of a lab that is over, and says where.
fn leave(lab: &lab::Lab, folder: &Path) -> Result<String, Failure> {
    let (title, run) = lab.told();
    let report = Report::new(title, lab.network(), &Verdict::TimeOver);
    let report = report.with_samples(lab.samples()).in_lab(&run);
    let summary = report.summary();
    make_folder(folder)?;
    let json = folder.join("report.json");
    fs::write(&json, report.json()).map_err(|error| cannot_write(&json, error))?;
    let files = 1 + crate::sim::write(folder, &report, &summary)?;
    let page = folder.join("report.html");
    Ok(format!("{summary}  {:<12} {files} files: see {}\n", "written", page.display()))
}

/// Whether a note asks for workloads: programs are the workload here.
fn of_workloads(text: &str) -> bool {
    text.starts_with("no application does anything")
}

/// How long a lab may take to begin: its network may be large.
const BEGIN_MAX: Duration = Duration::from_secs(60);
/// How long it may take to end.
const END_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Starts a lab in the background, and waits until it can be asked.
fn detach(up: &Up) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::new(format!("cannot start the lab: {error}"));
    let mut process = Process::new(env::current_exe().map_err(cannot)?);
    process.args(["lab", "up"]).arg(&up.scenario).args(["--name", &up.name()]);
    for (flag, value) in [
        ("--factor", up.factor.map(|it| it.to_string())),
        ("--seed", up.seed.map(|it| it.to_string())),
        ("--metrics", up.metrics.map(|it| it.to_string())),
    ] {
        process.args(value.iter().flat_map(|value| [flag, value]));
    }
    if let Some(folder) = &up.output {
        process.arg("--output").arg(folder);
    }
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = process.spawn().map_err(cannot)?;
    let begin = Instant::now();
    while begin.elapsed() < BEGIN_MAX {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                io::Read::read_to_string(&mut stderr, &mut said).map_err(cannot)?;
            }
            let said = said.trim_end();
            let message = said.rsplit_once("error: ").map_or(said, |(_, message)| message);
            let message = if message.is_empty() {
                format!("the lab ended: {status}")
            } else {
                message.to_owned()
            };
            return Err(Failure::from_message(&message));
        }
        // Another one of this name may run already: then ours will say so and end.
        let is_ours = |found: &Found| {
            found.name == up.name()
                && Channel::connect(&found.socket)
                    .and_then(|channel| channel.process())
                    .is_ok_and(|process| process == child.id())
        };
        let there = softnic::lab::all().into_iter().find(is_ours);
        if let Some(greeting) = there.and_then(|found| client::ask(&found, "greeting").ok()) {
            return print(&fitted(&greeting));
        }
        sleep(LOOK_EVERY);
    }
    let _ = child.kill();
    Err(Failure::new("the lab has not begun within a minute"))
}

/// How long a lab may take to write its results.
const RESULTS_MAX_MS: i32 = 120_000;

/// Tells a lab to end, and waits until it has.
fn down(arguments: &Down) -> Result<(), Failure> {
    let found = arguments.which.find()?;
    match &arguments.output {
        None => {
            ask(&found, "down")?;
        }
        Some(folder) => {
            make_folder(folder)?;
            let whole = std::path::absolute(folder).map_err(|error| cannot_write(folder, error))?;
            let Some(whole) = whole.to_str().filter(|name| !name.contains('\n')) else {
                return Err(cannot_write(folder, "its name is no line of text"));
            };
            let told = client::inherit(&found, whole, RESULTS_MAX_MS);
            print(&fitted(&told.map_err(|error| Failure::from_message(&error))?))?;
        }
    }
    let begin = Instant::now();
    while softnic::lab::all().contains(&found) {
        if begin.elapsed() > END_MAX {
            return Err(Failure::new(format!("lab `{}` does not end", found.name)));
        }
        sleep(LOOK_EVERY);
    }
    Ok(())
}
