//! From files to settings of the simulator, as they run and as they are desired.

use fabric::NetworkConfig;
use fabric::nic::NicConfig;
use fabric::switch::config::{
    EcnConfig, GroupConfig, PortConfig, SwitchConfig, Threshold, Trust, WatchdogAction,
    WatchdogConfig, WatchdogRule,
};
use rdma::{Mtu, Span};
use transport::congestion::{Congestion, Dcqcn};

use crate::doctor::Diagnosis;
use crate::doctor::cluster::{Cluster, Host, Interface, Node, Part, Port, Qos, Switch, Trusted};
use crate::doctor::desired::{Desired, Settings, exponent};
use crate::doctor::finding::several;
use crate::doctor::rules::{Traffic, about_switch};
use crate::doctor::source::env;
use crate::doctor::wiring::Wiring;

/// A network of the files.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub(super) config: NetworkConfig,
    pub(super) wiring: Wiring,
    /// By host of the topology.
    dscps: Vec<u8>,
}

/// Where no file says which DSCP data have.
const DSCP: u8 = 26;
/// What NCCL sets where `NCCL_IB_TIMEOUT` is not set: 20 since 2.23.
const NCCL_TIMEOUT: u8 = 20;
/// Headers of RoCEv2 over IP around a payload, at most, and room to spare.
const HEADERS: u32 = 96;
/// Where a watchdog is desired and no time is: SONiC's `start_default`, on up to 32 ports.
const WATCHDOG_MS: [u64; 3] = [200, 200, 200];

impl Built {
    pub(super) fn of(diagnosis: &Diagnosis, desired: bool, assumed: &mut Vec<String>) -> Self {
        let cluster = &diagnosis.cluster;
        let wiring = Wiring::of(cluster);
        let mut config = NetworkConfig::new(wiring.topology.clone());
        let wanted = desired.then_some(&diagnosis.desired);
        for (at, switch) in cluster.switches.iter().enumerate() {
            let ports = wiring.ports.get(at).map_or(&[][..], Vec::as_slice);
            let mut made = settings_of(switch, ports);
            if let Some((_, own)) = wanted.and_then(|desired| desired.of(about_switch(switch))) {
                overlay_switch(&mut made, &own);
            }
            config.switches.insert(at as u32, made);
        }
        let traffic = Traffic::of(cluster, &diagnosis.desired);
        let mut dscps = Vec::new();
        for (index, end) in wiring.hosts.iter().enumerate() {
            let Node::Host(at) = end.node else { continue };
            let Some(host) = cluster.hosts.get(at) else { continue };
            let interface = host.interfaces.get(&end.port);
            let (nic, dscp) = nic_of(host, interface, &traffic, wanted);
            config.nics.insert(index as u32, nic);
            dscps.push(dscp);
        }
        say(cluster, &wiring, &traffic, assumed);
        Self { config, wiring, dscps }
    }

    pub(super) fn dscp(&self, host: u32) -> u8 {
        self.dscps.get(host as usize).copied().unwrap_or(DSCP)
    }

    /// The longest that a watchdog may take until it has found a storm.
    pub(super) fn watchdog_time(&self) -> Span {
        let of = |config: &SwitchConfig| {
            let ports = config.ports.values().filter_map(|port| port.watchdog);
            let all = ports.chain(config.watchdog);
            // It looks at multiples of its poll interval alone.
            all.map(|own| own.detection.max(own.poll) + own.poll).max()
        };
        self.config.switches.values().filter_map(of).max().unwrap_or(Span::ZERO)
    }
}

/// What was assumed where files say nothing.
fn say(cluster: &Cluster, wiring: &Wiring, traffic: &Traffic, assumed: &mut Vec<String>) {
    let switches = cluster.switches.iter();
    let of = |so: &dyn Fn(&&Switch) -> bool| -> Vec<&str> {
        switches.clone().filter(so).map(|switch| switch.name.as_str()).collect()
    };
    let unread = of(&|switch| switch.ports.iter().all(|port| port.qos.is_none()));
    if !unread.is_empty() {
        assumed.push(format!(
            "{}: no port can be understood, so it is a switch of 12 MB with PFC on 3 and 4 at alpha 1/16",
            several(&unread)
        ));
    }
    for switch in switches.clone().filter(|switch| !unread.contains(&switch.name.as_str())) {
        half_known(switch, assumed);
    }
    let pools = of(&|switch| switch.shared_bytes.is_none());
    if !pools.is_empty() {
        assumed
            .push(format!("{}: no file says the size of the pool; it is 32 MiB", several(&pools)));
    }
    if wiring.guessed > 0 {
        assumed
            .push(format!("{} links have no rate in any file; they have 100 Gb/s", wiring.guessed));
    }
    if traffic.data.is_empty() {
        assumed.push(format!("no file says the DSCP of data; it is {DSCP}"));
    }
    assumed.push("NICs have no watchdog of their own, and 256 KiB of receive buffer".to_owned());
    assumed.push(
        "DCQCN has its paper's settings, scaled to the rate, unless ecn/roce_rp says that it is off".to_owned(),
    );
    assumed.push(format!(
        "queue pairs wait as NCCL_IB_TIMEOUT says, {NCCL_TIMEOUT} where it is not set"
    ));
    assumed.push(
        "latency of switches is zero, and egress pools are not simulated: times are not those of a device".to_owned(),
    );
}

/// What is assumed of a switch of which some tables or ports are not understood (`FD000`).
fn half_known(switch: &Switch, assumed: &mut Vec<String>) {
    let name = &switch.name;
    let unread = switch.ports.iter().filter(|port| port.qos.is_none());
    let unread: Vec<&str> = unread.map(|port| port.name.as_str()).collect();
    if !unread.is_empty() {
        assumed.push(format!(
            "{name}: {} cannot be understood (FD000), and is as the first of its ports that can",
            several(&unread)
        ));
    }
    for (part, instead) in [
        (Part::Buffers, "groups have alpha 1/16 and the headroom that they need"),
        (Part::Marks, "queues do not mark"),
        (Part::Watchdogs, "there are none"),
        (Part::Queues, "there are none"),
    ] {
        let known = |port: &&Port| port.qos.as_ref().is_none_or(|qos| qos.knows(part));
        let odd = switch.ports.iter().filter(|port| !known(port));
        let odd: Vec<&str> = odd.map(|port| port.name.as_str()).collect();
        if !odd.is_empty() {
            assumed.push(format!(
                "{name}: {} of {} cannot be understood (FD000): {instead}",
                part.words(),
                several(&odd)
            ));
        }
    }
}

/// Settings of a port; groups whose buffers are not understood have those of the simulator.
fn port_config(qos: &Qos) -> PortConfig {
    let mut own = qos.port_config();
    if !qos.knows(Part::Buffers) {
        for group in &mut own.groups {
            *group = if group.lossless { GroupConfig::LOSSLESS } else { GroupConfig::LOSSY };
        }
    }
    own
}

/// What the file means for the ports that have a link, in the order of these.
fn settings_of(switch: &Switch, ports: &[String]) -> SwitchConfig {
    let known = ports.iter().map(|name| switch.port(name).and_then(|port| port.qos.as_ref()));
    let first = known.clone().flatten().next();
    let Some(first) = first.or_else(|| switch.ports.iter().find_map(|port| port.qos.as_ref()))
    else {
        return SwitchConfig::default();
    };
    let mut config = first.config().clone();
    config.ports = known
        .enumerate()
        .filter_map(|(at, qos)| Some((u16::try_from(at).ok()?, port_config(qos?))))
        .collect();
    config
}

fn overlay_switch(config: &mut SwitchConfig, own: &Settings) {
    if let Some(trust) = &own.trust {
        config.trust = if trust == "pcp" { Trust::Pcp } else { Trust::Dscp };
    }
    for (dscp, class) in own.dscp_to_class.iter().flatten() {
        if let Some(slot) = dscp.parse().ok().and_then(|at: usize| config.dscp_to_class.get_mut(at))
        {
            *slot = *class & 7;
        }
    }
    let priority_of = config.group_to_priority;
    let class_to = (config.class_to_group, config.class_to_queue);
    let groups_of = |groups: &mut [GroupConfig; 8]| {
        for (group, config) in groups.iter_mut().enumerate() {
            if let Some(lossless) = &own.lossless_priorities {
                let is = lossless.contains(&priority_of[group]);
                if is && !config.lossless {
                    config.headroom_bytes = None;
                }
                config.lossless = is;
            }
            if !config.lossless {
                continue;
            }
            if let Some(exponent) = own.alpha.as_deref().and_then(exponent) {
                config.threshold = Threshold::Dynamic { exponent };
            }
            if let Some(bytes) = own.headroom_bytes {
                config.headroom_bytes = Some(bytes);
            }
        }
    };
    groups_of(&mut config.groups);
    config.ports.values_mut().for_each(|port| groups_of(&mut port.groups));
    let marks = |ecn: &mut Option<EcnConfig>| {
        let mut new = ecn.unwrap_or_default();
        new.min_bytes = own.ecn_min_bytes.unwrap_or(new.min_bytes);
        new.max_bytes = own.ecn_max_bytes.unwrap_or(new.max_bytes).max(new.min_bytes);
        if let Some(percent) = own.ecn_percent {
            new.max_probability = f64::from(percent.min(100)) / 100.0;
        }
        *ecn = Some(new);
    };
    let says_marks = own.ecn_min_bytes.or(own.ecn_max_bytes).or(own.ecn_percent).is_some();
    for port in config.ports.values_mut() {
        for class in 0..8 {
            let (group, queue) = (class_to.0[class] & 7, class_to.1[class] & 7);
            if says_marks && port.groups[usize::from(group)].lossless {
                marks(&mut port.queues[usize::from(queue)].ecn);
            }
        }
        port.watchdog = watchdog(port.watchdog, own);
    }
    config.watchdog = watchdog(config.watchdog, own);
}

fn watchdog(known: Option<WatchdogConfig>, own: &Settings) -> Option<WatchdogConfig> {
    let action = match own.watchdog.as_deref() {
        None => None,
        Some("none") => return None,
        Some("forward") => Some(WatchdogAction::Forward),
        Some("alert") => Some(WatchdogAction::Alert),
        Some(_) => Some(WatchdogAction::Drop),
    };
    let [poll, detection, restoration] = WATCHDOG_MS.map(Span::from_ms);
    let fresh = |action| {
        let rule = WatchdogRule::Broadcom;
        WatchdogConfig { rule, action, poll, detection, restoration }
    };
    let mut made = known.or_else(|| action.map(fresh))?;
    made.action = action.unwrap_or(made.action);
    made.poll = own.watchdog_poll_ms.map_or(made.poll, Span::from_ms);
    made.detection = own.watchdog_detection_ms.map_or(made.detection, Span::from_ms);
    made.restoration = own.watchdog_restoration_ms.map_or(made.restoration, Span::from_ms);
    Some(made)
}

/// The NIC of a host, and the DSCP that its job puts on its packets.
fn nic_of(
    host: &Host,
    interface: Option<&Interface>,
    traffic: &Traffic,
    desired: Option<&Desired>,
) -> (NicConfig, u8) {
    let mut nic = NicConfig::default();
    let own = desired.and_then(|desired| desired.of_host(host)).map(|(_, own)| own);
    let own = own.unwrap_or_default();
    let known = Interface::default();
    let interface = interface.unwrap_or(&known);
    let data = traffic.data.first().copied().unwrap_or(DSCP);
    let stray = traffic.strays.iter().find(|stray| stray.host == host.name);
    let dscp = match desired {
        Some(_) => data,
        None => stray.map_or(data, |stray| stray.dscp),
    };
    if let Some(known) = &interface.dscp_to_priority {
        nic.dscp_to_priority = known.value;
    } else {
        // mlx5 without a map: a priority for every eight.
        nic.dscp_to_priority = core::array::from_fn(|dscp| dscp as u8 >> 3);
    }
    for (dscp, priority) in own.dscp_to_priority.iter().flatten() {
        if let Some(slot) = dscp.parse().ok().and_then(|at: usize| nic.dscp_to_priority.get_mut(at))
        {
            *slot = *priority & 7;
        }
    }
    let pcp = match own.trust.as_deref() {
        Some(trust) => trust == "pcp",
        None => interface.trust.as_ref().is_some_and(|known| known.value == Trusted::Pcp),
    };
    if pcp {
        nic.dscp_to_priority = [0; 64];
    }
    if let Some(pfc) = &interface.pfc {
        nic.lossless_priorities = pfc.value;
    }
    if let Some(lossless) = &own.lossless_priorities {
        nic.lossless_priorities =
            lossless.iter().fold(0, |mask, priority| mask | 1 << (priority & 7));
    }
    let bytes = own.mtu_bytes.or(interface.mtu.as_ref().map(|mtu| mtu.value)).unwrap_or(1_500);
    nic.mtu = [Mtu::B4096, Mtu::B2048, Mtu::B1024, Mtu::B512, Mtu::B256]
        .into_iter()
        .find(|mtu| mtu.bytes() + HEADERS <= bytes)
        .unwrap_or(Mtu::B256);
    let priority = nic.priority_of(dscp);
    let reacts = interface.reacts.as_ref().is_none_or(|mask| mask.value >> priority & 1 != 0);
    if own.notifies.unwrap_or(reacts) {
        nic.congestion = Congestion::Dcqcn(Dcqcn::default());
    }
    let notifies = interface.notifies.as_ref().is_none_or(|mask| mask.value >> priority & 1 != 0);
    if !own.notifies.unwrap_or(notifies) {
        nic.notification = None;
    }
    let variable = |name: &str| {
        let said = host.jobs.values().find_map(|job| job.variables.get(name));
        let said = said.map(|known| known.value.as_str());
        own.env.get(name).map(String::as_str).or(said).and_then(env::number)
    };
    let code = variable("NCCL_IB_TIMEOUT").and_then(|code| u8::try_from(code).ok());
    nic.ack_timeout_code = code.filter(|code| *code < 32).unwrap_or(NCCL_TIMEOUT);
    let retries = variable("NCCL_IB_RETRY_CNT").and_then(|retries| u8::try_from(retries).ok());
    nic.retry_count = retries.filter(|retries| *retries < 8).unwrap_or(7);
    // One acknowledgement for eight packets, as NICs coalesce them.
    nic.ack_interval_packets = 8;
    (nic, dscp)
}
