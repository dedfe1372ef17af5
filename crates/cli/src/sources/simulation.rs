//! What `ferroce sim -o` wrote: `counters.parquet` as counters, and `samples.parquet`, from which a run is watched again.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::File;
use std::panic;
use std::path::Path;

use ops::watch::{Event, PortName, PortSample, Raw, Role, Sample, Settings, Watch, simulated};
use telemetry::{Cell, Column, Table};

use crate::failure::Failure;

/// How often a run is looked at again: so seldom that microseconds of pauses do not matter.
const POLL: Duration = Duration::from_micros(250);

pub(super) fn read(raw: &mut Raw, folder: &Path) -> Result<(), Failure> {
    let columns = ["kind", "node", "neighbour", "counter", "value"];
    table(folder, "counters.parquet", &columns, |cells| {
        if let [
            Cell::Text(kind),
            Cell::Text(node),
            neighbour,
            Cell::Text(counter),
            Cell::Integer(value),
        ] = *cells
        {
            let neighbour = if let Cell::Text(neighbour) = neighbour { neighbour } else { "" };
            simulated::read(raw, kind, node, neighbour, counter, u64::try_from(value).unwrap_or(0));
        }
    })?;
    simulated::join(raw);
    Ok(())
}

/// Watches a run again by its samples: what is found when, and what is so at its end. Times of the detectors are scaled
/// to its length, since milliseconds are simulated.
///
/// Its samples have queues, bytes and pauses, but no frames: storms and deadlocks are found, slow receivers are not.
pub(crate) fn replay(
    folder: &Path,
    settings: &Settings,
) -> Result<(Watch, Vec<(Duration, Event)>), Failure> {
    let mut raw = Raw::default();
    read(&mut raw, folder)?;
    let of_switch = |name: &str| {
        raw.ports().iter().any(|(at, port)| port.role == Role::Switch && at.device == name)
    };
    let mut roles: BTreeMap<String, Role> = BTreeMap::new();
    let mut rows: BTreeMap<i64, Vec<(PortName, usize, [i64; 3])>> = BTreeMap::new();
    let columns =
        ["time_ps", "node", "neighbour", "queue", "sent_bytes", "queued_bytes", "paused_ps"];
    table(folder, "samples.parquet", &columns, |cells| {
        if let [
            Cell::Integer(time),
            Cell::Text(node),
            Cell::Text(neighbour),
            Cell::Integer(queue),
            rest @ ..,
        ] = cells
        {
            for name in [node, neighbour] {
                if !roles.contains_key(*name) {
                    let role = if of_switch(name) { Role::Switch } else { Role::Nic };
                    roles.insert((*name).to_owned(), role);
                }
            }
            let number =
                |at: usize| if let Some(Cell::Integer(value)) = rest.get(at) { *value } else { 0 };
            let port = PortName::new(*node, *neighbour);
            let queue = usize::try_from(*queue).unwrap_or(0) & 7;
            rows.entry(*time).or_default().push((port, queue, [number(0), number(1), number(2)]));
        }
    })?;
    // Thousandths, as the scenarios' storms last milliseconds where real ones last seconds.
    let mut watch = Watch::new(Settings { poll: POLL, ..settings.clone().scaled(1e-3) });
    let mut sample = Sample::default();
    for (port, _, _) in rows.values().flatten() {
        let role = |name: &str| roles.get(name).copied().unwrap_or_default();
        if role(&port.device) == Role::Switch {
            let peer = Some((port.port.clone(), role(&port.port)));
            let mut at = PortSample { role: Role::Switch, peer, ..PortSample::default() };
            for queue in &mut at.queues {
                (queue.sent_packets, queue.waiting_bytes, queue.paused_us) =
                    (Some(0), Some(0), Some(0));
            }
            sample.ports.entry(port.clone()).or_insert(at);
        }
    }
    let mut events = Vec::new();
    // Picoseconds, so that parts of microseconds are not lost in the sum.
    let mut paused_ps: BTreeMap<(PortName, usize), i64> = BTreeMap::new();
    watch.look(Duration::ZERO, &sample);
    let mut due = POLL;
    for (time, rows) in rows {
        for (port, queue, [sent, queued, paused]) in rows {
            let Some(at) = sample.ports.get_mut(&port) else { continue };
            let at = &mut at.queues[queue];
            let sum = paused_ps.entry((port, queue)).or_default();
            *sum += paused;
            at.paused_us = u64::try_from(*sum / 1_000_000).ok();
            at.waiting_bytes = u64::try_from(queued).ok();
            // Whether anything was sent is what counts.
            at.sent_packets =
                at.sent_packets.map(|packets| packets + u64::try_from(sent).unwrap_or(0));
        }
        let at = Duration::from_nanos(u64::try_from(time / 1_000).unwrap_or(0));
        if at < due {
            continue;
        }
        due = at + POLL;
        events.extend(watch.look(at, &sample).into_iter().map(|event| (at, event)));
    }
    Ok((watch, events))
}

/// Gives `row` the cells of `columns` of every row.
fn table(
    folder: &Path,
    name: &str,
    columns: &[&str],
    mut row: impl FnMut(&[Cell<'_>]),
) -> Result<(), Failure> {
    let path = folder.join(name);
    let cannot = |why: String| {
        Failure::new(format!("cannot read {}: {why}", path.display()))
            .hint("name a folder that `ferroce sim SCENARIO -o FOLDER` wrote")
    };
    let file = File::open(&path).map_err(|error| cannot(error.to_string()))?;
    // A damaged file is an error, and nothing else is to be said of it: see `Table::read_parquet`.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let read = Table::read_parquet(file);
    panic::set_hook(hook);
    let (table, _) = read.map_err(|error| cannot(error.to_string()))?;
    let chosen: Result<Vec<&Column>, Failure> = columns
        .iter()
        .map(|label| {
            table.column(label).ok_or_else(|| cannot(format!("it has no column `{label}`")))
        })
        .collect();
    let chosen = chosen?;
    for number in 0..table.len() {
        let cells: Vec<Cell<'_>> = chosen.iter().map(|column| column.cell(number)).collect();
        row(&cells);
    }
    Ok(())
}
