//! Execution traces of Chakra (MLCommons), a file for each rank.
//!
//! ```text
//!   file       length, GlobalMetadata, length, Node, length, Node, ...      (lengths are varints)
//!   Node       id = 1, name = 2, type = 3, data_deps = 5, duration_micros = 7, attr = 10
//!   attr       name = 1, and a value in a field for its type
//!
//!   COMM_SEND, COMM_RECV   comm_dst or comm_src, comm_tag, comm_size
//!   COMM_COLL              comm_type, comm_size, pg_name
//!   all others             computation for duration_micros, on core 0 if is_cpu_op says so, else on core 1
//! ```
//!
//! Nodes follow each other by data_deps alone, as Chakra's own feeder takes them: ctrl_deps say who has called whom, may
//! name nodes that were left out, and with data_deps go in circles.
//!
//! A trace of PyTorch has a collective twice: the call, on the processor and without a comm_type, and the kernel,
//! which does it. The call is a computation.
//!
//! Those who take part in a collective are the ranks whose traces have collectives of its pg_name; the n-th
//! of one belongs to the n-th of the others, and the first of them is the root. It goes around a ring, or directly if
//! all send to all. Sends and receives are matched as in a schedule of GOAL.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rdma::Span;
use transport::limits::MESSAGE_BYTES_MAX;

use super::collective::{Collective, Operation, Size};
use super::matching::{Matching, Mismatch, Why};
use super::schedule::{OpId, Plan, Schedule, Unfit};
use super::wire_format::{Value, delimited, field, numbers};
use crate::limits::{OPERATIONS_MAX, SECONDS_MAX};

/// What is wrong with the trace of a rank, and a remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TraceError {
    pub(crate) rank: usize,
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl TraceError {
    fn new(rank: usize, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { rank, message: message.into(), hint: hint.into() }
    }
}

/// The kinds of nodes that are more than a computation.
const SEND: u64 = 5;
const RECEIVE: u64 = 6;
const COLLECTIVE: u64 = 7;

const CUT: &str = "write the file again: it may be cut, or no trace of Chakra";
const KNOWN: &str = "those from all-reduce (0) to barrier (9) are";

/// A node, as it is written.
#[derive(Clone, Debug, Default)]
struct Node<'a> {
    id: u64,
    kind: u64,
    requires: Vec<u64>,
    micros: u64,
    is_cpu: bool,
    bytes: u64,
    source: u64,
    destination: u64,
    tag: u64,
    operation: Option<u64>,
    group: &'a [u8],
}

impl<'a> Node<'a> {
    fn read(mut bytes: &'a [u8]) -> Option<Self> {
        let mut node = Self::default();
        while !bytes.is_empty() {
            let (number, value) = field(&mut bytes)?;
            match number {
                1 => node.id = value.number()?,
                3 => node.kind = value.number()?,
                5 => numbers(value, &mut node.requires)?,
                7 => node.micros = value.number()?,
                10 => node.attribute(value.bytes()?)?,
                _ => {}
            }
        }
        Some(node)
    }

    fn attribute(&mut self, mut bytes: &'a [u8]) -> Option<()> {
        let (mut name, mut number, mut text): (&[u8], _, &[u8]) = (&[], None, &[]);
        while !bytes.is_empty() {
            match field(&mut bytes)? {
                (1, value) => name = value.bytes()?,
                (29, value) => text = value.bytes()?,
                // Zigzag: the sign is the lowest bit.
                (15 | 17, Value::Number(value)) if value & 1 == 0 => number = Some(value >> 1),
                (7 | 9 | 11 | 13 | 19 | 21 | 23 | 25 | 27, Value::Number(value)) => {
                    number = Some(value);
                }
                _ => {}
            }
        }
        match (name, number) {
            (b"comm_size", Some(number)) => self.bytes = number,
            (b"comm_src", Some(number)) => self.source = number,
            (b"comm_dst", Some(number)) => self.destination = number,
            (b"comm_tag", Some(number)) => self.tag = number,
            (b"comm_type", number) => self.operation = number,
            (b"is_cpu_op", Some(number)) => self.is_cpu = number != 0,
            (b"pg_name", _) => self.group = text,
            _ => {}
        }
        Some(())
    }

    /// Whether it only asks for a collective that another node does.
    fn is_call(&self) -> bool {
        self.is_cpu && self.operation.is_none()
    }

    fn operation(&self) -> Option<Operation> {
        Some(match self.operation? {
            // A barrier is the smallest sum.
            0 | 9 => Operation::AllReduce,
            1 => Operation::Reduce,
            2 => Operation::AllGather,
            3 => Operation::Gather,
            4 => Operation::Scatter,
            5 => Operation::Broadcast,
            6 => Operation::AllToAll,
            7 | 8 => Operation::ReduceScatter,
            _ => return None,
        })
    }
}

/// A collective of a rank.
#[derive(Clone, Copy, Debug)]
struct Part {
    id: u64,
    operation: Operation,
    bytes: u64,
    /// It begins when this is complete, which is complete when all that it requires is.
    begins: OpId,
    /// Complete when all that the rank does for it is.
    over: OpId,
}

impl Part {
    fn collective(&self, ranks: usize) -> Collective {
        let (operation, bytes) = (self.operation, self.bytes);
        Collective { operation, algorithm: operation.usual(), ranks: ranks as u32, bytes }
    }
}

/// By rank: the collectives of a process group, in their order.
type Group = BTreeMap<usize, Vec<Part>>;

/// Reads the traces of all ranks. Messages of collectives have `chunk_bytes` at most.
///
/// # Errors
/// [`TraceError`].
pub(crate) fn chakra(traces: &[Vec<u8>], chunk_bytes: u32) -> Result<Arc<Schedule>, TraceError> {
    let mut reading = Reading {
        plan: Plan::new(traces.len() as u32),
        nodes: Vec::new(),
        messages: Matching::default(),
        groups: BTreeMap::new(),
    };
    for (rank, bytes) in traces.iter().enumerate() {
        reading.rank(rank, bytes)?;
    }
    let mut room = OPERATIONS_MAX as f64 - reading.plan.len() as f64;
    for (name, group) in core::mem::take(&mut reading.groups) {
        are_alike(&String::from_utf8_lossy(name), &group)?;
        reading.collectives(&group, chunk_bytes, &mut room)?;
    }
    reading.finish()
}

/// Refuses collectives that the ranks of a group do not all have.
fn are_alike(name: &str, group: &Group) -> Result<(), TraceError> {
    let Some((first, parts)) = group.first_key_value() else { return Ok(()) };
    for (&rank, own) in group {
        let (count, expected) = (own.len(), parts.len());
        if count != expected {
            let message = format!(
                "it has {count} collectives of pg_name {name:?}, and that of rank {first} {expected}"
            );
            return Err(TraceError::new(rank, message, "all of a group do the same collectives"));
        }
        let unlike = |(own, part): &(&Part, &Part)| {
            (own.operation, own.bytes) != (part.operation, part.bytes)
        };
        if let Some((own, part)) = own.iter().zip(parts).find(unlike) {
            let (id, other) = (own.id, part.id);
            let message = format!("node {id} is not what node {other} of rank {first} is");
            let hint = "comm_type and comm_size are the same at all ranks of a pg_name";
            return Err(TraceError::new(rank, message, hint));
        }
    }
    Ok(())
}

/// A schedule, as far as it has been read.
struct Reading<'a> {
    plan: Plan,
    /// By operation, as far as they are nodes: rank and id.
    nodes: Vec<(usize, u64)>,
    messages: Matching,
    /// By name.
    groups: BTreeMap<&'a [u8], Group>,
}

impl<'a> Reading<'a> {
    fn rank(&mut self, rank: usize, mut bytes: &'a [u8]) -> Result<(), TraceError> {
        let length = bytes.len();
        let mut nodes = Vec::new();
        if bytes.is_empty() {
            return Err(TraceError::new(rank, "it is empty", CUT));
        }
        while !bytes.is_empty() {
            let at = length - bytes.len();
            let cut = || TraceError::new(rank, format!("at byte {at} there is no message"), CUT);
            let message = delimited(&mut bytes).ok_or_else(cut)?;
            // The first one is about the file.
            if at > 0 {
                nodes.push(Node::read(message).ok_or_else(cut)?);
            }
        }
        let mut known: HashMap<u64, OpId> = HashMap::new();
        let mut begins = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let (begin, over) = self.node(rank, node)?;
            begins.push(begin);
            if known.insert(node.id, over).is_some() {
                let message = format!("node {} is there twice", node.id);
                return Err(TraceError::new(rank, message, "give each node an id of its own"));
            }
        }
        for (node, &begin) in nodes.iter().zip(&begins) {
            for other in &node.requires {
                let other = known.get(other).copied().ok_or_else(|| {
                    let message = format!("node {} depends on node {other}", node.id);
                    TraceError::new(rank, message, "add that node, or remove the dependency")
                })?;
                self.plan.requires(begin, other);
            }
        }
        Ok(())
    }

    /// What a node begins and ends with.
    fn node(&mut self, rank: usize, node: &Node<'a>) -> Result<(OpId, OpId), TraceError> {
        if self.plan.len() + 2 > OPERATIONS_MAX {
            let message = format!("there is room for {OPERATIONS_MAX} operations");
            return Err(TraceError::new(rank, message, "cut the trace in pieces"));
        }
        let wrong = |what: &str, hint: &str| {
            TraceError::new(rank, format!("node {}: {what}", node.id), hint)
        };
        let (begins, over) = match node.kind {
            SEND | RECEIVE => {
                let op =
                    self.message(rank as u32, node).map_err(|(what, hint)| wrong(&what, &hint))?;
                (op, op)
            }
            COLLECTIVE if !node.is_call() => {
                let operation = node.operation();
                let operation =
                    operation.ok_or_else(|| wrong("its comm_type is not known", KNOWN))?;
                let begins = self.plan.calc(rank as u32, 0, Span::ZERO);
                let over = self.plan.calc(rank as u32, 0, Span::ZERO);
                self.plan.requires(over, begins);
                let part = Part { id: node.id, operation, bytes: node.bytes, begins, over };
                let group = self.groups.entry(node.group).or_default();
                group.entry(rank).or_default().push(part);
                (begins, over)
            }
            _ if node.micros as f64 > SECONDS_MAX * 1e6 => {
                return Err(wrong("duration_micros is above ten days", "write a shorter one"));
            }
            _ => {
                let core = u8::from(!node.is_cpu);
                let op = self.plan.calc(rank as u32, core, Span::from_us(node.micros));
                (op, op)
            }
        };
        self.nodes.resize(self.plan.len(), (rank, node.id));
        Ok((begins, over))
    }

    /// A send or a receive. Errors are what is wrong, and a remedy.
    fn message(&mut self, rank: u32, node: &Node<'_>) -> Result<OpId, (String, String)> {
        let is_send = node.kind == SEND;
        let (key, peer) = match is_send {
            true => ("comm_dst", node.destination),
            false => ("comm_src", node.source),
        };
        let last = self.plan.ranks() - 1;
        let peer = u32::try_from(peer).ok().filter(|&peer| peer <= last && peer != rank);
        let peer = peer
            .ok_or_else(|| (format!("{key} is no other rank"), format!("ranks are 0 to {last}")))?;
        let bytes = u32::try_from(node.bytes).ok().filter(|&bytes| bytes <= MESSAGE_BYTES_MAX);
        let bytes = bytes.ok_or_else(|| {
            let what = format!("comm_size is above {MESSAGE_BYTES_MAX}");
            (what, "the longest message has so many bytes: send several".to_owned())
        })?;
        let tag = u32::try_from(node.tag).map_err(|_| {
            (format!("comm_tag is above {}", u32::MAX), "write a smaller one".to_owned())
        })?;
        Ok(match is_send {
            true => self.messages.send(&mut self.plan, (rank, peer), (tag, 0), bytes),
            false => self.messages.receive(&mut self.plan, (peer, rank), tag, bytes),
        })
    }

    /// Adds the messages of the collectives of a group, for as many operations as there is room for.
    fn collectives(
        &mut self,
        group: &Group,
        chunk_bytes: u32,
        room: &mut f64,
    ) -> Result<(), TraceError> {
        let members: Vec<u32> = group.keys().map(|&rank| rank as u32).collect();
        let Some((&first, parts)) = group.first_key_value() else { return Ok(()) };
        if members.len() < 2 {
            return Ok(());
        }
        for (index, part) in parts.iter().enumerate() {
            let collective = part.collective(members.len());
            *room -= 2.0 * collective.messages(Size { chunk_bytes, ..Size::default() });
            if *room < 0.0 {
                let message = format!(
                    "with node {} there are more than {OPERATIONS_MAX} operations",
                    part.id
                );
                let hint = "cut the traces in pieces, or raise chunk_bytes";
                return Err(TraceError::new(first, message, hint));
            }
            let before: Vec<_> = group.values().map(|own| Some(own[index].begins)).collect();
            let made = self.plan.len();
            collective.add_to(&mut self.plan, &members, chunk_bytes, &before);
            for (op, rank) in self.plan.since(made) {
                self.plan.requires(group[&(rank as usize)][index].over, op);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Arc<Schedule>, TraceError> {
        if let Some(mismatch) = self.messages.join(&mut self.plan) {
            return Err(self.mismatch(mismatch));
        }
        let Self { plan, nodes, .. } = self;
        plan.finish().map_err(|unfit| {
            let (Unfit::Circle(op)
            | Unfit::Unmatched(op)
            | Unfit::OtherRank(op)
            | Unfit::NoRank(op)) = unfit;
            let (rank, id) = nodes.get(op.index()).copied().unwrap_or_default();
            let message = format!("node {id} waits for itself, by way of others");
            let hint = "remove a dependency of the circle, or order collectives alike at all ranks";
            TraceError::new(rank, message, hint)
        })
    }

    fn mismatch(&self, wrong: Mismatch) -> TraceError {
        let node = |op: OpId| self.nodes.get(op.index()).copied().unwrap_or_default();
        let ((source, destination), tag) = (wrong.ends, wrong.tag);
        let (said, hint) = match wrong.why {
            Why::NotReceived => (
                "no receive takes this send".to_owned(),
                format!("rank {destination} needs a COMM_RECV_NODE from {source}, comm_tag {tag}"),
            ),
            Why::NotSent => (
                "nothing is sent to this receive".to_owned(),
                format!("rank {source} needs a COMM_SEND_NODE to {destination}, comm_tag {tag}"),
            ),
            Why::TooLong { send, room } => (
                format!("{} bytes come, and comm_size is {room}", wrong.bytes),
                format!("the send is node {} of rank {source}", node(send).1),
            ),
        };
        let (rank, id) = node(wrong.op);
        TraceError::new(rank, format!("node {id}: {said}"), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number > 0x7f {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    fn number(field: u64, value: u64) -> Vec<u8> {
        [varint(field << 3), varint(value)].concat()
    }

    fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
        [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
    }

    fn node(id: u64, kind: u64, requires: &[u64], more: &[(&str, u64)]) -> Vec<u8> {
        let packed: Vec<u8> = requires.iter().flat_map(|&id| varint(id)).collect();
        let head = [number(1, id), bytes(2, b"a node"), number(3, kind), bytes(5, &packed)];
        let mut all = head.concat();
        for &(name, value) in more {
            all.extend(match name {
                "micros" => number(7, value),
                name => bytes(10, &[bytes(1, name.as_bytes()), number(13, value)].concat()),
            });
        }
        all
    }

    fn trace(nodes: &[Vec<u8>]) -> Vec<u8> {
        let about = bytes(1, b"0.0.4");
        let written = |message: &Vec<u8>| [varint(message.len() as u64), message.clone()].concat();
        core::iter::once(&about).chain(nodes).flat_map(written).collect()
    }

    fn refused(traces: &[Vec<u8>]) -> String {
        let TraceError { rank, message, hint } = chakra(traces, 1 << 20).unwrap_err();
        assert!(!hint.is_empty());
        format!("{rank}: {message}")
    }

    const COMPUTE: u64 = 4;

    #[test]
    fn computations_collectives_and_messages_wait_for_each_other() {
        let rank = |micros, last: Vec<u8>| {
            trace(&[
                node(7, COMPUTE, &[], &[("micros", micros), ("is_cpu_op", 0)]),
                node(8, COLLECTIVE, &[7], &[("comm_type", 0), ("comm_size", 3_000)]),
                last,
            ])
        };
        let message = |peer| [(peer, 2), ("comm_size", 10), ("comm_tag", 4)];
        let traces = [
            rank(5, node(9, SEND, &[8], &message("comm_dst"))),
            rank(9, node(9, COMPUTE, &[8], &[("micros", 2)])),
            rank(1, node(9, RECEIVE, &[], &[("comm_src", 0), ("comm_size", 10), ("comm_tag", 4)])),
        ];
        let schedule = chakra(&traces, 1 << 20).unwrap();
        assert_eq!(schedule.ranks(), 3);
        // The slowest, four steps of the ring, and the send or two more; a message takes a microsecond.
        assert_eq!(schedule.longest_chain(|_, _| (1_000_000, 0)), 15_000_000);
        let sent: u64 = schedule.bytes_of_ranks().iter().map(|of| of.0).sum();
        assert_eq!(sent, 3 * 4_000 + 10);
    }

    #[test]
    fn a_call_of_pytorch_is_a_computation_and_its_kernel_the_collective() {
        // Who called it is not in the file.
        let called = bytes(4, &varint(430));
        let rank = trace(&[
            [node(1, COLLECTIVE, &[], &[("micros", 85), ("is_cpu_op", 1)]), called].concat(),
            node(2, COLLECTIVE, &[1], &[("comm_type", 5), ("comm_size", 900), ("is_cpu_op", 0)]),
        ]);
        let schedule = chakra(&[rank.clone(), rank.clone(), rank], 1 << 20).unwrap();
        assert_eq!(schedule.bytes_of_ranks(), [(900, 0), (900, 900), (0, 900)]);
        assert_eq!(schedule.longest_chain(|_, _| (1_000_000, 0)), 87_000_000);
    }

    #[test]
    fn a_mistake_is_named_with_rank_node_and_remedy() {
        let all = |kind, more: &[(&str, u64)]| trace(&[node(1, kind, &[], more)]);
        let reduce = |bytes| all(COLLECTIVE, &[("comm_type", 0), ("comm_size", bytes)]);
        let nothing = || trace(&[]);
        let send = |to| all(SEND, &[("comm_dst", to), ("comm_size", 8)]);
        let two = trace(&[1, 2].map(|id| node(id, COLLECTIVE, &[], &[("comm_type", 0)])));
        let twice = trace(&[node(1, COMPUTE, &[], &[]), node(1, COMPUTE, &[], &[])]);
        let itself = trace(&[node(1, COMPUTE, &[2], &[]), node(2, COMPUTE, &[1], &[])]);
        let long = all(COMPUTE, &[("micros", u64::MAX)]);
        for (one, other, said) in [
            (vec![], nothing(), "0: it is empty"),
            (reduce(1)[..12].to_vec(), reduce(1), "0: at byte 8 there is no message"),
            (reduce(1), reduce(2), "1: node 1 is not what node 1 of rank 0 is"),
            (reduce(0), two, "1: it has 2 collectives of pg_name \"\""),
            (twice, nothing(), "0: node 1 is there twice"),
            (trace(&[node(1, COMPUTE, &[3], &[])]), nothing(), "0: node 1 depends on node 3"),
            (itself, nothing(), "0: node 1 waits for itself"),
            (send(1), nothing(), "0: node 1: no receive takes this send"),
            (send(2), nothing(), "0: node 1: comm_dst is no other rank"),
            (all(COLLECTIVE, &[("comm_type", 10)]), nothing(), "0: node 1: its comm_type"),
            (long, nothing(), "0: node 1: duration_micros"),
            (reduce(1 << 60), reduce(1 << 60), "0: with node 1 there are more than 16777216"),
        ] {
            let refused = refused(&[one, other]);
            assert!(refused.starts_with(said), "{refused}, not {said}");
        }
    }

    #[test]
    fn two_orders_of_two_collectives_are_a_circle() {
        let part = |id, before: &[u64], group: &str| {
            let mut made = node(id, COLLECTIVE, before, &[("comm_type", 0), ("comm_size", 8)]);
            made.extend(bytes(10, &[bytes(1, b"pg_name"), bytes(29, group.as_bytes())].concat()));
            made
        };
        let one = trace(&[part(1, &[], "a"), part(2, &[1], "b")]);
        let other = trace(&[part(1, &[], "b"), part(2, &[1], "a")]);
        assert!(refused(&[one.clone(), other]).contains("waits for itself"));
        assert!(chakra(&[one.clone(), one], 1 << 20).is_ok());
    }
}
