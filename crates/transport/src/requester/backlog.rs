//! What waits to be sent, for a driver that would rather send much at once.

use rdma::Time;

use crate::qp::Qp;
use crate::timer::Timer;

/// What has been posted and not sent yet, as far as it matters to whether a queue pair's request
/// may wait.
///
/// Sending is worth a call of the kernel, whether for one packet or sixty, of one queue pair or of
/// many. Where packets are in flight and the last of them has asked for an acknowledgement, the
/// engine is called again without any further call of the application: when that arrives, or when
/// the timer that waits for it runs out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backlog {
    /// Requests of the queue pair that have been sent, and are neither acknowledged nor answered.
    pub in_flight: usize,
    /// Requests that have been posted, to any queue pair, since the driver last took out all that
    /// there was to send.
    pub waiting: usize,
    /// The bytes of their messages.
    pub waiting_bytes: u64,
    /// Whether an acknowledgement has been asked for that covers all that the queue pair has sent,
    /// and a timer waits for it; or that of the last queue pair that asked for one is as surely due,
    /// and was asked for not long ago. What took longer may be lost, or its peer be gone, and the
    /// one shall not wait for the timeout of the other.
    pub is_answer_due: bool,
}

impl Qp {
    /// Requests that have been sent, and are neither acknowledged nor answered.
    pub(crate) fn in_flight(&self) -> usize {
        let requester = &self.requester;
        let next = usize::try_from(requester.cursor.0 - requester.first_serial);
        next.unwrap_or(usize::MAX).min(requester.queue.len())
    }

    /// Whether the window was full when something was last to be sent.
    pub(crate) fn awaits_room(&self) -> bool {
        self.requester.filled
    }

    /// Since when an acknowledgement is due that covers all that was sent, and is waited for.
    pub(crate) fn answer_due_since(&self) -> Option<Time> {
        let is_due = self.requester.unasked == 0 && self.timers.is_running(Timer::Retransmit);
        is_due.then_some(self.requester.asked_at)
    }
}
