//! A network: hosts, switches and links, made from a topology and settings, and the loop that runs them.
//!
//! ```text
//!   NetworkConfig ─► Network::new ─► run(until) ─► flows, counters, drops, deadlock
//! ```
//!
//! A network is a value: two of them run side by side. The same settings and seed give the same
//! results, to the byte, into however many partitions it is divided and on however many threads.
//!
//! **Invariant**, checked at the end of every run of a debug build: packets made are packets
//! delivered, dropped, or still in a queue, a buffer or a link; and what the groups of a switch hold
//! is what its queues hold.

mod ask;
mod build;
mod counted;
mod deadlock;
mod faults;
mod jobs;
mod outside;
mod partition;
mod paths;
mod run;
mod tenants;
mod view;

pub(crate) use build::{longest_frame, port_spec};
pub(crate) use jobs::LinkUse;
pub(crate) use view::{PortEnd, PortView};

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use rdma::Span;

use crate::address::Tuple;
use crate::capture::Capture;
use crate::fault::Fault;
use crate::host::{LocalEnd, PairId, opening};
use crate::limits::SPREAD_BYTES_MAX;
use crate::links::{Common, EventKind};
use crate::model::HostConfig;
use crate::nic::NicConfig;
use crate::switch::config::SwitchConfig;
use crate::topology::{End, Topology};
use crate::workload::{Flow, FlowSpec, Job, Service, Verb};
use build::Wiring;
use deadlock::Detector;
use partition::Partition;

pub use ask::Delivered;
pub use deadlock::Cycle;
pub use paths::{Choice, FlowPath, Hop};
pub use run::STEP;

/// Everything that a network is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkConfig {
    /// Hosts, switches and links.
    pub topology: Topology,
    /// The settings of every switch that has none of its own.
    pub switch: SwitchConfig,
    /// The settings of single switches, by index.
    pub switches: BTreeMap<u32, SwitchConfig>,
    /// The settings of every NIC that has none of its own.
    pub nic: NicConfig,
    /// The settings of the NICs of single hosts, by index.
    pub nics: BTreeMap<u32, NicConfig>,
    /// What every host costs that has no settings of its own; `None` for nothing.
    pub host: Option<HostConfig>,
    /// What single hosts cost.
    pub hosts: BTreeMap<u32, HostConfig>,
    /// What the applications do.
    pub flows: Vec<FlowSpec>,
    /// What hosts do together. [`NetworkConfig::add_job`] adds one, and its flows.
    pub jobs: Vec<Job>,
    /// Flows of single messages between the same two hosts, of one DSCP, share a queue pair.
    pub share_queue_pairs: bool,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Ports whose frames are kept.
    pub captures: Vec<Capture>,
    /// How long routing takes to avoid a link that is down, and to use it again; `None` if it never
    /// does.
    pub reroute: Option<Span>,
    /// The seed of everything that is random.
    pub seed: u64,
    /// How often deadlocks are looked for; `None` for never.
    pub deadlock_check: Option<Span>,
    /// Every packet that arrives is emitted, parsed and ICRC-checked.
    pub paranoid: bool,
    /// Into how many partitions it is divided; `None` for as many as its size deserves. The results are
    /// the same.
    pub partitions: Option<u32>,
    /// How many threads its partitions live on. The results are the same.
    pub threads: u32,
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
            host: None,
            hosts: BTreeMap::new(),
            flows: Vec::new(),
            jobs: Vec::new(),
            share_queue_pairs: false,
            faults: Vec::new(),
            captures: Vec::new(),
            reroute: None,
            seed: 1,
            deadlock_check: Some(Span::from_ms(1)),
            paranoid: false,
            partitions: None,
            threads: 1,
        }
    }

    /// Adds a job, and the flows of its connections.
    pub fn add_job(&mut self, job: Job) {
        let (number, first_flow) = (self.jobs.len() as u32, self.flows.len() as u32);
        self.flows.extend(job.flows(number));
        self.jobs.push(Job { first_flow, ..job });
    }

    /// The settings of a switch.
    pub(crate) fn switch_of(&self, switch: u32) -> &SwitchConfig {
        self.switches.get(&switch).unwrap_or(&self.switch)
    }

    /// By switch, whether it weighs its next hops.
    pub(crate) fn weighted(&self) -> Vec<bool> {
        let switches = 0..self.topology.switches.len() as u32;
        switches.map(|switch| self.switch_of(switch).weighted).collect()
    }

    /// Whether any switch may send packets of one flow over several paths.
    pub(crate) fn is_sprayed(&self) -> bool {
        let mut switches = self.switches.values().chain([&self.switch]);
        switches.any(|switch| switch.balance.may_reorder())
    }

    /// The settings of the NIC of a host.
    pub(crate) fn nic_of(&self, host: u32) -> &NicConfig {
        self.nics.get(&host).unwrap_or(&self.nic)
    }

    /// What a host costs.
    pub(crate) fn host_of(&self, host: u32) -> Option<&HostConfig> {
        self.hosts.get(&host).or(self.host.as_ref())
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
    /// A threshold of a switch, or a fault, that is no part of what is free.
    NoAlpha {
        /// Of two: alphas have -8 to 7.
        exponent: i8,
    },
    /// No path between the two ends of a flow.
    Disconnected {
        /// Its place in the list.
        flow: usize,
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
    /// An application that could not be set up.
    Tenant {
        /// Its place in the list.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// A host that would have more queue pairs of one priority than a NIC has.
    QueuePairs {
        /// The place of the first flow that has none in the list.
        flow: usize,
        /// The name of the host.
        host: String,
        /// How many a NIC has.
        most: u32,
        /// Whether flows share them ([`NetworkConfig::share_queue_pairs`]).
        shared: bool,
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
            Self::NoAlpha { exponent } => {
                write!(f, "there is no alpha of 2^{exponent}: they are from 2^-8 to 2^7")
            }
            Self::NoRate { link } => write!(f, "link {link} has a rate of zero"),
            Self::Disconnected { source, destination, .. } => {
                write!(f, "there is no path from {source} to {destination}")
            }
            Self::BufferTooSmall { switch, buffer_bytes, reserved_bytes } => write!(
                f,
                "switch {switch} has a buffer of {buffer_bytes} bytes, and its ports reserve \
                 {reserved_bytes}: make the buffer larger, or headroom, reserves or cables smaller"
            ),
            Self::QueuePairs { host, most, .. } => {
                write!(
                    f,
                    "{host} has more than the {most} queue pairs that a NIC has of one priority"
                )
            }
            Self::Tenant { index, reason } => write!(f, "application {index}: {reason}"),
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
    /// Queues waited for each other in a circle, and none moved.
    Deadlock(Cycle),
    /// The caller stopped it; see [`crate::record::run`].
    Interrupted,
}

impl Verdict {
    /// It in a word or two.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::TimeOver => "time over",
            Self::Stalled => "stalled",
            Self::Deadlock(_) => "deadlocked",
            Self::Interrupted => "interrupted",
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Network {
    partitions: Vec<Partition>,
    /// What its partitions know as well.
    common: Common,
    /// By switch: its partition, and its place there.
    switches: Vec<(usize, usize)>,
    topology: Topology,
    /// While it does not run. While it runs, each is in its partition.
    flows: Vec<Flow>,
    /// A flow has an end, or an application.
    finite: bool,
    jobs: Vec<Job>,
    /// Applications: their host, in their order.
    tenants: Vec<u32>,
    /// In the order of their times.
    faults: Vec<Fault>,
    faults_done: usize,
    captures: Vec<Capture>,
    /// Captures that have begun while it lived.
    captures_begun: u32,
    /// Links that are down, by their place in the topology.
    down: Vec<usize>,
    /// By flow: how it went before routes changed, if it had begun by then.
    paths_before: Vec<Option<FlowPath>>,
    /// The tuples of packets of programs outside.
    outside: outside::Tuples,
    /// See [`NetworkConfig::weighted`].
    weighted: Vec<bool>,
    detector: Detector,
    deadlock_check: Option<Span>,
    /// When deadlocks are looked for next, in picoseconds.
    check_at: u64,
    /// Shorter than any path from one partition to another.
    lookahead: u64,
    threads: usize,
    /// Everything before has happened, and nothing from then on.
    past: u64,
    /// The present, as [`Network::now`] says it.
    now: u64,
}

impl Network {
    /// Makes the elements, connects the queue pairs of all flows, and schedules flows and faults.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn new(config: NetworkConfig) -> Result<Self, BuildError> {
        build::check(&config)?;
        jobs::check(&config)?;
        let wiring = Wiring::of(&config)?;
        let partitions = wiring.partitions(&config);
        let partitions = wiring.divide(&config, partitions)?;
        let mut switches = vec![(0, 0); config.topology.switches.len()];
        for (number, partition) in partitions.iter().enumerate() {
            for (slot, switch) in partition.switches.iter().enumerate() {
                switches[switch.index as usize] = (number, slot);
            }
        }
        let mut network = Self {
            common: partitions
                .first()
                .map(|partition| partition.links.common.clone())
                .unwrap_or_default(),
            lookahead: partitions
                .iter()
                .filter_map(|partition| partition.links.lookahead())
                .min()
                .unwrap_or(1),
            partitions,
            switches,
            weighted: config.weighted(),
            topology: config.topology,
            flows: Vec::new(),
            finite: config.flows.iter().any(|flow| flow.messages.is_some())
                || !config.jobs.is_empty(),
            jobs: config.jobs,
            tenants: Vec::new(),
            faults: Vec::new(),
            faults_done: 0,
            paths_before: Vec::new(),
            captures: config.captures,
            captures_begun: 0,
            down: Vec::new(),
            outside: outside::Tuples::new(),
            detector: Detector::default(),
            deadlock_check: config.deadlock_check,
            check_at: config.deadlock_check.map_or(0, Span::as_ps),
            threads: config.threads.max(1) as usize,
            past: 0,
            now: 0,
        };
        network.add_flows(&config.flows, config.share_queue_pairs)?;
        network.add_jobs();
        network.plan_faults(config.faults, config.reroute)?;
        network.install_taps()?;
        for partition in &mut network.partitions {
            for switch in &partition.switches {
                switch.start_watchdog(&mut partition.links);
            }
        }
        Ok(network)
    }

    fn add_flows(&mut self, specs: &[FlowSpec], share: bool) -> Result<(), BuildError> {
        let mut shared: BTreeMap<(u32, u32, u8), PairId> = BTreeMap::new();
        let mut rounds: BTreeMap<u32, u32> = BTreeMap::new();
        let (mut local_ends, mut places, mut tuples) = (Vec::new(), Vec::new(), Vec::new());
        for (index, spec) in specs.iter().enumerate() {
            self.check_flow(index, spec)?;
            let flow = index as u32;
            self.flows.push(Flow::new(*spec));
            let port = self.host_port(spec.source);
            let flows = &mut self.partition_mut(port).flows;
            places.push(flows.flows.len() as u32);
            flows.flows.push(Flow::new(*spec));
            flows.unfinished += usize::from(spec.messages.is_some_and(|count| count > 0));
            if let Some(round) = spec.round {
                if *rounds.entry(round).or_insert(spec.source) != spec.source {
                    let reason = "the flows of one round start at one host";
                    return Err(BuildError::Flow { index, reason });
                }
                flows.rounds.entry(round).or_default().flows.push(flow);
            }
            let key = (spec.source, spec.destination, spec.dscp);
            let shareable = share
                && spec.service == Service::Rc
                && !spec.verb.takes_receive()
                && spec.round.is_none();
            let end = if spec.service == Service::Tcp {
                LocalEnd::Tcp(self.connect_tcp(index, spec, &mut tuples)?)
            } else if let Some(&pair) = shared.get(&key).filter(|_| shareable) {
                LocalEnd::Pair(pair)
            } else {
                let pair = self.connect(index, spec, share, &mut tuples)?;
                if shareable {
                    shared.insert(key, pair);
                }
                LocalEnd::Pair(pair)
            };
            local_ends.push(end);
            if spec.job.is_none() {
                let start = spec.start.as_ps();
                self.partition_mut(port).links.schedule(start, EventKind::Start, port, flow);
            }
        }
        self.common.tuples = tuples.into();
        let (local_ends, places, specs) = (local_ends.into(), places.into(), specs.into());
        for partition in &mut self.partitions {
            partition.links.common = self.common.clone();
            partition.local_ends = Arc::clone(&local_ends);
            partition.flows.places = Arc::clone(&places);
            partition.flows.specs = Arc::clone(&specs);
        }
        Ok(())
    }

    fn check_flow(&self, index: usize, spec: &FlowSpec) -> Result<(), BuildError> {
        let wrong = |reason| Err(BuildError::Flow { index, reason });
        let hosts = self.topology.hosts.len() as u32;
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
        if !spec.verb.is_of(spec.service) {
            return wrong(match spec.service {
                Service::Uc => "UC has WRITE, WRITE with immediate data and SEND",
                _ => "UD and TCP send: use verb \"send\"",
            });
        }
        let mtu = self.host(spec.source).map_or(0, |host| host.config.mtu.bytes());
        if spec.service == Service::Ud
            && spec.message_bytes.max(spec.reply_bytes.unwrap_or(0)) > mtu
        {
            return wrong("a datagram is one packet: at most the MTU");
        }
        if matches!(spec.verb, Verb::CompareSwap | Verb::FetchAdd) && spec.message_bytes != 8 {
            return wrong("an atomic operation is of 8 bytes");
        }
        let unreliable = matches!(spec.service, Service::Uc | Service::Ud);
        if unreliable && spec.reply_bytes.is_some() && spec.depth > 1 {
            return wrong("answers over UC or UD may be lost: one message at a time");
        }
        if spec.service == Service::Tcp && (spec.message_bytes == 0 || spec.reply_bytes == Some(0))
        {
            return wrong("a message over TCP has a byte at least");
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
                flow: index,
                source: self.topology.name(End::Host(spec.source)).to_owned(),
                destination: self.topology.name(End::Host(spec.destination)).to_owned(),
            });
        }
        Ok(())
    }

    fn connect_tcp(
        &mut self,
        index: usize,
        spec: &FlowSpec,
        tuples: &mut Vec<Tuple>,
    ) -> Result<u32, BuildError> {
        let client = self.host_mut(spec.source).take_tcp_port(true);
        let server = self.host_mut(spec.destination).take_tcp_port(false);
        let Some((client, server)) = client.zip(server) else {
            let reason = "its host has too many TCP connections already";
            return Err(BuildError::Flow { index, reason });
        };
        let flow = index as u32;
        self.host_mut(spec.destination).add_connection(flow, spec, (server, client), tuples);
        let here = self.host_mut(spec.source).add_connection(flow, spec, (client, server), tuples);
        // It opens when the simulation begins.
        let port = self.host_port(spec.source);
        self.partition_mut(port).links.schedule(0, EventKind::Tcp, port, opening(here));
        Ok(here)
    }

    fn connect(
        &mut self,
        index: usize,
        spec: &FlowSpec,
        shared: bool,
        tuples: &mut Vec<Tuple>,
    ) -> Result<PairId, BuildError> {
        let (source, destination) = (spec.source, spec.destination);
        let refused =
            |_| BuildError::Flow { index, reason: "its queue pairs could not be connected" };
        let flow = index as u32;
        let mut create = |host: u32| {
            self.host_mut(host).create_pair(flow, spec).map_err(|_| BuildError::QueuePairs {
                flow: index,
                host: self.topology.name(End::Host(host)).to_owned(),
                most: transport::limits::QPS_MAX,
                shared,
            })
        };
        let (here, there) = (create(source)?, create(destination)?);
        self.host_mut(source)
            .connect_pair(here, destination, there, spec, tuples)
            .map_err(refused)?;
        self.host_mut(destination)
            .connect_pair(there, source, here, spec, tuples)
            .map_err(refused)?;
        Ok(here)
    }
}
