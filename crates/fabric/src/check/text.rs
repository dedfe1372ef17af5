//! The explanation as text: warnings first, then a few lines for each kind of switch.

use core::cmp::Ordering;
use std::collections::BTreeMap;

use rdma::{Rate, Span, Values};
use transport::congestion::{Congestion, PARAMETERS, Parameter, Settings};

use super::{Kind, PortFacts, Treatment, alike, headroom, lossless_groups};
use crate::NetworkConfig;
use crate::pfc::PRIORITIES;
use crate::scenario::Scenario;
use crate::switch::config::{
    Balance, EcnConfig, Schedule, Threshold, Trust, WatchdogAction, WatchdogRule, alpha_of,
};
use crate::switch::{Cell, SONIC_MTU_BYTES, sonic_headroom_bytes};
use crate::topology::{End, Topology};
use telemetry::words::{COLUMNS, wrapped};

/// With commas: 16,000,000.
pub(super) fn bytes(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 100, or 2.5.
pub(super) fn gbps(rate: Rate) -> f64 {
    rate.as_bps() as f64 / 1e9
}

/// 200 ms, or 50 us.
pub(super) fn time(span: Span) -> String {
    let us = span.as_ps() as f64 / 1e6;
    if us < 1e3 { format!("{us} us") } else { format!("{} ms", us / 1e3) }
}

/// "leaf0 to leaf3", or "leaf0, spine1".
pub(super) fn names(config: &NetworkConfig, kind: &Kind) -> String {
    let name = |&index: &u32| {
        config.topology.switches.get(index as usize).map_or("?", |switch| switch.name.as_str())
    };
    let consecutive = kind.switches.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    match kind.switches.as_slice() {
        [] => String::new(),
        [one] => name(one).to_owned(),
        [first, .., last] if consecutive && kind.switches.len() > 2 => {
            format!("{} to {}", name(first), name(last))
        }
        [first, second] => format!("{}, {}", name(first), name(second)),
        [first, .., last] => {
            format!("{}, ..., {} ({} switches)", name(first), name(last), kind.switches.len())
        }
    }
}

fn count(number: usize, of: &str) -> String {
    let number_text = bytes(number as u64);
    let plural = match of {
        "switch" => "switches".to_owned(),
        of => format!("{of}s"),
    };
    if number == 1 { format!("1 {of}") } else { format!("{number_text} {plural}") }
}

/// The whole text.
pub(super) fn explain(scenario: &Scenario, kinds: &[Kind], warnings: &[String]) -> String {
    let config = &scenario.network;
    let topology = &config.topology;
    let end = scenario.end.as_ps() as f64 / 1e9;
    let mut text = wrapped("", &scenario.title, COLUMNS);
    text += &format!(
        "  {}, {}, {}, {}, until {end} ms\n",
        count(topology.hosts.len(), "host"),
        count(topology.switches.len(), "switch"),
        count(topology.links.len(), "link"),
        count(config.flows.len(), "flow"),
    );
    text += "\n";
    text += &match warnings.len() {
        0 => "no warnings\n".to_owned(),
        number => format!("{}\n", count(number, "warning")),
    };
    for warning in warnings {
        text += &wrapped("  ! ", warning, COLUMNS);
    }
    for kind in kinds {
        let number = kind.switches.len();
        let others = if number > 2 { format!(" ({number} alike)") } else { String::new() };
        text += &format!("\n{}{others}\n", names(config, kind));
        text += &switch(config, kind);
    }
    text += &nics(config);
    let infos: Vec<_> = scenario.notes.iter().filter(|note| !note.warning).collect();
    if !infos.is_empty() {
        text += "\nnotes\n";
        for note in infos {
            text += &wrapped("  - ", &note.text, COLUMNS);
        }
    }
    text
}

fn line(label: &str, words: &str) -> String {
    wrapped(&format!("  {label:<10} "), words, COLUMNS)
}

/// What the links of a switch carry from below and to above, of one that has both.
fn layers(topology: &Topology, kind: &Kind) -> Option<String> {
    let own = *kind.switches.first()?;
    let tier = |end| match end {
        End::Host(_) => None,
        End::Switch(index) => Some(topology.switches.get(index as usize)?.tier),
    };
    let here = tier(End::Switch(own));
    let (mut below, mut above) = (0, 0);
    for link in &topology.links {
        let other = match link.ends {
            [End::Switch(index), other] | [other, End::Switch(index)] if index == own => other,
            _ => continue,
        };
        match tier(other).cmp(&here) {
            Ordering::Less => below += link.rate.as_bps(),
            Ordering::Greater => above += link.rate.as_bps(),
            Ordering::Equal => {}
        }
    }
    if below == 0 || above == 0 {
        return None;
    }
    let ratio = (below as f64 / above as f64 * 100.0).round() / 100.0;
    let words = match below > above {
        true => format!("oversubscribed {ratio} to 1"),
        false => "not oversubscribed".to_owned(),
    };
    let [below, above] = [below, above].map(|bps: u64| bytes(bps / 1_000_000_000));
    Some(format!("{below} Gb/s below, {above} above: {words}"))
}

fn switch(config: &NetworkConfig, kind: &Kind) -> String {
    let own = &kind.config;
    let mut text = line("ports", &port_list(&kind.ports));
    if let Some(layers) = layers(&config.topology, kind) {
        text += &line("layers", &layers);
    }
    let total = u64::from(own.buffer_bytes);
    let headrooms: u64 = match own.headroom_pool_bytes {
        Some(pool) => u64::from(pool),
        None => lossless_groups(kind)
            .iter()
            .map(|(group, ports)| u64::from(headroom(kind, ports[0], *group)) * ports.len() as u64)
            .sum(),
    };
    let cells = match own.cell {
        Cell::BYTE => String::new(),
        cell => format!(", in cells of {cell} bytes"),
    };
    let pooled = if own.headroom_pool_bytes.is_some() { ", in one pool" } else { "" };
    text += &line(
        "buffer",
        &format!(
            "{} bytes{cells}: {} shared, {} reserved, {} headroom{pooled}",
            bytes(total),
            bytes(kind.shared()),
            bytes(kind.reserved.saturating_sub(headrooms)),
            bytes(headrooms)
        ),
    );
    for (index, words) in classes(kind).iter().enumerate() {
        text += &line(if index == 0 { "classes" } else { "" }, words);
    }
    for (label, words) in together("group", groups(config, kind)) {
        for (index, words) in words.iter().enumerate() {
            text += &line(if index == 0 { &label } else { "" }, words);
        }
    }
    let marks = together("queue", marks(kind));
    if marks.is_empty() {
        text += &line("ECN", "none");
    }
    for (index, (label, words)) in marks.iter().enumerate() {
        text += &line(if index == 0 { "ECN" } else { "" }, &format!("{label} {}", words[0]));
    }
    text += &line("schedule", &schedule(kind));
    match own.balance {
        Balance::Flow => {}
        Balance::Packet => text += &line("paths", "by packet"),
        Balance::Flowlet { gap } => {
            let us = gap.as_ps() as f64 / 1e6;
            text += &line("paths", &format!("by flowlet, after a gap of {us} us"));
        }
        Balance::Custom(custom) => {
            text += &line("paths", &named("by", custom.kind().name(), &custom.values));
        }
    }
    text + &line("watchdog", &watchdog(kind))
}

/// What an extension is called and set to.
fn named(what: &str, name: &str, values: &Values) -> String {
    let comma = if values.iter().next().is_some() { ", " } else { "" };
    format!("{what} {name}{comma}{values}")
}

fn port_list(ports: &[PortFacts]) -> String {
    let of = |(port, all): (&PortFacts, Vec<()>)| {
        let to = if port.spec.serves { "host" } else { "switch" };
        format!("{} at {} Gb/s over {} m", count(all.len(), to), gbps(port.rate), port.metres())
    };
    alike(ports.iter().map(|port| (port, ()))).into_iter().map(of).collect::<Vec<_>>().join("; ")
}

/// "0-2, 8" of a list in order.
pub(super) fn ranges(numbers: &[u8]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < numbers.len() {
        let first = numbers[at];
        while at + 1 < numbers.len() && numbers[at + 1] == numbers[at] + 1 {
            at += 1;
        }
        if !text.is_empty() {
            text += ", ";
        }
        text += &first.to_string();
        if numbers[at] != first {
            text += &format!("-{}", numbers[at]);
        }
        at += 1;
    }
    text
}

/// Lossless classes one by one, the lossy ones together.
fn classes(kind: &Kind) -> Vec<String> {
    if kind.config.trust == Trust::Pcp {
        return vec!["by the PCP of the VLAN tag; packets without one are of PCP 0".to_owned()];
    }
    let mut treatments: BTreeMap<Treatment, Vec<u8>> = BTreeMap::new();
    for dscp in 0..64 {
        treatments.entry(kind.treatment(dscp)).or_default().push(dscp);
    }
    let mut lines = Vec::new();
    let mut any_lossy = false;
    for (treated, dscps) in &treatments {
        if !kind.lossless(treated.group).1 {
            any_lossy = true;
            continue;
        }
        let Treatment { class, group, queue, priority } = treated;
        lines.push(format!(
            "DSCP {} -> TC {class} -> group {group} -> queue {queue}, lossless (priority {priority})",
            ranges(dscps)
        ));
    }
    if any_lossy {
        let all = if lines.is_empty() { "every DSCP is lossy" } else { "the others are lossy" };
        lines.push(all.to_owned());
    }
    lines
}

/// By lossless group: where it pauses, and its headroom, at all ports.
fn groups(config: &NetworkConfig, kind: &Kind) -> Vec<(u8, Vec<String>)> {
    let mut groups: Vec<(u8, Vec<String>)> = Vec::new();
    for (group, ports) in lossless_groups(kind) {
        let number = group as u8;
        if groups.last().is_none_or(|(last, _)| *last != number) {
            groups.push((number, Vec::new()));
        }
        let Some((_, words)) = groups.last_mut() else { continue };
        let own = [thresholds(kind, group, ports[0]), headroom_words(config, kind, group, &ports)];
        for own in own {
            if !words.contains(&own) {
                words.push(own);
            }
        }
    }
    groups
}

/// What is said of several numbers alike is said once: "groups 3-4".
fn together(what: &str, said: Vec<(u8, Vec<String>)>) -> Vec<(String, Vec<String>)> {
    let label = |numbers: &[u8]| match numbers.len() {
        1 => format!("{what} {}", ranges(numbers)),
        PRIORITIES => format!("every {what}"),
        _ => format!("{what}s {}", ranges(numbers)),
    };
    let said = alike(said.into_iter().map(|(number, words)| (words, number))).into_iter();
    said.map(|(words, numbers)| (label(&numbers), words)).collect()
}

fn thresholds(kind: &Kind, group: usize, local: usize) -> String {
    let own = &kind.config.groups_of(local as u16)[group];
    let ports = kind.ports.len();
    let xoff = match own.threshold {
        Threshold::Static { bytes: at } => format!("XOFF at {} bytes", bytes(u64::from(at))),
        Threshold::Dynamic { exponent } => format!(
            "XOFF at {} bytes alone, {} with all {ports} ports congested (alpha {})",
            bytes(kind.xoff(own.threshold, 1)),
            bytes(kind.xoff(own.threshold, ports)),
            alpha_of(exponent)
        ),
    };
    let offset = own.xon_offset_bytes;
    let xon = match (offset, own.xon_bytes) {
        (u32::MAX, 0) => "XON when it is empty".to_owned(),
        (u32::MAX, xon) => format!("XON at {}", bytes(u64::from(xon))),
        (offset, 0) => format!("XON {} below that", bytes(u64::from(offset))),
        (offset, xon) => {
            format!("XON {} below that, or at {}", bytes(u64::from(offset)), bytes(u64::from(xon)))
        }
    };
    let reserve = match own.reserve_bytes {
        0 => String::new(),
        reserve => format!("; {} reserved a port", bytes(u64::from(reserve))),
    };
    format!("{xoff}; {xon}{reserve}")
}

fn headroom_words(config: &NetworkConfig, kind: &Kind, group: usize, ports: &[usize]) -> String {
    let port = &kind.ports[ports[0]];
    let own = headroom(kind, ports[0], group);
    let configured = kind.config.groups_of(ports[0] as u16)[group].headroom_bytes.is_some();
    let mtu = config.nic.mtu.bytes();
    let sonic = sonic_headroom_bytes(port.rate, port.propagation, SONIC_MTU_BYTES, mtu);
    let sonic = sonic.map_or(String::new(), |by| format!(", {} by SONiC's formula", bytes(by)));
    let needed = match configured {
        true => format!("{} needed", bytes(u64::from(port.spec.headroom))),
        false => "computed".to_owned(),
    };
    let verdict = if own < port.spec.headroom { ", TOO LITTLE" } else { "" };
    format!(
        "headroom {} at {} of {} Gb/s and {} m: {needed}{sonic}{verdict}",
        bytes(u64::from(own)),
        count(ports.len(), "port"),
        gbps(port.rate),
        port.metres()
    )
}

/// By queue: when it marks, and whether before pauses.
fn marks(kind: &Kind) -> Vec<(u8, Vec<String>)> {
    let mut lines = Vec::new();
    for (queue, own) in kind.config.queues_of(0).iter().enumerate() {
        if own.ecn.is_none() {
            continue;
        }
        let treated = (0..64)
            .map(|dscp| kind.treatment(dscp))
            .find(|treated| usize::from(treated.queue) == queue);
        let lossless = treated.filter(|treated| kind.lossless(treated.group).1);
        let mut said: Vec<(EcnConfig, Rate)> = Vec::new();
        for (local, port) in (0..).zip(&kind.ports) {
            let Some(ecn) = kind.config.queues_of(local)[queue].ecn else { continue };
            if said.iter().all(|(other, _)| *other != ecn) {
                said.push((ecn, port.rate));
            }
        }
        let alone = said.len() == 1;
        let of = |(ecn, rate): (EcnConfig, Rate)| {
            let beside = lossless.map_or("", |treated| {
                let threshold = kind.config.groups_of(0)[usize::from(treated.group)].threshold;
                let min = u64::from(ecn.min_bytes);
                match (min < kind.xoff(threshold, 1), min < kind.xoff(threshold, kind.ports.len()))
                {
                    (_, true) => ", before pauses",
                    (true, false) => {
                        ", before one sender is paused, but after it when all ports are congested"
                    }
                    (false, false) => ", after pauses",
                }
            });
            let at = if alone { String::new() } else { format!("at {} Gb/s ", gbps(rate)) };
            format!(
                "{at}from {} bytes, up to {} % at {}{beside}",
                bytes(u64::from(ecn.min_bytes)),
                ecn.max_probability * 100.0,
                bytes(u64::from(ecn.max_bytes))
            )
        };
        let words: Vec<String> = said.into_iter().map(of).collect();
        let words = words.join("; ");
        lines.push((queue as u8, vec![words]));
    }
    lines
}

fn schedule(kind: &Kind) -> String {
    let queues = kind.config.queues_of(0);
    let strict: Vec<u8> = (0..PRIORITIES as u8)
        .filter(|&queue| queues[usize::from(queue)].schedule == Schedule::Strict)
        .collect();
    let weights: Vec<(u8, u8)> = (0..PRIORITIES as u8)
        .filter_map(|queue| match queues[usize::from(queue)].schedule {
            Schedule::Weighted(weight) => Some((queue, weight)),
            Schedule::Strict => None,
        })
        .collect();
    let mut words = Vec::new();
    if !strict.is_empty() {
        words.push(format!("queues {} strict", ranges(&strict)));
    }
    match weights.first() {
        Some(&(_, first)) if weights.iter().all(|&(_, weight)| weight == first) => {
            words.push(if strict.is_empty() {
                "every queue alike".to_owned()
            } else {
                "the others alike".to_owned()
            });
        }
        Some(_) => {
            let all: Vec<String> =
                weights.iter().map(|(queue, weight)| format!("{queue}: {weight}")).collect();
            words.push(format!("weights {}", all.join(", ")));
        }
        None => {}
    }
    words.join("; ")
}

fn watchdog(kind: &Kind) -> String {
    let mut found = (0..kind.ports.len()).filter_map(|at| kind.config.watchdog_of(at as u16));
    let number = found.clone().count();
    let Some(first) = found.next() else { return "none".to_owned() };
    let rule = match first.rule {
        WatchdogRule::Guo16 => "guo16's",
        WatchdogRule::Broadcom => "SONiC's on Broadcom",
        WatchdogRule::Mellanox => "SONiC's on Mellanox",
    };
    let action = match first.action {
        WatchdogAction::Drop => "drops",
        WatchdogAction::Forward => "forwards",
        WatchdogAction::Alert => "only alerts",
    };
    let watched = match first.rule {
        WatchdogRule::Guo16 => kind.ports.iter().filter(|port| port.spec.serves).count(),
        _ => number,
    };
    let alike = found.all(|other| other == first);
    let differ = if alike { "" } else { "; other ports differ" };
    format!(
        "{rule}, at {}: looks every {}, {action} after {}, until {} of quiet{differ}",
        count(watched, "port"),
        time(first.poll),
        time(first.detection),
        time(first.restoration)
    )
}

fn nics(config: &NetworkConfig) -> String {
    let nic = &config.nic;
    let lossless: Vec<u8> = (0..PRIORITIES as u8)
        .filter(|priority| nic.lossless_priorities >> priority & 1 != 0)
        .collect();
    let recovery = match nic.recovery {
        transport::Recovery::GoBack0 => "go-back-0".to_owned(),
        transport::Recovery::GoBackN => "go-back-N".to_owned(),
        transport::Recovery::SelectiveRepeat => {
            let over_many = config.is_sprayed().then(|| nic.clone().over_many_paths());
            match over_many.as_ref().unwrap_or(nic).overtaken_wait {
                None | Some(Span::ZERO) => "selective repeat".to_owned(),
                Some(wait) => format!("selective repeat (the overtaken have {wait} at least)"),
            }
        }
    };
    let control = match nic.congestion {
        Congestion::None => "no congestion control".to_owned(),
        Congestion::Dcqcn(_) => "DCQCN".to_owned(),
        Congestion::Custom(custom) => {
            named("congestion control", custom.kind().name(), &custom.values)
        }
        control => {
            let said =
                control.keys().iter().map(|key| format!(", {} {}", key.key, key.get(&control)));
            format!("congestion control {}{}", control.name(), said.collect::<String>())
        }
    };
    let pauses = match lossless.as_slice() {
        [] => "no lossless priority".to_owned(),
        [one] => format!("lossless priority {one}"),
        some => format!("lossless priorities {}", ranges(some)),
    };
    let mut text = "\nNICs\n".to_owned();
    text += &line("settings", &format!("MTU {}, {recovery}, {control}, {pauses}", nic.mtu.bytes()));
    text += &controls(config);
    let mut dscps: Vec<u8> = config.flows.iter().map(|flow| flow.dscp & 63).collect();
    dscps.sort_unstable();
    dscps.dedup();
    if !dscps.is_empty() {
        let of = |dscp: &u8| {
            let priority = nic.priority_of(*dscp);
            format!("DSCP {dscp} -> priority {priority}")
        };
        text += &line("flows", &dscps.iter().map(of).collect::<Vec<_>>().join("; "));
    }
    if !config.nics.is_empty() {
        text += &line("", &format!("{} of their own settings", count(config.nics.len(), "NIC")));
    }
    text
}

/// What DCQCN is set to, and how long it takes to be at line rate again, for each class of hosts.
fn controls(config: &NetworkConfig) -> String {
    let of = |(host, rate)| {
        let nic = config.nic_of(host).clone().at_rate(rate);
        let Congestion::Dcqcn(reaction) = nic.congestion else { return None };
        let notification = nic.notification.unwrap_or_default();
        Some((Settings { reaction, notification }, host))
    };
    let rates = config.topology.host_rates();
    let mut classes = alike((0..).zip(rates).filter_map(of));
    classes.sort_by_key(|(settings, _)| settings.reaction.line_rate);
    let alone = classes.len() == 1;
    let mut text = String::new();
    for (settings, hosts) in &classes {
        let name = hosts
            .first()
            .and_then(|&host| config.topology.hosts.get(host as usize))
            .map_or("?", String::as_str);
        let which = match (alone, hosts.len()) {
            (true, _) => "every host".to_owned(),
            (false, 1) => name.to_owned(),
            (false, number) => format!("{number} hosts, such as {name}"),
        };
        let said =
            |parameter: &Parameter| format!("{} {}", parameter.key, bytes(parameter.get(settings)));
        let said: Vec<String> = PARAMETERS.iter().map(said).collect();
        let line_rate = gbps(settings.reaction.line_rate);
        text += &line("DCQCN", &format!("at {line_rate} Gb/s at {which}: {}", said.join(", ")));
        let recovery = |cnps| match settings.reaction.recovery_time(cnps) {
            Some(time) => format!("{:.1} ms", time.as_ps() as f64 / 1e9),
            None => "more than 10 s".to_owned(),
        };
        let words = format!(
            "to 99 % of {} Gb/s in {} after two CNPs in a row, {} after sixteen",
            gbps(settings.reaction.reach()),
            recovery(2),
            recovery(16)
        );
        text += &line("recovery", &words);
    }
    text
}
