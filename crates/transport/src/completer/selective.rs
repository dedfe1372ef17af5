//! Selective repeat: what a requester learns of packets behind a gap, and responses that arrive out
//! of order.

use rdma::{Memory, Psn, QpState, Time};
use wire::opcode::Operation as Response;
use wire::{roce, saeth};

use crate::Blocked;
use crate::adapter::Adapter;
use crate::arrival::Carried;
use crate::congestion::RoundTrip;
use crate::limits::{BLACK_HOLE_LOSSES, TRAIN_LOST_PACKETS};
use crate::qp::Qp;
use crate::recovery::Moment;
use crate::stats::{Again, Drop};
use crate::timer::Timer;

impl Qp {
    /// Takes a selective acknowledgement: `missing` has not arrived, and the ranges of `arrived`
    /// have. One that names packets that were never sent is dropped.
    pub(super) fn selectively_acknowledged(
        &mut self,
        now: Time,
        missing: Psn,
        arrived: &saeth::Repr,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let sent = self.requester.top.distance_from(missing);
        let is_sent =
            |range: &saeth::Arrived| range.packets == 0 || range.first > 0 && range.end() <= sent;
        if self.requester.scoreboard.is_none() || !arrived.ranges.iter().all(is_sent) {
            return Err(Drop::UnexpectedResponse);
        }
        adapter.stats.rcvd_seq_err += 1;
        self.acknowledge_before(now, missing, adapter);
        let moment = self.moment(now);
        self.requester.record(missing, arrived, &moment);
        let [newest, ..] = arrived.ranges;
        let end = missing.plus(if newest.packets > 0 { newest.end() } else { 0 });
        if newest.packets > 0 {
            self.requester.prove_sent(end.minus(1));
        }
        self.hear_behind_a_gap(now, end);
        self.send_gaps(now, adapter);
        Ok(())
    }

    /// Packets, or responses, have arrived behind a gap, of which the newest is before `end`.
    fn hear_behind_a_gap(&mut self, now: Time, end: Psn) {
        let requester = &self.requester;
        let (is_full, behind) = (requester.is_window_full(), requester.delivered_packets());
        let has = |psn| requester.has_come(psn);
        let round_trip = self.pacer.arrived_behind_a_gap(now, end, is_full, behind, has);
        self.note_round_trip(now, round_trip);
        self.arm_probe(now, true);
    }

    /// The answer to a READ or atomic is missing, and a later one, before `end`, has arrived.
    /// Returns whether this loss is new.
    pub(super) fn answer_is_missing(&mut self, now: Time, end: Psn, adapter: &mut Adapter) -> bool {
        let moment = self.moment(now);
        let Some(scoreboard) = &mut self.requester.scoreboard else {
            return self.go_back(now, adapter);
        };
        scoreboard.executed(end, &moment);
        self.send_gaps(now, adapter)
    }

    /// Sends lost packets again, once for each loss. Returns whether this loss is new. As in
    /// go-back-N, each loss that holds back the oldest packet counts as a retry once (IBTA vol 1,
    /// 9.7.5.2.7).
    pub(crate) fn send_gaps(&mut self, now: Time, adapter: &mut Adapter) -> bool {
        let wait = self.patience.for_overtaken(now);
        let requester = &mut self.requester;
        let Some(scoreboard) = &mut requester.scoreboard else { return false };
        match scoreboard.look_for_losses(now, wait) {
            Some(until) => self.timers.set(Timer::Overtaken, until),
            None => self.timers.stop(Timer::Overtaken),
        }
        let lost = requester.visit_gaps();
        let Some(lost) = lost.filter(|_| requester.gone_back_for != Some(requester.unacked)) else {
            return false;
        };
        if !self.take_retry(adapter) {
            return false;
        }
        self.requester.again = Again::Selective;
        self.pacer.on_loss(now);
        // Where trains are cut on the way, chance takes one packet of them. A queue takes several.
        if self.requester.lost_run(lost, TRAIN_LOST_PACKETS) == TRAIN_LOST_PACKETS {
            self.requester.train.on_loss();
        }
        self.requester.gone_back_for = Some(self.requester.unacked);
        self.arm_ack_timer(now);
        true
    }

    /// Takes note of losses that were none.
    pub(super) fn note_late(&mut self, now: Time) {
        let late = self.requester.take_late();
        if late > 0 {
            self.patience.repeated_in_vain(now);
            self.pacer.were_late(late);
        }
    }

    /// The present, at which something is heard.
    pub(super) fn moment(&self, now: Time) -> Moment {
        let by = self.patience.answered_by(now);
        Moment { now, by, is_sprayed: self.patience.is_sprayed(), top: self.requester.top }
    }

    /// An answer has come that nothing waits for. If it is the newest again, or data again, something was repeated
    /// in vain.
    pub(super) fn note_repeated_answer(&mut self, now: Time, header: &roce::Repr) {
        let Some(scoreboard) = &self.requester.scoreboard else { return };
        let (psn, unacked) = (header.bth.psn, self.requester.unacked);
        let is_again = match header.facts().operation {
            Response::Acknowledge => psn.next() == unacked,
            Response::ReadResponse | Response::AtomicAcknowledge => psn.is_before(unacked),
            _ => false,
        };
        if !is_again {
            return;
        }
        let probes = core::mem::take(&mut self.requester.probes_sent);
        if let Some(took) = self.pacer.probed_in_vain() {
            self.patience.measured(now, RoundTrip::single(took));
        } else if probes > 0 {
            self.patience.probed_in_vain(probes);
        } else if scoreboard.has_resent_any() {
            self.patience.repeated_in_vain(now);
        }
    }

    pub(super) fn note_round_trip(&mut self, now: Time, took: Option<RoundTrip>) {
        if let Some(took) = took {
            self.patience.measured(now, took);
            self.requester.probes_sent = 0;
        }
    }

    /// Something was sent, or, if `heard`, a peer that repeats selectively has told something: it is probed
    /// when it has told nothing for a while.
    pub(crate) fn arm_probe(&mut self, now: Time, heard: bool) {
        if self.requester.scoreboard.is_none() || !self.patience.is_needed() {
            return;
        }
        if heard {
            self.requester.probes = 0;
        }
        let is_waiting = self.requester.unacked != self.requester.top;
        let timeout = self.answer_timeout().filter(|_| self.requester.timeouts > 0);
        match self.patience.for_probe(self.requester.probes, timeout).filter(|_| is_waiting) {
            Some(wait) => self.timers.set(Timer::Probe, now + wait),
            None => self.timers.stop(Timer::Probe),
        }
    }

    /// Nothing was heard for a while: the last packet is repeated. Its answer says what is missing. Of a READ
    /// it is the oldest that has no answer. After a timeout it is the oldest of all.
    pub(crate) fn probe(&mut self, now: Time) {
        let is_silent = self.requester.probes.saturating_add(1) >= BLACK_HOLE_LOSSES;
        if is_silent || self.is_short_alone_answered() {
            self.doubt_path();
        }
        let requester = &mut self.requester;
        // What the window holds back is sent all the same.
        let is_held = self.blocked == Some(Blocked::Window);
        if requester.begin_probe(is_held) {
            requester.probes = requester.probes.saturating_add(1);
            requester.probes_sent = requester.probes_sent.saturating_add(1);
            // What is heard from now on may answer the probe.
            self.pacer.probes(now);
        }
        self.arm_probe(now, false);
    }

    /// Keeps a response until those before it arrive. Without selective repeat, or without room, it
    /// is dropped and requested again.
    pub(super) fn keep_response<M: Memory>(
        &mut self,
        now: Time,
        header: &roce::Repr,
        carried: Carried<M::Payload<'_>>,
    ) -> Result<(), Drop> {
        if let Some(scoreboard) = &mut self.requester.scoreboard {
            scoreboard.responses.keep::<M>(header, carried, 1);
            self.hear_behind_a_gap(now, header.bth.psn.next());
        }
        Ok(())
    }

    /// After the oldest packet may have been answered: takes the responses and acknowledgements
    /// that were kept until then.
    pub(super) fn take_kept_responses<M: Memory>(
        &mut self,
        now: Time,
        memory: &mut M,
        adapter: &mut Adapter,
    ) {
        while matches!(self.state, QpState::Rts | QpState::Sqd) {
            let unacked = self.requester.unacked;
            let Some(scoreboard) = &mut self.requester.scoreboard else { return };
            let executed = scoreboard.executed_until();
            if let Some(kept) = scoreboard.responses.take() {
                // It was counted when it arrived, and a refusal now changes nothing.
                let _ = self.take_response(now, &kept.header, kept.carried::<M>(), memory, adapter);
            } else if executed.is_after(unacked) {
                self.acknowledge_before(now, executed, adapter);
            }
            if self.requester.unacked == unacked {
                return;
            }
        }
    }
}
