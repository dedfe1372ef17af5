//! The five verbs of a driver: what arrives, what leaves, deadlines and events.

use core::cmp::Reverse;

use rdma::{Gid, Memory, PKey, QpState, QpType, Qpn, Time};
use wire::Opcode;
use wire::opcode::{Facts, Operation, Part, Service};

use super::{Endpoint, Posted, Run};
use crate::Event;
use crate::adapter::Adapter;
use crate::arrival::{Arrival, Carried};
use crate::congestion::Telemetry;
use crate::mutation::{Mutation, mutated};
use crate::qp::{Content, Qp};
use crate::responder::Request;
use crate::stats::Drop;
use crate::timer::Timer;
use crate::transmit::Body;

impl Endpoint {
    /// A packet has arrived. Its ICRC is checked and its headers are parsed; `length` is that of
    /// `payload`.
    ///
    /// # Errors
    /// Why the packet changed nothing. The drop is counted already.
    pub fn handle<M: Memory>(
        &mut self,
        now: Time,
        arrival: &Arrival,
        header: &wire::roce::Repr,
        payload: M::Payload<'_>,
        length: usize,
        memory: &mut M,
    ) -> Result<(), Drop> {
        self.adapter.now = now;
        let qpn = header.bth.destination;
        let request = Request::new(header, Carried { payload, length });
        if qpn == Qpn::MULTICAST {
            return self.handle_multicast(arrival, &request, memory);
        }
        let Some((qp, adapter)) = self.qp_mut(qpn) else {
            self.adapter.stats.drop_packet(Drop::UnknownQpn);
            self.adapter.stats.rp_cnp_ignored += u64::from(header.bth.opcode == Opcode::CNP);
            return Err(Drop::UnknownQpn);
        };
        let is_middle = request.facts.part == Part::Middle;
        if is_middle && qp.continue_message(arrival, &request, memory, adapter) {
            // This sets no nearer deadline and completes nothing.
            if !core::mem::replace(&mut qp.ready, true) {
                self.ready.push_back(qpn);
            }
            return Ok(());
        }
        let result = qp.handle(arrival, &request, memory, adapter);
        // Even a refused response may have acknowledged something.
        let call = qp.call();
        self.enter(qpn, call);
        result
    }

    /// What switches have written into a packet, or what it tells of others. To be said before the packet is
    /// handed over ([`Endpoint::handle`]).
    pub fn observe(&mut self, arrival: &Arrival, header: &wire::roce::Repr, telemetry: Telemetry) {
        if let Some((qp, adapter)) = self.qp_mut(header.bth.destination) {
            let facts = &header.facts();
            if qp.accept(arrival, header, facts).is_ok() {
                qp.observe(telemetry, facts, adapter);
            }
        }
    }

    /// The next packet to send, if any, with those that follow and differ only in PSN and place in
    /// the message: at most `most`, the same packets that single calls would give out. The answer
    /// may change after every other call.
    ///
    /// Acknowledgements coalesce while they wait here, so a driver passes in a batch of packets
    /// before it takes any out.
    ///
    /// # Panics
    /// In debug builds, if the run before was dropped: see [`Run`].
    pub fn poll_transmit(&mut self, now: Time, most: u32) -> Option<Run<'_>> {
        self.poll_transmit_but(now, most, None)
    }

    /// As [`Endpoint::poll_transmit`], for paths that pause rather than drop. A queue pair whose next
    /// packet goes to an address and a queue pair for which `is_full` says so has no turn until
    /// [`Endpoint::resume`].
    ///
    /// # Panics
    /// As [`Endpoint::poll_transmit`].
    pub fn poll_transmit_but(
        &mut self,
        now: Time,
        most: u32,
        is_full: Option<&dyn Fn(Gid, Qpn) -> bool>,
    ) -> Option<Run<'_>> {
        debug_assert!(!self.is_run_open, "a run was dropped, and nothing said what became of it");
        self.adapter.now = now;
        if let Some((qpn, packet)) = self.final_acknowledgements.pop_front() {
            self.adapter.stats.sent_pkts += 1;
            self.written = packet;
            return Some(Run::new(self, qpn, 1, Body::EMPTY));
        }
        let (qpn, body, count) = loop {
            let Some(&qpn) = self.ready.front() else {
                self.posted = Posted::default();
                return None;
            };
            let index = self.index(qpn);
            let Some(qp) = index.and_then(|index| self.qps.get_mut(index)?.as_deref_mut()) else {
                self.ready.pop_front();
                continue;
            };
            let adapter = &mut self.adapter;
            if let Some(is_full) = is_full {
                let (gid, peer) = qp.next_destination();
                if is_full(gid, peer) {
                    qp.pause(adapter);
                    self.burst = 0;
                    self.paused.extend(self.ready.pop_front());
                    continue;
                }
            }
            let Some(first) = qp.next_packet(now, adapter) else {
                qp.ready = false;
                let deadline = qp.next_deadline();
                self.burst = 0;
                self.ready.pop_front();
                self.enter_deadline(qpn, deadline);
                self.fail_overrun();
                continue;
            };
            let burst_packets = adapter.config.burst_packets;
            let most = most.min(burst_packets.saturating_sub(self.burst));
            let count = 1 + qp.prolong(&first, most.saturating_sub(1), adapter);
            let body = qp.write(&first, &mut self.written).times(count);
            if let Some(part) = self.written.header.part {
                qp.go_on_behind(first, part, body.len(), adapter);
            }
            let deadline = qp.next_deadline();
            self.burst += count;
            if self.burst >= burst_packets {
                self.burst = 0;
                self.ready.rotate_left(1);
            }
            if let Content::Request { ack_request: true, .. } = first.content {
                self.asked = Some(qpn);
            }
            self.enter_deadline(qpn, deadline);
            break (qpn, body, count);
        };
        self.adapter.stats.sent_pkts += u64::from(count);
        self.adapter.stats.sent_bytes += u64::from(body.len());
        Some(Run::new(self, qpn, count, body))
    }

    /// The last packet of a message of an unreliable queue pair has left, which was taken out before: the message is done.
    /// See [`crate::Config::done_on_departure`].
    pub fn departed(&mut self, now: Time, qpn: Qpn) {
        self.adapter.now = now;
        if let Some((qp, adapter)) = self.qp_mut(qpn) {
            qp.departed(adapter);
        }
    }

    /// Queue pairs that were left out by [`Endpoint::poll_transmit_but`] have their turn again.
    pub fn resume(&mut self) {
        self.ready.extend(self.paused.drain(..));
    }

    /// When to call [`Endpoint::handle_timeout`]. The answer may change after every other call but
    /// [`Endpoint::poll_event`].
    pub fn poll_timeout(&mut self) -> Option<Time> {
        while let Some(&Reverse((at, qpn))) = self.deadlines.peek() {
            let qpn = Qpn::new(qpn);
            match self.qp_mut(qpn) {
                Some((qp, _)) if qp.scheduled == Some(at) => {
                    if qp.timers.next() == Some(at) {
                        return Some(at);
                    }
                    // The timer was stopped, or set anew for later, which makes no entry.
                    qp.scheduled = None;
                    let deadline = qp.next_deadline();
                    self.deadlines.pop();
                    self.enter_deadline(qpn, deadline);
                }
                _ => {
                    self.deadlines.pop();
                }
            }
        }
        None
    }

    /// A deadline has come, or may have: a call that is early does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.handle_timeout_but(now, |_, _, _| false);
    }

    /// As [`Endpoint::handle_timeout`], for a path that pauses rather than drops. While
    /// `is_on_its_way` says that packets to a queue pair at an address may still wait before their
    /// receiver, they do not count as lost: the timer starts anew, and no retry is counted. It is told whether
    /// it is asked about them for the first time: nothing was missed since the last progress.
    pub fn handle_timeout_but(
        &mut self,
        now: Time,
        mut is_on_its_way: impl FnMut(Gid, Qpn, bool) -> bool,
    ) {
        self.adapter.now = now;
        while let Some(at) = self.poll_timeout().filter(|&at| at <= now) {
            let Some(Reverse((_, qpn))) = self.deadlines.pop() else { break };
            let qpn = Qpn::new(qpn);
            if let Some((qp, adapter)) = self.qp_mut(qpn) {
                debug_assert_eq!(qp.scheduled, Some(at));
                qp.scheduled = None;
                let (gid, peer) = (qp.attributes.path.gid, qp.attributes.destination);
                let is_first = !qp.requester.is_put_off;
                if qp.timers.is_due(Timer::Retransmit, now) && is_on_its_way(gid, peer, is_first) {
                    qp.requester.is_put_off = true;
                    qp.arm_ack_timer(now);
                }
                qp.handle_timeout(now, adapter);
                self.settle(qpn);
            }
        }
    }

    /// The next event, if any. The answer may change after every other call.
    pub fn poll_event(&mut self) -> Option<Event> {
        // A driver that learns of an overrun completion queue finds its queue pairs failed.
        self.fail_overrun();
        self.adapter.events.pop_front()
    }
}

impl Qp {
    /// A packet for this queue pair.
    #[inline(always)]
    pub(super) fn handle<M: Memory>(
        &mut self,
        arrival: &Arrival,
        request: &Request<'_, '_, M>,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let &Request { header, facts, carried } = request;
        let now = adapter.now;
        let is_cnp = header.bth.opcode == Opcode::CNP;
        let result = match self.accept(arrival, header, facts) {
            Err(cause) => Err(cause),
            Ok(()) => {
                adapter.stats.rcvd_pkts += 1;
                adapter.stats.rcvd_bytes += request.length() as u64;
                if arrival.is_marked() && !is_cnp {
                    self.note_mark(now, facts.is_request(), adapter);
                }
                if is_cnp {
                    self.handle_cnp(now, request.length(), adapter)
                } else if self.spec.kind == QpType::Ud {
                    self.handle_datagram(arrival, request, memory, adapter)
                } else if let Some(part) = header.part {
                    self.take_part(now, request, part, memory, adapter)
                } else if facts.operation == Operation::PathProbe {
                    self.path_probed(header, request.length())
                } else if facts.operation == Operation::PathProbeAnswer {
                    self.path_probe_answered(header, request.length(), adapter)
                } else if facts.is_request() {
                    self.handle_request(now, request, memory, adapter)
                } else {
                    self.handle_response(now, header, carried, memory, adapter)
                }
            }
        };
        if let Err(cause) = result {
            adapter.stats.drop_packet(cause);
            adapter.stats.rp_cnp_ignored += u64::from(is_cnp);
        }
        result
    }

    /// Whether this queue pair takes such a packet at all (IBTA vol 1, 9.6.1).
    #[inline(always)]
    fn accept(
        &self,
        arrival: &Arrival,
        header: &wire::roce::Repr,
        facts: &Facts,
    ) -> Result<(), Drop> {
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Error) {
            return Err(Drop::QpState);
        }
        let request = facts.is_request();
        let fits = match (self.spec.kind, facts.service) {
            (QpType::Rc, Service::Rc) | (QpType::Uc, Service::Uc) | (QpType::Ud, Service::Ud) => {
                true
            }
            // Each half has one direction.
            (QpType::XrcInitiator, Service::Xrc) => !request,
            (QpType::XrcTarget, Service::Xrc) => request,
            (kind, Service::Cnp) => kind.is_connected(),
            _ => false,
        };
        if !fits {
            return Err(Drop::WrongTransport);
        }
        if !PKey::DEFAULT.admits(header.bth.p_key) {
            return Err(Drop::PKey);
        }
        // 9.6.1.5.1: a connection has one peer.
        let is_peer = arrival.source == self.attributes.path.gid;
        if self.spec.kind.is_connected() && !is_peer && !mutated(Mutation::SourceIgnored) {
            return Err(Drop::WrongSource);
        }
        Ok(())
    }
}
