//! The rate of a link, prepared for converting bytes to time often.

use rdma::{Rate, Span};

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// A rate, and what a byte takes at it.
///
/// At the rates of real links a byte takes whole picoseconds, 200 of them at 40 Gb/s, and a frame is
/// one multiplication. At any other rate a frame is rounded up to a picosecond.
///
/// In one number: picoseconds of a byte, with [`WHOLE`] set, or bits of a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LineRate(u64);

const WHOLE: u64 = 1 << 63;

impl LineRate {
    pub(crate) const fn new(rate: Rate) -> Self {
        let bits = rate.as_bps();
        let whole = bits > 0 && (8 * PS_PER_SECOND).is_multiple_of(bits);
        let byte_ps = if whole { 8 * PS_PER_SECOND / bits } else { 0 };
        // No frame is so long that the product does not fit.
        let is_exact = byte_ps > 0 && byte_ps <= u32::MAX as u64;
        Self(if is_exact { WHOLE | byte_ps } else { bits & !WHOLE })
    }

    /// The rate itself.
    pub(crate) const fn rate(self) -> Rate {
        let whole = self.0 & WHOLE != 0;
        Rate::from_bps(if whole { 8 * PS_PER_SECOND / (self.0 & !WHOLE) } else { self.0 })
    }

    /// How long `bytes` take, in picoseconds.
    #[inline]
    pub(crate) const fn ps(self, bytes: u64) -> u64 {
        if self.0 & WHOLE != 0 {
            bytes * (self.0 & !WHOLE)
        } else {
            Rate::from_bps(self.0).time_of(bytes).as_ps()
        }
    }
}

/// How many whole bytes pass at `rate` in `span`.
pub(crate) const fn bytes_in(rate: Rate, span: Span) -> u64 {
    let bits = span.as_ps() as u128 * rate.as_bps() as u128;
    (bits / (8 * PS_PER_SECOND as u128)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_rates_are_exact() {
        for (gbps, byte_ps) in [(1, 8_000), (10, 800), (25, 320), (40, 200), (100, 80), (400, 20)] {
            let rate = Rate::from_gbps(gbps);
            assert_eq!(LineRate::new(rate).ps(1086), 1086 * byte_ps);
            assert_eq!(bytes_in(rate, Span::from_ps(1086 * byte_ps)), 1086);
            assert_eq!(bytes_in(rate, Span::from_ps(1086 * byte_ps - 1)), 1085);
        }
    }

    #[test]
    fn other_rates_round_a_frame_up() {
        let rate = LineRate::new(Rate::from_mbps(3));
        assert_eq!((rate.ps(1), rate.ps(3)), (2_666_667, 8_000_000));
        assert_eq!(LineRate::new(Rate::ZERO).ps(1), u64::MAX);
    }
}
