//! A queue pair's part in congestion control: it paces data, answers marks with CNPs, and obeys
//! CNPs.

use rdma::{Psn, Span, Time};
use wire::opcode::{Facts, Operation};
use wire::{Opcode, bth, cnp};

use super::{Content, Outgoing, Qp};
use crate::adapter::Adapter;
use crate::congestion::Telemetry;
use crate::limits::ack_timeout;
use crate::mutation::{Mutation, mutated};
use crate::stats::Drop;
use crate::timer::Timer;

impl Qp {
    /// Whether a data packet has to wait for its time. If so, the timer is set.
    pub(crate) fn holds_back(&mut self, now: Time) -> bool {
        let until = self.pacer.held_until(now);
        if let Some(until) = until {
            self.timers.set(Timer::Pace, until);
        }
        until.is_some()
    }

    /// A data packet leaves, with a payload of `length` bytes. Returns whether a request must ask for an
    /// acknowledgement, because the next one would be too late for that: the ACK timer runs, and a slow
    /// sender must not look like a loss.
    #[inline]
    pub(crate) fn pace(
        &mut self,
        now: Time,
        opcode: Opcode,
        length: u32,
        adapter: &Adapter,
    ) -> bool {
        self.pacer.is_limited() && self.pace_limited(now, opcode, length, adapter)
    }

    fn pace_limited(&mut self, now: Time, opcode: Opcode, length: u32, adapter: &Adapter) -> bool {
        let bytes = (bth::LEN + opcode.facts().headers_len) as u64 + u64::from(length);
        self.pacer.sent(now, bytes, adapter.config.pace_slack);
        let (Some(next), Some(timeout)) =
            (self.pacer.paces_until(), ack_timeout(self.attributes.timeout))
        else {
            return false;
        };
        next.since(self.requester.asked_at) * 4 > timeout
    }

    /// The traffic class of data packets. It says whether marks are obeyed.
    pub(crate) fn data_class(&self) -> u8 {
        self.pacer.data_class(self.route.traffic_class)
    }

    /// A packet came with a mark (notification point). Datagrams have no connection that a CNP could
    /// name.
    pub(crate) fn note_mark(&mut self, now: Time, is_request: bool, adapter: &mut Adapter) {
        adapter.stats.np_ecn_marked_roce_packets += 1;
        if adapter.config.congestion.echoes_marks() {
            match is_request {
                true => self.responder.owes_echo = self.spec.kind.is_reliable(),
                false => self.pacer.mark(),
            }
            return;
        }
        if !self.spec.kind.is_connected() || adapter.config.notification.is_none() {
            return;
        }
        self.notification.marked(now);
        if let Some(due) = self.notification.due().filter(|&due| due > now) {
            self.timers.set(Timer::Notify, due);
        }
    }

    /// A packet came with what switches have written into it.
    pub(crate) fn observe(&mut self, telemetry: Telemetry, facts: &Facts, adapter: &Adapter) {
        if !adapter.config.congestion.needs_telemetry() || !self.spec.kind.is_reliable() {
            return;
        }
        if facts.is_request() {
            self.responder.telemetry = Some(telemetry);
        } else {
            let is_of_response = facts.operation == Operation::ReadResponse;
            self.pacer.observe(telemetry, is_of_response);
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
        // A CNP is not itself marked: not ECT.
        let content = Content::Notification { traffic_class: settings.dscp << 2 };
        Some(Outgoing { opcode: Opcode::CNP, psn: Psn::new(0), content })
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
