//! Filters: what a link loses or damages, and the taps that record what comes.
//!
//! ```text
//!   port ── first bit ──────── rate ──── last bit ── length x 5 ns/m ──► filter ──► port
//! ```
//!
//! A frame arrives, whole, when its last bit does. Each direction of a link may have a filter, at its
//! receiving end. Most have none, and a packet meets one only where a port says so.

use crate::address::Tuple;
use crate::capture::Tap;
use crate::counters::Drop;
use crate::drop_rule::DropRule;
use crate::packet::Packet;
use crate::random::Random;

/// Why a link is down. It is up when no reason is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Down {
    /// The link itself has failed.
    Link = 1,
    /// The switch that sends restarts.
    Sender = 2,
    /// The switch that receives does.
    Receiver = 4,
}

/// One direction of a link that is not perfect.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) rules: Vec<DropRule>,
    /// Probability that a frame is damaged, which its check sequence shows.
    pub(crate) damage: f64,
    /// Of each RoCE packet that others see as whole.
    pub(crate) corruption: f64,
    /// Why nothing comes: see [`Down`].
    pub(crate) down: u8,
    /// Frames that were damaged.
    pub(crate) damaged: u64,
    seen: u64,
    random: Random,
    /// They record what comes.
    pub(crate) taps: Vec<Tap>,
}

impl Filter {
    /// One that loses nothing. Its random numbers come from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        Self {
            rules: Vec::new(),
            damage: 0.0,
            corruption: 0.0,
            down: 0,
            damaged: 0,
            seen: 0,
            random,
            taps: Vec::new(),
        }
    }

    /// Whether there is nothing that it does.
    pub(crate) fn is_idle(&self) -> bool {
        let Self { rules, damage, corruption, down, taps, .. } = self;
        rules.is_empty() && (*damage, *corruption, *down) == (0.0, 0.0, 0) && taps.is_empty()
    }

    /// What picks the byte that is changed, if the packet is corrupted.
    pub(crate) fn corrupts(&mut self) -> Option<u64> {
        let is_hit = self.corruption > 0.0 && self.random.chance(self.corruption);
        is_hit.then(|| self.random.below(u64::MAX))
    }

    /// The link is well again, if it is up.
    pub(crate) fn repair(&mut self) {
        self.rules.clear();
        (self.damage, self.corruption) = (0.0, 0.0);
    }

    /// Whether the packet is lost, and why. `tuple` is that of the packet.
    pub(crate) fn judge(&mut self, packet: &Packet, tuple: Option<&Tuple>) -> Option<Drop> {
        if self.down != 0 {
            return Some(Drop::LinkDown);
        }
        if self.damage > 0.0 && self.random.chance(self.damage) {
            self.damaged += 1;
            return Some(Drop::Damaged);
        }
        // Rules speak of packets; a pause frame has no IP header and belongs to no flow.
        let tuple = tuple.filter(|_| !self.rules.is_empty())?;
        self.seen += 1;
        let seen = self.seen;
        let random = &mut self.random;
        let hit = self.rules.iter().any(|rule| match *rule {
            DropRule::Chance(chance) => random.chance(chance),
            DropRule::Every(n) => n > 0 && seen.is_multiple_of(n),
            DropRule::IpIdEnds(byte) => packet.ip_id as u8 == byte,
            DropRule::Between { source, destination } => {
                (tuple.source, tuple.destination) == (source, destination)
            }
        });
        hit.then_some(Drop::Rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Pause, Pool};

    #[test]
    fn rules_pick_their_packets_and_leave_pauses_alone() {
        let mut pool = Pool::default();
        let index = pool.pfc(Pause { stop: 1, resume: 0, quanta: 1 });
        let tuple = Tuple { source: 1, destination: 2, source_port: 9, hash: 0 };
        let mut lost = |rule: DropRule, count: u16| -> Vec<u16> {
            let mut filter = Filter { rules: vec![rule], ..Filter::new(1) };
            (0..count)
                .filter(|&id| {
                    pool.get_mut(index).ip_id = id;
                    assert_eq!(filter.judge(pool.get(index), None), None);
                    filter.judge(pool.get(index), Some(&tuple)).is_some()
                })
                .collect()
        };
        assert_eq!(lost(DropRule::IpIdEnds(0xff), 1_000), [255, 511, 767]);
        assert_eq!(lost(DropRule::Every(400), 1_000), [399, 799]);
        assert_eq!(lost(DropRule::Between { source: 1, destination: 2 }, 2), [0, 1]);
        assert_eq!(lost(DropRule::Between { source: 2, destination: 1 }, 2), [0; 0]);
        let of_chance = lost(DropRule::Chance(0.1), 10_000).len();
        assert!((850..1_150).contains(&of_chance), "{of_chance}");
    }
}
