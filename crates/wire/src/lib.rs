//! RoCEv2 packets, byte for byte.
//!
//! ```text
//!   Ethernet │ 802.1Q │ IPv4 or IPv6 │ UDP 4791 │ BTH │ extended headers │ payload │ pad │ ICRC
//!                                               └──────── roce::Repr ────┘
//! ```
//!
//! One header, one file, all of the same shape: byte ranges in `mod field`, a checked `Packet` view
//! with a getter per field in wire order, a `Repr` with `parse` and `emit`. [`opcode`] holds what
//! is true of each BTH opcode, once; [`roce`] joins BTH and extended headers; [`icrc`] is the check
//! over all of them. [`cm`] has the messages that connections are made by, which are payload.
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
