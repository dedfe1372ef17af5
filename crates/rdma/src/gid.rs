//! Global identifiers: on RoCE v2, IP addresses.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A GID, 16 bytes. An IPv4 address stands in it as `::ffff:a.b.c.d` (IBTA annex A17.4.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The GID of an empty table entry.
    pub const ZERO: Self = Self([0; 16]);

    /// The address that packets to this GID are sent to.
    pub fn ip(self) -> IpAddr {
        let v6 = Ipv6Addr::from(self.0);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    /// Whether no address is in it.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Whether it names a multicast group.
    pub fn is_multicast(self) -> bool {
        self.ip().is_multicast()
    }
}

impl From<Ipv4Addr> for Gid {
    fn from(address: Ipv4Addr) -> Self {
        Self(address.to_ipv6_mapped().octets())
    }
}

impl From<Ipv6Addr> for Gid {
    fn from(address: Ipv6Addr) -> Self {
        Self(address.octets())
    }
}

impl From<IpAddr> for Gid {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => v6.into(),
        }
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({})", Ipv6Addr::from(self.0))
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv6Addr::from(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_survives_the_mapping() {
        let address = Ipv4Addr::new(10, 77, 0, 1);
        assert_eq!(Gid::from(address).ip(), IpAddr::V4(address));
        assert_eq!(Gid::from(address).0[10..], [0xff, 0xff, 10, 77, 0, 1]);
    }

    #[test]
    fn an_ipv6_address_stays_itself() {
        let address = Ipv6Addr::LOCALHOST;
        assert_eq!(Gid::from(address).ip(), IpAddr::V6(address));
    }
}
