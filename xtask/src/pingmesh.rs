//! `cargo xtask pingmesh`: pingmesh between four hosts in network namespaces, one of which has a bad cable.
//!
//! ```text
//!   h0 ── veth ──┐
//!   h1 ── veth ──┤
//!   h2 ── cable ─┤ s0: a bridge of the kernel, in a namespace of its own, with the collector
//!   h3 ── veth ──┘
//!
//!   the cable: TAP ─ delay, loss ─ TAP (`network/cable.rs`); in the control row it has neither
//! ```
//!
//! Where UDP of RoCE alone is lost (by the host's own nftables), TCP beside it has to be found well; where all is lost, it
//! has to be found hurt, too.
//!
//! Where the cable is slow, a switch's saved counters say that its port has seen pauses: the collector joins them. Where it
//! loses packets, the switch's configuration has too little headroom: what doctor finds confirms the verdict. Where RoCE's
//! alone are lost, doctor has a configuration without fault, and nothing of it may be said.
//!
//! In the control row nobody may be called sick, and its collector is killed in the middle of a window and started
//! again: no window may be missing afterwards.

use core::fmt;
use core::time::Duration;
use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pico_args::Arguments;
use rustix::process::geteuid;

use crate::lab::{Lab, NOBODY, Running};
use crate::network::cable::{Cable, ENDS, Kind};
use crate::network::hop::Line;
use crate::network::hosts::Host;
use crate::tally::Tally;
use crate::{terminal, workspace};

const INSIDE: &str = "--inside";
const TOPOLOGY: &str = "scenarios/pingmesh/four-hosts.toml";
const HOSTS: usize = 4;
const SWITCH: &str = "s0";
/// The folder of what is saved of switches.
const COUNTERS: &str = "switches";
/// The folder of configurations, as doctor reads it.
const CLUSTER: &str = "cluster";
/// A switch against which doctor has nothing, and a headroom that is too little for one of its profiles.
const HEALTHY: &str = "examples/cluster-healthy/tor-1/config_db.json";
const XOFF: [&str; 2] = ["\"xoff\": \"38912\"", "\"xoff\": \"9728\""];
const COLLECTOR: &str = "10.80.0.254";
const PORT: u16 = 4792;
const MTU: u32 = 1500;
const WINDOW: Duration = Duration::from_secs(2);
/// Windows of the control row: as many as a verdict looks at.
const CONTROL_WINDOWS: u32 = 10;
/// How long the collector is away in the control row: longer than a window, so that each agent keeps one.
const AWAY: Duration = Duration::from_millis(4_500);
/// How long a sick host may stay undetected: that is not what is measured here.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(50);

/// What is wrong with the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    Slow,
    Lossy,
    /// Packets of RoCE are lost, and no others.
    RdmaLossy,
    /// The agent is killed, as on a host that crashes.
    Gone,
}

impl Fault {
    const ALL: [Self; 5] = [Self::Nothing, Self::Slow, Self::RdmaLossy, Self::Lossy, Self::Gone];

    const fn line(self) -> Line {
        let delay_us = if matches!(self, Self::Slow) { 3_000 } else { 0 };
        let loss = if matches!(self, Self::Lossy) { 0.05 } else { 0.0 };
        Line { delay: Duration::from_micros(delay_us), loss, ..Line::new(10.0, 1 << 20) }
    }

    /// What else it is to say of it, at once or later.
    const fn said_too(self) -> Option<&'static str> {
        match self {
            Self::Slow | Self::Lossy => Some(", TCP too"),
            Self::RdmaLossy => Some(", RDMA only"),
            Self::Nothing | Self::Gone => None,
        }
    }

    /// What the collector is to say, at first and by and by.
    fn expected(self, host: usize) -> Option<(String, Option<String>)> {
        let link = |what: &str| format!("link h{host}-{SWITCH}: {what}");
        match self {
            Self::Nothing => None,
            Self::Slow => Some((link("is slow"), None)),
            Self::Lossy | Self::RdmaLossy => Some((link("loses packets"), None)),
            // From outside a dead host looks like a dead link; and windows from before its end are judged, too.
            Self::Gone => Some((link("loses packets"), Some(link("carries nothing")))),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "a cable without fault; its collector is killed and comes back",
            Self::Slow => "a cable that delays by 3 ms each way",
            Self::Lossy => "a cable that loses 5 % each way",
            Self::RdmaLossy => "lost 8 % of RoCE's packets each way, and no others",
            Self::Gone => "an agent that is killed",
        })
    }
}

/// What was asked for on the command line.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Every fault, at every host.
    full: bool,
    draws: Option<u64>,
    inside: bool,
}

impl Choice {
    pub(crate) fn parse(arguments: &mut Arguments) -> Result<Self> {
        Ok(Self {
            full: arguments.contains("--full"),
            draws: arguments.opt_value_from_str("--draws")?,
            inside: arguments.contains(INSIDE),
        })
    }

    /// What is to be run was built before.
    pub(crate) const fn is_prepared(&self) -> bool {
        self.inside
    }

    /// A fault, the host that has it, and the seed of its cable.
    fn rows(&self) -> Vec<(Fault, usize, u64)> {
        let (faults, hosts) = match self.full {
            true => (&Fault::ALL[..], 0..HOSTS),
            false => (&Fault::ALL[..4], 2..3),
        };
        let draws = self.draws.unwrap_or(1);
        let each = |seed| {
            let hosts = hosts.clone();
            hosts.flat_map(move |host| faults.iter().map(move |&fault| (fault, host, seed)))
        };
        (0..draws).flat_map(each).collect()
    }
}

/// Fails where namespaces cannot be made.
pub(crate) fn prepare() -> Result<()> {
    if !geteuid().is_root() {
        bail!("network namespaces and TAP interfaces are made by root\n hint: sudo");
    }
    Ok(())
}

pub(crate) fn run(choice: &Choice) -> Result<Tally> {
    if !choice.inside {
        let mut command = Command::new("unshare");
        command.arg("--net").arg(env::current_exe()?).args(["pingmesh", INSIDE]);
        command.args(choice.full.then_some("--full"));
        let draws = choice.draws.map(|draws| draws.to_string());
        command.args(draws.iter().flat_map(|draws| ["--draws", draws]));
        return crate::tally::tests(&mut command);
    }
    workspace::run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    let lab = Lab::open()?;
    let mut tally = Tally::default();
    for (fault, host, seed) in choice.rows() {
        let (passed, said) = match row(&lab, fault, host, seed) {
            Ok(said) => (true, said),
            Err(why) => (false, format!("{why:#}")),
        };
        let mark = if passed { terminal::green("ok") } else { terminal::red("FAILED") };
        println!("{mark} h{host} has {fault}: {said}");
        tally.passed += usize::from(passed);
        tally.failed += usize::from(!passed);
    }
    println!("{tally}");
    Ok(tally)
}

/// The four hosts and the switch, for as long as this lives.
struct Network {
    hosts: Vec<Host>,
    cable: Option<Cable>,
    sick: usize,
}

impl Network {
    fn new(sick: usize, fault: Fault, seed: u64) -> Result<Self> {
        let ip = |words: &[&str]| workspace::run(Command::new("ip").args(words));
        ip(&["link", "add", SWITCH, "type", "bridge"])?;
        ip(&["address", "add", &format!("{COLLECTOR}/24"), "dev", SWITCH])?;
        ip(&["link", "set", SWITCH, "up"])?;
        let cable = Some(Cable::lay(Kind::Frames, fault.line(), seed)?);
        let hosts: Result<Vec<Host>> = (0..HOSTS).map(|_| Host::new()).collect();
        let network = Self { hosts: hosts?, cable, sick };
        for (at, host) in network.hosts.iter().enumerate() {
            let (near, far) = (format!("p{at}"), format!("q{at}"));
            let (port, end) = match at == sick {
                true => (ENDS[0], ENDS[1]),
                false => {
                    ip(&["link", "add", &near, "type", "veth", "peer", "name", &far])?;
                    (near.as_str(), far.as_str())
                }
            };
            ip(&["link", "set", port, "master", SWITCH])?;
            ip(&["link", "set", port, "up"])?;
            host.plug(end, &address(at), MTU)?;
        }
        if fault == Fault::RdmaLossy {
            for hook in ["input", "output"] {
                let chain = format!("{{ type filter hook {hook} priority 0; }}");
                let rule = "udp dport 4791 numgen random mod 100 < 8 drop";
                for words in [
                    "add table ip cable".to_owned(),
                    format!("add chain ip cable {hook} {chain}"),
                    format!("add rule ip cable {hook} {rule}"),
                ] {
                    network.hosts[sick].run(&["nft", &words])?;
                }
            }
        }
        Ok(network)
    }

    fn interface(at: usize, sick: usize) -> String {
        if at == sick { ENDS[1].to_owned() } else { format!("q{at}") }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(cable) = self.cable.take() {
            // What became of the frames is not asked here.
            let _ = cable.take_away();
        }
        // A namespace goes some time after its last process, and its interfaces with it: the next row has the same names.
        for at in (0..HOSTS).filter(|at| *at != self.sick) {
            let _ = workspace::run(Command::new("ip").args(["link", "delete", &format!("p{at}")]));
        }
        self.hosts.clear();
        let _ = workspace::run(Command::new("ip").args(["link", "delete", SWITCH]));
    }
}

fn address(host: usize) -> String {
    format!("10.80.0.{}", host + 1)
}

/// One network with its collector and agents.
struct Mesh<'a> {
    lab: &'a Lab,
    network: Network,
    sick: usize,
    name: String,
    collector: Running,
    agents: Vec<Running>,
    begun: Instant,
}

impl<'a> Mesh<'a> {
    fn new(lab: &'a Lab, fault: Fault, sick: usize, seed: u64) -> Result<Self> {
        let network = Network::new(sick, fault, seed)?;
        let name = format!("{fault:?}-{sick}-{seed}");
        let key = lab.folder().join("key");
        let topology = lab.folder().join("four-hosts.toml");
        fs::copy(workspace::root().join(TOPOLOGY), &topology)?;
        fs::write(&key, format!("{:032x}", fastrand::u128(..)))?;
        fs::create_dir_all(lab.folder().join(COUNTERS).join(SWITCH))?;
        count(lab, sick, 0)?;
        for file in [&key, &topology] {
            fs::set_permissions(file, fs::Permissions::from_mode(0o600))?;
            chown(file, Some(NOBODY), Some(NOBODY))?;
        }
        let beside: &[&str] = match fault {
            Fault::Slow => &["--counters", COUNTERS],
            Fault::Lossy | Fault::RdmaLossy => &["--cluster", CLUSTER],
            Fault::Nothing | Fault::Gone => &[],
        };
        configure(lab, fault == Fault::Lossy)?;
        let collector = collect(lab, &name, 0, beside)?;
        let mut mesh =
            Self { lab, network, sick, name, collector, agents: Vec::new(), begun: Instant::now() };
        mesh.agents = (0..HOSTS).map(|at| mesh.agent(at)).collect::<Result<_>>()?;
        Ok(mesh)
    }

    fn agent(&self, at: usize) -> Result<Running> {
        let ferroce = self.lab.command();
        let network = self.network.hosts[at].id();
        let mut command = self.lab.plain_within(network, &ferroce.to_string_lossy());
        command.args(["pingmesh", "agent", "--key", "key", "--verbose"]);
        command.args(["--collector", &format!("{COLLECTOR}:{PORT}"), "--host", &format!("h{at}")]);
        let interface = Network::interface(at, self.sick);
        command.args(["--dev", &format!("{interface}/{}", address(at))]);
        command.args(["--spool", &format!("spool-{}-{at}", self.name)]);
        self.lab.start(&format!("agent-{}-{at}", self.name), command)
    }

    /// The first thing that the collector calls sick, if it does in time, and after how long.
    fn sick(&self, patience: Duration) -> Result<Option<(String, Duration)>> {
        self.hears("SICK: ", patience)
    }

    /// What the collector prints behind a word.
    fn hears(&self, word: &str, patience: Duration) -> Result<Option<(String, Duration)>> {
        let begin = Instant::now();
        while begin.elapsed() < patience {
            count(self.lab, self.sick, self.begun.elapsed().as_millis())?;
            let printed = self.collector.printed()?;
            if let Some(line) = printed.lines().find_map(|line| line.strip_prefix(word)) {
                let named = line.split(", since").next().unwrap_or(line);
                return Ok(Some((named.to_owned(), self.begun.elapsed())));
            }
            sleep(GLANCE);
        }
        Ok(None)
    }

    /// Waits until the collector says something more of what it has called sick, and returns after how long.
    fn says_of(&self, named: &str, what: &str) -> Result<Duration> {
        let begin = Instant::now();
        loop {
            let printed = self.collector.printed()?;
            let found = printed.lines().any(|line| {
                let of = line.strip_prefix("SICK: ").or(line.strip_prefix("BY NOW: "));
                of.is_some_and(|line| line.starts_with(named) && line.contains(what))
            });
            if found {
                return Ok(self.begun.elapsed());
            }
            if begin.elapsed() > PATIENCE {
                bail!("the collector does not say \"{what}\" of {named}\n{printed}");
            }
            sleep(GLANCE);
        }
    }

    /// Ends all, and returns the report.
    fn end(self) -> Result<String> {
        let soon = Instant::now() + Duration::from_secs(10);
        for agent in self.agents {
            agent.interrupt()?;
            let ended = agent.finish(soon)?;
            if !ended.status.is_some_and(|status| status.success()) {
                bail!("an agent ended with {:?}: {}", ended.status, ended.stderr);
            }
        }
        self.collector.interrupt()?;
        let ended = self.collector.finish(soon)?;
        if !ended.status.is_some_and(|status| status.success()) {
            bail!("the collector ended with {:?}: {}", ended.status, ended.stderr);
        }
        let mut command = self.lab.plain(&self.lab.command().to_string_lossy());
        command.args(["pingmesh", "report", &format!("{}.db", self.name)]);
        command.args(["-o", &format!("{}.html", self.name)]);
        let report = self.lab.finish("report", command, Instant::now() + PATIENCE)?;
        if !report.status.is_some_and(|status| status.success()) {
            bail!("the report failed: {}", report.stderr);
        }
        Ok(report.stdout)
    }
}

/// Saves what the switch has counted: pauses at the port of the sick host.
fn count(lab: &Lab, sick: usize, pauses: u128) -> Result<()> {
    let line =
        |host| format!("{:>7}  {:>8}\n", format!("h{host}"), if host == sick { pauses } else { 0 });
    let lines: String = (0..HOSTS).map(line).collect();
    let text = format!("{:>7}  {:>8}\n-------  --------\n{lines}", "Port Rx", "PFC3");
    let file = lab.folder().join(COUNTERS).join(SWITCH).join("pfc-counters.txt");
    let beside = file.with_extension("new");
    fs::write(&beside, text)?;
    Ok(fs::rename(beside, file)?)
}

/// Saves how the switch is configured.
fn configure(lab: &Lab, too_little_headroom: bool) -> Result<()> {
    let mut text = fs::read_to_string(workspace::root().join(HEALTHY))?;
    if !text.contains(XOFF[0]) {
        bail!("{HEALTHY} has no {}", XOFF[0]);
    }
    if too_little_headroom {
        text = text.replace(XOFF[0], XOFF[1]);
    }
    let folder = lab.folder().join(CLUSTER).join(SWITCH);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join("config_db.json"), text)?)
}

fn collect(lab: &Lab, name: &str, part: u32, beside: &[&str]) -> Result<Running> {
    let mut command = lab.plain(&lab.command().to_string_lossy());
    command.args(["pingmesh", "collect", "--topology", "four-hosts.toml", "--key", "key"]);
    command.args(["--db", &format!("{name}.db"), "--listen", &format!("{COLLECTOR}:{PORT}")]);
    command.args(["--window-ms", &WINDOW.as_millis().to_string()]);
    command.args(beside);
    let mut collector = lab.start(&format!("collector-{name}-{part}"), command)?;
    if !collector.listens(PORT, Instant::now() + PATIENCE)? {
        bail!("the collector does not listen: {}", collector.finish(Instant::now())?.stderr);
    }
    Ok(collector)
}

/// Returns what was seen, or why that is wrong.
fn row(lab: &Lab, fault: Fault, host: usize, seed: u64) -> Result<String> {
    let mut mesh = Mesh::new(lab, fault, host, seed)?;
    let Some((first, then)) = fault.expected(host) else { return control(mesh) };
    if fault == Fault::Gone {
        sleep(3 * WINDOW);
        drop(mesh.agents.remove(host));
        mesh.begun = Instant::now();
    }
    let mut said = Vec::new();
    for (word, expected) in [("SICK: ", Some(first)), ("BY NOW: ", then)] {
        let Some(expected) = expected else { continue };
        match mesh.hears(word, PATIENCE)? {
            Some((named, after)) if named == expected => {
                said.push(format!("\"{named}\" after {:.1} s", after.as_secs_f64()));
            }
            other => bail!("not \"{expected}\" but {other:?}:\n{}", mesh.end()?),
        }
    }
    if let Some(too) = fault.said_too() {
        let after = mesh.says_of(&format!("link h{host}-{SWITCH}: "), too)?;
        said.push(format!("\"{}\" after {:.1} s", &too[2..], after.as_secs_f64()));
    }
    if fault == Fault::Slow {
        let printed = mesh.collector.printed()?;
        let agrees = format!("  agrees: the port of {SWITCH} to h{host} has seen ");
        if !printed.contains(", confirmed\n") || !printed.contains(&agrees) {
            bail!("the counters of the switch are not joined:\n{printed}");
        }
        said.push("confirmed by the switch's counters".to_owned());
    }
    let printed = mesh.collector.printed()?;
    let is_told = printed.contains(&format!("  agrees: doctor of {SWITCH}: FD003: "));
    if is_told != (fault == Fault::Lossy) || is_told && !printed.contains(", confirmed\n") {
        bail!("what doctor finds is not joined as it should be:\n{printed}");
    }
    if is_told {
        said.push("confirmed by what doctor finds".to_owned());
    }
    mesh.end()?;
    Ok(said.join(", "))
}

fn control(mut mesh: Mesh<'_>) -> Result<String> {
    let half = WINDOW * CONTROL_WINDOWS / 2;
    let called = |mesh: &Mesh<'_>, patience| match mesh.sick(patience)? {
        None => Ok(()),
        Some((named, _)) => bail!("{named} was called sick, and nothing was wrong"),
    };
    called(&mesh, half)?;
    // It has no time to say or to write anything.
    let (lab, name) = (mesh.lab, mesh.name.clone());
    mesh.collector.kill();
    sleep(AWAY);
    mesh.collector = collect(lab, &name, 1, &[])?;
    called(&mesh, half)?;
    let report = mesh.end()?;
    let line = |start: &str| report.lines().find(|line| line.starts_with(start));
    let verdict = line("verdict: ").context("the report has no verdict")?;
    let windows = line("windows: ").context("the report does not say how many windows it has")?;
    let is_whole = windows.contains(&format!("of {HOSTS} hosts, 0 missing"));
    if !verdict.starts_with("verdict: nothing wrong") || line("incident").is_some() || !is_whole {
        bail!("the report is not that of four healthy hosts without a missing window:\n{report}");
    }
    Ok(format!("{verdict}; {windows}"))
}
