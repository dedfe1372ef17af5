//! RDMA over Commodity Ethernet at Scale (SIGCOMM 2016).
//!
//! | file | section | claims |
//! |---|---|---|
//! | `livelock` | 4.1 | go-back-0, go-back-N |
//! | `deadlock` | 4.2, figure 4 | flooding, and its three remedies |
//! | `storm` | 4.3, figure 9 | unprotected, and two watchdogs |
//! | `slow_receiver` | 4.4 | page sizes, and how a ToR shares its buffer |
//! | `alpha` | 6.2, figure 10 | a ToR with another default |
//! | `dscp` | 3 | priority in DSCP or in a VLAN tag |
//! | `headroom` | 2 | how many lossless classes there is room for |
//! | `tail_latency` | 5.4, figure 6 | tails of RDMA and TCP |
//! | `ecmp` | 5.4, figure 7 | throughput under ECMP |
//! | `loaded_latency` | 5.4, figure 8 | latency under load |
//! | `config_monitoring` | 5.1 and 6.2 | differences between configurations, and the alpha incident in files |
//! | `probes` | 5.3 and 6.2 | what each probe of RDMA Pingmesh logs, and the two incidents in them |
//! | `counters`, `watched` | 5.2 and 6.2 | pause intervals and pause counts; the storm incident in counters |
//! | `cpu` | 1 and 5.4 | processor time of RDMA and of TCP |

mod alpha;
mod config_monitoring;
mod counters;
mod cpu;
mod deadlock;
mod dscp;
mod ecmp;
mod files;
mod headroom;
mod livelock;
mod loaded_latency;
mod pingmesh;
mod probes;
mod slow_receiver;
mod storm;
mod tail;
mod tail_latency;
mod watched;

use fabric::random::Random;
use fabric::scenario::Scenario;
use fabric::{Network, NetworkConfig, Verdict as Ended};
use rdma::{Span, Time};

use crate::claims::of_paper;
use crate::study::{self, Context, Experiment, Step};
use crate::{Error, Options, Study};

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment { claims: livelock::CLAIMS, run: livelock::run },
    Experiment { claims: deadlock::CLAIMS, run: deadlock::run },
    Experiment { claims: storm::CLAIMS, run: storm::run },
    Experiment { claims: slow_receiver::CLAIMS, run: slow_receiver::run },
    Experiment { claims: alpha::CLAIMS, run: alpha::run },
    Experiment { claims: dscp::CLAIMS, run: dscp::run },
    Experiment { claims: headroom::CLAIMS, run: headroom::run },
    Experiment { claims: tail_latency::CLAIMS, run: tail_latency::run },
    Experiment { claims: ecmp::CLAIMS, run: ecmp::run },
    Experiment { claims: loaded_latency::CLAIMS, run: loaded_latency::run },
    Experiment { claims: config_monitoring::CLAIMS, run: config_monitoring::run },
    Experiment { claims: counters::CLAIMS, run: counters::run },
    Experiment { claims: probes::CLAIMS, run: probes::run },
    Experiment { claims: cpu::CLAIMS, run: cpu::run },
];

/// What is about hosts and not about the network.
const ON_SOFT: &[Experiment] = &[Experiment { claims: cpu::CLAIMS, run: cpu::run }];

/// Runs every experiment, or those about the claim or figure `only`: the id of a claim or the
/// beginning of one ("storm", "guo16.storm.unprotected"), or a figure ("figure-7", "fig7").
/// `progress` is told what is being run.
///
/// # Errors
/// [`Error::NoSuchClaim`]; the others mean that a file of ours is not as it should be.
pub fn run(
    only: Option<&str>,
    options: Options,
    progress: &mut dyn FnMut(&Step<'_>),
) -> Result<Study, Error> {
    study::run("guo16", EXPERIMENTS, ON_SOFT, only, options, progress)
}

/// The scenarios that experiments run, or those about the claim or figure `only`: file names and texts. The
/// first lines of each say what is run with it, as commands.
///
/// # Errors
/// [`Error::NoSuchClaim`].
pub fn files(only: Option<&str>) -> Result<Vec<(String, String)>, Error> {
    let claims = of_paper("guo16").map_err(|error| Error::Claims(error.to_string()))?;
    let meant = study::some_of(&claims, only)?;
    let meant: Vec<&str> = meant.iter().map(|claim| claim.id.as_str()).collect();
    Ok(files::files(&meant))
}

/// The experiments about the claim or figure `only` that are no scenarios: what they are called, and why.
///
/// # Errors
/// [`Error::NoSuchClaim`].
pub fn without_files(only: Option<&str>) -> Result<Vec<(&'static str, &'static str)>, Error> {
    let claims = of_paper("guo16").map_err(|error| Error::Claims(error.to_string()))?;
    let meant = study::some_of(&claims, only)?;
    let meant: Vec<&str> = meant.iter().map(|claim| claim.id.as_str()).collect();
    Ok(files::without_files(&meant))
}

impl Context<'_> {
    /// A scenario of `scenarios/guo16/`, which the program carries with it.
    fn scenario(&self, name: &'static str, text: &str) -> Result<Scenario, Error> {
        self.options.scenario(name, text)
    }
}

impl Options {
    /// The same for a draw, which has options and no more.
    fn scenario(&self, name: &'static str, text: &str) -> Result<Scenario, Error> {
        Scenario::parse(text, Some(self.seed)).map_err(|error| Error::Scenario(name, error))
    }
}

/// A scenario that is part of the program, by its name in `scenarios/guo16/`.
macro_rules! scenario {
    ($context:expr, $name:literal) => {
        $context.scenario(
            concat!("guo16/", $name),
            include_str!(concat!("../../../../scenarios/guo16/", $name)),
        )
    };
}
pub(crate) use scenario;

/// Lets flows begin up to `within` later, each at a moment of its own.
fn jitter(config: &mut NetworkConfig, within: Span) {
    let mut random = Random::new(config.seed);
    for flow in &mut config.flows {
        flow.start += Span::from_ps(random.below(within.as_ps()));
    }
}

/// Runs until `until`, deadlocked or not.
fn run_through(network: &mut Network, until: Time) {
    while network.now() < until {
        let verdict = network.run(until);
        if !matches!(verdict, Ended::Deadlock(_)) {
            return;
        }
    }
}
