//! Benchmarks: verbs workloads, written as applications ([`rdma::app`]), and the worlds in which time
//! passes by itself.
//!
//! ```text
//!   applications ─► world: a thread each ─► Seat: soft NIC
//! ```
//!
//! [`world`] runs any application on soft NICs, in one process or in two that a TCP connection joins.

#![forbid(unsafe_code)]

mod error;
pub mod isolation;
pub mod limits;
mod link;
pub mod load;
mod outcome;
pub mod plan;
pub mod report;
pub mod session;
pub mod world;

pub use error::Failure;
