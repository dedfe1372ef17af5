//! Memory that requests name by keys: regions, windows, and the device's own memory.

pub mod dm;
pub mod mr;
pub mod mw;
mod piece;
