//! Collective operations: who sends what to whom, and after what.
//!
//! ```text
//!   ring               segment r - s to the next rank in step s; N - 1 steps to reduce, N - 1 to gather
//!   tree               up and down two binary trees of half of the bytes each; who is inside one is a leaf
//!                      of the other (Sanders, Speck and Träff, Parallel Computing 35, 2009)
//!   halving-doubling   halves with the rank N/2 away, quarters with N/4, ...; and back (Thakur, Rabenseifner
//!                      and Gropp, IJHPCA 19, 2005)
//!   hierarchical       rings inside groups reduce, rings between groups all-reduce, rings inside gather
//!   direct             everything to everybody at once, beginning with the next rank
//! ```
//!
//! What has a root, the first rank, goes along a chain of all ranks (broadcast, reduce: half of a ring's two
//! rounds, whole), or directly (gather, scatter).
//!
//! Bytes are divided among channels, which know nothing of each other, and messages cut into chunks, which
//! ranks pass on one by one. Arithmetic on what has arrived takes no time.

use core::fmt;
use std::sync::Arc;

use serde::Deserialize;
use transport::limits::MESSAGE_BYTES_MAX;

use super::schedule::{OpId, Plan, Schedule};
use crate::limits::OPERATIONS_MAX;

/// What is done together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Every rank has the sum of all buffers.
    #[default]
    AllReduce,
    /// Every rank has the parts of all.
    AllGather,
    /// Every rank has a part of the sum.
    ReduceScatter,
    /// Every rank has a part from each, as experts have of tokens.
    AllToAll,
    /// Every rank has the buffer of the first.
    Broadcast,
    /// The first rank has the sum of all buffers.
    Reduce,
    /// The first rank has a part from each.
    Gather,
    /// Every rank has a part from the first.
    Scatter,
}

impl Operation {
    /// How it is done where nobody says.
    pub(crate) const fn usual(self) -> Algorithm {
        match self {
            Self::AllToAll | Self::Gather | Self::Scatter => Algorithm::Direct,
            _ => Algorithm::Ring,
        }
    }
}

/// How it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// From each rank to the next.
    #[default]
    Ring,
    /// Two binary trees.
    Tree,
    /// Halves, quarters and so on, with ranks ever nearer, and back.
    HalvingDoubling,
    /// Inside groups, between them, and inside again.
    Hierarchical,
    /// At once.
    Direct,
}

/// A collective operation, as its bandwidth is reckoned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Collective {
    /// What is done.
    pub operation: Operation,
    /// How.
    pub algorithm: Algorithm,
    /// How many take part.
    pub ranks: u32,
    /// The whole buffer of a rank: what it has in the end of an all-gather, at first otherwise.
    pub bytes: u64,
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = match self.operation {
            Operation::AllReduce => "all-reduce",
            Operation::AllGather => "all-gather",
            Operation::ReduceScatter => "reduce-scatter",
            Operation::AllToAll => "all-to-all",
            Operation::Broadcast => "broadcast",
            Operation::Reduce => "reduce",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
        };
        let algorithm = match self.algorithm {
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
            Algorithm::HalvingDoubling => "halving-doubling",
            Algorithm::Hierarchical => "hierarchical",
            Algorithm::Direct => "direct",
        };
        write!(f, "{operation} of {} bytes, {algorithm}", self.bytes)
    }
}

impl Collective {
    /// Bus bandwidth over algorithm bandwidth (`doc/PERFORMANCE.md` of nccl-tests): the part of its buffer
    /// that each rank has to send.
    pub fn bus_factor(&self) -> f64 {
        let others = f64::from(self.ranks.saturating_sub(1)) / f64::from(self.ranks.max(1));
        match self.operation {
            Operation::AllReduce => 2.0 * others,
            Operation::AllGather
            | Operation::ReduceScatter
            | Operation::AllToAll
            | Operation::Gather
            | Operation::Scatter => others,
            Operation::Broadcast | Operation::Reduce => 1.0,
        }
    }
}

/// How the bytes of a collective are cut up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    /// A message has at most as many.
    pub(crate) chunk_bytes: u32,
    pub(crate) channels: u32,
    /// Ranks of a group of a hierarchy.
    pub(crate) group: u32,
}

impl Default for Size {
    fn default() -> Self {
        Self { chunk_bytes: MESSAGE_BYTES_MAX, channels: 1, group: 0 }
    }
}

/// Why a collective cannot be done so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Misfit {
    /// The operation is not done by this algorithm, but by those.
    Algorithm(&'static str),
    /// Halving needs a power of two.
    NoPowerOfTwo,
    /// Groups are not of one size, or there is one group, or one rank in each.
    Groups,
    /// So many operations are more than there is room for.
    TooMany(f64),
}

/// The bytes from the first to before the second.
type Range = (u64, u64);

/// Part `index` of `count` of a range, all of one length but for a byte.
fn part((low, high): Range, index: usize, count: usize) -> Range {
    let at = |index: usize| {
        // Ranges are shorter than 2^64.
        low + (u128::from(high - low) * index as u128 / count as u128) as u64
    };
    (at(index), at(index + 1))
}

impl Collective {
    /// What every rank does.
    pub(crate) fn schedule(&self, size: Size) -> Result<Arc<Schedule>, Misfit> {
        self.fits(size)?;
        let operations = 2.0 * self.messages(size);
        if operations > OPERATIONS_MAX as f64 {
            return Err(Misfit::TooMany(operations));
        }
        let mut plan = Plan::new(self.ranks);
        let chunk_bytes = u64::from(size.chunk_bytes.max(1));
        let mut made = Making { plan: &mut plan, chunk_bytes };
        let ranks: Vec<u32> = (0..self.ranks).collect();
        for channel in 0..size.channels {
            let own = part((0, self.bytes), channel as usize, size.channels as usize);
            self.plan(&mut made, &ranks, channel, own, size.group as usize);
        }
        // Messages are matched as they are made, and wait for those before.
        plan.finish().map_err(|_| Misfit::Groups)
    }

    fn fits(&self, size: Size) -> Result<(), Misfit> {
        use Algorithm::{Direct, HalvingDoubling, Hierarchical, Ring, Tree};
        let (known, names): (&[Algorithm], _) = match self.operation {
            Operation::AllReduce => (
                &[Ring, Tree, HalvingDoubling, Hierarchical],
                "ring, tree, halving-doubling and hierarchical",
            ),
            Operation::AllGather | Operation::ReduceScatter => {
                (&[Ring, HalvingDoubling], "ring and halving-doubling")
            }
            Operation::Broadcast | Operation::Reduce => (&[Ring], "ring"),
            Operation::AllToAll | Operation::Gather | Operation::Scatter => (&[Direct], "direct"),
        };
        if !known.contains(&self.algorithm) {
            return Err(Misfit::Algorithm(names));
        }
        let (ranks, group) = (self.ranks, size.group);
        match self.algorithm {
            HalvingDoubling if !ranks.is_power_of_two() => Err(Misfit::NoPowerOfTwo),
            Hierarchical if group < 2 || group >= ranks || !ranks.is_multiple_of(group) => {
                Err(Misfit::Groups)
            }
            _ => Ok(()),
        }
    }

    /// About how many messages there are: at least as many.
    pub(super) fn messages(&self, size: Size) -> f64 {
        let (ranks, group) = (f64::from(self.ranks), f64::from(size.group.max(1)));
        let bytes = self.bytes as f64 / f64::from(size.channels);
        let chunks = |bytes: f64| (bytes / f64::from(size.chunk_bytes.max(1))).ceil().max(1.0);
        let both = if self.operation == Operation::AllReduce { 2.0 } else { 1.0 };
        let of_channel = match self.algorithm {
            Algorithm::Ring | Algorithm::Direct => match self.operation {
                Operation::Broadcast | Operation::Reduce => (ranks - 1.0) * chunks(bytes),
                Operation::Gather | Operation::Scatter => (ranks - 1.0) * chunks(bytes / ranks),
                _ => both * ranks * (ranks - 1.0) * chunks(bytes / ranks),
            },
            Algorithm::Tree => 4.0 * (ranks - 1.0) * chunks(bytes / 2.0),
            Algorithm::HalvingDoubling => {
                let steps = 1..=self.ranks.ilog2();
                let chunks = steps.map(|step| 1.0 + chunks(bytes / 2_f64.powi(step as i32)));
                both * ranks * chunks.sum::<f64>()
            }
            Algorithm::Hierarchical => {
                let inside = 2.0 * (group - 1.0) * chunks(bytes / group);
                let between = 2.0 * (ranks / group - 1.0) * chunks(bytes / ranks);
                ranks * (inside + between)
            }
        };
        of_channel * f64::from(size.channels)
    }

    fn plan(&self, made: &mut Making<'_>, ranks: &[u32], channel: u32, range: Range, group: usize) {
        let count = ranks.len();
        let nothing = vec![None; count];
        match self.algorithm {
            Algorithm::Ring | Algorithm::Direct => {
                self.usual(made, ranks, channel, range, &nothing);
            }
            Algorithm::Tree => made.trees(ranks.len() as u32, channel, range),
            Algorithm::HalvingDoubling => {
                let mut before = nothing;
                if self.operation != Operation::AllGather {
                    before = made.halve(count, channel, range, before);
                }
                if self.operation != Operation::ReduceScatter {
                    made.double(count, channel, range, before);
                }
            }
            Algorithm::Hierarchical => made.hierarchy(ranks, channel, range, group),
        }
    }

    /// As the operation is usually done, by a ring or directly.
    fn usual(
        &self,
        made: &mut Making<'_>,
        members: &[u32],
        channel: u32,
        range: Range,
        before: &[Option<OpId>],
    ) {
        let others = members.len() - 1;
        match self.operation {
            Operation::AllReduce => {
                drop(made.ring(members, channel, range, 2 * others, 0, before));
            }
            Operation::AllGather | Operation::ReduceScatter => {
                drop(made.ring(members, channel, range, others, 0, before));
            }
            Operation::AllToAll => made.direct(members, channel, range, before),
            Operation::Broadcast => made.chain(members, channel, range, before, 0..=others),
            Operation::Reduce => made.chain(members, channel, range, before, (0..=others).rev()),
            Operation::Gather => {
                for other in 1..=others {
                    let part = part(range, other, members.len());
                    let ends = (members[other], members[0]);
                    made.send(ends, channel, part, &before[other..=other]);
                }
            }
            Operation::Scatter => {
                for other in 1..=others {
                    let part = part(range, other, members.len());
                    made.send((members[0], members[other]), channel, part, &before[..=0]);
                }
            }
        }
    }

    /// Adds the collective to a plan, among `members`, by a ring or directly. Each member begins when
    /// what `before` names of it is complete.
    pub(super) fn add_to(
        &self,
        plan: &mut Plan,
        members: &[u32],
        chunk_bytes: u32,
        before: &[Option<OpId>],
    ) {
        let mut made = Making { plan, chunk_bytes: u64::from(chunk_bytes.max(1)) };
        self.usual(&mut made, members, 0, (0, self.bytes), before);
    }
}

/// A schedule in the making.
struct Making<'p> {
    plan: &'p mut Plan,
    chunk_bytes: u64,
}

/// By rank: what it has to wait for before it goes on.
type Before = Vec<Option<OpId>>;

impl Making<'_> {
    /// The messages that a range is sent in: at least one.
    fn chunks(&self, (low, high): Range) -> impl Iterator<Item = u32> + use<> {
        let (bytes, chunk) = (high - low, self.chunk_bytes);
        let count = bytes.div_ceil(chunk).max(1);
        // A chunk is no longer than a message.
        (0..count).map(move |index| (bytes - index * chunk).min(chunk) as u32)
    }

    /// Sends a range, after what `before` names. Returns what receives it.
    fn send(
        &mut self,
        ends: (u32, u32),
        channel: u32,
        range: Range,
        before: &[Option<OpId>],
    ) -> Vec<OpId> {
        let mut received = Vec::new();
        for bytes in self.chunks(range) {
            let (send, receive) = self.plan.message(ends, channel, bytes);
            before.iter().flatten().for_each(|&before| self.plan.requires(send, before));
            received.push(receive);
        }
        received
    }

    /// So many steps around a ring of `members`, of which the first, number r, sends segment r + `own`. What
    /// a member has received in one step it sends in the next, chunk by chunk.
    fn ring(
        &mut self,
        members: &[u32],
        channel: u32,
        range: Range,
        steps: usize,
        own: usize,
        before: &[Option<OpId>],
    ) -> Before {
        let count = members.len();
        let mut received: Vec<Vec<OpId>> = Vec::new();
        for step in 0..steps {
            let mut next = vec![Vec::new(); count];
            for (index, &from) in members.iter().enumerate() {
                let after = (index + 1) % count;
                let segment = part(range, (index + own + 2 * count - step) % count, count);
                for (chunk, bytes) in self.chunks(segment).enumerate() {
                    let ends = (from, members[after]);
                    let (send, receive) = self.plan.message(ends, channel, bytes);
                    // The segment of the step before is this one: it had as many chunks.
                    let earlier = match step {
                        0 => before[index],
                        _ => received[index].get(chunk).copied(),
                    };
                    earlier.into_iter().for_each(|earlier| self.plan.requires(send, earlier));
                    next[after].push(receive);
                }
            }
            received = next;
        }
        // Those of earlier steps came by the same connections, and so before.
        let all = |(&rank, received): (&u32, &Vec<OpId>)| self.plan.all(rank, received);
        members.iter().zip(&received).map(all).collect()
    }

    /// All of a range from one member to the next, in this order of their numbers, chunk by chunk.
    fn chain(
        &mut self,
        members: &[u32],
        channel: u32,
        range: Range,
        before: &[Option<OpId>],
        order: impl Iterator<Item = usize>,
    ) {
        let order: Vec<usize> = order.collect();
        for bytes in self.chunks(range) {
            let mut earlier = None;
            for hop in order.windows(2) {
                let ends = (members[hop[0]], members[hop[1]]);
                let (send, receive) = self.plan.message(ends, channel, bytes);
                let needed = before[hop[0]].into_iter().chain(earlier);
                needed.for_each(|needed| self.plan.requires(send, needed));
                earlier = Some(receive);
            }
        }
    }

    /// Rings inside groups of so many ranks, between them, and inside again.
    fn hierarchy(&mut self, ranks: &[u32], channel: u32, range: Range, size: usize) {
        let groups = ranks.len() / size;
        let mut reduced = Vec::new();
        for group in ranks.chunks_exact(size) {
            let nothing = vec![None; size];
            reduced.extend(self.ring(group, channel, range, size - 1, 0, &nothing));
        }
        let mut summed = vec![None; ranks.len()];
        for index in 0..size {
            // What a rank received last is the segment after its own.
            let own = part(range, (index + 1) % size, size);
            let places = || (0..groups).map(|group| group * size + index);
            let members: Vec<u32> = places().map(|place| ranks[place]).collect();
            let before: Before = places().map(|place| reduced[place]).collect();
            let after = self.ring(&members, channel, own, 2 * (groups - 1), 0, &before);
            places().zip(after).for_each(|(place, after)| summed[place] = after);
        }
        for (group, before) in ranks.chunks_exact(size).zip(summed.chunks_exact(size)) {
            self.ring(group, channel, range, size - 1, 1, before);
        }
    }

    /// Each of `count` ranks gives away half of what it has, and then half of that, until it has its part.
    fn halve(&mut self, count: usize, channel: u32, range: Range, before: Before) -> Before {
        let mut before = before;
        for level in (0..count.ilog2()).rev() {
            let distance = 1 << level;
            before = self.exchange(count, channel, &before, distance, |rank| {
                // The half that the partner keeps.
                kept(range, rank ^ distance, count, distance)
            });
        }
        before
    }

    /// Each rank gives all that it has, at first its part.
    fn double(&mut self, count: usize, channel: u32, range: Range, before: Before) {
        let mut before = before;
        for level in 0..count.ilog2() {
            let distance = 1 << level;
            before = self.exchange(count, channel, &before, distance, |rank| {
                kept(range, rank, count, distance)
            });
        }
    }

    /// Every rank sends what `sent` says to the one that is `distance` away.
    fn exchange(
        &mut self,
        count: usize,
        channel: u32,
        before: &[Option<OpId>],
        distance: usize,
        sent: impl Fn(usize) -> Range,
    ) -> Before {
        let mut after = vec![None; count];
        for rank in 0..count {
            let partner = rank ^ distance;
            let ends = (rank as u32, partner as u32);
            let received = self.send(ends, channel, sent(rank), &before[rank..=rank]);
            // What it passes on next is of this step and of all before.
            let all: Vec<OpId> = before[partner].into_iter().chain(received).collect();
            after[partner] = self.plan.all(partner as u32, &all);
        }
        after
    }

    /// Two trees of half of the range each.
    fn trees(&mut self, count: u32, channel: u32, range: Range) {
        let same = |place: u32| place;
        let turned = |place: u32| match count % 2 {
            0 => count - 1 - place,
            _ => (place + 1) % count,
        };
        self.tree(count, 2 * channel, part(range, 0, 2), &same);
        self.tree(count, 2 * channel + 1, part(range, 1, 2), &turned);
    }

    /// Chunk by chunk to the root of a tree, and back; `rank` says who has a place in it.
    fn tree(&mut self, count: u32, channel: u32, range: Range, rank: &dyn Fn(u32) -> u32) {
        let depth =
            |place: u32| core::iter::successors(Some(place), |&place| parent(place, count)).count();
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|&place| (depth(place), place));
        for bytes in self.chunks(range) {
            let mut up: Vec<Vec<OpId>> = vec![Vec::new(); count as usize];
            let climbs = |&place: &u32| Some((place, parent(place, count)?));
            for (place, above) in order.iter().rev().filter_map(climbs) {
                let (send, receive) = self.plan.message((rank(place), rank(above)), channel, bytes);
                up[place as usize].iter().for_each(|&child| self.plan.requires(send, child));
                up[above as usize].push(receive);
            }
            // What comes down to the root is what came up to it.
            let mut down = vec![Vec::new(); count as usize];
            down[0] = core::mem::take(&mut up[0]);
            for (place, above) in order.iter().filter_map(climbs) {
                let (send, receive) = self.plan.message((rank(above), rank(place)), channel, bytes);
                down[above as usize].iter().for_each(|&before| self.plan.requires(send, before));
                down[place as usize].push(receive);
            }
        }
    }

    /// A part to each other member.
    fn direct(&mut self, members: &[u32], channel: u32, range: Range, before: &[Option<OpId>]) {
        let count = members.len();
        for step in 1..count {
            for (index, &from) in members.iter().enumerate() {
                let to = (index + step) % count;
                let part = part(range, to, count);
                self.send((from, members[to]), channel, part, &before[index..=index]);
            }
        }
    }
}

/// What `rank` of `count` has when it has halved down to blocks of `block` ranks.
fn kept(range: Range, rank: usize, count: usize, block: usize) -> Range {
    part(range, rank / block, count / block)
}

/// Where a place of a tree of so many hangs. Odd places are leaves; the root is place 0.
fn parent(place: u32, count: u32) -> Option<u32> {
    if place == 0 {
        return None;
    }
    let lowest = place & place.wrapping_neg();
    let without = place ^ lowest;
    let above = without | lowest << 1;
    Some(if above < count { above } else { without })
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{Moment, Op};
    use super::*;

    fn made(operation: Operation, algorithm: Algorithm, ranks: u32, size: Size) -> Arc<Schedule> {
        let collective = Collective { operation, algorithm, ranks, bytes: 72_000 };
        collective.schedule(size).unwrap()
    }

    fn bytes(
        operation: Operation,
        algorithm: Algorithm,
        ranks: u32,
        size: Size,
    ) -> Vec<(u64, u64)> {
        made(operation, algorithm, ranks, size).bytes_of_ranks()
    }

    /// How many messages follow each other.
    fn steps(schedule: &Schedule) -> u64 {
        schedule.longest_chain(|_, _| (1, 0))
    }

    #[test]
    fn every_rank_sends_what_the_textbook_says() {
        let plain = Size::default();
        let cut = Size { chunk_bytes: 700, channels: 3, group: 4 };
        for size in [Size { group: 4, ..plain }, cut] {
            for ranks in [4, 8, 16] {
                let own = 72_000 / u64::from(ranks);
                let others = 72_000 - own;
                for (operation, algorithm, each) in [
                    (Operation::AllReduce, Algorithm::Ring, 2 * others),
                    (Operation::AllReduce, Algorithm::HalvingDoubling, 2 * others),
                    (Operation::AllGather, Algorithm::Ring, others),
                    (Operation::AllGather, Algorithm::HalvingDoubling, others),
                    (Operation::ReduceScatter, Algorithm::Ring, others),
                    (Operation::ReduceScatter, Algorithm::HalvingDoubling, others),
                    (Operation::AllToAll, Algorithm::Direct, others),
                ] {
                    for (sent, received) in bytes(operation, algorithm, ranks, size) {
                        assert_eq!((sent, received), (each, each), "{operation:?} {algorithm:?}");
                    }
                }
            }
            // 2 (G - 1)/G S inside, and 2 (M - 1)/M S/G between M groups of G: as much as a flat ring.
            let hierarchy = bytes(Operation::AllReduce, Algorithm::Hierarchical, 12, size);
            assert!(hierarchy.iter().all(|&of| of == (132_000, 132_000)), "{hierarchy:?}");
        }
    }

    #[test]
    fn a_rank_is_inside_one_of_the_two_trees_at_most() {
        for ranks in 2..40 {
            let all = bytes(Operation::AllReduce, Algorithm::Tree, ranks, Size::default());
            let total: u64 = all.iter().map(|of| of.0).sum();
            // Up and down N - 1 links, in two trees of half of the bytes.
            assert_eq!(total, 2 * u64::from(ranks - 1) * 72_000);
            assert!(all.iter().all(|&(sent, received)| sent <= 144_000 && received <= 144_000));
        }
    }

    #[test]
    fn what_has_a_root_is_sent_along_a_chain_or_directly() {
        for size in [Size::default(), Size { chunk_bytes: 700, channels: 3, group: 0 }] {
            let of = |operation: Operation| bytes(operation, operation.usual(), 4, size);
            let (all, own) = (72_000, 18_000);
            let chain = [(all, 0), (all, all), (all, all), (0, all)];
            assert_eq!(of(Operation::Broadcast), chain);
            assert_eq!(of(Operation::Reduce), chain.map(|(sent, received)| (received, sent)));
            let parts = [(3 * own, 0), (0, own), (0, own), (0, own)];
            assert_eq!(of(Operation::Scatter), parts);
            assert_eq!(of(Operation::Gather), parts.map(|(sent, received)| (received, sent)));
        }
        // A chunk does not wait for another.
        let cut = Size { chunk_bytes: 1_000, ..Size::default() };
        assert_eq!(steps(&made(Operation::Broadcast, Algorithm::Ring, 5, cut)), 4);
        assert_eq!(steps(&made(Operation::Scatter, Algorithm::Direct, 5, cut)), 1);
    }

    #[test]
    fn steps_are_those_of_the_textbook() {
        let of =
            |operation, algorithm, ranks, size| steps(&made(operation, algorithm, ranks, size));
        let plain = Size::default();
        let all = Operation::AllReduce;
        assert_eq!(of(all, Algorithm::Ring, 8, plain), 14);
        assert_eq!(of(all, Algorithm::HalvingDoubling, 8, plain), 6);
        // Up three levels and to the root, and back; a chunk does not wait for another.
        assert_eq!(of(all, Algorithm::Tree, 8, Size { chunk_bytes: 1_000, ..plain }), 6);
        assert_eq!(of(all, Algorithm::Hierarchical, 8, Size { group: 4, ..plain }), 8);
        assert_eq!(of(Operation::AllGather, Algorithm::Ring, 5, plain), 4);
        assert_eq!(of(Operation::AllToAll, Algorithm::Direct, 5, plain), 1);
    }

    #[test]
    fn what_all_ranks_had_reaches_every_rank() {
        for (operation, algorithm, ranks) in [
            (Operation::AllReduce, Algorithm::Ring, 7),
            (Operation::AllReduce, Algorithm::Tree, 7),
            (Operation::AllReduce, Algorithm::Tree, 10),
            (Operation::AllReduce, Algorithm::HalvingDoubling, 16),
            (Operation::AllReduce, Algorithm::Hierarchical, 12),
            (Operation::AllGather, Algorithm::Ring, 5),
            (Operation::AllGather, Algorithm::HalvingDoubling, 8),
            (Operation::ReduceScatter, Algorithm::HalvingDoubling, 8),
            (Operation::AllToAll, Algorithm::Direct, 5),
        ] {
            let size = Size { chunk_bytes: 1_000, channels: 2, group: 3 };
            let schedule = made(operation, algorithm, ranks, size);
            // By operation, a bit for each rank whose data may be in what it sends or has received.
            let mut knows = vec![0_u32; schedule.len()];
            let mut of_ranks: Vec<u32> = (0..ranks).map(|rank| 1 << rank).collect();
            for rank in 0..ranks {
                schedule.ops_of(rank).for_each(|op| knows[op as usize] = 1 << rank);
            }
            schedule.in_order(|op, moment| {
                let known = knows[op as usize];
                if moment == Moment::End {
                    schedule.followers(op, false).for_each(|next| knows[next as usize] |= known);
                } else if let Op::Send { receive, connection, .. } = schedule.op(op) {
                    knows[receive as usize] |= known;
                    let to = schedule.connections()[connection as usize].destination;
                    of_ranks[to as usize] |= known;
                }
            });
            for known in of_ranks {
                assert_eq!(known.count_ones(), ranks, "{operation:?} {algorithm:?}: {known:b}");
            }
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let of = |operation, algorithm, ranks, size: Size| {
            Collective { operation, algorithm, ranks, bytes: 1 << 40 }.schedule(size).err()
        };
        let (all, plain) = (Operation::AllReduce, Size::default());
        assert_eq!(of(all, Algorithm::HalvingDoubling, 6, plain), Some(Misfit::NoPowerOfTwo));
        assert_eq!(of(all, Algorithm::Hierarchical, 6, plain), Some(Misfit::Groups));
        let four = Size { group: 4, ..plain };
        assert_eq!(of(all, Algorithm::Hierarchical, 6, four), Some(Misfit::Groups));
        assert_eq!(
            of(all, Algorithm::Direct, 6, plain).map(|why| matches!(why, Misfit::Algorithm(_))),
            Some(true)
        );
        let tiny = Size { chunk_bytes: 1, ..plain };
        assert!(matches!(of(all, Algorithm::Ring, 6, tiny), Some(Misfit::TooMany(_))));
    }
}
