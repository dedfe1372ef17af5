//! The transport engine on real UDP sockets: a RoCEv2 NIC in a process.
//!
//! ```text
//!   application thread ──► Nic::with / poll_cq ──┐
//!                                                ├─ lock ─► Endpoint ─► outbox ─► UDP 4791
//!   fallback thread ─(sockets, timers, wakeup)───┘             ▲
//!                                                              └── packets ◄─ inbox ◄─ UDP 4791
//! ```
//!
//! A [`Nic`] owns one [`transport::Endpoint`] and what the engine has not: sockets ([`socket`](socket.rs)), a
//! clock ([`clock`]), application memory ([`ProcessMemory`]; if it is gone, [`guard`](guard/mod.rs) makes
//! an answer of the fault) and a thread ([`thread`](thread.rs)). Several
//! processes, and several `Nic`s of one process, share the UDP port of an address: [`registry`](registry.rs)
//! gives each a slot of the QPN space and tells the kernel, by a small program, which socket is
//! whose; [`handover`](handover.rs) carries the packets that it nevertheless gave to the wrong one.
//!
//! NICs of one host and user reach each other through rings of shared memory:
//! [`same_host`](same_host/mod.rs).
//!
//! Beside the engine runs the connection manager ([`transport::cm`]), behind QP1, which all processes of
//! an address share: [`management`](management.rs) brings each message to its own, and
//! [`ports`](ports.rs) says who listens where.
//!
//! **Invariants:** every packet that is not sent or not taken is counted. No lock is held while the
//! fallback thread sleeps, and the engine's not while the kernel sends (but for injected faults) or
//! receives. Nothing here spins for longer than a wake-up takes.
//!
//! **Deliberately absent:** connected sockets (a connected socket counts its IP IDs up from a
//! random start, and the ICRC covers them), raw sockets, and any daemon.
//!
//! # Environment
//!
//! | variable | meaning |
//! |---|---|
//! | `FERROCE_DEV` | devices, as `eth0,lo,lo/127.0.0.2`: see [`devices`] |
//! | `FERROCE_MTU` | RDMA MTU of the port, instead of the largest that fits |
//! | `FERROCE_LINK` | `shm` (default): NICs of this host and user by shared memory; `shm,icrc`: with ICRCs; `udp`: all by UDP |
//! | `FERROCE_WIRE` | `train` (default), or `exact`: one packet, one datagram |
//! | `FERROCE_FAULTS` | faults of what is sent: see [`faults`] |
//! | `FERROCE_RCVBUF_BYTES` | receive buffer of each socket, instead of 8 MiB (or what the kernel grants) |
//! | `FERROCE_CC` | congestion control: see [`congestion`] |
//! | `FERROCE_PCAP` | file that every packet is recorded in; `%p` stands for the process ID |
//! | `FERROCE_SYSFS` | folder with the devices as files: see [`sysfs`] |
//!
//! What a NIC counts can be read while it runs: see [`counters`].

#![allow(unsafe_code, reason = "sockets, application memory and shared files are reached here")]

mod capture;
pub mod clock;
mod closing;
pub mod congestion;
pub mod counters;
mod counts;
mod device;
mod device_memory;
mod error;
pub mod faults;
mod flow;
mod fork;
mod gid;
mod groups;
mod guard;
mod handover;
mod inbox;
mod interfaces;
pub mod limits;
mod links;
mod management;
mod memory;
mod nic;
mod options;
mod outbox;
mod parking;
mod ports;
mod progress;
mod receive;
mod registry;
mod runtime;
mod same_host;
mod shared;
mod socket;
mod stand_in;
mod steering;
mod sys;
pub mod sysfs;
#[cfg(test)]
mod testing;
mod thread;
mod train;
mod transmit;

pub use counts::Counts;
pub use device::{DeviceError, DeviceInfo, devices};
pub use error::OpenError;
pub use gid::GidEntry;
pub use groups::GroupError;
pub use interfaces::Offloads;
pub use memory::{Arrived, ProcessMemory};
pub use nic::{EventSink, Nic};
pub use options::{Link, Options};
pub use ports::PortError;
pub use stand_in::{StandIn, Waiting};
