//! Rings of events. Those of a ring share delay and kind, so they lie in the order in which they are due.
//! Events of one time lie in no order: [`super::Events`] sorts them.
//!
//! ```text
//!   lane: delay, kind │ entry: due (4 bytes), number (4 bytes) │ entry │ ...
//! ```
//!
//! A delay gets a lane for good when it has recurred [`RECURRENCES`] times in its slot of a small table. The
//! table maps a delay to its lane by hashing. Of two delays that collide, the second stays without one.
//!
//! An entry is eight bytes: the lower half of its time is enough, because nothing waits in a lane for
//! more than [`DELAY_MAX`].

use prefetch_index::prefetch_index;

use super::tree::{HEADS, Tree};
use super::{FAR, Meaning};

/// The most lanes: three heads are the wheel's, the heap's and the mail's.
pub(super) const LANES_MAX: usize = HEADS - 3;
/// The longest delay that gets a lane, in picoseconds: what 32 bits hold.
pub(super) const DELAY_MAX: u64 = u32::MAX as u64;
/// Slots of the table of delays.
const SLOTS: usize = 256;
/// How often a delay recurs before it gets a lane.
const RECURRENCES: u16 = 64;
/// Entries of a cache line.
const LINE: u32 = 8;
/// A delay, and the kind of events that it is of.
#[derive(Clone, Copy, Debug)]
struct Slot {
    delay: u64,
    kind: u8,
    /// It has a lane.
    laned: bool,
    lane: u16,
    seen: u16,
}

#[derive(Debug)]
pub(super) struct Lanes {
    slots: [Slot; SLOTS],
    rings: Vec<Ring>,
}

/// An event of a lane.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The lower half of its time.
    due: u32,
    number: u32,
}

impl Entry {
    /// Its time, which is not before `now`.
    #[inline]
    fn at(self, now: u64) -> u64 {
        now + u64::from(self.due.wrapping_sub(now as u32))
    }
}

/// Entries in the order in which they came, in a circle of a power of two.
#[derive(Debug)]
struct Ring {
    kind: u8,
    /// Entries taken, and entries put in, since it was made.
    taken: u32,
    put: u32,
    entries: Box<[Entry]>,
}

impl Ring {
    const LEAST: usize = 16;

    fn of(kind: u8, entry: Entry) -> Self {
        let entries = vec![entry; Self::LEAST].into();
        let mut ring = Self { kind, taken: 0, put: 0, entries };
        ring.push(entry);
        ring
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.taken == self.put
    }

    /// Where the entry stands that is put in after so many.
    #[inline]
    fn place(&self, count: u32) -> usize {
        count as usize & (self.entries.len() - 1)
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        if self.put.wrapping_sub(self.taken) as usize == self.entries.len() {
            self.grow();
        }
        let at = self.place(self.put);
        self.entries[at] = entry;
        self.put = self.put.wrapping_add(1);
    }

    #[cold]
    fn grow(&mut self) {
        let (newer, older) = self.entries.split_at(self.place(self.taken));
        // The free half is filled with anything.
        let entries = [older, newer, &self.entries].concat();
        (self.taken, self.put) = (0, self.entries.len() as u32);
        self.entries = entries.into();
    }

    /// The oldest, if there is one.
    #[inline]
    fn front(&self) -> Option<Entry> {
        let entry = self.entries[self.place(self.taken)];
        (!self.is_empty()).then_some(entry)
    }

    /// The number of the event so many places behind the front; if there are so many, or else of one
    /// that has left.
    #[inline]
    fn ahead(&self, places: u32) -> u32 {
        self.entries[self.place(self.taken.wrapping_add(places))].number
    }

    /// Fetches what [`Ring::ahead`] will be asked for.
    #[inline]
    fn fetch(&self) {
        prefetch_index(&self.entries, self.place(self.taken.wrapping_add(FAR as u32 + LINE)));
    }

    /// Ends the oldest, which there is.
    #[inline]
    fn take(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }
}

impl Default for Lanes {
    fn default() -> Self {
        let slot = Slot { delay: u64::MAX, kind: 0, laned: false, lane: 0, seen: 0 };
        Self { slots: [slot; SLOTS], rings: Vec::new() }
    }
}

impl Lanes {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.rings.iter().map(|ring| ring.put.wrapping_sub(ring.taken) as usize).sum()
    }

    /// Takes event `number` of a kind, due `delay` after `now`, if there is a lane for it.
    // Kinds are known where it is called.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        now: u64,
        delay: u64,
        (kind, number): (u8, u32),
        heads: &mut Tree,
    ) -> bool {
        let entry = Entry { due: (now as u32).wrapping_add(delay as u32), number };
        let index = ((delay ^ u64::from(kind)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
        let slot = &mut self.slots[index];
        if slot.delay != delay || (slot.kind, slot.laned) != (kind, true) {
            return self.learn(index, now, (delay, kind), entry, heads);
        }
        let lane = usize::from(slot.lane);
        let ring = &mut self.rings[lane];
        if ring.is_empty() {
            heads.set(lane, Some(now + delay));
        }
        ring.push(entry);
        true
    }

    #[cold]
    fn learn(
        &mut self,
        index: usize,
        now: u64,
        (delay, kind): (u64, u8),
        entry: Entry,
        heads: &mut Tree,
    ) -> bool {
        if delay == 0 || delay > DELAY_MAX {
            // What is due at once may have to go between what is leaving.
            return false;
        }
        let slot = &mut self.slots[index];
        if slot.delay != delay || slot.kind != kind {
            // One that comes once in a while gives way to one that comes often.
            if slot.laned {
                return false;
            }
            slot.seen = slot.seen.saturating_sub(1);
            if slot.seen == 0 {
                *slot = Slot { delay, kind, laned: false, lane: 0, seen: 1 };
            }
            return false;
        }
        slot.seen = slot.seen.saturating_add(1);
        if slot.seen < RECURRENCES || self.rings.len() == LANES_MAX {
            return false;
        }
        let lane = self.rings.len();
        (slot.laned, slot.lane) = (true, lane as u16);
        self.rings.push(Ring::of(kind, entry));
        heads.set(lane, Some(now + delay));
        true
    }

    /// Takes the head of `lane`, which is due at `at`. `meaning` is told of those that will be there
    /// soon.
    #[inline]
    pub(super) fn pop(
        &mut self,
        lane: usize,
        at: u64,
        heads: &mut Tree,
        meaning: &impl Meaning,
    ) -> Option<u64> {
        let ring = self.rings.get_mut(lane)?;
        let entry = ring.front()?;
        ring.take();
        ring.fetch();
        meaning.is_soon(ring.kind, ring.ahead(FAR as u32));
        heads.set(lane, ring.front().map(|entry| entry.at(at)));
        Some(meaning.event(ring.kind, entry.number))
    }

    /// Takes all events of `lane` that are due at `at`, at which its head is. `meaning` is told of
    /// those behind them.
    #[inline]
    pub(super) fn pop_due(
        &mut self,
        lane: usize,
        at: u64,
        heads: &mut Tree,
        mut take: impl FnMut(u64),
        meaning: &impl Meaning,
    ) {
        let Some(ring) = self.rings.get_mut(lane) else { return };
        let mut front = ring.front();
        while let Some(entry) = front.filter(|entry| entry.due == at as u32) {
            take(meaning.event(ring.kind, entry.number));
            ring.take();
            // Each that leaves lets one come near.
            meaning.is_soon(ring.kind, ring.ahead(FAR as u32));
            front = ring.front();
        }
        ring.fetch();
        heads.set(lane, front.map(|entry| entry.at(at)));
    }
}
