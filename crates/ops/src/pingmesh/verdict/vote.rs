//! By which link, switch or host the lost probes go: a vote over paths.
//!
//! Of each candidate it is asked how much likelier the losses are if probes that go by it are lost at a rate of
//! their own, than if all are lost at one rate: the logarithm of that ratio is its score. So a link that
//! carries all lost probes and few others beats a switch that carries them among many, and chance losses all over the
//! network accuse nobody.

use core::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use fabric::topology::End;

use super::super::evidence::{Brief, Evidence, Hop};
use super::super::node::Node;
use super::super::scope::Scope;
use super::join::Joined;
use super::missing::{again_and_again, missing, missing_of_link};
use super::{Cause, Culprit, Suspect};

/// Fewer losses accuse nobody, unless the ports of a link that they went by say the same.
const LOSSES_MIN: u64 = 3;
/// A score below is chance: e^5 is 1 in 150, and there are about a hundred candidates, of which
/// the best has to explain most of the losses, too.
const SCORE_MIN: f64 = 5.0;
/// The part of all losses that go by a culprit, at least.
const EXPLAINED: f64 = 0.6;
/// A pair is slow if its median is so many times the lower quartile of its scope,
const SLOW_TIMES: f32 = 3.0;
/// and so many microseconds more.
const SLOW_LONGER_US: f32 = 200.0;
/// Fewer slow pairs accuse nobody.
const SLOW_PAIRS_MIN: u64 = 3;
/// As [`SCORE_MIN`], of pairs, which are few in a rack.
const SLOW_SCORE_MIN: f64 = 3.0;
/// What loses more than this part is dead.
const DEAD: f64 = 0.9;

/// Probes that went by something, and how many of them were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Probes.
    pub sent: u64,
    /// Of them.
    pub lost: u64,
}

impl Losses {
    fn add(&mut self, sent: u64, lost: u64) {
        self.sent += sent;
        self.lost += lost;
    }

    fn likelihood(self) -> f64 {
        let (sent, lost) = (self.sent as f64, self.lost as f64);
        let rate = lost / sent.max(1.0);
        let of = |count: f64, rate: f64| if count > 0.0 { count * rate.ln() } else { 0.0 };
        of(lost, rate) + of(sent - lost, 1.0 - rate)
    }

    /// How much likelier `all` are if these have a rate of their own.
    fn score(self, all: Self) -> f64 {
        let rest = Self { sent: all.sent - self.sent, lost: all.lost - self.lost };
        let is_worse = self.lost as f64 * rest.sent as f64 > rest.lost as f64 * self.sent as f64;
        let gain = self.likelihood() + rest.likelihood() - all.likelihood();
        if is_worse { gain } else { 0.0 }
    }
}

/// What a probe may have been lost at: links of one or both directions, and switches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Candidate {
    Direction(Hop),
    Link(Node, Node),
    Switch(u32),
}

/// What was seen of every candidate. In a large network these are many, of which only the best are ever put in order.
#[derive(Debug, Default)]
struct Votes {
    all: Losses,
    by: HashMap<Candidate, Seen>,
}

/// What was seen of a candidate.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    losses: Losses,
    /// When the first was lost.
    first_ns: Option<u64>,
}

/// Which candidate explains the most, by which losses and since when.
struct Best {
    candidate: Candidate,
    losses: Losses,
    score: f64,
    since_ns: u64,
}

impl Votes {
    fn add(&mut self, paths: (&[Hop], &[Hop]), start_ns: u64, (sent, lost): (u64, u64)) {
        self.all.add(sent, lost);
        for candidate in candidates(paths.0, paths.1) {
            let seen = self.by.entry(candidate).or_default();
            seen.losses.add(sent, lost);
            if lost > 0 {
                seen.first_ns = Some(seen.first_ns.map_or(start_ns, |at| at.min(start_ns)));
            }
        }
    }

    /// The candidate that explains the most, if any explains enough. Of equals,
    /// as links that follow each other are, that of which the ports at its ends miss most.
    fn best(&self, evidence: &Evidence<'_>, least: u64, score_min: f64) -> Option<Best> {
        if self.all.lost < least {
            return None;
        }
        let score = |seen: &Seen| seen.losses.score(self.all);
        let most = self.by.values().map(score).fold(0.0, f64::max);
        let equals = self.by.iter().filter(|(_, seen)| score(seen) > most - 1e-6);
        // And then the smaller.
        let (candidate, Seen { losses, first_ns }) =
            equals.max_by_key(|(of, _)| (of.missing(evidence), Reverse(**of)))?;
        let explains = losses.lost as f64 >= EXPLAINED * self.all.lost as f64;
        (most >= score_min && explains).then_some(Best {
            candidate: *candidate,
            losses: *losses,
            score: losses.score(self.all),
            since_ns: first_ns.unwrap_or(0),
        })
    }

    /// Where too little is lost for a vote: the link by which something was lost, and whose ports miss packets again and
    /// again.
    fn by_counters(&self, evidence: &Evidence<'_>) -> Option<Best> {
        let hops = self.by.iter().filter(|(_, seen)| seen.losses.lost > 0);
        let hops = hops.filter_map(|(candidate, _)| match candidate {
            Candidate::Direction(hop) => Some(*hop),
            Candidate::Link(..) | Candidate::Switch(_) => None,
        });
        let (hop, missing) = again_and_again(evidence, hops)?;
        let candidate = Candidate::Direction(hop);
        let Seen { losses, first_ns } = *self.by.get(&candidate)?;
        Some(Best {
            candidate,
            losses,
            score: losses.score(self.all),
            since_ns: first_ns.map_or(missing.since_ns, |at| at.min(missing.since_ns)),
        })
    }
}

impl Candidate {
    /// Packets that one end has sent, and the other not received, by their counters.
    fn missing(self, evidence: &Evidence<'_>) -> u64 {
        match self {
            Self::Direction((from, to)) => missing(evidence, from, to).unwrap_or(0),
            Self::Link(a, b) => missing_of_link(evidence, a, b).unwrap_or(0),
            Self::Switch(_) => 0,
        }
    }

    fn culprit(self, evidence: &Evidence<'_>) -> (Culprit, String) {
        let name = |node: Node| evidence.topology.name(End::from(node)).to_owned();
        match self {
            Self::Direction((from, to)) => {
                (Culprit::link(from, to), format!("the link from {} to {}", name(from), name(to)))
            }
            Self::Link(a, b) => (Culprit::link(a, b), format!("the link {}-{}", name(a), name(b))),
            Self::Switch(switch) => {
                (Culprit::switch(evidence.map, switch), name(Node::Switch(switch)))
            }
        }
    }
}

/// The ways of a probe and of its answer, if they are known.
fn ways(evidence: &Evidence<'_>, pair: &Brief, label: u16) -> Option<(Vec<Hop>, Vec<Hop>)> {
    let there = evidence.paths.path(pair.host, pair.target, label)?;
    Some((there, evidence.paths.path(pair.target, pair.host, label)?))
}

/// Where probes are lost.
pub(super) fn lost(evidence: &Evidence<'_>) -> Option<Suspect> {
    let all_lost: u64 = evidence.digest.pairs.iter().map(|pair| pair.losses().1).sum();
    let is_counted = evidence.intervals.iter().any(|of| !of.ports.is_empty());
    if all_lost == 0 || all_lost < LOSSES_MIN && !is_counted {
        return None;
    }
    let mut votes = Votes::default();
    for pair in &evidence.digest.pairs {
        for (label, of) in (0..).zip(&pair.labels).filter(|(_, of)| of.sent > 0) {
            let Some((there, back)) = ways(evidence, pair, label) else { continue };
            votes.add((&there, &back), pair.start_ns, (of.sent, of.lost.min(of.sent)));
        }
    }
    let by_vote = votes.best(evidence, LOSSES_MIN, SCORE_MIN);
    let Best { candidate, losses, score, since_ns } =
        by_vote.or_else(|| votes.by_counters(evidence))?;
    let (culprit, named) = candidate.culprit(evidence);
    let rate = losses.lost as f64 / losses.sent.max(1) as f64;
    let is_dead = rate > DEAD || later(evidence, candidate, since_ns) > DEAD;
    let all = votes.all;
    let said = vec![format!(
        "{} of {} lost probes have gone by {named} ({:.2} % of the {} that did); of the others {:.3} % were lost",
        losses.lost,
        all.lost,
        rate * 100.0,
        losses.sent,
        (all.lost - losses.lost) as f64 * 100.0 / (all.sent - losses.sent).max(1) as f64
    )];
    let cause = if is_dead { Cause::Dead } else { Cause::Lossy };
    Some(Suspect { culprit, cause, score, since_ns, evidence: said, joined: Joined::default() })
}

/// The part of the probes by a candidate that was lost, in windows after the first that lost any.
fn later(evidence: &Evidence<'_>, candidate: Candidate, since_ns: u64) -> f64 {
    let mut losses = Losses::default();
    for pair in evidence.digest.pairs.iter().filter(|pair| pair.start_ns > since_ns) {
        for (label, of) in (0..).zip(&pair.labels).filter(|(_, of)| of.sent > 0) {
            let Some((there, back)) = ways(evidence, pair, label) else { continue };
            if candidates(&there, &back).contains(&candidate) {
                losses.add(of.sent, of.lost.min(of.sent));
            }
        }
    }
    losses.lost as f64 / losses.sent.max(1) as f64
}

/// Where round trips take longer than those of other pairs of the same scope and window: every pair of hosts has a vote.
pub(super) fn slow(evidence: &Evidence<'_>) -> Option<Suspect> {
    let mut usual: BTreeMap<(u64, Scope), Vec<f32>> = BTreeMap::new();
    for pair in &evidence.digest.pairs {
        usual.entry((pair.start_ns, pair.scope)).or_default().extend(pair.p50_us);
    }
    let usual: BTreeMap<(u64, Scope), f32> = usual
        .into_iter()
        .filter_map(|(key, mut all)| {
            all.sort_by(f32::total_cmp);
            // The lower quartile: more than half of the pairs may go by what is slow, in a small rack.
            Some((key, *all.get(all.len() / 4)?))
        })
        .collect();
    // Whether a pair's median is slow.
    let slow = |pair: &Brief| {
        let us = pair.p50_us?;
        let usual = usual.get(&(pair.start_ns, pair.scope))?;
        Some(us > SLOW_TIMES * usual && us > usual + SLOW_LONGER_US)
    };
    let all_slow = evidence.digest.pairs.iter().filter_map(slow).filter(|is_slow| *is_slow);
    if (all_slow.count() as u64) < SLOW_PAIRS_MIN {
        return None;
    }
    let mut votes = Votes::default();
    for pair in &evidence.digest.pairs {
        let Some(is_slow) = slow(pair) else { continue };
        let Some((there, back)) = ways(evidence, pair, 0) else { continue };
        votes.add((&there, &back), pair.start_ns, (1, u64::from(is_slow)));
    }
    let Best { candidate, losses: pairs, score, since_ns } =
        votes.best(evidence, SLOW_PAIRS_MIN, SLOW_SCORE_MIN)?;
    if (pairs.lost as f64) < EXPLAINED * pairs.sent as f64 {
        return None;
    }
    let (culprit, named) = candidate.culprit(evidence);
    let by_it = evidence.digest.pairs.iter().filter_map(|pair| {
        let (there, back) = ways(evidence, pair, 0)?;
        pair.p50_us.filter(|_| candidates(&there, &back).contains(&candidate))
    });
    let mut of: Vec<f32> = by_it.collect();
    of.sort_by(f32::total_cmp);
    let median = of.get(of.len() / 2)?;
    let mut all: Vec<f32> = usual.into_values().collect();
    all.sort_by(f32::total_cmp);
    let said = format!(
        "{} of {} slow pairs go by {named}, and {} pairs do; their median is {median:.0} us, the usual one {:.0} us",
        pairs.lost,
        votes.all.lost,
        pairs.sent,
        all.get(all.len() / 2)?
    );
    let (evidence, joined) = (vec![said], Joined::default());
    Some(Suspect { culprit, cause: Cause::Slow, score, since_ns, evidence, joined })
}

/// Each once, however often a probe goes by it.
fn candidates(there: &[Hop], back: &[Hop]) -> Vec<Candidate> {
    let mut all = Vec::with_capacity(3 * (there.len() + back.len()));
    for &(from, to) in there.iter().chain(back) {
        all.push(Candidate::Direction((from, to)));
        all.push(Candidate::Link(from.min(to), from.max(to)));
        for node in [from, to] {
            if let Node::Switch(switch) = node {
                all.push(Candidate::Switch(switch));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_of_those_that_explain_all_scores_highest() {
        let all = Losses { sent: 10_000, lost: 8 };
        let link = Losses { sent: 1_000, lost: 8 }.score(all);
        let switch = Losses { sent: 4_000, lost: 8 }.score(all);
        let half = Losses { sent: 1_000, lost: 4 }.score(all);
        assert!(link > switch && link > half && link > SCORE_MIN, "{link} {switch} {half}");
    }

    #[test]
    fn losses_all_over_accuse_nobody() {
        let all = Losses { sent: 10_000, lost: 50 };
        assert!(Losses { sent: 1_000, lost: 7 }.score(all) < SCORE_MIN);
        assert!(Losses { sent: 1_000, lost: 0 }.score(all) < 1e-9);
        assert!((Losses { sent: 10_000, lost: 50 }.score(all)).abs() < 1e-9);
    }
}
