//! What a busy wait has taken from a completion queue in advance, for the application's next poll.

use core::ops::Range;

use rdma::Completion;

use crate::limits::STASH;

/// See the module.
#[derive(Debug)]
pub(super) struct Stash {
    taken: [Completion; STASH],
    /// What of it is still to be polled.
    left: Range<usize>,
}

impl Default for Stash {
    fn default() -> Self {
        Self { taken: [Completion::NOTHING; STASH], left: 0..0 }
    }
}

impl Stash {
    /// A poll: what was taken in advance comes first.
    pub(super) fn poll(
        &mut self,
        out: &mut [Completion],
        poll: impl FnOnce(&mut [Completion]) -> usize,
    ) -> usize {
        if self.left.is_empty() {
            return poll(out);
        }
        let count = self.left.len().min(out.len());
        let from = self.left.start;
        out[..count].copy_from_slice(&self.taken[from..from + count]);
        self.left.start += count;
        count
    }

    /// A look: whether there is something to poll.
    pub(super) fn look(&mut self, poll: impl FnOnce(&mut [Completion]) -> usize) -> bool {
        if self.left.is_empty() {
            self.left = 0..poll(&mut self.taken);
        }
        !self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_takes_what_the_next_polls_get_in_order() {
        let mut stash = Stash::default();
        let more = |out: &mut [Completion]| {
            (0..3).for_each(|id| out[id].id = 10 + id as u64);
            3
        };
        assert!(stash.look(more) && stash.look(|_| panic!("there is something still")));
        let mut out = [Completion::NOTHING; 2];
        assert_eq!(stash.poll(&mut out, |_| panic!("there is something still")), 2);
        assert_eq!([out[0].id, out[1].id], [10, 11]);
        assert_eq!((stash.poll(&mut out, |_| 7), out[0].id), (1, 12));
        assert_eq!(stash.poll(&mut out, |_| 7), 7);
        assert!(!stash.look(|_| 0));
    }
}
