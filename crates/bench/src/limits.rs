//! Every bound of this room, by name.

use core::time::Duration;

use rdma::Span;

/// Completions that a wait takes at once, to have them ready for the application's poll.
pub const STASH: usize = 16;
/// Looks at memory words, between which the NIC makes progress, before others get the core.
pub const LOOKS_BEFORE_YIELD: u32 = 64;
/// How often who waits for the end of a world looks whether somebody has pressed Ctrl-C.
pub const GLANCE: Duration = Duration::from_millis(20);
/// The longest region that an application may ask for, in bytes.
pub const REGION_BYTES_MAX: u64 = 1 << 34;
/// Cores of a host that have a hog.
pub const HOGS_MAX: u32 = 256;
/// Queens of a hog's board: a tenth of a millisecond, between two looks whether it is to end.
pub const QUEENS: u32 = 9;
/// Flows of a plan.
pub const FLOWS_MAX: usize = 1024;
/// Threads of a flow, at each end.
pub const THREADS_MAX: u32 = 256;
/// Queue pairs of a thread: as many as a NIC has numbers for.
pub const QUEUE_PAIRS_MAX: u32 = 1 << 14;
/// Operations outstanding on a queue pair.
pub const WINDOW_MAX: u32 = 4096;
/// Bytes of a message.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 30;
/// The longest run, in milliseconds: a day.
pub const LENGTH_MS_MAX: f64 = 86_400_000.0;
/// Combinations of a sweep.
pub const SWEEP_POINTS_MAX: usize = 1000;
/// How long operations may take that are under way when a flow ends.
pub const DRAIN: Span = Span::from_ms(3_000);
/// Memory that a queue pair's messages go round in, if they are small and not checked, as in perftest.
pub const CYCLE_BYTES: u64 = 4096;
/// Receives that a server keeps posted, beyond four for each request that may be outstanding.
pub const RECEIVES_MAX: u32 = 512;
/// Completions that are polled at once.
pub const POLL_BATCH: usize = 16;
/// Windows that a run is cut into.
pub const WINDOWS_MAX: usize = 4096;
/// Bytes of a message between a server and its client.
pub const FRAME_BYTES_MAX: usize = 1 << 26;
/// How long a server waits for a client that has connected to say what it wants, and a client for an answer.
pub const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Who connects to a server that still has another client after this time is told that it is busy.
pub const BUSY_AFTER: Duration = Duration::from_secs(1);
/// Clients that a server has refused and still hears, so that they get the answer.
pub const TOLD_MAX: usize = 16;
/// How long one end hears the other after its last word, which would be lost if it closed at once.
pub const PARTING_MAX: Duration = Duration::from_secs(2);
/// Bytes that are read at a time of who is heard and not understood.
pub const TOLD_READ_BYTES: usize = 1 << 14;
/// A peer that has said nothing for so long is gone.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often each says that it is there.
pub const BEAT: Duration = Duration::from_secs(1);
/// A request of a compound read: a word of payload, and a word that says that it is there.
pub const REQUEST_BYTES: u64 = 16;
