//! The path by UDP: sockets, and what goes to and from them.

pub(crate) mod departures;
pub(crate) mod groups;
pub(crate) mod gso;
pub(crate) mod inbox;
pub(crate) mod outbox;
pub(crate) mod port;
pub(crate) mod socket;
