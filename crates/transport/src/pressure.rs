//! What waits to be sent, for a driver that would rather send much at once.
//!
//! Sending is worth a call of the kernel, whether for one packet or sixty, of one queue pair or of
//! many. Where packets are in flight and the last of them has asked for an acknowledgement, the
//! engine is called again without any further call of the application: when that arrives, or when
//! the timer that waits for it runs out. So what waits meanwhile may wait until then.

use rdma::Time;

/// What has been posted and not sent yet, and which answers will have the engine called again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Requests that have been posted, to any queue pair, since the driver last took out all that
    /// there was to send.
    pub waiting: usize,
    /// The bytes of their messages.
    pub waiting_bytes: u64,
    /// What the queue pair that was asked about has in flight.
    pub own: Flight,
    /// What the queue pair has in flight that last asked for an acknowledgement. If the answer is
    /// long due it may be lost, or the peer be gone: others should not wait for its timeout.
    pub last: Flight,
}

/// What one queue pair has in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flight {
    /// Requests that have been sent, and are neither acknowledged nor answered.
    pub requests: usize,
    /// When an acknowledgement was asked for that covers all that was sent, if a timer waits for it.
    pub answer_due_since: Option<Time>,
    /// Whether there is more to send than the window takes. It goes on as soon as an acknowledgement
    /// comes, without any further call of the application.
    pub is_window_full: bool,
}
