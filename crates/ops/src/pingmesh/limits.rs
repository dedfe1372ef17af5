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
/// How often a prober that sleeps looks for other targets.
pub const TARGETS_LOOK: Span = Span::from_ms(1_000);
/// Significant digits of histograms, of nanoseconds.
pub const DIGITS: u8 = 2;
/// The longest value of a histogram, in nanoseconds.
pub const HISTOGRAM_MAX_NS: u64 = 60_000_000_000;
/// Probes that failed, of which a window of a host remembers each by itself.
pub const RAW_FAILED_MAX: usize = 64;
/// Probes that were answered slowly, likewise.
pub const RAW_SLOW_MAX: usize = 16;
/// Of the others, a sample of so many.
pub const RAW_SAMPLED_MAX: usize = 16;
/// How many windows of all hosts the sample of those that a collector keeps is to span.
pub const RAW_WINDOWS_SPANNED: u64 = 20;
/// Single probes that a collector's file keeps if nothing else is said, the oldest of which are overwritten: some 60 MB.
pub const RAW_KEPT: u64 = 1_000_000;
/// Finished windows that wait for who takes them.
pub const WINDOWS_HELD: usize = 16;
/// The longest message between an agent and the collector: a window of [`TARGETS_MAX`] targets in three scopes has some
/// 100 KB.
pub const MESSAGE_BYTES_MAX: usize = 2 << 20;
/// Characters of the name of a host.
pub const NAME_MAX: usize = 253;
/// Windows that an agent keeps for a collector that does not answer: a day of them.
pub const SPOOL_MAX: usize = 2_880;
/// How far ahead of the collector's clock a window may end.
pub const AHEAD_NS: u64 = 60_000_000_000;
/// How long ago a window may have begun: as long as an agent keeps them.
pub const BEHIND_NS: u64 = SPOOL_MAX as u64 * 30_000_000_000;
/// Windows that a collector's file keeps whole, of all hosts: some 0.7 GB, at 80 targets a host. Older ones are there added up.
pub const WINDOWS_KEPT: u64 = 50_000;
/// Sums that a collector's file keeps: some 8 GB. A network of 20,000 hosts in 500 racks has 13,000 a window.
pub const SUMS_KEPT: u64 = 20_000_000;
/// Pairs of hosts in windows that a verdict of a collector looks at, at most: half a gigabyte of memory. If they are
/// more, it looks at fewer windows, but never at fewer than the first of [`WINDOWS_JUDGED`].
pub const PAIRS_JUDGED: usize = 6_000_000;
/// Windows that a verdict looks at, of each host: what is plain shows in the first number, rare losses in the second.
pub const WINDOWS_JUDGED: [u64; 2] = [3, 10];
/// What may be chance in one window, pauses of a switch and packets that a link misses, has to be in so many. Ours.
pub const WINDOWS_MIN: usize = 3;
/// Single probes that a page, a report in JSON and the evidence show.
pub const PROBES_SHOWN: usize = 20;
