//! From the sockets and the rings to the engine.
//!
//! ```text
//!   datagrams ─► whose slot? ─┬─ ours ──────► ICRC ─┐
//!       (of each packet)      └─ another's ─► its   ├─► headers ─┬─► engine
//!                                             owner │            ├─► QP1: the manager
//!   ring ─────► whose slot? ─ ours ─────────────────┘            └─► malformed
//! ```
//!
//! **Invariants:** every packet is counted, and one of no use once more, under its cause. A packet
//! for another NIC of this host is handed over once. What lies in a ring can change while it is read, so
//! its headers are read from a copy.

use core::net::IpAddr;

use rdma::Qpn;
use transport::Arrival;
use wire::icrc::{self, Datagram, Prefix};
use wire::roce;
use wire::roce::ICRC_LEN;
use wire::udp::ROCE_PORT;

use crate::Arrived;
use crate::attachment::identification::{Habits, check, check_exactly};
use crate::attachment::membership::Membership;
use crate::attachment::observers::Observers;
use crate::attachment::site::Site;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::host::steering::{PROBE, Probe, is_ownable, slot_of};
use crate::limits::{HOP_LIMIT, PACKET_MAX, RING_COPIED};
use crate::management::GsiPacket;
use crate::packet::Received;
use crate::shm::RingPacket;
use crate::sys::Sleepless;
use crate::udp::inbox::{By, Found};

/// What one call of the kernel has brought: packets of one length, and perhaps a shorter one.
struct Datagrams<'a> {
    received: Received,
    arrival: Arrival,
    bytes: &'a [u8],
    /// Whether another NIC of this host had received them.
    is_handed_over: bool,
    /// Whether they were sent to a multicast group: then they are for us, as for all others.
    is_multicast: bool,
}

impl Datagrams<'_> {
    fn destination(&self) -> IpAddr {
        self.arrival.destination.ip()
    }

    /// The headers below RoCE of each packet.
    fn datagram(&self) -> Datagram {
        let Received { source, source_port, .. } = self.received;
        Datagram { source_port, ..Datagram::between(source, self.destination()) }
    }
}

/// What came to us from the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub(crate) port: usize,
    pub(crate) bytes: usize,
}

/// How packets are read.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Room for the part of a packet in a ring that is copied before it is read.
    buffer: Box<[u8]>,
    /// Reads the headers of packets.
    reader: roce::Reader,
    /// Which identifications senders use.
    habits: Habits,
    /// The place of the sender of the present datagrams.
    habit: usize,
    /// The identification of the first of them that was right.
    seen: Option<u16>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; PACKET_MAX].into_boxed_slice(),
            reader: roce::Reader::default(),
            habits: Habits::new(),
            habit: 0,
            seen: None,
        }
    }

    /// Takes what a look has found. Says at which port it came to us, and how many bytes.
    pub(crate) fn receive(
        &mut self,
        &Found { received, destination, by, bytes }: &Found<'_>,
        site: &mut Site,
        engine: &mut Engine<'_>,
    ) -> Option<Came> {
        let _sleepless = Sleepless::begin();
        let arrival = Arrival {
            source: received.source.into(),
            destination: destination.into(),
            traffic_class: received.traffic_class,
            hop_limit: HOP_LIMIT,
        };
        let (is_handed_over, is_multicast) = (by == By::Handover, matches!(by, By::Group(_)));
        let datagrams = Datagrams { received, arrival, bytes, is_handed_over, is_multicast };
        let port = match by {
            By::Address(port) | By::Group(port) => port,
            // A socket that we do not have (any more) cannot have received for us.
            By::Handover if site.membership.has_address(destination) => {
                self.sort(&datagrams, site, engine);
                return None;
            }
            By::Handover => {
                engine.counts.rx_handover_dropped += 1;
                return None;
            }
        };
        // Our NICs send from one port, and no other user can bind it at their addresses. Over IPv6 anybody can
        // bind it at an address that no host has, and send from any.
        // A lab lets nobody send from the address of another.
        let is_forged = if site.membership.link().is_some() {
            false
        } else if received.source_port == ROCE_PORT {
            received.by_loopback && !site.membership.is_of_this_host(received.source, engine.now)
        } else {
            site.membership.is_of_this_host(received.source, engine.now)
        };
        if is_forged {
            let packets = bytes.len().div_ceil(received.segment).max(1) as u64;
            engine.counts.rx_packets += packets;
            engine.counts.rx_local_port_dropped += packets;
            return None;
        }
        if bytes.first() == Some(&PROBE)
            && !is_multicast
            && received.source == destination
            && let Some(probe) = Probe::parse(bytes)
        {
            site.membership.probed(port, probe, engine.counts);
        } else if self.sort(&datagrams, site, engine) {
            site.membership.repair(engine.now, port, engine.counts);
        }
        Some(Came { port, bytes: received.length })
    }

    /// Brings each packet to its owner: ours to the engine, in runs of packets for one slot those of
    /// others. Returns whether the kernel gave them to the wrong NIC: the first packet is what it looks at.
    fn sort(
        &mut self,
        datagrams: &Datagrams<'_>,
        site: &mut Site,
        engine: &mut Engine<'_>,
    ) -> bool {
        let Datagrams { received, bytes, .. } = datagrams;
        let own = site.membership.registry.slot();
        engine.counts.rx_trains += 1;
        if bytes.is_empty() {
            // A datagram without a byte is a packet all the same.
            engine.counts.rx_packets += 1;
            engine.counts.malformed(wire::Error::Truncated);
        }
        let mut is_misled = false;
        self.habit = self.habits.place_of(received.source);
        self.seen = None;
        let mut id = received.id;
        let mut at = 0;
        let (mut packets, mut packet_bytes) = (0, 0);
        // All packets but the last are as long as the first.
        let length = |packet: &[u8]| packet.len().saturating_sub(ICRC_LEN);
        let first = length(&bytes[..bytes.len().min(received.segment)]);
        let prefix = Prefix::new(&datagrams.datagram(), first);
        while at < bytes.len() {
            let packet = &bytes[at..bytes.len().min(at + received.segment)];
            match destination_slot(packet) {
                Some(slot) if slot != own && is_ownable(slot) && !datagrams.is_multicast => {
                    let length: usize = bytes[at..]
                        .chunks(received.segment)
                        .take_while(|packet| destination_slot(packet) == Some(slot))
                        .map(<[u8]>::len)
                        .sum();
                    let (others, membership) = (&bytes[at..at + length], &mut site.membership);
                    let has_owner = hand_over(datagrams, slot, others, membership, engine.counts);
                    is_misled |= at == 0 && has_owner;
                    at += length;
                }
                _ => {
                    if datagrams.is_handed_over {
                        engine.counts.rx_taken_over += 1;
                    }
                    packets += 1;
                    packet_bytes += packet.len();
                    let prefix = if length(packet) == first {
                        prefix
                    } else {
                        Prefix::new(&datagrams.datagram(), length(packet))
                    };
                    id = self.packet(datagrams, packet, &prefix, id, site, engine);
                    at += packet.len();
                }
            }
        }
        if let Some(id) = self.seen {
            self.habits.at(self.habit).note(id);
        }
        if packets > 0
            && !datagrams.is_multicast
            && site.paths.expects_packets()
            && site.membership.is_of_this_host(received.source, engine.now)
        {
            site.paths.arrived(packets, packet_bytes);
        }
        is_misled
    }

    /// Checks one packet and gives it to the engine. `prefix` is what the ICRC covers below it, and
    /// `id` the IP identification that is expected. Returns that of the packet after.
    fn packet(
        &mut self,
        datagrams: &Datagrams<'_>,
        packet: &[u8],
        prefix: &Prefix,
        id: u16,
        site: &mut Site,
        engine: &mut Engine<'_>,
    ) -> u16 {
        let Datagrams { received, arrival, .. } = datagrams;
        engine.counts.rx_packets += 1;
        engine.counts.rx_bytes += packet.len() as u64;
        let checked = check(packet, id, prefix, self.habits.at(self.habit));
        let seen = checked.as_ref().ok().map(|checked| checked.id);
        self.seen = self.seen.or(seen);
        let id = seen.unwrap_or(id);
        if site.observers.capture.is_some() {
            let datagram = Datagram { id, ..datagrams.datagram() };
            site.observers.record_received(engine.now, datagram, arrival, packet);
        }
        let parsed = checked.and_then(|checked| {
            engine.counts.rx_ip_id_recovered += u64::from(checked.recovered);
            self.reader.read(checked.covered)
        });
        match parsed {
            Ok((header, payload)) => {
                tracing::trace!(%header, "received");
                let destination = header.bth.destination;
                // A group has no queue pair with a number of its own, least of all QP1.
                if datagrams.is_multicast && destination != Qpn::MULTICAST {
                    engine.counts.rx_group_dropped += 1;
                } else if destination == Qpn::GSI {
                    let start = header.header_len();
                    let payload = start..start + payload.len();
                    let message = GsiPacket { received, arrival, bytes: packet, payload };
                    let Site { management, membership, .. } = site;
                    let is_handed_over = datagrams.is_handed_over;
                    management.receive(header, &message, is_handed_over, membership, engine);
                } else if site.paths.has_rings() && is_beside_ring(header, arrival, site, engine) {
                    engine.counts.rx_beside_ring_dropped += 1;
                } else {
                    engine.handle(arrival, header, payload.into(), payload.len());
                }
            }
            Err(cause) => {
                tracing::debug!(source = %received.source, length = packet.len(), %cause, "dropped");
                engine.counts.malformed(cause);
            }
        }
        id.wrapping_add(1)
    }

    /// Takes what lies in rings.
    pub(crate) fn receive_from_rings(&mut self, site: &mut Site, engine: &mut Engine<'_>) {
        let _sleepless = Sleepless::begin();
        let Self { buffer, reader, .. } = self;
        let Site { membership, paths, observers, .. } = site;
        // A record has every byte.
        let most = if observers.capture.is_some() { PACKET_MAX } else { RING_COPIED };
        let own = membership.registry.slot();
        let is_ours = |address| membership.has_address(address);
        let (place, registry) = ((&mut **buffer, most), &membership.registry);
        paths.receive_from_rings(place, registry, is_ours, engine, |packet, engine| {
            receive_from_ring(reader, packet, own, observers, engine);
        });
    }
}

/// Checks one packet of a ring and gives it to the engine, if it is for our slot.
fn receive_from_ring(
    reader: &mut roce::Reader,
    packet: &RingPacket<'_>,
    own: u16,
    observers: &mut Observers,
    engine: &mut Engine<'_>,
) {
    let &RingPacket { source, destination, traffic_class, with_icrc, length, copied, whole } =
        packet;
    engine.counts.rx_packets += 1;
    engine.counts.rx_ring_packets += 1;
    engine.counts.rx_bytes += length as u64;
    let datagram = || Datagram::between(source.ip(), destination.ip());
    let arrival = Arrival { source, destination, traffic_class, hop_limit: HOP_LIMIT };
    if observers.capture.is_some() {
        let mut whole = copied.to_vec();
        if !with_icrc && let Ok(icrc) = icrc::compute(&datagram(), copied) {
            whole.extend(icrc);
        }
        observers.record_received(engine.now, datagram(), &arrival, &whole);
    }
    let covered = if with_icrc {
        let prefix = Prefix::new(&datagram(), copied.len().saturating_sub(ICRC_LEN));
        check_exactly(copied, &prefix)
    } else {
        Ok(copied)
    };
    match covered.and_then(|covered| reader.read(covered)) {
        // Management and multicast go by UDP.
        Ok((header, _)) if slot_of(header.bth.destination.value()) != own => {
            engine.counts.ring_rx_dropped += 1;
        }
        Ok((header, payload)) => {
            tracing::trace!(%header, "received");
            // What was not copied is payload, up to the padding.
            let rest = length - copied.len();
            let length = payload.len() + rest;
            match whole.part(header.header_len(), length).filter(|_| rest > 0) {
                Some(whole) => engine.handle(&arrival, header, Arrived::in_ring(whole), length),
                None => engine.handle(&arrival, header, payload.into(), payload.len()),
            }
        }
        Err(cause) => {
            tracing::debug!(source = %source.ip(), length, %cause, "dropped");
            engine.counts.malformed(cause);
        }
    }
}

/// Gives packets to the owner of their slot, once. Returns whether there is one.
fn hand_over(
    datagrams: &Datagrams<'_>,
    slot: u16,
    bytes: &[u8],
    membership: &mut Membership,
    counts: &mut Counts,
) -> bool {
    let Datagrams { received, is_handed_over, .. } = datagrams;
    let packets = bytes.len().div_ceil(received.segment) as u64;
    counts.rx_packets += packets;
    counts.rx_bytes += bytes.len() as u64;
    if *is_handed_over {
        counts.rx_handover_dropped += packets;
        return false;
    }
    let given = membership.hand_over(slot, received, datagrams.destination(), bytes, counts);
    given.unwrap_or_else(|_| {
        counts.rx_handover_dropped += packets;
        true
    })
}

/// Whether a packet that came by UDP says that it is of a NIC whose packets come through a ring.
fn is_beside_ring(
    header: &roce::Repr,
    arrival: &Arrival,
    Site { membership, paths, .. }: &mut Site,
    engine: &Engine<'_>,
) -> bool {
    let sender = match header.deth {
        Some(deth) => Some(deth.source),
        None => engine.endpoint.peer_of(header.bth.destination),
    };
    let slot = sender.map(|sender| slot_of(sender.value()));
    let (from, to) = (arrival.source, arrival.destination);
    slot.is_some_and(|slot| {
        paths.has_ring_between(&membership.registry, (from, to), slot, engine.now)
    })
}

/// The slot that a packet is for, if it is long enough to say.
fn destination_slot(packet: &[u8]) -> Option<u16> {
    let (_, word) = packet.first_chunk::<8>()?.split_last_chunk::<4>()?;
    Some(slot_of(u32::from_be_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::Attachment;
    use crate::clock;
    use crate::limits::SLOT_SHIFT;
    use crate::testing::open;

    #[test]
    fn what_a_remote_host_sends_is_no_credit_for_those_of_this_host() {
        let nic = open("127.0.135.7");
        let mut core = nic.shared().lock();
        let (Attachment { receiver, site, .. }, mut engine) = core.parts(clock::now());
        let slot = site.membership.registry.slot();
        site.paths.credits().plan(slot, 4096);
        site.paths.credits().send();
        let sent = site.paths.credits().on_the_way(slot);
        for (source, is_local) in [([192, 0, 2, 9], false), ([127, 0, 0, 9], true)] {
            let (source, source_port, bytes) = (IpAddr::from(source), ROCE_PORT, [0; 64]);
            let (length, segment, traffic_class) = (bytes.len(), bytes.len(), 0);
            let by_loopback = false;
            let received = Received {
                source,
                source_port,
                length,
                segment,
                traffic_class,
                id: 0,
                by_loopback,
            };
            let (destination, by) = (IpAddr::from([127, 0, 135, 7]), By::Address(0));
            let found = Found { received, destination, by, bytes: &bytes };
            receiver.receive(&found, site, &mut engine);
            let on_the_way = site.paths.credits().on_the_way(slot);
            assert_eq!(on_the_way < sent, is_local, "{source}");
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
