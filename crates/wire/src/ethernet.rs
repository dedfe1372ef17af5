//! Ethernet II header (IEEE 802.3, 3.2.3 to 3.2.6).
//!
//! ```text
//!   0             6             12          14
//!   │ destination │   source    │ EtherType │ payload, at least 46 bytes
//! ```
//!
//! Preamble and frame check sequence belong to the link and are never in a buffer of ours.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::{Error, be16};

/// Length in bytes.
pub const HEADER_LEN: usize = 14;
/// The shortest frame, without its check sequence (802.3, 4.4.2: 64 with it).
pub const MIN_FRAME_LEN: usize = 60;

mod field {
    use core::ops::{Range, RangeFrom};
    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: Range<usize> = 12..14;
    pub(super) const PAYLOAD: RangeFrom<usize> = 14..;
}

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(pub [u8; 6]);

impl Address {
    /// Everybody.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// The other end of the link: pause frames go there, and no bridge forwards them
    /// (802.3, 31B.1).
    pub const MAC_CONTROL: Self = Self([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);

    /// Whether it names a group; broadcast is one.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether it is the broadcast address.
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// The group address that an IPv4 multicast address maps to (RFC 1112, 6.4).
    pub const fn of_ipv4_group(group: Ipv4Addr) -> Self {
        let [_, b, c, d] = group.octets();
        Self([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address that an IPv6 multicast address maps to (RFC 2464, 7).
    pub const fn of_ipv6_group(group: Ipv6Addr) -> Self {
        let octets = group.octets();
        Self([0x33, 0x33, octets[12], octets[13], octets[14], octets[15]])
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the payload is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// See [`crate::ipv4`].
    pub const IPV4: Self = Self(0x0800);
    /// See [`crate::arp`].
    pub const ARP: Self = Self(0x0806);
    /// See [`crate::vlan`].
    pub const VLAN: Self = Self(0x8100);
    /// See [`crate::ipv6`].
    pub const IPV6: Self = Self(0x86dd);
    /// See [`crate::pause`] and [`crate::pfc`].
    pub const MAC_CONTROL: Self = Self(0x8808);
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.write_str("IPv4"),
            Self::ARP => f.write_str("ARP"),
            Self::VLAN => f.write_str("802.1Q"),
            Self::IPV6 => f.write_str("IPv6"),
            Self::MAC_CONTROL => f.write_str("MAC control"),
            Self(other) => write!(f, "{other:#06x}"),
        }
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtherType({self})")
    }
}

/// A view of the bytes of a frame.
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

    fn address(&self, range: core::ops::Range<usize>) -> Address {
        Address(self.bytes()[range].try_into().expect("the range is six bytes long"))
    }

    /// Who it is for.
    pub fn destination(&self) -> Address {
        self.address(field::DESTINATION)
    }

    /// Who sent it.
    pub fn source(&self) -> Address {
        self.address(field::SOURCE)
    }

    /// What the payload is.
    pub fn ethertype(&self) -> EtherType {
        EtherType(be16(self.bytes(), field::ETHERTYPE))
    }

    /// What follows the header, padding included.
    pub fn payload(&self) -> &[u8] {
        &self.bytes()[field::PAYLOAD]
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Who it is for.
    pub destination: Address,
    /// Who sent it.
    pub source: Address,
    /// What the payload is.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        Ok(Self {
            destination: packet.destination(),
            source: packet.source(),
            ethertype: packet.ethertype(),
        })
    }

    /// Writes the header to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[field::DESTINATION].copy_from_slice(&self.destination.0);
        bytes[field::SOURCE].copy_from_slice(&self.source.0);
        bytes[field::ETHERTYPE].copy_from_slice(&self.ethertype.0.to_be_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ethernet {} > {} {}", self.source, self.destination, self.ethertype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; 16] = [
        0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0xaa,
        0xbb,
    ];

    fn repr() -> Repr {
        Repr {
            destination: Address([2, 0, 0, 0, 0, 2]),
            source: Address([2, 0, 0, 0, 0, 1]),
            ethertype: EtherType::IPV4,
        }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        assert_eq!(Packet::new_checked(&BYTES).unwrap().payload(), [0xaa, 0xbb]);
        assert_eq!(format!("{}", repr()), "Ethernet 02:00:00:00:00:01 > 02:00:00:00:00:02 IPv4");
    }

    #[test]
    fn constructs_over_dirty_bytes() {
        let mut bytes = [0xa5; HEADER_LEN];
        repr().emit(&mut bytes);
        assert_eq!(bytes, BYTES[..HEADER_LEN]);
    }

    #[test]
    fn rejects_truncated() {
        assert_eq!(Repr::parse(&BYTES[..HEADER_LEN - 1]), Err(Error::Truncated));
    }

    #[test]
    fn a_group_has_an_address_of_its_own() {
        let v4 = Address::of_ipv4_group(Ipv4Addr::new(224, 129, 2, 3));
        assert_eq!(format!("{v4}"), "01:00:5e:01:02:03");
        let v6 = Address::of_ipv6_group(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0x1234, 0x5678));
        assert_eq!(format!("{v6}"), "33:33:12:34:56:78");
        assert!(v4.is_multicast() && v6.is_multicast() && Address::MAC_CONTROL.is_multicast());
        assert!(Address::BROADCAST.is_broadcast() && !repr().source.is_multicast());
    }
}
