//! A RoCE data centre in discrete events: hosts with RDMA NICs, switches, and the links between them.
//!
//! ```text
//!   workload ─► host: applications, transport engines, NIC ─► link ─► switch ─► link ─► host
//!                        ▲ the engine of the soft NIC, unchanged
//! ```
//!
//! # A network in code
//!
//! A [`Network`] is made of a [`NetworkConfig`]: a [`topology`], the settings of its switches
//! ([`switch::config`]) and NICs ([`nic`]), and the flows of a [`workload`]. It runs until a point in
//! model time, and is then asked what happened. Here three hosts write to a fourth over one switch:
//!
//! ```
//! use fabric::topology::{End, Topology, propagation};
//! use fabric::workload::FlowSpec;
//! use fabric::{Network, NetworkConfig, Verdict};
//! use rdma::{Rate, Span, Time};
//!
//! // Four hosts on a switch, at 100 Gb/s over 2 m of cable.
//! let mut topology = Topology::default();
//! let switch = topology.add_switch("tor", 0);
//! for name in ["h0", "h1", "h2", "h3"] {
//!     let host = topology.add_host(name);
//!     let rate = Rate::from_gbps(100);
//!     topology.link(End::Host(host), End::Switch(switch), rate, propagation(2));
//! }
//!
//! // h0 to h2 each write a megabyte to h3, all at once, through a small buffer.
//! let mut config = NetworkConfig::new(topology);
//! config.flows = (0..3).map(|host| FlowSpec::write(host, 3, 1_000_000)).collect();
//! config.switch.buffer_bytes = 2_000_000;
//!
//! let mut network = Network::new(config)?;
//! let verdict = network.run(Time::ZERO + Span::from_ms(10));
//! assert_eq!(verdict, Verdict::Finished);
//!
//! // Three megabytes share a link of 100 Gb/s, so the last one cannot come before 240 us.
//! let last = network.flows().iter().filter_map(|flow| flow.finished_at).max();
//! assert!(last > Some(Time::ZERO + Span::from_us(240)));
//!
//! // Priority 3 is lossless: the switch paused the senders, and dropped nothing.
//! let to_h3 = network.port_counters(switch, End::Host(3)).expect("they are linked");
//! assert_eq!(to_h3.queue_dropped[3], 0);
//! assert_eq!(network.drops().total(), 0);
//! assert!(network.host_pauses(0).is_some_and(|pauses| pauses.received[3] > 0));
//! # Ok::<(), fabric::BuildError>(())
//! ```
//!
//! # A network from a file
//!
//! A [`scenario`] says the same in TOML, [`record`] takes samples while it runs, and [`report`] tells the
//! result as lines for a terminal, tables, or a page:
//!
//! ```
//! use fabric::Network;
//! use fabric::record::{self, Next, Samples};
//! use fabric::report::Report;
//! use fabric::scenario::Scenario;
//! use rdma::Span;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     title = "three to one"
//!     end_ms = 10
//!
//!     [topology]
//!     shape = "single-switch"
//!     hosts = 4
//!     rate_gbps = 100
//!     cable_m = 2
//!
//!     [[workload]]
//!     kind = "incast"
//!     receiver = "h3"
//!     senders = 3
//!     message_bytes = 1_000_000
//!     "#,
//!     None,
//! )?;
//! let mut network = Network::new(scenario.network)?;
//! let mut samples = Samples::new(&network, scenario.end, None);
//! let verdict = record::run(&mut network, scenario.end, Some(&mut samples), |_| {
//!     Next::Run(Span::from_us(100))
//! });
//! let report = Report::new(&scenario.title, &network, &verdict).with_samples(&samples);
//! assert!(report.summary().starts_with("three to one (simulated)\n  finished at "));
//! let table = report.samples().expect("samples were taken");
//! assert!(table.to_csv().lines().count() > 100);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | the usual shapes of networks, and those made by hand | [`topology`] |
//! | messages, their verbs and services, incast, permutation, Poisson arrivals | [`workload`] |
//! | buffers, priorities, pauses, ECN, ECMP and watchdogs of a switch | [`switch::config`], [`pfc`] |
//! | window, recovery, congestion control and the memory of a NIC; TCP beside it | [`nic`], [`tcp`] |
//! | hosts that take time, and applications on them | [`model`], [`Network::with_tenants`] |
//! | links that fail or lose packets, hosts that die, NICs that are stuck | [`fault`] |
//! | frames of a port as a pcapng file | [`capture`] |
//! | what is counted, and its names in SAI | [`counters`] |
//! | scenario files, and SONiC's `config_db.json` | [`scenario`] |
//! | settings explained before a run | [`check`] |
//! | programs outside that are hosts of it | [`Network::attach_hosts`] |
//! | a run in stretches, and samples | [`record`] |
//! | results | [`report`], [`Network`] |
//! | congestion controllers, load balancers and workloads of your own | [`extend`] |
//!
//! # What holds
//!
//! - **The same settings give the same result on every machine**, to the byte, in however many partitions
//!   and on however many threads. Time is integer picoseconds, what happens at one time has an order of
//!   its own, and chance comes from seeded generators.
//! - Elements are plain structures in vectors, named by index; packets live in pools; an event is eight
//!   bytes. Nothing on the path of a packet allocates, and nothing of a switch is called through a table of
//!   functions but a load balancer that is not ours ([`extend`]).
//! - What is too large for the bounds of `limits.rs` is refused before it is made ([`BuildError::TooMany`]).
//!
//! **What is deliberately absent:** cut-through switching, the memory of flows (a payload is a length;
//! applications have bytes), and the network of the switches' CPUs (routing is computed, ARP takes no time).

#![forbid(unsafe_code)]

mod address;
pub mod capture;
pub mod check;
pub mod compare;
pub mod counters;
mod drop_rule;
mod events;
pub mod extend;
pub mod fault;
mod host;
mod limits;
mod links;
mod memory;
mod mistake;
mod network;
pub mod nic;
mod packet;
mod paranoid;
pub mod pfc;
pub mod random;
mod rate;
pub mod record;
pub mod report;
pub mod scenario;
mod slots;
mod speed;
pub mod switch;
pub mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod topology;
pub mod workload;

pub use host::{Left, Placed, Refused, Tenant, TenantEnd, model};
pub use network::{
    BuildError, Choice, Cycle, Delivered, FlowPath, Hop, Network, NetworkConfig, STEP, Verdict,
};
pub use speed::Speed;
