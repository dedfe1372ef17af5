//! Ends that differ in MTU, GID or RoCE version: FD011; and cables that are elsewhere: FD016.

use core::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use rdma::Rate;

use super::headroom::gbps;
use super::{Look, alike};
use crate::doctor::cluster::{
    Cluster, End, Host, Known, Names, Node, Port, Switch, without_domain,
};
use crate::doctor::finding::{Finding, Place, Rule, Severity, quoted, several};
use crate::doctor::shell::typed;
use crate::doctor::source::env;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    mtus(look, findings);
    speeds(look.cluster, findings);
    for host in &look.cluster.hosts {
        gids(host, findings);
        devices(host, findings);
    }
    families(look.cluster, findings);
    cables(look.cluster, findings);
    contradicted(look.cluster, findings);
    lengths(look.cluster, findings);
}

/// The MTU of an end, and where it stands.
fn mtu(cluster: &Cluster, end: &End) -> Option<(u32, Place)> {
    match end.node {
        Node::Switch(index) => {
            let switch = cluster.switches.get(index)?;
            let entry = switch.entry("PORT", &end.port)?;
            let line = entry.field("mtu")?.line;
            Some((switch.port(&end.port)?.mtu?, switch.place(line)))
        }
        Node::Host(index) => {
            let mtu = cluster.hosts.get(index)?.interfaces.get(&end.port)?.mtu.as_ref()?;
            Some((mtu.value, mtu.place.clone()))
        }
    }
}

fn mtus(look: Look<'_>, findings: &mut Vec<Finding>) {
    let cluster = look.cluster;
    let mut smaller = Vec::new();
    for link in &cluster.links {
        let [a, b] = &link.ends;
        let (Some((mtu_a, place_a)), Some((mtu_b, place_b))) = (mtu(cluster, a), mtu(cluster, b))
        else {
            continue;
        };
        let (low, place, high, of_low, of_high) = match mtu_a < mtu_b {
            true => (a, place_a, b, mtu_a, mtu_b),
            false => (b, place_b, a, mtu_b, mtu_a),
        };
        // A host may send shorter packets than its port takes.
        if of_low == of_high || matches!(low.node, Node::Host(_)) {
            continue;
        }
        let key = (cluster.name(low.node), of_low, of_high);
        smaller.push((key, (low.port.as_str(), place, cluster.name(high.node))));
    }
    for ((device, low, high), of) in alike(smaller) {
        let ports: Vec<&str> = of.iter().map(|(port, ..)| *port).collect();
        let others: Vec<&str> = of.iter().map(|(.., other)| *other).collect();
        let text = format!(
            "{} takes packets of {low} bytes, and {} at the other end sends {high}: they are dropped.",
            several(&ports),
            several(&others)
        );
        findings.push(
            Finding::new(Rule::EndsDiffer, device, text)
                .key(format!("PORT|{}", ports[0]))
                .remedy("give every port of the fabric the same MTU, above that of all hosts")
                .command(typed!("sudo config interface mtu", ports[0], high))
                .at(of[0].1.clone()),
        );
    }
    // Hosts among themselves.
    let all = cluster.hosts.iter().flat_map(|host| {
        let judged = host.judged().filter_map(|(name, own)| Some((name, own.mtu.as_ref()?)));
        judged.map(move |(name, mtu)| (mtu.value, (host, name, mtu)))
    });
    let mut ways = alike(all);
    ways.sort_by_key(|(mtu, of)| (core::cmp::Reverse(of.len()), core::cmp::Reverse(*mtu)));
    let Some(((usual, _), others)) = ways.split_first() else { return };
    for (own, of) in others {
        for (host, name, known) in of {
            let said = look
                .desired
                .of(crate::doctor::desired::About { name: &host.name, ..Default::default() });
            if said.is_some_and(|(_, settings)| settings.mtu_bytes.is_some()) {
                continue;
            }
            let text = format!(
                "{name} has an MTU of {own}, and the other hosts {usual}: connections take the smaller \
                 path MTU, or fail where programs do not agree on it."
            );
            findings.push(
                Finding::new(Rule::EndsDiffer, &host.name, text)
                    .severity(Severity::Warning)
                    .key((*name).clone())
                    .remedy("give all hosts of the fabric one MTU")
                    .command(typed!("sudo ip link set", name, "mtu", usual))
                    .at(known.place.clone()),
            );
        }
    }
}

/// Whether a job uses a device, by `NCCL_IB_HCA`; what excludes is not looked at.
fn uses(list: Option<&str>, device: &str) -> bool {
    let Some(list) = list.map(str::trim).filter(|list| !list.is_empty()) else { return true };
    if list.starts_with('^') {
        return true;
    }
    let exact = list.starts_with('=');
    list.trim_start_matches('=').split(',').any(|name| {
        let name = name.split(':').next().unwrap_or_default();
        if exact { name == device } else { device.starts_with(name) }
    })
}

fn gids(host: &Host, findings: &mut Vec<Finding>) {
    for (job, of) in &host.jobs {
        for variable in ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX"] {
            let Some(known) = of.variables.get(variable) else { continue };
            let Some(index) = env::number(&known.value).and_then(|at| usize::try_from(at).ok())
            else {
                findings.extend(no_index(host, job, variable, known));
                continue;
            };
            let list = of.variables.get("NCCL_IB_HCA").map(|list| list.value.as_str());
            let mut wrong: BTreeMap<&str, (String, Option<usize>, Place)> = BTreeMap::new();
            for (name, device) in &host.devices {
                if device.gids.is_empty() || !uses(list, name) {
                    continue;
                }
                let gid = device.gids.get(&index);
                let why = match gid {
                    // A kind that no file says is not judged.
                    Some(gid) if gid.is_set() && gid.kind.is_empty() => continue,
                    Some(gid) if gid.is_set() && gid.kind.contains("v2") => continue,
                    Some(gid) if gid.is_set() => format!("is {}", quoted(&gid.kind)),
                    _ => "is not set".to_owned(),
                };
                let mut usable = device.gids.iter().filter(|(_, gid)| {
                    gid.is_set() && gid.kind.contains("v2") && !gid.value.starts_with("fe80")
                });
                let better = usable.next().map(|(index, _)| *index);
                let place = gid.map_or_else(|| known.place.clone(), |gid| gid.place.clone());
                wrong.insert(name, (why, better, place));
            }
            let Some((_, (why, better, place))) = wrong.first_key_value() else { continue };
            let names: Vec<&str> = wrong.keys().copied().collect();
            let text = format!(
                "{variable} of job {job} is {index}, and that GID of {} {why}: peers that speak RoCE v2 \
                 do not answer.",
                several(&names)
            );
            let finding = Finding::new(Rule::EndsDiffer, &host.name, text)
                .key(variable)
                .remedy("name the index of a RoCE v2 address")
                .at(known.place.clone())
                .at(place.clone());
            findings.push(match better {
                Some(better) => finding.command(typed!("export", format!("{variable}={better}"))),
                None => finding.command("show_gids"),
            });
        }
    }
}

/// An index that is no number; libraries choose one themselves by -1 and by auto.
fn no_index(host: &Host, job: &str, variable: &str, known: &Known<String>) -> Option<Finding> {
    let value = known.value.trim();
    let is_chosen = value.is_empty() || value == "-1" || value.eq_ignore_ascii_case("auto");
    let text = format!("{variable} of job {job} is {}, which is no index of a GID.", quoted(value));
    (!is_chosen).then(|| {
        Finding::new(Rule::EndsDiffer, &host.name, text)
            .key(variable)
            .remedy("name the index of a RoCE v2 address")
            .command("show_gids")
            .at(known.place.clone())
    })
}

/// Jobs that name no device of their host: NCCL then goes by sockets.
fn devices(host: &Host, findings: &mut Vec<Finding>) {
    for (job, of) in &host.jobs {
        let Some(known) = of.variables.get("NCCL_IB_HCA") else { continue };
        let mut names = host.devices.keys().map(String::as_str);
        if host.devices.is_empty() || names.any(|name| uses(Some(&known.value), name)) {
            continue;
        }
        let names: Vec<&str> = host.devices.keys().map(String::as_str).collect();
        let text = format!(
            "NCCL_IB_HCA of job {job} is {}, and the host has {}: NCCL finds no device, and goes by \
             sockets.",
            quoted(&known.value),
            several(&names)
        );
        findings.push(
            Finding::new(Rule::EndsDiffer, &host.name, text)
                .key("NCCL_IB_HCA")
                .remedy("name a device of the host")
                .command("ibv_devices")
                .at(known.place.clone()),
        );
    }
}

/// The rate of an end, and where it stands.
fn speed(cluster: &Cluster, end: &End) -> Option<(Rate, Option<Place>)> {
    match end.node {
        Node::Switch(index) => {
            let switch = cluster.switches.get(index)?;
            let line = switch.entry("PORT", &end.port)?.field("speed")?.line;
            Some((switch.port(&end.port)?.rate?, Some(switch.place(line))))
        }
        Node::Host(index) => {
            let own = cluster.hosts.get(index)?.interfaces.get(&end.port)?;
            Some((Rate::from_bps(own.speed_mbps? * 1_000_000), None))
        }
    }
}

/// Links whose ends are of two rates.
fn speeds(cluster: &Cluster, findings: &mut Vec<Finding>) {
    let mut odd = Vec::new();
    for link in &cluster.links {
        let [a, b] = &link.ends;
        let (Some((of_a, at_a)), Some((of_b, at_b))) = (speed(cluster, a), speed(cluster, b))
        else {
            continue;
        };
        if of_a == of_b || (at_a.is_none() && at_b.is_none()) {
            continue;
        }
        // It is told of a switch; of two, of that with the higher rate.
        let first = matches!(b.node, Node::Host(_)) || (at_a.is_some() && of_a > of_b);
        let (here, there, own, other, places) = match first && at_a.is_some() {
            true => (a, b, of_a, of_b, [at_a, at_b]),
            false => (b, a, of_b, of_a, [at_b, at_a]),
        };
        let key = (cluster.name(here.node), own, other);
        odd.push((key, (here.port.as_str(), cluster.name(there.node), places)));
    }
    for ((device, own, other), of) in alike(odd) {
        let ports: Vec<&str> = of.iter().map(|(port, ..)| *port).collect();
        let others: Vec<&str> = of.iter().map(|(_, other, _)| *other).collect();
        let text = format!(
            "{} has a speed of {} by PORT, and {} at the other end of {}: the link does not come up so, \
             and headroom was judged by each end's own.",
            several(&ports),
            gbps(own),
            several(&others),
            gbps(other)
        );
        let finding = Finding::new(Rule::EndsDiffer, device, text)
            .key(format!("PORT|{}", ports[0]))
            .remedy("give both ends the speed of the cable")
            .command(typed!("show interfaces status", ports[0]));
        findings.push(of[0].2.iter().flatten().fold(finding, |all, place| all.at(place.clone())));
    }
}

/// Rows of LLDP that the device which they name contradicts by its own.
fn contradicted(cluster: &Cluster, findings: &mut Vec<Finding>) {
    let names = Names::of(cluster);
    let of_name = |name: &str| match names.node(name)? {
        Node::Switch(index) => cluster.switches.get(index),
        Node::Host(_) => None,
    };
    let mut told: BTreeSet<(&str, &str)> = BTreeSet::new();
    for switch in &cluster.switches {
        let Some(file) = &switch.lldp_file else { continue };
        for row in &switch.neighbours {
            let Some(own) = switch.port(&row.local) else { continue };
            let Some(other) = of_name(&row.device) else { continue };
            let Some(port) = port_of(other, &row.ports) else { continue };
            // What it says of the same cable; of several rows, one that agrees.
            let back = other.seen_at(port).filter_map(|back| {
                let third = of_name(&back.device)?;
                Some((back, third.name.as_str(), port_of(third, &back.ports)?.name.as_str()))
            });
            let back: Vec<_> = back.collect();
            let agrees = |(_, name, at): &(_, &str, &str)| *name == switch.name && *at == own.name;
            let Some((row_back, third, at)) = back.first().filter(|_| !back.iter().any(agrees))
            else {
                continue;
            };
            let ends =
                [(switch.name.as_str(), own.name.as_str()), (&other.name, port.name.as_str())];
            if ends.iter().any(|end| told.contains(end)) {
                continue;
            }
            told.extend(ends);
            let text = format!(
                "{} is cabled to {} of {} by LLDP here, and that port to {at} of {third} by LLDP \
                 there: one of the two files is old, or of another device.",
                own.name, port.name, other.name
            );
            let place = |file: &Option<String>, line| file.clone().map(|file| Place { file, line });
            findings.push(
                Finding::new(Rule::Cabling, &switch.name, text)
                    .key(own.name.clone())
                    .remedy("take LLDP of both again; what was judged is by the first of them")
                    .command("show lldp table")
                    .at(Place { file: file.clone(), line: row.line })
                    .at(place(&other.lldp_file, row_back.line)),
            );
        }
    }
}

/// The port of a switch that has any of these names.
fn port_of<'a>(switch: &'a Switch, names: &[String]) -> Option<&'a Port> {
    names.iter().find_map(|name| switch.port(name))
}

/// Of which kind an address is: those of two kinds do not reach each other.
fn family(gid: &str) -> &'static str {
    match gid {
        _ if gid.starts_with("0000:0000:0000:0000:0000:ffff:") => "an IPv4 address",
        _ if gid.starts_with("fe80:") => "a link-local address",
        _ => "an IPv6 address",
    }
}

/// The indices of one job that name addresses of several kinds.
fn families(cluster: &Cluster, findings: &mut Vec<Finding>) {
    let mut chosen = Vec::new();
    for host in &cluster.hosts {
        for (job, of) in &host.jobs {
            let list = of.variables.get("NCCL_IB_HCA").map(|list| list.value.as_str());
            for variable in ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX"] {
                let Some(known) = of.variables.get(variable) else { continue };
                let index = env::number(&known.value).and_then(|at| usize::try_from(at).ok());
                let gids = host.devices.iter().filter(|(name, _)| uses(list, name));
                let gids = gids.filter_map(|(name, of)| Some((name, of.gids.get(&index?)?)));
                for (name, gid) in gids.filter(|(_, gid)| gid.is_set()) {
                    let what = (host.name.as_str(), name.as_str(), known.value.as_str(), known);
                    chosen.push(((job.as_str(), variable), (family(&gid.value), (what, gid))));
                }
            }
        }
    }
    for ((job, variable), of) in alike(chosen) {
        let mut ways = alike(of);
        ways.sort_by_key(|(family, of)| (core::cmp::Reverse(of.len()), *family));
        let Some(((usual, _), others)) = ways.split_first() else { continue };
        for (own, of) in others {
            for ((host, device, index, known), gid) in of {
                let text = format!(
                    "{variable} of job {job} is {index}, which is {own} of {device}, and {usual} of most \
                     others: they do not reach each other."
                );
                findings.push(
                    Finding::new(Rule::EndsDiffer, *host, text)
                        .key(variable)
                        .remedy("name the index of an address of the kind that the others use")
                        .command("show_gids")
                        .at(known.place.clone())
                        .at(gid.place.clone()),
                );
            }
        }
    }
}

/// Cables that are of one length at one end and of another at the other.
fn lengths(cluster: &Cluster, findings: &mut Vec<Finding>) {
    let at = |end: &End| {
        let Node::Switch(index) = end.node else { return None };
        let switch = cluster.switches.get(index)?;
        let mut fields = switch.entries("CABLE_LENGTH").iter().filter_map(|of| of.field(&end.port));
        let line = fields.next()?.line;
        Some((switch.port(&end.port)?.cable_m?, switch.place(line)))
    };
    let mut odd = Vec::new();
    for link in &cluster.links {
        let [a, b] = &link.ends;
        let (Some((of_a, place_a)), Some((of_b, place_b))) = (at(a), at(b)) else { continue };
        // Too little headroom comes of the shorter.
        let (low, high, metres, more, places) = match of_a.cmp(&of_b) {
            Ordering::Equal => continue,
            Ordering::Less => (a, b, of_a, of_b, [place_a, place_b]),
            Ordering::Greater => (b, a, of_b, of_a, [place_b, place_a]),
        };
        let key = (cluster.name(low.node), metres, more);
        odd.push((key, (low.port.as_str(), cluster.name(high.node), places)));
    }
    for ((device, metres, more), of) in alike(odd) {
        let ports: Vec<&str> = of.iter().map(|(port, ..)| *port).collect();
        let others: Vec<&str> = of.iter().map(|(_, other, _)| *other).collect();
        let text = format!(
            "the cable of {} is {metres} m by CABLE_LENGTH here, and {more} m by that of {} at its other \
             end: headroom was judged by each end's own.",
            several(&ports),
            several(&others)
        );
        let [here, there] = &of[0].2;
        findings.push(
            Finding::new(Rule::Cabling, device, text)
                .key(format!("CABLE_LENGTH|{}", ports[0]))
                .remedy("give both ends the length of the cable")
                .command(typed!("sudo config interface cable-length", ports[0], format!("{more}m")))
                .at(here.clone())
                .at(there.clone()),
        );
    }
}

/// Neighbours by LLDP against those of `DEVICE_NEIGHBOR`.
fn cables(cluster: &Cluster, findings: &mut Vec<Finding>) {
    for (index, switch) in cluster.switches.iter().enumerate() {
        let Some(file) = &switch.lldp_file else { continue };
        let known = |name: &str| cluster.switch(name).is_some() || cluster.host(name).is_some();
        for entry in switch.entries("DEVICE_NEIGHBOR") {
            let Some(name) = entry.field("name") else { continue };
            let Some(port) = switch.port(&entry.key) else { continue };
            let Some(neighbour) = switch.seen_at(port).next() else { continue };
            let at = cluster.peer(Node::Switch(index), &port.name);
            // LLDP may say a domain as well, and a folder may be called otherwise than its device.
            let is_meant = without_domain(&neighbour.device) == without_domain(&name.value)
                || at.is_some_and(|end| cluster.name(end.node) == name.value);
            // Names of a minigraph that stand for no one device.
            if is_meant || !known(&name.value) {
                continue;
            }
            let text = format!(
                "{} is cabled to {} by LLDP, and DEVICE_NEIGHBOR says {}.",
                port.name,
                quoted(&neighbour.device),
                quoted(&name.value)
            );
            let grave = at.is_some_and(|end| matches!(end.node, Node::Switch(_)));
            findings.push(
                Finding::new(Rule::Cabling, &switch.name, text)
                    .severity(if grave { Severity::Error } else { Severity::Warning })
                    .key(format!("DEVICE_NEIGHBOR|{}", entry.key))
                    .remedy("move the cable, or correct the configuration and its cable length")
                    .command("show lldp table")
                    .at(switch.place(name.line))
                    .at(Place { file: file.clone(), line: neighbour.line }),
            );
        }
    }
}
