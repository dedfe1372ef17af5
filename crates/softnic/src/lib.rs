//! The transport engine on real UDP sockets: a RoCEv2 NIC in a process.
//!
//! ```text
//!   application thread ──► Nic::with / poll_cq ──┐
//!                                                ├─ lock ─► Endpoint ─► outbox ─► UDP 4791
//!   progress thread ─(sockets, timers, wakeup)───┘             ▲
//!                                                              └── packets ◄─ inbox ◄─ UDP 4791
//! ```
//!
//! A [`Nic`] owns one [`transport::Endpoint`] and what the engine has not: sockets ([`socket`](udp/socket.rs)), a
//! clock ([`clock`]), application memory ([`ProcessMemory`]; if it is gone, [`guard`](memory/guard/mod.rs) makes
//! an answer of the fault) and a thread ([`thread`](progress/thread.rs)). Several
//! processes, and several `Nic`s of one process, share the UDP port of an address: [`registry`](host/registry.rs)
//! gives each a slot of the QPN space and tells the kernel, by a small program, which socket is
//! whose; [`handover`](host/handover.rs) carries the packets that it nevertheless gave to the wrong one.
//!
//! NICs of one host and user reach each other through rings of shared memory:
//! [`shm`](shm/mod.rs).
//!
//! Beside the engine runs the connection manager ([`transport::cm`]), behind QP1, which all processes of
//! an address share: [`management`](management/mod.rs) brings each message to its own, and
//! [`ports`](host/ports.rs) says who listens where.
//!
//! **Invariants:** every packet that is not sent or not taken is counted. No lock is held while the
//! progress thread sleeps, and the engine's not while the kernel sends (but for injected faults) or
//! receives. Nothing here spins for longer than a wake-up takes.
//!
//! **Deliberately absent:** connected sockets (a connected socket counts its IP IDs up from a
//! random start, and the ICRC covers them), raw sockets, and any daemon.
//!
//! # A tour
//!
//! [`devices`] lists what can be opened; [`DeviceInfo::find`] finds one by its interface and address.
//! [`Nic::open`] opens it as the environment says, [`Nic::open_with`] as [`Options`] say. Everything else
//! is the engine's: [`Nic::with`] lends it, together with the memory and the time that its calls take, and
//! sends afterwards what the call has made ready. [`Nic::post`] does the same for send requests, and lets
//! small ones wait for each other. [`Nic::poll_cq`] takes completions, and receives if there are none.
//! [`Nic::start`] starts the thread that answers while nobody calls; who waits for an event instead of
//! polling sleeps in [`StandIn::until`]. What the engine wants to say goes to the [`EventSink`].
//!
//! Two NICs of this process, and one RDMA WRITE from one to the other:
//!
//! ```
//! use core::sync::atomic::{AtomicU8, Ordering};
//!
//! use rdma::{Access, Completion, CompletionStatus, Operation, QpType, SendFlags, Sge, WorkRequest};
//! use softnic::{DeviceInfo, EventSink, Nic};
//! use transport::{AddressVector, BringUp, Event, QpCapacity, QpSpec, RegionSpec};
//!
//! struct Ignored;
//!
//! impl EventSink for Ignored {
//!     fn event(&self, _: Event) {}
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Memory that a peer writes to while it is ours, too: atomics allow for that.
//! let greeting: Vec<AtomicU8> = b"one sided".iter().map(|byte| AtomicU8::new(*byte)).collect();
//! let mailbox: Vec<AtomicU8> = greeting.iter().map(|_| AtomicU8::new(0)).collect();
//!
//! // Each end opens a NIC with an address of its own, registers its memory, and makes a queue pair.
//! let end = |device: &str, bytes: &[AtomicU8], access| -> Result<_, Box<dyn std::error::Error>> {
//!     let nic = Nic::open(&DeviceInfo::find(device, 0)?, Box::new(Ignored))?;
//!     let address = bytes.as_ptr().expose_provenance() as u64;
//!     let region = RegionSpec { address, length: bytes.len() as u64, iova: address, access };
//!     let capacity = QpCapacity { send_wr: 1, recv_wr: 1, send_sge: 1, recv_sge: 1, inline: 0 };
//!     let (cq, key, qpn) = nic.with(|engine, _, _| {
//!         let pd = engine.alloc_pd().expect("a protection domain");
//!         let cq = engine.create_cq(16).expect("a completion queue");
//!         let key = engine.register(pd, region).expect("a region");
//!         let (kind, send_cq, recv_cq) = (QpType::Rc, cq, cq);
//!         let spec = QpSpec { kind, pd, send_cq, recv_cq, srq: None, capacity, signal_all: true };
//!         (cq, key, engine.create_qp(spec).expect("a queue pair"))
//!     });
//!     let gid = nic.device().gids.last().expect("an address").gid;
//!     Ok((nic, gid, cq, key, qpn, address))
//! };
//! let (near, near_gid, cq, l_key, near_qpn, address) =
//!     end("lo/127.0.77.1", &greeting, Access::LOCAL_WRITE)?;
//! let (far, far_gid, _, r_key, far_qpn, remote_address) =
//!     end("lo/127.0.77.2", &mailbox, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//!
//! // Programs exchange GIDs and queue pair numbers by other means; here both ends are at hand.
//! for (nic, source_gid, qpn, gid, peer) in
//!     [(&near, near_gid, near_qpn, far_gid, far_qpn), (&far, far_gid, far_qpn, near_gid, near_qpn)]
//! {
//!     let route = AddressVector { gid, source_gid, source_gid_index: 1, ..AddressVector::default() };
//!     let with = BringUp::new(route, nic.device().active_mtu, peer);
//!     nic.with(|engine, _, _| engine.bring_up(qpn, &with)).expect("ready to send");
//!     nic.start();
//! }
//!
//! let request = WorkRequest {
//!     id: 7,
//!     operation: Operation::Write { remote_address, r_key, immediate: None },
//!     flags: SendFlags::SIGNALED,
//!     sges: &[Sge { address, length: greeting.len() as u32, l_key }],
//!     inline: None,
//! };
//! near.post(near_qpn, |engine, _, now| engine.post_send(now, near_qpn, &request)).expect("room");
//!
//! let mut completions = [Completion::NOTHING; 1];
//! while near.poll_cq(cq, &mut completions) == 0 {}
//! assert_eq!((completions[0].id, completions[0].status), (7, CompletionStatus::Success));
//! let arrived: Vec<u8> = mailbox.iter().map(|byte| byte.load(Ordering::Acquire)).collect();
//! assert_eq!(arrived, b"one sided");
//! # Ok(())
//! # }
//! ```
//!
//! Applications that should also run in the simulator, or over an RDMA NIC, are written against
//! [`rdma::app`] instead.
//!
//! # Environment
//!
//! | variable | meaning |
//! |---|---|
//! | `FERROCE_DEV` | devices, as `eth0,lo,lo/127.0.0.2`: see [`devices`] |
//! | `FERROCE_MTU` | RDMA MTU of the port, instead of the largest that fits |
//! | `FERROCE_LAB`, `FERROCE_LAB_HOST` | the socket of a lab and the host of it that we are: see [`lab`] |
//! | `FERROCE_LINK` | `shm` (default): NICs of this host and user by shared memory; `shm,icrc`: with ICRCs; `udp`: all by UDP |
//! | `FERROCE_WIRE` | `train` (default), or `exact`: one packet, one datagram |
//! | `FERROCE_FAULTS` | faults of what is sent: see [`faults`] |
//! | `FERROCE_RCVBUF_BYTES` | receive buffer of each socket, instead of 8 MiB (or what the kernel grants) |
//! | `FERROCE_CC` | congestion control: see [`congestion`] |
//! | `FERROCE_RECOVERY` | what is sent again after a loss: `go-back-n`, `go-back-0` or `selective-repeat`; by default the last between soft NICs of two hosts, and the first otherwise |
//! | `FERROCE_SOURCE_PORTS` | UDP source ports of packets to other hosts: `flow` (each flow its own), or `4791` |
//! | `FERROCE_PCAP` | file that every packet is recorded in, with bounds: see [`CaptureSpec`] |
//! | `FERROCE_STATS` | folder that keeps what a run came to: see [`journal`] |
//! | `FERROCE_SYSFS` | folder with the devices as files: see [`sysfs`] |
//!
//! What a NIC counts can be read while it runs: see [`counters`].

#![allow(unsafe_code, reason = "sockets, application memory and shared files are reached here")]

mod attachment;
mod capture;
pub mod clock;
pub mod congestion;
mod counts;
mod device;
mod engine;
mod error;
pub mod faults;
mod fork;
mod host;
pub mod journal;
pub mod lab;
pub mod limits;
mod management;
mod memory;
mod narrow;
mod nic;
mod options;
mod packet;
mod path;
mod progress;
mod shm;
mod sys;
pub mod sysfs;
#[cfg(test)]
mod testing;
mod udp;
pub mod variables;

pub use capture::CaptureSpec;
pub use counts::Counts;
pub use device::{DeviceInfo, devices};
pub use engine::EventSink;
pub use error::{OpenError, SettingError};
pub use host::counters;
pub use host::gid::GidEntry;
pub use host::interfaces::Offloads;
pub use host::ports::{PortChange, PortError};
pub use memory::{Arrived, ProcessMemory};
pub use narrow::NarrowPath;
pub use nic::{GroupError, Nic};
pub use options::{Options, PathChoice, SourcePorts};
pub use progress::stand_in::{StandIn, Waiting};
