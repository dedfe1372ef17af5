//! Experiments: programs on the hosts of a scenario, what happens to them meanwhile, and what is expected of both.
//!
//! ```text
//!   scenario ─┬─ row "control"  ─ programs ─ events ─┐
//!             ├─ row "pfc off"  ─ programs ─ events ─┼─► expectations: bounds, and rows held against each other
//!             └─ row "sim"      ─ simulated ─────────┘
//! ```
//!
//! Here is what a file may say, as data. Whoever carries it out is elsewhere. A row is the scenario with what the row
//! says over it. Where the scenario is another file, both count as one text: the experiment, and behind it the scenario,
//! so that each key has its place.

use core::time::Duration;

use rdma::Span;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Scenario;

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// What it is called.
    pub title: String,
    /// How often each row is run, with another seed each time.
    pub draws: u32,
    /// How long a run of a row may take at most.
    pub limit: Duration,
    /// Its rows, in their order.
    pub rows: Vec<Row>,
    /// What is expected of them.
    pub expectations: Vec<Expectation>,
    /// The scenario's own file, and the line behind which it is counted.
    pub(super) behind: Option<(usize, String)>,
}

/// One variant of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// What it shows, in a few words.
    pub about: String,
    /// Its network, with the file's seed.
    pub scenario: Scenario,
    /// It is run in the simulator, with the scenario's workloads in the place of programs.
    pub simulated: bool,
    /// In the simulator, by how much later at most each flow begins, as chance has it.
    pub starts_within: Span,
    /// It is left out of short runs.
    pub long: bool,
    /// Its programs, in their order.
    pub programs: Vec<Program>,
    /// What happens, in the order of the file.
    pub events: Vec<Event>,
}

/// A program.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// The line in which the experiment says so.
    pub line: usize,
    /// What it is called.
    pub name: String,
    /// The host that it runs as; `None` for one that is no host, such as `mpirun`.
    pub host: Option<String>,
    /// Its words, the program first. What is in braces is filled in when it starts.
    pub words: Vec<String>,
    /// Variables of its environment, `NAME=value`.
    pub environment: Vec<String>,
    /// When it starts.
    pub start: When,
    /// It is ready when it listens at this TCP port.
    pub ready_port: Option<String>,
    /// It is ready when a line of its output matches.
    pub ready_line: Option<String>,
    /// It is ready when its host has received so many packets.
    pub ready_packets: Option<u64>,
    /// How it is to end.
    pub end: End,
    /// Expressions of which each matches a line of its output.
    pub prints: Vec<String>,
    /// Numbers in its output.
    pub numbers: Vec<Number>,
}

/// When something starts or happens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct When {
    /// Programs that are ready by then.
    pub ready: Vec<String>,
    /// Programs that have ended by then.
    pub ended: Vec<String>,
    /// So long after that; without any, after the beginning of the row.
    pub delay: Duration,
}

/// How a program is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By itself, with this status.
    Status(i32),
    /// By itself, with any status but zero.
    Failure,
    /// As it likes: it is told to end when all others have.
    Stays,
    /// By the signal of an event.
    Killed,
}

/// A number in the output of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    /// The line in which the experiment says so.
    pub line: usize,
    /// What it is called.
    pub name: String,
    /// An expression whose first group is the number.
    pub pattern: String,
    /// Which, of several lines that match.
    pub take: Take,
}

/// Which of several numbers counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Take {
    /// The last.
    #[default]
    Last,
    /// The first.
    First,
    /// The smallest.
    Least,
    /// The largest.
    Most,
    /// All together.
    Sum,
    /// Their mean.
    Mean,
    /// How many there are.
    Count,
}

/// Something that happens.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// What it is called, for expectations that begin or end with it.
    pub name: String,
    /// When.
    pub when: When,
    /// What.
    pub what: What,
}

/// See [`Event`].
#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// Nothing: time is marked.
    Mark,
    /// Faults of the fabric, each so long after the event in the time of the model.
    Faults(Vec<crate::fault::Fault>),
    /// A program gets a signal.
    Signal {
        /// Which program.
        program: String,
        /// Which signal, such as `KILL`.
        signal: String,
    },
}

/// What is expected.
#[derive(Clone, PartialEq, Debug)]
pub struct Expectation {
    /// The line in which the experiment says so.
    pub line: usize,
    /// Why, in a sentence.
    pub why: String,
    /// Of which rows, by name.
    pub rows: Vec<String>,
    /// What is measured.
    pub measure: String,
    /// From when on it counts; `None` for the beginning.
    pub from: Option<Anchor>,
    /// Until when; `None` for the end.
    pub to: Option<Anchor>,
    /// For each second of that time.
    pub per_second: bool,
    /// What it is multiplied by.
    pub scale: f64,
    /// What must be so.
    pub bound: Bound,
}

/// A point in the time of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anchor {
    /// The event; `None` for the beginning of the row.
    pub event: Option<String>,
    /// So long after it.
    pub delay: Duration,
}

/// What must be so.
#[derive(Clone, PartialEq, Debug)]
pub enum Bound {
    /// Between two numbers, which are among it.
    Between(f64, f64),
    /// That times what another row has, between two numbers.
    Times {
        /// The other row.
        row: String,
        /// The least draw of it counts below, and the greatest above; otherwise the middle one does for both.
        any_draw: bool,
        /// At least.
        least: f64,
        /// At most.
        most: f64,
    },
}

impl Bound {
    /// Whether every draw is to be so, and not only the middle one: what is not to happen, happens in none.
    pub fn is_of_every_draw(&self) -> bool {
        matches!(self, Self::Between(_, most) if *most == 0.0)
    }
}

/// What `over` says, and otherwise what `base` says, table by table.
pub(super) fn merged<'a>(base: &DeTable<'a>, over: &DeTable<'a>) -> DeTable<'a> {
    let mut all = base.clone();
    for (key, value) in over {
        let both = match (all.get(&**key.get_ref()).map(Spanned::get_ref), value.get_ref()) {
            (Some(DeValue::Table(base)), DeValue::Table(over)) => {
                Spanned::new(value.span(), DeValue::Table(merged(base, over)))
            }
            _ => value.clone(),
        };
        all.remove(&**key.get_ref());
        all.insert(key.clone(), both);
    }
    all
}
