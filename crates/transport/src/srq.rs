//! Shared receive queues (IBTA vol 1, 10.2.9).

use crate::mutation::{Mutation, mutated};
use crate::recv::{RecvQueue, RecvWqe};
use crate::{CqId, Event, PdId, SrqId, XrcdId};

/// The sizes of a shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqAttributes {
    /// Requests that it holds.
    pub max_wr: u32,
    /// Pieces of a request's scatter list.
    pub max_sge: u32,
    /// When fewer requests than this are left, [`crate::Event::SrqLimitReached`] is raised once;
    /// 0 disarms.
    pub limit: u32,
}

#[derive(Debug)]
pub(crate) struct Srq {
    pub(crate) pd: PdId,
    pub(crate) queue: RecvQueue,
    pub(crate) limit: u32,
    /// How many queue pairs take from it.
    pub(crate) users: u32,
    /// Of XRC: its domain, and where its receives complete.
    pub(crate) xrc: Option<(XrcdId, CqId)>,
}

impl Srq {
    pub(crate) fn new(pd: PdId, attributes: SrqAttributes) -> Self {
        let queue = RecvQueue::new(attributes.max_wr, attributes.max_sge);
        Self { pd, queue, limit: attributes.limit, users: 0, xrc: None }
    }

    pub(crate) fn attributes(&self) -> SrqAttributes {
        SrqAttributes { max_wr: self.queue.max_wr, max_sge: self.queue.max_sge, limit: self.limit }
    }

    /// Takes the oldest request; the second part is what the driver must be told.
    pub(crate) fn take(&mut self, id: SrqId) -> (Option<RecvWqe>, Option<Event>) {
        let wqe = self.queue.take();
        // IBTA vol 1, 10.2.9.4: the event is raised once when the queue falls below the limit.
        let reached = self.limit > 0 && self.queue.len() < self.limit as usize;
        if reached {
            self.limit = 0;
        }
        let reached = reached && !mutated(Mutation::LimitUnsaid);
        (wqe, reached.then_some(Event::SrqLimitReached(id)))
    }
}
