//! The completion queue of an application, whose entries are seen when the bus has written them.
//!
//! ```text
//!   engine ─ completes ─► written over the bus ─► seen: polled, or an event if it is armed
//! ```

use std::collections::VecDeque;

use rdma::{Completion, CompletionStatus};

/// See the module. Times are in picoseconds.
#[derive(Debug)]
pub(super) struct Queue {
    /// Each with the time from which it is seen, which never decreases, and with that at which the NIC completed it.
    entries: VecDeque<(u64, u64, Completion)>,
    depth: usize,
    armed: Option<Notify>,
    /// When an event that nobody has taken is raised.
    event_at: Option<u64>,
    /// One was too many.
    pub(super) overrun: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Notify {
    Next,
    Solicited,
}

impl Queue {
    pub(super) fn new(depth: u32) -> Self {
        Self {
            entries: VecDeque::new(),
            depth: depth as usize,
            armed: None,
            event_at: None,
            overrun: false,
        }
    }

    /// A completion of `written_at`, which is seen at `seen_at`, but not before the one ahead of it.
    pub(super) fn push(&mut self, (written_at, seen_at): (u64, u64), completion: Completion) {
        if self.entries.len() >= self.depth {
            self.overrun = true;
            return;
        }
        let seen_at = self.entries.back().map_or(seen_at, |last| seen_at.max(last.0));
        let is_notable = completion.solicited || completion.status != CompletionStatus::Success;
        if self.armed == Some(Notify::Next) || (self.armed.is_some() && is_notable) {
            self.armed = None;
            self.event_at = Some(seen_at);
        }
        self.entries.push_back((seen_at, written_at, completion));
    }

    /// Asks for an event at `now`. What has completed and is not seen yet raises it.
    pub(super) fn arm(&mut self, now: u64, solicited: bool) {
        if let Some((seen_at, ..)) = self.entries.iter().find(|(seen_at, ..)| *seen_at > now) {
            self.event_at.get_or_insert(*seen_at);
            return;
        }
        // A request for every completion is not weakened by a later one for some.
        if self.armed != Some(Notify::Next) {
            self.armed = Some(if solicited { Notify::Solicited } else { Notify::Next });
        }
    }

    /// Whether an event was raised, or will be.
    pub(super) fn expects_event(&self) -> bool {
        self.armed.is_some() || self.event_at.is_some()
    }

    /// When the event is raised that nobody has taken.
    pub(super) fn event_at(&self) -> Option<u64> {
        self.event_at
    }

    /// Takes the event.
    pub(super) fn take_event(&mut self) {
        self.event_at = None;
    }

    /// When the oldest completion is seen.
    pub(super) fn seen_at(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.0)
    }

    /// Takes the oldest of what is seen at `now`, `most` at most, each with when the NIC completed it.
    pub(super) fn take(
        &mut self,
        now: u64,
        most: usize,
    ) -> impl Iterator<Item = (Completion, u64)> {
        let seen = self.entries.iter().take_while(|(seen_at, ..)| *seen_at <= now).count();
        let taken = self.entries.drain(..seen.min(most));
        taken.map(|(_, written_at, completion)| (completion, written_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(seen: &[u64]) -> Queue {
        let mut queue = Queue::new(3);
        for &at in seen {
            queue.push((at, at), Completion::NOTHING);
        }
        queue
    }

    #[test]
    fn what_is_not_seen_yet_is_not_polled() {
        let mut queue = queue(&[10, 5, 20]);
        assert_eq!([9, 10, 19, 20].map(|now| queue.take(now, 4).count()), [0, 2, 0, 1]);
    }

    #[test]
    fn an_event_tells_of_what_comes_after_the_arming() {
        let mut idle = queue(&[10]);
        idle.arm(10, false);
        assert_eq!(idle.event_at(), None);
        idle.push((30, 30), Completion::NOTHING);
        assert_eq!(idle.event_at(), Some(30));
        // Completed before, and seen after: nobody would hear of it otherwise.
        let mut late = queue(&[10, 25]);
        late.arm(20, false);
        assert_eq!(late.event_at(), Some(25));
    }

    #[test]
    fn a_solicited_event_waits_for_a_solicited_completion() {
        let mut queue = queue(&[]);
        queue.arm(0, true);
        queue.push((1, 1), Completion::NOTHING);
        assert_eq!(queue.event_at(), None);
        queue.push((2, 2), Completion { solicited: true, ..Completion::NOTHING });
        assert_eq!(queue.event_at(), Some(2));
    }

    #[test]
    fn one_too_many_is_an_overrun() {
        assert!(!queue(&[1, 2, 3]).overrun);
        assert!(queue(&[1, 2, 3, 4]).overrun);
    }
}
