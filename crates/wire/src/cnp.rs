//! Congestion notification packet (IBTA annex A17.9.3): a receiver that saw an ECN mark tells the
//! sender of that queue pair to slow down.
//!
//! ```text
//!   0                                            12            28
//!   │ BTH: opcode 0x81, BECN, PSN 0, QP of the sender │ reserved │ ICRC
//! ```

use core::fmt;

use rdma::{PKey, Psn, Qpn};

use crate::{Error, Opcode, bth};

/// Length in bytes: BTH and reserved bytes, without the ICRC.
pub const HEADER_LEN: usize = bth::LEN + RESERVED_LEN;
/// Bytes after the BTH: sent as zero, ignored on receipt, covered by the ICRC.
pub const RESERVED_LEN: usize = 16;

mod field {
    use core::ops::Range;
    pub(super) const RESERVED: Range<usize> = super::bth::LEN..super::HEADER_LEN;
}

/// A view of the bytes of a CNP, from its BTH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer is long enough.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it is not.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        Ok(Self { buffer })
    }

    /// The BTH.
    pub fn bth(&self) -> bth::Packet<&[u8]> {
        bth::Packet::new_checked(&self.buffer.as_ref()[..bth::LEN])
            .expect("a CNP is longer than a BTH")
    }

    /// The reserved bytes.
    pub fn reserved(&self) -> &[u8] {
        &self.buffer.as_ref()[field::RESERVED]
    }
}

/// A CNP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The queue pair that is to slow down.
    pub destination: Qpn,
    /// The partition of the packet that was marked.
    pub p_key: PKey,
}

impl Repr {
    /// The BTH: no event, no migration, BECN set (annex A17.9.3).
    pub fn bth(&self) -> bth::Repr {
        bth::Repr {
            migration: false,
            p_key: self.p_key,
            becn: true,
            ..bth::Repr::new(Opcode::CNP, self.destination, Psn::new(0))
        }
    }

    /// Reads the CNP at the beginning of `bytes`. The migration bit and BECN, in which devices differ, are
    /// not checked.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Version`], or [`Error::Opcode`] for another packet.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Packet::new_checked(bytes)?;
        let bth = bth::Repr::parse(bytes)?;
        if bth.opcode != Opcode::CNP {
            return Err(Error::Opcode);
        }
        Ok(Self { destination: bth.destination, p_key: bth.p_key })
    }

    /// Writes the CNP to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        self.bth().emit(bytes);
        bytes[field::RESERVED].fill(0);
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CNP qp={}", self.destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; HEADER_LEN] = [
        0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x00, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0,
    ];

    fn repr() -> Repr {
        Repr { destination: Qpn::new(0x11), p_key: PKey::DEFAULT }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        let packet = Packet::new_checked(&BYTES).unwrap();
        assert!(packet.bth().becn() && packet.reserved() == [0; RESERVED_LEN]);
        assert_eq!(format!("{}", repr()), "CNP qp=0x000011");
    }

    #[test]
    fn constructs_over_dirty_bytes() {
        let mut bytes = [0xa5; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn says_why_it_refuses() {
        assert_eq!(Repr::parse(&BYTES[..HEADER_LEN - 1]), Err(Error::Truncated));
        let mut bytes = BYTES;
        bytes[0] = 0x11;
        assert_eq!(Repr::parse(&bytes), Err(Error::Opcode));
    }
}
