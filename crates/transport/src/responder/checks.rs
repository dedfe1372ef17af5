//! The column of checks that each request passes, in the order of the specification
//! ([`Qp::respond`]), and what is done at its end.

use rdma::{
    Access, Completion, CompletionOpcode, CompletionStatus, Memory, QpState, QpType, Span, Time,
    completion::Attached, mtu,
};
use wire::aeth::Syndrome;
use wire::bth::{Sign, Stride};
use wire::opcode::{Operation, Part};
use wire::reth;

use super::{
    Message, Refusal, RemoteTarget, Reply, Request, Resource, ResourceKind, Taken, Target,
};
use crate::adapter::Adapter;
use crate::failure::{Fault, KeyViolation};
use crate::limits::{ANSWERS_BEFORE_ACK_WAITS, MESSAGE_BYTES_MAX};
use crate::mutation::{Mutation, mutated};
use crate::qp::Qp;
use crate::recv::{Place, RecvWqe, ScatterError};
use crate::region::Holder;
use crate::stats::Drop;
use crate::timer::Timer;
use crate::{Event, QpSpec, SrqId};

/// A request that may not be; a receive that it had taken is flushed.
fn invalid(fault: Fault) -> Refusal {
    Refusal::Invalid(CompletionStatus::Flushed, fault)
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
        self.follow_sign(request.header.bth.sign != Sign::None);
        self.follow_narrowing(&request.header.bth);
        if request.facts.operation == Operation::ReadRequest && self.responder.ahead.is_some() {
            self.shape(now, request.header);
        }
        // Only the acknowledgement of this request may wait, and only while it is alone.
        self.timers.stop(Timer::AckDelay);
        match self.respond(request, memory, adapter) {
            Ok(()) if self.responder.keeps_anything() => self.respond_to_kept(memory, adapter),
            Ok(()) => {
                self.await_answer(now, request, adapter);
                Ok(())
            }
            Err(Refusal::Duplicate) => Ok(()),
            Err(Refusal::SequenceError) if self.responder.ahead.is_some() => {
                self.keep_ahead(request, adapter)
            }
            Err(refusal) => self.refuse(refusal, request.header, adapter),
        }
    }

    /// Lets the acknowledgement of a message wait for the request with which the application is
    /// likely to answer. The two then travel together, and the peer receives both without a
    /// wake-up. The specification lets a responder coalesce acknowledgements as it likes
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

    pub(super) fn respond<M: Memory>(
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
        let remote = self.check_key(request, &place, adapter)?;
        self.execute(request, &place, remote, memory, adapter)?;
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
            // 9.8.2.2.1: a message with a missing packet is lost; the next one may begin.
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
            // The requester has begun the message anew, and so does the responder.
            self.responder.expected = psn;
            self.responder.message = None;
            return Ok(());
        }
        if self.is_of_two(request.header) {
            adapter.stats.rcvd_read_copies += 1;
            return Err(Refusal::Duplicate);
        }
        adapter.stats.duplicate_request += 1;
        self.answer_duplicate(request, adapter);
        Err(Refusal::Duplicate)
    }

    /// 9.7.4.1.2: first, middle, last and only come in an order that makes messages.
    fn check_sequence<M: Memory>(&mut self, request: &Request<'_, '_, M>) -> Result<(), Refusal> {
        let facts = request.facts;
        let fits = match (facts.operation, &self.responder.message) {
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
            // 9.8.2.2.2: the message in progress is dropped; one that begins here may still arrive.
            self.responder.message = None;
            return if facts.part.begins() {
                Ok(())
            } else {
                Err(Refusal::Ignore(Drop::OutOfOrder))
            };
        }
        Err(invalid(Fault::Sequence))
    }

    /// 9.7.4.1.3: the queue pair was given the right.
    fn check_operation<M: Memory>(&self, request: &Request<'_, '_, M>) -> Result<(), Refusal> {
        let facts = request.facts;
        let needed = match facts.operation {
            Operation::Send => Access::NONE,
            Operation::Write | Operation::AtomicWrite => Access::REMOTE_WRITE,
            Operation::ReadRequest => Access::REMOTE_READ,
            Operation::CompareSwap | Operation::FetchAdd => Access::REMOTE_ATOMIC,
            _ => return Err(invalid(Fault::Operation)),
        };
        if !self.attributes.access.allows(needed) {
            return Err(invalid(Fault::Right));
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
        let place = place.ok_or(invalid(Fault::Queue))?;
        let takes =
            request.facts.operation == Operation::Send || request.header.immediate.is_some();
        let other = self.responder.taken.as_ref().is_some_and(|taken| taken.place != place);
        if takes && other {
            return Err(invalid(Fault::Queue));
        }
        Ok(place)
    }

    /// 9.7.4.1.4: a receive is posted, or a resource for a READ or atomic is free.
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
                    return Err(invalid(Fault::Reads));
                }
                false
            }
        };
        // A dropped UC message leaves its receive to the next one.
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
        let stride = self.stride_of(request.header) as usize;
        let length = request.length();
        let facts = request.facts;
        let fits = match facts.part {
            Part::First | Part::Middle => length == stride,
            Part::Last => (1..=stride).contains(&length),
            Part::Only => length <= stride,
        };
        if facts.payload && !fits && !mutated(Mutation::PacketLengthIgnored) {
            return Err(invalid(Fault::PacketLength));
        }
        let length = length as u64;
        let received = self.responder.message.as_ref().map_or(0, |message| message.received);
        match facts.operation {
            Operation::Send => {
                let capacity = self.responder.taken.as_ref().map_or(0, |taken| taken.wqe.capacity);
                if received + length > capacity.min(u64::from(MESSAGE_BYTES_MAX)) {
                    let status = CompletionStatus::LocalLength;
                    return Err(Refusal::Invalid(status, Fault::ReceiveTooShort));
                }
            }
            Operation::Write => {
                let whole = match (&request.header.reth, &self.responder.message) {
                    (Some(reth), _) => reth.length,
                    (None, Some(Message { target: Target::Region(remote), .. })) => remote.length,
                    (None, _) => return Err(invalid(Fault::Sequence)),
                };
                let so_far = received + length;
                let fits = if facts.part.ends() {
                    so_far == u64::from(whole)
                } else {
                    so_far < u64::from(whole)
                };
                if !fits || whole > MESSAGE_BYTES_MAX {
                    let fault = if fits { Fault::TooLong } else { Fault::MessageLength };
                    return Err(invalid(fault));
                }
            }
            Operation::ReadRequest => {
                if request.header.reth.is_none_or(|reth| reth.length > MESSAGE_BYTES_MAX) {
                    return Err(invalid(Fault::TooLong));
                }
            }
            Operation::AtomicWrite => {
                let word = |reth: reth::Repr| reth.length == 8 && reth.address.is_multiple_of(8);
                if length != 8 || !request.header.reth.is_some_and(word) {
                    return Err(invalid(Fault::Alignment));
                }
            }
            _ => {
                if request.header.atomic.is_none_or(|atomic| atomic.address % 8 != 0) {
                    return Err(invalid(Fault::Alignment));
                }
            }
        }
        Ok(())
    }

    /// 9.7.4.1.5: the R_Key reaches the whole of what the request names. The rest of a WRITE is
    /// checked again if a region may have been deregistered since its first packet.
    fn check_key<M: Memory>(
        &self,
        request: &Request<'_, '_, M>,
        place: &Place,
        adapter: &Adapter,
    ) -> Result<Option<RemoteTarget>, Refusal> {
        let header = request.header;
        let pd = place.pd;
        let holder = Holder { pd, qpn: self.qpn };
        // 9.4.1.1.3: the peer of this queue pair may invalidate the key.
        let invalidates = header.invalidate;
        if invalidates.is_some_and(|key| !adapter.regions.may_invalidate(key, holder)) {
            return Err(Refusal::Access(Fault::Key(KeyViolation::Binding)));
        }
        let (iova, r_key, length, needed) = match (request.facts.operation, header.reth) {
            (Operation::Write | Operation::AtomicWrite, Some(reth)) => {
                (reth.address, reth.r_key, reth.length, Access::REMOTE_WRITE)
            }
            (Operation::ReadRequest, Some(reth)) => {
                (reth.address, reth.r_key, reth.length, Access::REMOTE_READ)
            }
            (Operation::Write, None) => match self.responder.message {
                Some(Message { target: Target::Region(remote), .. }) => {
                    if remote.epoch == adapter.regions.epoch() {
                        return Ok(Some(remote));
                    }
                    (remote.iova, remote.r_key, remote.length, Access::REMOTE_WRITE)
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
            return Ok(Some(RemoteTarget { pd, iova, r_key, length, address: 0, epoch }));
        }
        adapter
            .regions
            .resolve_remote(r_key, holder, iova, u64::from(length), needed)
            .map(|address| Some(RemoteTarget { pd, iova, r_key, length, address, epoch }))
            .map_err(|why| Refusal::Access(Fault::Key(why)))
    }

    /// Executes the request.
    fn execute<M: Memory>(
        &mut self,
        request: &Request<'_, '_, M>,
        place: &Place,
        remote: Option<RemoteTarget>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Refusal> {
        let facts = request.facts;
        let psn = request.header.bth.psn;
        let fresh = |target| Message { first_psn: psn, received: 0, target };
        match (facts.operation, remote) {
            (Operation::Send, _) => {
                let mut message = self.responder.message.unwrap_or_else(|| fresh(Target::Receive));
                let taken = self.responder.taken.as_mut();
                let taken = taken.ok_or(Refusal::Local(CompletionStatus::LocalQpOperation))?;
                taken
                    .wqe
                    .scatter(&adapter.regions, place.pd, message.received, request.carried, memory)
                    .map_err(|error| match error {
                        ScatterError::Length => {
                            Refusal::Invalid(CompletionStatus::LocalLength, Fault::ReceiveTooShort)
                        }
                        ScatterError::Protection => {
                            Refusal::Local(CompletionStatus::LocalProtection)
                        }
                    })?;
                message.received += request.length() as u64;
                self.responder.message = Some(message);
                if let Some(key) = request.header.invalidate {
                    let holder = Holder { pd: place.pd, qpn: self.qpn };
                    let invalidated = adapter.regions.invalidate(key, holder);
                    invalidated.map_err(|why| Refusal::Access(Fault::Key(why)))?;
                }
                if facts.part.ends() {
                    self.complete_recv(request, CompletionOpcode::Recv, adapter);
                }
            }
            (Operation::Write, Some(remote)) => {
                let message = &mut self.responder.message;
                if request.length() > 0 {
                    let received = message.as_ref().map_or(0, |message| message.received);
                    memory
                        .write(
                            remote.address + received,
                            request.carried.payload,
                            0,
                            request.length(),
                        )
                        .map_err(|_| Refusal::Access(Fault::Gone))?;
                }
                let target = Target::Region(remote);
                let message = message.get_or_insert_with(|| fresh(target));
                message.target = target;
                message.received += request.length() as u64;
                if facts.part.ends() {
                    adapter.stats.rx_write_requests += 1;
                    if request.header.immediate.is_some() {
                        self.complete_recv(request, CompletionOpcode::RecvWriteImmediate, adapter);
                    }
                }
            }
            (Operation::ReadRequest, Some(remote)) => {
                adapter.stats.rx_read_requests += 1;
                let stride = self.stride_of(request.header);
                let packets = mtu::packets(remote.length, stride);
                let kind = ResourceKind::Read { remote, stride };
                let resource = Resource { first_psn: psn, packets, kind };
                self.responder.keep(resource, self.attributes.max_dest_rd_atomic);
                let msn = self.responder.msn + 1;
                let (first_psn, again) = (psn, false);
                let reply = Reply::Read { first_psn, packets, stride, sent: 0, remote, msn, again };
                self.responder.push_reply(reply);
            }
            (Operation::CompareSwap | Operation::FetchAdd, Some(remote)) => {
                let atomic = request.header.atomic.ok_or(Refusal::Access(Fault::Sequence))?;
                let swaps = facts.operation == Operation::CompareSwap;
                let original = memory
                    .fetch_update(remote.address, |word| match swaps {
                        true if word == atomic.compare => atomic.swap_or_add,
                        true => word,
                        false => word.wrapping_add(atomic.swap_or_add),
                    })
                    .map_err(|_| Refusal::Access(Fault::Gone))?;
                adapter.stats.rx_atomic_requests += 1;
                let kind = ResourceKind::Atomic { original };
                let resource = Resource { first_psn: psn, packets: 1, kind };
                if !mutated(Mutation::AtomicForgotten) {
                    self.responder.keep(resource, self.attributes.max_dest_rd_atomic);
                }
                let msn = self.responder.msn + 1;
                self.responder.push_reply(Reply::Atomic { psn, original, msn });
            }
            (Operation::AtomicWrite, Some(remote)) => {
                // Memory stores the last eight bytes of a payload all at once.
                memory
                    .write(remote.address, request.carried.payload, 0, request.length())
                    .map_err(|_| Refusal::Access(Fault::Gone))?;
                adapter.stats.rx_atomic_requests += 1;
                let kind = ResourceKind::AtomicWrite;
                let resource = Resource { first_psn: psn, packets: 1, kind };
                self.responder.keep(resource, self.attributes.max_dest_rd_atomic);
                let msn = self.responder.msn + 1;
                self.responder.answer_atomic_write(psn, msn, false);
            }
            _ => return Err(invalid(Fault::Operation)),
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

    /// After a request was executed: expects the next one, and acknowledges this one if it asks.
    fn advance<M: Memory>(&mut self, request: &Request<'_, '_, M>, adapter: &Adapter) {
        if request.header.bth.stride != Stride::PATH_MTU {
            self.follow_stride(request.header);
        }
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
