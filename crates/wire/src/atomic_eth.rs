//! Atomic extended transport header (IBTA vol 1, 9.3.4).

use rdma::Key;

use crate::{Error, be32, be64};

/// Length in bytes.
pub const LEN: usize = 28;

mod field {
    use core::ops::Range;
    pub(super) const ADDRESS: Range<usize> = 0..8;
    pub(super) const RKEY: Range<usize> = 8..12;
    pub(super) const SWAP_OR_ADD: Range<usize> = 12..20;
    pub(super) const COMPARE: Range<usize> = 20..28;
}

/// An AtomicETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The word, as the region knows it.
    pub address: u64,
    /// The region.
    pub r_key: Key,
    /// What is swapped in, or added.
    pub swap_or_add: u64,
    /// What the word must be (compare and swap only).
    pub compare: u64,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.get(..LEN).ok_or(Error::Truncated)?;
        Ok(Self {
            address: be64(bytes, field::ADDRESS),
            r_key: Key(be32(bytes, field::RKEY)),
            swap_or_add: be64(bytes, field::SWAP_OR_ADD),
            compare: be64(bytes, field::COMPARE),
        })
    }

    /// Writes the header to the first [`LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::ADDRESS].copy_from_slice(&self.address.to_be_bytes());
        bytes[field::RKEY].copy_from_slice(&self.r_key.0.to_be_bytes());
        bytes[field::SWAP_OR_ADD].copy_from_slice(&self.swap_or_add.to_be_bytes());
        bytes[field::COMPARE].copy_from_slice(&self.compare.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let bytes: [u8; LEN] = core::array::from_fn(|index| index as u8);
        let repr = Repr {
            address: 0x0001_0203_0405_0607,
            r_key: Key(0x0809_0a0b),
            swap_or_add: 0x0c0d_0e0f_1011_1213,
            compare: 0x1415_1617_1819_1a1b,
        };
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        let mut out = [0xff; LEN];
        repr.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Repr::parse(&bytes[1..]), Err(Error::Truncated));
    }
}
