//! What a driver may ask beside its five verbs. No answer changes anything that a peer sees.

use core::cmp::Reverse;

use rdma::{Mtu, Qpn, Time, WorkRequest};

use super::{Control, Endpoint, Posted};
use crate::qp::Qp;
use crate::timer::Timer;
use crate::{Blocked, Config, PostError, Pressure, Stats};

impl Endpoint {
    /// The settings.
    pub fn config(&self) -> &Config {
        &self.adapter.config
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.adapter.stats
    }

    /// The path MTU of a queue pair.
    pub fn path_mtu(&self, qpn: Qpn) -> Option<Mtu> {
        self.qp(qpn).map(|qp| qp.attributes.path_mtu)
    }

    /// What congestion control allows now, and the round trips that are measured. It takes a look at each queue pair.
    pub fn control(&self) -> Control {
        Control::of(self.qps.iter().flatten().map(|qp| &**qp))
    }

    /// The queue pair that `qpn` is connected to, if there is such a one and it is for a connection.
    pub fn peer_of(&self, qpn: Qpn) -> Option<Qpn> {
        self.qp(qpn).filter(|qp| !qp.is_datagram()).map(|qp| qp.attributes.destination)
    }

    /// Whether [`Endpoint::post_send`] would take a request, if `ahead` others were posted to the queue
    /// pair before it: for a driver that hands requests over later.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn check_send(
        &self,
        qpn: Qpn,
        request: &WorkRequest<'_>,
        ahead: usize,
    ) -> Result<(), PostError> {
        let qp = self.qp(qpn).ok_or(PostError::NotFound)?;
        qp.check_send(request, ahead, self.adapter.config.active_mtu)
    }

    /// What waits to be sent, and what `qpn`, if named, has in flight.
    pub fn pressure(&self, qpn: Option<Qpn>) -> Pressure {
        let flight = |qpn: Option<Qpn>| qpn.and_then(|qpn| self.qp(qpn)).map(Qp::flight);
        let Posted { requests: waiting, bytes: waiting_bytes } = self.posted;
        let (own, last) = (flight(qpn).unwrap_or_default(), flight(self.asked).unwrap_or_default());
        Pressure { waiting, waiting_bytes, own, last }
    }

    /// The queue pairs that had something to send and sent nothing when the driver last came, and why.
    pub fn blocked(&self) -> impl Iterator<Item = (Qpn, Blocked)> {
        self.qps.iter().flatten().filter_map(|qp| Some((qp.qpn, qp.blocked?)))
    }

    /// Whether [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`] have nothing. Asking is cheap.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty()
            && self.final_acknowledgements.is_empty()
            && self.adapter.events.is_empty()
            && self.adapter.overrun.is_empty()
    }

    /// A lower bound of [`Endpoint::poll_timeout`], for a driver that may call
    /// [`Endpoint::handle_timeout`] too early. Asking is cheap.
    #[inline]
    pub fn earliest_timeout(&self) -> Option<Time> {
        self.deadlines.peek().map(|&Reverse((at, _))| at)
    }

    /// Whether the first deadline that is due at `now` takes packets for lost. A driver that comes
    /// late, or takes few packets at a time, then first looks whether their acknowledgement is there.
    pub fn is_loss_due(&mut self, now: Time) -> bool {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return false;
        }
        let first = self.deadlines.peek().map(|&Reverse((_, qpn))| Qpn::new(qpn));
        let qp = first.and_then(|qpn| self.qp(qpn));
        qp.is_some_and(|qp| qp.timers.is_due(Timer::Retransmit, now))
    }
}
