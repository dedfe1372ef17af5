//! The C ABI of `libibverbs.so.1` over the soft NIC, so that unmodified verbs programs run.
//!
//! ```text
//!   a program ── exported ibv_* ───────────┐
//!       │                                  ▼
//!       └─ inline functions ── ops ──► entry point: pointers become references, one safe call,
//!                                      errno ──► softnic::Nic ──► transport::Endpoint
//! ```
//!
//! One file per verbs object, each with the entry points of its man pages. [`abi`] holds the
//! structures, `registry` what is alive, `errno` the only place where errors become numbers.
//!
//! **Invariants:** a handle that is not alive is refused with `EINVAL` by every call but those of
//! the data path, which check for NULL and a mark only. No call waits with a lock held, except
//! for the NIC's own, which is always taken last; an event sink, which runs under that one, takes
//! only locks that nobody holds while calling the NIC. Nothing panics on what C passes in.
//!
//! **Absent:** providers. The exports of `IBVERBS_PRIVATE_34` are there so that the stock mlx5 and
//! EFA libraries load, and refuse everything ([`private`]).

#![allow(unsafe_code, reason = "this is a C ABI")]
#![allow(
    clippy::missing_safety_doc,
    reason = "an entry point asks of its caller what its man page does: pointers to what it says"
)]

pub mod abi;
pub mod ah;
pub mod asynchronous;
pub mod channel;
pub mod context;
pub mod cq;
pub mod cq_ex;
mod descriptor;
pub mod device;
pub mod dm;
pub mod ece;
mod errno;
mod event;
pub mod fork;
pub mod kernel;
mod log;
pub mod mr;
pub mod multicast;
pub mod mw;
pub mod pd;
pub mod port;
pub mod private;
pub mod qp;
mod qp_attr;
pub mod qp_ex;
pub mod rate;
pub mod rdmacm;
mod registry;
pub mod send;
mod signals;
pub mod srq;
pub mod strings;
pub mod sysfs;
pub mod xrcd;
