//! `cargo xtask bench lab`: what a lab carries, how late it is and what it costs, beside its goals.
//!
//! ```text
//!   latency    UDP, lab, UDP, lab, ...      medians of the rounds, and of their ratios
//!   networks   up ─► at rest ─► half of the hosts send to the other half ─► down
//! ```
//!
//! Programs wait for events (`-e`), because dozens that poll would leave the lab no processor. What one processor of
//! the lab carries follows from what it carries at factor 1, where links are faster than programs, and how much of one it
//! takes.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::thread::{available_parallelism, sleep};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::up::{PATIENCE, Pair, Up, succeeded};
use crate::lab::{Lab, free_port};
use crate::median::median;
use crate::terminal;

/// How long each network is looked at, at rest and at work.
const WATCHED: Duration = Duration::from_secs(4);
/// Until all programs have found each other.
const SETTLED: Duration = Duration::from_secs(2);
/// The clock of `/proc/PID/stat` (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Goals of the lab.
const LATENCY_TIMES: f64 = 3.0;
const CARRIED: f64 = 300_000.0;
const UP_MAX: Duration = Duration::from_secs(10);
const REST_PERCENT: f64 = 1.0;

/// A network of 10 Gb/s links.
struct Size {
    hosts: u32,
    switches: u32,
    shape: &'static str,
}

const SIZES: [Size; 4] = [
    Size { hosts: 2, switches: 1, shape: r#"shape = "single-switch", hosts = 2"# },
    Size { hosts: 4, switches: 2, shape: r#"shape = "parking-lot", switches = 2"# },
    Size {
        hosts: 8,
        switches: 3,
        shape: r#"shape = "leaf-spine", leaves = 2, hosts = 4, spines = 1"#,
    },
    Size {
        hosts: 64,
        switches: 10,
        shape: r#"shape = "leaf-spine", leaves = 8, hosts = 8, spines = 2"#,
    },
];

/// A lab at a moment.
struct Moment {
    /// Since it has begun.
    wall: f64,
    slips: u64,
    slipped: f64,
    /// Packets that links have carried.
    hops: f64,
    /// Packets that programs have sent.
    sent: f64,
    /// Of a processor.
    used: f64,
}

impl Moment {
    fn of(up: &Up<'_>) -> Result<Self> {
        let seen: Value = serde_json::from_str(&up.ask(&["counters", "--json"])?)?;
        let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or(0.0);
        let programs = seen["programs"].as_array().context("a lab says which programs it has")?;
        Ok(Self {
            wall: number(&seen, "wall_ns") / 1e9,
            slips: seen["slips"].as_u64().unwrap_or(0),
            slipped: number(&seen, "slipped_ns") / 1e9,
            hops: number(&seen, "link_hops"),
            sent: programs.iter().map(|program| number(program, "sent")).sum(),
            used: processor_seconds(up.process.id())?,
        })
    }
}

/// What a process has had of a processor.
fn processor_seconds(process: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Names may have blanks and brackets in them.
    let (_, rest) = text.rsplit_once(") ").context("a process has a name")?;
    let fields: Vec<f64> = rest.split(' ').skip(11).take(2).flat_map(str::parse).collect();
    ensure!(fields.len() == 2, "/proc/{process}/stat has too few fields");
    Ok((fields[0] + fields[1]) / TICKS)
}

/// How many threads of the machine run or want to.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = available_parallelism().map_or(1, usize::from);
    let now = text.split(' ').next().unwrap_or_default();
    format!("load {now} on {processors} processors")
}

pub(crate) fn run(rounds: usize) -> Result<()> {
    let lab = Lab::open()?;
    println!("{}", load());
    latency(&lab, rounds)?;
    terminal::heading(
        "networks of 10 Gb/s, frames of 1,024 bytes; half of the hosts send to the other half",
    );
    for size in SIZES {
        network(&lab, &size)?;
    }
    fastest(&lab)?;
    println!("{}", load());
    Ok(())
}

fn verdict(is_met: bool) -> String {
    if is_met { terminal::green("met") } else { terminal::red("missed") }
}

fn file_of(lab: &Lab, size: &Size) -> Result<PathBuf> {
    let path = lab.folder().join(format!("{}.toml", size.hosts));
    let shape = size.shape;
    let text = format!(
        "title = \"{} hosts\"\nend_ms = 1\ntopology = {{ {shape}, rate_gbps = 10, cable_m = 2 }}\n\
         nic = {{ mtu_bytes = 1024 }}\n",
        size.hosts
    );
    fs::write(&path, text)?;
    Ok(path)
}

/// Two programs that write eight bytes to and fro, by UDP and in a lab, in turns.
fn latency(lab: &Lab, rounds: usize) -> Result<()> {
    const WORDS: [&str; 8] = ["ib_write_lat", "-d", "ferroce0", "-s", "8", "-n", "20000", "-F"];
    terminal::heading("ib_write_lat -s 8, typical, us: two hosts at one switch, factor 1");
    let file = file_of(lab, &SIZES[0])?;
    let up = Up::begin_with(lab, 'l', &[&file.to_string_lossy(), "--factor", "1"])?;
    let (mut all, mut ratios) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let udp = by_udp(lab, &WORDS)?;
        let Pair { server, client } = up.two("latency", &WORDS)?;
        let deadline = Instant::now() + PATIENCE;
        let [client, server] = [client.finish(deadline)?, server.finish(deadline)?];
        ensure!(succeeded(&client) && succeeded(&server), "{}{}", client.stdout, client.stderr);
        let own = typical(&client.stdout).context("ib_write_lat prints a table")?;
        println!("  round {round}: UDP {udp:.2}, lab {own:.2}");
        all.push(own);
        ratios.push(own / udp);
    }
    let medians = median(&mut all).zip(median(&mut ratios));
    let (typical, ratio) = medians.context("no round was measured")?;
    println!(
        "  lab {typical:.2} us, {ratio:.2} times UDP ({:.2} to {:.2}); goal: at most {LATENCY_TIMES} times: {}",
        ratios[0],
        ratios[ratios.len() - 1],
        verdict(ratio <= LATENCY_TIMES)
    );
    up.down()
}

fn by_udp(lab: &Lab, words: &[&str]) -> Result<f64> {
    let port = free_port()?.to_string();
    let flags = ["--link", "udp"].map(str::to_owned);
    let words = [words, &["-p", &port]].concat();
    let deadline = Instant::now() + PATIENCE;
    let mut server = lab.start("udp-server", lab.run(&flags, &words))?;
    ensure!(server.listens(port.parse()?, deadline)?, "the server does not listen");
    let words = [&words[..], &["127.0.0.1"]].concat();
    let client = lab.finish("udp-client", lab.run(&flags, &words), deadline)?;
    server.finish(deadline)?;
    ensure!(succeeded(&client), "{}{}", client.stdout, client.stderr);
    typical(&client.stdout).context("ib_write_lat prints a table")
}

/// Of what perftest prints of latencies: bytes, iterations, least, most, typical, ...
fn typical(text: &str) -> Option<f64> {
    let row = text.lines().find(|line| line.split_whitespace().next() == Some("8"))?;
    row.split_whitespace().nth(4)?.parse().ok()
}

fn network(lab: &Lab, size: &Size) -> Result<()> {
    let file = file_of(lab, size)?;
    let begin = Instant::now();
    let up = Up::begin_with(lab, 'n', &[&file.to_string_lossy()])?;
    let begun = begin.elapsed();
    let status = up.status()?;
    let time = status.lines().find_map(|line| line.trim().strip_prefix("time "));
    println!("{} hosts, {} switches", size.hosts, size.switches);
    println!("  {}", time.context("a lab says its factor")?.trim());
    println!(
        "  up after {:.2} s; goal: at most {} s: {}",
        begun.as_secs_f64(),
        UP_MAX.as_secs(),
        verdict(begun <= UP_MAX)
    );
    let before = Moment::of(&up)?;
    sleep(WATCHED);
    let after = Moment::of(&up)?;
    let rest = 100.0 * (after.used - before.used) / (after.wall - before.wall);
    println!(
        "  at rest {rest:.2} % of a processor; goal: below {REST_PERCENT} %: {}",
        verdict(rest < REST_PERCENT)
    );
    work(&up, size.hosts)?.print();
    up.down()
}

/// As much as programs can send: at factor 1 the links are faster than they are, and the lab seldom looks for work in vain.
fn fastest(lab: &Lab) -> Result<()> {
    let size = &SIZES[1];
    let file = file_of(lab, size)?;
    let up = Up::begin_with(lab, 's', &[&file.to_string_lossy(), "--factor", "1"])?;
    let work = work(&up, size.hosts)?;
    println!(
        "{} hosts, {} switches, factor 1: links are faster than programs",
        size.hosts, size.switches
    );
    work.print();
    let carried = work.packets / work.share.max(1e-9);
    println!(
        "  one processor carries {carried:.0} packets/s; goal: at least {CARRIED}: {}",
        verdict(carried >= CARRIED)
    );
    up.down()
}

/// What a lab did while programs worked. Rates are in seconds of the wall.
struct Work {
    pairs: u32,
    packets: f64,
    switches: f64,
    /// Of a processor.
    share: f64,
    slips: u64,
    slipped_percent: f64,
}

/// Half of the hosts send to the other half.
fn work(up: &Up<'_>, hosts: u32) -> Result<Work> {
    let words =
        ["ib_send_bw", "-d", "ferroce0", "-e", "-s", "65536", "-u", "20", "-n", "1000000", "-F"];
    let half = hosts / 2;
    let mut pairs = Vec::new();
    for pair in 0..half {
        let hosts = [half + pair, pair].map(|host| format!("h{host}"));
        pairs.push(up.two_on([&hosts[0], &hosts[1]], &format!("pair{pair}"), &words)?);
    }
    sleep(SETTLED);
    let before = Moment::of(up)?;
    sleep(WATCHED);
    let after = Moment::of(up)?;
    drop(pairs);
    let wall = after.wall - before.wall;
    let [sent, hops] = [after.sent - before.sent, after.hops - before.hops];
    ensure!(sent > 0.0, "nothing was sent");
    Ok(Work {
        pairs: half,
        packets: sent / wall,
        switches: hops / sent - 1.0,
        share: (after.used - before.used) / wall,
        slips: after.slips - before.slips,
        slipped_percent: 100.0 * (after.slipped - before.slipped) / wall,
    })
}

impl Work {
    fn print(&self) {
        let Self { pairs, packets, switches, share, slips, slipped_percent } = self;
        println!(
            "  {pairs} pairs of programs: {packets:.0} packets/s through {switches:.1} switches each, for {:.0} % of a \
             processor in the lab",
            100.0 * share
        );
        if *slips == 0 {
            println!("  factor kept");
        } else {
            println!(
                "  factor NOT kept: fell behind {slips} times, by {slipped_percent:.2} % of the time"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typical_latency_is_in_the_fifth_column() {
        let text = " #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec]\n 8       20000       \
                    3.1         90.2        7.5       7.9 \n";
        assert_eq!(typical(text), Some(7.5));
        assert_eq!(typical("Failed status 12"), None);
    }

    #[test]
    fn this_process_has_had_some_of_a_processor() {
        assert!(processor_seconds(std::process::id()).is_ok_and(|used| used >= 0.0));
    }
}
