//! Every bound of the soft NIC, by name.

mod progress;

use rdma::Span;

pub use self::progress::*;

/// How often something is tried, and the pause after each failure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    /// Once at least.
    pub(crate) tries: u32,
    /// After each but the last.
    pub(crate) pause: Span,
}

/// Entries of a port's GID table.
pub(crate) const GIDS_MAX: usize = 16;
/// Bits of a QPN that say whose it is.
pub(crate) const SLOT_BITS: u32 = 10;
/// Bits of a QPN below the slot.
pub const SLOT_SHIFT: u32 = 24 - SLOT_BITS;
/// Slots of a host; slot 0 holds the management QPs and is never given out.
pub(crate) const SLOTS: u16 = 1 << SLOT_BITS;
/// Segments of one GSO batch (`UDP_MAX_SEGMENTS` of kernels before 6.9).
pub(crate) const GSO_SEGMENTS_MAX: usize = 64;
/// Senders whose habits are remembered: a power of two.
pub(crate) const HABITS: usize = 256;
/// So many batches in a row that begin with IP identification 0 show a Ferroce NIC.
pub(crate) const HABIT_BATCHES: u32 = 16;
/// The same of a sender that was taken for one again and again.
pub(crate) const HABIT_BATCHES_MAX: u32 = 1 << 20;
/// Bytes of one GSO batch: a UDP datagram over IPv4.
pub(crate) const GSO_BYTES_MAX: usize = 65_507;
/// Packets of the largest MTU that a GSO batch holds.
const BATCH_PACKETS: u64 = 15;
/// Bytes that one queue pair may have in flight where buffers allow, as
/// [`transport::Config::window_bytes`] counts them: eight long GSO batches.
pub(crate) const WINDOW_BYTES: u64 =
    8 * BATCH_PACKETS * (4096 + transport::limits::PACKET_OVERHEAD_BYTES);
/// A queue pair whose window was full goes on with four.
pub(crate) const REFILL_BYTES: u64 = WINDOW_BYTES / 2;
/// To another host it goes on with half a GSO batch: a long path is to be filled evenly.
pub(crate) const REFILL_BYTES_BETWEEN_HOSTS: u64 = 32 << 10;
/// What each role of a queue pair may keep out of order of what comes from another host: packets, and bytes
/// of their payload. That is what may be under way: 20 ms at 6 Gb/s.
pub(crate) const OUT_OF_ORDER_PACKETS: u32 = 8192;
/// See there.
pub(crate) const OUT_OF_ORDER_BYTES: usize = 16 << 20;
/// Of the packets that wait for an acknowledgement, every so many asks for one: two long GSO batches.
pub(crate) const ACK_INTERVAL_PACKETS: u32 = 2 * BATCH_PACKETS as u32;
/// Bytes of packets that are built before the socket is called.
pub(crate) const ARENA_BYTES: usize = 512 << 10;
/// Bytes of the longest packet above UDP that is sent within a host: the largest MTU, and less than 128 of
/// headers, padding and ICRC.
pub(crate) const PACKET_MAX: usize = 4096 + 128;
/// The same to another host, where a soft NIC may take longer packets.
pub(crate) const LONG_PACKET_MAX: usize = transport::limits::STRIDE_MAX as usize + 128;
/// Datagrams, or GSO batches, in one call of the kernel.
pub(crate) const MESSAGES_MAX: usize = 32;
/// The hop limit of packets that name none.
pub(crate) const HOP_LIMIT: u8 = 64;
/// Bytes of a record that are collected before they are written in the middle of a batch.
pub(crate) const CAPTURE_FLUSH_BYTES: usize = 1 << 20;
/// Bytes of a record, unless it is to be longer or shorter.
pub(crate) const CAPTURE_BYTES: u64 = 1 << 30;
/// The least of a frame that is kept: Ethernet, IPv6, UDP, BTH and an extended header.
pub(crate) const CAPTURE_SNAP_MIN: u32 = 90;
/// Bytes of a record that wait for a reader of a pipe; frames beyond are left out.
pub(crate) const CAPTURE_PENDING_MAX: usize = 4 << 20;
/// How long a reader of a pipe may take for the rest at the end, and how long its writer sleeps in between.
pub(crate) const CAPTURE_DRAIN: Span = Span::from_ms(1_000);
pub(crate) const CAPTURE_RETRY: Span = Span::from_ms(1);
/// Bytes of one received buffer: the longest that `UDP_GRO` makes.
pub(crate) const RECEIVE_BYTES: usize = 64 << 10;
/// Datagrams, or GSO batches, that are taken from one socket before the engine answers.
pub(crate) const RECEIVE_BATCH: usize = 16;
/// What is asked of the kernel for a socket's receive and send buffers.
pub const SOCKET_BUFFER_BYTES: i32 = 8 << 20;
/// UDP source ports of a NIC's flows to other hosts: a descriptor each.
pub const DEPARTURES_MAX: usize = 64;
/// Multicast groups that a NIC has joined: a descriptor each.
pub(crate) const GROUPS_MAX: usize = 256;
/// Bytes of a NIC's own memory.
pub const DEVICE_MEMORY_BYTES: u64 = 1 << 20;
/// What its addresses can be asked to be a multiple of, at most.
pub const DEVICE_MEMORY_ALIGN_MAX: u64 = 4096;
/// How long a sender waits for room in a full socket before it drops a packet.
pub(crate) const SEND_WAIT_MS: i32 = 2;
/// How long a sender pauses for a receiver on the same host that takes nothing. On a busy machine a receiver
/// may wait a tenth of a second and more for a processor, and what an unreliable connection drops meanwhile
/// is lost. Switches take longer pauses for a fault. A NIC that ends waits as long for others to empty the
/// rings that it has filled.
pub(crate) const PAUSE_MAX: Span = Span::from_ms(200);
/// The files of a device are removed when nobody has asked for them for so many days, or earlier (`host/device_files.rs`).
pub(crate) const SYSFS_DAYS: u64 = 7;
/// How long an acknowledgement may wait for a request to travel with.
pub(crate) const ACK_DELAY: Span = Span::from_us(100);
/// For how long a request that finds no receive is sent again without counting: programs that allow no RNR retry post receives
/// when they are woken, which on a busy machine takes milliseconds.
pub(crate) const NOT_READY_GRACE: Span = Span::from_ms(5);
/// How late the progress thread may send a paced packet without loss of rate: a wake-up on a busy machine
/// takes as long.
pub(crate) const PACE_SLACK: Span = Span::from_us(100);
/// Final acknowledgements: how often a queue pair repeats its last one when it is destroyed, or brought into
/// RESET or ERROR. Programs end without a word, and a network may lose one packet in a hundred.
pub(crate) const FINAL_ACKNOWLEDGEMENTS: u8 = 2;
/// A packet held back by fault injection leaves after this at the latest.
pub(crate) const REORDER_HOLD: Span = Span::from_ms(1);
/// After sending, a thread sends what others have left to it, so many times in a row at most.
pub(crate) const ROUNDS_FOR_OTHERS: u32 = 8;
/// The time slice that the progress thread asks for.
pub(crate) const THREAD_SLICE: Span = Span::from_us(100);
/// Pauses of the processor between two looks while it busy polls.
pub(crate) const BUSY_POLL_SPINS: u32 = 16;
/// How long `exit` waits for another thread to leave the engine.
pub(crate) const EXIT_WAIT: Span = Span::from_ms(10);
/// How long a thread waits at a time for another to have sent, where both must not happen at once.
pub(crate) const SENDER_WAIT: core::time::Duration = core::time::Duration::from_millis(10);
/// Counters are published at most this often.
pub(crate) const PUBLISH_INTERVAL: Span = Span::from_ms(10);
/// What congestion control allows is published at most this often: each queue pair is looked at.
pub(crate) const PUBLISH_CONTROL_INTERVAL: Span = Span::from_ms(100);
/// A NIC that is opened looks at most this often for what others have left.
pub(crate) const SWEEP_INTERVAL: Span = Span::from_ms(1_000);
/// A file of a namespace in which nobody has a slot is left alone for so long.
pub(crate) const ORPHAN_AGE: Span = Span::from_ms(60_000);
/// How a slot is asked for while all seem to be taken: those of a namespace are while its files are removed.
pub(crate) const SLOT_RETRY: Retry = Retry { tries: 20, pause: Span::from_ms(1) };
/// Bytes of a name in the file of counters.
pub(crate) const COUNTER_NAME_BYTES: usize = 64;
/// The kernel's order of the sockets is asked for at most this often.
pub(crate) const STEERING_INTERVAL: Span = Span::from_ms(10);
/// Addresses that are known to be of this host or not.
pub(crate) const HOSTS_MAX: usize = 1024;
/// How long that is believed.
pub(crate) const HOST_KNOWN: Span = Span::from_ms(1_000);
/// How the right to change a group is asked for when a NIC is opened or closed: for three seconds.
pub(crate) const OPEN_RETRY: Retry = Retry { tries: 3_000, pause: Span::from_ms(1) };
/// If the program replaces our handler of faults, ours goes on top again, so many times at most.
pub const FAULT_HANDLERS_MAX: usize = 3;
/// Bits of a communication ID below the slot: what a conversation is called says whose it is.
pub(crate) const COMM_ID_SHIFT: u32 = 32 - SLOT_BITS;
/// How long a request waits for somebody who offers its service, before it is refused.
pub(crate) const UNCLAIMED_GRACE: Span = Span::from_ms(100);
/// Requests that wait so; more are refused at once.
pub(crate) const UNCLAIMED_MAX: usize = 64;
/// How often a message of connection management is offered again to a NIC whose mailbox was full.
pub(crate) const HANDOVER_INTERVAL: Span = Span::from_us(500);
/// How long it is offered. Then it is dropped, and its sender repeats it.
pub(crate) const HANDOVER_PATIENCE: Span = Span::from_ms(20);
/// Messages that wait so for one NIC, and for all of them.
pub(crate) const HANDOVERS_PER_NIC_MAX: usize = 16;
pub(crate) const HANDOVERS_MAX: usize = 64;
/// Ports of connection management that can be taken at one address, in all port spaces.
pub(crate) const PORTS_MAX: usize = 1 << 16;
/// Ports for callers that name none, as under Linux.
pub(crate) const EPHEMERAL_PORTS: core::ops::RangeInclusive<u16> = 32_768..=60_999;
/// Ports of an address that rest: given back, and not for callers that name none.
pub(crate) const RESTING_PORTS_MAX: usize = 256;
/// How the right to change the ports is asked for.
pub(crate) const PORT_RETRY: Retry = Retry { tries: 1_000, pause: Span::from_us(500) };
/// Bytes of a ring between two NICs of a host: as much as the engine keeps on the way, and little
/// enough to stay in a processor's cache.
pub(crate) const RING_BYTES: usize = 256 << 10;
/// Pairs of addresses between which the packets of a ring go.
pub(crate) const RING_PAIRS_MAX: usize = GIDS_MAX * GIDS_MAX;
/// Rings that a NIC makes, and as many that it takes: 17 MB each. Further NICs are reached by UDP.
pub(crate) const RINGS_MAX: usize = 64;
/// Packets that are taken from one ring before the engine answers.
pub(crate) const RING_BATCH: usize = 64;
/// Bytes of a packet in a ring that are copied out before they are looked at: all headers, and the
/// whole of a short packet. The rest goes from the ring to where it belongs.
pub(crate) const RING_COPIED: usize = 256;
/// How many packets are taken from a ring before their room is given back.
pub(crate) const RING_RELEASE: usize = 8;
/// Messages about rings that are taken before the engine goes on.
pub(crate) const OFFER_BATCH: usize = 16;
/// Runs of packets that go to a NIC by UDP before anybody asks whether it is of this host, to offer it a ring:
/// by then they have cost as much as both take, and many processes that say little to each other need neither.
pub(crate) const RUNS_BEFORE_OFFER: u32 = 16;
/// Those runs must be among the NIC's last so many: all rings are looked at each time, and one that seldom
/// has something in it costs more than it saves.
pub(crate) const RUNS_AMONG_MAX: u64 = RUNS_BEFORE_OFFER as u64 * RINGS_MAX as u64;
/// A NIC offers a ring at most this often: making one takes some 20 us, and a queue of messages is short.
pub(crate) const OFFER_INTERVAL: Span = Span::from_us(500);
/// How long an offer stands. Packets go by UDP meanwhile.
pub(crate) const OFFER_PATIENCE: Span = Span::from_ms(1_000);
/// How long after an offer that came to nothing the next is made, and how often that is doubled: to ten
/// seconds.
pub(crate) const OFFER_PAUSE: Span = Span::from_ms(10);
pub(crate) const OFFER_DOUBLINGS_MAX: u32 = 10;
/// How often a sender asks whether a NIC that takes nothing from its ring is alive.
pub(crate) const PEER_CHECK_INTERVAL: Span = Span::from_ms(5);
/// How long what lies in the ring of a NIC that lives, and takes nothing from it, is not taken for lost, and
/// how long a full one is waited for: longer than a busy machine keeps a thread from a processor.
pub(crate) const AWAITED_MAX: Span = Span::from_ms(1_000);
/// Addresses for which it is remembered, by slot, how they are reached.
pub(crate) const CHOICES_MAX: usize = 2 * GIDS_MAX;
