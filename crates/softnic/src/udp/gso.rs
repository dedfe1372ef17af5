//! GSO batches: packets of one length and one flow, sent by one call and cut by the kernel.
//!
//! ```text
//!   arena:  │ A0 │ A1 │ A2 │ A3short │ B0 │ C0 │ C1 │ ...
//!           └──────── batch A ───────┘└ B ─┘└ batch C ┘
//! ```
//!
//! A call of the kernel costs the same for one packet as for sixty (generic segmentation offload; counters
//! and settings call a batch a train). Packets are built one after the other in one arena; those that
//! have the same flow and length become one batch, whose last packet may be shorter. Segment `i` of a
//! batch leaves with IP identification `i`, which the ICRC covers, so a packet's ICRC depends on its
//! place.
//!
//! **Invariant:** all packets of a batch are for one slot of the QPN space, because the kernel
//! chooses the receiving socket by the first of them.

use core::ops::Range;

use wire::icrc::Prefix;
use wire::roce::ICRC_LEN;

use crate::limits::{ARENA_BYTES, GSO_BYTES_MAX, GSO_SEGMENTS_MAX, LONG_PACKET_MAX};
use crate::packet::{Flow, seal};

/// Packets of the arena that leave together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Batch {
    pub(crate) flow: Flow,
    pub(crate) bytes: Range<usize>,
    /// Bytes of each packet but the last.
    pub(crate) segment: usize,
    pub(crate) count: usize,
}

impl Batch {
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

/// Packets that are to be sent.
#[derive(Debug)]
pub(crate) struct Batches {
    arena: Box<[u8]>,
    used: usize,
    batches: Vec<Batch>,
    /// What the ICRC covers below the longer packets of the last batch.
    prefix: Option<Prefix>,
    /// Packets that a batch may have: 1 where the kernel does not cut batches.
    segments_max: usize,
}

impl Batches {
    pub(crate) fn new(segments_max: usize) -> Self {
        Self {
            arena: vec![0; ARENA_BYTES].into_boxed_slice(),
            used: 0,
            batches: Vec::with_capacity(64),
            prefix: None,
            segments_max: segments_max.clamp(1, GSO_SEGMENTS_MAX),
        }
    }

    /// No batches from now on.
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
        ((self.arena.len() - self.used) / LONG_PACKET_MAX) as u32
    }

    /// Where the next packet is to be built. Nothing is taken until [`Batches::add`].
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.arena[self.used..]
    }

    /// Takes the packet of `length` bytes, without its ICRC, that was built in [`Batches::room`]:
    /// gives it its ICRC and its place in a batch.
    ///
    /// The batch has `most` packets at most.
    pub(crate) fn add(&mut self, flow: &Flow, length: usize, most: usize) {
        if self.batches.last().is_some_and(|batch| batch.flow == *flow) {
            self.add_behind(length, most);
        } else {
            self.begin(*flow, length);
        }
    }

    /// As [`Batches::add`], for a packet of the same flow as the one before it.
    pub(crate) fn add_behind(&mut self, length: usize, most: usize) {
        let Some(batch) = self.batches.last_mut() else { return };
        let (start, size) = (self.used, length + ICRC_LEN);
        let fits = batch.count < self.segments_max.min(most)
            && size <= batch.segment
            // Only the last packet of a batch may be shorter.
            && batch.bytes.len() == batch.count * batch.segment
            && batch.bytes.len() + size <= GSO_BYTES_MAX;
        if !fits {
            let flow = batch.flow;
            return self.begin(flow, length);
        }
        batch.bytes.end = start + size;
        batch.count += 1;
        self.used = start + size;
        // A batch has 64 packets at most, so the identification fits.
        let id = (batch.count - 1) as u16;
        let like_first = self.prefix.filter(|_| size == batch.segment);
        let prefix = like_first.unwrap_or_else(|| Prefix::new(&batch.flow.datagram(0), length));
        seal(&mut self.arena[start..start + size], &prefix, id);
    }

    /// Takes a packet as the first of a batch.
    fn begin(&mut self, flow: Flow, length: usize) {
        let bytes = self.used..self.used + length + ICRC_LEN;
        self.used = bytes.end;
        let prefix = Prefix::new(&flow.datagram(0), length);
        seal(&mut self.arena[bytes.clone()], &prefix, 0);
        self.prefix = Some(prefix);
        let segment = bytes.len();
        self.batches.push(Batch { flow, bytes, segment, count: 1 });
    }

    /// Computes the ICRCs of a batch anew, for packets that leave one by one.
    pub(crate) fn seal_singly(&mut self, batch: usize) {
        let batch = &self.batches[batch];
        for (_, place) in batch.packets() {
            let prefix = Prefix::new(&batch.flow.datagram(0), place.len() - ICRC_LEN);
            seal(&mut self.arena[place], &prefix, 0);
        }
    }

    pub(crate) fn all(&self) -> &[Batch] {
        &self.batches
    }

    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.arena[place]
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
        self.batches.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Path;
    use core::net::Ipv4Addr;
    use wire::icrc;

    fn flow(last: u8) -> Flow {
        Flow {
            port: 0,
            path: Path::Udp,
            source: Ipv4Addr::new(127, 0, 0, 1).into(),
            destination: Ipv4Addr::new(127, 0, 0, last).into(),
            source_port: wire::udp::ROCE_PORT,
            slot: 3,
            traffic_class: 0,
            hop_limit: 64,
        }
    }

    /// Builds packets of the given flows and lengths (without ICRC), and tells how they are grouped.
    fn grouped(segments_max: usize, packets: &[(Flow, usize)]) -> Vec<(usize, usize)> {
        let mut batches = Batches::new(segments_max);
        for (index, &(flow, length)) in packets.iter().enumerate() {
            batches.room()[..length].fill(index as u8 + 1);
            batches.add(&flow, length, usize::MAX);
        }
        for batch in batches.all() {
            assert_eq!(batch.packets().count(), batch.count);
            for (id, place) in batch.packets() {
                let packet = batches.bytes(place);
                let (covered, icrc) = packet.split_at(packet.len() - ICRC_LEN);
                let expected = icrc::compute(&batch.flow.datagram(id), covered).unwrap();
                assert_eq!(icrc, expected, "identification {id}");
                // Every byte is of one packet, so it was cut where it had been joined.
                assert!(covered.iter().all(|byte| *byte == covered[0]));
            }
        }
        batches.all().iter().map(|batch| (batch.count, batch.bytes.len())).collect()
    }

    #[test]
    fn equal_packets_of_one_flow_are_a_batch_and_a_shorter_one_ends_it() {
        let to = flow(2);
        assert_eq!(
            grouped(64, &[(to, 116), (to, 100), (to, 100), (to, 40), (to, 40), (to, 100)]),
            // The first is longer than the second, which therefore ends its batch.
            [(2, 224), (2, 148), (1, 44), (1, 104)]
        );
    }

    #[test]
    fn packets_of_another_flow_are_a_batch_of_their_own() {
        let other_slot = Flow { slot: 4, ..flow(2) };
        let other_port = Flow { source_port: 0xc001, ..flow(2) };
        let marked = Flow { traffic_class: 1, ..flow(2) };
        assert_eq!(
            grouped(
                64,
                &[
                    (flow(2), 96),
                    (flow(3), 96),
                    (flow(3), 96),
                    (other_slot, 96),
                    (other_port, 96),
                    (marked, 96)
                ]
            ),
            [(1, 100), (2, 200), (1, 100), (1, 100), (1, 100)]
        );
    }

    #[test]
    fn a_batch_is_bounded_in_packets_and_bytes() {
        assert_eq!(grouped(2, &[(flow(2), 16); 5]), [(2, 40), (2, 40), (1, 20)]);
        let long = grouped(64, &[(flow(2), 4112); 20]);
        assert_eq!(long, [(15, 15 * 4116), (5, 5 * 4116)]);
        assert_eq!(grouped(1000, &[(flow(2), 16); 65])[0].0, GSO_SEGMENTS_MAX);
    }

    #[test]
    fn a_batch_has_no_more_packets_than_the_network_should_see_as_one() {
        let mut batches = Batches::new(64);
        for most in [3, 3, 3, 3, 1, 64, 64] {
            batches.add(&flow(2), 50, most);
        }
        let counts: Vec<usize> = batches.all().iter().map(|batch| batch.count).collect();
        assert_eq!(counts, [3, 1, 3]);
    }

    #[test]
    fn packets_sent_singly_have_identification_zero() {
        let mut batches = Batches::new(64);
        for _ in 0..3 {
            batches.room()[..50].fill(9);
            batches.add(&flow(2), 50, usize::MAX);
        }
        batches.seal_singly(0);
        let icrcs: Vec<_> = batches.all()[0]
            .packets()
            .map(|(_, place)| batches.bytes(place)[50..].to_vec())
            .collect();
        let expected = icrc::compute(&flow(2).datagram(0), &[9; 50]).unwrap();
        assert!(icrcs.iter().all(|icrc| *icrc == expected));
    }

    #[test]
    fn there_is_room_for_a_packet_until_there_is_none() {
        let mut batches = Batches::new(64);
        let mut packets = 0;
        while batches.has_room() {
            batches.add(&flow(2), 4096 + 32, usize::MAX);
            packets += 1;
        }
        let room = (ARENA_BYTES - LONG_PACKET_MAX) / (4096 + 36);
        assert_eq!(packets, room + 1);
        batches.clear();
        assert!(batches.has_room() && batches.all().is_empty());
    }
}
