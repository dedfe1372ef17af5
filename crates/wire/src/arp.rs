//! Address resolution protocol for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//!   0      2       4   5   6      8        14       18       24       28
//!   │ hw=1 │ 0x800 │ 6 │ 4 │ oper │ sender │ sender │ target │ target │
//!                                 │ MAC    │ IPv4   │ MAC    │ IPv4   │
//! ```
//!
//! Another hardware or protocol space is not an error of the sender; it is not ours to read.

use core::fmt;
use core::net::Ipv4Addr;

use crate::ethernet::{Address, EtherType};
use crate::{Error, be16, be32};

/// Length in bytes.
pub const HEADER_LEN: usize = 28;

mod field {
    use core::ops::Range;
    pub(super) const HARDWARE: Range<usize> = 0..2;
    pub(super) const PROTOCOL: Range<usize> = 2..4;
    pub(super) const HARDWARE_LEN: usize = 4;
    pub(super) const PROTOCOL_LEN: usize = 5;
    pub(super) const OPERATION: Range<usize> = 6..8;
    pub(super) const SENDER_MAC: Range<usize> = 8..14;
    pub(super) const SENDER_IP: Range<usize> = 14..18;
    pub(super) const TARGET_MAC: Range<usize> = 18..24;
    pub(super) const TARGET_IP: Range<usize> = 24..28;
}

const HARDWARE_ETHERNET: u16 = 1;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// What is asked or answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
}

/// A view of the bytes of an ARP packet.
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

    fn mac(&self, range: core::ops::Range<usize>) -> Address {
        Address(self.bytes()[range].try_into().expect("the range is six bytes long"))
    }

    /// Hardware space; 1 is Ethernet.
    pub fn hardware(&self) -> u16 {
        be16(self.bytes(), field::HARDWARE)
    }

    /// Protocol space.
    pub fn protocol(&self) -> EtherType {
        EtherType(be16(self.bytes(), field::PROTOCOL))
    }

    /// Length of a hardware address.
    pub fn hardware_len(&self) -> u8 {
        self.bytes()[field::HARDWARE_LEN]
    }

    /// Length of a protocol address.
    pub fn protocol_len(&self) -> u8 {
        self.bytes()[field::PROTOCOL_LEN]
    }

    /// The operation, known or not.
    pub fn operation(&self) -> u16 {
        be16(self.bytes(), field::OPERATION)
    }

    /// The sender's MAC address.
    pub fn sender_mac(&self) -> Address {
        self.mac(field::SENDER_MAC)
    }

    /// The sender's IPv4 address.
    pub fn sender_ip(&self) -> Ipv4Addr {
        be32(self.bytes(), field::SENDER_IP).into()
    }

    /// The target's MAC address; of no meaning in a request.
    pub fn target_mac(&self) -> Address {
        self.mac(field::TARGET_MAC)
    }

    /// The target's IPv4 address.
    pub fn target_ip(&self) -> Ipv4Addr {
        be32(self.bytes(), field::TARGET_IP).into()
    }
}

/// An ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// What is asked or answered.
    pub operation: Operation,
    /// The sender's MAC address.
    pub sender_mac: Address,
    /// The sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// The target's MAC address; of no meaning in a request.
    pub target_mac: Address,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Reads the packet at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::Protocol`] for other address spaces and operations.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let packet = Packet::new_checked(bytes)?;
        let spaces = (packet.hardware(), packet.protocol());
        let lengths = (packet.hardware_len(), packet.protocol_len());
        if spaces != (HARDWARE_ETHERNET, EtherType::IPV4) || lengths != (6, 4) {
            return Err(Error::Protocol);
        }
        Ok(Self {
            operation: match packet.operation() {
                REQUEST => Operation::Request,
                REPLY => Operation::Reply,
                _ => return Err(Error::Protocol),
            },
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        })
    }

    /// Writes the packet to the first [`HEADER_LEN`] bytes of `bytes`.
    pub fn emit(&self, bytes: &mut [u8]) {
        let operation = match self.operation {
            Operation::Request => REQUEST,
            Operation::Reply => REPLY,
        };
        bytes[field::HARDWARE].copy_from_slice(&HARDWARE_ETHERNET.to_be_bytes());
        bytes[field::PROTOCOL].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
        bytes[field::HARDWARE_LEN] = 6;
        bytes[field::PROTOCOL_LEN] = 4;
        bytes[field::OPERATION].copy_from_slice(&operation.to_be_bytes());
        bytes[field::SENDER_MAC].copy_from_slice(&self.sender_mac.0);
        bytes[field::SENDER_IP].copy_from_slice(&self.sender_ip.octets());
        bytes[field::TARGET_MAC].copy_from_slice(&self.target_mac.0);
        bytes[field::TARGET_IP].copy_from_slice(&self.target_ip.octets());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Operation::Request => {
                write!(f, "ARP who has {}? tell {}", self.target_ip, self.sender_ip)
            }
            Operation::Reply => write!(f, "ARP {} is at {}", self.sender_ip, self.sender_mac),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    static BYTES: [u8; HEADER_LEN] = [
        0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x0a,
        0x4d, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x0a, 0x4d, 0x00, 0x02,
    ];

    fn repr() -> Repr {
        Repr {
            operation: Operation::Reply,
            sender_mac: Address([2, 0, 0, 0, 0, 1]),
            sender_ip: Ipv4Addr::new(10, 77, 0, 1),
            target_mac: Address([2, 0, 0, 0, 0, 2]),
            target_ip: Ipv4Addr::new(10, 77, 0, 2),
        }
    }

    #[test]
    fn deconstructs() {
        assert_eq!(Repr::parse(&BYTES), Ok(repr()));
        assert_eq!(format!("{}", repr()), "ARP 10.77.0.1 is at 02:00:00:00:00:01");
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
        for index in [1, 2, 4, 5, 6, 7] {
            let mut bytes = BYTES;
            bytes[index] ^= 0x40;
            assert_eq!(Repr::parse(&bytes), Err(Error::Protocol), "byte {index}");
        }
    }
}
