//! How long a requester waits for an answer before it thinks that something is lost, by the round trips
//! that it has measured.
//!
//! ```text
//!   wait for the overtaken   a quarter of the shortest round trip, and     RFC 8985, 6.2, step 4
//!                            longer where that was too short
//!     over many paths        smoothed + 4 variation                        RFC 6298, 2
//!   probe                    2 smoothed + variation, doubled each time     RFC 8985, 7.2; RFC 6298, 2
//!   local ACK timer          smoothed + 4 variation, 2 smoothed at least,  RFC 6298, 2 and 5.5
//!                            where that is longer than the program's
//! ```
//!
//! The overtaken and probes wait for no less than a floor of ours: the threads of a soft NIC are woken tens of microseconds
//! late, and more on a busy machine.

use rdma::{Span, Time};

use crate::congestion::RoundTrip;
use crate::limits::{
    ACK_TIMEOUT_DOUBLINGS_OF_PATH, OVERTAKEN_WAIT_KNOWN, OVERTAKEN_WAIT_MIN,
    OVERTAKEN_WAIT_TIMES_MAX, PROBE_DOUBLINGS, PROBE_WAIT_FIRST, PROBE_WAIT_MIN, PROBES_OF_TIMEOUT,
    SHORTEST_ROUND_TRIP_KNOWN,
};
use crate::of_late::{Shortest, Usual};

/// The round trips of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// How long the overtaken have at least; `None` if nothing is overtaken on this path.
    overtaken_min: Option<Span>,
    /// Packets of one flow take several paths at once.
    is_sprayed: bool,
    /// How often the overtaken have had too little time, of late.
    in_vain: u8,
    in_vain_at: Time,
    /// Since probes were in vain the wait is doubled so often, until a round trip is measured: the path is longer than
    /// is known.
    doublings: u8,
    /// ACK timeouts since a round trip was measured, after which something was acknowledged all the same.
    timeouts: u8,
    usual: Usual,
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
    pub(crate) fn measured(
        &mut self,
        now: Time,
        RoundTrip { newest: took, oldest, .. }: RoundTrip,
    ) {
        if let Some(told) = self.shortest.told_by(took, oldest) {
            self.shortest.measured(now, self.usual.measured(told), SHORTEST_ROUND_TRIP_KNOWN);
        }
        (self.doublings, self.timeouts) = (0, 0);
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(took), part(took, 1, 2));
            return;
        };
        let off = Span::from_ps(took.as_ps().abs_diff(smoothed.as_ps()));
        self.variation = part(self.variation, 3, 4) + part(off, 1, 4);
        self.smoothed = Some(part(smoothed, 7, 8) + part(took, 1, 8));
    }

    /// The shortest round trip of late.
    pub(crate) fn shortest(&self) -> Option<Span> {
        self.shortest.get()
    }

    /// The smoothed round trip.
    pub(crate) fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    /// Something was repeated that was only late. It counts once in a round trip.
    pub(crate) fn repeated_in_vain(&mut self, now: Time) {
        let round = self.smoothed.unwrap_or(Span::ZERO).max(self.for_overtaken(now));
        if self.in_vain == 0 || now.since(self.in_vain_at) >= round {
            self.in_vain = self.times(now).min(OVERTAKEN_WAIT_TIMES_MAX);
            self.in_vain_at = now;
        }
    }

    /// What so many probes asked for had arrived, and its answer was under way. Until a round trip is measured
    /// probes wait for longer (RFC 6298, 5.7).
    pub(crate) fn probed_in_vain(&mut self, probes: u8) {
        self.doublings = self.doublings.saturating_add(1).max(probes).min(PROBE_DOUBLINGS);
    }

    /// How many times as long the overtaken have.
    fn times(&self, now: Time) -> u8 {
        let halvings = now.since(self.in_vain_at).as_ps() / OVERTAKEN_WAIT_KNOWN.as_ps();
        1 + self.in_vain.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }

    /// What is answered now was sent by then; `None` as long as nothing was measured. A round trip is measured
    /// of the last packet of many, so that of one packet alone may be shorter.
    pub(crate) fn answered_by(&self, now: Time) -> Option<Time> {
        let shortest = part(self.shortest.get()?, 1, 2);
        now.as_ps().checked_sub(shortest.as_ps()).map(|ps| Time::ZERO + Span::from_ps(ps))
    }

    /// How long packets that others have overtaken may still arrive.
    pub(crate) fn for_overtaken(&self, now: Time) -> Span {
        let Some(least) = self.overtaken_min else { return Span::ZERO };
        let (Some(shortest), Some(smoothed)) = (self.shortest.get(), self.smoothed) else {
            return least.max(OVERTAKEN_WAIT_MIN);
        };
        let round = smoothed + self.variation * 4;
        if self.is_sprayed {
            return round.max(least);
        }
        let wait = part(shortest, 1, 4).max(least);
        (wait * self.times(now).into()).min(round.max(wait))
    }

    /// Something is acknowledged, after so many timeouts: it may have been on its way.
    pub(crate) fn answered_after(&mut self, timeouts: u8) {
        self.timeouts = self.timeouts.saturating_add(timeouts);
    }

    /// How long the local ACK timer runs on this path where a program has `chosen` a timeout for near peers: as long as an answer
    /// takes (RFC 6298, 2.3) and that of a repetition, and no less than twice what was chosen for each timeout since
    /// one was measured (5.5 and 5.7).
    pub(crate) fn for_answer(&self, chosen: Span) -> Span {
        let [known, unknown] = ACK_TIMEOUT_DOUBLINGS_OF_PATH;
        let most = if self.smoothed.is_some() { known } else { unknown };
        let measured = self.smoothed.map_or(Span::ZERO, |it| it + it.max(self.variation * 4));
        (chosen * (1 << self.timeouts.min(most))).max(measured)
    }

    /// How long nothing may be heard before a probe is sent, after so many `probes` in vain; `None` where nothing
    /// is probed. Once a `timeout` has passed there are several probes in each that follows: retries run out, and a queue
    /// that others keep full drops many packets in a row.
    pub(crate) fn for_probe(&self, probes: u8, timeout: Option<Span>) -> Option<Span> {
        if !self.is_needed() || self.is_sprayed {
            return None;
        }
        let measured = self.smoothed.map(|smoothed| smoothed * 2 + self.variation);
        let wait = measured.map_or(PROBE_WAIT_FIRST, |wait| wait.max(PROBE_WAIT_MIN));
        let doublings = probes.saturating_add(self.doublings).min(PROBE_DOUBLINGS);
        let wait = wait * (1 << doublings);
        Some(timeout.map_or(wait, |timeout| wait.min(part(timeout, 1, PROBES_OF_TIMEOUT))))
    }
}

fn part(span: Span, of: u64, whole: u64) -> Span {
    Span::from_ps(span.as_ps() / whole * of)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Patience {
        fn took(&mut self, now: Time, took: Span) {
            self.measured(now, RoundTrip::single(took));
        }
    }

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn a_probe_waits_for_two_round_trips_and_their_variation_and_twice_as_long_each_time() {
        let mut patience = Patience::new(OVERTAKEN_WAIT_MIN);
        assert_eq!(patience.for_probe(0, None), Some(PROBE_WAIT_FIRST));
        patience.took(us(0), Span::from_us(8_000));
        assert_eq!(patience.for_probe(0, None), Some(Span::from_us(2 * 8_000 + 4_000)));
        for step in 1..200 {
            patience.took(us(step), Span::from_us(8_000));
        }
        let wait = patience.for_probe(0, None).unwrap();
        assert!((Span::from_us(16_000)..Span::from_us(16_010)).contains(&wait), "{wait}");
        assert_eq!(patience.for_probe(2, None), Some(wait * 4));
        assert_eq!(patience.for_probe(200, None), Some(wait * (1 << PROBE_DOUBLINGS)));
        let timeout = Some(Span::from_us(60_000));
        assert_eq!(patience.for_probe(0, timeout), Some(wait));
        assert_eq!(patience.for_probe(200, timeout), Some(Span::from_us(30_000)));
    }

    #[test]
    fn the_overtaken_have_a_quarter_of_the_shortest_round_trip_of_late() {
        let mut patience = Patience::new(OVERTAKEN_WAIT_MIN);
        assert_eq!(patience.for_overtaken(us(4)), OVERTAKEN_WAIT_MIN);
        patience.took(us(1), Span::from_us(8_000));
        patience.took(us(2), Span::from_us(20_000));
        assert_eq!(patience.for_overtaken(us(4)), Span::from_us(2_000));
        let mut sprayed = Patience { is_sprayed: true, ..patience };
        // 8,000 + (20,000 - 8,000) / 8, and four times 3/4 of 4,000 + 1/4 of 12,000.
        assert_eq!(sprayed.for_overtaken(us(4)), Span::from_us(9_500 + 4 * 6_000));
        assert_eq!(sprayed.for_probe(0, None), None);
        sprayed = Patience::of_many_paths(Span::from_us(400));
        sprayed.took(us(1), Span::from_us(5));
        assert_eq!(sprayed.for_overtaken(us(4)), Span::from_us(400));
        // The path has become longer.
        for round in 1..9 {
            patience.took(us(3) + SHORTEST_ROUND_TRIP_KNOWN * round, Span::from_us(40_000));
        }
        assert_eq!(patience.for_overtaken(us(4)), Span::from_us(10_000));
    }

    #[test]
    fn the_overtaken_have_longer_after_each_repetition_in_vain_and_half_as_much_when_there_was_none()
     {
        let mut patience = Patience::new(OVERTAKEN_WAIT_MIN);
        for ms in 0..64 {
            patience.took(us(ms), Span::from_us([8_000, 100_000][ms as usize % 2]));
        }
        for times in 2..=8 {
            let now = us(1_000_000 * times);
            patience.repeated_in_vain(now);
            assert_eq!(patience.for_overtaken(now), Span::from_us(2_000 * times));
            patience.repeated_in_vain(now + Span::from_us(1));
        }
        for (times, halved) in [(0, 8), (1, 4), (2, 2), (3, 1), (100, 1)] {
            let now = us(8_000_000) + OVERTAKEN_WAIT_KNOWN * times;
            assert_eq!(patience.for_overtaken(now), Span::from_us(2_000 * halved), "{times}");
        }
    }

    /// A timeout that a program has chosen for near peers is shorter than a path across an ocean.
    #[test]
    fn an_answer_has_as_long_as_one_takes_and_that_of_a_repetition() {
        let chosen = Span::from_ms(67);
        let mut patience = Patience::new(OVERTAKEN_WAIT_MIN);
        for (timeouts, times) in [(0, 1), (1, 2), (2, 8), (200, 16)] {
            patience.answered_after(timeouts);
            assert_eq!(patience.for_answer(chosen), chosen * times);
        }
        patience.took(us(0), Span::from_ms(100));
        assert_eq!(patience.for_answer(chosen), Span::from_ms(100 + 4 * 50));
        for step in 1..200 {
            patience.took(us(step), Span::from_ms(100));
        }
        assert_eq!(patience.for_answer(chosen), Span::from_ms(200));
        assert_eq!(patience.for_answer(Span::from_ms(500)), Span::from_ms(500));
        // Where a window of repetitions has many timeouts, and none of it is measured, a peer that is gone is noticed as soon.
        patience.answered_after(200);
        assert_eq!(patience.for_answer(chosen), chosen * 4);
        assert_eq!(patience.for_answer(Span::from_ms(10)), Span::from_ms(200));
    }

    #[test]
    fn what_has_overtaken_others_tells_something_as_long_as_nothing_is_known() {
        let mut patience = Patience::new(OVERTAKEN_WAIT_MIN);
        let single = RoundTrip::single(Span::from_us(80));
        patience.measured(us(1), RoundTrip { oldest: None, ..single });
        assert_eq!(patience.shortest(), Some(Span::from_us(80)));
    }

    #[test]
    fn what_has_overtaken_others_tells_nothing_of_the_shortest() {
        let mut patience = Patience::new(OVERTAKEN_WAIT_MIN);
        for step in 0..64 {
            let oldest = (step % 2 == 0).then_some(Span::from_us(8_000));
            let single = RoundTrip::single(Span::from_us(80));
            patience.measured(us(step), RoundTrip { oldest, ..single });
        }
        assert_eq!(patience.shortest(), Some(Span::from_us(8_000)));
        // Nor do three in a row of acknowledgements that have.
        for took in [80, 80, 80, 8_000, 8_000, 8_000, 8_000, 8_000] {
            patience.took(us(100), Span::from_us(took));
            assert_eq!(patience.shortest(), Some(Span::from_us(8_000)));
        }
    }
}
