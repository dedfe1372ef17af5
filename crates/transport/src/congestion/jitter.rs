//! By how much the round trips of a path differ without a queue: packets that overtake each other stood in none.

use rdma::{Span, Time};

use crate::limits::BBR_RECENT;
use crate::of_late::Longest;

/// A difference weighs a sixteenth less for each that comes after it (RFC 3550, 6.4.1).
const DIFFERENCES: u64 = 16;

/// See the module.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Jitter {
    last: Option<Span>,
    /// By how much a round trip differs from the last one: the interarrival jitter of RFC 3550, but of round trips.
    differs: Span,
    /// How much later a packet has arrived than one that was sent after it, at most.
    late_by: Longest,
}

impl Jitter {
    /// A round trip was measured.
    pub(super) fn measured(&mut self, now: Time, took: Span, late_by: Span) {
        let last = self.last.replace(took).unwrap_or(took);
        let off = took.as_ps().abs_diff(last.as_ps());
        let differs = self.differs.as_ps();
        self.differs = Span::from_ps(differs - differs / DIFFERENCES + off / DIFFERENCES);
        self.late_by.measured(now, late_by, BBR_RECENT);
    }

    /// From the shortest round trip to the longest: on the way there and on the way back. A single packet that was very late
    /// makes the others no later.
    pub(super) fn spread(&self) -> Span {
        let late_by = self.late_by.get().unwrap_or(Span::ZERO);
        (late_by * 2).min(self.differs * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Span = Span::from_us(400);

    /// The spread after round trips of so many microseconds, a hundred times, of which each fourth was late by so much.
    fn spread(us: [u64; 4], late_by: Span) -> Span {
        let mut jitter = Jitter::default();
        for step in 0..400 {
            let now = Time::ZERO + Span::from_us(100 * step);
            let late_by = if step % 4 == 3 { late_by } else { Span::ZERO };
            jitter.measured(now, Span::from_us(us[step as usize % 4]), late_by);
        }
        jitter.spread()
    }

    #[test]
    fn what_overtakes_nothing_is_no_jitter() {
        assert_eq!(spread([1_000, 1_400, 1_100, 1_500], Span::ZERO), Span::ZERO);
    }

    #[test]
    fn it_is_twice_what_packets_are_late_by_on_each_way() {
        assert_eq!(spread([1_000, 1_400, 1_000, 1_400], LATE), LATE * 2);
    }

    /// Round trips that differ by 10 us, and one packet that was late by 400.
    #[test]
    fn one_packet_that_was_late_makes_no_others_late() {
        let spread = spread([1_000, 1_010, 1_000, 1_010], LATE);
        assert!((Span::from_us(30)..=Span::from_us(40)).contains(&spread), "{spread}");
    }
}
