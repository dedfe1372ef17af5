//! Who makes progress: the state under the engine's lock, the lock, and the threads that take it.

pub(crate) mod core;
pub(crate) mod policy;
pub(crate) mod shared;
pub(crate) mod stand_in;
pub(crate) mod thread;
