//! Rsockets: sockets of the C library's kind over connections of RDMA, and the protocol that
//! rdma-core's rsockets speak, so that the peer may be one of these.
//!
//! ```text
//!   rsend@RDMACM_1.0 (librdmacm.so.1) ─► ferroce_rsend (here) ─► Socket ─► Stream ─► softnic::Nic
//!
//!   transfer   closing   direct   poll        entry points
//!   making     options
//!   socket                                    what a number stands for; waiting
//!   waiting    stream    maps                 a connection: queue pair, memory
//!   sending    receiving settings             its accounts, without a device
//!   greeting   message   buffer   pieces      what both sides tell each other; bytes
//! ```
//!
//! Data is written into a buffer of the peer (RDMA WRITE), with four bytes that say how much. Each
//! side tells the other where it may write, by writing into a short list of the other side, and how
//! many messages it may send, as each uses up a receive request. While they connect, both say where
//! that list is, and where the first half of their buffer.
//!
//! **Invariants:** what a peer says is held against what it was allowed to do (`receiving`), and
//! what it writes into our memory is read, never followed: addresses there are its own.
//!
//! **Absent:** datagrams (`SOCK_DGRAM` is `EOPNOTSUPP`), `AF_IB`, ancillary data, out-of-band data,
//! keep-alive messages while no thread waits, `SO_LINGER` other than that `rclose` waits until all is
//! acknowledged, epoll sets of rsockets (`repoll_ctl` refuses them).

mod buffer;
pub mod closing;
pub mod direct;
mod greeting;
pub mod making;
mod maps;
mod message;
pub mod names;
pub mod options;
mod pieces;
pub mod poll;
mod receiving;
pub mod repoll;
pub mod select;
mod sending;
mod settings;
mod socket;
mod stream;
pub mod transfer;
mod waiting;
