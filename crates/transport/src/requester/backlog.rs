//! What waits in a send queue, for a driver that would rather send much at once.

use crate::limits::BACKLOG_REQUESTS;
use crate::qp::Qp;
use crate::timer::Timer;

/// The send queue of one queue pair, as far as it matters to whether it may wait.
///
/// Sending is worth a call of the kernel, whether for one packet or sixty. Where packets are in
/// flight and the last of them has asked for an acknowledgement, the queue pair is looked at again
/// without any further call of the application: when that arrives, or when the timer that waits for
/// it runs out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backlog {
    /// Requests that have been sent, and are neither acknowledged nor answered.
    pub in_flight: usize,
    /// Requests of which nothing has been sent; counted up to [`BACKLOG_REQUESTS`].
    pub waiting: usize,
    /// The bytes of their messages.
    pub waiting_bytes: u64,
    /// Whether an acknowledgement has been asked for that covers all that was sent, and a timer
    /// waits for it.
    pub is_answer_due: bool,
}

impl Qp {
    /// See [`Backlog`].
    pub(crate) fn backlog(&self) -> Backlog {
        let requester = &self.requester;
        let next = usize::try_from(requester.cursor.0 - requester.first_serial);
        let next = next.unwrap_or(usize::MAX).min(requester.queue.len());
        let waiting = requester.queue.range(next..).take(BACKLOG_REQUESTS);
        let waiting_bytes = waiting.clone().map(|wqe| u64::from(wqe.length)).sum();
        Backlog {
            in_flight: next,
            waiting: waiting.len(),
            waiting_bytes,
            is_answer_due: requester.unasked == 0 && self.timers.is_running(Timer::Retransmit),
        }
    }
}
