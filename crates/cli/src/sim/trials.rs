//! What is tried after a run: the settings that its report names as remedies, each in a run of its own.
//!
//! A trial ends at the time of the model when the run had ended, or after as many events and half as many, so
//! that it takes about as long as the run at most. A short run, such as one that waited for timeouts, does not
//! bound it: [`EVENTS_FREE`] are taken in any case. Of a run of more than [`EVENTS_MAX`] events nothing is tried.
//! None of this is real time: the same run tries the same.

use fabric::record::{self, Next};
use fabric::report::{Report, Trial};
use fabric::{Network, NetworkConfig, Verdict};
use rdma::Span;

use super::inputs::Input;
use super::watch::{Interrupt, Watch};
use crate::args::Sim;

/// A run of more events is not repeated: ours, a few seconds.
const EVENTS_MAX: u64 = 10_000_000;
/// So many events every trial may take: ours, less than a second.
const EVENTS_FREE: u64 = 2_000_000;
/// How often a trial looks at its events, in the model.
const STRETCH: Span = Span::from_us(20);

/// The remedies of `report` that change nothing in its scenario, as what they set is so already or cannot be set.
pub(super) fn moot(arguments: &Sim, input: &Input<'_>, report: &Report<'_>) -> Vec<Vec<String>> {
    let remedies = report.remedies();
    if remedies.is_empty() {
        return remedies;
    }
    let network = |set: &[String]| Some(input.read_with(arguments.seed, set)?.network);
    let as_it_is = network(&[]);
    let is_moot = |set: &Vec<String>| {
        let other = network(set);
        other.is_none() || other == as_it_is
    };
    remedies.into_iter().filter(is_moot).collect()
}

/// Tries the remedies of `report`, which is of `network`.
pub(super) fn tried(
    arguments: &Sim,
    input: &Input<'_>,
    report: &Report<'_>,
    network: &Network,
    interrupt: &Interrupt,
) -> Vec<Trial> {
    if arguments.no_trials || network.events() > EVENTS_MAX {
        return Vec::new();
    }
    let one = |set: Vec<String>| {
        let scenario = input.read_with(arguments.seed, &set)?;
        let config = NetworkConfig { threads: arguments.threads, ..scenario.network };
        let mut other = Network::new(config).ok()?;
        let bound = (network.events() + network.events() / 2).max(EVENTS_FREE);
        let mut watch = Watch::new(network.now(), interrupt);
        let verdict =
            record::run(&mut other, network.now(), None, |other| match watch.next(other) {
                Next::Run(stretch) if other.events() <= bound => Next::Run(stretch.min(STRETCH)),
                _ => Next::Stop,
            });
        watch.end();
        // What was cut off says nothing, and when it was looked at is no matter.
        let is_whole = verdict != Verdict::Interrupted && other.events() <= bound;
        is_whole.then(|| Trial { set, effect: Report::new("", &other, &verdict).effect() })
    };
    report.remedies().into_iter().filter_map(one).collect()
}
