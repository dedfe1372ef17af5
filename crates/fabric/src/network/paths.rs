//! Which way flows go, and what hashes chose where there were several.
//!
//! ```text
//!   h0 ──► tor0-0 ──1 of 4──► leaf0-1 ──3 of 4──► spine1-3 ──► leaf1-1 ──► tor1-2 ──► h9
//! ```
//!
//! It is found out when somebody asks: packets carry nothing for it and nothing is recorded on their way. Only when
//! routes change, the paths of flows that have begun are kept before, because nobody could find them out afterwards.

use super::Network;
use crate::address::hash_of;
use crate::topology::End;

/// The way of a flow's packets to its destination, as they went when it began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowPath {
    /// The source port, of UDP or TCP.
    pub source_port: u16,
    /// The hash of the five-tuple, which switches with several next hops choose by.
    pub hash: u32,
    /// The switches, in order. None if one of them spreads the packets of a flow, so that there is no one way, or if
    /// no way leads there.
    pub hops: Option<Vec<Hop>>,
    /// The choices, in order: of an only next hop there is none. Where packets are spread, the last.
    pub choices: Vec<Choice>,
}

/// A switch on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Which.
    pub switch: u32,
    /// The port that packets leave by, from 0.
    pub port: u16,
    /// Who is behind that port.
    pub to: End,
}

/// What a switch with several next hops chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Which switch.
    pub switch: u32,
    /// The chosen one, from 0; none if packets or flowlets choose, and not the hash of the flow.
    pub taken: Option<u32>,
    /// Of so many; in WCMP one counts several times.
    pub of: u32,
}

impl Network {
    /// How the packets of a flow go, or went when it began.
    pub fn path_of(&self, flow: u32) -> Option<FlowPath> {
        let kept = self.paths_before.get(flow as usize).cloned().flatten();
        kept.or_else(|| self.path_now(flow))
    }

    fn path_now(&self, flow: u32) -> Option<FlowPath> {
        let tuple = *self.common.tuples.get(self.tuple_of_flow(flow)? as usize)?;
        let mut choices = Vec::new();
        let ports = self.choose_path(tuple.source, tuple.destination, tuple.hash, &mut choices);
        let is_spread = choices.iter().any(|choice| choice.taken.is_none());
        let hop = |port: u32| {
            let at = self.at(port);
            let End::Switch(switch) = at.node else { return None };
            let local = port - self.switch(switch)?.1.ports().start;
            Some(Hop { switch, port: local as u16, to: self.at(at.peer).node })
        };
        let hops = ports.filter(|_| !is_spread);
        let hops = hops.map(|ports| ports.into_iter().filter_map(hop).collect());
        if let Some(first) = choices.iter().position(|choice| choice.taken.is_none()) {
            choices.truncate(first + 1);
        }
        Some(FlowPath { source_port: tuple.source_port, hash: tuple.hash, hops, choices })
    }

    /// Keeps the paths of all flows that have begun, before routes change.
    pub(super) fn keep_paths(&mut self) {
        self.paths_before.resize(self.flows.len().max(self.paths_before.len()), None);
        for flow in 0..self.flows.len() {
            let has_begun = self.flows[flow].spec.start.as_ps() <= self.past;
            if has_begun && self.paths_before[flow].is_none() {
                self.paths_before[flow] = self.path_now(flow as u32);
            }
        }
    }

    /// The switch ports that the packets of a flow leave by on their way to its destination, as the
    /// hash of its five-tuple and the routes of now have it: switch and neighbour.
    pub fn flow_path(&self, flow: u32) -> Option<Vec<(u32, End)>> {
        Some(self.named(self.flow_ports(flow)?))
    }

    /// The same for datagrams from one host to another that carry a flow label: what `traceroute` finds out with the
    /// same five-tuple.
    pub fn datagram_path(
        &self,
        source: u32,
        destination: u32,
        flow_label: u32,
    ) -> Option<Vec<(u32, End)>> {
        let hosts = self.common.host_ports.len() as u32;
        if source >= hosts || destination >= hosts {
            return None;
        }
        let hash = hash_of(source, destination, transport::source_port(flow_label));
        Some(self.named(self.path(source, destination, hash)?))
    }

    /// Those of `ports` that are of switches, with their neighbours.
    fn named(&self, ports: Vec<u32>) -> Vec<(u32, End)> {
        let named = ports.into_iter().filter_map(|port| match self.at(port).node {
            End::Switch(switch) => Some((switch, self.at(self.at(port).peer).node)),
            End::Host(_) => None,
        });
        named.collect()
    }

    /// The five-tuple of a flow's packets to its destination.
    fn tuple_of_flow(&self, flow: u32) -> Option<u32> {
        let spec = &self.flows.get(flow as usize)?.spec;
        let end = *self.partition(self.host_port(spec.source)).local_ends.get(flow as usize)?;
        self.host(spec.source)?.tuple_of(end)
    }

    /// All ports that they leave by.
    pub(super) fn flow_ports(&self, flow: u32) -> Option<Vec<u32>> {
        let tuple = *self.common.tuples.get(self.tuple_of_flow(flow)? as usize)?;
        self.path(tuple.source, tuple.destination, tuple.hash)
    }

    /// The ports that packets with `hash` leave by, from host to host.
    pub(super) fn path(&self, source: u32, destination: u32, hash: u32) -> Option<Vec<u32>> {
        self.choose_path(source, destination, hash, &mut Vec::new())
    }

    /// The same, with what switches choose.
    fn choose_path(
        &self,
        source: u32,
        destination: u32,
        hash: u32,
        choices: &mut Vec<Choice>,
    ) -> Option<Vec<u32>> {
        let to_destination = self.host_port(destination);
        let rack = self.common.racks[destination as usize];
        let mut path = vec![self.host_port(source)];
        loop {
            let peer = self.at(*path.last()?).peer;
            match self.at(peer).node {
                End::Host(host) if host == destination => return Some(path),
                End::Host(_) => return None,
                End::Switch(switch) => {
                    let at = self.switch(switch)?.1;
                    let egress = at.egress(rack, hash);
                    if let Some((_, taken, of)) = egress.filter(|(.., of)| *of > 1) {
                        let taken = (!at.sprays()).then_some(taken);
                        choices.push(Choice { switch, taken, of });
                    }
                    let last = || self.at(to_destination).peer;
                    let port = egress.map_or_else(last, |(port, ..)| port);
                    if !at.ports().contains(&port) || path.len() > self.switches.len() + 1 {
                        return None;
                    }
                    path.push(port);
                }
            }
        }
    }
}
