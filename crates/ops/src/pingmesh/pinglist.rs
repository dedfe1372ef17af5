//! Whom a host probes, how often, and with which flow labels: computed from the topology.
//!
//! A host has a queue pair for each group that it is in, and there probes every other host of the group, up to
//! [`TARGETS_MAX`]; of more, those that follow it. If all of that is more than its bound, every target is probed less
//! often.

use std::collections::BTreeMap;

use rdma::Span;

use super::limits::{RATE_BEYOND, RATE_HOST, RATE_RACK, TARGETS_MAX};
use super::scope::{Map, Scope};

/// How often hosts probe.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    /// Probes a second to each target of the same rack.
    pub rack: f64,
    /// Probes a second to each target beyond it.
    pub beyond: f64,
    /// All probes of a host a second, at most.
    pub host: f64,
}

impl Default for Rates {
    fn default() -> Self {
        Self { rack: RATE_RACK, beyond: RATE_BEYOND, host: RATE_HOST }
    }
}

impl Rates {
    /// The same, so many times as often: a simulation has milliseconds where a data centre has minutes.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { rack: self.rack * factor, beyond: self.beyond * factor, host: self.host * factor }
    }
}

/// A group, as one of its hosts sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Duty {
    /// The number of the group, the same for all its hosts.
    pub group: u32,
    /// How far it reaches.
    pub scope: Scope,
    /// The other hosts of the group, in its order; those that are probed first.
    pub peers: Vec<u32>,
    /// Of `peers`, by place: who is probed.
    pub targets: Vec<usize>,
    /// From one probe of a target to the next.
    pub every: Span,
    /// Labels that its probes carry in turn.
    pub labels: u16,
}

/// What a host does.
#[derive(Clone, PartialEq, Debug)]
pub struct Pinglist {
    /// The host, by index.
    pub host: u32,
    /// By group.
    pub duties: Vec<Duty>,
}

impl Pinglist {
    /// Probes a second.
    pub fn rate(&self) -> f64 {
        let of = |duty: &Duty| duty.targets.len() as f64 * 1e12 / duty.every.as_ps() as f64;
        self.duties.iter().map(of).sum()
    }
}

/// The pinglists of all hosts that are in any group.
pub fn pinglists(map: &Map, rates: Rates) -> Vec<Pinglist> {
    let mut lists: BTreeMap<u32, Pinglist> = BTreeMap::new();
    let labels = Scope::ALL.map(|scope| map.labels(scope));
    for (number, group) in (0..).zip(map.groups()) {
        for (place, &host) in group.hosts.iter().enumerate() {
            let others = group.hosts.len() - 1;
            let peers: Vec<u32> =
                group.hosts.iter().copied().filter(|peer| *peer != host).collect();
            // In the list of peers, who follows a host has its own place.
            let follows = (0..others.min(TARGETS_MAX)).map(|step| (place + step) % others);
            let rate = if group.scope == Scope::Tor { rates.rack } else { rates.beyond };
            let duty = Duty {
                group: number,
                scope: group.scope,
                targets: follows.collect(),
                peers,
                every: Span::from_ps((1e12 / rate.max(1e-6)) as u64),
                labels: labels[group.scope as usize],
            };
            let list = lists.entry(host).or_insert_with(|| Pinglist { host, duties: vec![] });
            list.duties.push(duty);
        }
    }
    let mut lists: Vec<Pinglist> = lists.into_values().collect();
    for list in &mut lists {
        let over = list.rate() / rates.host;
        if over > 1.0 {
            for duty in &mut list.duties {
                duty.every = Span::from_ps((duty.every.as_ps() as f64 * over) as u64);
            }
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use fabric::topology::{Cables, ClosShape, clos, single_switch};
    use rdma::Rate;

    use super::*;

    #[test]
    fn no_host_sends_more_than_its_bound() {
        let map = Map::of(&clos(&ClosShape::FIGURE_7));
        let lists = pinglists(&map, Rates::default());
        assert_eq!(lists.len(), 1152);
        // 23 of its rack at 10 a second, 23 of its podset and one beyond it at 1.
        assert!((lists[7].rate() - 254.0).abs() < 0.1, "{}", lists[7].rate());
        let tight = pinglists(&map, Rates { host: 100.0, ..Rates::default() });
        assert!(tight.iter().all(|list| list.rate() <= 100.1));
    }

    #[test]
    fn of_a_large_rack_each_probes_those_that_follow_it_and_each_is_probed_alike() {
        let hosts = TARGETS_MAX as u32 + 10;
        let map = Map::of(&single_switch(hosts, Cables::new(Rate::from_gbps(40), 2)));
        let mut probed = vec![0; hosts as usize];
        for list in pinglists(&map, Rates::default()) {
            let duty = &list.duties[0];
            assert_eq!(duty.targets.len(), TARGETS_MAX);
            assert_eq!(duty.peers[duty.targets[0]], (list.host + 1) % hosts);
            for target in &duty.targets {
                probed[duty.peers[*target] as usize] += 1;
            }
        }
        assert!(probed.iter().all(|count| *count == TARGETS_MAX), "{probed:?}");
    }
}
