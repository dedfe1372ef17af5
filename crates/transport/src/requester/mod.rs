//! The requester: turns send requests into packets (IBTA vol 1, 9.7.2 and 9.7.3).
//!
//! ```text
//!   queue:  [ done ] [ sent, unacknowledged ] [ being sent ] [ waiting ]
//!                     ▲ unacked                ▲ cursor       ▲ next_psn is assigned here
//! ```
//!
//! A request gets its PSNs when its first packet is sent, and keeps them. Sending again moves the
//! cursor back and nothing else: packets are made anew from the request.

mod ends;
mod local;
mod packet;
mod post;
mod run;
mod selective;
mod send;
mod train;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use rdma::{
    Access, CompletionOpcode, CompletionStatus, Operation, Psn, Qpn, SendFlags, Sge, Time,
    UdAddress, mtu,
};
use smallvec::SmallVec;
use train::Train;

use crate::PdId;
use crate::attributes::QpAttributes;
use crate::failure::{Fault, Unproven, Work};
use crate::limits::PACKET_OVERHEAD_BYTES;
use crate::mutation::{Mutation, mutated};
use crate::recovery::{Bounds, Moment, Scoreboard};
use crate::region::{Epoch, RegionTable, SgeList};
use crate::stats::Again;
use crate::transmit::{Body, Payload};

/// A send request in the queue.
#[derive(Debug)]
pub(crate) struct SendWqe {
    pub(crate) id: u64,
    pub(crate) operation: Operation,
    pub(crate) flags: SendFlags,
    /// XRC: the peer's shared receive queue, by its number.
    srq: Option<Qpn>,
    data: Data,
    /// Bytes of the message; 8 for atomics.
    pub(crate) length: u32,
    /// PSNs that it takes: packets sent, or responses awaited. Zero for a local operation.
    pub(crate) packets: u32,
    /// Bytes of payload of each of them but the last.
    pub(crate) stride: u32,
    /// Its PSNs and its place in the count of bytes in flight, once it is begun.
    pub(crate) begun: Option<Begun>,
    /// Its memory could not be read when a packet was built.
    faulted: bool,
    /// It cannot be sent, and fails once it is the oldest.
    stuck: bool,
    /// How a local operation failed.
    failure: Option<CompletionStatus>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) first_psn: Psn,
    /// Bytes put in flight before it, since the queue pair was made.
    start_bytes: u64,
    /// The most responses that one request on the wire asks for, if it is a READ.
    pub(crate) chunk: u32,
}

#[derive(Debug)]
enum Data {
    /// Pieces as posted, and their addresses in memory, valid for an epoch.
    Pieces { posted: SgeList, resolved: SgeList, epoch: Option<Epoch> },
    /// Taken at the post.
    Inline(SmallVec<[u8; 64]>),
}

impl SendWqe {
    /// Whether the responder answers with data, which takes one of its resources.
    pub(crate) fn is_read_or_atomic(&self) -> bool {
        matches!(
            self.operation,
            Operation::Read { .. }
                | Operation::CompareSwap { .. }
                | Operation::FetchAdd { .. }
                | Operation::AtomicWrite { .. }
        )
    }

    pub(crate) fn completion_opcode(&self) -> CompletionOpcode {
        match self.operation {
            Operation::Send { .. } | Operation::SendInvalidate { .. } => CompletionOpcode::Send,
            Operation::Write { .. } => CompletionOpcode::Write,
            Operation::Read { .. } => CompletionOpcode::Read,
            Operation::CompareSwap { .. } => CompletionOpcode::CompareSwap,
            Operation::FetchAdd { .. } => CompletionOpcode::FetchAdd,
            Operation::AtomicWrite { .. } => CompletionOpcode::AtomicWrite,
            Operation::BindWindow { .. } => CompletionOpcode::BindWindow,
            Operation::LocalInvalidate { .. } => CompletionOpcode::LocalInvalidate,
        }
    }

    /// Its last packets of this chunk: where the request on the wire ends that stands for `packet`. READs are cut at
    /// multiples of the chunk, so that a repeated request ends where the first one did: the responder answers a
    /// duplicate only within its bounds.
    fn chunk_end(&self, packet: u32, chunk: u32) -> u32 {
        (packet / chunk).saturating_add(1).saturating_mul(chunk).min(self.packets)
    }

    /// The PSN after its last.
    pub(crate) fn end_psn(&self) -> Option<Psn> {
        self.begun.map(|begun| begun.first_psn.plus(self.packets))
    }

    /// Its packets are as long as this from now on; it is not begun.
    fn cut(&mut self, stride: u32) {
        self.stride = stride;
        self.packets = mtu::packets(self.length, stride);
    }

    /// Bytes of payload of its longest packet.
    pub(crate) fn longest(&self) -> u32 {
        self.length.min(self.stride)
    }

    /// Where in its message a packet begins.
    pub(crate) fn offset(&self, packet: u32) -> u64 {
        u64::from(packet) * u64::from(self.stride)
    }

    /// What its first `packets` packets count as in flight.
    fn cost(&self, packets: u32) -> u64 {
        u64::from(packets) * PACKET_OVERHEAD_BYTES + self.offset(packets).min(self.length.into())
    }

    /// Bytes put in flight before its packet `packet`, since the queue pair was made.
    fn position(&self, packet: u32) -> Option<u64> {
        self.begun.map(|begun| begun.start_bytes + self.cost(packet))
    }

    /// Makes sure that the pieces are reachable now. `false` if a key, bound or right does not fit.
    pub(crate) fn resolve(&mut self, regions: &RegionTable, pd: PdId) -> bool {
        let needed = self.needed();
        let Data::Pieces { posted, resolved, epoch } = &mut self.data else { return true };
        if *epoch == Some(regions.epoch()) {
            return true;
        }
        *epoch = None;
        let reachable = regions.resolve_list(posted, pd, needed, resolved).is_ok();
        if reachable {
            *epoch = Some(regions.epoch());
        }
        reachable
    }

    /// What is wrong with its memory.
    #[cold]
    pub(crate) fn fault(&self, regions: &RegionTable, pd: PdId) -> Fault {
        let Data::Pieces { posted, .. } = &self.data else { return Fault::Gone };
        let (needed, mut list) = (self.needed(), SgeList::new());
        let resolved = regions.resolve_list(posted, pd, needed, &mut list);
        resolved.err().map_or(Fault::Gone, Fault::Key)
    }

    /// What may be done to its pieces.
    fn needed(&self) -> Access {
        // An atomic write is answered, but with nothing that would have to be stored.
        let stores =
            self.is_read_or_atomic() && !matches!(self.operation, Operation::AtomicWrite { .. });
        if stores { Access::LOCAL_WRITE } else { Access::NONE }
    }

    /// What a failure tells of it.
    pub(crate) fn work(&self) -> Work {
        let remote = match self.operation {
            Operation::Write { remote_address, r_key, .. }
            | Operation::Read { remote_address, r_key, .. }
            | Operation::CompareSwap { remote_address, r_key, .. }
            | Operation::FetchAdd { remote_address, r_key, .. }
            | Operation::AtomicWrite { remote_address, r_key, .. } => Some((remote_address, r_key)),
            Operation::BindWindow { r_key, address, .. } => Some((address, r_key)),
            Operation::Send { .. }
            | Operation::SendInvalidate { .. }
            | Operation::LocalInvalidate { .. } => None,
        };
        let opcode = self.completion_opcode();
        Work { opcode, id: Some(self.id), bytes: self.length, remote }
    }

    /// The pieces in addresses of memory; none for inline data.
    pub(crate) fn pieces(&self) -> &[Sge] {
        match &self.data {
            Data::Pieces { resolved, .. } => resolved,
            Data::Inline(_) => &[],
        }
    }

    /// Where bytes of its message are, which has this serial number.
    fn body(&self, serial: u64, offset: u64, length: u32) -> Body {
        match self.pieces() {
            [only] => Body::memory(only.address, offset, length),
            _ => Body::request(serial, offset, length),
        }
    }

    fn payload(&self, offset: u64, length: u32) -> Payload<'_> {
        match &self.data {
            Data::Pieces { resolved, .. } => Payload::scattered(resolved, offset, length),
            Data::Inline(bytes) => Payload::inline(bytes, offset, length),
        }
    }
}

/// A packet of a request in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cursor {
    /// The serial number of the request.
    pub(crate) serial: u64,
    /// Counted from its first.
    pub(crate) packet: u32,
}

impl Cursor {
    /// The first packet of a request.
    fn first_of(serial: u64) -> Self {
        Self { serial, packet: 0 }
    }
}

/// A READ request as it was sent: its first response, and how many it asks for.
#[derive(Clone, Copy, Debug)]
struct ReadRequest {
    psn: Psn,
    at: Cursor,
    count: u32,
}

/// The send queue and its place in the sequence space.
#[derive(Debug, Default)]
pub(crate) struct Requester {
    pub(crate) queue: VecDeque<SendWqe>,
    /// The serial number of the front of the queue.
    first_serial: u64,
    /// What is sent next.
    cursor: Cursor,
    /// The PSN of the next request to begin.
    next_psn: Psn,
    /// The oldest PSN that is neither acknowledged nor answered.
    pub(crate) unacked: Psn,
    /// The PSN after the last that was ever sent.
    pub(crate) top: Psn,
    /// Bytes put in flight since the queue pair was made.
    started_bytes: u64,
    /// The last PSN of each READ request and atomic that is outstanding.
    pub(crate) rd_atomics: VecDeque<Psn>,
    /// Packets sent since an acknowledgement was requested.
    unasked: u32,
    /// Whether the window was full at the last attempt to send.
    filled: bool,
    /// When an acknowledgement was last requested.
    pub(crate) asked_at: Time,
    /// One more than the payload of the longest packet that was answered; 0 if nothing was.
    proven: u32,
    pub(crate) retries_left: u8,
    pub(crate) rnr_retries_left: u8,
    /// The `unacked` for which no receive was posted last, and when that was learnt first.
    pub(crate) refused: Option<(Psn, Time)>,
    /// The `unacked` for which the cursor has been moved back already.
    pub(crate) gone_back_for: Option<Psn>,
    /// ACK timeouts in a row, without any progress between them.
    pub(crate) timeouts: u8,
    /// Whether a timeout took nothing for lost since the last progress, as it may have been on its way.
    pub(crate) is_put_off: bool,
    /// The oldest packet when the timer last expired, until a NAK reports its loss.
    pub(crate) timed_out_for: Option<Psn>,
    /// Why the cursor was last moved back.
    pub(crate) again: Again,
    /// How many packets may travel as one.
    pub(crate) train: Train,
    /// How much may be kept out of order, if it repeats selectively or may come to.
    bounds: Option<Bounds>,
    /// The packet at the cursor is repeated to hear of it.
    probe: bool,
    /// Probes in a row, without an answer between them.
    pub(crate) probes: u8,
    /// Those since a round trip was measured last, or one turned out to be in vain.
    pub(crate) probes_sent: u8,
    /// How many READ requests are still sent twice, as packets were lost of late.
    twice: u32,
    /// The READ request that is to be sent a second time next.
    copy: Option<ReadRequest>,
    /// Under selective repeat: what it knows of packets behind a gap.
    pub(crate) scoreboard: Option<Box<Scoreboard>>,
    /// UC and UD: requests at the front that have been sent whole, and are not done yet
    /// ([`crate::Config::done_on_departure`]).
    sent_whole: u32,
}

impl Requester {
    /// Ready to send from `psn` on. What is `agreed` on may be kept out of order; of what is `offered`, the
    /// peer must say that it does, too.
    pub(crate) fn begin(
        &mut self,
        psn: Psn,
        attributes: &QpAttributes,
        agreed: Option<Bounds>,
        offered: Option<Bounds>,
    ) {
        self.bounds = agreed.or(offered);
        self.scoreboard = agreed.map(|bounds| Box::new(Scoreboard::new(bounds, psn)));
        self.next_psn = psn;
        self.unacked = psn;
        self.top = psn;
        self.retries_left = attributes.retry_count;
        self.rnr_retries_left = attributes.rnr_retry;
        self.proven = 0;
    }

    /// Something was answered, of whatever length.
    #[inline]
    pub(crate) fn hear(&mut self) {
        self.proven = self.proven.max(1);
    }

    /// Whether anything ever was.
    pub(crate) fn has_heard(&self) -> bool {
        self.proven > 0
    }

    /// A packet was answered that is no shorter than others of such a message.
    #[inline]
    pub(crate) fn prove(&mut self, length: u32) {
        self.proven = self.proven.max(length.saturating_add(1));
    }

    /// A packet of the oldest request was.
    pub(crate) fn prove_oldest(&mut self) {
        if let Some(length) = self.queue.front().map(SendWqe::longest) {
            self.prove(length);
        }
    }

    /// The packet `psn` has arrived. The request of a READ says nothing of its responses.
    pub(crate) fn prove_sent(&mut self, psn: Psn) {
        let Cursor { serial, packet } = self.position(psn);
        let Some(wqe) = self.wqe(serial).filter(|wqe| !wqe.is_read_or_atomic()) else { return };
        let left = u64::from(wqe.length).saturating_sub(wqe.offset(packet));
        let length = left.min(wqe.stride.into());
        self.prove(u32::try_from(length).unwrap_or(0));
    }

    /// What of the oldest request was never answered, if nothing so long ever was.
    pub(crate) fn unproven(&self) -> Option<Unproven> {
        let wqe = self.queue.front()?;
        let bytes = wqe.longest();
        let answered = self.proven.checked_sub(1).map(|length| length.min(wqe.stride));
        (Some(bytes) > answered).then_some(Unproven { bytes, answered })
    }

    pub(crate) fn next_psn(&self) -> Psn {
        self.next_psn
    }

    /// Whether nothing that was begun is unfinished.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.front().is_none_or(|wqe| wqe.begun.is_none())
    }

    /// The address that the next request names, if it names one.
    pub(crate) fn next_address(&self) -> Option<UdAddress> {
        match self.wqe(self.cursor.serial)?.operation {
            Operation::Send { address, .. } => address,
            _ => None,
        }
    }

    /// Whether the window held a request back at the last attempt to send.
    pub(crate) fn is_window_full(&self) -> bool {
        self.filled
    }

    /// Whether a request is left to send from.
    pub(crate) fn has_next(&self) -> bool {
        self.wqe(self.cursor.serial).is_some()
    }

    /// Whether the message at the cursor has been sent in part.
    pub(crate) fn is_within_message(&self) -> bool {
        self.cursor.packet > 0
    }

    /// Bytes of the message of a request.
    pub(crate) fn payload(&self, serial: u64, offset: u64, length: u32) -> Payload<'_> {
        self.wqe(serial).map_or(Payload::EMPTY, |wqe| wqe.payload(offset, length))
    }

    /// Packets of a request.
    pub(crate) fn packets(&self, serial: u64) -> u32 {
        self.wqe(serial).map_or(0, |wqe| wqe.packets)
    }

    /// Messages that are not begun are cut into packets of `stride`, if they are longer than `mtu`.
    pub(crate) fn recut(&mut self, mtu: u32, stride: u32) {
        let waiting = self.queue.iter_mut().rev().take_while(|wqe| wqe.begun.is_none());
        for wqe in waiting.filter(|wqe| wqe.packets > 0) {
            wqe.cut(if wqe.length > mtu { stride } else { mtu });
        }
    }

    /// Whether what is sent next is of a message longer than `bytes`.
    pub(crate) fn sends_more_than(&self, bytes: u32) -> bool {
        self.wqe(self.cursor.serial).is_some_and(|wqe| wqe.length > bytes)
    }

    fn wqe(&self, serial: u64) -> Option<&SendWqe> {
        self.queue.get(usize::try_from(serial.checked_sub(self.first_serial)?).ok()?)
    }

    fn wqe_mut(&mut self, serial: u64) -> Option<&mut SendWqe> {
        self.queue.get_mut(usize::try_from(serial.checked_sub(self.first_serial)?).ok()?)
    }

    /// Counts a retry of the oldest packet; `false` if there are none left. The first NAK after a
    /// timeout is not counted again, as the peer may have sent it before.
    pub(crate) fn count_retry(&mut self) -> bool {
        if self.timed_out_for.take() == Some(self.unacked) {
            return true;
        }
        let Some(left) = self.retries_left.checked_sub(1) else { return false };
        if !mutated(Mutation::RetriesUncounted) {
            self.retries_left = left;
        }
        true
    }

    /// Takes the oldest request off the queue.
    pub(crate) fn pop(&mut self) -> Option<SendWqe> {
        let wqe = self.queue.pop_front()?;
        self.first_serial += 1;
        if self.cursor.serial < self.first_serial {
            self.cursor = Cursor::first_of(self.first_serial);
            self.probe = false;
        }
        Some(wqe)
    }

    /// The PSN of the packet at the cursor.
    pub(crate) fn cursor_psn(&self) -> Psn {
        self.wqe(self.cursor.serial)
            .and_then(|wqe| wqe.begun)
            .map_or(self.next_psn, |begun| begun.first_psn.plus(self.cursor.packet))
    }

    /// Bytes sent before the cursor and not known to have arrived.
    fn in_flight(&self) -> u64 {
        let end = self.wqe(self.cursor.serial).and_then(|wqe| wqe.position(self.cursor.packet));
        let outstanding = self.unacknowledged(end.unwrap_or(self.started_bytes));
        self.less_arrived(outstanding, self.cursor_psn())
    }

    /// Of the bytes put in flight up to `end`, those that are not acknowledged.
    fn unacknowledged(&self, end: u64) -> u64 {
        let start = self.queue.front().and_then(|wqe| {
            let begun = wqe.begun?;
            wqe.position(self.unacked.distance_from(begun.first_psn))
        });
        end.saturating_sub(start.unwrap_or(end))
    }

    /// Where the packet `psn` is in the queue; all before it is begun. A local operation that
    /// failed comes before the packet that it blocks.
    fn position(&self, psn: Psn) -> Cursor {
        // Requests are in PSN order, and all begun ones lie within half the sequence space.
        let is_before = |wqe: &SendWqe| {
            wqe.failure.is_none() && wqe.end_psn().is_some_and(|end| !psn.is_before(end))
        };
        let index = self.queue.partition_point(is_before);
        let begun = self.queue.get(index).and_then(|wqe| wqe.begun);
        let packet = begun.map_or(0, |begun| psn.distance_from(begun.first_psn));
        Cursor { serial: self.first_serial + index as u64, packet }
    }

    /// Moves the cursor to `psn`, which lies in a begun request; READs and atomics from there on
    /// are requested again.
    pub(crate) fn move_cursor_to(&mut self, psn: Psn) {
        let position = self.position(psn);
        if self.wqe(position.serial).is_none_or(|wqe| wqe.begun.is_none()) {
            return;
        }
        self.cursor = position;
        self.probe = false;
        while self.scoreboard.is_none()
            && self.rd_atomics.back().is_some_and(|last| !last.is_before(psn))
        {
            self.rd_atomics.pop_back();
        }
        self.unasked = 0;
    }

    /// Everything from `psn` on is sent again, and what selective acknowledgements said is
    /// forgotten.
    pub(crate) fn go_back_to(&mut self, psn: Psn) {
        self.move_cursor_to(psn);
        if let Some(scoreboard) = &mut self.scoreboard {
            scoreboard.forget(self.top);
        }
    }

    /// The packet `psn`, which was sent last, is sent again.
    fn repeat(&mut self, psn: Psn) {
        self.move_cursor_to(psn);
        if let Some(scoreboard) = &mut self.scoreboard {
            scoreboard.lose(psn);
        }
    }

    /// After `unacked` has moved on: nothing before it is sent again.
    pub(crate) fn catch_up(&mut self, moment: &Moment) {
        if let Some(scoreboard) = &mut self.scoreboard {
            scoreboard.advance(self.unacked, moment);
        }
        if self.cursor_psn().is_before(self.unacked) {
            let rd_atomics = core::mem::take(&mut self.rd_atomics);
            self.move_cursor_to(self.unacked);
            self.rd_atomics = rd_atomics;
        }
        while self.rd_atomics.front().is_some_and(|last| last.is_before(self.unacked)) {
            self.rd_atomics.pop_front();
        }
    }
}
