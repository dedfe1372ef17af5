//! What can be asked of a network, before it runs and afterwards.

use rdma::{Span, Time};

use super::Network;
use super::partition::{Partition, holding};
use crate::address::Tuple;
use crate::counters::{Drops, PauseCounters, PortCounters, WatchdogCounters};
use crate::host::Host;
use crate::links::{Port, head_start};
use crate::nic::CacheCounters;
use crate::packet::LOWER_BYTES;
use crate::switch::Switch;
use crate::switch::config::SwitchConfig;
use crate::topology::{End, Topology};
use crate::workload::Flow;

/// Bytes of a flow that applications have, in order, of messages whole or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// At the destination.
    pub there: u64,
    /// At the source: answers, and what READs ask for.
    pub back: u64,
}

impl Delivered {
    /// In both directions.
    pub const fn bytes(self) -> u64 {
        self.there + self.back
    }
}

impl Network {
    /// The present: the end of the last run, or when the last flow was over, or the deadlock found.
    pub fn now(&self) -> Time {
        Time::from_ps(self.now)
    }

    /// The seed of everything that was left to chance.
    pub fn seed(&self) -> u64 {
        self.common.seed
    }

    /// Into how many partitions it is divided.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Hosts, switches and links.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Every flow, in the order of the settings.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Packets dropped, by cause.
    pub fn drops(&self) -> Drops {
        self.partitions
            .iter()
            .fold(Drops::default(), |sum, partition| sum.plus(&partition.links.drops))
    }

    /// Packets that were put on a link; pauses are not among them.
    pub fn link_hops(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.links.link_hops).sum()
    }

    /// Pause frames that were put on a link.
    pub fn pause_frames(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.links.pfc_frames).sum()
    }

    /// The most packets that were in the network at a time. If it is divided, the sum of the most that
    /// each partition had.
    pub fn packets_at_most(&self) -> usize {
        self.partitions.iter().map(|partition| partition.links.pool.at_most()).sum()
    }

    /// Events that were taken.
    pub fn events(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.events_taken).sum()
    }

    /// The counters of the port of switch `switch` towards `neighbour`.
    pub fn port_counters(&self, switch: u32, neighbour: End) -> Option<PortCounters> {
        let port = self.port_between(neighbour, End::Switch(switch))?;
        let (partition, switch) = self.switch(switch)?;
        Some(switch.counters(&partition.links, port, self.now))
    }

    /// The counters of every port of a switch, with the neighbour of each.
    pub fn switch_counters(&self, switch: u32) -> Vec<(End, PortCounters)> {
        let Some((partition, at)) = self.switch(switch) else { return Vec::new() };
        at.ports()
            .map(|port| {
                let peer = partition.links.at(port).peer;
                (self.at(peer).node, at.counters(&partition.links, port, self.now))
            })
            .collect()
    }

    /// What the priority group `group` of the port of `switch` towards `neighbour` holds now.
    pub fn group_bytes(&self, switch: u32, neighbour: End, group: usize) -> Option<u32> {
        let port = self.port_between(neighbour, End::Switch(switch))?;
        Some(self.switch(switch)?.1.group_bytes(self.at(port).local, group & 7))
    }

    /// What the queue `queue` of the port of `switch` towards `neighbour` holds now.
    pub fn queue_bytes(&self, switch: u32, neighbour: End, queue: usize) -> Option<u32> {
        let port = self.port_between(neighbour, End::Switch(switch))?;
        Some(self.switch(switch)?.1.queue_bytes(self.at(port).local, queue & 7))
    }

    /// The part of a switch's buffer that its groups share.
    pub fn shared_bytes(&self, switch: u32) -> Option<u32> {
        Some(self.switch(switch)?.1.shared_bytes())
    }

    /// The least that was ever free of the memory that the groups of `switch` share.
    pub fn least_free_bytes(&self, switch: u32) -> u64 {
        self.switch(switch).map_or(0, |(_, switch)| switch.least_free_bytes().into())
    }

    /// The pauses that a host has sent and received.
    pub fn host_pauses(&self, host: u32) -> Option<PauseCounters> {
        let port = *self.common.host_ports.get(host as usize)?;
        Some(self.partition(port).links.pause_counters(port, self.now))
    }

    /// How often the NIC of a host looked for translations and contexts, and how often in vain.
    pub fn host_caches(&self, host: u32) -> Option<CacheCounters> {
        Some(self.host(host)?.cache_counters())
    }

    /// Bytes that were delivered in order to the applications at both ends of each flow. What flows on
    /// one queue pair have delivered counts for the first of them.
    pub fn delivered(&self) -> Vec<Delivered> {
        let mut flows = vec![Delivered::default(); self.flows.len()];
        let hosts = self.partitions.iter().flat_map(|partition| &partition.hosts);
        for (host, (flow, bytes)) in
            hosts.flat_map(|host| host.delivered().map(|delivered| (host.index(), delivered)))
        {
            let delivered = &mut flows[flow as usize];
            match self.flows[flow as usize].spec.destination == host {
                true => delivered.there += bytes,
                false => delivered.back += bytes,
            }
        }
        flows
    }

    /// Messages of a flow that took a receive at its destination: SENDs, and WRITEs with immediate
    /// data.
    pub fn received(&self, flow: usize) -> Option<u64> {
        let destination = self.flows.get(flow)?.spec.destination;
        Some(self.host(destination)?.received_of(flow as u32))
    }

    /// The TCP connections of a host whose handshake is over.
    #[cfg(test)]
    pub(crate) fn host_connections(&self, host: u32) -> Option<usize> {
        Some(self.host(host)?.open_connections())
    }

    /// The counters of a host's engines, one for each priority that it uses.
    pub fn host_stats(&self, host: u32) -> Vec<transport::Stats> {
        self.host(host).map_or_else(Vec::new, Host::stats)
    }

    /// What the watchdog of a switch has found and done, at all its ports.
    pub fn watchdog_counters(&self, switch: u32) -> Option<WatchdogCounters> {
        let at = self.switch(switch)?.1;
        let of_ports = (0..at.ports().len()).map(|local| at.watchdog_counters(local as u16));
        Some(of_ports.fold(WatchdogCounters::default(), WatchdogCounters::plus))
    }

    /// How often the watchdog of a host's NIC has told it to pause no more.
    pub fn nic_storms(&self, host: u32) -> Option<u64> {
        Some(self.host(host)?.buffer.storms)
    }

    /// ARP requests that the CPU of a switch has made.
    pub fn arp_requests(&self, switch: u32) -> Option<u64> {
        Some(self.switch(switch)?.1.arp_requests())
    }

    /// Settings of a switch, as they are in force.
    pub(crate) fn switch_config(&self, switch: u32) -> Option<&SwitchConfig> {
        Some(&self.switch(switch)?.1.config)
    }

    /// The TCP port at the destination of the segments of `tuple`.
    pub(crate) fn tcp_port(&self, tuple: &Tuple) -> Option<u16> {
        self.host(tuple.destination)?.tcp_port(tuple.source, tuple.source_port)
    }

    /// How long a WRITE of `bytes` from `source` to `destination` takes from post to completion, if
    /// nobody else sends, until the last frame's acknowledgement has returned.
    pub fn unloaded(&self, source: u32, destination: u32, bytes: u32) -> Option<Span> {
        let there = self.path(source, destination, 0)?;
        let back = self.path(destination, source, 0)?;
        let mtu = self.host(source)?.config.mtu;
        let packets = mtu.packets(bytes);
        let bth = wire::bth::LEN as u32;
        let mut arrival = 0;
        let mut free = vec![0; there.len()];
        for packet in 0..packets {
            let payload = (bytes - packet * mtu.bytes()).min(mtu.bytes());
            let reth = if packet == 0 { wire::reth::LEN as u32 } else { 0 };
            let frame = LOWER_BYTES + bth + reth + payload.next_multiple_of(4);
            arrival = self.cross(&there, &mut free, 0, frame);
        }
        let acknowledgement = LOWER_BYTES + bth + wire::aeth::LEN as u32;
        let arrival = self.cross(&back, &mut vec![0; back.len()], arrival, acknowledgement);
        Some(Span::from_ps(arrival))
    }

    /// The same where at each switch on the way, there and back, a priority group has filled the queue that it waits in:
    /// as much as one may take alone.
    pub fn behind_full_queues(&self, source: u32, destination: u32, bytes: u32) -> Option<Span> {
        let mut ps = self.unloaded(source, destination, bytes)?.as_ps();
        let there = self.path(source, destination, 0)?;
        let back = self.path(destination, source, 0)?;
        for port in there.into_iter().chain(back).map(|port| self.at(port)) {
            if let End::Switch(switch) = port.node {
                let held = self.switch(switch)?.1.largest_group_bytes();
                ps = ps.saturating_add(port.rate.ps(held.into()));
            }
        }
        Some(Span::from_ps(ps))
    }

    /// When a frame has crossed `path`, of whose ports each is free at a time, and from which it then takes
    /// until the next; the first it may take at `at`.
    pub(super) fn cross(&self, path: &[u32], free: &mut [u64], mut at: u64, frame: u32) -> u64 {
        let frame = u64::from(frame);
        let mut ingress: Option<&Port> = None;
        for (&port, free) in path.iter().zip(free) {
            let port = self.at(port);
            let start = match (ingress, port.node) {
                (Some(ingress), End::Switch(switch)) if self.cuts_through(switch) => {
                    head_start(ingress.rate, port.rate, frame)
                }
                _ => 0,
            };
            // Who has to wait is stored.
            let begins = if *free > at { *free } else { (at - start.min(at)).max(*free) };
            (at, *free) = port.hop(begins, frame);
            ingress = Some(port);
        }
        at
    }

    fn cuts_through(&self, switch: u32) -> bool {
        self.switch(switch).is_some_and(|(_, switch)| switch.config.cut_through)
    }

    /// The receiving port, at `to`, of the link that comes from `from`.
    pub(super) fn port_between(&self, from: End, to: End) -> Option<u32> {
        let mut ports = match to {
            End::Host(host) => {
                let port = *self.common.host_ports.get(host as usize)?;
                port..port + 1
            }
            End::Switch(switch) => self.switch(switch)?.1.ports(),
        };
        ports.find(|&port| self.at(self.at(port).peer).node == from)
    }

    // ---- where things are

    /// The number of the partition that a port is in.
    pub(super) fn partition_of(&self, port: u32) -> usize {
        holding(&self.partitions, port)
    }

    pub(super) fn partition(&self, port: u32) -> &Partition {
        &self.partitions[self.partition_of(port)]
    }

    pub(super) fn partition_mut(&mut self, port: u32) -> &mut Partition {
        let partition = self.partition_of(port);
        &mut self.partitions[partition]
    }

    pub(super) fn at(&self, port: u32) -> &Port {
        self.partition(port).links.at(port)
    }

    /// The port of a host that there is.
    pub(super) fn host_port(&self, host: u32) -> u32 {
        self.common.host_ports[host as usize]
    }

    /// The port of the host that a flow starts at.
    pub(super) fn flow_source(&self, flow: u32) -> u32 {
        self.host_port(self.flows[flow as usize].spec.source)
    }

    pub(super) fn host(&self, host: u32) -> Option<&Host> {
        let port = *self.common.host_ports.get(host as usize)?;
        let partition = self.partition(port);
        partition.hosts.get(partition.links.at(port).slot as usize)
    }

    pub(super) fn host_mut(&mut self, host: u32) -> &mut Host {
        let port = self.host_port(host);
        self.partition_mut(port).host_at(port).0
    }

    pub(super) fn switch(&self, switch: u32) -> Option<(&Partition, &Switch)> {
        let (partition, slot) = *self.switches.get(switch as usize)?;
        let partition = &self.partitions[partition];
        Some((partition, &partition.switches[slot]))
    }
}
