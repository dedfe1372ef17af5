//! The one source of chance in a simulation: a seed gives the same numbers on every machine.

/// A generator of 64-bit numbers, xoshiro256** by Blackman and Vigna (public domain), seeded
/// through SplitMix64 as they advise.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

/// One step of SplitMix64; also a good mixer of bits.
pub(crate) const fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a network's seed adds to the number of a flow, a host or a switch, by which it draws: nothing if
/// it is 1, which it is if nobody says so.
pub(crate) const fn of_seed(seed: u64) -> u64 {
    seed.wrapping_sub(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut at = seed;
        let state = [(); 4].map(|()| {
            let value = split_mix(at);
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            value
        });
        Self { state }
    }

    /// The next number.
    pub(crate) fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = b << 17;
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ shifted, d.rotate_left(45)];
        result
    }

    /// A number below `limit`, which is not zero; each as likely as the others to within
    /// `limit` / 2^64.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// A number in [0, 1), of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Whether something of probability `chance` happens.
    pub fn chance(&mut self, chance: f64) -> bool {
        self.unit() < chance
    }

    /// An exponential variate of mean 1, by von Neumann's comparisons: no logarithm, whose last bit
    /// differs between machines.
    pub(crate) fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.unit();
            let mut last = first;
            let mut run = 1;
            loop {
                let next = self.unit();
                if next >= last {
                    break;
                }
                last = next;
                run += 1;
            }
            if run % 2 == 1 {
                return whole + first;
            }
            whole += 1.0;
        }
    }

    /// Puts `items` in an order of chance.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = self.below(end as u64 + 1) as usize;
            items.swap(end, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference() {
        // xoshiro256starstar.c by its authors, with the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let numbers = [(); 4].map(|()| random.next_u64());
        assert_eq!(numbers, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
        // splitmix64.c with the state 1234567.
        assert_eq!(split_mix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn a_shuffle_loses_nothing_and_every_number_stays_below_the_limit() {
        let mut random = Random::new(7);
        let mut items: Vec<u64> = (0..100).collect();
        random.shuffle(&mut items);
        assert!(items.iter().enumerate().any(|(index, &item)| index as u64 != item));
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
        assert!((0..1_000).all(|_| random.below(3) < 3 && random.unit() < 1.0));
    }
}
