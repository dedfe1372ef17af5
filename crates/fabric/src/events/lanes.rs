//! Rings of events that share their delay.
//!
//! A delay earns a lane when it has recurred [`RECURRENCES`] times in its slot of a small table, and
//! keeps it for good. The table maps a delay to its lane by hashing, one slot a delay: two that
//! collide share nothing, the second simply stays without a lane.

use std::collections::VecDeque;

use super::{EMPTY, Entry};

/// The most lanes. Every pop looks at each head.
const LANES_MAX: usize = 16;
/// Slots of the table of delays.
const SLOTS: usize = 256;
/// How often a delay recurs before it gets a lane.
const RECURRENCES: u16 = 64;
/// No lane.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    delay: u64,
    lane: u16,
    seen: u16,
}

#[derive(Debug)]
pub(super) struct Lanes<E> {
    slots: [Slot; SLOTS],
    rings: Vec<VecDeque<Entry<E>>>,
    heads: [(u64, u64); LANES_MAX],
}

impl<E> Default for Lanes<E> {
    fn default() -> Self {
        let slot = Slot { delay: u64::MAX, lane: NONE, seen: 0 };
        Self { slots: [slot; SLOTS], rings: Vec::new(), heads: [EMPTY; LANES_MAX] }
    }
}

impl<E: Copy> Lanes<E> {
    /// Takes the entry if its delay has a lane.
    #[inline]
    pub(super) fn push(&mut self, delay: u64, entry: Entry<E>) -> bool {
        let index = (delay.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        let slot = &mut self.slots[index];
        if slot.delay != delay || slot.lane == NONE {
            return self.learn(index, delay, entry);
        }
        let lane = usize::from(slot.lane);
        let ring = &mut self.rings[lane];
        if ring.is_empty() {
            self.heads[lane] = entry.key();
        }
        ring.push_back(entry);
        true
    }

    #[cold]
    fn learn(&mut self, index: usize, delay: u64, entry: Entry<E>) -> bool {
        let slot = &mut self.slots[index];
        if slot.delay != delay {
            // One that comes once in a while gives way to one that comes often.
            if slot.lane != NONE {
                return false;
            }
            slot.seen = slot.seen.saturating_sub(1);
            if slot.seen == 0 {
                *slot = Slot { delay, lane: NONE, seen: 1 };
            }
            return false;
        }
        slot.seen = slot.seen.saturating_add(1);
        if slot.seen < RECURRENCES || self.rings.len() == LANES_MAX {
            return false;
        }
        let lane = self.rings.len();
        slot.lane = lane as u16;
        self.rings.push(VecDeque::from([entry]));
        self.heads[lane] = entry.key();
        true
    }

    /// The lane with the least head, and that head.
    #[inline]
    pub(super) fn head(&self) -> (usize, (u64, u64)) {
        let mut best = (0, EMPTY);
        for (lane, &head) in self.heads[..self.rings.len().min(LANES_MAX)].iter().enumerate() {
            if head < best.1 {
                best = (lane, head);
            }
        }
        best
    }

    /// Takes the head of `lane`, which has one.
    #[inline]
    pub(super) fn pop(&mut self, lane: usize) -> Entry<E> {
        let ring = &mut self.rings[lane];
        let entry = ring.pop_front().expect("a lane with a head has an entry");
        self.heads[lane] = ring.front().map_or(EMPTY, Entry::key);
        entry
    }
}
