//! Performance Isolation Anomalies in RDMA (KBNets 2017).
//!
//! | file | section | claims |
//! |---|---|---|
//! | `offers` | 2.1, table 1 | which service offers which verb |
//! | `alone` | 3.1 and 3.2, figures 1 to 3 | what is a mouse, what an elephant, what a poll costs |
//! | `elephants` | 3.3, table 3, figure 4 | who sleeps between messages, and who does not |
//! | `mice` | 3.4 and 3.5, figures 5 to 7 | mice beside mice and beside elephants |
//! | `machines` | 3.7 | another NIC |
//!
//! Both flows go from one host to another, as in the authors' tool: one message at a time, the smallest
//! ones inline. Messages of 20 MB stand for the paper's 1 GB.

mod alone;
mod elephants;
mod machines;
mod mice;
mod offers;

use bench::isolation;
use bench::plan::{Flow, Verb, WaitMode};

use crate::hosts::{Hosts, Runs};
use crate::study::{self, Context, Experiment, Step};
use crate::{Error, Options, Study};

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment { claims: offers::CLAIMS, run: offers::run },
    Experiment { claims: alone::CLAIMS, run: alone::run },
    Experiment { claims: elephants::CLAIMS, run: elephants::run },
    Experiment { claims: mice::CLAIMS, run: mice::run },
    Experiment { claims: machines::CLAIMS, run: machines::run },
];

/// Those that need no other testbed.
const ON_SOFT: &[Experiment] = &[
    Experiment { claims: offers::CLAIMS, run: offers::run },
    Experiment { claims: alone::CLAIMS, run: alone::run },
    Experiment { claims: elephants::CLAIMS, run: elephants::run },
    Experiment { claims: mice::CLAIMS, run: mice::run },
];

/// The testbeds of the paper.
const FIRST: &str = "cx3-56g-xeon";
const SECOND: &str = "cx4-100g-power8";

/// Elephants: what the paper has, and what stands for its 1 GB, of which an experiment would hold few.
const SMALL: u32 = 1_000_000;
const LARGE: u32 = 20_000_000;
const SCALE: &str = "20 MB for 1 GB, beyond which figure 4a adds 0.03";
/// A message of the largest elephant, at 48 Gb/s, and its sleep, in milliseconds.
const TURN_MS: f64 = 3.4;
/// Mice.
const MICE: [u32; 3] = [10, 100, 1_000];

const VERBS: [(Verb, &str); 4] =
    [(Verb::Send, "SEND"), (Verb::WriteImm, "WIMM"), (Verb::Read, "READ"), (Verb::Write, "WRITE")];

/// Runs every experiment, or those about the claim, figure or table `only`. `progress` is told what is
/// being run.
///
/// # Errors
/// [`Error::NoSuchClaim`]; the others mean that a file of ours is not as it should be.
pub fn run(
    only: Option<&str>,
    options: Options,
    progress: &mut dyn FnMut(&Step<'_>),
) -> Result<Study, Error> {
    study::run("zhang17", EXPERIMENTS, ON_SOFT, only, options, progress)
}

fn polls(verb: Verb, bytes: u32) -> Flow {
    isolation::kind(verb, bytes, WaitMode::Poll)
}

fn sleeps(verb: Verb, bytes: u32) -> Flow {
    isolation::kind(verb, bytes, WaitMode::Event)
}

/// So long that elephants have several of their messages, in milliseconds.
fn length_ms(options: Options, largest: u32) -> f64 {
    let messages = if options.quick { 3.0 } else { 10.0 };
    // A flow has 20 Gb/s at least.
    (messages * f64::from(largest) * 8.0 / 20e6).max(1.0)
}

/// Elephants that run at once on a testbed: a window of ten messages of the largest, after ten messages of
/// it with their sleeps.
fn elephants(context: &mut Context<'_>, hosts: Hosts, flows: &[Flow]) -> Result<Runs, Error> {
    let largest = flows.iter().map(|flow| flow.size_bytes).max().unwrap_or(0);
    let ms = length_ms(context.options, largest);
    context.runs(&hosts.after_ms(ms).for_ms(ms), flows)
}

/// Mice and elephants, alone or together, on a testbed: a window of ten messages of the largest elephant,
/// after as many with their sleeps.
fn together(context: &mut Context<'_>, hosts: Hosts, flows: &[Flow]) -> Result<Runs, Error> {
    let messages = if context.options.quick { 3.0 } else { 10.0 };
    let ms = messages * TURN_MS;
    context.runs(&hosts.after_ms(ms).for_ms(ms), flows)
}

/// Mice, alone or beside others, on a testbed.
fn mice(context: &mut Context<'_>, hosts: Hosts, flows: &[Flow]) -> Result<Runs, Error> {
    let length_ms = if context.options.quick { 2.0 } else { 10.0 };
    context.runs(&hosts.for_ms(length_ms), flows)
}

/// A size in words.
fn bytes(size: u32) -> String {
    match size {
        1_000_000.. => format!("{} MB", size / 1_000_000),
        1_000.. => format!("{} KB", size / 1_000),
        _ => format!("{size} B"),
    }
}
