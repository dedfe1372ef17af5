//! Settings that defeat each other. Each rule has an incident, or a paper, behind it.

use std::collections::{BTreeMap, BTreeSet};

use transport::Recovery;
use transport::congestion::Congestion;

use super::text::{self, bytes, gbps, names, ranges};
use super::{Kind, alike, headroom, lossless_groups};
use crate::NetworkConfig;
use crate::fault::{Fault, FaultKind};
use crate::network::longest_frame;
use crate::nic::NicConfig;
use crate::packet::whole_frame;
use crate::switch::config::{Balance, Trust, WatchdogRule};
use crate::topology::End;
use crate::workload::Service;

/// Every warning, those about buffers first.
pub(super) fn warnings(config: &NetworkConfig, kinds: &[Kind]) -> Vec<String> {
    let mut warnings = Vec::new();
    // TCP is made for classes that drop, and has a congestion control of its own.
    let rdma = config.flows.iter().filter(|flow| flow.service != Service::Tcp);
    let dscps: BTreeSet<u8> = rdma.map(|flow| flow.dscp & 63).collect();
    for kind in kinds {
        let name = names(config, kind);
        let mut say = |text: String| warnings.push(format!("{name}: {text}"));
        buffer(kind, &mut say);
        headrooms(kind, &mut say);
        pauses(config, kind, &mut say);
        marks(config, kind, &dscps, &mut say);
        marks_of_one_frame(config, kind, &dscps, &mut say);
        watchdog(kind, &mut say);
        classes(config, kind, &dscps, &mut say);
        let in_order = |nic: &NicConfig| nic.recovery != Recovery::SelectiveRepeat;
        if sprays(kind.config.balance) && nics(config).any(in_order) {
            say("packets are sprayed, and overtake each other; go-back-n and go-back-0 take that for \
                 losses, and send everything from there on again: use recovery \"selective-repeat\", or balance \"flow\""
                .to_owned());
        }
    }
    hops(config, kinds, &dscps, &mut warnings);
    warnings.extend(unanswered(config));
    warnings
}

/// Whether packets of a flow overtake each other as a matter of course.
fn sprays(balance: Balance) -> bool {
    match balance {
        Balance::Packet | Balance::Custom(_) => balance.may_reorder(),
        Balance::Flow | Balance::Flowlet { .. } => false,
    }
}

/// Flows between two NICs of which one alone has HPCC: what switches write into packets comes back to the
/// sender only by a receiver that has it, too.
fn unanswered(config: &NetworkConfig) -> Option<String> {
    let needs = |host: u32| config.nic_of(host).congestion.needs_telemetry();
    let reliable = config.flows.iter().filter(|flow| flow.service == Service::Rc);
    let pairs: BTreeSet<(u32, u32)> = reliable
        .map(|flow| (flow.source, flow.destination))
        .filter(|&(source, destination)| needs(source) != needs(destination))
        .map(|(one, other)| if needs(one) { (one, other) } else { (other, one) })
        .collect();
    let (with, without) = pairs.first()?;
    let name = |host: u32| config.topology.name(End::Host(host));
    let chosen = config.nic_of(*with).congestion.name();
    Some(format!(
        "{} has congestion {chosen:?} and {} has not ({} such pairs): telemetry is not sent back, and {} \
         never slows down; give both NICs {chosen:?}",
        name(*with),
        name(*without),
        pairs.len(),
        if chosen == "hpcc" { "HPCC" } else { chosen }
    ))
}

/// Headroom above the pool (sonic-mgmt's and everybody's first mistake).
fn buffer(kind: &Kind, say: &mut impl FnMut(String)) {
    if kind.shared() == 0 {
        say(format!(
            "the buffer of {} bytes is less than the {} of reserves and headrooms: there is no such \
             switch; make the buffer larger, or headroom, reserves or cables smaller",
            bytes(u64::from(kind.config.buffer_bytes)),
            bytes(kind.reserved)
        ));
        return;
    }
    let percent = kind.reserved * 100 / u64::from(kind.config.buffer_bytes).max(1);
    if percent > 50 {
        say(format!("reserves and headrooms take {percent} % of the buffer"));
    }
    if let Some(pool) = kind.config.headroom_pool_bytes {
        let largest = lossless_groups(kind)
            .into_iter()
            .map(|(group, ports)| {
                kind.ports[ports[0]].spec.headroom.min(headroom(kind, ports[0], group))
            })
            .max();
        if largest.is_some_and(|largest| largest > pool) && pool > 0 {
            say(format!(
                "the headroom pool of {} bytes is less than one group needs",
                bytes(u64::from(pool))
            ));
        }
    }
}

/// Headroom below what rate and cable need: lossless packets are lost.
fn headrooms(kind: &Kind, say: &mut impl FnMut(String)) {
    let said = |(group, ports): (usize, Vec<usize>)| {
        let port = &kind.ports[ports[0]];
        let (own, needed) = (headroom(kind, ports[0], group), port.spec.headroom);
        let words = format!(
            "{} bytes of headroom at {} {}, and {} are needed for {} Gb/s over {} m: lossless packets \
             can be lost",
            bytes(u64::from(own)),
            ports.len(),
            if ports.len() == 1 { "port" } else { "ports" },
            bytes(u64::from(needed)),
            gbps(port.rate),
            port.metres()
        );
        (own < needed).then_some((words, group as u8))
    };
    for (words, groups) in alike(lossless_groups(kind).into_iter().filter_map(said)) {
        match groups.as_slice() {
            [one] => say(format!("group {one} has {words}")),
            several => say(format!("groups {} have {words}", ranges(several))),
        }
    }
}

/// Pauses that are over before they are renewed: that is sent after half of their time (`links/pauses.rs`), behind a
/// frame that is on its way. A quantum is 512 bit times (IEEE 802.3, 31B).
fn pauses(config: &NetworkConfig, kind: &Kind, say: &mut impl FnMut(String)) {
    const QUANTUM_BYTES: u32 = wire::pause::QUANTUM_BITS as u32 / 8;
    let quanta = u32::from(kind.config.pfc.quanta);
    let frame = longest_frame(config);
    // Of an odd number the greater half is left.
    let least = (2 * frame.div_ceil(QUANTUM_BYTES)).saturating_sub(1);
    if quanta >= least || lossless_groups(kind).is_empty() {
        return;
    }
    let why = match quanta {
        0 => "a pause of no quanta lets go, and nobody is paused".to_owned(),
        _ => format!(
            "a pause is renewed after half of its {quanta} quanta, behind a frame of {} bytes, and is over before \
             that",
            bytes(u64::from(frame))
        ),
    };
    say(format!(
        "pause_quanta = {quanta}: {why}: lossless packets can be lost; use {least} or more, 65,535 for instance"
    ));
}

/// Marks where nobody waits yet: of a queue that is no longer than one frame.
fn marks_of_one_frame(
    config: &NetworkConfig,
    kind: &Kind,
    dscps: &BTreeSet<u8>,
    say: &mut impl FnMut(String),
) {
    let listening = nics(config).filter(|nic| nic.congestion.obeys_marks());
    let Some(frame) = listening.map(|nic| whole_frame(nic.mtu)).max() else { return };
    let queues: BTreeSet<u8> = dscps.iter().map(|&dscp| kind.treatment(dscp).queue).collect();
    for queue in queues {
        let ecn = |port: usize| kind.config.queues_of(port as u16)[usize::from(queue)].ecn;
        let least = (0..kind.ports.len()).filter_map(ecn).map(|ecn| ecn.min_bytes).min();
        let Some(least) = least.filter(|&least| least < frame) else { continue };
        say(format!(
            "queue {queue} marks from {} bytes, and one frame has {}: senders are slowed down though no \
             packet waits for another; raise min_bytes to many frames",
            bytes(u64::from(least)),
            bytes(u64::from(frame))
        ));
    }
}

/// Marks that come after pauses, or never.
fn marks(config: &NetworkConfig, kind: &Kind, dscps: &BTreeSet<u8>, say: &mut impl FnMut(String)) {
    let mut queues = BTreeSet::new();
    for &dscp in dscps {
        let treated = kind.treatment(dscp);
        if !kind.lossless(treated.group).1 || !queues.insert(treated.queue) {
            continue;
        }
        let queue = usize::from(treated.queue);
        let ecn = kind.config.queues_of(0)[queue].ecn;
        let listens = nics(config).any(|nic| nic.congestion.obeys_marks());
        match ecn {
            None if listens => say(format!(
                "queue {queue} does not mark (ECN), and the NICs' congestion control hears of nothing"
            )),
            Some(_) if !listens => say(format!(
                "queue {queue} marks (ECN), and no NIC has a congestion control that listens to marks: \
                 packets are not marked"
            )),
            Some(ecn) => {
                let threshold = kind.config.groups_of(0)[usize::from(treated.group)].threshold;
                let alone = kind.xoff(threshold, 1);
                if u64::from(ecn.min_bytes) >= alone {
                    say(format!(
                        "queue {queue} marks from {} bytes, and one sender is paused at {}: pauses come \
                         before marks; lower min_bytes, or raise alpha",
                        bytes(u64::from(ecn.min_bytes)),
                        bytes(alone)
                    ));
                }
            }
            None => {}
        }
    }
}

/// Watchdogs that cannot see what they look for (sonic-buildimage 27865).
fn watchdog(kind: &Kind, say: &mut impl FnMut(String)) {
    let watchdogs = (0..kind.ports.len()).filter_map(|port| kind.config.watchdog_of(port as u16));
    let mut seen = BTreeSet::new();
    for watchdog in watchdogs {
        let times = [("detection", watchdog.detection), ("restoration", watchdog.restoration)];
        for (name, time) in times {
            if time < watchdog.poll && seen.insert(name) {
                let (time, poll) = (text::time(time), text::time(watchdog.poll));
                say(format!(
                    "the watchdog has a {name} time of {time}, and looks every {poll}: it cannot tell \
                     a storm that short"
                ));
            }
        }
        let quanta = u64::from(kind.config.pfc.quanta);
        let slowest = kind.ports.iter().map(|port| port.rate.time_of(quanta * 32).as_ps()).max();
        if watchdog.rule == WatchdogRule::Broadcom
            && slowest.is_some_and(|renewal| renewal > watchdog.poll.as_ps())
            && seen.insert("renewal")
        {
            say("the watchdog looks more often than pauses are renewed: the rule of Broadcom, which \
                 wants a new pause each time, sees no storm"
                .to_owned());
        }
    }
}

/// A class whose group, queue and priority do not fit together within one switch.
fn classes(
    config: &NetworkConfig,
    kind: &Kind,
    dscps: &BTreeSet<u8>,
    say: &mut impl FnMut(String),
) {
    let untagged = nics(config).filter(|nic| !nic.tagged).count();
    if kind.config.trust == Trust::Pcp && untagged > 0 && untagged < config.topology.hosts.len() {
        say(format!(
            "it trusts the PCP of VLAN tags, and {untagged} NICs of {} do not tag: their packets are of \
             the class of PCP 0",
            config.topology.hosts.len()
        ));
    } else if kind.config.trust == Trust::Pcp && untagged > 0 {
        say("it trusts the PCP of VLAN tags, and the NICs do not tag: every packet is of the class of \
             PCP 0"
            .to_owned());
        return;
    }
    for &dscp in dscps {
        let treated = kind.treatment(dscp);
        let (all, any) = kind.lossless(treated.group);
        if any && !all {
            say(format!("group {} of DSCP {dscp} is lossless at some ports only", treated.group));
        }
        let stopped = kind.config.priority_to_queue[usize::from(treated.priority)] & 7;
        if any && stopped != treated.queue {
            say(format!(
                "DSCP {dscp} is in queue {}, and a pause of its priority {} stops queue {stopped}",
                treated.queue, treated.priority
            ));
        }
        let shared = (0..64).find(|&other| {
            let other_treatment = kind.treatment(other);
            other_treatment.queue == treated.queue && any && !kind.lossless(other_treatment.group).1
        });
        if let Some(other) = shared {
            say(format!(
                "queue {} holds lossless packets of DSCP {dscp} and lossy ones of DSCP {other}: a pause \
                 stops both",
                treated.queue
            ));
        }
    }
}

/// The NICs of all hosts.
fn nics(config: &NetworkConfig) -> impl Iterator<Item = &NicConfig> {
    (0..config.topology.hosts.len() as u32).map(|host| config.nic_of(host))
}

/// What a NIC makes of a DSCP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct AtNic {
    priority: u8,
    pauses: bool,
    controlled: bool,
}

/// A class that is not the same at a NIC and at its switch.
fn first_hops(config: &NetworkConfig, kinds: &[Kind], kind_of: &[usize], say: &mut Vec<String>) {
    let mut racks = BTreeMap::new();
    for link in &config.topology.links {
        if let [End::Switch(switch), End::Host(host)] | [End::Host(host), End::Switch(switch)] =
            link.ends
        {
            racks.insert(host, kind_of[switch as usize]);
        }
    }
    // By kind of switch and DSCP: what NICs there that use it make of it.
    let mut used: BTreeMap<(usize, u8), BTreeMap<AtNic, BTreeSet<u32>>> = BTreeMap::new();
    for flow in config.flows.iter().filter(|flow| flow.service != Service::Tcp) {
        let dscp = flow.dscp & 63;
        for host in [flow.source, flow.destination] {
            let Some(&rack) = racks.get(&host) else { continue };
            let nic = config.nic_of(host);
            let priority = nic.priority_of(dscp);
            let at = AtNic {
                priority,
                pauses: nic.lossless_priorities >> priority & 1 != 0,
                controlled: nic.congestion != Congestion::None,
            };
            used.entry((rack, dscp)).or_default().entry(at).or_default().insert(host);
        }
    }
    for ((rack, dscp), all) in used {
        let switch = &kinds[rack];
        let name = names(config, switch);
        let treated = switch.treatment(dscp);
        let lossless = switch.lossless(treated.group).1;
        let alike = all.len() == 1;
        for (AtNic { priority, pauses, controlled }, hosts) in all {
            let who = if alike { "the NICs".to_owned() } else { nics_of(config, &hosts) };
            if lossless && priority != treated.priority {
                say.push(format!(
                    "{name}: DSCP {dscp} is priority {priority} at {who}, and the switch pauses \
                     priority {}: they go on sending",
                    treated.priority
                ));
            } else if lossless && !pauses {
                say.push(format!(
                    "{name}: DSCP {dscp} is lossless here, and priority {priority} has no PFC at {who}: \
                     they go on sending when the switch pauses them"
                ));
            } else if !lossless && pauses {
                say.push(format!("{name}: DSCP {dscp} is lossless at {who} and lossy here"));
            } else if !lossless && !controlled {
                say.push(format!(
                    "{name}: DSCP {dscp} is lossy, and {who} have no congestion control: its packets \
                     are dropped where they meet"
                ));
            }
        }
    }
}

/// "the NICs of h0, h1, ... (5 hosts)".
fn nics_of(config: &NetworkConfig, hosts: &BTreeSet<u32>) -> String {
    let first: Vec<&str> =
        hosts.iter().take(2).map(|&host| config.topology.name(End::Host(host))).collect();
    let more = match hosts.len() {
        0..=2 => String::new(),
        count => format!(", ... ({count} hosts)"),
    };
    format!("the NICs of {}{more}", first.join(", "))
}

/// A class that is not the same at both ends of a link.
fn hops(config: &NetworkConfig, kinds: &[Kind], dscps: &BTreeSet<u8>, warnings: &mut Vec<String>) {
    let mut kind_of = vec![0; config.topology.switches.len()];
    for (at, kind) in kinds.iter().enumerate() {
        for &switch in &kind.switches {
            kind_of[switch as usize] = at;
        }
    }
    first_hops(config, kinds, &kind_of, warnings);
    let mut pairs = BTreeSet::new();
    for link in &config.topology.links {
        if let [End::Switch(a), End::Switch(b)] = link.ends {
            let (a, b) = (kind_of[a as usize], kind_of[b as usize]);
            pairs.insert((a, b));
            pairs.insert((b, a));
        }
    }
    // `to` pauses, and `from` is to stop.
    for (from, to) in pairs {
        let receiver = &kinds[to];
        let name = names(config, receiver);
        for &dscp in dscps {
            let treated = receiver.treatment(dscp);
            let lossless = receiver.lossless(treated.group).1;
            let sender = &kinds[from];
            let queue = sender.treatment(dscp).queue;
            let stopped = sender.config.priority_to_queue[usize::from(treated.priority)] & 7;
            let other = names(config, sender);
            if lossless && stopped != queue {
                warnings.push(format!(
                    "{other}: DSCP {dscp} is in queue {queue}, and the pauses of {name}, of priority \
                     {}, stop queue {stopped}",
                    treated.priority
                ));
            }
            if from < to && lossless != sender.lossless(sender.treatment(dscp).group).1 {
                let (yes, no) = if lossless { (&name, &other) } else { (&other, &name) };
                warnings.push(format!("DSCP {dscp} is lossless at {yes} and lossy at {no}"));
            }
        }
    }
    let unwatched = |kind: &&Kind| {
        (0..kind.ports.len()).all(|port| kind.config.watchdog_of(port as u16).is_none())
    };
    let pauses = |fault: &Fault| match fault.kind {
        FaultKind::NicStuck { host } => config.nic_of(host).lossless_priorities != 0,
        _ => false,
    };
    if config.faults.iter().any(pauses) && kinds.iter().all(|kind| unwatched(&kind)) {
        warnings.push(
            "a NIC gets stuck, and no switch has a watchdog: its pauses reach everybody in time"
                .to_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds;
    use super::*;
    use crate::switch::config::{EcnConfig, GroupConfig};
    use crate::topology::{Cables, leaf_spine, single_switch};
    use crate::workload::FlowSpec;
    use rdma::{Mtu, Rate};
    use transport::congestion::{Dcqcn, Hpcc};

    const CABLES: Cables = Cables::new(Rate::from_gbps(100), 20);

    fn warned(config: &NetworkConfig) -> Vec<String> {
        warnings(config, &kinds(config))
    }

    /// Three hosts, of which the first two have a lossy flow.
    fn lossy() -> NetworkConfig {
        let mut config = NetworkConfig::new(single_switch(3, CABLES));
        config.flows = vec![FlowSpec { dscp: 0, ..FlowSpec::write(0, 1, 1_000) }];
        config
    }

    #[test]
    fn it_is_the_nics_of_a_class_that_are_asked_whether_they_control_it() {
        let mut config = lossy();
        let controlled =
            NicConfig { congestion: Congestion::Dcqcn(Dcqcn::default()), ..config.nic.clone() };
        let of_control = |config: &NetworkConfig| -> Vec<String> {
            let all = warned(config).into_iter();
            all.filter(|text| text.contains("no congestion control")).collect()
        };
        let everybody = "s0: DSCP 0 is lossy, and the NICs have no congestion control: its packets are \
                         dropped where they meet";
        assert_eq!(of_control(&config), [everybody]);
        config.nics.insert(0, controlled.clone());
        assert_eq!(of_control(&config), [everybody.replace("the NICs", "the NICs of h1")]);
        config.nics.insert(1, controlled);
        assert_eq!(of_control(&config), [""; 0]);
    }

    #[test]
    fn a_nic_that_pauses_what_its_own_switch_pauses_is_no_mistake() {
        // What is lossless at one leaf is not at the other, and each host is as its own leaf is.
        let mut config = NetworkConfig::new(leaf_spine(2, 1, 2, CABLES, CABLES));
        config.flows = vec![FlowSpec::write(0, 1, 1_000)];
        config.switch.groups[3] = GroupConfig::LOSSY;
        config.nic.lossless_priorities = 0;
        config.nic.congestion = Congestion::Dcqcn(Dcqcn::default());
        let mut first = config.switch.clone();
        first.groups[3] = GroupConfig::LOSSLESS;
        config.switches.insert(0, first);
        for host in [0, 1] {
            let nic = NicConfig { lossless_priorities: 0b1000, ..config.nic.clone() };
            config.nics.insert(host, nic);
        }
        let of_nics = |config: &NetworkConfig| -> Vec<String> {
            warned(config).into_iter().filter(|text| text.contains("at the NICs")).collect()
        };
        let before = of_nics(&config);
        // One that pauses what its leaf drops is.
        config.flows = vec![FlowSpec::write(2, 3, 1_000)];
        config.nics.insert(3, NicConfig { lossless_priorities: 0b1000, ..config.nic.clone() });
        let after = of_nics(&config);
        assert_eq!(before, [""; 0]);
        assert_eq!(after, ["leaf1: DSCP 3 is lossless at the NICs of h3 and lossy here"]);
    }

    #[test]
    fn hpcc_at_one_end_alone_is_a_mistake() {
        let mut config = lossy();
        let of_hpcc = |config: &NetworkConfig| -> Vec<String> {
            warned(config).into_iter().filter(|text| text.contains("\"hpcc\"")).collect()
        };
        config.nic.congestion = Congestion::Hpcc(Hpcc::default());
        assert_eq!(of_hpcc(&config), [""; 0]);
        let without = NicConfig { congestion: Congestion::None, ..config.nic.clone() };
        config.nics.insert(1, without.clone());
        let texts = of_hpcc(&config);
        assert!(texts.len() == 1, "{texts:?}");
        assert!(texts[0].starts_with("h0 has congestion \"hpcc\" and h1 has not"), "{texts:?}");
        config.nics.insert(0, without);
        assert_eq!(of_hpcc(&config), [""; 0]);
    }

    #[test]
    fn marks_from_less_than_a_frame_are_a_mistake() {
        let mut config = lossy();
        config.nic.congestion = Congestion::Dcqcn(Dcqcn::default());
        let mut of_frames = |min_bytes: u32, mtu: Mtu| -> Vec<String> {
            let ecn = EcnConfig { min_bytes, max_bytes: min_bytes + 1, max_probability: 1.0 };
            config.switch.queues[0].ecn = Some(ecn);
            config.nic.mtu = mtu;
            let all = warned(&config).into_iter();
            all.filter(|text| text.contains("one frame has")).collect()
        };
        let texts = of_frames(500, Mtu::B1024);
        assert_eq!(texts.len(), 1);
        assert!(
            texts[0].starts_with("s0: queue 0 marks from 500 bytes, and one frame has 1,086: "),
            "{texts:?}"
        );
        assert_eq!(of_frames(1_086, Mtu::B1024), [""; 0]);
        assert_eq!(of_frames(1_086, Mtu::B4096).len(), 1);
        // Nobody is slowed down who does not listen.
        config.nic.congestion = Congestion::None;
        let texts = warned(&config);
        assert!(!texts.iter().any(|text| text.contains("one frame has")), "{texts:?}");
    }

    #[test]
    fn pauses_that_end_before_they_are_renewed_are_a_mistake() {
        let mut config = lossy();
        let mut of_pauses = |quanta: u16, mtu: Mtu| -> Vec<String> {
            config.switch.pfc.quanta = quanta;
            config.nic.mtu = mtu;
            warned(&config).into_iter().filter(|text| text.contains("pause_quanta")).collect()
        };
        let none = "s0: pause_quanta = 0: a pause of no quanta lets go, and nobody is paused: lossless \
                    packets can be lost; use 35 or more, 65,535 for instance";
        assert_eq!(of_pauses(0, Mtu::B1024), [none]);
        let [short] = &of_pauses(34, Mtu::B1024)[..] else { panic!("one warning") };
        assert!(short.contains("after half of its 34 quanta, behind a frame of 1,1"), "{short}");
        assert_eq!(of_pauses(35, Mtu::B1024), [""; 0]);
        assert_eq!(of_pauses(35, Mtu::B4096).len(), 1);
        config.switch.groups = [GroupConfig::LOSSY; 8];
        config.switch.pfc.quanta = 0;
        assert!(!warned(&config).iter().any(|text| text.contains("pause_quanta")));
    }

    #[test]
    fn sprayed_packets_are_a_mistake_if_any_nic_wants_them_in_order() {
        let mut config = lossy();
        config.switch.balance = Balance::Packet;
        let sprayed = |config: &NetworkConfig| {
            warned(config).iter().any(|text| text.contains("packets are sprayed"))
        };
        config.nic.recovery = Recovery::SelectiveRepeat;
        assert!(!sprayed(&config));
        config.nics.insert(1, NicConfig { recovery: Recovery::GoBackN, ..config.nic.clone() });
        assert!(sprayed(&config));
    }

    #[test]
    fn tags_are_missed_where_some_nics_have_them() {
        let mut config = lossy();
        config.switch.trust = Trust::Pcp;
        let of_tags = |config: &NetworkConfig| -> Vec<String> {
            warned(config).into_iter().filter(|text| text.contains("PCP of VLAN")).collect()
        };
        let tagged = NicConfig { tagged: true, ..config.nic.clone() };
        for (tag, expected) in [(0, "the NICs do not tag"), (1, "2 NICs of 3 do not tag")] {
            config.nics.extend((0..tag).map(|host| (host, tagged.clone())));
            let texts = of_tags(&config);
            assert!(texts.len() == 1 && texts[0].contains(expected), "{texts:?}");
        }
        config.nic = tagged;
        assert_eq!(of_tags(&config), [""; 0]);
    }
}
