//! Time in integer picoseconds, so that a simulation gives the same bytes on every machine.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// A point in time since whatever the driver of the engine calls the beginning (the process start on
/// sockets, zero in a simulation).
///
/// ```text
///   ticks  0 ──────── 1 ps each ──► FINE_TICKS ────── 1 ns each ────────► 2^64
///   time   0                             104 days                          299 years
/// ```
///
/// 64 bits of picoseconds end after 213 days, which processes outlive. So ticks are longer from the
/// 104th day on, where nobody simulates; a time in between is the next tick. Ticks compare as times do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

/// How many ticks are picoseconds: those of 2^53 ns.
const FINE_TICKS: u64 = 1_000 << 53;

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// After every other time.
    pub const MAX: Self = Self(u64::MAX);

    /// The time `ps` picoseconds after the beginning.
    #[inline]
    pub const fn from_ps(ps: u64) -> Self {
        if ps < FINE_TICKS {
            Self(ps)
        } else {
            Self(FINE_TICKS + (ps - FINE_TICKS).div_ceil(1_000))
        }
    }

    /// The time `ns` nanoseconds after the beginning.
    #[inline]
    pub const fn from_ns(ns: u64) -> Self {
        if ns < FINE_TICKS / 1_000 {
            Self(ns * 1_000)
        } else {
            Self(FINE_TICKS.saturating_add(ns - FINE_TICKS / 1_000))
        }
    }

    /// Picoseconds since the beginning; the most that 64 bits hold, if it is more.
    #[inline]
    pub const fn as_ps(self) -> u64 {
        if self.0 < FINE_TICKS {
            self.0
        } else {
            FINE_TICKS.saturating_add((self.0 - FINE_TICKS).saturating_mul(1_000))
        }
    }

    /// Whole nanoseconds since the beginning.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        if self.0 < FINE_TICKS {
            self.0 / 1_000
        } else {
            FINE_TICKS / 1_000 + (self.0 - FINE_TICKS)
        }
    }

    /// How long ago `earlier` was; zero if it is in the future, and [`Span::MAX`] at most.
    #[inline]
    pub const fn since(self, earlier: Self) -> Span {
        if self.0 < FINE_TICKS {
            Span(self.0.saturating_sub(earlier.0))
        } else {
            self.since_coarse(earlier)
        }
    }

    /// [`Time::since`], of a time in nanosecond ticks.
    #[cold]
    const fn since_coarse(self, earlier: Self) -> Span {
        if earlier.0 >= FINE_TICKS {
            return Span(self.0.saturating_sub(earlier.0).saturating_mul(1_000));
        }
        Span((self.0 - FINE_TICKS).saturating_mul(1_000).saturating_add(FINE_TICKS - earlier.0))
    }

    /// A sum that has a time in nanosecond ticks.
    #[cold]
    const fn plus_coarse(self, span: Span) -> Self {
        if self.0 >= FINE_TICKS {
            return Self(self.0.saturating_add(span.0.div_ceil(1_000)));
        }
        Self(FINE_TICKS + (span.0 - (FINE_TICKS - self.0)).div_ceil(1_000))
    }

    /// A difference from a time in nanosecond ticks.
    #[cold]
    const fn minus_coarse(self, span: Span) -> Self {
        let coarse = (self.0 - FINE_TICKS).saturating_mul(1_000);
        if span.0 <= coarse {
            return Self(self.0 - span.0 / 1_000);
        }
        Self(FINE_TICKS.saturating_sub(span.0 - coarse))
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// The longest span: 213 days.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// A span of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000_000)
    }

    /// In picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// In whole nanoseconds, rounded up, so that a sleeper does not wake before its time.
    pub const fn as_ns_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }
}

impl Add<Span> for Time {
    type Output = Self;
    #[inline]
    fn add(self, span: Span) -> Self {
        match self.0.checked_add(span.0) {
            Some(sum) if sum < FINE_TICKS => Self(sum),
            _ => self.plus_coarse(span),
        }
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    #[inline]
    fn sub(self, span: Span) -> Self {
        if self.0 < FINE_TICKS {
            Self(self.0.saturating_sub(span.0))
        } else {
            self.minus_coarse(span)
        }
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => (1, "ps"),
            1_000..1_000_000 => (1_000, "ns"),
            1_000_000..1_000_000_000 => (1_000_000, "us"),
            1_000_000_000..1_000_000_000_000 => (1_000_000_000, "ms"),
            _ => (1_000_000_000_000, "s"),
        };
        write!(f, "{}.{:03} {name}", self.0 / unit, self.0 % unit * 1_000 / unit)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Span(self.as_ps()), f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Span(self.as_ps()), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn a_span_prints_in_the_unit_that_fits() {
        assert_eq!(format!("{}", Span::from_ns(4_096)), "4.096 us");
        assert_eq!(format!("{}", Span::from_ps(999)), "999.000 ps");
        assert_eq!(format!("{}", Span::from_ms(1_500)), "1.500 s");
    }

    #[test]
    fn a_time_before_the_beginning_is_the_beginning() {
        assert_eq!(Time::from_ns(1) - Span::from_us(1), Time::ZERO);
        assert_eq!(Time::ZERO.since(Time::from_ns(5)), Span::ZERO);
    }

    #[test]
    fn a_clock_of_nanoseconds_runs_for_centuries() {
        const DAY_NS: u64 = 24 * 3_600 * 1_000_000_000;
        let days = [0, 1, 104, 105, 213, 214, 290, 365, 100 * 365, 290 * 365];
        let times = days.map(|day| Time::from_ns(day * DAY_NS + 7));
        assert_eq!(times.map(Time::as_ns), days.map(|day| day * DAY_NS + 7));
        assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        for time in times {
            let later = time + Span::from_ms(67);
            assert_eq!((later.since(time), later - Span::from_ms(67)), (Span::from_ms(67), time));
            assert_eq!(time.since(later), Span::ZERO);
        }
        assert_eq!(times[9].since(times[0]), Span::MAX);
        assert_eq!(Time::MAX + Span::from_ps(1), Time::MAX);
    }

    #[test]
    fn nothing_is_lost_where_ticks_become_longer() {
        let last = Time::from_ps(FINE_TICKS - 1);
        for ps in [0, 1, 2, 999, 1_000, 1_001, 5_000_001] {
            let (span, up) = (Span::from_ps(ps), ps.saturating_sub(1).div_ceil(1_000) * 1_000);
            let later = last + span;
            assert_eq!(later, Time::from_ps(FINE_TICKS - 1 + ps), "{ps}");
            let passed = if ps == 0 { 0 } else { 1 + up };
            assert_eq!(later.since(last), Span::from_ps(passed), "{ps}");
            assert_eq!(later - later.since(last), last, "{ps}");
        }
        // A deadline is not early.
        let coarse = Time::from_ps(FINE_TICKS);
        assert_eq!((coarse + Span::from_ps(1)).since(coarse), Span::from_ns(1));
        assert_eq!(coarse.as_ps(), FINE_TICKS);
    }
}
