//! The TCP of a host: its connections, and what they have to send.

use std::collections::{BTreeMap, VecDeque};

use rdma::Time;

use super::Host;
use crate::address::{Tuple, address_of, hash_of};
use crate::counters::Drop;
use crate::limits::TCP_CONNECTIONS_MAX;
use crate::links::{EventKind, Links};
use crate::packet::Sent;
use crate::random::{Random, of_seed, split_mix};
use crate::tcp::{Codec, Connection, Ends, Progress, Segment};
use crate::workload::{FlowSpec, Flows};

/// Ports of clients begin here, those of servers half-way from here to the end.
const FIRST_PORT: u32 = 1_024;
const SERVER_PORTS: u32 = FIRST_PORT + TCP_CONNECTIONS_MAX;

/// The TCP of one host, made with its first connection.
#[derive(Debug)]
pub(super) struct Tcp {
    connections: Vec<Connection>,
    clients: u32,
    servers: u32,
    /// By the host at the other end, and its port.
    by_peer: BTreeMap<(u32, u16), u32>,
    /// Packets that are ready to leave, by priority.
    pub(super) ready: Vec<(u8, VecDeque<u32>)>,
    /// Draws the delays of the kernel.
    random: Random,
    codecs: [Codec; 2],
    outgoing: Vec<Segment>,
}

/// The argument of the [`EventKind::Tcp`] that opens a connection.
pub(crate) const fn opening(connection: u32) -> u32 {
    connection << STEP_BITS | Step::Timer as u32
}

/// What an [`EventKind::Tcp`] is about: the low bits of its argument, below the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// A message or an answer reaches the stack.
    Sends,
    /// A message or an answer reaches the application.
    Receives,
    /// A timer of the stack.
    Timer,
}

const STEPS: [Step; 3] = [Step::Sends, Step::Receives, Step::Timer];
const STEP_BITS: u32 = 2;

impl Tcp {
    fn new(host: u32, seed: u64) -> Self {
        Self {
            connections: Vec::new(),
            clients: 0,
            servers: 0,
            by_peer: BTreeMap::new(),
            ready: Vec::new(),
            random: Random::new(split_mix(u64::from(host) ^ 0x7c9 ^ of_seed(seed))),
            codecs: Default::default(),
            outgoing: Vec::new(),
        }
    }

    /// See [`Host::delivered`].
    pub(super) fn delivered(&self) -> impl Iterator<Item = (u32, u64)> {
        self.connections.iter().map(|at| (at.ends.flow, at.read()))
    }

    /// The queue of packets that a pause of `priority` stops.
    fn queue(&mut self, priority: u8) -> &mut VecDeque<u32> {
        let found = self.ready.iter().position(|(other, _)| *other == priority);
        let index = found.unwrap_or_else(|| {
            self.ready.push((priority, VecDeque::new()));
            self.ready.len() - 1
        });
        &mut self.ready[index].1
    }
}

impl Host {
    fn tcp(&mut self) -> &mut Tcp {
        let (index, seed) = (self.index, self.seed);
        self.tcp.get_or_insert_with(|| Box::new(Tcp::new(index, seed)))
    }

    /// A port that no connection of this host has yet, for a client or a server.
    pub(crate) fn take_tcp_port(&mut self, client: bool) -> Option<u16> {
        let tcp = self.tcp();
        let (count, first) = match client {
            true => (&mut tcp.clients, FIRST_PORT),
            false => (&mut tcp.servers, SERVER_PORTS),
        };
        let port = first + *count;
        if *count >= TCP_CONNECTIONS_MAX {
            return None;
        }
        *count += 1;
        // Below 2^16, as the count is below its bound.
        Some(port as u16)
    }

    /// Makes an end of a connection, between `ports` of this host and of the other. Returns its
    /// number here.
    pub(crate) fn add_connection(
        &mut self,
        flow: u32,
        spec: &FlowSpec,
        ports: (u16, u16),
        tuples: &mut Vec<Tuple>,
    ) -> u32 {
        let client = spec.source == self.index;
        let peer = if client { spec.destination } else { spec.source };
        let ends = Ends {
            flow,
            client,
            local: (address_of(self.index), ports.0),
            remote: (address_of(peer), ports.1),
            traffic_class: spec.dscp << 2,
            priority: self.config.priority_of(spec.dscp),
            message_bytes: spec.message_bytes,
            reply_bytes: spec.reply_bytes,
        };
        let config = self.config.tcp;
        let seed = split_mix(u64::from(flow) << 1 | u64::from(client));
        let mut connection = Connection::new(ends, &config, seed);
        let hash = hash_of(self.index, peer, ports.0);
        let source_port = ports.0;
        connection.tuple = tuples.len() as u32;
        tuples.push(Tuple { source: self.index, destination: peer, source_port, hash });
        let tcp = self.tcp();
        let index = tcp.connections.len() as u32;
        tcp.connections.push(connection);
        tcp.by_peer.insert((peer, ports.1), index);
        index
    }

    /// Posts as many messages of `flow` to a connection as it has room for.
    pub(crate) fn post_tcp(
        &mut self,
        links: &mut Links,
        flows: &mut Flows,
        flow: u32,
        connection: u32,
    ) {
        let now = links.now();
        for _ in 0..flows.flow(flow).room() {
            flows.posted(flow, now);
            self.application_sends(links, connection);
        }
    }

    /// An application hands a message or an answer to the kernel.
    fn application_sends(&mut self, links: &mut Links, connection: u32) {
        let kernel = self.config.tcp.kernel;
        let tcp = self.tcp();
        let delay = kernel.sample(&mut tcp.random);
        let at = &mut tcp.connections[connection as usize];
        at.sending = (at.sending + 1).max(links.now() + delay);
        let delay = at.sending - links.now();
        let argument = connection << STEP_BITS | Step::Sends as u32;
        links.schedule(delay, EventKind::Tcp, self.port, argument);
    }

    /// An [`EventKind::Tcp`] has come.
    pub(crate) fn tcp_step(&mut self, links: &mut Links, flows: &mut Flows, argument: u32) {
        let connection = argument >> STEP_BITS;
        let step = STEPS[(argument as usize & 3) % STEPS.len()];
        let now = links.now();
        let at = &mut self.tcp().connections[connection as usize];
        let ends = at.ends;
        match step {
            Step::Sends => {
                let answer = ends.reply_bytes.filter(|_| !ends.client);
                at.write(answer.unwrap_or(ends.message_bytes));
            }
            Step::Receives if ends.client => {
                flows.completed(ends.flow, now);
                return self.go_on(links, flows, connection, ends.flow);
            }
            Step::Receives => return self.application_sends(links, connection),
            Step::Timer if at.timer_at > now && at.timer_at != u64::MAX => return,
            Step::Timer => at.timer_at = u64::MAX,
        }
        self.work(links, flows, connection, None);
    }

    /// A message is done: the next is posted.
    fn go_on(&mut self, links: &mut Links, flows: &mut Flows, connection: u32, flow: u32) {
        for next in flows.next_of(flow) {
            let of_next = if next == flow { Some(connection) } else { self.connection_of(next) };
            if let Some(connection) = of_next {
                self.post_tcp(links, flows, next, connection);
            }
        }
    }

    fn connection_of(&self, flow: u32) -> Option<u32> {
        let connections = &self.tcp.as_ref()?.connections;
        let found = connections.iter().position(|at| at.ends.flow == flow && at.ends.client);
        found.map(|index| index as u32)
    }

    /// A segment has arrived.
    pub(super) fn deliver_tcp(&mut self, links: &mut Links, flows: &mut Flows, packet: u32) {
        let (segment, tuple) = links.pool.tcp(packet);
        let Tuple { source, source_port, .. } = links.common.tuples[tuple as usize];
        links.pool.free(packet);
        let found = self.tcp().by_peer.get(&(source, source_port)).copied();
        let Some(connection) = found else { return links.drops.add(Drop::Refused) };
        links.delivered += 1;
        self.work(links, flows, connection, Some(&segment));
    }

    /// Runs the stack of a connection, and sends what it gives out.
    fn work(
        &mut self,
        links: &mut Links,
        flows: &mut Flows,
        connection: u32,
        segment: Option<&Segment>,
    ) {
        let now = links.now();
        let Tcp { connections, outgoing, codecs, .. } = self.tcp();
        let at = &mut connections[connection as usize];
        let progress = at.advance(Time::from_ps(now), segment, outgoing, codecs);
        let (ends, tuple) = (at.ends, at.tuple);
        let segments = core::mem::take(outgoing);
        for segment in &segments {
            self.ip_id = self.ip_id.wrapping_add(1);
            let sent = Sent {
                tuple,
                traffic_class: ends.traffic_class,
                ip_id: self.ip_id,
                pcp: self.config.tagged.then_some(ends.priority),
            };
            let packet = links.pool.segment(segment, &sent);
            links.created += 1;
            self.tcp().queue(ends.priority).push_back(packet);
        }
        let tcp = self.tcp();
        tcp.outgoing = segments;
        tcp.outgoing.clear();
        self.follow(links, flows, connection, progress);
        self.kick(links);
    }

    fn follow(
        &mut self,
        links: &mut Links,
        flows: &mut Flows,
        connection: u32,
        progress: Progress,
    ) {
        let now = links.now();
        let (port, kernel) = (self.port, self.config.tcp.kernel);
        let argument = |step: Step| connection << STEP_BITS | step as u32;
        let tcp = self.tcp();
        let at = &mut tcp.connections[connection as usize];
        let ends = at.ends;
        if let Some(timer) = progress.timer.filter(|&timer| timer < at.timer_at) {
            // The stack's clock may not have reached the microsecond that it waits for.
            let delay = timer.saturating_sub(now).max(1_000_000);
            at.timer_at = now + delay;
            links.schedule(delay, EventKind::Tcp, port, argument(Step::Timer));
        }
        // Only messages that are answered reach an application; others are done when they are acknowledged.
        let awaited = if ends.reply_bytes.is_some() { progress.received } else { 0 };
        for _ in 0..awaited {
            let delay = kernel.sample(&mut tcp.random);
            let at = &mut tcp.connections[connection as usize];
            at.receiving = (at.receiving + 1).max(now + delay);
            let delay = at.receiving - now;
            links.schedule(delay, EventKind::Tcp, port, argument(Step::Receives));
        }
        if ends.client && ends.reply_bytes.is_none() {
            for _ in 0..progress.acknowledged {
                flows.completed(ends.flow, now);
                self.go_on(links, flows, connection, ends.flow);
            }
        }
    }

    /// The next segment whose priority is not paused.
    pub(super) fn take_segment(&mut self, paused: u8) -> Option<u32> {
        let ready = &mut self.tcp.as_mut()?.ready;
        let mut queues = ready.iter_mut().filter(|(priority, _)| paused >> priority & 1 == 0);
        queues.find_map(|(_, queue)| queue.pop_front())
    }

    /// The tuple of what a connection sends.
    pub(super) fn tuple_of_connection(&self, connection: u32) -> Option<u32> {
        Some(self.tcp.as_ref()?.connections.get(connection as usize)?.tuple)
    }

    /// The local port of the connection with a peer's port.
    pub(crate) fn tcp_port(&self, peer: u32, peer_port: u16) -> Option<u16> {
        let tcp = self.tcp.as_ref()?;
        let connection = *tcp.by_peer.get(&(peer, peer_port))?;
        Some(tcp.connections.get(connection as usize)?.ends.local.1)
    }

    /// Connections whose handshake is over.
    #[cfg(test)]
    pub(crate) fn open_connections(&self) -> usize {
        let Some(tcp) = &self.tcp else { return 0 };
        tcp.connections.iter().filter(|connection| connection.is_open()).count()
    }
}
