//! The requester: turns send requests into packets (IBTA vol 1, 9.7.2 and 9.7.3).
//!
//! ```text
//!   queue:  [ done ] [ sent, unacknowledged ] [ being sent ] [ waiting ]
//!                     ▲ unacked                ▲ cursor       ▲ next_psn is assigned here
//! ```
//!
//! A request gets its PSNs when its first packet is sent, and keeps them. Sending again moves the
//! cursor back and nothing else: packets are made anew from the request.

use alloc::collections::VecDeque;

use rdma::{
    Access, CompletionOpcode, CompletionStatus, Mtu, Operation, Psn, QpState, QpType, SendFlags,
    Sge, Time, WorkRequest,
};
use smallvec::SmallVec;
use wire::opcode::{Attach, Part, Service};
use wire::{Opcode, deth, reth, roce};

use crate::adapter::Adapter;
use crate::attributes::QpAttributes;
use crate::limits::{MESSAGE_BYTES_MAX, PACKET_OVERHEAD_BYTES, ack_timeout};
use crate::mutation::{Mutation, mutated};
use crate::qp::{Body, Outgoing, Qp, route_of_datagram};
use crate::region::{Bind, Epoch, RegionTable, SgeList};
use crate::timer::Timer;
use crate::transmit::Payload;
use crate::{Event, PdId, PostError};

/// A send request in the queue.
#[derive(Debug)]
pub(crate) struct SendWqe {
    pub(crate) id: u64,
    pub(crate) operation: Operation,
    pub(crate) flags: SendFlags,
    data: Data,
    /// Bytes of the message; 8 for atomics.
    pub(crate) length: u32,
    /// PSNs that it takes: packets sent, or responses awaited. None for what is done at this end.
    pub(crate) packets: u32,
    /// Its PSNs and its place in the count of bytes in flight, once it is begun.
    pub(crate) begun: Option<Begun>,
    /// Its memory turned out to be gone.
    faulted: bool,
    /// It cannot be sent, and fails when it is the oldest.
    stuck: bool,
    /// It was done at this end alone, and ended so.
    failure: Option<CompletionStatus>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) first_psn: Psn,
    /// Bytes put in flight before it, since the queue pair was made.
    start_bytes: u64,
}

#[derive(Debug)]
enum Data {
    /// Pieces as posted, and in addresses of memory with how old that is.
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

    /// The PSN after its last.
    pub(crate) fn end_psn(&self) -> Option<Psn> {
        self.begun.map(|begun| begun.first_psn.plus(self.packets))
    }

    /// What its first `packets` packets count for in flight.
    fn cost(&self, packets: u32, mtu: Mtu) -> u64 {
        let payload = (u64::from(packets) * u64::from(mtu.bytes())).min(u64::from(self.length));
        u64::from(packets) * PACKET_OVERHEAD_BYTES + payload
    }

    /// Makes sure that the pieces are reachable now. `false` if a key, bound or right does not fit.
    pub(crate) fn resolve(&mut self, regions: &RegionTable, pd: PdId) -> bool {
        let needed = if self.is_read_or_atomic() { Access::LOCAL_WRITE } else { Access::NONE };
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

    /// The pieces in addresses of memory; none for inline data.
    pub(crate) fn pieces(&self) -> &[Sge] {
        match &self.data {
            Data::Pieces { resolved, .. } => resolved,
            Data::Inline(_) => &[],
        }
    }

    fn payload(&self, offset: u64, length: u32) -> Payload<'_> {
        match &self.data {
            Data::Pieces { resolved, .. } => Payload::scattered(resolved, offset, length),
            Data::Inline(bytes) => Payload::inline(bytes, offset, length),
        }
    }
}

/// The send queue and its place in the sequence space.
#[derive(Debug, Default)]
pub(crate) struct Requester {
    pub(crate) queue: VecDeque<SendWqe>,
    /// The serial number of the front of the queue.
    first_serial: u64,
    /// The serial number of the request to send from next, and the packet of it.
    cursor: (u64, u32),
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
    /// Packets sent since an acknowledgement was asked for.
    unasked: u32,
    pub(crate) retries_left: u8,
    pub(crate) rnr_retries_left: u8,
    /// The `unacked` for which the cursor has been moved back already.
    pub(crate) gone_back_for: Option<Psn>,
    /// In SQD: requests that are begun are finished, none is begun.
    pub(crate) draining: bool,
    /// UC and UD: requests at the front that have been sent whole, and complete when the driver
    /// comes for the next packet (until then it may be reading their payload).
    sent_whole: u32,
}

impl Requester {
    /// Ready to send from `psn` on.
    pub(crate) fn begin(&mut self, psn: Psn, attributes: &QpAttributes) {
        self.next_psn = psn;
        self.unacked = psn;
        self.top = psn;
        self.retries_left = attributes.retry_count;
        self.rnr_retries_left = attributes.rnr_retry;
    }

    pub(crate) fn next_psn(&self) -> Psn {
        self.next_psn
    }

    /// Whether nothing that was begun is unfinished.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.front().is_none_or(|wqe| wqe.begun.is_none())
    }

    pub(crate) fn payload(&self, serial: u64, offset: u64, length: u32) -> Payload<'_> {
        self.wqe(serial).map_or(Payload::EMPTY, |wqe| wqe.payload(offset, length))
    }

    fn wqe(&self, serial: u64) -> Option<&SendWqe> {
        self.queue.get(usize::try_from(serial.checked_sub(self.first_serial)?).ok()?)
    }

    fn wqe_mut(&mut self, serial: u64) -> Option<&mut SendWqe> {
        self.queue.get_mut(usize::try_from(serial.checked_sub(self.first_serial)?).ok()?)
    }

    /// Takes the oldest request off the queue.
    pub(crate) fn pop(&mut self) -> Option<SendWqe> {
        let wqe = self.queue.pop_front()?;
        self.first_serial += 1;
        if self.cursor.0 < self.first_serial {
            self.cursor = (self.first_serial, 0);
        }
        Some(wqe)
    }

    /// The PSN of the packet at the cursor.
    fn cursor_psn(&self) -> Psn {
        self.wqe(self.cursor.0)
            .and_then(|wqe| wqe.begun)
            .map_or(self.next_psn, |begun| begun.first_psn.plus(self.cursor.1))
    }

    /// Bytes sent before the cursor and not acknowledged.
    fn in_flight(&self, mtu: Mtu) -> u64 {
        let position = |wqe: &SendWqe, packets| {
            wqe.begun.map(|begun| begun.start_bytes + wqe.cost(packets, mtu))
        };
        let start = self.queue.front().and_then(|wqe| {
            let begun = wqe.begun?;
            position(wqe, self.unacked.distance_from(begun.first_psn))
        });
        let end = self.wqe(self.cursor.0).and_then(|wqe| position(wqe, self.cursor.1));
        let end = end.unwrap_or(self.started_bytes);
        end.saturating_sub(start.unwrap_or(end))
    }

    /// Moves the cursor to `psn`, which lies in a begun request; READs and atomics from there on
    /// will be asked again.
    pub(crate) fn move_cursor_to(&mut self, psn: Psn) {
        // Requests are in PSN order, and all begun ones lie within half the sequence space.
        let index =
            self.queue.partition_point(|wqe| wqe.end_psn().is_some_and(|end| !psn.is_before(end)));
        let Some(begun) = self.queue.get(index).and_then(|wqe| wqe.begun) else { return };
        self.cursor = (self.first_serial + index as u64, psn.distance_from(begun.first_psn));
        while self.rd_atomics.back().is_some_and(|last| !last.is_before(psn)) {
            self.rd_atomics.pop_back();
        }
        self.unasked = 0;
    }

    /// After `unacked` has moved on: nothing before it is sent again.
    pub(crate) fn catch_up(&mut self) {
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

impl Qp {
    pub(crate) fn post_send(
        &mut self,
        now: Time,
        request: &WorkRequest<'_>,
        adapter: &mut Adapter,
    ) -> Result<(), PostError> {
        // IBTA vol 1, 10.3.1: sends may be posted from RTS on, and in the error states, where they
        // are flushed.
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(PostError::State);
        }
        check_operation(self.spec.kind, request)?;
        let capacity = &self.spec.capacity;
        if self.requester.queue.len() >= capacity.send_wr as usize {
            return Err(PostError::Full);
        }
        let (data, length) = if let Operation::AtomicWrite { bytes, .. } = request.operation {
            (Data::Inline(SmallVec::from_slice(&bytes)), bytes.len() as u64)
        } else if let Some(bytes) = request.inline {
            if bytes.len() > capacity.inline as usize {
                return Err(PostError::InlineTooLong);
            }
            (Data::Inline(SmallVec::from_slice(bytes)), bytes.len() as u64)
        } else {
            // What is done at this end alone has no data.
            let sges = if request.operation.is_local() { &[] } else { request.sges };
            if sges.len() > capacity.send_sge as usize {
                return Err(PostError::TooManySges);
            }
            let length = sges.iter().map(|sge| u64::from(sge.length)).sum();
            let posted = SgeList::from_slice(sges);
            (Data::Pieces { posted, resolved: SgeList::new(), epoch: None }, length)
        };
        let longest = match self.spec.kind {
            QpType::Ud => adapter.config.active_mtu.bytes(),
            QpType::Rc | QpType::Uc => MESSAGE_BYTES_MAX,
        };
        let mut wqe = SendWqe {
            id: request.id,
            operation: request.operation,
            flags: request.flags,
            data,
            length: u32::try_from(length)
                .ok()
                .filter(|&length| length <= longest)
                .ok_or(PostError::TooLong)?,
            packets: 1,
            begun: None,
            faulted: false,
            stuck: false,
            failure: None,
        };
        match request.operation {
            Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => wqe.length = 8,
            operation if operation.is_local() => (wqe.length, wqe.packets) = (0, 0),
            _ if self.is_datagram() => {}
            _ => wqe.packets = self.attributes.path_mtu.packets(wqe.length),
        }
        if matches!(self.state, QpState::Error | QpState::Sqe) {
            self.complete_send(&wqe, CompletionStatus::Flushed, adapter);
        } else {
            self.requester.queue.push_back(wqe);
            self.responder.note_answer(now, adapter.config.ack_delay);
        }
        Ok(())
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
        if let Some(wqe) = self.requester.pop() {
            self.complete_send(&wqe, status, adapter);
        }
        if self.spec.kind == QpType::Rc {
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
    }

    /// Stops beginning requests. If the last packets sent asked for no acknowledgement, because
    /// more was to follow, the last one is sent again with the question.
    pub(crate) fn begin_draining(&mut self, adapter: &mut Adapter) {
        self.requester.draining = true;
        self.ask_again();
        self.report_drained(adapter);
    }

    /// What was to follow the last packet will not follow now. If that one asked for no
    /// acknowledgement, it is sent again with the question.
    fn ask_again(&mut self) {
        let requester = &mut self.requester;
        let cursor = requester.cursor_psn();
        if self.spec.kind != QpType::Rc
            || requester.unasked == 0
            || cursor == requester.unacked
            // The answer to a READ or atomic acknowledges all before it.
            || requester.rd_atomics.back().is_some_and(|last| last.next() == cursor)
        {
            return;
        }
        requester.move_cursor_to(cursor.minus(1));
    }

    /// Raises the event of a drained send queue, once.
    pub(crate) fn report_drained(&mut self, adapter: &mut Adapter) {
        let drained = self.requester.draining && self.requester.is_drained();
        if drained && core::mem::take(&mut self.attributes.sqd_notify) {
            adapter.raise(Event::SqDrained(self.qpn));
        }
    }

    /// UC and UD: what has been handed out whole is done.
    fn finish_unreliable(&mut self, adapter: &mut Adapter) {
        while self.requester.sent_whole > 0 {
            self.requester.sent_whole -= 1;
            if let Some(wqe) = self.requester.pop() {
                self.complete_send(&wqe, CompletionStatus::Success, adapter);
            }
        }
        if !self.requester.queue.is_empty() || self.spec.kind == QpType::Rc {
            return;
        }
        self.requester.unacked = self.requester.next_psn;
        self.report_drained(adapter);
    }

    /// The next request packet, if one may be sent now.
    pub(crate) fn next_request(&mut self, now: Time, adapter: &mut Adapter) -> Option<Outgoing> {
        self.finish_unreliable(adapter);
        let sending = matches!(self.state, QpState::Rts | QpState::Sqd);
        if !sending || self.timers.is_running(Timer::RnrRetry) {
            return None;
        }
        while self.execute_local(adapter)? {}
        let (serial, packet) = loop {
            let cursor = self.requester.cursor;
            if self.prepare(cursor.0, adapter)? {
                break cursor;
            }
            // What cannot be sent may have moved the cursor back, to ask for what it waits for.
            if self.requester.cursor == cursor {
                return None;
            }
        };
        let mtu = self.mtu(adapter);
        let wqe = self.requester.wqe(serial)?;
        let begun = wqe.begun?;
        let (count, cost) = self.extent(wqe, packet, adapter);
        let in_flight = self.requester.in_flight(mtu);
        let window = adapter.config.window_bytes;
        let reliable = self.spec.kind == QpType::Rc;
        if reliable && in_flight > 0 && in_flight.saturating_add(cost) > window {
            return None;
        }
        if wqe.is_read_or_atomic()
            && self.requester.rd_atomics.len() >= usize::from(self.attributes.max_rd_atomic)
            && !mutated(Mutation::RdAtomicsUnlimited)
        {
            return None;
        }
        let psn = begun.first_psn.plus(packet);
        let (mut header, body) = self.request_packet(wqe, (serial, packet), count, psn, mtu);
        let ends_message = packet + count == wqe.packets;
        let route = match wqe.operation {
            Operation::Send { address: Some(address), .. } if self.is_datagram() => {
                route_of_datagram(&address)
            }
            _ => self.route,
        };

        // An acknowledgement is asked for when nothing else can follow at once, and now and then.
        let next = if ends_message { (serial + 1, 0) } else { (serial, packet + count) };
        let next_cost =
            self.requester.wqe(next.0).map_or(0, |wqe| self.extent(wqe, next.1, adapter).1);
        let requester = &mut self.requester;
        requester.cursor = next;
        let end = psn.plus(count);
        if psn.is_before(requester.top) {
            adapter.stats.retransmitted_pkts += 1;
        }
        if end.is_after(requester.top) {
            requester.top = end;
        }
        match self.spec.kind {
            QpType::Rc => {
                let draining = requester.draining;
                let waits = requester.wqe(requester.cursor.0).is_none_or(|next| {
                    let alone = next.flags.contains(SendFlags::FENCE) || next.operation.is_local();
                    next.stuck || next.begun.is_none() && (draining || alone)
                });
                let packet = u64::from(mtu.bytes()) + PACKET_OVERHEAD_BYTES;
                let full = in_flight.saturating_add(cost + packet.max(next_cost)) > window;
                requester.unasked += 1;
                let often = requester.unasked >= adapter.config.ack_interval_packets;
                header.bth.ack_request = waits || full || often;
                if header.bth.ack_request {
                    requester.unasked = 0;
                }
                if self.requester.wqe(serial).is_some_and(SendWqe::is_read_or_atomic) {
                    self.requester.rd_atomics.push_back(end.minus(1));
                }
                if !self.timers.is_running(Timer::Retransmit) {
                    self.arm_ack_timer(now);
                }
            }
            QpType::Uc | QpType::Ud if ends_message => requester.sent_whole += 1,
            QpType::Uc | QpType::Ud => {}
        }
        Some(Outgoing { route, header, body })
    }

    /// How many PSNs packet `packet` of `wqe` stands for (a READ request for all responses that it
    /// asks for), and what they count for in flight.
    fn extent(&self, wqe: &SendWqe, packet: u32, adapter: &Adapter) -> (u32, u64) {
        let count = match wqe.operation {
            Operation::Read { .. } => {
                // READs are cut at multiples of the chunk, so that one that is asked again ends
                // where it ended before: the responder answers a duplicate only within its bounds.
                let chunk = self.read_chunk(adapter);
                let end = (packet / chunk).saturating_add(1).saturating_mul(chunk);
                end.min(wqe.packets) - packet
            }
            _ => 1,
        };
        let mtu = self.mtu(adapter);
        (count, wqe.cost(packet + count, mtu) - wqe.cost(packet, mtu))
    }

    /// The most responses that one READ request asks for.
    fn read_chunk(&self, adapter: &Adapter) -> u32 {
        (adapter.config.read_chunk_bytes / self.attributes.path_mtu.bytes()).max(1)
    }

    /// Where the message that holds `unacked` began. A READ that is cut is as many messages to the
    /// responder, which remembers no more of them than may be outstanding.
    pub(crate) fn message_start(&self, adapter: &Adapter) -> Psn {
        let requester = &self.requester;
        let unacked = requester.unacked;
        let Some(wqe) = requester.queue.front() else { return unacked };
        let Some(Begun { first_psn, .. }) = wqe.begun else { return unacked };
        let Operation::Read { .. } = wqe.operation else { return first_psn };
        let chunk = self.read_chunk(adapter);
        first_psn.plus(unacked.distance_from(first_psn) / chunk * chunk)
    }

    /// Starts the local ACK timer anew.
    pub(crate) fn arm_ack_timer(&mut self, now: Time) {
        let timeout = ack_timeout(self.attributes.timeout);
        match timeout.filter(|_| !mutated(Mutation::AckTimerForgotten)) {
            Some(timeout) => self.timers.set(Timer::Retransmit, now + timeout),
            None => self.timers.stop(Timer::Retransmit),
        }
    }

    pub(crate) fn mtu(&self, adapter: &Adapter) -> Mtu {
        if self.is_datagram() { adapter.config.active_mtu } else { self.attributes.path_mtu }
    }

    /// Begins the request `serial` if it is not, and makes sure that its memory is reachable.
    /// `None` if there is no such request, `false` if it has to wait or has failed.
    fn prepare(&mut self, serial: u64, adapter: &mut Adapter) -> Option<bool> {
        let mtu = self.mtu(adapter);
        let pd = self.spec.pd;
        let no_rd_atomics = self.attributes.max_rd_atomic == 0;
        let requester = &mut self.requester;
        let oldest = serial == requester.first_serial;
        let (draining, busy) = (requester.draining, !requester.rd_atomics.is_empty());
        let wqe = requester.wqe_mut(serial)?;
        let beginning = wqe.begun.is_none();
        // IBTA vol 1, 10.8.3.3: a fenced request waits for earlier READs and atomics.
        let fenced = wqe.flags.contains(SendFlags::FENCE) && !mutated(Mutation::FenceIgnored);
        if beginning && (draining || busy && fenced) {
            return Some(false);
        }
        let failure = if wqe.faulted || !wqe.resolve(&adapter.regions, pd) {
            Some(CompletionStatus::LocalProtection)
        } else if wqe.is_read_or_atomic() && no_rd_atomics {
            Some(CompletionStatus::LocalQpOperation)
        } else {
            None
        };
        if let Some(status) = failure {
            // Completions are in order: those before it come first.
            if oldest {
                self.fail_oldest(status, adapter);
            } else if !core::mem::replace(&mut wqe.stuck, true) {
                self.ask_again();
            }
            return Some(false);
        }
        if beginning {
            let (packets, cost) = (wqe.packets, wqe.cost(wqe.packets, mtu));
            let first_psn = requester.next_psn;
            let start_bytes = requester.started_bytes;
            requester.next_psn = first_psn.plus(packets);
            requester.started_bytes += cost;
            if let Some(wqe) = requester.wqe_mut(serial) {
                wqe.begun = Some(Begun { first_psn, start_bytes });
            }
        }
        Some(true)
    }

    /// Does the request at the cursor if it is one for this end alone. `false` if it is not,
    /// `None` if there is none, or it has to wait or has failed.
    ///
    /// Such requests are done in their turn, and complete in their turn: when all before them
    /// have. One that the cursor meets again, going over what was lost, is not done again.
    fn execute_local(&mut self, adapter: &mut Adapter) -> Option<bool> {
        let serial = self.requester.cursor.0;
        let wqe = self.requester.wqe(serial)?;
        let operation = wqe.operation;
        if !operation.is_local() {
            return Some(false);
        }
        if wqe.begun.is_none() {
            let holder = self.holder();
            if !self.prepare(serial, adapter)? {
                return None;
            }
            let done = match operation {
                Operation::BindWindow { r_key, region, address, length, access } => {
                    adapter.regions.bind(holder, &Bind { r_key, region, address, length, access })
                }
                Operation::LocalInvalidate { r_key } => adapter.regions.invalidate(r_key, holder),
                _ => Ok(()),
            };
            let failure = done.is_err().then_some(CompletionStatus::WindowBind);
            if let Some(wqe) = self.requester.wqe_mut(serial) {
                wqe.failure = failure;
            }
        }
        let failed = self.requester.wqe(serial)?.failure.is_some();
        if failed {
            // Nothing after it is begun.
            self.complete_local(adapter);
            return None;
        }
        self.requester.cursor = (serial + 1, 0);
        if self.spec.kind == QpType::Rc {
            self.complete_local(adapter);
        } else {
            self.requester.sent_whole += 1;
            self.finish_unreliable(adapter);
        }
        Some(true)
    }

    /// Completes the requests at the front of the queue that are done at this end alone.
    pub(crate) fn complete_local(&mut self, adapter: &mut Adapter) {
        while let Some(wqe) = self.requester.queue.front() {
            if !wqe.operation.is_local() || wqe.begun.is_none() {
                return;
            }
            match wqe.failure {
                Some(status) => return self.fail_oldest(status, adapter),
                None => {
                    if let Some(wqe) = self.requester.pop() {
                        self.complete_send(&wqe, CompletionStatus::Success, adapter);
                    }
                }
            }
        }
    }

    /// Headers and payload of packet `at.1` of request `at.0`, which stands for `count` PSNs.
    fn request_packet(
        &self,
        wqe: &SendWqe,
        at: (u64, u32),
        count: u32,
        psn: Psn,
        mtu: Mtu,
    ) -> (roce::Repr, Body) {
        let service = match self.spec.kind {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
        };
        let (serial, packet) = at;
        let part = Part::of(packet, wqe.packets);
        let offset = u64::from(packet) * u64::from(mtu.bytes());
        // Below 2^31, as every offset in a message.
        let length = (u64::from(wqe.length) - offset).min(u64::from(mtu.bytes())) as u32;
        let body = Body::Request { serial, offset, length };
        let new = |opcode| roce::Repr::new(opcode, self.attributes.destination, psn);
        let solicited = part.ends() && wqe.flags.contains(SendFlags::SOLICITED);
        match wqe.operation {
            Operation::Send { immediate, address } => {
                let attach = if immediate.is_some() { Attach::Immediate } else { Attach::Nothing };
                let mut header = new(Opcode::send(service, part, attach));
                header.bth.solicited = solicited;
                header.immediate = immediate.filter(|_| part.ends());
                if let Some(address) = address.filter(|_| self.is_datagram()) {
                    header.bth.destination = address.qpn;
                    let q_key = if address.q_key.is_controlled() {
                        self.attributes.q_key
                    } else {
                        address.q_key
                    };
                    header.deth = Some(deth::Repr { q_key, source: self.qpn });
                }
                (header, body)
            }
            Operation::SendInvalidate { r_key } => {
                let mut header = new(Opcode::send(service, part, Attach::Invalidate));
                header.bth.solicited = solicited;
                header.invalidate = Some(r_key).filter(|_| part.ends());
                (header, body)
            }
            Operation::Write { remote_address, r_key, immediate } => {
                let mut header = new(Opcode::write(service, part, immediate.is_some()));
                header.bth.solicited = solicited && immediate.is_some();
                header.immediate = immediate.filter(|_| part.ends());
                let whole = reth::Repr { address: remote_address, r_key, length: wqe.length };
                header.reth = Some(whole).filter(|_| part.begins());
                (header, body)
            }
            Operation::Read { remote_address, r_key } => {
                let mut header = new(Opcode::RC_READ_REQUEST);
                let asked = u64::from(count) * u64::from(mtu.bytes());
                let length = (u64::from(wqe.length) - offset).min(asked) as u32;
                let address = remote_address.wrapping_add(offset);
                header.reth = Some(reth::Repr { address, r_key, length });
                (header, Body::None)
            }
            Operation::CompareSwap { remote_address, r_key, compare, swap } => {
                let mut header = new(Opcode::RC_COMPARE_SWAP);
                header.atomic = Some(wire::atomic_eth::Repr {
                    address: remote_address,
                    r_key,
                    swap_or_add: swap,
                    compare,
                });
                (header, Body::None)
            }
            Operation::FetchAdd { remote_address, r_key, add } => {
                let mut header = new(Opcode::RC_FETCH_ADD);
                header.atomic = Some(wire::atomic_eth::Repr {
                    address: remote_address,
                    r_key,
                    swap_or_add: add,
                    compare: 0,
                });
                (header, Body::None)
            }
            Operation::AtomicWrite { remote_address, r_key, .. } => {
                let mut header = new(Opcode::RC_ATOMIC_WRITE);
                let whole = reth::Repr { address: remote_address, r_key, length: wqe.length };
                header.reth = Some(whole);
                (header, body)
            }
            Operation::BindWindow { .. } | Operation::LocalInvalidate { .. } => {
                unreachable!("done at this end before any packet is made")
            }
        }
    }

    /// The payload of a request packet could not be read: its request fails as if its key had
    /// been refused, once those before it are done.
    pub(crate) fn request_faulted(&mut self, header: &roce::Repr) {
        let requester = &mut self.requester;
        let serial = if self.spec.kind == QpType::Rc {
            requester.move_cursor_to(header.bth.psn);
            requester.cursor.0
        } else if header.facts().part.ends() {
            // It was counted as sent whole, and the cursor has left it.
            requester.sent_whole = requester.sent_whole.saturating_sub(1);
            requester.cursor = (requester.cursor.0.saturating_sub(1), 0);
            requester.cursor.0
        } else {
            requester.cursor.0
        };
        if let Some(wqe) = requester.wqe_mut(serial) {
            wqe.faulted = true;
        }
    }
}

/// Refuses what a transport does not have (zhang17, table 1; IBTA vol 1, table 37).
fn check_operation(kind: QpType, request: &WorkRequest<'_>) -> Result<(), PostError> {
    let inline = request.inline.is_some();
    match (kind, request.operation) {
        (QpType::Ud, Operation::Send { address: None, .. }) => Err(PostError::Address),
        (_, Operation::Send { .. }) => Ok(()),
        (QpType::Rc | QpType::Uc, Operation::Write { .. }) => Ok(()),
        (
            QpType::Rc,
            Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. },
        ) if !inline => Ok(()),
        (QpType::Rc, Operation::SendInvalidate { .. } | Operation::AtomicWrite { .. }) => Ok(()),
        (QpType::Rc | QpType::Uc, operation) if operation.is_local() => Ok(()),
        _ => Err(PostError::Opcode),
    }
}
