//! MAC control PAUSE (IEEE 802.3, 31B): the whole link stops sending.
//!
//! ```text
//!   0        2        4
//!   │ 0x0001 │ quanta │ zeroes up to the shortest frame
//! ```
//!
//! It goes to [`Address::MAC_CONTROL`](crate::ethernet::Address::MAC_CONTROL) under EtherType
//! 0x8808. On a RoCE link [`crate::pfc`] is used instead; a link where both are seen is
//! misconfigured.

use core::fmt;

use crate::ethernet::{self, Address, EtherType};
use crate::{Error, be16};

/// Length in bytes, without padding.
pub const HEADER_LEN: usize = 4;
/// The MAC control opcode.
pub const OPCODE: u16 = 0x0001;
/// How many bit times of the link one quantum is (802.3, 31B.2).
pub const QUANTUM_BITS: u64 = 512;

mod field {
    use core::ops::Range;
    pub(super) const OPCODE: Range<usize> = 0..2;
    pub(super) const QUANTA: Range<usize> = 2..4;
}

/// A view of the bytes of a PAUSE, after the Ethernet header.
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

    /// The MAC control opcode.
    pub fn opcode(&self) -> u16 {
        be16(self.buffer.as_ref(), field::OPCODE)
    }

    /// How long to stop, in quanta of [`QUANTUM_BITS`].
    pub fn quanta(&self) -> u16 {
        be16(self.buffer.as_ref(), field::QUANTA)
    }
}

/// A PAUSE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// How long to stop, in quanta of [`QUANTUM_BITS`]; zero to go on.
    pub quanta: u16,
}

impl Repr {
    /// Reads the PAUSE at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Protocol`] for another MAC control opcode.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        if packet.opcode() != OPCODE {
            return Err(Error::Protocol);
        }
        Ok(Self { quanta: packet.quanta() })
    }

    /// Writes the PAUSE to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::OPCODE].copy_from_slice(&OPCODE.to_be_bytes());
        bytes[field::QUANTA].copy_from_slice(&self.quanta.to_be_bytes());
    }

    /// The whole frame, padded to the shortest there is.
    pub fn frame(&self, source: Address) -> [u8; ethernet::MIN_FRAME_LEN] {
        let mut frame = mac_control_frame(source);
        self.emit(&mut frame[ethernet::HEADER_LEN..]);
        frame
    }
}

/// An empty MAC control frame from `source`.
pub(crate) fn mac_control_frame(source: Address) -> [u8; ethernet::MIN_FRAME_LEN] {
    let mut frame = [0; ethernet::MIN_FRAME_LEN];
    let destination = Address::MAC_CONTROL;
    ethernet::Repr { destination, source, ethertype: EtherType::MAC_CONTROL }.emit(&mut frame);
    frame
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PAUSE quanta={}", self.quanta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; HEADER_LEN] = [0x00, 0x01, 0xff, 0xfe];

    #[test]
    fn deconstructs() {
        let repr = Repr { quanta: 0xfffe };
        assert_eq!(Repr::parse(&BYTES), Ok(repr));
        assert_eq!(format!("{repr}"), "PAUSE quanta=65534");
    }

    #[test]
    fn constructs_a_frame_of_the_shortest_length() {
        let frame = Repr { quanta: 0xfffe }.frame(Address([2, 0, 0, 0, 0, 1]));
        assert_eq!(frame[..6], [0x01, 0x80, 0xc2, 0, 0, 1]);
        assert_eq!(frame[6..14], [2, 0, 0, 0, 0, 1, 0x88, 0x08]);
        assert_eq!(frame[14..18], BYTES);
        assert_eq!(frame[18..], [0; 42]);
    }

    #[test]
    fn says_why_it_refuses() {
        assert_eq!(Repr::parse(&BYTES[..3]), Err(Error::Truncated));
        assert_eq!(Repr::parse(&[1, 1, 0, 0]), Err(Error::Protocol), "that is PFC");
    }
}
