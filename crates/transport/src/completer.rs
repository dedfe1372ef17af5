//! The completer: takes the responder's answers (IBTA vol 1, 9.7.5 and 9.7.7).
//!
//! An acknowledgement covers every request before it, with one exception: a READ or an atomic is
//! done only when its own response has come. An acknowledgement beyond a missing response shows
//! that the response was lost (9.7.5.1.2, "implied NAK").

mod selective;

use rdma::{CompletionStatus, Memory, Operation, Psn, QpState, Span, Time};
use wire::aeth::{self, NakCode, Syndrome, rnr_delay};
use wire::bth::Sign;
use wire::opcode::Operation as Response;
use wire::roce;

use crate::adapter::Adapter;
use crate::arrival::Carried;
use crate::limits::{NOT_READY_WAIT_MIN, RNR_RETRY_INFINITE};
use crate::mutation::{Mutation, mutated};
use crate::qp::Qp;
use crate::region;
use crate::responder::told_by;
use crate::stats::{Again, Drop};
use crate::timer::Timer;

impl Qp {
    /// Takes a response.
    pub(crate) fn handle_response<M: Memory>(
        &mut self,
        now: Time,
        header: &roce::Repr,
        carried: Carried<M::Payload<'_>>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return Err(Drop::QpState);
        }
        let psn = header.bth.psn;
        let floor = self.resume_at(adapter);
        let outstanding = self.requester.top.distance_from(floor);
        let is_unasked = psn.distance_from(floor) >= outstanding;
        if is_unasked && !mutated(Mutation::AnswerWindowIgnored) {
            self.note_repeated_answer(now, header);
            return Err(Drop::UnexpectedResponse);
        }
        self.requester.hear();
        if header.bth.sign != Sign::None && self.offered.is_some() {
            self.requester.become_selective();
        }
        let result = self.take_response(now, header, carried, memory, adapter);
        self.take_kept_responses(now, memory, adapter);
        self.note_late(now);
        if self.requester.suspects_some() {
            self.send_gaps(now, adapter);
        }
        result
    }

    /// Takes a response that is new, or was kept until its turn.
    fn take_response<M: Memory>(
        &mut self,
        now: Time,
        header: &roce::Repr,
        carried: Carried<M::Payload<'_>>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let psn = header.bth.psn;
        match header.facts().operation {
            Response::Acknowledge => {
                let aeth = header.aeth.ok_or(Drop::UnexpectedResponse)?;
                if header.bth.becn {
                    self.pacer.mark();
                }
                self.acknowledged(now, psn, aeth.syndrome, adapter)
            }
            Response::SelectiveAcknowledge => {
                let arrived = header.selective.ok_or(Drop::UnexpectedResponse)?;
                self.selectively_acknowledged(now, psn, &arrived, adapter)
            }
            Response::ReadResponse | Response::AtomicAcknowledge => {
                if psn.is_before(self.requester.unacked) {
                    return Err(Drop::UnexpectedResponse);
                }
                if self.requester.scoreboard.is_some() {
                    self.requester.note_answering(psn);
                    let moment = self.moment(now);
                    self.requester.note_answer(psn, header.facts().part, &moment);
                }
                if !self.acknowledge_before(now, psn, adapter) {
                    return self.keep_response::<M>(now, header, carried);
                }
                // 9.7.5.1.3: an answer that carries data is positive.
                let is_nak = |aeth: aeth::Repr| !matches!(aeth.syndrome, Syndrome::Ack { .. });
                if header.aeth.is_some_and(is_nak) {
                    self.fail_oldest(CompletionStatus::BadResponse, adapter);
                    return Ok(());
                }
                match header.atomic_ack {
                    None => self.read_response(now, header, carried, memory, adapter),
                    Some(original) => self.atomic_response(now, psn, original, memory, adapter),
                }
            }
            _ => Err(Drop::UnexpectedResponse),
        }
    }

    /// Where sending resumes if the oldest packet is lost. No answer concerns anything older. Under
    /// go-back-0 a responder may ask for the beginning of a message that it had acknowledged in
    /// part.
    fn resume_at(&self, adapter: &Adapter) -> Psn {
        let unacked = self.requester.unacked;
        self.recovery(adapter).resume_at(self.message_start(), unacked)
    }

    fn acknowledged(
        &mut self,
        now: Time,
        psn: Psn,
        syndrome: Syndrome,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        match syndrome {
            Syndrome::Ack { .. } => {
                let unacked = self.requester.unacked;
                let less = psn.value() < unacked.value();
                let as_numbers = mutated(Mutation::PsnComparedAsNumber);
                if as_numbers && less || !as_numbers && psn.is_before(unacked) {
                    return Err(Drop::UnexpectedResponse);
                }
                let more = u32::from(mutated(Mutation::AckCoversNext));
                self.acknowledge_before(now, psn.plus(1 + more), adapter);
                Ok(())
            }
            Syndrome::RnrNak { timer } => {
                adapter.stats.rcvd_rnr_err += 1;
                let more = u32::from(mutated(Mutation::RnrAcknowledges));
                if self.acknowledge_before(now, psn.plus(more), adapter) {
                    self.requester.prove_oldest();
                    self.receiver_not_ready(now, timer, adapter);
                } else if self.requester.scoreboard.is_some() {
                    // An answer before it is missing. The responder has dropped what it kept.
                    self.requester.go_back_to(self.requester.unacked);
                }
                Ok(())
            }
            Syndrome::Nak(NakCode::SequenceError) => {
                adapter.stats.rcvd_seq_err += 1;
                if psn.is_before(self.requester.unacked) {
                    // Go-back-0: what had arrived of the message shows that the peer is alive, so
                    // the retries do not run out; that is how it livelocks (guo16, 4.1).
                    self.requester.unacked = psn;
                    self.requester.retries_left = self.attributes.retry_count;
                }
                if self.acknowledge_before(now, psn, adapter) {
                    self.go_back(now, adapter);
                }
                Ok(())
            }
            Syndrome::Nak(code) => {
                if self.acknowledge_before(now, psn, adapter) {
                    self.fail_oldest(told_by(code), adapter);
                }
                Ok(())
            }
            Syndrome::Reserved(_) => Err(Drop::UnexpectedResponse),
        }
    }

    /// Acknowledges everything before `end`. Returns whether it could: a READ or atomic whose
    /// response is missing prevents it, and is requested again.
    fn acknowledge_before(&mut self, now: Time, end: Psn, adapter: &mut Adapter) -> bool {
        let before = self.requester.unacked;
        while self.requester.unacked.is_before(end) {
            let Some(wqe) = self.requester.queue.front() else { break };
            let Some(wqe_end) = wqe.end_psn() else { break };
            if wqe.is_read_or_atomic() && !mutated(Mutation::ImpliedNakIgnored) {
                self.note_progress(now, before);
                if self.answer_is_missing(now, end, adapter) {
                    adapter.stats.implied_nak_seq_err += 1;
                }
                return false;
            }
            if end.is_before(wqe_end) {
                self.requester.prove_oldest();
                self.requester.unacked = end;
            } else {
                self.requester.unacked = wqe_end;
                self.complete_oldest(adapter);
            }
        }
        self.complete_local(adapter);
        self.note_progress(now, before);
        self.report_drained(adapter);
        self.requester.unacked == end
    }

    /// After `unacked` may have moved on from `before`: the retries begin anew, and the timer.
    fn note_progress(&mut self, now: Time, before: Psn) {
        let requester = &mut self.requester;
        if requester.unacked == before {
            return;
        }
        let packets = requester.unacked.distance_from(before);
        let under_way = requester.top.distance_from(requester.unacked);
        let is_full = requester.is_window_full();
        let moment = self.moment(now);
        let requester = &mut self.requester;
        requester.catch_up(&moment);
        let behind = requester.delivered_packets();
        let counts = [packets, under_way, behind];
        let round_trip = self.pacer.on_progress(now, requester.unacked, counts, is_full);
        requester.train.on_progress(packets);
        requester.retries_left = self.attributes.retry_count;
        requester.rnr_retries_left = self.attributes.rnr_retry;
        requester.gone_back_for = None;
        self.patience.answered_after(requester.timeouts);
        (requester.timeouts, requester.is_put_off) = (0, false);
        self.note_round_trip(now, round_trip);
        self.arm_probe(now, true);
        let requester = &self.requester;
        if requester.unacked == requester.top {
            self.timers.stop(Timer::Retransmit);
        } else {
            self.arm_ack_timer(now);
        }
    }

    fn complete_oldest(&mut self, adapter: &mut Adapter) {
        if let Some(wqe) = self.requester.pop() {
            self.requester.prove(wqe.longest());
            self.complete_send(&wqe, CompletionStatus::Success, adapter);
        }
    }

    /// Resumes sending at the missing packet, once for each loss. Returns whether this loss is new.
    ///
    /// IBTA vol 1, 9.7.5.2.7: every such retry counts, and any progress begins the count anew.
    fn go_back(&mut self, now: Time, adapter: &mut Adapter) -> bool {
        if self.requester.gone_back_for == Some(self.requester.unacked) {
            return false;
        }
        self.requester.again = Again::Nak;
        self.retry(now, adapter);
        self.requester.gone_back_for = Some(self.requester.unacked);
        true
    }

    /// The local ACK timer has expired.
    pub(crate) fn ack_timed_out(&mut self, now: Time, adapter: &mut Adapter) {
        if self.requester.unacked == self.requester.top {
            return;
        }
        if self.requester.cursor_psn() == self.requester.unacked {
            // The lost packet has not been sent again yet: others are before it, or pacing holds it
            // back. The timer starts when it is sent.
            return;
        }
        adapter.stats.local_ack_timeout_err += 1;
        self.requester.gone_back_for = None;
        self.requester.timed_out_for = None;
        self.pacer.timed_out();
        self.requester.timeouts = self.requester.timeouts.saturating_add(1);
        self.requester.again = Again::Timeout;
        self.doubt_path();
        self.retry(now, adapter);
        self.requester.timed_out_for = Some(self.requester.unacked);
    }

    /// Counts a retry of the oldest request. If none is left the request fails, and this is
    /// `false`.
    fn take_retry(&mut self, adapter: &mut Adapter) -> bool {
        let is_left = self.requester.count_retry();
        if !is_left {
            adapter.stats.retry_exceeded_err += 1;
            self.fail_oldest(CompletionStatus::RetryExceeded, adapter);
        }
        is_left
    }

    fn retry(&mut self, now: Time, adapter: &mut Adapter) {
        let resume = self.resume_at(adapter);
        if !self.take_retry(adapter) {
            return;
        }
        self.pacer.on_loss(now);
        if self.requester.scoreboard.is_none() {
            self.pacer.repeated(self.requester.unacked, 1, 1);
        }
        self.requester.train.on_loss();
        let requester = &mut self.requester;
        requester.unacked = resume;
        let less = u32::from(mutated(Mutation::GoBackTooShort));
        requester.go_back_to(resume.plus(less));
        self.arm_ack_timer(now);
    }

    /// IBTA vol 1, 9.7.5.2.8: waits as long as the responder asks, then sends again.
    fn receiver_not_ready(&mut self, now: Time, timer: u8, adapter: &mut Adapter) {
        if self.timers.is_running(Timer::RnrRetry) {
            return;
        }
        let resume = self.resume_at(adapter);
        let grace = self.not_ready_grace(now, adapter);
        let requester = &mut self.requester;
        let mut wait = rnr_delay(timer);
        if self.attributes.rnr_retry != RNR_RETRY_INFINITE {
            match (requester.rnr_retries_left.checked_sub(1), grace) {
                (Some(left), _) => requester.rnr_retries_left = left,
                (None, Some(grace)) => wait = grace,
                (None, None) => {
                    adapter.stats.retry_rnr_exceeded_err += 1;
                    self.fail_oldest(CompletionStatus::RnrRetryExceeded, adapter);
                    return;
                }
            }
        }
        requester.unacked = resume;
        requester.again = Again::NotReady;
        requester.go_back_to(resume);
        requester.gone_back_for = None;
        for timer in [Timer::Retransmit, Timer::Overtaken, Timer::Probe] {
            self.timers.stop(timer);
        }
        self.timers.set(Timer::RnrRetry, now + wait);
    }

    /// When the oldest request, for which no receive is posted, is sent again beyond the retries of the program, each time
    /// after twice as long; `None` once its grace is over ([`crate::Config::not_ready_grace`]).
    fn not_ready_grace(&mut self, now: Time, adapter: &Adapter) -> Option<Span> {
        let requester = &mut self.requester;
        let first = requester.refused.filter(|(psn, _)| *psn == requester.unacked);
        let (_, since) = *requester.refused.insert(first.unwrap_or((requester.unacked, now)));
        let is_soft = !self.attributes.between_hosts || requester.scoreboard.is_some();
        let waited = now.since(since);
        let has_grace = is_soft && waited < adapter.config.not_ready_grace;
        has_grace.then_some(waited.max(NOT_READY_WAIT_MIN))
    }

    fn read_response<M: Memory>(
        &mut self,
        now: Time,
        header: &roce::Repr,
        carried: Carried<M::Payload<'_>>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let (psn, part) = (header.bth.psn, header.facts().part);
        let is_selective = self.requester.scoreboard.is_some();
        let pd = self.spec.pd;
        let wqe = self.requester.queue.front_mut();
        let wqe = wqe.filter(|wqe| wqe.begun.is_some()).ok_or(Drop::UnexpectedResponse)?;
        if matches!(wqe.operation, Operation::AtomicWrite { .. }) && carried.length == 0 {
            self.answered(now, psn, true, adapter);
            return Ok(());
        }
        if !matches!(wqe.operation, Operation::Read { .. }) {
            // IBTA vol 1, 9.9.2.4.2: an answer that does not fit the request.
            self.fail_oldest(CompletionStatus::BadResponse, adapter);
            return Ok(());
        }
        let (first, chunk) = wqe.begun.map_or((psn, 1), |begun| (begun.first_psn, begun.chunk));
        let packet = psn.distance_from(first);
        let offset = wqe.offset(packet);
        let Carried { payload, length } = carried;
        let whole = packet + 1 == wqe.packets;
        // Each chunk is a request. One that is repeated may begin later; under selective repeat it may
        // also end earlier.
        let begins = packet.is_multiple_of(chunk);
        let ends = whole || (packet + 1).is_multiple_of(chunk);
        let fits = (part.begins() || !begins) && (part.ends() == ends || is_selective && !ends);
        let due = u64::from(wqe.length).saturating_sub(offset).min(wqe.stride.into());
        if !fits || length as u64 != due {
            self.fail_oldest(CompletionStatus::BadResponse, adapter);
            return Ok(());
        }
        let stored = wqe.resolve(&adapter.regions, pd)
            && region::scatter(wqe.pieces(), offset, length, |address, from, room| {
                memory.write(address, payload, from, room)
            })
            .is_ok();
        if !stored {
            self.fail_oldest(CompletionStatus::LocalProtection, adapter);
            return Ok(());
        }
        self.answered(now, psn, whole, adapter);
        Ok(())
    }

    fn atomic_response<M: Memory>(
        &mut self,
        now: Time,
        psn: Psn,
        original: u64,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let pd = self.spec.pd;
        let wqe = self.requester.queue.front_mut();
        let wqe = wqe.filter(|wqe| wqe.begun.is_some()).ok_or(Drop::UnexpectedResponse)?;
        let is_atomic =
            matches!(wqe.operation, Operation::CompareSwap { .. } | Operation::FetchAdd { .. });
        let bytes = original.to_ne_bytes();
        let failure = if !is_atomic {
            Some(CompletionStatus::BadResponse)
        } else if !wqe.resolve(&adapter.regions, pd) {
            Some(CompletionStatus::LocalProtection)
        } else if wqe.pieces().iter().map(|sge| u64::from(sge.length)).sum::<u64>() < 8 {
            Some(CompletionStatus::LocalLength)
        } else {
            region::scatter(wqe.pieces(), 0, bytes.len(), |address, from, room| {
                memory.store(address, bytes.get(from..from + room).unwrap_or_default())
            })
            .err()
            .map(|_| CompletionStatus::LocalProtection)
        };
        match failure {
            Some(status) => self.fail_oldest(status, adapter),
            None => self.answered(now, psn, true, adapter),
        }
        Ok(())
    }

    /// The oldest request has got its answer `psn`, the last one if `whole`.
    fn answered(&mut self, now: Time, psn: Psn, whole: bool, adapter: &mut Adapter) {
        self.requester.prove_oldest();
        self.requester.unacked = psn.next();
        if whole {
            self.complete_oldest(adapter);
            self.complete_local(adapter);
        }
        self.note_progress(now, psn);
        self.report_drained(adapter);
    }
}
