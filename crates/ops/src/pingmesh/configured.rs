//! The configuration as a verdict has it: which devices of the topology `ferroce doctor` has read, what it finds wrong
//! with them, and what their ports lead to. Devices are those of the same name.

use std::collections::{BTreeMap, BTreeSet};

use fabric::topology::{End, Topology};
use serde::{Deserialize, Serialize};

use super::node::Node;
use crate::doctor::{Diagnosis, Rule};

/// Findings that are kept, at most: the gravest.
const FINDINGS_MAX: usize = 10_000;
/// Characters of what is said of one.
const WHAT_MAX: usize = 300;

/// What `ferroce doctor` has found about a device of the topology.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The device that it is about.
    pub node: Node,
    /// The identifier of the rule that is broken, as `FD003`.
    pub rule: String,
    /// What is wrong with it, for people.
    pub what: String,
}

impl Finding {
    /// The rule that is broken, if there still is one of that name.
    pub fn rule(&self) -> Option<Rule> {
        Rule::find(&self.rule)
    }
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Configuration {
    /// Devices whose files were read, and understood.
    pub read: BTreeSet<Node>,
    /// What is wrong with them, the gravest first.
    pub findings: Vec<Finding>,
    /// What a port of a switch leads to, as far as files say so: by switch and port.
    #[serde(skip)]
    pub leads: BTreeMap<(u32, String), Node>,
}

impl Configuration {
    /// Nobody has looked.
    pub const UNKNOWN: &'static Self =
        &Self { read: BTreeSet::new(), findings: Vec::new(), leads: BTreeMap::new() };

    /// What a diagnosis says of the devices of a topology.
    pub fn of(diagnosis: &Diagnosis, topology: &Topology) -> Self {
        let places = places(topology);
        let node = |name: &str| places.get(name).copied();
        let cluster = &diagnosis.cluster;
        let switches = cluster.switches.iter().map(|switch| switch.name.as_str());
        let hosts = cluster.hosts.iter().map(|host| host.name.as_str());
        let mut read: BTreeSet<Node> = switches.chain(hosts).filter_map(node).collect();
        for finding in diagnosis.findings.iter().filter(|of| of.rule == Rule::NotUnderstood) {
            node(&finding.device).map(|node| read.remove(&node));
        }
        let found = diagnosis.findings.iter().filter_map(|finding| {
            Some(Finding {
                node: node(&finding.device)?,
                rule: finding.rule.id().to_owned(),
                what: finding.text.chars().take(WHAT_MAX).collect(),
            })
        });
        let findings = found.take(FINDINGS_MAX).collect();
        let ends = cluster.links.iter().flat_map(|link| {
            let [a, b] = &link.ends;
            [(a, b), (b, a)]
        });
        let leads = ends.filter_map(|(from, to)| {
            let Node::Switch(switch) = node(cluster.name(from.node))? else { return None };
            Some(((switch, from.port.clone()), node(cluster.name(to.node))?))
        });
        Self { read, findings, leads: leads.collect() }
    }

    /// In a line, for people.
    pub fn text(&self) -> String {
        format!(
            "doctor has read {} devices of the topology, and finds {} things about them",
            self.read.len(),
            self.findings.len()
        )
    }
}

/// Hosts and switches by name.
pub fn places(topology: &Topology) -> BTreeMap<&str, Node> {
    let hosts = (0..topology.hosts.len() as u32).map(Node::Host);
    let switches = (0..topology.switches.len() as u32).map(Node::Switch);
    hosts.chain(switches).map(|node| (topology.name(End::from(node)), node)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rdma::{Rate, Span};

    use super::*;
    use crate::doctor::Folder;

    #[test]
    fn what_doctor_finds_is_about_devices_of_the_topology_and_no_others() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster");
        let diagnosis = Diagnosis::of(&Folder::read(&folder).unwrap(), None, None);
        let mut topology = Topology::default();
        let (host, tor) = (topology.add_host("h0"), topology.add_switch("tor-1", 0));
        topology.link(End::Host(host), End::Switch(tor), Rate::from_gbps(100), Span::from_ns(10));
        let configuration = Configuration::of(&diagnosis, &topology);
        assert_eq!(configuration.read, BTreeSet::from([Node::Host(0), Node::Switch(0)]));
        let of = |node| diagnosis.findings.iter().filter(|of| of.device == node).count();
        assert_eq!(configuration.findings.len(), of("h0") + of("tor-1"));
        assert!(configuration.leads.values().all(|node| *node == Node::Host(0)));
        assert_eq!(configuration.leads.len(), 1, "{:?}", configuration.leads);
    }
}
