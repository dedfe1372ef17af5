//! From the engine to the sockets.

use core::ops::Range;
use std::io;
use std::os::fd::AsFd;

use rdma::{Memory, MemoryFault, Time};
use transport::cm::Manager;
use transport::{Endpoint, Route, Segment, Transmit};
use wire::pcapng::Direction;
use wire::roce::ICRC_LEN;

use crate::ProcessMemory;
use crate::capture::{Below, Capture};
use crate::counts::Counts;
use crate::limits::{HOP_LIMIT, MESSAGES_MAX, PACKET_MAX, PAUSE_MAX, ROCE_PORT, SEND_WAIT_MS};
use crate::links::Links;
use crate::same_host::{SameHost, Written};
use crate::socket::{Message, Socket};
use crate::steering::{is_ownable, slot_of};
use crate::sys::wait_writable;
use crate::train::{Train, Way};

/// The way of the packets of one route for one slot, which is looked up for the first of several.
#[derive(Clone, Copy, Debug)]
struct Lane {
    route: Route,
    way: Way,
    /// Whether it ends at a NIC of this host, which says how much room it has.
    is_here: bool,
}

impl Lane {
    /// Whether the next packet goes the same way. A ring may have failed since.
    fn is_for(&self, route: &Route, slot: u32) -> bool {
        !self.way.by_ring && self.way.slot == slot && self.route == *route
    }
}

impl Links {
    /// Sends everything that the engine and the connection manager have ready.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        (endpoint, manager): (&mut Endpoint, &mut Manager),
        memory: &mut ProcessMemory,
        counts: &mut Counts,
    ) {
        loop {
            if self.is_paused(now, counts) {
                return;
            }
            self.build_messages(manager, counts);
            let is_full = self.build(now, endpoint, memory, counts);
            if let Some(flow) = &mut self.flow {
                flow.send();
            }
            if self.faults.is_some() {
                self.send_with_faults(now, counts);
            } else {
                self.send(now, counts);
            }
            self.trains.clear();
            if let Some(link) = &mut self.same_host {
                link.ring_bells(&self.registry, counts);
            }
            if !is_full {
                return;
            }
        }
    }

    /// Builds packets until the engine has no more, or the arena is full.
    fn build(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        memory: &mut ProcessMemory,
        counts: &mut Counts,
    ) -> bool {
        // What one queue pair sends goes the same way, packet by packet.
        let mut lane: Option<Lane> = None;
        while self.trains.has_room() {
            let Some(transmit) = endpoint.poll_transmit(now) else { return false };
            let header = &transmit.header;
            let slot = slot_of(header.bth.destination.value());
            if !lane.as_ref().is_some_and(|lane| lane.is_for(&transmit.route, slot)) {
                lane = self.lane(&transmit.route, slot, now, counts);
            }
            let Some(Lane { way, is_here, .. }) = &lane else {
                counts.tx_no_source += 1;
                continue;
            };
            if way.by_ring
                && !self.trains.seals_rings()
                && let Some(link) = &mut self.same_host
            {
                let length = header.header_len() + transmit.payload.len() as usize;
                match link.write(way, &transmit, memory, counts) {
                    Written::Done => {
                        tracing::trace!(%header, "sent");
                        pushed(length + usize::from(header.bth.pad), counts);
                    }
                    Written::Full => counts.tx_dropped += 1,
                    Written::Faulted => {
                        counts.tx_faulted += 1;
                        let (qpn, header) = (transmit.qpn, transmit.header);
                        endpoint.transmit_faulted(qpn, &header);
                    }
                }
                // Slots have ten bits.
                if link.fills_up(slot as u16, None, counts) {
                    self.paused = Some((slot as u16, now));
                    counts.tx_pauses += 1;
                    return false;
                }
                continue;
            }
            match write_packet(self.trains.room(), &transmit, memory) {
                Ok(length) => {
                    tracing::trace!(%header, "sent");
                    self.trains.commit(way, length);
                    if *is_here && self.fills_up(way, length + ICRC_LEN, counts) {
                        self.paused = Some((way.slot as u16, now));
                        counts.tx_pauses += 1;
                        return false;
                    }
                }
                Err(MemoryFault) => {
                    counts.tx_faulted += 1;
                    let (qpn, header) = (transmit.qpn, transmit.header);
                    endpoint.transmit_faulted(qpn, &header);
                }
            }
        }
        true
    }

    /// The lane of packets with this route for this slot, if they can be sent at all.
    fn lane(&mut self, route: &Route, slot: u32, now: Time, counts: &mut Counts) -> Option<Lane> {
        let port = self.port_of(route.source, route.destination)?;
        let by_ring = self.same_host.as_mut().is_some_and(|link| {
            link.reaches(&self.registry, route.destination, slot, (now, counts))
        });
        let way = Way {
            port,
            by_ring,
            source: route.source,
            destination: route.destination,
            slot,
            traffic_class: route.traffic_class,
            hop_limit: route.hop_limit,
        };
        let is_ours = || self.sockets.iter().any(|socket| socket.gid() == route.destination);
        let is_local = by_ring || route.destination.ip().is_loopback() || is_ours();
        Some(Lane { route: *route, way, is_here: is_local && is_ownable(slot) })
    }

    /// Counts a packet against the room at its destination, which is on this host. Returns whether
    /// it was the last that fits.
    fn fills_up(&mut self, way: &Way, length: usize, counts: &mut Counts) -> bool {
        // Slots have ten bits.
        let slot = way.slot as u16;
        if way.by_ring {
            let link = self.same_host.as_mut();
            return link.is_some_and(|link| link.fills_up(slot, Some(length), counts));
        }
        self.flow.as_mut().is_some_and(|flow| flow.plan(slot, length))
    }

    /// Whether sending waits for room at a destination on this host.
    fn is_paused(&mut self, now: Time, counts: &mut Counts) -> bool {
        let Some((slot, since)) = self.paused else { return false };
        let link = self.same_host.as_mut();
        let ring = link.and_then(|link| link.is_full(&self.registry, slot, now));
        let socket = || self.flow.as_ref().is_some_and(|flow| flow.is_full(slot));
        if ring.unwrap_or_else(socket) {
            if now.since(since) < PAUSE_MAX {
                return true;
            }
            counts.tx_pauses_given_up += 1;
            match (&mut self.same_host, &self.flow) {
                (Some(link), _) if ring.is_some() => link.give_up(slot),
                (_, Some(flow)) => flow.give_up(slot),
                (_, None) => {}
            }
        }
        self.paused = None;
        false
    }

    fn send(&mut self, now: Time, counts: &mut Counts) {
        if let Some(capture) = &mut self.capture {
            for train in self.trains.trains() {
                for (id, place) in train.packets() {
                    record(capture, now, &train.way, id, self.trains.bytes(place));
                }
            }
        }
        let mut at = 0;
        while at < self.trains.trains().len() {
            if self.trains.trains()[at].way.by_ring {
                self.push(at, counts);
                at += 1;
                continue;
            }
            at += match self.send_from(at, counts) {
                Ok(sent) => sent,
                // The kernel, or the device's offload, does not cut trains: never again.
                Err(error) if is_train_refused(&error) && self.trains.trains()[at].count > 1 => {
                    tracing::warn!(%error, "no trains from now on: the kernel does not cut them");
                    self.trains.send_singly();
                    self.cut(at, counts);
                    1
                }
                Err(error) => {
                    refused(&self.trains.trains()[at], &error, counts);
                    1
                }
            };
        }
    }

    /// Puts the packet at `at` into the ring that it is for.
    fn push(&mut self, at: usize, counts: &mut Counts) {
        let train = &self.trains.trains()[at];
        let (packet, with_icrc) = self.trains.for_ring(train.bytes.clone());
        push_packet(self.same_host.as_deref_mut(), &train.way, (packet, with_icrc), counts);
    }

    /// Sends trains from the one at `at` on, as many as one call takes. Returns how many went.
    fn send_from(&self, at: usize, counts: &mut Counts) -> io::Result<usize> {
        let trains = &self.trains.trains()[at..];
        let port = trains[0].way.port;
        let run = trains.iter().take(MESSAGES_MAX).take_while(|train| {
            let Way { port: other, by_ring, .. } = train.way;
            other == port && !by_ring
        });
        let messages: Vec<Message<'_>> = run
            .map(|train| {
                // A segment is a packet, which is shorter than 64 KiB.
                let segment = (train.count > 1).then_some(train.segment as u16);
                message(&train.way, self.trains.bytes(train.bytes.clone()), segment)
            })
            .collect();
        let sent = send_waiting(&self.sockets[port], &messages)?;
        for train in &trains[..sent] {
            counts.tx_trains += 1;
            counts.tx_packets += train.count as u64;
            counts.tx_bytes += train.bytes.len() as u64;
        }
        Ok(sent)
    }

    /// Sends the packets of one train singly.
    fn cut(&mut self, at: usize, counts: &mut Counts) {
        self.trains.seal_singly(at);
        let train = &self.trains.trains()[at];
        for (_, place) in train.packets() {
            let packet = self.trains.bytes(place);
            send_packet(&self.sockets, &train.way, packet, counts);
        }
    }

    fn send_with_faults(&mut self, now: Time, counts: &mut Counts) {
        let Some(faults) = &mut self.faults else { return };
        let mut leaving: Vec<(Way, Vec<u8>)> = Vec::new();
        let mut leave = |way, packet| leaving.push((way, packet));
        for train in self.trains.trains() {
            for (_, place) in train.packets() {
                let (mut way, mut packet) = (train.way, self.trains.bytes(place).to_vec());
                let verdict = faults.judge(packet.len());
                if verdict.lost {
                    counts.fault_lost += 1;
                    continue;
                }
                if let Some(bit) = verdict.corrupted {
                    counts.fault_corrupted += 1;
                    packet[bit / 8] ^= 1 << (bit % 8);
                }
                if verdict.marked && way.mark() {
                    counts.fault_marked += 1;
                }
                if verdict.behind > 0 {
                    counts.fault_reordered += 1;
                    faults.hold(now, way, &packet, verdict.behind);
                    continue;
                }
                if verdict.duplicated {
                    counts.fault_duplicated += 1;
                    leave(way, packet.clone());
                }
                leave(way, packet);
                for held in faults.after_packet() {
                    leave(held.way, held.packet);
                }
            }
        }
        for held in faults.after_time(now) {
            leave(held.way, held.packet);
        }
        for (way, packet) in &leaving {
            if let Some(capture) = &mut self.capture {
                record(capture, now, way, 0, packet);
            }
            if way.by_ring {
                push_packet(self.same_host.as_deref_mut(), way, (packet, true), counts);
            } else {
                send_packet(&self.sockets, way, packet, counts);
            }
        }
    }
}

/// Writes headers, payload and padding to `room`, and says how long they are.
fn write_packet(
    room: &mut [u8],
    transmit: &Transmit<'_>,
    memory: &mut ProcessMemory,
) -> Result<usize, MemoryFault> {
    let headers = transmit.header.emit(room);
    for_pieces(transmit, headers, |place, piece| {
        let place = &mut room[place];
        match piece {
            Segment::Memory { address, .. } => return memory.load(address, place),
            Segment::Bytes(bytes) => place.copy_from_slice(bytes),
        }
        Ok(())
    })?;
    Ok(packet_length(transmit, headers))
}

/// Bytes of a packet whose headers take so many, without its ICRC.
pub(crate) fn packet_length(transmit: &Transmit<'_>, headers: usize) -> usize {
    let length = headers + transmit.payload.len() as usize + usize::from(transmit.header.bth.pad);
    assert!(
        length + ICRC_LEN <= PACKET_MAX,
        "the engine sends no packet longer than the largest MTU"
    );
    length
}

/// Goes through what stands behind the headers of a packet, payload and padding, and where.
pub(crate) fn for_pieces(
    transmit: &Transmit<'_>,
    headers: usize,
    mut put: impl FnMut(Range<usize>, Segment<'_>) -> Result<(), MemoryFault>,
) -> Result<(), MemoryFault> {
    let pad = &[0; 3][..transmit.header.bth.pad.into()];
    let mut at = headers;
    for piece in transmit.payload.segments().chain([Segment::Bytes(pad)]) {
        let length = match piece {
            Segment::Memory { length, .. } => length as usize,
            Segment::Bytes(bytes) => bytes.len(),
        };
        put(at..at + length, piece)?;
        at += length;
    }
    Ok(())
}

fn message<'a>(way: &Way, bytes: &'a [u8], segment: Option<u16>) -> Message<'a> {
    Message {
        bytes,
        segment,
        destination: way.destination,
        traffic_class: way.traffic_class,
        hop_limit: way.hop_limit,
    }
}

fn push_packet(
    link: Option<&mut SameHost>,
    way: &Way,
    (packet, with_icrc): (&[u8], bool),
    counts: &mut Counts,
) {
    if link.is_some_and(|link| link.push(way, packet, with_icrc, counts)) {
        pushed(packet.len(), counts);
    } else {
        counts.tx_dropped += 1;
    }
}

/// Counts a packet that is in a ring.
fn pushed(length: usize, counts: &mut Counts) {
    counts.tx_packets += 1;
    counts.tx_ring_packets += 1;
    counts.tx_bytes += length as u64;
}

fn send_packet(sockets: &[Socket], way: &Way, packet: &[u8], counts: &mut Counts) {
    match send_waiting(&sockets[way.port], &[message(way, packet, None)]) {
        Ok(_) => {
            counts.tx_trains += 1;
            counts.tx_packets += 1;
            counts.tx_bytes += packet.len() as u64;
        }
        Err(error) => {
            let train =
                Train { way: *way, bytes: 0..packet.len(), segment: packet.len(), count: 1 };
            refused(&train, &error, counts);
        }
    }
}

/// Sends, and waits a little once if the socket is full.
fn send_waiting(socket: &Socket, messages: &[Message<'_>]) -> io::Result<usize> {
    match socket.send(messages) {
        Err(error) if is_full(&error) || error.kind() == io::ErrorKind::Interrupted => {
            wait_writable(socket.as_fd(), SEND_WAIT_MS);
            socket.send(messages)
        }
        result => result,
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

fn is_train_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
}

/// Counts packets that will not be sent. Reliable connections send them again.
fn refused(train: &Train, error: &io::Error, counts: &mut Counts) {
    let count = train.count as u64;
    if is_full(error) {
        counts.tx_dropped += count;
    } else {
        counts.tx_errors += count;
        if counts.tx_errors == count && error.raw_os_error() == Some(libc::EMSGSIZE) {
            tracing::warn!(
                destination = %train.way.destination,
                "the way is narrower than the RDMA MTU\nhint: set FERROCE_MTU to a smaller one"
            );
        }
    }
    tracing::debug!(destination = %train.way.destination, bytes = train.segment, %error, "not sent");
}

fn record(capture: &mut Capture, now: Time, way: &Way, id: u16, packet: &[u8]) {
    let below = Below {
        source: way.source.ip(),
        destination: way.destination.ip(),
        source_port: ROCE_PORT,
        destination_port: ROCE_PORT,
        id,
        traffic_class: way.traffic_class,
        hop_limit: if way.hop_limit == 0 { HOP_LIMIT } else { way.hop_limit },
    };
    capture.record(now, Direction::Outbound, &below, packet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RECEIVE_BYTES;
    use crate::{DeviceInfo, Options, sys};
    use wire::icrc;

    fn links(address: &str) -> Links {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
        Links::open(&device, &Options::default()).unwrap()
    }

    #[test]
    fn a_train_that_the_kernel_refuses_leaves_packet_by_packet() {
        let (mut from, mut to) = (links("127.0.47.1"), links("127.0.47.2"));
        // UDP without checksum and trains exclude each other: the kernel says EINVAL.
        sys::set_option(from.sockets[0].as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        let way = Way {
            port: 0,
            by_ring: false,
            source: from.sockets[0].address().into(),
            destination: to.sockets[0].address().into(),
            slot: to.registry.slot().into(),
            traffic_class: 0,
            hop_limit: 0,
        };
        let mut counts = Counts::default();
        for _ in 0..2 {
            for byte in 1..=3 {
                from.trains.room()[..40].fill(byte);
                // Steering looks at the QPN.
                let qpn = u32::from(to.registry.slot()) << 14;
                from.trains.room()[4..8].copy_from_slice(&qpn.to_be_bytes());
                from.trains.commit(&way, 40);
            }
            from.send(Time::ZERO, &mut counts);
            from.trains.clear();
        }
        assert_eq!((counts.tx_packets, counts.tx_trains, counts.tx_errors), (6, 6, 0));
        let mut buffer = vec![0; RECEIVE_BYTES];
        for byte in [1, 2, 3, 1, 2, 3] {
            let received = to.sockets[0].receive(&mut buffer).unwrap();
            assert_eq!((received.length, buffer[0]), (44, byte));
            let (covered, icrc) = buffer[..44].split_last_chunk().unwrap();
            assert_eq!(icrc::compute(&way.datagram(0), covered), Ok(*icrc));
        }
        from.leave();
        to.leave();
    }

    #[test]
    fn what_cannot_be_sent_is_counted() {
        let mut from = links("127.0.47.3");
        let way = Way {
            port: 0,
            by_ring: false,
            source: from.sockets[0].address().into(),
            // Broadcast is not allowed to a socket that has not asked for it.
            destination: core::net::Ipv4Addr::new(255, 255, 255, 255).into(),
            slot: 1,
            traffic_class: 0,
            hop_limit: 0,
        };
        let mut counts = Counts::default();
        for _ in 0..3 {
            from.trains.room()[..40].fill(1);
            from.trains.commit(&way, 40);
        }
        from.send(Time::ZERO, &mut counts);
        assert_eq!((counts.tx_packets, counts.tx_errors), (0, 3));
        from.leave();
    }
}
