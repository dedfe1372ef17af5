//! Equal-cost multipath: which of several next hops a flow, or a packet, takes.
//!
//! ```text
//!   five-tuple ─► hash ─► [flowlet or packet: another one] ─► mixed with the switch's seed ─► choice
//! ```
//!
//! Spraying and flowlets (LetFlow, Vanini 17) change the hash and leave the choice as it is. Both
//! count instead of drawing random numbers, so their choices depend on this switch alone.

use rdma::{Rate, Span};

use super::custom::{LoadBalancer, Ports};
use super::port::Port;
use crate::links::Links;
use crate::pfc::PRIORITIES;
use crate::random::split_mix;
use crate::rate::bytes_in;
use crate::switch::config::Balance;

/// Entries of a flowlet table. Flows that share one are one flow to it.
const FLOWLETS: usize = 1 << 12;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flowlet {
    /// When its last packet came.
    last: u64,
    /// Which flowlet it is.
    number: u32,
}

/// Turns the hash of a flow into that of a flowlet or a packet; or chooses by itself, if it is not ours.
#[derive(Debug)]
pub(super) enum Balancer {
    Flow,
    Packet { count: u32 },
    Flowlet { gap: u64, table: Vec<Flowlet> },
    Custom(Box<dyn LoadBalancer>),
}

impl Balancer {
    pub(super) fn new(balance: Balance) -> Self {
        match balance {
            Balance::Flow => Self::Flow,
            Balance::Packet => Self::Packet { count: 0 },
            Balance::Flowlet { gap } => {
                Self::Flowlet { gap: gap.as_ps(), table: vec![Flowlet::default(); FLOWLETS] }
            }
            Balance::Custom(custom) => Self::Custom(custom.balancer()),
        }
    }

    #[inline]
    pub(super) fn hash(&mut self, hash: u32, now: u64) -> u32 {
        match self {
            Self::Flow | Self::Custom(_) => hash,
            Self::Packet { count } => {
                *count = count.wrapping_add(1);
                *count
            }
            Self::Flowlet { gap, table } => {
                let flowlet = &mut table[hash as usize % FLOWLETS];
                if now - flowlet.last > *gap {
                    flowlet.number = flowlet.number.wrapping_add(1);
                }
                flowlet.last = now;
                hash ^ (split_mix(u64::from(flowlet.number)) >> 32) as u32
            }
        }
    }
}

/// The ports of a switch, as a packet finds them that is for `queue`.
pub(super) struct Seen<'s> {
    pub(super) ports: &'s [Port],
    pub(super) links: &'s Links,
    pub(super) first_port: u32,
    pub(super) queue: usize,
    pub(super) seed: u64,
}

impl Ports for Seen<'_> {
    fn hashed(&self, hash: u32, count: u32) -> u32 {
        choose(hash, self.seed, count)
    }

    fn backlog_bytes(&self, port: u16) -> u64 {
        let link = self.links.at(self.first_port + u32::from(port));
        let rest = link.free_at.saturating_sub(self.links.now());
        let queue = &self.ports[usize::from(port)].queues()[self.queue & (PRIORITIES - 1)];
        u64::from(queue.bytes) + bytes_in(link.rate.rate(), Span::from_ps(rest))
    }

    fn is_paused(&self, port: u16) -> bool {
        self.links.at(self.first_port + u32::from(port)).paused >> self.queue & 1 != 0
    }

    fn rate(&self, port: u16) -> Rate {
        self.links.at(self.first_port + u32::from(port)).rate.rate()
    }
}

/// One of `count` next hops. Two switches with different seeds choose independently.
#[inline]
pub(crate) fn choose(hash: u32, seed: u64, count: u32) -> u32 {
    let mixed = (u64::from(hash) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    // The upper half is the best mixed; the product spreads it evenly over 0..count.
    (((mixed >> 32) * u64::from(count)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::hash_of;

    /// Flows of many hosts over `count` next hops, counted.
    fn spread(seed: u64, count: u32) -> Vec<u32> {
        let mut counts = vec![0; count as usize];
        for source in 0..64 {
            for port in 0..250 {
                let hash = hash_of(source, 1_000 + source % 7, 0xc000 + port);
                counts[choose(hash, seed, count) as usize] += 1;
            }
        }
        counts
    }

    #[test]
    fn flows_spread_evenly_and_each_stays_on_its_path() {
        for count in [2, 3, 4, 16] {
            let expected = 16_000.0 / f64::from(count);
            // Five standard deviations of a binomial.
            let allowed = 5.0 * (expected * (1.0 - 1.0 / f64::from(count))).sqrt();
            for taken in spread(7, count) {
                assert!((f64::from(taken) - expected).abs() < allowed, "{taken} of {expected}");
            }
        }
        assert_eq!(choose(77, 1, 4), choose(77, 1, 4));
    }

    #[test]
    fn packets_are_sprayed_evenly_and_flowlets_stay_together() {
        let mut spray = Balancer::new(Balance::Packet);
        let mut counts = [0; 4];
        for now in 0..8_000 {
            counts[choose(spray.hash(7, now), 99, 4) as usize] += 1;
        }
        assert!(counts.iter().all(|taken| (1_800..2_200).contains(taken)), "{counts:?}");
        let gap = Span::from_ps(100);
        let mut flowlets = Balancer::new(Balance::Flowlet { gap });
        let mut at = 1_000;
        let mut taken = Vec::new();
        for _ in 0..64 {
            let first = flowlets.hash(7, at);
            assert_eq!(flowlets.hash(7, at + 100), first, "no longer than the gap");
            assert_ne!(flowlets.hash(8, at), first, "another flow");
            taken.push(choose(first, 99, 4));
            at += 201;
        }
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken, [0, 1, 2, 3]);
    }

    #[test]
    fn switches_with_other_seeds_choose_independently() {
        // Where the first switch chose 0 of 4, the second still uses all of 4.
        let mut counts = [0; 4];
        for port in 0..8_000 {
            let hash = hash_of(1, 2, port);
            if choose(hash, split_mix(1), 4) == 0 {
                counts[choose(hash, split_mix(2), 4) as usize] += 1;
            }
        }
        for taken in counts {
            assert!((400..600).contains(&taken), "{counts:?}");
        }
    }
}
