//! ECN: FD006 (marks after pauses) and FD008 (no marks, or nobody counts them).

use std::collections::BTreeSet;

use fabric::switch::config::{EcnConfig, Threshold};

use super::peers::words;
use super::{Look, alike, bytes};
use crate::doctor::cluster::{Part, Qos, Switch};
use crate::doctor::finding::{Finding, Rule, several};
use crate::doctor::shell::typed;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for switch in &look.cluster.switches {
        queues(switch, findings);
        counted(switch, findings);
    }
}

/// Queues of lossless classes, each with a group that feeds it.
pub(super) fn lossless_queues(qos: &Qos) -> BTreeSet<(u8, u8)> {
    let classes = (0..64).map(|dscp| qos.class(dscp)).collect::<BTreeSet<u8>>().into_iter();
    let lossless = classes.filter(|&class| qos.group_config(qos.group(class)).lossless);
    lossless.map(|class| (qos.queue(class), qos.group(class))).collect()
}

/// What a queue does, and the group before it.
#[derive(Clone, PartialEq, Debug)]
struct Way {
    ecn: Option<EcnConfig>,
    /// If it is understood.
    threshold: Option<Threshold>,
}

fn queues(switch: &Switch, findings: &mut Vec<Finding>) {
    let mut all = Vec::new();
    for (port, qos) in switch.judged().filter(|(_, qos)| qos.knows(Part::Marks)) {
        for (queue, group) in lossless_queues(qos) {
            let ecn = qos.queue_config(queue).ecn;
            let known = qos.knows(Part::Buffers);
            let threshold = known.then(|| qos.group_config(group).threshold);
            all.push((Way { ecn, threshold }, (queue, port.name.as_str())));
        }
    }
    for (way, of) in alike(all) {
        let names: Vec<&str> = of.iter().map(|(_, name)| *name).collect();
        let queue = of[0].0;
        let numbers: BTreeSet<u8> = of.iter().map(|(queue, _)| *queue).collect();
        let several_queues = numbers.len() > 1;
        let numbers: Vec<String> = numbers.iter().map(u8::to_string).collect();
        let which = match several_queues {
            false => format!("queue {} of {}", numbers[0], several(&names)),
            true => format!("queues {} of {}", numbers.join(" and "), several(&names)),
        };
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
            let name = profile.map_or("AZURE_LOSSLESS", |profile| profile.key.as_str());
            findings.push(
                Finding::new(Rule::MarksAfterPauses, &switch.name, text)
                    .key(key)
                    .remedy(format!("mark from well below {} bytes, or raise alpha", bytes(alone)))
                    .command(typed!("sudo config ecn -profile", name, "-gmin", alone / 4))
                    .at(at("green_min_threshold")),
            );
        }
    }
}

/// Groups of counters that are there and off, while a queue marks.
fn counted(switch: &Switch, findings: &mut Vec<Finding>) {
    let mut marks = switch.judged().filter(|(_, qos)| {
        lossless_queues(qos).iter().any(|&(queue, _)| qos.queue_config(queue).ecn.is_some())
    });
    if marks.next().is_none() {
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
