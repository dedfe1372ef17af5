//! How long a requester waits for an answer before it thinks that something is lost, by the round trips
//! that it has measured.
//!
//! ```text
//!   wait for the overtaken   a quarter of the shortest round trip          RFC 8985, 6.2, step 4
//!     over many paths        smoothed + 4 variation                        RFC 6298, 2
//!   probe                    2 smoothed + variation, doubled each time     RFC 8985, 7.2; RFC 6298, 2
//! ```
//!
//! Both have a floor of ours: the threads of a soft NIC are woken tens of microseconds late, and more on a busy
//! machine.

use rdma::{Span, Time};

use crate::limits::{
    OVERTAKEN_WAIT_MIN, PROBE_DOUBLINGS, PROBE_WAIT_MIN, SHORTEST_ROUND_TRIP_KNOWN,
};
use crate::shortest::Shortest;

/// The round trips of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// How long the overtaken have at least; `None` if nothing is overtaken on this path.
    overtaken_min: Option<Span>,
    /// Packets of one flow take several paths at once.
    is_sprayed: bool,
    shortest: Shortest,
    smoothed: Option<Span>,
    variation: Span,
}

impl Patience {
    /// Packets that others have overtaken have so much time at least.
    pub(crate) fn new(overtaken_min: Span) -> Self {
        Self { overtaken_min: Some(overtaken_min), ..Self::default() }
    }

    /// The same, where packets take several paths at once, whose queues differ. Nothing is probed.
    pub(crate) fn of_many_paths(overtaken_min: Span) -> Self {
        Self { is_sprayed: true, ..Self::new(overtaken_min) }
    }

    /// Whether packets of one flow take several paths at once.
    pub(crate) fn is_sprayed(&self) -> bool {
        self.is_sprayed
    }

    /// Whether packets overtake each other.
    pub(crate) fn is_needed(&self) -> bool {
        self.overtaken_min.is_some()
    }

    /// A round trip was measured (RFC 6298, 2).
    pub(crate) fn measured(&mut self, now: Time, took: Span) {
        self.shortest.measured(now, took, SHORTEST_ROUND_TRIP_KNOWN);
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(took), part(took, 1, 2));
            return;
        };
        let off = Span::from_ps(took.as_ps().abs_diff(smoothed.as_ps()));
        self.variation = part(self.variation, 3, 4) + part(off, 1, 4);
        self.smoothed = Some(part(smoothed, 7, 8) + part(took, 1, 8));
    }

    /// What is answered now was sent by then; `None` as long as nothing was measured. A round trip is measured
    /// of the last packet of many, so that of one packet alone may be shorter.
    pub(crate) fn answered_by(&self, now: Time) -> Option<Time> {
        let shortest = part(self.shortest.get()?, 1, 2);
        now.as_ps().checked_sub(shortest.as_ps()).map(|ps| Time::ZERO + Span::from_ps(ps))
    }

    /// How long packets that others have overtaken may still arrive.
    pub(crate) fn for_overtaken(&self) -> Span {
        let Some(least) = self.overtaken_min else { return Span::ZERO };
        let Some(shortest) = self.shortest.get() else {
            return least.max(OVERTAKEN_WAIT_MIN);
        };
        let wait = match self.smoothed.filter(|_| self.is_sprayed) {
            Some(smoothed) => smoothed + self.variation * 4,
            None => part(shortest, 1, 4),
        };
        wait.max(least)
    }

    /// How long nothing may be heard before a probe is sent, after so many `probes` in vain; `None` as long
    /// as nothing was measured.
    pub(crate) fn for_probe(&self, probes: u8) -> Option<Span> {
        if !self.is_needed() || self.is_sprayed {
            return None;
        }
        let wait = self.smoothed? * 2 + self.variation;
        Some(wait.max(PROBE_WAIT_MIN) * (1 << probes.min(PROBE_DOUBLINGS)))
    }
}

fn part(span: Span, of: u64, whole: u64) -> Span {
    Span::from_ps(span.as_ps() / whole * of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn a_probe_waits_for_two_round_trips_and_their_variation_and_twice_as_long_each_time() {
        let mut patience = Patience::new(OVERTAKEN_WAIT_MIN);
        assert_eq!(patience.for_probe(0), None);
        patience.measured(us(0), Span::from_us(8_000));
        assert_eq!(patience.for_probe(0), Some(Span::from_us(2 * 8_000 + 4_000)));
        for step in 1..200 {
            patience.measured(us(step), Span::from_us(8_000));
        }
        let wait = patience.for_probe(0).unwrap();
        assert!((Span::from_us(16_000)..Span::from_us(16_010)).contains(&wait), "{wait}");
        assert_eq!(patience.for_probe(2), Some(wait * 4));
        assert_eq!(patience.for_probe(200), Some(wait * (1 << PROBE_DOUBLINGS)));
    }

    #[test]
    fn the_overtaken_have_a_quarter_of_the_shortest_round_trip_of_late() {
        let mut patience = Patience::new(OVERTAKEN_WAIT_MIN);
        assert_eq!(patience.for_overtaken(), OVERTAKEN_WAIT_MIN);
        patience.measured(us(1), Span::from_us(8_000));
        patience.measured(us(2), Span::from_us(20_000));
        assert_eq!(patience.for_overtaken(), Span::from_us(2_000));
        let mut sprayed = Patience { is_sprayed: true, ..patience };
        // 8,000 + (20,000 - 8,000) / 8, and four times 3/4 of 4,000 + 1/4 of 12,000.
        assert_eq!(sprayed.for_overtaken(), Span::from_us(9_500 + 4 * 6_000));
        assert_eq!(sprayed.for_probe(0), None);
        sprayed = Patience::of_many_paths(Span::from_us(400));
        sprayed.measured(us(1), Span::from_us(5));
        assert_eq!(sprayed.for_overtaken(), Span::from_us(400));
        // The path has become longer.
        for round in 1..4 {
            patience.measured(us(3) + SHORTEST_ROUND_TRIP_KNOWN * round, Span::from_us(40_000));
        }
        assert_eq!(patience.for_overtaken(), Span::from_us(10_000));
    }
}
