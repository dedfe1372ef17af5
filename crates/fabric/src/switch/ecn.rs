//! ECN marks by the length of a queue (WRED, as DCQCN has it).

use super::config::EcnConfig;
use crate::random::Random;

const ECN_MASK: u8 = 3;
const NOT_CAPABLE: u8 = 0;
/// Congestion experienced (RFC 3168).
pub(crate) const CONGESTION: u8 = 3;

/// The mark of a packet in a queue of `bytes`, if it gets one. Packets whose sender does not
/// do ECN are left as they are: their class has a limit, or is lossless.
#[inline]
pub(crate) fn mark(
    config: &EcnConfig,
    bytes: u32,
    traffic_class: u8,
    random: &mut Random,
) -> Option<u8> {
    if bytes <= config.min_bytes || traffic_class & ECN_MASK == NOT_CAPABLE {
        return None;
    }
    let marked = bytes >= config.max_bytes || {
        let range = f64::from(config.max_bytes - config.min_bytes);
        random.chance(f64::from(bytes - config.min_bytes) / range * config.max_probability)
    };
    marked.then_some(traffic_class | CONGESTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_grow_more_frequent_from_kmin_to_kmax_and_certain_from_there() {
        let config = EcnConfig { min_bytes: 1_000, max_bytes: 3_000, max_probability: 0.2 };
        let mut random = Random::new(3);
        let mut rate = |bytes, class| {
            let marks = (0..20_000).filter(|_| mark(&config, bytes, class, &mut random).is_some());
            marks.count() as f64 / 20_000.0
        };
        assert_eq!(rate(1_000, 2), 0.0);
        assert!((0.09..0.11).contains(&rate(2_000, 2)));
        assert!((0.19..0.21).contains(&rate(2_999, 1)));
        assert_eq!(rate(3_000, 2), 1.0);
        assert_eq!(rate(9_000, 0), 0.0, "the sender does not do ECN");
        assert_eq!(mark(&config, 9_000, 26 << 2 | 2, &mut random), Some(26 << 2 | 3));
    }
}
