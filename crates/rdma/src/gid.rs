//! Global identifiers: on RoCE v2, IP addresses.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The prefix of a mapped IPv4 address.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// A GID, 16 bytes. An IPv4 address is written as `::ffff:a.b.c.d` (IBTA annex A17.4.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The GID of an empty table entry.
    pub const ZERO: Self = Self([0; 16]);

    /// The address that packets to this GID are sent to.
    pub fn ip(self) -> IpAddr {
        match self.0.split_first_chunk() {
            Some((&MAPPED, &[a, b, c, d])) => Ipv4Addr::new(a, b, c, d).into(),
            _ => Ipv6Addr::from(self.0).into(),
        }
    }

    /// Whether [`Gid::ip`] is an IPv4 address.
    pub fn is_ipv4(self) -> bool {
        self.0.first_chunk() == Some(&MAPPED)
    }

    /// Whether no address is in it.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Whether it names a multicast group.
    pub fn is_multicast(self) -> bool {
        self.ip().is_multicast()
    }

    /// The multicast group, as RoCE v2 sends to it; `None` if this is no group. An IPv4 group is written
    /// like any IPv4 address, or as in RoCE v1: `ff0e::ffff:a.b.c.d`.
    pub fn group(self) -> Option<Self> {
        const V1: [u8; 12] = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let group = match self.0.split_first_chunk() {
            Some((&V1, &[a, b, c, d])) if Ipv4Addr::new(a, b, c, d).is_multicast() => {
                Ipv4Addr::new(a, b, c, d).into()
            }
            _ => self,
        };
        group.is_multicast().then_some(group)
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
    fn an_ipv4_group_has_two_ways_to_be_written() {
        let group = Gid::from(Ipv4Addr::new(239, 1, 2, 3));
        assert_eq!(group.group(), Some(group));
        let v1: Ipv6Addr = "ff0e::ffff:239.1.2.3".parse().unwrap();
        assert_eq!(Gid::from(v1).group(), Some(group));
        for (text, is_group) in [
            ("ff0e::ffff:10.1.2.3", true),
            ("ff0e::1", true),
            ("::ffff:10.1.2.3", false),
            ("::", false),
        ] {
            let gid = Gid::from(text.parse::<Ipv6Addr>().unwrap());
            assert_eq!(gid.group(), is_group.then_some(gid), "{text}");
        }
    }

    #[test]
    fn an_ipv6_address_stays_itself() {
        let address = Ipv6Addr::LOCALHOST;
        assert_eq!(Gid::from(address).ip(), IpAddr::V6(address));
    }
}
