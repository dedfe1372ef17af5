//! Whatever `libibverbs.so.1` the system has: loaded at run time, so that neither a header nor a library
//! is needed to build, and called as a verbs program calls it.
//!
//! ```text
//!   Library ─► Context ─► Pd ─► Region            dlopen; a device; memory
//!                 │        └──► QueuePair          posts, by the context's own operations
//!                 └─► CompletionChannel ─► CompletionQueue
//! ```
//!
//! Each object keeps what it was made of: objects go in the order in which the man pages want them
//! destroyed, whatever the order in which their owners let go of them.
//!
//! **Invariant:** safe code cannot make the library or the device touch memory that is not there. Memory
//! is registered as shared atomic words that the region keeps, requests are checked by the device against
//! its regions, and what is posted inline is copied before the call returns.
//!
//! # Example
//!
//! ```no_run
//! let library = verbs::Library::load(None)?;
//! for name in library.devices()? {
//!     let context = library.open(&name)?;
//!     println!("{name}: {:?} of payload a packet", context.port()?.active_mtu);
//! }
//! # Ok::<(), verbs::Error>(())
//! ```

#![allow(unsafe_code, reason = "the functions of a C library are called")]

mod calls;
mod context;
mod error;
mod queue_pair;
mod queues;
mod region;

pub use context::{Context, GidEntry, Library, Port};
pub use error::Error;
pub use queue_pair::{Connection, QueuePair, QueuePairSpec};
pub use queues::{CompletionChannel, CompletionQueue};
pub use region::{Pd, Region};
