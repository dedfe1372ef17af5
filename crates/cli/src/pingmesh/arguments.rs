//! The command line of `ferroce pingmesh`.

use core::net::SocketAddr;
use std::env;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ops::pingmesh::limits::RAW_KEPT;
use ops::pingmesh::pinglist::Rates;
use rustls::pki_types::ServerName;
use softnic::DeviceInfo;

use super::line::Secret;
use super::tls::Trust;
use crate::failure::Failure;

/// Probe hosts by RDMA, and say which host, NIC, link or switch is sick
#[derive(Debug, Subcommand)]
pub(crate) enum Pingmesh {
    /// Probe the hosts of a simulated network while its scenario runs, and come to a verdict
    Sim(Sim),
    /// Probe other hosts from this one, by its soft NIC, and tell the collector; see scenarios/pingmesh/four-hosts.toml
    Agent(Agent),
    /// Take what agents have seen into one SQLite file, and say what is sick
    Collect(Collect),
    /// Show what a collector's file says, as text and as a page
    Report(Report),
    /// Stand in for many agents, and say how a collector takes what they say
    Load(Load),
    /// Inject faults of every kind into simulated networks, and count how often the verdict is right
    Trial(Trial),
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// The scenario, such as scenarios/pingmesh/storm.toml
    #[arg(value_name = "SCENARIO")]
    pub(super) scenario: PathBuf,

    /// A folder for pingmesh.html, and tables as Parquet
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,

    /// The seed of everything that is left to chance, in place of the scenario's
    #[arg(long, value_name = "NUMBER")]
    pub(super) seed: Option<u64>,

    /// How long a window is, in model time [default: 20, or a sixth of a run that is shorter than 120]
    #[arg(long, value_name = "MILLISECONDS", value_parser = milliseconds)]
    pub(super) window_ms: Option<f64>,

    /// How long an answer may take [default: 50, or half of a run that is shorter than 100]
    #[arg(long, value_name = "MILLISECONDS", value_parser = milliseconds)]
    pub(super) patience_ms: Option<f64>,

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

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Where the collector is
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4792")]
    pub(super) collector: SocketAddr,

    #[command(flatten)]
    pub(super) trust: Trust,

    /// The name in the collector's certificate; otherwise it is to have its address
    #[arg(long, value_name = "NAME", requires = "tls_cert")]
    tls_name: Option<String>,

    /// What this host is called in the collector's topology; otherwise as the system calls it
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// The interface to probe by, such as eth0; otherwise the first of FERROCE_DEV, or loopback
    #[arg(long, value_name = "INTERFACE")]
    dev: Option<String>,

    /// The RDMA device to probe by, such as mlx5_0 or rxe0, by the libibverbs of this host, in place of a soft NIC
    #[arg(long, value_name = "DEVICE", conflicts_with = "dev")]
    pub(super) device: Option<String>,

    /// The place of its address in its GID table; otherwise the first for RoCEv2
    #[arg(long, value_name = "NUMBER", requires = "device")]
    pub(super) gid_index: Option<u8>,

    /// Its libibverbs.so.1; otherwise the one that programs find
    #[arg(long, value_name = "FILE", requires = "device")]
    pub(super) library: Option<PathBuf>,

    /// A folder for windows that are not delivered yet; otherwise one below ~/.local/state/ferroce
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,

    /// The DSCP of probes and answers: that of the data
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: u8,

    /// Round trips beyond this are slow
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 500)]
    pub(super) slow_us: u64,

    /// The port at which TCP probes of others are answered; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = 4793)]
    pub(super) tcp_port: u16,

    /// Neither send nor answer TCP probes
    #[arg(long)]
    pub(super) no_tcp: bool,

    /// Where the counters of this host's devices are
    #[arg(long, value_name = "FOLDER", default_value = "/sys")]
    pub(super) sysfs: PathBuf,

    /// Say of each window what became of its probes
    #[arg(short, long)]
    pub(super) verbose: bool,
}

impl Agent {
    pub(super) fn host(&self) -> Result<String, Failure> {
        if let Some(host) = &self.host {
            return Ok(host.clone());
        }
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let said = !name.is_empty();
        said.then_some(name).ok_or_else(|| {
            Failure::new("this host has no name").hint("say how the topology calls it: --host h0")
        })
    }

    /// How it and the collector know each other.
    pub(super) fn secret(&self) -> Result<Secret, Failure> {
        let mut secret = Secret::read(&self.trust)?;
        if let (Secret::Tls(tls), Some(name)) = (&mut secret, &self.tls_name) {
            let parsed = ServerName::try_from(name.clone());
            let wrong =
                |_| Failure::new(format!("--tls-name: {name:?} is neither name nor address"));
            tls.name = Some(parsed.map_err(wrong)?);
        }
        Ok(secret)
    }

    /// The interface of its soft NIC.
    pub(super) fn interface(&self) -> Result<DeviceInfo, Failure> {
        let of = |error: softnic::OpenError| Failure::from_message(&error);
        match &self.dev {
            Some(name) => DeviceInfo::find(name, 0).map_err(of),
            None => {
                let mut all = softnic::devices().map_err(of)?;
                if all.is_empty() {
                    return Err(Failure::new("there is no device").hint("name one: --dev eth0"));
                }
                Ok(all.swap_remove(0))
            }
        }
    }

    pub(super) fn spool(&self) -> Result<PathBuf, Failure> {
        if let Some(folder) = &self.spool {
            return Ok(folder.clone());
        }
        let base = env::var_os("XDG_STATE_HOME")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")));
        let base = base.ok_or_else(|| {
            Failure::new("no HOME says where windows may be kept").hint("name a folder: --spool")
        })?;
        Ok(base.join("ferroce/pingmesh").join(self.host()?))
    }

    pub(super) const fn traffic_class(&self) -> u8 {
        self.dscp << 2
    }
}

#[derive(Debug, Args)]
#[command(override_usage = "ferroce pingmesh collect --topology <SCENARIO> --db <FILE>\n       \
                            --key <FILE> [OPTIONS]")]
pub(crate) struct Collect {
    /// The scenario whose topology the hosts are in, such as scenarios/pingmesh/four-hosts.toml
    #[arg(long, value_name = "SCENARIO")]
    pub(super) topology: PathBuf,

    /// The SQLite file; it is made if it is not there
    #[arg(long, value_name = "FILE")]
    pub(super) db: PathBuf,

    #[command(flatten)]
    pub(super) trust: Trust,

    /// Where agents find it; beyond loopback only if you say so
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4792")]
    pub(super) listen: SocketAddr,

    /// A folder with the files of each device, as `ferroce doctor` reads it: what it finds is joined to the verdict
    #[arg(long, value_name = "FOLDER")]
    pub(super) cluster: Option<PathBuf>,

    /// A folder where counters of switches are saved again and again, as `ferroce export --from` reads it: they are joined
    /// to the verdict
    #[arg(long, value_name = "FOLDER")]
    pub(super) counters: Option<PathBuf>,

    /// How long windows are
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(500..=3_600_000))]
    pub(super) window_ms: u64,

    /// Probes that a host sends in a second, at most
    #[arg(long, value_name = "NUMBER", default_value_t = 300.0, value_parser = rate)]
    rate: f64,

    /// Single probes that the file keeps, half of them for those that failed or were slow; the oldest make room
    #[arg(long, value_name = "NUMBER", default_value_t = RAW_KEPT, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub(super) single_probes: u64,
}

impl Collect {
    pub(super) fn rates(&self) -> Rates {
        Rates { host: self.rate, ..Rates::default() }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The collector's file
    #[arg(value_name = "FILE")]
    pub(super) db: PathBuf,

    /// A page to write
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// A folder for windows, pairs and single probes as Parquet
    #[arg(long, value_name = "FOLDER")]
    pub(super) parquet: Option<PathBuf>,

    /// Print JSON instead
    #[arg(long)]
    pub(super) json: bool,

    /// Of how many hours
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, value_parser = hours)]
    pub(super) hours: f64,
}

fn hours(text: &str) -> Result<f64, &'static str> {
    let parsed = text.parse().ok().filter(|hours| (0.001..=87_600.0).contains(hours));
    parsed.ok_or("give hours, from a thousandth to ten years")
}

fn milliseconds(text: &str) -> Result<f64, &'static str> {
    let parsed = text.parse().ok().filter(|ms| (0.1..=3_600_000.0).contains(ms));
    parsed.ok_or("give milliseconds, from 0.1 to an hour")
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let parsed = text.parse().ok().filter(|rate| (1.0..=1e6).contains(rate));
    parsed.ok_or("give probes a second, from 1 to a million")
}

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The scenario that the collector has, too
    #[arg(long, value_name = "SCENARIO")]
    pub(super) topology: PathBuf,

    /// The collector's key
    #[arg(long, value_name = "FILE")]
    pub(super) key: PathBuf,

    /// Where the collector is
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4792")]
    pub(super) collector: SocketAddr,

    /// Only so many hosts of the topology
    #[arg(long, value_name = "NUMBER")]
    pub(super) hosts: Option<usize>,

    /// Windows that each delivers
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) windows: u64,

    /// On how many threads
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) threads: u32,
}
