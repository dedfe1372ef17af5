//! From the sockets and the rings to the engine.
//!
//! ```text
//!   train ─► whose slot? ─┬─ ours ──────► ICRC ─┐
//!     (of each packet)    └─ another's ─► its   ├─► headers ─┬─► engine
//!                                         owner │            ├─► QP1: the manager
//!   ring ─► whose slot? ─ ours ─────────────────┘            └─► malformed
//! ```
//!
//! What is looked at, how often, and when a look is over is decided here ([`Turn`]); the look itself is
//! the inbox's ([`crate::inbox`]). A look at a socket is a call of the kernel, and one at a ring is
//! not: whoever polls looks where something was last, and now and then elsewhere.
//!
//! **Invariants:** every packet that is found is counted, and once more under what it was of no use
//! for. A packet for another NIC of this host is handed over once, and by whoever gets it then not
//! again. What lies in a ring can change while it is read, so its headers are read from a copy.

use core::net::IpAddr;
use core::ops::Range;

use rdma::{Qpn, Time};
use transport::cm::Manager;
use transport::{Arrival, Endpoint};
use wire::icrc::{self, Datagram, Prefix};
use wire::pcapng::Direction;
use wire::roce;
use wire::roce::ICRC_LEN;

use crate::capture::Below;
use crate::counts::Counts;
use crate::flow::Flow;
use crate::inbox::{By, Found, Inbox, Look};
use crate::limits::{
    FINDS_BEFORE_MORE, HOP_LIMIT, PACKET_MAX, PARTS_OF_ROUND, POLLS_PER_ROUND, RING_BATCH,
    RING_COPIED, RING_RELEASE, SHORT_TRAIN_BYTES,
};
use crate::links::Links;
use crate::same_host::{RingPacket, Taken};
use crate::socket::Received;
use crate::steering::{PROBE, Probe, is_ownable, slot_of};
use crate::sys::Stretch;
use crate::{Arrived, ProcessMemory};

/// How far a poll looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// At the socket that had something last, and now and then at the others.
    Hot,
    /// At every socket.
    All,
}

/// What is looked at beside the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing.
    Rings,
    /// The socket that had something last.
    Hot,
    /// Every port, or those whose turn it is.
    Round,
}

/// Where packets go that have arrived.
pub(crate) struct Sink<'a> {
    pub(crate) now: Time,
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) memory: &'a mut ProcessMemory,
    pub(crate) manager: &'a mut Manager,
    pub(crate) counts: &'a mut Counts,
}

impl Sink<'_> {
    /// Gives a packet to the engine.
    #[inline]
    fn engine(
        &mut self,
        arrival: &Arrival,
        header: &roce::Repr,
        payload: Arrived<'_>,
        length: usize,
    ) {
        let Self { now, endpoint, memory, .. } = self;
        // The engine has counted it, if it was of no use.
        if let Err(cause) = endpoint.handle(*now, arrival, header, payload, length, *memory) {
            tracing::debug!(%header, ?cause, "dropped");
        }
    }
}

/// What is common to the packets of a train.
struct Train<'a> {
    received: Received,
    destination: IpAddr,
    arrival: Arrival,
    bytes: &'a [u8],
    /// Whether it took the way by another NIC.
    handed_over: bool,
    /// Whether it was sent to a multicast group: then it is for us, as for all others.
    multicast: bool,
}

impl<'a> Train<'a> {
    fn new(received: Received, destination: IpAddr, bytes: &'a [u8]) -> Self {
        let arrival = Arrival {
            source: received.source.into(),
            destination: destination.into(),
            traffic_class: received.traffic_class,
            hop_limit: HOP_LIMIT,
        };
        Self { received, destination, arrival, bytes, handed_over: false, multicast: false }
    }

    /// The headers below RoCE of each packet.
    fn datagram(&self) -> Datagram {
        let source_port = self.received.source_port;
        Datagram { source_port, ..Datagram::between(self.received.source, self.destination) }
    }
}

impl Links {
    /// How far is looked this time.
    #[inline]
    pub(crate) fn turn(&mut self, reach: Reach) -> Turn {
        self.polls = self.polls.wrapping_add(1);
        if reach == Reach::All || self.polls.is_multiple_of(POLLS_PER_ROUND) {
            Turn::Round
        } else if self.is_socket_hot || !self.has_rings() {
            Turn::Hot
        } else {
            // A look at a socket costs as much as ten at a ring.
            Turn::Rings
        }
    }

    /// Begins a look.
    pub(crate) fn begin_look(
        &mut self,
        inbox: &mut Inbox,
        (reach, turn): (Reach, Turn),
        counts: &mut Counts,
    ) -> Look {
        inbox.renew(self);
        let ports = if turn == Turn::Round {
            // The last is what is handed over.
            let ports = self.sockets.len() + self.groups.len() + 1;
            let in_parts = reach == Reach::Hot && self.has_rings();
            let part = part(self.next_port, ports, if in_parts { PARTS_OF_ROUND } else { 1 });
            self.next_port = part.end;
            if part.start == 0
                && let Some(link) = &mut self.same_host
            {
                link.take_messages(&self.registry, counts);
            }
            part
        } else {
            self.hot..self.hot + 1
        };
        self.is_socket_hot &= !ports.contains(&self.hot);
        Look::new(reach, ports, self.flow.as_ref().map(Flow::sent_to_us))
    }

    /// Writes off what was on its way to a socket that has been found empty.
    pub(crate) fn note_empty(&mut self, look: &mut Look) {
        if look.takes_empty() {
            self.finds = 0;
            if let (Some(flow), Some(sent)) = (&self.flow, look.sent) {
                flow.settle(sent);
            }
        }
    }

    /// Takes what a look has found, and says to it how it goes on.
    pub(crate) fn arrived(&mut self, found: &Found<'_>, look: &mut Look, sink: &mut Sink<'_>) {
        let &Found { received, destination, by, bytes } = found;
        let train = Train::new(received, destination, bytes);
        let port = match by {
            By::Address(port) | By::Group(port) => port,
            // A socket that we do not have (any more) cannot have received for us.
            By::Handover if self.sockets.iter().any(|it| it.address() == destination) => {
                self.take(&Train { handed_over: true, ..train }, sink);
                return;
            }
            By::Handover => {
                sink.counts.rx_handover_dropped += 1;
                return;
            }
        };
        self.hot = port;
        self.is_socket_hot = true;
        let multicast = by == By::Group(port);
        if bytes.first() == Some(&PROBE)
            && !multicast
            && received.source == destination
            && let Some(probe) = Probe::parse(bytes)
        {
            return self.probed(port, probe, sink.counts);
        }
        if self.take(&Train { multicast, ..train }, sink) {
            self.repair(sink.now, port, sink.counts);
        }
        // One that polls waits for just this: it does not pay for a look at an empty socket.
        // Where one acknowledgement follows another, it is as likely to be another, and what the
        // application posts for all of them leaves together; unless there is enough to be sent.
        let is_lone = self.finds < FINDS_BEFORE_MORE || sink.endpoint.awaits_room();
        if look.reach == Reach::Hot && received.length < SHORT_TRAIN_BYTES && is_lone {
            look.go_on();
        }
    }

    /// Whether there is something in a ring.
    pub(crate) fn has_ring_packets(&self) -> bool {
        self.same_host.as_ref().is_some_and(|link| link.has_packets())
    }

    pub(crate) fn receive_from_rings(&mut self, sink: &mut Sink<'_>) {
        // Taken out so that its packets can go to the engine.
        let Some(mut link) = self.same_host.take() else { return };
        let mut buffer = core::mem::take(&mut self.ring_buffer);
        // A record has every byte.
        let most = if self.capture.is_some() { PACKET_MAX } else { RING_COPIED };
        for source in 0..link.sources() {
            let mut taken = 0;
            while taken < RING_BATCH {
                let ours = |address| self.sockets.iter().any(|socket| socket.address() == address);
                match link.take(source, (&mut buffer, most), &self.registry, ours, sink.counts) {
                    Taken::Nothing => break,
                    Taken::Other => {}
                    Taken::Packet(packet) => {
                        let whole = link.packet(source, &packet);
                        self.ring_packet(&packet, &buffer[..packet.copied], whole, sink);
                    }
                }
                taken += 1;
                if taken.is_multiple_of(RING_RELEASE) {
                    link.release(source);
                }
            }
            if !taken.is_multiple_of(RING_RELEASE) {
                link.release(source);
            }
        }
        self.same_host = Some(link);
        self.ring_buffer = buffer;
    }

    /// Checks one packet of a ring and gives it to the engine. `packet` is as much of it as was
    /// copied, and `whole` what is not to be believed.
    fn ring_packet(
        &mut self,
        way: &RingPacket,
        packet: &[u8],
        whole: Option<Stretch<'_>>,
        sink: &mut Sink<'_>,
    ) {
        sink.counts.rx_packets += 1;
        sink.counts.rx_ring_packets += 1;
        sink.counts.rx_bytes += way.length as u64;
        let datagram = || Datagram::between(way.source.ip(), way.destination.ip());
        if let Some(capture) = &mut self.capture {
            let (datagram, traffic_class) = (datagram(), way.traffic_class);
            let below = Below { datagram, traffic_class, hop_limit: HOP_LIMIT };
            let mut whole = packet.to_vec();
            if !way.with_icrc
                && let Ok(icrc) = icrc::compute(&datagram, packet)
            {
                whole.extend(icrc);
            }
            capture.record(sink.now, Direction::Inbound, &below, &whole);
        }
        let covered = if way.with_icrc {
            let prefix = Prefix::new(&datagram(), packet.len().saturating_sub(ICRC_LEN));
            check(packet, 0, &prefix).map(|checked| checked.covered)
        } else {
            Ok(packet)
        };
        let arrival = Arrival {
            source: way.source,
            destination: way.destination,
            traffic_class: way.traffic_class,
            hop_limit: HOP_LIMIT,
        };
        match covered.and_then(|covered| self.reader.read(covered)) {
            // Management and multicast go by UDP.
            Ok((header, _)) if slot_of(header.bth.destination.value()) != self.registry.slot() => {
                sink.counts.ring_rx_dropped += 1;
            }
            Ok((header, payload)) => {
                tracing::trace!(%header, "received");
                // What was not copied is payload, up to the padding.
                let start = header.header_len();
                let length = payload.len() + (way.length - way.copied);
                let rest = whole.and_then(|whole| whole.part(start, length));
                match rest.filter(|_| way.copied < way.length) {
                    Some(rest) => sink.engine(&arrival, header, Arrived::in_ring(rest), length),
                    None => sink.engine(&arrival, header, payload.into(), payload.len()),
                }
            }
            Err(cause) => {
                tracing::debug!(source = %way.source.ip(), length = packet.len(), %cause, "dropped");
                sink.counts.malformed(cause);
            }
        }
    }

    /// Takes a train, in runs of packets for one slot. Returns whether the kernel gave it to the
    /// wrong NIC: the first packet is what it looks at.
    fn take(&mut self, train: &Train<'_>, sink: &mut Sink<'_>) -> bool {
        let Train { received, bytes, .. } = train;
        let own = self.registry.slot();
        sink.counts.rx_trains += 1;
        if bytes.is_empty() {
            // A datagram without a byte is a packet all the same.
            sink.counts.rx_packets += 1;
            sink.counts.malformed(wire::Error::Truncated);
        }
        let mut misled = false;
        let mut id = 0;
        let mut at = 0;
        let (mut taken, mut taken_bytes) = (0, 0);
        // All packets but the last are as long as the first.
        let length = |packet: &[u8]| packet.len().saturating_sub(ICRC_LEN);
        let first = length(&bytes[..bytes.len().min(received.segment)]);
        let prefix = Prefix::new(&train.datagram(), first);
        while at < bytes.len() {
            let packet = &bytes[at..bytes.len().min(at + received.segment)];
            match destination_slot(packet) {
                Some(slot) if slot != own && is_ownable(slot) && !train.multicast => {
                    let length: usize = bytes[at..]
                        .chunks(received.segment)
                        .take_while(|packet| destination_slot(packet) == Some(slot))
                        .map(<[u8]>::len)
                        .sum();
                    let was_given = self.give(train, slot, &bytes[at..at + length], sink);
                    misled |= at == 0 && was_given;
                    at += length;
                }
                _ => {
                    if train.handed_over {
                        sink.counts.rx_taken_over += 1;
                    }
                    taken += 1;
                    taken_bytes += packet.len();
                    let prefix = if length(packet) == first {
                        prefix
                    } else {
                        Prefix::new(&train.datagram(), length(packet))
                    };
                    self.packet(train, packet, (&prefix, &mut id), sink);
                    at += packet.len();
                }
            }
        }
        if let Some(flow) = self.flow.as_ref().filter(|_| !train.multicast && taken > 0) {
            flow.take(taken, taken_bytes);
        }
        misled
    }

    /// Gives packets to the owner of their slot. Returns whether there is one.
    fn give(&mut self, train: &Train<'_>, slot: u16, bytes: &[u8], sink: &mut Sink<'_>) -> bool {
        let packets = bytes.len().div_ceil(train.received.segment) as u64;
        sink.counts.rx_packets += packets;
        sink.counts.rx_bytes += bytes.len() as u64;
        if train.handed_over {
            sink.counts.rx_handover_dropped += packets;
            return false;
        }
        match self.handover.send(slot, &train.received, train.destination, bytes) {
            Ok(true) => {
                sink.counts.rx_handed_over += packets;
                true
            }
            // Nobody's, at least nobody's of this host: a peer that has not noticed a death yet.
            Ok(false) => {
                sink.counts.rx_unknown_slot += packets;
                false
            }
            Err(error) => {
                tracing::debug!(slot, %error, "not handed over");
                sink.counts.rx_handover_dropped += packets;
                true
            }
        }
    }

    /// Checks one packet and gives it to the engine. `prefix` is what the ICRC covers below it, and
    /// `id` the IP identification that is expected, and then that of the packet after.
    fn packet(
        &mut self,
        train: &Train<'_>,
        packet: &[u8],
        (prefix, id): (&Prefix, &mut u16),
        sink: &mut Sink<'_>,
    ) {
        let Train { received, .. } = train;
        sink.counts.rx_packets += 1;
        sink.counts.rx_bytes += packet.len() as u64;
        let checked = check(packet, *id, prefix);
        let at = checked.as_ref().map_or(*id, |checked| checked.id);
        if let Some(capture) = &mut self.capture {
            let datagram = Datagram { id: at, ..train.datagram() };
            let traffic_class = received.traffic_class;
            let below = Below { datagram, traffic_class, hop_limit: HOP_LIMIT };
            capture.record(sink.now, Direction::Inbound, &below, packet);
        }
        *id = at.wrapping_add(1);
        let parsed = checked.and_then(|checked| {
            sink.counts.rx_ip_id_recovered += u64::from(checked.recovered);
            self.reader.read(checked.covered)
        });
        match parsed {
            Ok((header, payload)) => {
                tracing::trace!(%header, "received");
                // A group has no queue pair with a number of its own, least of all QP1.
                if train.multicast && header.bth.destination != Qpn::MULTICAST {
                    sink.counts.rx_group_dropped += 1;
                    return;
                }
                if header.bth.destination == Qpn::GSI {
                    let Sink { now, manager, counts, .. } = sink;
                    let from = (received, &train.arrival, train.handed_over);
                    let what = (&header.clone(), payload, packet);
                    return self.manage_packet(from, what, (manager, counts), *now);
                }
                sink.engine(&train.arrival, header, payload.into(), payload.len());
            }
            Err(cause) => {
                tracing::debug!(source = %received.source, length = packet.len(), %cause, "dropped");
                sink.counts.malformed(cause);
            }
        }
    }
}

/// The next of so many `parts` of all ports: from `next` on, or from the first.
fn part(next: usize, ports: usize, parts: usize) -> Range<usize> {
    let first = if parts == 1 || next >= ports { 0 } else { next };
    first..(first + ports.div_ceil(parts)).min(ports)
}

/// The slot that a packet is for, if it is long enough to say.
fn destination_slot(packet: &[u8]) -> Option<u16> {
    let (_, word) = packet.first_chunk::<8>()?.split_last_chunk::<4>()?;
    Some(slot_of(u32::from_be_bytes(*word)))
}

/// A packet whose ICRC is right.
struct Checked<'a> {
    /// Everything but the ICRC.
    covered: &'a [u8],
    /// The IP identification that it was sent with.
    id: u16,
    /// Whether that had to be found out.
    recovered: bool,
}

/// Checks the ICRC, of a packet that probably has IP identification `id`.
fn check<'a>(packet: &'a [u8], id: u16, prefix: &Prefix) -> Result<Checked<'a>, wire::Error> {
    let (covered, icrc) = packet.split_last_chunk().ok_or(wire::Error::Truncated)?;
    let expected = prefix.icrc(id, covered)?;
    if *icrc == expected {
        return Ok(Checked { covered, id, recovered: false });
    }
    if !prefix.has_id() {
        return Err(wire::Error::Icrc);
    }
    let with_zero = if id == 0 { expected } else { prefix.icrc(0, covered)? };
    let found = icrc::recover_id(*icrc, with_zero, covered.len()).ok_or(wire::Error::Icrc)?;
    // Identification 0 in the middle of a train is a packet that the kernel has joined to others.
    Ok(Checked { covered, id: found, recovered: found != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SLOT_SHIFT;
    use core::net::Ipv4Addr;

    fn datagram(id: u16) -> Datagram {
        let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last).into());
        Datagram { id, ..Datagram::between(source, destination) }
    }

    fn packet(id: u16) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..100).collect();
        bytes.extend(icrc::compute(&datagram(id), &bytes).unwrap());
        bytes
    }

    fn prefix() -> Prefix {
        Prefix::new(&datagram(0), 100)
    }

    #[test]
    fn an_expected_identification_is_taken_as_it_is() {
        for id in [0, 5] {
            let packet = packet(id);
            let checked = check(&packet, id, &prefix()).unwrap();
            assert_eq!(
                (checked.covered, checked.id, checked.recovered),
                (&packet[..100], id, false)
            );
        }
    }

    #[test]
    fn another_identification_is_found_out() {
        let packet = packet(0xbeef);
        let checked = check(&packet, 3, &prefix()).unwrap();
        assert_eq!((checked.id, checked.recovered), (0xbeef, true));
    }

    #[test]
    fn a_corrupt_or_short_packet_is_refused() {
        let mut corrupt = packet(0);
        corrupt[50] ^= 4;
        assert_eq!(check(&corrupt, 0, &prefix()).err(), Some(wire::Error::Icrc));
        assert_eq!(check(&corrupt[..15], 0, &prefix()).err(), Some(wire::Error::Truncated));
        assert_eq!(check(&[], 0, &prefix()).err(), Some(wire::Error::Truncated));
    }

    #[test]
    fn ipv6_has_no_identification_to_find_out() {
        let address = core::net::Ipv6Addr::LOCALHOST.into();
        let v6 = Datagram::between(address, address);
        assert_eq!(
            check(&packet(0xbeef), 0, &Prefix::new(&v6, 100)).err(),
            Some(wire::Error::Icrc)
        );
    }

    #[test]
    fn one_that_polls_comes_round_to_every_port() {
        for ports in 1..20 {
            let mut looks = vec![0; ports];
            let mut next = 0;
            for _ in 0..PARTS_OF_ROUND.min(ports) {
                let part = part(next, ports, PARTS_OF_ROUND);
                next = part.end;
                part.for_each(|port| looks[port] += 1);
            }
            assert!(looks.iter().all(|looks| *looks >= 1), "{looks:?}");
            assert_eq!(part(next, ports, 1), 0..ports);
        }
    }

    #[test]
    fn the_slot_is_read_past_the_congestion_bits() {
        let mut packet = [0; 16];
        packet[4..8].copy_from_slice(&(0xc000_0000_u32 | 5 << SLOT_SHIFT | 77).to_be_bytes());
        assert_eq!(destination_slot(&packet), Some(5));
        assert_eq!(destination_slot(&packet[..7]), None);
    }
}
