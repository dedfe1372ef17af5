//! Who stops others: the root of the pauses.
//!
//! ```text
//!   NIC ─ pauses ─► ToR ─ pauses, as it is full ─► Leaf ─ pauses ─► other ToRs ─► their hosts
//!    ▲ stopped by nobody: the root
//! ```
//!
//! A NIC that pauses is always a root, because nothing is below it; and a healthy one does not (guo16, 4.3). A switch
//! that pauses is a root if no neighbour stops it meanwhile; and it is sick if it pauses sooner than its like
//! ([`thresholds`](crate::thresholds)), or if it pauses more and its configuration is known to be wrong. One that pauses
//! because it has the load is well.

use std::collections::BTreeMap;

use fabric::topology::End;

use super::super::evidence::{Evidence, Interval};
use super::super::limits::WINDOWS_MIN;
use super::super::node::Node;
use super::join::{Joined, explains};
use super::{Cause, Culprit, Suspect, micros};
use crate::thresholds::{GROUPS, PAUSES_MIN, Shown, sooner};
use crate::watch::PoolSample;

/// A NIC that stops its switch for more than this part of the time storms.
const STORM: f64 = 0.5;
/// A NIC that stops its switch for more than this part of the time is a slow receiver.
const SLOW: f64 = 0.001;
/// A switch whose pauses are more than so many times those of its like is an outlier.
const OUTLIER: u64 = 8;

pub(super) fn suspects(evidence: &Evidence<'_>) -> Vec<Suspect> {
    let mut suspects = nics(evidence);
    // What a NIC has begun goes on from switch to switch.
    if suspects.is_empty() {
        suspects.extend(switches(evidence));
    }
    suspects
}

fn name(evidence: &Evidence<'_>, node: Node) -> String {
    evidence.topology.name(End::from(node)).to_owned()
}

/// For which part of an interval a host has stopped the port of its switch.
fn stopped(interval: &Interval, switch: u32, host: u32) -> f64 {
    let port = interval.ports.get(&(switch, Node::Host(host)));
    let by_port = port.map_or(0, |port| port.paused_us);
    // What its NIC says itself is as good, where nobody reads the switch.
    let by_nic = interval.hosts.get(&host).and_then(|host| host.pausing_us).unwrap_or(0);
    (by_port.max(by_nic) as f64 / interval.length_us() as f64).min(1.0)
}

fn nics(evidence: &Evidence<'_>) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    for (host, rack) in (0..).zip(&evidence.map.racks) {
        let Some(switch) = *rack else { continue };
        let parts = evidence.intervals.iter().map(|interval| stopped(interval, switch, host));
        let parts: Vec<f64> = parts.collect();
        let most = parts.iter().copied().fold(0.0, f64::max);
        if most <= SLOW {
            continue;
        }
        let first = parts.iter().position(|part| *part > SLOW).unwrap_or(0);
        let is_storm = most > STORM;
        // One that receives slowly pauses now and then; a storm is over where it does not.
        let last = parts.iter().rposition(|part| *part > SLOW).filter(|_| is_storm);
        let healed = last.and_then(|last| evidence.intervals.get(last + 1));
        let (nic, tor) = (name(evidence, Node::Host(host)), name(evidence, Node::Switch(switch)));
        let frames: u64 = evidence
            .intervals
            .iter()
            .filter_map(|interval| interval.hosts.get(&host))
            .filter_map(|host| host.tx_pause)
            .sum();
        let mut said = vec![format!(
            "{nic} has stopped the port of {tor} for {:.1} % of its worst window ({frames} pause frames), and nothing is below a NIC",
            most * 100.0
        )];
        said.extend(to_host(evidence, host));
        suspects.push(Suspect {
            culprit: Culprit::Nic(host),
            cause: if is_storm { Cause::PauseStorm } else { Cause::SlowReceiver },
            score: parts.iter().sum(),
            since_ns: evidence.intervals.get(first).map_or(0, |interval| interval.start_ns),
            until_ns: healed.map(|interval| interval.start_ns),
            evidence: said,
            joined: Joined::default(),
        });
    }
    suspects
}

/// What probes of a host have seen, beside those of all others.
fn to_host(evidence: &Evidence<'_>, host: u32) -> Option<String> {
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    let (mut lost, mut known) = (0, 0);
    for pair in &evidence.digest.pairs {
        if pair.target == host {
            let of_pair = pair.losses();
            (known, lost) = (known + of_pair.0, lost + of_pair.1);
            here.extend(pair.p99_us);
        } else if pair.host != host {
            elsewhere.extend(pair.p99_us);
        }
    }
    let others = median(&mut elsewhere)?;
    Some(match median(&mut here) {
        Some(own) => format!(
            "of {known} probes of it {lost} were not answered; the 99th percentile of a pair is {} us there, and {} us \
             elsewhere",
            micros(own),
            micros(others)
        ),
        None => format!("none of {known} probes of it was answered"),
    })
}

fn median(of: &mut [f32]) -> Option<f32> {
    of.sort_by(f32::total_cmp);
    of.get(of.len() / 2).copied()
}

fn switches(evidence: &Evidence<'_>) -> Vec<Suspect> {
    // By switch: pauses sent in each interval, but for those that it hands on, and what its memory has shown in each.
    let mut of_switches: BTreeMap<u32, (Vec<u64>, Vec<Shown>)> = BTreeMap::new();
    let intervals = evidence.intervals.len();
    for (number, interval) in evidence.intervals.iter().enumerate() {
        let mut of: BTreeMap<u32, (u64, u64, PoolSample, Shown)> = BTreeMap::new();
        for ((switch, to), port) in &interval.ports {
            let serves = matches!(to, Node::Host(_));
            let (tx, rx, pool, shown) = of.entry(*switch).or_default();
            *tx += port.tx_pause;
            *rx += port.rx_pause;
            *pool = port.pool;
            for (group, own) in port.groups.iter().enumerate() {
                if let Some(peak) = own.peak_bytes {
                    shown.group((group, serves), own.pauses, peak);
                }
            }
        }
        for (switch, (tx, rx, pool, mut shown)) in of {
            shown.pool(pool.size_bytes, pool.peak_bytes);
            let none = || (vec![0; intervals], vec![Shown::default(); intervals]);
            let (counts, all) = of_switches.entry(switch).or_insert_with(none);
            // Who is stopped more than it stops hands on what came from elsewhere.
            counts[number] = tx.saturating_sub(rx);
            all[number] = shown;
        }
    }
    let mut suspects = Vec::new();
    for (&switch, (counts, own_shown)) in &of_switches {
        let own: u64 = counts.iter().sum();
        let windows = counts.iter().filter(|count| **count > 0).count();
        if windows < WINDOWS_MIN || own < PAUSES_MIN {
            continue;
        }
        let tier = evidence.map.tier(switch);
        let like = of_switches.iter().filter(|(other, _)| evidence.map.tier(**other) == tier);
        let mut shown: Vec<(u32, Shown)> =
            like.clone().map(|(other, (_, shown))| (*other, Shown::sum(shown))).collect();
        // Its alpha may have changed; and whoever clears watermarks does not do so when windows end.
        let by_memory = own_shown.windows(WINDOWS_MIN).find_map(|lately| {
            let of_own = shown.iter_mut().find(|(of, _)| *of == switch);
            of_own?.1 = Shown::sum(lately);
            let mut found = (0..GROUPS).flat_map(|group| sooner(&shown, group));
            found.find(|(of, _)| *of == switch).map(|(_, why)| why)
        });
        // Counts alone do not tell a threshold from a load; a configuration that is known to be wrong does.
        let is_told = || is_of_configuration(evidence, switch);
        let others = like.filter(|(other, _)| **other != switch);
        let others = others.map(|(_, (counts, _))| counts.iter().sum()).collect();
        let Some(why) = by_memory.or_else(|| by_counts(own, others).filter(|_| is_told())) else {
            continue;
        };
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let named = name(evidence, Node::Switch(switch));
        suspects.push(Suspect {
            culprit: Culprit::switch(evidence.map, switch),
            cause: Cause::EarlyPauses,
            score: own as f64,
            since_ns: evidence.intervals.get(first).map_or(0, |interval| interval.start_ns),
            until_ns: None,
            evidence: vec![
                format!(
                    "{named} has sent {own} pause frames more than it received, in {windows} of {} windows",
                    counts.len()
                ),
                why,
            ],
            joined: Joined::default(),
        });
    }
    suspects
}

/// Whether `ferroce doctor` has found thresholds of a switch that are not as they should be.
fn is_of_configuration(evidence: &Evidence<'_>, switch: u32) -> bool {
    let findings = evidence.configuration.findings.iter();
    let mut own = findings.filter(|finding| finding.node == Node::Switch(switch));
    own.any(|finding| finding.rule().is_some_and(|rule| explains(rule, Cause::EarlyPauses)))
}

/// Whether a switch has sent far more pauses than the others of its tier.
fn by_counts(own: u64, mut others: Vec<u64>) -> Option<String> {
    others.sort_unstable();
    // The third quartile: half of its like may be busy for a reason.
    let usual = *others.get(others.len() * 3 / 4).or(others.last())?;
    (own > OUTLIER * (usual + 1)).then(|| {
        format!(
            "three quarters of the other {} switches of its tier have sent no more than {usual}",
            others.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use fabric::topology::{Cables, single_switch};
    use rdma::Rate;

    use super::super::super::configured::Configuration;
    use super::super::super::evidence::{Digest, EndsOnly};
    use super::super::super::scope::Map;
    use super::*;

    #[test]
    fn a_storm_that_is_over_has_an_end() {
        let topology = single_switch(4, Cables::new(Rate::from_gbps(40), 2));
        let map = Map::of(&topology);
        let course = |paused: &[u64]| {
            let interval = |(start_ns, paused_us): (u64, &u64)| {
                let (start_ns, end_ns) = (start_ns * 1_000_000, (start_ns + 1) * 1_000_000);
                let mut interval = Interval { start_ns, end_ns, ..Interval::default() };
                interval.ports.entry((0, Node::Host(1))).or_default().paused_us = *paused_us;
                interval
            };
            let intervals: Vec<Interval> = (0..).zip(paused).map(interval).collect();
            let found = suspects(&Evidence {
                topology: &topology,
                map: &map,
                digest: &Digest::default(),
                paths: &EndsOnly(&map),
                intervals: &intervals,
                configuration: &Configuration::default(),
            });
            let [of] = &found[..] else { panic!("{found:?}") };
            (of.cause, of.since_ns / 1_000_000, of.until_ns.map(|ns| ns / 1_000_000))
        };
        assert_eq!(course(&[0, 900, 1_000, 1_000]), (Cause::PauseStorm, 1, None));
        assert_eq!(course(&[0, 900, 1_000, 0, 0]), (Cause::PauseStorm, 1, Some(3)));
        assert_eq!(course(&[0, 900, 0, 700, 0]), (Cause::PauseStorm, 1, Some(4)));
        // It may pause again.
        assert_eq!(course(&[0, 90, 0, 70, 0]), (Cause::SlowReceiver, 1, None));
    }
}
