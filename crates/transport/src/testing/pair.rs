//! Two engines, joined.

use core::net::Ipv4Addr;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::fmt;
use std::vec;
use std::vec::Vec;

use rdma::{
    Access, Completion, Gid, Key, Mtu, Operation, Psn, QKey, QpState, QpType, Qpn, Rate,
    RecvRequest, SendFlags, Sge, Span, Time, UdAddress, WorkRequest,
};

use super::TestMemory;
use crate::{
    AddressVector, Arrival, BringUp, Config, CqId, Endpoint, Event, Payload, PdId, PostError,
    QpCapacity, QpChange, QpSpec, RegionSpec, Route, Segment, SrqId,
};

/// Bytes of memory that each node has by default.
const MEMORY: usize = 1 << 24;

/// What happens to a packet on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It arrives after the link's latency.
    Deliver,
    /// It is lost.
    Drop,
    /// It arrives later by this much.
    Delay(Span),
    /// It arrives twice.
    Duplicate,
    /// It arrives with a mark of congestion (CE), if its sender allows marks.
    Mark,
    /// It arrives later by this much, so often, and with a mark or not.
    Arrive {
        /// Beyond the link's latency.
        after: Span,
        /// How often.
        copies: u64,
        /// As [`Verdict::Mark`].
        marks: bool,
    },
}

/// A packet on the wire, as a rule sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wire {
    /// How many packets the pair had sent before.
    pub index: u64,
    /// The node that sent it.
    pub from: usize,
    /// When.
    pub at: Time,
    /// Where it goes.
    pub destination: Gid,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// Its headers.
    pub header: wire::roce::Repr,
    /// Headers, payload and padding, as bytes.
    pub bytes: Vec<u8>,
}

/// One end.
#[derive(Debug)]
pub struct Node {
    /// The engine.
    pub endpoint: Endpoint,
    /// The application's memory.
    pub memory: TestMemory,
    /// A protection domain.
    pub pd: PdId,
    /// A completion queue for sends and receives.
    pub cq: CqId,
    /// A region over all of memory, with all rights.
    pub key: Key,
    /// The queue pair that [`Pair::connect`] made.
    pub qpn: Qpn,
    /// Its address.
    pub gid: Gid,
    /// Events that were raised, oldest first.
    pub events: Vec<Event>,
}

impl Node {
    fn new(index: u8, config: Config, memory: usize) -> Self {
        let mut endpoint = Endpoint::new(config);
        let pd = endpoint.alloc_pd().expect("a new endpoint has room");
        let cq = endpoint.create_cq(1 << 16).expect("a new endpoint has room");
        let all = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let region = RegionSpec {
            address: TestMemory::BASE,
            length: memory as u64,
            iova: TestMemory::BASE,
            access: all,
        };
        let key = endpoint.register(pd, region).expect("a new endpoint has room");
        Self {
            endpoint,
            memory: TestMemory::new(memory),
            pd,
            cq,
            key,
            qpn: Qpn::default(),
            gid: Ipv4Addr::new(10, 0, 0, index + 1).into(),
            events: Vec::new(),
        }
    }

    /// Makes a queue pair of a usual size, in RESET.
    pub fn create_qp(&mut self, kind: QpType, srq: Option<SrqId>) -> Qpn {
        let capacity =
            QpCapacity { send_wr: 4096, recv_wr: 4096, send_sge: 8, recv_sge: 8, inline: 256 };
        let spec = QpSpec {
            kind,
            pd: self.pd,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq,
            capacity,
            signal_all: false,
        };
        self.endpoint.create_qp(spec).expect("the sizes are within the limits")
    }

    /// A piece of this node's memory, `offset` bytes into it.
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { address: TestMemory::BASE + offset, length, l_key: self.key }
    }

    /// Fills memory with a pattern that depends on `seed`.
    pub fn fill(&mut self, offset: u64, length: usize, seed: u8) {
        for (index, byte) in
            self.memory.at(TestMemory::BASE + offset, length).iter_mut().enumerate()
        {
            *byte = Self::pattern(index, seed);
        }
    }

    /// Byte `index` of the pattern.
    pub(super) fn pattern(index: usize, seed: u8) -> u8 {
        seed.wrapping_add((index ^ index >> 8) as u8)
    }

    /// The bytes `offset` into memory.
    pub fn bytes(&mut self, offset: u64, length: usize) -> Vec<u8> {
        self.memory.at(TestMemory::BASE + offset, length).to_vec()
    }

    /// Every completion that waits.
    pub fn completions(&mut self) -> Vec<Completion> {
        let (endpoint, cq) = (&mut self.endpoint, self.cq);
        core::iter::from_fn(|| endpoint.poll_cq(cq)).collect()
    }
}

/// Two nodes and the link between them.
pub struct Pair {
    /// The nodes. By convention 0 asks and 1 answers.
    pub nodes: [Node; 2],
    /// The present.
    pub now: Time,
    /// From one end to the other.
    pub latency: Span,
    /// How fast each end sends, by bytes of Ethernet; without it, at once. A packet is taken from an
    /// engine when the link is free for it.
    pub rate: Option<Rate>,
    /// The drivers look at their packets and timers at multiples of this time alone; zero looks at once.
    pub glance: Span,
    /// What was sent, if [`Pair::record`] was called.
    pub sent: Vec<Wire>,
    recording: bool,
    rule: Box<dyn FnMut(&Wire) -> Verdict>,
    /// What is on its way, by time of arrival and order of sending.
    flying: BTreeMap<(Time, u64), Wire>,
    count: u64,
    /// When the link of each end is free.
    free_at: [Time; 2],
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("now", &self.now).field("nodes", &self.nodes).finish()
    }
}

impl Default for Pair {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl Pair {
    /// Two nodes of the same settings, not connected.
    pub fn new(config: Config) -> Self {
        Self::with_memory(config, MEMORY)
    }

    /// The same, with `memory` bytes at each node.
    pub fn with_memory(config: Config, memory: usize) -> Self {
        Self::of([Node::new(0, config.clone(), memory), Node::new(1, config, memory)])
    }

    /// Two nodes of settings of their own.
    pub fn unequal([first, second]: [Config; 2]) -> Self {
        Self::of([Node::new(0, first, MEMORY), Node::new(1, second, MEMORY)])
    }

    fn of(nodes: [Node; 2]) -> Self {
        Self {
            nodes,
            now: Time::from_ns(1),
            latency: Span::from_us(1),
            rate: None,
            free_at: [Time::ZERO; 2],
            glance: Span::ZERO,
            sent: Vec::new(),
            recording: false,
            rule: Box::new(|_| Verdict::Deliver),
            flying: BTreeMap::new(),
            count: 0,
        }
    }

    /// Two nodes with a connected pair of `kind`, each in RTS.
    pub fn connected(kind: QpType) -> Self {
        let mut pair = Self::default();
        pair.connect(kind, [None, None], |_| {});
        pair
    }

    /// Makes a queue pair at each node and moves both to RTS. `adjust` may alter the attributes.
    pub fn connect(
        &mut self,
        kind: QpType,
        srqs: [Option<SrqId>; 2],
        adjust: impl Fn(&mut QpChange),
    ) {
        for (node, srq) in self.nodes.iter_mut().zip(srqs) {
            node.qpn = node.create_qp(kind, srq);
        }
        for index in [0, 1] {
            self.bring_up(index, kind, &adjust);
        }
    }

    /// Moves the queue pair of node `index` from RESET to RTS.
    pub fn bring_up(&mut self, index: usize, kind: QpType, adjust: &impl Fn(&mut QpChange)) {
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            let change = self.change(index, kind, state, adjust);
            let node = &mut self.nodes[index];
            node.endpoint.modify_qp(node.qpn, &change).expect("the attributes are complete");
        }
    }

    /// The usual change of node `index` to `state`.
    pub fn change(
        &self,
        index: usize,
        kind: QpType,
        state: QpState,
        adjust: &impl Fn(&mut QpChange),
    ) -> QpChange {
        let (node, peer) = (&self.nodes[index], &self.nodes[1 - index]);
        // PSNs begin just before they wrap, so that every test crosses the end of the circle.
        let psn = |index: usize| Psn::new(0xff_fffe - index as u32);
        let path =
            AddressVector { gid: peer.gid, source_gid: node.gid, ..AddressVector::default() };
        let up = BringUp {
            q_key: QKey(0x1111),
            rq_psn: psn(1 - index),
            sq_psn: psn(index),
            rd_atomics: 4,
            ..BringUp::new(path, Mtu::B1024, peer.qpn)
        };
        let usual = up.changes(kind).into_iter().find(|change| change.state == Some(state));
        let mut change = usual.unwrap_or_else(|| QpChange::to(state));
        adjust(&mut change);
        change
    }

    /// From now on `rule` decides about every packet.
    pub fn rule(&mut self, rule: impl FnMut(&Wire) -> Verdict + 'static) {
        self.rule = Box::new(rule);
    }

    /// From now on what is sent is kept in [`Pair::sent`].
    pub fn record(&mut self) {
        self.recording = true;
    }

    /// Posts a send request at node `index`, signalled.
    ///
    /// # Panics
    /// If it is refused.
    pub fn post(&mut self, index: usize, id: u64, operation: Operation, sges: &[Sge]) {
        self.try_post(index, id, operation, sges, SendFlags::SIGNALED).expect("the post is right");
    }

    /// Posts a send request.
    ///
    /// # Errors
    /// As the engine refuses it.
    pub fn try_post(
        &mut self,
        index: usize,
        id: u64,
        operation: Operation,
        sges: &[Sge],
        flags: SendFlags,
    ) -> Result<(), PostError> {
        let node = &mut self.nodes[index];
        let request = WorkRequest { id, operation, flags, sges, inline: None };
        node.endpoint.post_send(self.now, node.qpn, &request)
    }

    /// Posts a receive at node `index`.
    ///
    /// # Panics
    /// If it is refused.
    pub fn post_recv(&mut self, index: usize, id: u64, sges: &[Sge]) {
        let node = &mut self.nodes[index];
        let request = RecvRequest { id, sges };
        node.endpoint.post_recv(node.qpn, &request).expect("the post is right");
    }

    /// A plain SEND.
    pub fn send() -> Operation {
        Operation::Send { immediate: None, address: None }
    }

    /// A SEND of a datagram to node `index`.
    pub fn datagram(&self, index: usize, q_key: QKey) -> Operation {
        let (to, from) = (&self.nodes[index], &self.nodes[1 - index]);
        let address = UdAddress {
            gid: to.gid,
            source_gid: from.gid,
            traffic_class: 0,
            hop_limit: 0,
            flow_label: 0,
            qpn: to.qpn,
            q_key,
        };
        Operation::Send { immediate: None, address: Some(address) }
    }

    /// A plain RDMA WRITE to `offset` of node `index`'s memory.
    pub fn write(&self, index: usize, offset: u64) -> Operation {
        let (remote_address, r_key) = (TestMemory::BASE + offset, self.nodes[index].key);
        Operation::Write { remote_address, r_key, immediate: None }
    }

    /// A READ from `offset` of node `index`'s memory.
    pub fn read(&self, index: usize, offset: u64) -> Operation {
        let (remote_address, r_key) = (TestMemory::BASE + offset, self.nodes[index].key);
        Operation::Read { remote_address, r_key }
    }

    /// Runs until nothing is on its way and no timer is running.
    ///
    /// # Panics
    /// After more steps than any test needs: something goes round in circles.
    pub fn drive(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step(None) {
                return;
            }
        }
        panic!("still busy at {}: {:?}", self.now, self.nodes[0].endpoint.stats());
    }

    /// Runs for `span`, at most.
    pub fn drive_for(&mut self, span: Span) {
        let end = self.now + span;
        while self.step(Some(end)) {}
        self.now = self.now.max(end);
    }

    /// Runs until the next event, if there is one before `end`. Returns whether there was.
    pub fn drive_once(&mut self, end: Time) -> bool {
        self.step(Some(end))
    }

    /// Sends what is to be sent, then jumps to the next event. `false` if there is none until
    /// `end`.
    fn step(&mut self, end: Option<Time>) -> bool {
        for index in [0, 1] {
            self.transmit(index);
            let node = &mut self.nodes[index];
            while let Some(event) = node.endpoint.poll_event() {
                node.events.push(event);
            }
        }
        let arrival = self.flying.keys().next().map(|&(at, _)| at);
        let timeouts = self.nodes.iter_mut().filter_map(|node| node.endpoint.poll_timeout());
        let free = self.free_at.into_iter().filter(|&at| at > self.now);
        let Some(next) = timeouts.chain(arrival).chain(free).min() else { return false };
        if end.is_some_and(|end| next > end) {
            return false;
        }
        self.now = self.now.max(self.seen_at(next));
        // Everything that arrives at one moment arrives as one batch.
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let packet = entry.remove();
            self.deliver(&packet);
        }
        for node in &mut self.nodes {
            node.endpoint.handle_timeout(self.now);
        }
        true
    }

    /// When the drivers see what happens at `at`.
    fn seen_at(&self, at: Time) -> Time {
        match at.as_ps() % self.glance.as_ps().max(1) {
            0 => at,
            past => at + self.glance - Span::from_ps(past),
        }
    }

    fn transmit(&mut self, from: usize) {
        loop {
            if self.free_at[from] > self.now {
                return;
            }
            let node = &mut self.nodes[from];
            let Some(run) = node.endpoint.poll_transmit(self.now, 1) else { return };
            let header = *run.header();
            let Route { destination, traffic_class, .. } = *run.route();
            let Some(bytes) = emit(&header, run.payload(), &mut node.memory) else {
                run.faulted(0);
                continue;
            };
            run.sent();
            let taken = self.rate.map_or(Span::ZERO, |rate| rate.time_of(on_wire(bytes.len())));
            self.free_at[from] = self.now + taken;
            let (index, at) = (self.count, self.now);
            let mut packet = Wire { index, from, at, destination, traffic_class, header, bytes };
            self.count += 1;
            if self.recording {
                self.sent.push(packet.clone());
            }
            let (delay, copies, marks) = match (self.rule)(&packet) {
                Verdict::Deliver => (Span::ZERO, 1, false),
                Verdict::Drop => (Span::ZERO, 0, false),
                Verdict::Delay(span) => (span, 1, false),
                Verdict::Duplicate => (Span::ZERO, 2, false),
                Verdict::Mark => (Span::ZERO, 1, true),
                Verdict::Arrive { after, copies, marks } => (after, copies, marks),
            };
            if marks {
                packet.traffic_class = marked(traffic_class);
            }
            for copy in 0..copies {
                let key = (self.now + taken + self.latency + delay, 2 * packet.index + copy);
                self.flying.insert(key, packet.clone());
            }
        }
    }

    fn deliver(&mut self, packet: &Wire) {
        let arrival = Arrival {
            source: self.nodes[packet.from].gid,
            destination: packet.destination,
            traffic_class: packet.traffic_class,
            hop_limit: 64,
        };
        self.inject(1 - packet.from, &arrival, &packet.bytes);
    }

    /// Gives bytes to node `index` as if they had arrived.
    pub fn inject(&mut self, index: usize, arrival: &Arrival, bytes: &[u8]) {
        let node = &mut self.nodes[index];
        let Ok((header, payload)) = wire::roce::Repr::parse(bytes) else { return };
        let (length, memory) = (payload.len(), &mut node.memory);
        // The cause is counted in the endpoint's statistics.
        let _ = node.endpoint.handle(self.now, arrival, &header, payload, length, memory);
    }
}

/// Bytes of Ethernet that a packet takes without its ICRC: preamble, Ethernet, IPv4, UDP, ICRC, FCS
/// and the gap between two frames are added.
pub fn on_wire(length: usize) -> u64 {
    length as u64 + 8 + 14 + 20 + 8 + 4 + 4 + 12
}

/// What a congested switch makes of a traffic class: CE, if it says ECT (RFC 3168).
pub(super) fn marked(traffic_class: u8) -> u8 {
    if traffic_class & 3 == 0 { traffic_class } else { traffic_class | 3 }
}

/// A packet as bytes without its ICRC; `None` if its memory is gone.
pub(super) fn emit<M: rdma::Memory>(
    header: &wire::roce::Repr,
    payload: Payload<'_>,
    memory: &mut M,
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    for segment in payload.segments() {
        match segment {
            Segment::Bytes(piece) => bytes.extend_from_slice(piece),
            Segment::Memory { address, length } => {
                let start = bytes.len();
                bytes.resize(start + length as usize, 0);
                memory.load(address, bytes.get_mut(start..)?).ok()?;
            }
        }
    }
    bytes.resize(bytes.len() + usize::from(header.bth.pad), 0);
    assert_eq!(bytes.len() % 4, 0, "packets are padded to words");
    Some(bytes)
}
