//! RDMA Pingmesh (guo16, 5.3; six timestamps as in R-Pingmesh, SIGCOMM 2024): probes between hosts, and what is sick by
//! what they say.
//!
//! ```text
//!   topology ─► Map: racks, podsets ─► pinglist: whom each host probes, how often, with which flow labels
//!                                            │
//!   Prober (an rdma::app::App) ◄─────────────┘ on simulated hosts, soft NICs, RDMA devices
//!        │ a Window every 30 s: counts by error code, histograms
//!        ▼
//!   verdict: windows + paths + counters of ports and hosts ─► host, NIC, link, switch, or nothing; and why
//! ```
//!
//! | | |
//! |---|---|
//! | [`scope`] | which hosts are of a rack, a podset, a data centre; how many flow labels cover the paths |
//! | [`pinglist`] | whom a host probes, within a bound on its rate |
//! | `message` | what probes and answers say |
//! | [`probe`] | the application that sends and answers them |
//! | [`raw`] | single probes: which ones a window remembers, and what became of them |
//! | [`window`] | what a host has seen in a window of time |
//! | [`node`] | a host or a switch |
//! | [`configured`] | what doctor finds, as a verdict has it |
//! | [`counted`] | what NICs and ports have counted |
//! | [`evidence`] | what a verdict may look at: windows, paths, counters |
//! | [`verdict`] | what is sick |
//! | [`simulation`] | probes on the hosts of a simulated network |
//! | [`exchange`] | what agents and their collector say to each other, and how they know each other |
//! | [`admission`] | which windows a collector believes |
//! | [`store`] | the collector's file |
//! | [`collector`] | who is there, whom they probe, what is sick, and since when |
//! | [`roll`] | who is there, two agents of one name, and silence |
//! | [`layout`] | a topology as text |
//! | [`json`] | all of it for programs |
//! | [`page`] | all of it on one page |
//! | [`summary`] | what all hosts have seen, added up |
//! | [`trial`] | faults that are injected there, and how often the verdict is right |
//!
//! # What holds
//!
//! - Nothing here opens a socket, starts a thread or asks for the time.
//! - A verdict is a function of what probes and counters say, and of the topology. What was injected into a
//!   simulation is known to [`trial`] alone.

pub mod admission;
pub mod collector;
pub mod configured;
pub mod counted;
pub mod evidence;
pub mod exchange;
pub mod json;
pub mod layout;
pub mod limits;
mod message;
pub mod node;
pub mod page;
pub mod pinglist;
pub mod probe;
pub mod raw;
pub mod roll;
pub mod scope;
pub mod simulation;
pub mod store;
pub mod summary;
pub mod trial;
pub mod verdict;
pub mod window;
