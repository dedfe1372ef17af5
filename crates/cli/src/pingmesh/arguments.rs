//! The command line of `ferroce pingmesh`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Probe hosts by RDMA, and say which host, NIC, link or switch is sick
#[derive(Debug, Subcommand)]
pub(crate) enum Pingmesh {
    /// Probe the hosts of a simulated network while its scenario runs, and come to a verdict
    Sim(Sim),
    /// Inject faults of every kind into simulated networks, and count how often the verdict is right
    Trial(Trial),
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// The scenario, such as scenarios/pingmesh/storm.toml
    #[arg(value_name = "SCENARIO")]
    pub(super) scenario: PathBuf,

    /// A folder for pingmesh.html, the summary, and tables as Parquet
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,

    /// The seed of everything that is left to chance, in place of the scenario's
    #[arg(long, value_name = "NUMBER")]
    pub(super) seed: Option<u64>,

    /// How long a window is, in model time
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 20.0, value_parser = milliseconds)]
    pub(super) window_ms: f64,

    /// How long an answer may take
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 50.0, value_parser = milliseconds)]
    pub(super) patience_ms: f64,

    /// Probes that each host sends in a second of the model
    #[arg(long, value_name = "NUMBER", default_value_t = 5_000.0, value_parser = rate)]
    pub(super) rate: f64,

    /// On how many threads the network runs; the results are the same
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) threads: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Trial {
    /// So many trials of each fault
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) seeds: u64,

    /// The seed of the first
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,

    /// Only faults whose name contains this text, such as storm
    #[arg(long, value_name = "TEXT")]
    pub(super) fault: Option<String>,

    /// Say what the verdict rests on, trial by trial
    #[arg(long)]
    pub(super) explain: bool,
}

fn milliseconds(text: &str) -> Result<f64, &'static str> {
    let parsed = text.parse().ok().filter(|ms| (0.1..=3_600_000.0).contains(ms));
    parsed.ok_or("give milliseconds, from 0.1 to an hour")
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let parsed = text.parse().ok().filter(|rate| (1.0..=1e6).contains(rate));
    parsed.ok_or("give probes a second, from 1 to a million")
}
