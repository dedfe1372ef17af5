//! Numbers that a stranger cannot guess: queue pair numbers, and the tags of keys.
//!
//! A packet is believed if its addresses, its queue pair number and its sequence number are right, and one
//! that reaches memory needs a key. An attacker who can forge addresses still has to guess the rest. So the
//! numbers are drawn from a seed that the driver gets from its system ([`Config::seed`]). Without a seed
//! they are given out in turn, so that a simulation or a test is the same each time.
//!
//! [`Config::seed`]: crate::Config::seed
//!
//! What a peer is shown whole must not tell the seed: it is a [`keyed_hash`].

/// Where numbers are drawn from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Secret {
    seed: Option<u64>,
    /// Numbers drawn so far.
    drawn: u64,
}

/// Rounds of the Feistel network, as many as it takes for each half to depend on all bits.
const ROUNDS: u32 = 4;

impl Secret {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A number below `count`, another for each `turn` below it: numbers that are given out in turn are
    /// shuffled, and each comes round after all others. `count` is not 0.
    ///
    /// A Feistel network shuffles twice as many bits as a half has. A result that is too large is
    /// shuffled again until it is not, which some power of a permutation always brings about.
    pub(crate) fn shuffled(self, turn: u32, count: u32) -> u32 {
        let Some(seed) = self.seed else { return turn };
        let bits = u32::BITS - (count - 1).leading_zeros();
        let half = bits.div_ceil(2).max(1);
        let mask = (1 << half) - 1;
        let mut number = turn;
        loop {
            let (mut left, mut right) = (number >> half, number & mask);
            for round in 0..ROUNDS {
                let mixed = mix(seed ^ u64::from(round) << 32 ^ u64::from(right));
                (left, right) = (right, left ^ (mixed as u32 & mask));
            }
            number = left << half | right;
            if number < count {
                return number;
            }
        }
    }

    /// How much the tag of a key goes on when its index is given out again: not by 256, which would leave
    /// it as it was.
    pub(crate) fn step(&mut self) -> u8 {
        let Some(seed) = self.seed else { return 1 };
        self.drawn = self.drawn.wrapping_add(1);
        // Less than 256.
        1 + (mix(!seed ^ self.drawn) % 255) as u8
    }
}

/// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): who knows neither half of
/// `key` cannot tell the hash of one message from those of others.
pub(crate) fn keyed_hash(key: [u64; 2], message: &[u8]) -> u64 {
    let [low, high] = key;
    let mut state = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    let mut absorb = |word: u64| {
        state[3] ^= word;
        sip_rounds(&mut state, 2);
        state[0] ^= word;
    };
    let (words, rest) = message.as_chunks();
    for word in words {
        absorb(u64::from_le_bytes(*word));
    }
    // The last word has the rest, and the length in its highest byte.
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = message.len() as u8;
    absorb(u64::from_le_bytes(last));
    state[2] ^= 0xff;
    sip_rounds(&mut state, 4);
    state.into_iter().fold(0, |hash, word| hash ^ word)
}

fn sip_rounds(state: &mut [u64; 4], rounds: u32) {
    let [a, b, c, d] = state;
    for _ in 0..rounds {
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn every_number_comes_once_whatever_their_count() {
        for count in [1, 2, 3, 100, 1 << 14, (1 << 14) - 2] {
            for seed in [None, Some(0), Some(7)] {
                let mut seen = vec![false; count as usize];
                for turn in 0..count {
                    let number = Secret::new(seed).shuffled(turn, count) as usize;
                    assert!(!core::mem::replace(&mut seen[number], true));
                }
            }
        }
    }

    #[test]
    fn numbers_are_in_turn_without_a_seed_and_far_apart_with_one() {
        let numbers = |seed| -> Vec<u32> {
            (0..1_000).map(|turn| Secret::new(seed).shuffled(turn, 1 << 14)).collect()
        };
        assert!(numbers(None).into_iter().eq(0..1_000));
        let (one, other) = (numbers(Some(1)), numbers(Some(2)));
        let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
        let next = one.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(same < 5 && next < 5, "{same} {next}");
    }

    #[test]
    fn a_keyed_hash_is_that_of_the_paper() {
        // Appendix A: the key is the bytes 0 to 15, the message 0 to 14.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let message: [u8; 15] = core::array::from_fn(|at| at as u8);
        assert_eq!(keyed_hash(key, &message), 0xa129_ca61_49be_45e5);
        assert_ne!(keyed_hash(key, &message[..14]), keyed_hash([key[0], 0], &message[..14]));
    }

    #[test]
    fn a_tag_always_changes() {
        let mut drawn = [0_u32; 256];
        let mut secret = Secret::new(Some(5));
        for _ in 0..25_500 {
            drawn[usize::from(secret.step())] += 1;
        }
        assert_eq!(drawn[0], 0);
        assert!(drawn[1..].iter().all(|times| (50..200).contains(times)), "{drawn:?}");
        assert_eq!(Secret::new(None).step(), 1);
    }
}
