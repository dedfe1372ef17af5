//! Topologies: hosts, switches and the links between them, as plain data.
//!
//! The functions here make the usual shapes. A topology can be changed, or made by hand
//! ([`Topology::add_host`], [`Topology::add_switch`], [`Topology::link`]), until a [`crate::Network`] is made
//! of it. Hosts have one port each.

pub(crate) mod routing;
mod shapes;
pub(crate) mod units;

use rdma::{Rate, Span};

pub use routing::next_hops;
pub use shapes::{Cables, ClosShape, clos, fat_tree, single_switch};
pub(crate) use shapes::{back_to_back, leaf_spine, parking_lot, rail_optimised};

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum End {
    /// A host, by its index.
    Host(u32),
    /// A switch, by its index.
    Switch(u32),
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchNode {
    /// What people call it.
    pub name: String,
    /// How far from the servers: 0 for the top of a rack. Packets go up, then down, and never up
    /// again. Between switches of one tier they go as if down.
    pub tier: u8,
}

/// A link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// Its ends.
    pub ends: [End; 2],
    /// In both directions.
    pub rate: Rate,
    /// How long a signal takes; see [`propagation`].
    pub propagation: Span,
}

/// How long light takes for a metre of fibre or copper, in picoseconds: two thirds of its speed in
/// vacuum.
pub const PS_PER_METRE: u64 = 5_000;

/// How long a signal takes over `metres`.
pub const fn propagation(metres: u32) -> Span {
    Span::from_ps(metres as u64 * PS_PER_METRE)
}

/// Hosts, switches and links.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// The names of the hosts, by index.
    pub hosts: Vec<String>,
    /// The switches, by index.
    pub switches: Vec<SwitchNode>,
    /// The links. Ports of a switch are numbered in their order.
    pub links: Vec<LinkSpec>,
    /// What must not be left to ECMP.
    pub routes: Vec<StaticRoute>,
}

/// At one switch, packets for the hosts of another go by these neighbours and no others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticRoute {
    /// The switch, by index.
    pub at: u32,
    /// The switch whose hosts it concerns.
    pub to: u32,
    /// The neighbours.
    pub via: Vec<u32>,
}

impl Topology {
    /// Adds a host and returns its index.
    pub fn add_host(&mut self, name: impl Into<String>) -> u32 {
        self.hosts.push(name.into());
        (self.hosts.len() - 1) as u32
    }

    /// Adds a switch and returns its index.
    pub fn add_switch(&mut self, name: impl Into<String>, tier: u8) -> u32 {
        self.switches.push(SwitchNode { name: name.into(), tier });
        (self.switches.len() - 1) as u32
    }

    /// Adds a link.
    pub fn link(&mut self, a: End, b: End, rate: Rate, propagation: Span) {
        self.links.push(LinkSpec { ends: [a, b], rate, propagation });
    }

    /// The name of a node.
    pub fn name(&self, end: End) -> &str {
        match end {
            End::Host(index) => self.hosts.get(index as usize).map_or("?", String::as_str),
            End::Switch(index) => self.switches.get(index as usize).map_or("?", |node| &node.name),
        }
    }

    /// The rate of the link of each host, by index.
    pub(crate) fn host_rates(&self) -> Vec<Rate> {
        let mut rates = vec![Rate::ZERO; self.hosts.len()];
        for link in &self.links {
            for end in link.ends {
                if let End::Host(host) = end
                    && let Some(rate) = rates.get_mut(host as usize)
                {
                    *rate = link.rate;
                }
            }
        }
        rates
    }

    /// The node with that name.
    pub fn find(&self, name: &str) -> Option<End> {
        let host = self.hosts.iter().position(|host| host == name);
        let switch = || self.switches.iter().position(|switch| switch.name == name);
        host.map(|index| End::Host(index as u32))
            .or_else(|| switch().map(|index| End::Switch(index as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_hundred_metres_take_a_microsecond_and_a_half() {
        assert_eq!(propagation(300), Span::from_ns(1_500));
    }
}
