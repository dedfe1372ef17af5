//! `ferroce lab exec`: an experiment from a file.

use core::fmt::Write as _;
use core::sync::atomic::Ordering;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fabric::scenario::experiment::Experiment;
use fabric::scenario::experiment_reference;
use lab::experiment::{self, Orders, Progress};

use super::{of_workloads, opens};
use crate::args::Exec;
use crate::failure::{Failure, Status};
use crate::output::{cannot_write, make_folder, print, tell};

pub(super) fn run(exec: &Exec) -> Result<(), Failure> {
    let Some(path) = &exec.experiment else { return keys() };
    let cannot = |error: &dyn core::fmt::Display| {
        let message = format!("cannot read {}: {error}", path.display());
        Failure::new(message)
            .hint("experiments are in the folder scenarios/lab of Ferroce's source")
    };
    let text = fs::read_to_string(path).map_err(|error| cannot(&error))?;
    // The folder of a bare name is an empty path, which has no absolute one.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let of_file = |error: &dyn core::fmt::Display| {
        Failure::from_message(&format!("{}: {error}", path.display()))
    };
    let made = Experiment::parse_in(&text, folder, exec.seed).map_err(|error| {
        let failure = of_file(&error);
        if opens(&text, &["topology"]) {
            failure.hint("this is a network, of which `ferroce lab up` makes a lab")
        } else {
            failure
        }
    })?;
    experiment::check(&made).map_err(|error| of_file(&error))?;
    let mut warnings: Vec<&str> = made
        .rows
        .iter()
        .flat_map(|row| {
            row.scenario.notes.iter().filter(|note| note.warning && !of_workloads(&note.text))
        })
        .map(|note| note.text.as_str())
        .collect();
    warnings.dedup();
    for warning in warnings {
        tell(&format!("warning: {warning}"));
    }
    let (kept, _removed) = match &exec.output {
        Some(folder) => {
            make_folder(folder)?;
            (folder.clone(), None)
        }
        None => {
            let folder = tempfile::Builder::new().prefix("ferroce-lab-").tempdir();
            let folder =
                folder.map_err(|error| Failure::new(format!("no scratch folder: {error}")))?;
            (folder.path().to_owned(), Some(folder))
        }
    };
    let ferroce = env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find the command itself: {error}")))?;
    let kept: PathBuf = std::path::absolute(&kept).unwrap_or(kept);
    let orders = Orders {
        ferroce,
        quick: exec.quick,
        draws: exec.draws,
        rows: exec.row.clone(),
        here: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()),
        folder: kept.clone(),
    };
    let stop = crate::signals::stopper()?;
    print(&format!("{}\n", made.title))?;
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Ended(run) = progress {
            let mut text = run.to_string();
            if exec.events {
                for line in &run.limits {
                    let _ = writeln!(text, "    {line}");
                }
                for event in &run.events {
                    let _ = writeln!(text, "    {event}");
                }
            }
            // That it cannot be written is noticed at the end.
            let _ = print(&text);
        }
    };
    let stops = || stop.load(Ordering::Relaxed);
    let report =
        experiment::run(&made, &orders, &mut tell, &stops).map_err(|error| of_file(&error))?;
    if stops() {
        let ended = match report.runs.len() {
            1 => "1 run that had".to_owned(),
            runs => format!("{runs} runs that had"),
        };
        let message = format!("it was interrupted: nothing is judged by the {ended} ended");
        return Err(Failure::new(message).status(Status::Interrupted));
    }
    let text = report.to_string();
    // First the file, whatever stdout is; what was seen is printed, whatever the disk is.
    let written = if exec.output.is_some() {
        let path = kept.join("report.txt");
        let runs: String = report.runs.iter().map(ToString::to_string).collect();
        let all = format!("{}\n{runs}{text}", made.title);
        fs::write(&path, all).map_err(|error| cannot_write(&path, error))
    } else {
        Ok(())
    };
    print(&text)?;
    written?;
    if report.is_met() {
        return Ok(());
    }
    Err(Failure::new("not everything was as expected").status(Status::Missed))
}

fn keys() -> Result<(), Failure> {
    let tables = experiment_reference();
    let texts: Vec<String> = tables.iter().map(ToString::to_string).collect();
    print(&texts.join("\n"))
}
