//! The timers of a queue pair.

use rdma::Time;

/// What a queue pair waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// When to take the oldest unacknowledged packet for lost (IBTA vol 1, 9.7.6.1.3).
    Retransmit,
    /// When to try again after a receiver was not ready (9.7.5.2.8).
    RnrRetry,
    /// When to send an acknowledgement that waits for a request to travel with.
    AckDelay,
    /// When to send the data packet that the rate holds back.
    Pace,
    /// When to send the CNP that the interval holds back.
    Notify,
    /// When to take packets that others have overtaken for lost.
    Overtaken,
    /// When to repeat the last packet, because nothing is heard.
    Probe,
}

/// The deadlines, none or one per timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerTable {
    at: [Time; 7],
    /// The nearest deadline that was set since [`TimerTable::nearest_set`] was last asked.
    nearest_set: Time,
}

/// The deadline of a timer that does not run: after every other.
const NEVER: Time = Time::MAX;

impl Default for TimerTable {
    fn default() -> Self {
        Self { at: [NEVER; 7], nearest_set: NEVER }
    }
}

impl TimerTable {
    pub(crate) fn set(&mut self, timer: Timer, at: Time) {
        self.at[timer as usize] = at;
        self.nearest_set = self.nearest_set.min(at);
    }

    /// The same, unless it runs and expires sooner.
    pub(crate) fn set_sooner(&mut self, timer: Timer, at: Time) {
        self.set(timer, at.min(self.at[timer as usize]));
    }

    /// The nearest deadline that was set since this was last asked, after every other if none was. No deadline
    /// that is nearer is new.
    pub(crate) fn nearest_set(&mut self) -> Time {
        core::mem::replace(&mut self.nearest_set, NEVER)
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.at[timer as usize] = NEVER;
    }

    pub(crate) fn is_running(&self, timer: Timer) -> bool {
        self.at[timer as usize] != NEVER
    }

    /// The nearest deadline.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        let nearest = self.at.into_iter().fold(NEVER, Time::min);
        (nearest != NEVER).then_some(nearest)
    }

    /// Whether the time of `timer` has come.
    pub(crate) fn is_due(&self, timer: Timer, now: Time) -> bool {
        let at = self.at[timer as usize];
        at != NEVER && at <= now
    }

    /// Stops `timer` and says so if its time has come.
    pub(crate) fn expire(&mut self, timer: Timer, now: Time) -> bool {
        let due = self.is_due(timer, now);
        if due {
            self.stop(timer);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_deadline_comes_first_and_expires_once() {
        let mut timers = TimerTable::default();
        timers.set(Timer::Retransmit, Time::from_ns(20));
        timers.set(Timer::RnrRetry, Time::from_ns(10));
        assert_eq!(timers.next(), Some(Time::from_ns(10)));
        assert_eq!((timers.nearest_set(), timers.nearest_set()), (Time::from_ns(10), NEVER));
        assert!(!timers.expire(Timer::Retransmit, Time::from_ns(19)));
        assert!(!timers.is_due(Timer::Retransmit, Time::from_ns(19)));
        assert!(timers.is_due(Timer::Retransmit, Time::from_ns(20)));
        assert!(!timers.is_due(Timer::Pace, Time::from_ns(20)));
        assert!(timers.expire(Timer::RnrRetry, Time::from_ns(10)));
        assert!(!timers.expire(Timer::RnrRetry, Time::from_ns(10)));
        assert_eq!(timers.next(), Some(Time::from_ns(20)));
        assert!(timers.is_running(Timer::Retransmit));
    }
}
