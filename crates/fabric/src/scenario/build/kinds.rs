//! Which keys a kind of workload has.

use super::{At, Result, tables};
use tables::WorkloadKind;

/// What every kind may have whose messages follow each other, or an interval.
const COMMON: &[&str] = &[
    "service",
    "verb",
    "messages",
    "endless",
    "depth",
    "queue_pairs",
    "start_us",
    "interval_us",
    "interval_random",
    "dscp",
    "reply_bytes",
    "spread_bytes",
];

/// The name of a kind, what it has of its own, and what it shares with others.
fn keys(kind: WorkloadKind) -> (&'static str, &'static [&'static str], &'static [&'static str]) {
    let (name, own): (_, &[&str]) = match kind {
        WorkloadKind::Flow => ("flow", &["from", "to", "message_bytes"]),
        WorkloadKind::Permutation => ("permutation", &["message_bytes"]),
        WorkloadKind::Incast => ("incast", &["receiver", "senders", "message_bytes"]),
        WorkloadKind::AllToAll => ("all-to-all", &["message_bytes"]),
        WorkloadKind::Ring => ("ring", &["message_bytes"]),
        WorkloadKind::Poisson => (
            "poisson",
            &["load", "until_us", "message_bytes", "sizes", "distribution", "distribution_file"],
        ),
        WorkloadKind::Trace => ("trace", &["trace_file"]),
        WorkloadKind::Queries => {
            let own = &["queriers", "fan_out", "message_bytes"];
            return (
                "queries",
                own,
                &["service", "messages", "interval_us", "dscp", "reply_bytes"],
            );
        }
        WorkloadKind::Probes => {
            return ("probes", &["from", "to", "pairs"], &["service", "interval_us", "dscp"]);
        }
    };
    (name, own, COMMON)
}

/// Refuses keys that the kind does not have.
pub(super) fn only_known(at: &At<'_, tables::Workload>) -> Result<()> {
    let table = at.table;
    let there = [
        ("from", table.from.is_some()),
        ("to", table.to.is_some()),
        ("receiver", table.receiver.is_some()),
        ("senders", table.senders.is_some()),
        ("message_bytes", table.message_bytes.is_some()),
        ("load", table.load.is_some()),
        ("until_us", table.until_us.is_some()),
        ("sizes", table.sizes.is_some()),
        ("distribution", table.distribution.is_some()),
        ("distribution_file", table.distribution_file.is_some()),
        ("trace_file", table.trace_file.is_some()),
        ("queriers", table.queriers.is_some()),
        ("fan_out", table.fan_out.is_some()),
        ("pairs", table.pairs.is_some()),
        ("service", table.service.is_some()),
        ("verb", table.verb.is_some()),
        ("messages", table.messages.is_some()),
        ("endless", table.endless.is_some()),
        ("depth", table.depth.is_some()),
        ("queue_pairs", table.queue_pairs.is_some()),
        ("start_us", table.start_us.is_some()),
        ("interval_us", table.interval_us.is_some()),
        ("interval_random", table.interval_random.is_some()),
        ("dscp", table.dscp.is_some()),
        ("reply_bytes", table.reply_bytes.is_some()),
        ("spread_bytes", table.spread_bytes.is_some()),
    ];
    let (name, own, shared) = keys(table.kind);
    let known = |key: &&str| own.contains(key) || shared.contains(key);
    match there.iter().find(|(key, there)| *there && !known(key)) {
        Some((key, _)) => {
            let all: Vec<&str> = own.iter().chain(shared).copied().collect();
            let message = format!("kind \"{name}\" does not have it");
            Err(at.wrong(key, message).hint(format!("its keys are {}", all.join(", "))))
        }
        None => Ok(()),
    }
}
