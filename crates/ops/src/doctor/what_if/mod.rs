//! What a fault would do: the simulator's network from the very files, as it runs and as it is desired.
//!
//! ```text
//!   Diagnosis ─► Wiring, maps, buffers, alpha, PFC, ECN, watchdogs ─► running ─┬─ without the fault: control
//!        └─────► desired.toml over it ──────────────────────────────► desired ─┴─ with the fault
//! ```
//!
//! Each draw has a seed: which server the fault is at, where messages go and when, and which of several next hops they
//! take. All four rows of a draw have the same messages and the same window of time. A **victim** is a host, other than
//! the one with the fault, whose messages to others are fewer or slower with the fault than without.
//!
//! What is deliberately absent: what an application does about a slow message, and what routing does about a link.

mod network;
mod report;

use core::fmt;

use fabric::fault::{Fault, FaultKind};
use fabric::random::Random;
use fabric::workload::{FlowSpec, Interval};
use fabric::{Network, NetworkConfig, Verdict};
use rdma::{Span, Time};

use super::Diagnosis;
use super::limits::{VICTIM_SHARE, VICTIM_TIMES, WHAT_IF_HOSTS_MAX};

pub use report::{json, text};

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhatIf {
    /// The NIC of a server stands still, and pauses without end (guo16, 4.3 and 6.2).
    Storm,
    /// Servers answer one all at once, every millisecond (guo16, 6.2).
    Incast,
    /// A server dies, and its switch has forgotten its port but not its address (guo16, 4.2).
    DeadServer,
}

impl WhatIf {
    /// As the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Storm => "storm",
            Self::Incast => "incast",
            Self::DeadServer => "dead-server",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Storm => "the NIC of a server pauses without end",
            Self::Incast => "all servers send to one at once, every millisecond",
            Self::DeadServer => "a server dies, and its switch has forgotten its port",
        }
    }
}

/// Why nothing can be simulated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoTrial {
    what: String,
    hint: String,
}

impl NoTrial {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for NoTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.what, self.hint)
    }
}

impl core::error::Error for NoTrial {}

/// Messages of the traffic that suffers: of 64 KiB, as in guo16, 4.3.
const MESSAGE_BYTES: u32 = 65_536;
/// To so many others each host sends.
const PEERS: u32 = 4;
/// Messages that a host may send in the window, and that all may.
const MESSAGES: (u64, u64) = (300, 20_000);
/// Messages of a flow that may be under way; one that is due beyond is left out.
const DEPTH: u32 = 8;
/// When the fault happens.
const FAULT_AT: Time = Time::from_ps(100_000_000);
/// A round of an incast: how much comes, from how many at most, and how often.
const ROUND_BYTES: u32 = 2 << 20;
const SENDERS_MAX: usize = 64;
const ROUND: Span = Span::from_ms(1);
/// Windows of time.
const INCAST_WINDOW: Span = Span::from_ms(20);
const WINDOW: (Span, Span) = (Span::from_ms(100), Span::from_ms(4_000));

/// The networks of a what-if.
#[derive(Clone, Debug)]
pub struct Trial {
    what: WhatIf,
    /// Running, and desired if a file says what that is.
    columns: Vec<(&'static str, network::Built)>,
    /// What was assumed, in sentences.
    pub assumed: Vec<String>,
    hosts: Vec<String>,
    switches: Vec<String>,
    /// The server with the fault; otherwise each draw takes another.
    at: Option<u32>,
    window: Span,
    draws: u64,
}

/// What became of a host.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fate {
    /// Messages completed with the fault, over those without; of the whole.
    pub delivered: f64,
    /// What the slowest hundredth of its messages took, in milliseconds, without the fault and with it.
    pub slowest_ms: [f64; 2],
}

impl Fate {
    /// Whether it is one of the victims.
    pub fn is_victim(&self) -> bool {
        let [without, with] = self.slowest_ms;
        self.delivered < VICTIM_SHARE || with > without * VICTIM_TIMES
    }
}

/// What a draw came to under one configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// By host; `None` for that with the fault, and for hosts that sent nothing.
    pub hosts: Vec<Option<Fate>>,
    /// Pauses that each switch sent with the fault, and without.
    pub pauses: Vec<[u64; 2]>,
    /// Servers that received pauses with the fault.
    pub paused_servers: usize,
    /// Packets dropped with the fault.
    pub drops: u64,
    /// Storms that watchdogs of switches found.
    pub detected: u64,
    /// The switches of a circle that stands still.
    pub deadlock: Option<String>,
}

/// A draw.
#[derive(Clone, PartialEq, Debug)]
pub struct Draw {
    /// The host with the fault.
    pub at: u32,
    /// By column.
    pub outcomes: Vec<Outcome>,
}

impl Trial {
    /// The networks of what was read. `at` is the host with the fault.
    ///
    /// # Errors
    /// [`NoTrial`] if there are no links, too few hosts, or no host of that name.
    pub fn new(
        diagnosis: &Diagnosis,
        what: WhatIf,
        at: Option<&str>,
        draws: u64,
    ) -> Result<Self, NoTrial> {
        let links =
            "add lldp.json or lldp.txt to the devices, or DEVICE_NEIGHBOR to config_db.json";
        let mut assumed = Vec::new();
        let running = network::Built::of(diagnosis, false, &mut assumed);
        let hosts = running.config.topology.hosts.clone();
        if hosts.len() < 3 {
            let what =
                format!("{} hosts have a link: a fault at one needs two others", hosts.len());
            return Err(NoTrial::new(what, links));
        }
        if hosts.len() > WHAT_IF_HOSTS_MAX {
            let what = format!("{} hosts are more than {WHAT_IF_HOSTS_MAX}", hosts.len());
            return Err(NoTrial::new(what, "make a folder of a few racks"));
        }
        let at = match at {
            None => None,
            Some(name) => Some(running.wiring.host(name).ok_or_else(|| {
                let known = hosts.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
                let what = format!("there is no host {name:?} with a link");
                NoTrial::new(what, format!("there are {known}"))
            })?),
        };
        let switches = running.config.topology.switches.iter().map(|of| of.name.clone()).collect();
        let mut columns = vec![("running", running)];
        if diagnosis.desired.is_empty() {
            assumed.push("there is no desired.toml, so nothing to compare with".to_owned());
        } else {
            columns.push(("desired", network::Built::of(diagnosis, true, &mut Vec::new())));
        }
        let slowest = columns.iter().map(|(_, built)| built.watchdog_time()).max();
        let slowest = slowest.unwrap_or(Span::ZERO);
        let window = match what {
            WhatIf::Incast => INCAST_WINDOW,
            _ => (slowest + slowest + WINDOW.0).min(WINDOW.1),
        };
        Ok(Self { what, columns, assumed, hosts, switches, at, window, draws })
    }

    /// How many draws there are, and their numbers are below that.
    pub const fn draws(&self) -> u64 {
        self.draws
    }

    /// A draw: all rows of it.
    ///
    /// # Errors
    /// [`NoTrial`] if no network can be made of the files: hosts without a path, buffers smaller than their headroom.
    pub fn draw(&self, number: u64) -> Result<Draw, NoTrial> {
        let hosts = self.hosts.len() as u64;
        // Other servers in each draw, over all racks.
        let spread = if hosts > self.draws { number * hosts / self.draws } else { number % hosts };
        let at = self.at.unwrap_or(spread as u32);
        let mut outcomes = Vec::new();
        for (name, built) in &self.columns {
            let without = self.run(name, built, number, at, false)?;
            let with = self.run(name, built, number, at, true)?;
            outcomes.push(outcome(&without, &with, at));
        }
        Ok(Draw { at, outcomes })
    }

    fn run(
        &self,
        name: &str,
        built: &network::Built,
        number: u64,
        at: u32,
        with: bool,
    ) -> Result<Ran, NoTrial> {
        let mut config: NetworkConfig = built.config.clone();
        config.seed = number + 1;
        let per_host = (MESSAGES.1 / self.hosts.len() as u64).clamp(u64::from(PEERS), MESSAGES.0);
        background(&mut config, built, per_host, self.window);
        let measured = config.flows.len();
        if with {
            match self.what {
                WhatIf::Storm => {
                    config
                        .faults
                        .push(Fault { at: FAULT_AT, kind: FaultKind::NicStuck { host: at } });
                }
                WhatIf::DeadServer => {
                    let kind = FaultKind::HostDies { host: at, mac_aged: true };
                    config.faults.push(Fault { at: FAULT_AT, kind });
                }
                WhatIf::Incast => incast(&mut config, built, at),
            }
        }
        let end = Time::ZERO + self.window;
        let mut network = Network::new(config).map_err(|error| {
            NoTrial::new(
                format!("no network can be made of the {name} configuration: {error}"),
                "`ferroce doctor` without --what-if says what is wrong with the files",
            )
        })?;
        let mut deadlock = None;
        while network.now() < end {
            match network.run(end) {
                Verdict::Deadlock(cycle) => {
                    let names: Vec<&str> =
                        cycle.queues.iter().map(|(switch, ..)| switch.as_str()).collect();
                    deadlock.get_or_insert_with(|| names.join(", "));
                }
                _ => break,
            }
        }
        Ok(Ran { network, measured, deadlock, end })
    }
}

/// A row of a draw that is over.
struct Ran {
    network: Network,
    measured: usize,
    deadlock: Option<String>,
    end: Time,
}

impl Ran {
    /// Messages that a host completed and what each took, but for those of the host with the fault.
    fn of_host(&self, host: u32, at: u32) -> (u64, Vec<u64>) {
        let mut completed = 0;
        let mut took = Vec::new();
        for flow in &self.network.flows()[..self.measured] {
            if flow.spec.source != host || flow.spec.destination == at || host == at {
                continue;
            }
            completed += flow.completed;
            took.extend(&flow.latencies_ps);
            // Those that have not ended have taken so long already.
            took.extend(flow.waiting_ps(self.end));
        }
        took.sort_unstable();
        (completed, took)
    }

    fn pauses(&self, switch: u32) -> u64 {
        let ports = self.network.switch_counters(switch);
        ports.iter().map(|(_, of)| of.pause.sent.iter().sum::<u64>()).sum()
    }
}

fn outcome(without: &Ran, with: &Ran, at: u32) -> Outcome {
    let topology = with.network.topology();
    let (hosts, switches) = (topology.hosts.len() as u32, topology.switches.len() as u32);
    let slowest = |took: &[u64]| {
        let rank = (took.len() * 99).div_ceil(100).saturating_sub(1);
        took.get(rank).map_or(0.0, |ps| *ps as f64 / 1e9)
    };
    let fate = |host: u32| {
        let (before, usual) = without.of_host(host, at);
        let (after, took) = with.of_host(host, at);
        (before > 0).then(|| Fate {
            delivered: after as f64 / before as f64,
            slowest_ms: [slowest(&usual), slowest(&took)],
        })
    };
    let received = |host: u32| {
        let pauses = with.network.host_pauses(host);
        pauses.is_some_and(|pauses| pauses.received.iter().any(|count| *count > 0))
    };
    let detected = |switch: u32| with.network.watchdog_counters(switch).map_or(0, |of| of.detected);
    Outcome {
        hosts: (0..hosts).map(fate).collect(),
        pauses: (0..switches).map(|at| [with.pauses(at), without.pauses(at)]).collect(),
        paused_servers: (0..hosts).filter(|&host| host != at && received(host)).count(),
        drops: with.network.drops().total(),
        detected: (0..switches).map(detected).sum(),
        deadlock: with.deadlock.clone(),
    }
}

/// What hosts send each other, fault or not.
fn background(config: &mut NetworkConfig, built: &network::Built, messages: u64, window: Span) {
    let hosts = config.topology.hosts.len() as u32;
    let peers = PEERS.min(hosts - 1);
    let each = (messages / u64::from(peers)).max(1);
    let mean = Span::from_ps(window.as_ps() / each);
    let mut random = Random::new(config.seed);
    for source in 0..hosts {
        // The first of as many as there are peers is anyone, the others follow evenly: nobody is asked twice.
        let first = random.below(u64::from(hosts - 1)) as u32;
        for peer in 0..peers {
            let away = (first + peer * (hosts - 1) / peers) % (hosts - 1);
            let destination = (source + 1 + away) % hosts;
            config.flows.push(FlowSpec {
                messages: None,
                depth: DEPTH,
                start: Time::from_ps(random.below(mean.as_ps())),
                dscp: built.dscp(source),
                interval: Some(Interval { mean, exponential: true }),
                ..FlowSpec::write(source, destination, MESSAGE_BYTES)
            });
        }
    }
}

/// Rounds of messages from all to one.
fn incast(config: &mut NetworkConfig, built: &network::Built, at: u32) {
    let hosts = config.topology.hosts.len();
    let senders = hosts.saturating_sub(1).min(SENDERS_MAX);
    // From all racks alike, if not from all hosts.
    let sources = (0..senders).map(|index| (1 + index * (hosts - 1) / senders) as u32);
    for away in sources {
        let source = (at + away) % hosts as u32;
        config.flows.push(FlowSpec {
            messages: None,
            depth: 1,
            start: FAULT_AT,
            dscp: built.dscp(source),
            interval: Some(Interval::every(ROUND)),
            ..FlowSpec::write(source, at, ROUND_BYTES / senders as u32)
        });
    }
}
