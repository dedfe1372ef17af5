//! By which link, switch or host the lost probes go: a vote over paths.
//!
//! Of each candidate it is asked how much likelier the losses are if probes that go by it are lost at a rate of
//! their own, than if all are lost at one rate: the logarithm of that ratio is its score. So a link that
//! carries all lost probes and few others beats a switch that carries them among many, and chance losses all over the
//! network accuse nobody.
//!
//! In a large network several things are sick at once. Once one is found, the probes that go by it have said what they
//! know, and the others vote anew.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use fabric::topology::End;

use super::super::evidence::{Brief, Evidence, Hop, Interval};
use super::super::node::Node;
use super::super::scope::Scope;
use super::course::Course;
use super::join::Joined;
use super::losses::{LOSSES_MIN, Losses};
use super::missing::{again_and_again, missing, missing_of_link};
use super::{Cause, Culprit, LEAST, Suspect, micros, silent};

/// What is no chance.
#[derive(Clone, Copy, Debug)]
struct Chance {
    /// Fewer losses accuse nobody, unless the ports of a link that they went by say the same.
    losses: u64,
    /// The score of a candidate that explains most of the losses, at least.
    most: f64,
    /// The same of one that explains fewer; and the logarithm of the number of candidates, as one of them is always the best.
    fewer: f64,
}

/// e^5 is 1 in 150, and there are about a hundred candidates.
const LOSSES: Chance = Chance { losses: LOSSES_MIN, most: 5.0, fewer: 5.0 };
/// Of pairs, which are few in a rack, and slow by load as well.
const SLOW_PAIRS: Chance = Chance { losses: 3, most: 3.0, fewer: 10.0 };
/// Most of the losses are this part.
const EXPLAINED: f64 = 0.6;
/// If links of a switch are sick and not the switch, what goes by none of them loses no more than this part of what they do,
const REST: f64 = 0.1;
/// where of so many probes so many would be lost that it shows: none of five is 1 in 150.
const REST_MIN: f64 = 5.0;
/// Who is sick beside so many is not looked for.
const CULPRITS_MAX: usize = 8;
/// More than this part of all probes of a window is lost: not by chance, nor by some of many links.
const OUTSTANDING: f64 = 0.5;
/// A pair is slow if its median is so many times the lower quartile of its scope,
const SLOW_TIMES: f32 = 3.0;
/// and so many microseconds more.
const SLOW_LONGER_US: f32 = 200.0;
/// A port that is paused for more than this part of the time holds up probes for long.
const STOPPED: f64 = 0.1;

/// What a probe may have been lost at: links of one or both directions, and switches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Candidate {
    Direction(Hop),
    Link(Node, Node),
    Switch(u32),
}

/// Probes of one pair that go one way, and how many of them were lost.
struct Flow {
    /// When their window began, in nanoseconds.
    start_ns: u64,
    losses: Losses,
    /// What they may have been lost at, in order.
    candidates: Vec<Candidate>,
}

impl Flow {
    /// `None` if nobody knows which way they go.
    fn of(evidence: &Evidence<'_>, pair: &Brief, label: u16, losses: Losses) -> Option<Self> {
        let there = evidence.paths.path(pair.host, pair.target, label)?;
        let back = evidence.paths.path(pair.target, pair.host, label)?;
        Some(Self { start_ns: pair.start_ns, losses, candidates: candidates(&there, &back) })
    }

    /// With nothing but the links of a switch.
    fn at(mut self, switch: Candidate) -> Self {
        let Candidate::Switch(switch) = switch else { return self };
        self.candidates.retain(|of| match *of {
            Candidate::Direction((a, b)) | Candidate::Link(a, b) => {
                [a, b].contains(&Node::Switch(switch))
            }
            Candidate::Switch(_) => false,
        });
        self
    }

    fn in_time(self) -> (u64, Losses) {
        (self.start_ns, self.losses)
    }

    fn goes_by(&self, candidate: &Candidate) -> bool {
        self.candidates.binary_search(candidate).is_ok()
    }
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

impl Seen {
    fn add(&mut self, start_ns: u64, losses: Losses) {
        self.losses.add(losses);
        if losses.lost > 0 {
            self.first_ns = Some(self.first_ns.map_or(start_ns, |at| at.min(start_ns)));
        }
    }
}

/// Which candidate explains the most, by which losses and since when.
struct Best {
    candidate: Candidate,
    losses: Losses,
    score: f64,
    since_ns: u64,
}

impl Best {
    fn of(candidate: Candidate, Seen { losses, first_ns }: Seen, all: Losses) -> Self {
        Self { candidate, losses, score: losses.score(all), since_ns: first_ns.unwrap_or(0) }
    }
}

impl Votes {
    fn of(flows: impl Iterator<Item = Flow>) -> Self {
        let mut votes = Self::default();
        for Flow { start_ns, losses, candidates } in flows {
            votes.all.add(losses);
            for candidate in candidates {
                votes.by.entry(candidate).or_default().add(start_ns, losses);
            }
        }
        votes
    }

    /// The candidate that explains the most, if any explains enough: `most` of the losses, or so much that it is no
    /// chance. Of equals, as links that follow each other are, that of which the ports at its ends miss most.
    fn best(&self, evidence: &Evidence<'_>, chance: Chance, most: bool) -> Option<Best> {
        if self.all.lost < chance.losses {
            return None;
        }
        let score = |seen: &Seen| seen.losses.score(self.all);
        let highest = self.by.values().map(score).fold(0.0, f64::max);
        let equals = self.by.iter().filter(|(_, seen)| score(seen) > highest - 1e-6);
        let equals: Vec<(&Candidate, &Seen)> = equals.collect();
        let missing = |of: Candidate| of.missing(evidence);
        // A switch of which two links miss packets, and all that goes by one goes by the other.
        let is_between = |of: &Candidate| match *of {
            Candidate::Switch(switch) => {
                let own = |link: &Candidate| match *link {
                    Candidate::Link(a, b) => [a, b].contains(&Node::Switch(switch)),
                    Candidate::Direction(_) | Candidate::Switch(_) => false,
                };
                let own = equals.iter().filter(|(link, _)| own(link) && missing(**link) >= LEAST);
                own.count() > 1
            }
            Candidate::Direction(_) | Candidate::Link(..) => false,
        };
        // And then the smaller.
        let (candidate, seen) =
            *equals.iter().max_by_key(|(of, _)| (is_between(of), missing(**of), Reverse(**of)))?;
        let explains = most && seen.losses.lost as f64 >= EXPLAINED * self.all.lost as f64;
        let min = if explains { chance.most } else { chance.fewer + (self.by.len() as f64).ln() };
        (highest >= min).then(|| self.told(*candidate, *seen))
    }

    fn told(&self, candidate: Candidate, seen: Seen) -> Best {
        Best::of(candidate, seen, self.all)
    }

    /// The switch by which all probes go, so that there are no others to hold them against, if it is the only such thing.
    fn common(&self) -> Option<Best> {
        let mut by_all = self.by.iter().filter(|(_, seen)| seen.losses.sent == self.all.sent);
        match (by_all.next(), by_all.next()) {
            (Some((of @ Candidate::Switch(_), seen)), None) => Some(self.told(*of, *seen)),
            _ => None,
        }
    }

    /// The link that loses the largest part of what goes by it, of these flows, once it has begun to lose any: one whose
    /// peers are dead loses what goes to them, one that is dead loses all.
    fn worst(&self, evidence: &Evidence<'_>, flows: impl Iterator<Item = Flow>) -> Option<Best> {
        let mut behind: HashMap<Candidate, Losses> = HashMap::new();
        for Flow { start_ns, losses, candidates } in flows {
            for of in candidates {
                let first_ns = self.by.get(&of).and_then(|seen| seen.first_ns);
                if first_ns.is_some_and(|first_ns| first_ns < start_ns) {
                    behind.entry(of).or_default().add(losses);
                }
            }
        }
        let rate = |of: &Candidate, seen: &Seen| match behind.get(of) {
            Some(behind) if behind.lost > 0 => behind.rate(),
            _ => seen.losses.rate(),
        };
        let lossy = self.by.iter().filter(|(_, seen)| seen.losses.lost >= LOSSES.losses);
        let order = |(of, seen): &(&Candidate, &Seen)| {
            (seen.losses.lost, of.missing(evidence), Reverse(**of))
        };
        let (candidate, seen) = lossy.max_by(|a, b| {
            let rates = rate(a.0, a.1).total_cmp(&rate(b.0, b.1));
            rates.then_with(|| order(a).cmp(&order(b)))
        })?;
        Some(self.told(*candidate, *seen))
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
        let seen = *self.by.get(&candidate)?;
        let since_ns = seen.first_ns.map_or(missing.since_ns, |at| at.min(missing.since_ns));
        Some(Best { since_ns, ..self.told(candidate, seen) })
    }
}

impl Candidate {
    fn of(evidence: &Evidence<'_>, culprit: Culprit) -> Option<Self> {
        match culprit {
            Culprit::Nothing => None,
            Culprit::Host(host) | Culprit::Nic(host) => {
                let rack = Node::Switch(evidence.map.rack_of(host)?);
                Some(Self::Direction((Node::Host(host), rack)).whole())
            }
            Culprit::Link(a, b) => Some(Self::Link(a, b)),
            Culprit::Tor(switch) | Culprit::Plane(switch) => Some(Self::Switch(switch)),
        }
    }

    /// Both directions of a link.
    fn whole(self) -> Self {
        match self {
            Self::Direction((from, to)) => Self::Link(from.min(to), from.max(to)),
            Self::Link(..) | Self::Switch(_) => self,
        }
    }

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

/// Who explains the losses of some flows, one after the other, each with all that was lost where he was looked for.
fn culprits<F: Iterator<Item = Flow>>(
    evidence: &Evidence<'_>,
    chance: Chance,
    flows: impl Fn() -> F,
) -> Vec<(Best, Losses)> {
    let mut found: Vec<(Best, Losses)> = Vec::new();
    while found.len() < CULPRITS_MAX {
        let votes = Votes::of(flows().filter(|flow| is_open(flow, &found)));
        let Some(best) = votes.best(evidence, chance, found.is_empty()) else { break };
        let switch = best.candidate;
        let is_of_it = |flow: &Flow| flow.goes_by(&switch) && is_open(flow, &found);
        let links = match switch {
            Candidate::Switch(_) => links_of(evidence, switch, || flows().filter(is_of_it)),
            Candidate::Direction(_) | Candidate::Link(..) => Vec::new(),
        };
        match links.is_empty() {
            true => found.push((best, votes.all)),
            false => found.extend(links),
        }
    }
    found.truncate(CULPRITS_MAX);
    found
}

/// Whether a flow goes by none of those that were found.
fn is_open(flow: &Flow, found: &[(Best, Losses)]) -> bool {
    !found.iter().any(|(best, _)| flow.goes_by(&best.candidate.whole()))
}

/// Two links and more that are why flows by a switch are lost: those that lose the largest parts, one after the other, if
/// what goes by the switch and none of them is not lost.
fn links_of<F: Iterator<Item = Flow>>(
    evidence: &Evidence<'_>,
    switch: Candidate,
    flows: impl Fn() -> F,
) -> Vec<(Best, Losses)> {
    let mut found: Vec<(Best, Losses)> = Vec::new();
    let mut theirs = Losses::default();
    loop {
        let open = || {
            let open = flows().filter(|flow| is_open(flow, &found));
            open.map(|flow| flow.at(switch))
        };
        let votes = Votes::of(open());
        let usual = theirs.rate() * votes.all.sent as f64;
        if found.len() > 1 && usual >= REST_MIN && votes.all.lost as f64 <= REST * usual {
            return found;
        }
        let worst = votes.worst(evidence, open());
        match worst {
            Some(best) if found.len() < CULPRITS_MAX => {
                theirs.add(best.losses);
                found.push((best, votes.all));
            }
            _ => return Vec::new(),
        }
    }
}

/// Where probes are lost, and how many were lost elsewhere.
pub(super) fn lost(evidence: &Evidence<'_>) -> (Vec<Suspect>, u64) {
    let all_lost: u64 = evidence.digest.pairs.iter().map(|pair| pair.losses().1).sum();
    let is_counted = evidence.intervals.iter().any(|of| !of.ports.is_empty());
    if all_lost == 0 || all_lost < LOSSES.losses && !is_counted {
        return (Vec::new(), all_lost);
    }
    let flows = || flows(evidence);
    let mut found = of_silent(evidence, flows);
    let others = || flows().filter(|flow| is_open(flow, &found));
    let others = culprits(evidence, LOSSES, others);
    found.extend(others);
    let rest = Votes::of(flows().filter(|flow| is_open(flow, &found)));
    let common = || rest.common().filter(|_| found.is_empty() && stands_out(flows()));
    if let Some(best) = rest.by_counters(evidence).or_else(common) {
        found.push((best, rest.all));
    }
    let explained: u64 = found.iter().map(|(best, _)| best.losses.lost).sum();
    let total = flows().fold(Losses::default(), |sum, flow| sum.and(flow.losses));
    let places: Vec<Candidate> = found.iter().map(|(best, _)| best.candidate).collect();
    let suspect = |(number, (best, _)): (usize, (Best, Losses))| {
        let Best { candidate, losses, score, since_ns } = best;
        let (culprit, named) = candidate.culprit(evidence);
        // What goes by another as well tells of that one.
        let others = || places.iter().enumerate().filter(|(other, _)| *other != number);
        let by_it = || flows().filter(|flow| flow.goes_by(&candidate));
        let is_own = |flow: &Flow| !others().any(|(_, of)| flow.goes_by(&of.whole()));
        let own = Course::of(by_it().filter(is_own).map(Flow::in_time));
        let course = if own.is_lossy { own } else { Course::of(by_it().map(Flow::in_time)) };
        let counted = if places.len() > 1 { ", if each is counted once" } else { "" };
        let others = Losses { sent: total.sent - losses.sent, lost: total.lost - losses.lost };
        let others = match others.sent {
            0 => "there are no others".to_owned(),
            _ => format!("of all others {:.3} % were lost", others.rate() * 100.0),
        };
        let said = format!(
            "{} of {all_lost} lost probes have gone by {named}{counted} ({:.2} % of the {} that did); {others}",
            losses.lost,
            losses.rate() * 100.0,
            losses.sent,
        );
        Suspect {
            culprit,
            cause: if course.dead_since.is_some() { Cause::Dead } else { Cause::Lossy },
            score,
            since_ns: course.dead_since.unwrap_or(since_ns),
            until_ns: course.until,
            evidence: vec![said],
            joined: Joined::default(),
        }
    };
    (found.into_iter().enumerate().map(suspect).collect(), all_lost.saturating_sub(explained))
}

/// Whether there is a window in which most is lost: no chance, and nothing that some of many links could do.
fn stands_out(flows: impl Iterator<Item = Flow>) -> bool {
    let mut windows: BTreeMap<u64, Losses> = BTreeMap::new();
    flows.for_each(|flow| windows.entry(flow.start_ns).or_default().add(flow.losses));
    windows.values().any(|of| of.lost >= LOSSES.losses && of.rate() > OUTSTANDING)
}

/// Hosts that are silent, and what is lost by them.
fn of_silent<F: Iterator<Item = Flow>>(
    evidence: &Evidence<'_>,
    flows: impl Fn() -> F,
) -> Vec<(Best, Losses)> {
    let mut found: Vec<(Best, Losses)> = Vec::new();
    for culprit in silent::culprits(evidence) {
        let Some(place) = Candidate::of(evidence, culprit) else { continue };
        let (mut seen, mut all) = (Seen::default(), Losses::default());
        for flow in flows().filter(|flow| is_open(flow, &found)) {
            all.add(flow.losses);
            if flow.goes_by(&place) {
                seen.add(flow.start_ns, flow.losses);
            }
        }
        if seen.losses.lost > 0 {
            found.push((Best::of(place, seen, all), all));
        }
    }
    found
}

/// Whether most of the probes that were lost by a suspect have met neither another one that was sick by then, nor a port
/// that was stopped at that time: of such losses the other is not why.
pub(super) fn is_apart(evidence: &Evidence<'_>, suspect: &Suspect, other: (Culprit, u64)) -> bool {
    let candidate = |of| Candidate::of(evidence, of);
    let (Some(own), Some(first)) = (candidate(suspect.culprit), candidate(other.0)) else {
        return false;
    };
    let stopped: Vec<_> = evidence.intervals.iter().map(|of| (of, stopped(evidence, of))).collect();
    let meets = |flow: &Flow| {
        let is_then = |of: &Interval| (of.start_ns..of.end_ns).contains(&flow.start_ns);
        let then: Vec<_> = stopped.iter().filter(|(of, _)| is_then(of)).collect();
        let is_stopped = |of: &Candidate| match of {
            Candidate::Direction(hop) => then.iter().any(|(_, hops)| hops.contains(hop)),
            Candidate::Link(..) | Candidate::Switch(_) => false,
        };
        flow.start_ns >= other.1 && flow.goes_by(&first) || flow.candidates.iter().any(is_stopped)
    };
    let (mut lost, mut met) = (0, 0);
    let by_it = |flow: &Flow| flow.start_ns >= suspect.since_ns && flow.goes_by(&own);
    for flow in flows(evidence).filter(by_it) {
        lost += flow.losses.lost;
        met += if meets(&flow) { flow.losses.lost } else { 0 };
    }
    2 * met < lost
}

/// Ports that were stopped for a part of an interval that matters.
fn stopped(evidence: &Evidence<'_>, interval: &Interval) -> BTreeSet<Hop> {
    let ports = interval
        .ports
        .iter()
        .map(|(&(switch, to), port)| ((Node::Switch(switch), to), port.paused_us));
    let hosts = interval.hosts.iter().filter_map(|(&host, counted)| {
        let rack = evidence.map.rack_of(host)?;
        Some(((Node::Host(host), Node::Switch(rack)), counted.paused_us?))
    });
    let least = STOPPED * interval.length_us() as f64;
    ports.chain(hosts).filter(|(_, us)| *us as f64 > least).map(|(hop, _)| hop).collect()
}

/// All probes, by their ways.
fn flows(evidence: &Evidence<'_>) -> impl Iterator<Item = Flow> {
    evidence.digest.pairs.iter().flat_map(|pair| {
        (0..).zip(&pair.labels).filter(|(_, of)| of.sent > 0).filter_map(|(label, of)| {
            let losses = Losses { sent: of.sent, lost: of.lost.min(of.sent) };
            Flow::of(evidence, pair, label, losses)
        })
    })
}

/// Where round trips take longer than those of other pairs of the same scope and window: every pair of hosts has a vote.
pub(super) fn slow(evidence: &Evidence<'_>) -> Vec<Suspect> {
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
    if (all_slow.count() as u64) < SLOW_PAIRS.losses {
        return Vec::new();
    }
    let flow = |pair: &Brief, lost: u64| Flow::of(evidence, pair, 0, Losses { sent: 1, lost });
    let flows =
        || evidence.digest.pairs.iter().filter_map(|pair| flow(pair, u64::from(slow(pair)?)));
    let mut all: Vec<f32> = usual.values().copied().collect();
    all.sort_by(f32::total_cmp);
    let usual_us = all.get(all.len() / 2).copied().unwrap_or(0.0);
    let suspect = |(best, all): (Best, Losses)| {
        let Best { candidate, losses: pairs, score, since_ns } = best;
        if (pairs.lost as f64) < EXPLAINED * pairs.sent as f64 {
            return None;
        }
        let (culprit, named) = candidate.culprit(evidence);
        let by_it = evidence.digest.pairs.iter().filter_map(|pair| {
            pair.p50_us.filter(|_| flow(pair, 0).is_some_and(|flow| flow.goes_by(&candidate)))
        });
        let mut of: Vec<f32> = by_it.collect();
        of.sort_by(f32::total_cmp);
        let median = of.get(of.len() / 2)?;
        let said = format!(
            "{} of {} slow pairs go by {named}, and {} pairs do; their median is {} us, the usual one {} us",
            pairs.lost,
            all.lost,
            pairs.sent,
            micros(*median),
            micros(usual_us)
        );
        let (evidence, joined) = (vec![said], Joined::default());
        let (cause, until_ns) = (Cause::Slow, None);
        Some(Suspect { culprit, cause, score, since_ns, until_ns, evidence, joined })
    };
    let found = culprits(evidence, SLOW_PAIRS, flows);
    found.into_iter().filter_map(suspect).collect()
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
    use fabric::topology::{Cables, single_switch};
    use rdma::Rate;
    use smallvec::smallvec;

    use super::super::super::configured::Configuration;
    use super::super::super::evidence::{Digest, EndsOnly};
    use super::super::super::scope::Map;
    use super::super::super::window::OfLabel;
    use super::*;

    #[test]
    fn the_narrowest_of_those_that_explain_all_scores_highest() {
        let all = Losses { sent: 10_000, lost: 8 };
        let link = Losses { sent: 1_000, lost: 8 }.score(all);
        let switch = Losses { sent: 4_000, lost: 8 }.score(all);
        let half = Losses { sent: 1_000, lost: 4 }.score(all);
        assert!(link > switch && link > half && link > LOSSES.most, "{link} {switch} {half}");
    }

    #[test]
    fn who_explains_less_than_most_must_be_no_chance() {
        judged(
            |_, _| 0,
            Interval::default(),
            |evidence| {
                let link = |host| Candidate::Link(Node::Host(host), Node::Switch(0));
                // Of 64 links each carries 1,000 probes.
                let found = |lost: &[(u32, u64)]| {
                    let flows = || {
                        (0..64).map(|host| {
                            let of = lost.iter().find(|(of, _)| *of == host);
                            let losses = Losses { sent: 1_000, lost: of.map_or(0, |of| of.1) };
                            Flow { start_ns: 0, losses, candidates: vec![link(host)] }
                        })
                    };
                    let found = culprits(evidence, LOSSES, flows);
                    found.iter().map(|(best, all)| (best.candidate, all.lost)).collect::<Vec<_>>()
                };
                // The rest has no more than the rest has lost.
                assert_eq!(
                    found(&[(3, 900), (9, 300), (5, 2)]),
                    [(link(3), 1_202), (link(9), 302)]
                );
                // A third each.
                let all = [(1, 40), (2, 40), (3, 40)];
                assert_eq!(found(&all), [(link(1), 120), (link(2), 80), (link(3), 40)]);
                // The most of chance losses are more than most would expect of it, and no more than of the most of 64.
                let chance: Vec<(u32, u64)> =
                    (0..64).map(|host| (host, 5 + u64::from(host % 7))).collect();
                assert_eq!(found(&chance), []);
                // A switch of which two links of four are dead is not what is sick; one that loses by all of them is.
                let by_switch = |rates: [u64; 4]| {
                    let flows = || {
                        (0..64).map(|number: u32| {
                            let own = rates.get(number as usize);
                            let losses = Losses { sent: 1_000, lost: own.copied().unwrap_or(0) };
                            let switch = Candidate::Switch(number / 4);
                            Flow { start_ns: 0, losses, candidates: vec![link(number), switch] }
                        })
                    };
                    let found = culprits(evidence, LOSSES, flows);
                    found.iter().map(|(best, _)| best.candidate).collect::<Vec<_>>()
                };
                assert_eq!(by_switch([0, 1_000, 1_000, 0]), [link(1), link(2)]);
                assert_eq!(by_switch([1_000, 1_000, 1_000, 0]), [link(0), link(1), link(2)]);
                assert_eq!(by_switch([100, 110, 90, 100]), [Candidate::Switch(0)]);
                // Too little is lost to tell.
                assert_eq!(by_switch([4, 4, 4, 1]), [Candidate::Switch(0)]);
                // More than eight are not looked for.
                let many: Vec<(u32, u64)> = (0..20).map(|host| (host, 500)).collect();
                assert_eq!(found(&many).len(), CULPRITS_MAX);
            },
        );
    }

    /// Hosts at one switch, probes between them, and counters of the ports.
    fn judged<T>(
        lost: impl Fn(u32, u32) -> u64,
        interval: Interval,
        ask: impl FnOnce(&Evidence<'_>) -> T,
    ) -> T {
        let topology = single_switch(6, Cables::new(Rate::from_gbps(40), 2));
        let map = Map::of(&topology);
        let pairs = (0..6).flat_map(|host| (0..6).map(move |target| (host, target)));
        let brief = |(host, target)| Brief {
            start_ns: 0,
            host,
            target,
            scope: Scope::Tor,
            labels: smallvec![OfLabel { sent: 100, lost: lost(host, target), slow: 0 }],
            p50_us: None,
            p99_us: None,
        };
        let pairs = pairs.filter(|(host, target)| host != target).map(brief).collect();
        ask(&Evidence {
            topology: &topology,
            map: &map,
            digest: &Digest { pairs, ..Digest::default() },
            paths: &EndsOnly(&map),
            intervals: &[interval],
            configuration: &Configuration::default(),
        })
    }

    #[test]
    fn what_is_lost_apart_from_a_storm_is_not_lost_by_it() {
        let dead = |host, target| if host == 1 || target == 1 { 100 } else { 0 };
        let suspect = Suspect {
            culprit: Culprit::link(Node::Host(1), Node::Switch(0)),
            cause: Cause::Dead,
            score: 1.0,
            since_ns: 0,
            until_ns: None,
            evidence: Vec::new(),
            joined: Joined::default(),
        };
        let paused = |hosts: &[u32]| {
            let mut interval = Interval { end_ns: 1_000_000_000, ..Interval::default() };
            for host in hosts {
                let port = interval.ports.entry((0, Node::Host(*host))).or_default();
                port.paused_us = 900_000;
            }
            interval
        };
        let is_apart = |interval, began| {
            judged(dead, interval, |evidence| {
                is_apart(evidence, &suspect, (Culprit::Nic(2), began))
            })
        };
        assert!(is_apart(paused(&[2]), 0));
        // Its own port is stopped, or those of most that it probes.
        assert!(!is_apart(paused(&[2, 1]), 0));
        let most = paused(&[2, 3, 4, 5]);
        assert!(!is_apart(most.clone(), 0));
        // All of them only after it was lost.
        let (start_ns, end_ns) = (1_000_000_000, 2_000_000_000);
        assert!(is_apart(Interval { start_ns, end_ns, ..most }, start_ns));
    }

    #[test]
    fn a_switch_of_two_links_that_both_miss_packets_is_what_is_dead() {
        let [above, spine, below] = [7, 8, 9].map(Node::Switch);
        let found = |lost: [u64; 2]| {
            let mut interval = Interval { end_ns: 1_000_000_000, ..Interval::default() };
            for ((from, to), lost) in [(7, 8), (8, 9)].into_iter().zip(lost) {
                interval.ports.entry((from, Node::Switch(to))).or_default().queue_packets[3] =
                    1_000;
                let into = interval.ports.entry((to, Node::Switch(from))).or_default();
                into.rx_packets = Some(1_000 - lost);
            }
            let flow = |lost, hops: &[Hop]| Flow {
                start_ns: 0,
                losses: Losses { sent: 1_000, lost },
                candidates: candidates(hops, &[]),
            };
            let others = [(above, Node::Switch(6)), (Node::Switch(6), below)];
            let flows = [flow(1_000, &[(above, spine), (spine, below)]), flow(0, &others)];
            judged(
                |_, _| 0,
                interval,
                |evidence| {
                    Votes::of(flows.into_iter())
                        .best(evidence, LOSSES, true)
                        .map(|best| best.candidate)
                },
            )
        };
        assert_eq!(found([500, 500]), Some(Candidate::Switch(8)));
        assert_eq!(found([500, 0]), Some(Candidate::Direction((above, spine))));
    }

    #[test]
    fn what_goes_by_nobody_who_is_named_is_left() {
        let judge = |pairs: &dyn Fn(u32, u32) -> u64| {
            judged(pairs, Interval::default(), |evidence| {
                let (suspects, left) = lost(evidence);
                (suspects.into_iter().map(|of| of.culprit).collect::<Vec<_>>(), left)
            })
        };
        let dead = |host, target| host == 1 || target == 1;
        let link = Culprit::link(Node::Host(1), Node::Switch(0));
        assert_eq!(judge(&|host, target| 100 * u64::from(dead(host, target))), (vec![link], 0));
        let chance = |host, target| if (host, target) == (4, 5) { 2 } else { 0 };
        let both = |host, target| if dead(host, target) { 100 } else { chance(host, target) };
        assert_eq!(judge(&both), (vec![link], 2));
        assert_eq!(judge(&chance), (Vec::new(), 2));
        assert_eq!(judge(&|_, _| 1), (Vec::new(), 30));
        // All go by the switch, and none arrives.
        assert_eq!(judge(&|_, _| 100), (vec![Culprit::Tor(0)], 0));
    }

    /// Those who are left lose what they send to the dead, and what goes elsewhere arrives.
    #[test]
    fn of_a_rack_of_which_three_hosts_of_four_are_dead_these_are_named() {
        judged(
            |_, _| 0,
            Interval::default(),
            |evidence| {
                let link = |host| Candidate::Link(Node::Host(host), Node::Switch(0));
                // Hosts 0 to 2 die in window 1 and send nothing after it; 9 is far away, and sends as before.
                let flows = || {
                    let is_dead = |host: u32| host < 3;
                    let pairs = [0, 1, 2, 3, 9].map(|from| [0, 1, 2, 3, 9].map(|to| (from, to)));
                    let pairs = pairs.into_iter().flatten().filter(|(from, to)| from != to);
                    let all = pairs.flat_map(move |(from, to)| {
                        let sent = if to == 9 || from == 9 { 10 } else { 100 };
                        let lost = [0, sent / 2, sent, sent]
                            .map(|lost| if is_dead(to) { lost } else { 0 });
                        let windows =
                            (0..).zip(lost).filter(move |(at, _)| *at < 2 || !is_dead(from));
                        windows.map(move |(at, lost)| {
                            let mut candidates = vec![link(from), link(to), Candidate::Switch(0)];
                            candidates.sort_unstable();
                            Flow { start_ns: at, losses: Losses { sent, lost }, candidates }
                        })
                    });
                    let elsewhere = (0..4).map(|at| Flow {
                        start_ns: at,
                        losses: Losses { sent: 1_000, lost: 0 },
                        candidates: vec![link(5), Candidate::Switch(1)],
                    });
                    all.chain(elsewhere)
                };
                let mut found: Vec<_> = culprits(evidence, LOSSES, flows)
                    .iter()
                    .map(|(best, _)| best.candidate)
                    .collect();
                found.sort_unstable();
                assert_eq!(found, [link(0), link(1), link(2)]);
            },
        );
    }

    #[test]
    fn losses_all_over_accuse_nobody() {
        let all = Losses { sent: 10_000, lost: 50 };
        assert!(Losses { sent: 1_000, lost: 7 }.score(all) < LOSSES.most);
        assert!(Losses { sent: 1_000, lost: 0 }.score(all) < 1e-9);
        assert!((Losses { sent: 10_000, lost: 50 }.score(all)).abs() < 1e-9);
    }
}
