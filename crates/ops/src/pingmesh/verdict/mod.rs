//! What is sick: a host, a NIC, a link, a switch, or nothing; and by what that is known.
//!
//! ```text
//!   windows + paths ─► losses: by which link, switch or host do the lost ones go?   (silent.rs, vote.rs, missing.rs)
//!                   ├► round trips: by which do the slow ones go?                     (vote.rs)
//!                   └► delays: which host takes its time to answer?                  (hosts.rs)
//!   counters        ─► pauses: who stops others, and is stopped by nobody?           (pauses.rs)
//!                   └► queues: which switch sorts packets otherwise than its like?   (queues.rs)
//!                                      │
//!                                      ├─ TCP probes: RDMA alone, or everything             (tcp.rs)
//!                                      ├─ counters and findings that agree, or contradict   (join.rs)
//!                                      ▼ what explains the others comes first, with its like; the rest are symptoms
//!                                   Verdict
//! ```
//!
//! No probe is believed alone, and no counter: what a path, a host or a port shows is held against the others of its
//! kind. Thresholds are ours where nothing else is said, and are in the files beside the rules that use them.

mod course;
mod hosts;
mod join;
mod losses;
mod missing;
mod pauses;
mod queues;
mod silent;
mod tcp;
mod vote;

use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::time::UNIX_EPOCH;

use fabric::topology::{End, Topology};
use serde::{Deserialize, Serialize};

use super::evidence::{Brief, Evidence};
use super::node::Node;
use super::scope::Map;
pub use join::{Joined, Reach, Support};
pub use losses::Losses;

/// A counter that is so many times the median of its like is remarkable,
const TIMES: u64 = 4;
/// from this number on. Less is what every network has.
const LEAST: u64 = 16;

/// What is sick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Culprit {
    /// Nothing.
    Nothing,
    /// The processor or the system of a host.
    Host(u32),
    /// The NIC of a host.
    Nic(u32),
    /// A link, or a port at one of its ends.
    Link(Node, Node),
    /// The switch of a rack.
    Tor(u32),
    /// A switch above the racks: a Leaf or a Spine.
    Plane(u32),
}

impl Culprit {
    /// A switch, by its tier.
    pub(super) fn switch(map: &Map, switch: u32) -> Self {
        if map.podsets.contains_key(&switch) { Self::Tor(switch) } else { Self::Plane(switch) }
    }

    /// A link, whichever end is named first.
    pub fn link(a: Node, b: Node) -> Self {
        Self::Link(a.min(b), a.max(b))
    }

    /// The hosts whose probes tell of it: its own, or those of its rack; `None` of one between switches, by which probes
    /// of any host may go.
    pub fn hosts(self, map: &Map) -> Option<BTreeSet<u32>> {
        let below = |switch: u32| {
            let of_rack = (0..).zip(&map.racks).filter(move |(_, rack)| **rack == Some(switch));
            of_rack.map(|(host, _)| host).collect::<BTreeSet<u32>>()
        };
        match self {
            Self::Host(host) | Self::Nic(host) => Some([host].into()),
            Self::Link(Node::Host(host), _) | Self::Link(_, Node::Host(host)) => {
                Some([host].into())
            }
            Self::Tor(switch) => Some(below(switch)),
            Self::Link(Node::Switch(a), Node::Switch(b)) => {
                // Of a rack's uplink: that rack.
                let both = [a, b].map(below);
                both.into_iter().find(|hosts| !hosts.is_empty())
            }
            Self::Nothing | Self::Plane(_) => None,
        }
    }

    /// Of which kind it is.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Host(_) => "host",
            Self::Nic(_) => "NIC",
            Self::Link(..) => "link",
            Self::Tor(_) => "ToR",
            Self::Plane(_) => "Leaf or Spine",
        }
    }

    /// With the names that the topology has.
    pub fn named(self, topology: &Topology) -> String {
        let name = |node: Node| topology.name(End::from(node)).to_owned();
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Host(host) => format!("host {}", name(Node::Host(host))),
            Self::Nic(host) => format!("NIC of {}", name(Node::Host(host))),
            Self::Link(a, b) => format!("link {}-{}", name(a), name(b)),
            Self::Tor(switch) => format!("ToR {}", name(Node::Switch(switch))),
            Self::Plane(switch) => format!("switch {}", name(Node::Switch(switch))),
        }
    }
}

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its NIC pauses its switch, nearly always (guo16, 4.3).
    PauseStorm,
    /// It puts packets into other queues than the switches of its kind.
    WrongClass,
    /// Its NIC pauses its switch now and then: it takes packets more slowly than they come (guo16, 4.4).
    SlowReceiver,
    /// Nothing that goes by it arrives.
    Dead,
    /// Some of what goes by it does not arrive.
    Lossy,
    /// It pauses others sooner than its like do, and nothing below pauses it: buffer thresholds (guo16, 6.2).
    EarlyPauses,
    /// Round trips by it take longer than by its like.
    Slow,
    /// It takes long to answer, and the network does not.
    Busy,
}

impl Cause {
    /// In a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::PauseStorm => "pauses without end",
            Self::WrongClass => "queues its packets otherwise than its like",
            Self::SlowReceiver => "receives more slowly than packets come",
            Self::Dead => "carries nothing",
            Self::Lossy => "loses packets",
            Self::EarlyPauses => "pauses sooner than its like",
            Self::Slow => "is slow",
            Self::Busy => "takes long to answer, and the network does not",
        }
    }

    /// The same of one that has healed.
    const fn was(self) -> &'static str {
        match self {
            Self::PauseStorm => "paused without end",
            Self::Dead => "carried nothing",
            Self::Lossy => "lost packets",
            other => other.text(),
        }
    }

    /// Whether one that is sick so may be why another is: not if probes are lost by both, as of each all that is told by
    /// the other was left out, nor if both are sick of the same.
    fn may_explain(self, other: Self) -> bool {
        self != other && !(self.loses() && other.loses())
    }

    const fn loses(self) -> bool {
        matches!(self, Self::Dead | Self::Lossy)
    }
}

/// One thing that seems wrong.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Suspect {
    /// What.
    pub culprit: Culprit,
    /// What is wrong with it.
    pub cause: Cause,
    /// Among suspects of one cause, the largest is the likeliest.
    pub score: f64,
    /// Since when, in nanoseconds of windows.
    pub since_ns: u64,
    /// Until when, if it has healed: of losses, the window in which no more came.
    #[serde(default)]
    pub until_ns: Option<u64>,
    /// By what that is known: pairs, counters. A sentence each, with names.
    pub evidence: Vec<String>,
    /// What else agrees with it or contradicts it.
    #[serde(default)]
    pub joined: Joined,
}

impl Suspect {
    /// Whether it is no symptom of what is likeliest sick.
    fn is_beside(&self, first: &Self) -> bool {
        let is_doubtful = |of: &Self| of.joined.support() == Support::Doubtful;
        (self.joined.is_apart || !first.cause.may_explain(self.cause))
            && is_doubtful(first) == is_doubtful(self)
    }

    /// What is or was wrong with it, and when.
    fn course(&self, clock: Clock) -> String {
        let since = clock(self.since_ns);
        match self.until_ns {
            Some(until) => format!("{}, from {since} to {}", self.cause.was(), clock(until)),
            None => format!("{}, since {since}", self.cause.text()),
        }
    }

    /// All that is known of it, in lines.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let Joined { agrees, contradicts, tcp, .. } = &self.joined;
        let agrees = agrees.iter().map(|line| format!("agrees: {line}"));
        let contradicts = contradicts.iter().map(|line| format!("against: {line}"));
        self.evidence.iter().cloned().chain(tcp.clone()).chain(agrees).chain(contradicts)
    }

    /// Behind what it is accused of: whether TCP is hurt too, and anything else says so, as far as that is known.
    pub fn support(&self) -> String {
        let reach = self.joined.reach.map(|reach| format!(", {reach}")).unwrap_or_default();
        match self.joined.support() {
            Support::Alone => reach,
            support => format!("{reach}, {support}"),
        }
    }
}

/// See the module.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// What is sick, the likeliest first, and behind it what may be symptoms. None: nothing is wrong.
    pub suspects: Vec<Suspect>,
    /// Probes that the verdict rests on.
    pub probes: u64,
    /// Those of them that were answered, or not in time; and the latter.
    #[serde(default)]
    pub known: (u64, u64),
    /// Probes that were lost, and went by nothing that is suspected of it.
    #[serde(default)]
    pub unexplained: u64,
}

/// More than one lost probe of so many is not healthy, whoever it is: a loss of 1 %. Ours.
const LOST_OF: u64 = 100;

impl Verdict {
    /// What is likeliest sick.
    pub fn culprit(&self) -> Culprit {
        self.suspects.first().map_or(Culprit::Nothing, |suspect| suspect.culprit)
    }

    /// With what loses packets by the verdict of a longer time, and too rarely for this one.
    pub(super) fn with_losses_of(mut self, longer: Self) -> Self {
        let is_known = |of: &Suspect| self.suspects.iter().any(|own| own.culprit == of.culprit);
        let rare = |of: &Suspect| of.cause.loses() && !is_known(of);
        let rare: Vec<Suspect> = longer.suspects.into_iter().filter(rare).collect();
        self.suspects.extend(rare);
        self.sort();
        self
    }

    /// Causes are in the order in which one explains the others; what may be explained comes last.
    fn sort(&mut self) {
        let order = |of: &Suspect| {
            let support = of.joined.support();
            (support == Support::Doubtful, of.cause, core::cmp::Reverse(support))
        };
        self.suspects.sort_by(|a, b| order(a).cmp(&order(b)).then(b.score.total_cmp(&a.score)));
        let Some(first) = self.suspects.first().cloned() else { return };
        self.suspects.sort_by_key(|of| !of.is_beside(&first));
    }

    /// What is sick: the likeliest, and those beside it that are no symptoms of it.
    pub fn sick(&self) -> &[Suspect] {
        self.told().0
    }

    /// What is sick, and what may be symptoms of that.
    fn told(&self) -> (&[Suspect], &[Suspect]) {
        let first = self.suspects.first();
        let is_beside = |of: &Suspect| first.is_some_and(|first| of.is_beside(first));
        self.suspects.split_at(self.suspects.partition_point(is_beside))
    }

    /// The hosts whose probes tell of what is sick; `None` if those of any do.
    pub fn hosts(&self, map: &Map) -> Option<BTreeSet<u32>> {
        let all: Option<Vec<_>> = self.sick().iter().map(|of| of.culprit.hosts(map)).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.into_iter().flatten().collect())
    }

    /// Whether probes are lost, and nobody is named.
    pub fn is_sick_unnamed(&self) -> bool {
        let (known, lost) = self.known;
        self.suspects.is_empty() && lost >= LEAST && lost > known / LOST_OF
    }

    /// In lines, for people, with times of a model.
    pub fn text<'a>(&'a self, topology: &'a Topology) -> impl fmt::Display + 'a {
        self.text_by(topology, of_model)
    }

    /// The same, with times as `clock` writes them.
    pub fn text_by<'a>(&'a self, topology: &'a Topology, clock: Clock) -> impl fmt::Display + 'a {
        Text { verdict: self, topology, clock }
    }
}

/// So many symptoms are told one by one: a storm stops what is well by the dozen.
const SYMPTOMS_SHOWN: usize = 3;

/// As in 0.3 and 6717.
fn micros(us: f32) -> String {
    if us < 9.95 { format!("{us:.1}") } else { format!("{us:.0}") }
}

/// How a time of windows, in nanoseconds, is written.
pub type Clock = fn(u64) -> String;

/// A time of a model, as in `40 ms`.
pub fn of_model(ns: u64) -> String {
    format!("{:.0} ms", ns as f64 / 1e6)
}

/// A time since 1970, as in `2026-11-25 04:16 UTC`.
pub fn of_wall(ns: u64) -> String {
    crate::times::text(UNIX_EPOCH + Duration::from_nanos(ns)).unwrap_or_default()
}

/// The same to the millisecond.
pub fn moment_of_wall(ns: u64) -> String {
    crate::times::to_the_ms(UNIX_EPOCH + Duration::from_nanos(ns)).unwrap_or_default()
}

/// A moment of a model, as in `40.123 ms`.
pub fn moment_of_model(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

struct Text<'a> {
    verdict: &'a Verdict,
    topology: &'a Topology,
    clock: Clock,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, topology, clock } = self;
        let (sick, others) = verdict.told();
        if sick.is_empty() {
            if verdict.probes == 0 {
                return writeln!(f, "verdict: none, without probes");
            }
            let (known, lost) = verdict.known;
            if 2 * known < verdict.probes {
                let silent = verdict.probes - known;
                return writeln!(
                    f,
                    "verdict: none: of {} probes {silent} were not sent or tell nothing, and {lost} were not answered",
                    verdict.probes
                );
            }
            if verdict.is_sick_unnamed() {
                return writeln!(
                    f,
                    "verdict: nobody can be named, though {lost} of {known} probes were not answered: no link and no \
                     switch is on their way more often than on that of the others"
                );
            }
            let unanswered = match lost {
                0 => String::new(),
                _ => format!(", of which {lost} were not answered"),
            };
            return writeln!(f, "verdict: nothing wrong, by {known} probes{unanswered}");
        }
        for one in sick {
            let (named, course) = (one.culprit.named(topology), one.course(*clock));
            writeln!(f, "verdict: {named}: {course}{}", one.support())?;
            for line in one.lines() {
                writeln!(f, "  {line}")?;
            }
        }
        for other in others.iter().take(SYMPTOMS_SHOWN) {
            let cause =
                if other.until_ns.is_some() { other.cause.was() } else { other.cause.text() };
            writeln!(f, "also seen: {}: {cause}", other.culprit.named(topology))?;
        }
        match others.len().saturating_sub(SYMPTOMS_SHOWN) {
            0 => {}
            1 => writeln!(f, "also seen: 1 more, which may follow from that as well")?,
            more => writeln!(f, "also seen: {more} more, which may follow from that as well")?,
        }
        // A storm may be why, which is accused of no losses.
        if verdict.unexplained >= LEAST && sick.iter().any(|of| of.cause.loses()) {
            writeln!(f, "{} lost probes have gone by none of these", verdict.unexplained)?;
        }
        Ok(())
    }
}

/// Comes to a verdict.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut suspects = pauses::suspects(evidence);
    suspects.extend(queues::suspects(evidence));
    let (lost, unexplained) = vote::lost(evidence);
    suspects.extend(lost);
    suspects.extend(vote::slow(evidence));
    suspects.extend(hosts::suspects(evidence));
    for suspect in &mut suspects {
        let mut joined = join::join(evidence, suspect);
        tcp::ask(evidence, suspect, &mut joined);
        suspect.joined = joined;
    }
    let losses = evidence.digest.pairs.iter().map(Brief::losses);
    let known = losses.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    let mut verdict = Verdict { suspects, probes: evidence.digest.probes, known, unexplained };
    verdict.sort();
    if let Some(first) = verdict.suspects.first() {
        let (first, cause) = ((first.culprit, first.since_ns), first.cause);
        let may_be = |of: &&mut Suspect| of.cause.loses() && cause.may_explain(of.cause);
        for of in verdict.suspects.iter_mut().filter(may_be) {
            of.joined.is_apart = vote::is_apart(evidence, of, first);
        }
        verdict.sort();
    }
    verdict
}
