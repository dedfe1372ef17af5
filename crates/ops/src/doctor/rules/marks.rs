//! ECN: FD006 (marks after pauses) and FD008 (no marks, or nobody counts them).

use std::collections::BTreeSet;

use fabric::scenario::sonic::Entry;
use fabric::switch::config::{EcnConfig, Threshold};

use super::peers::words;
use super::{Look, alike, bytes};
use crate::doctor::cluster::{Part, Qos, Switch};
use crate::doctor::finding::{Finding, Rule, several};
use crate::doctor::shell::typed;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for switch in &look.cluster.switches {
        queues(look, switch, findings);
        counted(switch, findings);
    }
}

/// Queues of lossless classes, each with a group that feeds it.
pub(super) fn lossless_queues(qos: &Qos) -> BTreeSet<(u8, u8)> {
    let classes = (0..64).map(|dscp| qos.class(dscp)).collect::<BTreeSet<u8>>().into_iter();
    let lossless = classes.filter(|&class| qos.group_config(qos.group(class)).lossless);
    lossless.map(|class| (qos.queue(class), qos.group(class))).collect()
}

/// "queue 3 of Ethernet0", "queues 3 and 4 of Ethernet0 to Ethernet12 (4 of them)".
pub(super) fn queues_of(numbers: &BTreeSet<u8>, ports: &[&str]) -> String {
    let all: Vec<String> = numbers.iter().map(u8::to_string).collect();
    let queues = if all.len() == 1 { "queue" } else { "queues" };
    format!("{queues} {} of {}", all.join(" and "), several(ports))
}

/// What a queue does, and the group before it.
#[derive(Clone, PartialEq, Debug)]
struct Way {
    ecn: Option<EcnConfig>,
    /// If it is understood.
    threshold: Option<Threshold>,
}

fn queues(look: Look<'_>, switch: &Switch, findings: &mut Vec<Finding>) {
    let mut all = Vec::new();
    for (port, qos) in switch.judged().filter(|(_, qos)| qos.knows(Part::Marks)) {
        for (queue, group) in lossless_queues(qos) {
            // A queue of data that its pauses do not stop: FD004 says that the data should not be there.
            let mut classes = look.traffic.data.iter().map(|&dscp| qos.class(dscp));
            let strays = |of| qos.stopped(qos.priority(qos.group(of))) != queue;
            if classes.any(|of| qos.queue(of) == queue && strays(of)) {
                continue;
            }
            let ecn = qos.queue_config(queue).ecn;
            let known = qos.knows(Part::Buffers);
            let threshold = known.then(|| qos.group_config(group).threshold);
            all.push((Way { ecn, threshold }, (queue, port.name.as_str(), group)));
        }
    }
    for (way, of) in alike(all) {
        let names: Vec<&str> = of.iter().map(|(_, name, _)| *name).collect();
        let (queue, _, group) = of[0];
        let numbers: BTreeSet<u8> = of.iter().map(|(queue, ..)| *queue).collect();
        let several_queues = numbers.len() > 1;
        let which = queues_of(&numbers, &names);
        let entry = switch.numbered("QUEUE", names[0], queue);
        let wred = entry.and_then(|entry| entry.field("wred_profile"));
        let profile = wred.and_then(|field| switch.referred(field, "WRED_PROFILE"));
        let at = |field: &str| {
            let field = profile.and_then(|profile| profile.field(field)).map(|field| field.line);
            let line = field.or_else(|| profile.map(|profile| profile.line));
            let line = line.or_else(|| entry.map(|entry| entry.line));
            switch.place(line.unwrap_or(1))
        };
        let key = match profile {
            Some(profile) => profile.place(),
            None => format!("QUEUE|{}|{queue}", names[0]),
        };
        let Some(ecn) = way.ecn else {
            let (why, remedy, command) = match profile {
                Some(profile) => (
                    format!(
                        "{} has ecn {}",
                        profile.place(),
                        profile.field("ecn").map_or("unset", |ecn| ecn.value.as_str())
                    ),
                    "have the profile mark",
                    // `config ecn` sets thresholds alone.
                    typed!("sonic-db-cli CONFIG_DB hset", profile.place(), "ecn", "ecn_all"),
                ),
                None => (
                    "it has no wred_profile".to_owned(),
                    "give the queue a WRED profile that marks",
                    typed!(
                        "sonic-db-cli CONFIG_DB hset",
                        format!("QUEUE|{}|{queue}", names[0]),
                        "wred_profile",
                        "AZURE_LOSSLESS"
                    ),
                ),
            };
            let verb = if several_queues { "do" } else { "does" };
            let text = format!("lossless {which} {verb} not mark: {why}.");
            findings.push(
                Finding::new(Rule::NoMarks, &switch.name, text)
                    .key(key)
                    .remedy(remedy)
                    .command(command)
                    .at(at("ecn")),
            );
            continue;
        };
        let (Some(shared), Some(threshold)) = (switch.shared_bytes, way.threshold) else {
            continue;
        };
        let alone = threshold.xoff_bytes(shared, 1);
        if u64::from(ecn.min_bytes) >= alone {
            let text = format!(
                "{which} {} from {} bytes, and one sender is paused at {} of {} shared, by {}.",
                if several_queues { "mark" } else { "marks" },
                bytes(u64::from(ecn.min_bytes)),
                bytes(alone),
                bytes(shared),
                words(&[threshold])
            );
            let finding = Finding::new(Rule::MarksAfterPauses, &switch.name, text);
            // Marks below one packet would be on every packet: it is the pool that is too small.
            if is_tiny(look, alone) {
                findings.push(of_pool(look, switch, (names[0], group), finding));
                continue;
            }
            let name = profile.map_or("AZURE_LOSSLESS", |profile| profile.key.as_str());
            findings.push(
                finding
                    .key(key)
                    .remedy(format!("mark from well below {} bytes, or raise alpha", bytes(alone)))
                    .command(typed!("sudo config ecn -profile", name, "-gmin", alone / 4))
                    .at(at("green_min_threshold")),
            );
        }
    }
}

/// Whether what one sender may hold is so little that it is for want of a pool.
pub(super) fn is_tiny(look: Look<'_>, alone: u64) -> bool {
    alone / 4 < u64::from(look.traffic.lossless_mtu)
}

/// That the pool of a group is too small: what it says, and what that of a switch of the same kind does.
pub(super) fn of_pool(
    look: Look<'_>,
    switch: &Switch,
    (port, group): (&str, u8),
    of: Finding,
) -> Finding {
    let profile = switch.buffer("BUFFER_PG", port, group);
    let pool = profile.and_then(|(_, profile)| profile.field("pool"));
    let pool = pool.and_then(|field| switch.referred(field, "BUFFER_POOL"));
    let Some(pool) = pool else {
        return of
            .remedy("give the pool of the group its size")
            .command("show buffer configuration");
    };
    let size = pool.field("size");
    let line = size.map_or(pool.line, |size| size.line);
    let of = of.key(pool.place()).at(switch.place(line)).remedy(
        "give the pool its size: little or nothing is left of it beside reserves and headroom",
    );
    match size_of_peers(look, switch, pool) {
        Some(size) => of.command(typed!("sonic-db-cli CONFIG_DB hset", pool.place(), "size", size)),
        None => of.command("show buffer configuration"),
    }
}

/// The size of the same pool of a switch of the same `hwsku`, where that is larger.
pub(super) fn size_of_peers(look: Look<'_>, switch: &Switch, pool: &Entry) -> Option<u64> {
    let alike = look.cluster.switches.iter().filter(|other| {
        !other.hwsku.is_empty() && other.hwsku == switch.hwsku && other.name != switch.name
    });
    let size = |of: &Entry| of.field("size")?.value.trim().parse::<u64>().ok();
    let own = size(pool).unwrap_or(0);
    let sizes = alike.filter_map(|other| size(other.entry("BUFFER_POOL", &pool.key)?));
    sizes.max().filter(|&size| size > own)
}

/// Whether any queue of a lossless class marks.
pub(super) fn marks(switch: &Switch) -> bool {
    switch.judged().any(|(_, qos)| {
        lossless_queues(qos).iter().any(|&(queue, _)| qos.queue_config(queue).ecn.is_some())
    })
}

/// Groups of counters that are there and off, while a queue marks.
fn counted(switch: &Switch, findings: &mut Vec<Finding>) {
    if !marks(switch) {
        return;
    }
    for group in ["WRED_ECN_QUEUE", "WRED_ECN_PORT"] {
        let Some(entry) = switch.entry("FLEX_COUNTER_TABLE", group) else { continue };
        let Some(field) = entry.field("FLEX_COUNTER_STATUS") else { continue };
        if !field.value.eq_ignore_ascii_case("disable") {
            continue;
        }
        let what = if group == "WRED_ECN_QUEUE" { "wredqueue" } else { "wredport" };
        let text = format!(
            "{} is disabled: the marks of its lossless queues are not counted.",
            entry.place()
        );
        findings.push(
            Finding::new(Rule::NoMarks, &switch.name, text)
                .key(entry.place())
                .remedy("turn the group of counters on")
                .command(typed!("sudo counterpoll", what, "enable"))
                .at(switch.place(field.line)),
        );
    }
}
