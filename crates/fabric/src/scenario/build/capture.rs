//! `[[capture]]`.

use super::{At, Result, tables};
use crate::limits::SNAP_BYTES_MIN;
use crate::record::Capture;
use crate::topology::{End, Topology};

pub(super) fn capture(at: &At<'_, tables::Capture>, topology: &Topology) -> Result<Capture> {
    let table = at.table;
    let find = |key: &str, name: &str| {
        let missing = || {
            let ends = topology.links.first().map(|link| link.ends);
            let [one, other] = ends.map_or([""; 2], |ends| ends.map(|end| topology.name(end)));
            let wrong = at.wrong(key, format!("there is no host or switch {name:?}"));
            wrong.hint(format!("names are such as {one} and {other}"))
        };
        topology.find(name).ok_or_else(missing)
    };
    let node = find("node", &table.node)?;
    let neighbour = match &table.neighbour {
        Some(name) => {
            let neighbour = find("neighbour", name)?;
            check_link(at, topology, node, neighbour)?;
            Some(neighbour)
        }
        None => None,
    };
    if let Some(bytes) = table.snap_bytes.filter(|&bytes| bytes < SNAP_BYTES_MIN) {
        let why = format!("{bytes} bytes would cut through headers");
        let hint =
            format!("{SNAP_BYTES_MIN} bytes hold all headers; leave it out for whole frames");
        return Err(at.wrong("snap_bytes", why).hint(hint));
    }
    let mut priorities = 0;
    for &priority in table.priorities.as_deref().unwrap_or(&[0, 1, 2, 3, 4, 5, 6, 7]) {
        if priority > 7 {
            let wrong = at.wrong("priorities", format!("{priority} is not from 0 to 7"));
            return Err(wrong.hint("leave it out for all priorities"));
        }
        priorities |= 1 << priority;
    }
    Ok(Capture { node, neighbour, snap_bytes: table.snap_bytes, priorities })
}

fn check_link(
    at: &At<'_, tables::Capture>,
    topology: &Topology,
    node: End,
    neighbour: End,
) -> Result<()> {
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
