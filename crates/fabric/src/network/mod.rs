//! A network: elements, made from a topology and settings, and the loop that lets them live.
//!
//! ```text
//!   NetworkConfig ─► Network::new ─► run(until) ─► flows, counters, drops, deadlock
//! ```
//!
//! A network is a value: two of them run side by side. The same settings and seed give the same
//! results, to the byte.
//!
//! **Invariant**, checked at the end of every run of a debug build: packets made are packets
//! delivered, dropped, or still in a queue, a buffer or a link; and what the groups of a switch hold
//! is what its queues hold.

mod build;
mod view;

use core::fmt;
use std::collections::BTreeMap;

use rdma::{Span, Time};

use crate::counters::Drop as Cause;
use crate::counters::{Drops, PauseCounters, PortCounters};
use crate::deadlock::{Cycle, Detector};
use crate::fault::{Fault, FaultKind};
use crate::host::{Host, PairId};
use crate::limits::SPREAD_BYTES_MAX;
use crate::nic::{CacheCounters, NicConfig};
use crate::packet::{Kind, LOWER_BYTES};
use crate::plant::{Event, Node, Plant, What};
use crate::switch::Switch;
use crate::switch::config::SwitchConfig;
use crate::topology::routing::racks;
use crate::topology::{End, Topology};
use crate::workload::{Flow, FlowSpec, Flows, Verb};

/// Everything that a network is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkConfig {
    /// What hangs on what.
    pub topology: Topology,
    /// The settings of every switch that has none of its own.
    pub switch: SwitchConfig,
    /// The settings of single switches, by index.
    pub switches: BTreeMap<u32, SwitchConfig>,
    /// The settings of every NIC that has none of its own.
    pub nic: NicConfig,
    /// The settings of the NICs of single hosts, by index.
    pub nics: BTreeMap<u32, NicConfig>,
    /// What the applications do.
    pub flows: Vec<FlowSpec>,
    /// Flows of single messages between the same two hosts, of one DSCP, share a queue pair.
    pub share_queue_pairs: bool,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Of everything that is left to chance.
    pub seed: u64,
    /// How often deadlocks are looked for; `None` for never.
    pub deadlock_check: Option<Span>,
    /// Every packet that arrives is emitted, parsed and ICRC-checked.
    pub paranoid: bool,
}

impl NetworkConfig {
    /// The default settings on `topology`, and nothing to do.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            switch: SwitchConfig::default(),
            switches: BTreeMap::new(),
            nic: NicConfig::default(),
            nics: BTreeMap::new(),
            flows: Vec::new(),
            share_queue_pairs: false,
            faults: Vec::new(),
            seed: 1,
            deadlock_check: Some(Span::from_ms(1)),
            paranoid: false,
        }
    }
}

/// Why a network cannot be made. Each says what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// A link, flow, fault or route names a node that is not there.
    NoSuchNode(String),
    /// More of something than there is room for.
    TooMany(&'static str, usize),
    /// A host without a link, or with more than one.
    HostLinks {
        /// Its name.
        host: String,
        /// How many it has.
        links: usize,
    },
    /// A link at which nothing would ever be sent.
    NoRate {
        /// Its place in the list.
        link: usize,
    },
    /// No path between the two ends of a flow.
    Disconnected {
        /// The name of its source.
        source: String,
        /// The name of its destination.
        destination: String,
    },
    /// Reserves and headrooms leave nothing to share.
    BufferTooSmall {
        /// The switch.
        switch: String,
        /// Its buffer.
        buffer_bytes: u32,
        /// What reserves and headrooms take.
        reserved_bytes: u64,
    },
    /// A flow that no application could run.
    Flow {
        /// Its place in the list.
        index: usize,
        /// What is wrong.
        reason: &'static str,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchNode(what) => write!(f, "{what} names a node that is not there"),
            Self::TooMany(what, most) => write!(f, "too many {what}: the most is {most}"),
            Self::HostLinks { host, links } => {
                write!(f, "host {host} has {links} links; a host has one port")
            }
            Self::NoRate { link } => write!(f, "link {link} has a rate of zero"),
            Self::Disconnected { source, destination } => {
                write!(f, "there is no path from {source} to {destination}")
            }
            Self::BufferTooSmall { switch, buffer_bytes, reserved_bytes } => write!(
                f,
                "switch {switch} has a buffer of {buffer_bytes} bytes, and its ports reserve \
                 {reserved_bytes}: make the buffer larger, or headroom, reserves or cables smaller"
            ),
            Self::Flow { index, reason } => write!(f, "flow {index}: {reason}"),
        }
    }
}

impl core::error::Error for BuildError {}

/// Why a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every flow with an end has reached it.
    Finished,
    /// The time was over.
    TimeOver,
    /// Nothing was left to happen, and flows are unfinished.
    Stalled,
    /// Queues wait for each other in a circle, and stood still.
    Deadlock(Cycle),
    /// Whoever ran it wanted it to stop; see [`crate::record::run`].
    Interrupted,
}

/// See the module.
#[derive(Debug)]
pub struct Network {
    plant: Plant,
    switches: Vec<Switch>,
    hosts: Vec<Host>,
    alive: Vec<bool>,
    flows: Flows,
    /// The queue pair of each flow at its source.
    pairs: Vec<PairId>,
    topology: Topology,
    faults: Vec<Fault>,
    detector: Detector,
    deadlock_check: Option<Span>,
    events_taken: u64,
}

/// Plans with a number from here on are not faults.
const CHECK_DEADLOCK: u32 = (1 << 28) - 1;
/// The NIC watchdog of host `argument` looks.
const NIC_WATCHDOG: u32 = (1 << 28) - 2;

impl Network {
    /// Makes the elements, connects the queue pairs of all flows, and plans what is to happen.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn new(config: NetworkConfig) -> Result<Self, BuildError> {
        build::check_sizes(&config)?;
        let mut plant = Plant::new(config.seed);
        plant.racks = racks(&config.topology);
        let wiring = build::Wiring::of(&config, &mut plant)?;
        let switches = build::switches(&config, &wiring)?;
        let hosts: Vec<Host> = (0..config.topology.hosts.len() as u32)
            .map(|host| {
                let nic = config.nics.get(&host).unwrap_or(&config.nic);
                let mut made = Host::new(host, plant.host_ports[host as usize], nic.clone());
                made.paranoid = config.paranoid;
                made
            })
            .collect();
        let mut network = Self {
            alive: vec![true; hosts.len()],
            plant,
            switches,
            hosts,
            flows: Flows::default(),
            pairs: Vec::new(),
            topology: config.topology,
            faults: Vec::new(),
            detector: Detector::default(),
            deadlock_check: config.deadlock_check,
            events_taken: 0,
        };
        network.add_flows(&config.flows, config.share_queue_pairs)?;
        network.plan_faults(config.faults)?;
        for switch in &network.switches {
            switch.start_watchdog(&mut network.plant);
        }
        if let Some(every) = network.deadlock_check {
            let event = Event::new(What::Planned, CHECK_DEADLOCK, 0);
            network.plant.events.push(every.as_ps(), event);
        }
        Ok(network)
    }

    fn add_flows(&mut self, specs: &[FlowSpec], share: bool) -> Result<(), BuildError> {
        let mut shared: BTreeMap<(u32, u32, u8), PairId> = BTreeMap::new();
        for (index, spec) in specs.iter().enumerate() {
            self.check_flow(index, spec)?;
            let flow = index as u32;
            self.flows.flows.push(Flow::new(*spec));
            self.flows.unfinished += usize::from(spec.messages.is_some_and(|count| count > 0));
            if let Some(round) = spec.round {
                let round = self.flows.rounds.entry(round).or_default();
                round.flows.push(flow);
            }
            let key = (spec.source, spec.destination, spec.dscp);
            let shareable = share && spec.verb != Verb::Send && spec.round.is_none();
            let pair = match shared.get(&key).filter(|_| shareable) {
                Some(&pair) => pair,
                None => self.connect(index, spec)?,
            };
            if shareable {
                shared.insert(key, pair);
            }
            self.pairs.push(pair);
            let event = Event::new(What::Start, flow, 0);
            self.plant.events.push(spec.start.as_ps(), event);
        }
        Ok(())
    }

    fn check_flow(&self, index: usize, spec: &FlowSpec) -> Result<(), BuildError> {
        let wrong = |reason| Err(BuildError::Flow { index, reason });
        let hosts = self.hosts.len() as u32;
        if spec.source >= hosts || spec.destination >= hosts {
            return Err(BuildError::NoSuchNode(format!("flow {index}")));
        }
        if spec.source == spec.destination {
            return wrong("source and destination are the same host");
        }
        if spec.dscp > 63 {
            return wrong("a DSCP is below 64");
        }
        if spec.message_bytes > transport::limits::MESSAGE_BYTES_MAX {
            return wrong("a message has at most 2 GiB");
        }
        if spec.reply_bytes.is_some() && spec.verb != Verb::Send {
            return wrong("only SENDs can be answered: use verb \"send\"");
        }
        if let Some(spread) = spec.spread_bytes {
            if spec.verb == Verb::Send {
                return wrong("a SEND goes where the receiver wants it: spread WRITEs or READs");
            }
            if spread < u64::from(spec.message_bytes) || spread > SPREAD_BYTES_MAX {
                return wrong("messages are spread over at least one, and at most a terabyte");
            }
        }
        if self.path(spec.source, spec.destination, 0).is_none() {
            return Err(BuildError::Disconnected {
                source: self.topology.name(End::Host(spec.source)).to_owned(),
                destination: self.topology.name(End::Host(spec.destination)).to_owned(),
            });
        }
        Ok(())
    }

    fn connect(&mut self, index: usize, spec: &FlowSpec) -> Result<PairId, BuildError> {
        let (source, destination) = (spec.source as usize, spec.destination as usize);
        let refused =
            |_| BuildError::Flow { index, reason: "its host has too many queue pairs already" };
        let flow = index as u32;
        let here = self.hosts[source].create_pair(flow, spec.dscp).map_err(refused)?;
        let there = self.hosts[destination].create_pair(flow, spec.dscp).map_err(refused)?;
        let sends = spec.verb == Verb::Send;
        let answered = spec.reply_bytes.is_some();
        self.hosts[source]
            .connect_pair(here, spec.destination, there, spec.dscp, answered)
            .map_err(refused)?;
        self.hosts[destination]
            .connect_pair(there, spec.source, here, spec.dscp, sends)
            .map_err(refused)?;
        Ok(here)
    }

    fn plan_faults(&mut self, faults: Vec<Fault>) -> Result<(), BuildError> {
        for (index, fault) in faults.iter().enumerate() {
            let known = match fault.kind {
                FaultKind::LinkRule { from, to, .. }
                | FaultKind::LinkDamage { from, to, .. }
                | FaultKind::LinkDown { ends: [from, to] }
                | FaultKind::LinkUp { ends: [from, to] } => self.port_between(from, to).is_some(),
                FaultKind::HostDies { host, .. }
                | FaultKind::HostReturns { host }
                | FaultKind::NicStuck { host }
                | FaultKind::NicRepaired { host } => (host as usize) < self.hosts.len(),
            };
            if !known {
                return Err(BuildError::NoSuchNode(format!("fault {index}")));
            }
            // What is wrong from the beginning is wrong before the first packet.
            let event = Event::new(What::Planned, index as u32, 0);
            if fault.at == Time::ZERO {
                self.apply(fault.kind);
            } else {
                self.plant.events.push(fault.at.as_ps(), event);
            }
        }
        self.faults = faults;
        Ok(())
    }

    /// The receiving port, at `to`, of the link that comes from `from`.
    fn port_between(&self, from: End, to: End) -> Option<u32> {
        let node = |end| match end {
            End::Host(index) => Node::Host(index),
            End::Switch(index) => Node::Switch(index),
        };
        let (from, to) = (node(from), node(to));
        let found =
            self.plant.ports.iter().position(|port| {
                port.node == to && self.plant.ports[port.peer as usize].node == from
            });
        found.map(|port| port as u32)
    }

    // ---- the loop

    /// Lets the network live until `end`, or until every flow with an end has reached it.
    pub fn run(&mut self, end: Time) -> Verdict {
        let verdict = self.run_events(end.as_ps());
        if cfg!(debug_assertions) {
            self.check_conservation();
        }
        verdict
    }

    fn run_events(&mut self, end: u64) -> Verdict {
        let finite = self.flows.flows.iter().any(|flow| flow.spec.messages.is_some());
        loop {
            if finite && self.flows.unfinished == 0 {
                return Verdict::Finished;
            }
            let Some(event) = self.plant.events.pop(end) else {
                let over = !self.plant.events.is_empty() || self.flows.flows.is_empty();
                return if over { Verdict::TimeOver } else { Verdict::Stalled };
            };
            self.events_taken += 1;
            let index = event.index();
            match event.what() {
                What::Arrive => self.arrive(index, event.argument),
                What::Sent => {
                    self.plant.port(index).armed = false;
                    self.port_free(index);
                }
                What::Obey => {
                    if self.plant.obey(index, event.argument) {
                        self.kick(index);
                    }
                }
                What::Expire => {
                    if self.plant.expire(index, event.argument) {
                        self.kick(index);
                    }
                }
                What::Renew => {
                    if self.plant.renew(index) {
                        self.kick(index);
                    }
                }
                What::Timer => {
                    self.hosts[index as usize].timer(&mut self.plant, &mut self.flows);
                }
                What::Received => {
                    self.hosts[index as usize].received(&mut self.plant, &mut self.flows);
                }
                What::Ready => self.ready(index),
                What::Start => self.start(index),
                What::Watchdog => self.switches[index as usize].watch(&mut self.plant),
                What::Planned => {
                    if let Some(verdict) = self.planned(index, event.argument) {
                        return verdict;
                    }
                }
            }
        }
    }

    #[inline]
    fn arrive(&mut self, port: u32, packet: u32) {
        let at = &self.plant.ports[port as usize];
        let node = at.node;
        if at.filtered
            && let Some(cause) = self.plant.judge(port, packet)
        {
            return self.lose(packet, cause);
        }
        if self.plant.pool.get(packet).kind == Kind::Pfc {
            if self.plant.pause_arrived(port, packet) {
                self.kick(port);
            }
            return;
        }
        match node {
            Node::Switch(switch) => {
                let switch = &mut self.switches[switch as usize];
                switch.receive(&mut self.plant, port, packet, &self.alive);
            }
            Node::Host(host) if !self.alive[host as usize] => {
                self.plant.drop_packet(packet, Cause::DeadHost);
            }
            Node::Host(host) => {
                let host = &mut self.hosts[host as usize];
                host.receive(&mut self.plant, &mut self.flows, packet);
            }
        }
    }

    /// A frame is lost on a link. Pauses are not packets of ours, and are not counted as such.
    fn lose(&mut self, packet: u32, cause: Cause) {
        if self.plant.pool.get(packet).kind == Kind::Pfc {
            self.plant.end_pause_frame(packet);
        } else {
            self.plant.drop_packet(packet, cause);
        }
    }

    fn port_free(&mut self, port: u32) {
        match self.plant.ports[port as usize].node {
            Node::Switch(switch) => self.switches[switch as usize].send(&mut self.plant, port),
            Node::Host(host) if self.alive[host as usize] => {
                self.hosts[host as usize].send(&mut self.plant);
            }
            Node::Host(_) => {}
        }
    }

    fn kick(&mut self, port: u32) {
        match self.plant.ports[port as usize].node {
            Node::Switch(switch) => self.switches[switch as usize].kick(&mut self.plant, port),
            Node::Host(host) if self.alive[host as usize] => {
                self.hosts[host as usize].kick(&mut self.plant);
            }
            Node::Host(_) => {}
        }
    }

    fn start(&mut self, flow: u32) {
        let source = self.flows.flows[flow as usize].spec.source as usize;
        if self.alive[source] {
            let pair = self.pairs[flow as usize];
            self.hosts[source].post(&mut self.plant, &mut self.flows, flow, pair);
        }
    }

    fn ready(&mut self, host: u32) {
        let at = &mut self.hosts[host as usize];
        at.awake();
        if self.alive[host as usize] {
            at.kick(&mut self.plant);
        }
    }

    fn planned(&mut self, plan: u32, argument: u32) -> Option<Verdict> {
        match plan {
            CHECK_DEADLOCK => {
                let found = self.detector.look(&self.plant, &self.switches);
                if let Some(every) = self.deadlock_check {
                    let event = Event::new(What::Planned, CHECK_DEADLOCK, 0);
                    self.plant.events.push(every.as_ps(), event);
                }
                found.map(|cycle| Verdict::Deadlock(cycle.named(&self.plant, &self.topology)))
            }
            NIC_WATCHDOG => {
                let host = &mut self.hosts[argument as usize];
                if host.buffer.stuck && self.plant.port(host.port).off != 0 {
                    host.buffer.muted = true;
                    let port = self.plant.port(host.port);
                    // No word to the switch: its pauses run out.
                    (port.off, port.pending) = (0, 0);
                }
                None
            }
            fault => {
                let kind = self.faults.get(fault as usize)?.kind;
                self.apply(kind);
                None
            }
        }
    }

    fn apply(&mut self, kind: FaultKind) {
        match kind {
            FaultKind::LinkRule { from, to, rule } => {
                if let Some(port) = self.port_between(from, to) {
                    self.plant.filters[port as usize].rules.push(rule);
                    self.plant.port(port).filtered = true;
                }
            }
            FaultKind::LinkDamage { from, to, probability } => {
                if let Some(port) = self.port_between(from, to) {
                    self.plant.filters[port as usize].damage = probability;
                    self.plant.port(port).filtered = true;
                }
            }
            FaultKind::LinkDown { ends } => self.set_down(ends, true),
            FaultKind::LinkUp { ends } => self.set_down(ends, false),
            FaultKind::HostDies { host, mac_aged } => {
                self.alive[host as usize] = false;
                if mac_aged {
                    let port = self.plant.ports[self.plant.host_ports[host as usize] as usize].peer;
                    let at = &self.plant.ports[port as usize];
                    if let Node::Switch(switch) = at.node {
                        self.switches[switch as usize].age_mac(at.local);
                    }
                }
            }
            FaultKind::HostReturns { host } => {
                self.alive[host as usize] = true;
                self.kick(self.plant.host_ports[host as usize]);
            }
            FaultKind::NicStuck { host } => {
                let at = &mut self.hosts[host as usize];
                at.buffer.stuck = true;
                if !at.buffer.muted {
                    self.plant.stop(at.port, at.config.lossless_priorities);
                    at.kick(&mut self.plant);
                }
                if let Some(after) = at.config.watchdog {
                    let event = Event::new(What::Planned, NIC_WATCHDOG, host);
                    self.plant.events.push(after.as_ps(), event);
                }
            }
            FaultKind::NicRepaired { host } => {
                let at = &mut self.hosts[host as usize];
                (at.buffer.stuck, at.buffer.muted) = (false, false);
                let off = self.plant.port(at.port).off;
                if off != 0 {
                    self.plant.resume(at.port, off);
                }
                at.restart_receiving(&mut self.plant);
                at.kick(&mut self.plant);
            }
        }
    }

    fn set_down(&mut self, ends: [End; 2], down: bool) {
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            if let Some(port) = self.port_between(from, to) {
                self.plant.filters[port as usize].down = down;
                self.plant.port(port).filtered = true;
            }
        }
    }

    // ---- what can be asked

    /// The present.
    pub fn now(&self) -> Time {
        Time::from_ps(self.plant.now())
    }

    /// What hangs on what.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Every flow, in the order of the settings.
    pub fn flows(&self) -> &[Flow] {
        &self.flows.flows
    }

    /// Packets dropped, by cause.
    pub fn drops(&self) -> &Drops {
        &self.plant.drops
    }

    /// Packets that were put on a link; pauses are not among them.
    pub fn link_hops(&self) -> u64 {
        self.plant.link_hops
    }

    /// Pause frames that were put on a link.
    pub fn pause_frames(&self) -> u64 {
        self.plant.pfc_frames
    }

    /// Events that were taken.
    pub fn events(&self) -> u64 {
        self.events_taken
    }

    /// The counters of the port of switch `switch` towards `neighbour`.
    pub fn port_counters(&self, switch: u32, neighbour: End) -> Option<PortCounters> {
        let port = self.port_between(neighbour, End::Switch(switch))?;
        Some(self.switches[switch as usize].counters(&self.plant, port))
    }

    /// The counters of every port of a switch, with the neighbour of each.
    pub fn switch_counters(&self, switch: u32) -> Vec<(End, PortCounters)> {
        let Some(at) = self.switches.get(switch as usize) else { return Vec::new() };
        at.ports()
            .map(|port| {
                let peer = self.plant.ports[port as usize].peer;
                let neighbour = match self.plant.ports[peer as usize].node {
                    Node::Host(host) => End::Host(host),
                    Node::Switch(switch) => End::Switch(switch),
                };
                (neighbour, at.counters(&self.plant, port))
            })
            .collect()
    }

    /// What the priority group `group` of the port of `switch` towards `neighbour` holds now.
    pub fn group_bytes(&self, switch: u32, neighbour: End, group: usize) -> Option<u32> {
        let port = self.port_between(neighbour, End::Switch(switch))?;
        let local = self.plant.ports[port as usize].local;
        Some(self.switches[switch as usize].group_bytes(local, group & 7))
    }

    /// What the queue `queue` of the port of `switch` towards `neighbour` holds now.
    pub fn queue_bytes(&self, switch: u32, neighbour: End, queue: usize) -> Option<u32> {
        let port = self.port_between(neighbour, End::Switch(switch))?;
        let local = self.plant.ports[port as usize].local;
        Some(self.switches[switch as usize].queue_bytes(local, queue & 7))
    }

    /// The part of a switch's buffer that its groups share.
    pub fn shared_bytes(&self, switch: u32) -> Option<u32> {
        Some(self.switches.get(switch as usize)?.shared_bytes())
    }

    /// The pauses that a host has sent and received.
    pub fn host_pauses(&self, host: u32) -> Option<PauseCounters> {
        let port = *self.plant.host_ports.get(host as usize)?;
        Some(self.plant.pause_counters(port))
    }

    /// How often the NIC of a host looked for translations and contexts, and how often in vain.
    pub fn host_caches(&self, host: u32) -> Option<CacheCounters> {
        Some(self.hosts.get(host as usize)?.cache_counters())
    }

    /// The counters of a host's engines, one for each priority that it uses.
    pub fn host_stats(&self, host: u32) -> Vec<transport::Stats> {
        self.hosts.get(host as usize).map_or_else(Vec::new, Host::stats)
    }

    /// Storms that the watchdog of a switch has found, and ports that it has given back.
    pub fn watchdog_counts(&self, switch: u32) -> Option<(u64, u64)> {
        Some(self.switches.get(switch as usize)?.watchdog_counts())
    }

    /// ARP requests that the CPU of a switch has made.
    pub fn arp_requests(&self, switch: u32) -> Option<u64> {
        Some(self.switches.get(switch as usize)?.arp_requests())
    }

    /// Settings of a switch, as they are in force.
    pub fn switch_config(&self, switch: u32) -> Option<&SwitchConfig> {
        Some(&self.switches.get(switch as usize)?.config)
    }

    /// The ports that packets of a flow with source port `source_port` leave by, from host to host.
    fn path(&self, source: u32, destination: u32, hash: u32) -> Option<Vec<u32>> {
        let mut path = vec![self.plant.host_ports[source as usize]];
        loop {
            let peer = self.plant.ports[*path.last()? as usize].peer;
            match self.plant.ports[peer as usize].node {
                Node::Host(host) if host == destination => return Some(path),
                Node::Host(_) => return None,
                Node::Switch(switch) => {
                    let rack = self.plant.racks[destination as usize];
                    let at = &self.switches[switch as usize];
                    let port = at.egress(rack, hash).unwrap_or_else(|| {
                        self.plant.ports[self.plant.host_ports[destination as usize] as usize].peer
                    });
                    if !at.ports().contains(&port) || path.len() > self.switches.len() + 1 {
                        return None;
                    }
                    path.push(port);
                }
            }
        }
    }

    /// How long a WRITE of `bytes` from `source` to `destination` takes from post to completion, if
    /// nobody else sends: frames go store and forward, and the last one's acknowledgement returns.
    pub fn unloaded(&self, source: u32, destination: u32, bytes: u32) -> Option<Span> {
        let there = self.path(source, destination, 0)?;
        let back = self.path(destination, source, 0)?;
        let mtu = self.hosts[source as usize].config.mtu;
        let packets = mtu.packets(bytes);
        let bth = wire::bth::LEN as u32;
        let mut arrival = 0;
        let mut free = vec![0; there.len()];
        for packet in 0..packets {
            let part = (bytes - packet * mtu.bytes()).min(mtu.bytes());
            let reth = if packet == 0 { wire::reth::LEN as u32 } else { 0 };
            let frame = LOWER_BYTES + bth + reth + part.next_multiple_of(4);
            let mut at = 0;
            for (&port, free) in there.iter().zip(&mut free) {
                let (arrives, over) = self.plant.hop(port, at.max(*free), u64::from(frame));
                (at, *free) = (arrives, over);
            }
            arrival = at;
        }
        let acknowledgement = LOWER_BYTES + bth + wire::aeth::LEN as u32;
        for &port in &back {
            arrival = self.plant.hop(port, arrival, u64::from(acknowledgement)).0;
        }
        Some(Span::from_ps(arrival))
    }

    fn check_conservation(&self) {
        let inside = (self.plant.pool.in_use() - self.plant.pfc_in_flight) as u64;
        let outside = self.plant.delivered + self.plant.drops.total();
        assert_eq!(self.plant.created, outside + inside, "a packet is nowhere, or twice");
        for switch in &self.switches {
            let (groups, queues) = switch.held();
            let flooded = switch.floods();
            assert!(
                groups == queues || flooded && groups < queues,
                "{:?} holds {groups} bytes in groups and {queues} in queues",
                switch.node()
            );
        }
    }
}
