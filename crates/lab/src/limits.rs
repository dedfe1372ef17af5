//! Every bound of a lab, by name.

use core::time::Duration;

use rdma::Span;

/// Programs at a time: as many as there are slots.
pub(crate) const PROGRAMS_MAX: usize = 1_022;
/// Connections that are no program's.
pub(crate) const VISITORS_MAX: usize = 256;
/// Packets that are taken from one program before the others have their turn.
pub(crate) const BATCH: usize = 64;
/// Packets that are taken from a program that is gone: as many short ones as its ring holds.
pub(crate) const LAST_PACKETS: usize = 4_096;
/// What a program may have in the NIC of its host before the lab reads no more of its ring. One that keeps to its
/// credits never gets there.
pub(crate) const INSIDE_BYTES_MAX: u64 = 2 * 8 * softnic::lab::CREDIT_BYTES;
/// The network lives for so long at most before what has come for programs is given to them.
pub(crate) const STRETCH: Span = Span::from_us(10);
/// Stretches in a row before rings are read again.
pub(crate) const STRETCHES_MAX: usize = 20;
/// Frames of the fastest host's link that what is due in the network may be late by, before the clock slips.
pub(crate) const LATE_FRAMES: u64 = 8;
/// Less than that counts as in time on any link.
pub(crate) const LATE_LEAST: Duration = Duration::from_micros(200);
/// More than that is late on any link.
pub(crate) const LATE_MOST: Duration = Duration::from_millis(10);
/// For so long after a slip the lab sleeps until something is due, however soon that is: who yields where there are
/// more threads than processors is back when all others have had their turn, and who sleeps is woken in time.
pub(crate) const CONTENDED: Duration = Duration::from_millis(500);
/// The lab looks for more before it sleeps, for so many times as long as it has worked.
pub(crate) const BUSY_POLL_FACTOR: u32 = 4;
/// And for no longer than this: about what it costs two programs to wake it and to be woken.
pub(crate) const BUSY_POLL_MAX: Duration = Duration::from_micros(50);
/// Another thread had the processor if two looks in a row were so far apart.
pub(crate) const CONTENTION_GAP: Duration = Duration::from_micros(500);
/// For so long the lab then does not busy poll.
pub(crate) const CONTENTION_STAYS: Duration = Duration::from_millis(20);
/// How late the kernel may wake the lab, if it can be told.
pub(crate) const TIMER_SLACK_NS: u64 = 5_000;
/// How soon something must be due in the network for the lab to stay awake.
pub(crate) const NAP_LEAST: Duration = Duration::from_micros(100);
/// How late the kernel may wake a sleeper.
pub(crate) const SLACK: Duration = Duration::from_micros(60);
/// How long the lab sleeps at most.
pub(crate) const NAP_MAX: Duration = Duration::from_millis(100);
/// How often a lab that does not sleep looks at its sockets.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_micros(500);
/// Of a processor's time, what the lab counts on when it chooses its factor: the programs need the rest.
pub(crate) const SHARE: f64 = 0.5;
/// Bytes of an answer that one message holds.
pub(crate) const ANSWER_BYTES: usize = 32 << 10;
/// Characters of a lab's name: the path of its socket is bounded.
pub(crate) const NAME_MAX: usize = 16;
/// Captures at a time.
pub(crate) const CAPTURES_MAX: usize = 16;
/// Bytes that wait for the reader of a capture before frames are missed.
pub(crate) const CAPTURE_BACKLOG_BYTES: usize = 8 << 20;
/// Bytes of a capture that one message holds.
pub(crate) const CAPTURE_MESSAGE_BYTES: usize = 32 << 10;
/// How long captured frames wait for others before they are sent.
pub(crate) const CAPTURE_FLUSH: Duration = Duration::from_millis(20);
/// How long a lab that ends waits for the readers of its captures.
pub(crate) const CAPTURE_PATIENCE: Duration = Duration::from_millis(500);
/// Entries of a journal; older ones are forgotten.
pub(crate) const JOURNAL_MAX: usize = 10_000;
/// Slips of the clock that follow each other so soon are told as one.
pub(crate) const SLIP_QUIET: Duration = Duration::from_secs(1);
/// How often watchdogs and processors are looked at.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// Packets of a queue pair that may be sent again: a number that is further behind begins a new conversation.
pub(crate) const AGAIN_MAX: u32 = 1 << 15;
/// Queue pairs of which the last packet is remembered.
pub(crate) const STREAMS_MAX: usize = 1 << 16;
/// What a frame has on a link besides its payload, about: see `factor.rs`.
pub(crate) const FRAME_HEADERS: u64 = 80;
/// Programs that are gone and remembered for the report.
pub(crate) const GONE_MAX: usize = 1_000;
/// How far apart samples are at first, for each port of the network and in all: to look at a port costs about a
/// millionth of a second.
pub(crate) const SAMPLE_EACH: Span = Span::from_us(50);
pub(crate) const SAMPLE_LEAST: Span = Span::from_ms(1);
/// Looks at all counters that wait to be written out.
pub(crate) const LOOKS_MAX: usize = 8;
/// Bytes of what was seen that one message holds.
pub(crate) const SEEN_MESSAGE_BYTES: usize = 32 << 10;
/// The most bytes of what was seen.
pub(crate) const SEEN_BYTES_MAX: usize = 256 << 20;
/// How long somebody who has asked what is seen may take to read on.
pub(crate) const SEEN_PATIENCE: Duration = Duration::from_secs(2);
