//! What `ferroce sim -o` wrote: `counters.parquet` as counters, and `samples.parquet`, from which a run is watched again.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::File;
use std::panic;
use std::path::Path;

use fabric::counters::{POOL_PEAK, POOL_SIZE};
use ops::watch::{
    Event, Kind, PoolSample, PortName, PortSample, Raw, Role, Sample, Settings, Watch, simulated,
};
use telemetry::{Cell, Column, Table};

use crate::failure::Failure;

/// How often a run is looked at again: so seldom that microseconds of pauses do not matter.
const POLL: Duration = Duration::from_micros(250);

/// By time, in picoseconds: a queue, and the bytes it sent, its length and how long it was paused.
type Rows = BTreeMap<i64, Vec<(PortName, usize, [i64; 3])>>;

pub(super) fn read(raw: &mut Raw, folder: &Path) -> Result<(), Failure> {
    read_with_pools(raw, folder).map(drop)
}

/// The buffers of switches, which are of no port, are returned.
fn read_with_pools(raw: &mut Raw, folder: &Path) -> Result<BTreeMap<String, PoolSample>, Failure> {
    let mut pools: BTreeMap<String, PoolSample> = BTreeMap::new();
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
            let value = u64::try_from(value).unwrap_or(0);
            if kind == "switch" && neighbour.is_empty() {
                let pool = pools.entry(node.to_owned()).or_default();
                match counter {
                    POOL_SIZE => pool.size_bytes = Some(value),
                    POOL_PEAK => pool.peak_bytes = Some(value),
                    _ => {}
                }
                return;
            }
            simulated::read(raw, kind, node, neighbour, counter, value);
        }
    })?;
    simulated::join(raw);
    Ok(pools)
}

/// Watches a run again by its samples: what is found when. Times of the detectors are scaled to its length, since
/// milliseconds are simulated.
///
/// Its samples have queues, bytes and how long ports were paused. How many pause frames there were, and watermarks, only
/// its counters say, at the end of the run: frames are spread over the time that a port was paused, and watermarks are taken
/// to be those of the end.
///
/// A run ends where the simulator has proved a deadlock, which is sooner than a circle has stood still for long enough:
/// it is watched on as it then stands.
pub(crate) fn replay(
    folder: &Path,
    settings: &Settings,
) -> Result<Vec<(Duration, Event)>, Failure> {
    let mut raw = Raw::default();
    let pools = read_with_pools(&mut raw, folder)?;
    let counted = raw.sample();
    let of_switch = |name: &str| {
        raw.ports().iter().any(|(at, port)| port.role == Role::Switch && at.device == name)
    };
    let mut roles: BTreeMap<String, Role> = BTreeMap::new();
    let mut rows = Rows::new();
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
    let settings = Settings { poll: POLL, ..settings.clone().scaled(1e-3) };
    let mut watch = Watch::new(settings.clone());
    let mut sample = Sample { pools, ..Sample::default() };
    let mut in_all: BTreeMap<(PortName, usize), i64> = BTreeMap::new();
    for (port, queue, [_, _, paused]) in rows.values().flatten() {
        *in_all.entry((port.clone(), *queue)).or_default() += paused;
    }
    for (port, _, _) in rows.values().flatten() {
        let role = |name: &str| roles.get(name).copied().unwrap_or_default();
        if role(&port.device) == Role::Switch {
            let peer = Some((port.port.clone(), role(&port.port)));
            let mut at = PortSample { role: Role::Switch, peer, ..PortSample::default() };
            let totals = counted.ports.get(port).map(|port| port.queues).unwrap_or_default();
            for (queue, total) in at.queues.iter_mut().zip(totals) {
                (queue.sent_packets, queue.waiting_bytes, queue.paused_us) =
                    (Some(0), Some(0), Some(0));
                (queue.pauses_received, queue.pauses_sent) = (Some(0), Some(0));
                queue.group_peak_bytes = total.group_peak_bytes;
            }
            sample.ports.entry(port.clone()).or_insert(at);
        }
    }
    let mut events = Vec::new();
    // Picoseconds, so that parts of microseconds are not lost in the sum.
    let mut paused_ps: BTreeMap<(PortName, usize), i64> = BTreeMap::new();
    watch.look(Duration::ZERO, &sample);
    let mut due = POLL;
    let (still, end) = still_at_the_end(&rows);
    for (time, rows) in rows {
        for (port, queue, [sent, queued, paused]) in rows {
            let key = (port, queue);
            let sum = paused_ps.entry(key.clone()).or_default();
            *sum += paused;
            let part = *sum as f64 / in_all.get(&key).copied().unwrap_or(0).max(1) as f64;
            let port = key.0;
            // Who stops this port has sent as many as it has received.
            let peer = PortName::new(&port.port, &port.device);
            if let Some(at) = sample.ports.get_mut(&peer) {
                let total = counted.ports.get(&peer).and_then(|at| at.queues[queue].pauses_sent);
                at.queues[queue].pauses_sent = Some(spread(total, part));
            }
            let Some(at) = sample.ports.get_mut(&port) else { continue };
            let total = counted.ports.get(&port).and_then(|at| at.queues[queue].pauses_received);
            let at = &mut at.queues[queue];
            at.pauses_received = Some(spread(total, part));
            at.paused_us = u64::try_from(*sum / 1_000_000).ok();
            at.waiting_bytes = u64::try_from(queued).ok();
            // Whether anything was sent is what counts.
            at.sent_packets =
                at.sent_packets.map(|packets| packets + u64::try_from(sent).unwrap_or(0));
        }
        let at = since_begin(time);
        if at < due {
            continue;
        }
        due = at + POLL;
        events.extend(watch.look(at, &sample).into_iter().map(|event| (at, event)));
    }
    if is_deadlocked(folder)? {
        let mut at = end;
        let is_deadlock = |event: &Event| matches!(event, Event::Found(finding) if finding.kind == Kind::Deadlock);
        while at < end + settings.deadlock_hold + POLL {
            at += POLL;
            for (port, queue) in &still {
                let Some(port) = sample.ports.get_mut(port) else { continue };
                let paused = &mut port.queues[*queue].paused_us;
                *paused = paused.map(|us| us + POLL.as_micros() as u64);
            }
            let seen = watch.look(at, &sample).into_iter().filter(is_deadlock);
            events.extend(seen.map(|event| (at, event)));
        }
    }
    Ok(events)
}

fn since_begin(time_ps: i64) -> Duration {
    Duration::from_nanos(u64::try_from(time_ps / 1_000).unwrap_or(0))
}

/// The queues that were paused in all of the last sample and have sent nothing, and when that was.
fn still_at_the_end(rows: &Rows) -> (Vec<(PortName, usize)>, Duration) {
    let mut last = rows.iter().rev();
    let Some((end, of_end)) = last.next() else { return (Vec::new(), Duration::ZERO) };
    let length = end - last.next().map_or(0, |(before, _)| *before);
    let still = of_end
        .iter()
        .filter(|(_, _, [sent, _, paused])| *sent == 0 && *paused as f64 > 0.99 * length as f64);
    (still.map(|(port, queue, _)| (port.clone(), *queue)).collect(), since_begin(*end))
}

/// Whether the run ended because the simulator found a deadlock.
fn is_deadlocked(folder: &Path) -> Result<bool, Failure> {
    let mut found = false;
    if folder.join("seeds.parquet").is_file() {
        table(folder, "seeds.parquet", &["ended"], |cells| {
            found |= matches!(cells, [Cell::Text("deadlocked")]);
        })?;
    }
    Ok(found)
}

/// The part of a total that there was by a time.
fn spread(total: Option<u64>, part: f64) -> u64 {
    (total.unwrap_or(0) as f64 * part.clamp(0.0, 1.0)) as u64
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
