//! Desired against running (guo16, 5.1): every difference, with the rule that it breaks, both values, and since when.
//!
//! A difference about which a rule has spoken is added to its finding; the others are findings themselves.

use std::collections::BTreeSet;

use fabric::switch::config::{Threshold, Trust, WatchdogAction, alpha_of};

use super::{Look, about_switch, alike};
use crate::doctor::cluster::{Cluster, Host, Part, Port, Qos, Switch, without_configuration};
use crate::doctor::desired::{Settings, raw};
use crate::doctor::finding::{Difference, Finding, Place, Rule, Severity, several};
use crate::doctor::rules::peers;
use crate::doctor::shell::{Line, typed};
use crate::times;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    idle(look, findings);
    for switch in &look.cluster.switches {
        let Some((role, settings)) = look.desired.of(about_switch(switch)) else { continue };
        for wanted in of_switch(&settings) {
            compare_switch(switch, role, &wanted, findings);
        }
    }
    for host in &look.cluster.hosts {
        let Some((role, settings)) = look.desired.of_host(host) else { continue };
        if let Some(key) = settings.of_switches() {
            let why = format!("{} has {key} for it (roles.{role})", look.desired.file);
            let place = Place::of(&look.desired.file);
            findings.push(without_configuration(&host.name, (why, place)));
        }
        for wanted in of_host(&settings) {
            compare_host(host, role, &wanted, findings);
        }
    }
}

/// Roles that no device has, where devices have no role: a name with a mistake in it compares nothing. Where all have
/// one, the others are of devices that are not in the folder.
fn idle(look: Look<'_>, findings: &mut Vec<Finding>) {
    let Cluster { switches, hosts, .. } = look.cluster;
    // What a switch is that nothing was read of is not known.
    let known = switches.iter().filter(|switch| !switch.tables.is_empty());
    let of_switches = known.map(|switch| {
        let of = look.desired.of(about_switch(switch));
        (of.map(|(role, _)| role.to_owned()), switch.name.as_str())
    });
    let of_hosts = hosts.iter().map(|host| {
        let of = look.desired.of_host(host);
        (of.map(|(role, _)| role.to_owned()), host.name.as_str())
    });
    let all: Vec<(Option<String>, &str)> = of_switches.chain(of_hosts).collect();
    let without = all.iter().filter(|(role, _)| role.is_none()).map(|(_, name)| *name);
    let without: Vec<&str> = without.collect();
    let used: BTreeSet<&str> = all.iter().filter_map(|(role, _)| role.as_deref()).collect();
    if without.is_empty() {
        return;
    }
    let types: BTreeSet<&str> = switches.iter().map(|switch| switch.role.as_str()).collect();
    let types: Vec<&str> = types.into_iter().filter(|role| !role.is_empty()).collect();
    let hint = match types.as_slice() {
        [] => "a role is a \"type\" of DEVICE_METADATA, or has devices = [...]".to_owned(),
        _ => format!(
            "a role is a \"type\" of DEVICE_METADATA, here {}, or has devices = [...]",
            several(&types)
        ),
    };
    for (role, line) in look.desired.roles().filter(|(role, _)| !used.contains(role)) {
        let file = &look.desired.file;
        let text = format!(
            "{file}: no device is of roles.{role}, and of no role {} {}.",
            if without.len() == 1 { "is" } else { "are" },
            several(&without)
        );
        let place = Place { file: file.clone(), line };
        let finding = Finding::not_understood("desired", place, text, &hint);
        findings.push(finding.key(format!("roles.{role}")).severity(Severity::Warning));
    }
}

/// Keys that are desired of a host, of which its files say nothing at one of its interfaces; those that a rule looks at
/// without being told are not among them.
pub(super) fn unsaid(host: &Host, settings: &Settings) -> Vec<String> {
    let judged = host.judged().count();
    let other = ["cnp_dscp", "notifies", "firmware_is"];
    let wanted = of_host(settings).into_iter().filter(|of| other.contains(&of.key.as_str()));
    wanted.filter(|of| (of.of)(host).len() < judged).map(|of| of.key).collect()
}

type OfPort = Box<dyn Fn(&Switch, &Port, &Qos) -> Option<String>>;

/// A setting that a switch should have.
struct Wanted {
    key: String,
    value: String,
    rule: Rule,
    /// Whether values are of ports; otherwise the first port speaks for all.
    of: OfPort,
    /// Where it stands.
    place: fn(&Switch, &str, &str) -> Option<Place>,
    command: Command,
}

/// What to type, by the port or interface and the profile that have another value.
type Command = Box<dyn Fn(&str, Option<&str>) -> Option<Line>>;

fn command(of: impl Fn(&str, Option<&str>) -> Option<Line> + 'static) -> Command {
    Box::new(of)
}

/// The lossless groups that thresholds are desired for: those of priorities that should have PFC. One that has it by
/// mistake is a difference of its own, and has the buffer of a lossy one.
fn meant(qos: &Qos, wanted: Option<&[u8]>) -> impl Iterator<Item = u8> {
    qos.lossless().filter(move |&group| wanted.is_none_or(|all| all.contains(&qos.priority(group))))
}

fn of_switch(settings: &Settings) -> Vec<Wanted> {
    let mut all = Vec::new();
    let mut add = |key: &str, value: String, rule, of: OfPort, place, command: Command| {
        all.push(Wanted { key: key.to_owned(), value, rule, of, place, command });
    };
    if let Some(alpha) = &settings.alpha {
        let exponent = crate::doctor::desired::exponent(alpha).unwrap_or_default();
        let wanted = settings.lossless_priorities.clone();
        let of = move |_: &Switch, _: &Port, qos: &Qos| {
            let own = meant(qos, wanted.as_deref()).map(|group| {
                match qos.group_config(group).threshold {
                    Threshold::Dynamic { exponent } => alpha_of(exponent),
                    Threshold::Static { bytes } => format!("static {bytes}"),
                }
            });
            distinct(own)
        };
        let place = |switch: &Switch, port: &str, running: &str| {
            let qos = switch.port(port)?.qos.as_ref()?;
            let mut odd = qos.lossless().filter(|&group| {
                let at = qos.group_config(group).threshold;
                matches!(at, Threshold::Dynamic { exponent } if running.contains(&alpha_of(exponent)))
            });
            let group = odd.next()?;
            let (_, place) = peers::place(switch, group, &[qos.group_config(group).threshold])?;
            Some(place)
        };
        let command =
            command(move |_, profile| Some(typed!("sudo mmuconfig -p", profile?, "-a", exponent)));
        add("alpha", alpha.trim().to_owned(), Rule::AlphaDiffers, Box::new(of), place, command);
    }
    if let Some(wanted) = &settings.lossless_priorities {
        let mut sorted = wanted.clone();
        sorted.sort_unstable();
        let value = list(&sorted);
        let of = |switch: &Switch, port: &Port, _: &Qos| {
            let (_, field) = switch.qos_field(&port.name, "pfc_enable")?;
            let mut own: Vec<u8> =
                field.value.split(',').filter_map(|text| text.trim().parse().ok()).collect();
            own.sort_unstable();
            Some(list(&own))
        };
        let place = |switch: &Switch, port: &str, _: &str| {
            switch.qos_field(port, "pfc_enable").map(|(_, field)| switch.place(field.line))
        };
        let own = value.clone();
        let command = command(move |port, _| Some(qos_map(port, "pfc_enable", &own)));
        add("lossless_priorities", value, Rule::Chain, Box::new(of), place, command);
    }
    for (dscp, class) in settings.dscp_to_class.iter().flatten() {
        let number: u8 = dscp.parse().unwrap_or_default();
        let of = move |_: &Switch, _: &Port, qos: &Qos| {
            (qos.trust() == Trust::Dscp).then(|| qos.class(number).to_string())
        };
        let wanted = *class;
        let command = command(move |_, _| {
            Some(typed!("sonic-db-cli CONFIG_DB hset 'DSCP_TO_TC_MAP|AZURE'", number, wanted))
        });
        let key = format!("dscp_to_class.{dscp}");
        let place = |switch: &Switch, port: &str, _: &str| {
            let (_, field) = switch.qos_field(port, "dscp_to_tc_map")?;
            let map = switch.referred(field, "DSCP_TO_TC_MAP")?;
            Some(switch.place(map.line))
        };
        add(&key, class.to_string(), Rule::Chain, Box::new(of), place, command);
    }
    if let Some(wanted) = settings.headroom_bytes {
        let lossless = settings.lossless_priorities.clone();
        let of = move |_: &Switch, _: &Port, qos: &Qos| {
            let own = meant(qos, lossless.as_deref())
                .filter_map(|group| qos.group_config(group).headroom_bytes);
            distinct(own.map(|bytes| bytes.to_string()))
        };
        let command = command(move |_, profile| {
            Some(typed!("sudo config buffer profile set", profile?, "--xoff", wanted))
        });
        add(
            "headroom_bytes",
            wanted.to_string(),
            Rule::Headroom,
            Box::new(of),
            of_profile,
            command,
        );
    }
    marks(settings, &mut all);
    watchdogs(settings, &mut all);
    let mut add = |key: &str, value: String, rule, of: OfPort, place, command: Command| {
        all.push(Wanted { key: key.to_owned(), value, rule, of, place, command });
    };
    if let Some(trust) = &settings.trust {
        let of = |_: &Switch, _: &Port, qos: &Qos| {
            Some(if qos.trust() == Trust::Dscp { "dscp" } else { "pcp" }.to_owned())
        };
        let place = |switch: &Switch, port: &str, _: &str| {
            let named = ["dot1p_to_tc_map", "dscp_to_tc_map"];
            let field = named.iter().find_map(|name| switch.qos_field(port, name));
            field.map(|(_, field)| switch.place(field.line))
        };
        let command = command(|port, _| Some(qos_map(port, "dscp_to_tc_map", "AZURE")));
        add("trust", trust.clone(), Rule::Trust, Box::new(of), place, command);
    }
    if let Some(mtu) = settings.mtu_bytes {
        let of = |_: &Switch, port: &Port, _: &Qos| port.mtu.map(|mtu| mtu.to_string());
        let place = |switch: &Switch, port: &str, _: &str| {
            let field = switch.entry("PORT", port)?.field("mtu")?;
            Some(switch.place(field.line))
        };
        let command = command(move |port, _| Some(typed!("sudo config interface mtu", port, mtu)));
        add("mtu_bytes", mtu.to_string(), Rule::EndsDiffer, Box::new(of), place, command);
    }
    if let Some(wanted) = &settings.firmware_is {
        let of = |switch: &Switch, _: &Port, _: &Qos| switch.firmware.clone();
        let place = |switch: &Switch, _: &str, _: &str| Some(Place::of(&switch.file));
        let command = command(|_, _| Some("show version".into()));
        add("firmware_is", wanted.clone(), Rule::NotDesired, Box::new(of), place, command);
    }
    for (key, value) in &settings.raw {
        let Some((table, entry, field)) = raw(key) else { continue };
        let (table, entry, field) = (table.to_owned(), entry.to_owned(), field.to_owned());
        let key_of = format!("{table}|{entry}");
        let line = typed!("sonic-db-cli CONFIG_DB hset", key_of, field, value);
        let command = command(move |_, _| Some(line.clone()));
        let of = move |switch: &Switch, _: &Port, _: &Qos| {
            let found = switch.entry(&table, &entry).and_then(|entry| entry.field(&field));
            Some(found.map_or_else(|| "nothing".to_owned(), |field| field.value.clone()))
        };
        let place = |switch: &Switch, _: &str, _: &str| Some(Place::of(&switch.file));
        add(key, value.clone(), Rule::NotDesired, Box::new(of), place, command);
    }
    all
}

/// Sets a field of a port's `PORT_QOS_MAP`.
fn qos_map(port: &str, field: &str, value: &str) -> Line {
    typed!("sonic-db-cli CONFIG_DB hset", format!("PORT_QOS_MAP|{port}"), field, value)
}

/// Where the profile of a port's first lossless group stands.
fn of_profile(switch: &Switch, port: &str, _: &str) -> Option<Place> {
    let group = switch.port(port)?.qos.as_ref()?.lossless().next()?;
    let (_, profile) = switch.buffer("BUFFER_PG", port, group)?;
    Some(switch.place(profile.line))
}

/// Where the WRED profile of a port's first lossless queue stands.
fn of_wred(switch: &Switch, port: &str, _: &str) -> Option<Place> {
    let qos = switch.port(port)?.qos.as_ref()?;
    let mut classes = (0..64).map(|dscp| qos.class(dscp));
    let class = classes.find(|&class| qos.group_config(qos.group(class)).lossless)?;
    let entry = switch.numbered("QUEUE", port, qos.queue(class))?;
    let profile = switch.referred(entry.field("wred_profile")?, "WRED_PROFILE")?;
    Some(switch.place(profile.line))
}

fn marks(settings: &Settings, all: &mut Vec<Wanted>) {
    type Part = fn(&fabric::switch::config::EcnConfig) -> u64;
    let parts: [(&str, Option<u32>, Part, &'static str); 3] = [
        ("ecn_min_bytes", settings.ecn_min_bytes, |ecn| u64::from(ecn.min_bytes), "-gmin"),
        ("ecn_max_bytes", settings.ecn_max_bytes, |ecn| u64::from(ecn.max_bytes), "-gmax"),
        (
            "ecn_percent",
            settings.ecn_percent,
            |ecn| (ecn.max_probability * 100.0).round() as u64,
            "-gdrop",
        ),
    ];
    for (key, wanted, part, flag) in parts {
        let Some(wanted) = wanted else { continue };
        let of = move |_: &Switch, _: &Port, qos: &Qos| {
            let classes = (0..64).map(|dscp| qos.class(dscp));
            let lossless = classes.filter(|&class| qos.group_config(qos.group(class)).lossless);
            let own =
                lossless.map(|class| qos.queue_config(qos.queue(class)).ecn.as_ref().map(part));
            distinct(own.map(|own| own.map_or_else(|| "none".to_owned(), |own| own.to_string())))
        };
        all.push(Wanted {
            key: key.to_owned(),
            value: wanted.to_string(),
            rule: Rule::MarksAfterPauses,
            of: Box::new(of),
            place: of_wred,
            command: command(move |_, _| {
                Some(typed!("sudo config ecn -profile AZURE_LOSSLESS", flag, wanted))
            }),
        });
    }
}

fn watchdogs(settings: &Settings, all: &mut Vec<Wanted>) {
    let place = |switch: &Switch, port: &str, _: &str| {
        let mut entries = switch.entries("PFC_WD").iter();
        let named = |key: &str| crate::doctor::cluster::of_ports(key).any(|name| name == port);
        let entry = entries.find(|entry| named(&entry.key)).or(switch.entry("PFC_WD", "GLOBAL"));
        let pfc = || switch.qos_field(port, "pfc_enable").map(|(_, field)| field.line);
        Some(switch.place(entry.map(|entry| entry.line).or_else(pfc)?))
    };
    let pauses = |qos: &Qos| qos.lossless().next().is_some();
    if let Some(action) = &settings.watchdog {
        let of = move |_: &Switch, _: &Port, qos: &Qos| {
            let own = qos.watchdog().map_or("none", |own| match own.action {
                WatchdogAction::Drop => "drop",
                WatchdogAction::Forward => "forward",
                WatchdogAction::Alert => "alert",
            });
            pauses(qos).then(|| own.to_owned())
        };
        all.push(Wanted {
            key: "watchdog".to_owned(),
            value: action.clone(),
            rule: Rule::NoWatchdog,
            of: Box::new(of),
            place,
            command: {
                let line = typed!("sudo pfcwd start --action", action);
                let line = line.then(" all 400 --restoration-time 400");
                command(move |_, _| Some(line.clone()))
            },
        });
    }
    type Part = fn(&fabric::switch::config::WatchdogConfig) -> rdma::Span;
    let parts: [(&str, Option<u64>, Part, &'static str); 3] = [
        (
            "watchdog_detection_ms",
            settings.watchdog_detection_ms,
            |own| own.detection,
            "sudo pfcwd start --action drop all",
        ),
        (
            "watchdog_restoration_ms",
            settings.watchdog_restoration_ms,
            |own| own.restoration,
            "sudo pfcwd start --action drop all 400 --restoration-time",
        ),
        ("watchdog_poll_ms", settings.watchdog_poll_ms, |own| own.poll, "sudo pfcwd interval"),
    ];
    for (key, wanted, part, begin) in parts {
        let Some(wanted) = wanted else { continue };
        let of = move |_: &Switch, _: &Port, qos: &Qos| {
            qos.watchdog().map(|own| (part(own).as_ps() / 1_000_000_000).to_string())
        };
        all.push(Wanted {
            key: key.to_owned(),
            value: wanted.to_string(),
            rule: if key == "watchdog_poll_ms" {
                Rule::WatchdogBelowPoll
            } else {
                Rule::WatchdogLate
            },
            of: Box::new(of),
            place,
            command: command(move |_, _| Some(Line::raw(begin).word(wanted))),
        });
    }
}

fn list(numbers: &[u8]) -> String {
    numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
}

/// Every value once, or nothing.
fn distinct(values: impl Iterator<Item = String>) -> Option<String> {
    let mut all: Vec<String> = values.collect();
    all.sort();
    all.dedup();
    (!all.is_empty()).then(|| all.join(" and "))
}

/// The value of each port whose tables are understood and say it.
fn running_values<'a>(
    switch: &'a Switch,
    wanted: &'a Wanted,
) -> impl Iterator<Item = (String, &'a str)> {
    let understood = switch.judged().filter(|(_, qos)| match wanted.rule {
        Rule::AlphaDiffers | Rule::Headroom => qos.knows(Part::Buffers),
        Rule::MarksAfterPauses => qos.knows(Part::Marks),
        Rule::NoWatchdog | Rule::WatchdogLate | Rule::WatchdogBelowPoll => {
            qos.knows(Part::Watchdogs)
        }
        _ => true,
    });
    understood.filter_map(|(port, qos)| Some(((wanted.of)(switch, port, qos)?, port.name.as_str())))
}

/// By value, the ports of a switch that have another than is wanted.
fn odd<'a>(switch: &'a Switch, wanted: &'a Wanted) -> Vec<(String, Vec<&'a str>)> {
    alike(running_values(switch, wanted).filter(|(value, _)| *value != wanted.value))
}

fn compare_switch(switch: &Switch, role: &str, wanted: &Wanted, findings: &mut Vec<Finding>) {
    let odd_now = odd(switch, wanted);
    let Some((first, names)) = odd_now.first() else { return };
    let judged = switch.judged().count();
    let said: Vec<String> = odd_now
        .iter()
        .map(|(value, names)| match names.len() == judged {
            true => value.clone(),
            false => format!("{value} at {}", several(names)),
        })
        .collect();
    let running = said.join("; ");
    // A snapshot that does not say the value is no evidence.
    let was_right = |old: &Switch| {
        let mut own = running_values(old, wanted).peekable();
        own.peek().is_some().then(|| own.all(|(value, _)| value == wanted.value))
    };
    let history: Vec<(&str, bool)> = switch
        .history
        .iter()
        .filter_map(|(stamp, old)| Some((stamp.as_str(), was_right(old)?)))
        .collect();
    let difference = Difference {
        key: format!("roles.{role}.{}", wanted.key),
        desired: wanted.value.clone(),
        running,
        since: since(&history, switch.modified),
    };
    let rule = match (wanted.rule, first.as_str()) {
        (Rule::MarksAfterPauses, "none") => Rule::NoMarks,
        (rule, _) => rule,
    };
    let place = (wanted.place)(switch, names[0], first);
    let profile = place.as_ref().and_then(|place| profile_at(switch, place));
    let command = (wanted.command)(names[0], profile);
    merge(findings, &switch.name, rule, difference, place, command);
}

/// The key of the entry that a line is of.
fn profile_at<'a>(switch: &'a Switch, place: &Place) -> Option<&'a str> {
    let profiles = switch.entries("BUFFER_PROFILE").iter();
    let within = |entry: &&fabric::scenario::sonic::Entry| {
        let lines = entry.fields.iter().map(|field| field.line).chain([entry.line]);
        lines.into_iter().any(|line| Some(line) == place.line)
    };
    profiles.into_iter().find(within).map(|entry| entry.key.as_str())
}

/// Since when a value is not the desired one, by snapshots (their stamps, and whether they had it) or by the file's time.
fn since(history: &[(&str, bool)], modified: Option<std::time::SystemTime>) -> Option<String> {
    let now = modified.and_then(times::text);
    let last_right = history.iter().rposition(|(_, right)| *right);
    match (last_right, history) {
        (Some(at), _) => {
            let right = history[at].0;
            match history.get(at + 1) {
                Some((wrong, _)) => Some(format!("between the snapshots {right} and {wrong}")),
                None => Some(match now {
                    Some(now) => format!("after the snapshot {right}, and by {now}"),
                    None => format!("after the snapshot {right}"),
                }),
            }
        }
        (None, [(first, _), ..]) => Some(format!("before the snapshot {first}")),
        (None, []) => now.map(|now| format!("{now} or before, when the file was written")),
    }
}

/// Adds the difference to a finding of the same rule and device, or makes one.
fn merge(
    findings: &mut Vec<Finding>,
    device: &str,
    rule: Rule,
    difference: Difference,
    place: Option<Place>,
    command: Option<Line>,
) {
    let same = findings.iter_mut().find(|finding| {
        finding.device == device && finding.rule == rule && finding.difference.is_none()
    });
    if let Some(finding) = same {
        finding.difference = Some(difference);
        return;
    }
    // After "roles" and the role.
    let key = difference.key.splitn(3, '.').nth(2).unwrap_or_default();
    let text = format!("{key} is {}, and should be {}.", difference.running, difference.desired);
    let mut finding = Finding::new(rule, device, text)
        .key(difference.key.clone())
        .remedy("bring the device to what is desired, or change desired.toml")
        .at(place);
    if let Some(command) = command {
        finding = finding.command(command);
    }
    finding.difference = Some(difference);
    findings.push(finding);
}

/// A setting that a host should have: key, value, rule, how to read it of each interface, command.
struct WantedOfHost {
    key: String,
    value: String,
    rule: Rule,
    of: OfHost,
    command: Command,
}

/// By interface or job, the value and where it stands.
type OfHost = Box<dyn Fn(&Host) -> Vec<(String, String, Place)>>;

type OfInterface = Box<dyn Fn(&crate::doctor::cluster::Interface) -> Option<(String, Place)>>;

fn of_host(settings: &Settings) -> Vec<WantedOfHost> {
    let mut all = Vec::new();
    let mut add = |key: &str, value: String, rule, of: OfInterface, command: Command| {
        let of = move |host: &Host| {
            let judged = host.judged().filter_map(|(name, own)| {
                let (value, place) = of(own)?;
                Some((name.clone(), value, place))
            });
            judged.collect()
        };
        all.push(WantedOfHost { key: key.to_owned(), value, rule, of: Box::new(of), command });
    };
    if let Some(trust) = &settings.trust {
        let of: OfInterface = Box::new(|own| {
            own.trust.as_ref().map(|own| (own.value.name().to_owned(), own.place.clone()))
        });
        let own = trust.clone();
        let command =
            command(move |name, _| Some(typed!("sudo mlnx_qos -i", name, "--trust", own)));
        add("trust", trust.clone(), Rule::Trust, of, command);
    }
    if let Some(wanted) = &settings.lossless_priorities {
        let mut sorted = wanted.clone();
        sorted.sort_unstable();
        let of: OfInterface = Box::new(|own| {
            let pfc = own.pfc.as_ref()?;
            let own: Vec<u8> = (0..8).filter(|bit| pfc.value >> bit & 1 != 0).collect();
            Some((list(&own), pfc.place.clone()))
        });
        let bits: Vec<&str> =
            (0..8).map(|bit| if sorted.contains(&bit) { "1" } else { "0" }).collect();
        let bits = bits.join(",");
        let command = command(move |name, _| Some(typed!("sudo mlnx_qos -i", name, "--pfc", bits)));
        add("lossless_priorities", list(&sorted), Rule::Chain, of, command);
    }
    for (dscp, priority) in settings.dscp_to_priority.iter().flatten() {
        let number: usize = dscp.parse().unwrap_or_default();
        let of: OfInterface = Box::new(move |own| {
            let map = own.dscp_to_priority.as_ref()?;
            Some((map.value[number & 63].to_string(), map.place.clone()))
        });
        let key = format!("dscp_to_priority.{dscp}");
        let set = format!("set,{dscp},{priority}");
        let command =
            command(move |name, _| Some(typed!("sudo mlnx_qos -i", name, "--dscp2prio", set)));
        add(&key, priority.to_string(), Rule::Chain, of, command);
    }
    if let Some(mtu) = settings.mtu_bytes {
        let of: OfInterface =
            Box::new(|own| own.mtu.as_ref().map(|own| (own.value.to_string(), own.place.clone())));
        let command = command(move |name, _| Some(typed!("sudo ip link set", name, "mtu", mtu)));
        add("mtu_bytes", mtu.to_string(), Rule::EndsDiffer, of, command);
    }
    if let Some(dscp) = settings.cnp_dscp {
        let of: OfInterface = Box::new(|own| {
            own.cnp_dscp.as_ref().map(|own| (own.value.to_string(), own.place.clone()))
        });
        let command = command(move |name, _| {
            let path = format!("/sys/class/net/{name}/ecn/roce_np/cnp_dscp");
            Some(typed!("echo", dscp).then(" | sudo tee").word(path))
        });
        add("cnp_dscp", dscp.to_string(), Rule::NotificationsAmongData, of, command);
    }
    if let Some(wanted) = settings.notifies {
        let of: OfInterface = Box::new(|own| {
            // Of the priorities that have PFC.
            let mask = own.pfc.as_ref().map_or(u8::MAX, |pfc| pfc.value);
            let (np, rp) = (own.notifies.as_ref()?, own.reacts.as_ref()?);
            let on = np.value & rp.value & mask == mask;
            let odd = if np.value & mask == mask { rp } else { np };
            Some((on.to_string(), odd.place.clone()))
        });
        let command = command(|name, _| {
            let path = format!("/sys/class/net/{name}/ecn/");
            Some(typed!("echo 1 | sudo tee", path).then("roce_{np,rp}/enable/*"))
        });
        add("notifies", wanted.to_string(), Rule::NoMarks, of, command);
    }
    if let Some(wanted) = &settings.firmware_is {
        let of: OfInterface =
            Box::new(|own| own.firmware.as_ref().map(|own| (own.value.clone(), own.place.clone())));
        add("firmware_is", wanted.clone(), Rule::NotDesired, of, command(|_, _| None));
    }
    for (name, value) in &settings.env {
        let variable = name.clone();
        let of = move |host: &Host| {
            let jobs = host.jobs.iter().filter_map(|(job, of)| {
                let of_nccl =
                    of.variables.iter().find(|(name, _)| name.get(..3) == variable.get(..3))?;
                let known = of.variables.get(&variable);
                let value = known.map_or_else(|| "nothing".to_owned(), |known| known.value.clone());
                let place = known
                    .map_or_else(|| Place::of(&of_nccl.1.place.file), |known| known.place.clone());
                Some((format!("job {job}"), value, place))
            });
            jobs.collect()
        };
        let rule = match name.as_str() {
            "NCCL_IB_TC" | "UCX_IB_TRAFFIC_CLASS" => Rule::Chain,
            "NCCL_IB_GID_INDEX" | "UCX_IB_GID_INDEX" => Rule::EndsDiffer,
            _ => Rule::NotDesired,
        };
        let line = typed!("export", format!("{name}={value}"));
        let command = command(move |_, _| Some(line.clone()));
        let (key, value) = (format!("env.{name}"), value.clone());
        all.push(WantedOfHost { key, value, rule, of: Box::new(of), command });
    }
    all
}

fn compare_host(host: &Host, role: &str, wanted: &WantedOfHost, findings: &mut Vec<Finding>) {
    let odd = |host: &Host| -> Vec<(String, String, Place)> {
        let all = (wanted.of)(host);
        all.into_iter().filter(|(_, value, _)| *value != wanted.value).collect()
    };
    let now = odd(host);
    let Some((name, _, place)) = now.first() else { return };
    let said = alike(now.iter().map(|(name, value, _)| (value.as_str(), name.as_str())));
    let said: Vec<String> =
        said.iter().map(|(value, names)| format!("{value} at {}", several(names))).collect();
    let was_right = |old: &Host| (!(wanted.of)(old).is_empty()).then(|| odd(old).is_empty());
    let history: Vec<(&str, bool)> = host
        .history
        .iter()
        .filter_map(|(stamp, old)| Some((stamp.as_str(), was_right(old)?)))
        .collect();
    let difference = Difference {
        key: format!("roles.{role}.{}", wanted.key),
        desired: wanted.value.clone(),
        running: said.join("; "),
        since: since(&history, host.modified),
    };
    let command = (wanted.command)(name, None);
    merge(findings, &host.name, wanted.rule, difference, Some(place.clone()), command);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::time::UNIX_EPOCH;

    #[test]
    fn since_when_is_told_as_narrowly_as_snapshots_allow() {
        let file = Some(UNIX_EPOCH + Duration::from_secs(1_795_580_160));
        for (history, expected) in [
            (
                &[("20th", true), ("21st", true), ("22nd", false)][..],
                "between the snapshots 21st and 22nd",
            ),
            (
                &[("20th", false), ("21st", true)],
                "after the snapshot 21st, and by 2026-11-25 04:16 UTC",
            ),
            (&[("20th", false)], "before the snapshot 20th"),
            (&[], "2026-11-25 04:16 UTC or before, when the file was written"),
        ] {
            assert_eq!(since(history, file).unwrap(), expected);
        }
        assert_eq!(since(&[], None), None);
    }
}
