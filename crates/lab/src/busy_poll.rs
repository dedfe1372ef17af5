//! How long the lab looks for more before it sleeps.
//!
//! To be woken takes longer than all else that is done for a short packet, and most packets are answered soon. So the
//! lab stays awake for a few times as long as it has just worked, as the progress thread of a NIC does
//! (`softnic/src/progress/policy.rs`), and lets others run between two looks. It does not under CPU contention: who
//! lets others run where there are more threads than processors is back when all have had their turn, and who sleeps
//! is woken in time.

use core::time::Duration;

use crate::limits::{BUSY_POLL_FACTOR, BUSY_POLL_MAX, CONTENTION_GAP, CONTENTION_STAYS};

/// See the module. Times are since the lab has begun.
#[derive(Debug, Default)]
pub(crate) struct BusyPoll {
    until: Duration,
    /// When it last looked.
    looked_at: Duration,
    contended_until: Duration,
}

impl BusyPoll {
    /// The lab has worked from `since` to `end`.
    pub(crate) fn worked(&mut self, since: Duration, end: Duration) {
        let left = self.until.saturating_sub(since);
        let more = end.saturating_sub(since) * BUSY_POLL_FACTOR;
        self.until = end + (left + more).min(BUSY_POLL_MAX);
        self.looked_at = end;
    }

    /// The lab has slept: what was left of the last time is forfeit.
    pub(crate) fn woke(&mut self, now: Duration) {
        (self.until, self.looked_at) = (Duration::ZERO, now);
    }

    /// The lab has looked in vain and has let others run before. Says whether it looks again.
    pub(crate) fn goes_on(&mut self, now: Duration) -> bool {
        let before = core::mem::replace(&mut self.looked_at, now);
        if now.saturating_sub(before) > CONTENTION_GAP {
            self.contended_until = now + CONTENTION_STAYS;
        }
        now < self.until && now >= self.contended_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Looks every microsecond from `from` on; says when it has had enough.
    fn ends(poll: &mut BusyPoll, from: Duration) -> Duration {
        let mut now = from;
        while poll.goes_on(now) {
            now += us(1);
        }
        now
    }

    #[test]
    fn it_looks_a_few_times_as_long_as_it_has_worked_but_not_for_long() {
        let mut poll = BusyPoll::default();
        assert!(!poll.goes_on(us(10)), "it has not worked yet");
        poll.worked(us(20), us(25));
        assert_eq!(ends(&mut poll, us(25)), us(25 + 5 * 4));
        poll.worked(us(100), us(190));
        assert_eq!(ends(&mut poll, us(190)), us(190) + BUSY_POLL_MAX);
    }

    #[test]
    fn what_is_left_of_the_last_time_counts_until_it_sleeps() {
        let mut poll = BusyPoll::default();
        poll.worked(us(0), us(5));
        poll.worked(us(6), us(8));
        assert_eq!(ends(&mut poll, us(8)), us(8 + (25 - 6) + 2 * 4));
        poll.worked(us(100), us(105));
        poll.woke(us(110));
        assert!(!poll.goes_on(us(111)));
    }

    #[test]
    fn who_was_kept_away_sleeps_for_a_while_instead() {
        let mut poll = BusyPoll::default();
        poll.worked(us(0), us(10));
        let late = us(11) + CONTENTION_GAP;
        assert!(!poll.goes_on(late), "another thread had the processor");
        poll.worked(late, late + us(10));
        assert!(!poll.goes_on(late + us(11)), "and still may have");
        let after = late + CONTENTION_STAYS;
        poll.worked(after, after + us(10));
        assert!(poll.goes_on(after + us(11)));
    }
}
