//! What waits to be sent, for a driver that would rather send much at once.
//!
//! A system call costs about the same for one packet as for sixty, of one queue pair or of many. If
//! packets are in flight and the last of them requests an acknowledgement, the engine is called
//! again without the application: when that arrives, or when its timer expires. Requests that wait
//! may wait until then.

use rdma::Time;

/// What has been posted and not sent, and which acknowledgements are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Requests posted to any queue pair since the driver last took out all packets.
    pub waiting: usize,
    /// The bytes of their messages.
    pub waiting_bytes: u64,
    /// What the queue pair that was asked about has in flight.
    pub own: Flight,
    /// What is in flight at the queue pair that last requested an acknowledgement. If that is long
    /// due it may be lost, or the peer gone: others should not wait for its timeout.
    pub last: Flight,
}

/// What one queue pair has in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flight {
    /// Requests that have been sent, and are neither acknowledged nor answered.
    pub requests: usize,
    /// When an acknowledgement of everything sent was requested, if its timer runs.
    pub answer_due_since: Option<Time>,
    /// Whether there is more to send than the window takes. The next acknowledgement sets it going
    /// again, without a call of the application.
    pub is_window_full: bool,
}
