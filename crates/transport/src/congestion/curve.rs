//! How a ceiling rises again that fell because a queue was full, which a TCP may share: as CUBIC's window does (RFC 9438).
//!
//! ```text
//!     packets
//!       ▲   │                                       ╱
//!       │   │                                     ,´
//!     most..│.........................,---------´
//!       │   │                 ,-´‾‾‾‾
//!       │   │           ,-´‾            most + 0.4 packets/s³ x (t - K)³
//!       │   │       ,-´
//!       │   └────-´
//!       └───┼──────────────────────────┼─────────► time
//!         it fell                      K
//! ```

use rdma::{Span, Time};

/// Of packets: a ceiling rises by less than one in a round.
pub(super) const PARTS: u64 = 64;
/// The curve's C (RFC 9438, 4.1), over a second to the third, is 4 tenths of a packet.
const C: [u64; 2] = [4, 10];
const MS_CUBED: u64 = 1_000_000_000;
/// A curve is not followed for longer: it would be past any window.
const MS_MAX: u64 = 1_000_000;

/// See the module.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Curve {
    since: Time,
    /// In packets, where the curve is flat: near the window that it fell from.
    most: u64,
    /// K, in milliseconds: how long it takes to be there.
    flat_ms: u64,
}

impl Curve {
    /// The ceiling falls at `now`, and had fallen by this curve before. Where it falls from less than the last time
    /// somebody else has begun, and it leaves more to that (4.7).
    pub(super) fn fall(&mut self, now: Time, from: u64, to: u64) {
        let most = if from < self.most { (from * 85 / 100).max(to) } else { from };
        let [parts, whole] = C;
        let flat_ms = cube_root((most - to).saturating_mul(MS_CUBED / parts * whole));
        *self = Self { since: now, most, flat_ms };
    }

    /// The curve at `now`, in parts of packets.
    pub(super) fn at(&self, now: Time) -> u64 {
        let ms = now.since(self.since).as_ps() / Span::from_ms(1).as_ps();
        let off = ms.min(MS_MAX).abs_diff(self.flat_ms);
        let [parts, whole] = C.map(u128::from);
        let cube = u128::from(off).pow(3) * parts * u128::from(PARTS);
        let off = u64::try_from(cube / (whole * u128::from(MS_CUBED))).unwrap_or(u64::MAX);
        let most = self.most.saturating_mul(PARTS);
        if ms > self.flat_ms { most.saturating_add(off) } else { most.saturating_sub(off) }
    }
}

/// Rounded down: bit by bit from the highest on.
fn cube_root(of: u64) -> u64 {
    let bits = (0..=21).rev().map(|bit| 1_u64 << bit);
    bits.fold(0, |root, bit| {
        let next = root | bit;
        if u128::from(next).pow(3) <= u128::from(of) { next } else { root }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(curve: &Curve, ms: u64) -> u64 {
        curve.at(Time::ZERO + Span::from_ms(ms)) / PARTS
    }

    #[test]
    fn a_curve_is_that_of_the_rfc() {
        let mut curve = Curve::default();
        curve.fall(Time::ZERO, 1_000, 700);
        // K is the cube root of 300 / 0.4, 9.086 s.
        assert_eq!(curve.flat_ms, 9_085);
        for (ms, packets) in
            [(0, 700), (4_543, 962), (9_086, 1_000), (13_629, 1_037), (18_171, 1_299)]
        {
            assert!(at(&curve, ms).abs_diff(packets) <= 1, "{ms} ms: {}", at(&curve, ms));
        }
    }

    #[test]
    fn who_falls_from_less_leaves_more_to_others() {
        let mut curve = Curve::default();
        curve.fall(Time::ZERO, 1_000, 700);
        curve.fall(Time::ZERO, 900, 630);
        assert_eq!((curve.most, at(&curve, 0)), (765, 630));
        curve.fall(Time::ZERO, 770, 760);
        assert_eq!((curve.most, at(&curve, 0)), (770, 760));
        curve.fall(Time::ZERO, 100, 100);
        assert_eq!((curve.most, curve.flat_ms, at(&curve, 0)), (100, 0, 100));
    }

    #[test]
    fn roots_are_rounded_down_and_nothing_overflows() {
        for (of, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3), (u64::MAX, 2_642_245)]
        {
            assert_eq!(cube_root(of), root);
        }
        let mut curve = Curve::default();
        curve.fall(Time::ZERO, u64::MAX, 0);
        assert!(curve.at(Time::MAX) > 0);
    }
}
