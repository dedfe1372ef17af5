//! The chain from DSCP to lossless queue: FD004; which field is trusted: FD005; CNPs and ACKs: FD010.
//!
//! ```text
//!   host    DSCP ─► priority, with PFC ─┐ pauses of this priority stop it
//!   switch  DSCP ─► class ─► group, in pfc_enable, whose pauses are of that priority
//!                       └─► queue, stopped by the priority of the next switch's pauses
//! ```

use std::collections::BTreeSet;

use fabric::switch::config::Trust;

use super::maps::{self, Fault, Way};
use super::traffic::TRAFFIC_CLASSES;
use super::{Look, Traffic, alike, is_of_fabric};
use crate::doctor::cluster::{End, Host, Interface, Job, Node, Port, Qos, Switch, Trusted};
use crate::doctor::finding::{Finding, Place, Rule, quoted, several};
use crate::doctor::shell::typed;
use crate::doctor::source::env;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for &dscp in &look.traffic.data {
        for host in &look.cluster.hosts {
            host_breaks(host, dscp, findings);
        }
        for (index, switch) in look.cluster.switches.iter().enumerate() {
            switch_breaks(look, index, switch, dscp, findings);
        }
        link_breaks(look, dscp, findings);
    }
    strays(look, findings);
    no_classes(look, findings);
    unmarked(look, findings);
    trust(look, findings);
    beside_data(look, findings);
}

/// What a host does with a DSCP, as far as its files say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::doctor) struct AtHost {
    pub(in crate::doctor) priority: u8,
    /// Whether PFC is on for it.
    pub(in crate::doctor) pfc: Option<bool>,
}

pub(in crate::doctor) fn at_host(interface: &Interface, dscp: u8) -> Option<AtHost> {
    let by_pcp = interface.trust.as_ref().is_some_and(|trust| trust.value == Trusted::Pcp);
    let priority = match &interface.dscp_to_priority {
        _ if by_pcp => 0,
        Some(map) => map.value[usize::from(dscp & 63)] & 7,
        None => return None,
    };
    let pfc = interface.pfc.as_ref().map(|pfc| pfc.value >> priority & 1 != 0);
    Some(AtHost { priority, pfc })
}

/// The bits of a mask, as in 3 and 4.
pub(super) fn numbers(mask: u8) -> Vec<String> {
    (0..8).filter(|bit| mask >> bit & 1 != 0).map(|bit| bit.to_string()).collect()
}

/// "3 and 4", or "none".
pub(in crate::doctor) fn priorities(mask: u8) -> String {
    let all = numbers(mask);
    match all.as_slice() {
        [] => "none".to_owned(),
        _ => several(&all.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

/// Pauses that came for a priority, if the NIC counts any: "; rx_prio4_pause counts 812".
fn pauses_seen(interface: &Interface, but: u8) -> String {
    let counted = (0..8).filter(|&priority| priority != but).filter_map(|priority| {
        let name = format!("rx_prio{priority}_pause");
        let count = *interface.counters.get(&name)?;
        (count > 0).then(|| format!("{name} counts {count}"))
    });
    let all: Vec<String> = counted.collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

fn host_breaks(host: &Host, dscp: u8, findings: &mut Vec<Finding>) {
    let broken = host.judged().filter_map(|(name, interface)| {
        let at = at_host(interface, dscp)?;
        let pcp = interface.trust.as_ref().is_some_and(|trust| trust.value == Trusted::Pcp);
        // FD005 says that.
        (at.pfc == Some(false) && !pcp).then_some((at.priority, (name, interface)))
    });
    for (priority, of) in alike(broken) {
        let names: Vec<&str> = of.iter().map(|(name, _)| name.as_str()).collect();
        let (name, interface) = of[0];
        let mask = interface.pfc.as_ref().map_or(0, |pfc| pfc.value);
        let text = format!(
            "{} puts DSCP {dscp} into priority {priority}; PFC is on for {}: it obeys no pause of \
             these packets, and sends none{}.",
            several(&names),
            match mask {
                0 => "no priority".to_owned(),
                _ => format!("priority {}", priorities(mask)),
            },
            pauses_seen(interface, priority)
        );
        let bits: Vec<&str> = (0..8).map(|bit| if bit == priority { "1" } else { "0" }).collect();
        findings.push(
            Finding::new(Rule::Chain, &host.name, text)
                .key(name.clone())
                .remedy(format!(
                    "turn PFC on for priority {priority}, or map DSCP {dscp} to one that has it"
                ))
                .command(typed!("sudo mlnx_qos -i", name, "--pfc", bits.join(",")))
                .at(interface.pfc.as_ref().map(|pfc| pfc.place.clone()))
                .at(interface.dscp_to_priority.as_ref().map(|map| map.place.clone())),
        );
    }
}

/// Where the chain ends at a port of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Break {
    /// The class's group does not pause.
    Lossy { class: u8, group: u8, mapped: bool },
    /// A pause for the group's own priority stops another queue than that of the class.
    OtherQueue { priority: u8, stopped: u8, queue: u8 },
}

fn broken_at(qos: &Qos, dscp: u8, mapped: bool) -> Option<Break> {
    let class = qos.class(dscp);
    let (group, queue) = (qos.group(class), qos.queue(class));
    if !qos.group_config(group).lossless {
        return Some(Break::Lossy { class, group, mapped });
    }
    let priority = qos.priority(group);
    let stopped = qos.stopped(priority);
    (stopped != queue).then_some(Break::OtherQueue { priority, stopped, queue })
}

fn switch_breaks(
    look: Look<'_>,
    index: usize,
    switch: &Switch,
    dscp: u8,
    findings: &mut Vec<Finding>,
) {
    let way = usual(look, dscp);
    let mut broken = Vec::new();
    let mut judged = 0;
    for (port, qos) in switch.judged() {
        if qos.trust() == Trust::Pcp || !is_of_fabric(look, index, port) {
            continue;
        }
        judged += 1;
        let map = switch.qos_field(&port.name, "dscp_to_tc_map");
        let map = map.and_then(|(_, field)| switch.referred(field, "DSCP_TO_TC_MAP"));
        let entry = map.and_then(|map| map.field(&dscp.to_string()));
        if let Some(broken_at) = broken_at(qos, dscp, entry.is_some()) {
            let fault = maps::fault(switch, &port.name, qos, dscp, way);
            broken.push(((broken_at, fault), port.name.as_str()));
        }
    }
    for ((broken, fault), names) in alike(broken) {
        let which = match names.len() == judged {
            true => "every port of the fabric".to_owned(),
            false => several(&names),
        };
        let text = match broken {
            Break::Lossy { class, group, mapped } => {
                let first = match mapped {
                    true => format!("DSCP {dscp} is class {class}"),
                    false => format!("DSCP {dscp} is in no DSCP_TO_TC_MAP, so class {class}"),
                };
                let pfc = switch.qos_field(names[0], "pfc_enable").map(|(_, field)| field);
                let enabled = pfc.map_or("nothing", |field| field.value.as_str());
                format!(
                    "{first}, group {group} at {which}, which does not pause (pfc_enable {enabled}): \
                     its packets are dropped under load."
                )
            }
            Break::OtherQueue { priority, stopped, queue } => format!(
                "DSCP {dscp} leaves by queue {queue} of {which}, and a pause of its priority \
                 {priority} stops queue {stopped}: the packets go on, and innocent ones stand."
            ),
        };
        let finding = Finding::new(Rule::Chain, &switch.name, text);
        findings.push(maps::told(finding, switch, &names, &fault));
    }
}

/// What ports do with a DSCP where its chain is whole.
fn usual(look: Look<'_>, dscp: u8) -> Option<Way> {
    maps::usual(look, dscp, |qos| broken_at(qos, dscp, true).is_none())
}

/// The priority of the pauses that a node sends for a DSCP, if it sends any by itself.
fn pause_sent(look: Look<'_>, end: &End, dscp: u8) -> Option<u8> {
    match end.node {
        Node::Switch(index) => {
            let qos = look.cluster.switches.get(index)?.port(&end.port)?.qos.as_ref()?;
            // Where its own chain is broken, that is the finding.
            let whole = broken_at(qos, dscp, true).is_none();
            whole.then(|| qos.priority(qos.group(qos.class(dscp))))
        }
        Node::Host(index) => {
            let host = look.cluster.hosts.get(index)?;
            let at = at_host(host.interfaces.get(&end.port)?, dscp)?;
            (at.pfc == Some(true)).then_some(at.priority)
        }
    }
}

/// Whether the packets of a DSCP at this end stand still for a pause of that priority. `None` if it is not known, or
/// if the end has no lossless class for them: that is a finding of its own.
fn obeys(look: Look<'_>, end: &End, dscp: u8, pause: u8) -> Option<bool> {
    match end.node {
        Node::Switch(index) => {
            let qos = look.cluster.switches.get(index)?.port(&end.port)?.qos.as_ref()?;
            let class = qos.class(dscp);
            let group = qos.group(class);
            let own = qos.priority(group);
            let astray = pause == own && qos.stopped(own) != qos.queue(class);
            if !qos.group_config(group).lossless || astray {
                return None;
            }
            let enabled = qos.lossless().any(|group| qos.priority(group) == pause);
            Some(enabled && qos.stopped(pause) == qos.queue(class))
        }
        Node::Host(index) => {
            let host = look.cluster.hosts.get(index)?;
            let at = at_host(host.interfaces.get(&end.port)?, dscp)?;
            (at.pfc == Some(true)).then_some(at.priority == pause)
        }
    }
}

fn link_breaks(look: Look<'_>, dscp: u8, findings: &mut Vec<Finding>) {
    let way = usual(look, dscp);
    let mut of_switches = Vec::new();
    for link in &look.cluster.links {
        let [a, b] = &link.ends;
        for (from, to) in [(a, b), (b, a)] {
            let Some(pause) = pause_sent(look, from, dscp) else { continue };
            if obeys(look, to, dscp, pause) != Some(false) {
                continue;
            }
            let odd = [from, to].into_iter().find_map(|end| odd_class(look, end, dscp, way));
            match odd {
                Some((switch, port, fault)) => {
                    let class = port.qos.as_ref().map_or(0, |qos| qos.class(dscp));
                    let other = if from.port == port.name { to } else { from };
                    let other = look.cluster.name(other.node);
                    of_switches.push(((&switch.name, class, fault), (switch, port, other)));
                }
                None => findings.push(link_break(look, dscp, (from, pause), to)),
            }
            // One end is enough: the other direction says the same.
            break;
        }
    }
    for ((name, class, fault), of) in alike(of_switches) {
        let ports: Vec<&str> = of.iter().map(|(_, port, _)| port.name.as_str()).collect();
        let others: Vec<&str> = of.iter().map(|(.., other)| *other).collect();
        let text = format!(
            "DSCP {dscp} is class {class} at {}, and class {} at most ports of the fabric: pauses of {} \
             and of this switch do not stop each other's packets.",
            several(&ports),
            way.map_or(class, |way| way.class),
            several(&others)
        );
        let finding = Finding::new(Rule::Chain, name, text);
        findings.push(maps::told(finding, of[0].0, &ports, &fault));
    }
}

/// A port whose class of a DSCP is another than that of most, with what is wrong there.
fn odd_class<'a>(
    look: Look<'a>,
    end: &End,
    dscp: u8,
    way: Option<Way>,
) -> Option<(&'a Switch, &'a Port, Fault)> {
    let Node::Switch(index) = end.node else { return None };
    let switch = look.cluster.switches.get(index)?;
    let port = switch.port(&end.port)?;
    let qos = port.qos.as_ref().filter(|qos| qos.trust() == Trust::Dscp)?;
    way.filter(|way| way.class != qos.class(dscp))?;
    Some((switch, port, maps::fault(switch, &port.name, qos, dscp, way)))
}

fn link_break(look: Look<'_>, dscp: u8, (from, pause): (&End, u8), to: &End) -> Finding {
    let (here, there) = (look.cluster.name(to.node), look.cluster.name(from.node));
    let own = pause_sent(look, to, dscp)
        .map_or(String::new(), |own| format!(", which is of priority {own}"));
    let seen = match to.node {
        Node::Host(index) => {
            let host = &look.cluster.hosts[index];
            host.interfaces.get(&to.port).map_or(String::new(), |of| {
                pauses_seen(of, at_host(of, dscp).map_or(8, |at| at.priority))
            })
        }
        Node::Switch(_) => String::new(),
    };
    let text = format!(
        "{there} {} pauses DSCP {dscp} as priority {pause}, and at {} that does not stop it{own}{seen}.",
        from.port, to.port
    );
    let finding = Finding::new(Rule::Chain, here, text)
        .key(to.port.clone())
        .remedy("give the DSCP the same priority at both ends of the link")
        .at(place_of(look, to));
    match to.node {
        Node::Host(_) => finding.command(typed!(
            "sudo mlnx_qos -i",
            to.port,
            "--dscp2prio",
            format!("set,{dscp},{pause}")
        )),
        Node::Switch(_) => finding,
    }
}

/// Where the priorities of an end stand.
fn place_of(look: Look<'_>, end: &End) -> Option<Place> {
    match end.node {
        Node::Switch(index) => {
            let switch = look.cluster.switches.get(index)?;
            let field = switch.qos_field(&end.port, "pfc_enable").map(|(_, field)| field.line);
            Some(switch.place(field.or_else(|| switch.port(&end.port).map(|port| port.line))?))
        }
        Node::Host(index) => {
            let interface = look.cluster.hosts.get(index)?.interfaces.get(&end.port)?;
            interface.dscp_to_priority.as_ref().map(|map| map.place.clone())
        }
    }
}

/// Whether a DSCP is lossless at a host, and at all ports of all switches that say so.
fn is_lossless_everywhere(look: Look<'_>, host: &Host, dscp: u8) -> bool {
    let at_hosts = host
        .judged()
        .all(|(_, interface)| at_host(interface, dscp).is_none_or(|at| at.pfc != Some(false)));
    let switches = look.cluster.switches.iter().enumerate();
    let mut ports = switches.flat_map(|(index, switch)| {
        switch.judged().filter(move |(port, _)| is_of_fabric(look, index, port))
    });
    at_hosts && ports.all(|(_, qos)| qos.group_config(qos.group(qos.class(dscp))).lossless)
}

/// Jobs and devices that mark their packets otherwise than the rest.
fn strays(look: Look<'_>, findings: &mut Vec<Finding>) {
    let Some(&data) = look.traffic.data.first() else { return };
    for stray in &look.traffic.strays {
        let Some(host) = look.cluster.host(&stray.host) else { continue };
        if is_lossless_everywhere(look, host, stray.dscp) {
            continue;
        }
        let text = format!(
            "{} is {}, DSCP {}, which is in no lossless class; the others have DSCP {data}.",
            stray.what, stray.value, stray.dscp
        );
        let name = stray.what.split(' ').next().unwrap_or_default();
        let class = u32::from(data) << 2;
        let command = match name {
            "traffic_class" => {
                let device = stray.what.rsplit(' ').next().unwrap_or_default();
                let path = format!("/sys/class/infiniband/{device}/tc/1/traffic_class");
                typed!("echo", class).then(" | sudo tee").word(path)
            }
            _ => typed!("export", format!("{name}={class}")),
        };
        findings.push(
            Finding::new(Rule::Chain, &stray.host, text)
                .key(name)
                .remedy(format!(
                    "a traffic class is the DSCP times four: {class}, or {} with ECN",
                    class + 2
                ))
                .command(command)
                .at(stray.place.clone()),
        );
    }
}

/// Variables of jobs that are no traffic class: the library takes its default, DSCP 0, or fails.
fn no_classes(look: Look<'_>, findings: &mut Vec<Finding>) {
    for host in &look.cluster.hosts {
        for (job, of) in &host.jobs {
            for name in TRAFFIC_CLASSES {
                let Some(known) = of.variables.get(name) else { continue };
                let is_auto = name.starts_with("UCX") && known.value.eq_ignore_ascii_case("auto");
                if is_auto || env::number(&known.value).is_some_and(|class| class < 256) {
                    continue;
                }
                let text = format!(
                    "{name} of job {job} is {}, which is no traffic class: they are 0 to 255.",
                    quoted(&known.value)
                );
                let finding = Finding::new(Rule::Chain, &host.name, text)
                    .key(name)
                    .remedy("a traffic class is the DSCP times four")
                    .at(known.place.clone());
                findings.push(match look.traffic.data.first() {
                    Some(&data) => finding
                        .command(typed!("export", format!("{name}={}", u32::from(data) << 2))),
                    None => finding,
                });
            }
        }
    }
}

/// Jobs of NCCL, here or at other hosts, that leave their packets at DSCP 0, on hosts whose devices do not say otherwise.
fn unmarked(look: Look<'_>, findings: &mut Vec<Finding>) {
    let Some(&data) = look.traffic.data.first().filter(|&&data| data != 0) else { return };
    for host in &look.cluster.hosts {
        if host.devices.values().any(|device| device.traffic_class.is_some()) {
            continue;
        }
        for (name, job) in &host.jobs {
            let is_of_nccl = job.variables.keys().any(|name| name.starts_with("NCCL_IB_"));
            let others = look.cluster.hosts.iter().filter_map(|host| host.jobs.get(name));
            let is_set = |job: &Job| job.variables.contains_key("NCCL_IB_TC");
            if !is_of_nccl && !others.into_iter().any(is_set) {
                continue;
            }
            if job.variables.contains_key("NCCL_IB_TC") || is_lossless_everywhere(look, host, 0) {
                continue;
            }
            let text = format!(
                "job {name} sets no NCCL_IB_TC: its packets are of DSCP 0, which is in no lossless class."
            );
            findings.push(
                Finding::new(Rule::Chain, &host.name, text)
                    .key("NCCL_IB_TC")
                    .remedy(format!("set it to DSCP {data} times four"))
                    .command(typed!("export", format!("NCCL_IB_TC={}", u32::from(data) << 2)))
                    .at(Place::of(&job.file)),
            );
        }
    }
}

/// Links whose ends look at different fields.
fn trust(look: Look<'_>, findings: &mut Vec<Finding>) {
    let of = |end: &End| match end.node {
        Node::Switch(index) => {
            let switch = look.cluster.switches.get(index)?;
            let qos = switch.port(&end.port)?.qos.as_ref()?;
            let (name, at) = match qos.trust() {
                Trust::Dscp => ("dscp_to_tc_map", Trusted::Dscp),
                Trust::Pcp => ("dot1p_to_tc_map", Trusted::Pcp),
            };
            let (_, field) = switch.qos_field(&end.port, name)?;
            Some((at, switch.place(field.line)))
        }
        Node::Host(index) => {
            let interface = look.cluster.hosts.get(index)?.interfaces.get(&end.port)?;
            let trust = interface.trust.as_ref()?;
            Some((trust.value, trust.place.clone()))
        }
    };
    let mut odd = Vec::new();
    for link in &look.cluster.links {
        let [a, b] = &link.ends;
        let (Some((at_a, place_a)), Some((at_b, place_b))) = (of(a), of(b)) else { continue };
        if at_a == at_b {
            continue;
        }
        // Packets are routed, so it is PCP that is wrong.
        let (end, place, other) =
            if at_a == Trusted::Pcp { (a, place_a, b) } else { (b, place_b, a) };
        odd.push((look.cluster.name(end.node), (end, place, look.cluster.name(other.node))));
    }
    for (device, of) in alike(odd) {
        let ports: Vec<&str> = of.iter().map(|(end, ..)| end.port.as_str()).collect();
        let others: Vec<&str> = of.iter().map(|(.., other)| *other).collect();
        let text = format!(
            "{} trusts PCP, and {} at the other end DSCP: what is untagged is priority 0 here.",
            several(&ports),
            several(&others)
        );
        let (end, place, _) = &of[0];
        let finding = Finding::new(Rule::Trust, device, text)
            .key(end.port.clone())
            .remedy("trust DSCP at both ends")
            .at(place.clone());
        findings.push(match end.node {
            Node::Host(_) => {
                finding.command(typed!("sudo mlnx_qos -i", end.port, "--trust", "dscp"))
            }
            Node::Switch(_) => finding.command(typed!(
                "sonic-db-cli CONFIG_DB hset",
                format!("PORT_QOS_MAP|{}", end.port),
                "dscp_to_tc_map",
                "AZURE"
            )),
        });
    }
}

/// The DSCPs of CNPs, with who says so: hosts, or the file.
pub(in crate::doctor) fn cnp_dscps(look_hosts: &[Host], traffic: &Traffic) -> BTreeSet<u8> {
    let of_hosts = look_hosts.iter().flat_map(|host| host.interfaces.values());
    let said = of_hosts.filter_map(|interface| interface.cnp_dscp.as_ref()).map(|said| said.value);
    traffic.cnp.into_iter().chain(said).collect()
}

/// CNPs and ACKs that wait behind data.
fn beside_data(look: Look<'_>, findings: &mut Vec<Finding>) {
    let Some(&data) = look.traffic.data.first() else { return };
    let mut kinds: Vec<(&str, u8)> = cnp_dscps(&look.cluster.hosts, look.traffic)
        .into_iter()
        .map(|dscp| ("CNPs", dscp))
        .collect();
    kinds.extend(look.traffic.ack.filter(|ack| *ack != data).map(|dscp| ("ACKs", dscp)));
    for (what, dscp) in kinds {
        // One and the same DSCP is the doing of those who set it.
        let same = dscp == data;
        for host in &look.cluster.hosts {
            for (name, interface) in host.judged() {
                let own = interface.cnp_dscp.as_ref().is_none_or(|own| own.value == dscp);
                // Where all is priority 0, that is what FD005 says.
                if interface.trust.as_ref().is_some_and(|trust| trust.value == Trusted::Pcp) {
                    continue;
                }
                let (Some(of_data), Some(of_cnp)) =
                    (at_host(interface, data), at_host(interface, dscp))
                else {
                    continue;
                };
                if of_data.priority != of_cnp.priority || !own {
                    continue;
                }
                let text = format!(
                    "{what} of {name} have DSCP {dscp}, priority {}, as the data of DSCP {data} have.",
                    of_cnp.priority
                );
                findings.push(
                    Finding::new(Rule::NotificationsAmongData, &host.name, text)
                        .key(name.clone())
                        .remedy("give them a DSCP of a priority that is served first, such as 48")
                        .command(typed!(
                            "echo 48 | sudo tee",
                            format!("/sys/class/net/{name}/ecn/roce_np/cnp_dscp")
                        ))
                        .at(interface.cnp_dscp.as_ref().map(|own| own.place.clone()))
                        .at(interface.dscp_to_priority.as_ref().map(|map| map.place.clone())),
                );
            }
        }
        if same {
            continue;
        }
        let is_apart = |qos: &Qos| qos.queue(qos.class(dscp)) != qos.queue(qos.class(data));
        let (way, data_way) = (maps::usual(look, dscp, is_apart), usual(look, data));
        for (index, switch) in look.cluster.switches.iter().enumerate() {
            let ports = switch.judged().filter(|(port, _)| is_of_fabric(look, index, port));
            let shared = ports.filter_map(|(port, qos)| {
                let (own, of_data) = (qos.queue(qos.class(dscp)), qos.queue(qos.class(data)));
                let fault = || {
                    let ways = ((dscp, way), (data, data_way));
                    maps::fault_beside(switch, &port.name, qos, ways.0, ways.1)
                };
                (own == of_data).then(|| ((own, fault()), port.name.as_str()))
            });
            for ((queue, fault), names) in alike(shared) {
                let text = format!(
                    "{what} (DSCP {dscp}) leave by queue {queue} of {}, as the data of DSCP {data} do.",
                    several(&names)
                );
                let finding = Finding::new(Rule::NotificationsAmongData, &switch.name, text);
                findings.push(maps::told(finding, switch, &names, &fault));
            }
        }
    }
}
