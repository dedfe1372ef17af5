//! The C ABI of `libibverbs.so.1` over the soft NIC, so that unmodified verbs programs run.
//!
//! ```text
//!   a program ── exported ibv_* ───────────┐
//!       │                                  ▼
//!       └─ inline functions ── ops ──► entry point: pointers become references, one safe call,
//!                                      errno ──► softnic::Nic ──► transport::Endpoint
//! ```
//!
//! A file or folder for each verbs object, with the entry points of its man pages. From the ground up,
//! each knowing only what is below it:
//!
//! ```text
//!   open                              devices are opened and closed; the table of all operations
//!   fork                              what a forked child is refused
//!   asynchronous   qp
//!   srq   cq   memory                 objects of the engine
//!   pd   xrcd   ah   channel   port
//!   context                           an open device, and what it owns
//!   sink   device                     whose the engine's events are; which devices there are
//!   connections                       which id an event of the connection manager is for
//!   event   registry   request        queues with a descriptor; what is alive; requests from C
//!   errno                             the only place where errors become numbers
//!   heap                              the memory of all of them, apart from the program's
//! ```
//!
//! C's structures are a crate of their own, [`abi`]. [`rdmacm`] stands on all of them and calls what returns a `Result`, never an entry point.
//!
//! **Invariants:** a handle that is not alive is refused with `EINVAL` by every call but those of
//! the data path, which check for NULL and a mark only. No call waits with a lock held, except
//! for the NIC's own, which is always taken last; an event sink, which runs under that one, takes
//! only locks that nobody holds while calling the NIC. Nothing panics on what C passes in.
//!
//! **Absent:** providers. The exports of the `IBVERBS_PRIVATE_*` nodes are there so that the stock
//! mlx5 and EFA libraries load, and refuse everything ([`private`]); so are those for what no soft
//! NIC has ([`absent`]), and those of programs that were built before 2007 ([`oldest`]).

#![allow(unsafe_code, reason = "this is a C ABI")]
#![allow(
    clippy::missing_safety_doc,
    reason = "an entry point asks of its caller what its man page does: pointers to what it says"
)]

pub mod absent;
pub mod ah;
pub mod asynchronous;
pub mod channel;
mod connections;
pub mod context;
pub mod cq;
pub mod cq_ex;
mod descriptor;
pub mod device;
mod errno;
mod event;
pub mod fork;
mod heap;
pub mod kernel;
mod log;
pub mod memory;
pub mod oldest;
pub mod open;
pub mod pd;
pub mod port;
pub mod private;
pub mod qp;
pub mod rate;
pub mod rdmacm;
mod registry;
mod request;
mod signals;
mod sink;
pub mod srq;
pub mod strings;
mod sync;
pub mod sysfs;
pub mod xrcd;
