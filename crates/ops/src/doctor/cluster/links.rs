//! Which port is at which, by LLDP of either end; where a switch has none, by `DEVICE_NEIGHBOR` of its configuration.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use super::Cluster;
use crate::doctor::finding::Place;
use crate::doctor::limits::NAME_MAX;
use crate::doctor::source::lldp::Neighbour;

/// A device, by its place in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// A switch.
    Switch(usize),
    /// A host.
    Host(usize),
}

/// An end of a link.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct End {
    /// Whose.
    pub node: Node,
    /// The port, or the interface.
    pub port: String,
}

/// A cable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The smaller first.
    pub ends: [End; 2],
    /// Who says that it is there.
    pub place: Place,
}

/// All cables between devices of the cluster.
pub(super) fn of(cluster: &Cluster) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut taken: BTreeMap<End, ()> = BTreeMap::new();
    let names = Names::of(cluster);
    let mut join = |here: End, there: &Neighbour, place: Place| {
        let Some(node) = names.node(&there.device) else { return };
        let Some(port) = port_of(cluster, &names, node, there, &here) else { return };
        let mut ends = [here, End { node, port }];
        if ends[0] == ends[1] || ends.iter().any(|end| taken.contains_key(end)) {
            return;
        }
        ends.sort();
        ends.iter().for_each(|end| _ = taken.insert(end.clone(), ()));
        links.push(Link { ends, place });
    };
    for (index, switch) in cluster.switches.iter().enumerate() {
        let Some(file) = &switch.lldp_file else { continue };
        for neighbour in &switch.neighbours {
            let Some(port) = switch.port(&neighbour.local) else { continue };
            let here = End { node: Node::Switch(index), port: port.name.clone() };
            join(here, neighbour, Place { file: file.clone(), line: neighbour.line });
        }
    }
    for (index, host) in cluster.hosts.iter().enumerate() {
        let Some(file) = &host.lldp_file else { continue };
        for neighbour in &host.neighbours {
            let here = End { node: Node::Host(index), port: neighbour.local.clone() };
            join(here, neighbour, Place { file: file.clone(), line: neighbour.line });
        }
    }
    for (index, switch) in cluster.switches.iter().enumerate() {
        if switch.lldp_file.is_some() {
            continue;
        }
        for entry in switch.entries("DEVICE_NEIGHBOR") {
            let text = |name: &str| entry.field(name).map(|field| field.value.clone());
            let (Some(device), Some(port)) = (text("name"), text("port")) else { continue };
            let Some(own) = switch.port(&entry.key) else { continue };
            let here = End { node: Node::Switch(index), port: own.name.clone() };
            let neighbour =
                Neighbour { local: own.name.clone(), device, ports: vec![port], line: None };
            join(here, &neighbour, switch.place(entry.line));
        }
    }
    links.sort_by(|a, b| a.ends.cmp(&b.ends));
    links
}

/// Devices that are named as neighbours and that the cluster has not, with the devices that name them.
///
/// Management networks, telephones and the like are named, too, so not every name counts: one that a port with a lossless
/// class sees does, one of `DEVICE_NEIGHBOR`, or one that two devices see where their data goes.
pub(in crate::doctor) fn strangers<'a>(
    cluster: &'a Cluster,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let names = Names::of(cluster);
    let mut all: BTreeMap<&str, (bool, BTreeSet<&str>)> = BTreeMap::new();
    let mut add = |name: &'a str, by: &'a str, counts: bool| {
        let of_one = name.parse::<IpAddr>().is_ok();
        let short = if of_one { name } else { without_domain(name) };
        let is_name = !short.is_empty() && name.len() <= NAME_MAX;
        if is_name && !names.knows(name) {
            let (sure, who) = all.entry(short).or_default();
            *sure |= counts;
            who.insert(by);
        }
    };
    for (index, switch) in cluster.switches.iter().enumerate() {
        for neighbour in &switch.neighbours {
            let Some(port) = switch.port(&neighbour.local) else { continue };
            let lossless = port.qos.as_ref().is_some_and(|qos| qos.lossless().next().is_some());
            add(&neighbour.device, &switch.name, lossless);
        }
        for entry in switch.entries("DEVICE_NEIGHBOR") {
            let Some(port) = switch.port(&entry.key) else { continue };
            // Where LLDP sees another, FD016 says that.
            let seen = switch.seen_at(port).next().is_some();
            let seen = seen || cluster.peer(Node::Switch(index), &port.name).is_some();
            if let Some(name) = entry.field("name").filter(|_| !seen) {
                add(&name.value, &switch.name, true);
            }
        }
    }
    for host in &cluster.hosts {
        let of_data = |of: &&Neighbour| host.judged().any(|(name, _)| *name == of.local);
        for neighbour in host.neighbours.iter().filter(of_data) {
            add(&neighbour.device, &host.name, false);
        }
    }
    let counts = all.into_iter().filter(|(_, (sure, who))| *sure || who.len() > 1);
    counts.map(|(name, (_, who))| (name, who)).collect()
}

/// Devices by the names that others call them: their folder's, their `hostname`, and either without its domain.
pub(in crate::doctor) struct Names<'a> {
    whole: BTreeMap<&'a str, Node>,
    /// `None` for what two devices are called.
    short: BTreeMap<&'a str, Option<Node>>,
}

impl<'a> Names<'a> {
    pub(in crate::doctor) fn of(cluster: &'a Cluster) -> Self {
        let hosts = cluster.hosts.iter().enumerate();
        let hosts = hosts.map(|(index, host)| (host.name.as_str(), Node::Host(index)));
        let switches = || cluster.switches.iter().enumerate();
        let folders = switches().map(|(at, switch)| (switch.name.as_str(), Node::Switch(at)));
        let named = switches().map(|(at, switch)| (switch.hostname.as_str(), Node::Switch(at)));
        let folders: BTreeMap<&str, Node> = hosts.chain(folders).collect();
        let mut short: BTreeMap<&str, Option<Node>> = BTreeMap::new();
        for (name, node) in folders.iter().map(|(name, node)| (*name, *node)).chain(named) {
            for name in [name, without_domain(name)] {
                let known = short.entry(name).or_insert(Some(node));
                if *known != Some(node) {
                    *known = None;
                }
            }
        }
        short.remove("");
        Self { whole: folders, short }
    }

    /// Whether any device is called so, be it two.
    fn knows(&self, name: &str) -> bool {
        self.short.contains_key(name) || self.short.contains_key(without_domain(name))
    }

    /// The one device that is called so.
    pub(in crate::doctor) fn node(&self, name: &str) -> Option<Node> {
        let short = |name: &str| self.short.get(name).copied().flatten();
        let whole = self.whole.get(name).copied();
        whole.or_else(|| short(name)).or_else(|| short(without_domain(name)))
    }
}

/// "tor-1" of "tor-1.dc1.example.com".
pub(in crate::doctor) fn without_domain(name: &str) -> &str {
    name.split_once('.').map_or(name, |(name, _)| name)
}

/// The port of `node` that a neighbour describes: by its names, or because it says itself that `here` is at it.
fn port_of(
    cluster: &Cluster,
    names: &Names<'_>,
    node: Node,
    there: &Neighbour,
    here: &End,
) -> Option<String> {
    let says_here = |all: &[Neighbour]| {
        let mut named = all.iter().filter(|back| {
            names.node(&back.device) == Some(here.node) && back.ports.contains(&here.port)
        });
        named.next().map(|back| back.local.clone())
    };
    match node {
        Node::Switch(index) => {
            let switch = cluster.switches.get(index)?;
            let found = there.ports.iter().find_map(|name| switch.port(name));
            found.map(|port| port.name.clone()).or_else(|| says_here(&switch.neighbours))
        }
        Node::Host(index) => {
            let host = cluster.hosts.get(index)?;
            let known = host.interfaces.iter().find(|(name, interface)| {
                there.ports.iter().any(|said| {
                    let mac = interface.mac.as_deref();
                    said == *name
                        || mac.is_some_and(|mac| said.eq_ignore_ascii_case(mac))
                        || said.split_whitespace().last() == Some(name.as_str())
                })
            });
            known.map(|(name, _)| name.clone()).or_else(|| says_here(&host.neighbours))
        }
    }
}
