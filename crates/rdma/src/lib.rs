//! The words of RDMA, and the seams between Ferroce's rooms.
//!
//! Every other room speaks in the types of this one, and none of them does anything by itself: no
//! packet is parsed here and no queue pair lives here. Start at [`work`] (what an application asks
//! for), [`completion`] (what it is told) and [`memory`] (how the engine touches bytes that are not
//! its own).
//!
//! **Invariant:** no dependency, no allocation, no I/O, no `unsafe`.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod completion;
pub mod gid;
pub mod id;
pub mod memory;
pub mod mtu;
pub mod psn;
pub mod qp;
pub mod rate;
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
pub use time::{Span, Time};
pub use work::{Operation, RecvRequest, SendFlags, Sge, UdAddress, WorkRequest};
