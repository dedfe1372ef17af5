//! The bounds and the times of pingmesh.

use rdma::Span;

/// The payload of a probe and of its answer: guo16, 5.3.
pub const PROBE_BYTES: u32 = 512;
/// Probes of a host that may be under way.
pub const OUTSTANDING: usize = 1_024;
/// Receives that a host has posted for each queue pair: probes of others, and answers.
pub const RECEIVES: u32 = 256;
/// Targets of a host in a scope, at most.
pub const TARGETS_MAX: usize = 64;
/// How long a window is, aligned to the clock of the wall (R-Pingmesh).
pub const WINDOW: Span = Span::from_ms(30_000);
/// How long an answer may take. R-Pingmesh has 500 ms.
pub const PATIENCE: Span = Span::from_ms(500);
/// Probes a second to a target of the same rack, and of another (R-Pingmesh, 4.2).
pub const RATE_RACK: f64 = 10.0;
/// See [`RATE_RACK`].
pub const RATE_BEYOND: f64 = 1.0;
/// What a host sends a second, at most; ours.
pub const RATE_HOST: f64 = 300.0;
/// With which probability all paths are covered by labels (R-Pingmesh, 4.2).
pub const COVERED: f64 = 0.9;
/// No round trip of a network takes longer; what seems to is a clock.
pub const ROUND_TRIP_MAX: Span = Span::from_ms(60_000);
/// Significant digits of histograms, of nanoseconds.
pub const DIGITS: u8 = 2;
/// The longest value of a histogram, in nanoseconds.
pub const HISTOGRAM_MAX_NS: u64 = 60_000_000_000;
/// Finished windows that wait for who takes them.
pub const WINDOWS_HELD: usize = 16;
