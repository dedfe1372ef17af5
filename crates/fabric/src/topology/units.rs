//! Units: the smallest pieces into which a network can be divided.
//!
//! ```text
//!        S0   S1   S2   S3      switches of the highest tier are dealt out
//!       ─┼────┼────┼────┼─
//!      ┌─┴──┐         ┌─┴──┐
//!      │pod │         │pod │    what hangs together below them is a unit, its hosts included
//!      └────┘         └────┘
//! ```
//!
//! Where all switches are of one tier, each is a unit with its hosts. The units and their order are
//! those of the topology alone, whatever is made of them.

use super::routing::racks;
use super::{End, Topology};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Unit {
    pub(crate) switches: Vec<u32>,
    pub(crate) hosts: Vec<u32>,
}

/// The units of a topology, at least one.
pub(crate) fn units(topology: &Topology) -> Vec<Unit> {
    let tier = |switch: u32| topology.switches[switch as usize].tier;
    let count = topology.switches.len() as u32;
    let top = (0..count).map(tier).max().unwrap_or(0);
    let flat = (0..count).all(|switch| tier(switch) == top);
    let below = |switch: u32| switch < count && tier(switch) < top;

    // Each switch points at one that it belongs together with, and the first of them at itself.
    let mut leads: Vec<u32> = (0..count).collect();
    fn first(leads: &mut [u32], mut at: u32) -> u32 {
        while leads[at as usize] != at {
            let next = leads[leads[at as usize] as usize];
            leads[at as usize] = next;
            at = next;
        }
        at
    }
    for link in &topology.links {
        if let [End::Switch(a), End::Switch(b)] = link.ends
            && below(a)
            && below(b)
        {
            let (a, b) = (first(&mut leads, a), first(&mut leads, b));
            leads[a.max(b) as usize] = a.min(b);
        }
    }
    let mut units: Vec<Unit> = Vec::new();
    let mut unit_of = vec![usize::MAX; count as usize];
    for switch in (0..count).filter(|&switch| flat || below(switch)) {
        let leader = first(&mut leads, switch) as usize;
        if unit_of[leader] == usize::MAX {
            unit_of[leader] = units.len();
            units.push(Unit::default());
        }
        unit_of[switch as usize] = unit_of[leader];
        units[unit_of[leader]].switches.push(switch);
    }
    if units.is_empty() {
        units.push(Unit::default());
    }
    let tops: Vec<u32> = (0..count).filter(|&switch| !flat && !below(switch)).collect();
    for (index, &switch) in tops.iter().enumerate() {
        let unit = index * units.len() / tops.len();
        unit_of[switch as usize] = unit;
        units[unit].switches.push(switch);
    }
    for (host, &rack) in racks(topology).iter().enumerate() {
        let unit = unit_of.get(rack as usize).copied().unwrap_or(0);
        units[unit].hosts.push(host as u32);
    }
    units
}

#[cfg(test)]
mod tests {
    use super::super::{Cables, ClosShape, back_to_back, clos, fat_tree, leaf_spine, parking_lot};
    use super::*;
    use rdma::Rate;

    const CABLES: Cables = Cables::new(Rate::from_gbps(100), 200);

    fn sizes(topology: &Topology) -> Vec<(usize, usize)> {
        units(topology).iter().map(|unit| (unit.switches.len(), unit.hosts.len())).collect()
    }

    #[test]
    fn pods_and_racks_are_units_and_the_highest_tier_is_dealt_out() {
        assert_eq!(sizes(&fat_tree(4, CABLES)), [(5, 4); 4]);
        assert_eq!(sizes(&clos(&ClosShape::FIGURE_7)), [(28 + 32, 576); 2]);
        assert_eq!(sizes(&leaf_spine(3, 2, 5, CABLES, CABLES)), [(2, 5), (2, 5), (1, 5)]);
        assert_eq!(sizes(&parking_lot(3, CABLES)), [(1, 2), (1, 1), (1, 2)]);
        assert_eq!(sizes(&back_to_back(CABLES)), [(0, 2)]);
    }

    #[test]
    fn every_node_is_in_one_unit() {
        let topology = clos(&ClosShape::FIGURE_7);
        let units = units(&topology);
        let mut switches: Vec<u32> = units.iter().flat_map(|unit| unit.switches.clone()).collect();
        switches.sort_unstable();
        assert_eq!(switches, (0..topology.switches.len() as u32).collect::<Vec<_>>());
        assert_eq!(units.iter().map(|unit| unit.hosts.len()).sum::<usize>(), topology.hosts.len());
    }
}
