//! Settings that defeat each other. Each rule has an incident, or a paper, behind it.

use std::collections::BTreeSet;

use transport::Recovery;
use transport::congestion::Congestion;

use super::text::{self, bytes, gbps, names, ranges};
use super::{Kind, headroom, lossless_groups};
use crate::NetworkConfig;
use crate::switch::config::{Balance, PRIORITIES, Trust, WatchdogRule};
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
        marks(config, kind, &dscps, &mut say);
        watchdog(kind, &mut say);
        classes(config, kind, &dscps, &mut say);
        if kind.config.balance == Balance::Packet
            && config.nic.recovery != Recovery::SelectiveRepeat
        {
            say("packets are sprayed, and overtake each other; go-back-n and go-back-0 take that for \
                 losses: use recovery \"selective-repeat\", or balance \"flow\""
                .to_owned());
        }
    }
    hops(config, kinds, &dscps, &mut warnings);
    warnings
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
            .map(|(group, ports)| kind.ports[ports[0]].needed.min(headroom(kind, ports[0], group)))
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
    let mut said: Vec<(String, Vec<u8>)> = Vec::new();
    for (group, ports) in lossless_groups(kind) {
        let port = &kind.ports[ports[0]];
        let own = headroom(kind, ports[0], group);
        if own >= port.needed {
            continue;
        }
        let words = format!(
            "{} bytes of headroom at {} {}, and {} are needed for {} Gb/s over {} m: lossless packets \
             can be lost",
            bytes(u64::from(own)),
            ports.len(),
            if ports.len() == 1 { "port" } else { "ports" },
            bytes(u64::from(port.needed)),
            gbps(port.rate),
            port.metres()
        );
        match said.iter_mut().find(|(other, _)| *other == words) {
            Some((_, groups)) => groups.push(group as u8),
            None => said.push((words, vec![group as u8])),
        }
    }
    for (words, groups) in said {
        match groups.as_slice() {
            [one] => say(format!("group {one} has {words}")),
            several => say(format!("groups {} have {words}", ranges(several))),
        }
    }
}

/// Marks that come after pauses, or never.
fn marks(config: &NetworkConfig, kind: &Kind, dscps: &BTreeSet<u8>, say: &mut impl FnMut(String)) {
    let mut queues = BTreeSet::new();
    for &dscp in dscps {
        let way = kind.way(dscp);
        if !kind.lossless(way.group).1 || !queues.insert(way.queue) {
            continue;
        }
        let queue = usize::from(way.queue);
        let ecn = kind.config.queues_of(0)[queue].ecn;
        let controlled = config.nic.congestion != Congestion::None;
        match ecn {
            None if controlled => say(format!(
                "queue {queue} does not mark (ECN), and the NICs' congestion control hears of nothing"
            )),
            Some(_) if !controlled => say(format!(
                "queue {queue} marks (ECN), and no NIC has a congestion control: packets are not \
                 marked"
            )),
            Some(ecn) => {
                let threshold = kind.config.groups_of(0)[usize::from(way.group)].threshold;
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

/// A class whose way does not make sense within one switch.
fn classes(
    config: &NetworkConfig,
    kind: &Kind,
    dscps: &BTreeSet<u8>,
    say: &mut impl FnMut(String),
) {
    if kind.config.trust == Trust::Pcp && !config.nic.tagged {
        say("it trusts the PCP of VLAN tags, and the NICs do not tag: every packet is of the class of \
             PCP 0"
            .to_owned());
        return;
    }
    for &dscp in dscps {
        let way = kind.way(dscp);
        let (all, any) = kind.lossless(way.group);
        if any && !all {
            say(format!("group {} of DSCP {dscp} is lossless at some ports only", way.group));
        }
        let stopped = kind.config.priority_to_queue[usize::from(way.priority)] & 7;
        if any && stopped != way.queue {
            say(format!(
                "DSCP {dscp} is in queue {}, and a pause of its priority {} stops queue {stopped}",
                way.queue, way.priority
            ));
        }
        let shared = (0..64).find(|&other| {
            let other_way = kind.way(other);
            other_way.queue == way.queue && any && !kind.lossless(other_way.group).1
        });
        if let Some(other) = shared {
            say(format!(
                "queue {} holds lossless packets of DSCP {dscp} and lossy ones of DSCP {other}: a pause \
                 stops both",
                way.queue
            ));
        }
    }
}

/// A class that is not the same at both ends of a link.
fn hops(config: &NetworkConfig, kinds: &[Kind], dscps: &BTreeSet<u8>, warnings: &mut Vec<String>) {
    let mut kind_of = vec![0; config.topology.switches.len()];
    for (at, kind) in kinds.iter().enumerate() {
        for &switch in &kind.switches {
            kind_of[switch as usize] = at;
        }
    }
    let mut pairs = BTreeSet::new();
    for link in &config.topology.links {
        match link.ends {
            [End::Switch(a), End::Switch(b)] => {
                let (a, b) = (kind_of[a as usize], kind_of[b as usize]);
                pairs.insert((Some(a), b));
                pairs.insert((Some(b), a));
            }
            [End::Switch(a), End::Host(_)] | [End::Host(_), End::Switch(a)] => {
                pairs.insert((None, kind_of[a as usize]));
            }
            [End::Host(_), End::Host(_)] => {}
        }
    }
    // `to` pauses, and `from` is to stop.
    for (from, to) in pairs {
        let receiver = &kinds[to];
        let name = names(config, receiver);
        for &dscp in dscps {
            let way = receiver.way(dscp);
            let lossless = receiver.lossless(way.group).1;
            match from {
                None => {
                    let priority = config.nic.dscp_to_priority[usize::from(dscp)] & 7;
                    let pauses = config.nic.lossless_priorities >> priority & 1 != 0;
                    if lossless && priority != way.priority {
                        warnings.push(format!(
                            "{name}: DSCP {dscp} is priority {priority} at the NICs, and the switch \
                             pauses priority {}: the NICs go on sending",
                            way.priority
                        ));
                    } else if !lossless && pauses {
                        warnings.push(format!(
                            "{name}: DSCP {dscp} is lossless at the NICs and lossy here"
                        ));
                    } else if !lossless && config.nic.congestion == Congestion::None {
                        warnings.push(format!(
                            "{name}: DSCP {dscp} is lossy, and no NIC has a congestion control: its \
                             packets are dropped where they meet"
                        ));
                    }
                }
                Some(from) => {
                    let sender = &kinds[from];
                    let queue = sender.way(dscp).queue;
                    let stopped = sender.config.priority_to_queue[usize::from(way.priority)] & 7;
                    let other = names(config, sender);
                    if lossless && stopped != queue {
                        warnings.push(format!(
                            "{other}: DSCP {dscp} is in queue {queue}, and the pauses of {name}, of \
                             priority {}, stop queue {stopped}",
                            way.priority
                        ));
                    }
                    if from < to && lossless != sender.lossless(sender.way(dscp).group).1 {
                        let (yes, no) = if lossless { (&name, &other) } else { (&other, &name) };
                        warnings
                            .push(format!("DSCP {dscp} is lossless at {yes} and lossy at {no}"));
                    }
                }
            }
        }
    }
    let lossless: Vec<usize> = (0..PRIORITIES)
        .filter(|&priority| config.nic.lossless_priorities >> priority & 1 != 0)
        .collect();
    let unwatched = |kind: &&Kind| {
        (0..kind.ports.len()).all(|port| kind.config.watchdog_of(port as u16).is_none())
    };
    let stuck = config
        .faults
        .iter()
        .any(|fault| matches!(fault.kind, crate::fault::FaultKind::NicStuck { .. }));
    if stuck && !lossless.is_empty() && kinds.iter().all(|kind| unwatched(&kind)) {
        warnings.push(
            "a NIC gets stuck, and no switch has a watchdog: its pauses reach everybody in time"
                .to_owned(),
        );
    }
}
