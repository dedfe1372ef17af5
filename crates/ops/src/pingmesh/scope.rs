//! Which hosts are near each other: racks, podsets and the data centre, from the topology alone.
//!
//! ```text
//!   data centre ─┬─ podset: racks that the same switches join ─┬─ rack (ToR): hosts of one switch
//!                └─ podset ...                                  └─ rack ...
//! ```
//!
//! Hosts meet in groups. All hosts of a rack are a group. Beyond it those of one place are: the i-th hosts of the racks
//! of a podset, and the i-th hosts of the j-th racks of all podsets. So a host has few targets, and every pair of
//! racks of a podset is probed by as many pairs of hosts as a rack has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fabric::topology::{End, Topology};
use serde::{Deserialize, Serialize};

use super::limits::COVERED;

/// How far a probe goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Within a rack.
    Tor,
    /// To another rack of the podset.
    Podset,
    /// To another podset.
    Dc,
}

impl Scope {
    /// All of them, the nearest first.
    pub const ALL: [Self; 3] = [Self::Tor, Self::Podset, Self::Dc];

    /// As reports name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tor => "tor",
            Self::Podset => "podset",
            Self::Dc => "dc",
        }
    }
}

/// Hosts that probe each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// How far apart they are.
    pub scope: Scope,
    /// They, by index.
    pub hosts: Vec<u32>,
}

/// Where each host is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Map {
    /// By host: the switch above it, if it has one.
    pub racks: Vec<Option<u32>>,
    /// By switch: its podset, if it has hosts.
    pub podsets: BTreeMap<u32, usize>,
    /// By host: its place in its rack.
    places: Vec<usize>,
    /// By rack: its place in its podset.
    rack_places: BTreeMap<u32, usize>,
    /// By switch: neighbours that are switches.
    neighbours: Vec<Vec<u32>>,
    tiers: Vec<u8>,
}

impl Map {
    /// The map of a topology.
    pub fn of(topology: &Topology) -> Self {
        let count = topology.switches.len();
        let tiers: Vec<u8> = topology.switches.iter().map(|switch| switch.tier).collect();
        let (mut racks, mut neighbours) =
            (vec![None; topology.hosts.len()], vec![Vec::new(); count]);
        for link in &topology.links {
            match link.ends {
                [End::Host(host), End::Switch(switch)] | [End::Switch(switch), End::Host(host)] => {
                    if let Some(rack) = racks.get_mut(host as usize) {
                        *rack = Some(switch);
                    }
                }
                [End::Switch(a), End::Switch(b)] => {
                    for (from, to) in [(a, b), (b, a)] {
                        if let Some(of) = neighbours.get_mut(from as usize) {
                            of.push(to);
                        }
                    }
                }
                [End::Host(_), End::Host(_)] => {}
            }
        }
        let has_hosts: BTreeSet<u32> = racks.iter().flatten().copied().collect();
        // Racks that a switch one tier above joins are of one podset.
        let mut podsets: BTreeMap<u32, usize> = BTreeMap::new();
        let mut count = 0;
        for &rack in &has_hosts {
            if podsets.contains_key(&rack) {
                continue;
            }
            let mut frontier = VecDeque::from([rack]);
            podsets.insert(rack, count);
            while let Some(at) = frontier.pop_front() {
                let above = |switch: u32| tiers[switch as usize] == tiers[at as usize] + 1;
                for &up in neighbours[at as usize].iter().filter(|up| above(**up)) {
                    for &down in &neighbours[up as usize] {
                        if has_hosts.contains(&down) && !podsets.contains_key(&down) {
                            podsets.insert(down, count);
                            frontier.push_back(down);
                        }
                    }
                }
            }
            count += 1;
        }
        let mut map = Self { racks, podsets, neighbours, tiers, ..Self::default() };
        let mut of_rack: BTreeMap<u32, usize> = BTreeMap::new();
        for rack in &map.racks {
            let place = rack.map_or(0, |rack| {
                let next = of_rack.entry(rack).or_default();
                *next += 1;
                *next - 1
            });
            map.places.push(place);
        }
        let mut of_podset: BTreeMap<usize, usize> = BTreeMap::new();
        for (&rack, &podset) in &map.podsets {
            let next = of_podset.entry(podset).or_default();
            map.rack_places.insert(rack, *next);
            *next += 1;
        }
        map
    }

    /// The podset of a host.
    pub fn podset_of(&self, host: u32) -> Option<usize> {
        let rack = (*self.racks.get(host as usize)?)?;
        self.podsets.get(&rack).copied()
    }

    /// The rack of a host.
    pub fn rack_of(&self, host: u32) -> Option<u32> {
        *self.racks.get(host as usize)?
    }

    /// How far one host is from another.
    pub fn scope(&self, a: u32, b: u32) -> Scope {
        match (self.rack_of(a) == self.rack_of(b), self.podset_of(a) == self.podset_of(b)) {
            (true, _) => Scope::Tor,
            (false, true) => Scope::Podset,
            (false, false) => Scope::Dc,
        }
    }

    /// All groups of two hosts and more, those of racks first.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: BTreeMap<(Scope, usize, usize, usize), Vec<u32>> = BTreeMap::new();
        for (host, place) in (0..).zip(&self.places) {
            let (Some(rack), Some(podset)) = (self.rack_of(host), self.podset_of(host)) else {
                continue;
            };
            let rack_place = self.rack_places[&rack];
            let keys = [
                (Scope::Tor, rack as usize, 0, 0),
                (Scope::Podset, podset, *place, 0),
                (Scope::Dc, rack_place, *place, 0),
            ];
            for key in keys {
                groups.entry(key).or_default().push(host);
            }
        }
        let several = groups.into_iter().filter(|(_, hosts)| hosts.len() > 1);
        several.map(|((scope, ..), hosts)| Group { scope, hosts }).collect()
    }

    /// How many shortest paths there are from one rack to another.
    pub fn paths(&self, from: u32, to: u32) -> u64 {
        if from == to {
            return 1;
        }
        let mut ways = vec![0u64; self.neighbours.len()];
        let mut distance = vec![u32::MAX; self.neighbours.len()];
        let (Some(first), Some(at)) =
            (distance.get_mut(from as usize), ways.get_mut(from as usize))
        else {
            return 0;
        };
        (*first, *at) = (0, 1);
        let mut frontier = VecDeque::from([from]);
        while let Some(at) = frontier.pop_front() {
            for &next in &self.neighbours[at as usize] {
                let along = distance[at as usize] + 1;
                if distance[next as usize] == u32::MAX {
                    distance[next as usize] = along;
                    frontier.push_back(next);
                }
                if distance[next as usize] == along {
                    ways[next as usize] = ways[next as usize].saturating_add(ways[at as usize]);
                }
            }
        }
        ways.get(to as usize).copied().unwrap_or(0)
    }

    /// The tier of a switch: 0 for those of racks.
    pub fn tier(&self, switch: u32) -> u8 {
        self.tiers.get(switch as usize).copied().unwrap_or(0)
    }

    /// How many flow labels each pair of hosts of a group needs, so that all paths between two of its racks are taken
    /// by some probe with probability [`COVERED`]. Pairs of hosts of the same two racks share the work.
    pub fn labels(&self, scope: Scope) -> u16 {
        let racks: Vec<u32> = self.podsets.keys().copied().collect();
        let pair = |a: u32, b: u32| match scope {
            Scope::Tor => false,
            Scope::Podset => a != b && self.podsets[&a] == self.podsets[&b],
            Scope::Dc => self.podsets[&a] != self.podsets[&b],
        };
        let first = racks.iter().find_map(|&a| {
            let b = racks.iter().copied().find(|b| pair(a, *b))?;
            Some(self.paths(a, b))
        });
        let Some(paths) = first else { return 1 };
        let most = self.places.iter().max().map_or(1, |place| place + 1);
        // Beyond the podset only racks of the same place meet.
        coupons(paths, COVERED).div_ceil(most as u64).clamp(1, 64) as u16
    }
}

/// How often one has to draw from `kinds` kinds, all alike, to have seen all with this probability: the coupon
/// collector's question, by (1 - (1 - 1/m)^n)^m >= p.
pub fn coupons(kinds: u64, probability: f64) -> u64 {
    if kinds < 2 {
        return 1;
    }
    let m = kinds as f64;
    let missed = 1.0 - probability.powf(1.0 / m);
    (missed.ln() / (1.0 - 1.0 / m).ln()).ceil() as u64
}

#[cfg(test)]
mod tests {
    use fabric::topology::{Cables, ClosShape, clos, single_switch};
    use rdma::Rate;

    use super::*;

    fn small() -> Map {
        let cables = Cables::new(Rate::from_gbps(40), 2);
        let shape = ClosShape {
            podsets: 2,
            tors: 3,
            leaves: 2,
            spines: 4,
            hosts: 2,
            host_cables: cables,
            tor_cables: cables,
            spine_cables: cables,
        };
        Map::of(&clos(&shape))
    }

    #[test]
    fn racks_and_podsets_are_found_in_the_links() {
        let map = small();
        assert_eq!(map.podsets.len(), 6);
        assert_eq!(map.podsets.values().max(), Some(&1));
        let scopes = [1, 2, 5, 6].map(|other| map.scope(0, other));
        assert_eq!(scopes, [Scope::Tor, Scope::Podset, Scope::Podset, Scope::Dc]);
    }

    #[test]
    fn every_pair_of_racks_of_a_podset_is_probed_by_every_place() {
        let groups = small().groups();
        let of = |scope: Scope| -> Vec<&Vec<u32>> {
            groups.iter().filter(|group| group.scope == scope).map(|group| &group.hosts).collect()
        };
        assert_eq!(of(Scope::Tor)[0], &[0, 1]);
        assert_eq!(
            of(Scope::Podset),
            [&vec![0, 2, 4], &vec![1, 3, 5], &vec![6, 8, 10], &vec![7, 9, 11]]
        );
        assert_eq!(of(Scope::Dc)[0], &[0, 6]);
    }

    #[test]
    fn paths_are_those_of_ecmp() {
        let map = small();
        assert_eq!(map.paths(0, 1), 2, "two leaves");
        let racks: Vec<u32> = map.podsets.keys().copied().collect();
        assert_eq!(map.paths(racks[0], racks[5]), 4, "four spines");
        let figure = Map::of(&clos(&ClosShape::FIGURE_7));
        let racks: Vec<u32> = figure.podsets.keys().copied().collect();
        assert_eq!(figure.paths(racks[0], racks[30]), 64);
    }

    #[test]
    fn labels_are_as_many_as_a_collector_of_coupons_draws() {
        // R-Pingmesh: 16 paths at 0.9.
        assert_eq!([coupons(1, 0.9), coupons(2, 0.9), coupons(16, 0.9)], [1, 5, 78]);
        let map = small();
        assert_eq!(Scope::ALL.map(|scope| map.labels(scope)), [1, 3, 7]);
    }

    #[test]
    fn hosts_of_one_switch_are_a_rack_and_no_more() {
        let map = Map::of(&single_switch(3, Cables::new(Rate::from_gbps(40), 2)));
        let groups = map.groups();
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].scope, groups[0].hosts.len()), (Scope::Tor, 3));
        assert_eq!(map.labels(Scope::Dc), 1);
    }
}
