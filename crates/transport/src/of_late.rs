//! The shortest round trip of late, and the longest.

use rdma::{Span, Time};

/// One of what was measured, for as long as it is told, and up to twice as long.
#[derive(Clone, Copy, Debug, Default)]
struct OfLate {
    /// Of the present stretch of time, and of the one before.
    stretches: [Option<Span>; 2],
    /// When the present one began.
    since: Time,
}

impl OfLate {
    fn measured(&mut self, now: Time, took: Span, known: Span, which: fn(Span, Span) -> Span) {
        if now.since(self.since) >= known {
            (self.stretches, self.since) = ([None, self.stretches[0]], now);
        }
        let [present, _] = &mut self.stretches;
        *present = Some(present.map_or(took, |it| which(it, took)));
    }

    fn get(&self, which: fn(Span, Span) -> Span) -> Option<Span> {
        self.stretches.into_iter().flatten().reduce(which)
    }
}

/// The shortest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shortest(OfLate);

impl Shortest {
    /// A round trip was measured.
    pub(crate) fn measured(&mut self, now: Time, took: Span, known: Span) {
        self.0.measured(now, took, known, Span::min);
    }

    pub(crate) fn get(&self) -> Option<Span> {
        self.0.get(Span::min)
    }
}

/// The longest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest(OfLate);

impl Longest {
    /// A round trip was measured.
    pub(crate) fn measured(&mut self, now: Time, took: Span, known: Span) {
        self.0.measured(now, took, known, Span::max);
    }

    pub(crate) fn get(&self) -> Option<Span> {
        self.0.get(Span::max)
    }
}
