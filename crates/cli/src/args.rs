//! The command line.

use core::net::SocketAddr;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rdma::Mtu;
use softnic::lab::Site;

/// RDMA without an RDMA NIC: runs unmodified verbs programs over RoCEv2 in software.
#[derive(Debug, Parser)]
#[command(name = "ferroce", version, disable_help_subcommand = true, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program with Ferroce in the place of libibverbs
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// List the RDMA devices that programs see, and how each talks to other hosts
    Devices(Devices),
    /// Show what the programs that run now have counted, under the names of Linux
    Counters(Counters),
    /// Measure verbs: bandwidth, rates and latencies of any number of flows at once
    Bench(Box<crate::bench::Bench>),
    /// Run a scenario in the simulator: links, switches and NICs around the same engine
    #[command(after_help = SIM_ENDS)]
    Sim(Sim),
    /// Hold the results of several simulations against each other: the same flows side by side
    #[command(after_help = COMPARE_ENDS)]
    Compare(Compare),
    /// Run programs as hosts of a modelled fabric, in real time
    #[command(subcommand, after_help = LAB_EXAMPLES)]
    Lab(Lab),
    /// Expose counters to Prometheus: of this host, of what was saved of others, of a simulation
    #[command(after_help = crate::export::EXAMPLES)]
    Export(crate::export::Export),
    /// Watch pauses, marks, drops and retransmissions, with what looks wrong on top
    #[command(after_help = crate::watch::EXAMPLES)]
    Watch(Box<crate::watch::Look>),
    /// Probe hosts by RDMA, and say which host, NIC, link or switch is sick
    #[command(subcommand)]
    Pingmesh(Box<crate::pingmesh::Pingmesh>),
    /// Run what a paper ran, and hold what it found against what is measured
    Papers(Papers),
    /// Judge the configuration of switches and hosts, from their files, by rules with an incident behind each
    #[command(after_help = crate::doctor::ENDS)]
    Doctor(Box<crate::doctor::Doctor>),
    /// Print the completions of a shell, such as bash, for it to load
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages of all commands to a folder
    Man {
        /// Where to; it is made if it is not there
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Devices {
    /// Interfaces to make devices of, as for `ferroce run` (FERROCE_DEV)
    #[arg(long, value_name = "INTERFACE,...", value_delimiter = ',')]
    pub(crate) dev: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Papers {
    /// The paper, or what all of them come to
    pub(crate) paper: Paper,

    /// A claim of studies/claims.toml or the beginning of one, such as storm, or a figure, such as
    /// figure-7; otherwise all
    #[arg(value_name = "CLAIM")]
    pub(crate) claim: Option<String>,

    /// A folder for the table, for a page with all figures, and for their data as CSV and Parquet
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Write the scenarios that guo16 runs to a folder, each with the commands for its rows, and run nothing
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["output", "quick", "soft", "seed"])]
    pub(crate) scenarios: Option<PathBuf>,

    /// Smaller and shorter: seconds instead of minutes
    #[arg(long)]
    pub(crate) quick: bool,

    /// Afterwards run the same on soft NICs of this machine, where it can be: minutes more, in real time
    #[arg(long)]
    pub(crate) soft: bool,

    /// The seed of everything that is left to chance
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// RDMA over Commodity Ethernet at Scale (SIGCOMM 2016)
    Guo16,
    /// Performance Isolation Anomalies in RDMA (KBNets 2017), on modelled hosts
    Zhang17,
    /// On the Impact of Cluster Configuration on RoCE Application Design (APNet 2019), on modelled hosts
    Le19,
    /// Exploring Low-latency Interconnect for Scaling Out Software Routers, on modelled hosts
    Ma16,
    /// Which verb and wait mode, by size, dependent accesses, load and goal, and how sure that is
    Guidance,
    /// What each claim about modelled hosts came to on the first run, and now; runs nothing
    Claims,
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// The scenario, such as scenarios/incast.toml, or the config_db.json of a SONiC switch; several run one after the
    /// other
    #[arg(value_name = "SCENARIO", required_unless_present = "keys")]
    pub(crate) scenarios: Vec<PathBuf>,

    /// A key that has another value than the scenarios say, such as switch.alpha=1/8 or nic.congestion=none;
    /// may be there several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "keys")]
    pub(crate) set: Vec<String>,

    /// Say what may be written in a scenario, or in one table of it, such as nic.tcp or incast:
    /// every key with its unit, bounds and default
    #[arg(
        long,
        value_name = "TABLE",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["scenarios", "output", "check", "seed", "threads", "bench"]
    )]
    pub(crate) keys: Option<String>,

    /// A folder for report.html, the summary, and flows, samples and counters as Parquet; of several scenarios
    /// each has a folder of its name in it
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Say what the scenario comes to, and do not run it
    #[arg(long, conflicts_with_all = ["output", "bench"])]
    pub(crate) check: bool,

    /// What looks wrong in a scenario is an error, and ends the command with status 1
    #[arg(long, conflicts_with = "keys")]
    pub(crate) strict: bool,

    /// Write a scenario around the config_db.json of a switch, as NAME.toml beside NAME.json, and run nothing
    #[arg(long, conflicts_with_all = ["output", "check", "bench", "keys", "seeds", "json", "set", "strict"])]
    pub(crate) init: bool,

    /// The seed of everything that is left to chance, in place of the scenario's
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Run it with so many seeds, from --seed or the scenario's on, on all cores: medians and intervals
    /// in place of one draw
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(2..=100_000),
        conflicts_with_all = ["check", "bench", "threads", "keys"]
    )]
    pub(crate) seeds: Option<u32>,

    /// Print JSON in place of the summary or of what --check says; of several scenarios a document each
    #[arg(long, conflicts_with_all = ["keys", "bench"])]
    pub(crate) json: bool,

    /// Try no remedies after a run: what a report advises is otherwise tried where that takes no longer than
    /// the run
    #[arg(long)]
    pub(crate) no_trials: bool,

    /// On how many threads it runs; the results are the same
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,

    /// Say how fast it ran and what memory it took, too
    #[arg(long)]
    pub(crate) bench: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Folders that `ferroce sim -o` has written; all but the first are held against the first
    #[arg(value_name = "FOLDER", num_args = 2.., required = true)]
    pub(crate) folders: Vec<PathBuf>,

    /// Print JSON instead
    #[arg(long)]
    pub(crate) json: bool,

    /// An HTML page with all of it, too; `.html` may be left out
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const COMPARE_ENDS: &str = "\
Example:
  ferroce sim scenarios/incast.toml --seeds 8 -o a
  ferroce sim scenarios/incast.toml --seeds 8 -o b --set switch.alpha=1/8
  ferroce compare a b

The last column says \"more\" or \"less\" where the interval over seeds says so,
\"chance\" where it does not, and \"of fewer\" where who looks better has completed
fewer messages. A flow that was not finished took longer than all that were.";

const SIM_ENDS: &str = "\
Ctrl-C stops the run: what was simulated until then is told and written, and
said to be partial.

Exit status: 0 when the run ended; 1 when --strict met a warning; 3 when the
network is deadlocked; 125 when the scenario is wrong, or a file cannot be
written; 130 when it was interrupted.";

const RUN_EXAMPLES: &str = "\
Examples:
  ferroce run ibv_devinfo
  ferroce run -- ib_write_bw -d ferroce0              # a server
  ferroce run -- ib_write_bw -d ferroce0 127.0.0.1    # its client, elsewhere
  ferroce run --faults loss=0.01,seed=7 -- ib_read_lat 127.0.0.1

The program's own output, exit status and signals are untouched. A flag sets the
environment variable named beside it, which the program may also have from
elsewhere.";

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Interfaces to make devices of, such as eth0 or lo/127.0.0.2, the first being ferroce0;
    /// loopback unless named (FERROCE_DEV)
    #[arg(long, value_name = "INTERFACE,...", value_delimiter = ',')]
    pub(crate) dev: Vec<String>,

    /// Path MTU: 256, 512, 1024, 2048 or 4096 bytes; otherwise the largest that fits the interface
    /// (FERROCE_MTU)
    #[arg(long, value_name = "BYTES", value_parser = path_mtu)]
    pub(crate) mtu: Option<u32>,

    /// Faults to inject, such as loss=0.01,reorder=0.02,duplicate=0.01,corrupt=0.001,ecn=0.05,seed=7, or aimed, such as
    /// 'drop:opcode=write,nth=3;delay:delay_us=500,every=10' (FERROCE_FAULTS)
    #[arg(long, value_name = "FAULT=PROBABILITY,...;FAULT:AIM=VALUE,...")]
    pub(crate) faults: Option<String>,

    /// Congestion control: none, dcqcn, bbr, or a constant rate such as fixed,rate_mbps=1000; otherwise
    /// bbr to other hosts and none within this one (FERROCE_CC)
    #[arg(long, value_name = "CONTROLLER,SETTING=VALUE,...")]
    pub(crate) cc: Option<String>,

    /// Record every packet that the program sends and receives, in a file or FIFO, or on stdout for `-`, which
    /// sends the program's own output to stderr; %p in the name stands for the process ID; behind the name,
    /// `,snaplen=256,size=100M` bound the bytes of a frame and of the whole (FERROCE_PCAP)
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<OsString>,

    /// When the program has ended, however it did: counters, queue pairs, what failed and why, as JSON
    /// in this file, or as a table on stderr for `-`
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,

    /// Which way packets take to programs of the same host (FERROCE_LINK)
    #[arg(long)]
    pub(crate) link: Option<Link>,

    /// How packets reach the socket (FERROCE_WIRE)
    #[arg(long)]
    pub(crate) wire: Option<Wire>,

    /// What to log on stderr, such as info or softnic=debug (FERROCE_LOG)
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,

    /// The host of a lab that it runs as
    #[arg(skip)]
    pub(crate) site: Option<Site>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

const LAB_EXAMPLES: &str = "\
Examples:
  ferroce lab up --detach scenarios/lab/two-hosts.toml
  ferroce lab run --host h0 -- ib_write_bw -d ferroce0    # in one terminal
  ferroce lab run --host h1 -- ib_write_bw -d ferroce0 127.0.0.1
  ferroce lab status
  ferroce lab capture s0:h1 -w - | tshark -r -    # what crosses a port
  ferroce lab top
  ferroce lab down -o out/                        # out/report.html: how it went

What programs say to each other beside RDMA, such as perftest by TCP, goes by
the machine's own network.";

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Start a fabric, and stay until it is told to end
    Up(Up),
    /// Run a program as a host of it
    Run(RunIn),
    /// Have something happen to it: a link fails, a NIC storms, a setting changes
    #[command(after_help = EVENT_EXAMPLES)]
    Event(Event),
    /// Say what has happened, and when: faults, deadlocks, watchdogs, programs, slips of the clock
    Events(Which),
    /// Carry out an experiment: programs on hosts, what happens to them, and what is expected
    #[command(after_help = EXEC_ENDS)]
    Exec(Exec),
    /// Say how it is: time, programs, pauses, drops
    Status(Which),
    /// Write the frames of ports while it runs, as pcapng
    Capture(Capture),
    /// Show what happens now, what looks wrong first: rates, pauses, marks and drops of every port
    Top(Top),
    /// Show what every port and program has counted, under the names of SAI and Linux
    Counters(LabCounters),
    /// End it
    Down(Down),
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The scenario: that of `ferroce sim`, with programs in the place of workloads, or beside them
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// What the lab is called; otherwise as its file
    #[arg(long, value_name = "NAME", value_parser = lab_name)]
    pub(crate) name: Option<String>,

    /// How many times slower than the wall's its time goes, in place of what the file or a measurement says
    #[arg(long, value_name = "NUMBER", value_parser = dilution)]
    pub(crate) factor: Option<f64>,

    /// The seed of everything that is left to chance, in place of the scenario's
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Stay in the background
    #[arg(long)]
    pub(crate) detach: bool,

    /// At the end, a folder for report.html, the summary, and samples, counters and programs as Parquet
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// Serve metrics for Prometheus on loopback, such as at 127.0.0.1:9400; port 0 is any that is free, and
    /// `ferroce lab status` says which. Otherwise there are none
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
}

const EVENT_EXAMPLES: &str = "\
Examples:
  ferroce lab event link-down from=leaf0 to=spine1
  ferroce lab event link-flaps from=h0 to=s0 down_us=2000 every_us=9000 times=5
  ferroce lab event drop from=h0 to=leaf0 ip_id_ends=255 at_us=1000
  ferroce lab event nic-stuck host=h3
  ferroce lab event pfc 'lossless_priorities=[]'
  ferroce lab event watchdog switch=leaf0 detection_ms=100

Kinds and keys are those of a [[fault]] of a scenario: `ferroce sim --keys
fault` lists them. Times are in the time of the lab, counted from now.";

const EXEC_ENDS: &str = "\
Exit status: 0 when all was as expected; 1 when it was not; 125 when the file is
wrong, or it could not be carried out; 130 when it was interrupted. Whatever was
started is ended in each case.";

#[derive(Debug, Args)]
pub(crate) struct Event {
    /// What happens, such as link-down
    #[arg(value_name = "KIND")]
    pub(crate) kind: String,

    /// To whom, and how: KEY=VALUE, as in from=leaf0
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) keys: Vec<String>,

    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The experiment, such as scenarios/lab/1-two-hosts.toml
    #[arg(value_name = "EXPERIMENT", required_unless_present = "keys")]
    pub(crate) experiment: Option<PathBuf>,

    /// Say what may be written in an experiment, besides what may be in a scenario
    #[arg(long, conflicts_with = "experiment")]
    pub(crate) keys: bool,

    /// Run each row once, and leave out those that are long
    #[arg(long)]
    pub(crate) quick: bool,

    /// How often each row is run, in place of what the file says
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) draws: Option<u32>,

    /// Run only this row; may be said several times
    #[arg(long, value_name = "ROW")]
    pub(crate) row: Vec<String>,

    /// Say what happened in each run, and when
    #[arg(long)]
    pub(crate) events: bool,

    /// A folder for the report and for what programs print
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    /// The seed of everything that is left to chance, in place of the scenario's
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RunIn {
    /// Ends when whoever has started it does
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,

    /// The host, such as h3
    #[arg(long, value_name = "HOST")]
    pub(crate) host: String,

    #[command(flatten)]
    pub(crate) which: Which,

    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Look again after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = crate::values::seconds, default_value = "1")]
    pub(crate) every: f64,

    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct LabCounters {
    /// Only this one: leaf0:h3 for the port of leaf0 that leads to h3, h3 for all of h3
    #[arg(value_name = "NODE[:NEIGHBOUR]")]
    pub(crate) port: Option<String>,

    /// Print one line of JSON instead, counters that are zero included
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// A folder for report.html, the summary, and samples, counters and programs as Parquet
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The lab, if several run
    #[arg(long, value_name = "NAME")]
    pub(crate) lab: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Capture {
    /// The ports: leaf0:h3 for the one of leaf0 that leads to h3, leaf0 for all of leaf0
    #[arg(required = true, value_name = "NODE[:NEIGHBOUR]")]
    pub(crate) ports: Vec<String>,

    /// The file; - for stdout, into `tshark -r -` or `wireshark -k -i -`
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// So many bytes of each frame are kept; 90 hold all headers
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(90..=65_535))]
    pub(crate) snaplen: Option<u32>,

    /// End after so many frames
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) packets: Option<u64>,

    /// End before the file is longer: bytes, or as 64K, 10M or 1G of 1,024
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) size: Option<u64>,

    /// Only frames of these priorities, and pauses of them
    #[arg(long, value_name = "PRIORITY,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..8))]
    pub(crate) priorities: Vec<u8>,

    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct Counters {
    /// Show them again after this many seconds, with rates, until interrupted
    #[arg(long, value_name = "SECONDS", value_parser = crate::values::seconds)]
    pub(crate) watch: Option<f64>,

    /// Print one line of JSON instead
    #[arg(long)]
    pub(crate) json: bool,

    /// Say what a counter counts, and what it means when it grows; without a name, say so of all
    #[arg(
        long,
        value_name = "NAME",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["watch", "json"]
    )]
    pub(crate) explain: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Link {
    /// Shared memory, if they are of the same user; fast
    Shm,
    /// The same, with the check sums that packets have on the wire
    #[value(name = "shm,icrc")]
    ShmIcrc,
    /// UDP, as to other hosts
    Udp,
}

impl Link {
    /// The value of `FERROCE_LINK`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::ShmIcrc => "shm,icrc",
            Self::Udp => "udp",
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Wire {
    /// Many packets in one system call; fast
    Train,
    /// One packet a datagram, so that a capture on the interface shows each
    Exact,
}

impl Wire {
    /// The value of `FERROCE_WIRE`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Exact => "exact",
        }
    }
}

fn path_mtu(text: &str) -> Result<u32, &'static str> {
    let bytes = text.parse().ok();
    let known = Mtu::ALL.into_iter().map(Mtu::bytes).find(|mtu| Some(*mtu) == bytes);
    known.ok_or("a path MTU is 256, 512, 1024, 2048 or 4096")
}

/// The shortest file: what describes a few ports.
const SIZE_MIN: u64 = 4 << 10;

fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let bytes = bytes.filter(|bytes| *bytes >= SIZE_MIN);
    bytes.ok_or_else(|| format!("a size is a number of bytes such as 10M, {SIZE_MIN} at least"))
}

fn lab_name(text: &str) -> Result<String, &'static str> {
    let why = "a name has letters, digits and underscores, 16 at most";
    lab::client::is_name(text).then(|| text.to_owned()).ok_or(why)
}

fn dilution(text: &str) -> Result<f64, &'static str> {
    let factor = text.parse().ok().filter(|factor| (1.0..=1e6).contains(factor));
    factor.ok_or("a factor is a number from 1 to 1000000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_multiples_of_1024() {
        assert_eq!(size("4096"), Ok(4_096));
        assert_eq!([size("64K"), size("10m"), size("1G")], [65_536, 10 << 20, 1 << 30].map(Ok));
        for wrong in ["", "K", "10X", "1", "-4", "99999999999999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
