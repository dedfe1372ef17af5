//! The shortest round trip of late.

use rdma::{Span, Time};

/// See the module. What was measured is known for as long as it is told, and up to twice as long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shortest {
    /// Of the present stretch of time, and of the one before.
    stretches: [Option<Span>; 2],
    /// When the present one began.
    since: Time,
}

impl Shortest {
    /// A round trip was measured.
    pub(crate) fn measured(&mut self, now: Time, took: Span, known: Span) {
        if now.since(self.since) >= known {
            (self.stretches, self.since) = ([None, self.stretches[0]], now);
        }
        let [present, _] = &mut self.stretches;
        *present = Some(present.map_or(took, |it| it.min(took)));
    }

    pub(crate) fn get(&self) -> Option<Span> {
        self.stretches.into_iter().flatten().min()
    }
}
