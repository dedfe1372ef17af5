//! Selective repeat: the cursor visits the gaps and skips what has arrived.

use alloc::boxed::Box;

use rdma::Psn;
use wire::opcode::Part;
use wire::saeth;

use super::{Begun, Cursor, ReadRequest, Requester, SendWqe};
use crate::limits::{READ_TWICE_PACKETS_MIN, READS_TWICE_AFTER_LOSS};
use crate::recovery::{Bounds, Moment, OutOfOrder, ReorderBuffer, Scoreboard};

impl Requester {
    /// Out-of-order responses that are kept.
    pub(crate) fn kept(&self) -> OutOfOrder {
        self.scoreboard.as_ref().map(|board| board.responses.held()).unwrap_or_default()
    }

    /// What keeps them.
    pub(crate) fn kept_mut(&mut self) -> Option<&mut ReorderBuffer> {
        self.scoreboard.as_mut().map(|board| &mut board.responses)
    }

    /// How much may be kept out of order, if it repeats selectively or may come to.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        self.bounds
    }

    /// The peer repeats selectively, and so does this queue pair from now on. If it is going back, what it has not
    /// sent again yet is lost.
    pub(crate) fn become_selective(&mut self) {
        let Some(bounds) = self.bounds.filter(|_| self.scoreboard.is_none()) else { return };
        let mut scoreboard = Box::new(Scoreboard::new(bounds, self.unacked));
        let psn = self.cursor_psn();
        if psn.is_before(self.top) {
            scoreboard.is_gone_back(psn, self.top);
            self.expect_answers_again();
        }
        self.scoreboard = Some(scoreboard);
    }

    /// READs and atomics from the cursor on are outstanding again.
    fn expect_answers_again(&mut self) {
        let Cursor { serial, mut packet } = self.cursor;
        let skipped = usize::try_from(serial.saturating_sub(self.first_serial));
        for wqe in self.queue.iter().skip(skipped.unwrap_or(usize::MAX)) {
            let Some(Begun { first_psn, chunk, .. }) = wqe.begun else { break };
            while wqe.is_read_or_atomic() && packet < wqe.packets {
                packet = wqe.chunk_end(packet, chunk);
                let last = first_psn.plus(packet - 1);
                if !last.is_before(self.top) {
                    return;
                }
                self.rd_atomics.push_back(last);
            }
            packet = 0;
        }
    }

    /// Puts the cursor at the packet to probe with, unless something else is to be sent again: the last one that is
    /// missing, whose answer says what else is. If the window holds back what is to be sent again, that is it. After a timeout it
    /// is the oldest.
    pub(crate) fn begin_probe(&mut self, is_held: bool) -> bool {
        let Some(scoreboard) = &self.scoreboard else { return false };
        if self.unacked == self.top {
            return false;
        }
        if self.cursor_psn() != self.top && self.timeouts == 0 {
            self.probe |= is_held;
            return is_held;
        }
        let is_missing = |psn: Psn| {
            let is_answered =
                self.wqe(self.position(psn).serial).is_some_and(SendWqe::is_read_or_atomic);
            scoreboard.is_missing(psn, is_answered)
        };
        let mut psn = self.top.minus(1);
        while psn != self.unacked && (self.timeouts > 0 || !is_missing(psn)) {
            psn = psn.minus(1);
        }
        self.cursor = self.position(psn);
        if !scoreboard.is_being_answered(psn)
            && let Some(wqe) = self.wqe(self.cursor.serial)
            && let Some(Begun { chunk, .. }) = wqe.begun
            && wqe.is_read_or_atomic()
        {
            // A responder that has not had the request must not take it for two.
            let start = self.cursor.packet / chunk * chunk;
            self.cursor.packet = start;
        }
        self.probe = true;
        true
    }

    /// A packet is lost, and sent again.
    pub(super) fn note_loss(&mut self) {
        self.twice = READS_TWICE_AFTER_LOSS;
    }

    /// A READ request is sent for the first time. Where packets are lost it is sent once more at once: a responder
    /// answers READs in their order, so one lost request would hold back all behind it for a round trip, and it is
    /// short beside what it asks for. Both say so: the responder drops what comes second. Returns whether it is.
    pub(super) fn copy_read(&mut self, psn: Psn, at: Cursor, count: u32) -> bool {
        let is_copied = self.twice > 0 && count >= READ_TWICE_PACKETS_MIN;
        if is_copied {
            self.twice -= 1;
            self.copy = Some(ReadRequest { psn, at, count });
        }
        is_copied
    }

    /// Whether a READ request is to be sent a second time now.
    #[inline]
    pub(super) fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// The READ request that is to be sent a second time now, unless it is answered by now.
    pub(super) fn take_copy(&mut self) -> Option<ReadRequest> {
        self.copy.take().filter(|copy| !copy.psn.is_before(self.unacked))
    }

    /// How many losses were none, since that was last asked: what was sent again had been late.
    pub(crate) fn take_late(&mut self) -> u32 {
        self.scoreboard.as_mut().map_or(0, |board| board.take_late())
    }

    /// Whether the packet `psn`, or a response to it, is known to have arrived behind a gap.
    pub(crate) fn has_come(&self, psn: Psn) -> bool {
        self.scoreboard.as_ref().is_some_and(|board| board.has_come(psn))
    }

    /// How many packets are known to have brought, behind a gap, what they carry.
    pub(crate) fn delivered_packets(&self) -> u32 {
        self.scoreboard.as_ref().map_or(0, |board| board.delivered_packets())
    }

    /// Takes what has arrived behind the `missing` packet.
    pub(crate) fn record(&mut self, missing: Psn, arrived: &saeth::Repr, moment: &Moment) {
        let Some(mut scoreboard) = self.scoreboard.take() else { return };
        let has_answers = !self.rd_atomics.is_empty();
        scoreboard.record(missing, arrived, moment, |psn| {
            let wqe = || self.wqe(self.position(psn).serial);
            has_answers && wqe().is_some_and(SendWqe::is_read_or_atomic)
        });
        self.scoreboard = Some(scoreboard);
    }

    /// Of `bytes` from the oldest packet to the one before `end`: what has not arrived, as far as that is
    /// known.
    pub(super) fn less_arrived(&self, bytes: u64, end: Psn) -> u64 {
        let arrived = self.delivered_packets();
        if arrived == 0 {
            return bytes;
        }
        let packets = u64::from(end.distance_from(self.unacked)).max(1);
        bytes * (packets - packets.min(arrived.into())) / packets
    }

    /// Before the packet at the cursor is sent: one that was sent before is passed over unless it
    /// is lost.
    pub(super) fn pass_over(&mut self) {
        if self.scoreboard.is_none() || self.probe || !self.cursor_psn().is_before(self.top) {
            return;
        }
        if let Some(lost) = self.next_lost(self.cursor_psn()) {
            self.cursor = self.position(lost);
        } else {
            self.cursor = self.position(self.top);
            if let Some(scoreboard) = &mut self.scoreboard {
                scoreboard.all_resent();
            }
        }
    }

    /// Whether there may be lost packets that have not been sent again.
    pub(crate) fn suspects_some(&self) -> bool {
        self.scoreboard.as_ref().is_some_and(|board| board.suspects().is_some())
    }

    /// Moves the cursor back to the first lost packet that has not been sent again, if there is one
    /// before it. Returns its PSN.
    pub(crate) fn visit_gaps(&mut self) -> Option<Psn> {
        let (from, _) = self.scoreboard.as_ref()?.suspects()?;
        let Some(lost) = self.next_lost(from) else {
            self.scoreboard.as_mut()?.all_resent();
            return None;
        };
        if !lost.is_before(self.cursor_psn()) {
            return None;
        }
        self.cursor = self.position(lost);
        Some(lost)
    }

    /// Notes that the response `psn` has arrived, so the request for it has.
    pub(crate) fn note_answering(&mut self, psn: Psn) {
        let known = self.scoreboard.as_ref().map(|board| board.answering_until());
        if known.is_none_or(|known| psn.is_before(known)) {
            return;
        }
        let Cursor { serial, packet } = self.position(psn);
        let Some(wqe) = self.wqe(serial).filter(|wqe| wqe.is_read_or_atomic()) else { return };
        let Some(Begun { chunk, .. }) = wqe.begun else { return };
        let end = wqe.chunk_end(packet, chunk);
        if let Some(scoreboard) = &mut self.scoreboard {
            scoreboard.answering(psn.plus(end.saturating_sub(packet)));
        }
    }

    /// Notes whether the response `psn` belongs to a repeated READ request. It does if that was sent long enough
    /// ago, or if the response is another part (first, middle, last) than in the answer to the first
    /// request; otherwise it may be late.
    pub(crate) fn note_answer(&mut self, psn: Psn, part: Part, moment: &Moment) {
        if moment.is_sprayed {
            // Answers to later requests may have come first.
            return;
        }
        let Some(scoreboard) = self.scoreboard.as_mut().filter(|it| it.is_resent(psn)) else {
            return;
        };
        scoreboard.note_late(psn, moment);
        let scoreboard = &*scoreboard;
        let is_again = scoreboard.may_be_answered_again(psn, moment) || {
            let Cursor { serial, packet } = self.position(psn);
            let Some(wqe) = self.wqe(serial) else { return };
            let Some(Begun { chunk, .. }) = wqe.begun else { return };
            let first = packet / chunk * chunk;
            part != Part::of(packet - first, wqe.chunk_end(packet, chunk) - first)
        };
        if let Some(scoreboard) = self.scoreboard.as_mut().filter(|_| is_again) {
            scoreboard.answered_again(psn);
        }
    }

    /// How many packets from `psn` on are lost in a row, of `count` that one request stands for. A probe asks
    /// for one, or repeats a request that may not have arrived.
    pub(crate) fn lost_run(&self, psn: Psn, count: u32) -> u32 {
        let Some(scoreboard) = &self.scoreboard else { return count };
        if self.probe {
            return if scoreboard.is_being_answered(psn) { 1 } else { count };
        }
        let Some((_, end)) = scoreboard.suspects() else { return count };
        let is_lost = |psn: Psn| psn.is_before(end) && scoreboard.is_wanted(psn, true);
        (1..count).find(|&run| !is_lost(psn.plus(run))).unwrap_or(count)
    }

    /// The first packet from `from` on that is lost and has not been sent again.
    fn next_lost(&self, from: Psn) -> Option<Psn> {
        let scoreboard = self.scoreboard.as_ref()?;
        let (first, end) = scoreboard.suspects()?;
        let mut psn = if from.is_before(first) { first } else { from };
        let index =
            usize::try_from(self.position(psn).serial.checked_sub(self.first_serial)?).ok()?;
        for wqe in self.queue.range(index..) {
            let wqe_end = wqe.end_psn()?;
            let is_answered = wqe.is_read_or_atomic();
            while psn.is_before(wqe_end) {
                if !psn.is_before(end) {
                    return None;
                }
                if scoreboard.is_wanted(psn, is_answered) {
                    return Some(psn);
                }
                psn = psn.next();
            }
        }
        None
    }
}
