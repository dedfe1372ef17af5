//! RoCEv2 packets, byte for byte.
//!
//! ```text
//!   Ethernet │ 802.1Q │ IPv4 or IPv6 │ UDP 4791 │ BTH │ extended headers │ payload │ pad │ ICRC
//!                                               └──────── roce::Repr ────┘
//! ```
//!
//! # A guided tour
//!
//! - [`Frame`] is a whole packet: from Ethernet to ICRC, parsed and emitted in one call. Below it
//!   [`roce`] joins the BTH and the extended headers, for users of UDP sockets, who see no more.
//! - Each header has a file of its own, all of the same shape: byte ranges in `mod field`, a checked
//!   `Packet` view with a getter per field in wire order, a `Repr` with `parse` and `emit`. Begin with
//!   [`bth`].
//! - [`opcode`] is one table of the facts of each BTH opcode: its name, its headers, its payload.
//! - [`icrc`] is the check over all of them.
//! - [`cm`] and [`mad`] have the messages that connections are made by, which are payload.
//! - [`pause`] and [`pfc`] are the frames by which a link is told to wait; [`pcap`] and [`pcapng`]
//!   write captures that Wireshark reads.
//!
//! # Example
//!
//! A SEND of one packet is emitted, parsed again, and refused when a bit of it has changed:
//!
//! ```
//! use core::net::{IpAddr, Ipv4Addr};
//!
//! use rdma::{Psn, Qpn};
//! use wire::ethernet::Address;
//! use wire::frame::Ip;
//! use wire::opcode::{Attach, Part, Service};
//! use wire::{Error, Frame, Opcode, icrc, roce, udp};
//!
//! let (alice, bob) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
//! let payload = b"hello";
//! let opcode = Opcode::send(Service::Rc, Part::Only, Attach::Nothing);
//! let frame = Frame {
//!     source: Address([2, 0, 0, 0, 0, 1]),
//!     destination: Address([2, 0, 0, 0, 0, 2]),
//!     vlan: None,
//!     ip: Ip::V4 { source: alice, destination: bob, tos: 0, id: 0, dont_fragment: true, ttl: 64 },
//!     source_port: udp::ROCE_PORT,
//!     // Five bytes of payload are padded to eight.
//!     roce: roce::Repr::new(opcode, Qpn::new(7), Psn::new(100)).padded_for(5),
//!     payload,
//! };
//! let mut bytes = frame.to_vec();
//! assert_eq!(Frame::parse(&bytes), Ok(frame));
//!
//! // The ICRC covers the packet from its IP header to its padding, and comes last.
//! let bth = bytes.len() - 4 - 8 - 12;
//! let (covered, check) = bytes[bth..].split_last_chunk().unwrap();
//! let below = icrc::Datagram::between(IpAddr::V4(alice), IpAddr::V4(bob));
//! assert_eq!(icrc::compute(&below, covered), Ok(*check));
//!
//! *bytes.last_mut().unwrap() ^= 1;
//! assert_eq!(Frame::parse(&bytes), Err(Error::Icrc));
//! ```
//!
//! **Invariant:** once `new_checked` or `parse` has returned `Ok`, no accessor panics, whatever the
//! bytes.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aeth;
pub mod arp;
pub mod atomic_eth;
pub mod bth;
mod checksum;
pub mod cm;
pub mod cnp;
pub mod deth;
mod error;
pub mod ethernet;
pub mod frame;
pub mod icrc;
pub mod ipv4;
pub mod ipv6;
pub mod mad;
pub mod opcode;
pub mod parteth;
pub mod pause;
pub mod pcap;
pub mod pcapng;
pub mod pfc;
pub mod reth;
pub mod roce;
pub mod saeth;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod udp;
pub mod vlan;

pub use error::Error;
pub use frame::Frame;
pub use opcode::Opcode;

/// A big-endian `u16` at `range` of `bytes`, which is long enough.
fn be16(bytes: &[u8], range: core::ops::Range<usize>) -> u16 {
    u16::from_be_bytes(bytes[range].try_into().expect("the range is two bytes long"))
}

/// A big-endian `u32` at `range` of `bytes`, which is long enough.
fn be32(bytes: &[u8], range: core::ops::Range<usize>) -> u32 {
    u32::from_be_bytes(bytes[range].try_into().expect("the range is four bytes long"))
}

/// A big-endian `u64` at `range` of `bytes`, which is long enough.
fn be64(bytes: &[u8], range: core::ops::Range<usize>) -> u64 {
    u64::from_be_bytes(bytes[range].try_into().expect("the range is eight bytes long"))
}

/// The low 24 bits of the word at `range`.
fn be24(bytes: &[u8], range: core::ops::Range<usize>) -> u32 {
    be32(bytes, range) & 0x00ff_ffff
}
