//! One DSCP, hop by hop, from host to host and back: what each device makes of it, and where the chain breaks.
//!
//! ```text
//!   h0 eth2          DSCP 26 -> priority 3, TC 3; PFC on
//!   tor-1 Ethernet0  in:  class 3 -> group 3, lossless, pauses as priority 3
//!   tor-1 Ethernet96 out: queue 3, stopped by priority 3; marks from 262,144 bytes
//! ```

use core::fmt;

use fabric::switch::config::Trust;
use fabric::topology::next_hops;

use super::Diagnosis;
use super::cluster::{Cluster, Node, Part, Trusted};
use super::report::{harmless, wrapped};
use super::rules::{Traffic, at_host, cnp_dscps};
use super::wiring::Wiring;

/// Why there is no path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoPath {
    /// There is no host of that name; those that there are.
    NoHost(String, Vec<String>),
    /// Both are one.
    Same,
    /// The links that are known do not join them.
    NoLink(String, String),
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost(name, known) if known.is_empty() => {
                write!(
                    f,
                    "there is no host {name:?} with a link\nhint: add lldp.json or lldp.txt to the devices"
                )
            }
            Self::NoHost(name, known) => write!(
                f,
                "there is no host {name:?} with a link\nhint: there are {}",
                known.iter().take(8).cloned().collect::<Vec<_>>().join(", ")
            ),
            Self::Same => f.write_str("both ends are the same host\nhint: name two: --path h0,h5"),
            Self::NoLink(from, to) => write!(
                f,
                "no path of known links leads from {from} to {to}\nhint: add lldp.json or lldp.txt to \
                 the devices between them"
            ),
        }
    }
}

impl core::error::Error for NoPath {}

/// The path of `dscp` between two hosts and back, with the CNPs and ACKs that answer it, for a terminal; and at how
/// many places it breaks or is not known. Without a DSCP, that of the data.
///
/// # Errors
/// [`NoPath`].
pub fn path(
    diagnosis: &Diagnosis,
    from: &str,
    to: &str,
    dscp: Option<u8>,
) -> Result<(String, usize), NoPath> {
    let cluster = &diagnosis.cluster;
    let wiring = Wiring::of(cluster);
    let find = |name: &str| {
        wiring
            .host(name)
            .ok_or_else(|| NoPath::NoHost(name.to_owned(), wiring.topology.hosts.clone()))
    };
    let (a, b) = (find(from)?, find(to)?);
    if a == b {
        return Err(NoPath::Same);
    }
    let traffic = Traffic::of(cluster, &diagnosis.desired);
    let data = dscp.or(traffic.data.first().copied()).unwrap_or(26);
    let mut told = Told { text: String::new(), breaks: 0, unknown: 0 };
    let forth =
        route(cluster, &wiring, a, b).ok_or_else(|| NoPath::NoLink(from.into(), to.into()))?;
    let back =
        route(cluster, &wiring, b, a).ok_or_else(|| NoPath::NoLink(to.into(), from.into()))?;
    told.way(cluster, &format!("data, {from} to {to}"), &forth, data, true);
    told.way(cluster, &format!("data, {to} to {from}"), &back, data, true);
    let cnps = cnp_dscps(&cluster.hosts, &traffic);
    if cnps.is_empty() {
        told.line(
            "CNPs: no file says their DSCP (ecn/roce_np/cnp_dscp, or cnp_dscp of desired.toml)",
            0,
            2,
        );
    }
    for cnp in cnps {
        told.beside(cluster, &format!("CNPs, {to} to {from}"), &back, cnp, data);
    }
    match traffic.ack {
        Some(ack) => told.beside(cluster, &format!("ACKs, {to} to {from}"), &back, ack, data),
        None => told.line(
            "ACKs: of the data's own DSCP, as NICs send them; they go the way of the data back",
            0,
            2,
        ),
    }
    let places = |count: usize| match count {
        1 => "1 place".to_owned(),
        _ => format!("{count} places"),
    };
    let (breaks, unknown) = (told.breaks, told.unknown);
    told.line(
        &match (breaks, unknown) {
            (0, 0) => format!("DSCP {data} is lossless at every hop, both ways"),
            (0, _) => format!(
                "whether DSCP {data} is lossless is not known at {}; elsewhere it is",
                places(unknown)
            ),
            (_, 0) => format!("the chain breaks at {}", places(breaks)),
            _ => format!(
                "the chain breaks at {}, and is not known at {}",
                places(breaks),
                places(unknown)
            ),
        },
        0,
        2,
    );
    Ok((harmless(&told.text), breaks + unknown))
}

/// A hop: a node with the ports by which packets come and leave.
#[derive(Clone, Debug)]
struct Hop {
    node: Node,
    comes: Option<String>,
    leaves: Option<String>,
    /// How many next hops there are.
    choices: usize,
}

/// The hops from one host of the topology to another; of several next hops, the first.
fn route(cluster: &Cluster, wiring: &Wiring, from: u32, to: u32) -> Option<Vec<Hop>> {
    let (start, end) = (wiring.hosts.get(from as usize)?, wiring.hosts.get(to as usize)?);
    let first = cluster.peer(start.node, &start.port)?;
    let last = cluster.peer(end.node, &end.port)?;
    let leaves = Some(start.port.clone());
    let mut hops = vec![Hop { node: start.node, comes: None, leaves, choices: 1 }];
    let tables = next_hops(&wiring.topology);
    let mut at = first.clone();
    for _ in 0..=cluster.switches.len() {
        let Node::Switch(switch) = at.node else { break };
        let Node::Switch(rack) = last.node else { break };
        if switch == rack {
            let leaves = Some(last.port.clone());
            hops.push(Hop { node: at.node, comes: Some(at.port), leaves, choices: 1 });
            let comes = Some(end.port.clone());
            hops.push(Hop { node: end.node, comes, leaves: None, choices: 1 });
            return Some(hops);
        }
        let next = tables.get(switch)?.get(rack)?;
        let via = *next.first()? as usize;
        let link = cluster.links.iter().find_map(|link| {
            let out = link.ends.iter().position(|end| end.node == at.node)?;
            let peer = &link.ends[1 - out];
            (peer.node == Node::Switch(via)).then(|| (link.ends[out].port.clone(), peer.clone()))
        });
        let (leaves, peer) = link?;
        let comes = Some(at.port);
        hops.push(Hop { node: at.node, comes, leaves: Some(leaves), choices: next.len() });
        at = peer;
    }
    None
}

struct Told {
    text: String,
    breaks: usize,
    /// Hops of which it is not known whether they break.
    unknown: usize,
}

impl Told {
    fn line(&mut self, words: &str, first: usize, indent: usize) {
        self.text += &wrapped(words, first, indent);
    }

    fn broken(&mut self, words: &str) {
        self.breaks += 1;
        self.line(&format!("BREAKS: {words}"), 6, 14);
    }

    fn not_known(&mut self, words: &str) {
        self.unknown += 1;
        self.line(&format!("NOT KNOWN: {words}"), 6, 17);
    }

    /// Every hop of a way, with what it makes of a DSCP that is to be lossless.
    fn way(&mut self, cluster: &Cluster, title: &str, hops: &[Hop], dscp: u8, lossless: bool) {
        self.line(&format!("{title}: DSCP {dscp}"), 0, 2);
        // The priority of the pauses that the next hop sends must stop what leaves here.
        let mut leaving: Option<(String, Stops)> = None;
        for hop in hops {
            match hop.node {
                Node::Host(_) => self.at_host(cluster, hop, dscp, lossless, &mut leaving),
                Node::Switch(_) => self.at_switch(cluster, hop, dscp, lossless, &mut leaving),
            }
        }
        self.text.push('\n');
    }

    fn at_host(
        &mut self,
        cluster: &Cluster,
        hop: &Hop,
        dscp: u8,
        lossless: bool,
        leaving: &mut Option<(String, Stops)>,
    ) {
        let Node::Host(index) = hop.node else { return };
        let name = cluster.name(hop.node);
        let port = hop.leaves.as_ref().or(hop.comes.as_ref()).map_or("", String::as_str);
        let interface = cluster.hosts.get(index).and_then(|host| host.interfaces.get(port));
        let place = format!("{name} {port}");
        let Some((interface, at)) = interface.and_then(|own| Some((own, at_host(own, dscp)?)))
        else {
            self.line(&format!("{place}: no file says its priorities"), 2, 6);
            self.unknown += usize::from(lossless);
            *leaving = None;
            return;
        };
        let class = interface.priority_to_tc.as_ref();
        let class = class
            .map_or(String::new(), |map| format!(", TC {}", map.value[usize::from(at.priority)]));
        let pfc = match at.pfc {
            Some(true) => "PFC on",
            Some(false) => "PFC off",
            None => "PFC not known",
        };
        let on = |mask: &Option<super::cluster::Known<u8>>| {
            mask.as_ref().is_some_and(|mask| mask.value >> at.priority & 1 != 0)
        };
        let marks = match (hop.leaves.is_some(), &interface.reacts, &interface.notifies) {
            (true, Some(_), _) => {
                if on(&interface.reacts) {
                    "; reacts to CNPs"
                } else {
                    "; does not react to CNPs"
                }
            }
            (false, _, Some(_)) => {
                if on(&interface.notifies) {
                    "; sends CNPs"
                } else {
                    "; sends no CNPs"
                }
            }
            _ => "",
        };
        let trust = match interface.trust.as_ref().map(|trust| trust.value) {
            Some(Trusted::Pcp) => "trusts PCP: untagged is ",
            _ => "",
        };
        self.line(&format!("{place}: {trust}priority {}{class}; {pfc}{marks}", at.priority), 2, 6);
        if let Some((before, stops)) = leaving.take()
            && at.pfc == Some(true)
            && lossless
        {
            self.pause(&before, stops, name, at.priority);
        }
        if lossless && at.pfc.is_none() {
            self.not_known("no file says which priorities have PFC");
        }
        if lossless && interface.trust.is_none() {
            self.not_known("no file says whether DSCP or PCP is trusted");
        }
        if lossless && at.pfc == Some(false) {
            self.broken(&format!("no pause of priority {} is sent or obeyed here", at.priority));
        }
        if hop.leaves.is_some() {
            *leaving = Some((place, Stops::Priority(at.priority, at.pfc == Some(true))));
        }
    }

    fn at_switch(
        &mut self,
        cluster: &Cluster,
        hop: &Hop,
        dscp: u8,
        lossless: bool,
        leaving: &mut Option<(String, Stops)>,
    ) {
        let Node::Switch(index) = hop.node else { return };
        let name = cluster.name(hop.node);
        let qos = |port: &Option<String>| {
            let port = port.as_ref()?;
            cluster.switches.get(index)?.port(port)?.qos.clone()
        };
        let port = |port: &Option<String>| port.clone().unwrap_or_default();
        let (comes, leaves) = (port(&hop.comes), port(&hop.leaves));
        let (ingress, egress) = (qos(&hop.comes), qos(&hop.leaves));
        let (Some(ingress), Some(egress)) = (&ingress, &egress) else {
            let odd: Vec<&str> = [(&hop.comes, ingress.is_none()), (&hop.leaves, egress.is_none())]
                .into_iter()
                .filter(|(_, odd)| *odd)
                .filter_map(|(port, _)| port.as_deref())
                .collect();
            self.line(&format!("{name}: its file is not understood"), 2, 6);
            self.not_known(&format!("what {} does with packets (FD000)", odd.join(" and ")));
            *leaving = None;
            return;
        };
        let class = ingress.class(dscp);
        let group = ingress.group(class);
        let own = ingress.group_config(group);
        let by = if ingress.trust() == Trust::Pcp { "PCP 0 -> " } else { "" };
        let buffers = ingress.knows(Part::Buffers);
        let headroom = match own.headroom_bytes {
            _ if !buffers => ", headroom not known".to_owned(),
            Some(bytes) => format!(", headroom {}", super::rules::bytes(u64::from(bytes))),
            None => ", headroom computed".to_owned(),
        };
        let pauses = match own.lossless {
            true => format!("lossless, pauses as priority {}{headroom}", ingress.priority(group)),
            false => "lossy".to_owned(),
        };
        self.line(&format!("{name} {comes} in: {by}TC {class} -> PG {group}, {pauses}"), 2, 6);
        if let Some((before, stops)) = leaving.take()
            && own.lossless
            && lossless
        {
            self.pause(&before, stops, name, ingress.priority(group));
        }
        if lossless && own.lossless && !buffers {
            self.not_known(&format!("whether {comes} has headroom (FD000)"));
        }
        if lossless && !own.lossless {
            self.broken(&format!("PG {group} never pauses: what does not fit is dropped"));
        }
        let queue = egress.queue(class);
        let stopped: Vec<String> = (0..8)
            .filter(|&priority| egress.stopped(priority) == queue)
            .filter(|&priority| egress.lossless().any(|group| egress.priority(group) == priority))
            .map(|priority| priority.to_string())
            .collect();
        let stopped = match stopped.is_empty() {
            true => "no pause stops it".to_owned(),
            false => format!("stopped by priority {}", stopped.join(", ")),
        };
        let marks = match egress.queue_config(queue).ecn {
            _ if !egress.knows(Part::Marks) => "marks are not known (FD000)".to_owned(),
            Some(ecn) => {
                format!("marks from {} bytes", super::rules::bytes(u64::from(ecn.min_bytes)))
            }
            None => "does not mark".to_owned(),
        };
        let choice = match hop.choices {
            0 | 1 => String::new(),
            more => format!(" (1 of {more} next hops)"),
        };
        self.line(&format!("{name} {leaves} out{choice}: queue {queue}, {stopped}; {marks}"), 2, 6);
        let by_priority = core::array::from_fn(|priority| {
            let priority = priority as u8;
            let enabled = egress.lossless().any(|group| egress.priority(group) == priority);
            enabled && egress.stopped(priority) == queue
        });
        *leaving = Some((format!("{name} {leaves}"), Stops::Queue(queue, by_priority)));
    }

    /// Whether a pause that comes back stops what has left.
    fn pause(&mut self, before: &str, stops: Stops, who: &str, priority: u8) {
        let (stopped, what) = match stops {
            Stops::Priority(own, pfc) => (!pfc || own == priority, format!("priority {own}")),
            Stops::Queue(queue, by) => (by[usize::from(priority & 7)], format!("queue {queue}")),
        };
        if !stopped {
            self.broken(&format!(
                "{who} pauses priority {priority}, which does not stop {what} at {before}"
            ));
        }
    }

    /// Packets that answer data, and should not wait behind it.
    fn beside(&mut self, cluster: &Cluster, title: &str, hops: &[Hop], dscp: u8, data: u8) {
        self.line(&format!("{title}: DSCP {dscp}"), 0, 2);
        for hop in hops {
            let name = cluster.name(hop.node);
            let Some(port) = &hop.leaves else { continue };
            let both = match hop.node {
                Node::Host(index) => cluster.hosts.get(index).and_then(|host| {
                    let own = host.interfaces.get(port)?;
                    let (own_at, data_at) = (at_host(own, dscp)?, at_host(own, data)?);
                    Some(("priority", own_at.priority, data_at.priority))
                }),
                Node::Switch(index) => cluster.switches.get(index).and_then(|switch| {
                    let qos = switch.port(port)?.qos.as_ref()?;
                    let queue = |dscp| qos.queue(qos.class(dscp));
                    Some(("queue", queue(dscp), queue(data)))
                }),
            };
            let Some((what, own, of_data)) = both else {
                self.line(&format!("{name} {port}: not known"), 2, 6);
                continue;
            };
            self.line(&format!("{name} {port}: {what} {own}, beside data in {of_data}"), 2, 6);
            if own == of_data {
                self.broken("they wait behind the data, and for its pauses");
            }
        }
        self.text.push('\n');
    }
}

/// What stops packets that have left a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stops {
    /// Pauses of this priority, if PFC is on.
    Priority(u8, bool),
    /// By priority, whether its pauses stop the queue.
    Queue(u8, [bool; 8]),
}
