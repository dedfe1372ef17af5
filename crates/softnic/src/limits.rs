//! Every bound of the soft NIC, by name.

use rdma::Span;

/// The UDP port of RoCE v2.
pub const ROCE_PORT: u16 = 4791;
/// Entries of a port's GID table.
pub const GIDS_MAX: usize = 16;
/// Bits of a QPN that say whose it is.
pub const SLOT_BITS: u32 = 10;
/// Bits of a QPN below the slot.
pub const SLOT_SHIFT: u32 = 24 - SLOT_BITS;
/// Slots of a host; slot 0 holds the management QPs and is never given out.
pub const SLOTS: u32 = 1 << SLOT_BITS;
/// Segments of one train (`UDP_MAX_SEGMENTS` of kernels before 6.9).
pub const TRAIN_SEGMENTS_MAX: usize = 64;
/// Bytes of one train: a UDP datagram over IPv4.
pub const TRAIN_BYTES_MAX: usize = 65_507;
/// Bytes of packets that are built before the socket is called.
pub const ARENA_BYTES: usize = 256 << 10;
/// Bytes of the longest RoCE packet above UDP: the payload, and less than this of headers.
pub const PACKET_OVERHEAD_MAX: usize = 128;
/// Bytes of one received buffer: the longest that `UDP_GRO` makes.
pub const RECEIVE_BYTES: usize = 64 << 10;
/// Datagrams (or trains of them) that are taken from one socket before the engine answers.
pub const RECEIVE_BATCH: usize = 16;
/// What is asked of the kernel for a socket's receive and send buffers.
pub const SOCKET_BUFFER_BYTES: i32 = 8 << 20;
/// How long a full socket is waited for before a packet is dropped.
pub const SEND_WAIT_MS: i32 = 2;
/// The longest sleep of the fallback thread.
pub const SLEEP_MAX: Span = Span::from_ms(1_000);
/// How long before the fallback thread's own wake-up a deadline must lie to be worth waking it.
pub const WAKE_SLACK: Span = Span::from_us(50);
/// A packet held back by fault injection leaves after this at the latest.
pub const REORDER_HOLD: Span = Span::from_ms(1);
/// Counters are published at most this often.
pub const PUBLISH_INTERVAL: Span = Span::from_ms(10);
/// Bytes of a name in the file of counters.
pub const COUNTER_NAME_BYTES: usize = 64;
/// The kernel's order of the sockets is looked into at most this often.
pub const STEERING_INTERVAL: Span = Span::from_ms(10);
/// A poll looks at every socket once in so many times, and else at that which had something last.
pub const POLLS_PER_ROUND: u32 = 16;
/// The time slice that the fallback thread asks for.
pub const THREAD_SLICE: Span = Span::from_us(100);
/// How many packets it takes to decide whether the fallback thread is needed at the sockets.
pub const PARK_WINDOW_PACKETS: u64 = 64;
/// An application that was sent an event within this time is taken to wait for another.
pub const PARK_EVENT_FREE: Span = Span::from_ms(1_000);
/// How long a parked thread sleeps.
pub const PARK_NAP: Span = Span::from_ms(1);
