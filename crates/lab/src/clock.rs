//! The clock of the network: the wall's, divided by the factor, less what it has slipped.
//!
//! ```text
//!   model time = (wall time - slips) / factor
//! ```
//!
//! Something that is due in the network and comes late by more than a bound makes the clock slip: the network
//! then goes on from where it is, as if the time in between had not been. So queues do not see a burst that no
//! link would carry, and the lab can say how often it was too slow. The bound is a few frames of the fastest host's
//! link ([`late_max`]): on a slow one nobody can tell a millisecond.

use core::time::Duration;

use rdma::{Span, Time};

use rdma::Rate;

use crate::limits::{LATE_FRAMES, LATE_LEAST, LATE_MOST};

/// See the module. Wall times are since the lab has begun.
#[derive(Debug)]
pub(crate) struct Clock {
    factor: f64,
    late_max: Duration,
    slips: Slips,
}

/// What may be due in the network before the clock slips, where the fastest link of a host has `rate` and frames have
/// `bytes`.
pub(crate) fn late_max(rate: Rate, bytes: u64, factor: f64) -> Duration {
    let frames = 8.0 * (bytes * LATE_FRAMES) as f64 / rate.as_bps().max(1) as f64;
    Duration::from_secs_f64((frames * factor).min(1.0)).clamp(LATE_LEAST, LATE_MOST)
}

/// How often, when, and by how much a clock has slipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Slips {
    pub(crate) count: u64,
    pub(crate) sum: Duration,
    pub(crate) last: Duration,
    pub(crate) worst: Duration,
    /// When the worst was, and the first and the last.
    pub(crate) worst_at: Duration,
    pub(crate) first_at: Option<Duration>,
    pub(crate) last_at: Duration,
}

impl Clock {
    pub(crate) fn new(factor: f64, late_max: Duration) -> Self {
        Self { factor, late_max, slips: Slips::default() }
    }

    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }

    pub(crate) fn slips(&self) -> &Slips {
        &self.slips
    }

    /// The model's time.
    pub(crate) fn model(&self, wall: Duration) -> Time {
        let ns = wall.saturating_sub(self.slips.sum).as_nanos() as f64 / self.factor;
        Time::ZERO + Span::from_ps((ns * 1_000.0) as u64)
    }

    /// When it is `model` time on the wall.
    pub(crate) fn wall(&self, model: Time) -> Duration {
        Duration::from_nanos((model.as_ps() as f64 / 1_000.0 * self.factor) as u64) + self.slips.sum
    }

    /// It is `wall`, and something was due in the network at `due`: slips if that is long ago. Returns whether it
    /// has.
    pub(crate) fn is_late_for(&mut self, due: Time, wall: Duration) -> bool {
        let late = wall.saturating_sub(self.wall(due));
        if late <= self.late_max {
            return false;
        }
        let slips = &mut self.slips;
        slips.count += 1;
        slips.sum += late;
        slips.last = late;
        if late > slips.worst {
            (slips.worst, slips.worst_at) = (late, wall);
        }
        slips.first_at.get_or_insert(wall);
        slips.last_at = wall;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_factor_stretches_the_models_time() {
        let clock = Clock::new(4.0, LATE_LEAST);
        assert_eq!(clock.model(us(1_000)), Time::ZERO + Span::from_us(250));
        assert_eq!(clock.wall(Time::ZERO + Span::from_us(250)), us(1_000));
    }

    #[test]
    fn what_may_be_late_is_a_few_frames_of_the_fastest_link() {
        assert_eq!(late_max(Rate::from_gbps(100), 4_158, 1.0), LATE_LEAST);
        let slow = late_max(Rate::from_mbps(50), 4_158, 1.0);
        assert!(slow > us(5_000) && slow < us(6_000), "{slow:?}");
        assert_eq!(late_max(Rate::from_mbps(50), 4_158, 100.0), LATE_MOST);
    }

    #[test]
    fn what_is_late_makes_it_slip_and_it_says_when_and_by_how_much() {
        let mut clock = Clock::new(2.0, LATE_LEAST);
        let due = Time::ZERO + Span::from_us(500);
        assert!(!clock.is_late_for(due, us(1_000) + LATE_LEAST));
        assert_eq!(clock.slips(), &Slips::default());
        assert!(clock.is_late_for(due, us(3_000)));
        assert_eq!(clock.model(us(3_000)), due, "the time between has not been");
        assert!(clock.is_late_for(due, us(3_900)));
        let expected = Slips {
            count: 2,
            sum: us(2_900),
            last: us(900),
            worst: us(2_000),
            worst_at: us(3_000),
            first_at: Some(us(3_000)),
            last_at: us(3_900),
        };
        assert_eq!(clock.slips(), &expected);
        assert_eq!(clock.wall(due), us(3_900));
    }
}
