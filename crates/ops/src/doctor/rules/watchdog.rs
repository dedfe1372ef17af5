//! Watchdogs: FD001, FD002 and FD009.

use fabric::switch::config::WatchdogConfig;

use super::{Look, alike};
use crate::doctor::cluster::{Part, Port, Qos, Switch};
use crate::doctor::finding::{Finding, Place, Rule, several};
use crate::doctor::limits::WATCHDOG_LATE_MS;
use crate::doctor::shell::typed;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for switch in &look.cluster.switches {
        times(switch, findings);
        absent(switch, findings);
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
        let below: Vec<_> = both.into_iter().filter(|(_, time)| *time < poll).collect();
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
        let late: Vec<_> =
            both.into_iter().filter(|(_, time)| ms(*time) > WATCHDOG_LATE_MS).collect();
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

/// Characters of a list of ports that fits a line.
const LIST_MAX: usize = 40;
