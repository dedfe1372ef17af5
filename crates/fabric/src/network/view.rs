//! What the ports of a network have done so far, all at once: what samples and reports are made of.

use rdma::Time;

use wire::ethernet::Address;

use super::{BuildError, Network};
use crate::address::{mac_of_host, mac_of_port};
use crate::capture::{Capture, Room, Seen, Tap};
use crate::counters::{PauseCounters, PortCounters};
use crate::nic::NicConfig;
use crate::pfc::PRIORITIES;
use crate::switch::config::SwitchConfig;
use crate::topology::End;

/// One end of a link, as it stands now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortView {
    /// Where the port is.
    pub(crate) at: End,
    /// Where it leads to.
    pub(crate) to: End,
    /// By queue, or priority of a host: bytes of frames sent. For a host it is what its switch received
    /// of it; between two hosts, the payload.
    pub(crate) sent_bytes: [u64; PRIORITIES],
    /// By queue: what waits. A host keeps nothing between engine and port.
    pub(crate) queue_bytes: [u32; PRIORITIES],
    /// By priority: pauses that it has sent and received.
    pub(crate) pauses: PauseCounters,
    /// The queue that each priority's pauses stop.
    pub(crate) priority_to_queue: [u8; PRIORITIES],
}

/// A port as a capture sees it, and what lies behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortEnd {
    /// Where the port is.
    pub(crate) at: End,
    /// Where it leads to.
    pub(crate) to: End,
    /// Its number.
    pub(crate) port: u32,
    /// The port at the other end.
    pub(crate) peer: u32,
    pub(crate) mac: Address,
    pub(crate) rate_bps: u64,
    /// From the last bit of a packet that it sends to the queue or engine at the other end, and the
    /// same of a pause frame, in picoseconds.
    pub(crate) delays: (u64, u64),
}

impl Network {
    /// Puts taps at both ends of every link of which a port is to be captured, for the file at the end.
    pub(super) fn install_taps(&mut self) -> Result<(), BuildError> {
        let ports: Vec<PortEnd> = self.port_ends().collect();
        let mut tapped = Vec::new();
        for (index, capture) in self.captures.iter().enumerate() {
            let before = tapped.len();
            for port in ports.iter().filter(|port| capture.covers(port.at, port.to)) {
                tapped.extend([port.port, port.peer]);
            }
            if tapped.len() == before {
                return Err(BuildError::NoSuchNode(format!("capture {index}")));
            }
        }
        tapped.sort_unstable();
        tapped.dedup();
        let snaps = self.captures.iter().map(|it| it.snap_bytes.map_or(usize::MAX, |b| b as usize));
        let room = Room::of(tapped.len(), snaps.max().unwrap_or(0));
        for port in tapped {
            self.partition_mut(port).links.install(port, Tap::new(None, room));
        }
        Ok(())
    }

    /// The captures that were asked for.
    pub(crate) fn captures(&self) -> &[Capture] {
        &self.captures
    }

    /// Frames that no tap had room for.
    pub(crate) fn missed_frames(&self) -> u64 {
        self.port_ends().filter_map(|port| self.tap(port.port)).map(|tap| tap.missed).sum()
    }

    /// What has been kept at a port for the file at the end.
    pub(crate) fn tap(&self, port: u32) -> Option<&Tap> {
        self.partition(port).links.tap(port, None)
    }

    /// Puts taps at `ports` for a capture that takes from them while the network lives. Returns its number.
    pub(crate) fn begin_taps(&mut self, ports: &[u32], room: Room) -> u32 {
        let live = self.captures_begun;
        self.captures_begun = live.wrapping_add(1);
        for &port in ports {
            self.partition_mut(port).links.install(port, Tap::new(Some(live), room));
        }
        live
    }

    /// What the tap of a live capture at `port` has seen since this was last asked, and how many frames it missed.
    pub(crate) fn take_seen(&mut self, port: u32, live: u32) -> (Vec<Seen>, u64) {
        self.partition_mut(port).links.take_seen(port, live)
    }

    /// Removes the taps of a live capture.
    pub(crate) fn end_taps(&mut self, ports: impl IntoIterator<Item = u32>, live: u32) {
        for port in ports {
            self.partition_mut(port).links.uninstall(port, live);
        }
    }

    /// Every port, in the order of [`Network::ports`].
    pub(crate) fn port_ends(&self) -> impl Iterator<Item = PortEnd> {
        let ports = self.partitions.iter().flat_map(|partition| partition.links.ports());
        ports.map(|index| {
            let port = self.at(index);
            PortEnd {
                at: port.node,
                to: self.at(port.peer).node,
                port: index,
                peer: port.peer,
                mac: match port.node {
                    End::Host(host) => mac_of_host(host),
                    End::Switch(switch) => mac_of_port(switch, port.local),
                },
                rate_bps: port.rate.rate().as_bps(),
                delays: port.delays(),
            }
        })
    }

    /// Every port, in an order that does not depend on how the network is divided. A pause that is not
    /// over is counted until `now`.
    pub(crate) fn ports(&self, now: Time) -> impl Iterator<Item = PortView> {
        let ports = self.partitions.iter().flat_map(|partition| partition.links.ports());
        ports.map(move |port| self.port_view(port, now.as_ps()))
    }

    pub(super) fn port_view(&self, port: u32, now: u64) -> PortView {
        let at = self.at(port);
        let peer = self.at(at.peer);
        let counters = |switch: u32, port: u32| {
            let (partition, switch) = self.switch(switch)?;
            Some((switch, switch.counters(&partition.links, port, now)))
        };
        let (mut sent_bytes, mut queue_bytes) = ([0; PRIORITIES], [0; PRIORITIES]);
        match (at.node, peer.node) {
            (End::Switch(switch), _) => {
                if let Some((switch, counters)) = counters(switch, port) {
                    sent_bytes = counters.queue_bytes;
                    queue_bytes = core::array::from_fn(|queue| switch.queue_bytes(at.local, queue));
                }
            }
            (End::Host(_), End::Switch(switch)) => {
                if let Some((switch, counters)) = counters(switch, at.peer) {
                    for (group, bytes) in counters.group_bytes.into_iter().enumerate() {
                        let priority = switch.config.group_to_priority[group] & 7;
                        sent_bytes[usize::from(priority)] += bytes;
                    }
                }
            }
            (End::Host(host), End::Host(_)) => {
                sent_bytes[0] = self.host_stats(host).iter().map(|stats| stats.sent_bytes).sum();
            }
        }
        PortView {
            at: at.node,
            to: peer.node,
            sent_bytes,
            queue_bytes,
            pauses: self.partition(port).links.pause_counters(port, now),
            priority_to_queue: at.pauses.priority_to_queue,
        }
    }

    /// Settings of a host's NIC, as they are in force.
    pub(crate) fn nic_config(&self, host: u32) -> Option<&NicConfig> {
        Some(&self.host(host)?.config)
    }

    /// The settings of every switch.
    pub(crate) fn switch_configs(&self) -> impl Iterator<Item = (u32, &SwitchConfig)> {
        let switches = 0..self.topology.switches.len() as u32;
        switches.filter_map(|switch| Some((switch, self.switch_config(switch)?)))
    }

    /// The settings of every NIC.
    pub(crate) fn nic_configs(&self) -> impl Iterator<Item = (u32, &NicConfig)> {
        let hosts = 0..self.topology.hosts.len() as u32;
        hosts.filter_map(|host| Some((host, self.nic_config(host)?)))
    }

    /// The counters of every port of every switch: the switch, its neighbour there, and they.
    pub(crate) fn all_switch_counters(&self) -> impl Iterator<Item = (u32, End, PortCounters)> {
        let switches = 0..self.topology.switches.len() as u32;
        switches.flat_map(|switch| {
            let counters = self.switch_counters(switch).into_iter();
            counters.map(move |(neighbour, counters)| (switch, neighbour, counters))
        })
    }

    /// The counters of every engine of every host.
    pub(crate) fn all_host_stats(&self) -> impl Iterator<Item = transport::Stats> {
        (0..self.topology.hosts.len() as u32).flat_map(|host| self.host_stats(host))
    }
}
