//! The C ABI of `librdmacm.so.1`: connections by IP address and port.
//!
//! ```text
//!   rdma_accept@RDMACM_1.0 (librdmacm.so.1) ─► ferroce_rdma_accept@FERROCE_PRIVATE_1 (here)
//!
//!   rdma_connect ─► Manager (transport::cm), under the NIC's lock
//!                      │ events
//!                      ▼
//!   Sink ─► Connections ─► Mailbox of the id ─► queue of its channel ─► rdma_get_cm_event
//! ```
//!
//! From the ground up: `connections` (which id an event is for, outside), `channel`, `devices`, `id` (what an id knows),
//! `states` (of its queue pair), `membership` (in multicast groups), `told` (fetched events), `create`,
//! `deliver` (what a message becomes), `fetch`; on these, a file for each group of calls; on all of them, [`rsocket`].
//!
//! `librdmacm.so.1` holds nothing but its names, each of them a jump into `libibverbs.so.1`, so that
//! both libraries are one engine, one registry and one set of devices.
//!
//! Like the original, the library changes the state of an id's queue pair itself: to INIT when it is made,
//! to RTR and RTS when the peer's side is known, to ERROR at the end. An event is turned into what C
//! reads, ids for new connections included, in the thread that fetches it.
//!
//! **Invariants:** the lock of an id is never held while an event is waited for. `Connections` is
//! locked under the NIC's lock and locks nothing but mailboxes and queues.
//!
//! **Absent:** `rdma_resolve_addrinfo`, `AF_IB` addresses, IB ACM.

#![allow(non_camel_case_types, reason = "the names are those of the C header")]

pub mod abi;
mod addresses;
pub mod bind;
pub mod channel;
pub mod connect;
mod conversation;
pub mod create;
mod deliver;
mod devices;
pub mod endpoint;
pub mod fetch;
mod id;
pub mod info;
mod membership;
pub mod multicast;
pub mod options;
pub mod queue_pair;
pub mod resolve;
pub mod rsocket;
mod states;
pub mod told;
