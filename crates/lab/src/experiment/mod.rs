//! Experiments: scripts of programs, events and expectations, carried out.
//!
//! ```text
//!   Experiment (fabric::scenario::experiment)
//!     └─ for each row, for each draw ─► stage: a lab, programs, events ─► Run: numbers, snapshots, what went wrong
//!          └─ judge: expectations over all runs ─► Report
//! ```
//!
//! A stage ends what it has started, however it ends: programs by their process groups, what has left these as orphans,
//! the lab with its thread.

mod child;
mod judge;
mod orphans;
mod output;
mod report;
mod simulated;
mod stage;

use core::time::Duration;
use std::path::{Path, PathBuf};

use fabric::scenario::experiment::{Experiment, Row};

use crate::snapshot::Snapshot;

pub use report::{Report, Verdict};

/// How an experiment is to be carried out.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The command `ferroce`, which runs programs as hosts.
    pub ferroce: PathBuf,
    /// Rows that are long are left out, and each is run once; simulated ones take no time, and are run as often as the
    /// file says.
    pub quick: bool,
    /// How often each row is run, in the place of what the file says.
    pub draws: Option<u32>,
    /// Only rows of these names; none for all.
    pub rows: Vec<String>,
    /// The folder of the experiment.
    pub here: PathBuf,
    /// Where what programs print is kept.
    pub folder: PathBuf,
}

/// What happens while an experiment is carried out.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    /// A run of a row begins.
    Begins {
        /// The row.
        row: &'a str,
        /// Which draw, from 0.
        draw: u32,
        /// Of how many.
        of: u32,
    },
    /// It has ended.
    Ended(&'a Run),
}

/// What a run of a row came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// The row.
    pub row: String,
    /// Which draw.
    pub draw: u32,
    /// How long it took on the wall.
    pub took: Duration,
    /// How its time was diluted, and whether it kept that.
    pub time: String,
    /// How far links, pauses and processors were the limit, host by host.
    pub limits: Vec<String>,
    /// What went wrong: programs that did not end as they were to, and so on.
    pub problems: Vec<String>,
    /// What happened, and when.
    pub events: Vec<String>,
    /// What programs said, by program and name.
    pub numbers: Vec<(String, f64)>,
    /// What was counted at the points in time that expectations need.
    pub(crate) snapshots: Vec<(Point, Snapshot)>,
}

/// A point in the time of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    End,
    /// After the beginning, or after an event.
    After(Option<String>, Duration),
}

/// Why an experiment cannot be carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CannotRun(pub(crate) String);

impl core::fmt::Display for CannotRun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for CannotRun {}

/// Looks at what only whoever carries it out can know: expressions and measures.
///
/// # Errors
/// What is wrong, with its line.
pub fn check(experiment: &Experiment) -> Result<(), CannotRun> {
    judge::check(experiment).map_err(CannotRun)
}

/// Carries an experiment out, until `stops` says that it is to end. The run that this cuts short is not in the report.
///
/// # Errors
/// It cannot be carried out at all. What is merely not as expected is in the report.
pub fn run(
    experiment: &Experiment,
    orders: &Orders,
    tell: &mut dyn FnMut(Progress<'_>),
    stops: &dyn Fn() -> bool,
) -> Result<Report, CannotRun> {
    check(experiment)?;
    for name in &orders.rows {
        if !experiment.rows.iter().any(|row| row.name == *name) {
            let names: Vec<&str> = experiment.rows.iter().map(|row| row.name.as_str()).collect();
            let all = names.join(", ");
            return Err(CannotRun(format!("there is no row {name:?}\nhint: rows are {all}")));
        }
    }
    let is_run = |row: &&Row| {
        let is_named = orders.rows.is_empty() || orders.rows.contains(&row.name);
        is_named && !(orders.quick && row.long)
    };
    let draws = orders.draws.unwrap_or(experiment.draws);
    let draws_of = |row: &Row| match orders.draws {
        None if orders.quick && !row.simulated => 1,
        _ => draws,
    };
    let rows: Vec<&Row> = experiment.rows.iter().filter(is_run).collect();
    let mut runs = Vec::new();
    // Draw by draw, so that what disturbs the machine for a while disturbs all rows.
    'all: for draw in 0..draws {
        for row in rows.iter().filter(|row| draw < draws_of(row)) {
            if stops() {
                break 'all;
            }
            tell(Progress::Begins { row: &row.name, draw, of: draws_of(row) });
            let points = judge::points(experiment, row);
            let run = if row.simulated {
                simulated::run(experiment, row, draw, &points)?
            } else {
                stage::run(experiment, row, draw, orders, &points, stops)?
            };
            // What was cut short says nothing.
            if stops() {
                break 'all;
            }
            tell(Progress::Ended(&run));
            runs.push(run);
        }
    }
    Ok(judge::judge(experiment, &rows, runs))
}

/// The folder of a run.
fn folder_of(orders: &Orders, row: &Row, draw: u32) -> PathBuf {
    let fit = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = row.name.chars().map(fit).collect();
    Path::new(&orders.folder).join(format!("{name}.{draw}"))
}
