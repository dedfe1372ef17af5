//! A queue pair: what its three roles share, and how it changes its state.

mod congestion;
mod strides;

use alloc::boxed::Box;

use rdma::{
    Completion, CompletionOpcode, CompletionStatus, Gid, Psn, QpState, QpType, Qpn, Time,
    UdAddress,
    completion::{Attached, NetworkHeader},
};

use wire::aeth::{NakCode, Syndrome};
use wire::bth::{Sign, Stride};
use wire::opcode::Headers;
use wire::{Opcode, aeth, cnp, roce, saeth};

use crate::adapter::Adapter;
use crate::attributes::{AddressVector, QpAttributes, QpChange, QpQuery};
use crate::congestion::{NotificationPoint, Pacer};
use crate::failure::{Cause, Failure};
use crate::limits::{ACK_BEHIND_PACKETS, OVERTAKEN_WAIT_MIN};
use crate::recovery::{Bounds, Patience, Recovery};
use crate::recv::{RecvQueue, RecvWqe};
use crate::region::Holder;
use crate::requester::{Cursor, Requester};
use crate::responder::{Responder, Taken};
use crate::state::check_transition;
use crate::timer::{Timer, TimerTable};
use crate::transmit::{Body, DEFAULT_HOP_LIMIT, Route, Written};
use crate::{Blocked, Config, CqId, Event, ModifyError, QpSpec, XrcdId};

/// A packet that a role wants to send. It is small, because it is handed on several times before
/// [`Qp::write`] writes its headers and looks up its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) opcode: Opcode,
    pub(crate) psn: Psn,
    pub(crate) content: Content,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// Packet `packet` of the send request with this serial number, which stands for `count` PSNs.
    /// `twice` if it is sent twice at once.
    Request { serial: u64, packet: u32, count: u32, ack_request: bool, twice: bool },
    /// An acknowledgement, positive or negative, that says whether a request was marked (BECN).
    Acknowledgement { syndrome: Syndrome, msn: u32, echoes_mark: bool },
    /// A path probe, or its answer: so many bytes of nothing.
    PathProbe { length: u32 },
    /// A selective acknowledgement: what has arrived behind a gap.
    Selective { arrived: saeth::Repr, msn: u32 },
    /// The answer to an atomic: what the word was before.
    Atomic { original: u64, msn: u32 },
    /// A READ response: bytes at an address of memory.
    Response { address: u64, length: u32, msn: u32 },
    /// A CNP of this traffic class, because marked packets arrive.
    Notification { traffic_class: u8 },
}

/// What its endpoint enters of a queue pair after a call.
pub(crate) struct Call {
    /// It may have something to send, and is not in the list of such yet.
    pub(crate) is_ready: bool,
    /// See [`Qp::next_deadline`].
    pub(crate) deadline: Option<Time>,
}

#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) qpn: Qpn,
    pub(crate) spec: QpSpec,
    /// Of an XRC target: its domain.
    pub(crate) domain: Option<XrcdId>,
    pub(crate) state: QpState,
    pub(crate) attributes: QpAttributes,
    /// Where a connected queue pair sends to.
    pub(crate) route: Route,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) recv: RecvQueue,
    pub(crate) timers: TimerTable,
    /// Holds data packets back.
    pub(crate) pacer: Pacer,
    /// Answers marks.
    pub(crate) notification: NotificationPoint,
    /// What it may keep out of order with a peer that signs its packets as this queue pair does.
    pub(crate) offered: Option<Bounds>,
    /// How long the packets of its messages may be.
    pub(crate) strides: strides::Strides,
    /// See [`Config::refill_bytes`].
    pub(crate) refill_bytes: u64,
    /// How long it waits for answers, where packets overtake each other.
    pub(crate) patience: Patience,
    /// Why the driver got no request, or no answer with data, when it last came.
    pub(crate) blocked: Option<Blocked>,
    /// Why it left its state by itself.
    pub(crate) failure: Option<Box<Failure>>,
    /// Whether it is in the endpoint's list of queue pairs that may have something to send.
    pub(crate) ready: bool,
    /// The nearest entry for it in the endpoint's heap of deadlines.
    pub(crate) scheduled: Option<Time>,
}

impl Qp {
    pub(crate) fn new(qpn: Qpn, spec: QpSpec, config: &Config) -> Self {
        Self {
            qpn,
            spec,
            domain: None,
            state: QpState::Reset,
            attributes: QpAttributes::default(),
            route: route_to(&AddressVector::default(), 0),
            requester: Requester::default(),
            responder: Responder::default(),
            recv: RecvQueue::new(spec.capacity.recv_wr, spec.capacity.recv_sge),
            timers: TimerTable::default(),
            pacer: Pacer::new(&config.congestion, spec.kind, config.window_bytes),
            notification: NotificationPoint::default(),
            offered: None,
            strides: <_>::default(),
            refill_bytes: config.refill_bytes,
            patience: Patience::default(),
            blocked: None,
            failure: None,
            ready: false,
            scheduled: None,
        }
    }

    /// Makes a transition (IBTA vol 1, 11.2.5.3), or changes nothing.
    pub(crate) fn modify(
        &mut self,
        change: &QpChange,
        adapter: &mut Adapter,
    ) -> Result<(), ModifyError> {
        let to = check_transition(self.spec.kind, self.state, change)?;
        change.check_values(adapter.config.active_mtu)?;
        if let Some(selective_repeat) = change.selective_repeat {
            let connects = (self.state, to) == (QpState::Init, QpState::Rtr);
            let offered = self.spec.kind == QpType::Rc
                && adapter.config.recovery == Recovery::SelectiveRepeat;
            if !connects {
                return Err(ModifyError::Agreement);
            }
            if selective_repeat && !offered {
                return Err(ModifyError::Unsupported);
            }
        }
        self.attributes.apply(change);
        if change.path.is_some() || change.destination.is_some() {
            let path = &self.attributes.path;
            let flow = if path.flow_label == 0 {
                flow_label(self.qpn, self.attributes.destination)
            } else {
                path.flow_label
            };
            self.route = route_to(path, flow);
        }
        let from = core::mem::replace(&mut self.state, to);
        if change.path.is_some() && matches!(from, QpState::Rts | QpState::Sqd) {
            self.forget_strides(adapter.config.active_mtu.bytes());
        }
        match (from, to) {
            (_, QpState::Reset) => {
                self.reset(&adapter.config);
                // After a reset no completion of the queue pair's earlier life appears (libmlx5
                // also cleans its completion queues then).
                for cq in [self.spec.send_cq, self.spec.recv_cq] {
                    if let Some(queue) = adapter.cqs.get_mut(cq.0) {
                        queue.forget(self.qpn);
                    }
                }
            }
            (QpState::Error, QpState::Error) => {}
            (_, QpState::Error) => self.enter_error(false, adapter),
            (QpState::Init, QpState::Rtr) => {
                let psn = change.rq_psn.unwrap_or_default();
                self.settle_between_hosts(&adapter.config);
                let agrees = self.agreed(adapter).is_some();
                if let Some(least) = adapter.config.overtaken_wait_min.filter(|_| agrees) {
                    self.patience = Patience::of_many_paths(least);
                }
                if self.patience.is_needed() {
                    self.pacer.measure();
                }
                self.responder.begin(psn, self.agreed(adapter));
            }
            (QpState::Rtr, QpState::Rts) => {
                let psn = change.sq_psn.unwrap_or_default();
                let (agreed, offered) = (self.agreed(adapter), self.offered);
                self.requester.begin(psn, &self.attributes, agreed, offered);
                self.pacer.begin(self.stride());
            }
            (QpState::Rts, QpState::Sqd) => self.begin_draining(adapter),
            _ => {}
        }
        Ok(())
    }

    /// Forgets everything but its specification (11.2.5.3: no completions are written).
    fn reset(&mut self, config: &Config) {
        self.attributes = QpAttributes::default();
        self.requester = Requester::default();
        self.responder = Responder::default();
        self.recv.clear();
        self.timers = TimerTable::default();
        self.pacer = Pacer::new(&config.congestion, self.spec.kind, config.window_bytes);
        self.notification = NotificationPoint::default();
        self.offered = None;
        self.strides = <_>::default();
        self.refill_bytes = config.refill_bytes;
        self.patience = Patience::default();
        self.failure = None;
    }

    /// Moves to ERROR and flushes both queues (10.3.1.7). With `answer`, replies that are queued
    /// still go out: the last of them tells the peer why.
    pub(crate) fn enter_error(&mut self, answer: bool, adapter: &mut Adapter) {
        self.state = QpState::Error;
        self.timers = TimerTable::default();
        self.notification = NotificationPoint::default();
        self.strides = <_>::default();
        self.flush_sends(adapter);
        if !answer {
            self.responder.forget_replies();
        }
        self.responder.forget_kept();
        if let Some(Taken { wqe, place }) = self.responder.abandon_message() {
            self.complete_recv_error(&wqe, place.cq, CompletionStatus::Flushed, adapter);
        }
        while let Some(wqe) = self.recv.take() {
            self.complete_recv_error(&wqe, self.spec.recv_cq, CompletionStatus::Flushed, adapter);
        }
        if self.spec.srq.is_some() {
            adapter.raise(Event::LastWqeReached(self.qpn));
        }
    }

    /// Notes why the queue pair is about to fail, and tells the driver.
    #[cold]
    pub(crate) fn note_failure(&mut self, to: QpState, cause: Cause, adapter: &mut Adapter) {
        let (peer, peer_qpn) = (self.attributes.path.gid, self.attributes.destination);
        let (qpn, from) = (self.qpn, self.state);
        self.failure = Some(Box::new(Failure { qpn, from, to, peer, peer_qpn, cause }));
        adapter.raise(Event::QpFailed(qpn));
    }

    /// Writes the completion of a receive that failed to `cq`.
    pub(crate) fn complete_recv_error(
        &mut self,
        wqe: &RecvWqe,
        cq: CqId,
        status: CompletionStatus,
        adapter: &mut Adapter,
    ) {
        if status != CompletionStatus::Flushed {
            adapter.stats.resp_cqe_error += 1;
        }
        let completion = self.blank_completion(wqe.id, status, CompletionOpcode::Recv);
        adapter.complete(cq, completion);
    }

    /// A completion without the fields that depend on the operation.
    pub(crate) fn blank_completion(
        &self,
        id: u64,
        status: CompletionStatus,
        opcode: CompletionOpcode,
    ) -> Completion {
        Completion {
            id,
            status,
            opcode,
            vendor_error: 0,
            byte_len: 0,
            attached: Attached::None,
            qpn: self.qpn,
            source_qpn: Qpn::default(),
            network_header: NetworkHeader::None,
            solicited: false,
        }
    }

    /// The next packet of any role. CNPs come first, then answers, for which a peer waits, then
    /// requests. An acknowledgement that waits for a request follows the last packet of that
    /// request, or the first if it has many. The peer, which polls for the acknowledgement,
    /// meanwhile takes in the message.
    pub(crate) fn next_packet(&mut self, now: Time, adapter: &mut Adapter) -> Option<Outgoing> {
        if let Some(part) = self.next_part(adapter) {
            return Some(part);
        }
        if let Some(cnp) = self.next_cnp(now, adapter) {
            return Some(cnp);
        }
        if let Some(probe) = self.next_path_probe(now, adapter) {
            return Some(probe);
        }
        let waits = self.timers.is_running(Timer::AckDelay);
        let paced = !waits
            && self.responder.owes_data()
            && (self.holds_back(now) || self.holds_response_back(now));
        let held = waits || paced;
        if !held
            && self.responder.owes_anything()
            && let Some(reply) = self.next_reply(adapter)
        {
            if let Content::Response { length, .. } = reply.content {
                self.pace(now, reply.opcode, length, adapter);
                self.shape_response(now, length);
                self.blocked.take_if(|why| *why == Blocked::Pace);
            }
            return Some(reply);
        }
        let request = match self.next_request(now, adapter) {
            Ok(request) => {
                self.blocked = None;
                Some(request)
            }
            Err(why) => {
                self.block(why.or(paced.then_some(Blocked::Pace)), adapter);
                None
            }
        };
        if !waits {
            return request;
        }
        let Some(request) = request else {
            // The message stopped half-way for want of room: the acknowledgement leaves before the
            // rest.
            return if self.requester.is_within_message() {
                self.take_waiting_acknowledgement(adapter)
            } else {
                None
            };
        };
        let many = match request.content {
            Content::Request { serial, .. } => self.requester.packets(serial) > ACK_BEHIND_PACKETS,
            _ => false,
        };
        if many || request.opcode.facts().part.ends() {
            self.timers.stop(Timer::AckDelay);
        }
        Some(request)
    }

    /// Where the next packet goes: of datagrams, what is to be sent next.
    pub(crate) fn next_destination(&self) -> (Gid, Qpn) {
        let address = self.requester.next_address().filter(|_| self.is_datagram());
        let connected = (self.attributes.path.gid, self.attributes.destination);
        address.map_or(connected, |address| (address.gid, address.qpn))
    }

    /// The path to its peer is full, and it has no turn.
    pub(crate) fn pause(&mut self, adapter: &mut Adapter) {
        let has_any = self.responder.owes_anything() || self.requester.has_next();
        self.block(has_any.then_some(Blocked::Path), adapter);
    }

    /// Nothing leaves now. A reason is counted once, when it begins to hold.
    fn block(&mut self, why: Option<Blocked>, adapter: &mut Adapter) {
        let before = core::mem::replace(&mut self.blocked, why);
        if let Some(why) = why.filter(|_| why != before) {
            adapter.stats.block(why);
        }
    }

    /// The acknowledgement that waits for a request to travel with, if one does.
    fn take_waiting_acknowledgement(&mut self, adapter: &mut Adapter) -> Option<Outgoing> {
        if !self.timers.is_running(Timer::AckDelay) {
            return None;
        }
        self.timers.stop(Timer::AckDelay);
        self.next_reply(adapter)
    }

    /// The acknowledgement that is next to leave, if one is owed. It must leave even if the queue pair ends, for what it
    /// acknowledges has been executed.
    pub(crate) fn take_owed_acknowledgement(&mut self, adapter: &mut Adapter) -> Option<Outgoing> {
        self.timers.stop(Timer::AckDelay);
        self.responder.forget_gaps();
        let owes = self.responder.owes_acknowledgement();
        owes.then(|| self.next_reply(adapter)).flatten()
    }

    /// Writes the headers of a packet, and says what follows them.
    pub(crate) fn write(&self, outgoing: &Outgoing, to: &mut Written) -> Body {
        let &Outgoing { opcode, psn, content } = outgoing;
        let Written { route, header } = to;
        *route = self.route;
        *header = roce::Repr::new(opcode, self.attributes.destination, psn);
        if self.offered.is_some() {
            header.bth.sign = Sign::Selective;
        }
        let mut body = Body::EMPTY;
        match content {
            Content::Request { serial, packet, count, ack_request, twice } => {
                header.bth.ack_request = ack_request;
                if twice {
                    header.bth.sign = Sign::Twice;
                }
                body = self.write_request(Cursor { serial, packet }, count, to);
                if self.says_narrowed(to.header.bth.stride.bytes().unwrap_or(0)) {
                    to.header.bth.sign = Sign::Narrowed;
                }
            }
            Content::PathProbe { length } => {
                header.bth.stride = Stride::fitting(self.mtu());
                route.traffic_class = self.data_class();
                body = Body::constant(strides::padding(length));
            }
            Content::Acknowledgement { syndrome, msn, echoes_mark } => {
                header.bth.becn = echoes_mark;
                header.aeth = Some(aeth::Repr { syndrome, msn });
            }
            Content::Selective { arrived, msn } => {
                let syndrome = Syndrome::Nak(NakCode::SequenceError);
                header.aeth = Some(aeth::Repr { syndrome, msn });
                header.selective = Some(arrived);
            }
            Content::Atomic { original, msn } => {
                header.aeth = Some(aeth::Repr { syndrome: Syndrome::ACK, msn });
                header.atomic_ack = Some(original);
            }
            Content::Response { address, length, msn } => {
                if opcode.facts().headers.has(Headers::AETH) {
                    header.aeth = Some(aeth::Repr { syndrome: Syndrome::ACK, msn });
                }
                route.traffic_class = self.data_class();
                body = Body::memory(address, 0, length);
            }
            Content::Notification { traffic_class } => {
                let destination = self.attributes.destination;
                header.bth = cnp::Repr { destination, p_key: rdma::PKey::DEFAULT }.bth();
                route.traffic_class = traffic_class;
                body = Body::constant(&RESERVED);
            }
        }
        if self.leaves_in_parts(outgoing, body.len()) {
            body = self.cut(outgoing, body, &mut to.header);
        }
        to.header.pad_for(body.len());
        body
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, adapter: &mut Adapter) {
        // After these, sending goes on by itself.
        for timer in [Timer::RnrRetry, Timer::Pace, Timer::Notify] {
            self.timers.expire(timer, now);
        }
        if self.timers.expire(Timer::AckDelay, now) {
            self.responder.answer_did_not_come();
        }
        if self.timers.expire(Timer::Overtaken, now) {
            self.send_gaps(now, adapter);
        }
        if self.timers.expire(Timer::Probe, now) {
            self.probe(now);
        }
        if self.timers.expire(Timer::Retransmit, now) {
            self.ack_timed_out(now, adapter);
        }
    }

    /// After it was called: what of it is to be entered.
    #[inline]
    pub(crate) fn call(&mut self) -> Call {
        let is_ready = !core::mem::replace(&mut self.ready, true);
        Call { is_ready, deadline: self.next_deadline() }
    }

    /// The nearest deadline, if it is to be entered: not if an earlier one is.
    #[inline]
    pub(crate) fn next_deadline(&mut self) -> Option<Time> {
        let nearest_set = self.timers.nearest_set();
        if self.scheduled.is_some_and(|scheduled| scheduled <= nearest_set) {
            return None;
        }
        let at = self.timers.next()?;
        if self.scheduled.is_some_and(|scheduled| scheduled <= at) {
            return None;
        }
        self.scheduled = Some(at);
        Some(at)
    }

    pub(crate) fn query(&self) -> QpQuery {
        QpQuery {
            state: self.state,
            draining: self.state == QpState::Sqd && !self.requester.is_drained(),
            attributes: self.attributes,
            rq_psn: self.responder.expected(),
            sq_psn: self.requester.next_psn(),
            capacity: self.spec.capacity,
            source_port: self.route.source_port,
            signal_all: self.spec.signal_all,
            out_of_order: [self.responder.kept(), self.requester.kept()],
        }
    }

    /// How it recovers from losses.
    pub(crate) fn recovery(&self, adapter: &Adapter) -> Recovery {
        match adapter.config.recovery {
            Recovery::SelectiveRepeat if !self.attributes.selective_repeat => Recovery::GoBackN,
            recovery => recovery,
        }
    }

    /// What it keeps out of order because both applications agree.
    fn agreed(&self, adapter: &Adapter) -> Option<Bounds> {
        self.recovery(adapter).bounds(adapter.config.out_of_order())
    }

    /// It is about to be connected: to another host it behaves as is set for that.
    fn settle_between_hosts(&mut self, config: &Config) {
        let Some(between) = config.between_hosts.filter(|_| self.attributes.between_hosts) else {
            return;
        };
        self.pacer = Pacer::new(&between.congestion, self.spec.kind, between.window_bytes);
        self.refill_bytes = between.refill_bytes;
        self.offered = between.out_of_order().filter(|_| self.spec.kind.is_reliable());
        if self.offered.is_some() {
            self.patience = Patience::new(OVERTAKEN_WAIT_MIN);
        }
        self.settle_strides(&between, config.active_mtu.bytes());
    }

    /// Whether it is connected, and may have sent something.
    pub(crate) fn may_send(&self) -> bool {
        matches!(self.state, QpState::Rts | QpState::Sqd)
    }

    /// How it presents keys.
    pub(crate) fn holder(&self) -> Holder {
        Holder { pd: self.spec.pd, qpn: self.qpn }
    }

    pub(crate) fn is_datagram(&self) -> bool {
        self.spec.kind == QpType::Ud
    }
}

/// The route of packets to `path`; `flow` picks the source port.
pub(crate) fn route_to(path: &AddressVector, flow: u32) -> Route {
    Route {
        traffic_class: path.traffic_class,
        hop_limit: if path.hop_limit == 0 { DEFAULT_HOP_LIMIT } else { path.hop_limit },
        source_port: source_port(flow),
        ..Route::between(path.source_gid, path.gid)
    }
}

/// The route of a datagram of `sender`. One whose address has no flow label takes the path of its queue pair.
pub(crate) fn route_of_datagram(address: &UdAddress, sender: Qpn) -> Route {
    let flow = if address.flow_label == 0 { sender.value() } else { address.flow_label };
    Route {
        traffic_class: address.traffic_class,
        hop_limit: if address.hop_limit == 0 { DEFAULT_HOP_LIMIT } else { address.hop_limit },
        source_port: source_port(flow),
        ..Route::between(address.source_gid, address.gid)
    }
}

static RESERVED: [u8; cnp::RESERVED_LEN] = [0; cnp::RESERVED_LEN];

/// What stands for the flow label of a connection that has none: the same at both of its ends, other for others, and
/// of 20 bits.
fn flow_label(ours: Qpn, theirs: Qpn) -> u32 {
    let product = u64::from(ours.value()) * u64::from(theirs.value());
    let folded = product ^ product >> 20;
    ((folded ^ folded >> 40) & 0xf_ffff) as u32
}

/// A source port of the dynamic range, 0xc000 to 0xffff, from the 20-bit flow label of a datagram's
/// address, or from what stands for one (IBTA annex A17.9.1 leaves the mapping open; folding the
/// label is what Linux does as well).
pub fn source_port(flow: u32) -> u16 {
    0xc000 | ((flow ^ flow >> 14) & 0x3fff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_label_gives_the_source_port_that_linux_gives_it() {
        for (label, port) in
            [(0, 0xc000), (1, 0xc001), (0x3fff, 0xffff), (0x4000, 0xc001), (0x1_2345, 0xe341)]
        {
            assert_eq!(source_port(label), port, "{label:#x}");
        }
        assert_eq!(source_port(0xf_ffff), 0xc000 | (0x3fff ^ 0x3f));
    }

    #[test]
    fn queue_pairs_have_ports_of_their_own_and_both_ends_of_a_connection_the_same() {
        let (ours, theirs) = (Qpn::new(5 << 14 | 77), Qpn::new(900 << 14 | 1234));
        assert_eq!(flow_label(ours, theirs), flow_label(theirs, ours));
        let next = |by: u32| Qpn::new(ours.value() + by);
        let ports = (0..256).map(|by| source_port(flow_label(next(by), theirs)));
        let ports: alloc::collections::BTreeSet<u16> = ports.collect();
        assert!(ports.len() > 240, "{}", ports.len());

        let to = |flow_label| UdAddress {
            gid: Gid::ZERO,
            source_gid: Gid::ZERO,
            traffic_class: 0,
            hop_limit: 0,
            flow_label,
            qpn: theirs,
            q_key: rdma::QKey(0),
        };
        assert_eq!(route_of_datagram(&to(0x1_2345), ours).source_port, 0xe341);
        assert_eq!(route_of_datagram(&to(0), ours).source_port, source_port(ours.value()));
    }
}
