//! Hosts that send nothing any more, and answer nothing.
//!
//! A vote over paths does not find them: who is left loses what it sends to them, and they, who lose as much, do not say so.
//! Where all of a rack fall silent in the same window it is their ToR, as far as probes can tell.

use std::collections::{BTreeMap, BTreeSet};

use super::super::evidence::Evidence;
use super::super::node::Node;
use super::Culprit;
use super::losses::{LOSSES_MIN, Losses};

/// More than this part is lost of what others send to a host while it is silent. It may have died in the middle of a window.
const UNANSWERED: f64 = 0.5;
/// More hosts are not named.
const NAMED_MAX: usize = 64;

/// The links behind which they are, or the switches of their racks.
pub(super) fn culprits(evidence: &Evidence<'_>) -> Vec<Culprit> {
    let mut racks: BTreeMap<u32, Vec<Silent>> = BTreeMap::new();
    for of in hosts(evidence) {
        if let Some(rack) = evidence.map.rack_of(of.host) {
            racks.entry(rack).or_default().push(of);
        }
    }
    let mut found = Vec::new();
    for (rack, hosts) in racks {
        let all = evidence.map.racks.iter().filter(|of| **of == Some(rack)).count();
        let is_one = hosts.windows(2).all(|two| two[0].since_ns == two[1].since_ns);
        let lost: u64 = hosts.iter().map(|of| of.lost).sum();
        if all > 1 && all == hosts.len() && is_one && lost >= LOSSES_MIN {
            found.push(Culprit::switch(evidence.map, rack));
        } else {
            let dead = hosts.into_iter().filter(|of| of.lost >= LOSSES_MIN);
            found.extend(dead.map(|of| Culprit::link(Node::Host(of.host), Node::Switch(rack))));
        }
    }
    found.truncate(NAMED_MAX);
    found
}

/// A host of which nothing was heard in some windows.
struct Silent {
    host: u32,
    /// The first of them.
    since_ns: u64,
    /// What others have lost to it in them.
    lost: u64,
}

fn hosts(evidence: &Evidence<'_>) -> Vec<Silent> {
    let pairs = &evidence.digest.pairs;
    let windows: BTreeSet<u64> = pairs.iter().map(|pair| pair.start_ns).collect();
    let spoke = pairs.iter().filter(|pair| pair.losses().0 > 0);
    let spoke: BTreeSet<(u32, u64)> = spoke.map(|pair| (pair.host, pair.start_ns)).collect();
    let mut asked: BTreeMap<u32, Losses> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| !spoke.contains(&(pair.target, pair.start_ns))) {
        let (sent, lost) = pair.losses();
        asked.entry(pair.target).or_default().add(Losses { sent, lost });
    }
    let dead = asked.into_iter().filter(|(_, of)| of.rate() > UNANSWERED);
    let silent = |(host, of): (u32, Losses)| {
        let since_ns = *windows.iter().find(|at| !spoke.contains(&(host, **at)))?;
        Some(Silent { host, since_ns, lost: of.lost })
    };
    dead.filter_map(silent).collect()
}

#[cfg(test)]
mod tests {
    use fabric::topology::{Cables, ClosShape, clos, single_switch};
    use rdma::Rate;
    use smallvec::smallvec;

    use super::super::super::configured::Configuration;
    use super::super::super::evidence::{Brief, Digest, EndsOnly};
    use super::super::super::scope::{Map, Scope};
    use super::super::super::window::OfLabel;
    use super::super::{Verdict, judge};
    use super::*;

    /// Two racks of four, or one of six: hosts die in a window, in the middle of it, and come back in another.
    fn verdict(topology: &fabric::topology::Topology, dead: &[(u32, u64, u64)]) -> Verdict {
        let map = Map::of(topology);
        let hosts = topology.hosts.len() as u32;
        let mut pairs = Vec::new();
        for start_ns in 0..6 {
            let is_dead = |host| {
                let mut of = dead.iter();
                of.any(|(dead, from, to)| *dead == host && (*from..*to).contains(&start_ns))
            };
            let dies = |host| dead.iter().any(|of| (of.0, of.1) == (host, start_ns));
            let all = (0..hosts).flat_map(|host| (0..hosts).map(move |target| (host, target)));
            for (host, target) in all.filter(|(host, target)| host != target) {
                let is_near = map.rack_of(host) == map.rack_of(target);
                let most = if is_near { 20 } else { 4 };
                let sent = match (dies(host), is_dead(host)) {
                    (true, _) => most / 2,
                    (_, true) => 0,
                    _ => most,
                };
                let lost = match (dies(target), is_dead(target)) {
                    (true, _) => sent / 2,
                    (_, true) => sent,
                    _ => 0,
                };
                pairs.push(Brief {
                    start_ns,
                    host,
                    target,
                    scope: if is_near { Scope::Tor } else { Scope::Podset },
                    labels: smallvec![OfLabel { sent, lost, slow: 0 }],
                    p50_us: (lost < sent).then_some(2.0),
                    p99_us: None,
                });
            }
        }
        let probes = pairs.len() as u64 * 20;
        judge(&Evidence {
            topology,
            map: &map,
            digest: &Digest { pairs, probes, ..Digest::default() },
            paths: &EndsOnly(&map),
            intervals: &[],
            configuration: &Configuration::default(),
        })
    }

    #[test]
    fn who_has_fallen_silent_is_named_and_not_who_is_left() {
        let cables = Cables::new(Rate::from_gbps(40), 2);
        let one = single_switch(6, cables);
        let named = |topology, dead: &[(u32, u64, u64)]| {
            let verdict = verdict(topology, dead);
            let sick = verdict.sick().iter().map(|of| (of.culprit, of.since_ns, of.until_ns));
            let mut sick: Vec<_> = sick.collect();
            sick.sort();
            sick
        };
        let link = |host, rack| Culprit::link(Node::Host(host), Node::Switch(rack));
        for count in 1..=5 {
            let dead: Vec<_> = (0..count).map(|host| (host, 2, 9)).collect();
            let links: Vec<_> = (0..count).map(|host| (link(host, 0), 2, None)).collect();
            assert_eq!(named(&one, &dead), links);
        }
        let two = clos(&ClosShape {
            podsets: 1,
            tors: 2,
            leaves: 1,
            spines: 1,
            hosts: 4,
            host_cables: cables,
            tor_cables: cables,
            spine_cables: cables,
        });
        let rack = Map::of(&two).rack_of(0).unwrap();
        let other = Map::of(&two).rack_of(4).unwrap();
        let all = |at: fn(u32) -> u64| (0..4).map(|host| (host, at(host), 9)).collect::<Vec<_>>();
        // All at once, and one after the other.
        assert_eq!(named(&two, &all(|_| 2)), [(Culprit::Tor(rack), 2, None)]);
        let each = |host: u32| (link(host, rack), 1 + u64::from(host), None);
        assert_eq!(named(&two, &all(|host| 1 + u64::from(host))), [0, 1, 2, 3].map(each));
        // All for three windows, of which few tell.
        let back: Vec<_> = (0..4).map(|host| (host, 2, 4)).collect();
        assert_eq!(named(&two, &back), [(Culprit::Tor(rack), 2, Some(4))]);
        // One in each rack, of which one comes back.
        assert_eq!(
            named(&two, &[(1, 1, 3), (5, 2, 9)]),
            [(link(1, rack), 1, Some(3)), (link(5, other), 2, None)]
        );
        assert_eq!(named(&two, &[]), []);
    }

    #[test]
    fn where_nobody_can_probe_nothing_is_called_healthy() {
        let one = single_switch(6, Cables::new(Rate::from_gbps(40), 2));
        let dead: Vec<_> = (0..6).map(|host| (host, 1, 9)).collect();
        let verdict = verdict(&one, &dead);
        assert!(verdict.suspects.is_empty(), "{verdict:?}");
        let said = verdict.text(&one).to_string();
        assert!(said.starts_with("verdict: none: of 3600 probes "), "{said}");
    }
}
