//! What NICs of one host share: slots, sockets' groups, room, ports, and counters that others read.

pub mod counters;
pub(crate) mod credits;
pub(crate) mod device_files;
pub(crate) mod gid;
pub(crate) mod handover;
pub(crate) mod interfaces;
pub(crate) mod leftovers;
pub(crate) mod mailbox;
pub(crate) mod ports;
pub(crate) mod registry;
pub(crate) mod run_folder;
pub(crate) mod runtime;
pub(crate) mod steering;
