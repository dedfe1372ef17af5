//! Ports, switches and partitions, made from a topology and settings.

use rdma::Rate;

use super::partition::Partition;
use super::{BuildError, NetworkConfig};
use crate::fault::FaultKind;
use crate::host::Host;
use crate::limits::{ALL_PORTS_MAX, FLOWS_MAX, HOSTS_MAX, PORTS_MAX, SWITCHES_MAX};
use crate::links::{Common, Links, Port};
use crate::nic::NicConfig;
use crate::packet::{ETHERNET_BYTES, LOWER_BYTES};
use crate::switch::config::{ALPHA_EXPONENTS, SwitchConfig};
use crate::switch::{Frames, PortSpec, Switch, classify, headroom_bytes};
use crate::topology::routing::{racks, route_tables};
use crate::topology::units::{Unit, units};
use crate::topology::{End, LinkSpec};
use crate::workload::Service;

/// Above so many hosts a network is divided by default, because its state does not fit the caches.
const HOSTS_UNDIVIDED: usize = 1_000;
/// Partitions with shorter links between them, in picoseconds, would meet too often: 100 ns.
const LOOKAHEAD_LEAST: u64 = 100_000;

/// Checks what can be wrong whatever the topology is.
pub(super) fn check(config: &NetworkConfig) -> Result<(), BuildError> {
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
    let of_switches = config.switches.values().chain([&config.switch]);
    let of_faults = config.faults.iter().filter_map(|fault| match fault.kind {
        FaultKind::AlphaChanges { exponent, .. } => Some(exponent),
        _ => None,
    });
    let mut exponents = of_switches.flat_map(SwitchConfig::alpha_exponents).chain(of_faults);
    if let Some(exponent) = exponents.find(|exponent| !ALPHA_EXPONENTS.contains(exponent)) {
        return Err(BuildError::NoAlpha { exponent });
    }
    match topology.links.iter().position(|link| link.rate == Rate::ZERO) {
        Some(link) => Err(BuildError::NoRate { link }),
        None => Ok(()),
    }
}

/// Ports and what is at their other ends. Ports are numbered unit by unit. Within a unit, the ports of
/// switches come before those of hosts, and those of one switch follow each other.
pub(super) struct Wiring {
    pub(super) units: Vec<Unit>,
    ports: Vec<Port>,
    /// By unit: its first port.
    unit_ports: Vec<u32>,
    /// By switch: its first port.
    first_ports: Vec<u32>,
    host_ports: Vec<u32>,
    /// By switch and local port.
    specs: Vec<Vec<PortSpec>>,
}

impl Wiring {
    pub(super) fn of(config: &NetworkConfig) -> Result<Self, BuildError> {
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
        if ends.iter().any(|links| links.len() > PORTS_MAX) {
            return Err(BuildError::TooMany("ports of a switch", PORTS_MAX));
        }
        if let Some(host) = host_links.iter().position(|links| links.len() != 1) {
            let links = host_links[host].len();
            return Err(BuildError::HostLinks { host: topology.hosts[host].clone(), links });
        }
        let mut wiring = Self {
            units: units(topology),
            ports: Vec::new(),
            unit_ports: Vec::new(),
            first_ports: vec![0; ends.len()],
            host_ports: vec![0; host_links.len()],
            specs: Vec::new(),
        };
        let port_ends = wiring.number(config, &ends, &host_links);
        wiring.join(config, &port_ends);
        wiring.specs =
            (0..ends.len()).map(|switch| wiring.specs_of(config, switch, &ends)).collect();
        Ok(wiring)
    }

    /// Makes the ports. Returns those at the ends of each link.
    fn number(
        &mut self,
        config: &NetworkConfig,
        ends: &[Vec<usize>],
        host_links: &[Vec<usize>],
    ) -> Vec<[u32; 2]> {
        let links = &config.topology.links;
        let mut port_ends = vec![[u32::MAX; 2]; links.len()];
        let mut place = |index: usize, end: End, port: u32| {
            let side = usize::from(links[index].ends[0] != end || port_ends[index][0] != u32::MAX);
            port_ends[index][side] = port;
        };
        for unit in &self.units {
            self.unit_ports.push(self.ports.len() as u32);
            for &switch in &unit.switches {
                self.first_ports[switch as usize] = self.ports.len() as u32;
                let own = config.switch_of(switch);
                for (local, &index) in ends[switch as usize].iter().enumerate() {
                    place(index, End::Switch(switch), self.ports.len() as u32);
                    let node = End::Switch(switch);
                    let mut port = Port::new(node, local as u16, links[index].rate, own.pfc);
                    port.pauses.priority_to_queue = own.priority_to_queue;
                    self.ports.push(port);
                }
            }
            for &host in &unit.hosts {
                let nic = config.nic_of(host);
                for &index in &host_links[host as usize] {
                    self.host_ports[host as usize] = self.ports.len() as u32;
                    place(index, End::Host(host), self.ports.len() as u32);
                    let mut port = Port::new(End::Host(host), 0, links[index].rate, nic.pfc);
                    port.deaf = !nic.lossless_priorities;
                    self.ports.push(port);
                }
            }
        }
        port_ends
    }

    /// Joins the ports at the ends of each link.
    fn join(&mut self, config: &NetworkConfig, port_ends: &[[u32; 2]]) {
        for (link, &[a, b]) in config.topology.links.iter().zip(port_ends) {
            for (from, to) in [(a, b), (b, a)] {
                let latency = match self.ports[to as usize].node {
                    End::Switch(switch) => config.switch_of(switch).latency.as_ps(),
                    End::Host(_) => 0,
                };
                self.ports[from as usize].connect(to, link.propagation.as_ps(), latency);
            }
        }
    }

    fn specs_of(
        &self,
        config: &NetworkConfig,
        switch: usize,
        ends: &[Vec<usize>],
    ) -> Vec<PortSpec> {
        let longest_bytes = longest_frame(config);
        let of = |(local, &index): (usize, &usize)| {
            let port = &self.ports[self.first_ports[switch] as usize + local];
            let peer = self.ports[port.peer as usize].node;
            port_spec(config, &config.topology.links[index], switch as u32, peer, longest_bytes)
        };
        ends[switch].iter().enumerate().map(of).collect()
    }

    /// Divides the network into `partitions`, each of at least one unit.
    pub(super) fn divide(
        mut self,
        config: &NetworkConfig,
        partitions: usize,
    ) -> Result<Vec<Partition>, BuildError> {
        let count = partitions.clamp(1, self.units.len());
        let bounds: Vec<usize> =
            (0..=count).map(|partition| partition * self.units.len() / count).collect();
        let first_port =
            |unit: usize| self.unit_ports.get(unit).map_or(self.ports.len(), |&port| port as usize);
        let port_bounds: Vec<usize> = bounds.iter().map(|&unit| first_port(unit)).collect();
        let partition_of =
            |port: u32| port_bounds.partition_point(|&first| first <= port as usize) - 1;
        for index in 0..self.ports.len() {
            self.ports[index].peer_partition = partition_of(self.ports[index].peer) as u16;
        }
        let common = Common {
            seed: config.seed,
            tuples: Vec::new().into(),
            host_ports: self.host_ports.into(),
            racks: racks(&config.topology).into(),
        };
        // Before the routes, which take longest: a switch may be refused.
        let order = self.units.iter().flat_map(|unit| &unit.switches);
        let switches: Vec<Switch> = order
            .map(|&switch| {
                let (first_port, specs) =
                    (self.first_ports[switch as usize], &self.specs[switch as usize]);
                make_switch(config, switch, first_port, specs)
            })
            .collect::<Result<_, _>>()?;
        let mut switches = switches.into_iter();
        let mut tables = route_tables(&config.topology, &[], &config.weighted());
        let rates = config.topology.host_rates();
        let is_sprayed = config.is_sprayed();
        let mut ports = self.ports.into_iter();
        let mut made = Vec::new();
        for partition in 0..count {
            let units = &self.units[bounds[partition]..bounds[partition + 1]];
            let ports: Vec<Port> =
                ports.by_ref().take(port_bounds[partition + 1] - port_bounds[partition]).collect();
            let first = port_bounds[partition] as u32;
            let links = Links::new(common.clone(), (partition as u16, count as u16), first, ports);
            let mut partition = Partition::new(links);
            for unit in units {
                for (&switch, mut made) in unit.switches.iter().zip(switches.by_ref()) {
                    let own = config.switch_of(switch);
                    let first_port = self.first_ports[switch as usize];
                    for (local, spec) in (0..).zip(&self.specs[switch as usize]) {
                        let port = partition.links.port(first_port + u32::from(local));
                        (port.class, port.strict) = classify(own, local, spec.serves);
                    }
                    made.routes = core::mem::take(&mut tables[switch as usize]);
                    partition.add_switch(made);
                }
                for &host in &unit.hosts {
                    let port = common.host_ports[host as usize];
                    let nic = config.nic_of(host).clone().at_rate(rates[host as usize]);
                    let nic = if is_sprayed { nic.over_many_paths() } else { nic };
                    let model = config.host_of(host);
                    let mut made = Host::new(host, port, nic, config.seed, model);
                    made.paranoid = config.paranoid;
                    partition.add_host(made);
                }
            }
            made.push(partition);
        }
        Ok(made)
    }

    /// How many partitions to make if nobody says so.
    pub(super) fn partitions(&self, config: &NetworkConfig) -> usize {
        let wanted = match config.partitions {
            Some(partitions) => return partitions.max(1) as usize,
            None if config.topology.hosts.len() > HOSTS_UNDIVIDED => self.units.len(),
            None if config.threads > 1 => self.units.len(),
            None => 1,
        };
        let unit_of = |port: u32| self.unit_ports.partition_point(|&first| first <= port);
        let between = self
            .ports
            .iter()
            .enumerate()
            .filter(|(port, at)| unit_of(*port as u32) != unit_of(at.peer));
        let lookahead = between.map(|(_, at)| at.lookahead()).min().unwrap_or(0);
        if lookahead < LOOKAHEAD_LEAST { 1 } else { wanted }
    }
}

/// The port of `switch` at the end of a link to `peer`, for frames of up to `longest_bytes`.
pub(crate) fn port_spec(
    config: &NetworkConfig,
    link: &LinkSpec,
    switch: u32,
    peer: End,
    longest_bytes: u32,
) -> PortSpec {
    let (pfc, serves) = match peer {
        End::Switch(peer) => (config.switch_of(peer).pfc, false),
        End::Host(host) => (config.nic_of(host).pfc, true),
    };
    let own = config.switch_of(switch);
    let frames = Frames { longest_bytes, cell: own.cell };
    let least = headroom_bytes(link.rate, link.propagation, own.latency, frames, &pfc);
    // Two frames beyond the least: shorter frames leave no part of one unused, and a dynamic
    // threshold may have sunk below what a group holds when its next packet comes, which is
    // then in the headroom itself.
    let headroom = least.saturating_add(2 * own.cell.taken_by(longest_bytes));
    PortSpec { headroom, serves }
}

/// The longest frame that any NIC sends: its MTU, and the longest headers; or that of TCP, if a flow
/// has one. Whatever its class, a pause may have to wait until it has left.
pub(crate) fn longest_frame(config: &NetworkConfig) -> u32 {
    let nics = core::iter::once(&config.nic).chain(config.nics.values());
    let tag = wire::vlan::HEADER_LEN as u32;
    let headers = (wire::bth::LEN + wire::reth::LEN + 4) as u32;
    let over_tcp = config.flows.iter().any(|flow| flow.service == Service::Tcp);
    let of_nic = |nic: &NicConfig| {
        let roce = LOWER_BYTES + headers + nic.mtu.bytes();
        let segment = u32::from(ETHERNET_BYTES) + u32::from(nic.tcp.mtu_bytes);
        tag + if over_tcp { roce.max(segment) } else { roce }
    };
    nics.map(of_nic).max().unwrap_or(0)
}

fn make_switch(
    config: &NetworkConfig,
    index: u32,
    first_port: u32,
    specs: &[PortSpec],
) -> Result<Switch, BuildError> {
    let own = config.switch_of(index).clone();
    let buffer_bytes = own.buffer_bytes;
    Switch::new(index, first_port, own, specs, config.seed).map_err(|error| {
        BuildError::BufferTooSmall {
            switch: config.topology.switches[index as usize].name.clone(),
            buffer_bytes,
            reserved_bytes: error.reserved_bytes,
        }
    })
}
