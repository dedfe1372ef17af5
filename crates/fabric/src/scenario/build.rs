//! What a scenario means: tables to a [`NetworkConfig`].

use rdma::{Mtu, Rate, Span, Time};
use toml::Spanned;
use transport::Recovery;
use transport::congestion::{Congestion, Dcqcn};

use super::tables::{self, Shape, WorkloadKind};
use super::{Scenario, ScenarioError};
use crate::NetworkConfig;
use crate::fault::{Fault, FaultKind};
use crate::link::{DropRule, propagation};
use crate::nic::NicConfig;
use crate::random::Random;
use crate::switch::config::{
    EcnConfig, GroupConfig, Incomplete, PRIORITIES, QueueConfig, Schedule, SwitchConfig, Threshold,
    Trust, WatchdogConfig,
};
use crate::topology::{
    Cables, ClosShape, End, StaticRoute, Topology, back_to_back, clos, fat_tree, leaf_spine,
    parking_lot, single_switch,
};
use crate::workload::{FlowSpec, SizeDistribution, Verb, all_to_all, incast, permutation, poisson};

type Result<T> = core::result::Result<T, ScenarioError>;

/// A table and where it begins.
struct At<'a, T> {
    text: &'a str,
    name: &'static str,
    start: usize,
    table: &'a T,
}

impl<'a, T> At<'a, T> {
    fn new(text: &'a str, name: &'static str, table: &'a Spanned<T>) -> Self {
        Self { text, name, start: table.span().start, table: table.get_ref() }
    }

    fn wrong(&self, key: &str, message: impl Into<String>) -> ScenarioError {
        ScenarioError::at_key(self.text, self.start, self.name, key, message)
    }

    /// A value that the rest of the table makes necessary.
    fn need<V>(&self, key: &str, value: Option<V>, why: &str) -> Result<V> {
        value.ok_or_else(|| self.wrong(key, format!("{why} needs it")))
    }
}

pub(super) fn scenario(text: &str, file: tables::File, seed: Option<u64>) -> Result<Scenario> {
    let topology = topology(&At::new(text, "topology", &file.topology))?;
    let mut config = NetworkConfig::new(topology);
    config.seed = seed.or(file.seed).unwrap_or(1);
    config.paranoid = file.paranoid.unwrap_or(false);
    config.share_queue_pairs = file.share_queue_pairs.unwrap_or(false);
    if let Some(every) = file.deadlock_check_us {
        config.deadlock_check = (every > 0.0).then(|| span_us(every));
    }
    if let Some(table) = &file.switch {
        config.switch = switch(&At::new(text, "switch", table), &config.switch)?;
    }
    for (name, table) in &file.switches {
        let at = At::new(text, "switches", table);
        let Some(End::Switch(index)) = config.topology.find(name) else {
            return Err(at.wrong(name, format!("there is no switch {name:?}")));
        };
        config.switches.insert(index, switch(&at, &config.switch)?);
    }
    if let Some(table) = &file.nic {
        config.nic = nic(&At::new(text, "nic", table), &config)?;
    }
    config.nic.lossless_priorities = lossless(&config.switch);
    for (name, table) in &file.nics {
        let at = At::new(text, "nics", table);
        let Some(End::Host(index)) = config.topology.find(name) else {
            return Err(at.wrong(name, format!("there is no host {name:?}")));
        };
        config.nics.insert(index, nic(&at, &config)?);
    }
    let end = Time::ZERO + span_us(file.end_ms * 1_000.0);
    let mut random = Random::new(config.seed ^ 0x5eed);
    for table in &file.workload {
        let at = At::new(text, "workload", table);
        let flows = workload(&at, &config.topology, end, &mut random)?;
        config.flows.extend(flows);
    }
    for table in &file.fault {
        let fault = fault(&At::new(text, "fault", table), &config.topology)?;
        config.faults.push(fault);
    }
    let title = file.title.unwrap_or_else(|| "untitled".to_owned());
    Ok(Scenario { title, network: config, end })
}

fn span_us(us: f64) -> Span {
    Span::from_ps((us * 1e6).max(0.0) as u64)
}

fn rate(gbps: f64) -> Rate {
    Rate::from_bps((gbps * 1e9).max(0.0) as u64)
}

// ---- topology

fn topology(at: &At<'_, tables::Topology>) -> Result<Topology> {
    let table = at.table;
    let (why, keys): (&str, &[&str]) = match table.shape {
        Shape::BackToBack => ("shape \"back-to-back\"", &[]),
        Shape::SingleSwitch => ("shape \"single-switch\"", &["hosts"]),
        Shape::LeafSpine => ("shape \"leaf-spine\"", &["leaves", "spines", "hosts"]),
        Shape::Clos => ("shape \"clos\"", &["podsets", "tors", "leaves", "spines", "hosts"]),
        Shape::FatTree => ("shape \"fat-tree\"", &["k"]),
        Shape::ParkingLot => ("shape \"parking-lot\"", &["switches"]),
        Shape::Links => ("shape \"links\"", &[]),
    };
    let sizes = [
        ("hosts", table.hosts),
        ("leaves", table.leaves),
        ("spines", table.spines),
        ("podsets", table.podsets),
        ("tors", table.tors),
        ("switches", table.switches),
        ("k", table.k),
    ];
    for (key, value) in sizes {
        if keys.contains(&key) {
            let size = at.need(key, value, why)?;
            if size == 0 || size > 1 << 16 {
                return Err(at.wrong(key, format!("{size} is not from 1 to 65536")));
            }
        } else if value.is_some() {
            let all: Vec<&str> = keys.iter().copied().chain(["rate_gbps", "cable_m"]).collect();
            let hint = format!("its keys are {}", all.join(", "));
            return Err(at.wrong(key, format!("{why} does not have it")).hint(hint));
        }
    }
    let size = |value: Option<u32>| value.unwrap_or(0);
    let gbps = at.need("rate_gbps", table.rate_gbps, why)?;
    if rate(gbps) == Rate::ZERO {
        return Err(at.wrong("rate_gbps", "a link has a rate above zero"));
    }
    let cable = table.cable_m.unwrap_or(2);
    let down = Cables::new(rate(gbps), cable);
    let up_rate = rate(table.uplink_rate_gbps.unwrap_or(gbps));
    let up = Cables::new(up_rate, table.uplink_cable_m.unwrap_or(cable));
    let top =
        Cables::new(up_rate, table.spine_cable_m.unwrap_or(table.uplink_cable_m.unwrap_or(cable)));
    Ok(match table.shape {
        Shape::BackToBack => back_to_back(down),
        Shape::SingleSwitch => single_switch(size(table.hosts), down),
        Shape::LeafSpine => {
            leaf_spine(size(table.leaves), size(table.spines), size(table.hosts), down, up)
        }
        Shape::Clos => {
            let (leaves, spines) = (size(table.leaves), size(table.spines));
            if !spines.is_multiple_of(leaves) {
                let message = format!("{spines} spines cannot be dealt out to {leaves} leaves");
                return Err(at.wrong("spines", message).hint("make it a multiple of leaves"));
            }
            clos(&ClosShape {
                podsets: size(table.podsets),
                tors: size(table.tors),
                leaves,
                spines,
                hosts: size(table.hosts),
                host_cables: down,
                tor_cables: up,
                spine_cables: top,
            })
        }
        Shape::FatTree => {
            let k = size(table.k);
            if k < 2 || k % 2 != 0 || k > 128 {
                return Err(at.wrong("k", format!("{k} is no even number from 2 to 128")));
            }
            fat_tree(k, down)
        }
        Shape::ParkingLot => parking_lot(size(table.switches), down),
        Shape::Links => links(at, down)?,
    })
}

fn links(at: &At<'_, tables::Topology>, cables: Cables) -> Result<Topology> {
    let mut topology = Topology::default();
    for switch in &at.table.switch {
        topology.add_switch(switch.name.clone(), switch.tier);
    }
    for host in &at.table.host {
        topology.add_host(host.clone());
    }
    for link in &at.table.link {
        let at = At::new(at.text, "topology.link", link);
        let end = |key: &str, name: &str| {
            let missing = || at.wrong(key, format!("there is no host or switch {name:?}"));
            topology.find(name).ok_or_else(missing)
        };
        let (from, to) = (end("from", &at.table.from)?, end("to", &at.table.to)?);
        let own = at.table.rate_gbps.map_or(cables.rate, rate);
        let length = at.table.cable_m.map_or(cables.propagation, propagation);
        topology.link(from, to, own, length);
    }
    for route in &at.table.route {
        let at = At::new(at.text, "topology.route", route);
        let switch = |key: &str, name: &str| match topology.find(name) {
            Some(End::Switch(index)) => Ok(index),
            _ => Err(at.wrong(key, format!("there is no switch {name:?}"))),
        };
        let via = at.table.via.iter().map(|name| switch("via", name)).collect::<Result<_>>()?;
        let route =
            StaticRoute { at: switch("at", &at.table.at)?, to: switch("to", &at.table.to)?, via };
        topology.routes.push(route);
    }
    Ok(topology)
}

// ---- switches and NICs

fn switch(at: &At<'_, tables::Switch>, base: &SwitchConfig) -> Result<SwitchConfig> {
    let table = at.table;
    let mut config = base.clone();
    fn set<T: Copy>(target: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *target = value;
        }
    }
    set(&mut config.buffer_bytes, table.buffer_bytes);
    set(&mut config.pfc.quanta, table.pause_quanta);
    set(&mut config.pfc.response_quanta, table.pause_response_quanta);
    set(&mut config.latency, table.latency_ns.map(Span::from_ns));
    set(&mut config.ecmp_seed, table.ecmp_seed);
    set(&mut config.tables.arp_timeout, table.arp_timeout_ms.map(Span::from_ms));
    set(&mut config.tables.mac_timeout, table.mac_timeout_ms.map(Span::from_ms));
    set(
        &mut config.trust,
        table.trust.map(|trust| match trust {
            tables::Trust::Dscp => Trust::Dscp,
            tables::Trust::Pcp => Trust::Pcp,
        }),
    );
    set(
        &mut config.tables.incomplete,
        table.incomplete_arp.map(|incomplete| match incomplete {
            tables::Incomplete::Flood => Incomplete::Flood,
            tables::Incomplete::Drop => Incomplete::Drop,
            tables::Incomplete::Cpu => Incomplete::Cpu,
        }),
    );
    if let Some(priorities) = &table.lossless_priorities {
        check_priorities(at, "lossless_priorities", priorities)?;
        for (priority, group) in config.groups.iter_mut().enumerate() {
            let lossless = priorities.contains(&(priority as u8));
            *group = match (lossless, group.lossless) {
                (true, false) => GroupConfig::LOSSLESS,
                (false, true) => GroupConfig::LOSSY,
                _ => *group,
            };
        }
    }
    let threshold = match (&table.alpha, table.threshold_bytes) {
        (Some(_), Some(_)) => {
            return Err(at.wrong("threshold_bytes", "a threshold is dynamic (alpha) or static"));
        }
        (Some(alpha), None) => Some(Threshold::Dynamic { exponent: exponent(at, alpha)? }),
        (None, bytes) => bytes.map(|bytes| Threshold::Static { bytes }),
    };
    for group in config.groups.iter_mut().filter(|group| group.lossless) {
        set(&mut group.threshold, threshold);
        set(&mut group.reserve_bytes, table.reserve_bytes);
        set(&mut group.xon_offset_bytes, table.xon_offset_bytes);
        set(&mut group.headroom_bytes, table.headroom_bytes.map(Some));
    }
    if let Some(strict) = &table.strict_queues {
        check_priorities(at, "strict_queues", strict)?;
    }
    for (index, queue) in config.queues.iter_mut().enumerate() {
        set(
            &mut queue.limit,
            table.lossy_queue_bytes.map(|bytes| Some(Threshold::Static { bytes })),
        );
        if let Some(weights) = &table.weights {
            if weights[index] == 0 {
                return Err(at.wrong("weights", "a weight is not zero"));
            }
            queue.schedule = Schedule::Weighted(weights[index]);
        }
        if table.strict_queues.as_ref().is_some_and(|strict| strict.contains(&(index as u8))) {
            queue.schedule = Schedule::Strict;
        }
    }
    if let Some(table) = &table.ecn {
        ecn(&At::new(at.text, "switch.ecn", table), &mut config.queues)?;
    }
    if let Some(watchdog) = &table.watchdog {
        let ms = |value: f64| span_us(value * 1_000.0);
        config.watchdog = Some(WatchdogConfig {
            poll: ms(watchdog.poll_ms).max(Span::from_us(1)),
            detection: ms(watchdog.detection_ms),
            restoration: ms(watchdog.restoration_ms),
        });
    }
    Ok(config)
}

fn check_priorities<T>(at: &At<'_, T>, key: &str, values: &[u8]) -> Result<()> {
    match values.iter().find(|&&value| usize::from(value) >= PRIORITIES) {
        Some(value) => Err(at.wrong(key, format!("{value} is not from 0 to 7"))),
        None => Ok(()),
    }
}

fn ecn(at: &At<'_, tables::Ecn>, queues: &mut [QueueConfig; PRIORITIES]) -> Result<()> {
    let table = at.table;
    if table.min_bytes >= table.max_bytes {
        return Err(at.wrong("max_bytes", "it is above min_bytes"));
    }
    if !(0.0..=1.0).contains(&table.max_probability) {
        return Err(at.wrong("max_probability", "a probability is from 0 to 1"));
    }
    if let Some(chosen) = &table.queues {
        check_priorities(at, "queues", chosen)?;
    }
    for (index, queue) in queues.iter_mut().enumerate() {
        if table.queues.as_ref().is_none_or(|chosen| chosen.contains(&(index as u8))) {
            queue.ecn = Some(EcnConfig {
                min_bytes: table.min_bytes,
                max_bytes: table.max_bytes,
                max_probability: table.max_probability,
            });
        }
    }
    Ok(())
}

/// "1/16" is -4, "8" is 3.
fn exponent(at: &At<'_, tables::Switch>, alpha: &str) -> Result<i8> {
    let (above, below) = alpha.split_once('/').unwrap_or((alpha, "1"));
    let power = |text: &str| {
        let value: u32 = text.trim().parse().ok()?;
        value.is_power_of_two().then(|| value.trailing_zeros() as i8)
    };
    let exponent = power(above).zip(power(below)).map(|(above, below)| above - below);
    exponent.filter(|exponent| (-8..=7).contains(exponent)).ok_or_else(|| {
        at.wrong("alpha", format!("{alpha:?} is no power of two from 1/256 to 128"))
            .hint("write \"1/16\", \"1\" or \"8\", for instance")
    })
}

/// The priorities that a switch pauses.
fn lossless(config: &SwitchConfig) -> u8 {
    let groups = config.groups.iter().enumerate();
    groups
        .filter(|(_, group)| group.lossless)
        .fold(0, |mask, (group, _)| mask | 1 << (config.group_to_priority[group] & 7))
}

fn nic(at: &At<'_, tables::Nic>, config: &NetworkConfig) -> Result<NicConfig> {
    let table = at.table;
    let mut nic = config.nic.clone();
    fn set<T>(target: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *target = value;
        }
    }
    if let Some(bytes) = table.mtu_bytes {
        let known = Mtu::ALL.into_iter().find(|mtu| mtu.bytes() == bytes);
        let wrong = || at.wrong("mtu_bytes", "a path MTU is 256, 512, 1024, 2048 or 4096");
        nic.mtu = known.ok_or_else(wrong)?;
    }
    if let Some(name) = &table.recovery {
        nic.recovery = match name.as_str() {
            "go-back-0" => Recovery::GoBack0,
            "go-back-n" => Recovery::GoBackN,
            "selective-repeat" => Recovery::SelectiveRepeat,
            _ => {
                let message = format!("there is no recovery {name:?}");
                let hint = "go-back-0, go-back-n or selective-repeat";
                return Err(at.wrong("recovery", message).hint(hint));
            }
        };
    }
    if let Some(congestion) = table.congestion {
        let line_rate = config.topology.links.iter().map(|link| link.rate).min();
        nic.congestion = match congestion {
            tables::Congestion::None => Congestion::None,
            tables::Congestion::Dcqcn => Congestion::Dcqcn(Dcqcn {
                line_rate: line_rate.unwrap_or_default(),
                ..Dcqcn::default()
            }),
        };
    }
    set(&mut nic.ack_interval_packets, table.ack_interval_packets);
    set(&mut nic.window_bytes, table.window_bytes);
    set(&mut nic.ack_timeout_code, table.ack_timeout_code);
    set(&mut nic.retry_count, table.retry_count);
    set(&mut nic.tagged, table.tagged);
    set(&mut nic.receive, table.receive_ns.map(Span::from_ns));
    set(&mut nic.receive_buffer_bytes, table.receive_buffer_bytes);
    set(&mut nic.xoff_bytes, table.xoff_bytes);
    set(&mut nic.xon_bytes, table.xon_bytes);
    set(&mut nic.watchdog, table.watchdog_ms.map(|ms| Some(span_us(ms * 1_000.0))));
    nic.lossless_priorities = lossless(&config.switch);
    if nic.xon_bytes > nic.xoff_bytes || nic.xoff_bytes > nic.receive_buffer_bytes {
        let message = "xon_bytes <= xoff_bytes <= receive_buffer_bytes does not hold";
        return Err(at.wrong("xoff_bytes", message));
    }
    if nic.ack_timeout_code > 31 || nic.retry_count > 7 {
        return Err(
            at.wrong("retry_count", "a timeout code is at most 31, a retry count at most 7")
        );
    }
    Ok(nic)
}

// ---- what happens

fn host<T>(at: &At<'_, T>, topology: &Topology, key: &str, name: &str) -> Result<u32> {
    match topology.find(name) {
        Some(End::Host(index)) => Ok(index),
        _ => {
            let error = at.wrong(key, format!("there is no host {name:?}"));
            Err(match topology.hosts.as_slice() {
                [first, .., last] => error.hint(format!("hosts are {first} to {last}")),
                _ => error,
            })
        }
    }
}

fn workload(
    at: &At<'_, tables::Workload>,
    topology: &Topology,
    end: Time,
    random: &mut Random,
) -> Result<Vec<FlowSpec>> {
    let table = at.table;
    let hosts = topology.hosts.len() as u32;
    let bytes = |why| at.need("message_bytes", table.message_bytes, why);
    let named = |key: &str, name: &Option<String>, why: &str| {
        let name = at.need(key, name.as_deref(), why)?;
        host(at, topology, key, name)
    };
    let mut flows = match table.kind {
        WorkloadKind::Flow => {
            let why = "kind \"flow\"";
            let (from, to) = (named("from", &table.from, why)?, named("to", &table.to, why)?);
            if from == to {
                return Err(at.wrong("to", "a flow is between two hosts"));
            }
            vec![FlowSpec::write(from, to, bytes(why)?)]
        }
        WorkloadKind::Permutation => permutation(hosts, bytes("kind \"permutation\"")?, random),
        WorkloadKind::AllToAll => all_to_all(hosts, bytes("kind \"all-to-all\"")?),
        WorkloadKind::Incast => {
            let why = "kind \"incast\"";
            let receiver = named("receiver", &table.receiver, why)?;
            let senders = table.senders.unwrap_or(hosts.saturating_sub(1));
            let others = hosts.saturating_sub(1);
            if senders > others {
                return Err(at.wrong("senders", format!("{senders} of {others} other hosts")));
            }
            incast(hosts, receiver, senders, bytes(why)?, random)
        }
        WorkloadKind::Poisson => {
            let why = "kind \"poisson\"";
            let load = at.need("load", table.load, why)?;
            if !(load > 0.0 && load <= 1.0) {
                return Err(at.wrong("load", "a load is above 0 and at most 1"));
            }
            let sizes = match (&table.sizes, table.message_bytes) {
                (Some(points), None) => SizeDistribution::new(points.clone()).ok_or_else(|| {
                    at.wrong("sizes", "bytes and probabilities rise, the last one to 1")
                })?,
                (None, Some(bytes)) => SizeDistribution::constant(bytes),
                _ => return Err(at.wrong("sizes", "give either sizes or message_bytes")),
            };
            let until = table.until_us.map_or(end, |us| Time::ZERO + span_us(us));
            // The links of hosts come first in every shape but a list, where they may differ.
            let line = topology
                .links
                .iter()
                .filter(|link| link.ends.iter().any(|end| matches!(end, End::Host(_))))
                .map(|link| link.rate)
                .min();
            poisson(hosts, line.unwrap_or_default(), load, &sizes, until, random)
        }
    };
    let dscp = table.dscp.unwrap_or(3);
    if dscp > 63 {
        return Err(at.wrong("dscp", format!("{dscp} is not from 0 to 63")));
    }
    let endless = table.endless.unwrap_or(false);
    if endless && table.messages.is_some() {
        return Err(at.wrong("messages", "an endless flow has no number of messages"));
    }
    let verb = match table.verb {
        Some(tables::Verb::Send) => Verb::Send,
        Some(tables::Verb::Read) => Verb::Read,
        Some(tables::Verb::Write) | None => Verb::Write,
    };
    if table.reply_bytes.is_some() && verb != Verb::Send {
        return Err(at.wrong("reply_bytes", "only SENDs can be answered").hint("verb = \"send\""));
    }
    for flow in &mut flows {
        flow.verb = verb;
        flow.dscp = dscp;
        flow.reply_bytes = table.reply_bytes;
        flow.depth = table.depth.unwrap_or(if endless { 2 } else { 1 }).max(1);
        flow.messages = if endless { None } else { Some(table.messages.unwrap_or(1)) };
        if let Some(start) = table.start_us {
            flow.start += span_us(start);
        }
    }
    let copies = table.queue_pairs.unwrap_or(1).max(1) as usize;
    Ok(flows.into_iter().flat_map(|flow| core::iter::repeat_n(flow, copies)).collect())
}

fn fault(at: &At<'_, tables::Fault>, topology: &Topology) -> Result<Fault> {
    use tables::FaultKind as Kind;
    let table = at.table;
    let why = "this fault";
    let node = |key: &str, name: &Option<String>| {
        let name = at.need(key, name.as_deref(), why)?;
        let missing = || at.wrong(key, format!("there is no host or switch {name:?}"));
        topology.find(name).ok_or_else(missing)
    };
    let of_host = || host(at, topology, "host", at.need("host", table.host.as_deref(), why)?);
    let chance = |value: f64| {
        let fits = (0.0..=1.0).contains(&value);
        if fits { Ok(value) } else { Err(at.wrong("probability", "it is from 0 to 1")) }
    };
    let kind = match table.kind {
        Kind::Drop => {
            let rule = match (table.probability, table.every, table.ip_id_ends) {
                (Some(probability), None, None) => DropRule::Chance(chance(probability)?),
                (None, Some(n), None) => DropRule::Every(n),
                (None, None, Some(byte)) => DropRule::IpIdEnds(byte),
                _ => {
                    let message = "give one of probability, every and ip_id_ends";
                    return Err(at.wrong("kind", message));
                }
            };
            FaultKind::LinkRule {
                from: node("from", &table.from)?,
                to: node("to", &table.to)?,
                rule,
            }
        }
        Kind::Damage => FaultKind::LinkDamage {
            from: node("from", &table.from)?,
            to: node("to", &table.to)?,
            probability: chance(at.need("probability", table.probability, why)?)?,
        },
        Kind::LinkDown => {
            FaultKind::LinkDown { ends: [node("from", &table.from)?, node("to", &table.to)?] }
        }
        Kind::LinkUp => {
            FaultKind::LinkUp { ends: [node("from", &table.from)?, node("to", &table.to)?] }
        }
        Kind::HostDies => {
            FaultKind::HostDies { host: of_host()?, mac_aged: table.mac_aged.unwrap_or(false) }
        }
        Kind::HostReturns => FaultKind::HostReturns { host: of_host()? },
        Kind::NicStuck => FaultKind::NicStuck { host: of_host()? },
        Kind::NicRepaired => FaultKind::NicRepaired { host: of_host()? },
    };
    Ok(Fault { at: Time::ZERO + span_us(table.at_us.unwrap_or(0.0)), kind })
}
