//! The responder's answers: acknowledgements and responses as they leave, and answers to
//! duplicates.

use rdma::{Access, CompletionOpcode, CompletionStatus, Memory, Psn, QpState, QpType, Time, mtu};
use wire::Opcode;
use wire::aeth::{NakCode, Syndrome};
use wire::bth::Sign;
use wire::opcode::{Operation, Part, Service};
use wire::roce;

use super::{RemoteTarget, Reply, Request, Resource, ResourceKind, Responder};
use crate::adapter::Adapter;
use crate::failure::{Fault, Work};
use crate::limits::REPLIES_MAX;
use crate::qp::{Content, Outgoing, Qp};
use crate::region::Holder;
use crate::timer::Timer;

impl Reply {
    /// The PSN of the next packet of it; of a NAK, the one that is refused.
    fn psn(&self) -> Psn {
        match *self {
            Self::Acknowledge { psn, .. }
            | Self::Selective { psn, .. }
            | Self::Atomic { psn, .. } => psn,
            Self::Read { first_psn, sent, .. } => first_psn.plus(sent),
        }
    }
}

impl Responder {
    /// Answers a READ anew. The new answer takes the place of an old one that is not yet sent
    /// whole. What waits behind that place acknowledges later requests: if that left first, it
    /// would tell the requester that the answer is lost, and the requester would repeat the READ
    /// without end.
    ///
    /// Under selective repeat a requester asks again for some responses and waits for the others,
    /// so an old answer is replaced only if the new one covers all that is left of it.
    fn read_again(&mut self, resource: Resource, (psn, packets): (Psn, u32), reply: Reply) {
        let end = resource.first_psn.plus(resource.packets);
        let asked_end = psn.plus(packets);
        let selective = self.ahead.is_some();
        let is_same = |reply: &Reply| match reply {
            Reply::Read { first_psn, sent, packets, .. } if selective => {
                let (next, end) = (first_psn.plus(*sent), first_psn.plus(*packets));
                !next.is_before(psn) && !end.is_after(asked_end)
            }
            Reply::Read { first_psn, .. } => {
                !first_psn.is_before(resource.first_psn) && first_psn.is_before(end)
            }
            _ => false,
        };
        if let Some(waiting) = self.replies.iter_mut().find(|reply| is_same(reply)) {
            *waiting = reply;
        } else if self.replies.len() < REPLIES_MAX {
            // Before newer answers, which are of no use to the requester without this one.
            let newer = self.replies.iter().position(|waiting| waiting.psn().is_after(psn));
            self.replies.insert(newer.unwrap_or(self.replies.len()), reply);
        }
    }
}

impl Responder {
    /// Whether there is an answer.
    pub(crate) fn owes_anything(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Whether the next answer is an acknowledgement.
    pub(crate) fn owes_acknowledgement(&self) -> bool {
        matches!(self.replies.front(), Some(Reply::Acknowledge { .. }))
    }

    /// No longer tells what has arrived behind a gap.
    pub(crate) fn forget_gaps(&mut self) {
        self.replies.retain(|reply| !matches!(reply, Reply::Selective { .. }));
    }

    /// Whether the next answer is a READ response.
    pub(crate) fn owes_data(&self) -> bool {
        matches!(self.replies.front(), Some(Reply::Read { .. }))
    }

    /// After a response of `length` bytes in the middle of an answer was taken: takes up to `most` more, but
    /// not the last of the answer. Returns how many.
    pub(crate) fn prolong_answer(&mut self, now: Time, length: u32, most: u32) -> u32 {
        let most = most.min(self.shaper.room(now, length.into()));
        let Some(Reply::Read { packets, sent, .. }) = self.replies.front_mut() else { return 0 };
        let count = most.min((*packets - *sent).saturating_sub(1));
        *sent += count;
        self.shaper.sent(now, length.into(), count);
        count
    }

    /// Takes back the last `unsent` responses of the last run.
    pub(crate) fn shorten_answer(&mut self, unsent: u32) {
        if let Some(Reply::Read { sent, stride, .. }) = self.replies.front_mut() {
            debug_assert!(*sent > unsent, "no more than the run but for its first packet");
            *sent = sent.saturating_sub(unsent);
            self.shaper.take_back((*stride).into(), unsent);
        }
    }
}

impl Qp {
    /// 9.7.5.1.4 and 9.7.5.1.5: a duplicate SEND or WRITE is acknowledged, a READ executed again
    /// within its first bounds, an atomic answered with what it returned.
    pub(crate) fn answer_duplicate<M: Memory>(
        &mut self,
        request: &Request<'_, '_, M>,
        adapter: &mut Adapter,
    ) {
        let header = request.header;
        let psn = header.bth.psn;
        let responder = &mut self.responder;
        let operation = request.facts.operation;
        if matches!(operation, Operation::Send | Operation::Write) {
            let psn = responder.expected.minus(1);
            responder.acknowledge(psn, adapter.config.coalesce_acks);
            return;
        }
        let resource = responder
            .resources
            .iter()
            .rev()
            .find(|resource| psn.distance_from(resource.first_psn) < resource.packets);
        let Some(resource) = resource.copied() else { return };
        let msn = responder.msn;
        match (resource.kind, header.reth) {
            (ResourceKind::Atomic { original }, None) => {
                let queued = responder
                    .replies
                    .iter()
                    .any(|reply| matches!(reply, Reply::Atomic { psn: at, .. } if *at == psn));
                if !queued {
                    responder.push_reply(Reply::Atomic { psn, original, msn });
                }
            }
            (ResourceKind::AtomicWrite, Some(_)) if operation == Operation::AtomicWrite => {
                responder.answer_atomic_write(psn, msn, true);
            }
            (ResourceKind::Read { remote: before, stride }, Some(reth))
                if operation == Operation::ReadRequest =>
            {
                let skipped = u64::from(psn.distance_from(resource.first_psn)) * u64::from(stride);
                let within = reth.address == before.iova.wrapping_add(skipped)
                    && reth.r_key == before.r_key
                    && skipped + u64::from(reth.length) <= u64::from(before.length);
                if !within {
                    return;
                }
                let remote = RemoteTarget { iova: reth.address, length: reth.length, ..before };
                let Some(remote) = self.resolved(remote, adapter) else {
                    return self.refuse_read(psn, adapter);
                };
                let packets = mtu::packets(reth.length, stride);
                let (first_psn, again) = (psn, true);
                let reply = Reply::Read { first_psn, packets, stride, sent: 0, remote, msn, again };
                self.responder.read_again(resource, (psn, packets), reply);
            }
            _ => {}
        }
    }

    /// Whether a READ request is one of two that were sent at once
    /// ([`copy_read`](crate::requester::Requester::copy_read)).
    pub(super) fn is_of_two(&self, header: &roce::Repr) -> bool {
        let follows_signs = self.offered.is_some() && self.responder.ahead.is_some();
        let is_read = header.facts().operation == Operation::ReadRequest;
        follows_signs && header.bth.sign == Sign::Twice && is_read
    }

    /// Repeats the acknowledgement of everything so far; `None` if an answer waits, which must
    /// leave first.
    pub(crate) fn last_acknowledgement(&self) -> Option<Outgoing> {
        let responder = &self.responder;
        let alive = matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd);
        if !self.spec.kind.is_reliable()
            || !alive
            || responder.msn == 0
            || !responder.replies.is_empty()
        {
            return None;
        }
        let psn = responder.expected.minus(1);
        let opcode = Opcode::RC_ACKNOWLEDGE.in_service(self.answering());
        let (syndrome, msn) = (Syndrome::ACK, responder.msn);
        let content = Content::Acknowledgement { syndrome, msn, echoes_mark: false };
        Some(Outgoing { opcode, psn, content })
    }

    /// The next answer, if any waits. In ERROR what was queued before still goes out, so that the
    /// peer learns why.
    pub(crate) fn next_reply(&mut self, adapter: &mut Adapter) -> Option<Outgoing> {
        let service = self.answering();
        let packet = |opcode: Opcode, psn, content| {
            Some(Outgoing { opcode: opcode.in_service(service), psn, content })
        };
        match *self.responder.replies.front()? {
            Reply::Acknowledge { psn, syndrome, msn } => {
                self.responder.replies.pop_front();
                adapter.stats.acks_sent += 1;
                let echoes_mark = core::mem::take(&mut self.responder.owes_echo);
                if self.responder.telemetry.is_some() {
                    adapter.echo = self.responder.telemetry.take();
                }
                let content = Content::Acknowledgement { syndrome, msn, echoes_mark };
                packet(Opcode::RC_ACKNOWLEDGE, psn, content)
            }
            Reply::Selective { psn, msn } => {
                let responder = &mut self.responder;
                responder.replies.pop_front();
                // The gap may be filled by now, or an RNR NAK may have said more.
                let is_due = responder.expected == psn && !responder.nak_sent;
                let Some(ahead) = responder.ahead.as_mut().filter(|_| is_due) else {
                    return self.next_reply(adapter);
                };
                let (arrived, is_all) = ahead.tell();
                if !is_all {
                    responder.replies.push_front(Reply::Selective { psn, msn });
                }
                adapter.stats.acks_sent += 1;
                let opcode = match service {
                    Service::Xrc => Opcode::XRC_SELECTIVE_ACKNOWLEDGE,
                    _ => Opcode::RC_SELECTIVE_ACKNOWLEDGE,
                };
                Some(Outgoing { opcode, psn, content: Content::Selective { arrived, msn } })
            }
            Reply::Atomic { psn, original, msn } => {
                self.responder.replies.pop_front();
                packet(Opcode::RC_ATOMIC_ACKNOWLEDGE, psn, Content::Atomic { original, msn })
            }
            Reply::Read { first_psn, packets, stride, sent, remote, msn, again } => {
                let psn = first_psn.plus(sent);
                let Some(remote) = self.revalidate(remote, adapter) else {
                    self.refuse_read(psn, adapter);
                    return self.next_reply(adapter);
                };
                let offset = sent * stride;
                let length = (remote.length - offset).min(stride);
                let part = Part::of(sent, packets);
                if part.ends() {
                    self.responder.replies.pop_front();
                } else if let Some(front) = self.responder.replies.front_mut() {
                    let sent = sent + 1;
                    *front = Reply::Read { first_psn, packets, stride, sent, remote, msn, again };
                }
                let address = remote.address + u64::from(offset);
                packet(Opcode::read_response(part), psn, Content::Response { address, length, msn })
            }
        }
    }

    /// A READ is asked for over a path that has a rate.
    pub(super) fn shape(&mut self, now: Time, header: &roce::Repr) {
        let psn = header.bth.psn;
        let is_here = psn.is_before(self.responder.expected)
            || self.responder.ahead.as_ref().is_some_and(|ahead| ahead.has(psn));
        let is_asked_for = self.offered.is_some() && !(is_here && self.is_of_two(header));
        if let Some(reth) = header.reth.filter(|_| is_asked_for) {
            let packets = mtu::packets(reth.length, self.stride_of(header));
            self.responder.shaper.asked(now, reth.length, packets);
        }
    }

    /// Whether a READ response has to wait. If so, the timer is set.
    pub(crate) fn holds_response_back(&mut self, now: Time) -> bool {
        let until = self.responder.shaper.held_until(now).filter(|_| self.offered.is_some());
        if let Some(until) = until {
            self.timers.set_sooner(Timer::Pace, until);
        }
        until.is_some()
    }

    /// A READ response leaves.
    pub(crate) fn shape_response(&mut self, now: Time, length: u32) {
        self.responder.shaper.sent(now, length.into(), 1);
    }

    /// The service that its answers are of.
    fn answering(&self) -> Service {
        if self.spec.kind == QpType::XrcTarget { Service::Xrc } else { Service::Rc }
    }

    /// The remote target of a READ, checked again if a region may have been deregistered.
    fn revalidate(&self, remote: RemoteTarget, adapter: &Adapter) -> Option<RemoteTarget> {
        if remote.epoch == adapter.regions.epoch() {
            return Some(remote);
        }
        self.resolved(remote, adapter)
    }

    /// The remote target of a READ, with its address now; no bytes need no valid key (C9-88).
    fn resolved(&self, remote: RemoteTarget, adapter: &Adapter) -> Option<RemoteTarget> {
        let RemoteTarget { pd, iova, r_key, length, .. } = remote;
        let holder = Holder { pd, qpn: self.qpn };
        let (regions, length) = (&adapter.regions, u64::from(length));
        let address = regions.resolve_remote(r_key, holder, iova, length, Access::REMOTE_READ).ok();
        let address = address.or((length == 0).then_some(0))?;
        Some(RemoteTarget { address, epoch: regions.epoch(), ..remote })
    }

    /// The memory of the READ response `psn` is gone: answers with a remote access error and
    /// nothing more.
    pub(crate) fn refuse_read(&mut self, psn: Psn, adapter: &mut Adapter) {
        let work = self.responder.replies.iter().find_map(|reply| match *reply {
            Reply::Read { remote: RemoteTarget { iova, r_key, length, .. }, .. } => {
                let (opcode, remote) = (CompletionOpcode::Read, Some((iova, r_key)));
                Some(Work { opcode, id: None, bytes: length, remote })
            }
            _ => None,
        });
        let nothing = Work { opcode: CompletionOpcode::Read, id: None, bytes: 0, remote: None };
        let fault = work.and_then(|work| {
            let (address, key) = work.remote?;
            let (regions, length) = (&adapter.regions, u64::from(work.bytes));
            let right = Access::REMOTE_READ;
            regions.resolve_remote(key, self.holder(), address, length, right).err().map(Fault::Key)
        });
        self.responder.forget_replies();
        self.responder.expected = psn;
        adapter.stats.resp_remote_access_errors += 1;
        let (code, status) = (NakCode::RemoteAccess, CompletionStatus::Flushed);
        let refused = (work.unwrap_or(nothing), fault.unwrap_or(Fault::Gone));
        self.fail_responder(code, status, refused, adapter);
    }
}
