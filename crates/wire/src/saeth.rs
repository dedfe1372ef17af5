//! Selective acknowledge extended header: which packets arrived behind a gap.
//!
//! ```text
//!    0               1               2               3
//!   +-------------------------------+-------------------------------+
//!   |         first distance        |          packets              |   four times
//!   +-------------------------------+-------------------------------+
//! ```
//!
//! This header is Ferroce's own. It follows the AETH of [`crate::Opcode::RC_SELECTIVE_ACKNOWLEDGE`],
//! whose PSN is the one that is missing, in the opcodes that IBTA vol 1, table 38 leaves to
//! manufacturers; only queue pairs that have agreed on selective repeat send it. Each range begins
//! so many packets after that PSN; one of no packets says nothing. The first range holds the packet
//! that arrived last, as in TCP (RFC 2018, 4).

use core::fmt;

use crate::{Error, be16};

/// Length in bytes.
pub const LEN: usize = 4 * RANGES;
/// How many ranges there are.
pub const RANGES: usize = 4;

mod field {
    use core::ops::Range;
    pub(super) const FIRST: Range<usize> = 0..2;
    pub(super) const PACKETS: Range<usize> = 2..4;
}

/// Packets in a row that have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrived {
    /// How many packets after the one that is missing.
    pub first: u16,
    /// How many there are.
    pub packets: u16,
}

impl Arrived {
    /// The distance of the packet after the last.
    pub fn end(self) -> u32 {
        u32::from(self.first) + u32::from(self.packets)
    }
}

/// A selective acknowledge extended header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Repr {
    /// What has arrived, in any order.
    pub ranges: [Arrived; RANGES],
}

impl Repr {
    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.get(..LEN).ok_or(Error::Truncated)?;
        let mut ranges = [Arrived::default(); RANGES];
        for (range, bytes) in ranges.iter_mut().zip(bytes.chunks_exact(4)) {
            *range =
                Arrived { first: be16(bytes, field::FIRST), packets: be16(bytes, field::PACKETS) };
        }
        Ok(Self { ranges })
    }

    /// Writes the header to the first [`LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        for (range, bytes) in self.ranges.iter().zip(bytes.chunks_exact_mut(4)) {
            bytes[field::FIRST].copy_from_slice(&range.first.to_be_bytes());
            bytes[field::PACKETS].copy_from_slice(&range.packets.to_be_bytes());
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arrived")?;
        for range in self.ranges.iter().filter(|range| range.packets > 0) {
            write!(f, " +{}..{}", range.first, range.end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn round_trips() {
        let bytes = [0, 1, 0, 5, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0x01, 0x02, 0x00, 0x01];
        let repr = Repr::parse(&bytes).unwrap();
        assert_eq!(repr.ranges[0], Arrived { first: 1, packets: 5 });
        assert_eq!(repr.ranges[1].end(), 2 * 0xffff);
        assert_eq!(repr.ranges[3], Arrived { first: 0x102, packets: 1 });
        let mut out = [0xee; LEN];
        repr.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Repr::parse(&bytes[1..]), Err(Error::Truncated));
    }

    #[test]
    fn empty_ranges_are_not_printed() {
        let ranges =
            [Arrived { first: 2, packets: 3 }, <_>::default(), <_>::default(), <_>::default()];
        assert_eq!(Repr { ranges }.to_string(), "arrived +2..5");
    }
}
