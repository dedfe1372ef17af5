//! Hops: links by the layers that they lead from and to, each direction by itself.
//!
//! ```text
//!   server -> ToR -> Leaf -> Spine -> Leaf -> ToR -> server
//! ```
//!
//! A hop is named for the direction of its packets. Its ports are those that send in that direction. Its
//! pauses are the time for which those ports had to wait; the pause frames came from the other end.

use std::collections::BTreeMap;

use crate::counters::PauseCounters;
use crate::network::PortView;
use crate::topology::{End, Topology};

/// What the tiers of a Clos are called, from the servers.
const TIERS: [&str; 3] = ["ToR", "Leaf", "Spine"];
/// A common beginning of names that is shorter is no word.
const WORD: usize = 3;

/// The layers of a topology: 0 for servers, then the tiers of the switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layers {
    names: Vec<String>,
    tiers: Vec<u8>,
}

/// From one layer to another. Hops order as a packet meets them: up, across, down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Hop {
    leg: u8,
    place: u8,
    from: u8,
    to: u8,
}

/// What happened at the ports of a hop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct HopTotals {
    /// Ports that send this way.
    pub(crate) ports: usize,
    /// Those of them that were paused.
    pub(crate) paused_ports: usize,
    /// Pause frames that they received, with those that resume.
    pub(crate) frames: u64,
    /// For how long they were paused, in all; where several priorities were, the longest counts.
    pub(crate) paused_ps: u64,
    /// The port that was paused longest, and for how long.
    pub(crate) longest: Option<(u64, End, End)>,
}

impl Layers {
    pub(crate) fn of(topology: &Topology) -> Self {
        let tiers: Vec<u8> = topology.switches.iter().map(|switch| switch.tier).collect();
        let highest = tiers.iter().copied().max();
        let mut names = vec!["server".to_owned()];
        for tier in 0..=highest.unwrap_or(0) {
            let of_tier = topology.switches.iter().filter(|switch| switch.tier == tier);
            let word = common(of_tier.map(|switch| switch.name.as_str()));
            let usual = || {
                let known = TIERS.get(usize::from(tier)).map(|&name| name.to_owned());
                known.unwrap_or_else(|| format!("tier {tier}"))
            };
            names.push(word.unwrap_or_else(usual));
        }
        if highest.is_none() {
            names.truncate(1);
        }
        Self { names, tiers }
    }

    /// The names, from the servers up.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn layer(&self, end: End) -> u8 {
        match end {
            End::Host(_) => 0,
            End::Switch(switch) => self.tiers.get(switch as usize).map_or(1, |tier| tier + 1),
        }
    }

    pub(crate) fn hop(&self, at: End, to: End) -> Hop {
        let (from, to) = (self.layer(at), self.layer(to));
        let (leg, place) = match from.cmp(&to) {
            core::cmp::Ordering::Less => (0, from),
            core::cmp::Ordering::Equal => (1, from),
            core::cmp::Ordering::Greater => (2, u8::MAX - from),
        };
        Hop { leg, place, from, to }
    }

    /// Who pauses whom, where the packets of a hop have to wait: the pauses come from its far end.
    pub(crate) fn pausing(&self, hop: Hop) -> String {
        format!("{} pauses {}", self.layer_name(hop.to), self.layer_name(hop.from))
    }

    fn layer_name(&self, layer: u8) -> &str {
        self.names.get(usize::from(layer)).map_or("?", String::as_str)
    }

    /// A hop in words.
    pub(crate) fn name(&self, hop: Hop) -> String {
        format!("{} -> {}", self.layer_name(hop.from), self.layer_name(hop.to))
    }
}

/// The letters that all names begin with, if they are a word.
fn common<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = names.next()?;
    let letters = |name: &str| name.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
    let word: String = letters(first);
    (word.len() >= WORD && names.all(|name| letters(name) == word)).then_some(word)
}

/// What happened at the ports of each hop.
pub(crate) fn totals(
    layers: &Layers,
    ports: impl Iterator<Item = PortView>,
) -> BTreeMap<Hop, HopTotals> {
    let mut hops: BTreeMap<Hop, HopTotals> = BTreeMap::new();
    for port in ports {
        let hop = hops.entry(layers.hop(port.at, port.to)).or_default();
        let paused = longest(&port.pauses);
        hop.ports += 1;
        hop.paused_ports += usize::from(paused > 0);
        hop.frames += port.pauses.received_frames;
        hop.paused_ps += paused;
        if paused > 0 && hop.longest.is_none_or(|(most, ..)| paused > most) {
            hop.longest = Some((paused, port.at, port.to));
        }
    }
    hops
}

/// The time that the priority which was paused longest was paused.
pub(crate) fn longest(pauses: &PauseCounters) -> u64 {
    pauses.paused_ps.iter().copied().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Cables, ClosShape, back_to_back, clos, leaf_spine};
    use rdma::Rate;

    const CABLES: Cables = Cables::new(Rate::from_gbps(100), 200);

    #[test]
    fn hops_are_in_the_order_of_a_packet_and_named_as_the_switches_are() {
        let topology = clos(&ClosShape {
            podsets: 1,
            tors: 1,
            leaves: 1,
            spines: 1,
            hosts: 1,
            ..ClosShape::FIGURE_7
        });
        let layers = Layers::of(&topology);
        let mut hops: Vec<Hop> = Vec::new();
        for link in &topology.links {
            let [a, b] = link.ends;
            hops.extend([layers.hop(a, b), layers.hop(b, a)]);
        }
        hops.sort();
        let names: Vec<String> = hops.iter().map(|&hop| layers.name(hop)).collect();
        assert_eq!(
            names,
            [
                "server -> tor",
                "tor -> leaf",
                "leaf -> spine",
                "spine -> leaf",
                "leaf -> tor",
                "tor -> server"
            ]
        );
    }

    #[test]
    fn tiers_whose_switches_share_no_word_have_the_usual_names() {
        let mut topology = leaf_spine(2, 1, 1, CABLES, CABLES);
        topology.switches[0].name = "T0".to_owned();
        assert_eq!(Layers::of(&topology).names(), ["server", "ToR", "spine"]);
        assert_eq!(Layers::of(&back_to_back(CABLES)).names(), ["server"]);
    }
}
