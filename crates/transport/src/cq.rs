//! Completion queues.

use alloc::collections::VecDeque;

use rdma::{Completion, CompletionStatus, Qpn, Time};

use crate::mutation::{Mutation, mutated};
use crate::{CqId, Event};

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
/// An event announces every completion in the queue. A completion that was added while the queue
/// was not armed is unannounced, and the next arming raises an event at once. Hardware does so, and
/// UCX relies on it: it arms, then sleeps, without another poll.
///
/// **Invariant:** never more completions than `capacity`. One too many is lost and reported, and
/// the queue is in overrun from then on (IBTA vol 1, 10.2.8.3).
#[derive(Debug)]
pub(crate) struct Cq {
    /// Each with the time at which it was written.
    queue: VecDeque<(Completion, Time)>,
    capacity: u32,
    armed: Option<Notify>,
    /// How many of the newest completions are unannounced.
    untold: usize,
    overrun: bool,
    /// How many queues of queue pairs complete here.
    pub(crate) users: u32,
}

impl Cq {
    pub(crate) fn new(capacity: u32) -> Self {
        Self { queue: VecDeque::new(), capacity, armed: None, untold: 0, overrun: false, users: 0 }
    }

    /// Adds a completion. Returns what the driver must be told.
    pub(crate) fn push(&mut self, id: CqId, completion: Completion, now: Time) -> Option<Event> {
        if self.queue.len() >= self.capacity as usize {
            let first = !core::mem::replace(&mut self.overrun, true);
            return first.then_some(Event::CqError(id));
        }
        let notify = match self.armed {
            None => false,
            Some(Notify::Next) => true,
            Some(Notify::Solicited) => {
                is_notable(&completion) || mutated(Mutation::SolicitedTakenForAll)
            }
        };
        if mutated(Mutation::CompletionsReversed) {
            self.queue.push_front((completion, now));
        } else {
            self.queue.push_back((completion, now));
        }
        self.untold += 1;
        notify.then(|| self.tell(id))
    }

    fn tell(&mut self, id: CqId) -> Event {
        if !mutated(Mutation::ArmedForEver) {
            self.armed = None;
        }
        self.untold = 0;
        Event::CompletionNotify(id)
    }

    pub(crate) fn pop(&mut self) -> Option<(Completion, Time)> {
        let completion = self.queue.pop_front();
        self.untold = self.untold.min(self.queue.len());
        completion
    }

    /// Removes the completions of a queue pair that was reset.
    pub(crate) fn forget(&mut self, qpn: Qpn) {
        self.queue.retain(|(completion, _)| completion.qpn != qpn);
        self.untold = self.untold.min(self.queue.len());
    }

    /// Arms the queue. Returns the event if a completion is unannounced.
    pub(crate) fn arm(&mut self, id: CqId, notify: Notify) -> Option<Event> {
        // Once asked for every completion, a later request for solicited ones only does not
        // weaken it (IBTA vol 1, 11.4.2.2).
        if self.armed != Some(Notify::Next) {
            self.armed = Some(notify);
        }
        let mut untold = self.queue.range(self.queue.len() - self.untold..);
        let due = match notify {
            Notify::Next => untold.next().is_some(),
            Notify::Solicited => untold.any(|(completion, _)| is_notable(completion)),
        };
        due.then(|| self.tell(id))
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

/// Whether a request for solicited completions means this one (IBTA vol 1, 11.4.2.2).
fn is_notable(completion: &Completion) -> bool {
    completion.solicited || completion.status != CompletionStatus::Success
}
