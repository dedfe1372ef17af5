//! Trains: packets of one size and one way, sent by one call and cut by the kernel.
//!
//! ```text
//!   arena:  │ A0 │ A1 │ A2 │ A3short │ B0 │ C0 │ C1 │ ...
//!           └──────── train A ───────┘└ B ─┘└─ train C ─┘
//! ```
//!
//! A call of the kernel costs the same for one packet as for sixty. Packets are built one after the
//! other in one arena; those that go the same way and have the same length become one train, whose
//! last packet may be shorter. Segment `i` of a train leaves with IP identification `i`, which the
//! ICRC covers, so a packet's ICRC depends on its place.
//!
//! **Invariant:** all packets of a train are for one slot of the QPN space, because the kernel
//! chooses the receiving socket by the first of them.

use core::ops::Range;

use rdma::Gid;
use wire::icrc::{Datagram, Prefix};
use wire::roce::ICRC_LEN;

use crate::limits::{ARENA_BYTES, PACKET_MAX, TRAIN_BYTES_MAX, TRAIN_SEGMENTS_MAX};

/// The way of a packet: what all packets of a train have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// Index of the socket that it leaves from, if it does.
    pub(crate) port: usize,
    /// Whether it goes through the ring of a NIC of this host, and not through a socket.
    pub(crate) by_ring: bool,
    pub(crate) source: Gid,
    pub(crate) destination: Gid,
    /// Slot of the destination QPN.
    pub(crate) slot: u16,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
}

impl Way {
    /// Marks its packets for congestion (RFC 3168: CE). Returns whether they allow it.
    pub(crate) fn mark(&mut self) -> bool {
        const CE: u8 = 3;
        let allowed = self.traffic_class & CE != 0;
        if allowed {
            self.traffic_class |= CE;
        }
        allowed
    }

    /// The headers below RoCE of a packet with IP identification `id`.
    pub(crate) fn datagram(&self, id: u16) -> Datagram {
        Datagram { id, ..Datagram::between(self.source.ip(), self.destination.ip()) }
    }
}

/// Packets of the arena that leave together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Train {
    pub(crate) way: Way,
    pub(crate) bytes: Range<usize>,
    /// Bytes of each packet but the last.
    pub(crate) segment: usize,
    pub(crate) count: usize,
}

impl Train {
    /// The places of its packets in the arena, with their IP identifications.
    pub(crate) fn packets(&self) -> impl Iterator<Item = (u16, Range<usize>)> + use<> {
        let Range { start, end } = self.bytes;
        let segment = self.segment;
        (0..).zip((start..end).step_by(segment.max(1))).map(move |(id, at)| {
            let end = end.min(at + segment);
            (id, at..end)
        })
    }
}

/// Packets on their way to the sockets.
#[derive(Debug)]
pub(crate) struct Trains {
    arena: Box<[u8]>,
    used: usize,
    trains: Vec<Train>,
    /// What the ICRC covers below the longer packets of the last train.
    prefix: Option<Prefix>,
    /// Packets that a train may have: 1 where the kernel does not cut trains.
    segments_max: usize,
    /// Whether packets that go through rings have an ICRC.
    seals_rings: bool,
}

impl Trains {
    pub(crate) fn new(segments_max: usize, seals_rings: bool) -> Self {
        Self {
            seals_rings,
            arena: vec![0; ARENA_BYTES].into_boxed_slice(),
            used: 0,
            trains: Vec::with_capacity(64),
            prefix: None,
            segments_max: segments_max.clamp(1, TRAIN_SEGMENTS_MAX),
        }
    }

    /// No trains from now on.
    pub(crate) fn send_singly(&mut self) {
        self.segments_max = 1;
    }

    /// Whether another packet fits.
    pub(crate) fn has_room(&self) -> bool {
        self.packets_left() > 0
    }

    /// How many packets fit, whatever their lengths.
    pub(crate) fn packets_left(&self) -> u32 {
        // The arena has room for a few hundred at most.
        ((self.arena.len() - self.used) / PACKET_MAX) as u32
    }

    /// Where the next packet is to be built. Nothing is taken until [`Trains::commit`].
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.arena[self.used..]
    }

    /// Takes the packet of `length` bytes, without its ICRC, that was built in [`Trains::room`]:
    /// gives it its ICRC and its place in a train.
    pub(crate) fn commit(&mut self, way: &Way, length: usize) {
        if self.trains.last().is_some_and(|train| train.way == *way) {
            self.commit_behind(length);
        } else {
            self.begin(*way, length);
        }
    }

    /// As [`Trains::commit`], for a packet that goes the way of the one before it.
    pub(crate) fn commit_behind(&mut self, length: usize) {
        let Some(train) = self.trains.last_mut() else { return };
        let (start, size) = (self.used, length + ICRC_LEN);
        let fits = !train.way.by_ring
            && train.count < self.segments_max
            && size <= train.segment
            // Only the last packet of a train may be shorter.
            && train.bytes.len() == train.count * train.segment
            && train.bytes.len() + size <= TRAIN_BYTES_MAX;
        if !fits {
            let way = train.way;
            return self.begin(way, length);
        }
        train.bytes.end = start + size;
        train.count += 1;
        self.used = start + size;
        // A train has 64 packets at most, so the identification fits.
        let id = (train.count - 1) as u16;
        let like_first = self.prefix.filter(|_| size == train.segment);
        let prefix = like_first.unwrap_or_else(|| Prefix::new(&train.way.datagram(0), length));
        seal(&mut self.arena[start..start + size], &prefix, id);
    }

    /// Takes a packet as the first of a train.
    fn begin(&mut self, way: Way, length: usize) {
        let bytes = self.used..self.used + length + ICRC_LEN;
        self.used = bytes.end;
        let is_sealed = !way.by_ring || self.seals_rings;
        self.prefix = is_sealed.then(|| Prefix::new(&way.datagram(0), length));
        if let Some(prefix) = &self.prefix {
            seal(&mut self.arena[bytes.clone()], prefix, 0);
        }
        let segment = bytes.len();
        self.trains.push(Train { way, bytes, segment, count: 1 });
    }

    /// Whether packets that go through rings have an ICRC.
    pub(crate) fn seals_rings(&self) -> bool {
        self.seals_rings
    }

    /// A packet of a ring, with its ICRC if it has one.
    pub(crate) fn for_ring(&self, place: Range<usize>) -> (&[u8], bool) {
        let with_icrc = &self.arena[place];
        let length = with_icrc.len() - if self.seals_rings { 0 } else { ICRC_LEN };
        (&with_icrc[..length], self.seals_rings)
    }

    /// Computes the ICRCs of a train anew, for packets that leave one by one.
    pub(crate) fn seal_singly(&mut self, train: usize) {
        let train = &self.trains[train];
        for (_, place) in train.packets() {
            let prefix = Prefix::new(&train.way.datagram(0), place.len() - ICRC_LEN);
            seal(&mut self.arena[place], &prefix, 0);
        }
    }

    pub(crate) fn trains(&self) -> &[Train] {
        &self.trains
    }

    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.arena[place]
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.trains.clear();
    }
}

/// Writes the ICRC to the last four bytes of `packet`.
fn seal(packet: &mut [u8], prefix: &Prefix, id: u16) {
    let (covered, icrc) = packet.split_at_mut(packet.len() - ICRC_LEN);
    // What we build begins with a BTH, so there is nothing too short to compute an ICRC of.
    if let Ok(value) = prefix.icrc(id, covered) {
        icrc.copy_from_slice(&value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wire::icrc;

    fn way(last: u8) -> Way {
        Way {
            port: 0,
            by_ring: false,
            source: Ipv4Addr::new(127, 0, 0, 1).into(),
            destination: Ipv4Addr::new(127, 0, 0, last).into(),
            slot: 3,
            traffic_class: 0,
            hop_limit: 64,
        }
    }

    /// Builds packets of the given ways and lengths (without ICRC), and tells how they are grouped.
    fn grouped(segments_max: usize, packets: &[(Way, usize)]) -> Vec<(usize, usize)> {
        let mut trains = Trains::new(segments_max, false);
        for (index, &(way, length)) in packets.iter().enumerate() {
            trains.room()[..length].fill(index as u8 + 1);
            trains.commit(&way, length);
        }
        for train in trains.trains() {
            assert_eq!(train.packets().count(), train.count);
            for (id, place) in train.packets() {
                let packet = trains.bytes(place);
                let (covered, icrc) = packet.split_at(packet.len() - ICRC_LEN);
                let expected = icrc::compute(&train.way.datagram(id), covered).unwrap();
                assert_eq!(icrc, expected, "identification {id}");
                // Every byte is of one packet, so it was cut where it had been joined.
                assert!(covered.iter().all(|byte| *byte == covered[0]));
            }
        }
        trains.trains().iter().map(|train| (train.count, train.bytes.len())).collect()
    }

    #[test]
    fn equal_packets_of_one_way_are_a_train_and_a_shorter_one_ends_it() {
        let to = way(2);
        assert_eq!(
            grouped(64, &[(to, 116), (to, 100), (to, 100), (to, 40), (to, 40), (to, 100)]),
            // The first is longer than the second, which therefore ends its train.
            [(2, 224), (2, 148), (1, 44), (1, 104)]
        );
    }

    #[test]
    fn packets_that_go_another_way_are_a_train_of_their_own() {
        let other_slot = Way { slot: 4, ..way(2) };
        let marked = Way { traffic_class: 1, ..way(2) };
        assert_eq!(
            grouped(
                64,
                &[(way(2), 96), (way(3), 96), (way(3), 96), (other_slot, 96), (marked, 96)]
            ),
            [(1, 100), (2, 200), (1, 100), (1, 100)]
        );
    }

    #[test]
    fn a_train_is_bounded_in_packets_and_bytes() {
        assert_eq!(grouped(2, &[(way(2), 16); 5]), [(2, 40), (2, 40), (1, 20)]);
        let long = grouped(64, &[(way(2), 4112); 20]);
        assert_eq!(long, [(15, 15 * 4116), (5, 5 * 4116)]);
        assert_eq!(grouped(1000, &[(way(2), 16); 65])[0].0, TRAIN_SEGMENTS_MAX);
    }

    #[test]
    fn packets_sent_singly_have_identification_zero() {
        let mut trains = Trains::new(64, false);
        for _ in 0..3 {
            trains.room()[..50].fill(9);
            trains.commit(&way(2), 50);
        }
        trains.seal_singly(0);
        let icrcs: Vec<_> = trains.trains()[0]
            .packets()
            .map(|(_, place)| trains.bytes(place)[50..].to_vec())
            .collect();
        let expected = icrc::compute(&way(2).datagram(0), &[9; 50]).unwrap();
        assert!(icrcs.iter().all(|icrc| *icrc == expected));
    }

    #[test]
    fn packets_of_rings_are_single_and_have_an_icrc_if_it_is_wanted() {
        let way = Way { by_ring: true, ..way(2) };
        for seals_rings in [false, true] {
            let mut trains = Trains::new(64, seals_rings);
            for _ in 0..3 {
                trains.room()[..50].fill(9);
                trains.commit(&way, 50);
            }
            assert_eq!(trains.trains().len(), 3);
            let icrc = icrc::compute(&way.datagram(0), &[9; 50]).unwrap();
            for train in trains.trains() {
                let (packet, with_icrc) = trains.for_ring(train.bytes.clone());
                assert_eq!((&packet[..50], with_icrc), (&[9; 50][..], seals_rings));
                assert_eq!(&packet[50..], if seals_rings { &icrc[..] } else { &[] });
            }
        }
    }

    #[test]
    fn there_is_room_for_a_packet_until_there_is_none() {
        let mut trains = Trains::new(64, false);
        let mut packets = 0;
        while trains.has_room() {
            trains.commit(&way(2), 4096 + 32);
            packets += 1;
        }
        assert_eq!(packets, ARENA_BYTES / (4096 + 36));
        trains.clear();
        assert!(trains.has_room() && trains.trains().is_empty());
    }
}
