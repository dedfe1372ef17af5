//! Strides: between two soft NICs the packets of a message may be longer than the path MTU.
//!
//! ```text
//!   requester                                                   responder
//!     WRITE, in packets of the path MTU, signed ───────────────►
//!     ◄─────────────────────────────────────── acknowledgement, signed
//!     path probe, as long as the port carries ─────────────────►
//!     ◄──────────────────────────── path probe answer, just as long
//!     WRITE, in packets of that length, which say so ──────────►  and its own messages from now on, too
//! ```
//!
//! A path MTU is a power of two, so of an Ethernet packet of 1,500 bytes 1,024 are filled, and of 9,000 less than half.
//! Where each packet costs, that is what TCP is faster by. So a queue pair whose peer signs its packets
//! tries, once it has more to send than one packet, whether the path takes packets as long as its port carries, there and
//! back. Messages that begin after the answer are cut so, and what answers READs as well: each request says it
//! ([`wire::bth::Stride`]). Who has no answer goes on as the standard says. A program that has chosen a path MTU below that of its
//! port keeps to it. What a connection manager has agreed on is no such choice: it knows the path from hearsay, and the peer's port may
//! be of usual Ethernet, so packets as long as that carries are tried in turn with those of the port.
//!
//! A path may become narrower later, and nobody may tell: what is too long vanishes (RFC 8899, 4.3). A requester that has sent a
//! packet again and again, and has heard nothing, or whose timer expires, doubts the path. What begins from then on is in packets
//! of the path MTU, and the path is probed anew. Messages that have begun keep their packets, for the peer knows them by their
//! numbers; those that are too long now leave in parts, no longer than packets of the path MTU, and the peer puts them together
//! ([`wire::parteth`]). A responder does not know that its answers vanish: the requests for them say it ([`Sign::Narrowed`]).
//!
//! ```text
//!     WRITE, PSN 7, 1,408 bytes ───────────────────X
//!     WRITE, PSN 7, bytes 0 to 1,023 of 1,408 ─────────────────►
//!     WRITE, PSN 7, bytes 1,024 to 1,407 ──────────────────────►  and PSN 7 has arrived
//! ```
//!
//! A peer that is gone, or slow, is doubted as well. That costs little: the first probe that is answered ends it.

use rdma::{Memory, Psn, QpState, QpType, Span, Time};
use wire::bth::{Sign, Stride};
use wire::{Opcode, parteth, roce};

use super::{Content, Outgoing, Qp};
use crate::adapter::Adapter;
use crate::arrival::Carried;
use crate::config::BetweenHosts;
use crate::limits::{
    ACKS_OF_WINDOW, ETHERNET_STRIDE, PATH_PROBE_HEADROOM, PATH_PROBE_WAIT, PATH_PROBE_WAIT_MAX,
    PATH_PROBES_MAX, STRIDE_MAX,
};
use crate::region::Epoch;
use crate::responder::Request;
use crate::stats::Drop;
use crate::transmit::Body;

/// What a queue pair knows of how long its packets may be.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Strides {
    /// The most that the port carries, in bytes of payload; 0 if packets are as long as the path MTU.
    most: u32,
    /// What packets of the path have been found to carry, if that is more than the path MTU.
    found: Option<u32>,
    probe: Option<Probe>,
    /// A probe of the peer's that is to be answered.
    owed: Option<(Psn, u32)>,
    /// Its path is not known to be that of its peer's packets, which tell nothing of it.
    is_moved: bool,
    /// Its peer has sent or taken long packets, so it is one of ours.
    is_known: bool,
    /// Long packets were not answered, and no path probe since: the path may have become too narrow for them.
    is_doubted: bool,
    /// The same, by what the peer has said last of what answers its READs.
    answers_narrowed: bool,
    /// A packet of which parts have left.
    unfinished: Option<Unfinished>,
}

/// The parts of it from `offset` on are to leave, unless its memory may be gone since.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    packet: Outgoing,
    offset: u32,
    epoch: Epoch,
}

/// A path probe that is to be sent, or waits for its answer.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// What packets of the next one's length carry, and of the one after that: they take turns.
    strides: [u32; 2],
    /// What its answer repeats; none was sent yet if there is none.
    psn: Option<Psn>,
    /// How many more may be sent; there is no end to it if packets as long were once answered.
    left: Option<u8>,
    /// When the next one is.
    next: Time,
    wait: Span,
}

impl Probe {
    fn new(stride: u32, left: Option<u8>) -> Self {
        let strides = [stride; 2];
        Self { strides, psn: None, left, next: Time::ZERO, wait: PATH_PROBE_WAIT }
    }

    /// What is left of it once packets of `stride` are known to pass.
    fn beyond(self, stride: u32) -> Option<Self> {
        let longest = self.strides[0].max(self.strides[1]);
        (longest > stride).then_some(Self { strides: [longest; 2], ..self })
    }
}

/// What a probe for packets of `stride` carries itself: the longest header of data stands for payload.
const fn probe_length(stride: u32) -> u32 {
    stride + PATH_PROBE_HEADROOM
}

/// What path probes carry.
static ZEROS: [u8; PATH_PROBE_MAX] = [0; PATH_PROBE_MAX];
const PATH_PROBE_MAX: usize = probe_length(STRIDE_MAX) as usize;

/// So many bytes of nothing.
pub(super) fn padding(length: u32) -> &'static [u8] {
    &ZEROS[..PATH_PROBE_MAX.min(length as usize)]
}

impl Qp {
    /// Its path MTU in bytes.
    #[inline]
    pub(crate) fn mtu(&self) -> u32 {
        self.attributes.path_mtu.bytes()
    }

    /// Bytes of payload of the packets of long messages that begin now.
    #[inline]
    pub(crate) fn stride(&self) -> u32 {
        self.strides.found.unwrap_or_else(|| self.mtu())
    }

    /// The same for a message of so many bytes.
    pub(crate) fn stride_for(&self, length: u32) -> u32 {
        if length > self.mtu() { self.stride() } else { self.mtu() }
    }

    /// How many packets may leave until one asks for an acknowledgement: of long ones as many bytes as of packets of the
    /// port's path MTU, and no more packets; and a part of a controller's window. If a short queue dropped the only packet of a
    /// window that asks, no round trip would ever be known.
    #[inline]
    pub(crate) fn ack_interval(&self, adapter: &Adapter) -> u32 {
        let mut packets = adapter.config.ack_interval_packets;
        if let Some(stride) = self.strides.found {
            let bytes = u64::from(packets) * u64::from(adapter.config.active_mtu.bytes());
            packets = packets.min((bytes / u64::from(stride)) as u32);
        }
        match self.pacer.window_packets() {
            None => packets,
            Some(window) => packets.min(window.div_ceil(ACKS_OF_WINDOW)),
        }
    }

    /// Bytes of payload of the packets of a peer's message, or of what answers its READ.
    #[inline]
    pub(crate) fn stride_of(&self, header: &roce::Repr) -> u32 {
        let mtu = self.mtu();
        // The ICRC does not cover the sign: once it is known whose peer it is, a packet may lack it.
        let is_ours = header.bth.sign != Sign::None || self.strides.is_known;
        let stride = header.bth.stride.bytes().filter(|_| is_ours);
        stride.filter(|stride| (mtu..=self.strides.most).contains(stride)).unwrap_or(mtu)
    }

    /// It is about to be connected, to another host.
    pub(super) fn settle_strides(&mut self, between: &BetweenHosts, active_mtu: u32) {
        let most = Stride::fitting(between.stride_max.min(STRIDE_MAX)).bytes().unwrap_or(0);
        if self.offered.is_some() && self.spec.kind == QpType::Rc && most > self.mtu() {
            // Who is connected with less than the port carries still takes what a narrower peer has found.
            self.strides = Strides { most, ..Strides::default() };
            let shorter = Some(ETHERNET_STRIDE).filter(|it| (self.mtu()..most).contains(it));
            let strides = [most, shorter.unwrap_or(most)];
            let probe = self.first_probe(active_mtu);
            self.strides.probe = probe.map(|probe| Probe { strides, ..probe });
        }
    }

    /// The probe of a path of which nothing is known, unless the program has chosen a path MTU for it.
    fn first_probe(&self, active_mtu: u32) -> Option<Probe> {
        let most = self.strides.most;
        let is_chosen = self.mtu() != active_mtu && !self.attributes.negotiated_mtu;
        (most > 0 && !is_chosen).then(|| Probe::new(most, Some(PATH_PROBES_MAX)))
    }

    /// It has another path from now on, of which nothing is known.
    pub(super) fn forget_strides(&mut self, active_mtu: u32) {
        self.strides.is_moved = true;
        self.shorten(self.first_probe(active_mtu));
    }

    /// Packets of messages that begin from now on are as long as the path MTU, until the probe is answered.
    fn shorten(&mut self, probe: Option<Probe>) {
        (self.strides.found, self.strides.probe) = (None, probe);
        self.requester.recut(self.mtu(), self.mtu());
        self.pacer.begin(self.mtu());
    }

    /// No answer has come in time. If packets were long, the path may have become too narrow for them: what begins from now
    /// on is in packets of the path MTU, until a path probe is answered, and what has begun leaves in parts.
    pub(crate) fn doubt_stride(&mut self) {
        if let Some(stride) = self.strides.found {
            self.strides.is_doubted = true;
            self.shorten(Some(Probe::new(stride, None)));
        }
    }

    /// Whether packets of `stride` are longer than what the path is known to take: of messages that began before it was doubted.
    #[inline]
    pub(crate) fn is_too_long(&self, stride: u32) -> bool {
        stride > self.stride()
    }

    /// Whether a packet with so many bytes of payload leaves in parts.
    #[inline]
    pub(crate) fn leaves_in_parts(&self, packet: &Outgoing, length: u32) -> bool {
        match packet.content {
            // Datagrams are as long as the port allows.
            _ if length <= self.mtu() || self.strides.most == 0 => false,
            Content::Request { .. } => {
                self.is_too_long(length) || self.strides.unfinished.is_some()
            }
            Content::Response { .. } => {
                self.strides.answers_narrowed || self.strides.unfinished.is_some()
            }
            _ => false,
        }
    }

    /// What the next part of a packet carries, whose headers are written: they become those of the part.
    #[cold]
    pub(super) fn cut(&self, whole: Body, header: &mut roce::Repr) -> Body {
        let offset = self.strides.unfinished.map_or(0, |it| it.offset);
        header.bth.opcode = header.bth.opcode.part();
        // Packets are no longer than a stride may be.
        header.part = Some(parteth::Repr { offset: offset as u16, whole: whole.len() as u16 });
        whole.part(offset, self.mtu())
    }

    /// A part of `packet` leaves, with so many bytes of payload, and the next one after it.
    #[cold]
    pub(crate) fn go_on_behind(
        &mut self,
        packet: Outgoing,
        parteth::Repr { offset, whole }: parteth::Repr,
        length: u32,
        adapter: &Adapter,
    ) {
        let (offset, epoch) = (u32::from(offset) + length, adapter.regions.epoch());
        let is_left = offset < u32::from(whole);
        self.strides.unfinished = is_left.then_some(Unfinished { packet, offset, epoch });
    }

    /// The packet of which parts have left, for its next one. If its request is done, or a region may have gone, the others
    /// do not leave: it is sent again if it is missing.
    #[inline]
    pub(super) fn next_part(&mut self, adapter: &Adapter) -> Option<Outgoing> {
        let Unfinished { packet, epoch, .. } = self.strides.unfinished?;
        let is_done = match packet.content {
            Content::Request { serial, .. } => self.requester.packets(serial) == 0,
            _ => false,
        };
        if is_done || epoch != adapter.regions.epoch() {
            self.forget_part();
            return None;
        }
        Some(packet)
    }

    /// No more parts leave of the packet of which some have.
    pub(crate) fn forget_part(&mut self) {
        self.strides.unfinished = None;
    }

    /// A part of a packet has come. Once all are here the packet is taken as if it had come whole.
    #[cold]
    pub(crate) fn take_part<M: Memory>(
        &mut self,
        now: Time,
        request: &Request<'_, '_, M>,
        part: parteth::Repr,
        memory: &mut M,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let (header, is_request) = (request.header, request.facts.is_request());
        let (psn, whole) = (header.bth.psn, u32::from(part.whole));
        // A path MTU is 4,096 at most.
        let each = self.mtu() as u16;
        let due = usize::from(part.whole.saturating_sub(part.offset).min(each));
        let fits = (self.mtu() + 1..=self.strides.most).contains(&whole);
        if !fits || !part.offset.is_multiple_of(each) || due == 0 || request.length() != due {
            return Err(Drop::BadLength);
        }
        let mut header = *header;
        (header.bth.opcode, header.part) = (header.bth.opcode.whole(), None);
        if is_request {
            self.follow_sign(header.bth.sign != Sign::None);
        }
        let expected = self.responder.expected();
        let (base, kept) = match is_request {
            true => (expected, self.responder.kept_mut()),
            false => (self.requester.unacked, self.requester.kept_mut()),
        };
        let kept = kept.ok_or(Drop::BadLength)?;
        if psn.is_before(base) {
            // It is a duplicate, which the last part stands for: nobody looks at what it carries.
            let is_last = u32::from(part.offset) + due as u32 == whole;
            return match (is_last, is_request) {
                (false, _) => Ok(()),
                (true, false) => {
                    self.handle_response(now, &header, request.carried, memory, adapter)
                }
                (true, true) => {
                    adapter.stats.duplicate_request += 1;
                    self.answer_duplicate(request, adapter);
                    Ok(())
                }
            };
        }
        kept.advance(base);
        let Some(payload) = kept.keep_part::<M>(psn, part, each, request.carried) else {
            return Ok(());
        };
        let carried = Carried { payload: M::recall(&payload), length: payload.len() };
        if is_request {
            let request = Request::<M>::new(&header, carried);
            self.handle_request(now, &request, memory, adapter)
        } else {
            self.handle_response(now, &header, carried, memory, adapter)
        }
    }

    /// Notes what a request says of the path of its message and of what answers it.
    #[inline]
    pub(crate) fn follow_narrowing(&mut self, bth: &wire::bth::Repr) {
        if bth.stride != Stride::PATH_MTU {
            self.strides.answers_narrowed = bth.sign == Sign::Narrowed;
        }
    }

    /// An answer to a path probe, or a path probe, if one is due.
    #[inline]
    pub(super) fn next_path_probe(&mut self, now: Time, adapter: &mut Adapter) -> Option<Outgoing> {
        let Strides { probe, owed, .. } = &self.strides;
        if probe.is_none() && owed.is_none() {
            return None;
        }
        self.due_path_probe(now, adapter)
    }

    #[cold]
    fn due_path_probe(&mut self, now: Time, adapter: &mut Adapter) -> Option<Outgoing> {
        if let Some((psn, length)) = self.strides.owed.take() {
            let content = Content::PathProbe { length };
            return Some(Outgoing { opcode: Opcode::RC_PATH_PROBE_ANSWER, psn, content });
        }
        // After a timeout the queue that dropped all may have room for one packet, which is to be a repetition.
        let is_of_use = self.requester.scoreboard.is_some()
            && self.state == QpState::Rts
            && self.requester.timeouts == 0
            && self.requester.sends_more_than(self.mtu());
        let probe = self.strides.probe.as_mut().filter(|probe| is_of_use && now >= probe.next)?;
        if probe.left == Some(0) {
            self.strides.probe = None;
            return None;
        }
        let psn = *probe.psn.get_or_insert(self.requester.unacked);
        probe.left = probe.left.map(|left| left - 1);
        probe.next = now + probe.wait;
        probe.wait = (probe.wait * 2).min(PATH_PROBE_WAIT_MAX);
        adapter.stats.path_probes_sent += 1;
        let content = Content::PathProbe { length: probe_length(probe.strides[0]) };
        probe.strides.reverse();
        Some(Outgoing { opcode: Opcode::RC_PATH_PROBE, psn, content })
    }

    /// A path probe has come. One that is longer than this port could answer is not answered, nor one of a peer that has
    /// another path MTU, as its stride says.
    pub(crate) fn path_probed(&mut self, header: &roce::Repr, length: usize) -> Result<(), Drop> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let [least, most] = [self.mtu(), self.strides.most].map(probe_length);
        let is_of_mtu = header.bth.stride == Stride::fitting(self.mtu());
        if !is_of_mtu || length <= least || length > most {
            return Err(Drop::BadLength);
        }
        self.strides.owed = Some((header.bth.psn, length));
        Ok(())
    }

    /// A path probe was answered: the path takes packets of so many bytes of payload, in both directions.
    pub(crate) fn path_probe_answered(
        &mut self,
        header: &roce::Repr,
        length: usize,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let probe = self.strides.probe.filter(|probe| probe.psn == Some(header.bth.psn));
        let mut strides = probe.into_iter().flat_map(|probe| probe.strides);
        let stride = strides.find(|stride| length == probe_length(*stride) as usize);
        let stride = stride.ok_or(Drop::UnexpectedResponse)?;
        adapter.stats.path_probes_answered += 1;
        self.lengthen(stride);
        Ok(())
    }

    /// A request has come that says how long its packets are: its sender knows that packets as long come back, too.
    pub(crate) fn follow_stride(&mut self, header: &roce::Repr) {
        let stride = self.stride_of(header);
        self.strides.is_known |= stride > self.mtu();
        let is_of_path = !self.strides.is_moved && !self.strides.is_doubted;
        if stride > self.stride() && is_of_path {
            self.lengthen(stride);
        }
    }

    /// Packets of messages that begin from now on are longer.
    fn lengthen(&mut self, stride: u32) {
        self.strides.found = Some(stride);
        (self.strides.is_doubted, self.strides.is_known) = (false, true);
        self.strides.probe = self.strides.probe.and_then(|probe| probe.beyond(stride));
        self.requester.recut(self.mtu(), stride);
        self.pacer.begin(stride);
    }
}
