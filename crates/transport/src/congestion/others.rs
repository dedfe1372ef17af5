//! Whether the others that share a queue have made room in it, as those do whose packets were dropped when it was full.
//!
//! ```text
//!   round trip
//!     ▲  full  ___
//!     │     ,-´   \
//!     │  ,-´       \___,-      a part of all that was under way is gone, and none of it was ours
//!     └──────────────────► time
//! ```
//!
//! A full queue drops more of bursts, as TCP sends them, than of what is paced. So a TCP's window fell two to five times where that of
//! a flow beside it fell once, and of a queue that both had filled the flow had the most. Who falls with the others has no more than
//! they have.
//!
//! Not to be taken for it: what a flow's own window and pace do, what all flows do at once when they drain the queue, by how much packets
//! differ that overtake each other, and a host that was late for a round.

use core::mem::replace;

use rdma::{Span, Time};

use super::depth::Queue;
use crate::limits::{
    BBR_OTHERS_FELL_PERCENT, BBR_OTHERS_FULL_PERCENT, BBR_QUEUE_SEEN, BBR_REFILL_ROUNDS,
};

/// See the module. All are what is usual of the shortest round trips of rounds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Others {
    /// The last.
    last: Span,
    /// The longest since they grow; none as long as they fall.
    peak: Option<Span>,
    /// Rounds to come that say nothing.
    waits: u32,
    /// When the last one ended.
    ended: Time,
}

impl Others {
    /// The flow's own window falls.
    pub(super) fn fell_ourselves(&mut self) {
        self.peak = None;
    }

    /// All drain the queue in this round, and fill it again in those that follow.
    pub(super) fn drained(&mut self) {
        self.waits = BBR_REFILL_ROUNDS;
    }

    /// A round has ended, in which the flow kept to its pace, and in those before that may be heard of in it, if `is_even`.
    /// Returns whether others fell when the queue was full.
    pub(super) fn end_round(&mut self, now: Time, queue: &Queue, is_even: bool) -> bool {
        let last = replace(&mut self.last, queue.usual);
        let took = now.since(replace(&mut self.ended, now));
        if took > queue.most * 2 {
            // It had nothing to send for a while.
            self.peak = None;
        }
        if self.waits > 0 {
            self.waits -= 1;
            self.peak = None;
            return false;
        }
        let Some(peak) = self.peak else {
            self.peak = (queue.usual > last).then_some(queue.usual);
            return false;
        };
        if !is_even {
            return false;
        }
        let part_of = |percent: u64, whole: u64| whole / 100 * percent;
        let least = queue.least + queue.spread;
        let has_fallen = least.as_ps() < part_of(100 - BBR_OTHERS_FELL_PERCENT, peak.as_ps());
        self.peak = (!has_fallen).then_some(peak.max(queue.usual));
        has_fallen
            && queue.part(peak) > BBR_QUEUE_SEEN.as_ps()
            && queue.part(peak) >= part_of(BBR_OTHERS_FULL_PERCENT, queue.part(queue.deepest))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// Rounds of which the shortest round trips took so many tenths of a millisecond, where the empty queue's takes 20 and the full
    /// one's 60. Returns in which of them others fell.
    fn rounds(others: &mut Others, tenths: &[u64]) -> Vec<usize> {
        (0..tenths.len()).filter(|&at| round_after(others, Span::ZERO, tenths[at])).collect()
    }

    /// One, after the flow had nothing to send for a while.
    fn round_after(others: &mut Others, pause: Span, tenths: u64) -> bool {
        let queue = queue(tenths);
        others.end_round(others.ended + pause + queue.least, &queue, true)
    }

    fn queue(tenths: u64) -> Queue {
        let [empty, deepest, least] = [20, 60, tenths].map(|tenths| Span::from_us(100 * tenths));
        let (usual, most, longest) = (least, least, deepest);
        Queue { least, usual, most, deepest, longest, empty, spread: Span::ZERO }
    }

    #[test]
    fn others_fell_if_a_full_queue_has_become_shorter_by_an_eighth_of_the_path() {
        let others = &mut Others::default();
        assert_eq!(rounds(others, &[40, 50, 58, 56, 53, 51, 50, 45, 40]), [5], "once");
        assert_eq!(rounds(others, &[45, 50, 54, 47]), [3], "and once more when it was full again");
        assert_eq!(rounds(others, &[40, 51, 40]), [], "it was not full");
    }

    #[test]
    fn what_a_flow_does_itself_is_not_what_others_do() {
        let others = &mut Others::default();
        assert_eq!(rounds(others, &[40, 58]), []);
        others.fell_ourselves();
        assert_eq!(rounds(others, &[50, 40, 30]), []);
        assert_eq!(rounds(others, &[40, 58]), []);
        others.drained();
        assert_eq!(rounds(others, &[30, 40, 58, 40]), []);
        assert_eq!(rounds(others, &[40; BBR_REFILL_ROUNDS as usize]), []);
        assert_eq!(rounds(others, &[50, 58, 40]), [2]);
        assert_eq!(rounds(others, &[50, 58]), []);
        assert!(!round_after(others, Span::from_ms(20), 40), "it was the flow's own part");
    }

    #[test]
    fn rounds_of_another_pace_say_nothing() {
        let others = &mut Others::default();
        assert_eq!(rounds(others, &[40, 58]), []);
        let queue = queue(30);
        let now = others.ended + queue.least;
        assert!(!others.end_round(now, &queue, false));
        let spread = Queue { spread: Span::from_ms(3), ..queue };
        assert!(!others.end_round(now, &spread, true), "packets overtake each other");
        assert!(others.end_round(now, &queue, true));
    }
}
