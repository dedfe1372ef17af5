//! IPv4 header without options (RFC 791, 3.1; RFC 2474 and RFC 3168 for the second byte).
//!
//! ```text
//!   0     1     2           4      6          8     9      10         12       16            20
//!   │ 4|5 │ tos │ total len │  id  │ DF|0     │ ttl │ prot │ checksum │ source │ destination │
//! ```
//!
//! RoCE packets are never fragments and have no options (IBTA annex A17.4.1), so the header is
//! always [`HEADER_LEN`] bytes here.

use core::fmt;
use core::net::Ipv4Addr;

use crate::checksum::Sum;
use crate::{Error, be16, be32};

/// Length in bytes.
pub const HEADER_LEN: usize = 20;

mod field {
    use core::ops::Range;
    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TOS: usize = 1;
    pub(super) const TOTAL_LEN: Range<usize> = 2..4;
    pub(super) const ID: Range<usize> = 4..6;
    pub(super) const FRAGMENT: Range<usize> = 6..8;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: Range<usize> = 10..12;
    pub(super) const SOURCE: Range<usize> = 12..16;
    pub(super) const DESTINATION: Range<usize> = 16..20;
}

const DONT_FRAGMENT: u16 = 0x4000;

/// A view of the bytes of an IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer holds the whole packet.
    ///
    /// # Errors
    /// [`Error::Version`]; [`Error::Fragment`] for options; [`Error::Length`] if the total length
    /// is shorter than the header; [`Error::Truncated`] if the buffer is shorter than it.
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let bytes = buffer.as_ref();
        if bytes.len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        let packet = Self { buffer };
        if packet.version() != 4 {
            return Err(Error::Version);
        }
        match packet.header_len() {
            HEADER_LEN => {}
            length if length < HEADER_LEN => return Err(Error::Length),
            _ => return Err(Error::Fragment),
        }
        match usize::from(packet.total_len()) {
            length if length < HEADER_LEN => Err(Error::Length),
            length if length > packet.bytes().len() => Err(Error::Truncated),
            _ => Ok(packet),
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// 4.
    pub fn version(&self) -> u8 {
        self.bytes()[field::VERSION_IHL] >> 4
    }

    /// Header length in bytes.
    pub fn header_len(&self) -> usize {
        usize::from(self.bytes()[field::VERSION_IHL] & 0x0f) * 4
    }

    /// Type of service: six bits of DSCP, two of ECN.
    pub fn tos(&self) -> u8 {
        self.bytes()[field::TOS]
    }

    /// Length of header and payload.
    pub fn total_len(&self) -> u16 {
        be16(self.bytes(), field::TOTAL_LEN)
    }

    /// Identification.
    pub fn id(&self) -> u16 {
        be16(self.bytes(), field::ID)
    }

    /// Whether routers must drop the packet rather than cut it.
    pub fn dont_fragment(&self) -> bool {
        be16(self.bytes(), field::FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// Whether it is a piece of a larger packet, or has the reserved flag.
    pub fn is_fragment(&self) -> bool {
        be16(self.bytes(), field::FRAGMENT) & !DONT_FRAGMENT != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.bytes()[field::TTL]
    }

    /// What the payload is.
    pub fn protocol(&self) -> u8 {
        self.bytes()[field::PROTOCOL]
    }

    /// Header checksum.
    pub fn checksum(&self) -> u16 {
        be16(self.bytes(), field::CHECKSUM)
    }

    /// Who sent it.
    pub fn source(&self) -> Ipv4Addr {
        be32(self.bytes(), field::SOURCE).into()
    }

    /// Who it is for.
    pub fn destination(&self) -> Ipv4Addr {
        be32(self.bytes(), field::DESTINATION).into()
    }

    /// Whether the header checksum is right.
    pub fn verify_checksum(&self) -> bool {
        Sum::default().add(&self.bytes()[..HEADER_LEN]).finish() == 0
    }

    /// The header alone.
    pub fn header(&self) -> &[u8] {
        &self.bytes()[..HEADER_LEN]
    }

    /// What follows the header, without Ethernet padding.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[HEADER_LEN..usize::from(self.total_len())]
    }
}

/// An IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Who it is for.
    pub destination: Ipv4Addr,
    /// Type of service: six bits of DSCP, two of ECN.
    pub tos: u8,
    /// Length of header and payload.
    pub total_len: u16,
    /// Identification.
    pub id: u16,
    /// Whether routers must drop the packet rather than cut it.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: u8,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`, which hold the whole packet, and checks its
    /// checksum.
    ///
    /// # Errors
    /// Those of [`Packet::new_checked`]; [`Error::Checksum`]; [`Error::Fragment`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        if !packet.verify_checksum() {
            return Err(Error::Checksum);
        }
        if packet.is_fragment() {
            return Err(Error::Fragment);
        }
        Ok(Self {
            source: packet.source(),
            destination: packet.destination(),
            tos: packet.tos(),
            total_len: packet.total_len(),
            id: packet.id(),
            dont_fragment: packet.dont_fragment(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
        })
    }

    /// Writes the header, with its checksum, to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        let fragment = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        bytes[field::VERSION_IHL] = 0x45;
        bytes[field::TOS] = self.tos;
        bytes[field::TOTAL_LEN].copy_from_slice(&self.total_len.to_be_bytes());
        bytes[field::ID].copy_from_slice(&self.id.to_be_bytes());
        bytes[field::FRAGMENT].copy_from_slice(&fragment.to_be_bytes());
        bytes[field::TTL] = self.ttl;
        bytes[field::PROTOCOL] = self.protocol;
        bytes[field::CHECKSUM].fill(0);
        bytes[field::SOURCE].copy_from_slice(&self.source.octets());
        bytes[field::DESTINATION].copy_from_slice(&self.destination.octets());
        let checksum = Sum::default().add(&bytes[..HEADER_LEN]).finish();
        bytes[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, tos, total_len, id, ttl, protocol, .. } = self;
        write!(f, "IPv4 {source} > {destination} protocol={protocol} len={total_len}")?;
        write!(f, " dscp={} ecn={} id={id} ttl={ttl}", tos >> 2, tos & 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; 24] = [
        0x45, 0x6a, 0x00, 0x16, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x13, 0x9d, 0x0a, 0x4d, 0x00,
        0x01, 0x0a, 0x4d, 0x00, 0x02, 0xaa, 0xbb, 0x00, 0x00,
    ];

    fn repr() -> Repr {
        Repr {
            source: Ipv4Addr::new(10, 77, 0, 1),
            destination: Ipv4Addr::new(10, 77, 0, 2),
            tos: 26 << 2 | 2,
            total_len: 22,
            id: 0x1234,
            dont_fragment: true,
            ttl: 64,
            protocol: 17,
        }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        let packet = Packet::new_checked(&BYTES).unwrap();
        assert_eq!(packet.payload(), [0xaa, 0xbb], "padding is no payload");
        assert_eq!(
            format!("{}", repr()),
            "IPv4 10.77.0.1 > 10.77.0.2 protocol=17 len=22 dscp=26 ecn=2 id=4660 ttl=64"
        );
    }

    #[test]
    fn constructs_over_dirty_bytes() {
        let mut bytes = [0xa5; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES[..HEADER_LEN]);
    }

    /// What is said about [`BYTES`] with one byte changed and the checksum put right again.
    fn with(index: usize, value: u8) -> Result<Repr, Error> {
        let mut bytes = BYTES;
        bytes[index] = value;
        bytes[field::CHECKSUM].fill(0);
        let checksum = Sum::default().add(&bytes[..HEADER_LEN]).finish();
        bytes[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        Repr::parse(&bytes)
    }

    #[test]
    fn says_why_it_refuses() {
        assert_eq!(Repr::parse(&BYTES[..HEADER_LEN - 1]), Err(Error::Truncated));
        assert_eq!(with(0, 0x65), Err(Error::Version));
        assert_eq!(with(0, 0x44), Err(Error::Length));
        assert_eq!(with(0, 0x46), Err(Error::Fragment), "options");
        assert_eq!(with(3, 19), Err(Error::Length));
        assert_eq!(with(3, 25), Err(Error::Truncated));
        assert_eq!(with(6, 0x20), Err(Error::Fragment), "more fragments");
        assert_eq!(with(7, 1), Err(Error::Fragment), "offset");
        assert!(with(8, 63).is_ok());
        let mut bytes = BYTES;
        bytes[8] = 63;
        assert_eq!(Repr::parse(&bytes), Err(Error::Checksum));
    }
}
