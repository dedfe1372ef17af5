//! From the engine into rings, and into the outbox for the sockets.
//!
//! ```text
//!   manager ─ messages ────────────────────────┐
//!   engine ─ runs ─► which lane? ─┬─ a socket's ┴► trains ─► outbox ─► (without the lock) kernel
//!                                 └─ a ring's ───► ring ─► bell
//! ```
//!
//! Packets come in runs, and a run has one lane, which is looked up for the first of it. As long as there
//! is room at its end they are built where they leave from; the others are put back. Where packets of
//! rings are recorded, or have faults or ICRCs, they are built like those for sockets and pushed then.
//!
//! **Invariants:** all of it happens under the engine's lock and with the outbox in its place. Where
//! one destination of this host has no room, nothing more leaves the engine, lest anything overtake:
//! for [`PAUSE_MAX`] at most, and messages of connection management leave all the same.

use core::ops::Range;

use rdma::{Memory, MemoryFault, Psn, Time};
use transport::cm::Manager;
use transport::{Endpoint, Payload, Route, Segment, Transmit};
use wire::pcapng::Direction;
use wire::roce::{ICRC_LEN, Repr};

use crate::ProcessMemory;
use crate::capture::{Below, Capture};
use crate::counts::Counts;
use crate::limits::{HOP_LIMIT, PACKET_MAX, PAUSE_MAX};
use crate::links::Links;
use crate::outbox::Outbox;
use crate::same_host::{SameHost, Written};
use crate::steering::{is_ownable, slot_of};
use crate::train::{Trains, Way};

/// The way of the packets of one route for one slot, which is looked up for the first of several.
#[derive(Clone, Copy, Debug)]
struct Lane {
    way: Way,
    /// Whether it ends at a NIC of this host, which says how much room it has.
    is_here: bool,
    /// Whether the last packet of the trains goes this way.
    is_last: bool,
}

impl Lane {
    /// Whether the next packet goes the same way. A ring may have failed since.
    fn is_for(&self, route: &Route, slot: u16) -> bool {
        let Way { by_ring, source, destination, traffic_class, hop_limit, .. } = self.way;
        !by_ring
            && self.way.slot == slot
            && (source, destination) == (route.source, route.destination)
            && (traffic_class, hop_limit) == (route.traffic_class, route.hop_limit)
    }
}

/// What became of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Packets that were seen to. Those behind them are the engine's again.
    taken: u32,
    /// The payload of the last of them is not mapped any more.
    is_faulted: bool,
    /// Their destination has no room for another packet of any length.
    is_full: bool,
}

impl Links {
    /// Builds what the engine and the connection manager have ready, and puts what goes by rings
    /// into them. If there is something for the kernel, the outbox leaves with it: it is to be sent
    /// without the lock, and to come back by [`Links::unload`].
    ///
    /// While it is away, work is left behind for whoever has it.
    pub(crate) fn load(
        &mut self,
        now: Time,
        (endpoint, manager): (&mut Endpoint, &mut Manager),
        memory: &mut ProcessMemory,
        counts: &mut Counts,
    ) -> Option<Box<Outbox>> {
        self.is_left_behind = self.claims > 0 || self.outbox.is_none();
        if self.is_left_behind {
            return None;
        }
        let mut outbox = self.outbox.take()?;
        loop {
            // They go by UDP, and a peer that waits for a farewell does not wait for room in a ring.
            self.build_messages(&mut outbox.trains, manager, counts);
            let is_full = !self.is_paused(now, counts)
                && self.build(now, &mut outbox.trains, endpoint, memory, counts);
            if let Some(flow) = &mut self.flow {
                flow.send();
            }
            let is_empty = outbox.trains.trains().is_empty();
            if self.faults.is_some() {
                // Faults are for tests, which can wait for the lock meanwhile.
                self.send_with_faults(now, &mut outbox, counts);
                outbox.unload(counts);
            } else if !is_empty {
                self.record_trains(now, &outbox.trains);
                self.push_to_rings(&outbox.trains, counts);
            }
            if let Some(link) = &mut self.same_host {
                link.ring_bells(&self.registry, counts);
            }
            if !is_empty {
                if outbox.is_for_kernel() {
                    outbox.is_full = is_full;
                    return Some(outbox);
                }
                outbox.unload(counts);
            }
            if !is_full {
                break;
            }
        }
        self.outbox = Some(outbox);
        None
    }

    /// Takes the outbox back. Returns whether there was more than it could hold.
    pub(crate) fn unload(&mut self, mut outbox: Box<Outbox>, counts: &mut Counts) -> bool {
        outbox.unload(counts);
        let is_full = outbox.is_full;
        self.outbox = Some(outbox);
        is_full
    }

    /// Builds packets until the engine has no more, or the arena is full. They come in runs; what there
    /// is no room for at their destination is put back.
    fn build(
        &mut self,
        now: Time,
        trains: &mut Trains,
        endpoint: &mut Endpoint,
        memory: &mut ProcessMemory,
        counts: &mut Counts,
    ) -> bool {
        // What one queue pair sends goes the same way, packet by packet.
        let mut lane: Option<Lane> = None;
        loop {
            let most = trains.packets_left();
            if most == 0 {
                return true;
            }
            let Some(transmit) = endpoint.poll_transmit_run(now, most) else { return false };
            let slot = slot_of(transmit.header.bth.destination.value());
            if !lane.as_ref().is_some_and(|lane| lane.is_for(transmit.route, slot)) {
                lane = self.lane(transmit.route, slot, now, counts);
            }
            let Some(lane) = &mut lane else {
                counts.tx_no_source += u64::from(transmit.count);
                continue;
            };
            let (header, count) = (transmit.header, transmit.count);
            let Progress { taken, is_faulted, is_full } = match &mut self.same_host {
                Some(link) if lane.way.by_ring && !trains.seals_rings() => {
                    write_run(link, &lane.way, &transmit, memory, counts)
                }
                _ => self.build_run(trains, lane, &transmit, memory, counts),
            };
            tracing::trace!(%header, packets = taken, is_faulted, "sent");
            if is_faulted || taken < count {
                let (qpn, mut header) = (transmit.qpn, *header);
                endpoint.put_back(qpn, &header, count - taken);
                if is_faulted {
                    counts.tx_faulted += 1;
                    header.bth.psn = header.bth.psn.plus(taken - 1);
                    endpoint.transmit_faulted(qpn, &header);
                }
            }
            if is_full {
                self.paused = Some((slot, now));
                counts.tx_pauses += 1;
                return false;
            }
        }
    }

    /// Builds the packets of a run, as long as there is room for them at their destination.
    fn build_run(
        &mut self,
        trains: &mut Trains,
        lane: &mut Lane,
        transmit: &Transmit<'_>,
        memory: &mut ProcessMemory,
        counts: &mut Counts,
    ) -> Progress {
        let Lane { way, is_here, is_last, .. } = lane;
        let mut progress = Progress::default();
        for (psn, payload) in transmit.packets() {
            progress.taken += 1;
            let written = write_packet(trains.room(), transmit.header, (psn, payload), memory);
            let Ok(length) = written else {
                progress.is_faulted = true;
                break;
            };
            if core::mem::replace(is_last, true) {
                trains.commit_behind(length);
            } else {
                trains.commit(way, length);
            }
            if *is_here && self.fills_up(way, length + ICRC_LEN, counts) {
                progress.is_full = true;
                break;
            }
        }
        progress
    }

    /// The lane of packets with this route for this slot, if they can be sent at all.
    fn lane(&mut self, route: &Route, slot: u16, now: Time, counts: &mut Counts) -> Option<Lane> {
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
        Some(Lane { way, is_here: is_local && is_ownable(slot), is_last: false })
    }

    /// Counts a packet against the room at its destination, which is on this host. Returns whether
    /// it was the last that fits.
    fn fills_up(&mut self, way: &Way, length: usize, counts: &mut Counts) -> bool {
        if way.by_ring {
            let link = self.same_host.as_mut();
            return link.is_some_and(|link| link.fills_up(way.slot, Some(length), counts));
        }
        self.flow.as_mut().is_some_and(|flow| flow.plan(way.slot, length))
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

    fn record_trains(&mut self, now: Time, trains: &Trains) {
        let Some(capture) = &mut self.capture else { return };
        for train in trains.trains() {
            for (id, place) in train.packets() {
                record(capture, now, &train.way, id, trains.bytes(place));
            }
        }
    }

    /// Puts the packets that go by rings, and are not there yet, into them.
    fn push_to_rings(&mut self, trains: &Trains, counts: &mut Counts) {
        for train in trains.trains().iter().filter(|train| train.way.by_ring) {
            let packet = trains.for_ring(train.bytes.clone());
            push_packet(self.same_host.as_deref_mut(), &train.way, packet, counts);
        }
    }

    fn send_with_faults(&mut self, now: Time, outbox: &mut Outbox, counts: &mut Counts) {
        let Some(faults) = &mut self.faults else { return };
        let mut leaving: Vec<(Way, Vec<u8>)> = Vec::new();
        let mut leave = |way, packet| leaving.push((way, packet));
        for train in outbox.trains.trains() {
            for (_, place) in train.packets() {
                let (mut way, mut packet) = (train.way, outbox.trains.bytes(place).to_vec());
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
                outbox.send_packet(way, packet);
            }
        }
    }
}

/// Writes the packets of a run to a ring, as long as there is room in it.
fn write_run(
    link: &mut SameHost,
    way: &Way,
    transmit: &Transmit<'_>,
    memory: &ProcessMemory,
    counts: &mut Counts,
) -> Progress {
    let written = link.write(way, transmit, memory, counts);
    let Written { packets, bytes, is_dropped, is_faulted } = written;
    pushed(packets.into(), bytes, counts);
    counts.tx_dropped += u64::from(is_dropped);
    let taken = packets + u32::from(is_dropped || is_faulted);
    let is_full = link.fills_up(way.slot, None, counts);
    Progress { taken, is_faulted, is_full }
}

/// Writes headers, payload and padding to `room`, and says how long they are.
fn write_packet(
    room: &mut [u8],
    header: &Repr,
    (psn, payload): (Psn, Payload<'_>),
    memory: &mut ProcessMemory,
) -> Result<usize, MemoryFault> {
    let headers = header.emit_as(psn, room);
    for_pieces((header, headers), payload, |place, piece| {
        let place = &mut room[place];
        match piece {
            Segment::Memory { address, .. } => return memory.load(address, place),
            Segment::Bytes(bytes) => place.copy_from_slice(bytes),
        }
        Ok(())
    })?;
    Ok(packet_length((header, headers), payload))
}

/// Bytes of a packet whose headers take so many, without its ICRC.
pub(crate) fn packet_length((header, headers): (&Repr, usize), payload: Payload<'_>) -> usize {
    let length = headers + payload.len() as usize + usize::from(header.bth.pad);
    assert!(
        length + ICRC_LEN <= PACKET_MAX,
        "the engine sends no packet longer than the largest MTU"
    );
    length
}

/// Goes through what stands behind the headers of a packet, payload and padding, and where.
pub(crate) fn for_pieces(
    (header, headers): (&Repr, usize),
    payload: Payload<'_>,
    mut put: impl FnMut(Range<usize>, Segment<'_>) -> Result<(), MemoryFault>,
) -> Result<(), MemoryFault> {
    let pad = usize::from(header.bth.pad);
    let mut at = headers;
    for piece in payload.segments() {
        let length = match piece {
            Segment::Memory { length, .. } => length as usize,
            Segment::Bytes(bytes) => bytes.len(),
        };
        put(at..at + length, piece)?;
        at += length;
    }
    if pad > 0 {
        put(at..at + pad, Segment::Bytes(&[0; 3][..pad]))?;
    }
    Ok(())
}

fn push_packet(
    link: Option<&mut SameHost>,
    way: &Way,
    (packet, with_icrc): (&[u8], bool),
    counts: &mut Counts,
) {
    if link.is_some_and(|link| link.push(way, packet, with_icrc, counts)) {
        pushed(1, packet.len() as u64, counts);
    } else {
        counts.tx_dropped += 1;
    }
}

/// Counts packets that are in a ring, of so many bytes together.
fn pushed(packets: u64, bytes: u64, counts: &mut Counts) {
    counts.tx_packets += packets;
    counts.tx_ring_packets += packets;
    counts.tx_bytes += bytes;
}

fn record(capture: &mut Capture, now: Time, way: &Way, id: u16, packet: &[u8]) {
    let below = Below {
        datagram: way.datagram(id),
        traffic_class: way.traffic_class,
        hop_limit: if way.hop_limit == 0 { HOP_LIMIT } else { way.hop_limit },
    };
    capture.record(now, Direction::Outbound, &below, packet);
}

#[cfg(test)]
mod tests {
    use crate::testing::{ask, open, paused_for, sent};

    #[test]
    fn a_message_of_connection_management_does_not_wait_for_room_that_others_wait_for() {
        let (nic, full) = (open("127.0.135.3"), open("127.0.135.4"));
        paused_for(&nic, &full);
        ask(&nic);
        assert_eq!(sent(&nic), 1);
        assert!(nic.shared().lock().is_paused());
    }
}
