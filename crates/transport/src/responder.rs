//! The responder: executes the peer's requests (IBTA vol 1, 9.7.4 and 9.7.5).
//!
//! A request passes the column of checks in [`Qp::respond`], in the order of the specification,
//! and is executed and acknowledged at its end. What fails a check becomes a [`Refusal`], and
//! [`Qp::refuse`] (`refusal.rs`) is the one place that says what a refusal does. What it answers, at
//! once or again, is in `replies.rs`; the short way of packets that would pass every check for the
//! same reasons as the one before is in `middle.rs`.

mod ahead;
mod middle;
mod refusal;
mod replies;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use rdma::{
    Access, Completion, CompletionOpcode, CompletionStatus, Key, Memory, Psn, QpState, QpType,
    Span, Time, completion::Attached,
};
use wire::aeth::Syndrome;
use wire::opcode::{Facts, Operation, Part};
use wire::{reth, roce};

use crate::adapter::Adapter;
use crate::limits::{ANSWERS_BEFORE_ACK_WAITS, ANSWERS_MAX, MESSAGE_BYTES_MAX, REPLIES_MAX};
use crate::mutation::{Mutation, mutated};
use crate::qp::Qp;
use crate::recovery::{Bounds, Strategy, Window as Ahead};
use crate::recv::{RecvWqe, ScatterError};
use crate::region::{Epoch, Holder};
use crate::stats::Drop;
use crate::timer::Timer;
use crate::{CqId, Event, PdId, QpSpec, SrqId};

/// A request packet.
pub(crate) struct Request<'h, 'p, M: Memory> {
    pub(crate) header: &'h roce::Repr,
    /// What is true of its opcode.
    pub(crate) facts: &'static Facts,
    pub(crate) payload: M::Payload<'p>,
    pub(crate) length: usize,
}

impl<'h, 'p, M: Memory> Request<'h, 'p, M> {
    pub(crate) fn new(header: &'h roce::Repr, payload: M::Payload<'p>, length: usize) -> Self {
        Self { header, facts: header.facts(), payload, length }
    }
}

/// Why a request is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// It changes nothing.
    Ignore(Drop),
    /// It was executed before, and has been answered again.
    Duplicate,
    /// Requests before it are missing.
    SequenceError,
    /// No receive is posted.
    NotReady,
    /// Malformed, too long or unsupported. The receive that the message had taken fails so.
    Invalid(CompletionStatus),
    /// A key, its bounds or rights do not fit.
    Access,
    /// Our own receive is at fault, with this status.
    Local(CompletionStatus),
}

/// A message of which the first packet has come, and the last has not.
#[derive(Clone, Copy, Debug)]
struct Message {
    first_psn: Psn,
    received: u64,
    target: Target,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    /// The receive request that was taken.
    Receive,
    /// A part of a region.
    Region(Window),
}

/// Where the receives of a request come from and complete, and in which protection domain it acts.
/// For XRC the shared receive queue says it that the request names; else the queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) pd: PdId,
    pub(crate) srq: Option<SrqId>,
    pub(crate) cq: CqId,
}

/// A receive request that a message has taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) wqe: RecvWqe,
    pub(crate) place: Place,
}

/// Where an RDMA request goes to or comes from.
#[derive(Clone, Copy, Debug)]
struct Window {
    pd: PdId,
    iova: u64,
    r_key: Key,
    length: u32,
    /// Its address in memory, and how old that is.
    address: u64,
    epoch: Epoch,
}

/// What is kept to answer a duplicate READ or atomic (9.7.5.1.5).
#[derive(Clone, Copy, Debug)]
struct Resource {
    first_psn: Psn,
    packets: u32,
    kind: ResourceKind,
}

#[derive(Clone, Copy, Debug)]
enum ResourceKind {
    Read { pd: PdId, iova: u64, r_key: Key, length: u32 },
    Atomic { original: u64 },
    AtomicWrite,
}

/// An answer that waits to be sent.
#[derive(Clone, Copy, Debug)]
enum Reply {
    Acknowledge {
        psn: Psn,
        syndrome: Syndrome,
        msn: u32,
    },
    Atomic {
        psn: Psn,
        original: u64,
        msn: u32,
    },
    /// That `psn` is missing, and what has arrived behind it when this is sent.
    Selective {
        psn: Psn,
        msn: u32,
    },
    /// `again` if it was answered before.
    Read {
        first_psn: Psn,
        packets: u32,
        sent: u32,
        window: Window,
        msn: u32,
        again: bool,
    },
}

/// The receiving side of a queue pair.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    expected: Psn,
    /// Messages completed, modulo 2^24.
    msn: u32,
    message: Option<Message>,
    /// The receive request of the message.
    taken: Option<Taken>,
    /// A NAK for `expected` is out: no other until it has come (9.7.5.1.3).
    nak_sent: bool,
    /// What waits for its turn, if the peer repeats selectively.
    ahead: Option<Box<Ahead>>,
    /// Whether the first packet has come.
    established: bool,
    replies: VecDeque<Reply>,
    resources: VecDeque<Resource>,
    /// When the last message ended that the application has not answered yet.
    unanswered_since: Option<Time>,
    /// How surely the application answers a message with one of its own at once: up with each that
    /// it does, down with each that it does not.
    answers: u8,
}

impl Responder {
    /// Ready to receive from `psn` on.
    pub(crate) fn begin(&mut self, psn: Psn, kept: Option<Bounds>) {
        self.expected = psn;
        self.ahead = kept.map(|bounds| Box::new(Ahead::new(bounds, psn)));
    }

    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    pub(crate) fn forget_replies(&mut self) {
        self.replies.clear();
    }

    /// Gives up the message in progress. Returns the receive that it had taken.
    pub(crate) fn abandon_message(&mut self) -> Option<Taken> {
        self.message = None;
        self.taken.take()
    }

    /// The application posts a send: an answer, if a message came just before.
    pub(crate) fn note_answer(&mut self, now: Time, delay: Span) {
        if let Some(since) = self.unanswered_since.take() {
            if now.since(since) < delay {
                self.answers = (self.answers + 1).min(ANSWERS_MAX);
            } else {
                self.answer_did_not_come();
            }
        }
    }

    /// An acknowledgement waited for a request in vain, or would have.
    pub(crate) fn answer_did_not_come(&mut self) {
        self.answers = self.answers.saturating_sub(ANSWERS_BEFORE_ACK_WAITS);
        self.unanswered_since = None;
    }

    /// Queues an acknowledgement. If they `coalesce`, or no more fit, one that directly follows
    /// another takes its place.
    fn acknowledge(&mut self, psn: Psn, coalesce: bool) {
        let msn = self.msn;
        let reply = Reply::Acknowledge { psn, syndrome: Syndrome::ACK, msn };
        let replaces = coalesce || self.replies.len() >= REPLIES_MAX;
        match self.replies.back_mut() {
            Some(last @ Reply::Acknowledge { syndrome: Syndrome::Ack { .. }, .. }) if replaces => {
                *last = reply;
            }
            _ => self.push_reply(reply),
        }
    }

    fn nak(&mut self, syndrome: Syndrome) {
        let reply = Reply::Acknowledge { psn: self.expected, syndrome, msn: self.msn };
        self.push_reply(reply);
    }

    /// An atomic write is answered by a READ response without data (annex A19).
    fn answer_atomic_write(&mut self, psn: Psn, msn: u32, again: bool) {
        let (pd, epoch) = (PdId::NONE, <_>::default());
        let window = Window { pd, iova: 0, r_key: Key(0), length: 0, address: 0, epoch };
        let reply = Reply::Read { first_psn: psn, packets: 1, sent: 0, window, msn, again };
        self.push_reply(reply);
    }

    /// A peer that asks without end, and a driver that never comes for the answers, fill no memory.
    fn push_reply(&mut self, reply: Reply) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push_back(reply);
        }
    }

    /// Keeps what answers a duplicate, and forgets the oldest of more than `limit`.
    fn keep(&mut self, resource: Resource, limit: u8) {
        let limit = if mutated(Mutation::AnswersForgotten) { 1 } else { limit };
        while self.resources.len() >= usize::from(limit.max(1)) {
            self.resources.pop_front();
        }
        self.resources.push_back(resource);
    }

    /// READs that have not been answered once. (A duplicate may come late, when the requester has
    /// its answer and uses the resource for another.)
    fn reads_in_progress(&self) -> usize {
        let is_first = |reply: &&Reply| matches!(reply, Reply::Read { again: false, .. });
        self.replies.iter().filter(is_first).count()
    }
}

impl Qp {
    /// Takes a request of a connected service.
    pub(crate) fn handle_request<M: Memory>(
        &mut self,
        now: Time,
        request: &Request<'_, '_, M>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        if self.state == QpState::Rtr && !self.responder.established {
            self.responder.established = true;
            adapter.raise(Event::CommunicationEstablished(self.qpn));
        }
        // Only the acknowledgement of what comes now may wait, and only while it is alone.
        self.timers.stop(Timer::AckDelay);
        match self.respond(request, memory, adapter) {
            Ok(()) if self.responder.keeps_some() => self.respond_to_kept(memory, adapter),
            Ok(()) => {
                self.await_answer(now, request, adapter);
                Ok(())
            }
            Err(Refusal::Duplicate) => Ok(()),
            Err(Refusal::SequenceError) if self.responder.ahead.is_some() => {
                self.keep_ahead(request, adapter)
            }
            Err(refusal) => self.refuse(refusal, adapter),
        }
    }

    /// Lets the acknowledgement of a message wait for the request that the application is likely
    /// to answer with: the two then travel together, and the peer, who polls for the one, meets
    /// the other. The specification lets a responder coalesce acknowledgements as it likes
    /// (9.7.5.1.2); the wait is far below any timeout.
    fn await_answer<M: Memory>(
        &mut self,
        now: Time,
        request: &Request<'_, '_, M>,
        adapter: &Adapter,
    ) {
        let delay = adapter.config.ack_delay;
        if delay == Span::ZERO || !request.facts.part.ends() {
            return;
        }
        let responder = &mut self.responder;
        responder.unanswered_since = Some(now);
        let alone = matches!(
            responder.replies.make_contiguous(),
            [Reply::Acknowledge { syndrome: Syndrome::Ack { .. }, .. }]
        );
        if alone && self.state == QpState::Rts && responder.answers >= ANSWERS_BEFORE_ACK_WAITS {
            self.timers.set(Timer::AckDelay, now + delay);
        }
    }

    fn respond<M: Memory>(
        &mut self,
        request: &Request<'_, '_, M>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Refusal> {
        self.check_psn(request, adapter)?;
        self.check_sequence(request)?;
        self.check_operation(request)?;
        let place = self.check_queue(request, adapter)?;
        self.check_resources(request, &place, adapter)?;
        self.check_length(request)?;
        let window = self.check_key(request, &place, adapter)?;
        self.execute(request, &place, window, memory, adapter)?;
        self.advance(request, adapter);
        Ok(())
    }

    /// 9.7.4.1.1: the PSN is the one expected, or the request is a duplicate, or some are missing.
    fn check_psn<M: Memory>(
        &mut self,
        request: &Request<'_, '_, M>,
        adapter: &mut Adapter,
    ) -> Result<(), Refusal> {
        let psn = request.header.bth.psn;
        let expected = self.responder.expected;
        let is_ahead = psn.is_after(expected);
        let skips = mutated(Mutation::HoleAccepted) && is_ahead;
        let repeats = mutated(Mutation::DuplicateExecuted) && !is_ahead;
        if psn == expected || self.spec.kind.is_reliable() && (skips || repeats) {
            return Ok(());
        }
        if self.spec.kind == QpType::Uc && mutated(Mutation::HoleOfUcIgnored) {
            return Ok(());
        }
        if self.spec.kind == QpType::Uc {
            // 9.8.2.2.1: the message that misses a packet is lost; the next one may begin.
            self.responder.message = None;
            self.responder.expected = psn;
            if request.facts.part.begins() {
                return Ok(());
            }
            self.responder.expected = psn.next();
            return Err(Refusal::Ignore(Drop::OutOfOrder));
        }
        if is_ahead {
            adapter.stats.out_of_seq_request += 1;
            return Err(Refusal::SequenceError);
        }
        let recovery = self.recovery(adapter);
        let restarts =
            |message: Message| message.first_psn == psn && recovery.resume_at(psn, expected) == psn;
        if self.responder.message.is_some_and(restarts) {
            // The requester has begun the message anew, and so do we.
            self.responder.expected = psn;
            self.responder.message = None;
            return Ok(());
        }
        adapter.stats.duplicate_request += 1;
        self.answer_duplicate(request, adapter);
        Err(Refusal::Duplicate)
    }

    /// 9.7.4.1.2: first, middle, last and only come in an order that makes messages.
    fn check_sequence<M: Memory>(&mut self, request: &Request<'_, '_, M>) -> Result<(), Refusal> {
        let facts = request.facts;
        let fits = match (facts.operation, self.responder.message) {
            (_, None) => facts.part.begins(),
            (Operation::Send, Some(Message { target: Target::Receive, .. })) => {
                !facts.part.begins()
            }
            (Operation::Write, Some(Message { target: Target::Region(_), .. })) => {
                !facts.part.begins()
            }
            (_, Some(_)) => false,
        };
        if fits {
            return Ok(());
        }
        if self.spec.kind == QpType::Uc {
            // 9.8.2.2.2: what was begun is dropped; a message that begins here may still come.
            self.responder.message = None;
            return if facts.part.begins() {
                Ok(())
            } else {
                Err(Refusal::Ignore(Drop::OutOfOrder))
            };
        }
        Err(Refusal::Invalid(CompletionStatus::Flushed))
    }

    /// 9.7.4.1.3: the queue pair was given the right.
    fn check_operation<M: Memory>(&self, request: &Request<'_, '_, M>) -> Result<(), Refusal> {
        let facts = request.facts;
        let needed = match facts.operation {
            Operation::Send => Access::NONE,
            Operation::Write | Operation::AtomicWrite => Access::REMOTE_WRITE,
            Operation::ReadRequest => Access::REMOTE_READ,
            Operation::CompareSwap | Operation::FetchAdd => Access::REMOTE_ATOMIC,
            _ => return Err(Refusal::Invalid(CompletionStatus::Flushed)),
        };
        if !self.attributes.access.allows(needed) {
            return Err(Refusal::Invalid(CompletionStatus::Flushed));
        }
        Ok(())
    }

    /// Annex A14: a request of XRC names a shared receive queue of the queue pair's own domain, the
    /// same one in all packets of a message that takes a receive.
    fn check_queue<M: Memory>(
        &self,
        request: &Request<'_, '_, M>,
        adapter: &Adapter,
    ) -> Result<Place, Refusal> {
        let QpSpec { pd, srq, recv_cq: cq, .. } = self.spec;
        let place = match (self.domain, request.header.xrc_srqn) {
            (None, _) => Some(Place { pd, srq, cq }),
            (Some(domain), Some(number)) => adapter.xrc_place(domain, number),
            (Some(_), None) => None,
        };
        let place = place.ok_or(Refusal::Invalid(CompletionStatus::Flushed))?;
        let takes =
            request.facts.operation == Operation::Send || request.header.immediate.is_some();
        let other = self.responder.taken.as_ref().is_some_and(|taken| taken.place != place);
        if takes && other {
            return Err(Refusal::Invalid(CompletionStatus::Flushed));
        }
        Ok(place)
    }

    /// 9.7.4.1.4: a receive is posted, a READ or atomic resource is free.
    fn check_resources<M: Memory>(
        &mut self,
        request: &Request<'_, '_, M>,
        place: &Place,
        adapter: &mut Adapter,
    ) -> Result<(), Refusal> {
        let facts = request.facts;
        let consumes = match facts.operation {
            Operation::Send => facts.part.begins(),
            Operation::Write => request.header.immediate.is_some(),
            _ => {
                let limit = self.attributes.max_dest_rd_atomic;
                if self.responder.reads_in_progress() >= usize::from(limit) {
                    return Err(Refusal::Invalid(CompletionStatus::Flushed));
                }
                false
            }
        };
        // A UC message that was dropped half-way leaves its receive for the next one.
        if consumes && self.responder.taken.is_none() {
            let wqe = self.take_receive(place.srq, adapter).ok_or(Refusal::NotReady)?;
            self.responder.taken = Some(Taken { wqe, place: *place });
        }
        Ok(())
    }

    /// The oldest receive request, of the queue pair's own queue or of the shared one.
    pub(crate) fn take_receive(
        &mut self,
        srq: Option<SrqId>,
        adapter: &mut Adapter,
    ) -> Option<RecvWqe> {
        match srq {
            Some(srq) => adapter.take_shared(srq),
            None => self.recv.take(),
        }
    }

    /// 9.7.4.1.6: payloads are as long as their place in the message says.
    fn check_length<M: Memory>(&self, request: &Request<'_, '_, M>) -> Result<(), Refusal> {
        let mtu = self.attributes.path_mtu.bytes() as usize;
        let length = request.length;
        let facts = request.facts;
        let fits = match facts.part {
            Part::First | Part::Middle => length == mtu,
            Part::Last => (1..=mtu).contains(&length),
            Part::Only => length <= mtu,
        };
        let invalid = Err(Refusal::Invalid(CompletionStatus::Flushed));
        if facts.payload && !fits && !mutated(Mutation::PacketLengthIgnored) {
            return invalid;
        }
        let length = length as u64;
        let received = self.responder.message.map_or(0, |message| message.received);
        match facts.operation {
            Operation::Send => {
                let capacity = self.responder.taken.as_ref().map_or(0, |taken| taken.wqe.capacity);
                if received + length > capacity.min(u64::from(MESSAGE_BYTES_MAX)) {
                    return Err(Refusal::Invalid(CompletionStatus::LocalLength));
                }
            }
            Operation::Write => {
                let whole = match (request.header.reth, self.responder.message) {
                    (Some(reth), _) => reth.length,
                    (None, Some(Message { target: Target::Region(window), .. })) => window.length,
                    (None, _) => return invalid,
                };
                let so_far = received + length;
                let fits = if facts.part.ends() {
                    so_far == u64::from(whole)
                } else {
                    so_far < u64::from(whole)
                };
                if !fits || whole > MESSAGE_BYTES_MAX {
                    return invalid;
                }
            }
            Operation::ReadRequest => {
                if request.header.reth.is_none_or(|reth| reth.length > MESSAGE_BYTES_MAX) {
                    return invalid;
                }
            }
            Operation::AtomicWrite => {
                let word = |reth: reth::Repr| reth.length == 8 && reth.address.is_multiple_of(8);
                if length != 8 || !request.header.reth.is_some_and(word) {
                    return invalid;
                }
            }
            _ => {
                if request.header.atomic.is_none_or(|atomic| atomic.address % 8 != 0) {
                    return invalid;
                }
            }
        }
        Ok(())
    }

    /// 9.7.4.1.5: the R_Key reaches the whole of what the request names. The rest of a WRITE is
    /// checked again when a region may have gone since its first packet.
    fn check_key<M: Memory>(
        &self,
        request: &Request<'_, '_, M>,
        place: &Place,
        adapter: &Adapter,
    ) -> Result<Option<Window>, Refusal> {
        let header = request.header;
        let pd = place.pd;
        let holder = Holder { pd, qpn: self.qpn };
        // 9.4.1.1.3: the key that a SEND invalidates is one that this queue pair's peer may.
        let invalidates = header.invalidate;
        if invalidates.is_some_and(|key| !adapter.regions.may_invalidate(key, holder)) {
            return Err(Refusal::Access);
        }
        let (iova, r_key, length, needed) = match (request.facts.operation, header.reth) {
            (Operation::Write | Operation::AtomicWrite, Some(reth)) => {
                (reth.address, reth.r_key, reth.length, Access::REMOTE_WRITE)
            }
            (Operation::ReadRequest, Some(reth)) => {
                (reth.address, reth.r_key, reth.length, Access::REMOTE_READ)
            }
            (Operation::Write, None) => match self.responder.message {
                Some(Message { target: Target::Region(window), .. }) => {
                    if window.epoch == adapter.regions.epoch() {
                        return Ok(Some(window));
                    }
                    (window.iova, window.r_key, window.length, Access::REMOTE_WRITE)
                }
                _ => return Ok(None),
            },
            (Operation::CompareSwap | Operation::FetchAdd, _) => match header.atomic {
                Some(atomic) => (atomic.address, atomic.r_key, 8, Access::REMOTE_ATOMIC),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let epoch = adapter.regions.epoch();
        // C9-88: a request for no bytes needs no valid key.
        if length == 0 {
            return Ok(Some(Window { pd, iova, r_key, length, address: 0, epoch }));
        }
        adapter
            .regions
            .resolve_remote(r_key, holder, iova, u64::from(length), needed)
            .map(|address| Some(Window { pd, iova, r_key, length, address, epoch }))
            .map_err(|_| Refusal::Access)
    }

    /// Does what is asked.
    fn execute<M: Memory>(
        &mut self,
        request: &Request<'_, '_, M>,
        place: &Place,
        window: Option<Window>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Refusal> {
        let facts = request.facts;
        let psn = request.header.bth.psn;
        let fresh = |target| Message { first_psn: psn, received: 0, target };
        match (facts.operation, window) {
            (Operation::Send, _) => {
                let mut message = self.responder.message.unwrap_or_else(|| fresh(Target::Receive));
                let taken = self.responder.taken.as_mut();
                let taken = taken.ok_or(Refusal::Local(CompletionStatus::LocalQpOperation))?;
                let payload = (request.payload, request.length);
                taken
                    .wqe
                    .scatter(&adapter.regions, place.pd, message.received, payload, memory)
                    .map_err(|error| match error {
                        ScatterError::Length => Refusal::Invalid(CompletionStatus::LocalLength),
                        ScatterError::Protection => {
                            Refusal::Local(CompletionStatus::LocalProtection)
                        }
                    })?;
                message.received += request.length as u64;
                self.responder.message = Some(message);
                if let Some(key) = request.header.invalidate {
                    let holder = Holder { pd: place.pd, qpn: self.qpn };
                    let invalidated = adapter.regions.invalidate(key, holder);
                    invalidated.map_err(|_| Refusal::Access)?;
                }
                if facts.part.ends() {
                    self.complete_recv(request, CompletionOpcode::Recv, adapter);
                }
            }
            (Operation::Write, Some(window)) => {
                let target = Target::Region(window);
                let mut message = self.responder.message.unwrap_or_else(|| fresh(target));
                message.target = target;
                if request.length > 0 {
                    let address = window.address + message.received;
                    memory
                        .write(address, request.payload, 0, request.length)
                        .map_err(|_| Refusal::Access)?;
                }
                message.received += request.length as u64;
                self.responder.message = Some(message);
                if facts.part.ends() {
                    adapter.stats.rx_write_requests += 1;
                    if request.header.immediate.is_some() {
                        self.complete_recv(request, CompletionOpcode::RecvWriteImmediate, adapter);
                    }
                }
            }
            (Operation::ReadRequest, Some(window)) => {
                adapter.stats.rx_read_requests += 1;
                let packets = self.attributes.path_mtu.packets(window.length);
                let Window { pd, iova, r_key, length, .. } = window;
                let kind = ResourceKind::Read { pd, iova, r_key, length };
                let resource = Resource { first_psn: psn, packets, kind };
                self.responder.keep(resource, self.attributes.max_dest_rd_atomic);
                let msn = self.responder.msn + 1;
                let (first_psn, again) = (psn, false);
                let reply = Reply::Read { first_psn, packets, sent: 0, window, msn, again };
                self.responder.push_reply(reply);
            }
            (Operation::CompareSwap | Operation::FetchAdd, Some(window)) => {
                let atomic = request.header.atomic.ok_or(Refusal::Access)?;
                let swaps = facts.operation == Operation::CompareSwap;
                let original = memory
                    .fetch_update(window.address, |word| match swaps {
                        true if word == atomic.compare => atomic.swap_or_add,
                        true => word,
                        false => word.wrapping_add(atomic.swap_or_add),
                    })
                    .map_err(|_| Refusal::Access)?;
                adapter.stats.rx_atomic_requests += 1;
                let kind = ResourceKind::Atomic { original };
                let resource = Resource { first_psn: psn, packets: 1, kind };
                if !mutated(Mutation::AtomicForgotten) {
                    self.responder.keep(resource, self.attributes.max_dest_rd_atomic);
                }
                let msn = self.responder.msn + 1;
                self.responder.push_reply(Reply::Atomic { psn, original, msn });
            }
            (Operation::AtomicWrite, Some(window)) => {
                // Memory stores the last eight bytes of a payload all at once.
                memory
                    .write(window.address, request.payload, 0, request.length)
                    .map_err(|_| Refusal::Access)?;
                adapter.stats.rx_atomic_requests += 1;
                let kind = ResourceKind::AtomicWrite;
                let resource = Resource { first_psn: psn, packets: 1, kind };
                self.responder.keep(resource, self.attributes.max_dest_rd_atomic);
                let msn = self.responder.msn + 1;
                self.responder.answer_atomic_write(psn, msn, false);
            }
            _ => return Err(Refusal::Invalid(CompletionStatus::Flushed)),
        }
        Ok(())
    }

    /// Writes the completion of the receive that the message has taken.
    fn complete_recv<M: Memory>(
        &mut self,
        request: &Request<'_, '_, M>,
        opcode: CompletionOpcode,
        adapter: &mut Adapter,
    ) {
        let Some(Taken { wqe, place }) = self.responder.taken.take() else { return };
        let received = self.responder.message.map_or(0, |message| message.received);
        let completion = Completion {
            byte_len: u32::try_from(received).unwrap_or(u32::MAX),
            attached: match (request.header.immediate, request.header.invalidate) {
                (Some(_), _) if mutated(Mutation::ImmediateDropped) => Attached::None,
                (Some(bytes), _) => Attached::Immediate(bytes),
                (None, Some(_)) if mutated(Mutation::InvalidatedUnsaid) => Attached::None,
                (None, Some(key)) => Attached::Invalidated(key),
                (None, None) => Attached::None,
            },
            solicited: request.header.bth.solicited && !mutated(Mutation::SolicitedDropped),
            ..self.blank_completion(wqe.id, CompletionStatus::Success, opcode)
        };
        adapter.complete(place.cq, completion);
    }

    /// The request is done: the next one is expected, and this one acknowledged if it asks.
    fn advance<M: Memory>(&mut self, request: &Request<'_, '_, M>, adapter: &Adapter) {
        let facts = request.facts;
        let psn = request.header.bth.psn;
        let packets = self.packets(request.header);
        let responder = &mut self.responder;
        responder.expected = psn.plus(packets);
        responder.nak_sent = false;
        if facts.part.ends() {
            responder.message = None;
            responder.msn = (responder.msn + 1) & 0x00ff_ffff;
        }
        let answers_itself = matches!(
            facts.operation,
            Operation::ReadRequest
                | Operation::CompareSwap
                | Operation::FetchAdd
                | Operation::AtomicWrite
        );
        if self.spec.kind.is_reliable() && request.header.bth.ack_request && !answers_itself {
            responder.acknowledge(psn, adapter.config.coalesce_acks);
        }
    }
}
