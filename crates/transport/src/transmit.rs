//! An outgoing packet: its route, its headers, and where its payload lies.

use rdma::{Gid, Sge};
use wire::roce;

/// Where a packet goes, and the fields of its IP and UDP headers.
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

/// The TTL of who names none.
pub(crate) const DEFAULT_HOP_LIMIT: u8 = 64;

impl Route {
    /// Between these addresses, with everything else as most packets have it.
    pub const fn between(source: Gid, destination: Gid) -> Self {
        Self { destination, source, traffic_class: 0, hop_limit: DEFAULT_HOP_LIMIT, source_port: 0 }
    }
}

/// The headers of the packet that the driver has taken last. They are written and read in one
/// place, because passing them on would cost more than writing them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) route: Route,
    pub(crate) header: roce::Repr,
}

impl Written {
    /// No packet yet.
    pub(crate) const NOTHING: Self =
        Self { route: Route::between(Gid::ZERO, Gid::ZERO), header: roce::Repr::NOTHING };
}

/// Where the bytes behind the headers are. Unlike a [`Payload`] it borrows nothing, so it can be
/// kept beside the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    from: Origin,
    offset: u64,
    length: u32,
}

/// What [`Body::offset`] counts from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// Of the send request with this serial number.
    Request(u64),
    /// Of one piece of memory that begins at this address.
    Memory(u64),
    /// Of bytes that are always the same.
    Constant(&'static [u8]),
}

impl Body {
    /// Nothing.
    pub(crate) const EMPTY: Self = Self::constant(&[]);

    pub(crate) fn request(serial: u64, offset: u64, length: u32) -> Self {
        Self { from: Origin::Request(serial), offset, length }
    }

    pub(crate) fn memory(address: u64, offset: u64, length: u32) -> Self {
        Self { from: Origin::Memory(address), offset, length }
    }

    pub(crate) const fn constant(bytes: &'static [u8]) -> Self {
        Self { from: Origin::Constant(bytes), offset: 0, length: bytes.len() as u32 }
    }

    /// In bytes.
    pub(crate) fn len(&self) -> u32 {
        self.length
    }

    /// Of its bytes from `offset` on `most`, or what is left.
    pub(crate) fn part(self, offset: u32, most: u32) -> Self {
        let length = self.length.saturating_sub(offset).min(most);
        Self { offset: self.offset + u64::from(offset), length, ..self }
    }

    /// The bytes of `count` packets: this one, and others that each carry as much.
    pub(crate) fn times(self, count: u32) -> Self {
        Self { length: self.length * count, ..self }
    }

    /// The bytes; `of_request` finds those of a request.
    #[inline]
    pub(crate) fn payload<'a>(
        &self,
        of_request: impl FnOnce(u64, u64, u32) -> Payload<'a>,
    ) -> Payload<'a> {
        let &Self { from, offset, length } = self;
        match from {
            Origin::Request(serial) => of_request(serial, offset, length),
            Origin::Memory(address) => {
                Payload { source: Source::Contiguous(address), offset, length }
            }
            Origin::Constant(bytes) => Payload::inline(bytes, offset, length),
        }
    }
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

    /// The payloads of `count` packets that share it equally.
    pub(crate) fn shares(self, count: u32) -> impl Iterator<Item = Self> + use<'a> {
        let length = if count == 1 { self.length } else { self.length / count.max(1) };
        (0..count).map(move |index| {
            let offset = self.offset + u64::from(index) * u64::from(length);
            Self { offset, length, ..self }
        })
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
