//! A schedule: what every rank of a job sends, receives and computes, and what waits for what.
//!
//! ```text
//!   rank 0    calc ──► send ─ ─ ─ ─ message ─ ─ ┐
//!   rank 1                                 receive ──► send ─ ─ ─ ►
//! ```
//!
//! An operation starts when all that it requires is complete, and all that it requires at the start has
//! started (`requires` and `irequires` of GOAL: Hoefler, Siebert and Lumsdaine, "Group Operation Assembly
//! Language", ICPP 2009). It depends on operations of its own rank alone; ranks meet in messages. Every
//! send has one receive, which is known before the run, and no operation waits for itself.
//!
//! A schedule does not change while it runs, and all ranks share it: what a rank has done is its
//! [`super::Walk`].

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use rdma::Span;

/// What a rank does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// Posts a message; complete when it is acknowledged.
    Send {
        /// By which connection.
        connection: u32,
        bytes: u32,
        /// The operation that receives it.
        receive: u32,
    },
    /// Takes a message; complete when the last byte has arrived.
    Receive {
        /// The operation that sends it.
        send: u32,
    },
    /// Computes on a core of its rank, one after the other; what takes no time takes no core.
    Calc {
        core: u8,
        /// Picoseconds, the upper half first: so an operation has sixteen bytes.
        ps: [u32; 2],
    },
}

const _: () = assert!(size_of::<Op>() == 16);

impl Op {
    fn calc(core: u8, time: Span) -> Self {
        let ps = time.as_ps();
        Self::Calc { core, ps: [(ps >> 32) as u32, ps as u32] }
    }

    /// How long it computes.
    pub(crate) fn time(self) -> Span {
        match self {
            Self::Calc { ps: [high, low], .. } => {
                Span::from_ps(u64::from(high) << 32 | u64::from(low))
            }
            _ => Span::ZERO,
        }
    }
}

/// An ordered pair of ranks, and the messages from one to the other on one queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Connection {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) messages: u32,
    pub(crate) longest: u32,
}

/// Set in a follower that waits for the start of an operation, not for its end.
const AT_START: u32 = 1 << 31;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// Those of a rank follow each other.
    ops: Vec<Op>,
    /// By operation: for how many others it waits.
    waits: Vec<u32>,
    /// By operation: where its followers begin; one more for the end.
    first_followers: Vec<u32>,
    followers: Vec<u32>,
    /// By rank: its first operation; one more for the end.
    first_ops: Vec<u32>,
    connections: Vec<Connection>,
}

impl Schedule {
    /// How many ranks take part.
    pub fn ranks(&self) -> u32 {
        self.first_ops.len() as u32 - 1
    }

    pub(crate) fn connections(&self) -> &[Connection] {
        &self.connections
    }

    pub(crate) fn op(&self, op: u32) -> Op {
        self.ops[op as usize]
    }

    /// How many operations all ranks have.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The operations of a rank.
    pub(crate) fn ops_of(&self, rank: u32) -> core::ops::Range<u32> {
        self.first_ops[rank as usize]..self.first_ops[rank as usize + 1]
    }

    /// By operation of a rank: for how many others it waits.
    pub(crate) fn waits_of(&self, rank: u32) -> &[u32] {
        let ops = self.ops_of(rank);
        &self.waits[ops.start as usize..ops.end as usize]
    }

    /// What waits for the start of `op`, or for its end.
    pub(crate) fn followers(&self, op: u32, at_start: bool) -> impl Iterator<Item = u32> {
        let [first, end] = [op, op + 1].map(|op| self.first_followers[op as usize] as usize);
        let own = self.followers[first..end].iter();
        own.filter(move |&&follower| (follower & AT_START != 0) == at_start)
            .map(|follower| follower & !AT_START)
    }

    /// Bytes that each rank sends and receives.
    #[cfg(test)]
    pub(crate) fn bytes_of_ranks(&self) -> Vec<(u64, u64)> {
        let mut bytes = vec![(0, 0); self.ranks() as usize];
        for op in &self.ops {
            if let Op::Send { connection, bytes: length, .. } = *op {
                let of = self.connections[connection as usize];
                bytes[of.source as usize].0 += u64::from(length);
                bytes[of.destination as usize].1 += u64::from(length);
            }
        }
        bytes
    }

    /// When the whole is complete, in picoseconds, if a message takes so long from its post to its arrival,
    /// and from then on until its sender knows, and nothing holds up anything else.
    pub(crate) fn longest_chain(&self, mut message: impl FnMut(u32, u32) -> (u64, u64)) -> u64 {
        // By operation: when it may start, and be complete.
        let mut ready = vec![0_u64; self.ops.len()];
        let mut over = vec![0_u64; self.ops.len()];
        let mut longest = 0;
        self.in_order(|op, moment| {
            let at = match moment {
                Moment::Start => {
                    let starts = ready[op as usize];
                    let takes = match self.op(op) {
                        Op::Send { connection, bytes, receive } => {
                            let (there, back) = message(connection, bytes);
                            over[receive as usize] = over[receive as usize].max(starts + there);
                            there + back
                        }
                        calc => calc.time().as_ps(),
                    };
                    over[op as usize] = over[op as usize].max(starts + takes);
                    starts
                }
                Moment::End => over[op as usize],
            };
            longest = longest.max(at);
            for follower in self.followers(op, moment == Moment::Start) {
                ready[follower as usize] = ready[follower as usize].max(at);
            }
        });
        longest
    }

    /// Visits the start and the end of every operation after all that they wait for. Returns how far each
    /// operation came: all are [`OVER`], unless they wait for each other in a circle.
    pub(super) fn in_order(&self, mut visit: impl FnMut(u32, Moment)) -> Vec<u8> {
        let mut waits = self.waits.clone();
        let mut states = vec![0; self.ops.len()];
        let idle = |&(_, waits): &(u32, &u32)| *waits == 0;
        let mut next: Vec<(u32, Moment)> =
            (0..).zip(&waits).filter(idle).map(|(op, _)| (op, Moment::Start)).collect();
        while let Some((op, moment)) = next.pop() {
            visit(op, moment);
            for follower in self.followers(op, moment == Moment::Start) {
                waits[follower as usize] -= 1;
                if waits[follower as usize] == 0 {
                    next.push((follower, Moment::Start));
                }
            }
            if moment == Moment::End {
                states[op as usize] |= OVER;
                continue;
            }
            states[op as usize] |= STARTED;
            match self.op(op) {
                Op::Receive { .. } if states[op as usize] & SENT == 0 => {}
                Op::Send { receive, .. } => {
                    states[receive as usize] |= SENT;
                    if states[receive as usize] & STARTED != 0 {
                        next.push((receive, Moment::End));
                    }
                    next.push((op, Moment::End));
                }
                _ => next.push((op, Moment::End)),
            }
        }
        states
    }

    /// One of the operations that wait for each other in a circle, if there are any.
    fn circle(&self) -> Option<u32> {
        let states = self.in_order(|_, _| {});
        let is_over = |op: u32| states[op as usize] & OVER != 0;
        let mut at = (0..self.ops.len() as u32).find(|&op| !is_over(op))?;
        // Whatever is not over waits for something that is not over either: backwards one must come to where
        // one has been.
        let mut blocked_by = vec![at; self.ops.len()];
        for op in (0..self.ops.len() as u32).filter(|&op| !is_over(op)) {
            let mut note = |follower: u32| blocked_by[follower as usize] = op;
            self.followers(op, false).for_each(&mut note);
            if states[op as usize] & STARTED == 0 {
                self.followers(op, true).for_each(&mut note);
            }
        }
        let mut seen = vec![false; self.ops.len()];
        while !core::mem::replace(&mut seen[at as usize], true) {
            at = match self.op(at) {
                Op::Receive { send } if states[at as usize] & STARTED != 0 => send,
                _ => blocked_by[at as usize],
            };
        }
        Some(at)
    }
}

/// What is visited of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moment {
    Start,
    End,
}

/// How far an operation has come, of [`Schedule::in_order`].
const STARTED: u8 = 1;
/// The message that it receives is on its way.
const SENT: u8 = 2;
const OVER: u8 = 4;

/// An operation of a schedule in the making, by the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OpId(u32);

/// Why a schedule cannot be made: the operation that shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It waits for itself, by way of others.
    Circle(OpId),
    /// A send without a receive, or the other way round.
    Unmatched(OpId),
    /// An operation of another rank, or of another plan, is required.
    OtherRank(OpId),
    /// Its rank is not there.
    NoRank(OpId),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, what) = match self {
            Self::Circle(op) => (op, "waits for itself, by way of others"),
            Self::Unmatched(op) => (op, "has no other end"),
            Self::OtherRank(op) => (op, "requires one of another rank: ranks meet in messages"),
            Self::NoRank(op) => (op, "is of a rank that is not there"),
        };
        write!(f, "operation {} of the schedule {what}", op.0)
    }
}

impl core::error::Error for Unfit {}

/// A schedule in the making. Operations of a rank start at once unless they require others; what is wrong with
/// them is told when it is finished.
///
/// ```
/// use fabric::workload::Plan;
/// use rdma::Span;
///
/// // Rank 0 asks for 64 bytes of rank 1, which computes for 5 us before it answers with a megabyte.
/// let mut plan = Plan::new(2);
/// let (_, asked) = plan.message((0, 1), 0, 64);
/// let computed = plan.calc(1, 0, Span::from_us(5));
/// plan.requires(computed, asked);
/// let (answer, _) = plan.message((1, 0), 0, 1_000_000);
/// plan.requires(answer, computed);
/// assert_eq!(plan.finish()?.len(), 5);
/// # Ok::<(), fabric::workload::Unfit>(())
/// ```
#[derive(Debug)]
pub struct Plan {
    ranks: u32,
    /// With the rank of each.
    ops: Vec<(u32, Op)>,
    /// What is waited for, with [`AT_START`], and what waits.
    edges: Vec<(u32, u32)>,
    /// By source, destination and channel.
    known: BTreeMap<(u32, u32, u32), u32>,
    connections: Vec<Connection>,
}

/// No operation yet.
const NONE: u32 = u32::MAX;

impl Plan {
    /// One of so many ranks.
    pub fn new(ranks: u32) -> Self {
        let (ops, edges, known) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { ranks, ops, edges, known, connections: Vec::new() }
    }

    /// How many operations it has.
    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// What was added when there were so many operations already, with the rank of each.
    pub(crate) fn since(&self, first: usize) -> Vec<(OpId, u32)> {
        let added = (first as u32..).zip(&self.ops[first..]);
        added.map(|(index, (rank, _))| (OpId(index), *rank)).collect()
    }

    fn add(&mut self, rank: u32, op: Op) -> OpId {
        self.ops.push((rank, op));
        OpId(self.ops.len() as u32 - 1)
    }

    /// A computation of so long on a core of `rank`, which does one after the other.
    pub fn calc(&mut self, rank: u32, core: u8, time: Span) -> OpId {
        self.add(rank, Op::calc(core, time))
    }

    /// A send whose receive is still to be named.
    pub(crate) fn send(&mut self, (from, to): (u32, u32), channel: u32, bytes: u32) -> OpId {
        let next = self.connections.len() as u32;
        let connection = *self.known.entry((from, to, channel)).or_insert(next);
        if connection == next {
            let (source, destination) = (from, to);
            self.connections.push(Connection { source, destination, messages: 0, longest: 0 });
        }
        let of = &mut self.connections[connection as usize];
        of.messages += 1;
        of.longest = of.longest.max(bytes);
        self.add(from, Op::Send { connection, bytes, receive: NONE })
    }

    /// A receive whose send is still to be named.
    pub(crate) fn receive(&mut self, rank: u32) -> OpId {
        self.add(rank, Op::Receive { send: NONE })
    }

    /// `receive` takes what `send` sends.
    pub(crate) fn join(&mut self, send: OpId, receive: OpId) {
        if let (_, Op::Send { receive: named, .. }) = &mut self.ops[send.0 as usize] {
            *named = receive.0;
        }
        if let (_, Op::Receive { send: named }) = &mut self.ops[receive.0 as usize] {
            *named = send.0;
        }
    }

    /// A message of `bytes` from a rank to another, by queue pair `channel` of the two: what sends it, complete when
    /// it is acknowledged, and what receives it, complete when the last byte is there.
    pub fn message(&mut self, ends: (u32, u32), channel: u32, bytes: u32) -> (OpId, OpId) {
        let send = self.send(ends, channel, bytes);
        let receive = self.receive(ends.1);
        self.join(send, receive);
        (send, receive)
    }

    /// `op` starts when `other` is complete.
    pub fn requires(&mut self, op: OpId, other: OpId) {
        self.edges.push((other.0, op.0));
    }

    /// `op` starts when `other` has started.
    pub fn requires_start(&mut self, op: OpId, other: OpId) {
        self.edges.push((other.0 | AT_START, op.0));
    }

    /// An operation of `rank` that is complete when all of `ops` are.
    pub fn all(&mut self, rank: u32, ops: &[OpId]) -> Option<OpId> {
        if let [] | [_] = ops {
            return ops.first().copied();
        }
        let all = self.calc(rank, 0, Span::ZERO);
        ops.iter().for_each(|&op| self.requires(all, op));
        Some(all)
    }

    /// The schedule.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn finish(self) -> Result<Arc<Schedule>, Unfit> {
        let Self { ranks, ops, edges, connections, .. } = self;
        let open = |op: &(u32, Op)| {
            matches!(op.1, Op::Send { receive: NONE, .. } | Op::Receive { send: NONE })
        };
        if let Some(index) = ops.iter().position(open) {
            return Err(Unfit::Unmatched(OpId(index as u32)));
        }
        let count = ops.len() as u32;
        let ends =
            |of: &Connection| of.source.max(of.destination) >= ranks || of.source == of.destination;
        let lost = |op: &(u32, Op)| {
            let sends = |connection: u32| connections.get(connection as usize).is_none_or(ends);
            op.0 >= ranks || matches!(op.1, Op::Send { connection, .. } if sends(connection))
        };
        if let Some(index) = ops.iter().position(lost) {
            return Err(Unfit::NoRank(OpId(index as u32)));
        }
        if let Some((other, op)) =
            edges.iter().find(|(other, op)| (other & !AT_START).max(*op) >= count)
        {
            return Err(Unfit::OtherRank(OpId((*op).min(other & !AT_START))));
        }
        // Operations get numbers rank by rank, in the order in which they were added.
        let mut first_ops = vec![0_u32; ranks as usize + 1];
        ops.iter().for_each(|(rank, _)| first_ops[*rank as usize + 1] += 1);
        for rank in 0..ranks as usize {
            first_ops[rank + 1] += first_ops[rank];
        }
        let mut next = first_ops.clone();
        let numbers: Vec<u32> = ops
            .iter()
            .map(|(rank, _)| {
                next[*rank as usize] += 1;
                next[*rank as usize] - 1
            })
            .collect();
        let mut sorted = vec![Op::Receive { send: NONE }; ops.len()];
        for ((_, op), &number) in ops.iter().zip(&numbers) {
            sorted[number as usize] = match *op {
                Op::Send { connection, bytes, receive } => {
                    Op::Send { connection, bytes, receive: numbers[receive as usize] }
                }
                Op::Receive { send } => Op::Receive { send: numbers[send as usize] },
                calc @ Op::Calc { .. } => calc,
            };
        }
        let rank_of = |op: u32| ops[op as usize].0;
        let mut waits = vec![0; ops.len()];
        let mut first_followers = vec![0_u32; ops.len() + 1];
        for &(other, op) in &edges {
            if rank_of(other & !AT_START) != rank_of(op) {
                return Err(Unfit::OtherRank(OpId(op)));
            }
            waits[numbers[op as usize] as usize] += 1;
            first_followers[numbers[(other & !AT_START) as usize] as usize + 1] += 1;
        }
        for op in 0..ops.len() {
            first_followers[op + 1] += first_followers[op];
        }
        let mut next = first_followers.clone();
        let mut followers = vec![0; edges.len()];
        for &(other, op) in &edges {
            let next = &mut next[numbers[(other & !AT_START) as usize] as usize];
            followers[*next as usize] = numbers[op as usize] | other & AT_START;
            *next += 1;
        }
        let made =
            Schedule { ops: sorted, waits, first_followers, followers, first_ops, connections };
        if let Some(circle) = made.circle() {
            let index = numbers.iter().position(|&number| number == circle).unwrap_or(0);
            return Err(Unfit::Circle(OpId(index as u32)));
        }
        Ok(Arc::new(made))
    }
}

impl OpId {
    /// Its place among all operations, in the order in which they were added.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Span {
        Span::from_us(us)
    }

    #[test]
    fn a_circle_is_found_also_through_messages() {
        let mut plan = Plan::new(2);
        let (there, here) = (plan.message((0, 1), 0, 10), plan.message((1, 0), 0, 10));
        plan.requires(here.0, there.1);
        assert!(Plan::finish(plan).is_ok());
        let mut plan = Plan::new(2);
        let first = plan.calc(0, 0, us(1));
        let (there, here) = (plan.message((0, 1), 0, 10), plan.message((1, 0), 0, 10));
        plan.requires(here.0, there.1);
        plan.requires(there.0, here.1);
        plan.requires(there.0, first);
        let Err(Unfit::Circle(op)) = plan.finish() else { panic!("there is a circle") };
        assert!(op != first);
        let mut plan = Plan::new(1);
        let op = plan.calc(0, 0, us(1));
        plan.requires_start(op, op);
        assert_eq!(plan.finish(), Err(Unfit::Circle(op)));
        // A receive that has started has not ended: what comes back in answer is no circle.
        let mut plan = Plan::new(2);
        let (there, here) = (plan.message((0, 1), 0, 10), plan.message((1, 0), 0, 10));
        plan.requires_start(there.0, here.1);
        plan.requires(here.0, there.1);
        assert_eq!(plan.finish().unwrap().longest_chain(|_, _| (5, 1)), 11);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut plan = Plan::new(2);
        let send = plan.send((0, 1), 0, 10);
        assert_eq!(plan.finish(), Err(Unfit::Unmatched(send)));
        let mut plan = Plan::new(2);
        let (there, here) = (plan.calc(0, 0, us(1)), plan.calc(1, 0, us(1)));
        plan.requires(here, there);
        assert_eq!(plan.finish(), Err(Unfit::OtherRank(here)));
    }

    #[test]
    fn the_longest_chain_goes_through_messages_and_computations() {
        let mut plan = Plan::new(3);
        let wait = plan.calc(0, 0, us(5));
        let first = plan.message((0, 1), 0, 10);
        let second = plan.message((1, 2), 0, 20);
        let early = plan.calc(1, 0, us(1));
        plan.requires(first.0, wait);
        plan.requires(second.0, first.1);
        plan.requires(second.0, early);
        let schedule = plan.finish().unwrap();
        let longest = schedule.longest_chain(|_, bytes| (u64::from(bytes) * 1_000_000, 7));
        assert_eq!(longest, 35_000_007);
        assert_eq!(schedule.bytes_of_ranks(), [(10, 0), (20, 10), (0, 20)]);
    }
}
