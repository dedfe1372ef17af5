//! A packet that wants to go out: typed headers and a reference to its payload.

use rdma::{Gid, Psn, Qpn, Sge};
use wire::roce;

/// Where a packet goes and what its IP and UDP headers say of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The destination address.
    pub destination: Gid,
    /// The source address, one of the port's.
    pub source: Gid,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// TTL.
    pub hop_limit: u8,
    /// The UDP source port: constant for a flow, differing between flows, so that equal-cost paths
    /// are used (IBTA annex A17.9.1).
    pub source_port: u16,
}

/// A packet, or a run of packets of one message that are alike. It borrows the engine until its
/// payload has been taken.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The queue pair that sends it.
    pub qpn: Qpn,
    /// Where to.
    pub route: &'a Route,
    /// BTH and extended headers of the first packet; the pad count is set. Those of the others differ
    /// in nothing but the PSN, which counts up.
    pub header: &'a roce::Repr,
    /// How many packets; more than one only if a run was asked for
    /// ([`crate::Endpoint::poll_transmit_run`]).
    pub count: u32,
    /// What follows the headers of all of them; each carries an equal share.
    pub payload: Payload<'a>,
}

impl<'a> Transmit<'a> {
    /// The packets, in order: the PSN of each, and what it carries.
    pub fn packets(&self) -> impl Iterator<Item = (Psn, Payload<'a>)> + use<'a> {
        let Self { count, payload, header, .. } = *self;
        let first = header.bth.psn;
        let length = if count == 1 { payload.length } else { payload.length / count.max(1) };
        (0..count).map(move |index| {
            let offset = payload.offset + u64::from(index) * u64::from(length);
            (first.plus(index), Payload { offset, length, ..payload })
        })
    }
}

/// The headers of the packet that the driver has taken last. They have one place, where they are
/// written and read: to hand them on would cost more than to write them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) route: Route,
    pub(crate) header: roce::Repr,
}

impl Written {
    /// No packet yet.
    pub(crate) const NOTHING: Self = Self {
        route: Route {
            destination: Gid::ZERO,
            source: Gid::ZERO,
            traffic_class: 0,
            hop_limit: 0,
            source_port: 0,
        },
        header: roce::Repr::NOTHING,
    };
}

/// A run of bytes of a message: where they are, not what they are.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    source: Source<'a>,
    offset: u64,
    length: u32,
}

/// Where the message lies.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    /// In the pieces of a list; their addresses are those of memory.
    Scattered(&'a [Sge]),
    /// In the work request itself.
    Inline(&'a [u8]),
    /// In one piece of memory that begins at this address.
    Contiguous(u64),
}

/// A contiguous piece of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment<'a> {
    /// In application memory.
    Memory {
        /// An address for [`rdma::Memory`].
        address: u64,
        /// In bytes, never zero.
        length: u32,
    },
    /// In the engine.
    Bytes(&'a [u8]),
}

impl<'a> Payload<'a> {
    /// No payload.
    pub const EMPTY: Self = Self { source: Source::Inline(&[]), offset: 0, length: 0 };

    /// `length` bytes from `offset` on of the message in `list`, whose addresses are those of
    /// memory. The list is as long as that, at least.
    pub(crate) fn scattered(list: &'a [Sge], offset: u64, length: u32) -> Self {
        let source = match list {
            [only] => Source::Contiguous(only.address),
            list => Source::Scattered(list),
        };
        Self { source, offset, length }
    }

    /// `length` bytes from `offset` on of inline data.
    pub(crate) fn inline(bytes: &'a [u8], offset: u64, length: u32) -> Self {
        Self { source: Source::Inline(bytes), offset, length }
    }

    /// `length` bytes at an address.
    pub(crate) fn contiguous(address: u64, length: u32) -> Self {
        Self { source: Source::Contiguous(address), offset: 0, length }
    }

    /// As much again, for each of `more` packets behind it.
    pub(crate) fn prolong(&mut self, more: u32) {
        self.length += self.length * more;
    }

    /// In bytes.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The pieces, in order. Their lengths add up to [`Payload::len`].
    pub fn segments(&self) -> impl Iterator<Item = Segment<'a>> + use<'a> {
        let Self { source, offset, length } = *self;
        let mut skip = offset;
        let mut left = length;
        let mut index = 0;
        core::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            match source {
                Source::Inline(bytes) => {
                    let start = usize::try_from(skip).ok()?;
                    let piece = bytes.get(start..start + left as usize)?;
                    left = 0;
                    Some(Segment::Bytes(piece))
                }
                Source::Contiguous(address) => {
                    let segment = Segment::Memory { address: address + skip, length: left };
                    left = 0;
                    Some(segment)
                }
                Source::Scattered(list) => loop {
                    let sge = list.get(index)?;
                    index += 1;
                    if skip >= u64::from(sge.length) {
                        skip -= u64::from(sge.length);
                        continue;
                    }
                    // `skip` is below the length of a piece, which is a `u32`.
                    let length = (sge.length - skip as u32).min(left);
                    let segment = Segment::Memory { address: sge.address + skip, length };
                    skip = 0;
                    left -= length;
                    return Some(segment);
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_run_across_pieces_skips_empty_ones() {
        let piece = |address, length| Sge { address, length, ..Sge::default() };
        let list = [piece(100, 10), piece(500, 0), piece(900, 20)];
        let payload = Payload::scattered(&list, 4, 12);
        let segments: Vec<_> = payload.segments().collect();
        assert_eq!(
            segments,
            [
                Segment::Memory { address: 104, length: 6 },
                Segment::Memory { address: 900, length: 6 }
            ]
        );
    }

    #[test]
    fn an_empty_payload_has_no_piece() {
        assert_eq!(Payload::EMPTY.segments().count(), 0);
        assert_eq!(Payload::scattered(&[], 0, 0).segments().count(), 0);
    }
}
