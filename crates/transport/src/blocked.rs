//! Why a queue pair that has something to send sends nothing.

use core::fmt;

/// What keeps the next request of a queue pair, or its next READ response, from leaving. The
/// counters `tx_blocked_*` of [`crate::Stats`] count how often each begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Blocked {
    /// The peer had no receive posted, and the delay that it asked for is not over.
    Rnr,
    /// As much is in flight as may be.
    Window,
    /// As many READs and atomics are outstanding as the peer answers.
    ReadLimit,
    /// The rate of the queue pair holds the packet back.
    Pace,
    /// The request is fenced, and READs or atomics before it are not answered.
    Fence,
    /// The send queue is being drained: no request begins.
    Drain,
    /// The request cannot be sent at all, and fails when those before it are done.
    Failure,
    /// The path to the peer is full: see [`crate::Endpoint::poll_transmit_but`].
    Path,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rnr => "a peer without a receive",
            Self::Window => "the window",
            Self::ReadLimit => "the READ limit",
            Self::Pace => "pacing",
            Self::Fence => "a fence",
            Self::Drain => "draining",
            Self::Failure => "a request that fails",
            Self::Path => "a full path",
        })
    }
}
