//! Next hops: shortest paths that go up, then down, and never up again.
//!
//! For every rack (a switch with hosts) two distances are computed at every switch:
//!
//! ```text
//!   down(S)  over links that do not lead up     the rack itself: 0
//!   any(S)   down(S) if there is one, else 1 + the least any(T) over links up to T
//! ```
//!
//! A switch below which the rack is sends down, always; so what has come down never climbs again,
//! and the buffers of a Clos depend on each other in no circle (guo16, 4.2). What breaks that rule is
//! flooding, or a static route.
//!
//! Next hops count alike in ECMP, or, at a switch that weighs them (WCMP: Zhou et al., EuroSys 2014), by what can
//! flow on to the rack by each: a member stands in its set as often as it counts.

use std::collections::BTreeMap;

use rdma::Rate;

use super::{End, Topology};

/// Where a switch sends packets for a rack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextHop {
    /// Nowhere.
    None,
    /// The rack is its own.
    Local,
    /// By this local port.
    Port(u16),
    /// By one of these: a range of [`RouteTable::members`].
    Ports { first: u16, count: u16 },
}

/// The next hops of one switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RouteTable {
    /// By rack, that is by switch.
    pub(crate) next_hops: Vec<NextHop>,
    /// Local ports, as often as they count.
    pub(crate) members: Vec<u16>,
}

impl RouteTable {
    /// The local ports by one of which packets for a rack leave, as often as they count; none if it is the
    /// switch's own, or unknown.
    pub(crate) fn ports_to(&self, rack: u32) -> &[u16] {
        match self.next_hops.get(rack as usize) {
            Some(NextHop::Port(port)) => core::slice::from_ref(port),
            Some(&NextHop::Ports { first, count }) => {
                &self.members[usize::from(first)..usize::from(first) + usize::from(count)]
            }
            Some(NextHop::None | NextHop::Local) | None => &[],
        }
    }
}

/// By switch and by rack, the neighbours by one of which packets for the rack leave: none where the rack is the
/// switch itself, where no path leads, and for switches without hosts.
pub fn next_hops(topology: &Topology) -> Vec<Vec<Vec<u32>>> {
    let neighbours = neighbours(topology, &[]);
    let tables = route_tables(topology, &[], &[]);
    let of = |(hops, table): (&Vec<Neighbour>, &RouteTable)| {
        let to = |rack: u32| {
            let ports = table.ports_to(rack);
            let mut found: Vec<u32> =
                hops.iter().filter(|hop| ports.contains(&hop.port)).map(|hop| hop.switch).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        (0..neighbours.len() as u32).map(to).collect()
    };
    neighbours.iter().zip(&tables).map(of).collect()
}

/// A link of a switch to another.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    /// The local port.
    port: u16,
    switch: u32,
    rate: Rate,
}

/// A next hop counts at most so often.
const WEIGHT_MAX: u64 = 32;

/// The neighbours of each switch, in the order of their ports, but those over links that are `down`.
fn neighbours(topology: &Topology, down: &[usize]) -> Vec<Vec<Neighbour>> {
    let mut ports = vec![0u16; topology.switches.len()];
    let mut all = vec![Vec::new(); topology.switches.len()];
    for (index, link) in topology.links.iter().enumerate() {
        let locals = link.ends.map(|end| match end {
            End::Switch(switch) => {
                let port = &mut ports[switch as usize];
                *port += 1;
                Some((switch, *port - 1))
            }
            End::Host(_) => None,
        });
        if let [Some((a, port_a)), Some((b, port_b))] = locals
            && !down.contains(&index)
        {
            all[a as usize].push(Neighbour { port: port_a, switch: b, rate: link.rate });
            all[b as usize].push(Neighbour { port: port_b, switch: a, rate: link.rate });
        }
    }
    all
}

/// By host, the switch that it hangs on; `u32::MAX` if it hangs on a host.
pub(crate) fn racks(topology: &Topology) -> Vec<u32> {
    let mut racks = vec![u32::MAX; topology.hosts.len()];
    for link in &topology.links {
        match link.ends {
            [End::Host(host), End::Switch(switch)] | [End::Switch(switch), End::Host(host)] => {
                racks[host as usize] = switch;
            }
            _ => {}
        }
    }
    racks
}

/// The tables of all switches, which go round the links that are `down`. Those that are `weighted` weigh their
/// next hops.
pub(crate) fn route_tables(
    topology: &Topology,
    down: &[usize],
    weighted: &[bool],
) -> Vec<RouteTable> {
    let count = topology.switches.len();
    let neighbours = neighbours(topology, down);
    let mut tables =
        vec![RouteTable { next_hops: vec![NextHop::None; count], members: Vec::new() }; count];
    let mut sets: Vec<BTreeMap<Vec<u16>, u16>> = vec![BTreeMap::new(); count];
    let mut destinations = racks(topology);
    destinations.retain(|&rack| rack != u32::MAX);
    destinations.sort_unstable();
    destinations.dedup();
    for rack in destinations {
        let distances = Distances::to(rack, topology, &neighbours);
        let flows = match weighted.contains(&true) {
            true => distances.flows(rack, topology, &neighbours),
            false => Vec::new(),
        };
        for (at, table) in tables.iter_mut().enumerate() {
            if at as u32 == rack {
                table.next_hops[rack as usize] = NextHop::Local;
                continue;
            }
            let forced = topology
                .routes
                .iter()
                .find(|route| (route.at, route.to) == (at as u32, rack))
                .map(|route| &route.via);
            let hops: Vec<Neighbour> = neighbours[at]
                .iter()
                .filter(|hop| match forced {
                    Some(via) => via.contains(&hop.switch),
                    None => distances.leads(topology, at as u32, hop.switch),
                })
                .copied()
                .collect();
            if hops.is_empty() {
                continue;
            }
            let ports = match weighted.get(at) {
                Some(true) => members(&hops, &flows),
                _ => hops.iter().map(|hop| hop.port).collect(),
            };
            if let [only] = ports[..] {
                table.next_hops[rack as usize] = NextHop::Port(only);
                continue;
            }
            let first = *sets[at].entry(ports.clone()).or_insert_with(|| {
                let first = table.members.len() as u16;
                table.members.extend(&ports);
                first
            });
            table.next_hops[rack as usize] = NextHop::Ports { first, count: ports.len() as u16 };
        }
    }
    tables
}

struct Distances {
    down: Vec<u32>,
    any: Vec<u32>,
}

const FAR: u32 = u32::MAX - 1;

impl Distances {
    fn to(rack: u32, topology: &Topology, neighbours: &[Vec<Neighbour>]) -> Self {
        let tier = |switch: u32| topology.switches[switch as usize].tier;
        let count = topology.switches.len();
        let mut down = vec![FAR; count];
        down[rack as usize] = 0;
        let mut frontier = vec![rack];
        while !frontier.is_empty() {
            let mut next = Vec::new();
            for &at in &frontier {
                for &Neighbour { switch: from, .. } in &neighbours[at as usize] {
                    // From `from` to `at` the way does not lead up.
                    if tier(from) >= tier(at) && down[from as usize] == FAR {
                        down[from as usize] = down[at as usize] + 1;
                        next.push(from);
                    }
                }
            }
            frontier = next;
        }
        let mut any = down.clone();
        // The highest know first: a way up ends at a switch above.
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by_key(|&switch| core::cmp::Reverse(tier(switch)));
        for at in order {
            if down[at as usize] < FAR {
                continue;
            }
            any[at as usize] = neighbours[at as usize]
                .iter()
                .filter(|hop| tier(hop.switch) > tier(at))
                .map(|hop| any[hop.switch as usize].saturating_add(1).min(FAR))
                .min()
                .unwrap_or(FAR);
        }
        Self { down, any }
    }

    /// By switch, what can flow from it to `rack` along shortest paths, in bits per second.
    fn flows(&self, rack: u32, topology: &Topology, neighbours: &[Vec<Neighbour>]) -> Vec<u64> {
        let mut flows = vec![0; neighbours.len()];
        flows[rack as usize] = u64::MAX;
        // Who is nearer knows first; those below which the rack is are before those that go up.
        let mut order: Vec<usize> = (0..neighbours.len()).collect();
        order.retain(|&at| at as u32 != rack && self.any[at] < FAR);
        order.sort_by_key(|&at| (self.down[at], self.any[at]));
        for at in order {
            let leads = |hop: &&Neighbour| self.leads(topology, at as u32, hop.switch);
            let hops: Vec<Neighbour> = neighbours[at].iter().filter(leads).copied().collect();
            let shares = hops.iter().map(|hop| share(hop, &hops, &flows));
            flows[at] = shares.fold(0, u64::saturating_add);
        }
        flows
    }

    /// Whether a shortest path from `at` goes by `next`.
    fn leads(&self, topology: &Topology, at: u32, next: u32) -> bool {
        let tier = |switch: u32| topology.switches[switch as usize].tier;
        let (at_index, next_index) = (at as usize, next as usize);
        if self.down[at_index] < FAR {
            tier(next) <= tier(at) && self.down[next_index] + 1 == self.down[at_index]
        } else {
            tier(next) > tier(at)
                && self.any[next_index] < FAR
                && self.any[next_index] + 1 == self.any[at_index]
        }
    }
}

/// What can flow on by one of several next hops. Parallel links share what their switch can pass on.
fn share(hop: &Neighbour, hops: &[Neighbour], flows: &[u64]) -> u64 {
    let parallel = hops.iter().filter(|other| other.switch == hop.switch);
    let together: u128 = parallel.map(|other| u128::from(other.rate.as_bps())).sum();
    let beyond = u128::from(flows[hop.switch as usize]) * u128::from(hop.rate.as_bps());
    hop.rate.as_bps().min(u64::try_from(beyond / together.max(1)).unwrap_or(u64::MAX))
}

/// The ports of these next hops, as often as they count.
fn members(hops: &[Neighbour], flows: &[u64]) -> Vec<u16> {
    let shares: Vec<u64> = hops.iter().map(|hop| share(hop, hops, flows)).collect();
    let divisor = shares.iter().fold(0, |a, &b| gcd(a, b)).max(1);
    let most = shares.iter().max().map_or(1, |most| most / divisor).max(1);
    let weight = |share: u64| match most > WEIGHT_MAX {
        true => (share / divisor * WEIGHT_MAX + most / 2) / most,
        false => share / divisor,
    };
    let counts = shares.iter().map(|&share| weight(share).max(1) as usize);
    hops.iter().zip(counts).flat_map(|(hop, count)| vec![hop.port; count]).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::{Cables, ClosShape, StaticRoute, clos, fat_tree, leaf_spine, parking_lot};
    use super::*;
    use rdma::Rate;

    const CABLES: Cables = Cables::new(Rate::from_gbps(100), 200);

    fn count(table: &RouteTable, rack: usize) -> u16 {
        match table.next_hops[rack] {
            NextHop::Port(_) => 1,
            NextHop::Ports { count, .. } => count,
            NextHop::None => 0,
            NextHop::Local => u16::MAX,
        }
    }

    /// Every path from switch `at` to `rack`, as lists of switches.
    fn paths(topology: &Topology, tables: &[RouteTable], at: u32, rack: u32) -> Vec<Vec<u32>> {
        if at == rack {
            return vec![vec![at]];
        }
        let neighbours = neighbours(topology, &[]);
        let mut all = Vec::new();
        for &member in tables[at as usize].ports_to(rack) {
            let hop = neighbours[at as usize].iter().find(|hop| hop.port == member).unwrap();
            let next = hop.switch;
            for rest in paths(topology, tables, next, rack) {
                all.push([vec![at], rest].concat());
            }
        }
        all
    }

    #[test]
    fn every_path_of_a_fat_tree_goes_up_then_down() {
        let topology = fat_tree(4, CABLES);
        let tables = route_tables(&topology, &[], &[]);
        let racks: Vec<u32> = (0..topology.switches.len() as u32)
            .filter(|&switch| topology.switches[switch as usize].tier == 0)
            .collect();
        for &from in &racks {
            for &to in &racks {
                let all = paths(&topology, &tables, from, to);
                let same_pod = topology.switches[from as usize].name[..4]
                    == topology.switches[to as usize].name[..4];
                let expected = if from == to {
                    1
                } else if same_pod {
                    2
                } else {
                    4
                };
                assert_eq!(all.len(), expected, "{from} to {to}");
                for path in all {
                    let tiers: Vec<u8> =
                        path.iter().map(|&at| topology.switches[at as usize].tier).collect();
                    let top = tiers.iter().position(|tier| tier == tiers.iter().max().unwrap());
                    let (up, down) = tiers.split_at(top.unwrap());
                    assert!(up.is_sorted() && down.iter().rev().is_sorted(), "{tiers:?}");
                }
            }
        }
    }

    #[test]
    fn figure_7_spreads_over_4_leaves_and_16_spines() {
        let topology = clos(&ClosShape::FIGURE_7);
        let tables = route_tables(&topology, &[], &[]);
        let End::Switch(tor) = topology.find("tor0-0").unwrap() else { panic!() };
        let End::Switch(other) = topology.find("tor1-5").unwrap() else { panic!() };
        let End::Switch(leaf) = topology.find("leaf0-2").unwrap() else { panic!() };
        let End::Switch(spine) = topology.find("spine40").unwrap() else { panic!() };
        assert_eq!(count(&tables[tor as usize], other as usize), 4);
        assert_eq!(count(&tables[leaf as usize], other as usize), 16);
        assert_eq!(count(&tables[spine as usize], other as usize), 1);
        assert_eq!(count(&tables[tor as usize], tor as usize), u16::MAX);
    }

    #[test]
    fn a_chain_is_routed_along_itself() {
        let topology = parking_lot(4, CABLES);
        let tables = route_tables(&topology, &[], &[]);
        assert_eq!(paths(&topology, &tables, 0, 3), [[0, 1, 2, 3]]);
    }

    #[test]
    fn a_static_route_takes_the_place_of_the_computed_one() {
        let mut topology = leaf_spine(2, 2, 1, CABLES, CABLES);
        topology.routes.push(StaticRoute { at: 0, to: 1, via: vec![3] });
        let tables = route_tables(&topology, &[], &[]);
        assert_eq!(paths(&topology, &tables, 0, 1), [[0, 3, 1]]);
        assert_eq!(paths(&topology, &tables, 1, 0).len(), 2);
    }

    /// How often each neighbour of switch `at` counts for `rack`.
    fn counts(topology: &Topology, down: &[usize], at: u32, rack: u32) -> Vec<(u32, usize)> {
        let weighted = vec![true; topology.switches.len()];
        let table = &route_tables(topology, down, &weighted)[at as usize];
        let members = table.ports_to(rack);
        let neighbours = &neighbours(topology, &[])[at as usize];
        let times = |hop: &Neighbour| members.iter().filter(|port| **port == hop.port).count();
        let all = neighbours.iter().map(|hop| (hop.switch, times(hop)));
        all.filter(|(_, times)| *times > 0).collect()
    }

    #[test]
    fn weighted_next_hops_count_by_what_can_flow_on() {
        // Leaves 0 and 1, spines 2 and 3. All alike count once.
        let mut topology = leaf_spine(2, 2, 1, CABLES, CABLES);
        assert_eq!(counts(&topology, &[], 0, 1), [(2, 1), (3, 1)]);
        // Spine 2 has a third of the rate to leaf 1.
        let slow = Rate::from_gbps(25);
        let between = |topology: &Topology, a: u32, b: u32| {
            let ends = [End::Switch(a), End::Switch(b)];
            let links = topology.links.iter();
            links.clone().position(|link| link.ends == ends).unwrap()
        };
        let third = between(&topology, 1, 2);
        topology.links[third].rate = slow;
        assert_eq!(counts(&topology, &[], 0, 1), [(2, 1), (3, 4)]);
        // The way back is weighed by the own link.
        assert_eq!(counts(&topology, &[], 1, 0), [(2, 1), (3, 4)]);
        // Rates without a small ratio are rounded, and nobody counts for nothing.
        topology.links[third].rate = Rate::from_bps(333_333_333);
        assert_eq!(counts(&topology, &[], 0, 1), [(2, 1), (3, 32)]);
    }

    #[test]
    fn a_spine_that_has_lost_one_of_two_leaves_counts_half() {
        // Two pods; a rack in each; two leaves in each, with two spines of its own.
        let shape = ClosShape {
            podsets: 2,
            tors: 1,
            leaves: 2,
            spines: 4,
            hosts: 1,
            host_cables: CABLES,
            tor_cables: CABLES,
            spine_cables: Cables::new(Rate::from_gbps(50), 200),
        };
        let topology = clos(&shape);
        let switch = |name: &str| match topology.find(name) {
            Some(End::Switch(index)) => index,
            _ => panic!("{name}"),
        };
        let [tor, other] = ["tor0-0", "tor1-0"].map(switch);
        let [first, second] = ["leaf0-0", "leaf0-1"].map(switch);
        assert_eq!(counts(&topology, &[], tor, other), [(first, 1), (second, 1)]);
        let ends = [End::Switch(first), End::Switch(switch("spine0"))];
        let lost = topology.links.iter().position(|link| link.ends == ends).unwrap();
        assert_eq!(counts(&topology, &[lost], tor, other), [(first, 1), (second, 2)]);
    }

    #[test]
    fn routes_go_round_links_that_are_down() {
        let topology = leaf_spine(2, 3, 1, CABLES, CABLES);
        let between = |a: u32, b: u32| {
            let ends = [End::Switch(a), End::Switch(b)];
            let joins = |link: &super::super::LinkSpec| {
                link.ends == ends || link.ends == [ends[1], ends[0]]
            };
            topology.links.iter().position(joins).unwrap()
        };
        assert_eq!(count(&route_tables(&topology, &[], &[])[0], 1), 3);
        // Leaf 0 to spine 2, and spine 3 to leaf 1: one way is left.
        let down = [between(0, 2), between(3, 1)];
        let tables = route_tables(&topology, &down, &[]);
        assert_eq!(paths(&topology, &tables, 0, 1), [[0, 4, 1]]);
        let all = [between(0, 2), between(0, 3), between(0, 4)];
        assert_eq!(count(&route_tables(&topology, &all, &[])[0], 1), 0);
    }
}
