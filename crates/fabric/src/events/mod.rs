//! The event queue: what happens next, and never two orders of the same things.
//!
//! ```text
//!   push(delay) ─┬─ a delay that recurs ──► lane of that delay: a ring, sorted by itself
//!                ├─ up to 33 us away ─────► wheel: 4,096 slots of 8.2 ns
//!                └─ further ──────────────► heap
//!   pop ◄── the least (time, sequence) of all heads
//! ```
//!
//! Nearly every event of a fabric is "now + a constant": a frame of one length over a link of one
//! rate and length. Events that share their delay are pushed in the order in which they are due, so
//! a ring per delay needs no sorting at all. What does not recur goes to the wheel, and timers of
//! milliseconds to the heap.
//!
//! **Invariant:** events leave in the order of (time, sequence), where the sequence is that of the
//! pushes. Which of the three held an event changes nothing, so neither do their sizes.

mod lanes;
mod tree;
mod wheel;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use lanes::{LANES_MAX, Lanes};
use tree::Tree;
use wheel::Wheel;

/// An event and when it is due.
#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    /// In picoseconds.
    at: u64,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (u64, u64) {
        (self.at, self.sequence)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The heads that are no lanes'.
const WHEEL: usize = LANES_MAX;
const HEAP: usize = LANES_MAX + 1;

/// Events of type `E`, and the time of the last one taken.
#[derive(Debug)]
pub struct Events<E> {
    /// In picoseconds.
    now: u64,
    sequence: u64,
    lanes: Lanes<E>,
    wheel: Wheel<E>,
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// The heads of all lanes, of the wheel and of the heap.
    heads: Tree,
    /// How many wait.
    len: usize,
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Self {
        Self {
            now: 0,
            sequence: 0,
            lanes: Lanes::default(),
            wheel: Wheel::default(),
            heap: BinaryHeap::new(),
            heads: Tree::default(),
            len: 0,
        }
    }
}

impl<E: Copy> Events<E> {
    /// Enters an event that is due `delay` picoseconds from now.
    #[inline]
    pub fn push(&mut self, delay: u64, event: E) {
        let entry = Entry { at: self.now.saturating_add(delay), sequence: self.sequence, event };
        self.sequence += 1;
        self.len += 1;
        if self.lanes.push(delay, entry, &mut self.heads) {
            return;
        }
        if self.wheel.push(self.now, entry) {
            return self.heads.set(WHEEL, self.wheel.head());
        }
        self.heap.push(Reverse(entry));
        self.heads.set(HEAP, self.heap.peek().map(|Reverse(entry)| entry.key()));
    }

    /// Takes the next event, and moves the time to it, if it is due at `end` or before.
    #[inline]
    pub fn pop(&mut self, end: u64) -> Option<E> {
        loop {
            let (at, head) = self.heads.least()?;
            if at > end {
                return None;
            }
            let entry = match head {
                WHEEL => {
                    let entry = self.wheel.pop();
                    self.heads.set(WHEEL, self.wheel.head());
                    // A slot was opened, and may turn out to hold nothing before the other heads.
                    let Some(entry) = entry else { continue };
                    entry
                }
                HEAP => {
                    let Reverse(entry) = self.heap.pop()?;
                    self.heads.set(HEAP, self.heap.peek().map(|Reverse(entry)| entry.key()));
                    entry
                }
                lane => self.lanes.pop(lane, &mut self.heads)?,
            };
            self.now = entry.at;
            self.len -= 1;
            return Some(entry.event);
        }
    }

    /// The time of the event that was taken last, in picoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many were entered since the beginning.
    pub fn entered(&self) -> u64 {
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn what_is_due_at_one_time_leaves_in_the_order_of_entering() {
        let mut events = Events::default();
        // Often enough that the delay gets a lane half-way, and the wheel holds the others.
        for index in 0..1_000 {
            events.push(5_000, index);
        }
        let order: Vec<i32> = core::iter::from_fn(|| events.pop(u64::MAX)).collect();
        assert_eq!(order, (0..1_000).collect::<Vec<_>>());
        assert_eq!((events.now(), events.is_empty()), (5_000, true));
    }

    #[test]
    fn an_event_after_the_end_stays() {
        let mut events = Events::default();
        events.push(10, 'a');
        events.push(1_000_000_000_000, 'b');
        assert_eq!((events.pop(9), events.pop(10), events.pop(999)), (None, Some('a'), None));
        assert_eq!((events.len(), events.now()), (1, 10));
        assert_eq!(events.pop(u64::MAX), Some('b'));
    }

    /// Delays of every kind: recurring, near, far, none.
    fn delay(random: &mut Random) -> u64 {
        match random.below(10) {
            0 => 0,
            1 => random.below(10_000),
            2 => random.below(40_000_000),
            3 => random.below(1_000_000_000_000),
            _ => [86_880, 1_086_880, 5_280, 1_005_280, 33_000_000, 33_554_432]
                [random.below(6) as usize],
        }
    }

    #[test]
    fn the_order_is_that_of_a_sorted_list() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let mut events = Events::default();
            let mut reference = std::collections::BTreeMap::new();
            let mut next = 0u64;
            for _ in 0..20_000 {
                if random.below(100) < 52 {
                    let delay = delay(&mut random);
                    events.push(delay, next);
                    reference.insert((events.now() + delay, next), next);
                    next += 1;
                } else {
                    let end = match random.below(4) {
                        0 => events.now() + random.below(2_000_000),
                        _ => u64::MAX,
                    };
                    let due = reference.first_key_value().filter(|(key, _)| key.0 <= end);
                    let expected = due.map(|(&key, &value)| (key, value));
                    assert_eq!(events.pop(end), expected.map(|(_, value)| value), "seed {seed}");
                    if let Some((key, _)) = expected {
                        assert_eq!(events.now(), key.0);
                        reference.remove(&key);
                    }
                }
                assert_eq!(events.len(), reference.len());
            }
        }
    }
}
