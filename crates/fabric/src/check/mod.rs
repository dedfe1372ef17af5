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

mod controllers;
mod rules;
mod text;

use core::fmt;

use rdma::{Rate, Span};

use crate::NetworkConfig;
use crate::network::{longest_frame, port_spec};
use crate::pfc::PRIORITIES;
use crate::scenario::Scenario;
use crate::switch::config::{SwitchConfig, Threshold, Trust};
use crate::switch::{PortSpec, headroom_of, reserved_bytes};
use crate::topology::{End, PS_PER_METRE};

/// A port of a switch, as far as buffers are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PortFacts {
    rate: Rate,
    propagation: Span,
    spec: PortSpec,
}

impl PortFacts {
    fn metres(&self) -> u64 {
        self.propagation.as_ps() / PS_PER_METRE
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
        threshold.xoff_bytes(self.shared(), k)
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
    title: String,
    size: [(&'static str, usize); 4],
    notes: Vec<String>,
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
        warnings.extend(controllers::warnings(&scenario.network, scenario.end));
        let text = text::explain(scenario, &kinds, &warnings);
        let config = &scenario.network;
        let size = [
            ("hosts", config.topology.hosts.len()),
            ("switches", config.topology.switches.len()),
            ("links", config.topology.links.len()),
            ("flows", config.flows.len()),
        ];
        let others = scenario.notes.iter().filter(|note| !note.warning);
        let notes = others.map(|note| note.text.clone()).collect();
        Self { title: scenario.title.clone(), size, notes, warnings, text }
    }

    /// The same as JSON: title, size, warnings, notes, and the explanation as lines.
    pub fn json(&self) -> String {
        let size = self.size.iter().map(|&(what, count)| (what.to_owned(), count.into()));
        crate::report::written(&serde_json::json!({
            "title": self.title,
            "size": serde_json::Map::from_iter(size),
            "warnings": self.warnings,
            "notes": self.notes,
            "explanation": self.text.lines().collect::<Vec<_>>(),
        }))
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
            let spec = port_spec(config, link, index, peer, longest_bytes);
            list.push(PortFacts { rate: link.rate, propagation: link.propagation, spec });
        }
    }
    ports
}

/// Groups by equal keys: each key once, with all values that have it, in the order in which keys come.
fn alike<K: PartialEq, T>(all: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut gathered: Vec<(K, Vec<T>)> = Vec::new();
    for (said, of) in all {
        match gathered.iter_mut().find(|(other, _)| *other == said) {
            Some((_, others)) => others.push(of),
            None => gathered.push((said, vec![of])),
        }
    }
    gathered
}

fn kinds(config: &NetworkConfig) -> Vec<Kind> {
    let of = |(index, ports)| {
        // The seed of ECMP differs for a reason, and makes no other kind of switch.
        let own = SwitchConfig { ecmp_seed: 0, ..config.switch_of(index).clone() };
        ((own, ports), index)
    };
    let kinds = alike((0..).zip(ports(config)).map(of)).into_iter();
    let kind = |((config, ports), switches): ((SwitchConfig, Vec<PortFacts>), Vec<u32>)| {
        let specs: Vec<PortSpec> = ports.iter().map(|port| port.spec).collect();
        let reserved = reserved_bytes(&config, &specs);
        Kind { switches, config, ports, reserved }
    };
    kinds.map(kind).collect()
}

/// Lossless groups of a kind, each with the ports that have the same settings for it.
fn lossless_groups(kind: &Kind) -> Vec<(usize, Vec<usize>)> {
    let ports = |group: usize| {
        let of = move |(local, port): (usize, &PortFacts)| {
            let own = kind.config.groups_of(local as u16)[group];
            let settings = (own, port.rate, port.propagation, port.spec.headroom);
            own.lossless.then_some((settings, local))
        };
        let alike = alike(kind.ports.iter().enumerate().filter_map(of)).into_iter();
        alike.map(move |(_, ports)| (group, ports))
    };
    (0..PRIORITIES).flat_map(ports).collect()
}

/// The headroom of a group at a port, as configured or computed.
fn headroom(kind: &Kind, local: usize, group: usize) -> u32 {
    headroom_of(&kind.config.groups_of(local as u16)[group], &kind.ports[local].spec)
}
