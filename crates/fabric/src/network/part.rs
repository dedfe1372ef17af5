//! A part of a network: hosts and switches, their ports, and what happens to them.
//!
//! A part is a network of its own as far as it knows: it lives until a point in time, with what has
//! come from other parts before. That it may live so long without hearing of the others is the
//! business of [`super::run`].

use std::sync::Arc;

use crate::counters::Drop as Cause;
use crate::host::{Host, Way};
use crate::packet::Kind;
use crate::plant::{Event, Node, Plant, What};
use crate::switch::Switch;
use crate::workload::Flows;

/// See the module.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) plant: Plant,
    pub(crate) switches: Vec<Switch>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) flows: Flows,
    /// By flow: what it posts to at its source.
    pub(crate) ways: Arc<[Way]>,
    pub(crate) events_taken: u64,
}

impl Part {
    /// A part with the ports of `plant`, and no nodes yet.
    pub(super) fn new(plant: Plant) -> Self {
        Self {
            plant,
            switches: Vec::new(),
            hosts: Vec::new(),
            flows: Flows::default(),
            ways: Vec::new().into(),
            events_taken: 0,
        }
    }

    pub(super) fn add_switch(&mut self, switch: Switch) {
        for port in switch.ports() {
            self.plant.port(port).slot = self.switches.len() as u32;
        }
        self.switches.push(switch);
    }

    pub(super) fn add_host(&mut self, host: Host) {
        self.plant.port(host.port).slot = self.hosts.len() as u32;
        self.hosts.push(host);
    }

    /// Lives through everything that happens at `end` or before.
    pub(super) fn run(&mut self, end: u64) {
        while let Some(event) = self.plant.next(end) {
            self.events_taken += 1;
            self.happen(event);
        }
    }

    // It is called at one place.
    #[inline(always)]
    fn happen(&mut self, event: Event) {
        let port = event.port();
        match event.what() {
            What::Arrive => self.arrive(port, event.argument()),
            What::Sent => {
                self.plant.port(port).armed = false;
                self.port_free(port);
            }
            What::ArrivePause => self.pause_arrives(port, event.argument()),
            What::Obey => {
                if self.plant.obey(port, event.argument()) {
                    self.kick(port);
                }
            }
            What::Expire => {
                if self.plant.expire(port, event.argument()) {
                    self.kick(port);
                }
            }
            What::Renew => {
                if self.plant.renew(port) {
                    self.kick(port);
                }
            }
            What::Received => {
                let slot = self.plant.at(port).slot as usize;
                self.hosts[slot].received(&mut self.plant, &mut self.flows);
            }
            What::Timer => {
                let slot = self.plant.at(port).slot as usize;
                self.hosts[slot].timer(&mut self.plant, &mut self.flows);
            }
            What::Ready => {
                let at = self.plant.at(port);
                let (slot, alive) = (at.slot as usize, at.alive);
                self.hosts[slot].awake();
                if alive {
                    self.hosts[slot].kick(&mut self.plant);
                }
            }
            What::Tcp => {
                let host = &mut self.hosts[self.plant.at(port).slot as usize];
                host.tcp_step(&mut self.plant, &mut self.flows, event.argument());
            }
            What::Start => self.start(port, event.argument()),
            What::NicWatchdog => self.look_at_nic(port),
            What::Watchdog => {
                let slot = self.plant.at(port).slot as usize;
                self.switches[slot].watch(&mut self.plant);
            }
        }
    }

    #[inline]
    fn arrive(&mut self, port: u32, packet: u32) {
        let at = self.plant.at(port);
        let (node, slot, alive) = (at.node, at.slot as usize, at.alive);
        if at.filtered
            && let Some(cause) = self.plant.judge(port, packet)
        {
            return self.plant.drop_packet(packet, cause);
        }
        match node {
            Node::Switch(_) => self.switches[slot].receive(&mut self.plant, port, packet),
            Node::Host(_) if alive => {
                self.hosts[slot].receive(&mut self.plant, &mut self.flows, packet);
            }
            Node::Host(_) => self.plant.drop_packet(packet, Cause::DeadHost),
        }
    }

    fn pause_arrives(&mut self, port: u32, packet: u32) {
        debug_assert_eq!(self.plant.pool.get(packet).kind, Kind::Pfc);
        if self.plant.at(port).filtered && self.plant.judge(port, packet).is_some() {
            // It is no packet of ours, and is not counted as one.
            self.plant.end_pause_frame(packet);
        } else if self.plant.pause_arrived(port, packet) {
            self.kick(port);
        }
    }

    fn port_free(&mut self, port: u32) {
        let at = self.plant.at(port);
        let slot = at.slot as usize;
        match at.node {
            Node::Switch(_) => self.switches[slot].send(&mut self.plant, port),
            Node::Host(_) if at.alive => self.hosts[slot].send(&mut self.plant),
            Node::Host(_) => {}
        }
    }

    /// Lets the node of a port send, if it can.
    pub(super) fn kick(&mut self, port: u32) {
        let at = self.plant.at(port);
        let slot = at.slot as usize;
        match at.node {
            Node::Switch(_) => self.switches[slot].kick(&mut self.plant, port),
            Node::Host(_) if at.alive => self.hosts[slot].kick(&mut self.plant),
            Node::Host(_) => {}
        }
    }

    fn start(&mut self, port: u32, flow: u32) {
        let state = self.flows.flow(flow);
        if let Some(interval) = state.next_tick() {
            let delay = interval.sample(flow, state.ticks);
            self.plant.schedule(delay, What::Start, port, flow);
        }
        let at = self.plant.at(port);
        if at.alive {
            let host = &mut self.hosts[at.slot as usize];
            let (plant, flows) = (&mut self.plant, &mut self.flows);
            match self.ways[flow as usize] {
                Way::Pair(pair) => host.post(plant, flows, flow, pair),
                Way::Tcp(connection) => host.post_tcp(plant, flows, flow, connection),
            }
        }
    }

    fn look_at_nic(&mut self, port: u32) {
        let host = &mut self.hosts[self.plant.at(port).slot as usize];
        let port = self.plant.port(port);
        if host.buffer.stuck && port.off != 0 {
            host.buffer.muted = true;
            // No word to the switch: its pauses run out.
            (port.off, port.pending) = (0, 0);
        }
    }
}
