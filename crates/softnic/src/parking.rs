//! When the fallback thread leaves the sockets to the application.
//!
//! While the application polls, each packet would wake the thread as well, only to find that the
//! packet has been taken. So when nearly all recent packets were taken by the application's own
//! threads, the fallback thread parks: it does not look at the sockets, but once a millisecond at
//! what has happened. It also does when it is woken while the application is looking, again and again,
//! for what there is. It comes back as soon as it finds a packet that nobody took, or that there was
//! none. The price is up to a millisecond for the first packet after the application has stopped
//! polling, so an application that waits for events, and will stop soon, is not parked for.

use rdma::Time;

use crate::limits::{PARK_EVENT_FREE, PARK_WINDOW_PACKETS};

/// Whether the thread is parked, and what speaks for it.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    parked: bool,
    /// Packets since the window began, and those of them that the thread has taken.
    packets: u64,
    by_thread: u64,
    /// Packets that the application had taken when the thread last looked.
    inline_before: u64,
}

impl Parking {
    /// For who begins to look when the application has taken `inline` packets in its life.
    pub(crate) fn since(inline: u64) -> Self {
        Self { inline_before: inline, ..Self::default() }
    }

    /// Whether the application has taken no packet since the thread last looked; it has taken
    /// `inline` in its life.
    pub(crate) fn is_alone(&self, inline: u64) -> bool {
        inline == self.inline_before
    }

    /// Whether the thread is parked, and the application, which has taken `inline` packets in its
    /// life, has taken some since the thread last looked.
    pub(crate) fn goes_on(&self, inline: u64) -> bool {
        self.parked && !self.is_alone(inline)
    }

    /// Parks at once: the application, which has taken `inline` packets in its life, is looking for
    /// this very packet.
    pub(crate) fn park(&mut self, inline: u64) {
        *self = Self { parked: true, ..Self::since(inline) };
    }

    /// The thread has looked at the sockets and taken `by_thread` packets; the application has
    /// taken `inline` in its life, and was last sent an event at `last_event`. Says whether the
    /// thread parks now.
    pub(crate) fn update(
        &mut self,
        now: Time,
        inline: u64,
        by_thread: u64,
        last_event: Option<Time>,
    ) -> bool {
        let inline_now = inline - self.inline_before;
        self.inline_before = inline;
        self.packets += inline_now + by_thread;
        self.by_thread += by_thread;
        if expects_events(now, last_event) || (self.parked && (by_thread > 0 || inline_now == 0)) {
            *self = Self::since(inline);
        } else if self.packets >= PARK_WINDOW_PACKETS {
            self.parked = self.by_thread * 10 <= self.packets;
            (self.packets, self.by_thread) = (0, 0);
        }
        self.parked
    }
}

/// Whether an application that was last sent an event at `last_event` is taken to wait for another.
pub(crate) fn expects_events(now: Time, last_event: Option<Time>) -> bool {
    last_event.is_some_and(|event| now.since(event) < PARK_EVENT_FREE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Span;

    const NOW: Time = Time::from_ns(5_000_000_000);

    #[test]
    fn the_thread_parks_while_the_application_takes_nearly_everything() {
        let mut parking = Parking::default();
        assert!(!parking.update(NOW, PARK_WINDOW_PACKETS - 2, 1, None));
        assert!(parking.update(NOW, PARK_WINDOW_PACKETS, 0, None));
        assert!(parking.update(NOW, PARK_WINDOW_PACKETS + 5, 0, None));
        // Nothing arrived for a millisecond: the application may have stopped.
        assert!(!parking.update(NOW, PARK_WINDOW_PACKETS + 5, 0, None));
    }

    #[test]
    fn the_thread_parks_at_once_where_the_application_looks_itself() {
        let mut parking = Parking::default();
        assert!(!parking.goes_on(10), "it is not parked");
        parking.park(10);
        assert!(!parking.goes_on(10) && parking.goes_on(11));
        assert!(parking.update(NOW, 12, 0, None), "the application has taken it");
        parking.park(12);
        assert!(!parking.update(NOW, 12, 0, None), "it has not");
    }

    #[test]
    fn a_packet_that_nobody_took_ends_it() {
        let mut parking = Parking::default();
        assert!(parking.update(NOW, 1000, 0, None));
        assert!(!parking.update(NOW, 1500, 1, None));
        assert!(!parking.update(NOW, 1510, 0, None), "it takes another window");
    }

    #[test]
    fn a_thread_that_is_needed_does_not_park() {
        let mut parking = Parking::default();
        for round in 1..100 {
            assert!(!parking.update(NOW, round * 100, 50, None));
        }
    }

    #[test]
    fn the_thread_is_alone_until_the_application_takes_a_packet() {
        let mut parking = Parking::default();
        parking.update(NOW, 5, 5, None);
        assert!(parking.is_alone(5) && !parking.is_alone(6));
    }

    #[test]
    fn an_application_that_waits_for_events_is_not_parked_for() {
        let mut parking = Parking::default();
        assert!(!parking.update(NOW, 1000, 0, Some(NOW - Span::from_ms(900))));
        assert!(!parking.update(NOW, 1010, 0, Some(Time::ZERO)), "the window begins anew");
        assert!(parking.update(NOW, 2000, 0, Some(Time::ZERO)));
    }
}
