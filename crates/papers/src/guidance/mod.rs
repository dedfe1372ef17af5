//! Which verb, and how to wait: what the grids of the experiments advise, and how sure that is.
//!
//! ```text
//!   le19's methods and zhang17's flows ─► on several testbeds, with several draws ─► Grid
//!   size, dependent accesses, load, goal ─► the best of the grid ─► advice
//!   testbeds and draws that differ, and what the paper's claims came to ─► how sure
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `grid` | what is run, and what each way reaches |
//! | `papers` | what the papers say of a question, and on record about these claims |
//! | `soft` | what was measured of soft NICs |

mod grid;
mod papers;
mod soft;

use crate::study::{Context, Step};
use crate::table::block;
use crate::{Error, Options};
use grid::{Found, Grid};
use papers::Agrees;

/// What somebody wants most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    /// One access at a time, the mean.
    Latency,
    /// Sixteen clients, as fast as they can; of large messages one flow, one at a time.
    Throughput,
    /// The processor time of both ends for what the throughput is.
    Processor,
}

/// What else the hosts and the link do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    Idle,
    /// A task that never waits on every core.
    Busy,
    /// Large transfers from the same server; beside a large flow another one that sleeps between its messages.
    Beside,
}

/// What somebody asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Question {
    size: u32,
    /// READs that each need what the one before has brought.
    depends: u32,
    load: Load,
    goal: Goal,
}

/// How sure an advice is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sure {
    High,
    Medium,
    Low,
}

impl Goal {
    const fn text(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
            Self::Processor => "processor time",
        }
    }
}

impl Load {
    const fn text(self) -> &'static str {
        match self {
            Self::Idle => "none",
            Self::Busy => "all cores busy",
            Self::Beside => "large transfers beside it",
        }
    }
}

impl Sure {
    const fn text(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// The answer to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Advice {
    way: String,
    sure: Sure,
    why: String,
    soft: String,
}

/// Answers to all questions of the grid.
#[derive(Clone, Debug)]
pub struct Guidance {
    testbeds: Vec<&'static str>,
    draws: usize,
    rows: Vec<(Question, Advice)>,
}

/// Computes it. `progress` is told what is being run.
///
/// # Errors
/// A file of ours is not as it should be.
pub fn run(options: Options, progress: &mut dyn FnMut(&Step<'_>)) -> Result<Guidance, Error> {
    let mut context = Context::without_claims(options, progress);
    let grid = Grid::measure(&mut context)?;
    let measured = soft::Measured::read()?;
    let records = papers::Records::read()?;
    let mut rows = Vec::new();
    for question in grid.questions() {
        let advice = advise(&grid, question, &records, &measured);
        rows.push((question, advice));
    }
    let draws = crate::draws::seeds(options).len();
    Ok(Guidance { testbeds: grid.testbeds(), draws, rows })
}

fn advise(
    grid: &Grid,
    question: Question,
    records: &papers::Records,
    measured: &soft::Measured,
) -> Advice {
    let Found { ways, apart } = grid.best(question);
    let said = papers::says(question);
    let names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
    let (sure, why) = match (apart, said) {
        (Some(apart), _) => (Sure::Low, apart),
        (None, None) => (Sure::Medium, "no claim is about it".to_owned()),
        (None, Some(said)) => match (said.agrees(&ways), records.doubt(said.claim)) {
            (Agrees::No, _) => (Sure::Low, format!("{} says {}", said.claim, said.names())),
            (Agrees::Level, _) => {
                (Sure::Low, format!("level here; {} puts {} ahead", said.claim, said.names()))
            }
            (Agrees::Yes, doubt) => {
                let as_in = format!("as in {}{}", said.claim, said.runs);
                match doubt {
                    None if said.runs.is_empty() => (Sure::High, format!("{as_in}, which holds")),
                    None => (Sure::Medium, format!("{as_in}, which holds")),
                    Some(doubt) => (Sure::Medium, format!("{as_in}, which {doubt}")),
                }
            }
        },
    };
    Advice { way: names.join(" or "), sure, why, soft: measured.says(question, &ways) }
}

impl Guidance {
    /// A row for each question; sizes whose answers are the same share one.
    pub fn table(&self) -> String {
        let about = format!(
            "simulated: medians of {} draws on each of {}; soft NICs: as recorded",
            self.draws,
            self.testbeds.join(", ")
        );
        let mut text = block(&about, &[]);
        let mut left = self.rows.as_slice();
        while let Some(((first, advice), _)) = left.split_first() {
            let same = |(question, other): &&(Question, Advice)| {
                *question == Question { size: question.size, ..*first } && other == advice
            };
            let count = left.iter().take_while(same).count();
            let last = left[count - 1].0;
            let sizes = match count {
                1 => first.size.to_string(),
                _ => format!("{} to {}", first.size, last.size),
            };
            let accesses = match first.depends {
                1 => "1 access".to_owned(),
                several => format!("{several} dependent accesses"),
            };
            let (load, goal) = (first.load.text(), first.goal.text());
            let Advice { way, sure, why, soft } = advice;
            text.push('\n');
            let title = format!("{sizes} bytes, {accesses}, load {load}, for {goal}:");
            let rows = [
                ("advice", way.as_str()),
                ("sure", sure.text()),
                ("why", why),
                ("soft NICs", soft),
            ];
            text += &block(&title, &rows);
            left = &left[count..];
        }
        text
    }
}
