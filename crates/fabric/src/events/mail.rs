//! Events that come many at a time and in no order: what another partition of a network sends.
//!
//! ```text
//!   enter, enter, enter, settle ─► │ taken │ due (4 bytes), number (4 bytes): sorted │
//! ```
//!
//! To sort them once, in one piece of memory that is read from end to end, costs less than to enter each
//! in the wheel.

use prefetch_index::prefetch_index;

use super::{FAR, Meaning};

/// All are of one kind. See the module.
#[derive(Debug, Default)]
pub(super) struct Mail {
    kind: u8,
    /// What times are counted from, in picoseconds.
    base: u64,
    /// Picoseconds after the base in the upper half, the number in the lower.
    entries: Vec<u64>,
    /// How many of them have left.
    taken: usize,
}

impl Mail {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.taken
    }

    /// Begins to take events of a kind, of which none is due before `now`.
    pub(super) fn open(&mut self, now: u64, kind: u8) {
        debug_assert!(self.kind == kind || self.taken == self.entries.len());
        self.entries.drain(..self.taken);
        self.taken = 0;
        let passed = (now - self.base) << 32;
        self.entries.iter_mut().for_each(|entry| *entry -= passed);
        self.base = now;
        self.kind = kind;
    }

    /// Takes an event, unless it is too far away. To be followed by [`Mail::settle`].
    #[inline]
    pub(super) fn enter(&mut self, at: u64, number: u32) -> bool {
        let Ok(due) = u32::try_from(at - self.base) else { return false };
        self.entries.push(u64::from(due) << 32 | u64::from(number));
        true
    }

    /// Puts them in order.
    pub(super) fn settle(&mut self) {
        self.entries.sort_unstable();
    }

    /// When the next one is due.
    #[inline]
    pub(super) fn head(&self) -> Option<u64> {
        self.entries.get(self.taken).map(|entry| self.base + (entry >> 32))
    }

    /// Takes the next one. `meaning` is told of those behind it.
    #[inline]
    pub(super) fn pop(&mut self, meaning: &impl Meaning) -> Option<u64> {
        let number = *self.entries.get(self.taken)? as u32;
        self.taken += 1;
        // A cache line further, so that what comes next can be read when it is asked for.
        prefetch_index(&self.entries, self.taken + FAR + 8);
        if let Some(&later) = self.entries.get(self.taken + FAR) {
            meaning.is_soon(self.kind, later as u32);
        }
        Some(meaning.event(self.kind, number))
    }
}
