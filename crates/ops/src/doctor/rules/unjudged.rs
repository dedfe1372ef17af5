//! What could not be judged because no file says it, by device: that nothing is found there means nothing.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Traffic, about_switch, alike, desired, headroom, queues};
use crate::doctor::cluster::{
    Cluster, End, Interface, Node, Part, Port, Qos, Switch, Trusted, strangers, without_domain,
};
use crate::doctor::desired::{Desired, Settings};
use crate::doctor::finding::{natural, quoted, several};
use crate::doctor::limits::STRANGERS_MAX;

/// A sentence for each thing that is missing, with the devices that it is missing of.
pub(in crate::doctor) fn unjudged(cluster: &Cluster, desired: &Desired) -> Vec<String> {
    let Cluster { switches, hosts, links, .. } = cluster;
    let mut all = Vec::new();
    if switches.len() + hosts.len() > 1 && links.is_empty() {
        all.push(
            "no file says what is connected to what (lldp.txt, lldp.json, DEVICE_NEIGHBOR): chains, ends of links \
             and circles were not judged"
                .to_owned(),
        );
    }
    let strangers = strangers(cluster);
    all.extend(without_folders(cluster, &strangers));
    let traffic = Traffic::of(cluster, desired);
    let of_switches = switches.iter().enumerate().flat_map(|(index, switch)| {
        let all = of_switch(cluster, desired, index, &traffic);
        let links = without_link(cluster, &strangers, Node::Switch(index));
        all.into_iter().chain(links).map(|what| (what, switch.name.as_str()))
    });
    let of_hosts = hosts.iter().enumerate().flat_map(|(index, host)| {
        let all = of_host(cluster, desired, index);
        let links = without_link(cluster, &strangers, Node::Host(index));
        all.into_iter().chain(links).map(|what| (what, host.name.as_str()))
    });
    let devices = alike(of_switches.chain(of_hosts)).into_iter();
    all.extend(devices.map(|(what, names)| format!("{}: {what}", several(&names))));
    all
}

/// Devices without a folder, with those that name them.
type Strangers<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Devices that others name and that have no folder, those first that most others name.
fn without_folders(cluster: &Cluster, missing: &Strangers<'_>) -> Vec<String> {
    if cluster.switches.len() + cluster.hosts.len() < 2 {
        return Vec::new();
    }
    let mut all = alike(missing.iter().map(|(name, who)| (who, *name)));
    all.sort_by_key(|(who, _)| Reverse(who.len()));
    let rest: usize = all.iter().skip(STRANGERS_MAX).map(|(_, names)| names.len()).sum();
    let words = |(who, names): &(&BTreeSet<&str>, Vec<&str>)| {
        let (verb, as_what, of_it) = (
            if who.len() == 1 { "names" } else { "name" },
            if names.len() == 1 { "a neighbour" } else { "neighbours" },
            match names.len() {
                1 => "there is no folder of it: it was not judged, nor were its links",
                _ => "there are no folders of them: they were not judged, nor were their links",
            },
        );
        let who = listed(who);
        format!("{who} {verb} {} as {as_what}, and {of_it}", several(names))
    };
    let mut all: Vec<String> = all.iter().take(STRANGERS_MAX).map(words).collect();
    match rest {
        0 => {}
        1 => all.push("1 more neighbour has no folder either".to_owned()),
        _ => all.push(format!("{rest} more neighbours have no folders either")),
    }
    all
}

/// Ports with a lossless class that are up and of which no link is known, where links of others are.
fn without_link(cluster: &Cluster, strangers: &Strangers<'_>, node: Node) -> Option<String> {
    // That a neighbour has no folder is told by its name.
    let is_told =
        |name: &str| strangers.contains_key(name) || strangers.contains_key(without_domain(name));
    let has_link = |port: &str| cluster.peer(node, port).is_some();
    let (of, what): (Vec<&str>, _) = match node {
        Node::Switch(index) => {
            let switch = cluster.switches.get(index)?;
            let neighbour = |port: &Port| {
                let said = switch.entries("DEVICE_NEIGHBOR").iter();
                let mut said = said.filter(|entry| {
                    switch.port(&entry.key).is_some_and(|own| own.name == port.name)
                });
                said.any(|entry| entry.field("name").is_some_and(|name| is_told(&name.value)))
                    || switch.seen_at(port).any(|seen| is_told(&seen.device))
            };
            let is_bare = |(port, qos): &(&Port, &Qos)| {
                qos.lossless().next().is_some() && !has_link(&port.name) && !neighbour(port)
            };
            let bare = switch.judged().filter(is_bare).map(|(port, _)| port.name.as_str());
            (bare.collect(), "chains, ends of links and circles")
        }
        Node::Host(index) => {
            let host = cluster.hosts.get(index)?;
            let neighbour = |name: &str| {
                let mut said = host.neighbours.iter();
                said.any(|seen| seen.local == name && is_told(&seen.device))
            };
            let is_bare = |(name, own): &(&String, &Interface)| {
                let pauses = own.pfc.as_ref().is_some_and(|pfc| pfc.value != 0);
                pauses && !has_link(name) && !neighbour(name)
            };
            let bare = host.judged().filter(is_bare).map(|(name, _)| name.as_str());
            (bare.collect(), "ends of links")
        }
    };
    let says = !of.is_empty() && !cluster.links.is_empty();
    says.then(|| {
        format!(
            "no link of {} is known (lldp.txt, lldp.json, DEVICE_NEIGHBOR): {what} were not judged there",
            several(&of)
        )
    })
}

/// "h0, h1, leaf-1 and 5 more": names that make no range.
fn listed(names: &BTreeSet<&str>) -> String {
    let mut all: Vec<&str> = names.iter().copied().collect();
    all.sort_by_key(|name| natural(name));
    match all.as_slice() {
        [a, b, c, d] => format!("{a}, {b}, {c} and {d}"),
        [a, b, c, rest @ ..] if !rest.is_empty() => {
            format!("{a}, {b}, {c} and {} more", rest.len())
        }
        few => several(few),
    }
}

fn of_switch(cluster: &Cluster, desired: &Desired, index: usize, traffic: &Traffic) -> Vec<String> {
    let switches = &cluster.switches;
    let Some(switch) = switches.get(index) else { return Vec::new() };
    let mut all = Vec::new();
    let settings = desired.of(about_switch(switch)).map(|(_, settings)| settings);
    let settings = settings.unwrap_or_default();
    // Without any table it is a finding that it is not understood.
    if switch.role.is_empty() && !switch.tables.is_empty() && settings == Settings::default() {
        let peers = cluster.switches.len() > 1;
        let without = match (peers, desired.is_empty()) {
            (true, true) => "alpha was compared with no peer's (FD007)",
            (true, false) => {
                "it was compared with no peer (FD007) and with no role of desired.toml"
            }
            (false, false) => "it was compared with no role of desired.toml",
            (false, true) => "",
        };
        if !without.is_empty() {
            all.push(format!("DEVICE_METADATA has no type: {without}"));
        }
    }
    let others = switches.iter().filter(|other| other.name != switch.name);
    let (mut like, count) =
        (others.clone().filter(|other| other.role == switch.role), others.count());
    if !switch.role.is_empty() && count > 0 && like.next().is_none() && settings.alpha.is_none() {
        let role = quoted(&switch.role);
        all.push(format!(
            "no other switch has the type {role}: alpha was compared with no peer's (FD007)"
        ));
    }
    let ports = |so: &dyn Fn(&Port) -> bool| -> Vec<&str> {
        let judged = switch.judged().filter(|(port, _)| so(port));
        judged.map(|(port, _)| port.name.as_str()).collect()
    };
    let pauses = |port: &Port| {
        port.qos.as_ref().is_some_and(|qos| {
            let has = |group| qos.group_config(group).headroom_bytes.is_some_and(|own| own > 0);
            qos.knows(Part::Buffers) && qos.lossless().any(has)
        })
    };
    let unknown =
        |port: &Port| pauses(port) && headroom::needed(port, traffic.lossless_mtu).is_none();
    let mut say = |of: Vec<&str>, words: &dyn Fn(&str) -> String| {
        if !of.is_empty() {
            all.push(words(&several(&of)));
        }
    };
    say(ports(&|port| unknown(port) && port.cable_m.is_none()), &|of| {
        format!("CABLE_LENGTH has no length of {of}: headroom was not judged there (FD003)")
    });
    say(ports(&|port| unknown(port) && port.rate.is_none()), &|of| {
        format!("PORT has no speed of {of}: headroom was not judged there (FD003)")
    });
    let matters = |port: &Port| {
        settings.mtu_bytes.is_some() || cluster.peer(Node::Switch(index), &port.name).is_some()
    };
    say(ports(&|port| port.mtu.is_none() && matters(port)), &|of| {
        format!("PORT has no mtu of {of} that is a number: it was not compared (FD011)")
    });
    let down: Vec<&str> = cluster
        .links
        .iter()
        .filter(|link| !link.ends.iter().any(|end| is_said_by(switches, end, &link.place.file)))
        .flat_map(|link| &link.ends)
        .filter(|end| end.node == Node::Switch(index))
        .filter_map(|end| switch.port(&end.port).filter(|port| !port.up))
        .map(|port| port.name.as_str())
        .collect();
    let is_or_are = if down.len() == 1 { "is" } else { "are" };
    say(down, &|of| {
        format!(
            "{of} {is_or_are} not up by PORT (admin_status), and LLDP sees a neighbour there: not judged"
        )
    });
    say(pools(switch), &|_| {
        "BUFFER_POOL has no size: whether marks come before pauses was not judged (FD006)"
            .to_owned()
    });
    let silent: Vec<&str> = queues::without_size(switch, traffic).into_iter().collect();
    let has_or_have = if silent.len() == 1 { "has" } else { "have" };
    say(silent, &|of| {
        format!(
            "BUFFER_POOL {of} {has_or_have} no size: whether lossless queues drop was not judged (FD004)"
        )
    });
    if settings.firmware_is.is_some() && switch.firmware.is_none() {
        all.push("version.txt has no version: firmware_is was not compared".to_owned());
    }
    all
}

/// Whether the configuration of the switch at an end is that file.
fn is_said_by(switches: &[Switch], end: &End, file: &str) -> bool {
    matches!(end.node, Node::Switch(index) if switches.get(index).is_some_and(|of| of.file == file))
}

/// A port whose marks cannot be held against its pauses.
fn pools(switch: &Switch) -> Vec<&str> {
    let pauses = switch
        .judged()
        .find(|(_, qos)| qos.knows(Part::Buffers) && qos.lossless().next().is_some());
    match switch.shared_bytes {
        Some(_) => Vec::new(),
        None => pauses.map(|(port, _)| port.name.as_str()).into_iter().collect(),
    }
}

fn of_host(cluster: &Cluster, desired: &Desired, index: usize) -> Vec<String> {
    let Some(host) = cluster.hosts.get(index) else { return Vec::new() };
    if host.judged().next().is_none() {
        return vec!["there is no mlnx_qos or dcb file: PFC was not judged".to_owned()];
    }
    let settings = desired.of_host(host).map(|(_, settings)| settings).unwrap_or_default();
    let pcp = |own: &Interface| own.trust.as_ref().is_some_and(|trust| trust.value == Trusted::Pcp);
    let of = |so: &dyn Fn(&String, &Interface) -> bool| -> Vec<&str> {
        host.judged().filter(|(name, own)| so(name, own)).map(|(name, _)| name.as_str()).collect()
    };
    let mut all = Vec::new();
    for (missing, what, rule) in [
        (of(&|_, own| own.pfc.is_none()), "which priorities have PFC", "FD004"),
        (
            of(&|_, own| own.dscp_to_priority.is_none() && !pcp(own)),
            "the priority of a DSCP",
            "FD004",
        ),
        (of(&|_, own| own.trust.is_none()), "whether DSCP or PCP is trusted", "FD005"),
        (
            of(&|name, own| {
                let linked = cluster.peer(Node::Host(index), name).is_some();
                own.mtu.is_none() && (linked || settings.mtu_bytes.is_some())
            }),
            "the MTU",
            "FD011",
        ),
    ] {
        if !missing.is_empty() {
            all.push(format!("no file says {what} of {} ({rule})", several(&missing)));
        }
    }
    let keys = desired::unsaid(host, &settings);
    if !keys.is_empty() {
        all.push(format!("no file says {}: not compared with desired.toml", keys.join(", ")));
    }
    if !settings.env.is_empty() && host.jobs.is_empty() {
        all.push("there is no env.JOB.txt: variables were not compared".to_owned());
    }
    all
}
