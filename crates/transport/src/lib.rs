//! The RDMA transport engine: queue pairs and all that hangs on them, as one state machine.
//!
//! ```text
//!   post_send ─► requester ─► poll_transmit ─► (a socket, a simulated link, a test)
//!                   ▲                                       │
//!              completer ◄── responses ──┐                  ▼
//!                   │                    ├──────────────► handle
//!   poll_cq ◄─ completions ◄─ responder ─┘ requests
//! ```
//!
//! [`Endpoint`] is the whole of it: the NIC port that owns protection domains, regions, completion
//! queues, shared receive queues and queue pairs. Its driver passes in packets
//! ([`Endpoint::handle`]), time (`now`, in every call that needs it) and application memory (a
//! [`rdma::Memory`]), and takes out packets, deadlines and events.
//!
//! **Invariants:** no socket, clock, thread, random number or application memory in here. No packet
//! and no call can make it panic. Nothing a peer sends makes it hold more than [`limits`] allows.
//!
//! How two queue pairs learn of each other is another state machine, beside the endpoint: [`cm`].
//!
//! Files follow the roles of IBTA vol 1, chapter 9: [`requester`](requester/mod.rs),
//! [`completer`](completer.rs), [`responder`](responder.rs).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "testing"))]
extern crate std;

mod adapter;
pub mod attributes;
mod bring_up;
pub mod cm;
mod completer;
mod config;
pub mod congestion;
mod cq;
mod datagram;
mod endpoint;
mod error;
mod event;
pub mod limits;
mod mutation;
mod qp;
mod recovery;
mod recv;
mod region;
mod requester;
mod responder;
mod slab;
mod srq;
mod state;
mod stats;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod timer;
mod transmit;

pub use attributes::{AddressVector, QpAttributes, QpChange, QpQuery};
pub use bring_up::BringUp;
pub use config::Config;
pub use congestion::Congestion;
pub use cq::{CqId, Notify};
pub use endpoint::{Arrival, Endpoint, PdId, XrcdId};
pub use error::{CreateError, DestroyError, ModifyError, PostError, RegisterError};
pub use event::Event;
pub use qp::{QpCapacity, QpSpec, source_port};
pub use recovery::Recovery;
pub use region::{RegionSpec, WindowKind};
pub use requester::Backlog;
pub use srq::{SrqAttributes, SrqId};
pub use stats::{Drop, Stats};
pub use transmit::{Payload, Route, Segment, Transmit};
