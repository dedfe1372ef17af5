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

/// The number of the partition that a port is in.
pub(super) fn holding(partitions: &[Partition], port: u32) -> usize {
    partitions.partition_point(|partition| partition.links.ports().start <= port) - 1
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

    /// The host that has a port, with the links and the flows that it acts on.
    #[inline]
    pub(super) fn host_at(&mut self, port: u32) -> (&mut Host, &mut Links, &mut Flows) {
        let Self { links, hosts, flows, .. } = self;
        (&mut hosts[links.at(port).slot as usize], links, flows)
    }

    /// The switch that has a port, if one has it.
    pub(super) fn switch_at(&self, port: u32) -> Option<&Switch> {
        let at = self.links.at(port);
        let is_switch = matches!(at.node, End::Switch(_));
        is_switch.then(|| &self.switches[at.slot as usize])
    }

    /// The switch that the host with a port hangs on, and its port there: both are in one partition.
    pub(super) fn switch_above(&mut self, port: u32) -> Option<(&mut Switch, u16)> {
        let at = self.links.at(self.links.at(port).peer);
        let is_switch = matches!(at.node, End::Switch(_));
        is_switch.then(|| (&mut self.switches[at.slot as usize], at.local))
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
                let (host, links, flows) = self.host_at(port);
                host.received(links, flows);
            }
            EventKind::Timer => {
                let (host, links, flows) = self.host_at(port);
                host.timer(links, flows);
            }
            EventKind::Ready => {
                let (host, links, _) = self.host_at(port);
                host.awake(links.now());
                if links.at(port).alive {
                    host.kick(links);
                }
            }
            EventKind::Tcp => {
                let (host, links, flows) = self.host_at(port);
                host.tcp_step(links, flows, event.argument());
            }
            EventKind::Start => self.start(port, event.argument()),
            EventKind::NicWatchdog => self.look_at_nic(port),
            EventKind::Watchdog => {
                let slot = self.links.at(port).slot as usize;
                self.switches[slot].watch(&mut self.links, event.argument());
            }
            EventKind::Core => {
                let (host, links, flows) = self.host_at(port);
                host.core_is_due(links, flows, event.argument());
            }
            EventKind::Doorbell => {
                let (host, links, _) = self.host_at(port);
                host.doorbell_rings(links, event.argument());
            }
            EventKind::Job => {
                let (host, links, flows) = self.host_at(port);
                host.job_step(links, flows, event.argument());
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
        if self.links.at(port).alive {
            let end = self.local_ends[flow as usize];
            let (host, links, flows) = self.host_at(port);
            match end {
                LocalEnd::Pair(pair) => host.post(links, flows, flow, pair),
                LocalEnd::Tcp(connection) => host.post_tcp(links, flows, flow, connection),
            }
        }
    }

    fn look_at_nic(&mut self, port: u32) {
        let (host, links, _) = self.host_at(port);
        let port = links.port(port);
        if host.buffer.stuck && port.off != 0 {
            host.buffer.storms += u64::from(!core::mem::replace(&mut host.buffer.muted, true));
            // The switch is not told: its pauses run out.
            (port.off, port.pending) = (0, 0);
        }
    }
}
