//! What RDMA CM adds: IP addresses in front of the private data of REQ and SIDR_REQ, and service
//! IDs made of port spaces and ports (IBTA annex A11, "RDMA IP CM Service").
//!
//! ```text
//!   0       1             2      4                20                    36
//!   │ version │ IP version │ port │ source address │ destination address │ the application's
//! ```
//!
//! An IPv4 address is in the last four of its sixteen bytes. The port is the sender's.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{put16, take};
use crate::{Error, be16};

/// Length in bytes.
pub const LEN: usize = 36;

mod field {
    use core::ops::Range;
    pub(super) const VERSION: usize = 0;
    pub(super) const IP_VERSION: usize = 1;
    pub(super) const PORT: Range<usize> = 2..4;
    pub(super) const SOURCE: usize = 4;
    pub(super) const DESTINATION: usize = 20;
}

/// A namespace of ports (`enum rdma_port_space`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortSpace(pub u16);

impl PortSpace {
    /// IP over InfiniBand.
    pub const IPOIB: Self = Self(0x0002);
    /// Connections.
    pub const TCP: Self = Self(0x0106);
    /// Datagrams.
    pub const UDP: Self = Self(0x0111);
    /// Any kind of queue pair.
    pub const IB: Self = Self(0x013f);

    /// The service ID of a port.
    pub const fn service(self, port: u16) -> u64 {
        (self.0 as u64) << 16 | port as u64
    }

    /// The port space and port of a service ID, if it is made of them.
    pub const fn of_service(service: u64) -> Option<(Self, u16)> {
        if service >> 32 != 0 {
            return None;
        }
        Some((Self((service >> 16) as u16), service as u16))
    }
}

/// The addresses of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Repr {
    /// The sender's port.
    pub port: u16,
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address, of the same family.
    pub destination: IpAddr,
}

impl Repr {
    /// Reads the header at the beginning of private data.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Version`] for a version other than 0 or neither IPv4 nor
    /// IPv6.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.get(..LEN).ok_or(Error::Truncated)?;
        let version = bytes[field::IP_VERSION] >> 4;
        if bytes[field::VERSION] != 0 || !matches!(version, 4 | 6) {
            return Err(Error::Version);
        }
        let address = |at: usize| -> IpAddr {
            if version == 4 {
                Ipv4Addr::from(take::<4>(bytes, at + 12)).into()
            } else {
                Ipv6Addr::from(take::<16>(bytes, at)).into()
            }
        };
        Ok(Self {
            port: be16(bytes, field::PORT),
            source: address(field::SOURCE),
            destination: address(field::DESTINATION),
        })
    }

    /// Writes the header to the first [`LEN`] bytes of private data.
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[..LEN].fill(0);
        bytes[field::IP_VERSION] = if self.source.is_ipv4() { 4 << 4 } else { 6 << 4 };
        put16(bytes, field::PORT.start, self.port);
        for (at, address) in [(field::SOURCE, self.source), (field::DESTINATION, self.destination)]
        {
            match address {
                IpAddr::V4(v4) => bytes[at + 12..at + 16].copy_from_slice(&v4.octets()),
                IpAddr::V6(v6) => bytes[at..at + 16].copy_from_slice(&v6.octets()),
            }
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {} to {}", self.source, self.port, self.destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn an_ipv4_address_stands_at_the_end_of_its_place() {
        let repr = Repr {
            port: 0x99b4,
            source: Ipv4Addr::new(10, 77, 0, 3).into(),
            destination: Ipv4Addr::new(10, 77, 0, 2).into(),
        };
        let mut bytes = [0xa5; LEN];
        repr.emit(&mut bytes);
        assert_eq!(bytes[..4], [0, 0x40, 0x99, 0xb4]);
        assert_eq!(bytes[4..16], [0; 12]);
        assert_eq!(bytes[16..20], [10, 77, 0, 3]);
        assert_eq!(bytes[32..], [10, 77, 0, 2]);
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        assert_eq!(format!("{repr}"), "10.77.0.3 port 39348 to 10.77.0.2");
        bytes[1] = 0x50;
        assert_eq!(Repr::parse(&bytes), Err(Error::Version));
        assert_eq!(Repr::parse(&bytes[1..]), Err(Error::Truncated));
    }

    #[test]
    fn an_ipv6_address_fills_its_place() {
        let (source, destination) = (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into());
        let repr = Repr { port: 1, source, destination };
        let mut bytes = [0xa5; LEN];
        repr.emit(&mut bytes);
        assert_eq!((bytes[1], bytes[19]), (0x60, 1));
        assert_eq!(Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn a_service_id_is_a_port_space_and_a_port() {
        assert_eq!(PortSpace::TCP.service(7174), 0x0106_1c06);
        assert_eq!(PortSpace::of_service(0x0111_1c06), Some((PortSpace::UDP, 7174)));
        assert_eq!(PortSpace::of_service(1 << 32), None);
    }
}
