//! What a scenario comes to, explained without running it: `ferroce sim --check`.
//!
//! ```text
//!   Scenario ─► facts of every switch ─► kinds (switches alike) ─► rules ─► warnings
//!                                                                  text  ─► a few lines a kind
//! ```
//!
//! Every number is what the run would use, or how it follows from the settings: thresholds by the
//! occupancy at which k groups stop that fill together, alpha x shared / (1 + k alpha), headroom by
//! the simulator's own formula and by SONiC's. A warning is said where a setting defeats another one.

mod rules;
mod text;

use core::fmt;

use rdma::{Rate, Span};

use crate::NetworkConfig;
use crate::network::longest_frame;
use crate::pfc::PRIORITIES;
use crate::scenario::Scenario;
use crate::switch::config::{SwitchConfig, Threshold, Trust};
use crate::switch::{Frames, PortSpec, ample_headroom_bytes, headroom_of, reserved_bytes};
use crate::topology::{End, PS_PER_METRE};

/// A port of a switch, as far as buffers are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PortFacts {
    rate: Rate,
    propagation: Span,
    /// A host is at the other end.
    serves: bool,
    /// The headroom that its lossless groups need, and two frames.
    needed: u32,
}

impl PortFacts {
    fn metres(&self) -> u64 {
        self.propagation.as_ps() / PS_PER_METRE
    }

    fn spec(&self) -> PortSpec {
        PortSpec { headroom: self.needed, serves: self.serves }
    }
}

/// Switches with the same settings and the same ports.
#[derive(Clone, Debug)]
struct Kind {
    /// By index.
    switches: Vec<u32>,
    config: SwitchConfig,
    ports: Vec<PortFacts>,
    /// What reserves and headrooms take.
    reserved: u64,
}

impl Kind {
    /// What groups share; zero where nothing is left.
    fn shared(&self) -> u64 {
        u64::from(self.config.buffer_bytes).saturating_sub(self.reserved)
    }

    /// What a group holds of shared memory when XOFF is due and `k` groups in all fill together.
    fn xoff(&self, threshold: Threshold, k: usize) -> u64 {
        match threshold {
            Threshold::Static { bytes } => u64::from(bytes).min(self.shared()),
            Threshold::Dynamic { exponent } => {
                let alpha = 2f64.powi(i32::from(exponent));
                (alpha * self.shared() as f64 / (1.0 + k as f64 * alpha)) as u64
            }
        }
    }

    /// The class, group and queue of a DSCP at these switches, for packets that carry no tag if it is
    /// the tag that is trusted.
    fn treatment(&self, dscp: u8) -> Treatment {
        let class = match self.config.trust {
            Trust::Dscp => self.config.dscp_to_class[usize::from(dscp & 63)],
            Trust::Pcp => self.config.pcp_to_class[0],
        } & 7;
        let group = self.config.class_to_group[usize::from(class)] & 7;
        let queue = self.config.class_to_queue[usize::from(class)] & 7;
        Treatment {
            class,
            group,
            queue,
            priority: self.config.group_to_priority[usize::from(group)] & 7,
        }
    }

    /// Whether a group is lossless at every port, and at any.
    fn lossless(&self, group: u8) -> (bool, bool) {
        let of = |local: usize| self.config.groups_of(local as u16)[usize::from(group)].lossless;
        let mut ports = (0..self.ports.len()).map(of);
        (ports.clone().all(|lossless| lossless), ports.any(|lossless| lossless))
    }
}

/// What a switch makes of the packets of a DSCP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Treatment {
    class: u8,
    group: u8,
    queue: u8,
    /// Of the pauses that the group sends.
    priority: u8,
}

/// A scenario, explained. Its text is for a terminal; it ends with a line feed.
#[derive(Clone, Debug)]
pub struct Check {
    warnings: Vec<String>,
    text: String,
}

impl Check {
    /// Explains a scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let kinds = kinds(&scenario.network);
        let mut warnings: Vec<String> = scenario
            .notes
            .iter()
            .filter(|note| note.warning)
            .map(|note| note.text.clone())
            .collect();
        warnings.extend(rules::warnings(&scenario.network, &kinds));
        let text = text::explain(scenario, &kinds, &warnings);
        Self { warnings, text }
    }

    /// What is likely to be a mistake.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The ports of every switch, in the order of the links.
fn ports(config: &NetworkConfig) -> Vec<Vec<PortFacts>> {
    let longest_bytes = longest_frame(config);
    let mut ports = vec![Vec::new(); config.topology.switches.len()];
    for link in &config.topology.links {
        for (end, peer) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
            let End::Switch(index) = end else { continue };
            let Some(list) = ports.get_mut(index as usize) else { continue };
            let pfc = match peer {
                End::Switch(peer) => config.switch_of(peer).pfc,
                End::Host(host) => config.nic_of(host).pfc,
            };
            let own = config.switch_of(index);
            let frames = Frames { longest_bytes, cell: own.cell };
            let (rate, cable) = (link.rate, link.propagation);
            list.push(PortFacts {
                rate: link.rate,
                propagation: link.propagation,
                serves: matches!(peer, End::Host(_)),
                needed: ample_headroom_bytes(rate, cable, own.latency, frames, &pfc),
            });
        }
    }
    ports
}

fn kinds(config: &NetworkConfig) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (index, ports) in ports(config).into_iter().enumerate() {
        let own = config.switch_of(index as u32);
        // The seed of ECMP differs for a reason, and makes no other kind of switch.
        let alike = |kind: &&mut Kind| {
            let same = SwitchConfig { ecmp_seed: own.ecmp_seed, ..kind.config.clone() };
            kind.ports == ports && same == *own
        };
        if let Some(kind) = kinds.iter_mut().find(alike) {
            kind.switches.push(index as u32);
            continue;
        }
        let specs: Vec<PortSpec> = ports.iter().map(PortFacts::spec).collect();
        let reserved = reserved_bytes(own, &specs);
        let switches = vec![index as u32];
        kinds.push(Kind { switches, config: own.clone(), ports, reserved });
    }
    kinds
}

/// Lossless groups of a kind, each with the ports that have the same settings for it.
fn lossless_groups(kind: &Kind) -> Vec<(usize, Vec<usize>)> {
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for group in 0..PRIORITIES {
        for (local, port) in kind.ports.iter().enumerate() {
            let own = kind.config.groups_of(local as u16)[group];
            if !own.lossless {
                continue;
            }
            let alike = |(other, ports): &&mut (usize, Vec<usize>)| {
                *other == group && {
                    let first = ports[0];
                    let of_first = &kind.ports[first];
                    kind.config.groups_of(first as u16)[group] == own
                        && (of_first.rate, of_first.propagation, of_first.needed)
                            == (port.rate, port.propagation, port.needed)
                }
            };
            match groups.iter_mut().find(alike) {
                Some((_, ports)) => ports.push(local),
                None => groups.push((group, vec![local])),
            }
        }
    }
    groups
}

/// The headroom of a group at a port, as configured or computed.
fn headroom(kind: &Kind, local: usize, group: usize) -> u32 {
    headroom_of(&kind.config.groups_of(local as u16)[group], &kind.ports[local].spec())
}
