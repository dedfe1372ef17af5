//! Whether the queue of a path is full, by how long it has been of late: one that is much shorter drops nothing, so what is lost
//! meanwhile is lost by chance. So flows that share a queue, which is never empty, learn what chance takes.

use core::mem::{replace, take};

use rdma::{Span, Time};

use crate::limits::{BBR_DEEPEST_KNOWN, BBR_SHALLOW_PERCENT};
use crate::of_late::Longest;

/// What a round has shown of a queue. All are round trips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// The shortest of the round.
    pub(super) least: Span,
    /// The middle one of the shortest of three rounds: a thread that is late makes all of one longer.
    pub(super) usual: Span,
    /// The longest of the round and of the one before, in which may have been lost what is known by now.
    pub(super) most: Span,
    /// The longest of late, and what an empty queue's is.
    pub(super) deepest: Span,
    pub(super) empty: Span,
    /// By how much more it takes for packets that others overtake.
    pub(super) spread: Span,
}

impl Queue {
    /// By how much a round trip is longer than an empty queue's.
    pub(super) fn part(&self, took: Span) -> u64 {
        took.as_ps().saturating_sub(self.empty.as_ps())
    }

    /// Whether it was far from full in both rounds.
    pub(super) fn is_shallow(&self) -> bool {
        let full = self.part(self.deepest) / 100 * BBR_SHALLOW_PERCENT;
        self.part(self.most) < full + self.spread.as_ps()
    }
}

/// See the module. All are round trips.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Depth {
    /// The shortest and the longest of this round.
    least: Option<Span>,
    most: Span,
    /// The shortest of each of the last three rounds, and the longest of the last.
    rounds: Option<[Span; 3]>,
    before: Span,
    /// The longest of what was usual.
    deepest: Longest,
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
        let rounds = self.rounds.get_or_insert([least; 3]);
        rounds.rotate_left(1);
        rounds[2] = least;
        let mut sorted = *rounds;
        sorted.sort_unstable();
        let usual = sorted[1];
        self.deepest.measured(now, usual, BBR_DEEPEST_KNOWN);
        let deepest = self.deepest.get().unwrap_or(usual);
        let most = take(&mut self.most);
        let most = most.max(replace(&mut self.before, most));
        Some(Queue { least, usual, most, deepest, empty, spread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Span = Span::from_ms(2);

    /// A round at so many milliseconds with these round trips, in tenths of them. Returns whether the queue was far from full.
    fn round(depth: &mut Depth, ms: u64, tenths: &[u64]) -> bool {
        for tenth in tenths {
            depth.measured(Span::from_us(100 * tenth));
        }
        let queue = depth.end_round(Time::ZERO + Span::from_ms(ms), SHORTEST, Span::ZERO);
        queue.is_some_and(|queue| queue.is_shallow())
    }

    #[test]
    fn a_queue_is_far_from_full_when_it_was_much_longer_of_late() {
        let mut depth = Depth::default();
        assert!(!round(&mut depth, 10, &[20, 24]), "nothing is known yet");
        assert!(!round(&mut depth, 20, &[60, 62]));
        assert!(!round(&mut depth, 25, &[60, 62]));
        assert!(!round(&mut depth, 30, &[40, 48]), "in the round before it was full");
        assert!(round(&mut depth, 40, &[40, 48]));
        assert!(!round(&mut depth, 50, &[40, 51]), "three quarters of 4 ms are full enough");
        assert!(!round(&mut depth, 60, &[]), "nothing was measured");
    }

    #[test]
    fn single_long_rounds_are_no_queue_and_old_ones_are_forgotten() {
        let mut depth = Depth::default();
        assert!(!round(&mut depth, 10, &[30, 900]));
        assert!(!round(&mut depth, 20, &[900, 900]));
        assert!(!round(&mut depth, 30, &[30, 30]));
        assert!(!round(&mut depth, 40, &[30, 30]));
        assert!(!round(&mut depth, 50, &[60]));
        assert!(!round(&mut depth, 60, &[60]));
        assert!(!round(&mut depth, 70, &[30]));
        assert!(round(&mut depth, 80, &[30]));
        for ms in [6_000, 12_000] {
            round(&mut depth, ms, &[30]);
        }
        assert!(!round(&mut depth, 12_010, &[30]));
    }
}
