//! Rings of events that share their delay, and so lie in the order in which they are due; those of one
//! time in none, for [`super::Events`] sorts them.
//!
//! A delay earns a lane when it has recurred [`RECURRENCES`] times in its slot of a small table, and
//! keeps it for good. The table maps a delay to its lane by hashing, one slot a delay: two that
//! collide share nothing, the second simply stays without a lane.

use super::tree::{HEADS, Tree};
use super::{AHEAD, Entry};

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
    rings: Vec<Ring>,
}

/// Entries in the order in which they came, in a circle of a power of two.
#[derive(Debug)]
struct Ring {
    entries: Box<[Entry]>,
    /// Entries taken, and entries put in, since it was made.
    taken: usize,
    put: usize,
}

impl Ring {
    const LEAST: usize = 16;

    fn of(entry: Entry) -> Self {
        let mut ring = Self { entries: vec![entry; Self::LEAST].into(), taken: 0, put: 0 };
        ring.push(entry);
        ring
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.taken == self.put
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        if self.put.wrapping_sub(self.taken) == self.entries.len() {
            self.grow();
        }
        let at = self.put & (self.entries.len() - 1);
        self.entries[at] = entry;
        self.put = self.put.wrapping_add(1);
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.taken & (self.entries.len() - 1);
        let (newer, older) = self.entries.split_at(first);
        // The free half is filled with anything.
        let entries = [older, newer, &self.entries].concat();
        (self.taken, self.put) = (0, self.entries.len());
        self.entries = entries.into();
    }

    /// The oldest, if there is one.
    #[inline]
    fn front(&self) -> Option<Entry> {
        let entry = self.entries[self.taken & (self.entries.len() - 1)];
        (!self.is_empty()).then_some(entry)
    }

    /// The event so many places behind the front; if there are so many, or else one that has left.
    #[inline]
    fn ahead(&self, places: usize) -> u64 {
        self.entries[self.taken.wrapping_add(places) & (self.entries.len() - 1)].event
    }

    /// Ends the oldest, which there is.
    #[inline]
    fn take(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }
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
        ring.push(entry);
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
        self.rings.push(Ring::of(entry));
        heads.set(lane, Some(entry.at));
        true
    }

    /// Takes the head of `lane`. `ahead` is told of one that will be there soon.
    #[inline]
    pub(super) fn pop(
        &mut self,
        lane: usize,
        heads: &mut Tree,
        ahead: &mut impl FnMut(u64),
    ) -> Option<Entry> {
        let ring = self.rings.get_mut(lane)?;
        let entry = ring.front()?;
        ring.take();
        ahead(ring.ahead(AHEAD));
        heads.set(lane, ring.front().map(|entry| entry.at));
        Some(entry)
    }

    /// Takes all events of `lane` that are due at `at`, at which its head is. `ahead` is told of those
    /// behind them.
    #[inline]
    pub(super) fn pop_due(
        &mut self,
        lane: usize,
        at: u64,
        heads: &mut Tree,
        mut take: impl FnMut(u64),
        ahead: &mut impl FnMut(u64),
    ) {
        let Some(ring) = self.rings.get_mut(lane) else { return };
        while let Some(entry) = ring.front().filter(|entry| entry.at == at) {
            take(entry.event);
            ring.take();
        }
        (0..=AHEAD).for_each(|places| ahead(ring.ahead(places)));
        heads.set(lane, ring.front().map(|entry| entry.at));
    }
}
