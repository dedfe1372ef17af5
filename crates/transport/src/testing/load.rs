//! Programs that keep queue pairs busy over a [`Path`], as perftest does: so many messages are under way on
//! each, and one that is done makes room for the next.
//!
//! Node 0 asks and node 1 answers. Each message has a place of its own in the memory of both, and its content is
//! checked when it is done.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use rdma::{CompletionOpcode, CompletionStatus, Mtu, QpState, QpType, Qpn, SendFlags, Span};

use super::path::{Counts, Path, Shared};
use super::{Node, Pair};
use crate::{BetweenHosts, Config, Congestion};

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// RDMA WRITE.
    Write,
    /// SEND, with as many receives posted as there are messages under way, and as many again.
    Send,
    /// RDMA READ.
    Read,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Write, Self::Send, Self::Read];
}

/// What is done over a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// The same for all queue pairs.
    pub verb: Verb,
    /// Bytes of a message.
    pub length: u32,
    /// Messages under way on each queue pair.
    pub depth: u64,
    /// Queue pairs.
    pub qps: usize,
    /// Of packets.
    pub mtu: Mtu,
    /// READs that a queue pair may have under way.
    pub rd_atomics: u8,
}

impl Load {
    /// 128 messages of 64 KiB on one queue pair.
    pub const fn new(verb: Verb, mtu: Mtu) -> Self {
        Self { verb, length: 64 << 10, depth: 128, qps: 1, mtu, rd_atomics: 128 }
    }
}

/// How soft NICs of two hosts are set, with this control.
pub fn config(congestion: Congestion) -> Config {
    let between_hosts = BetweenHosts {
        congestion,
        window_bytes: u64::MAX,
        refill_bytes: 32 << 10,
        signs: true,
        out_of_order_packets: 8192,
        out_of_order_bytes: 16 << 20,
        stride_max: 0,
    };
    Config {
        window_bytes: 522_240,
        refill_bytes: 261_120,
        ack_interval_packets: 30,
        ack_delay: Span::from_us(100),
        pace_slack: Span::from_us(100),
        between_hosts: Some(between_hosts),
        ..Config::default()
    }
}

/// The same at an Ethernet port that has this MTU, and so 1,500 or 9,000 bytes.
fn at_port(config: Config, active_mtu: Mtu) -> Config {
    let interface = if active_mtu <= Mtu::B1024 { 1_500 } else { 9_000 };
    let stride_max = wire::bth::Stride::of_interface(interface).bytes().unwrap_or(0);
    let between_hosts = config.between_hosts.map(|between| BetweenHosts { stride_max, ..between });
    Config { active_mtu, between_hosts, ..config }
}

/// A queue pair at work.
#[derive(Clone, Copy, Debug)]
struct Flow {
    qpns: [Qpn; 2],
    posted: u64,
    done: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Program {
    /// The two ends.
    pub pair: Pair,
    load: Load,
    flows: Vec<Flow>,
    counts: Shared,
    /// No more messages are posted on a queue pair once it has posted so many.
    most: u64,
}

impl Program {
    /// Queue pairs that are connected over `path`, with nothing posted on them yet.
    pub fn new(config: Config, load: Load, path: Path, seed: u64, tcp_from: Option<usize>) -> Self {
        let places = load.qps as u64 * load.depth;
        let bytes = places * u64::from(load.length);
        let mut pair = Pair::with_memory(at_port(config, load.mtu), bytes as usize);
        let (rule, counts) = path.rule_beside(seed, tcp_from);
        pair.rule(rule);
        pair.latency = Span::ZERO;
        let mut flows = Vec::new();
        for _ in 0..load.qps {
            pair.connect(QpType::Rc, [None, None], |change| {
                change.path_mtu = change.path_mtu.map(|_| load.mtu);
                change.max_rd_atomic = change.max_rd_atomic.map(|_| load.rd_atomics);
                change.max_dest_rd_atomic = change.max_dest_rd_atomic.map(|_| load.rd_atomics);
                if change.state == Some(QpState::Rtr) {
                    change.between_hosts = Some(true);
                }
            });
            let qpns = pair.nodes.each_ref().map(|node| node.qpn);
            flows.push(Flow { qpns, posted: 0, done: 0 });
        }
        let mut program = Self { pair, load, flows, counts, most: u64::MAX };
        let from = usize::from(load.verb == Verb::Read);
        for place in 0..places {
            let length = load.length as usize;
            program.pair.nodes[from].fill(place * length as u64, length, mark(place));
        }
        for flow in 0..load.qps {
            for message in 0..load.depth * 2 {
                program.post_receive(flow, message);
            }
        }
        program
    }

    /// What has become of packets so far.
    pub fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// Brings so many messages over by each queue pair.
    ///
    /// # Errors
    /// What went wrong, or that it is not done within a time.
    pub fn finish(&mut self, messages: u64, within: Span) -> Result<Span, String> {
        self.most = messages;
        let began = self.pair.now;
        let end = began + within;
        for flow in 0..self.flows.len() {
            self.fill(flow);
        }
        while self.flows.iter().any(|flow| flow.done < messages) {
            if !self.pair.drive_once(end) {
                let done: Vec<u64> = self.flows.iter().map(|flow| flow.done).collect();
                let stats = self.pair.nodes.each_ref().map(|node| node.endpoint.stats());
                return Err(format!(
                    "{done:?} of {messages} messages are done after {within}: {stats:?}"
                ));
            }
            self.go_on()?;
        }
        let places = self.flows.len() as u64 * self.load.depth;
        for place in 0..places.min(messages * self.flows.len() as u64) {
            self.check(place)?;
        }
        Ok(self.pair.now.since(began))
    }

    /// Goes on for `span`. Returns how many bytes each queue pair has brought over.
    ///
    /// # Errors
    /// What went wrong.
    pub fn go_on_for(&mut self, span: Span) -> Result<Vec<u64>, String> {
        let end = self.pair.now + span;
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.done).collect();
        for flow in 0..self.flows.len() {
            self.fill(flow);
        }
        while self.pair.drive_once(end) {
            self.go_on()?;
        }
        let length = u64::from(self.load.length);
        Ok(self.flows.iter().zip(before).map(|(flow, done)| (flow.done - done) * length).collect())
    }

    /// Takes what is done, and posts more.
    fn go_on(&mut self) -> Result<(), String> {
        for completion in self.pair.nodes[1].completions() {
            self.is_success(completion.status, 1)?;
            let flow = self.flow_of(1, completion.qpn)?;
            self.post_receive(flow, completion.id);
        }
        for completion in self.pair.nodes[0].completions() {
            self.is_success(completion.status, 0)?;
            debug_assert_ne!(completion.opcode, CompletionOpcode::Recv, "nobody sends to node 0");
            let at = self.flow_of(0, completion.qpn)?;
            let flow = &mut self.flows[at];
            if completion.id != flow.done {
                return Err(format!("message {} is done before {}", completion.id, flow.done));
            }
            flow.done += 1;
            self.fill(at);
        }
        Ok(())
    }

    fn is_success(&self, status: CompletionStatus, node: usize) -> Result<(), String> {
        if status == CompletionStatus::Success {
            return Ok(());
        }
        let stats = self.pair.nodes.each_ref().map(|node| node.endpoint.stats());
        Err(format!("{status:?} at node {node}, {}: {stats:?}", self.pair.now))
    }

    fn flow_of(&self, node: usize, qpn: Qpn) -> Result<usize, String> {
        let at = self.flows.iter().position(|flow| flow.qpns[node] == qpn);
        at.ok_or_else(|| format!("a completion of {qpn}, which is nobody's"))
    }

    /// Posts as many messages as may be under way.
    fn fill(&mut self, at: usize) {
        let Load { verb, length, depth, .. } = self.load;
        let Flow { qpns, mut posted, done } = self.flows[at];
        self.pair.nodes[0].qpn = qpns[0];
        while posted < self.most && posted - done < depth {
            let place = at as u64 * depth + posted % depth;
            let offset = place * u64::from(length);
            let operation = match verb {
                Verb::Write => self.pair.write(1, offset),
                Verb::Send => Pair::send(),
                Verb::Read => self.pair.read(1, offset),
            };
            let piece = self.pair.nodes[0].sge(offset, length);
            let posting = self.pair.try_post(0, posted, operation, &[piece], SendFlags::SIGNALED);
            posting.expect("the send queue is deeper than what is under way");
            posted += 1;
        }
        self.flows[at].posted = posted;
    }

    /// The receive of message `message`; its identifier is that of the message which is to take its place.
    fn post_receive(&mut self, at: usize, message: u64) {
        let Load { verb, length, depth, .. } = self.load;
        if verb != Verb::Send {
            return;
        }
        let place = at as u64 * depth + message % depth;
        let piece = self.pair.nodes[1].sge(place * u64::from(length), length);
        self.pair.nodes[1].qpn = self.flows[at].qpns[1];
        self.pair.post_recv(1, message + depth * 2, &[piece]);
    }

    /// Whether what lies at a place of the receiver is what it should be.
    fn check(&mut self, place: u64) -> Result<(), String> {
        let length = self.load.length as usize;
        let to = usize::from(self.load.verb != Verb::Read);
        let mut expected = vec![0; length];
        pattern(&mut expected, mark(place));
        let found = self.pair.nodes[to].bytes(place * length as u64, length);
        match found.iter().zip(&expected).position(|(found, expected)| found != expected) {
            Some(at) => Err(format!("byte {at} of place {place} is not what it should be")),
            None => Ok(()),
        }
    }
}

/// What tells the content of one place from that of others.
fn mark(place: u64) -> u8 {
    (place * 7 + 1) as u8
}

/// As [`Node::fill`] does it.
fn pattern(bytes: &mut [u8], seed: u8) {
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = Node::pattern(index, seed);
    }
}
