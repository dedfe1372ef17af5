//! Packet sequence numbers: 24 bits, compared modulo 2^24.

use core::fmt;

const MASK: u32 = 0x00ff_ffff;
const HALF: u32 = 0x0080_0000;

/// A packet sequence number (IBTA vol 1, 9.7.1).
///
/// Two PSNs are compared by their distance on the circle, so `Psn` has no `Ord`: "less than" is
/// only meaningful within half the circle, and [`Psn::is_before`] says so by its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The PSN made of the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The PSN `count` packets later.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count) & MASK)
    }

    /// The PSN `count` packets earlier.
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count) & MASK)
    }

    /// The next PSN.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// How many packets `self` is after `other`, in 0..2^24.
    pub const fn distance_from(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0) & MASK
    }

    /// Whether `self` lies in the half circle before `other`, and is not `other`.
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) >= HALF
    }

    /// Whether `self` lies in the half circle after `other`, and is not `other`.
    pub const fn is_after(self, other: Self) -> bool {
        let distance = self.distance_from(other);
        distance != 0 && distance < HALF
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psn({:#08x})", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_24_bits() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.next(), Psn::new(0));
        assert_eq!(Psn::new(0).minus(1), last);
        assert_eq!(Psn::new(0x0100_0005), Psn::new(5));
    }

    #[test]
    fn order_is_by_the_shorter_way_round() {
        let last = Psn::new(0xff_ffff);
        let first = Psn::new(3);
        assert!(last.is_before(first));
        assert!(first.is_after(last));
        assert!(!first.is_before(first) && !first.is_after(first));
        assert_eq!(first.distance_from(last), 4);
    }

    #[test]
    fn exactly_one_relation_holds_between_two_psns() {
        for distance in [0, 1, HALF - 1, HALF, HALF + 1, MASK] {
            let (a, b) = (Psn::new(0x1234), Psn::new(0x1234).plus(distance));
            let relations = [a == b, b.is_after(a), b.is_before(a)];
            assert_eq!(relations.iter().filter(|&&holds| holds).count(), 1, "distance {distance}");
        }
    }
}
