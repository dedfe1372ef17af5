//! Completion queues.

use alloc::collections::VecDeque;

use rdma::{Completion, CompletionStatus, Qpn};

use crate::Event;
use crate::mutation::{Mutation, mutated};

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CqId(pub u32);

impl CqId {
    /// What an XRC target completes to: nothing.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// Which completion raises an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Notify {
    /// The next one.
    Next,
    /// The next solicited or unsuccessful one (IBTA vol 1, 11.4.2.2).
    Solicited,
}

/// A completion queue and who is to be told of it.
///
/// **Invariant:** never more completions than `capacity`. One too many is lost, and said so: the
/// queue is in overrun from then on (IBTA vol 1, 10.2.8.3).
#[derive(Debug)]
pub(crate) struct Cq {
    queue: VecDeque<Completion>,
    capacity: u32,
    armed: Option<Notify>,
    overrun: bool,
    /// How many queues of queue pairs complete here.
    pub(crate) users: u32,
}

impl Cq {
    pub(crate) fn new(capacity: u32) -> Self {
        Self { queue: VecDeque::new(), capacity, armed: None, overrun: false, users: 0 }
    }

    /// Adds a completion. Returns what the driver must be told.
    pub(crate) fn push(&mut self, id: CqId, completion: Completion) -> Option<Event> {
        if self.queue.len() >= self.capacity as usize {
            let first = !core::mem::replace(&mut self.overrun, true);
            return first.then_some(Event::CqError(id));
        }
        let notable = completion.solicited || completion.status != CompletionStatus::Success;
        if mutated(Mutation::CompletionsReversed) {
            self.queue.push_front(completion);
        } else {
            self.queue.push_back(completion);
        }
        let notify = match self.armed {
            None => false,
            Some(Notify::Next) => true,
            Some(Notify::Solicited) => notable,
        };
        if notify {
            self.armed = None;
        }
        notify.then_some(Event::CompletionNotify(id))
    }

    pub(crate) fn pop(&mut self) -> Option<Completion> {
        self.queue.pop_front()
    }

    /// Takes back what was not fetched of a queue pair that begins anew.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        self.queue.retain(|completion| completion.qpn != qpn);
    }

    pub(crate) fn arm(&mut self, notify: Notify) {
        // Once asked for every completion, a later request for solicited ones only does not
        // weaken it (IBTA vol 1, 11.4.2.2).
        if self.armed != Some(Notify::Next) {
            self.armed = Some(notify);
        }
    }

    /// Changes the capacity; refused if more completions wait than fit.
    pub(crate) fn resize(&mut self, capacity: u32) -> bool {
        let fits = self.queue.len() <= capacity as usize;
        if fits {
            self.capacity = capacity;
        }
        fits
    }
}
