//! What is tried after a run: the settings that its report names as remedies, each in a run of its own.
//!
//! A trial ends at the time of the model when the run had ended, or after as many events and half as many, so
//! that it takes about as long as the run at most. A short run, such as one that waited for timeouts, does not
//! bound it: [`EVENTS_FREE`] are taken in any case. Of a run of more than [`EVENTS_MAX`] events nothing is tried.
//! None of this is real time: the same run tries the same.

use fabric::record::{self, Next};
use fabric::report::{Effect, Report, Trial};
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

/// What became of the remedies of a report.
pub(super) struct Tried {
    /// Those that change nothing in its scenario, as what they set is so already, or cannot be set.
    pub(super) moot: Vec<Vec<String>>,
    pub(super) trials: Vec<Trial>,
}

/// Tries the remedies of `report`, which is of `network` and ended with `verdict`.
pub(super) fn tried(
    arguments: &Sim,
    input: &Input<'_>,
    report: &Report<'_>,
    (network, verdict): (&Network, &Verdict),
    interrupt: &Interrupt,
) -> Tried {
    let mut tried = Tried { moot: Vec::new(), trials: Vec::new() };
    let may_try =
        !arguments.no_trials && network.events() <= EVENTS_MAX && *verdict != Verdict::Interrupted;
    let config = |set: &[String]| Some(input.read_with(arguments.seed, set)?.network);
    let remedies = report.remedies();
    let as_it_is = if remedies.is_empty() { None } else { config(&[]) };
    for set in remedies {
        match config(&set).filter(|config| Some(config) != as_it_is.as_ref()) {
            None => tried.moot.push(set),
            Some(config) if may_try => {
                let config = NetworkConfig { threads: arguments.threads, ..config };
                let effect = effect(config, network, interrupt);
                tried.trials.extend(effect.map(|effect| Trial { set, effect }));
            }
            Some(_) => {}
        }
    }
    tried
}

/// What `config` comes to within the bounds of a trial; `None` if it does not keep them.
fn effect(config: NetworkConfig, before: &Network, interrupt: &Interrupt) -> Option<Effect> {
    let mut other = Network::new(config).ok()?;
    let bound = (before.events() + before.events() / 2).max(EVENTS_FREE);
    let mut watch = Watch::new(before.now(), interrupt);
    let verdict = record::run(&mut other, before.now(), None, |other| match watch.next(other) {
        Next::Run(stretch) if other.events() <= bound => Next::Run(stretch.min(STRETCH)),
        _ => Next::Stop,
    });
    watch.end();
    // What was cut off says nothing, and when it was looked at is no matter.
    let is_whole = verdict != Verdict::Interrupted && other.events() <= bound;
    is_whole.then(|| Report::new("", &other, &verdict).effect())
}
