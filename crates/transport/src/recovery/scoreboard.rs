//! What a requester knows of its packets beyond the cumulative acknowledgement.
//!
//! ```text
//!        unacked          resent_until        lost_until            top
//!   ───────┼──────────────────┼───────────────────┼──────────────────┼───
//!          │ gaps were sent   │ gaps are lost,    │ nothing is       │ not
//!          │ again            │ and sent next     │ known yet        │ sent
//! ```
//!
//! What arrives shows that all before it has arrived or is lost. A request has arrived if a
//! selective acknowledgement says so, or if one behind it was executed; a READ or an atomic is done
//! only when its responses are here, too.

use rdma::Psn;
use wire::saeth;

use super::{Bounds, Window};
use crate::limits::OUT_OF_ORDER_PACKETS_MAX;
use crate::mutation::{Mutation, mutated};

const WORDS: usize = OUT_OF_ORDER_PACKETS_MAX as usize / 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    pub(crate) bounds: Bounds,
    unacked: Psn,
    /// Requests that wait at the responder: a bit for each PSN from `unacked` on, at the PSN modulo
    /// the number of bits.
    arrived: [u64; WORDS],
    /// Responses that came before their turn.
    pub(crate) responses: Window,
    /// Requests before it have been executed.
    executed_until: Psn,
    lost_until: Psn,
    resent_until: Psn,
    /// What was sent first after the last packet that was sent again. If something from there on
    /// arrives, that packet should have.
    resent_before: Psn,
}

impl Scoreboard {
    /// Nothing before `psn` has been sent, and nothing from it on.
    pub(crate) fn new(bounds: Bounds, psn: Psn) -> Self {
        Self {
            bounds,
            unacked: psn,
            arrived: [0; WORDS],
            responses: Window::new(bounds, psn),
            executed_until: psn,
            lost_until: psn,
            resent_until: psn,
            resent_before: psn,
        }
    }

    /// Everything before `unacked` is done.
    pub(crate) fn advance(&mut self, unacked: Psn) {
        let passed = unacked.distance_from(self.unacked);
        if passed >= OUT_OF_ORDER_PACKETS_MAX {
            self.arrived = [0; WORDS];
        } else {
            for distance in 0..passed {
                let (word, bit) = place(self.unacked.plus(distance));
                self.arrived[word] &= !bit;
            }
        }
        self.unacked = unacked;
        self.responses.advance(unacked);
        for mark in [
            &mut self.executed_until,
            &mut self.lost_until,
            &mut self.resent_until,
            &mut self.resent_before,
        ] {
            if mark.is_before(unacked) {
                *mark = unacked;
            }
        }
    }

    /// Takes nothing for granted that was said of packets behind the gap: all that was sent before
    /// `top` is sent again.
    pub(crate) fn forget(&mut self, top: Psn) {
        self.arrived = [0; WORDS];
        self.lost_until = top;
        self.resent_until = self.unacked;
        self.resent_before = top;
    }

    /// The packets of `ranges` behind `missing` have arrived. The caller has checked that they were
    /// sent.
    pub(crate) fn record(&mut self, missing: Psn, selective: &saeth::Repr) {
        self.seen(missing.next());
        for range in selective.ranges.iter().filter(|range| range.packets > 0) {
            for distance in u32::from(range.first)..range.end() {
                let psn = missing.plus(distance);
                if psn.distance_from(self.unacked) < OUT_OF_ORDER_PACKETS_MAX {
                    let (word, bit) = place(psn);
                    self.arrived[word] |= bit;
                }
            }
            self.seen(missing.plus(range.end()));
        }
    }

    /// Requests before `end` have been executed.
    pub(crate) fn executed(&mut self, end: Psn) {
        if end.is_after(self.executed_until) {
            self.executed_until = end;
        }
        self.seen(end);
    }

    pub(crate) fn executed_until(&self) -> Psn {
        self.executed_until
    }

    /// Something before `end` has arrived, so what is missing before that is lost; once more, if it
    /// had been sent again before.
    fn seen(&mut self, end: Psn) {
        if end.is_after(self.resent_before) {
            self.resent_until = self.unacked;
        }
        if end.is_after(self.lost_until) {
            self.lost_until = end;
        }
    }

    /// Where to look for lost packets, if there may be any that have not been sent again.
    pub(crate) fn suspects(&self) -> Option<(Psn, Psn)> {
        let some = self.resent_until.is_before(self.lost_until);
        some.then_some((self.resent_until, self.lost_until))
    }

    /// All lost packets have been sent again.
    pub(crate) fn all_resent(&mut self) {
        self.resent_until = self.lost_until;
    }

    /// A lost packet is sent again, before `top`.
    pub(crate) fn resent(&mut self, end: Psn, top: Psn) {
        if end.is_after(self.resent_until) {
            self.resent_until = end;
        }
        self.resent_before = top;
    }

    /// Whether the packet `psn` is not known to have arrived; of a READ or an atomic, the response.
    pub(crate) fn is_missing(&self, psn: Psn, is_answered: bool) -> bool {
        if psn.is_before(self.executed_until) {
            let is_answered = is_answered && !mutated(Mutation::AnswerNotAskedAgain);
            return is_answered && !self.responses.has(psn);
        }
        let (word, bit) = place(psn);
        let known = psn.distance_from(self.unacked) < OUT_OF_ORDER_PACKETS_MAX;
        !(known && self.arrived[word] & bit != 0)
    }

    /// Takes `psn`, which was sent last, for lost.
    pub(crate) fn lose(&mut self, psn: Psn) {
        let (word, bit) = place(psn);
        self.arrived[word] &= !bit;
        if psn.is_before(self.resent_until) {
            self.resent_until = psn;
        }
        if !psn.is_before(self.lost_until) {
            self.lost_until = psn.next();
        }
    }
}

/// The word of a PSN's bit, and the bit.
fn place(psn: Psn) -> (usize, u64) {
    let index = psn.value() % OUT_OF_ORDER_PACKETS_MAX;
    (index as usize / 64, 1 << (index % 64))
}
