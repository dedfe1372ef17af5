//! The event queue: what happens next, in an order that depends on the events alone.
//!
//! ```text
//!   push(delay) ─┬─ a delay that recurs ──► lane of that delay: a ring, sorted by itself
//!                ├─ up to 33 us away ─────► wheel: 4,096 slots of 8.2 ns
//!                └─ further ──────────────► heap
//!   post ──────────── many at once ───────► mail: sorted when it comes
//!   pop ◄── all that is due next, in the order of the events themselves
//! ```
//!
//! Nearly every event of a fabric is due at "now + a constant": a frame of one length over a link of one
//! rate and length. Events that share their delay are pushed in the order in which they are due, so
//! a ring per delay needs no sorting. Delays that do not recur go to the wheel, and timers of
//! milliseconds to the heap.
//!
//! In lanes and mail, where nearly all events wait, each takes eight bytes: the lower half of its time, and
//! a number of four bytes from which [`Meaning`] makes the event again.
//!
//! **Invariant:** an event is a number, and of all that wait, the one with the least (time, number)
//! leaves. It does not matter who pushed first, or which of the four held it. So the order is the same
//! however a network is divided among queues, as long as the number says to whom the event happens.
//!
//! Among the events of one time, the bits of [`COIN`] are first flipped by a number made of that time.
//! Otherwise, of two ports at which packets keep arriving together, the same one would always come first.

mod lanes;
mod mail;
mod tree;
mod wheel;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::split_mix;
use lanes::{LANES_MAX, Lanes};
use mail::Mail;
use tree::Tree;
use wheel::Wheel;

/// The bits of an event, those of its port, that a number made of its time flips.
pub(crate) const COIN: u64 = 0x3ff << 32;

/// An event and when it is due, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    at: u64,
    event: u64,
}

/// The heads that are no lanes'.
const WHEEL: usize = LANES_MAX;
const HEAP: usize = LANES_MAX + 1;
const MAIL: usize = LANES_MAX + 2;

/// Makes events from their short numbers, and is told which come soon, so that it can prefetch what they
/// touch.
pub(crate) trait Meaning {
    /// The event of a kind that has this number.
    fn event(&self, kind: u8, number: u32) -> u64;

    /// Such an event is likely to come soon. Now and then it has left already, or never was, so nothing may
    /// depend on it.
    fn is_soon(&self, kind: u8, number: u32);

    /// The same for a whole event.
    fn is_next(&self, event: u64);
}

/// Events, and the time of the last one taken.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// In picoseconds.
    now: u64,
    lanes: Lanes,
    wheel: Wheel,
    heap: BinaryHeap<Reverse<Entry>>,
    mail: Mail,
    /// The heads of all lanes, of the wheel, of the heap and of the mail.
    heads: Tree,
    /// What else is due now, in order, with its bits flipped; the first `taken` of it have left.
    batch: Vec<u64>,
    taken: usize,
    /// Which bits of the batch are flipped.
    turned: u64,
}

/// How many places ahead [`Meaning`] is told of events: far enough that memory answers in time, near
/// enough that caches have not forgotten.
const AHEAD: usize = 3;
/// The same for events that are known by number alone: their packet must be there sooner.
const FAR: usize = 6;

/// The bits that are flipped in the events of one time.
#[inline]
fn coins(at: u64) -> u64 {
    split_mix(at) & COIN
}

impl Events {
    /// Enters an event that is due `delay` picoseconds from now.
    #[inline]
    pub(crate) fn push(&mut self, delay: u64, event: u64) {
        self.insert(Entry { at: self.now.saturating_add(delay), event });
    }

    /// Enters an event that has a short number. The delays of such events are likely to recur.
    #[inline]
    pub(crate) fn push_short(
        &mut self,
        delay: u64,
        kind: u8,
        number: u32,
        event: impl FnOnce() -> u64,
    ) {
        if !self.lanes.push(self.now, delay, (kind, number), &mut self.heads) {
            self.insert(Entry { at: self.now.saturating_add(delay), event: event() });
        }
    }

    /// Begins to take events of a kind by [`Events::post`]; what was posted before and has not left is of
    /// the same kind.
    pub(crate) fn open_mail(&mut self, kind: u8) {
        self.mail.open(self.now, kind);
    }

    /// Enters an event that is due at a time, which is not before now. To be followed, after many of
    /// them, by [`Events::close_mail`].
    #[inline]
    pub(crate) fn post(&mut self, at: u64, number: u32, event: impl FnOnce() -> u64) {
        // What is due at once may have to go between what is leaving.
        if at <= self.now || !self.mail.enter(at, number) {
            self.insert(Entry { at: at.max(self.now), event: event() });
        }
    }

    /// Puts in order what was posted.
    pub(crate) fn close_mail(&mut self) {
        self.mail.settle();
        self.heads.set(MAIL, self.mail.head());
    }

    /// Enters an event that is due at a time, which is not before now.
    pub(crate) fn push_at(&mut self, at: u64, event: u64) {
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
    pub(crate) fn pop(&mut self, end: u64, meaning: &impl Meaning) -> Option<u64> {
        if let Some(&turned) = self.batch.get(self.taken) {
            if let Some(later) = self.batch.get(self.taken + AHEAD) {
                meaning.is_next(later ^ self.turned);
            }
            self.taken += 1;
            return Some(turned ^ self.turned);
        }
        loop {
            let (at, head) = self.heads.least()?;
            if at > end {
                return None;
            }
            let event = match head < LANES_MAX {
                true => self.lanes.pop(head, at, &mut self.heads, meaning),
                false => self.take(head, meaning),
            };
            // A slot of the wheel was opened, and may turn out to hold nothing before the others.
            let Some(event) = event else { continue };
            self.now = at;
            if self.heads.least().is_some_and(|(next, _)| next == at) {
                return Some(self.first_of_batch(at, event, meaning));
            }
            return Some(event);
        }
    }

    /// Takes the head of the wheel, the heap or the mail; or opens a slot of the wheel.
    fn take(&mut self, head: usize, meaning: &impl Meaning) -> Option<u64> {
        match head {
            WHEEL => {
                let entry = self.wheel.pop();
                if entry.is_none() {
                    let open = self.wheel.open().rev().take(AHEAD);
                    open.for_each(|entry| meaning.is_next(entry.event));
                }
                self.heads.set(WHEEL, self.wheel.head());
                entry.map(|entry| entry.event)
            }
            HEAP => {
                let entry = self.heap.pop().map(|Reverse(entry)| entry);
                self.heads.set(HEAP, self.heap.peek().map(|Reverse(entry)| entry.at));
                entry.map(|entry| entry.event)
            }
            _ => {
                let event = self.mail.pop(meaning);
                self.heads.set(MAIL, self.mail.head());
                event
            }
        }
    }

    /// Sorts `first` and all else that is due at `at`, and takes the first of it.
    fn first_of_batch(&mut self, at: u64, first: u64, meaning: &impl Meaning) -> u64 {
        let coins = coins(at);
        self.turned = coins;
        self.batch.clear();
        self.batch.push(first ^ coins);
        while let Some((_, head)) = self.heads.least().filter(|&(next, _)| next == at) {
            if head < LANES_MAX {
                let push = |event| self.batch.push(event ^ coins);
                self.lanes.pop_due(head, at, &mut self.heads, push, meaning);
            } else if let Some(event) = self.take(head, meaning) {
                self.batch.push(event ^ coins);
            }
        }
        self.batch.sort_unstable();
        self.taken = 1;
        self.batch[0] ^ coins
    }

    /// Moves the time on to `at`. Nothing that waits is due before that.
    pub(crate) fn advance(&mut self, at: u64) {
        debug_assert!(self.next_at().is_none_or(|next| next >= at), "an event is passed over");
        self.now = self.now.max(at);
    }

    /// A time before which nothing is due; `None` if nothing waits. The next event may be due a
    /// little later.
    pub(crate) fn next_at(&self) -> Option<u64> {
        if self.taken < self.batch.len() {
            return Some(self.now);
        }
        self.heads.least().map(|(at, _)| at)
    }

    /// The time of the event that was taken last, in picoseconds, or that it was moved on to.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Makes an event of a number.
    struct Made(fn(u64) -> u64);

    impl Meaning for Made {
        fn event(&self, kind: u8, number: u32) -> u64 {
            self.0(u64::from(kind) << 32 | u64::from(number))
        }

        fn is_soon(&self, _: u8, _: u32) {}

        fn is_next(&self, _: u64) {}
    }

    impl Events {
        /// How many events wait.
        fn len(&self) -> usize {
            let (batch, lanes) = (self.batch.len() - self.taken, self.lanes.len());
            batch + lanes + self.wheel.len() + self.heap.len() + self.mail.len()
        }

        fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }

    const PLAIN: Made = Made(|number| number);
    const PORTS: Made = Made(|number| number << 32);
    const MIXED: Made = Made(|number| split_mix(number) & !0xffff_ffff | number & 0xffff_ffff);

    #[test]
    fn what_is_due_at_one_time_leaves_in_the_order_of_its_numbers() {
        let numbers: Vec<u64> = (0..1_000).collect();
        let mut entered = numbers.clone();
        Random::new(5).shuffle(&mut entered);
        let mut events = Events::default();
        // Often enough that the delay gets a lane half-way, and the wheel holds the others.
        for &number in &entered {
            events.push_short(5_000, 0, number as u32, || number);
        }
        let order: Vec<u64> = core::iter::from_fn(|| events.pop(u64::MAX, &PLAIN)).collect();
        assert_eq!(order, numbers);
        assert_eq!((events.now(), events.is_empty()), (5_000, true));
    }

    #[test]
    fn of_two_ports_neither_is_always_the_first() {
        let mut events = Events::default();
        let mut firsts = [0, 0];
        for _ in 0..1_000 {
            for port in [6, 7] {
                events.push_short(88_480, 0, port, || u64::from(port) << 32);
            }
            let first = events.pop(u64::MAX, &PORTS).unwrap() >> 32;
            firsts[(first - 6) as usize] += 1;
            events.pop(u64::MAX, &PORTS).unwrap();
        }
        assert!(firsts.iter().all(|count| (400..600).contains(count)), "{firsts:?}");
    }

    #[test]
    fn an_event_after_the_end_stays() {
        let mut events = Events::default();
        events.push(10, 1);
        events.push(1_000_000_000_000, 2);
        let mut pop = |end| events.pop(end, &PLAIN);
        assert_eq!((pop(9), pop(10), pop(999)), (None, Some(1), None));
        assert_eq!((events.len(), events.now()), (1, 10));
        events.advance(1_000);
        events.push(0, 3);
        assert_eq!((events.next_at(), events.now()), (Some(0), 1_000));
        assert_eq!(events.pop(1_000, &PLAIN), Some(3));
        assert_eq!(events.pop(u64::MAX, &PLAIN), Some(2));
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
            let mut next = 0u32;
            for _ in 0..20_000 {
                if random.below(100) < 52 {
                    // Bursts of one delay, whose numbers are in no order.
                    let delay = delay(&mut random);
                    let at = events.now() + delay;
                    let mut posted = Vec::new();
                    for _ in 0..=random.below(3) {
                        let event = MIXED.event((next % 2) as u8, next);
                        match random.below(6) {
                            0 => events.push_at(at, event),
                            1 => events.push(delay, event),
                            2 if next.is_multiple_of(2) => {
                                let at = at + random.below(3) * 1_000;
                                posted.push((at, next, event));
                            }
                            _ => events.push_short(delay, (next % 2) as u8, next, || event),
                        }
                        let at =
                            posted.last().filter(|last| last.2 == event).map_or(at, |last| last.0);
                        reference.insert((at, event ^ coins(at)));
                        next += 1;
                    }
                    events.open_mail(0);
                    for (at, number, event) in posted.into_iter().rev() {
                        events.post(at, number, || event);
                    }
                    events.close_mail();
                } else {
                    let end = match random.below(4) {
                        0 => events.now() + random.below(2_000_000),
                        _ => u64::MAX,
                    };
                    let due = reference.first().copied().filter(|key| key.0 <= end);
                    let expected = due.map(|(at, turned)| turned ^ coins(at));
                    assert_eq!(events.pop(end, &MIXED), expected, "seed {seed}");
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
