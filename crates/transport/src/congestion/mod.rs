//! How fast a queue pair may send.
//!
//! ```text
//!   data packet ──► network, queue above Kmin: CE ──► notification point
//!        ▲                                                 │ at most one CNP an interval
//!      pacer ◄── rate ── controller (reaction point) ◄─────┘
//! ```
//!
//! Each queue pair has a `Controller`, which says at what rate it may send, and a `Pacer`, which
//! keeps to that: the next data packet leaves when the one before it has, at that rate, been sent.
//! Requests and READ responses are data packets: the sender of data slows down. Acknowledgements
//! and CNPs are neither paced nor counted.
//!
//! **Invariants:** rates are integers, the same on every machine, and never zero. A controller owns
//! no timer: when asked it catches up with `now`, in bounded time however late it is.

mod dcqcn;
mod fixed;
mod none;
mod parameters;
mod settings;

use alloc::boxed::Box;
use core::fmt;

use rdma::{QpType, Rate, Span, Time};

pub(crate) use dcqcn::{NotificationPoint, ReactionPoint};
use fixed::Fixed;
use none::Unlimited;
pub use parameters::{FolderError, PARAMETERS, Parameter, read_folder};
pub use settings::{Dcqcn, Notification, Settings, Share, Volume};

use crate::limits::LINK_HEADER_BYTES;
use crate::mutation::{Mutation, mutated};

/// Decides how fast one queue pair may send. One that says no more than a rate ignores the network.
pub(crate) trait Controller: fmt::Debug + Send {
    /// A data packet of `bytes` on the wire leaves. Returns at what rate it is to be counted, or
    /// `None` for no limit.
    fn on_sent(&mut self, now: Time, bytes: u64) -> Option<Rate>;

    /// A CNP has arrived. Returns whether the controller obeys it.
    fn on_cnp(&mut self, _now: Time) -> bool {
        false
    }

    /// A loss has been noticed. It is called once for each, however many packets are sent again.
    fn on_loss(&mut self, _now: Time) {}

    /// Something that was not acknowledged before is.
    fn on_progress(&mut self, _now: Time) {}

    /// Whether it obeys marks, so that data packets carry ECT(0) (RFC 3168).
    fn is_ecn_capable(&self) -> bool {
        false
    }
}

/// Which controller the queue pairs of a device have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Congestion {
    /// No limit but the window.
    #[default]
    None,
    /// A constant rate.
    Fixed(Rate),
    /// DCQCN, with these settings.
    Dcqcn(Dcqcn),
}

impl Congestion {
    /// A controller for one queue pair of `kind`. A CNP names a connection, so datagrams have no
    /// DCQCN.
    fn controller(&self, kind: QpType) -> Box<dyn Controller> {
        match self {
            Self::None => Box::new(Unlimited),
            Self::Dcqcn(_) if !kind.is_connected() => Box::new(Unlimited),
            Self::Fixed(rate) => Box::new(Fixed::new(*rate)),
            Self::Dcqcn(settings) => Box::new(ReactionPoint::new(settings)),
        }
    }
}

/// Holds data packets back until their time has come.
#[derive(Debug)]
pub(crate) struct Pacer {
    controller: Box<dyn Controller>,
    is_ecn_capable: bool,
    /// Whether there may ever be a rate to keep to.
    is_limited: bool,
    /// When the next data packet may leave.
    next: Time,
}

impl Pacer {
    pub(crate) fn new(congestion: &Congestion, kind: QpType) -> Self {
        let controller = congestion.controller(kind);
        Self {
            is_ecn_capable: controller.is_ecn_capable(),
            is_limited: *congestion != Congestion::None,
            controller,
            next: Time::ZERO,
        }
    }

    /// Whether data packets are to be counted.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// When a data packet may leave, if not now.
    pub(crate) fn held_until(&self, now: Time) -> Option<Time> {
        (self.next > now).then_some(self.next)
    }

    /// A data packet leaves, of `length` bytes from its BTH to the end of its payload. If the
    /// driver came up to `slack` late for it, the next one may leave that much earlier.
    pub(crate) fn sent(&mut self, now: Time, length: u64, slack: Span) {
        let bytes = length + LINK_HEADER_BYTES;
        if let Some(rate) = self.controller.on_sent(now, bytes) {
            self.next = self.next.max(now - slack) + rate.time_of(bytes);
        }
    }

    pub(crate) fn on_cnp(&mut self, now: Time) -> bool {
        self.controller.on_cnp(now)
    }

    pub(crate) fn on_loss(&mut self, now: Time) {
        self.controller.on_loss(now);
    }

    #[inline]
    pub(crate) fn on_progress(&mut self, now: Time) {
        if self.is_limited {
            self.controller.on_progress(now);
        }
    }

    /// The traffic class of a data packet of a queue pair that has `class`.
    pub(crate) fn data_class(&self, class: u8) -> u8 {
        const ECN_BITS: u8 = 3;
        const ECT_0: u8 = 2;
        let allows = self.is_ecn_capable || mutated(Mutation::MarksAllowedAlways);
        if allows { class & !ECN_BITS | ECT_0 } else { class }
    }

    /// When the next data packet may leave, if there is a rate to keep to.
    pub(crate) fn paces_until(&self) -> Option<Time> {
        (self.next != Time::ZERO).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_gbps(8);

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// Packets that leave at one moment, of 1 us each.
    fn leave(pacer: &mut Pacer, now: Time, slack: Span) -> u32 {
        let mut count = 0;
        while pacer.held_until(now).is_none() && count < 100 {
            pacer.sent(now, 1_000 - LINK_HEADER_BYTES, slack);
            count += 1;
        }
        count
    }

    #[test]
    fn a_driver_that_comes_late_gets_what_was_due_and_no_more_than_the_slack() {
        let mut pacer = Pacer::new(&Congestion::Fixed(RATE), QpType::Rc);
        let slack = Span::from_us(10);
        assert_eq!(leave(&mut pacer, us(100), slack), 11);
        assert_eq!(pacer.held_until(us(100)), Some(us(101)));
        assert_eq!(leave(&mut pacer, us(105), slack), 5);
        assert_eq!(leave(&mut pacer, us(1_000), slack), 11);
    }

    #[test]
    fn without_slack_one_packet_leaves_at_a_time() {
        let mut pacer = Pacer::new(&Congestion::Fixed(RATE), QpType::Rc);
        for at in [100, 101, 105, 1_000] {
            assert_eq!(leave(&mut pacer, us(at), Span::ZERO), 1);
        }
    }

    #[test]
    fn without_a_rate_nothing_is_held_back() {
        let mut pacer = Pacer::new(&Congestion::None, QpType::Rc);
        assert_eq!(leave(&mut pacer, us(1), Span::ZERO), 100);
        assert_eq!(pacer.paces_until(), None);
    }
}
