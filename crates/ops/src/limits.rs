//! Bounds of this room.

/// The most counters that a look at a host, a switch or a simulation keeps.
pub(crate) const RAW_COUNTERS_MAX: usize = 2_000_000;
/// The most ports that detectors follow.
pub(crate) const WATCHED_PORTS_MAX: usize = 65_536;
/// The longest name of a counter that is believed.
pub(crate) const COUNTER_NAME_MAX: usize = 128;
/// The deepest JSON that is looked into.
pub(crate) const JSON_DEPTH_MAX: usize = 16;
