//! Benchmarks: verbs workloads, written as applications ([`rdma::app`]), and the worlds that they run in.
//!
//! ```text
//!   applications ─┬─► world: a thread each ─► Seat: soft NIC
//!                 └─► world::sim: tasks on the cores of simulated hosts
//! ```
//!
//! [`world`] runs any application on soft NICs, in one process or in two that a TCP connection joins, and on
//! simulated hosts of a testbed. [`tcp`] is what they are held against.

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
pub mod simulation;
pub mod tcp;
pub mod world;

pub use error::Failure;
