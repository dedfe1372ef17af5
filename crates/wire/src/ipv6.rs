//! IPv6 header (RFC 8200, 3).
//!
//! ```text
//!   0   4               12           32            48      56      64      192           320
//!   │ 6 │ traffic class │ flow label │ payload len │ next  │ hops  │ source │ destination │
//! ```
//!
//! No extension headers are looked into: RoCE has UDP right behind (IBTA annex A17.4.1), and any
//! other next header is another protocol.

use core::fmt;
use core::net::Ipv6Addr;
use core::ops::Range;

use crate::{Error, be16, be32};

/// Length in bytes.
pub const HEADER_LEN: usize = 40;

mod field {
    use core::ops::Range;
    pub(super) const VERSION_CLASS_FLOW: Range<usize> = 0..4;
    pub(super) const PAYLOAD_LEN: Range<usize> = 4..6;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: Range<usize> = 8..24;
    pub(super) const DESTINATION: Range<usize> = 24..40;
}

const FLOW_LABEL: u32 = 0x000f_ffff;

/// A view of the bytes of an IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds the whole packet.
    ///
    /// # Errors
    /// [`Error::Version`]; [`Error::Truncated`] if the buffer is shorter than the payload length
    /// says.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let length = buffer.as_ref().len();
        if length < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Self { buffer };
        if packet.version() != 6 {
            return Err(Error::Version);
        }
        if HEADER_LEN + usize::from(packet.payload_len()) > length {
            return Err(Error::Truncated);
        }
        Ok(packet)
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    fn first_word(&self) -> u32 {
        be32(self.bytes(), field::VERSION_CLASS_FLOW)
    }

    fn address(&self, range: Range<usize>) -> Ipv6Addr {
        let octets: [u8; 16] =
            self.bytes()[range].try_into().expect("the range is sixteen bytes long");
        octets.into()
    }

    /// 6.
    pub fn version(&self) -> u8 {
        (self.first_word() >> 28) as u8
    }

    /// Six bits of DSCP, two of ECN.
    pub fn traffic_class(&self) -> u8 {
        (self.first_word() >> 20) as u8
    }

    /// 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.first_word() & FLOW_LABEL
    }

    /// Length of what follows the header.
    pub fn payload_len(&self) -> u16 {
        be16(self.bytes(), field::PAYLOAD_LEN)
    }

    /// What the payload is.
    pub fn next_header(&self) -> u8 {
        self.bytes()[field::NEXT_HEADER]
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.bytes()[field::HOP_LIMIT]
    }

    /// Who sent it.
    pub fn source(&self) -> Ipv6Addr {
        self.address(field::SOURCE)
    }

    /// Who it is for.
    pub fn destination(&self) -> Ipv6Addr {
        self.address(field::DESTINATION)
    }

    /// The header alone.
    pub fn header(&self) -> &[u8] {
        &self.bytes()[..HEADER_LEN]
    }

    /// What follows the header, without Ethernet padding.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER_LEN..HEADER_LEN + usize::from(self.payload_len())]
    }
}

/// An IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Who sent it.
    pub source: Ipv6Addr,
    /// Who it is for.
    pub destination: Ipv6Addr,
    /// Six bits of DSCP, two of ECN.
    pub traffic_class: u8,
    /// 20 bits; what is above them is not sent.
    pub flow_label: u32,
    /// Length of what follows the header.
    pub payload_len: u16,
    /// What the payload is.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`, which hold the whole packet.
    ///
    /// # Errors
    /// Those of [`Packet::new_checked`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        Ok(Self {
            source: packet.source(),
            destination: packet.destination(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload_len(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
        })
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL;
        bytes[field::VERSION_CLASS_FLOW].copy_from_slice(&first.to_be_bytes());
        bytes[field::PAYLOAD_LEN].copy_from_slice(&self.payload_len.to_be_bytes());
        bytes[field::NEXT_HEADER] = self.next_header;
        bytes[field::HOP_LIMIT] = self.hop_limit;
        bytes[field::SOURCE].copy_from_slice(&self.source.octets());
        bytes[field::DESTINATION].copy_from_slice(&self.destination.octets());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, traffic_class, payload_len, .. } = self;
        write!(f, "IPv6 {source} > {destination} next={} len={payload_len}", self.next_header)?;
        write!(f, " dscp={} ecn={}", traffic_class >> 2, traffic_class & 3)?;
        write!(f, " flow={:#07x} hops={}", self.flow_label, self.hop_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; 44] = [
        0x66, 0xa1, 0x23, 0x45, 0x00, 0x02, 0x11, 0x40, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0x01, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0xaa, 0xbb, 0, 0,
    ];

    fn repr() -> Repr {
        Repr {
            source: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
            destination: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
            traffic_class: 26 << 2 | 2,
            flow_label: 0x1_2345,
            payload_len: 2,
            next_header: 17,
            hop_limit: 64,
        }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        let packet = Packet::new_checked(&BYTES).unwrap();
        assert_eq!(packet.payload(), [0xaa, 0xbb], "padding is no payload");
        assert_eq!(
            format!("{}", repr()),
            "IPv6 fe80::1 > fe80::2 next=17 len=2 dscp=26 ecn=2 flow=0x12345 hops=64"
        );
    }

    #[test]
    fn constructs_over_dirty_bytes() {
        let mut bytes = [0xa5; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES[..HEADER_LEN]);
    }

    #[test]
    fn says_why_it_refuses() {
        let with = |index: usize, value| {
            let mut bytes = BYTES;
            bytes[index] = value;
            Repr::parse(&bytes)
        };
        assert_eq!(Repr::parse(&BYTES[..HEADER_LEN - 1]), Err(Error::Truncated));
        assert_eq!(with(0, 0x46), Err(Error::Version));
        assert_eq!(with(5, 5), Err(Error::Truncated));
    }
}
