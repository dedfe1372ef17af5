//! Watchdogs: FD001, FD002 and FD009.

use fabric::switch::config::{WatchdogAction, WatchdogConfig};

use super::chain::{numbers, priorities};
use super::{Look, alike, bytes};
use crate::doctor::cluster::{Part, Port, Qos, Switch};
use crate::doctor::finding::{Finding, Place, Rule, Severity, several};
use crate::doctor::limits::WATCHDOG_LATE_MS;
use crate::doctor::shell::typed;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for switch in &look.cluster.switches {
        times(switch, findings);
        absent(switch, findings);
        unguarded(look, switch, findings);
        off(switch, findings);
    }
}

fn ms(span: rdma::Span) -> u64 {
    span.as_ps() / 1_000_000_000
}

/// Where the watchdog of a port stands.
fn place(switch: &Switch, port: &str, field: &str) -> Option<Place> {
    let named = |key: &str| crate::doctor::cluster::of_ports(key).any(|name| name == port);
    let entry = switch.entries("PFC_WD").iter().find(|entry| named(&entry.key))?;
    Some(switch.place(entry.field(field).map_or(entry.line, |field| field.line)))
}

fn times(switch: &Switch, findings: &mut Vec<Finding>) {
    let watched = switch.judged().filter_map(|(port, qos)| Some((*qos.watchdog()?, port)));
    for (watchdog, ports) in alike(watched) {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        let WatchdogConfig { poll, detection, restoration, .. } = watchdog;
        let both = [("detection_time", detection), ("restoration_time", restoration)];
        let (taken, odd): (Vec<_>, Vec<_>) =
            both.into_iter().partition(|(name, time)| is_taken(name, ms(*time)));
        if let [(field, _), ..] = odd[..] {
            findings
                .push(refused(switch, &watchdog, &names, &odd).at(place(switch, names[0], field)));
            // Without an entry there is nothing to be late.
            continue;
        }
        let both = taken;
        let below: Vec<_> = both.iter().filter(|(_, time)| *time < poll).collect();
        if let Some((field, _)) = below.first() {
            let said: Vec<String> =
                below.iter().map(|(name, time)| format!("{name} {} ms", ms(*time))).collect();
            let text = format!(
                "{} at {}: below POLL_INTERVAL, {} ms.",
                said.join(" and "),
                several(&names),
                ms(poll)
            );
            let shortest = below.iter().map(|(_, time)| ms(*time)).min().unwrap_or(100).max(100);
            findings.push(
                Finding::new(Rule::WatchdogBelowPoll, &switch.name, text)
                    .key(format!("PFC_WD|{}", names[0]))
                    .remedy("poll at least as often as the shortest time")
                    .command(typed!("sudo pfcwd interval", shortest))
                    .at(place(switch, names[0], field)),
            );
        }
        let late: Vec<_> = both.iter().filter(|(_, time)| ms(*time) > WATCHDOG_LATE_MS).collect();
        if let Some((field, _)) = late.first() {
            let said: Vec<String> =
                late.iter().map(|(name, time)| format!("{name} {} ms", ms(*time))).collect();
            let scaled =
                late.iter().any(|(_, time)| scaled_by_ports(ms(*time), switch.ports.len()));
            let why = match scaled {
                true => format!(
                    " `pfcwd start_default` multiplies its times by ports / 32, and there are {}.",
                    switch.ports.len()
                ),
                false => String::new(),
            };
            let text = format!(
                "{} at {}: above {WATCHDOG_LATE_MS} ms.{why}",
                said.join(" and "),
                several(&names)
            );
            findings.push(
                Finding::new(Rule::WatchdogLate, &switch.name, text)
                    .key(format!("PFC_WD|{}", names[0]))
                    .remedy("set the times by hand, short enough for the timeouts of your jobs")
                    .command("sudo pfcwd start --action drop all 400 --restoration-time 400")
                    .at(place(switch, names[0], field)),
            );
        }
    }
}

/// Whether orchagent takes such a time.
fn is_taken(field: &str, ms: u64) -> bool {
    let longest = if field == "detection_time" { DETECTION_MS_MAX } else { RESTORATION_MS_MAX };
    (WATCHDOG_MS_MIN..=longest).contains(&ms)
}

/// Entries that orchagent does not take, so that no watchdog is there.
fn refused(
    switch: &Switch,
    watchdog: &WatchdogConfig,
    ports: &[&str],
    odd: &[(&str, rdma::Span)],
) -> Finding {
    let said: Vec<String> =
        odd.iter().map(|(name, time)| format!("{name} {} ms", bytes(ms(*time)))).collect();
    let text = format!(
        "{} at {}: SONiC takes {WATCHDOG_MS_MIN} to {} ms of detection and to {} of restoration, \
         and starts no watchdog otherwise.",
        said.join(" and "),
        several(ports),
        bytes(DETECTION_MS_MAX),
        bytes(RESTORATION_MS_MAX)
    );
    let action = match watchdog.action {
        WatchdogAction::Drop => "drop",
        WatchdogAction::Forward => "forward",
        WatchdogAction::Alert => "alert",
    };
    // Not below the poll interval, where that is not late itself.
    let time = ms(watchdog.poll).clamp(400, WATCHDOG_LATE_MS);
    let start = typed!("sudo pfcwd start --action", action);
    let start = match ports.join(" ").len() > LIST_MAX {
        true => start.word("all"),
        false => ports.iter().fold(start, |line, port| line.word(port)),
    };
    Finding::new(Rule::NoWatchdog, &switch.name, text)
        .severity(Severity::Error)
        .key(format!("PFC_WD|{}", ports[0]))
        .remedy("set times that it takes; a shorter poll interval mends nothing")
        .command(start.word(time).word("--restoration-time").word(time))
}

/// Whether a time is the default of 200 ms as `start_default` scales it.
fn scaled_by_ports(ms: u64, ports: usize) -> bool {
    ports > 32 && ms == 200 * (ports as u64 / 32)
}

fn absent(switch: &Switch, findings: &mut Vec<Finding>) {
    let pauses = |(port, qos): (&'_ Port, &'_ Qos)| {
        let without = qos.watchdog().is_none() && qos.knows(Part::Watchdogs);
        (qos.lossless().next().is_some() && without).then(|| port.name.clone())
    };
    let bare: Vec<String> = switch.judged().filter_map(pauses).collect();
    let Some(first) = bare.first() else { return };
    let names: Vec<&str> = bare.iter().map(String::as_str).collect();
    let all = switch.judged().filter(|(_, qos)| qos.lossless().next().is_some()).count();
    let which = match bare.len() == all {
        true => format!("none of its {all} ports that pause"),
        false => format!("{} of {all} ports that pause have none: {}", bare.len(), several(&names)),
    };
    let text = match bare.len() == all {
        true => format!("PFC_WD watches {which}."),
        false => format!("{which}."),
    };
    let line = switch.qos_field(first, "pfc_enable").map_or(1, |(_, field)| field.line);
    let start = typed!("sudo pfcwd start --action drop");
    let ports = match bare.len() == all || bare.join(" ").len() > LIST_MAX {
        true => start.word("all"),
        false => bare.iter().fold(start, |line, port| line.word(port)),
    };
    findings.push(
        Finding::new(Rule::NoWatchdog, &switch.name, text)
            .key(format!("PORT_QOS_MAP|{first}"))
            .remedy("start the watchdog on every port that pauses")
            .command(ports.word(400).word("--restoration-time").word(400))
            .at(switch.place(line)),
    );
}

/// The priorities by which the two of a dual ToR send to each other: SONiC has them pause beside 3 and 4, unguarded.
const BOUNCED: u8 = 1 << 2 | 1 << 6;

/// Ports whose watchdog leaves out the priority of the data, or guards none. Without `pfcwd_sw_enable` it guards all that
/// pauses; a ToR of two (dual ToR) leaves out the priorities by which the pair sends to each other.
fn unguarded(look: Look<'_>, switch: &Switch, findings: &mut Vec<Finding>) {
    let mut odd = Vec::new();
    for (port, qos) in switch.judged().filter(|(_, qos)| qos.watchdog().is_some()) {
        let Some((entry, field)) = switch.qos_field(&port.name, "pfcwd_sw_enable") else {
            continue;
        };
        let guarded = field.value.split(',').filter_map(|text| text.trim().parse::<u32>().ok());
        let guarded =
            guarded.fold(0_u8, |mask, number| mask | 1_u8.checked_shl(number).unwrap_or(0));
        let pauses = qos.lossless().fold(0_u8, |mask, group| mask | 1 << qos.priority(group));
        let of_data =
            look.traffic.data.iter().map(|&dscp| qos.priority(qos.group(qos.class(dscp))));
        let of_data = of_data.fold(0_u8, |mask, priority| mask | 1 << priority);
        let is_of_two = pauses & BOUNCED == BOUNCED && pauses & !BOUNCED & guarded != 0;
        let own = if is_of_two { pauses & !BOUNCED } else { pauses };
        // Where it is not known which have data, each may.
        let needed = if of_data == 0 { own } else { of_data };
        let missing = if guarded == 0 { pauses } else { pauses & !guarded & needed };
        if missing != 0 {
            odd.push(((missing, missing | guarded | own), (port.name.as_str(), entry, field)));
        }
    }
    for ((missing, all), of) in alike(odd) {
        let names: Vec<&str> = of.iter().map(|(name, ..)| *name).collect();
        let (_, entry, field) = of[0];
        let text = format!(
            "pfcwd_sw_enable of {} leaves out {}, which pauses: no watchdog looks after it.",
            several(&names),
            priorities(missing)
        );
        findings.push(
            Finding::new(Rule::NoWatchdog, &switch.name, text)
                .key(entry.place())
                .remedy("have the watchdog look after all that pauses")
                .command(typed!(
                    "sonic-db-cli CONFIG_DB hset",
                    entry.place(),
                    "pfcwd_sw_enable",
                    numbers(all).join(",")
                ))
                .at(switch.place(field.line)),
        );
    }
}

/// Watchdogs that are set up and see nothing, or that take every queue for stuck.
fn off(switch: &Switch, findings: &mut Vec<Finding>) {
    if !switch.judged().any(|(_, qos)| qos.watchdog().is_some()) {
        return;
    }
    for (table, key, field, value, text, remedy, command) in [
        (
            "FLEX_COUNTER_TABLE",
            "PFCWD",
            "FLEX_COUNTER_STATUS",
            "disable",
            "nobody reads the counters that PFC_WD looks at",
            "have them read",
            "sudo pfcwd counter_poll enable",
        ),
        (
            "PFC_WD",
            "GLOBAL",
            "BIG_RED_SWITCH",
            "enable",
            "every queue that PFC_WD looks after is taken for stuck, and its packets are dropped",
            "turn it off once the storm is over",
            "sudo pfcwd big_red_switch disable",
        ),
    ] {
        let Some(entry) = switch.entry(table, key) else { continue };
        let Some(said) = entry.field(field) else { continue };
        if !said.value.trim().eq_ignore_ascii_case(value) {
            continue;
        }
        let text = format!("{} has {field} {value}: {text}.", entry.place());
        let finding = Finding::new(Rule::NoWatchdog, &switch.name, text)
            .severity(if table == "PFC_WD" { Severity::Error } else { Severity::Warning })
            .key(entry.place())
            .remedy(remedy)
            .command(command);
        findings.push(finding.at(switch.place(said.line)));
    }
}

/// What orchagent takes of `PFC_WD` (sonic-swss, pfcwdorch.cpp: `PFC_WD_DETECTION_TIME_MIN` and its like).
const WATCHDOG_MS_MIN: u64 = 100;
const DETECTION_MS_MAX: u64 = 5_000;
const RESTORATION_MS_MAX: u64 = 60_000;

/// Characters of a list of ports that fits a line.
const LIST_MAX: usize = 40;
