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
//! numbers, and the path MTU is agreed on: what is too long now leaves in parts that any Ethernet takes, and the peer puts them together
//! ([`wire::parteth`]). A responder does not know that its answers vanish: the requests for them say it ([`Sign::Narrowed`]).
//!
//! ```text
//!     WRITE, PSN 7, 1,408 bytes ───────────────────X
//!     WRITE, PSN 7, bytes 0 to 1,023 of 1,408 ─────────────────►
//!     WRITE, PSN 7, bytes 1,024 to 1,407 ──────────────────────►  and PSN 7 has arrived
//! ```
//!
//! A peer that is gone, or slow, is doubted as well. That costs little: the first probe that is answered ends it.
//!
//! Only a peer of ours takes parts. Where packets of the path MTU have never passed it may not be known to be one. Then a short probe
//! leaves beside what is repeated. Others drop it, for its opcode is none of theirs; if it is answered, and nothing else is for a
//! while, the path is narrow:
//!
//! ```text
//!     WRITE, PSN 7, 4,096 bytes ───────────────────X
//!                                                                   timeout
//!     path probe, 1,044 bytes ─────────────────────────────────►
//!     WRITE, PSN 7, 4,096 bytes ───────────────────X
//!     ◄──────────────────────────── path probe answer, just as long
//!     WRITE, PSN 7, bytes 0 to 1,023 of 4,096 ─────────────────►  and so on
//! ```

use core::cmp::Ordering;

use rdma::{Memory, Psn, QpState, QpType, Span, Time};
use wire::bth::{Sign, Stride};
use wire::{Opcode, parteth, roce};

use super::{Content, Outgoing, Qp};
use crate::adapter::Adapter;
use crate::arrival::Carried;
use crate::config::BetweenHosts;
use crate::limits::{
    ACKS_OF_WINDOW, ETHERNET_STRIDE, PART_BYTES, PATH_PROBE_HEADROOM, PATH_PROBE_WAIT,
    PATH_PROBE_WAIT_MAX, PATH_PROBES_MAX, STRIDE_MAX,
};
use crate::region::Epoch;
use crate::responder::Request;
use crate::stats::{Again, Drop};
use crate::timer::Timer;
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
    /// The same of packets of the path MTU: they leave in parts.
    is_narrow: bool,
    /// The longest that leaves whole of what answers the peer's READs, by what it has said last. All do if there is none.
    whole_answers: Option<u32>,
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
    /// How many more may be sent; there is no end to it once the path was doubted.
    left: Option<u8>,
    /// When the next one is.
    next: Time,
    wait: Span,
    /// Before it a short one is to be sent, to learn whether the peer is one of ours.
    is_short: bool,
    /// The oldest packet when that was answered.
    answered_for: Option<Psn>,
}

impl Probe {
    fn new(strides: [u32; 2], left: Option<u8>) -> Self {
        let (next, wait) = (Time::ZERO, PATH_PROBE_WAIT);
        Self { strides, psn: None, left, next, wait, is_short: false, answered_for: None }
    }

    /// What packets of the longest one's length carry.
    fn longest(&self) -> u32 {
        self.strides[0].max(self.strides[1])
    }

    /// What is left of it once packets of `stride` are known to pass.
    fn beyond(self, stride: u32) -> Option<Self> {
        let longest = self.longest();
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

    /// Bytes of payload of packets that any path is to take.
    #[inline]
    fn least(&self) -> u32 {
        self.mtu().min(PART_BYTES)
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
        let is_of_use = most >= self.mtu() && most > self.least();
        if self.offered.is_some() && self.spec.kind == QpType::Rc && is_of_use {
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
        (most > self.mtu() && !is_chosen).then(|| Probe::new([most; 2], Some(PATH_PROBES_MAX)))
    }

    /// It has another path from now on, of which nothing is known.
    pub(super) fn forget_strides(&mut self, active_mtu: u32) {
        (self.strides.is_moved, self.strides.is_narrow) = (true, false);
        self.shorten(self.first_probe(active_mtu));
    }

    /// Packets of messages that begin from now on are as long as the path MTU, until the probe is answered.
    fn shorten(&mut self, probe: Option<Probe>) {
        (self.strides.found, self.strides.probe) = (None, probe);
        self.requester.recut(self.mtu(), self.mtu());
        self.pacer.begin(self.mtu());
    }

    /// No answer has come in time. The path may have become too narrow, if what is not answered is long: what begins from now on
    /// is in packets of the path MTU, until a path probe is answered, and what is too long leaves in parts.
    pub(crate) fn doubt_path(&mut self) {
        let Strides { most, found, is_known, .. } = self.strides;
        let least = self.least();
        let is_long = self.requester.queue.front().is_some_and(|wqe| wqe.longest() > least);
        if most == 0 || !is_long || self.whole_requests() == least {
            return;
        }
        if found.is_some() || is_known {
            self.narrow();
        } else if self.is_short_alone_answered() {
            self.narrow();
            // What has left was too long.
            self.requester.again = Again::Timeout;
            self.requester.go_back_to(self.requester.unacked);
        } else if self.requester.scoreboard.is_some() || !self.requester.has_heard() {
            let probe = self.strides.probe.unwrap_or(Probe::new([self.mtu(); 2], None));
            self.strides.probe = Some(Probe { is_short: true, left: None, ..probe });
        }
    }

    /// Nothing longer than a part is known to pass any more.
    fn narrow(&mut self) {
        let Strides { found, probe, .. } = self.strides;
        let mtu = self.mtu();
        let longest = found.or(probe.map(|probe| probe.longest())).unwrap_or(mtu);
        let is_narrow = mtu > self.least();
        (self.strides.is_doubted, self.strides.is_narrow) = (true, is_narrow);
        let other = if is_narrow { mtu } else { longest };
        self.shorten(Some(Probe::new([longest, other], None)));
        // Parts of answers are kept by who is.
        self.requester.become_selective();
    }

    /// A short probe was answered, and nothing else yet: the peer is one of ours. If it was only slow, its other answers follow.
    fn note_short_answer(&mut self, now: Time) {
        let is_heard = self.timers.is_running(Timer::RnrRetry);
        let requester = &mut self.requester;
        let is_silent = !is_heard && (requester.timeouts > 0 || requester.probes > 0);
        if let Some(probe) = self.strides.probe.as_mut().filter(|_| is_silent) {
            probe.answered_for = Some(requester.unacked);
            requester.become_selective();
            self.arm_probe(now, true);
        }
    }

    /// Whether a short probe was answered, and nothing else since.
    pub(crate) fn is_short_alone_answered(&self) -> bool {
        let answered_for = self.strides.probe.and_then(|probe| probe.answered_for);
        answered_for == Some(self.requester.unacked)
    }

    /// The longest packet of a request that leaves whole, in bytes of payload.
    #[inline]
    fn whole_requests(&self) -> u32 {
        if self.strides.is_narrow { self.least() } else { self.stride() }
    }

    /// Whether a request whose message is in packets of `stride` says that these leave in parts, and so does what answers it. They
    /// are too long if they are of messages that began before the path was doubted.
    #[inline]
    pub(crate) fn says_narrowed(&self, stride: u32) -> bool {
        self.strides.is_narrow || stride > self.stride()
    }

    /// The longest packet of its kind that leaves whole, in bytes of payload.
    #[inline]
    fn whole(&self, packet: &Outgoing) -> u32 {
        match packet.content {
            Content::Request { .. } => self.whole_requests(),
            Content::Response { .. } => self.strides.whole_answers.unwrap_or(u32::MAX),
            _ => u32::MAX,
        }
    }

    /// Whether a packet with so many bytes of payload leaves in parts.
    #[inline]
    pub(crate) fn leaves_in_parts(&self, packet: &Outgoing, length: u32) -> bool {
        // Datagrams are as long as the port allows.
        if self.strides.most == 0 || length <= self.least() {
            return false;
        }
        length > self.whole(packet) || self.strides.unfinished.is_some()
    }

    /// What the next part of a packet carries, whose headers are written: they become those of the part.
    #[cold]
    pub(super) fn cut(&self, packet: &Outgoing, whole: Body, header: &mut roce::Repr) -> Body {
        let offset = self.strides.unfinished.map_or(0, |it| it.offset);
        header.bth.opcode = header.bth.opcode.part();
        // Packets are no longer than a stride may be.
        header.part = Some(parteth::Repr { offset: offset as u16, whole: whole.len() as u16 });
        whole.part(offset, self.whole(packet).clamp(self.least(), self.mtu()))
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
        let (psn, whole, length) = (header.bth.psn, usize::from(part.whole), request.length());
        // No more than `PART_BYTES`.
        let each = self.least() as u16;
        let end = usize::from(part.offset) + length;
        let is_long = (self.least() + 1..=self.strides.most).contains(&part.whole.into());
        let is_full = length.is_multiple_of(each.into()) || end == whole;
        let fits = is_full && length > 0 && end <= whole && part.offset.is_multiple_of(each);
        if !is_long || !fits {
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
        if kept.is_left_over(psn, part.offset, end == whole) {
            return Ok(());
        }
        if psn.is_before(base) {
            // It is a duplicate, which the last part stands for: nobody looks at what it carries.
            return match (end == whole, is_request) {
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
        let whole = self.strides.whole_answers;
        self.strides.whole_answers = match (bth.sign, bth.stride) {
            (Sign::Narrowed, _) => Some(self.least()),
            // It tells nothing of longer ones.
            (_, Stride::PATH_MTU) => whole.map(|most| most.max(self.mtu())),
            _ => None,
        };
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
            && self.requester.timeouts == 0
            && self.requester.sends_more_than(self.whole_requests().min(self.mtu()));
        let (least, is_rts, may_send) = (self.least(), self.state == QpState::Rts, self.may_send());
        let probe = self.strides.probe.as_mut();
        let probe = probe.filter(|probe| is_rts || may_send && probe.is_short)?;
        let is_short = core::mem::take(&mut probe.is_short);
        if !is_short && (!is_of_use || now < probe.next) {
            return None;
        }
        if probe.left == Some(0) {
            self.strides.probe = None;
            return None;
        }
        let psn = *probe.psn.get_or_insert(self.requester.unacked);
        adapter.stats.path_probes_sent += 1;
        let mut stride = least;
        if !is_short {
            stride = probe.strides[0];
            probe.strides.reverse();
            probe.left = probe.left.map(|left| left - 1);
            probe.next = now + probe.wait;
            probe.wait = (probe.wait * 2).min(PATH_PROBE_WAIT_MAX);
        }
        let content = Content::PathProbe { length: probe_length(stride) };
        Some(Outgoing { opcode: Opcode::RC_PATH_PROBE, psn, content })
    }

    /// A path probe has come. One that is longer than this port could answer is not answered, nor one of a peer that has
    /// another path MTU, as its stride says.
    pub(crate) fn path_probed(&mut self, header: &roce::Repr, length: usize) -> Result<(), Drop> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let [least, most] = [self.least(), self.strides.most].map(probe_length);
        let is_of_mtu = header.bth.stride == Stride::fitting(self.mtu());
        if !is_of_mtu || length < least || length > most {
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
        let mut strides = probe.iter().flat_map(|it| [it.strides[0], it.strides[1], self.least()]);
        let stride = strides.find(|stride| length == probe_length(*stride) as usize);
        let stride = stride.ok_or(Drop::UnexpectedResponse)?;
        self.requester.hear();
        // That short ones pass is no news.
        adapter.stats.path_probes_answered += u64::from(stride >= self.mtu());
        match stride.cmp(&self.mtu()) {
            Ordering::Less => self.note_short_answer(adapter.now),
            Ordering::Equal => self.widen(),
            Ordering::Greater => self.lengthen(stride),
        }
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

    /// Packets of the path MTU pass.
    fn widen(&mut self) {
        self.strides.is_narrow = false;
        self.strides.probe = self.strides.probe.and_then(|probe| probe.beyond(self.mtu()));
        self.strides.is_doubted &= self.strides.probe.is_some();
    }

    /// Packets of messages that begin from now on are longer.
    fn lengthen(&mut self, stride: u32) {
        self.strides.found = Some(stride);
        (self.strides.is_doubted, self.strides.is_narrow) = (false, false);
        self.strides.is_known = true;
        self.strides.probe = self.strides.probe.and_then(|probe| probe.beyond(stride));
        self.requester.recut(self.mtu(), stride);
        self.pacer.begin(stride);
    }
}
