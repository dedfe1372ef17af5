//! `cargo xtask bench network`: RDMA over soft NICs beside TCP, in turn, over a path that has a rate, a queue
//! and a delay, and that loses and reorders. The path is our own (`hop.rs`): not every kernel has netem.
//!
//! Goodput, or with `--latency` what short messages take alone and beside such a load (`latency.rs`), or with `--share`
//! what each has while both are at work (`share.rs`), or with `--alike` how evenly flows of one kind share it (`alike.rs`).

mod alike;
pub(crate) mod cable;
pub(crate) mod hop;
pub(crate) mod hosts;
mod latency;
mod programs;
mod share;

use core::fmt;
use core::time::Duration;
use std::env;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use pico_args::Arguments;
use rustix::process::geteuid;

use crate::lab::Lab;
use crate::tally::Tally;
use crate::{dist, terminal, workspace};
use cable::{Cable, ENDS, Kind};
use hop::{Counts, Line, Reordering};
use hosts::{ADDRESSES, Host};
use programs::{Pair, Traffic};

const INSIDE: &str = "--inside";
/// How long each is at work for goodput, unless it is said; the first quarter is not measured.
const SECONDS: u32 = 4;
/// Which congestion control the kernel's TCP has, and which ones any program may choose.
const TCP_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const TCP_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The paths of a run without flags; `--all` takes each delay with each loss and each MTU.
const PATHS: [Path; 7] = [
    path(1500, 100, 0.0, 0.0),
    path(1500, 1_000, 0.0, 0.0),
    path(1500, 10_000, 0.0, 0.0),
    path(1500, 1_000, 0.1, 0.0),
    path(1500, 1_000, 1.0, 0.0),
    path(1500, 1_000, 0.0, 1.0),
    path(9000, 1_000, 0.1, 0.0),
];

/// A path, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Path {
    mtu: u32,
    /// One way.
    delay_us: u64,
    jitter_us: u64,
    loss_percent: f64,
    reordered_percent: f64,
    reordering: Reordering,
}

const fn path(mtu: u32, delay_us: u64, loss_percent: f64, reordered_percent: f64) -> Path {
    let reordering = Reordering::USUAL;
    Path { mtu, delay_us, jitter_us: 0, loss_percent, reordered_percent, reordering }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mtu, delay_us, jitter_us, loss_percent, reordered_percent, reordering } = *self;
        write!(f, "{mtu} B, {:>4} ms", delay_us as f64 / 1000.0)?;
        let (is_lost, is_reordered) = (loss_percent > 0.0, reordered_percent > 0.0);
        if jitter_us > 0 {
            write!(f, ", {} ms jitter", jitter_us as f64 / 1000.0)?;
        } else if !is_lost && !is_reordered {
            write!(f, ", nothing lost")?;
        }
        if is_lost {
            write!(f, ", {loss_percent} % lost")?;
        }
        if !is_reordered {
            return Ok(());
        }
        write!(f, ", {reordered_percent} % ")?;
        match reordering {
            Reordering::Late(most) if reordering != Reordering::USUAL => {
                write!(f, "late by {} ms", most.as_micros() as f64 / 1000.0)
            }
            Reordering::Late(_) => write!(f, "reordered"),
            Reordering::Ahead => write!(f, "ahead"),
        }
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Goodput,
    Latency,
    Share,
    Alike,
}

/// What is measured, on which paths, and how often.
pub(crate) struct Choice {
    mode: Mode,
    paths: Vec<Path>,
    rounds: usize,
    gbps: f64,
    queue_kb: usize,
    /// Programs sleep until something completes; those of perftest poll, which takes a core each.
    events: bool,
    /// How interfaces carry what goes over the path.
    kind: Kind,
    /// TCP's congestion control, if not the kernel's own.
    tcp: Option<String>,
    /// How long each is at work.
    seconds: u32,
    inside: bool,
    /// As they were typed, for the process in the namespace.
    words: Vec<String>,
}

impl Choice {
    pub(crate) fn parse(arguments: &mut Arguments, rounds: usize) -> Result<Self> {
        let inside = arguments.contains(INSIDE);
        let mut words = vec!["--rounds".to_owned(), rounds.to_string()];
        let mut number = |name: &'static str, least: f64, most: f64| -> Result<Option<f64>> {
            let Some(value) = arguments.opt_value_from_str::<_, f64>(name)? else {
                return Ok(None);
            };
            if !(least..=most).contains(&value) {
                bail!("{name} is from {least} to {most}, not {value}");
            }
            words.extend([name.to_owned(), value.to_string()]);
            Ok(Some(value))
        };
        let gbps = number("--gbps", 0.001, 100.0)?.unwrap_or(2.0);
        let queue_kb = number("--queue-kb", 1.0, 1e6)?.unwrap_or(512.0) as usize;
        let seconds = number("--seconds", 4.0, 600.0)?.map(|seconds| seconds as u32);
        let own = [
            number("--mtu", 1280.0, 9000.0)?,
            number("--delay-us", 0.0, 1e6)?,
            number("--jitter-us", 0.0, 1e6)?,
            number("--loss", 0.0, 50.0)?,
            number("--reordered", 0.0, 50.0)?,
            number("--late-us", 1.0, 1e6)?,
        ];
        let tcp: Option<String> = arguments.opt_value_from_str("--tcp")?;
        words.extend(tcp.iter().flat_map(|name| ["--tcp".to_owned(), name.clone()]));
        let mut flag = |name: &'static str| {
            let is_given = arguments.contains(name);
            words.extend(is_given.then(|| name.to_owned()));
            is_given
        };
        let [all, ahead, events, frames] =
            ["--all", "--ahead", "--events", "--frames"].map(&mut flag);
        let [latency, share, alike] = ["--latency", "--share", "--alike"].map(flag);
        let mode = match (latency, share, alike) {
            (true, false, false) => Mode::Latency,
            (false, true, false) => Mode::Share,
            (false, false, true) => Mode::Alike,
            (false, false, false) => Mode::Goodput,
            _ => bail!("one of --latency, --share and --alike"),
        };
        if mode == Mode::Latency && seconds.is_some() {
            bail!(
                "--seconds is for goodput, --share and --alike: --latency takes as long as it takes"
            );
        }
        let usual = match mode {
            Mode::Share => share::SECONDS,
            Mode::Alike => alike::SECONDS,
            Mode::Goodput | Mode::Latency => SECONDS,
        };
        let seconds = seconds.unwrap_or(usual);
        let paths = match (ahead || own.iter().any(Option::is_some), all) {
            (true, true) => {
                bail!(
                    "--all, or one path by --mtu, --delay-us, --jitter-us, --loss and --reordered"
                )
            }
            (false, true) => matrix(),
            (false, false) => PATHS.to_vec(),
            (true, false) => vec![own_path(own, ahead)?],
        };
        let kind = if frames { Kind::Frames } else { Kind::Packets };
        Ok(Self { mode, paths, rounds, gbps, queue_kb, events, kind, tcp, seconds, inside, words })
    }
}

/// The path of flags, in the order of [`Path`]'s fields.
fn own_path(numbers: [Option<f64>; 6], is_ahead: bool) -> Result<Path> {
    let [mtu, delay, jitter, loss, reordered, late] = numbers;
    let [delay, jitter, loss, reordered] =
        [delay, jitter, loss, reordered].map(|number| number.unwrap_or(0.0));
    let path = Path {
        jitter_us: jitter as u64,
        ..path(mtu.unwrap_or(1500.0) as u32, delay as u64, loss, reordered)
    };
    let (name, reordering) = match (late, is_ahead) {
        (None, false) => return Ok(path),
        (Some(late), false) => ("--late-us", Reordering::Late(Duration::from_micros(late as u64))),
        (None, true) => ("--ahead", Reordering::Ahead),
        (Some(_), true) => bail!("--late-us or --ahead: what is reordered comes late, or ahead"),
    };
    if reordered == 0.0 {
        bail!("{name} is for what is reordered, and nothing is\n hint: --reordered 1");
    }
    if is_ahead && path.delay_us == 0 {
        bail!("--ahead skips the delay of the path, and there is none\n hint: --delay-us 5000");
    }
    Ok(Path { reordering, ..path })
}

/// Each MTU with each delay, and with each of them each loss, and reordering.
fn matrix() -> Vec<Path> {
    let mut paths = Vec::new();
    for mtu in [1500, 9000] {
        for delay_us in [100, 1_000, 10_000] {
            for loss in [0.0, 0.1, 1.0] {
                paths.push(path(mtu, delay_us, loss, 0.0));
            }
            paths.push(path(mtu, delay_us, 0.0, 1.0));
        }
    }
    paths
}

/// Says why nothing can be measured over such interfaces here, if that is so.
fn is_possible(kind: Kind) -> Result<()> {
    if !geteuid().is_root() {
        bail!("network namespaces and TUN interfaces are made by root\n hint: sudo");
    }
    for program in Traffic::ALL.map(Traffic::program).into_iter().chain([latency::PROGRAM]) {
        if workspace::installed(program).is_none() {
            bail!("{program} is not installed\n hint: apt install perftest iperf3 qperf");
        }
    }
    cable::is_possible(kind)
}

/// As [`is_possible`], for [`try_out`].
pub(crate) fn can_be_tried() -> Result<()> {
    is_possible(Kind::Packets)
}

/// Tries what measures goodput on two paths. What they reach depends on the machine, so nobody judges it; that they come to
/// an end without an error does not.
pub(crate) fn try_out() -> Result<Tally> {
    let mut tally = Tally::default();
    for line in [["1500", "--loss", "1"], ["9000", "--reordered", "1"]] {
        let words = ["--rounds", "1", "--delay-us", "1000", "--mtu"];
        match run_inside(&[&words[..], &line].concat()) {
            Ok(()) => tally.passed += 1,
            Err(error) => {
                println!("  {}: {error:#}", terminal::red("FAILED"));
                tally.failed += 1;
            }
        }
    }
    Ok(tally)
}

/// Measures each path, and prints a line for it.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    if choice.inside {
        return measure_all(choice);
    }
    is_possible(choice.kind)?;
    dist::run()?;
    run_inside(&choice.words)
}

/// Runs this command in a network namespace of its own, where the interfaces are made.
fn run_inside<W: AsRef<std::ffi::OsStr>>(words: &[W]) -> Result<()> {
    let mut command = Command::new("unshare");
    command.arg("--net").arg(env::current_exe()?).args(["bench", "network", INSIDE]);
    workspace::run(command.args(words))
}

fn measure_all(choice: &Choice) -> Result<()> {
    let Choice { gbps, queue_kb, events, .. } = *choice;
    let by = if choice.mode == Mode::Latency { "qperf, beside " } else { "" };
    let load = match events || choice.mode == Mode::Alike {
        true => "ferroce bench, which waits for events",
        false => "perftest, which polls",
    };
    let time = match choice.mode {
        Mode::Latency => String::new(),
        Mode::Goodput | Mode::Share | Mode::Alike => format!(", for {} s each", choice.seconds),
    };
    let interfaces = match choice.kind {
        Kind::Packets => "",
        Kind::Frames => " Interfaces without offloads: each packet is sent and received alone.",
    };
    println!(
        "A port of {gbps} Gb/s with a queue of {queue_kb} KB; delays are one way.{interfaces} TCP with {}; RDMA by {by}{load}{time}.",
        tcp_control(choice.tcp.as_deref())?
    );
    let measure = match choice.mode {
        Mode::Goodput => {
            heading(choice.rounds);
            goodput
        }
        Mode::Latency => {
            latency::heading(choice.rounds);
            latency::measure
        }
        Mode::Share => {
            share::heading(choice.rounds);
            share::measure
        }
        Mode::Alike => {
            alike::heading(choice.rounds);
            alike::measure
        }
    };
    let mut failed = 0;
    for &path in &choice.paths {
        // What one path does to a measurement is no reason to leave out the others.
        if let Err(error) = measure(path, choice) {
            eprintln!("  {path}: {}: {error:#}", terminal::red("failed"));
            failed += 1;
        }
    }
    if failed > 0 {
        bail!("{failed} of {} paths could not be measured", choice.paths.len());
    }
    Ok(())
}

/// The congestion control that TCP is to have. Only what this machine's administrator allows can be chosen in another
/// namespace.
fn tcp_control(wanted: Option<&str>) -> Result<String> {
    let own =
        fs::read_to_string(TCP_CONTROL).with_context(|| format!("cannot read {TCP_CONTROL}"))?;
    let Some(wanted) = wanted else { return Ok(own.trim().to_owned()) };
    let allowed =
        fs::read_to_string(TCP_CONTROLS).with_context(|| format!("cannot read {TCP_CONTROLS}"))?;
    if !allowed.split_whitespace().any(|name| name == wanted) {
        bail!(
            "this kernel allows {}, not {wanted}\n hint: modprobe tcp_{wanted}; \
             sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{} {wanted}\"",
            allowed.trim(),
            allowed.trim()
        );
    }
    Ok(wanted.to_owned())
}

fn heading(rounds: usize) {
    println!(
        "Gb/s of goodput, and over TCP's: medians of {rounds}; below, least and most of the ratio.\n"
    );
    let [tcp, ours @ ..] = Traffic::ALL.map(Traffic::name);
    println!("  {:<28}{tcp:>6}{:>15}{:>15}{:>15}", "", ours[0], ours[1], ours[2]);
}

fn goodput(path: Path, choice: &Choice) -> Result<()> {
    let row = Row::measure(path, choice)?;
    row.print();
    all_measured(&row.values)
}

/// That each was measured once at least.
fn all_measured(values: &[Vec<Option<f64>>]) -> Result<()> {
    match values.iter().position(|values| values.iter().all(Option::is_none)) {
        Some(at) => bail!("{} was never measured", Traffic::ALL[at].name()),
        None => Ok(()),
    }
}

/// Two hosts at the ends of a path.
struct Joined {
    cable: Cable,
    hosts: [Host; 2],
    /// Where programs of each host run.
    labs: [Lab; 2],
}

impl Joined {
    /// The path is another in each round.
    fn by(path: Path, choice: &Choice, round: usize) -> Result<Self> {
        let line = Line {
            delay: Duration::from_micros(path.delay_us),
            jitter: Duration::from_micros(path.jitter_us),
            loss: path.loss_percent / 100.0,
            reordered: path.reordered_percent / 100.0,
            reordering: path.reordering,
            gbps: choice.gbps,
            queue_bytes: choice.queue_kb * 1000,
        };
        let cable = Cable::lay(choice.kind, line, round as u64)?;
        let hosts = hosts::join(path.mtu)?;
        if let Some(name) = &choice.tcp {
            for host in &hosts {
                host.run(&["sh", "-c", &format!("echo {name} > {TCP_CONTROL}")])?;
            }
        }
        let labs = labs(&hosts)?;
        Ok(Self { cable, hosts, labs })
    }

    /// What has become of the frames. First the cable goes: an interface goes with its host's namespace, and cannot be
    /// read from then on.
    fn part(self) -> Result<Counts> {
        let counts = self.cable.take_away()?;
        drop(self.hosts);
        Ok(counts)
    }
}

/// A value of a round, if there is one; why there is none is told.
fn told<T>(path: Path, of: Traffic, value: Result<T>) -> Option<T> {
    if let Err(error) = &value {
        eprintln!("  {path}: {} {}: {error:#}", of.name(), terminal::red("failed"));
    }
    value.ok()
}

/// Ratios of rounds, sorted.
fn ratios(ours: &[Option<f64>], tcp: &[Option<f64>]) -> Vec<f64> {
    sorted(ours.iter().zip(tcp).filter_map(|(ours, tcp)| Some((*ours)? / (*tcp)?)))
}

/// What was measured on a path.
struct Row {
    path: Path,
    /// For each figure the values of all rounds; `None` where it failed.
    values: [Vec<Option<f64>>; 4],
    counts: Counts,
}

impl Row {
    fn measure(path: Path, choice: &Choice) -> Result<Self> {
        let mut row = Self { path, values: Default::default(), counts: Counts::default() };
        for round in 0..choice.rounds {
            let joined = Joined::by(path, choice, round)?;
            for (traffic, values) in Traffic::ALL.into_iter().zip(&mut row.values) {
                let bulk = Pair::bulk(&joined.labs, traffic, choice.seconds, choice.events);
                values.push(told(path, traffic, bulk.and_then(Pair::run)));
            }
            row.counts = row.counts.plus(joined.part()?);
        }
        Ok(row)
    }

    fn print(&self) {
        let [tcp, ours @ ..] = &self.values;
        let ratios = ours.each_ref().map(|ours| ratios(ours, tcp));
        print!(
            "  {:<28}{:>6}",
            self.path.to_string(),
            median(&sorted(tcp.iter().flatten().copied()))
        );
        for (ours, ratios) in ours.iter().zip(&ratios) {
            let ours = sorted(ours.iter().flatten().copied());
            print!("{:>15}", format!("{} x{}", median(&ours), median(ratios)));
        }
        println!();
        let dropped = format!("queue full: {:.2} %", self.counts.dropped_part() * 100.0);
        print!("  {dropped:<34}");
        for ratios in &ratios {
            print!("{:>15}", spread(ratios));
        }
        println!();
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The least and the most.
fn spread(sorted: &[f64]) -> String {
    let ends = sorted.first().zip(sorted.last());
    ends.map_or("-".to_owned(), |(low, high)| format!("{low:.2}..{high:.2}"))
}

/// The middle one, as it is shown.
fn median(values: &[f64]) -> String {
    let middle = crate::median::median(&mut values.to_vec());
    middle.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

/// Where programs of each host run.
fn labs(hosts: &[Host; 2]) -> Result<[Lab; 2]> {
    let lab = |at: usize| -> Result<Lab> {
        Ok(Lab::open_on(ENDS[at], ADDRESSES[at])?.within(hosts[at].id()))
    };
    Ok([lab(0)?, lab(1)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Choice> {
        let words = line.split_whitespace().map(Into::into).collect();
        let mut arguments = Arguments::from_vec(words);
        let choice = Choice::parse(&mut arguments, 1)?;
        assert!(arguments.finish().is_empty(), "{line}");
        Ok(choice)
    }

    #[test]
    fn a_path_of_flags_is_shown_and_passed_on() {
        for (line, shown) in [
            ("--delay-us 1000", "1500 B,    1 ms, nothing lost"),
            ("--mtu 9000 --loss 0.1 --reordered 2", "9000 B,    0 ms, 0.1 % lost, 2 % reordered"),
            ("--delay-us 3000 --jitter-us 4000", "1500 B,    3 ms, 4 ms jitter"),
            ("--jitter-us 500 --loss 1", "1500 B,    0 ms, 0.5 ms jitter, 1 % lost"),
            ("--reordered 1 --late-us 200", "1500 B,    0 ms, 1 % reordered"),
            ("--reordered 1 --late-us 4500", "1500 B,    0 ms, 1 % late by 4.5 ms"),
            ("--delay-us 5000 --reordered 1 --ahead", "1500 B,    5 ms, 1 % ahead"),
        ] {
            let Choice { paths, words, .. } = parse(line).unwrap();
            assert_eq!(paths.iter().map(Path::to_string).collect::<Vec<_>>(), [shown], "{line}");
            // The first two are the rounds, which are read before.
            assert_eq!(parse(&words[2..].join(" ")).unwrap().paths, paths, "{line}");
        }
    }

    #[test]
    fn flags_that_say_nothing_together_are_refused() {
        for (line, why) in [
            ("--late-us 500", "--late-us is for what is reordered, and nothing is"),
            ("--delay-us 5000 --ahead --reordered 0", "--ahead is for what is reordered"),
            ("--delay-us 5000 --reordered 1 --ahead --late-us 500", "--late-us or --ahead"),
            ("--jitter-us 500 --reordered 1 --ahead", "--ahead skips the delay of the path"),
            ("--all --ahead", "--all, or one path by"),
            ("--all --jitter-us 500", "--all, or one path by"),
            ("--jitter-us 2e6", "--jitter-us is from 0 to 1000000, not 2000000"),
            ("--reordered 1 --late-us 0", "--late-us is from 1 to 1000000, not 0"),
        ] {
            let error = parse(line).err().map(|error| error.to_string());
            assert!(
                error.as_ref().is_some_and(|error| error.starts_with(why)),
                "{line}: {error:?}"
            );
        }
    }
}
