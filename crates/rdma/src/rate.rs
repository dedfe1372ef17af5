//! Rates in whole bits per second.

use core::fmt;

use crate::Span;

/// How fast data flows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Nothing flows.
    pub const ZERO: Self = Self(0);

    /// A rate of `bits` per second.
    pub const fn from_bps(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `megabits` (10^6) per second.
    pub const fn from_mbps(megabits: u64) -> Self {
        Self(megabits.saturating_mul(1_000_000))
    }

    /// A rate of `gigabits` (10^9) per second.
    pub const fn from_gbps(gigabits: u64) -> Self {
        Self(gigabits.saturating_mul(1_000_000_000))
    }

    /// In bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// How long `bytes` take, rounded up; the longest span at [`Rate::ZERO`].
    pub const fn time_of(self, bytes: u64) -> Span {
        const PS_PER_SECOND: u128 = 1_000_000_000_000;
        if self.0 == 0 {
            return Span::from_ps(u64::MAX);
        }
        let ps = (bytes as u128 * 8 * PS_PER_SECOND).div_ceil(self.0 as u128);
        Span::from_ps(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000_000 => (1_000, "kb/s"),
            1_000_000..1_000_000_000 => (1_000_000, "Mb/s"),
            _ => (1_000_000_000, "Gb/s"),
        };
        write!(f, "{}.{:03} {name}", self.0 / unit, self.0 % unit * 1_000 / unit)
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn a_packet_takes_its_bits_over_the_rate() {
        assert_eq!(Rate::from_gbps(40).time_of(1_000), Span::from_ns(200));
        assert_eq!(Rate::from_gbps(100).time_of(1), Span::from_ps(80));
        // 8 / 3 s, rounded up.
        assert_eq!(Rate::from_bps(3).time_of(1), Span::from_ps(2_666_666_666_667));
    }

    #[test]
    fn what_never_ends_ends_late() {
        assert_eq!(Rate::ZERO.time_of(0), Span::from_ps(u64::MAX));
        assert_eq!(Rate::from_bps(1).time_of(u64::MAX), Span::from_ps(u64::MAX));
    }

    #[test]
    fn a_rate_prints_in_the_unit_that_fits() {
        assert_eq!(format!("{}", Rate::from_gbps(40)), "40.000 Gb/s");
        assert_eq!(format!("{}", Rate::from_bps(1_234_567)), "1.234 Mb/s");
        assert_eq!(format!("{}", Rate::from_bps(999)), "0.999 kb/s");
    }
}
