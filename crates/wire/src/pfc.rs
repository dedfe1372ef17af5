//! Priority flow control (IEEE 802.1Q, 36; frame: IEEE 802.3, 31D): some priorities of a link stop
//! sending, the others go on.
//!
//! ```text
//!   0        2         3              4                                    20
//!   │ 0x0101 │ 0       │ class enable │ quanta of priority 0, 1, 2, .. 7   │ zeroes
//!                        bit i: priority i is spoken of
//! ```
//!
//! It has no VLAN tag and names no flow: the other end of the link stops all traffic of the priority. This
//! is how congestion spreads and how a deadlock closes (guo16, 4.2).

use core::fmt;

use crate::ethernet::{self, Address};
use crate::pause::mac_control_frame;
use crate::{Error, be16};

/// Length in bytes, without padding.
pub const HEADER_LEN: usize = 20;
/// The MAC control opcode.
pub const OPCODE: u16 = 0x0101;
/// How many priorities there are.
pub const PRIORITIES: usize = 8;

mod field {
    use core::ops::Range;
    pub(super) const OPCODE: Range<usize> = 0..2;
    pub(super) const CLASS_ENABLE: Range<usize> = 2..4;
    pub(super) const QUANTA: Range<usize> = 4..20;

    /// The quanta of one priority.
    pub(super) const fn quanta(priority: usize) -> Range<usize> {
        let start = QUANTA.start + 2 * priority;
        start..start + 2
    }
}

/// A view of the bytes of a PFC frame, after the Ethernet header.
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

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// The MAC control opcode.
    pub fn opcode(&self) -> u16 {
        be16(self.bytes(), field::OPCODE)
    }

    /// Bit i: priority i is spoken of.
    pub fn class_enable(&self) -> u8 {
        // The upper byte is reserved, sent as zero and ignored on receipt.
        be16(self.bytes(), field::CLASS_ENABLE) as u8
    }

    /// How long each priority stops; of no meaning where [`Packet::class_enable`] has no bit.
    pub fn quanta(&self) -> [u16; PRIORITIES] {
        core::array::from_fn(|priority| be16(self.bytes(), field::quanta(priority)))
    }
}

/// A PFC frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Repr {
    /// By priority: how long to stop, in quanta of
    /// [`QUANTUM_BITS`](crate::pause::QUANTUM_BITS), zero to go on; `None` if nothing is said.
    pub quanta: [Option<u16>; PRIORITIES],
}

impl Repr {
    /// One that speaks of `priority` alone, which is below [`PRIORITIES`].
    pub fn of(priority: u8, quanta: u16) -> Self {
        let mut repr = Self::default();
        repr.quanta[usize::from(priority)] = Some(quanta);
        repr
    }

    /// Reads the PFC frame at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Protocol`] for another MAC control opcode.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        if packet.opcode() != OPCODE {
            return Err(Error::Protocol);
        }
        let (enabled, quanta) = (packet.class_enable(), packet.quanta());
        Ok(Self {
            quanta: core::array::from_fn(|priority| {
                (enabled >> priority & 1 != 0).then_some(quanta[priority])
            }),
        })
    }

    /// Writes the PFC frame to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut enabled = 0u16;
        for (priority, quanta) in self.quanta.iter().enumerate() {
            enabled |= u16::from(quanta.is_some()) << priority;
            let quanta = quanta.unwrap_or(0).to_be_bytes();
            bytes[field::quanta(priority)].copy_from_slice(&quanta);
        }
        bytes[field::OPCODE].copy_from_slice(&OPCODE.to_be_bytes());
        bytes[field::CLASS_ENABLE].copy_from_slice(&enabled.to_be_bytes());
    }

    /// The whole frame, padded to the shortest there is.
    pub fn frame(&self, source: Address) -> [u8; ethernet::MIN_FRAME_LEN] {
        let mut frame = mac_control_frame(source);
        self.emit(&mut frame[ethernet::HEADER_LEN..]);
        frame
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PFC")?;
        for (priority, quanta) in self.quanta.iter().enumerate() {
            if let Some(quanta) = quanta {
                write!(f, " {priority}={quanta}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; HEADER_LEN] =
        [0x01, 0x01, 0x00, 0x18, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0x00, 0x00, 0, 0, 0, 0, 0, 0];

    fn repr() -> Repr {
        let mut repr = Repr::of(3, 0xffff);
        repr.quanta[4] = Some(0);
        repr
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        assert_eq!(format!("{}", repr()), "PFC 3=65535 4=0");
    }

    #[test]
    fn constructs_a_frame_of_the_shortest_length() {
        let frame = repr().frame(Address([2, 0, 0, 0, 0, 1]));
        assert_eq!(frame[..6], [0x01, 0x80, 0xc2, 0, 0, 1]);
        assert_eq!(frame[6..14], [2, 0, 0, 0, 0, 1, 0x88, 0x08]);
        assert_eq!(frame[14..34], BYTES);
        assert_eq!(frame[34..], [0; 26]);
    }

    #[test]
    fn a_time_for_a_class_that_is_not_enabled_says_nothing() {
        let mut bytes = BYTES;
        bytes[4] = 0x77;
        assert_eq!(Repr::parse(&bytes), Ok(repr()));
    }

    #[test]
    fn says_why_it_refuses() {
        assert_eq!(Repr::parse(&BYTES[..HEADER_LEN - 1]), Err(Error::Truncated));
        let mut bytes = BYTES;
        bytes[0] = 0;
        assert_eq!(Repr::parse(&bytes), Err(Error::Protocol), "that is PAUSE");
    }
}
