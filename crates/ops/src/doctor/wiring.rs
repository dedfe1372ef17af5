//! The cluster as a topology of the simulator: every interface of a host that has a link is a host of its own.

use std::collections::BTreeMap;

use fabric::topology::{End as Side, StaticRoute, Topology, propagation};
use rdma::Rate;

use super::cluster::{Cluster, End, Node};
use crate::tiers::climb;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Wiring {
    /// Switches have the places that they have in the cluster.
    pub(super) topology: Topology,
    /// By host of the topology: the end that it is.
    pub(super) hosts: Vec<End>,
    /// By switch: its ports, in the order of its links.
    pub(super) ports: Vec<Vec<String>>,
    /// Links of which no file says a rate.
    pub(super) guessed: usize,
}

/// Where no file says a rate or a length.
const RATE_GBPS: u64 = 100;
const CABLE_M: u32 = 5;
/// Above what its role or its hosts say, a switch is at most so many tiers.
const TIERS_MAX: usize = 8;

impl Wiring {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let mut wiring =
            Self { ports: vec![Vec::new(); cluster.switches.len()], ..Self::default() };
        let tiers = tiers(cluster);
        for (switch, tier) in cluster.switches.iter().zip(tiers) {
            wiring.topology.add_switch(&switch.name, tier);
        }
        let mut ends: BTreeMap<Node, usize> = BTreeMap::new();
        for end in cluster.links.iter().flat_map(|link| &link.ends) {
            *ends.entry(end.node).or_default() += 1;
        }
        for link in &cluster.links {
            let mut rate: Option<Rate> = None;
            let mut metres: Option<u32> = None;
            let mut sides = Vec::new();
            for end in &link.ends {
                match end.node {
                    Node::Switch(index) => {
                        let port = cluster.switches.get(index).and_then(|of| of.port(&end.port));
                        // A link runs at what both ends can, and is as long as the longer says.
                        let own = port.and_then(|port| port.rate);
                        rate = rate.map_or(own, |rate| Some(own.map_or(rate, |own| own.min(rate))));
                        metres = metres.max(port.and_then(|port| port.cable_m));
                        wiring.ports[index].push(end.port.clone());
                        sides.push(Side::Switch(index as u32));
                    }
                    Node::Host(index) => {
                        let name = cluster.name(end.node);
                        let name = match ends.get(&end.node) {
                            Some(1) => name.to_owned(),
                            _ => format!("{name}/{}", end.port),
                        };
                        let host = cluster.hosts.get(index);
                        let own = host.and_then(|host| host.interfaces.get(&end.port));
                        let mbps = own.and_then(|own| own.speed_mbps);
                        rate = rate.or(mbps.map(|mbps| Rate::from_bps(mbps * 1_000_000)));
                        sides.push(Side::Host(wiring.topology.add_host(name)));
                        wiring.hosts.push(end.clone());
                    }
                }
            }
            wiring.guessed += usize::from(rate.is_none());
            let rate = rate.unwrap_or(Rate::from_gbps(RATE_GBPS));
            let cable = propagation(metres.unwrap_or(CABLE_M));
            if let [a, b] = sides[..] {
                wiring.topology.link(a, b, rate, cable);
            }
        }
        wiring.topology.routes = static_routes(cluster);
        wiring
    }

    /// The host of the topology with that name, or the only one of that host.
    pub(super) fn host(&self, name: &str) -> Option<u32> {
        match self.topology.find(name) {
            Some(Side::Host(index)) => Some(index),
            _ => {
                let first = self.topology.hosts.iter().position(|host| {
                    host.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
                });
                first.map(|index| index as u32)
            }
        }
    }
}

/// How far from the servers each switch is: as its role says, otherwise as its links do.
fn tiers(cluster: &Cluster) -> Vec<u8> {
    let of_role = |role: &str| {
        let role = role.to_lowercase();
        ["tor", "leaf", "spine"].iter().position(|word| role.contains(word)).map(|at| at as u32)
    };
    let roles = (0..).zip(&cluster.switches);
    let mut tiers: BTreeMap<usize, u32> =
        roles.filter_map(|(at, switch)| Some((at, of_role(&switch.role)?))).collect();
    let mut neighbours: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    // A switch below which there are hosts is a rack's; every other is one above its lowest neighbour.
    for link in &cluster.links {
        match [link.ends[0].node, link.ends[1].node] {
            [Node::Switch(at), Node::Host(_)] | [Node::Host(_), Node::Switch(at)] => {
                tiers.entry(at).or_insert(0);
            }
            [Node::Switch(a), Node::Switch(b)] => {
                neighbours.entry(a).or_default().push(b);
                neighbours.entry(b).or_default().push(a);
            }
            _ => {}
        }
    }
    climb(&mut tiers, &neighbours, TIERS_MAX);
    let of = |at| tiers.get(&at).copied().unwrap_or(0) as u8;
    (0..cluster.switches.len()).map(of).collect()
}

/// `STATIC_ROUTE`s for the networks of racks (`VLAN_INTERFACE`), by the ports that they name.
fn static_routes(cluster: &Cluster) -> Vec<StaticRoute> {
    let mut racks = Vec::new();
    for (index, switch) in cluster.switches.iter().enumerate() {
        for entry in switch.entries("VLAN_INTERFACE") {
            let network = entry.key.split_once('|').and_then(|(_, network)| prefix(network));
            racks.extend(network.map(|network| (index as u32, network)));
        }
    }
    let mut routes = Vec::new();
    for (index, switch) in cluster.switches.iter().enumerate() {
        for entry in switch.entries("STATIC_ROUTE") {
            let text = entry.key.rsplit('|').next().unwrap_or_default();
            let (Some((network, length)), Some(ports)) = (prefix(text), entry.field("ifname"))
            else {
                continue;
            };
            let ports = ports.value.split(',').map(str::trim);
            let peers = ports.filter_map(|port| cluster.peer(Node::Switch(index), port));
            let mut via: Vec<u32> = peers
                .filter_map(|end| match end.node {
                    Node::Switch(to) => Some(to as u32),
                    Node::Host(_) => None,
                })
                .collect();
            via.sort_unstable();
            via.dedup();
            for (rack, (of_rack, rack_length)) in &racks {
                let mask = if length == 0 { 0 } else { u32::MAX << (32 - u32::from(length)) };
                if *rack_length >= length
                    && of_rack & mask == network
                    && !via.is_empty()
                    && *rack != index as u32
                {
                    routes.push(StaticRoute { at: index as u32, to: *rack, via: via.clone() });
                }
            }
        }
    }
    routes
}

/// "10.0.1.1/24" as its network and length.
fn prefix(text: &str) -> Option<(u32, u8)> {
    let (address, length) = text.split_once('/')?;
    let length = length.parse().ok().filter(|length| *length <= 32_u8)?;
    let address: core::net::Ipv4Addr = address.parse().ok()?;
    let mask = if length == 0 { 0 } else { u32::MAX << (32 - u32::from(length)) };
    Some((u32::from(address) & mask, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_networks() {
        assert_eq!(prefix("10.0.1.7/24"), Some((0x0a00_0100, 24)));
        assert_eq!(prefix("0.0.0.0/0"), Some((0, 0)));
        assert_eq!(prefix("10.0.1.7/33"), None);
        assert_eq!(prefix("fe80::1/64"), None);
    }
}
