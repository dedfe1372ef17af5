//! `ferroce pingmesh report`: what a collector's file says, as text and as a page.

use std::fs;
use std::path::Path;

use fabric::topology::{End, Topology};
use ops::pingmesh::collector::Collector;
use ops::pingmesh::json::{Single, Told, json};
use ops::pingmesh::layout;
use ops::pingmesh::limits::PROBES_SHOWN;
use ops::pingmesh::page::{Shown, page};
use ops::pingmesh::pinglist::Rates;
use ops::pingmesh::raw::{self, Sent};
use ops::pingmesh::store::{Store, StoreError};
use ops::pingmesh::verdict::{Culprit, moment_of_wall, of_wall};

use super::arguments::Report;
use super::clock::wall_ns;
use super::collect::{CLASHES, REFUSED};
use crate::failure::Failure;
use crate::output::{cannot_write, fitted, make_folder, print, write_table};

const HOUR_NS: u64 = 3_600_000_000_000;
/// Windows of all hosts that may be on their way; beyond that they are missed.
const UNDER_WAY: u64 = 3;
/// Single probes that the text shows as evidence; the page and JSON show more.
const PROBES_TOLD: usize = 5;

pub(super) fn run(arguments: &Report) -> Result<(), Failure> {
    let path = arguments.db.display();
    let of_store = |error: StoreError| {
        let failure = Failure::from_message(&format!("{path}: {error}"));
        match error {
            // Nothing but what SQLite says is known of it: most often it is not there.
            StoreError::Sqlite(_) => {
                failure.or_hint("a collector writes it: ferroce pingmesh collect --db FILE")
            }
            _ => failure,
        }
    };
    if let Some(page) = arguments.output.as_deref().filter(|page| is_same(page, &arguments.db)) {
        return Err(Failure::new(format!("{} is the collector's file", page.display()))
            .hint("-o names another file, for the page"));
    }
    let store = Store::read(&arguments.db).map_err(of_store)?;
    if let Some(folder) = &arguments.parquet {
        make_folder(folder)?;
    }
    let about = |key: &str| {
        let value = store.about(key).map_err(of_store)?;
        value.ok_or_else(|| Failure::new(format!("{path} does not say its {key}")))
    };
    let topology: Topology = layout::from_text(&about("topology")?)
        .ok_or_else(|| Failure::new(format!("the topology of {path} cannot be read")))?;
    let length_ns: u64 = about("window_ns")?.parse().unwrap_or(1).max(1);
    let now_ns = wall_ns();
    let since_ns = now_ns.saturating_sub((arguments.hours * HOUR_NS as f64) as u64);
    let summary = store.summary(since_ns, length_ns).map_err(of_store)?;
    let mut collector = Collector::reading(topology, Rates::default(), length_ns);
    let (verdict, to_ns) = collector.last_verdict(&store).map_err(of_store)?;
    let mut incidents = store.incidents().map_err(of_store)?;
    incidents.retain(|of| of.until_ns.is_none_or(|until| until >= since_ns));
    let hosts = collector.topology().hosts.len();
    let coverage = store.coverage(since_ns).map_err(of_store)?;
    let kept: u64 = coverage.values().map(|of| of.windows).sum();
    let place = match kept {
        0 => format!("{hosts} hosts, none of which has told anything in that time"),
        _ => format!("{hosts} hosts, {} to {}", of_wall(summary.begin_ns()), of_wall(to_ns)),
    };
    let single = Single {
        kept: store.single_probes().map_err(of_store)?,
        told: store.told().map_err(of_store)?,
        last: {
            let hosts = verdict.hosts(collector.map());
            store.last_probes(hosts.as_ref(), since_ns, PROBES_SHOWN).map_err(of_store)?
        },
    };
    let missing: u64 = coverage.values().map(|of| of.missing(length_ns)).sum();
    let mut said = if arguments.json {
        json(&Told {
            topology: collector.topology(),
            summary: &summary,
            to_ns,
            windows: [kept, missing],
            verdict: &verdict,
            incidents: &incidents,
            single: &single,
        })
    } else {
        let configuration = store.configuration().map_err(of_store)?;
        let mut said = fitted(&format!("pingmesh of {place}")) + &summary.text();
        said += &format!(
            "windows: {kept} of {} hosts, {missing} missing between the first and the last of each\n",
            coverage.len()
        );
        if kept > 0 && now_ns.saturating_sub(to_ns) > UNDER_WAY * length_ns {
            let since = of_wall(to_ns);
            said += &fitted(&format!("silence: no host has told anything since {since}"));
        }
        for (what, key) in [("refused", REFUSED), ("warning", CLASHES)] {
            let lines = store.about(key).map_err(of_store)?.unwrap_or_default();
            for line in lines.lines() {
                said += &fitted(&format!("{what}: {line}"));
            }
        }
        if !configuration.read.is_empty() {
            said += &fitted(&configuration.text());
        }
        said += &fitted(&told(&single));
        said += &fitted(&verdict.text_by(collector.topology(), of_wall).to_string());
        if verdict.culprit() != Culprit::Nothing {
            for sent in single.last.iter().take(PROBES_TOLD) {
                said += &fitted(&format!("  probe: {}", line(sent, collector.topology())));
            }
        }
        for incident in &incidents {
            let until = incident.until_ns.map_or_else(|| "now".to_owned(), of_wall);
            let (what, why, since) =
                (&incident.culprit, &incident.cause, of_wall(incident.since_ns));
            said += &fitted(&format!("incident: {what}: {why}, {since} to {until}"));
        }
        said
    };
    if let Some(file) = &arguments.output {
        let html = page(&Shown {
            title: "RDMA Pingmesh",
            place: &place,
            is_simulated: false,
            topology: collector.topology(),
            summary: &summary,
            verdict: &verdict,
            incidents: &incidents,
            probes: &single.last,
        });
        fs::write(file, html).map_err(|error| cannot_write(file, error))?;
        if !arguments.json {
            said += &format!("written to {}\n", file.display());
        }
    }
    if let Some(folder) = &arguments.parquet {
        let name = |host| collector.topology().name(End::Host(host));
        let mut probes = Vec::new();
        store.each_probe(since_ns, |sent| probes.push(sent)).map_err(of_store)?;
        let about = [("origin", "measured")];
        for table in [summary.windows_table(), summary.all_pairs_table(), raw::table(probes, name)]
        {
            write_table(folder, &table, &about)?;
        }
        if !arguments.json {
            said += &fitted(&format!(
                "windows.parquet, pairs.parquet and probes.parquet are in {}",
                folder.display()
            ));
        }
    }
    print(&said)
}

/// How many single probes there are, and were not.
fn told(single: &Single) -> String {
    let Single { kept: [kept, of_interest], told, .. } = single;
    let [left_out, failed] = told.left_out();
    let others = match left_out {
        0 => String::new(),
        _ => {
            format!("; of {left_out} others, {failed} of them failed, agents have told sums alone")
        }
    };
    format!("single probes: {kept} in the file, {of_interest} of them failed or slow{others}")
}

/// A single probe, as evidence.
fn line(&(host, probe): &Sent, topology: &Topology) -> String {
    let name = |host| topology.name(End::Host(host));
    let took = probe.times.map(|times| format!(", {:.0} us", times.network_ns as f64 / 1e3));
    format!(
        "{} {} to {}, label {}: {}{}",
        moment_of_wall(probe.posted_ns),
        name(host),
        name(probe.target),
        probe.label,
        probe.outcome.text(),
        took.unwrap_or_default()
    )
}

/// Whether both names lead to one file.
fn is_same(left: &Path, right: &Path) -> bool {
    let (left, right) = (fs::canonicalize(left), fs::canonicalize(right));
    left.is_ok_and(|left| right.is_ok_and(|right| left == right))
}
