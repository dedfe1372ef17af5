//! A RoCE data centre in discrete events.
//!
//! ```text
//!   workload ─► host: applications, transport engines, NIC ─► link ─► switch ─► link ─► host
//!                        ▲ the engine of the soft NIC, unchanged
//! ```
//!
//! [`Network`] is the whole of it: made from a [`topology`], the settings of [`switch::config`] and
//! [`nic`], and the flows of a [`workload`], it runs until a point in model time and is then asked
//! what happened. Time is integer picoseconds, ties break in the order of scheduling, and chance comes
//! from one seeded generator, so the same settings give the same result on every machine.
//!
//! Elements are plain structures in vectors, named by index; packets live in one pool; an event is
//! eight bytes. Nothing on the way of a packet allocates or is called through a table of functions.
//!
//! **What is deliberately absent:** cut-through switching, the memory of applications (a payload is a
//! length), and the network of the switches' CPUs (routing is computed, ARP takes no time).

#![forbid(unsafe_code)]

pub mod check;
pub mod counters;
mod deadlock;
pub mod events;
pub mod fault;
mod host;
pub mod limits;
pub mod link;
mod memory;
mod network;
pub mod nic;
pub mod packet;
mod paranoid;
mod plant;
pub mod random;
mod rate;
pub mod record;
pub mod report;
pub mod scenario;
mod speed;
pub mod switch;
pub mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod topology;
pub mod workload;

pub use deadlock::Cycle;
pub use network::{BuildError, Network, NetworkConfig, STEP, Verdict};
pub use speed::Speed;
