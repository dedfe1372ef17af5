//! Rings of events that share their delay, and so lie in the order in which they are due; those of one
//! time in none, for [`super::Events`] sorts them.
//!
//! A delay earns a lane when it has recurred [`RECURRENCES`] times in its slot of a small table, and
//! keeps it for good. The table maps a delay to its lane by hashing, one slot a delay: two that
//! collide share nothing, the second simply stays without a lane.

use std::collections::VecDeque;

use super::Entry;
use super::tree::{HEADS, Tree};

/// The most lanes: two heads are the wheel's and the heap's.
pub(super) const LANES_MAX: usize = HEADS - 2;
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
pub(super) struct Lanes {
    slots: [Slot; SLOTS],
    rings: Vec<VecDeque<Entry>>,
}

impl Default for Lanes {
    fn default() -> Self {
        let slot = Slot { delay: u64::MAX, lane: NONE, seen: 0 };
        Self { slots: [slot; SLOTS], rings: Vec::new() }
    }
}

impl Lanes {
    /// Takes the entry if its delay has a lane.
    #[inline]
    pub(super) fn push(&mut self, delay: u64, entry: Entry, heads: &mut Tree) -> bool {
        let index = (delay.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        let slot = &mut self.slots[index];
        if slot.delay != delay || slot.lane == NONE {
            return self.learn(index, delay, entry, heads);
        }
        let lane = usize::from(slot.lane);
        let ring = &mut self.rings[lane];
        if ring.is_empty() {
            heads.set(lane, Some(entry.at));
        }
        ring.push_back(entry);
        true
    }

    #[cold]
    fn learn(&mut self, index: usize, delay: u64, entry: Entry, heads: &mut Tree) -> bool {
        if delay == 0 {
            // What is due at once may have to go between what is leaving.
            return false;
        }
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
        heads.set(lane, Some(entry.at));
        true
    }

    /// Takes the head of `lane`.
    #[inline]
    pub(super) fn pop(&mut self, lane: usize, heads: &mut Tree) -> Option<Entry> {
        let ring = self.rings.get_mut(lane)?;
        let entry = ring.pop_front();
        heads.set(lane, ring.front().map(|entry| entry.at));
        entry
    }
    /// Takes all events of `lane` that are due at `at`, at which its head is.
    pub(super) fn pop_due(
        &mut self,
        lane: usize,
        at: u64,
        heads: &mut Tree,
        mut take: impl FnMut(u64),
    ) {
        let Some(ring) = self.rings.get_mut(lane) else { return };
        while let Some(entry) = ring.front().filter(|entry| entry.at == at) {
            take(entry.event);
            ring.pop_front();
        }
        heads.set(lane, ring.front().map(|entry| entry.at));
    }
}
