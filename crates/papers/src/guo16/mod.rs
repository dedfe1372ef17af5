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
//! | `counters` | 5.2 | pause intervals and pause counts |

mod alpha;
mod counters;
mod deadlock;
mod dscp;
mod ecmp;
mod headroom;
mod livelock;
mod loaded_latency;
mod slow_receiver;
mod storm;
mod tail;
mod tail_latency;

use fabric::scenario::Scenario;
use fabric::{Network, Verdict as Ended};
use rdma::Time;

use crate::claims::{Claim, of_paper};
use crate::{Error, Options, Outcome, Study};

/// What an experiment is given.
pub(crate) struct Context<'a> {
    claims: &'a [Claim],
    options: Options,
    progress: &'a mut dyn FnMut(&str),
}

/// An experiment: the claims that it is about, and how it is run.
struct Experiment {
    claims: &'static [&'static str],
    run: fn(&mut Context<'_>) -> Result<Vec<Outcome>, Error>,
}

const EXPERIMENTS: &[Experiment] = &[
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
    Experiment { claims: counters::CLAIMS, run: counters::run },
];

/// Runs every experiment, or those about the claim or figure `only`: the id of a claim or the
/// beginning of one ("storm", "guo16.storm.unprotected"), or a figure ("figure-7", "fig7").
/// `progress` is told what is being run.
///
/// # Errors
/// [`Error::NoSuchClaim`]; the others mean that a file of ours is not as it should be.
pub fn run(
    only: Option<&str>,
    options: Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Study, Error> {
    let claims = of_paper("guo16").map_err(|error| Error::Claims(error.to_string()))?;
    let wanted = |claim: &Claim| only.is_none_or(|name| is_meant(claim, name));
    if !claims.iter().any(wanted) {
        let names = claims.iter().filter_map(|claim| claim.id.strip_prefix("guo16."));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.extend(claims.iter().flat_map(figures).map(|number| format!("figure-{number}")));
        return Err(Error::NoSuchClaim(only.unwrap_or("").to_owned(), names));
    }
    let mut context = Context { claims: &claims, options, progress };
    let mut outcomes = Vec::new();
    for experiment in EXPERIMENTS {
        let about = |claim: &Claim| experiment.claims.contains(&claim.id.as_str());
        if claims.iter().any(|claim| about(claim) && wanted(claim)) {
            outcomes.extend((experiment.run)(&mut context)?);
        }
    }
    outcomes.retain(|outcome| wanted(&outcome.claim));
    let place = |id: &str| claims.iter().position(|claim| claim.id == id);
    outcomes.sort_by_key(|outcome| place(&outcome.claim.id));
    let later = |claim: &&Claim| {
        wanted(claim) && !outcomes.iter().any(|outcome| outcome.claim.id == claim.id)
    };
    let later = claims.iter().filter(later).cloned().collect();
    Ok(Study { outcomes, later })
}

/// Whether `name` means `claim`.
fn is_meant(claim: &Claim, name: &str) -> bool {
    let name = name.strip_prefix("guo16.").unwrap_or(name);
    let id = claim.id.strip_prefix("guo16.").unwrap_or(&claim.id);
    let begins = id
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']) && !name.is_empty());
    let number = name.strip_prefix("figure-").or_else(|| name.strip_prefix("fig"));
    begins || figures(claim).any(|figure| Some(figure) == number)
}

/// The numbers of the figures that `claim` is about.
fn figures(claim: &Claim) -> impl Iterator<Item = &str> {
    claim.place.split([',', ';']).filter_map(|part| part.trim().strip_prefix("figure "))
}

impl Context<'_> {
    /// The claim `id`. Experiments name those of the file, as a test checks.
    fn claim(&self, id: &str) -> Result<Claim, Error> {
        let found = self.claims.iter().find(|claim| claim.id == id);
        found.cloned().ok_or_else(|| Error::Claims(format!("there is no claim {id}")))
    }

    /// Says what is being run.
    fn say(&mut self, text: &str) {
        (self.progress)(text);
    }

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

/// Runs until `until`, deadlocked or not.
fn run_through(network: &mut Network, until: Time) {
    while network.now() < until {
        let verdict = network.run(until);
        if !matches!(verdict, Ended::Deadlock(_)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_about_claims_that_there_are_and_no_two_about_one() {
        let claims = of_paper("guo16").unwrap();
        let mut named: Vec<&str> =
            EXPERIMENTS.iter().flat_map(|experiment| experiment.claims).copied().collect();
        assert!(named.iter().all(|id| claims.iter().any(|claim| claim.id == *id)), "{named:?}");
        let count = named.len();
        named.sort_unstable();
        named.dedup();
        assert_eq!(named.len(), count);
    }

    #[test]
    fn claims_are_meant_by_id_by_its_beginning_and_by_figure() {
        let claims = of_paper("guo16").unwrap();
        let meant = |name: &str| -> Vec<&str> {
            claims
                .iter()
                .filter(|claim| is_meant(claim, name))
                .map(|claim| &claim.id[6..])
                .collect()
        };
        assert_eq!(meant("storm").len(), 3);
        assert_eq!(meant("guo16.storm.nic-watchdog"), ["storm.nic-watchdog"]);
        assert_eq!(meant("figure-4"), ["deadlock.flooding"]);
        assert_eq!(meant("fig7"), ["fig7.ecmp-throughput"]);
        assert_eq!(meant("figure-9"), ["storm.unprotected"]);
        assert_eq!(meant("deadlock.drop"), ["deadlock.drop-incomplete-arp"]);
        assert_eq!(meant("sto"), [""; 0]);
        assert_eq!(meant(""), [""; 0]);
        let error = run(Some("nothing"), Options::default(), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("livelock.go-back-0") && error.contains(", figure-4, "), "{error}");
    }
}
