//! Which keys a kind of workload has.

use super::{At, Result, tables};
use tables::WorkloadKind;

/// What every kind may have.
const COMMON: [&str; 9] = [
    "verb",
    "messages",
    "endless",
    "depth",
    "queue_pairs",
    "start_us",
    "dscp",
    "reply_bytes",
    "spread_bytes",
];

/// The name of a kind, and what it may have beside that.
fn keys(kind: WorkloadKind) -> (&'static str, &'static [&'static str]) {
    match kind {
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
    }
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
    ];
    let (name, known) = keys(table.kind);
    match there.iter().find(|(key, there)| *there && !known.contains(key)) {
        Some((key, _)) => {
            let all: Vec<&str> = known.iter().copied().chain(COMMON).collect();
            let message = format!("kind \"{name}\" does not have it");
            Err(at.wrong(key, message).hint(format!("its keys are {}", all.join(", "))))
        }
        None => Ok(()),
    }
}
