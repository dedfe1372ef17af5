//! At what rate READ responses leave for another host.
//!
//! A requester paces what it asks for. If one of its requests is lost, those behind it wait for it, and
//! their responses would leave all at once, to be dropped by the first queue. So they leave at a little more than
//! the rate at which they have been asked for of late.
//!
//! ```text
//!   asked for:    ▂▂▂▂▂▂   ▂▂▂▂▂▂▂▂▂▂▂▂      bytes in each stretch of time
//!   can be sent:  ▂▂▂▂▂▂                 ▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂    no faster than in the best of the last few
//! ```
//!
//! What is asked for after a pause leaves as it comes, and so does what is short.

use rdma::{Rate, Span, Time};

use crate::bursts::Bursts;
use crate::limits::{
    PACKET_OVERHEAD_BYTES, SHAPER_BURST_TIME, SHAPER_PERCENT, SHAPER_STRETCH, SHAPER_STRETCHES,
};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shaper {
    /// When the present stretch began, and what was asked for in it.
    since: Time,
    asked: u64,
    /// Bytes in a second, of the stretches before it, oldest first; zero is unknown.
    rates: [u64; SHAPER_STRETCHES],
    bursts: Bursts,
}

impl Shaper {
    /// So many bytes are asked for, in so many packets.
    pub(super) fn asked(&mut self, now: Time, bytes: u32, packets: u32) {
        let took = now.since(self.since);
        if took >= SHAPER_STRETCH {
            let ps = u128::from(took.as_ps().max(1));
            let rate = u128::from(self.asked) * 1_000_000_000_000 / ps;
            self.rates.rotate_left(1);
            self.rates[SHAPER_STRETCHES - 1] = u64::try_from(rate).unwrap_or(u64::MAX);
            if took >= SHAPER_STRETCH * SHAPER_STRETCHES as u64 {
                self.rates = [0; SHAPER_STRETCHES];
            }
            (self.since, self.asked) = (now, 0);
        }
        self.asked += u64::from(bytes) + u64::from(packets) * PACKET_OVERHEAD_BYTES;
    }

    /// At what rate responses leave; `None` for at once.
    fn rate(&self) -> Option<Rate> {
        // A stretch that has only begun tells nothing.
        let known = self.rates.iter().all(|rate| *rate > 0);
        let most = self.rates.into_iter().max().filter(|_| known)?;
        Some(Rate::from_bps(most.saturating_mul(8).saturating_mul(SHAPER_PERCENT) / 100))
    }

    /// When the next response may leave, if not now.
    pub(super) fn held_until(&mut self, now: Time) -> Option<Time> {
        self.rate()?;
        self.bursts.held_until(now, SHAPER_BURST_TIME)
    }

    /// How many full responses more may leave now, each of so many bytes.
    pub(super) fn room(&self, now: Time, each: u64) -> u32 {
        let Some(rate) = self.rate() else { return u32::MAX };
        let left = self.bursts.left(now, SHAPER_BURST_TIME);
        let one = rate.time_of(each + PACKET_OVERHEAD_BYTES).as_ps().max(1);
        u32::try_from(left.as_ps() / one).unwrap_or(u32::MAX)
    }

    /// So many responses leave, each of so many bytes.
    pub(super) fn sent(&mut self, now: Time, each: u64, count: u32) {
        if let Some(span) = self.time_of(each, count) {
            self.bursts.spend(now, span);
        }
    }

    /// As many have not left after all.
    pub(super) fn take_back(&mut self, each: u64, count: u32) {
        if let Some(span) = self.time_of(each, count) {
            self.bursts.take_back(span);
        }
    }

    /// How long so many responses take, each of so many bytes.
    fn time_of(&self, each: u64, count: u32) -> Option<Span> {
        Some(self.rate()?.time_of(each + PACKET_OVERHEAD_BYTES) * count.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// A shaper that was asked for 100,000 bytes in each millisecond.
    fn asked() -> Shaper {
        let mut shaper = Shaper::default();
        for ms in 0..100 {
            shaper.asked(us(1_000 * ms), 100_000, 0);
        }
        shaper
    }

    /// What leaves in a tenth of a second, in bytes, and in how many bursts, if the driver comes so late each time.
    fn waited(late: Span) -> (u64, u64) {
        let mut shaper = asked();
        let (mut now, mut bytes, mut bursts) = (us(99_000), 0, 0);
        while now < us(199_000) {
            match shaper.held_until(now) {
                Some(until) => {
                    now = until + late;
                    bursts += 1;
                }
                None => {
                    shaper.sent(now, 10_000 - PACKET_OVERHEAD_BYTES, 1);
                    bytes += 10_000;
                }
            }
        }
        (bytes, bursts)
    }

    #[test]
    fn what_has_waited_leaves_a_little_faster_than_it_was_asked_for() {
        for late in [Span::ZERO, Span::from_us(700)] {
            let (bytes, _) = waited(late);
            // A burst of 1.5 ms, which takes longer here than one of 128 KiB.
            let per_ms = (bytes - 100 * SHAPER_PERCENT * 15) / 100;
            assert!(
                (110_000..100_000 * SHAPER_PERCENT / 100 + 1_000).contains(&per_ms),
                "{per_ms}"
            );
        }
    }

    #[test]
    fn responses_leave_together_and_not_one_by_one() {
        let (bytes, bursts) = waited(Span::ZERO);
        assert!(bytes / bursts > 80_000, "{bytes} in {bursts}");
    }

    #[test]
    fn after_a_pause_and_at_first_all_leaves_at_once() {
        for mut shaper in [Shaper::default(), asked()] {
            shaper.asked(us(900_000), 1_000_000, 100);
            shaper.sent(us(900_000), 1_000_000, 100);
            assert_eq!(shaper.held_until(us(900_000)), None);
            assert_eq!(shaper.room(us(900_000), 1_000), u32::MAX);
        }
    }
}
