//! How requests end: completed, failed, flushed, or drained.

use rdma::{CompletionStatus, QpState, SendFlags};

use super::SendWqe;
use crate::adapter::Adapter;
use crate::attributes::QpAttributes;
use crate::failure::Cause;
use crate::mutation::{Mutation, mutated};
use crate::qp::Qp;
use crate::recovery::Scoreboard;
use crate::timer::Timer;
use crate::{Event, Flight};

impl Qp {
    /// What is in flight.
    pub(crate) fn flight(&self) -> Flight {
        let requester = &self.requester;
        let begun = usize::try_from(requester.cursor.serial - requester.first_serial);
        let is_due = requester.unasked == 0 && self.timers.is_running(Timer::Retransmit);
        Flight {
            requests: begun.unwrap_or(usize::MAX).min(requester.queue.len()),
            answer_due_since: is_due.then_some(requester.asked_at),
            is_window_full: requester.filled,
        }
    }

    /// Writes the completion of a send request: of every one that failed, and of those that
    /// succeeded if they are signalled.
    pub(crate) fn complete_send(
        &mut self,
        wqe: &SendWqe,
        status: CompletionStatus,
        adapter: &mut Adapter,
    ) {
        let success = status == CompletionStatus::Success;
        let hides = success && !mutated(Mutation::UnsignalledCompletes)
            || status == CompletionStatus::Flushed && mutated(Mutation::FlushHidesUnsignalled);
        if hides && !self.spec.signal_all && !wqe.flags.contains(SendFlags::SIGNALED) {
            return;
        }
        if !success && status != CompletionStatus::Flushed {
            adapter.stats.req_cqe_error += 1;
        }
        let mut completion = self.blank_completion(wqe.id, status, wqe.completion_opcode());
        completion.byte_len = wqe.length;
        adapter.complete(self.spec.send_cq, completion);
    }

    /// Fails the oldest request. RC goes to ERROR; UC and UD to SQE, where receives go on
    /// (IBTA vol 1, 9.9.2.3 and 10.3.1.6).
    pub(crate) fn fail_oldest(&mut self, status: CompletionStatus, adapter: &mut Adapter) {
        let is_reliable = self.spec.kind.is_reliable();
        let unproven = self.requester.unproven();
        if let Some(wqe) = self.requester.pop() {
            let is_local = status == CompletionStatus::LocalProtection;
            let fault = is_local.then(|| wqe.fault(&adapter.regions, self.spec.pd));
            let QpAttributes { timeout, retry_count, rnr_retry, .. } = self.attributes;
            let (work, patience) = (wqe.work(), (timeout, retry_count, rnr_retry));
            let cause = Cause::Request { work, status, fault, unproven, patience };
            let to = if is_reliable { QpState::Error } else { QpState::Sqe };
            self.note_failure(to, cause, adapter);
            self.complete_send(&wqe, status, adapter);
        }
        if is_reliable {
            self.enter_error(false, adapter);
        } else {
            self.state = QpState::Sqe;
            self.flush_sends(adapter);
        }
    }

    pub(crate) fn flush_sends(&mut self, adapter: &mut Adapter) {
        self.finish_unreliable(adapter);
        while let Some(wqe) = self.requester.pop() {
            self.complete_send(&wqe, CompletionStatus::Flushed, adapter);
        }
        self.requester.rd_atomics.clear();
        self.requester.unacked = self.requester.next_psn;
        self.requester.top = self.requester.next_psn;
        if let Some(scoreboard) = &mut self.requester.scoreboard {
            **scoreboard = Scoreboard::new(scoreboard.bounds, self.requester.next_psn);
        }
    }

    /// Begins no more requests. See [`Qp::ask_again`]: more was to follow, and does not.
    pub(crate) fn begin_draining(&mut self, adapter: &mut Adapter) {
        self.ask_again();
        self.report_drained(adapter);
    }

    /// Nothing follows the last packet any more. If it requested no acknowledgement because
    /// something was to follow, it is sent again and requests one.
    pub(super) fn ask_again(&mut self) {
        let requester = &mut self.requester;
        let cursor = requester.cursor_psn();
        if !self.spec.kind.is_reliable()
            || requester.unasked == 0
            || cursor == requester.unacked
            // Everything is executed, and responses are on their way.
            || requester.scoreboard.as_ref().is_some_and(|board| board.executed_until() == cursor)
            // The answer to a READ or atomic acknowledges all before it.
            || requester.rd_atomics.back().is_some_and(|last| last.next() == cursor)
        {
            return;
        }
        requester.repeat(cursor.minus(1));
    }

    /// Raises the event of a drained send queue, once. A queue that fails first is not drained.
    pub(crate) fn report_drained(&mut self, adapter: &mut Adapter) {
        let is_drained = self.requester.is_drained() || mutated(Mutation::DrainedTooSoon);
        let drained = self.state == QpState::Sqd && is_drained && !mutated(Mutation::DrainedUnsaid);
        if drained && core::mem::take(&mut self.attributes.sqd_notify) {
            adapter.raise(Event::SqDrained(self.qpn));
        }
    }

    /// UC and UD: requests that have been sent whole are done.
    #[inline]
    pub(super) fn finish_unreliable(&mut self, adapter: &mut Adapter) {
        if !self.spec.kind.is_reliable() {
            self.finish_sent(u32::MAX, adapter);
        }
    }

    /// UC and UD: the last packet of the oldest request that was sent whole has left.
    pub(crate) fn departed(&mut self, adapter: &mut Adapter) {
        self.finish_sent(1, adapter);
    }

    /// So many of the oldest that were sent whole are done, at most.
    #[inline]
    fn finish_sent(&mut self, most: u32, adapter: &mut Adapter) {
        for _ in 0..most.min(self.requester.sent_whole) {
            self.requester.sent_whole -= 1;
            if let Some(wqe) = self.requester.pop() {
                self.complete_send(&wqe, CompletionStatus::Success, adapter);
            }
        }
        if self.requester.queue.is_empty() {
            self.requester.unacked = self.requester.next_psn;
        }
        self.report_drained(adapter);
    }
}
