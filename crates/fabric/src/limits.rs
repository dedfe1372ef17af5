//! Every bound of the simulator, by name.

use rdma::Span;

/// How long packets that others have overtaken may still arrive, where switches spray: ours, the time that a
/// megabyte of one queue takes at 100 Gb/s.
pub(crate) const OVERTAKEN_WAIT: Span = Span::from_us(100);
/// Hosts of a network: an index of 24 bits is an address of 10.0.0.0/8.
pub(crate) const HOSTS_MAX: usize = 1 << 20;
/// Switches of a network.
pub(crate) const SWITCHES_MAX: usize = 1 << 16;
/// Ports of a switch.
pub(crate) const PORTS_MAX: usize = 1 << 10;
/// Ports of all nodes; they share 28 bits of an event with flows.
pub(crate) const ALL_PORTS_MAX: usize = 1 << 24;
/// Flows of a network.
pub(crate) const FLOWS_MAX: usize = 1 << 24;
/// Jobs of a network: their numbers share 32 bits of an event with cores.
pub(crate) const JOBS_MAX: usize = 1 << 16;
/// Ranks of a job; no host has two.
pub(crate) const RANKS_MAX: u32 = HOSTS_MAX as u32;
/// Operations of all ranks of a job, of some 30 bytes each, and 80 while it is made.
pub(crate) const OPERATIONS_MAX: usize = 1 << 24;
/// Repetitions of all ranks of a job, each of which is remembered.
pub(crate) const REPETITIONS_MAX: u64 = 1 << 24;
/// Messages that wait or are under way in one queue pair; more wait at the application.
pub(crate) const OUTSTANDING_MAX: u32 = 4096;
/// Receives that are kept posted.
pub(crate) const RECEIVES: u32 = 64;
/// Memory of a host that messages may be spread over.
pub(crate) const SPREAD_BYTES_MAX: u64 = 1 << 40;
/// Entries of a cache of a NIC.
pub(crate) const CACHE_ENTRIES_MAX: u32 = 1 << 20;
/// Samples that a run without an interval of its own has in the end, at least half of them if it is
/// long enough, and at most twice as many.
pub(crate) const SAMPLES_KEPT: usize = 512;
/// Entries of all samples, of 32 bytes each: where there are more, every second sample goes.
pub(crate) const SAMPLE_ENTRIES_MAX: usize = 1 << 23;
/// A file that a scenario names, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;
/// The execution traces of all ranks together, in bytes.
pub(crate) const TRACES_BYTES_MAX: usize = 512 << 20;
/// The longest time that a setting may name, in seconds.
pub(crate) const SECONDS_MAX: f64 = 1e6;
/// The fastest link, in Gb/s.
pub(crate) const RATE_GBPS_MAX: f64 = 1e5;
/// The longest cable, in metres: once around the earth.
pub(crate) const CABLE_M_MAX: u32 = 40_000_000;
/// The most frames of a report's replay.
pub(crate) const REPLAY_FRAMES: usize = 160;
/// Coloured ends and nodes of all frames of a replay; with more, it has fewer frames.
pub(crate) const REPLAY_ENTRIES_MAX: usize = 150_000;
/// Hosts that a replay draws one by one; of more, a box a rack.
pub(crate) const REPLAY_HOSTS: usize = 200;
/// Jobs of which a report says everything.
pub(crate) const REPORT_JOBS: usize = 8;
/// Queues whose length a report draws: those that were longest.
pub(crate) const REPORT_QUEUES: usize = 6;
/// The fewest bytes that a capture keeps of each frame: the longest headers of a frame, from Ethernet
/// with a tag (18), IPv4 (20), UDP (8) and BTH (12) to XRC and atomics (4 + 28).
pub(crate) const SNAP_BYTES_MIN: u32 = 90;
/// Frames that all captures of a network keep together, of some 200 bytes of memory each.
pub(crate) const CAPTURE_FRAMES_MAX: usize = 1 << 21;
/// Bytes of programs' packets that all captures of a network keep together.
pub(crate) const CAPTURE_BYTES_MAX: usize = 256 << 20;
/// Frames that the taps of one capture keep together until it is asked while the network lives.
pub(crate) const LIVE_FRAMES_MAX: usize = 1 << 14;
/// Bytes of programs' packets that they keep.
pub(crate) const LIVE_BYTES_MAX: usize = 32 << 20;
/// A buffer of a TCP connection: its window scale has 14 bits at most (RFC 7323).
pub(crate) const TCP_BUFFER_BYTES_MAX: u32 = 1 << 28;
/// TCP connections that a host may begin, and as many that it may be asked for: half of the ports
/// from 1,024 on.
pub(crate) const TCP_CONNECTIONS_MAX: u32 = 32_256;
/// How often one fault of a scenario lets a link flap.
pub(crate) const FLAPS_MAX: u32 = 1 << 16;

/// The longest cell of a switch's buffer, in bytes: longer than any frame.
pub(crate) const CELL_BYTES_MAX: u32 = 1 << 14;
