//! The words of RDMA, and the seams between Ferroce's rooms.
//!
//! Every other room speaks in the types of this one, and none of them does anything by itself: no
//! packet is parsed here and no queue pair lives here.
//!
//! # A guided tour
//!
//! - [`work`] is what an application asks for: requests to send and to receive, and their flags.
//! - [`completion`] is what it is told afterwards.
//! - [`memory`] is the trait by which the engine touches bytes that are not its own, and [`qp`] has the
//!   states and rights of queue pairs.
//! - [`app`] is how an application and the world that it runs in see each other.
//! - [`Setting`] is a number that an extension of the engine or of the simulator can be set to.
//! - [`psn`], [`id`], [`gid`], [`mtu`], [`rate`] and [`time`] are numbers with types, so that a queue
//!   pair's number cannot stand where a sequence number is meant.
//!
//! # Example
//!
//! ```
//! use rdma::{Key, Mtu, Operation, Psn, SendFlags, Sge, WorkRequest};
//!
//! // 10,000 bytes of a registered region, sent in packets of 4,096 bytes.
//! let sges = [Sge { address: 0x1000, length: 10_000, l_key: Key(7) }];
//! let send = WorkRequest {
//!     id: 1,
//!     operation: Operation::Send { immediate: None, address: None },
//!     flags: SendFlags::SIGNALED | SendFlags::SOLICITED,
//!     sges: &sges,
//!     inline: None,
//! };
//! assert!(send.flags.contains(SendFlags::SIGNALED));
//! let packets = Mtu::B4096.packets(sges[0].length);
//! assert_eq!(packets, 3);
//!
//! // Sequence numbers are 24 bits wide and go round.
//! let first = Psn::new(0xff_ffff);
//! let next = first.plus(packets);
//! assert_eq!(next, Psn::new(2));
//! assert!(first.is_before(next));
//! ```
//!
//! **Invariant:** no dependency, no allocation, no I/O, no `unsafe`.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod app;
pub mod completion;
mod counters;
pub mod gid;
pub mod id;
pub mod memory;
pub mod mtu;
pub mod psn;
pub mod qp;
pub mod rate;
mod setting;
mod spelling;
pub mod time;
pub mod work;

pub use completion::{Completion, CompletionOpcode, CompletionStatus};
pub use gid::Gid;
pub use id::{Key, PKey, QKey, Qpn};
pub use memory::{Memory, MemoryFault};
pub use mtu::Mtu;
pub use psn::Psn;
pub use qp::{Access, QpState, QpType};
pub use rate::Rate;
pub use setting::{SETTINGS_MAX, Setting, Values};
pub use spelling::nearest;
pub use time::{Span, Time};
pub use work::{Operation, RecvRequest, SendFlags, Sge, UdAddress, WorkRequest};
