//! The counters of every port, as results, labs and exporters show them.

use super::Network;
use crate::counters::{Counters, NicCounters, PortCounted, PortCounters, Traffic};
use crate::pfc::PRIORITIES;
use crate::topology::End;

impl Network {
    /// Every port of every switch, then every host's, in their orders.
    pub fn counted(&self) -> Vec<PortCounted> {
        let switches = 0..self.topology.switches.len() as u32;
        let of_switches = switches.flat_map(|index| {
            let ports = self.switch(index).map(|(_, switch)| switch.ports());
            ports.into_iter().flatten().map(|port| self.port_counted(port))
        });
        let hosts = (0..self.topology.hosts.len() as u32).map(|host| self.host_port(host));
        of_switches.chain(hosts.map(|port| self.port_counted(port))).collect()
    }

    fn port_counted(&self, port: u32) -> PortCounted {
        let at = self.at(port);
        let peer = self.at(at.peer).node;
        let links = &self.partition(port).links;
        let (queue_bytes, counters) = match at.node {
            End::Switch(switch) => {
                let queues = |queue| self.queue_of(port, switch, queue);
                let counters = self.counters_at(switch, port).unwrap_or_default();
                (core::array::from_fn(queues), Counters::Switch(Box::new(counters)))
            }
            End::Host(host) => {
                (self.frames_waiting(host), Counters::Nic(Box::new(self.nic_counters(host))))
            }
        };
        PortCounted {
            node: self.topology.name(at.node).to_owned(),
            neighbour: self.topology.name(peer).to_owned(),
            rate_bps: at.rate.rate().as_bps(),
            is_down: links.damage(port).1,
            paused: at.paused,
            queue_bytes,
            counters,
        }
    }

    fn queue_of(&self, port: u32, switch: u32, queue: usize) -> u64 {
        let local = self.at(port).local;
        self.switch(switch).map_or(0, |(_, switch)| switch.queue_bytes(local, queue).into())
    }

    fn counters_at(&self, switch: u32, port: u32) -> Option<PortCounters> {
        let (partition, switch) = self.switch(switch)?;
        Some(switch.counters(&partition.links, port, self.now))
    }

    /// What the NIC of a host has counted.
    pub fn nic_counters(&self, host: u32) -> NicCounters {
        let port = self.host_port(host);
        let mut counters = NicCounters {
            rx_errors: self.partition(port).links.damage(port).0,
            pause: self.host_pauses(host).unwrap_or_default(),
            storms: self.nic_storms(host).unwrap_or(0),
            ..NicCounters::default()
        };
        match self.host(host).and_then(|host| host.traffic()) {
            Some([tx, rx, discards]) => {
                (counters.tx, counters.rx, counters.rx_discards) = (tx, rx, discards.packets);
            }
            None => {
                (counters.tx, counters.rx) = self.traffic_by_switch(port).unwrap_or_default();
            }
        }
        for stats in self.host_stats(host) {
            counters.engines.resize(transport::Stats::NAMES.len(), 0);
            for (sum, value) in counters.engines.iter_mut().zip(stats.values()) {
                *sum += value;
            }
        }
        counters
    }

    /// What a host has sent and received, as its switch counts it.
    fn traffic_by_switch(&self, port: u32) -> Option<(Traffic, Traffic)> {
        let peer = self.at(port).peer;
        let End::Switch(index) = self.at(peer).node else { return None };
        let counters = self.counters_at(index, peer)?;
        let (_, switch) = self.switch(index)?;
        let mut tx = Traffic::default();
        for group in 0..PRIORITIES {
            let priority = usize::from(switch.config.group_to_priority[group] & 7);
            tx.packets[priority] += counters.group_packets[group];
            tx.bytes[priority] += counters.group_bytes[group];
        }
        let rx = Traffic { packets: counters.queue_packets, bytes: counters.queue_bytes };
        Some((tx, rx))
    }
}
