//! What leaves in bursts where a rate is kept to.

use rdma::{Span, Time};

/// See the module. What leaves takes its time at that rate, and may be ahead by as much as a burst takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bursts {
    /// When all that has left would have at the rate.
    until: Time,
    is_full: bool,
}

impl Bursts {
    /// When something may leave, if not now: once a burst has, when there is room for half of one, so that a driver that
    /// comes often does not send packets one by one.
    #[inline]
    pub(crate) fn held_until(&mut self, now: Time, burst: Span) -> Option<Time> {
        let half = Span::from_ps(burst.as_ps() / 2);
        self.is_full = self.until.since(now) > if self.is_full { half } else { burst };
        self.is_full.then(|| self.until - half)
    }

    /// What more may leave at once, in time at the rate.
    #[inline]
    pub(crate) fn left(&self, now: Time, burst: Span) -> Span {
        Span::from_ps(burst.as_ps().saturating_sub(self.until.since(now).as_ps()))
    }

    /// What leaves takes so long.
    #[inline]
    pub(crate) fn spend(&mut self, now: Time, span: Span) {
        self.until = self.until.max(now) + span;
    }

    /// What takes so long has not left after all.
    pub(crate) fn take_back(&mut self, span: Span) {
        self.until = self.until - span;
    }
}
