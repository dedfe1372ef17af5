//! Queues of lossless classes that drop: FD004. Pauses keep the buffer of what arrives from overflowing; a queue of what
//! leaves has a limit of its own, which nobody pauses for.

use std::collections::BTreeSet;

use fabric::scenario::sonic::Entry;
use fabric::switch::config::{GroupConfig, Threshold};

use super::marks::{lossless_queues, queues_of};
use super::{Look, alike, bytes};
use crate::doctor::cluster::{Part, Port, Qos, Switch};
use crate::doctor::finding::{Finding, Rule};
use crate::doctor::shell::typed;

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for switch in &look.cluster.switches {
        limits(switch, findings);
    }
}

/// SONiC's threshold of queues that are not to drop.
const UNLIMITED: Threshold = Threshold::Dynamic { exponent: 7 };

/// Why a queue drops packets of a lossless class.
#[derive(Clone, PartialEq, Eq)]
enum Why {
    /// Its profile is that of queues that are to drop.
    Lossy,
    /// It holds less than may be on its way to it.
    Short { limit: u64 },
}

fn limits(switch: &Switch, findings: &mut Vec<Finding>) {
    let pausing: Vec<(&Port, &Qos)> = switch
        .judged()
        .filter(|(_, qos)| qos.knows(Part::Buffers) && qos.knows(Part::Queues))
        .collect();
    let mut found = Vec::new();
    for &(port, qos) in &pausing {
        let profile = |queue: u8| switch.buffer("BUFFER_QUEUE", &port.name, queue);
        let lossless = lossless_queues(qos);
        let classes = (0..8).filter(|&class| !qos.group_config(qos.group(class)).lossless);
        let lossy: Vec<u8> = classes.map(|class| qos.queue(class)).collect();
        for &(queue, group) in lossless.iter().filter(|(queue, _)| !lossy.contains(queue)) {
            let Some((entry, own)) = profile(queue) else { continue };
            let threshold = qos.queue_config(queue).limit;
            let mut others = lossy.iter().filter_map(|&other| profile(other));
            let is_shared = others.any(|(_, other)| other.key == own.key);
            // One that may have the whole pool keeps all, whoever else has it.
            let is_whole = |limit: u64| pool_bytes(switch, own).is_some_and(|pool| limit >= pool);
            let is_unlimited = threshold == Some(UNLIMITED)
                || matches!(threshold, Some(Threshold::Static { bytes }) if is_whole(bytes.into()));
            if is_unlimited {
                continue;
            }
            let (why, comes) = if is_shared {
                (Why::Lossy, 0)
            } else {
                let limit = limit(switch, own, threshold);
                let comes = comes(switch, &pausing, port, group);
                let Some((limit, comes)) = limit.zip(comes) else { continue };
                if limit >= comes {
                    continue;
                }
                (Why::Short { limit }, comes)
            };
            found.push(((own.key.as_str(), why), (port.name.as_str(), queue, comes, entry, own)));
        }
    }
    for ((profile, why), of) in alike(found) {
        let mut names: Vec<&str> = of.iter().map(|(name, ..)| *name).collect();
        names.dedup();
        let queues: BTreeSet<u8> = of.iter().map(|(_, queue, ..)| *queue).collect();
        let comes = of.iter().map(|(_, _, comes, ..)| *comes).max().unwrap_or(0);
        let has = if queues.len() == 1 { "has" } else { "have" };
        let (.., entry, own) = of[0];
        let (words, remedy, line) = match why {
            Why::Lossy => (
                format!(
                    "{has} the buffer profile {profile}, as queues of classes that drop: what is lossless \
                     is dropped with them."
                ),
                "give it a profile of its own, in the pool of lossless queues".to_owned(),
                entry.line,
            ),
            Why::Short { limit } => (
                format!(
                    "{has} a limit of {} bytes by profile {profile}, and {} may come before all who send \
                     to it are paused.",
                    bytes(limit),
                    bytes(comes)
                ),
                "give the profile a limit that is never reached: alpha 128, or all of its pool"
                    .to_owned(),
                own.field("dynamic_th")
                    .or_else(|| own.field("static_th"))
                    .map_or(own.line, |f| f.line),
            ),
        };
        let text = format!("{} {words}", queues_of(&queues, &names));
        let finding = Finding::new(Rule::Chain, &switch.name, text)
            .key(entry.place())
            .remedy(remedy)
            .at(switch.place(line));
        findings.push(match why {
            Why::Lossy => finding.command(typed!("sonic-db-cli CONFIG_DB hgetall", entry.place())),
            // One excludes the other.
            Why::Short { .. } => match (own.field("static_th"), pool_bytes(switch, own)) {
                (Some(_), Some(bytes)) => finding.command(typed!(
                    "sonic-db-cli CONFIG_DB hset",
                    own.place(),
                    "static_th",
                    bytes
                )),
                _ => finding.command(typed!(
                    "sonic-db-cli CONFIG_DB hset",
                    own.place(),
                    "dynamic_th",
                    7
                )),
            },
        });
    }
}

/// The pool of a profile, if the file says how large it is.
fn pool_bytes(switch: &Switch, profile: &Entry) -> Option<u64> {
    let pool = switch.referred(profile.field("pool")?, "BUFFER_POOL")?;
    pool.field("size")?.value.trim().parse().ok()
}

/// What a queue holds at most.
fn limit(switch: &Switch, profile: &Entry, limit: Option<Threshold>) -> Option<u64> {
    Some(limit?.xoff_bytes(pool_bytes(switch, profile)?, 1))
}

/// What may be on its way to a queue of `port` when all others send to it, until the last of them has obeyed.
fn comes(switch: &Switch, pausing: &[(&Port, &Qos)], port: &Port, group: u8) -> Option<u64> {
    let shared = switch.shared_bytes?;
    let others = || {
        let others = pausing.iter().filter(|(other, _)| other.name != port.name);
        others.map(|(_, qos)| qos.group_config(group)).filter(|group| group.lossless)
    };
    let count = others().count();
    let of = |group: &GroupConfig| {
        let headroom = u64::from(group.headroom_bytes.unwrap_or(0));
        group.threshold.xoff_bytes(shared, count) + headroom
    };
    Some(others().map(of).sum())
}
