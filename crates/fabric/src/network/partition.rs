//! A partition of a network: some of its hosts and switches, their ports, and what happens to them.
//!
//! Parallel simulators call it a logical process. It has an event queue and a packet pool of its own, and
//! lives on one thread at a time, until a point in time before which it cannot hear of the others.
//! [`super::run`] says how far that is.

use std::sync::Arc;

use crate::counters::Drop as Cause;
use crate::host::{Host, LocalEnd};
use crate::links::{Event, EventKind, Links};
use crate::packet::Kind;
use crate::switch::Switch;
use crate::topology::End;
use crate::workload::Flows;

/// See the module.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) links: Links,
    pub(super) switches: Vec<Switch>,
    pub(super) hosts: Vec<Host>,
    pub(super) flows: Flows,
    /// By flow: its end at its source.
    pub(super) local_ends: Arc<[LocalEnd]>,
    pub(super) events_taken: u64,
}

impl Partition {
    /// A partition with the ports of `links`, and no nodes yet.
    pub(super) fn new(links: Links) -> Self {
        Self {
            links,
            switches: Vec::new(),
            hosts: Vec::new(),
            flows: Flows::default(),
            local_ends: Vec::new().into(),
            events_taken: 0,
        }
    }

    pub(super) fn add_switch(&mut self, switch: Switch) {
        for port in switch.ports() {
            self.links.port(port).slot = self.switches.len() as u32;
        }
        self.switches.push(switch);
    }

    pub(super) fn add_host(&mut self, host: Host) {
        self.links.port(host.port).slot = self.hosts.len() as u32;
        self.hosts.push(host);
    }

    /// Lives through everything that happens at `end` or before.
    pub(super) fn run(&mut self, end: u64) {
        while let Some(event) = self.links.next(end) {
            self.events_taken += 1;
            self.happen(event);
        }
    }

    // It is called in one place.
    #[inline(always)]
    fn happen(&mut self, event: Event) {
        let port = event.port();
        match event.kind() {
            EventKind::Arrive => self.arrive(port, event.argument()),
            EventKind::Sent => {
                self.links.port(port).armed = false;
                self.port_free(port);
            }
            EventKind::ArrivePause => self.pause_arrives(port, event.argument()),
            EventKind::Obey => {
                if self.links.obey(port, event.argument()) {
                    self.kick(port);
                }
            }
            EventKind::Expire => {
                if self.links.expire(port, event.argument()) {
                    self.kick(port);
                }
            }
            EventKind::Renew => {
                if self.links.renew(port) {
                    self.kick(port);
                }
            }
            EventKind::Received => {
                let slot = self.links.at(port).slot as usize;
                self.hosts[slot].received(&mut self.links, &mut self.flows);
            }
            EventKind::Timer => {
                let slot = self.links.at(port).slot as usize;
                self.hosts[slot].timer(&mut self.links, &mut self.flows);
            }
            EventKind::Ready => {
                let at = self.links.at(port);
                let (slot, alive) = (at.slot as usize, at.alive);
                let now = self.links.now();
                self.hosts[slot].awake(now);
                if alive {
                    self.hosts[slot].kick(&mut self.links);
                }
            }
            EventKind::Tcp => {
                let host = &mut self.hosts[self.links.at(port).slot as usize];
                host.tcp_step(&mut self.links, &mut self.flows, event.argument());
            }
            EventKind::Start => self.start(port, event.argument()),
            EventKind::NicWatchdog => self.look_at_nic(port),
            EventKind::Watchdog => {
                let slot = self.links.at(port).slot as usize;
                self.switches[slot].watch(&mut self.links);
            }
            EventKind::Core => {
                let host = &mut self.hosts[self.links.at(port).slot as usize];
                host.core_is_due(&mut self.links, &mut self.flows, event.argument());
            }
            EventKind::Doorbell => {
                let host = &mut self.hosts[self.links.at(port).slot as usize];
                host.doorbell_rings(&mut self.links, event.argument());
            }
        }
    }

    #[inline]
    fn arrive(&mut self, port: u32, packet: u32) {
        let at = self.links.at(port);
        let (node, slot, alive) = (at.node, at.slot as usize, at.alive);
        if at.filtered
            && let Some(cause) = self.links.judge(port, packet)
        {
            return self.links.drop_packet(packet, cause);
        }
        match node {
            End::Switch(_) => self.switches[slot].receive(&mut self.links, port, packet),
            End::Host(_) if alive => {
                self.hosts[slot].receive(&mut self.links, &mut self.flows, packet);
            }
            End::Host(_) => self.links.drop_packet(packet, Cause::DeadHost),
        }
    }

    fn pause_arrives(&mut self, port: u32, packet: u32) {
        debug_assert_eq!(self.links.pool.get(packet).kind, Kind::Pfc);
        if self.links.at(port).filtered && self.links.judge(port, packet).is_some() {
            // Pause frames are not counted as packets.
            self.links.end_pause_frame(packet);
        } else if self.links.pause_arrived(port, packet) {
            self.kick(port);
        }
    }

    fn port_free(&mut self, port: u32) {
        let at = self.links.at(port);
        let slot = at.slot as usize;
        match at.node {
            End::Switch(_) => self.switches[slot].send(&mut self.links, port),
            End::Host(_) if at.alive => self.hosts[slot].send(&mut self.links),
            End::Host(_) => {}
        }
    }

    /// Lets the node of a port send, if it can.
    pub(super) fn kick(&mut self, port: u32) {
        let at = self.links.at(port);
        let slot = at.slot as usize;
        match at.node {
            End::Switch(_) => self.switches[slot].kick(&mut self.links, port),
            End::Host(_) if at.alive => self.hosts[slot].kick(&mut self.links),
            End::Host(_) => {}
        }
    }

    fn start(&mut self, port: u32, flow: u32) {
        let state = self.flows.flow(flow);
        if let Some(interval) = state.next_tick() {
            let delay = interval.sample(self.links.common.seed, flow, state.ticks);
            self.links.schedule(delay, EventKind::Start, port, flow);
        }
        let at = self.links.at(port);
        if at.alive {
            let host = &mut self.hosts[at.slot as usize];
            let (links, flows) = (&mut self.links, &mut self.flows);
            match self.local_ends[flow as usize] {
                LocalEnd::Pair(pair) => host.post(links, flows, flow, pair),
                LocalEnd::Tcp(connection) => host.post_tcp(links, flows, flow, connection),
            }
        }
    }

    fn look_at_nic(&mut self, port: u32) {
        let host = &mut self.hosts[self.links.at(port).slot as usize];
        let port = self.links.port(port);
        if host.buffer.stuck && port.off != 0 {
            host.buffer.storms += u64::from(!core::mem::replace(&mut host.buffer.muted, true));
            // The switch is not told: its pauses run out.
            (port.off, port.pending) = (0, 0);
        }
    }
}
