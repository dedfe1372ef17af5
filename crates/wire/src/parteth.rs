//! Part extended header: where in its packet a part belongs.
//!
//! ```text
//!    0               1               2               3
//!   +-------------------------------+-------------------------------+
//!   |            offset             |             whole             |
//!   +-------------------------------+-------------------------------+
//! ```
//!
//! This header is Ferroce's own. Between two soft NICs a packet that the path does not take leaves in parts: each has
//! the PSN and the headers of the packet, an opcode that says that it is a part ([`crate::Opcode::part`]), this header behind
//! all others, and the bytes of the packet's payload from `offset` on. Parts begin and end at multiples of 1,024 bytes, or of
//! the path MTU if that is less; the last one ends with its packet.

use core::fmt;

use crate::{Error, be16};

/// Length in bytes.
pub const LEN: usize = 4;

mod field {
    use core::ops::Range;
    pub(super) const OFFSET: Range<usize> = 0..2;
    pub(super) const WHOLE: Range<usize> = 2..4;
}

/// A part extended header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Repr {
    /// Bytes of the packet's payload before this part.
    pub offset: u16,
    /// Bytes of the packet's payload.
    pub whole: u16,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.get(..LEN).ok_or(Error::Truncated)?;
        Ok(Self { offset: be16(bytes, field::OFFSET), whole: be16(bytes, field::WHOLE) })
    }

    /// Writes the header to the first [`LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::OFFSET].copy_from_slice(&self.offset.to_be_bytes());
        bytes[field::WHOLE].copy_from_slice(&self.whole.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part={}/{}", self.offset, self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn round_trips() {
        let bytes = [4, 0, 0x05, 0x80];
        let repr = Repr { offset: 1024, whole: 1408 };
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        let mut out = [0xee; LEN];
        repr.emit(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(repr.to_string(), "part=1024/1408");
        assert_eq!(Repr::parse(&bytes[1..]), Err(Error::Truncated));
    }
}
