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
//! # A tour
//!
//! - [`Endpoint`] is a NIC port. It owns protection domains, regions, completion queues, shared
//!   receive queues and queue pairs; applications name them by handles ([`PdId`], [`CqId`],
//!   [`rdma::Qpn`]) and post work requests to them ([`Endpoint::post_send`]).
//! - Its driver passes in packets, the time and application memory (a [`rdma::Memory`]). Five verbs
//!   are enough: [`Endpoint::handle`] for what arrives, [`Endpoint::poll_transmit`] for what leaves,
//!   [`Endpoint::poll_timeout`] and [`Endpoint::handle_timeout`] for deadlines, and
//!   [`Endpoint::poll_event`] for what happened beside completions.
//! - What leaves is a [`Run`] of packets. It borrows the engine until the driver says what became of
//!   it, so nothing can be called in the wrong order.
//! - Four verbs more are for drivers of paths that pause and do not drop, and for the end of a driver:
//!   [`Endpoint::poll_transmit_but`], [`Endpoint::resume`], [`Endpoint::handle_timeout_but`] and
//!   [`Endpoint::release_acknowledgements`].
//! - A driver that saves work may ask questions: whether a call would find anything
//!   ([`Endpoint::is_idle`], [`Endpoint::earliest_timeout`], [`Endpoint::is_loss_due`]), what waits
//!   ([`Endpoint::pressure`]), why nothing leaves ([`Endpoint::blocked`]), what was counted
//!   ([`Endpoint::stats`]).
//! - [`Config`] is what a device decides once: MTU, windows, [`Recovery`] after a loss, [`Congestion`]
//!   control. Every bound has a name in [`limits`].
//! - [`cm`] is another state machine beside the endpoint: how two queue pairs learn of each other.
//! - `testing` (a feature) joins two engines by a pretended network, and holds the storm.
//!
//! # Two engines, joined by hand
//!
//! One WRITE goes from the memory of one engine to that of the other.
//!
//! ```
//! use rdma::{Access, Gid, Mtu, Operation, QpType, SendFlags, Sge, Time, WorkRequest};
//! use transport::{
//!     AddressVector, Arrival, BringUp, Config, CqId, Endpoint, QpCapacity, QpSpec, RegionSpec,
//!     Segment,
//! };
//! # use rdma::{CompletionStatus, Key, Memory, MemoryFault, Qpn};
//! #
//! # /// Memory whose addresses are indices.
//! # struct Ram(Vec<u8>);
//! #
//! # impl Ram {
//! #     fn at(&mut self, address: u64, length: usize) -> Result<&mut [u8], MemoryFault> {
//! #         self.0.get_mut(address as usize..).and_then(|m| m.get_mut(..length)).ok_or(MemoryFault)
//! #     }
//! # }
//! #
//! # impl Memory for Ram {
//! #     type Payload<'a> = &'a [u8];
//! #     fn keep(payload: &[u8], length: usize, mut put: impl FnMut(&[u8])) {
//! #         put(&payload[..length]);
//! #     }
//! #     fn recall(kept: &[u8]) -> &[u8] {
//! #         kept
//! #     }
//! #     fn write(&mut self, to: u64, payload: &[u8], from: usize, length: usize)
//! #         -> Result<(), MemoryFault>
//! #     {
//! #         self.at(to, length)?.copy_from_slice(&payload[from..from + length]);
//! #         Ok(())
//! #     }
//! #     fn store(&mut self, to: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
//! #         self.at(to, bytes.len())?.copy_from_slice(bytes);
//! #         Ok(())
//! #     }
//! #     fn load(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), MemoryFault> {
//! #         bytes.copy_from_slice(self.at(from, bytes.len())?);
//! #         Ok(())
//! #     }
//! #     fn fetch_update(&mut self, at: u64, update: impl Fn(u64) -> u64)
//! #         -> Result<u64, MemoryFault>
//! #     {
//! #         let word = self.at(at, 8)?;
//! #         let before = u64::from_ne_bytes(word.try_into().map_err(|_| MemoryFault)?);
//! #         word.copy_from_slice(&update(before).to_ne_bytes());
//! #         Ok(before)
//! #     }
//! # }
//!
//! struct Host {
//!     endpoint: Endpoint,
//!     memory: Ram, // a `Memory`: here a vector
//!     gid: Gid,
//!     cq: CqId,
//!     qpn: Qpn,
//!     key: Key,
//! }
//!
//! fn host(number: u8) -> Result<Host, Box<dyn std::error::Error>> {
//!     let mut endpoint = Endpoint::new(Config::default());
//!     let pd = endpoint.alloc_pd()?;
//!     let cq = endpoint.create_cq(16)?;
//!     let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
//!     let key = endpoint.register(pd, RegionSpec { address: 0, length: 4096, iova: 0, access })?;
//!     let capacity = QpCapacity { send_wr: 8, recv_wr: 8, send_sge: 1, recv_sge: 1, inline: 0 };
//!     let (kind, signal_all) = (QpType::Rc, false);
//!     let qpn = endpoint.create_qp(QpSpec {
//!         kind, pd, send_cq: cq, recv_cq: cq, srq: None, capacity, signal_all,
//!     })?;
//!     let gid = Gid::from(std::net::Ipv4Addr::new(10, 0, 0, number));
//!     Ok(Host { endpoint, memory: Ram(vec![0; 4096]), gid, cq, qpn, key })
//! }
//!
//! fn connect(host: &mut Host, peer: &Host) -> Result<(), Box<dyn std::error::Error>> {
//!     let path = AddressVector { gid: peer.gid, source_gid: host.gid, ..Default::default() };
//!     let up = BringUp { access: Access::REMOTE_WRITE, ..BringUp::new(path, Mtu::B1024, peer.qpn) };
//!     Ok(host.endpoint.bring_up(host.qpn, &up)?)
//! }
//!
//! /// Takes what `from` has to send, and hands it to `to`. A socket would stand between them.
//! fn carry(now: Time, from: &mut Host, to: &mut Host) {
//!     while let Some(run) = from.endpoint.poll_transmit(now, 1) {
//!         let (header, route) = (*run.header(), *run.route());
//!         let mut payload = Vec::new();
//!         for segment in run.payload().segments() {
//!             match segment {
//!                 Segment::Bytes(bytes) => payload.extend_from_slice(bytes),
//!                 Segment::Memory { address, length } => {
//!                     let start = payload.len();
//!                     payload.resize(start + length as usize, 0);
//!                     from.memory.load(address, &mut payload[start..]).expect("it is mapped");
//!                 }
//!             }
//!         }
//!         run.sent();
//!         let arrival = Arrival {
//!             source: route.source,
//!             destination: route.destination,
//!             traffic_class: route.traffic_class,
//!             hop_limit: route.hop_limit,
//!         };
//!         let length = payload.len();
//!         let handled =
//!             to.endpoint.handle(now, &arrival, &header, &payload[..], length, &mut to.memory);
//!         assert_eq!(handled, Ok(()));
//!     }
//! }
//!
//! let (mut a, mut b) = (host(1)?, host(2)?);
//! connect(&mut a, &b)?;
//! connect(&mut b, &a)?;
//! a.memory.0[..5].copy_from_slice(b"hello");
//!
//! let now = Time::from_ns(1);
//! let write = Operation::Write { remote_address: 64, r_key: b.key, immediate: None };
//! let sges = &[Sge { address: 0, length: 5, l_key: a.key }];
//! let flags = SendFlags::SIGNALED;
//! let request = WorkRequest { id: 7, operation: write, flags, sges, inline: None };
//! a.endpoint.post_send(now, a.qpn, &request)?;
//! carry(now, &mut a, &mut b); // the WRITE
//! carry(now, &mut b, &mut a); // its acknowledgement
//!
//! assert_eq!(&b.memory.0[64..69], b"hello");
//! let completion = a.endpoint.poll_cq(a.cq).expect("the WRITE is acknowledged");
//! assert_eq!((completion.id, completion.status), (7, CompletionStatus::Success));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! No socket, clock, thread, random number or application memory in here. No packet and no call can
//! make it panic. Nothing a peer sends makes it hold more than [`limits`] allows.
//!
//! `now` need not grow from call to call. Where it goes back by a span, what waits for its time waits for
//! that much longer, as if the driver had stood still; nothing else changes.
//!
//! Files follow the roles of IBTA vol 1, chapter 9: [`requester`](requester/mod.rs),
//! [`completer`](completer.rs), [`responder`](responder.rs).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "testing"))]
extern crate std;

mod adapter;
mod arrival;
pub mod attributes;
mod blocked;
mod bring_up;
mod bursts;
pub mod cm;
mod completer;
mod config;
pub mod congestion;
mod cq;
mod datagram;
mod endpoint;
mod error;
mod event;
pub mod failure;
mod handles;
pub mod limits;
mod mask;
mod mutation;
mod of_late;
mod pressure;
mod qp;
mod recovery;
mod recv;
mod region;
mod requester;
mod responder;
mod secret;
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

pub use arrival::Arrival;
pub use attributes::{AddressVector, QpAttributes, QpCapacity, QpChange, QpQuery, QpSpec};
pub use blocked::Blocked;
pub use bring_up::BringUp;
pub use config::{BetweenHosts, Config};
pub use congestion::Congestion;
pub use cq::Notify;
pub use endpoint::{Control, Endpoint, Run};
pub use error::{CreateError, DestroyError, ModifyError, PostError, RegisterError};
pub use event::Event;
pub use failure::Failure;
pub use handles::{CqId, PdId, SrqId, XrcdId};
pub use mask::Mask;
pub use pressure::{Flight, Pressure};
pub use qp::source_port;
pub use recovery::{OutOfOrder, Recovery};
pub use region::{RegionSpec, WindowKind};
pub use srq::SrqAttributes;
pub use stats::{Drop, Stats};
pub use transmit::{Payload, Route, Segment};
