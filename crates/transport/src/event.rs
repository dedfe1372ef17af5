//! What the driver is told of, beside completions.

use rdma::Qpn;

use crate::{CqId, SrqId};

/// Something that happened (asynchronous events: IBTA vol 1, 11.6.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A completion entered an armed queue: its completion channel is to be signalled.
    CompletionNotify(CqId),
    /// A completion was lost because the queue was full; its queue pairs fail.
    CqError(CqId),
    /// The queue pair left its state by itself, for ERROR or SQE: [`crate::Endpoint::failure`] says why. It is no
    /// event of the specification, and comes before those that are.
    QpFailed(Qpn),
    /// The queue pair failed.
    QpFatal(Qpn),
    /// The responder refused a request as invalid, and the queue pair failed.
    QpRequestError(Qpn),
    /// The responder refused a request for its key or rights, and the queue pair failed.
    QpAccessError(Qpn),
    /// The first packet arrived at a queue pair that is ready to receive, but not yet to send.
    CommunicationEstablished(Qpn),
    /// The send queue is drained.
    SqDrained(Qpn),
    /// A queue pair with a shared receive queue has failed and takes no more requests from it.
    LastWqeReached(Qpn),
    /// The shared receive queue holds fewer requests than its limit; the limit is disarmed.
    SrqLimitReached(SrqId),
}
