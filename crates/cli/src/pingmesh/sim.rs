//! `ferroce pingmesh sim`: probes on the hosts of a scenario.

use std::fs;
use std::path::Path;

use fabric::NetworkConfig;
use fabric::scenario::Scenario;
use fabric::topology::End;
use ops::pingmesh::limits::{PROBES_SHOWN, WINDOWS_MIN};
use ops::pingmesh::page::{Shown, page};
use ops::pingmesh::pinglist::Rates;
use ops::pingmesh::raw;
use ops::pingmesh::simulation::{Mesh, PATIENCE, Scale};
use ops::pingmesh::summary::Summary;
use rdma::{Span, Time};

use super::arguments::Sim;
use crate::failure::Failure;
use crate::output::{cannot_write, fitted, make_folder, print, write_table};

pub(super) fn run(arguments: &Sim) -> Result<(), Failure> {
    let path = &arguments.scenario;
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
            .hint("a scenario is a TOML file, such as those in scenarios/pingmesh")
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let scenario = Scenario::parse_in(&text, folder, arguments.seed)
        .map_err(|error| Failure::from_message(&format!("{}: {error}", path.display())))?;
    if let Some(folder) = &arguments.output {
        make_folder(folder)?;
    }
    let span = |ms: f64| Span::from_ps((ms * 1e9) as u64);
    let window = arguments.window_ms.map_or_else(|| window_of(scenario.end), span);
    let patience = arguments.patience_ms.map_or_else(|| patience_of(scenario.end), span);
    // To hosts of the rack ten times as often as to others, until the host has reached its bound.
    let rates = Rates { rack: 1e6, beyond: 1e5, host: arguments.rate };
    let scale = Scale { faster: 1.0, window, patience, rates, ..Scale::default() };
    let config = NetworkConfig { threads: arguments.threads, ..scenario.network };
    let failed =
        |failure: bench::Failure| Failure::from_message(&format!("{}: {failure}", path.display()));
    let mut mesh = Mesh::new(config, scale, scenario.end).map_err(failed)?;
    mesh.run(|_| true);
    let summary = Summary::of(mesh.topology(), mesh.map(), mesh.windows());
    let verdict = mesh.verdict();
    let (hosts, windows) = (mesh.topology().hosts.len(), mesh.intervals().len());
    let title = format!(
        "pingmesh of \"{}\" (simulated): {hosts} hosts, {windows} windows of {} ms",
        scenario.title,
        window.as_ps() as f64 / 1e9
    );
    let mut said = fitted(&title) + &summary.text();
    said += &fitted(&verdict.text(mesh.topology()).to_string());
    if windows < WINDOWS_MIN {
        said += &fitted(&format!(
            "too short to judge switches that pause sooner than their like, and links that miss packets: \
             they take {WINDOWS_MIN} windows (end_ms in the scenario, or a shorter --window-ms)"
        ));
    }
    if patience < PATIENCE && arguments.patience_ms.is_none() {
        said += &fitted(&format!(
            "the run is short: an answer that takes {} ms counts as lost (--patience-ms)",
            patience.as_ps() as f64 / 1e9
        ));
    }
    if let Some(folder) = &arguments.output {
        let all = || mesh.windows().iter().flat_map(|of| of.raw.iter().map(|raw| (of.host, *raw)));
        let told_by = verdict.hosts(mesh.map());
        let name = |host| mesh.topology().name(End::Host(host));
        let html = page(&Shown {
            title: &scenario.title,
            place: &format!("{hosts} hosts, by ferroce pingmesh sim"),
            is_simulated: true,
            topology: mesh.topology(),
            summary: &summary,
            verdict: &verdict,
            incidents: &[],
            probes: &raw::last(all(), told_by.as_ref(), PROBES_SHOWN),
        });
        let file = folder.join("pingmesh.html");
        fs::write(&file, html).map_err(|error| cannot_write(&file, error))?;
        let about = [("scenario", scenario.title.as_str()), ("origin", "simulated")];
        for table in [summary.windows_table(), summary.all_pairs_table(), raw::table(all(), name)] {
            write_table(folder, &table, &about)?;
        }
        said += &format!("written to {}\n", file.display());
    }
    print(&said)
}

/// How long an answer may take where nobody says: as long as a busy host needs, but so short that half of a run's probes
/// are known to be lost if they are.
fn patience_of(end: Time) -> Span {
    Span::from_us(end.as_ps() / 2_000_000).clamp(Span::from_us(100), PATIENCE)
}

/// How long windows are where nobody says: so long that a run has six, as some things take three of them to be judged;
/// but no longer than what many probes take, and no shorter than what one does.
fn window_of(end: Time) -> Span {
    let sixth_us = end.as_ps().div_ceil(6_000_000);
    Span::from_us(sixth_us.clamp(100, 20_000))
}
