//! Buffers that depend on each other in a circle: FD013 (guo16, 4.2).
//!
//! ```text
//!   a link u->v waits for a link v->w   if packets that come by the first leave by the second:
//!     by routing    for some rack, v is a next hop of u, and w of v
//!     by flooding   v is the rack, the server's MAC has aged, and w is in the VLAN of the servers
//! ```
//!
//! Up-down routing has no circle; a static route, links between switches of one tier, or a VLAN that reaches beyond
//! its rack may close one.

use std::collections::{BTreeMap, BTreeSet};

use fabric::topology::next_hops;

use super::Look;
use crate::doctor::cluster::{Cluster, Node, Switch};
use crate::doctor::finding::{Finding, Rule};
use crate::doctor::shell::typed;
use crate::doctor::wiring::Wiring;

/// A link in one direction, by the places of two switches in the cluster.
type Channel = (usize, usize);

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    let cluster = look.cluster;
    let wiring = Wiring::of(cluster);
    let edges = edges(cluster, &wiring);
    let Some(circle) = shortest(&edges) else { return };
    let names: Vec<&str> =
        circle.iter().map(|&((at, _), _)| cluster.name(Node::Switch(at))).collect();
    let flooding: BTreeMap<usize, &str> = circle
        .iter()
        .filter_map(|((_, at), why)| match why {
            Why::Flooded(vlan) => Some((*at, vlan.as_str())),
            Why::Routed => None,
        })
        .collect();
    let through = match flooding.is_empty() {
        true => "by routing alone".to_owned(),
        false => {
            let of = |(&at, vlan): (&usize, &&str)| {
                format!("{} ({vlan})", cluster.name(Node::Switch(at)))
            };
            format!(
                "through flooding at {}",
                flooding.iter().map(of).collect::<Vec<_>>().join(" and ")
            )
        }
    };
    let text =
        format!("a deadlock is possible: {} -> {}, {through}.", names.join(" -> "), names[0]);
    let first = flooding.keys().next().copied().or(circle.first().map(|((at, _), _)| *at));
    let Some(switch) = first.and_then(|at| cluster.switches.get(at)) else { return };
    let mut finding = Finding::new(Rule::Circle, &switch.name, text);
    if let Some((at, vlan)) = flooding.first_key_value() {
        let out = circle.iter().find(|((_, to), _)| to == at).map(|((from, _), _)| *from);
        let member = beyond(cluster, *at, switch).find(|(_, to, ..)| Some(*to) != out);
        finding = finding.remedy(
            "keep VLANs of servers within their rack, and drop lossless packets whose ARP entry is \
             incomplete",
        );
        if let Some((port, _, _, line)) = member {
            finding = finding
                .key(format!("VLAN_MEMBER|{vlan}|{port}"))
                .command(typed!(
                    "sudo config vlan member del",
                    vlan.trim_start_matches("Vlan"),
                    port
                ))
                .at(switch.place(line));
        }
    } else {
        finding = finding
            .key("STATIC_ROUTE")
            .remedy("let packets go up, then down, and never up again: no static route and no link may lead back up")
            .at(switch.place(switch.entries("STATIC_ROUTE").first().map_or(1, |entry| entry.line)));
    }
    findings.push(finding);
}

/// Why one link waits for another.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Why {
    Routed,
    Flooded(String),
}

type Edges = BTreeMap<Channel, BTreeMap<Channel, Why>>;

/// Whether both ends of a link between two switches have a lossless class.
fn lossless(cluster: &Cluster) -> BTreeSet<Channel> {
    let mut all = BTreeSet::new();
    for link in &cluster.links {
        let [Node::Switch(a), Node::Switch(b)] = [link.ends[0].node, link.ends[1].node] else {
            continue;
        };
        let pauses = |at: usize, port: &str| {
            let port = cluster.switches.get(at).and_then(|switch| switch.port(port));
            let qos = port.and_then(|port| port.qos.as_ref());
            // What is not known may pause.
            qos.is_none_or(|qos| qos.lossless().next().is_some())
        };
        if pauses(a, &link.ends[0].port) && pauses(b, &link.ends[1].port) {
            all.extend([(a, b), (b, a)]);
        }
    }
    all
}

fn edges(cluster: &Cluster, wiring: &Wiring) -> Edges {
    let lossless = lossless(cluster);
    let hops = next_hops(&wiring.topology);
    let mut edges = Edges::new();
    let mut add = |from: Channel, to: Channel, why: Why| {
        if lossless.contains(&from) && lossless.contains(&to) {
            edges.entry(from).or_default().entry(to).or_insert(why);
        }
    };
    for (at, to_racks) in hops.iter().enumerate() {
        for (rack, next) in to_racks.iter().enumerate() {
            for &via in next {
                let via = via as usize;
                for &then in &hops[via][rack] {
                    add((at, via), (via, then as usize), Why::Routed);
                }
                if via != rack {
                    continue;
                }
                // It has arrived, and its server does not answer.
                let Some(switch) = cluster.switches.get(rack) else { continue };
                for (_, then, vlan, _) in beyond(cluster, rack, switch) {
                    if then != at {
                        add((at, rack), (rack, then), Why::Flooded(vlan.to_owned()));
                    }
                }
            }
        }
    }
    edges
}

/// Ports in a VLAN of servers that lead to other switches: port, switch, VLAN, line.
fn beyond<'a>(
    cluster: &'a Cluster,
    index: usize,
    switch: &'a Switch,
) -> impl Iterator<Item = (&'a str, usize, &'a str, usize)> {
    let member = |key: &'a str| key.split_once('|');
    let serves = |port: &str| {
        let peer = cluster.peer(Node::Switch(index), port);
        peer.is_some_and(|end| matches!(end.node, Node::Host(_)))
    };
    let members = switch.entries("VLAN_MEMBER");
    let with_servers: BTreeSet<&str> = members
        .iter()
        .filter_map(|entry| member(&entry.key))
        .filter(|(_, port)| serves(port))
        .map(|(vlan, _)| vlan)
        .collect();
    members.iter().filter_map(move |entry| {
        let (vlan, port) = member(&entry.key)?;
        let Node::Switch(to) = cluster.peer(Node::Switch(index), port)?.node else { return None };
        with_servers.contains(vlan).then_some((port, to, vlan, entry.line))
    })
}

/// A shortest circle of links, with why each waits for the next. The same edges give the same circle.
fn shortest(edges: &Edges) -> Option<Vec<(Channel, Why)>> {
    let mut best: Option<Vec<(Channel, Why)>> = None;
    for &start in edges.keys() {
        let bound = best.as_ref().map_or(usize::MAX, Vec::len);
        if let Some(circle) = circle_from(edges, start, bound) {
            best = Some(circle);
        }
    }
    best
}

/// The shortest circle through `start` that is shorter than `bound`, by breadth.
fn circle_from(edges: &Edges, start: Channel, bound: usize) -> Option<Vec<(Channel, Why)>> {
    let mut from: BTreeMap<Channel, Channel> = BTreeMap::new();
    let mut front = vec![start];
    for length in 1..bound {
        let mut next = Vec::new();
        for at in front {
            let Some(outs) = edges.get(&at) else { continue };
            for &to in outs.keys() {
                if to == start {
                    let mut path = vec![at];
                    while let Some(&before) =
                        from.get(path.last()?).filter(|_| path.last() != Some(&start))
                    {
                        path.push(before);
                    }
                    path.reverse();
                    let why = |step: usize| {
                        let to = path.get(step + 1).unwrap_or(&start);
                        edges[&path[step]][to].clone()
                    };
                    return Some((0..path.len()).map(|step| (path[step], why(step))).collect());
                }
                if to != start && !from.contains_key(&to) {
                    from.insert(to, at);
                    next.push(to);
                }
            }
        }
        // Nothing is longer than all links together.
        if next.is_empty() || length > edges.len() {
            return None;
        }
        front = next;
    }
    None
}
