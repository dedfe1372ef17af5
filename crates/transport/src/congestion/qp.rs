//! What a queue pair does for congestion control: it holds data back, answers marks with CNPs, and
//! obeys those that come.

use rdma::{Psn, Span, Time};
use wire::{Opcode, cnp, roce};

use crate::adapter::Adapter;
use crate::limits::ack_timeout;
use crate::mutation::{Mutation, mutated};
use crate::qp::{Body, Outgoing, Qp};
use crate::stats::Drop;
use crate::timer::Timer;
use crate::transmit::Route;

impl Qp {
    /// Whether a data packet has to wait for its time. If so, the timer is set.
    pub(crate) fn holds_back(&mut self, now: Time) -> bool {
        let until = self.pacer.held_until(now);
        if let Some(until) = until {
            self.timers.set(Timer::Pace, until);
        }
        until.is_some()
    }

    /// A data packet leaves, with a payload of `length` bytes.
    pub(crate) fn pace(&mut self, now: Time, header: &roce::Repr, length: u32, adapter: &Adapter) {
        let bytes = header.header_len() as u64 + u64::from(length);
        self.pacer.sent(now, bytes, adapter.config.pace_slack);
    }

    /// Whether the packet that has just been paced is to ask for an acknowledgement, because the one
    /// after it would ask too late: the ACK timer is running, and a slow sender is no lost packet.
    pub(crate) fn must_ask_early(&self) -> bool {
        let (Some(next), Some(timeout)) =
            (self.pacer.paces_until(), ack_timeout(self.attributes.timeout))
        else {
            return false;
        };
        next.since(self.requester.asked_at) * 4 > timeout
    }

    /// The route of data packets, which say whether marks are listened to.
    pub(crate) fn data_route(&self) -> Route {
        let traffic_class = self.pacer.data_class(self.route.traffic_class);
        Route { traffic_class, ..self.route }
    }

    /// A packet came with a mark (notification point). Datagrams have no connection that a CNP could
    /// name.
    pub(crate) fn note_mark(&mut self, now: Time, adapter: &mut Adapter) {
        adapter.stats.np_ecn_marked_roce_packets += 1;
        if !self.spec.kind.is_connected() || adapter.config.notification.is_none() {
            return;
        }
        self.notification.marked(now);
        if let Some(due) = self.notification.due().filter(|&due| due > now) {
            self.timers.set(Timer::Notify, due);
        }
    }

    /// The CNP that is due, if one is.
    pub(crate) fn next_cnp(&mut self, now: Time, adapter: &mut Adapter) -> Option<Outgoing> {
        self.notification.due()?;
        let settings = adapter.config.notification?;
        let unlimited = mutated(Mutation::NotificationsUnlimited);
        let interval = if unlimited { Span::ZERO } else { settings.interval };
        if !self.notification.notify(now, interval) {
            return None;
        }
        adapter.stats.np_cnp_sent += 1;
        let destination = self.attributes.destination;
        let cnp = cnp::Repr { destination, p_key: rdma::PKey::DEFAULT };
        let mut header = roce::Repr::new(Opcode::CNP, destination, Psn::new(0));
        header.bth = cnp.bth();
        // What reports congestion does not take part in it: not ECT.
        let route = Route { traffic_class: settings.dscp << 2, ..self.route };
        Some(Outgoing { route, header, body: Body::Reserved })
    }

    /// A CNP has come (reaction point).
    pub(crate) fn handle_cnp(
        &mut self,
        now: Time,
        length: usize,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        if length < cnp::RESERVED_LEN {
            return Err(Drop::BadLength);
        }
        if self.pacer.on_cnp(now) {
            adapter.stats.rp_cnp_handled += 1;
        } else {
            adapter.stats.rp_cnp_ignored += 1;
        }
        Ok(())
    }
}
