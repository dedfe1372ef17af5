//! Memory that requests name by keys: regions, windows, buffers of the library and the device's own memory.

pub mod buf;
pub mod dm;
pub mod mr;
pub mod mw;
mod piece;
