//! The shortest round trip of late, the longest, and the usual one.

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
        let lasted = now.since(self.since);
        if lasted >= known {
            // All of it was measured in the beginning, if nothing was for long.
            let before = self.stretches[0].filter(|_| lasted < known * 2);
            (self.stretches, self.since) = ([None, before], now);
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

    /// What round trips tell of it that took so long, of which the `oldest` overtook no other: what did tells something as long as
    /// nothing is known.
    pub(crate) fn told_by(&self, took: Span, oldest: Option<Span>) -> Option<Span> {
        oldest.or(self.get().is_none().then_some(took))
    }
}

/// The lower median of the last few round trips: a path is not as short as it was for single packets that overtook others, nor as long
/// as for those of a host that was late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usual<const OF: usize = 8>(Option<[Span; OF]>);

impl<const OF: usize> Usual<OF> {
    /// A round trip was measured. Returns what is usual now.
    pub(crate) fn measured(&mut self, took: Span) -> Span {
        let last = self.0.get_or_insert([took; OF]);
        last.rotate_left(1);
        last[OF - 1] = took;
        let mut sorted = *last;
        *sorted.select_nth_unstable((OF - 1) / 2).1
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_told_as_long_as_it_is_known_and_not_after_a_pause() {
        let (known, mut shortest) = (Span::from_ms(10), Shortest::default());
        let mut told = |ms, took| {
            shortest.measured(Time::ZERO + Span::from_ms(ms), Span::from_us(took), known);
            shortest.get()
        };
        assert_eq!(told(0, 5), Some(Span::from_us(5)));
        assert_eq!(told(9, 7), Some(Span::from_us(5)));
        assert_eq!(told(19, 8), Some(Span::from_us(5)), "of the stretch before");
        assert_eq!(told(29, 9), Some(Span::from_us(8)));
        assert_eq!(told(3_600_000, 40), Some(Span::from_us(40)));
    }
}
