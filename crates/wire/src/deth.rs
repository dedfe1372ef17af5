//! Datagram extended transport header (IBTA vol 1, 9.3.1): Q_Key, a reserved byte, source QP.

use rdma::{QKey, Qpn};

use crate::{Error, be24, be32};

/// Length in bytes.
pub const LEN: usize = 8;

mod field {
    use core::ops::Range;
    pub(super) const QKEY: Range<usize> = 0..4;
    pub(super) const SOURCE: Range<usize> = 4..8;
}

/// A DETH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The key that the receiver checks.
    pub q_key: QKey,
    /// The sender's queue pair.
    pub source: Qpn,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.get(..LEN).ok_or(Error::Truncated)?;
        Ok(Self {
            q_key: QKey(be32(bytes, field::QKEY)),
            source: Qpn::new(be24(bytes, field::SOURCE)),
        })
    }

    /// Writes the header to the first [`LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::QKEY].copy_from_slice(&self.q_key.0.to_be_bytes());
        bytes[field::SOURCE].copy_from_slice(&self.source.value().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let bytes = [0x11, 0x11, 0x11, 0x11, 0, 0x12, 0x34, 0x56];
        let repr = Repr { q_key: QKey(0x1111_1111), source: Qpn::new(0x12_3456) };
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        let mut out = [0xff; LEN];
        repr.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Repr::parse(&bytes[1..]), Err(Error::Truncated));
    }
}
