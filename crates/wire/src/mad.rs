//! The header of a management datagram (IBTA vol 1, chapter 13, "MAD base format").
//!
//! ```text
//!   0               8                16               24                                    256
//!   │ version class │ status, class  │ transaction ID │ attribute, modifier │ data of the class │
//! ```
//!
//! A MAD is 256 bytes, the payload of one UD SEND to QP1.

use core::fmt;

use crate::{Error, be16, be32, be64};

/// Length of a whole MAD in bytes.
pub const LEN: usize = 256;
/// Length of the header in bytes.
pub const HEADER_LEN: usize = 24;
/// Bytes of the class's own.
pub const DATA_LEN: usize = LEN - HEADER_LEN;
/// The only version of the base format.
const BASE_VERSION: u8 = 1;

mod field {
    use core::ops::Range;
    pub(super) const BASE_VERSION: usize = 0;
    pub(super) const CLASS: usize = 1;
    pub(super) const CLASS_VERSION: usize = 2;
    pub(super) const METHOD: usize = 3;
    pub(super) const STATUS: Range<usize> = 4..6;
    pub(super) const CLASS_SPECIFIC: Range<usize> = 6..8;
    pub(super) const TRANSACTION: Range<usize> = 8..16;
    pub(super) const ATTRIBUTE: Range<usize> = 16..18;
    pub(super) const RESERVED: Range<usize> = 18..20;
    pub(super) const MODIFIER: Range<usize> = 20..24;
}

/// A MAD's header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Repr {
    /// Management class: 7 is communication management.
    pub class: u8,
    /// Version of the class's format.
    pub class_version: u8,
    /// What is done to the attribute: 3 is Send.
    pub method: u8,
    /// Status; 0 in what is sent unasked.
    pub status: u16,
    /// Two bytes of the class's own.
    pub class_specific: u16,
    /// What an answer has in common with its question.
    pub transaction: u64,
    /// Which message it is.
    pub attribute: u16,
    /// More about the attribute.
    pub modifier: u32,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` is shorter than the header, [`Error::Version`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.get(..HEADER_LEN).ok_or(Error::Truncated)?;
        if bytes[field::BASE_VERSION] != BASE_VERSION {
            return Err(Error::Version);
        }
        Ok(Self {
            class: bytes[field::CLASS],
            class_version: bytes[field::CLASS_VERSION],
            method: bytes[field::METHOD],
            status: be16(bytes, field::STATUS),
            class_specific: be16(bytes, field::CLASS_SPECIFIC),
            transaction: be64(bytes, field::TRANSACTION),
            attribute: be16(bytes, field::ATTRIBUTE),
            modifier: be32(bytes, field::MODIFIER),
        })
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::BASE_VERSION] = BASE_VERSION;
        bytes[field::CLASS] = self.class;
        bytes[field::CLASS_VERSION] = self.class_version;
        bytes[field::METHOD] = self.method;
        bytes[field::STATUS].copy_from_slice(&self.status.to_be_bytes());
        bytes[field::CLASS_SPECIFIC].copy_from_slice(&self.class_specific.to_be_bytes());
        bytes[field::TRANSACTION].copy_from_slice(&self.transaction.to_be_bytes());
        bytes[field::ATTRIBUTE].copy_from_slice(&self.attribute.to_be_bytes());
        bytes[field::RESERVED].fill(0);
        bytes[field::MODIFIER].copy_from_slice(&self.modifier.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, method, attribute, transaction, .. } = self;
        write!(f, "MAD class={class:#x} method={method} attr={attribute:#x} tid={transaction:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; HEADER_LEN] =
        [1, 7, 2, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0xd2, 0x05, 0x8b, 0xf2, 0, 0x10, 0, 0, 0, 0, 0, 9];

    fn repr() -> Repr {
        Repr {
            class: 7,
            class_version: 2,
            method: 3,
            status: 0,
            class_specific: 0,
            transaction: 0x2_d205_8bf2,
            attribute: 0x10,
            modifier: 9,
        }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        assert_eq!(format!("{}", repr()), "MAD class=0x7 method=3 attr=0x10 tid=0x2d2058bf2");
    }

    #[test]
    fn constructs_over_dirty_bytes() {
        let mut bytes = [0xa5; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn says_why_it_refuses() {
        assert_eq!(Repr::parse(&BYTES[1..]), Err(Error::Truncated));
        let mut bytes = BYTES;
        bytes[0] = 2;
        assert_eq!(Repr::parse(&bytes), Err(Error::Version));
    }
}
