//! Which switch sorts packets otherwise than its like: a map of DSCPs that differs.
//!
//! The part of its packets that each queue has sent is held against the median of the switches of its tier. All of them
//! carry the same services, so the parts are alike; a map that differs moves a whole service from one queue to another.

use std::collections::BTreeMap;

use fabric::topology::End;

use super::super::evidence::Evidence;
use super::join::Joined;
use super::{Cause, Culprit, Suspect};

/// A queue's part of the packets that is so far from the median is no chance.
const FAR: f64 = 0.3;
/// A switch that has sent fewer packets in an interval is not looked at.
const PACKETS_MIN: u64 = 500;
/// There is no median of fewer.
const LIKE_MIN: usize = 2;

pub(super) fn suspects(evidence: &Evidence<'_>) -> Vec<Suspect> {
    let mut worst: BTreeMap<u32, Suspect> = BTreeMap::new();
    for interval in evidence.intervals {
        let mut sent: BTreeMap<u32, [u64; 8]> = BTreeMap::new();
        for ((switch, _), port) in &interval.ports {
            let sum = sent.entry(*switch).or_default();
            sum.iter_mut().zip(port.queue_packets).for_each(|(sum, more)| *sum += more);
        }
        let parts: BTreeMap<u32, [f64; 8]> = sent
            .into_iter()
            .filter(|(_, queues)| queues.iter().sum::<u64>() >= PACKETS_MIN)
            .map(|(switch, queues)| {
                let all = queues.iter().sum::<u64>() as f64;
                (switch, queues.map(|packets| packets as f64 / all))
            })
            .collect();
        for (&switch, own) in &parts {
            let tier = evidence.map.tier(switch);
            let like: Vec<&[f64; 8]> = parts
                .iter()
                .filter(|(other, _)| **other != switch && evidence.map.tier(**other) == tier)
                .map(|(_, parts)| parts)
                .collect();
            if like.len() < LIKE_MIN {
                continue;
            }
            let median = |queue: usize| {
                let mut of: Vec<f64> = like.iter().map(|parts| parts[queue]).collect();
                of.sort_by(f64::total_cmp);
                of[of.len() / 2]
            };
            let (queue, usual) = (0..8)
                .map(|queue| (queue, median(queue)))
                .max_by(|a, b| (own[a.0] - a.1).total_cmp(&(own[b.0] - b.1)))
                .unwrap_or((0, 0.0));
            let score = own[queue] - usual;
            if score < FAR {
                continue;
            }
            let name = evidence.topology.name(End::Switch(switch));
            let said = format!(
                "{name} has sent {:.0} % of its packets by queue {queue}; the median of the other {} switches of its \
                 tier is {:.0} %",
                own[queue] * 100.0,
                like.len(),
                usual * 100.0
            );
            let suspect = worst.entry(switch).or_insert_with(|| Suspect {
                culprit: Culprit::switch(evidence.map, switch),
                cause: Cause::WrongClass,
                score: 0.0,
                since_ns: interval.start_ns,
                until_ns: None,
                evidence: Vec::new(),
                joined: Joined::default(),
            });
            if score > suspect.score {
                suspect.score = score;
                suspect.evidence = vec![said];
            }
        }
    }
    worst.into_values().collect()
}
