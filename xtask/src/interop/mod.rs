//! `cargo xtask interop`: our soft NIC against the Linux kernel's Soft-RoCE (`rdma_rxe`).
//!
//! ```text
//!   network namespace, made for the run
//!   ┌──────────────────────────────────────────────────────────────────┐
//!   │  programs over Ferroce, as nobody        QEMU, without KVM       │
//!   │      device ferroce0 on tap0             ┌────────────────────┐  │
//!   │      10.77.0.1 ──────── tap0 ────────────│ eth0     10.77.0.2 │  │
//!   │                                          │ rxe0     programs  │  │
//!   │      this process ────── serial port ────│ /init              │  │
//!   │                                          └────────────────────┘  │
//!   └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The namespace belongs to no file: it, the tap and QEMU are gone when this process ends, for whatever
//! reason. One boot serves all cases. QEMU translates every instruction of the guest, so times mean
//! nothing here, and a guest that answers late is no error.

mod cases;
mod counters;
mod guest;
mod image;
mod pingmesh;

use core::time::Duration;
use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pico_args::Arguments;
use rustix::process::geteuid;

use crate::dist;
use crate::lab::{Ended, Lab, NOBODY, Running};
use crate::programs::{self, judge, matrix::Expect};
use crate::tally::{self, Tally};
use crate::workspace;
use cases::{Case, Meeting, Server, Side, Weather};
use counters::Counters;
use guest::{Done, Guest, Silent};
use image::Image;

const TAP: &str = "tap0";
const HOST: Side = Side { device: "ferroce0", address: "10.77.0.1" };
const GUEST: Side = Side { device: "rxe0", address: "10.77.0.2" };
/// Of the tap and of the guest's card, so that an RDMA MTU of 4096 fits.
const MTU: &str = "9000";
/// Length of the queue to the guest: more packets than any case has in flight, so none is dropped.
const QUEUE: &str = "10000";
/// The first port; each run of a program has its own.
const PORT: u16 = 20_000;
/// The UDP port of RoCEv2.
const ROCE_PORT: u16 = 4791;
/// How long a program may take, on either side.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_LOSS: Duration = Duration::from_secs(120);
const GLANCE: Duration = Duration::from_millis(5);
/// Packets for each queue pair that may come when the guest's program has ended, such as the
/// acknowledgement of its last message. The kernel does not count what comes for a queue pair that is gone.
const UNCOUNTED: u64 = 4;
/// Says that this process is in the namespace.
const INSIDE: &str = "--inside";

/// What was asked for on the command line.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    filter: Option<String>,
    /// How many connections within the guest to time; then nothing else runs.
    cmtime: Option<u32>,
    inside: bool,
}

impl Choice {
    pub(crate) fn parse(arguments: &mut Arguments) -> Result<Self> {
        let filter = arguments.opt_value_from_str("--filter")?;
        let cmtime = arguments.opt_value_from_str("--cmtime")?;
        Ok(Self { filter, cmtime, inside: arguments.contains(INSIDE) })
    }
}

/// Every case that was asked for.
pub(crate) fn run(choice: &Choice) -> Result<Tally> {
    if choice.inside {
        return run_inside(choice);
    }
    let mut command = Command::new("unshare");
    command.arg("--net").arg(env::current_exe()?).args(["interop", INSIDE]);
    if let Some(filter) = &choice.filter {
        command.args(["--filter", filter]);
    }
    if let Some(count) = choice.cmtime {
        command.args(["--cmtime", &count.to_string()]);
    }
    tally::tests(&mut command)
}

/// Downloads what the guest is made of.
///
/// # Errors
/// A machine that cannot have a guest, or cannot download it.
pub(crate) fn prepare(choice: &Choice) -> Result<()> {
    if choice.inside {
        return Ok(());
    }
    check_machine()?;
    workspace::run(Command::new(workspace::root().join("scripts/setup")).arg("interop"))?;
    dist::run()?;
    image::fetch()
}

/// Whether a guest and its network can be made here.
fn check_machine() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("the guest is made for x86-64");
    }
    if !geteuid().is_root() {
        bail!("a network namespace with a tap is made by root\n hint: sudo, or a container");
    }
    let tun = File::options().read(true).write(true).open("/dev/net/tun");
    tun.context("no tap without /dev/net/tun\n hint: modprobe tun, or --device /dev/net/tun")?;
    workspace::output(Command::new("unshare").args(["--net", "true"]))
        .context("no network namespace may be made\n hint: the capability CAP_SYS_ADMIN")?;
    Ok(())
}

/// The kernel's and ours, and what has been counted.
struct Bench {
    lab: Lab,
    image: Image,
    guest: Guest,
    /// Whether this is the second guest, because the kernel of the first stood still.
    is_second: bool,
    port: u16,
    /// The guest's counters after the previous case.
    earlier: BTreeMap<String, u64>,
    ours: BTreeMap<String, u64>,
}

/// One run of a case: what both sides printed and counted meanwhile.
struct Outcome {
    kernel: Done,
    ferroce: Ended,
    ours: BTreeMap<String, u64>,
    theirs: BTreeMap<String, u64>,
    /// Packets that the tap dropped because the guest did not take them.
    dropped: u64,
}

fn run_inside(choice: &Choice) -> Result<Tally> {
    let start = Instant::now();
    make_tap()?;
    let lab = Lab::open()?;
    let integrity = PathBuf::from(lab.compile(cases::INTEGRITY, &SOURCES)?);
    let image = image::build(&[integrity, lab.command()])?;
    let guest = Guest::boot(&image)?;
    println!(
        "Linux {} under QEMU, booted in {:.0} s; programs over Ferroce run as {}",
        guest.kernel,
        start.elapsed().as_secs_f64(),
        lab.user()
    );
    if let Some(count) = choice.cmtime {
        return cmtime(guest, count);
    }
    let (earlier, ours) = (BTreeMap::new(), BTreeMap::new());
    let mut bench = Bench { lab, image, guest, is_second: false, port: PORT, earlier, ours };
    let mut tally = Tally::default();
    let mut weather = Weather::Clear;
    let wanted = |case: &Case| choice.filter.as_ref().is_none_or(|f| case.name().contains(f));
    for case in cases::all().into_iter().filter(wanted) {
        if weather != case.weather {
            weather = case.weather;
            bench.guest.set_weather(weather)?;
        }
        for &server in case.servers() {
            bench.judge(&case, server, &mut tally)?;
        }
    }
    if choice.filter.as_ref().is_none_or(|f| pingmesh::NAME.contains(f)) {
        bench.guest.set_weather(Weather::Clear)?;
        let (word, said) = match pingmesh::run(&bench.lab, &mut bench.guest) {
            Ok(said) => ("ok  ", said),
            Err(why) => ("FAIL", format!("{why:#}")),
        };
        println!("  {word}                          {}: {said}", pingmesh::NAME);
        tally.passed += usize::from(word == "ok  ");
        tally.failed += usize::from(word == "FAIL");
    }
    bench.sum_up();
    println!("{:.0} s", start.elapsed().as_secs_f64());
    println!("{tally}");
    Ok(tally)
}

/// Connections from the kernel to itself: a rough reference for `cargo xtask bench connections`, because
/// the processor is emulated.
fn cmtime(mut guest: Guest, count: u32) -> Result<Tally> {
    let words = [image::CMTIME.0.to_owned(), GUEST.address.to_owned(), count.to_string()];
    let job = guest.start(&words, PATIENCE_LOSS.as_secs())?;
    let done = guest.finish(&job, || ())?;
    print!("{}", done.printed);
    let passed = usize::from(done.status == 0);
    let tally = Tally { passed, failed: 1 - passed };
    println!("{tally}");
    Ok(tally)
}

/// What `integrity` is compiled of.
const SOURCES: [&str; 2] = ["examples/c/integrity.c", "examples/c/peer.c"];

fn make_tap() -> Result<()> {
    let address = format!("{}/24", HOST.address);
    for line in [
        &["link", "set", "lo", "up"][..],
        &["tuntap", "add", TAP, "mode", "tap"],
        &["address", "add", &address, "dev", TAP],
        &["link", "set", TAP, "mtu", MTU, "txqueuelen", QUEUE, "up"],
    ] {
        workspace::run(Command::new("ip").args(line))?;
    }
    Ok(())
}

impl Bench {
    /// Runs a case and prints its line.
    fn judge(&mut self, case: &Case, server: Server, tally: &mut Tally) -> Result<()> {
        let start = Instant::now();
        let mut result = match self.run(case, server) {
            Err(error) if error.is::<Silent>() && !self.is_second => {
                println!("  again          {}: {error}", case.name());
                self.boot_anew(case.weather)?;
                self.run(case, server)?
            }
            ran => ran?,
        };
        if let Ok(outcome) = &result
            && let Some(why) = excuse(case, server, outcome)
        {
            println!("  again          {}: {why}", case.name());
            result = self.run(case, server)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(failure) => {
                println!("  FAIL {seconds:5.1} s  ferroce serves  {}", case.name());
                println!("{}", programs::indent(&failure));
                tally.failed += 1;
                return Ok(());
            }
        };
        let side = match server {
            Server::Kernel => "kernel ",
            Server::Ferroce => "ferroce",
        };
        let verdict = verdict(case, server, &outcome);
        let word = if verdict.is_ok() { "ok  " } else { "FAIL" };
        let name = case.name();
        println!("  {word} {seconds:5.1} s  {side} serves  {name}{}", remarks(&outcome));
        match verdict {
            Ok(()) => tally.passed += 1,
            Err(failure) => {
                tally.failed += 1;
                println!("{}", programs::indent(&failure));
                println!("{}", programs::indent(&counted(&outcome)));
            }
        }
        for (name, value) in outcome.ours {
            *self.ours.entry(name).or_default() += value;
        }
        Ok(())
    }

    /// Another guest in the place of one that stands still. Its counters begin anew.
    fn boot_anew(&mut self, weather: Weather) -> Result<()> {
        self.guest.end();
        self.guest = Guest::boot(&self.image)?;
        self.is_second = true;
        self.earlier.clear();
        self.guest.set_weather(weather)
    }

    /// The outer error is ours; the inner one says that a server does not come up here.
    fn run(&mut self, case: &Case, server: Server) -> Result<Result<Outcome, String>> {
        self.port += 1;
        let port = case.fixed_port().unwrap_or(self.port);
        let patience = if case.weather == Weather::Clear { PATIENCE } else { PATIENCE_LOSS };
        let deadline = Instant::now() + patience;
        let dropped = tap_drops()?;
        let (kernel, ferroce, ours) = match server {
            Server::Kernel => {
                let line = case.line(GUEST, port, None);
                let job = self.guest.serve(&line, (case.meeting, port), patience.as_secs())?;
                let line = case.line(HOST, port, Some(GUEST));
                let (ferroce, ours) = self.watch(self.start(case, &line)?, deadline)?;
                if !ferroce.status.is_some_and(|status| status.success()) {
                    self.guest.stop(&job)?;
                }
                (self.guest.finish(&job, || ())?, ferroce, ours)
            }
            Server::Ferroce => {
                let mut running = self.start(case, &case.line(HOST, port, None))?;
                let mut counters = Counters::of(running.id(), user());
                let listens = match case.meeting {
                    Meeting::Tcp => running.listens(port, deadline)?,
                    Meeting::Cm => running.listens_for_cm(port, deadline)?,
                    Meeting::Group => {
                        running.has_joined(&cases::GROUP.to_string(), ROCE_PORT, deadline)?
                    }
                };
                if !listens {
                    let ended = running.finish(Instant::now())?;
                    let printed = [&ended.stdout, &ended.stderr];
                    return Ok(Err(programs::described("ferroce", "does not listen", printed)));
                }
                counters.look();
                let line = case.line(GUEST, port, Some(HOST));
                let job = self.guest.start(&line, patience.as_secs())?;
                let kernel = self.guest.finish(&job, || counters.look())?;
                let patience = if kernel.status == 0 { PATIENCE } else { Duration::ZERO };
                let deadline = Instant::now() + patience;
                let (ferroce, ours) = watch(running, counters, deadline)?;
                (kernel, ferroce, ours)
            }
        };
        let now = kernel.counters.clone();
        let theirs = now
            .iter()
            .map(|(name, value)| {
                let before = self.earlier.get(name).copied().unwrap_or_default();
                (name.clone(), value.saturating_sub(before))
            })
            .collect();
        self.earlier = now;
        let dropped = tap_drops()? - dropped;
        Ok(Ok(Outcome { kernel, ferroce, ours, theirs, dropped }))
    }

    fn start(&self, case: &Case, words: &[String]) -> Result<Running> {
        let mut flags = vec!["--dev".to_owned(), TAP.to_owned()];
        if let Some(faults) = case.weather.of_ferroce() {
            flags.extend(["--faults".to_owned(), faults.to_owned()]);
        }
        let mut words = words.to_vec();
        if words[0] == cases::INTEGRITY {
            words[0] = self.lab.compile(cases::INTEGRITY, &SOURCES)?;
        }
        if words[0] == cases::BENCH {
            words[0] = self.lab.command().to_string_lossy().into_owned();
        }
        self.lab.start("ferroce", self.lab.run(&flags, &words))
    }

    fn watch(&self, running: Running, deadline: Instant) -> Result<(Ended, BTreeMap<String, u64>)> {
        let counters = Counters::of(running.id(), user());
        watch(running, counters, deadline)
    }

    /// Both sides' counters of all cases together.
    fn sum_up(&self) {
        for (side, counters) in [("ferroce", &self.ours), ("kernel", &self.earlier)] {
            let counted: Vec<String> = counters
                .iter()
                .filter(|(name, value)| **value > 0 || *name == "rx_icrc_encapsulated")
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            println!("{side}: {}", counted.join(", "));
        }
    }
}

/// The user that programs over Ferroce run as.
fn user() -> u32 {
    if geteuid().is_root() { NOBODY } else { geteuid().as_raw() }
}

/// Waits for the end of a program, and reads its counters meanwhile.
fn watch(
    mut running: Running,
    mut counters: Counters,
    deadline: Instant,
) -> Result<(Ended, BTreeMap<String, u64>)> {
    while !running.has_ended()? && Instant::now() < deadline {
        counters.look();
        sleep(GLANCE);
    }
    let ended = running.finish(Instant::now())?;
    Ok((ended, counters.read()))
}

/// What the tap has dropped on the way to the guest.
fn tap_drops() -> Result<u64> {
    let table = fs::read_to_string("/proc/net/dev")?;
    let prefix = format!("{TAP}:");
    let line = table.lines().find_map(|line| line.trim().strip_prefix(&prefix));
    // Eight columns of what was received, then bytes, packets, errors, drops of what was sent.
    let drops = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    drops.with_context(|| format!("/proc/net/dev has no row for {TAP}"))
}

fn verdict(case: &Case, server: Server, outcome: &Outcome) -> Result<(), String> {
    let Outcome { kernel, ferroce, ours, .. } = outcome;
    if kernel.status != 0 {
        return Err(programs::described(
            "kernel",
            &format!("exit status {}", kernel.status),
            [&kernel.printed, &ferroce.stdout, &ferroce.stderr],
        ));
    }
    let side = "ferroce";
    let texts = [&ferroce.stdout, &ferroce.stderr, &kernel.printed];
    match ferroce.status {
        None => return Err(programs::described(side, "did not end in time", texts)),
        Some(status) if !status.success() => {
            return Err(programs::described(side, &status.to_string(), texts));
        }
        Some(_) => {}
    }
    for (stdout, stderr) in [(&*ferroce.stdout, &*ferroce.stderr), (&*kernel.printed, "")] {
        if let Some(line) = judge::complaint(stdout, stderr) {
            return Err(format!("complains: {}", line.trim()));
        }
    }
    let client = if server == Server::Kernel { &ferroce.stdout } else { &kernel.printed };
    judge::results(case.expect, client)?;
    if case.expect == Expect::Pingpong {
        judge::results(case.expect, &ferroce.stdout)?;
        judge::results(case.expect, &kernel.printed)?;
    }

    let our = |name: &str| ours.get(name).copied().unwrap_or_default();
    if our("rx_packets") + our("tx_packets") == 0 {
        return Err("no packet was counted: nothing went over the wire".to_owned());
    }
    let refused = |name: &&String| name.starts_with("rx_icrc") || name.starts_with("rx_malformed");
    if let Some(name) = ours.keys().filter(refused).find(|name| our(name) > 0) {
        return Err(format!("{name} is {}: the kernel's packets are good", our(name)));
    }
    // The kernel has no counter of wrong ICRCs, but counts as received what had the right one.
    let refused = refused_by_kernel(outcome);
    match case.weather {
        Weather::Corruption if our("fault_corrupted") > 2 * UNCOUNTED && refused <= UNCOUNTED => {
            return Err("the kernel took packets that were corrupted".to_owned());
        }
        Weather::Clear | Weather::Loss if refused > UNCOUNTED * case.queue_pairs() => {
            return Err(format!("the kernel has refused {refused} of our packets"));
        }
        _ => {}
    }
    // Late answers explain timeouts. A gap in the sequence is a loss, and here there was none.
    let gaps = our("rcvd_seq_err") + our("send_seq_err") + our("implied_nak_seq_err");
    let explained = our("rx_buffer_overflow") + our("tx_dropped") + outcome.dropped > 0;
    if case.weather == Weather::Clear && gaps > 0 && !explained {
        return Err("packets were missing, and nothing explains it".to_owned());
    }
    Ok(())
}

/// Why a failed case is run once more, if the failure says nothing about either transport.
fn excuse(case: &Case, server: Server, outcome: &Outcome) -> Option<&'static str> {
    if outcome.kernel.status != 0 {
        return None;
    }
    // One packet in a hundred is lost, and it may be the last one. The kernel's program then had
    // everything, and its queue pairs were gone when our side asked for that packet again.
    let gave_up = outcome.ours.get("retry_exceeded_err").is_some_and(|&count| count > 0);
    if case.weather == Weather::Loss && gave_up {
        return Some("the kernel's last acknowledgement was lost");
    }
    if case.expect != Expect::Results {
        return None;
    }
    match server {
        // Those of an emulated processor do so most often, and no row at all is another sign of it.
        Server::Ferroce if judge::results(case.expect, &outcome.kernel.printed).is_err() => {
            Some("the guest's clock gave no figure")
        }
        Server::Kernel if judge::clock_went_back(&outcome.ferroce.stdout) => {
            Some("this host's clock gave no figure")
        }
        _ => None,
    }
}

/// Packets of ours that reached the kernel and that it did not count.
fn refused_by_kernel(outcome: &Outcome) -> u64 {
    let sent = outcome.ours.get("tx_packets").copied().unwrap_or_default();
    let taken = outcome.theirs.get("rcvd_pkts").copied().unwrap_or_default();
    sent.saturating_sub(taken + outcome.dropped)
}

/// What was repeated, or lost without injection.
fn remarks(outcome: &Outcome) -> String {
    let our = |name: &str| outcome.ours.get(name).copied().unwrap_or_default();
    let their = |name: &str| outcome.theirs.get(name).copied().unwrap_or_default();
    let mut remarks = String::new();
    for (count, what) in [
        (our("retransmitted_pkts"), "sent again"),
        (our("duplicate_request"), "received again"),
        (our("local_ack_timeout_err"), "timeouts"),
        (their("completer_retry_err"), "retries of the kernel"),
        (our("rx_buffer_overflow"), "dropped by our socket"),
        (outcome.dropped, "dropped by the tap"),
        (refused_by_kernel(outcome), "not taken by the kernel"),
    ] {
        if count > 0 {
            remarks.push_str(&format!("; {count} {what}"));
        }
    }
    remarks
}

fn counted(outcome: &Outcome) -> String {
    let line = |side: &str, counters: &BTreeMap<String, u64>| {
        let counted: Vec<String> = counters
            .iter()
            .filter(|(_, value)| **value > 0)
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        format!("{side} counted: {}", counted.join(", "))
    };
    format!("{}\n{}", line("ferroce", &outcome.ours), line("kernel", &outcome.theirs))
}
