//! The knobs of `progress/policy`, which decides which thread looks after a NIC, when, and how far it looks.
//!
//! They were found by measurement. After a change, latency and rate have to be measured again, by UDP and
//! by shared memory, on an idle machine and on a busy one.

use rdma::Span;

// Posts that wait for more, to leave together.

/// Requests in flight, or posted without a look for completions, behind which others may wait to
/// leave together. Fewer are taken to be what somebody waits for.
pub const BATCH_BEHIND: usize = 4;
/// So many requests leave at once.
pub const BATCH_REQUESTS: usize = 48;
/// So many bytes of messages leave at once: a GSO batch.
pub(crate) const BATCH_BYTES: u64 = 60 << 10;
/// For so long requests to one queue pair may wait behind what another has in flight: it is a few
/// round trips, after which the other's acknowledgement may be taken to be late.
pub const ANSWER_PATIENCE: Span = Span::from_ms(1);
/// How long the progress thread sleeps at most while requests may wait behind what is in flight.
pub const HELD_MAX: Span = Span::from_ms(10);
/// After so many posts without a poll, a post also receives.
pub const POSTS_PER_LOOK: usize = 256;

// Polls that find nothing.

/// An application that has polled so often in a row and found nothing lets others run (a poll costs
/// half a microsecond, so this is a few times the round trip of an idle machine).
pub(crate) const POLLS_BEFORE_YIELD: u32 = 100;
/// The same where most polls look at memory alone.
pub(crate) const RING_POLLS_BEFORE_YIELD: u32 = 1_000;
/// The same where a lab carries every packet: its thread may wait for this very processor.
pub(crate) const LAB_POLLS_BEFORE_YIELD: u32 = 4;
/// An application that has polled twice in vain, and not longer ago than this, polls in a loop.
pub(crate) const POLL_LOOP: Span = Span::from_us(10);

// How far a look goes.

/// One poll in so many looks at every socket; the others look only at the one that last had something.
pub(crate) const POLLS_PER_ROUND: u32 = 16;
/// With rings, a round over all sockets is spread over so many of those polls: the calls of the kernel for
/// all of them would take as long as the polls between.
pub(crate) const PARTS_OF_ROUND: usize = 4;
/// A poll that finds fewer bytes than this returns with them.
pub(crate) const SHORT_BATCH_BYTES: usize = 4096;
/// It looks for more if so many looks before it found something.
pub(crate) const FINDS_BEFORE_MORE: u32 = 2;
/// Looks before a timer is believed: they find as much as a full buffer holds.
pub(crate) const LOOKS_BEFORE_TIMEOUT: u32 = 64;

// How long the one on duty sleeps.

/// The longest sleep.
pub(crate) const SLEEP_MAX: Span = Span::from_ms(1_000);
/// How much later than a deadline a sleep must end for the deadline to be worth a wake-up.
pub(crate) const WAKE_SLACK: Span = Span::from_us(1_000);
/// How soon a sender looks whether a pause is over.
pub(crate) const PAUSE_RETRY: Span = Span::from_us(50);

// The progress thread busy polls before it sleeps.

/// For so many times as long as it worked.
pub(crate) const BUSY_POLL_FACTOR: u64 = 4;
/// And for no longer than this: about what it costs to be woken.
pub(crate) const BUSY_POLL_MAX: Span = Span::from_us(50);

// CPU contention, under which it does not.

/// How often the progress thread finds out whether another thread may need its processor.
pub(crate) const CONTENTION_INTERVAL: Span = Span::from_ms(1);
/// One does if the application's threads have run for one in so many parts of that time.
pub(crate) const CONTENTION_SHARE: u64 = 8;
/// Another thread had the processor if two looks in a row were so far apart.
pub(crate) const CONTENTION_GAP: Span = Span::from_us(500);
/// For how long contention that was found is taken for granted.
pub(crate) const CONTENTION_STAYS: Span = Span::from_ms(20);

// The one on duty parks, and leaves the sockets to the application.

/// After so many packets it is decided whether the one on duty is needed at the sockets.
pub(crate) const PARK_PACKETS: u64 = 64;
/// An application that was sent an event within this time is taken to wait for another.
pub(crate) const PARK_EVENT_FREE: Span = Span::from_ms(1_000);
/// How long one that is parked sleeps.
pub(crate) const PARK_NAP: Span = Span::from_ms(1);
/// How many naps a parked thread takes in a row without having seen the engine, because the
/// application is always in it.
pub(crate) const PARK_BLIND_NAPS: u32 = 8;

// Threads of the application that wait for an event, and stand in.

/// How long no thread stands in after a stand-in has left and packets had to wait for it.
pub(crate) const STAND_IN_DISTRUST: Span = Span::from_ms(1_000);
/// How much later than it said a stand-in may report.
pub(crate) const STAND_IN_GRACE: Span = Span::from_ms(100);
