//! Probes by themselves: what a window remembers of single ones, beside its sums.
//!
//! ```text
//!   all probes of a window ─┬─ failed ─► 64, each with its error code ┐
//!                           ├─ slow ───► 16                           ├─► Window::raw
//!                           └─ others ─► 16                           ┘
//! ```
//!
//! Of each kind all are kept while they are few; of more, every one is as likely to be kept as every other. How many were
//! left out follows from the counts of the window, which have all.

use std::collections::BTreeSet;

use fabric::random::Random;
use rdma::{CompletionStatus, Span};
use serde::{Deserialize, Serialize};
use telemetry::{Cell, Table};

use super::limits::{RAW_FAILED_MAX, RAW_SAMPLED_MAX, RAW_SLOW_MAX};
use super::scope::Scope;

/// What became of a probe: its error code, if it has failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Answered.
    Answered,
    /// Answered, and slow: see [`Settings::slow`](super::probe::Settings::slow).
    Slow,
    /// It has left, and no answer came in time.
    NoAnswer,
    /// The answer came, and not in time the report of when it had left.
    NoReport,
    /// It was not posted: the NIC has refused it, or has not done with an earlier one.
    Refused,
    /// The NIC has completed it with this status (`enum ibv_wc_status`).
    Failed(u8),
    /// The NIC has not sent it in time.
    NotSent,
    /// Clocks that do not agree.
    Clocks,
    /// The prober has ended first.
    Unknown,
}

impl Outcome {
    /// Without the status of [`Outcome::Failed`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Slow => "slow",
            Self::NoAnswer => "no-answer",
            Self::NoReport => "no-report",
            Self::Refused => "refused",
            Self::Failed(_) => "failed",
            Self::NotSent => "not-sent",
            Self::Clocks => "clocks",
            Self::Unknown => "unknown",
        }
    }

    /// The status of a completion, if that is what went wrong.
    pub const fn status(self) -> Option<u8> {
        match self {
            Self::Failed(status) => Some(status),
            _ => None,
        }
    }

    /// What [`Outcome::name`] and [`Outcome::status`] have said.
    pub fn named(name: &str, status: Option<u8>) -> Option<Self> {
        let all = [
            Self::Answered,
            Self::Slow,
            Self::NoAnswer,
            Self::NoReport,
            Self::Refused,
            Self::Failed(status.unwrap_or_default()),
            Self::NotSent,
            Self::Clocks,
            Self::Unknown,
        ];
        all.into_iter().find(|of| of.name() == name && of.status() == status)
    }

    /// For people.
    pub fn text(self) -> String {
        match self {
            Self::Answered => "answered".to_owned(),
            Self::Slow => "answered, slowly".to_owned(),
            Self::NoAnswer => "no answer in time".to_owned(),
            Self::NoReport => "answered, but no report of when that left".to_owned(),
            Self::Refused => "the NIC did not take it".to_owned(),
            Self::Failed(status) => format!("the NIC failed: status {status}"),
            Self::NotSent => "the NIC has not sent it in time".to_owned(),
            Self::Clocks => "clocks do not agree".to_owned(),
            Self::Unknown => "the agent has ended first".to_owned(),
        }
    }

    /// Whether it is an answer, however late.
    pub const fn is_answer(self) -> bool {
        matches!(self, Self::Answered | Self::Slow)
    }
}

impl From<CompletionStatus> for Outcome {
    fn from(status: CompletionStatus) -> Self {
        Self::Failed(status as u8)
    }
}

/// What an answered probe has taken, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub struct Times {
    /// The network: (T5 - T2) - (T4 - T3).
    pub network_ns: u64,
    /// The target's processor: T4 - T3.
    pub responder_ns: u64,
    /// The prober's: (T6 - T1) - (T5 - T2).
    pub prober_ns: u64,
}

impl Times {
    /// From what was measured.
    pub const fn new(network: Span, responder: Span, prober: Span) -> Self {
        Self {
            network_ns: network.as_ps() / 1_000,
            responder_ns: responder.as_ps() / 1_000,
            prober_ns: prober.as_ps() / 1_000,
        }
    }
}

impl From<(u64, u64, u64)> for Times {
    fn from((network_ns, responder_ns, prober_ns): (u64, u64, u64)) -> Self {
        Self { network_ns, responder_ns, prober_ns }
    }
}

impl From<Times> for (u64, u64, u64) {
    fn from(times: Times) -> Self {
        (times.network_ns, times.responder_ns, times.prober_ns)
    }
}

/// As it is written: there are many of them.
type Row = (u32, Scope, u16, u64, Outcome, Option<Times>);

/// A probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct Raw {
    /// Whom it was sent to, by index in the topology.
    pub target: u32,
    /// How far away that is.
    pub scope: Scope,
    /// The number of the flow label that it carried.
    pub label: u16,
    /// When it was posted, in nanoseconds: since 1970, or of the model.
    pub posted_ns: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// Of one that was answered.
    pub times: Option<Times>,
}

impl From<Row> for Raw {
    fn from((target, scope, label, posted_ns, outcome, times): Row) -> Self {
        Self { target, scope, label, posted_ns, outcome, times }
    }
}

impl From<Raw> for Row {
    fn from(raw: Raw) -> Self {
        let Raw { target, scope, label, posted_ns, outcome, times } = raw;
        (target, scope, label, posted_ns, outcome, times)
    }
}

/// A probe, and the host that sent it.
pub type Sent = (u32, Raw);

/// The last of some that failed or were slow, from or to one of some hosts, or any: the newest first, and no more than
/// `most`.
pub fn last(
    probes: impl Iterator<Item = Sent>,
    hosts: Option<&BTreeSet<u32>>,
    most: usize,
) -> Vec<Sent> {
    let mut last: Vec<Sent> = probes.filter(|sent| is_told(sent, hosts)).collect();
    last.sort_by_key(|(host, probe)| (core::cmp::Reverse(probe.posted_ns), *host));
    last.truncate(most);
    last
}

/// Whether a probe has failed or was slow, and is from or to one of some hosts, or any.
pub fn is_told((host, probe): &Sent, hosts: Option<&BTreeSet<u32>>) -> bool {
    let is_of = |hosts: &BTreeSet<u32>| hosts.contains(host) || hosts.contains(&probe.target);
    probe.outcome != Outcome::Answered && hosts.is_none_or(is_of)
}

/// What is drawn of one kind.
#[derive(Clone, Debug, Default)]
struct Drawn {
    seen: u64,
    kept: Vec<Raw>,
}

/// Draws the probes of a window that are remembered.
#[derive(Clone, Debug)]
pub struct Draw {
    random: Random,
    failed: Drawn,
    slow: Drawn,
    others: Drawn,
}

impl Draw {
    /// The window of a host that begins then: what is drawn follows from these and from the probes.
    pub fn new(host: u32, start_ns: u64) -> Self {
        let random = Random::new(u64::from(host).rotate_left(32) ^ start_ns);
        let (failed, slow, others) = Default::default();
        Self { random, failed, slow, others }
    }

    /// One more probe.
    pub fn put(&mut self, probe: Raw) {
        let (of, most) = match probe.outcome {
            Outcome::Answered => (&mut self.others, RAW_SAMPLED_MAX),
            Outcome::Slow => (&mut self.slow, RAW_SLOW_MAX),
            _ => (&mut self.failed, RAW_FAILED_MAX),
        };
        of.seen += 1;
        if of.kept.len() < most {
            of.kept.push(probe);
            return;
        }
        // Algorithm R: whatever number the last one has, each has had the same chance.
        let place = self.random.below(of.seen) as usize;
        if let Some(kept) = of.kept.get_mut(place) {
            *kept = probe;
        }
    }

    /// Those that were drawn, the oldest first.
    pub fn end(self) -> Vec<Raw> {
        let Self { failed, slow, others, .. } = self;
        let mut all = [failed.kept, slow.kept, others.kept].concat();
        all.sort_by_key(|probe| probe.posted_ns);
        all
    }
}

/// Probes as a table, under the names of hosts.
pub fn table<'a>(probes: impl IntoIterator<Item = Sent>, name: impl Fn(u32) -> &'a str) -> Table {
    let mut table = Table::new("probes")
        .integers("posted", "ns")
        .texts("from")
        .texts("to")
        .texts("scope")
        .integers("label", "")
        .texts("outcome")
        .integers("status", "")
        .floats("network", "us")
        .floats("responder", "us")
        .floats("prober", "us");
    for (host, probe) in probes {
        let Raw { target, scope, label, posted_ns, outcome, times } = probe;
        let us = |of: fn(Times) -> u64| {
            times.map_or(Cell::Missing, |times| Cell::Float(of(times) as f64 / 1e3))
        };
        table.push([
            posted_ns.into(),
            Cell::Text(name(host)),
            Cell::Text(name(target)),
            scope.name().into(),
            u64::from(label).into(),
            outcome.name().into(),
            outcome.status().map_or(Cell::Missing, |status| Cell::Integer(status.into())),
            us(|times| times.network_ns),
            us(|times| times.responder_ns),
            us(|times| times.prober_ns),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(posted_ns: u64, outcome: Outcome) -> Raw {
        let times = outcome.is_answer().then_some(Times::from((1, 2, 3)));
        Raw { target: 7, scope: Scope::Dc, label: 5, posted_ns, outcome, times }
    }

    #[test]
    fn few_are_all_kept_and_of_many_each_has_the_same_chance() {
        let mut draw = Draw::new(1, 0);
        for at in [5, 3, 4] {
            draw.put(probe(at, Outcome::NoAnswer));
        }
        let kept: Vec<u64> = draw.end().iter().map(|probe| probe.posted_ns).collect();
        assert_eq!(kept, [3, 4, 5]);
        // Ten times as many of each kind as there is room for, in a thousand windows.
        let mut halves = [0_u32; 2];
        for window in 0..1_000 {
            let mut draw = Draw::new(1, window);
            let many = 10 * RAW_FAILED_MAX as u64;
            for at in 0..many {
                for outcome in [Outcome::NotSent, Outcome::Slow, Outcome::Answered] {
                    draw.put(probe(at, outcome));
                }
            }
            let kept = draw.end();
            assert_eq!(kept.len(), RAW_FAILED_MAX + RAW_SLOW_MAX + RAW_SAMPLED_MAX);
            for probe in kept.iter().filter(|probe| probe.outcome == Outcome::NotSent) {
                halves[usize::from(probe.posted_ns >= many / 2)] += 1;
            }
        }
        // Of 64,000 draws, half of which are due to each half: ten standard deviations.
        assert!(halves.iter().all(|half| half.abs_diff(32_000) < 1_265), "{halves:?}");
    }

    #[test]
    fn a_probe_is_written_as_a_short_row_and_read_again() {
        let all = [
            probe(9, Outcome::Answered),
            probe(9, CompletionStatus::RetryExceeded.into()),
            probe(9, Outcome::NoReport),
        ];
        let text = serde_json::to_string(&all).unwrap();
        let expected = r#"[[7,"dc",5,9,"answered",[1,2,3]],[7,"dc",5,9,{"failed":12},null],[7,"dc",5,9,"no-report",null]]"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Vec<Raw>>(&text).unwrap(), all);
        for Raw { outcome, .. } in all {
            assert_eq!(Outcome::named(outcome.name(), outcome.status()), Some(outcome));
        }
        assert_eq!(Outcome::named("answered", Some(3)), None);
        assert_eq!(Outcome::named("lost", None), None);
    }
}
