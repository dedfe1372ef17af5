//! Where the ceiling of a window of `bbr` is (`ceiling.rs`), and how it rises after it fell.
//!
//! ```text
//!     window
//!       ▲     ╱│                   ╱      for a full queue, on a path that takes nothing by chance: as CUBIC's does (`curve.rs`)
//!       │   ╱  │............,----´
//!       │ ╱    │     ,-´‾‾
//!       │      └--´
//!       ├──────────────────────────────► time
//!       ▲     ╱│          ╱               else: soon, and from where it fell by more in each round
//!       │   ╱  │......,-´
//!       │ ╱    │  ,-´
//!       │      └´
//!       └──────────────────────────────► time
//! ```

use rdma::Time;

use super::curve::{Curve, PARTS};
use crate::limits::{BBR_RISE, BBR_RISE_CLEAN, BBR_RISE_PAST};

/// By more than any window is.
const RISE_MAX: u64 = 1 << 32;

/// Why a ceiling fell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// A queue was full.
    Queue,
    /// Very many were lost where no queue was seen.
    Unseen,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    packets: u64,
    /// And parts of a packet.
    parts: u64,
    why: Why,
    curve: Curve,
    /// By how many parts it rises in the next round, and in the first after it fell.
    rise: u64,
    least_rise: u64,
    fell_from: u64,
}

impl Default for Level {
    fn default() -> Self {
        Self {
            packets: u64::MAX,
            parts: 0,
            why: Why::Unseen,
            curve: Curve::default(),
            rise: 0,
            least_rise: 0,
            fell_from: 0,
        }
    }
}

impl Level {
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Falls from one window to another. Where it does not rise along the curve, it is back after so many rounds.
    pub(super) fn fall(&mut self, now: Time, [from, to]: [u64; 2], rounds: u64, why: Why) {
        if why == Why::Queue {
            self.curve.fall(now, from, to);
        }
        let least = if why == Why::Unseen { PARTS } else { BBR_RISE };
        (self.packets, self.parts, self.fell_from, self.why) = (to, 0, from, why);
        self.least_rise = (from.saturating_sub(to) * PARTS / rounds.max(1)).max(least);
        self.rise = self.least_rise;
    }

    /// It should not have fallen from where it was `before`.
    pub(super) fn restore(&mut self, before: &Self) {
        if before.packets > self.packets {
            *self = *before;
        }
    }

    /// A round has ended, in which there was no queue if `is_free`; if `is_clean`, the path takes nothing by chance.
    pub(super) fn rise(&mut self, now: Time, is_free: bool, is_clean: bool) {
        let parts = self.packets.saturating_mul(PARTS).saturating_add(self.parts);
        let risen = if self.why == Why::Queue && is_clean {
            // Where the curve is slower than a straight line, by that (RFC 9438, 4.3).
            parts.saturating_add(BBR_RISE_CLEAN).max(self.curve.at(now))
        } else {
            let is_past = self.packets > self.fell_from;
            // By as many packets, whatever the window, while it falls by a part: so flows become alike.
            self.rise = match (self.why, is_free, is_past) {
                (Why::Unseen, _, true) => self.rise * 2,
                (Why::Unseen, _, false) | (_, false, false) => self.least_rise,
                (_, true, _) => self.rise + BBR_RISE,
                (_, false, true) => self.rise + BBR_RISE_PAST,
            };
            self.rise = self.rise.min(RISE_MAX);
            parts.saturating_add(self.rise)
        };
        if self.packets < u64::MAX {
            (self.packets, self.parts) = (risen / PARTS, risen % PARTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Span;

    const FELL: [u64; 2] = [400, 280];

    /// After so many rounds of 2 ms.
    fn after(level: &mut Level, rounds: u64, is_free: bool, is_clean: bool) -> u64 {
        for round in 1..=rounds {
            level.rise(Time::ZERO + Span::from_ms(2 * round), is_free, is_clean);
        }
        level.packets()
    }

    fn fallen(why: Why) -> Level {
        let mut level = Level::default();
        let rounds = if why == Why::Unseen { 32 } else { 1_250 };
        level.fall(Time::ZERO, FELL, rounds, why);
        level
    }

    #[test]
    fn what_never_fell_is_no_ceiling() {
        assert_eq!(after(&mut Level::default(), 1_000, true, true), u64::MAX);
    }

    /// Whether there is a queue at the moment or not: a TCP that just fell leaves none for a while.
    #[test]
    fn after_a_full_queue_it_rises_by_three_eighths_of_a_packet_or_as_the_curve() {
        for is_free in [false, true] {
            for (rounds, packets) in [(160, 340), (320, 400), (360, 415)] {
                assert_eq!(after(&mut fallen(Why::Queue), rounds, is_free, true), packets);
            }
        }
        // A round in a second: K is 6.69 s.
        let mut level = fallen(Why::Queue);
        level.rise(Time::ZERO + Span::from_ms(6_695), false, true);
        assert_eq!(level.packets(), 400);
        level.rise(Time::ZERO + Span::from_ms(2 * 6_695), false, true);
        assert_eq!(level.packets(), 520);
    }

    #[test]
    fn where_chance_may_take_packets_it_rises_by_an_eighth_more_in_each_round_past_where_it_fell() {
        for (rounds, packets) in [(241, 400), (250, 409), (262, 437)] {
            assert_eq!(after(&mut fallen(Why::Queue), rounds, false, false), packets);
        }
    }

    #[test]
    fn it_rises_soon_where_chance_may_take_packets_or_no_queue_was_seen() {
        assert!(after(&mut fallen(Why::Queue), 30, true, false) > 400);
        assert!(after(&mut fallen(Why::Queue), 120, false, false) < 400, "there is a queue");
        assert!(after(&mut fallen(Why::Unseen), 33, false, true) > 400);
    }

    #[test]
    fn it_never_overflows_and_never_falls_by_itself() {
        for why in [Why::Queue, Why::Unseen] {
            let mut level = Level::default();
            level.fall(Time::ZERO, [u64::MAX / PARTS, 0], 0, why);
            for round in 0..200 {
                let (before, now) =
                    (level.packets(), Time::ZERO + Span::from_ms(1 << (round % 34)));
                level.rise(now, round % 3 > 0, round > 90);
                assert!(level.packets() >= before, "{why:?}, round {round}");
            }
        }
    }
}
