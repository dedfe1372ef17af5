//! UDP header (RFC 768; over IPv6, RFC 8200, 8.1).
//!
//! ```text
//!   0             2                  4        6          8
//!   │ source port │ destination port │ length │ checksum │ payload
//! ```
//!
//! The source port is entropy for the routers' hash, one per flow; the destination port is
//! [`ROCE_PORT`] (IBTA annex A17.4.2). The checksum is carried and not checked here: on RoCE it is
//! zero, or in a capture an offloaded sum that is only half computed. The ICRC does its work.

use core::fmt;
use core::net::Ipv6Addr;

use crate::checksum::Sum;
use crate::{Error, be16};

/// Length in bytes.
pub const HEADER_LEN: usize = 8;
/// The destination port of RoCEv2 (IBTA annex A17.4.2; IANA "roce").
pub const ROCE_PORT: u16 = 4791;
/// UDP as an IP protocol and IPv6 next header.
pub const PROTOCOL: u8 = 17;

mod field {
    use core::ops::Range;
    pub(super) const SOURCE_PORT: Range<usize> = 0..2;
    pub(super) const DESTINATION_PORT: Range<usize> = 2..4;
    pub(super) const LENGTH: Range<usize> = 4..6;
    pub(super) const CHECKSUM: Range<usize> = 6..8;
}

/// A view of the bytes of a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds the whole datagram.
    ///
    /// # Errors
    /// [`Error::Length`] if the length field is shorter than the header; [`Error::Truncated`] if
    /// the buffer is shorter than it.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let length = buffer.as_ref().len();
        if length < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Self { buffer };
        match usize::from(packet.length()) {
            claimed if claimed < HEADER_LEN => Err(Error::Length),
            claimed if claimed > length => Err(Error::Truncated),
            _ => Ok(packet),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Source port.
    pub fn source_port(&self) -> u16 {
        be16(self.bytes(), field::SOURCE_PORT)
    }

    /// Destination port.
    pub fn destination_port(&self) -> u16 {
        be16(self.bytes(), field::DESTINATION_PORT)
    }

    /// Length of header and payload.
    pub fn length(&self) -> u16 {
        be16(self.bytes(), field::LENGTH)
    }

    /// Checksum; 0 for none.
    pub fn checksum(&self) -> u16 {
        be16(self.bytes(), field::CHECKSUM)
    }

    /// The header alone.
    pub fn header(&self) -> &[u8] {
        &self.bytes()[..HEADER_LEN]
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER_LEN..usize::from(self.length())]
    }
}

/// A UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Length of header and payload.
    pub length: u16,
    /// Checksum; 0 for none.
    pub checksum: u16,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`, which hold the whole datagram.
    ///
    /// # Errors
    /// Those of [`Packet::new_checked`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        Ok(Self {
            source_port: packet.source_port(),
            destination_port: packet.destination_port(),
            length: packet.length(),
            checksum: packet.checksum(),
        })
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::SOURCE_PORT].copy_from_slice(&self.source_port.to_be_bytes());
        bytes[field::DESTINATION_PORT].copy_from_slice(&self.destination_port.to_be_bytes());
        bytes[field::LENGTH].copy_from_slice(&self.length.to_be_bytes());
        bytes[field::CHECKSUM].copy_from_slice(&self.checksum.to_be_bytes());
    }
}

/// Computes the checksum of `datagram` (header and payload, at least [`HEADER_LEN`] bytes) between
/// two IPv6 addresses and writes it to the header.
pub fn fill_checksum_v6(source: Ipv6Addr, destination: Ipv6Addr, datagram: &mut [u8]) {
    datagram[field::CHECKSUM].fill(0);
    let length = u16::try_from(datagram.len()).expect("a datagram is shorter than 64 KiB");
    let checksum = pseudo_header(source, destination, length).add(datagram).finish();
    // Zero means "no checksum", and has a twin in ones' complement.
    let checksum = if checksum == 0 { 0xffff } else { checksum };
    datagram[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
}

/// Whether the checksum of `datagram`, whose length is right, fits it and the addresses.
pub fn verify_checksum_v6(source: Ipv6Addr, destination: Ipv6Addr, datagram: &[u8]) -> bool {
    u16::try_from(datagram.len())
        .is_ok_and(|length| pseudo_header(source, destination, length).add(datagram).finish() == 0)
}

/// RFC 8200, 8.1.
fn pseudo_header(source: Ipv6Addr, destination: Ipv6Addr, length: u16) -> Sum {
    Sum::default()
        .add(&source.octets())
        .add(&destination.octets())
        .add_word(length)
        .add_word(u16::from(PROTOCOL))
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source_port, destination_port, length, .. } = self;
        write!(f, "UDP {source_port} > {destination_port} len={length}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; 11] = [0xc0, 0x01, 0x12, 0xb7, 0x00, 0x0a, 0x12, 0x34, 0xaa, 0xbb, 0x00];

    fn repr() -> Repr {
        Repr { source_port: 0xc001, destination_port: ROCE_PORT, length: 10, checksum: 0x1234 }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        assert_eq!(Packet::new_checked(&BYTES).unwrap().payload(), [0xaa, 0xbb]);
        assert_eq!(format!("{}", repr()), "UDP 49153 > 4791 len=10");
    }

    #[test]
    fn constructs_over_dirty_bytes() {
        let mut bytes = [0xa5; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES[..HEADER_LEN]);
    }

    #[test]
    fn says_why_it_refuses() {
        let with = |length| {
            let mut bytes = BYTES;
            bytes[5] = length;
            Repr::parse(&bytes)
        };
        assert_eq!(Repr::parse(&BYTES[..HEADER_LEN - 1]), Err(Error::Truncated));
        assert_eq!(with(7), Err(Error::Length));
        assert_eq!(with(12), Err(Error::Truncated));
    }

    #[test]
    fn a_filled_checksum_verifies_until_a_byte_changes() {
        let (source, destination) =
            (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2));
        let mut datagram = BYTES;
        fill_checksum_v6(source, destination, &mut datagram);
        assert!(verify_checksum_v6(source, destination, &datagram));
        assert!(!verify_checksum_v6(source, Ipv6Addr::LOCALHOST, &datagram));
        datagram[9] ^= 1;
        assert!(!verify_checksum_v6(source, destination, &datagram));
    }

    #[test]
    fn a_checksum_that_comes_out_as_zero_is_sent_as_its_twin() {
        let zero = Ipv6Addr::UNSPECIFIED;
        let mut datagram = [0, 0, 0, 0, 0, 8, 0, 0];
        // Pseudo header and length fields sum to 8 + 17 + 8.
        datagram[..2].copy_from_slice(&(0xffffu16 - 33).to_be_bytes());
        fill_checksum_v6(zero, zero, &mut datagram);
        assert_eq!(datagram[6..], [0xff, 0xff]);
        assert!(verify_checksum_v6(zero, zero, &datagram));
    }
}
