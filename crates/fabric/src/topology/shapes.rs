//! The usual shapes.

use rdma::{Rate, Span};

use super::{End, Topology, propagation};

/// Rate and length of the links of one layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cables {
    /// In both directions.
    pub rate: Rate,
    /// How long a signal takes.
    pub propagation: Span,
}

impl Cables {
    /// Links at `rate`, `metres` long.
    pub const fn new(rate: Rate, metres: u32) -> Self {
        Self { rate, propagation: propagation(metres) }
    }
}

impl Topology {
    fn join(&mut self, a: End, b: End, cables: Cables) {
        self.link(a, b, cables.rate, cables.propagation);
    }

    /// `count` hosts below `switch`.
    fn rack(&mut self, switch: u32, count: u32, cables: Cables) {
        for _ in 0..count {
            let name = format!("h{}", self.hosts.len());
            let host = self.add_host(name);
            self.join(End::Host(host), End::Switch(switch), cables);
        }
    }

    /// `count` spine switches above the `racks` switches that are there.
    fn spines(&mut self, count: u32, racks: u32, cables: Cables) {
        for spine in 0..count {
            let switch = self.add_switch(format!("spine{spine}"), 1);
            for rack in 0..racks {
                self.join(End::Switch(rack), End::Switch(switch), cables);
            }
        }
    }
}

/// Two hosts and a cable.
pub(crate) fn back_to_back(cables: Cables) -> Topology {
    let mut topology = Topology::default();
    let (a, b) = (topology.add_host("h0"), topology.add_host("h1"));
    topology.join(End::Host(a), End::Host(b), cables);
    topology
}

/// `hosts` hosts under one switch, "s0".
pub fn single_switch(hosts: u32, cables: Cables) -> Topology {
    let mut topology = Topology::default();
    let switch = topology.add_switch("s0", 0);
    topology.rack(switch, hosts, cables);
    topology
}

/// `leaves` racks of `hosts` hosts; each leaf switch is linked to each of `spines` spine switches.
pub(crate) fn leaf_spine(
    leaves: u32,
    spines: u32,
    hosts: u32,
    down: Cables,
    up: Cables,
) -> Topology {
    let mut topology = Topology::default();
    for leaf in 0..leaves {
        let switch = topology.add_switch(format!("leaf{leaf}"), 0);
        topology.rack(switch, hosts, down);
    }
    topology.spines(spines, leaves, up);
    topology
}

/// A rail-optimised network of servers with several NICs each, as GPU clusters have it: NIC r of each server of a
/// segment is a host below the switch of rail r of that segment, and all those switches are linked to each of
/// `spines` spine switches. Hosts are in the order of ranks: those of a server follow each other. (What servers
/// carry inside, from NIC to NIC, is not here.) Names: `rail0-3` is the fourth rail of the first segment.
pub(crate) fn rail_optimised(
    [segments, servers, rails]: [u32; 3],
    spines: u32,
    down: Cables,
    up: Cables,
) -> Topology {
    let mut topology = Topology::default();
    for segment in 0..segments {
        for rail in 0..rails {
            topology.add_switch(format!("rail{segment}-{rail}"), 0);
        }
        for _ in 0..servers {
            for rail in 0..rails {
                topology.rack(segment * rails + rail, 1, down);
            }
        }
    }
    topology.spines(spines, segments * rails, up);
    topology
}

/// A three-tier Clos of podsets (guo16, figures 1 and 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosShape {
    /// How many podsets.
    pub podsets: u32,
    /// Racks of a podset.
    pub tors: u32,
    /// Leaf switches of a podset; each is linked to all its ToRs.
    pub leaves: u32,
    /// Spine switches; leaf i of every podset is linked to the i-th part of them.
    pub spines: u32,
    /// Hosts of a rack.
    pub hosts: u32,
    /// Host to ToR.
    pub host_cables: Cables,
    /// ToR to leaf.
    pub tor_cables: Cables,
    /// Leaf to spine.
    pub spine_cables: Cables,
}

impl ClosShape {
    /// guo16, figure 7: two podsets of 4 leaves, 24 ToRs and 576 servers; 64 spines; all 40 GbE.
    pub const FIGURE_7: Self = Self {
        podsets: 2,
        tors: 24,
        leaves: 4,
        spines: 64,
        hosts: 24,
        host_cables: Cables::new(Rate::from_gbps(40), 2),
        tor_cables: Cables::new(Rate::from_gbps(40), 20),
        spine_cables: Cables::new(Rate::from_gbps(40), 300),
    };
}

/// See [`ClosShape`]. Names: `tor0-3` is the fourth rack of the first podset, `leaf0-1`, `spine5`.
pub fn clos(shape: &ClosShape) -> Topology {
    let mut topology = Topology::default();
    let mut leaves = Vec::new();
    for podset in 0..shape.podsets {
        let tors: Vec<u32> = (0..shape.tors)
            .map(|tor| topology.add_switch(format!("tor{podset}-{tor}"), 0))
            .collect();
        for &tor in &tors {
            topology.rack(tor, shape.hosts, shape.host_cables);
        }
        for leaf in 0..shape.leaves {
            let switch = topology.add_switch(format!("leaf{podset}-{leaf}"), 1);
            for &tor in &tors {
                topology.join(End::Switch(tor), End::Switch(switch), shape.tor_cables);
            }
            leaves.push((leaf, switch));
        }
    }
    let group = (shape.spines / shape.leaves.max(1)).max(1);
    for spine in 0..shape.spines {
        let switch = topology.add_switch(format!("spine{spine}"), 2);
        for &(_, leaf) in leaves.iter().filter(|(place, _)| *place == spine / group) {
            topology.join(End::Switch(leaf), End::Switch(switch), shape.spine_cables);
        }
    }
    topology
}

/// A fat tree of `k`-port switches, `k` even: k^3/4 hosts, of which host h is under rack h/(k/2) and
/// in pod h/(k^2/4).
pub fn fat_tree(k: u32, cables: Cables) -> Topology {
    let half = k / 2;
    clos(&ClosShape {
        podsets: k,
        tors: half,
        leaves: half,
        spines: half * half,
        hosts: half,
        host_cables: cables,
        tor_cables: cables,
        spine_cables: cables,
    })
}

/// A chain of `switches` switches with one host each, and a second one at the first and the last:
/// flows from each host to the last all cross the last link.
pub(crate) fn parking_lot(switches: u32, cables: Cables) -> Topology {
    let mut topology = Topology::default();
    for switch in 0..switches {
        let index = topology.add_switch(format!("s{switch}"), 0);
        let ends = switch == 0 || switch + 1 == switches;
        topology.rack(index, if ends { 2 } else { 1 }, cables);
        if switch > 0 {
            topology.join(End::Switch(switch - 1), End::Switch(index), cables);
        }
    }
    topology
}

#[cfg(test)]
mod tests {
    use super::*;

    const CABLES: Cables = Cables::new(Rate::from_gbps(100), 200);

    #[test]
    fn shapes_have_the_sizes_of_the_papers() {
        let tree = fat_tree(8, CABLES);
        assert_eq!((tree.hosts.len(), tree.switches.len(), tree.links.len()), (128, 80, 384));
        let figure = clos(&ClosShape::FIGURE_7);
        assert_eq!((figure.hosts.len(), figure.switches.len()), (1152, 2 * 28 + 64));
        let between = |low: u8, high: u8| {
            let tier = |end: End| match end {
                End::Switch(index) => Some(figure.switches[index as usize].tier),
                End::Host(_) => None,
            };
            let joins = |link: &&super::super::LinkSpec| {
                let tiers = link.ends.map(tier);
                tiers == [Some(low), Some(high)] || tiers == [Some(high), Some(low)]
            };
            figure.links.iter().filter(joins).count()
        };
        assert_eq!(between(1, 2), 128, "leaf-spine links");
        assert_eq!(between(0, 1), 2 * 24 * 4);
    }

    #[test]
    fn on_a_rail_are_the_same_nics_of_all_servers_of_a_segment() {
        // Two segments of three servers with four NICs each.
        let topology = rail_optimised([2, 3, 4], 2, CABLES, CABLES);
        assert_eq!((topology.hosts.len(), topology.switches.len()), (24, 8 + 2));
        assert_eq!(topology.links.len(), 24 + 8 * 2);
        let racks = super::super::routing::racks(&topology);
        for (host, &rack) in racks.iter().enumerate() {
            let (segment, rail) = (host / 12, host % 4);
            assert_eq!(topology.switches[rack as usize].name, format!("rail{segment}-{rail}"));
        }
    }

    #[test]
    fn names_are_found_again() {
        let topology = leaf_spine(2, 3, 4, CABLES, CABLES);
        assert_eq!(topology.find("spine2"), Some(End::Switch(4)));
        assert_eq!(topology.find("h7"), Some(End::Host(7)));
        assert_eq!(topology.name(End::Switch(1)), "leaf1");
        assert_eq!(topology.find("leaf9"), None);
    }

    #[test]
    fn a_parking_lot_has_two_hosts_at_either_end() {
        let lot = parking_lot(3, CABLES);
        assert_eq!((lot.hosts.len(), lot.switches.len(), lot.links.len()), (5, 3, 7));
    }
}
