//! Packets in flight: thirty-two bytes each, in one pool, named by an index.
//!
//! ```text
//!   engine: route, roce::Repr, payload length      ─► Packet  ─► links, switches, links
//!   engine: Arrival, roce::Repr, payload length    ◄─ Packet  ◄─┘
//! ```
//!
//! What all packets of one direction of a queue pair share (addresses, source port) stands once, in a
//! table of [`Tuple`](crate::address::Tuple)s. Headers that most packets lack (RETH, DETH, atomics,
//! immediate data) stand in a table of the pool. The payload is a length; the bytes that applications
//! send stand in the same table ([`Pool::carry`]), and so does what switches write ([`Pool::attach`]).
//!
//! **Invariant:** a packet is in one place at a time: an event, a queue, or a receive buffer. Whoever
//! takes it out of the fabric frees it and says why ([`crate::counters::Drop`], or delivered).

use crate::slots::Slots;
use crate::tcp::Segment;
use prefetch_index::prefetch_index;
use rdma::{Mtu, Psn, Qpn};
use transport::congestion::{Hop, Telemetry};
use wire::opcode::Headers;
use wire::vlan::Tag;
use wire::{Opcode, aeth, ipv4, roce};

/// No packet.
pub(crate) const NIL: u32 = u32::MAX;
/// Ethernet, IPv4 and UDP headers, and the check sequences of RoCE and Ethernet.
pub(crate) const LOWER_BYTES: u32 = 14 + 20 + 8 + 4 + 4;
/// Ethernet's header and check sequence.
pub(crate) const ETHERNET_BYTES: u16 = 14 + 4;
/// A PFC frame, with its check sequence.
pub(crate) const PFC_BYTES: u16 = 64;
/// What precedes a frame on the wire: preamble and delimiter (IEEE 802.3).
pub(crate) const PREAMBLE_BYTES: u64 = 8;
/// What must lie between two frames (IEEE 802.3).
pub(crate) const GAP_BYTES: u64 = 12;

/// A RoCE frame with a whole payload, in the middle of a message: with 1,024 bytes of it, 1,086.
pub(crate) const fn whole_frame(mtu: Mtu) -> u32 {
    LOWER_BYTES + wire::bth::LEN as u32 + mtu.bytes()
}

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// RoCE, with BTH and perhaps AETH.
    Roce,
    /// RoCE with headers that stand in the table of [`Pool`].
    Extended,
    /// A PFC frame: see [`Pause`].
    Pfc,
    /// A TCP segment: its numbers stand where a RoCE packet has its own.
    Tcp,
}

/// A packet, of which two fill a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Packet {
    /// On a link, the port that it will arrive at; in a queue, or if it is free, the packet behind it.
    pub(crate) next: u32,
    /// Index of its [`Tuple`](crate::address::Tuple).
    pub(crate) tuple: u32,
    /// PSN, and the opcode in the upper eight bits.
    psn: u32,
    /// Destination QPN, and flags in the upper eight bits.
    qpn: u32,
    /// AETH, index of the extended headers, or pause.
    word: u32,
    /// The frame with its check sequence.
    pub(crate) bytes: u16,
    /// Of RoCE its bytes, and in the upper bit whether it was corrupted; of TCP see [`Pool::tcp`].
    payload: u16,
    pub(crate) ip_id: u16,
    /// The port of the present switch that it came in by.
    pub(crate) ingress: u16,
    /// DSCP and ECN bits.
    pub(crate) traffic_class: u8,
    /// Priority group at the present switch (3 bits), VLAN tag present (1), its PCP (3), and
    /// whether it is a flooded copy (1).
    class: u8,
    pub(crate) ttl: u8,
    pub(crate) kind: Kind,
}

const TAGGED: u8 = 1 << 3;
const PCP_SHIFT: u32 = 4;
const FLOODED: u8 = 1 << 7;

const SOLICITED: u32 = 1 << 24;
const ACK_REQUEST: u32 = 1 << 25;
const FECN: u32 = 1 << 26;
const BECN: u32 = 1 << 27;
const PAD_SHIFT: u32 = 28;
/// Not of the frame: switches write into it.
const OBSERVED: u32 = 1 << 30;
/// Not of the frame: the bytes beside it are a whole IP packet, which a program made.
const WHOLE: u32 = 1 << 31;

/// Of a payload: an ICRC would not be right. Payloads are far shorter.
const CORRUPT: u16 = 1 << 15;

/// What a PFC frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pause {
    /// Priorities that stop for `quanta`.
    pub(crate) stop: u8,
    /// Priorities that go on.
    pub(crate) resume: u8,
    pub(crate) quanta: u16,
}

impl Packet {
    pub(crate) fn group(&self) -> usize {
        usize::from(self.class & 7)
    }

    pub(crate) fn set_group(&mut self, group: u8) {
        self.class = self.class & !7 | group & 7;
    }

    /// The PCP of its VLAN tag, if it has one.
    pub(crate) fn pcp(&self) -> Option<u8> {
        (self.class & TAGGED != 0).then_some(self.class >> PCP_SHIFT & 7)
    }

    /// Its VLAN tag, if it has one. All are of one VLAN.
    pub(crate) fn tag(&self) -> Option<Tag> {
        self.pcp().map(|priority| Tag { priority, drop_eligible: false, id: 1 })
    }

    /// Adds a VLAN tag, or takes it off.
    pub(crate) fn set_pcp(&mut self, pcp: Option<u8>) {
        let had = self.pcp().is_some();
        self.class &= !(TAGGED | 7 << PCP_SHIFT);
        if let Some(pcp) = pcp {
            self.class |= TAGGED | (pcp & 7) << PCP_SHIFT;
        }
        match (had, pcp.is_some()) {
            (false, true) => self.bytes += wire::vlan::HEADER_LEN as u16,
            (true, false) => self.bytes -= wire::vlan::HEADER_LEN as u16,
            _ => {}
        }
    }

    /// Whether it is a copy that a switch sent everywhere, addressed to the MAC of a host.
    pub(crate) fn is_flooded(&self) -> bool {
        self.class & FLOODED != 0
    }

    pub(crate) fn set_flooded(&mut self) {
        self.class |= FLOODED;
    }

    /// Whether switches write into it ([`Pool::attach`]).
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.kind == Kind::Extended && self.qpn & OBSERVED != 0
    }

    /// The bytes of the payload of a RoCE packet.
    #[inline]
    pub(crate) fn payload(&self) -> u16 {
        self.payload & !CORRUPT
    }

    /// Whether it is a RoCE packet that was corrupted on its way.
    #[inline]
    pub(crate) fn is_corrupt(&self) -> bool {
        self.payload & CORRUPT != 0 && self.kind != Kind::Tcp
    }

    /// Whether it is a packet of a program, with all its bytes ([`Pool::carry_whole`]).
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.qpn & WHOLE != 0 && self.kind == Kind::Extended
    }

    pub(crate) fn dscp(&self) -> usize {
        usize::from(self.traffic_class >> 2)
    }

    pub(crate) fn pause(&self) -> Pause {
        let [stop, resume, high, low] = self.word.to_be_bytes();
        Pause { stop, resume, quanta: u16::from_be_bytes([high, low]) }
    }

    fn opcode(&self) -> Opcode {
        Opcode::from_code((self.psn >> 24) as u8).unwrap_or(Opcode::CNP)
    }

    /// The destination queue pair.
    pub(crate) fn qpn(&self) -> Qpn {
        Qpn::new(self.qpn)
    }
}

/// Lists of free packets.
const FREE_LISTS: usize = 8;
/// Packets are made room for so many at a time, of 32 KB.
const CHUNK: usize = 1 << 10;

/// All packets.
#[derive(Debug)]
pub(crate) struct Pool {
    /// So that more of them is no second copy of all of them.
    chunks: Vec<Box<[Packet; CHUNK]>>,
    /// Those that have been taken, ever.
    begun: u32,
    /// The first of each list of those that are free again. The lists go through the packets themselves
    /// and are used in turn, so that what is asked for next was fetched from memory long before.
    free: [u32; FREE_LISTS],
    /// The list whose turn it is to give one.
    turn: usize,
    in_use: usize,
    extended: Slots<roce::Repr>,
    /// By place in `extended`, as far as there are any: the bytes of payloads.
    payloads: Vec<Vec<u8>>,
    /// The same of what switches have written.
    telemetry: Vec<Option<Telemetry>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// What an [`Kind::Extended`] packet has beside its thirty-two bytes.
#[derive(Debug)]
pub(crate) struct Extension {
    header: roce::Repr,
    payload: Vec<u8>,
    telemetry: Option<Telemetry>,
}

/// A packet that is to be made of what an engine gave out.
pub(crate) struct Draft<'a> {
    pub(crate) header: &'a roce::Repr,
    pub(crate) payload: u32,
    /// Index of its [`Tuple`](crate::address::Tuple).
    pub(crate) tuple: u32,
    pub(crate) traffic_class: u8,
    pub(crate) ttl: u8,
    pub(crate) ip_id: u16,
    pub(crate) pcp: Option<u8>,
}

/// What a TCP packet says beside its segment.
pub(crate) struct Sent {
    pub(crate) tuple: u32,
    pub(crate) traffic_class: u8,
    pub(crate) ip_id: u16,
    pub(crate) pcp: Option<u8>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            begun: 0,
            free: [NIL; FREE_LISTS],
            turn: 0,
            in_use: 0,
            extended: Slots::default(),
            payloads: Vec::new(),
            telemetry: Vec::new(),
            spare: Vec::new(),
        }
    }
}

impl Pool {
    /// A RoCE packet.
    pub(crate) fn roce(&mut self, draft: &Draft<'_>) -> u32 {
        let header = draft.header;
        let bth = &header.bth;
        let facts = header.facts();
        let bytes = LOWER_BYTES + header.header_len() as u32 + draft.payload + u32::from(bth.pad);
        let flag = |set: bool, mask: u32| if set { mask } else { 0 };
        let plain = (facts.headers == Headers::NONE || facts.headers == Headers::AETH)
            && bth.migration
            && bth.p_key == rdma::PKey::DEFAULT;
        let (kind, word) = if plain {
            let word = header
                .aeth
                .map_or(0, |aeth| u32::from(aeth.syndrome.bits()) << 24 | aeth.msn & 0x00ff_ffff);
            (Kind::Roce, word)
        } else {
            (Kind::Extended, self.extended.insert(*header))
        };
        let mut packet = Packet {
            next: NIL,
            tuple: draft.tuple,
            psn: bth.psn.value() | u32::from(bth.opcode.code()) << 24,
            qpn: bth.destination.value()
                | flag(bth.solicited, SOLICITED)
                | flag(bth.ack_request, ACK_REQUEST)
                | flag(bth.fecn, FECN)
                | flag(bth.becn, BECN)
                | u32::from(bth.pad & 3) << PAD_SHIFT,
            word,
            // The longest payload is 4096 bytes.
            bytes: bytes.min(u32::from(u16::MAX)) as u16,
            payload: draft.payload.min(u32::from(u16::MAX)) as u16,
            ip_id: draft.ip_id,
            ingress: 0,
            traffic_class: draft.traffic_class,
            class: 0,
            ttl: draft.ttl,
            kind,
        };
        packet.set_pcp(draft.pcp);
        self.insert(packet)
    }

    /// A TCP segment.
    pub(crate) fn segment(&mut self, segment: &Segment, sent: &Sent) -> u32 {
        let bytes = segment.bytes.saturating_add(ETHERNET_BYTES);
        let mut packet = Packet {
            next: NIL,
            tuple: sent.tuple,
            psn: segment.sequence,
            qpn: segment.acknowledgement.unwrap_or(0),
            word: segment.word(),
            bytes,
            // What says SYN carries its MSS here, and no data.
            payload: segment.mss.unwrap_or(segment.payload),
            ip_id: sent.ip_id,
            ingress: 0,
            traffic_class: sent.traffic_class,
            class: 0,
            ttl: 64,
            kind: Kind::Tcp,
        };
        packet.set_pcp(sent.pcp);
        self.insert(packet)
    }

    /// The segment of a TCP packet, and its tuple.
    pub(crate) fn tcp(&self, index: u32) -> (Segment, u32) {
        let packet = self.get(index);
        let segment = Segment::of(packet.word, packet.psn, packet.qpn, packet.payload);
        (segment, packet.tuple)
    }

    /// A PFC frame.
    pub(crate) fn pfc(&mut self, pause: Pause) -> u32 {
        let [high, low] = pause.quanta.to_be_bytes();
        self.insert(Packet {
            next: NIL,
            tuple: NIL,
            psn: 0,
            qpn: 0,
            word: u32::from_be_bytes([pause.stop, pause.resume, high, low]),
            bytes: PFC_BYTES,
            payload: 0,
            ip_id: 0,
            ingress: 0,
            traffic_class: 0,
            class: 0,
            ttl: 0,
            kind: Kind::Pfc,
        })
    }

    /// A second packet like `index`.
    pub(crate) fn copy(&mut self, index: u32) -> u32 {
        let mut packet = *self.get(index);
        if packet.kind == Kind::Extended {
            let from = packet.word as usize;
            packet.word = self.extended.insert(*self.extended.get(packet.word));
            if let Some(bytes) = self.payloads.get(from).filter(|bytes| !bytes.is_empty()) {
                let bytes = bytes.clone();
                *self.payload_at(packet.word) = bytes;
            }
            if let Some(Some(telemetry)) = self.telemetry.get(from) {
                let telemetry = telemetry.clone();
                self.set_telemetry(packet.word, telemetry);
            }
        }
        self.insert(packet)
    }

    /// Takes what a packet has beside its thirty-two bytes, which is about to leave for another pool.
    pub(crate) fn take_extension(&mut self, index: u32) -> Extension {
        let (header, payload) = (self.header(index), self.take_payload(index));
        Extension { header, payload, telemetry: self.take_telemetry(index) }
    }

    /// Gives it to a packet of another pool.
    pub(crate) fn extend(&mut self, index: u32, extension: Extension) {
        let Extension { header, payload, telemetry } = extension;
        let word = self.extended.insert(header);
        self.get_mut(index).word = word;
        if !payload.is_empty() {
            *self.payload_at(word) = payload;
        }
        if let Some(telemetry) = telemetry {
            self.set_telemetry(word, telemetry);
        }
    }

    /// The place of a RoCE packet in the tables.
    fn place(&mut self, index: u32) -> u32 {
        if self.get(index).kind == Kind::Roce {
            let word = self.extended.insert(self.header(index));
            let packet = self.get_mut(index);
            (packet.kind, packet.word) = (Kind::Extended, word);
        }
        self.get(index).word
    }

    /// Gives a RoCE packet the bytes of its payload: `fill` writes them into an empty buffer.
    pub(crate) fn carry(&mut self, index: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        fill(&mut bytes);
        let word = self.place(index);
        *self.payload_at(word) = bytes;
    }

    /// Gives a RoCE packet all its bytes, from the IP header to the ICRC.
    pub(crate) fn carry_whole(&mut self, index: u32, bytes: &[u8]) {
        self.carry(index, |place| place.extend_from_slice(bytes));
        self.get_mut(index).qpn |= WHOLE;
    }

    /// How many bytes a packet of a program has, from the IP header on.
    pub(crate) fn ip_bytes(&self, index: u32) -> u32 {
        let bytes = self.payloads.get(self.get(index).word as usize);
        bytes.map_or(0, |bytes| bytes.len() as u32)
    }

    /// The bytes of a packet of a program as it was sent, from the IP header on.
    pub(crate) fn sent_bytes(&self, index: u32) -> &[u8] {
        self.payloads.get(self.get(index).word as usize).map_or(&[], Vec::as_slice)
    }

    /// The first `length` bytes of a packet of a program as they are now.
    pub(crate) fn whole_beginning(&self, index: u32, length: usize) -> Box<[u8]> {
        let (packet, bytes) = (self.get(index), self.sent_bytes(index));
        let mut beginning: Box<[u8]> = bytes[..length.min(bytes.len())].into();
        if beginning.len() >= ipv4::HEADER_LEN
            && let Ok(header) = ipv4::Repr::parse(bytes)
        {
            ipv4::Repr { tos: packet.traffic_class, ttl: packet.ttl, ..header }
                .emit(&mut beginning);
        }
        beginning
    }

    /// The bytes of a packet of a program as they are now: switches change traffic class and TTL.
    pub(crate) fn whole(&mut self, index: u32) -> &[u8] {
        let Packet { traffic_class, ttl, word, .. } = *self.get(index);
        let Some(bytes) = self.payloads.get_mut(word as usize) else { return &[] };
        if let Ok(header) = ipv4::Repr::parse(bytes)
            && (header.tos, header.ttl) != (traffic_class, ttl)
        {
            ipv4::Repr { tos: traffic_class, ttl, ..header }.emit(bytes);
        }
        bytes
    }

    /// Changes a RoCE packet, so that its ICRC is wrong; `random` says which byte of those that there are.
    #[cold]
    pub(crate) fn corrupt(&mut self, index: u32, random: u64) {
        let packet = *self.get(index);
        if !matches!(packet.kind, Kind::Roce | Kind::Extended) {
            return;
        }
        self.get_mut(index).payload |= CORRUPT;
        if packet.is_whole()
            && let Some(bytes) = self.payloads.get_mut(packet.word as usize)
            && let Some(covered) = bytes.len().checked_sub(ipv4::HEADER_LEN).filter(|&it| it > 0)
        {
            // Behind the UDP header, where what is wrong reaches the right program.
            let at = ipv4::HEADER_LEN + wire::udp::HEADER_LEN + wire::bth::LEN;
            let at = at.min(bytes.len() - 1);
            let place = at + (random % (covered as u64)) as usize % (bytes.len() - at);
            bytes[place] ^= 1 << (random >> 32 & 7);
        }
    }

    /// Gives a RoCE packet what it tells of switches, which makes it longer; if that `is_open`, switches write
    /// into it.
    pub(crate) fn attach(&mut self, index: u32, telemetry: Telemetry, is_open: bool) {
        let word = self.place(index);
        let packet = self.get_mut(index);
        packet.bytes += telemetry.bytes();
        packet.qpn |= if is_open { OBSERVED } else { 0 };
        self.set_telemetry(word, telemetry);
    }

    /// A switch writes its record into a packet, which may make that longer.
    #[cold]
    pub(crate) fn record(&mut self, index: u32, port: u32, hop: Hop) {
        let packet = *self.get(index);
        let Some(Some(telemetry)) = self.telemetry.get_mut(packet.word as usize) else { return };
        let before = telemetry.bytes();
        telemetry.path ^= port;
        telemetry.hops.push(hop);
        let more = telemetry.bytes() - before;
        self.get_mut(index).bytes += more;
    }

    /// Takes what a packet tells of switches, and its place in the frame; nothing if it tells nothing.
    pub(crate) fn take_telemetry(&mut self, index: u32) -> Option<Telemetry> {
        let packet = *self.get(index);
        if packet.kind != Kind::Extended {
            return None;
        }
        let telemetry = self.telemetry.get_mut(packet.word as usize)?.take()?;
        self.get_mut(index).bytes -= telemetry.bytes();
        Some(telemetry)
    }

    fn set_telemetry(&mut self, word: u32, telemetry: Telemetry) {
        let place = word as usize;
        if self.telemetry.len() <= place {
            self.telemetry.resize(place + 1, None);
        }
        self.telemetry[place] = Some(telemetry);
    }

    /// Takes the bytes of a packet; nothing if it carries none.
    pub(crate) fn take_payload(&mut self, index: u32) -> Vec<u8> {
        let packet = self.get(index);
        let place = (packet.kind == Kind::Extended).then_some(packet.word as usize);
        let bytes = place.and_then(|place| self.payloads.get_mut(place));
        bytes.map(core::mem::take).unwrap_or_default()
    }

    /// Gives a buffer back.
    pub(crate) fn put_back(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() > 0 {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    fn payload_at(&mut self, word: u32) -> &mut Vec<u8> {
        let place = word as usize;
        if self.payloads.len() <= place {
            self.payloads.resize_with(place + 1, Vec::new);
        }
        &mut self.payloads[place]
    }

    /// The headers of a RoCE packet, as the engine that sent it gave them out.
    pub(crate) fn header(&self, index: u32) -> roce::Repr {
        let packet = self.get(index);
        if packet.kind == Kind::Extended {
            return *self.extended.get(packet.word);
        }
        let opcode = packet.opcode();
        let mut header = roce::Repr::new(opcode, packet.qpn(), Psn::new(packet.psn));
        let bth = &mut header.bth;
        bth.solicited = packet.qpn & SOLICITED != 0;
        bth.ack_request = packet.qpn & ACK_REQUEST != 0;
        bth.fecn = packet.qpn & FECN != 0;
        bth.becn = packet.qpn & BECN != 0;
        bth.pad = (packet.qpn >> PAD_SHIFT & 3) as u8;
        if opcode.facts().headers.has(Headers::AETH) {
            let syndrome = aeth::Syndrome::from_bits((packet.word >> 24) as u8);
            header.aeth = Some(aeth::Repr { syndrome, msn: packet.word & 0x00ff_ffff });
        }
        header
    }

    /// Lets the processor fetch a packet, if there is one of that number, before it is asked for.
    #[inline]
    pub(crate) fn fetch(&self, index: u32) {
        if let Some(chunk) = self.chunks.get(index as usize / CHUNK) {
            prefetch_index(&chunk[..], index as usize % CHUNK);
        }
    }

    /// The port that a packet is on its way to; any number if it is not, or there is none.
    #[inline]
    pub(crate) fn port_of(&self, index: u32) -> u32 {
        let chunk = self.chunks.get(index as usize / CHUNK);
        chunk.map_or(NIL, |chunk| chunk[index as usize % CHUNK].next)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> &Packet {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Packet {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// Ends a packet.
    pub(crate) fn free(&mut self, index: u32) {
        // The last to come is the first to go, as the caches like it.
        self.turn = self.turn.wrapping_sub(1) % FREE_LISTS;
        let free = core::mem::replace(&mut self.free[self.turn], index);
        let packet = self.get_mut(index);
        packet.next = free;
        let (kind, word) = (packet.kind, packet.word);
        if kind == Kind::Extended {
            self.free_extended(word);
        }
        self.in_use -= 1;
    }

    #[cold]
    fn free_extended(&mut self, word: u32) {
        self.extended.free(word);
        if let Some(bytes) = self.payloads.get_mut(word as usize) {
            let bytes = core::mem::take(bytes);
            self.put_back(bytes);
        }
        if let Some(telemetry) = self.telemetry.get_mut(word as usize) {
            *telemetry = None;
        }
    }

    /// How many packets there are.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    /// The most packets that there were at a time.
    pub(crate) fn at_most(&self) -> usize {
        self.begun as usize
    }

    /// The index of a packet that is new here. To be followed by [`Pool::extend`] if it comes from another pool
    /// and is [`Kind::Extended`].
    pub(crate) fn insert(&mut self, packet: Packet) -> u32 {
        self.in_use += 1;
        let index = self.free[self.turn];
        if index != NIL {
            let place = self.get_mut(index);
            let next = place.next;
            *place = packet;
            self.fetch(next);
            self.free[self.turn] = next;
            self.turn = (self.turn + 1) % FREE_LISTS;
            return index;
        }
        let index = self.begun;
        match self.chunks.get_mut(index as usize / CHUNK) {
            Some(chunk) => chunk[index as usize % CHUNK] = packet,
            None => self.grow(packet),
        }
        self.begun += 1;
        index
    }

    #[cold]
    fn grow(&mut self, packet: Packet) {
        let chunk: Box<[Packet]> = vec![packet; CHUNK].into();
        self.chunks.extend(chunk.try_into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Key;
    use wire::reth;

    fn draft<'a>(header: &'a roce::Repr, payload: u32) -> Draft<'a> {
        Draft {
            header,
            payload,
            tuple: 5,
            traffic_class: 3 << 2 | 2,
            ttl: 64,
            ip_id: 0x1ff,
            pcp: None,
        }
    }

    #[test]
    fn a_packet_is_thirty_two_bytes_and_forgets_nothing() {
        assert_eq!(size_of::<Packet>(), 32);
        let mut pool = Pool::default();
        let mut cases = 0;
        for opcode in Opcode::all() {
            let mut header = roce::Repr::new(opcode, Qpn::new(0x12_3456), Psn::new(0xfe_dcba));
            header.bth.ack_request = opcode.code() % 2 == 0;
            header.bth.solicited = opcode.code() % 3 == 0;
            header.bth.becn = opcode.code() % 5 == 0;
            header = header.padded_for(13);
            let headers = header.facts().headers;
            if headers.has(Headers::AETH) {
                let syndrome = aeth::Syndrome::RnrNak { timer: 12 };
                header.aeth = Some(aeth::Repr { syndrome, msn: 0xab_cdef });
            }
            if headers.has(Headers::RETH) {
                let whole = reth::Repr { address: u64::MAX, r_key: Key(7), length: 1 << 31 };
                header.reth = Some(whole);
            }
            let index = pool.roce(&draft(&header, 13));
            assert_eq!(pool.header(index), header, "{opcode:?}");
            let copy = pool.copy(index);
            pool.free(index);
            assert_eq!(pool.header(copy), header, "{opcode:?}");
            pool.free(copy);
            cases += 1;
        }
        assert!(cases > 50);
        assert_eq!((pool.in_use(), pool.at_most()), (0, 2), "slots are used again");
    }

    #[test]
    fn frames_are_as_long_as_those_of_the_paper() {
        let mut pool = Pool::default();
        let middle = Opcode::write(wire::opcode::Service::Rc, wire::opcode::Part::Middle, false);
        let header = roce::Repr::new(middle, Qpn::new(1), Psn::new(1)).padded_for(1024);
        let index = pool.roce(&draft(&header, 1024));
        // guo16, figure 7: 1086 bytes with 1024 of payload.
        assert_eq!(pool.get(index).bytes, 1086);
        assert_eq!(whole_frame(Mtu::B1024), 1086);
        pool.get_mut(index).set_pcp(Some(3));
        assert_eq!((pool.get(index).bytes, pool.get(index).pcp()), (1090, Some(3)));
        pool.get_mut(index).set_pcp(None);
        assert_eq!((pool.get(index).bytes, pool.get(index).pcp()), (1086, None));
    }

    #[test]
    fn what_a_pause_says_comes_back() {
        let mut pool = Pool::default();
        let pause = Pause { stop: 0x18, resume: 0x01, quanta: 0xfedc };
        let index = pool.pfc(pause);
        assert_eq!(pool.get(index).pause(), pause);
    }
}
