//! Every bound of the soft NIC, by name.

use rdma::Span;

/// Entries of a port's GID table.
pub const GIDS_MAX: usize = 16;
/// Bits of a QPN that say whose it is.
pub const SLOT_BITS: u32 = 10;
/// Bits of a QPN below the slot.
pub const SLOT_SHIFT: u32 = 24 - SLOT_BITS;
/// Slots of a host; slot 0 holds the management QPs and is never given out.
pub const SLOTS: u16 = 1 << SLOT_BITS;
/// Segments of one train (`UDP_MAX_SEGMENTS` of kernels before 6.9).
pub const TRAIN_SEGMENTS_MAX: usize = 64;
/// Bytes of one train: a UDP datagram over IPv4.
pub const TRAIN_BYTES_MAX: usize = 65_507;
/// Packets of the largest MTU that a train holds.
const TRAIN_PACKETS: u64 = 15;
/// Bytes that one queue pair may have in flight where buffers allow, as
/// [`transport::Config::window_bytes`] counts them: eight long trains.
pub const WINDOW_BYTES: u64 = 8 * TRAIN_PACKETS * (4096 + transport::limits::PACKET_OVERHEAD_BYTES);
/// A queue pair whose window was full goes on with four.
pub const REFILL_BYTES: u64 = WINDOW_BYTES / 2;
/// Of the packets that wait for an acknowledgement, every so many asks for one: two long trains.
pub const ACK_INTERVAL_PACKETS: u32 = 2 * TRAIN_PACKETS as u32;
/// Bytes of packets that are built before the socket is called.
pub const ARENA_BYTES: usize = 256 << 10;
/// Bytes of the longest packet above UDP that is sent: the largest MTU, and less than 128 of
/// headers, padding and ICRC.
pub const PACKET_MAX: usize = 4096 + 128;
/// Datagrams, or trains of them, in one call of the kernel.
pub const MESSAGES_MAX: usize = 32;
/// The hop limit of packets that name none.
pub const HOP_LIMIT: u8 = 64;
/// Bytes of a record that are collected before they are written in the middle of a batch.
pub const CAPTURE_FLUSH_BYTES: usize = 1 << 20;
/// Bytes of one received buffer: the longest that `UDP_GRO` makes.
pub const RECEIVE_BYTES: usize = 64 << 10;
/// Datagrams (or trains of them) that are taken from one socket before the engine answers.
pub const RECEIVE_BATCH: usize = 16;
/// A poll that finds a train shorter than this returns with it.
pub const SHORT_TRAIN_BYTES: usize = 4096;
/// What is asked of the kernel for a socket's receive and send buffers.
pub const SOCKET_BUFFER_BYTES: i32 = 8 << 20;
/// Multicast groups that a NIC has joined: a descriptor each.
pub const GROUPS_MAX: usize = 256;
/// Bytes of a NIC's own memory.
pub const DEVICE_MEMORY_BYTES: u64 = 1 << 20;
/// What its addresses can be asked to be a multiple of, at most.
pub const DEVICE_MEMORY_ALIGN_MAX: u64 = 4096;
/// How long a full socket is waited for before a packet is dropped.
pub const SEND_WAIT_MS: i32 = 2;
/// How long a sender pauses for a receiver on the same host that takes nothing. On a busy machine that one
/// has to wait for a processor, a tenth of a second and more, and an unreliable connection does not
/// send again what is dropped then; switches allow as much before they take a pause for a fault. A NIC
/// that ends waits as long for others to take what it has put into their rings.
pub const PAUSE_MAX: Span = Span::from_ms(200);
/// How soon the fallback thread looks whether a pause is over.
pub const PAUSE_RETRY: Span = Span::from_us(50);
/// How many days the files of devices that nobody asks for are kept.
pub const SYSFS_DAYS: u64 = 7;
/// The longest sleep of the fallback thread.
pub const SLEEP_MAX: Span = Span::from_ms(1_000);
/// An application that has polled so often in a row and found nothing lets others run (a poll costs
/// half a microsecond, so this is a few times the round trip of an idle machine).
pub const POLLS_BEFORE_YIELD: u32 = 100;
/// The same where most polls look at memory alone.
pub const RING_POLLS_BEFORE_YIELD: u32 = 1_000;
/// How long an acknowledgement may wait for a request to travel with.
pub const ACK_DELAY: Span = Span::from_us(100);
/// Requests in flight, or posted without a look for completions, behind which others may wait to
/// leave together. Fewer are taken to be what somebody waits for.
pub const BATCH_BEHIND: usize = 4;
/// So many requests leave at once.
pub const BATCH_REQUESTS: usize = 48;
/// So many bytes of messages leave at once: a train.
pub const BATCH_BYTES: u64 = 60 << 10;
/// For so long requests to one queue pair may wait behind what another has in flight: it is a few
/// round trips, after which the other's acknowledgement may be taken to be late.
pub const ANSWER_PATIENCE: Span = Span::from_ms(1);
/// How long the thread sleeps while requests may wait behind what is in flight.
pub const HELD_MAX: Span = Span::from_ms(10);
/// A program that posts so often without a poll is taken what has arrived.
pub const POSTS_PER_LOOK: usize = 256;
/// How often it is looked for more that has arrived before a timer is believed: as much as a full
/// buffer holds.
pub const LOOKS_BEFORE_TIMEOUT: u32 = 64;
/// A poll that finds a train shorter than [`SHORT_TRAIN_BYTES`] looks for more if so many before it
/// found something too.
pub const FINDS_BEFORE_MORE: u32 = 2;
/// How late the thread may come for a paced packet without loss of rate: what a wake-up costs on a
/// machine with something else to do.
pub const PACE_SLACK: Span = Span::from_us(100);
/// How often a queue pair repeats its last acknowledgement when it is destroyed: programs end
/// without a word, and a network may lose one packet in a hundred.
pub const FAREWELLS: u8 = 2;
/// How long before the fallback thread's own wake-up a deadline must lie to be worth waking it.
pub const WAKE_SLACK: Span = Span::from_us(1_000);
/// A packet held back by fault injection leaves after this at the latest.
pub const REORDER_HOLD: Span = Span::from_ms(1);
/// How long `exit` waits for another thread to leave the engine.
pub const EXIT_WAIT: Span = Span::from_ms(10);
/// How long a thread that must not meet one that is sending waits for its end, before it looks again.
pub const SENDER_WAIT: core::time::Duration = core::time::Duration::from_millis(10);
/// How often in a row a thread goes on to send what others have left to it.
pub const ROUNDS_FOR_OTHERS: u32 = 8;
/// Counters are published at most this often.
pub const PUBLISH_INTERVAL: Span = Span::from_ms(10);
/// Bytes of a name in the file of counters.
pub const COUNTER_NAME_BYTES: usize = 64;
/// The kernel's order of the sockets is looked into at most this often.
pub const STEERING_INTERVAL: Span = Span::from_ms(10);
/// How often, and how long apart, the right to change a group is asked for in the data path.
pub const CHANGE_TRIES: u32 = 20;
/// See [`CHANGE_TRIES`].
pub const CHANGE_PAUSE: Span = Span::from_us(50);
/// How often, and how long apart, it is asked for when a NIC is opened or closed: for three
/// seconds.
pub const OPEN_TRIES: u32 = 3_000;
/// See [`OPEN_TRIES`].
pub const OPEN_PAUSE: Span = Span::from_ms(1);
/// A poll looks at every socket once in so many times, and else at that which had something last.
pub const POLLS_PER_ROUND: u32 = 16;
/// Where most polls look at memory alone, it takes so many of those times to look at every socket: the
/// calls of the kernel for all of them would take as long as the polls between.
pub const PARTS_OF_ROUND: usize = 4;
/// The time slice that the fallback thread asks for.
pub const THREAD_SLICE: Span = Span::from_us(100);
/// Before it sleeps, the fallback thread looks for more for so many times as long as it worked.
pub const LINGER_FACTOR: u64 = 4;
/// And for no longer than this: about what it costs to be woken.
pub const LINGER_MAX: Span = Span::from_us(50);
/// Pauses of the processor between two looks meanwhile.
pub const LINGER_SPINS: u32 = 16;
/// How often it is found out whether somebody else may want the processor.
pub const COMPANY_INTERVAL: Span = Span::from_ms(1);
/// The application's threads do if they have run for one in so many parts of that time.
pub const COMPANY_SHARE: u64 = 8;
/// Somebody else had the processor if two looks in a row were so far apart.
pub const COMPANY_GAP: Span = Span::from_us(500);
/// How long it is taken for granted that somebody does who did.
pub const COMPANY_STAYS: Span = Span::from_ms(20);
/// An application that has polled twice in vain, and not longer ago than this, polls in a loop.
pub const POLL_LOOP: Span = Span::from_us(10);
/// How many packets it takes to decide whether the fallback thread is needed at the sockets.
pub const PARK_WINDOW_PACKETS: u64 = 64;
/// An application that was sent an event within this time is taken to wait for another.
pub const PARK_EVENT_FREE: Span = Span::from_ms(1_000);
/// How long a parked thread sleeps.
pub const PARK_NAP: Span = Span::from_ms(1);
/// How many naps a parked thread takes in a row without having seen the engine, because the
/// application is always in it.
pub const PARK_BLIND_NAPS: u32 = 8;
/// How long nobody stands in for the fallback thread after packets had to wait because the one who
/// did had left.
pub const STAND_IN_DISTRUST: Span = Span::from_ms(1_000);
/// How much later than he said somebody who stands in may be heard of.
pub const STAND_IN_GRACE: Span = Span::from_ms(100);
/// How often a handler of faults is put on top of one that the program has put in its place.
pub const FAULT_HANDLERS_MAX: usize = 3;
/// Bits of a communication ID below the slot: what a conversation is called says whose it is.
pub const COMM_ID_SHIFT: u32 = 32 - SLOT_BITS;
/// How long a request waits for somebody who offers its service, before it is refused.
pub const UNCLAIMED_GRACE: Span = Span::from_ms(100);
/// Requests that wait so; more are refused at once.
pub const UNCLAIMED_MAX: usize = 64;
/// How often, and how long apart, a message is given to its owner while that has no room.
pub const HANDOVER_TRIES: u32 = 10;
/// See [`HANDOVER_TRIES`].
pub const HANDOVER_PAUSE: Span = Span::from_us(100);
/// Ports of connection management that can be taken at one address, in all port spaces.
pub const PORTS_MAX: usize = 1 << 16;
/// Ports that are given to who names none, as Linux does it.
pub const EPHEMERAL_PORTS: core::ops::RangeInclusive<u16> = 32_768..=60_999;
/// How often, and how long apart, the right to change the ports is asked for.
pub const PORT_TRIES: u32 = 1_000;
/// See [`PORT_TRIES`].
pub const PORT_PAUSE: Span = Span::from_us(500);
/// Bytes of a ring between two NICs of a host: as much as the engine keeps on the way, and little
/// enough to stay in a processor's cache.
pub const RING_BYTES: usize = 256 << 10;
/// Pairs of addresses between which the packets of a ring go.
pub const RING_WAYS_MAX: usize = GIDS_MAX * GIDS_MAX;
/// NICs of this host that one NIC shares rings with; further ones are reached by UDP.
pub const RING_PEERS_MAX: usize = 256;
/// Packets that are taken from one ring before the engine answers.
pub const RING_BATCH: usize = 64;
/// Bytes of a packet in a ring that are copied out before they are looked at: all headers, and the
/// whole of a short packet. The rest goes from the ring to where it belongs.
pub const RING_COPIED: usize = 256;
/// How many packets are taken from a ring before their room is given back.
pub const RING_RELEASE: usize = 8;
/// Messages about rings that are taken before the engine goes on.
pub const OFFER_BATCH: usize = 16;
/// How often, and how long apart, an offer is made to a NIC whose queue of messages is full.
pub const OFFER_TRIES: u32 = 10;
/// See [`OFFER_TRIES`].
pub const OFFER_PAUSE: Span = Span::from_us(100);
/// How often it is looked whether a NIC that takes nothing from its ring is still there.
pub const PEER_CHECK_INTERVAL: Span = Span::from_ms(5);
/// How long what lies in the ring of a NIC that lives, and takes nothing from it, is not taken for lost:
/// longer than a busy machine keeps a thread from a processor.
pub const AWAITED_MAX: Span = Span::from_ms(1_000);
/// Addresses for which it is remembered, by slot, how they are reached.
pub const CHOICES_MAX: usize = 2 * GIDS_MAX;
