//! A timing wheel for the next 33 microseconds.
//!
//! ```text
//!             cursor ▼ (open: sorted)
//!   slots  ... │ . │ ▓ │ . │ 3 │ . │ 1 │ ...      each 2^13 ps wide, a list in no order
//!   bitmap ... │ 0 │ 0 │ 0 │ 1 │ 0 │ 1 │ ...
//! ```
//!
//! A slot is opened (sorted) when its beginning is the earliest time in the whole queue. Nothing is
//! entered before an open slot, with one exception: a run may have ended before the slot's time. Then
//! the slot is closed again.

use super::Entry;

/// No entry.
const EMPTY: u64 = u64::MAX;

/// Bits of a time below the slot number: slots of 8.192 ns.
const SLOT_BITS: u32 = 13;
const SLOTS: u64 = 1 << 12;
const WORDS: usize = (SLOTS / 64) as usize;
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    entry: Entry,
    next: u32,
}

#[derive(Debug)]
pub(super) struct Wheel {
    /// By slot number modulo [`SLOTS`]: the first of its list.
    lists: Vec<u32>,
    /// Which lists are not empty.
    bitmap: [u64; WORDS],
    /// Which words of the bitmap are not zero.
    summary: u64,
    nodes: Vec<Node>,
    free: u32,
    /// The slot number from which the lists count.
    cursor: u64,
    /// The entries of the open slot by their times, the next one last.
    open: Vec<Entry>,
    /// The slot that is open, if `open` is not empty.
    open_slot: u64,
    /// The time of the next entry, or the beginning of the next slot.
    head: u64,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            lists: vec![NIL; SLOTS as usize],
            bitmap: [0; WORDS],
            summary: 0,
            nodes: Vec::new(),
            free: NIL,
            cursor: 0,
            open: Vec::new(),
            open_slot: 0,
            head: EMPTY,
        }
    }
}

impl Wheel {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let next = |&at: &u32| self.nodes.get(at as usize).map(|node| node.next);
        let free = core::iter::successors(Some(self.free), next).count() - 1;
        self.open.len() + self.nodes.len() - free
    }

    /// Takes the entry unless it is too far away.
    pub(super) fn push(&mut self, now: u64, entry: Entry) -> bool {
        // Lists before the time are empty: what they held has left.
        self.cursor = now >> SLOT_BITS;
        let slot = entry.at >> SLOT_BITS;
        if slot - self.cursor >= SLOTS {
            return false;
        }
        if slot < self.open_slot {
            self.close();
        }
        if slot == self.open_slot && !self.open.is_empty() {
            let at = self.open.partition_point(|other| other.at > entry.at);
            self.open.insert(at, entry);
            self.head = self.open.last().map_or(EMPTY, |entry| entry.at);
            return true;
        }
        self.enlist(entry);
        true
    }

    fn enlist(&mut self, entry: Entry) {
        let slot = entry.at >> SLOT_BITS;
        let index = (slot % SLOTS) as usize;
        let node = Node { entry, next: self.lists[index] };
        self.lists[index] = match self.nodes.get_mut(self.free as usize) {
            Some(free) => {
                let taken = self.free;
                self.free = free.next;
                *free = node;
                taken
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.bitmap[index / 64] |= 1 << (index % 64);
        self.summary |= 1 << (index / 64);
        self.head = self.head.min(slot << SLOT_BITS);
    }

    #[cold]
    fn close(&mut self) {
        for entry in core::mem::take(&mut self.open) {
            self.enlist(entry);
        }
        self.open_slot = 0;
    }

    /// The time of the next entry, or one that is not after it.
    #[inline]
    pub(super) fn head(&self) -> Option<u64> {
        (self.head != EMPTY).then_some(self.head)
    }

    /// The entries of the open slot, the next one last.
    pub(super) fn open(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.open.iter()
    }

    /// Takes the entry of [`Wheel::head`]; or opens its slot, which changes the head, and returns
    /// `None`. To be called only when no other head of the queue is less, and if there is a head.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        if let Some(entry) = self.open.pop() {
            self.head = self.open.last().map_or_else(|| self.next_slot_start(), |entry| entry.at);
            return Some(entry);
        }
        let slot = self.head >> SLOT_BITS;
        self.cursor = slot;
        self.open_slot = slot;
        let index = (slot % SLOTS) as usize;
        let mut at = core::mem::replace(&mut self.lists[index], NIL);
        while let Some(node) = self.nodes.get_mut(at as usize) {
            self.open.push(node.entry);
            let next = core::mem::replace(&mut node.next, self.free);
            self.free = at;
            at = next;
        }
        self.bitmap[index / 64] &= !(1 << (index % 64));
        if self.bitmap[index / 64] == 0 {
            self.summary &= !(1 << (index / 64));
        }
        self.open.sort_unstable_by_key(|entry| core::cmp::Reverse(entry.at));
        self.head = self.open.last().map_or_else(|| self.next_slot_start(), |entry| entry.at);
        None
    }

    /// The beginning of the first slot, from the cursor on, whose list is not empty.
    fn next_slot_start(&self) -> u64 {
        let first = (self.cursor % SLOTS) as usize;
        let (word, bit) = (first / 64, first % 64);
        let here = self.bitmap[word] >> bit;
        let distance = if here != 0 {
            here.trailing_zeros() as usize
        } else {
            // The words after this one, then round the wheel to this one again.
            let rotated = self.summary.rotate_right(word as u32 + 1);
            if rotated == 0 {
                return EMPTY;
            }
            let ahead = rotated.trailing_zeros() as usize;
            let found = (word + 1 + ahead) % WORDS;
            let start = (ahead + 1) * 64 - bit;
            start + self.bitmap[found].trailing_zeros() as usize
        };
        (self.cursor + distance as u64) << SLOT_BITS
    }
}
