//! RDMA extended transport header (IBTA vol 1, 9.3.3): where in the peer's memory, and how much.

use rdma::Key;

use crate::{Error, be32, be64};

/// Length in bytes.
pub const LEN: usize = 16;

mod field {
    use core::ops::Range;
    pub(super) const ADDRESS: Range<usize> = 0..8;
    pub(super) const RKEY: Range<usize> = 8..12;
    pub(super) const LENGTH: Range<usize> = 12..16;
}

/// A RETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The address as the region knows it.
    pub address: u64,
    /// The region.
    pub r_key: Key,
    /// Bytes of the whole message.
    pub length: u32,
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
            length: be32(bytes, field::LENGTH),
        })
    }

    /// Writes the header to the first [`LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::ADDRESS].copy_from_slice(&self.address.to_be_bytes());
        bytes[field::RKEY].copy_from_slice(&self.r_key.0.to_be_bytes());
        bytes[field::LENGTH].copy_from_slice(&self.length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let bytes = [0, 0, 0x7f, 0xff, 0, 1, 2, 3, 0, 0, 0x12, 0x34, 0, 0, 0x10, 0];
        let repr = Repr { address: 0x7fff_0001_0203, r_key: Key(0x1234), length: 4096 };
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        let mut out = [0xff; LEN];
        repr.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Repr::parse(&bytes[1..]), Err(Error::Truncated));
    }
}
