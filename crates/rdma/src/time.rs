//! Time in integer picoseconds, so that a simulation gives the same bytes on every machine.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub};

/// A point in time: picoseconds since whatever the driver of the engine calls the beginning (the
/// process start on sockets, zero in a simulation). 2^64 ps are 213 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// The time `ps` picoseconds after the beginning.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// The time `ns` nanoseconds after the beginning.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// Picoseconds since the beginning.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is in the future.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);

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
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
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
        fmt::Display::fmt(&Span(self.0), f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Span(self.0), f)
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
}
