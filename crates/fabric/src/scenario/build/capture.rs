//! `[[capture]]`.

use super::node;
use crate::capture;
use crate::limits::SNAP_BYTES_MIN;
use crate::scenario::at::{At, Result};
use crate::scenario::deferred::Deferred;
use crate::scenario::table::table;
use crate::scenario::value::{at_least, needed, or, priorities, text};
use crate::topology::{End, Topology};

const TOO_FEW: (&str, &str) =
    ("would cut through headers", "90 bytes hold all headers; leave it out for whole frames");

table! {
    /// Ports whose frames are kept, in `capture.pcapng`.
    struct Capture {
        /// The host or switch.
        node = needed(text("a host or switch")) => node: String;
        /// The neighbour that the port leads to.
        neighbour = or("every port", text("a host or switch")) => neighbour: Option<String>;
        /// So many bytes of a frame are kept.
        snap_bytes = or("whole frames", at_least(SNAP_BYTES_MIN, TOO_FEW)) => snap_bytes: Option<u32>;
        /// The priorities whose frames are kept.
        priorities =
            or("all", priorities("leave it out for all priorities")) => priorities: Option<u8>;
    }
}

pub(super) fn capture(
    table: &Deferred<'_, Capture>,
    topology: &Topology,
) -> Result<capture::Capture> {
    let (at, capture) = (&table.at, table.read()?);
    let found = node(at, topology, "node", &capture.node)?;
    let neighbour = match &capture.neighbour {
        Some(name) => {
            let neighbour = node(at, topology, "neighbour", name)?;
            check_link(at, topology, found, neighbour)?;
            Some(neighbour)
        }
        None => None,
    };
    let priorities = capture.priorities.unwrap_or(u8::MAX);
    let snap_bytes = capture.snap_bytes;
    Ok(capture::Capture { node: found, neighbour, snap_bytes, priorities })
}

fn check_link(at: &At<'_>, topology: &Topology, node: End, neighbour: End) -> Result<()> {
    let others: Vec<End> = topology
        .links
        .iter()
        .filter_map(|link| match link.ends {
            [a, b] if a == node => Some(b),
            [a, b] if b == node => Some(a),
            _ => None,
        })
        .collect();
    if others.contains(&neighbour) {
        return Ok(());
    }
    let (name, other) = (topology.name(node), topology.name(neighbour));
    let wrong = at.wrong("neighbour", format!("no link joins {name} and {other}"));
    let names: Vec<&str> = others.iter().take(8).map(|&end| topology.name(end)).collect();
    Err(wrong.hint(format!("{name} is linked to {}", names.join(", "))))
}
