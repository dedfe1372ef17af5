//! Every bound of the engine, by name.

use rdma::Span;

/// The longest message (IBTA vol 1, 9.7.7.1.2: 2^31 bytes).
pub const MESSAGE_BYTES_MAX: u32 = 1 << 31;
/// Queue pairs of an endpoint, if its QPN range has room for them.
pub const QPS_MAX: u32 = 1 << 14;
/// Completion queues of an endpoint.
pub const CQS_MAX: u32 = 1 << 16;
/// Entries of a completion queue.
pub const CQE_MAX: u32 = 1 << 22;
/// Shared receive queues of an endpoint.
pub const SRQS_MAX: u32 = 1 << 16;
/// Multicast groups that queue pairs of an endpoint are attached to.
pub const MULTICAST_GROUPS_MAX: usize = 256;
/// Queue pairs that are attached to one multicast group.
pub const MULTICAST_QPS_MAX: usize = 1024;
/// XRC domains of an endpoint.
pub(crate) const XRCDS_MAX: u32 = 1 << 16;
/// Requests of a shared receive queue.
pub const SRQ_WR_MAX: u32 = 1 << 15;
/// Requests of a send or receive queue.
pub const WR_MAX: u32 = 1 << 15;
/// Pieces of a scatter-gather list.
pub const SGE_MAX: u32 = 32;
/// Bytes of inline data of one request.
pub const INLINE_MAX: u32 = 4096;
/// Regions and windows of an endpoint: what 24 bits of a key can index.
pub const REGIONS_MAX: u32 = (1 << 24) - 1;
/// Protection domains of an endpoint.
pub const PDS_MAX: u32 = 1 << 16;
/// READs and atomics that a peer may have outstanding at our responder, and we at the peer's.
pub const RD_ATOMIC_MAX: u8 = 128;
/// Answers of one queue pair that wait to be sent. A driver takes them out after every batch.
pub(crate) const REPLIES_MAX: usize = 4 * RD_ATOMIC_MAX as usize;
/// Events that wait to be fetched; a driver fetches them after every call.
pub(crate) const EVENTS_MAX: usize = 1 << 16;
/// What a packet counts beyond its payload in the bytes in flight: headers, and the bookkeeping of
/// a receiving kernel.
pub const PACKET_OVERHEAD_BYTES: u64 = 256;
/// Packets of a message that an acknowledgement may wait for, to travel behind the last.
pub(crate) const ACK_BEHIND_PACKETS: u32 = 64;
/// The retry counts mean "for ever" at this value (`rnr_retry` only).
pub(crate) const RNR_RETRY_INFINITE: u8 = 7;
/// After how long a request for which no receive was posted is sent again first, where the program allows no retry.
pub(crate) const NOT_READY_WAIT_MIN: Span = Span::from_us(50);

/// Selective repeat: packets, counted from the missing one, that a role of a queue pair may keep
/// out of order. It divides the number of PSNs, and 16 bits of an acknowledgement hold it.
pub const OUT_OF_ORDER_PACKETS_MAX: u32 = 8192;
/// Bytes of payload of those packets.
pub const OUT_OF_ORDER_BYTES_MAX: usize = 16 << 20;
/// Selective repeat: so many READ requests fit into those bounds.
pub(crate) const READS_IN_WINDOW: u32 = 4;

/// READ responses to another host leave at this part, in hundredths, of the rate at which they were asked for,
pub(crate) const SHAPER_PERCENT: u64 = 125;
/// in the best of so many stretches of time before,
pub(crate) const SHAPER_STRETCHES: usize = 4;
/// each as long as this,
pub(crate) const SHAPER_STRETCH: Span = Span::from_ms(5);
/// and at once what takes so long at that rate: so late a driver comes on a busy host, and what it could have sent is not lost.
pub(crate) const SHAPER_BURST_TIME: Span = Span::from_us(1_500);
/// Bytes of payload of the longest packet that is not kept to a path MTU: what an interface of 9,000 has room for.
pub const STRIDE_MAX: u32 = 69 * 128;
/// The same of an interface of 1,500, which the peer's may be, or one on the path.
pub(crate) const ETHERNET_STRIDE: u32 = 11 * 128;
/// A path probe is longer by the longest header that data may have beside a BTH: RETH and ImmDt.
pub(crate) const PATH_PROBE_HEADROOM: u32 = 16 + 4;
/// A path is probed so often for such packets before they are given up,
pub(crate) const PATH_PROBES_MAX: u8 = 8;
/// first after this time without an answer, and each time after twice as long.
pub(crate) const PATH_PROBE_WAIT: Span = Span::from_ms(10);
/// It waits for so long at most: RFC 8899, 5.1.1, has 600 s for PMTU_RAISE_TIMER, and a probe is one packet.
pub(crate) const PATH_PROBE_WAIT_MAX: Span = Span::from_ms(10_000);
/// So many losses of a packet in a row, and nothing heard meanwhile, and its path may have become too narrow for it: MAX_PROBES
/// (RFC 8899, 5.1.2 and 4.3).
pub(crate) const BLACK_HOLE_LOSSES: u8 = 3;
/// A part has so many bytes of payload at most where the path does not take packets of a longer path MTU: those pass any Ethernet.
pub(crate) const PART_BYTES: u32 = 1_024;
/// So many packets may wait for some of their parts, in each direction.
pub(crate) const PACKETS_IN_PARTS_MAX: usize = 32;
/// Where a window follows the path, a READ is asked for in so many parts of it.
pub(crate) const READ_CHUNKS_OF_WINDOW: u32 = 8;
/// Of no fewer packets than these.
pub(crate) const READ_CHUNK_PACKETS_MIN: u32 = 4;
/// So many READ requests are sent twice after a packet was lost,
pub(crate) const READS_TWICE_AFTER_LOSS: u32 = 1024;
/// those that ask for so many packets at least, beside which a second request is little.
pub(crate) const READ_TWICE_PACKETS_MIN: u32 = READ_CHUNK_PACKETS_MIN;

/// How long a packet that others have overtaken is not taken for lost, at least.
pub(crate) const OVERTAKEN_WAIT_MIN: Span = Span::from_us(300);
/// That time has so many parts in which it is noted what was overtaken.
pub(crate) const OVERTAKEN_MARKS: u64 = 8;
/// Where packets were repeated that were only late, others have up to so many times as long.
pub(crate) const OVERTAKEN_WAIT_TIMES_MAX: u8 = 64;
/// And half as many times for each such time in which nothing was repeated in vain.
pub(crate) const OVERTAKEN_WAIT_KNOWN: Span = Span::from_ms(2_000);
/// How long nothing must be heard before a probe is sent, at least.
pub(crate) const PROBE_WAIT_MIN: Span = Span::from_ms(1);
/// As long as no round trip was measured, it is so long.
pub(crate) const PROBE_WAIT_FIRST: Span = Span::from_ms(25);
/// After a timeout there are so many probes, at least, in the time of the shortest next one.
pub(crate) const PROBES_OF_TIMEOUT: u64 = 2;
/// How often that is doubled while nothing is heard.
pub(crate) const PROBE_DOUBLINGS: u8 = 6;
/// For how long the shortest round trip is remembered, at least: BBR's ten seconds.
pub(crate) const SHORTEST_ROUND_TRIP_KNOWN: Span = Span::from_ms(10_000);

/// How many messages must have been answered with a message, within the delay of an
/// acknowledgement, before an acknowledgement waits for the answer. One that waits in vain takes as
/// many away.
pub(crate) const ANSWERS_BEFORE_ACK_WAITS: u8 = 2;
/// No more answers than this are remembered.
pub(crate) const ANSWERS_MAX: u8 = 8;

/// The local ACK timeout of `code`: 4.096 us x 2^code, none for 0 (IBTA vol 1, 9.7.6.1.3).
pub const fn ack_timeout(code: u8) -> Option<Span> {
    match code & 31 {
        0 => None,
        code => Some(Span::from_ps(4_096_000 << code)),
    }
}

/// How often the local ACK timeout doubles while nothing arrives: to four times, the most that is
/// allowed (IBTA vol 1, 9.7.6.1.3).
pub(crate) const ACK_TIMEOUT_DOUBLINGS: u8 = 2;
/// And how often between hosts, where something arrives all the same, since the path may be longer than the timeout: if a round
/// trip was ever measured, and if none was.
pub(crate) const ACK_TIMEOUT_DOUBLINGS_OF_PATH: [u8; 2] = [2, 4];
/// Between hosts those are shorter by fewer than so many
pub(crate) const ACK_TIMEOUT_SPREAD: u64 = 256;
/// of so many parts.
pub(crate) const ACK_TIMEOUT_PARTS: u64 = 1_024;

/// Conversations of a connection manager, those in TIMEWAIT included.
pub(crate) const CM_CONVERSATIONS_MAX: usize = 1 << 16;
/// Conversations of one address that are accepted and not established, or over and not forgotten, when it
/// asks for another. The oldest then makes room, so that one host does not use up all conversations,
/// and a burst of requests does not keep others of its address out.
pub(crate) const CM_PENDING_PER_SOURCE_MAX: usize = 1024;
/// How long a connection that is accepted makes no room for others: 4.096 us x 2^20, four seconds. So those
/// that a crowd makes at once do not end each other: the requests that find no room are repeated.
pub(crate) const CM_CONFIRM_TIME: u8 = 20;
/// The longest that a connection which is accepted waits for its RTU, whatever its REQ says, and that
/// an answer is kept for a repeated REQ. Linux takes 69 s at most: 15 retries of 4.3 s.
pub(crate) const CM_HALF_OPEN_MAX: Span = Span::from_ms(300_000);
/// How often a message that comes again is answered again. Its sender repeats it 15 times at most.
pub(crate) const CM_ANSWERS_MAX: u8 = 32;
/// Listeners of a connection manager.
pub(crate) const CM_LISTENERS_MAX: usize = 1 << 16;
/// Requests that may wait for one listener's application. More are dropped: their peers repeat them.
pub(crate) const CM_BACKLOG_MAX: u32 = 1024;
/// How long a peer's connection manager has for an answer before a message is repeated: 4.096 us x
/// 2^18, a second.
pub(crate) const CM_RESPONSE_TIMEOUT: u8 = 18;
/// How often a connection manager repeats a message.
pub(crate) const CM_RETRIES: u8 = 15;
/// How long an MRA says that an application needs for an answer: 4.096 us x 2^24, a minute. Then
/// the peer repeats its message, and gets another MRA.
pub(crate) const CM_SERVICE_TIMEOUT: u8 = 24;
/// The longest time that a peer can ask a connection manager to wait: 4.096 us x 2^26.
pub(crate) const CM_TIMEOUT_MAX: u8 = 26;
/// How long a refused client asks again for a service that nobody offers: a server that takes its
/// connections one by one listens anew for each.
pub(crate) const CM_UNCLAIMED_PATIENCE: Span = Span::from_ms(100);
/// How long it waits between two tries.
pub(crate) const CM_UNCLAIMED_INTERVAL: Span = Span::from_ms(10);

/// Replaced deadlines that an endpoint keeps, beyond one for each queue pair.
pub(crate) const DEADLINES_SPARE: usize = 16;

/// Round trips of one queue pair that are measured at a time.
pub(crate) const ROUND_TRIPS_MAX: usize = 64;
/// BBR: what a window has beyond the path's: what arrives while the threads of a host are late.
pub(crate) const BBR_HOST_LATENESS: Span = Span::from_us(200);
/// BBR: packets leave at this part of the rate at which they arrive, in hundredths, round by round.
pub(crate) const BBR_PACE_PERCENT: [u64; 8] = [125, 75, 100, 100, 100, 100, 100, 100];
/// BBR: and while a flow begins at 2 / ln 2.
pub(crate) const BBR_PACE_PERCENT_AT_START: u64 = 289;
/// BBR: and so many packets more, whatever the rate: of two flows in one queue the smaller one gains by it.
pub(crate) const BBR_SPARE_PACKETS: u64 = 8;
/// Packets are sent again at this part of the pace: at three quarters of the rate at which packets arrive, so that the
/// queue which dropped them drains.
pub(crate) const REPEATED_PACE_PERCENT: u64 = 60;
/// BBR: where a window is longer than the path, it grows by one in so many packets that arrive.
pub(crate) const BBR_GROWTH_DIVISOR: u64 = 4;
/// So many acknowledgements are asked for in each window of a controller, at least.
pub(crate) const ACKS_OF_WINDOW: u32 = 4;
/// What may leave at once where a pace is kept to: a GSO batch,
pub(crate) const PACED_BATCH_BYTES: u64 = 64 << 10;
/// but what may be sent in this time, since a driver comes so late,
pub(crate) const PACED_BATCH_LEAST: Span = Span::from_us(200);
/// and no more than in this, half of what a TCP of Linux does (sk_pacing_shift): queues before slow ports are short.
pub(crate) const PACED_BATCH_MOST: Span = Span::from_us(500);
/// BBR: the highest rate of so many rounds counts, and of as many before them. BBR's own are ten together.
pub(crate) const BBR_RATE_ROUNDS: u32 = 5;
/// BBR: a flow no longer begins after so many rounds in a row without a quarter more.
pub(crate) const BBR_FLAT_ROUNDS: u32 = 3;
/// BBR: a path is clean where as many packets have arrived in a row as this part of the square of the window: a TCP with such
/// a window loses one of about four times as many by filling the queue alone (RFC 9438, 4.3),
pub(crate) const BBR_CLEAN_DIVISOR: u64 = 8;
/// but so many at least and at most. Where chance takes a thousandth, 16,384 in a row are one row in e^16.
pub(crate) const BBR_CLEAN_RUNS: [u64; 2] = [1_024, 16_384];
/// It is known for so long: for longer than it takes CUBIC to come back from a loss on most paths (RFC 9438, 4.2).
pub(crate) const BBR_CLEAN_KNOWN: Span = Span::from_ms(10_000);
/// BBR: losses without a queue are weighed among so many packets at least, so that chance makes no ceiling.
pub(crate) const BBR_LOSS_SAMPLE: u64 = 512;
/// BBR: where there is a queue, losses are summed up that go beyond so many times what chance takes,
pub(crate) const BBR_CHANCE_TIMES: u64 = 2;
/// and the queue has been full where the sum is more than this. Of losses by chance alone it is once in 3,000 round trips, if
/// chance is taken for three quarters of what it is, and never in 400,000 if it is known.
pub(crate) const BBR_EXCESS: u64 = 8;
/// BBR: a queue is far from full where it is less than this part, in hundredths, of what it is when it is full.
pub(crate) const BBR_SHALLOW_PERCENT: u64 = 75;
/// BBR: that is, on a path that loses nothing by chance, what it came to in most of so many stretches
pub(crate) const BBR_DEPTH_STRETCHES: usize = 8;
/// of so many rounds: in each a window has fallen and risen again on short paths, and on long ones in all of them;
pub(crate) const BBR_DEPTH_ROUNDS: u32 = 64;
/// on others what it came to at most in so long and up to twice as long: some times what a window takes to fall and rise again.
pub(crate) const BBR_LONGEST_KNOWN: Span = Span::from_ms(5_000);
/// BBR: a queue of this part of its depth, in hundredths, is as full as it is when a TCP's burst no longer has room,
pub(crate) const BBR_OTHERS_FULL_PERCENT: u64 = 85;
/// and others have made room in it if round trips are by this part shorter then: as where a TCP had two fifths of all that was under
/// way (RFC 9438, 4.6). Of 2 Gb/s over 1 ms, with half a megabyte of queue, a flow of the model had three quarters of the TCP's part beside it;
/// with 8 it had less than half, and three times as much where it did not fall with others.
pub(crate) const BBR_OTHERS_FELL_PERCENT: u64 = 12;
/// BBR: for so many rounds after all have drained a queue they fill it again, and more than it was.
pub(crate) const BBR_REFILL_ROUNDS: u32 = 16;
/// BBR: from this round of the cycle of gains on, a round trip tells of no other pace than the usual one.
pub(crate) const BBR_EVEN_FROM: usize = 4;
/// BBR: chance takes no more of a round than the part that is set, or than so many,
pub(crate) const BBR_LIGHT_LOSS: u64 = 4;
/// and than this part.
pub(crate) const BBR_LIGHT_LOSS_DIVISOR: u64 = 8;
/// BBR: so many losses, if they are too many among what was sent, end the beginning of a flow at once.
pub(crate) const BBR_LOSS_AT_START: u64 = 16;
/// BBR: where a queue has been full, the window gets a ceiling of this part of itself: CUBIC's beta (RFC 9438, 4.6), and BBRv2's.
pub(crate) const BBR_FALL_PERCENT: u64 = 70;
/// But of this part of what the path holds without a queue, at least, unless it is known to be clean.
pub(crate) const BBR_FLOOR_PERCENT: u64 = 90;
/// And this part where no queue was seen.
pub(crate) const BBR_FALL_PERCENT_UNSEEN: u64 = 85;
/// BBR: the ceiling rises by so many 64ths of a packet in each round: where CUBIC's window is as Reno's, it rises by
/// 34 (RFC 9438, 4.3). Where there is no queue, and the path is not known to be clean, it rises by as much more from round to round,
pub(crate) const BBR_RISE: u64 = 32;
/// and where it is past the window that it fell from by this.
pub(crate) const BBR_RISE_PAST: u64 = 8;
/// Where the path is clean it rises by fewer than CUBIC's: of bursts, as TCP sends them, a full queue drops more than of what is
/// paced, so a TCP falls more often. With 32 a flow of 9,000-byte packets had 2.2 times as much as the TCP beside it over 1 ms.
pub(crate) const BBR_RISE_CLEAN: u64 = 24;
/// Or so that it is in this time where it was: BBRv2 leaves TCP 2 to 3 s before it tries for more.
pub(crate) const BBR_RECOVERY: Span = Span::from_ms(2_500);
/// And where no queue was seen in so many rounds.
pub(crate) const BBR_RECOVERY_ROUNDS_UNSEEN: u64 = 32;
/// BBR: there is a queue where round trips are longer than the shortest by this, or threads that are late look like one,
pub(crate) const BBR_QUEUE_SEEN: Span = Span::from_us(400);
/// and by this part of it.
pub(crate) const BBR_QUEUE_SEEN_DIVISOR: u64 = 32;
/// BBR: the window is a half for a round this often, to see the path without a queue.
pub(crate) const BBR_DRAIN_INTERVAL: Span = Span::from_ms(200);
/// And in as many round trips once, so that it costs less than a hundredth.
pub(crate) const BBR_DRAIN_ROUNDS: u64 = 64;
/// BBR: for so long a round trip is recent, and up to twice as long: a few of those times.
pub(crate) const BBR_RECENT: Span = Span::from_ms(1_000);
/// What a data packet takes of a link beside its RoCE headers and payload: Ethernet, IPv4, UDP, ICRC
/// and FCS. A rate limit counts these bytes too.
pub(crate) const LINK_HEADER_BYTES: u64 = 14 + 20 + 8 + 4 + 4;
/// Packets that travel as one at most, where nothing was lost.
pub(crate) const TRAIN_PACKETS_MAX: u32 = 64;
/// Under selective repeat as many packets in a row are a loss of a train; fewer are not.
pub(crate) const TRAIN_LOST_PACKETS: u32 = 3;
/// A loss leaves this part of them.
pub(crate) const TRAIN_LOSS_DIVISOR: u32 = 8;
/// And no fewer than these: a call of the kernel for each packet costs more than losses do.
pub(crate) const TRAIN_PACKETS_MIN: u32 = 8;
/// So many trains that arrive make the next ones a packet longer.
pub(crate) const TRAIN_GROWTH_PACKETS: u32 = 16;
/// After a loss a step of DCQCN is at most the rate over this: it doubles in 45 steps, 2.5 ms.
pub(crate) const LOSS_GAIN_DIVISOR: u64 = 64;
/// A round trip counts for Swift as no more than so many of its targets. A full buffer makes none that is
/// longer: 12 MB at 40 Gb/s are 2.4 ms, and 64 targets of a window of one packet 2.5 ms. What is longer tells
/// of a host that stood still, and a window of a hundredth would wait a hundred times as long again.
pub(crate) const SWIFT_ROUND_TRIP_TARGETS_MAX: u64 = 64;
/// Additive increase of DCQCN leads from nothing to the line rate in 2 to this many steps at most.
pub(crate) const ADDITIVE_STEPS_LOG2: u32 = 18;
