//! The event queue: what happens next, and never two orders of the same things.
//!
//! ```text
//!   push(delay) ─┬─ a delay that recurs ──► lane of that delay: a ring, sorted by itself
//!                ├─ up to 33 us away ─────► wheel: 4,096 slots of 8.2 ns
//!                └─ further ──────────────► heap
//!   pop ◄── all that is due next, in the order of the events themselves
//! ```
//!
//! Nearly every event of a fabric is "now + a constant": a frame of one length over a link of one
//! rate and length. Events that share their delay are pushed in the order in which they are due, so
//! a ring per delay needs no sorting at all. What does not recur goes to the wheel, and timers of
//! milliseconds to the heap.
//!
//! **Invariant:** an event is a number, and of all that wait the one with the least (time, number)
//! leaves. Nothing else decides: not who pushed first, not which of the three held it. So it is the
//! same however a network is divided among queues, as long as the number says to whom it happens.
//!
//! Among the events of one time, the bits of [`COIN`] are first turned over by a number made of that
//! time: or of two ports at which packets arrive again and again together, the same one would always
//! come first.

mod lanes;
mod tree;
mod wheel;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::split_mix;
use lanes::{LANES_MAX, Lanes};
use tree::Tree;
use wheel::Wheel;

/// The bits of an event, those of its port, that a coin turns over.
pub const COIN: u64 = 0x3ff << 32;

/// An event and when it is due, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    at: u64,
    event: u64,
}

/// The heads that are no lanes'.
const WHEEL: usize = LANES_MAX;
const HEAP: usize = LANES_MAX + 1;

/// Events, and the time of the last one taken.
#[derive(Debug, Default)]
pub struct Events {
    /// In picoseconds.
    now: u64,
    lanes: Lanes,
    wheel: Wheel,
    heap: BinaryHeap<Reverse<Entry>>,
    /// The heads of all lanes, of the wheel and of the heap.
    heads: Tree,
    /// What else is due now, in order, its coins turned; the first `taken` of it has left.
    batch: Vec<u64>,
    taken: usize,
    /// The coins of the batch.
    turned: u64,
    /// How many wait.
    len: usize,
}

/// How many places ahead what is to come is told: far enough that memory answers in time, near enough
/// that caches have not forgotten.
const AHEAD: usize = 3;

/// What is turned over in the events of one time.
#[inline]
fn coins(at: u64) -> u64 {
    split_mix(at) & COIN
}

impl Events {
    /// Enters an event that is due `delay` picoseconds from now.
    #[inline]
    pub fn push(&mut self, delay: u64, event: u64) {
        let entry = Entry { at: self.now.saturating_add(delay), event };
        self.len += 1;
        if self.lanes.push(delay, entry, &mut self.heads) {
            return;
        }
        self.insert(entry);
    }

    /// Enters an event that is due at a time, which is not before now.
    pub fn push_at(&mut self, at: u64, event: u64) {
        self.len += 1;
        self.insert(Entry { at: at.max(self.now), event });
    }

    fn insert(&mut self, entry: Entry) {
        if entry.at == self.now && self.taken < self.batch.len() {
            let turned = entry.event ^ coins(entry.at);
            let place = self.batch[self.taken..].partition_point(|&other| other < turned);
            return self.batch.insert(self.taken + place, turned);
        }
        if self.wheel.push(self.now, entry) {
            return self.heads.set(WHEEL, self.wheel.head());
        }
        self.heap.push(Reverse(entry));
        self.heads.set(HEAP, self.heap.peek().map(|Reverse(entry)| entry.at));
    }

    /// Takes the next event, and moves the time to it, if it is due at `end` or before. `end` is not
    /// before now.
    #[inline]
    pub fn pop(&mut self, end: u64) -> Option<u64> {
        self.pop_ahead(end, |_| {})
    }

    /// The same, and tells `ahead` of events that are likely to be soon among the next; now and then of
    /// one that has left. It costs next to nothing to know.
    #[inline]
    pub fn pop_ahead(&mut self, end: u64, mut ahead: impl FnMut(u64)) -> Option<u64> {
        if let Some(&turned) = self.batch.get(self.taken) {
            if let Some(later) = self.batch.get(self.taken + AHEAD) {
                ahead(later ^ self.turned);
            }
            self.taken += 1;
            self.len -= 1;
            return Some(turned ^ self.turned);
        }
        loop {
            let (at, head) = self.heads.least()?;
            if at > end {
                return None;
            }
            // A slot of the wheel was opened, and may turn out to hold nothing before the others.
            let Some(event) = self.take(head, &mut ahead) else { continue };
            self.now = at;
            if self.heads.least().is_some_and(|(next, _)| next == at) {
                return Some(self.first_of_batch(at, event, ahead));
            }
            self.len -= 1;
            return Some(event);
        }
    }

    /// Takes the head of a lane, the wheel or the heap; or opens a slot of the wheel.
    #[inline]
    fn take(&mut self, head: usize, ahead: &mut impl FnMut(u64)) -> Option<u64> {
        let entry = match head {
            WHEEL => {
                let entry = self.wheel.pop();
                if entry.is_none() {
                    self.wheel.open().rev().take(AHEAD).for_each(|entry| ahead(entry.event));
                }
                self.heads.set(WHEEL, self.wheel.head());
                entry
            }
            HEAP => {
                let entry = self.heap.pop().map(|Reverse(entry)| entry);
                self.heads.set(HEAP, self.heap.peek().map(|Reverse(entry)| entry.at));
                entry
            }
            lane => self.lanes.pop(lane, &mut self.heads, ahead),
        };
        entry.map(|entry| entry.event)
    }

    /// Sorts `first` and all else that is due at `at`, and takes the first of it.
    fn first_of_batch(&mut self, at: u64, first: u64, mut ahead: impl FnMut(u64)) -> u64 {
        let coins = coins(at);
        self.turned = coins;
        self.batch.clear();
        self.batch.push(first ^ coins);
        while let Some((_, head)) = self.heads.least().filter(|&(next, _)| next == at) {
            if head < LANES_MAX {
                let push = |event| self.batch.push(event ^ coins);
                self.lanes.pop_due(head, at, &mut self.heads, push, &mut ahead);
            } else if let Some(event) = self.take(head, &mut ahead) {
                self.batch.push(event ^ coins);
            }
        }
        self.batch.sort_unstable();
        self.taken = 1;
        self.len -= 1;
        self.batch[0] ^ coins
    }

    /// Moves the time on to `at`. Nothing that waits is due before that.
    pub fn advance(&mut self, at: u64) {
        debug_assert!(self.next_at().is_none_or(|next| next >= at), "an event is passed over");
        self.now = self.now.max(at);
    }

    /// A time before which nothing is due; `None` if nothing waits. The next event may be due a
    /// little later.
    pub fn next_at(&self) -> Option<u64> {
        if self.taken < self.batch.len() {
            return Some(self.now);
        }
        self.heads.least().map(|(at, _)| at)
    }

    /// The time of the event that was taken last, in picoseconds, or that it was moved on to.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn what_is_due_at_one_time_leaves_in_the_order_of_its_numbers() {
        let numbers: Vec<u64> = (0..1_000).collect();
        let mut entered = numbers.clone();
        Random::new(5).shuffle(&mut entered);
        let mut events = Events::default();
        // Often enough that the delay gets a lane half-way, and the wheel holds the others.
        for &number in &entered {
            events.push(5_000, number);
        }
        let order: Vec<u64> = core::iter::from_fn(|| events.pop(u64::MAX)).collect();
        assert_eq!(order, numbers);
        assert_eq!((events.now(), events.is_empty()), (5_000, true));
    }

    #[test]
    fn of_two_ports_neither_is_always_the_first() {
        let mut events = Events::default();
        let mut firsts = [0, 0];
        for _ in 0..1_000 {
            for port in [6, 7] {
                events.push(88_480, port << 32);
            }
            let first = events.pop(u64::MAX).unwrap() >> 32;
            firsts[(first - 6) as usize] += 1;
            events.pop(u64::MAX).unwrap();
        }
        assert!(firsts.iter().all(|count| (400..600).contains(count)), "{firsts:?}");
    }

    #[test]
    fn an_event_after_the_end_stays() {
        let mut events = Events::default();
        events.push(10, 1);
        events.push(1_000_000_000_000, 2);
        assert_eq!((events.pop(9), events.pop(10), events.pop(999)), (None, Some(1), None));
        assert_eq!((events.len(), events.now()), (1, 10));
        events.advance(1_000);
        events.push(0, 3);
        assert_eq!((events.next_at(), events.now()), (Some(0), 1_000));
        assert_eq!(events.pop(1_000), Some(3));
        assert_eq!(events.pop(u64::MAX), Some(2));
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
            let mut reference = std::collections::BTreeSet::new();
            let mut next = 0u64;
            for _ in 0..20_000 {
                if random.below(100) < 52 {
                    // Bursts of one delay, whose numbers are in no order.
                    let delay = delay(&mut random);
                    for _ in 0..=random.below(3) {
                        let event = split_mix(next) & !0xffff_ffff | next;
                        let at = events.now() + delay;
                        match random.below(4) {
                            0 => events.push_at(at, event),
                            _ => events.push(delay, event),
                        }
                        reference.insert((at, event ^ coins(at)));
                        next += 1;
                    }
                } else {
                    let end = match random.below(4) {
                        0 => events.now() + random.below(2_000_000),
                        _ => u64::MAX,
                    };
                    let due = reference.first().copied().filter(|key| key.0 <= end);
                    let expected = due.map(|(at, turned)| turned ^ coins(at));
                    assert_eq!(events.pop(end), expected, "seed {seed}");
                    if let Some(key) = due {
                        assert_eq!(events.now(), key.0);
                        reference.remove(&key);
                    }
                }
                assert_eq!(events.len(), reference.len());
                let next_at = events.next_at();
                let least = reference.first().map(|&(at, _)| at);
                assert!(next_at <= least && next_at.is_some() == least.is_some());
            }
        }
    }
}
