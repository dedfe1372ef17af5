//! Which host takes its time: T4 - T3 at those that answer, and the prober's own delay.
//!
//! Neither has the network in it. A host is busy if its delay is far from that of the other hosts, in the same window
//! and again in the next, and its port is not stopped: T4 waits for a pause, too. What a host does in one window alone
//! may be a program that starts.

use std::collections::BTreeMap;

use fabric::topology::End;

use super::super::evidence::Evidence;
use super::super::node::Node;
use super::super::window::Latency;
use super::join::Joined;
use super::{Cause, Culprit, Suspect};

/// The percentile that is looked at.
const RANK: f64 = 0.9;
/// A host that takes so many times as long as the median of all is busy,
const TIMES: f64 = 4.0;
/// if it takes so much longer, in microseconds, too.
const LONGER_US: f64 = 100.0;
/// Of fewer answers nothing is known.
const ANSWERS_MIN: u64 = 20;
/// A host whose port is stopped for more than this part of the time is not judged.
const STOPPED: f64 = 0.01;

pub(super) fn suspects(evidence: &Evidence<'_>) -> Vec<Suspect> {
    let delays = &evidence.digest.responder;
    let mut suspects: BTreeMap<u32, Suspect> = BTreeMap::new();
    let mut starts: Vec<u64> = delays.keys().map(|(start, _)| *start).collect();
    starts.dedup();
    let mut before: Vec<(u32, f64, String)> = Vec::new();
    let mut before_ns = 0;
    for start in starts {
        let now = slow(evidence, start);
        for (host, us, line) in &now {
            let Some((_, us_before, line_before)) = before.iter().find(|of| of.0 == *host) else {
                continue;
            };
            let suspect = suspects.entry(*host).or_insert_with(|| Suspect {
                culprit: Culprit::Host(*host),
                cause: Cause::Busy,
                score: *us_before,
                since_ns: before_ns,
                until_ns: None,
                evidence: vec![line_before.clone()],
                joined: Joined::default(),
            });
            if *us > suspect.score {
                suspect.score = *us;
                suspect.evidence = vec![line.clone()];
            }
        }
        (before, before_ns) = (now, start);
    }
    let mut suspects: Vec<Suspect> = suspects.into_values().collect();
    for suspect in &mut suspects {
        let Culprit::Host(host) = suspect.culprit else { continue };
        suspect.evidence.extend(own_delay(evidence, host));
    }
    suspects
}

/// The hosts that are slow to answer in a window, their delay in microseconds, and what that is to the others'.
fn slow(evidence: &Evidence<'_>, start: u64) -> Vec<(u32, f64, String)> {
    let of_window = evidence.digest.responder.range((start, 0)..=(start, u32::MAX));
    let seen: Vec<(u32, f64, u64)> = of_window
        .filter(|(_, latency)| latency.count() >= ANSWERS_MIN)
        .filter_map(|((_, host), latency)| Some((*host, latency.us(RANK)?, latency.count())))
        .collect();
    let mut sorted: Vec<f64> = seen.iter().map(|(_, us, _)| *us).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(&median) = sorted.get(sorted.len() / 2).filter(|_| sorted.len() > 2) else {
        return Vec::new();
    };
    let is_slow = |&(host, us, _): &(u32, f64, u64)| {
        us >= TIMES * median && us >= median + LONGER_US && !is_stopped(evidence, host)
    };
    let told = |(host, us, answers): (u32, f64, u64)| {
        let name = evidence.topology.name(End::Host(host));
        let line = format!(
            "{name} took {us:.0} us to answer a probe (90th percentile of {answers}); the median of {} hosts is \
             {median:.0} us",
            sorted.len()
        );
        (host, us, line)
    };
    seen.iter().copied().filter(is_slow).map(told).collect()
}

/// Whether the network stops the host's NIC, or the NIC the network.
fn is_stopped(evidence: &Evidence<'_>, host: u32) -> bool {
    let Some(switch) = evidence.map.rack_of(host) else { return false };
    evidence.intervals.iter().any(|interval| {
        let by_network = interval.hosts.get(&host).and_then(|host| host.paused_us).unwrap_or(0);
        let by_host =
            interval.ports.get(&(switch, Node::Host(host))).map_or(0, |port| port.paused_us);
        by_network.max(by_host) as f64 / interval.length_us() as f64 > STOPPED
    })
}

fn own_delay(evidence: &Evidence<'_>, host: u32) -> Option<String> {
    let (mut own, mut others) = (Latency::default(), Latency::default());
    for ((_, prober), latency) in &evidence.digest.prober {
        if *prober == host { &mut own } else { &mut others }.add(latency);
    }
    let (own, others) = (own.us(RANK)?, others.us(RANK)?);
    Some(format!(
        "its own probes waited {own:.0} us for its processor, those of others {others:.0} us"
    ))
}
