//! `ferroce pingmesh report`: what a collector's file says, as text and as a page.

use std::fs;
use std::path::Path;

use fabric::topology::Topology;
use ops::pingmesh::collector::Collector;
use ops::pingmesh::json::{Told, json};
use ops::pingmesh::layout;
use ops::pingmesh::page::{Shown, page};
use ops::pingmesh::pinglist::Rates;
use ops::pingmesh::store::{Store, StoreError};
use ops::pingmesh::verdict::of_wall;

use super::arguments::Report;
use super::clock::wall_ns;
use super::collect::{CLASHES, REFUSED};
use crate::failure::Failure;
use crate::output::{cannot_write, fitted, print};

const HOUR_NS: u64 = 3_600_000_000_000;
/// Windows of all hosts that may be on their way; beyond that they are missed.
const UNDER_WAY: u64 = 3;

pub(super) fn run(arguments: &Report) -> Result<(), Failure> {
    let path = arguments.db.display();
    let of_store = |error: StoreError| {
        Failure::from_message(&format!("{path}: {error}"))
            .hint("a collector writes it: ferroce pingmesh collect --db FILE")
    };
    if let Some(page) = arguments.output.as_deref().filter(|page| is_same(page, &arguments.db)) {
        return Err(Failure::new(format!("{} is the collector's file", page.display()))
            .hint("-o names another file, for the page"));
    }
    let store = Store::read(&arguments.db).map_err(of_store)?;
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
    let missing: u64 = coverage.values().map(|of| of.missing(length_ns)).sum();
    let mut said = if arguments.json {
        json(&Told {
            topology: collector.topology(),
            summary: &summary,
            to_ns,
            windows: [kept, missing],
            verdict: &verdict,
            incidents: &incidents,
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
            said += &format!("{}\n", configuration.text());
        }
        said += &fitted(&verdict.text_by(collector.topology(), of_wall).to_string());
        for incident in &incidents {
            let until = incident.until_ns.map_or_else(|| "now".to_owned(), of_wall);
            let (what, why, since) =
                (&incident.culprit, &incident.cause, of_wall(incident.since_ns));
            said += &format!("incident: {what}: {why}, {since} to {until}\n");
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
        });
        fs::write(file, html).map_err(|error| cannot_write(file, error))?;
        if !arguments.json {
            said += &format!("written to {}\n", file.display());
        }
    }
    print(&said)
}

/// Whether both names lead to one file.
fn is_same(left: &Path, right: &Path) -> bool {
    let (left, right) = (fs::canonicalize(left), fs::canonicalize(right));
    left.is_ok_and(|left| right.is_ok_and(|right| left == right))
}
