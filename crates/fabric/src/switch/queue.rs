//! Egress queues of a port, and which of them sends next.
//!
//! ```text
//!   strict 7 ─┐
//!   strict 6 ─┼─► the highest that has a packet and is not paused
//!             │   else ─► deficit round robin over the others: each gets weight x 1,600 bytes a round
//! ```
//!
//! A queue is a list through the packets themselves. Like the buffer it counts what waits in cells.
//! [`super::buffer`] has decided before what it may hold, so nothing is dropped here.

use super::cell::Cell;
use super::config::{QueueConfig, Schedule, Threshold};
use crate::packet::{NIL, Pool};
use crate::pfc::PRIORITIES;

/// Bytes that a weight of one is worth in a round; a frame of the usual MTU fits.
const QUANTUM_BYTES: i32 = 1_600;

/// A queue: one cache line, which each packet touches. What only a mark needs stands in the switch's settings.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
    cell: Cell,
    /// What waits, in bytes of cells.
    pub(crate) bytes: u32,
    pub(crate) packets: u32,
    /// What it may still send in this round.
    deficit: i32,
    quantum: i32,
    /// The most that ever waited.
    pub(crate) peak_bytes: u32,
    /// Packets may be marked when more waits.
    pub(crate) marks_above: u32,
    pub(crate) dropped: u32,
    pub(crate) limit: Option<Threshold>,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
}

const _: () = assert!(size_of::<Queue>() == 64);

impl Queue {
    pub(crate) fn new(config: &QueueConfig, cell: Cell) -> Self {
        let weight = match config.schedule {
            Schedule::Strict => 1,
            Schedule::Weighted(weight) => i32::from(weight.max(1)),
        };
        Self {
            head: NIL,
            tail: NIL,
            cell,
            bytes: 0,
            packets: 0,
            deficit: 0,
            quantum: weight * QUANTUM_BYTES,
            peak_bytes: 0,
            marks_above: config.ecn.map_or(u32::MAX, |ecn| ecn.min_bytes),
            dropped: 0,
            limit: config.limit,
            sent_packets: 0,
            sent_bytes: 0,
        }
    }

    /// Adds a packet of `bytes` at the end.
    #[inline]
    pub(crate) fn push(&mut self, pool: &mut Pool, packet: u32, bytes: u32) {
        pool.get_mut(packet).next = NIL;
        if self.head == NIL {
            self.head = packet;
        } else {
            pool.get_mut(self.tail).next = packet;
        }
        self.tail = packet;
        self.bytes += self.cell.taken_by(bytes);
        self.packets += 1;
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }

    /// The packet at the front, or [`NIL`].
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.head
    }

    /// Counts a packet of `bytes` that finds it empty and need not wait.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: u32) {
        self.peak_bytes = self.peak_bytes.max(self.cell.taken_by(bytes));
        self.deficit = 0;
        self.sent_packets += 1;
        self.sent_bytes += u64::from(bytes);
    }

    /// Takes the packet at the front, which there is, to send it.
    #[inline]
    pub(crate) fn pop(&mut self, pool: &mut Pool) -> u32 {
        let (packet, bytes) = self.take(pool);
        self.sent_packets += 1;
        self.sent_bytes += u64::from(bytes);
        packet
    }

    /// Takes the packet at the front, which there is, to drop it.
    pub(crate) fn discard(&mut self, pool: &mut Pool) -> u32 {
        self.dropped += 1;
        self.take(pool).0
    }

    #[inline]
    fn take(&mut self, pool: &mut Pool) -> (u32, u32) {
        let packet = self.head;
        let front = pool.get_mut(packet);
        let bytes = u32::from(front.bytes);
        self.head = front.next;
        self.bytes -= self.cell.taken_by(bytes);
        self.packets -= 1;
        (packet, bytes)
    }

    /// The packets, from the front.
    pub(crate) fn iter<'a>(&self, pool: &'a Pool) -> impl Iterator<Item = u32> + use<'a> {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let packet = at;
            (packet != NIL).then(|| {
                at = pool.get(packet).next;
                packet
            })
        })
    }
}

/// Picks the queue that sends next among `eligible` (a bit a queue, not zero), of which those in
/// `strict` go first. `turn` remembers whose turn it is.
#[inline]
pub(crate) fn pick(
    queues: &mut [Queue; PRIORITIES],
    pool: &Pool,
    eligible: u8,
    strict: u8,
    turn: &mut u8,
) -> usize {
    let first = eligible & strict;
    if first != 0 {
        return 7 - first.leading_zeros() as usize;
    }
    if eligible.is_power_of_two() {
        // Alone, it needs no turns; what it saved up would be unfair later.
        let only = eligible.trailing_zeros() as usize & (PRIORITIES - 1);
        queues[only].deficit = 0;
        return only;
    }
    loop {
        let at = usize::from(*turn & 7);
        let queue = &mut queues[at];
        if eligible >> at & 1 != 0 {
            let bytes = i32::from(pool.get(queue.head).bytes);
            if queue.deficit >= bytes {
                queue.deficit -= bytes;
                return at;
            }
        } else {
            queue.deficit = 0;
        }
        let next = (at + 1) & 7;
        *turn = next as u8;
        if eligible >> next & 1 != 0 {
            queues[next].deficit += queues[next].quantum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Pause;

    fn queues(weights: [u8; 8]) -> [Queue; PRIORITIES] {
        let of = |&weight: &u8| {
            let config =
                QueueConfig { schedule: Schedule::Weighted(weight), ..QueueConfig::default() };
            Queue::new(&config, Cell::BYTE)
        };
        weights.each_ref().map(of)
    }

    fn fill(queues: &mut [Queue], pool: &mut Pool, index: usize, count: usize, bytes: u16) {
        for _ in 0..count {
            let packet = pool.pfc(Pause { stop: 0, resume: 0, quanta: 0 });
            pool.get_mut(packet).bytes = bytes;
            queues[index].push(pool, packet, u32::from(bytes));
        }
    }

    fn occupied(queues: &[Queue]) -> u8 {
        (0..8).filter(|&index| queues[index].packets > 0).fold(0, |mask, index| mask | 1 << index)
    }

    #[test]
    fn weights_share_bytes_and_not_packets() {
        let mut pool = Pool::default();
        let mut queues = queues([1, 1, 1, 3, 1, 1, 1, 1]);
        fill(&mut queues, &mut pool, 0, 4_000, 100);
        fill(&mut queues, &mut pool, 3, 4_000, 1_000);
        let mut turn = 0;
        for _ in 0..2_000 {
            let eligible = occupied(&queues);
            let index = pick(&mut queues, &pool, eligible, 0, &mut turn);
            queues[index].pop(&mut pool);
        }
        let ratio = queues[3].sent_bytes as f64 / queues[0].sent_bytes as f64;
        assert!((2.9..3.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn strict_queues_go_first_the_highest_before_the_others() {
        let mut pool = Pool::default();
        let mut queues = queues([1; 8]);
        for index in [0, 5, 6] {
            fill(&mut queues, &mut pool, index, 2, 500);
        }
        let mut turn = 0;
        let order: Vec<usize> = (0..6)
            .map(|_| {
                let eligible = occupied(&queues);
                let index = pick(&mut queues, &pool, eligible, 0b0110_0000, &mut turn);
                queues[index].pop(&mut pool);
                index
            })
            .collect();
        assert_eq!(order, [6, 6, 5, 5, 0, 0]);
    }

    #[test]
    fn a_packet_longer_than_a_round_waits_for_several() {
        let mut pool = Pool::default();
        let mut queues = queues([1; 8]);
        fill(&mut queues, &mut pool, 0, 400, 4_158);
        fill(&mut queues, &mut pool, 1, 4_000, 400);
        let mut turn = 0;
        for _ in 0..1_000 {
            let eligible = occupied(&queues);
            let index = pick(&mut queues, &pool, eligible, 0, &mut turn);
            queues[index].pop(&mut pool);
        }
        let ratio = queues[0].sent_bytes as f64 / queues[1].sent_bytes as f64;
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_queue_lists_its_packets_in_order() {
        let mut pool = Pool::default();
        let mut queues = queues([1; 8]);
        fill(&mut queues, &mut pool, 2, 3, 70);
        assert_eq!(queues[2].iter(&pool).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((queues[2].bytes, queues[2].peak_bytes), (210, 210));
        assert_eq!(queues[2].pop(&mut pool), 0);
        assert_eq!((queues[2].bytes, queues[2].peak_bytes), (140, 210));
    }
}
