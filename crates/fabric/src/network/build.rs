//! Ports and switches, made from a topology and settings.

use rdma::Rate;

use super::{BuildError, NetworkConfig};
use crate::limits::{ALL_PORTS_MAX, FLOWS_MAX, HOSTS_MAX, PORTS_MAX, SWITCHES_MAX};
use crate::packet::LOWER_BYTES;
use crate::plant::{Node, Plant};
use crate::switch::config::{PfcConfig, SwitchConfig};
use crate::switch::{PortSpec, Switch, headroom_bytes};
use crate::topology::End;
use crate::topology::routing::tables;

pub(super) fn check_sizes(config: &NetworkConfig) -> Result<(), BuildError> {
    let topology = &config.topology;
    let sizes = [
        ("hosts", topology.hosts.len(), HOSTS_MAX),
        ("switches", topology.switches.len(), SWITCHES_MAX),
        ("links", topology.links.len(), ALL_PORTS_MAX / 2),
        ("flows", config.flows.len(), FLOWS_MAX),
    ];
    for (what, count, most) in sizes {
        if count > most {
            return Err(BuildError::TooMany(what, most));
        }
    }
    match topology.links.iter().position(|link| link.rate == Rate::ZERO) {
        Some(link) => Err(BuildError::NoRate { link }),
        None => Ok(()),
    }
}

/// Ports and what is at their other ends.
pub(super) struct Wiring {
    /// By switch: the first port.
    first_ports: Vec<u32>,
    /// By switch and local port.
    specs: Vec<Vec<PortSpec>>,
}

impl Wiring {
    /// Adds all ports to the plant and joins them. Ports of a switch are consecutive.
    pub(super) fn of(config: &NetworkConfig, plant: &mut Plant) -> Result<Self, BuildError> {
        let topology = &config.topology;
        let mut ends: Vec<Vec<usize>> = vec![Vec::new(); topology.switches.len()];
        let mut host_links: Vec<Vec<usize>> = vec![Vec::new(); topology.hosts.len()];
        for (index, link) in topology.links.iter().enumerate() {
            for end in link.ends {
                let list = match end {
                    End::Switch(switch) => ends.get_mut(switch as usize),
                    End::Host(host) => host_links.get_mut(host as usize),
                };
                let missing = || BuildError::NoSuchNode(format!("link {index}"));
                list.ok_or_else(missing)?.push(index);
            }
        }
        // By link, the port of each end.
        let mut ports = vec![[u32::MAX; 2]; topology.links.len()];
        let mut place = |index: usize, end: End, port: u32| {
            let link = &topology.links[index];
            let side = usize::from(link.ends[0] != end || ports[index][0] != u32::MAX);
            ports[index][side] = port;
        };
        let mut first_ports = Vec::new();
        for (switch, links) in ends.iter().enumerate() {
            if links.len() > PORTS_MAX {
                return Err(BuildError::TooMany("ports of a switch", PORTS_MAX));
            }
            first_ports.push(plant.ports.len() as u32);
            let pfc = settings(config, switch as u32).pfc;
            for (local, &index) in links.iter().enumerate() {
                let node = Node::Switch(switch as u32);
                let port = plant.add_port(node, local as u16, topology.links[index].rate, pfc);
                plant.port(port).priority_to_queue =
                    settings(config, switch as u32).priority_to_queue;
                place(index, End::Switch(switch as u32), port);
            }
        }
        for (host, links) in host_links.iter().enumerate() {
            let &[index] = links.as_slice() else {
                let host = topology.hosts[host].clone();
                return Err(BuildError::HostLinks { host, links: links.len() });
            };
            let host = host as u32;
            let pfc = config.nics.get(&host).unwrap_or(&config.nic).pfc;
            let port = plant.add_port(Node::Host(host), 0, topology.links[index].rate, pfc);
            plant.host_ports.push(port);
            place(index, End::Host(host), port);
        }
        let latency = |plant: &Plant, port: u32| match plant.ports[port as usize].node {
            Node::Switch(switch) => settings(config, switch).latency.as_ps(),
            Node::Host(_) => 0,
        };
        for (link, ends) in topology.links.iter().zip(&ports) {
            let latencies = [latency(plant, ends[0]), latency(plant, ends[1])];
            plant.connect(*ends, link.propagation.as_ps(), latencies);
        }
        let frame_bytes = longest_frame(config);
        let spec = |plant: &Plant, switch: usize, local: usize, index: usize| {
            let port = first_ports[switch] + local as u32;
            let peer = plant.ports[port as usize].peer;
            let peer = &plant.ports[peer as usize];
            let link = &topology.links[index];
            let latency = settings(config, switch as u32).latency;
            let pfc: PfcConfig = peer.pfc;
            // Two frames beyond the least: shorter frames leave no part of one unused, and a dynamic
            // threshold may have sunk below what a group holds when its next packet comes, which is
            // then in the headroom itself.
            let least = headroom_bytes(link.rate, link.propagation, latency, frame_bytes, &pfc);
            PortSpec {
                headroom: least + 2 * frame_bytes,
                serves: matches!(peer.node, Node::Host(_)),
            }
        };
        let specs = ends
            .iter()
            .enumerate()
            .map(|(switch, links)| {
                let of = |(local, &index)| spec(plant, switch, local, index);
                links.iter().enumerate().map(of).collect()
            })
            .collect();
        Ok(Self { first_ports, specs })
    }
}

fn settings(config: &NetworkConfig, switch: u32) -> &SwitchConfig {
    config.switches.get(&switch).unwrap_or(&config.switch)
}

/// The longest frame that any NIC sends: its MTU, and the longest headers.
fn longest_frame(config: &NetworkConfig) -> u32 {
    let nics = core::iter::once(&config.nic).chain(config.nics.values());
    let headers = (wire::bth::LEN + wire::reth::LEN + 4 + wire::vlan::HEADER_LEN) as u32;
    nics.map(|nic| LOWER_BYTES + headers + nic.mtu.bytes()).max().unwrap_or(0)
}

pub(super) fn switches(config: &NetworkConfig, wiring: &Wiring) -> Result<Vec<Switch>, BuildError> {
    let topology = &config.topology;
    let mut switches = Vec::new();
    for (index, table) in tables(topology).into_iter().enumerate() {
        let own = settings(config, index as u32).clone();
        let buffer_bytes = own.buffer_bytes;
        let first_port = wiring.first_ports[index];
        let mut switch =
            Switch::new(index as u32, first_port, own, &wiring.specs[index]).map_err(|error| {
                BuildError::BufferTooSmall {
                    switch: topology.switches[index].name.clone(),
                    buffer_bytes,
                    reserved_bytes: error.reserved_bytes,
                }
            })?;
        switch.next_hops = table.next_hops;
        switch.members = table.members;
        switches.push(switch);
    }
    Ok(switches)
}
