//! Operating an RDMA cluster: whether its configuration is the desired one, what its counters say, and which host or
//! link is sick.
//!
//! ```text
//!   files of switches and hosts ─► doctor   ─► findings, each with its rule, cause and remedy
//!   samples of counters         ─► watch    ─► storms, slow receivers, loss in a lossless class
//!   probes between hosts        ─► pingmesh ─► a verdict: host, NIC, link, switch, or nothing
//! ```
//!
//! # What holds
//!
//! - Nothing here opens a socket, starts a thread or asks for the time: they are arguments, so the same rules judge a
//!   simulation, soft NICs and a real cluster.

#![forbid(unsafe_code)]

pub mod doctor;
mod limits;
pub mod pingmesh;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
mod thresholds;
mod tiers;
pub mod times;
pub mod watch;
