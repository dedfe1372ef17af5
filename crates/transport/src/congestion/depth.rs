//! Whether the queue of a path is full, by how long it has been of late: one that is much shorter drops nothing, so what is lost
//! meanwhile is lost by chance. So flows that share a queue, which is never empty, learn what chance takes.

use core::mem::{replace, take};

use rdma::{Span, Time};

use crate::limits::{
    BBR_DEPTH_ROUNDS, BBR_DEPTH_STRETCHES, BBR_LONGEST_KNOWN, BBR_SHALLOW_PERCENT,
};
use crate::of_late::{Longest, Usual};

/// What a round has shown of a queue. All are round trips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// The shortest of the round.
    pub(super) least: Span,
    /// The middle one of the shortest of three rounds: a thread that is late makes all of one longer.
    pub(super) usual: Span,
    /// The longest of the round and of the one before, in which may have been lost what is known by now.
    pub(super) most: Span,
    /// What it is when the queue is full, whether a host is late now and then or not; and the longest of late.
    pub(super) deepest: Span,
    pub(super) longest: Span,
    /// What an empty queue's is.
    pub(super) empty: Span,
    /// By how much more it takes for packets that others overtake.
    pub(super) spread: Span,
}

impl Queue {
    /// By how much a round trip is longer than an empty queue's.
    pub(super) fn part(&self, took: Span) -> u64 {
        took.as_ps().saturating_sub(self.empty.as_ps())
    }

    /// Whether it was far from full in both rounds. Where chance takes packets, the longest round trip of late decides, so that what is
    /// lost seldom counts as that of a full queue.
    pub(super) fn is_shallow(&self, is_clean: bool) -> bool {
        let full = if is_clean { self.deepest } else { self.longest };
        let full = self.part(full) / 100 * BBR_SHALLOW_PERCENT;
        self.part(self.most) < full + self.spread.as_ps()
    }
}

/// The longest of each of some stretches of rounds. What they come to is the third longest of eight: a host that has stood still for some
/// rounds makes one or two longer, and a queue that others fill as well is full in most.
#[derive(Clone, Copy, Default, Debug)]
struct Deepest {
    stretches: [Span; BBR_DEPTH_STRETCHES],
    /// How many are known, with the present one, which is the first, and how many rounds that has.
    count: usize,
    rounds: u32,
}

impl Deepest {
    fn measured(&mut self, took: Span) -> Span {
        if self.rounds.is_multiple_of(BBR_DEPTH_ROUNDS) {
            self.stretches.rotate_right(1);
            self.stretches[0] = Span::ZERO;
            self.count = (self.count + 1).min(self.stretches.len());
        }
        self.rounds = (self.rounds + 1) % BBR_DEPTH_ROUNDS;
        self.stretches[0] = self.stretches[0].max(took);
        let mut sorted = self.stretches;
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted[self.count / 3]
    }
}

/// See the module. All are round trips.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Depth {
    /// The shortest and the longest of this round.
    least: Option<Span>,
    most: Span,
    /// The longest of the one before.
    before: Span,
    usual: Usual<3>,
    deepest: Deepest,
    /// The longest of all rounds' shortest.
    longest: Longest,
}

impl Depth {
    pub(super) fn measured(&mut self, took: Span) {
        self.least = Some(self.least.map_or(took, |it| it.min(took)));
        self.most = self.most.max(took);
    }

    /// A round has ended, in which the round trip over an empty queue was `empty`, and up to `spread` more. Nothing is known if none was
    /// measured.
    pub(super) fn end_round(&mut self, now: Time, empty: Span, spread: Span) -> Option<Queue> {
        let least = self.least.take()?;
        let usual = self.usual.measured(least);
        let deepest = self.deepest.measured(usual);
        self.longest.measured(now, least, BBR_LONGEST_KNOWN);
        let longest = self.longest.get().unwrap_or(least);
        let most = take(&mut self.most);
        let most = most.max(replace(&mut self.before, most));
        Some(Queue { least, usual, most, deepest, longest, empty, spread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Span = Span::from_ms(2);

    /// A round at so many milliseconds with these round trips, in tenths of them. Returns whether the queue was far from full, on a path
    /// that loses nothing by chance and on another.
    fn round(depth: &mut Depth, ms: u64, tenths: &[u64]) -> [bool; 2] {
        for tenth in tenths {
            depth.measured(Span::from_us(100 * tenth));
        }
        let now = Time::ZERO + Span::from_ms(ms);
        let queue = depth.end_round(now, SHORTEST, Span::ZERO);
        [true, false].map(|is_clean| queue.is_some_and(|queue| queue.is_shallow(is_clean)))
    }

    #[test]
    fn a_queue_is_far_from_full_when_it_was_much_longer_of_late() {
        let mut depth = Depth::default();
        assert_eq!(round(&mut depth, 10, &[20, 24]), [false; 2], "nothing is known yet");
        assert_eq!(round(&mut depth, 20, &[60, 62]), [false; 2]);
        assert_eq!(round(&mut depth, 25, &[60, 62]), [false; 2]);
        assert_eq!(round(&mut depth, 30, &[40, 48]), [false; 2], "in the round before it was full");
        assert_eq!(round(&mut depth, 40, &[40, 48]), [true; 2]);
        assert_eq!(round(&mut depth, 50, &[40, 51]), [false; 2], "three quarters are full enough");
        assert_eq!(round(&mut depth, 60, &[]), [false; 2], "nothing was measured");
    }

    #[test]
    fn single_long_round_trips_are_no_queue_and_old_ones_are_forgotten() {
        let mut depth = Depth::default();
        assert_eq!(round(&mut depth, 10, &[30, 900]), [false; 2]);
        assert_eq!(round(&mut depth, 20, &[30, 30]), [false; 2]);
        assert_eq!(round(&mut depth, 30, &[30, 30]), [false; 2]);
        assert_eq!(round(&mut depth, 40, &[60]), [false; 2]);
        assert_eq!(round(&mut depth, 50, &[30]), [false; 2]);
        assert_eq!(round(&mut depth, 60, &[30]), [false, true], "a thread may have been late");
        for ms in [6_000, 12_000] {
            round(&mut depth, ms, &[30]);
        }
        assert_eq!(round(&mut depth, 12_010, &[30]), [false; 2]);
    }

    #[test]
    fn a_host_that_stands_still_now_and_then_makes_no_queue_deeper() {
        let mut depth = Depth::default();
        let all = BBR_DEPTH_ROUNDS * BBR_DEPTH_STRETCHES as u32;
        for count in 0..2 * all {
            // For some rounds in each of the last two stretches.
            let is_last = count % all >= all - 2 * BBR_DEPTH_ROUNDS;
            let stands_still = is_last && count % BBR_DEPTH_ROUNDS < 4;
            let tenths = if stands_still { 90 } else { 50 + u64::from(count % 10) };
            let [clean, _] = round(&mut depth, u64::from(count), &[tenths, 60]);
            assert!(!clean, "round {count}");
        }
    }
}
