//! Unmodified programs as hosts of a modelled fabric, in real time.
//!
//! ```text
//!   program (softnic) ═ rings ═ NIC ─┐                           ┌─ NIC ═ rings ═ program (softnic)
//!   program (softnic) ═ rings ═ NIC ─┴─ fabric's switches, links ┴─ NIC ─ simulated host
//!                                                 ▲
//!                                    the wall's clock, divided by a factor
//! ```
//!
//! A [`Lab`] is one process. It owns a network of `fabric`, made from a scenario file, and lets it live up to the
//! present (`clock.rs`). What programs send enters the NIC of their host, crosses the network as any packet of
//! the simulator does, with all its bytes, and ends in the ring of the program that has the destination's slot
//! (`programs.rs`). A host whose program takes nothing pauses its switch. People and programs speak to it through one
//! socket (`requests.rs`); [`client`] is their end. What they see of it is copied by the lab and written out by
//! others: frames (`captures.rs`), counters (`seen.rs`, `metrics.rs`), and samples for the report at the end.
//!
//! # What holds
//!
//! - **A lab believes nothing that a program can write.** A ring that breaks the rules costs that program its place.
//! - **No late frame is passed off as the fabric's behaviour.** Where the lab cannot keep up, its clock slips, and
//!   it says when and by how much.
//! - Nothing is left of a lab that ends; what is left of one that was killed goes with the next.
//!
//! **What is deliberately absent:** multicast, IPv6, VLANs at programs, and hosts with a model ([`fabric::model`]).

#![forbid(unsafe_code)]

mod again;
mod busy_poll;
mod captures;
pub mod client;
mod clock;
pub mod experiment;
mod factor;
mod journal;
mod limits;
mod metrics;
mod processors;
mod programs;
mod refusal;
mod requests;
mod scribe;
mod seen;
mod server;
mod snapshot;
mod state;
mod status;

pub use journal::Entry;
pub use metrics::metrics;
pub use seen::{ProgramSeen, Seen};
pub use server::{Lab, LabError, Settings};
pub use snapshot::Snapshot;
