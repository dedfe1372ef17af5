//! 5.4 and figure 8: what load does to the latency of probes.
//!
//! The paper says neither what alpha its testbed had, nor whether DCQCN was on, nor when its switches
//! marked. So there is a sweep over these, each over several hashes, and the verdict says where in it the
//! paper's numbers lie. Probes over the bare network have no host in them; beside them there are probes
//! between applications on modelled hosts (`pingmesh.rs`).

use core::ops::Range;

use bench::plan::WaitMode;
use fabric::random::Random;
use fabric::scenario::Scenario;
use fabric::switch::config::{EcnConfig, Threshold};
use fabric::tcp::KernelLatency;
use fabric::topology::End;
use fabric::workload::{FlowSpec, Service, Verb, probes};
use fabric::{Network, NetworkConfig};
use rdma::{Span, Time};
use transport::congestion::{Congestion, Dcqcn};

use super::ecmp::DCQCN_MARKS;
use super::pingmesh::{Mesh, TESTBED};
use super::scenario;
use super::tail::Tail;
use crate::draws::{Row, Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::hosts::Hosts;
use crate::outcome::short;
use crate::stats::quantile;
use crate::study::Context;
use crate::{Check, Claim, Error, Options, Outcome};

const LOADED: &str = "guo16.fig8.latency-under-load";
pub(super) const CLAIMS: &[&str] = &[LOADED];

/// Servers of each ToR that send, and queue pairs of each.
const SERVERS: u32 = 20;
const QUEUE_PAIRS: usize = 8;
const PROBE_BYTES: u32 = 512;
/// Between two probes of a server.
const INTERVAL: Span = Span::from_us(50);
/// The class of TCP, the servers that each server probes over it, and between two probes of a pair.
const TCP: u8 = 0;
const TCP_PEERS: usize = 8;
const TCP_INTERVAL: Span = Span::from_ms(1);
/// TCP's p99 counts as unchanged if it changes by no more than this part: it is known from a few
/// thousand probes, within a fortieth.
const UNCHANGED: f64 = 0.1;
/// When the load starts, and from when on it counts as loaded.
const START: Time = Time::from_ps(10_000_000_000);
const SETTLED: Time = Time::from_ps(14_000_000_000);

/// What holds the load back.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Load {
    /// PFC alone, by an alpha of 2 to this power.
    Pfc(i8),
    /// DCQCN with these marks, under alpha 1/16.
    Dcqcn(EcnConfig),
}

const fn marks(min_kb: u32, max_kb: u32, max_probability: f64) -> Load {
    Load::Dcqcn(EcnConfig { min_bytes: min_kb * 1_000, max_bytes: max_kb * 1_000, max_probability })
}

/// What the paper's other experiments have: its default alpha, and DCQCN as in its paper.
const PLAIN: usize = 2;
const ZHU: usize = 4;
/// Zhu 15 (5 KB, 200 KB, 1 %); HPCC, 5.1, in proportion to 40 Gb/s (160 KB, 640 KB, 20 %); others are
/// ours, to see what they change.
const SWEEP: [(&str, Load); 8] = [
    ("PFC, alpha 1/256", Load::Pfc(-8)),
    ("PFC, 1/64", Load::Pfc(-6)),
    ("PFC, 1/16", Load::Pfc(-4)),
    ("PFC, 1/4", Load::Pfc(-2)),
    ("DCQCN, 5 to 200 KB, 1 %", Load::Dcqcn(DCQCN_MARKS)),
    ("DCQCN, 40 to 400 KB, 1 %", marks(40, 400, 0.01)),
    ("DCQCN, 160 to 640 KB, 20 %", marks(160, 640, 0.2)),
    ("DCQCN, 400 to 1600 KB, 20 %", marks(400, 1_600, 0.2)),
];
/// Servers that an application probes on modelled hosts: with as many that answer, a core for each.
const HOST_PEERS: usize = 8;

struct Run {
    /// When each probe was sent, in ms, and its round trip, in us.
    probes: Vec<(f64, f64)>,
    /// p99 and p99.9, idle and loaded, in us.
    idle: [f64; 2],
    loaded: [f64; 2],
    /// Gb/s of a server in each direction.
    server_gbps: f64,
    /// What waits for each uplink of the first ToR at the end, in KB, the longest first.
    waiting: Vec<u32>,
    drops: u64,
    /// Probes over TCP, idle and loaded; those between servers whose kernels take no time; and the
    /// p99 of each ms.
    tcp: [Tail; 2],
    bare: [Tail; 2],
    tcp_by_ms: Vec<(f64, f64)>,
    bare_by_ms: Vec<(f64, f64)>,
}

/// Adds probes over TCP from every server to some of the other rack. Kernels of every fourth server
/// take no time, and those probe each other. Returns where the flows are of the others, and of these.
fn add_tcp(config: &mut NetworkConfig) -> [Range<usize>; 2] {
    let hosts = config.topology.hosts.len() as u32;
    let rack = hosts / 2;
    let mut bare = config.nic.clone();
    bare.tcp.kernel = KernelLatency { floor: Span::ZERO, mean: Span::ZERO };
    let is_bare = |host: u32| host.is_multiple_of(4);
    config.nics.extend((0..hosts).filter(|&host| is_bare(host)).map(|host| (host, bare.clone())));
    let mut random = Random::new(config.seed);
    [false, true].map(|of| {
        let mut pairs = Vec::new();
        for from in (0..hosts).filter(|&host| is_bare(host) == of) {
            let others = if from < rack { rack..hosts } else { 0..rack };
            let mut others: Vec<u32> = others.filter(|&host| is_bare(host) == of).collect();
            random.shuffle(&mut others);
            pairs.extend(others.into_iter().take(TCP_PEERS).map(|to| (from, to)));
        }
        let first = config.flows.len();
        let flows = probes(&pairs, Service::Tcp, TCP, TCP_INTERVAL, &mut random);
        config.flows.extend(flows.into_iter().map(|flow| FlowSpec { depth: 1_000, ..flow }));
        first..config.flows.len()
    })
}

/// The scenario with what holds the load back.
fn network(options: Options, load: Load) -> Result<Scenario, Error> {
    let mut scenario = scenario!(options, "loaded-latency.toml")?;
    if options.quick {
        scenario.end = SETTLED + Span::from_ms(4);
    }
    let config = &mut scenario.network;
    config.deadlock_check = None;
    match load {
        Load::Pfc(exponent) => {
            for group in config.switch.groups.iter_mut().filter(|group| group.lossless) {
                group.threshold = Threshold::Dynamic { exponent };
            }
        }
        Load::Dcqcn(marks) => {
            config.nic.congestion = Congestion::Dcqcn(Dcqcn::paper());
            for queue in &mut config.switch.queues {
                queue.ecn = Some(marks);
            }
        }
    }
    Ok(scenario)
}

/// Adds the load: pairs of servers, both ways.
fn add_load(config: &mut NetworkConfig) {
    let rack = config.topology.hosts.len() as u32 / 2;
    for server in 0..SERVERS {
        for (from, to) in [(server, server + rack), (server + rack, server)] {
            // SENDs have queue pairs of their own.
            let flow = FlowSpec {
                verb: Verb::Send,
                start: START,
                ..FlowSpec::write(from, to, 4 << 20).endless()
            };
            config.flows.extend(core::iter::repeat_n(flow, QUEUE_PAIRS));
        }
    }
}

/// Payload that all hosts have sent.
fn sent(network: &Network) -> u64 {
    let hosts = 0..network.topology().hosts.len() as u32;
    hosts.flat_map(|host| network.host_stats(host)).map(|stats| stats.sent_bytes).sum()
}

/// The same probes between applications on modelled hosts.
struct Hosted {
    /// p99 and p99.9, idle and loaded, in us.
    idle: [f64; 2],
    loaded: [f64; 2],
    server_gbps: f64,
}

fn hosted(options: Options, load: Load, wait: WaitMode) -> Result<Hosted, Error> {
    let scenario = network(options, load)?;
    let (mut config, end) = (scenario.network, scenario.end);
    add_load(&mut config);
    let hosts = config.topology.hosts.len() as u32;
    let rack = hosts / 2;
    // Each is probed as often as it probes: by those at distances that are chance.
    let mut distances: Vec<u32> = (0..rack).collect();
    Random::new(config.seed).shuffle(&mut distances);
    let mut pairs = Vec::new();
    for from in 0..hosts {
        let other = if from < rack { rack } else { 0 };
        let to = |distance: &u32| (from, other + (from + distance) % rack);
        pairs.extend(distances.iter().take(HOST_PEERS).map(to));
    }
    let (of, every) = (Hosts::pair(TESTBED), INTERVAL * HOST_PEERS as u64);
    let mut mesh = Mesh::new(options, config, &of, &pairs, (every, wait), end)?;
    mesh.network.run(SETTLED);
    let before = sent(&mesh.network);
    mesh.network.run(end);
    let bytes = sent(&mesh.network) - before;
    let seconds = end.since(SETTLED).as_ps() as f64 / 1e12;
    let seen = mesh.seen()?;
    let ranks = [0.99, 0.999];
    Ok(Hosted {
        idle: seen.at((Time::ZERO + Span::from_ms(2), START), ranks),
        loaded: seen.at((SETTLED, end), ranks),
        server_gbps: bytes as f64 * 8.0 / seconds / f64::from(2 * SERVERS) / 1e9,
    })
}

fn measure(options: Options, load: Load) -> Result<Run, Error> {
    let mut scenario = network(options, load)?;
    let end = scenario.end;
    let config = &mut scenario.network;
    let hosts = config.topology.hosts.len() as u32;
    let rack = hosts / 2;
    // Probes: every server to one of the other rack, each by a queue pair of its own and thus by a
    // path of its own. They are READs of 512 bytes, so that one queue pair serves all of a pair.
    config.share_queue_pairs = true;
    for from in 0..hosts {
        let mut start = Time::ZERO + Span::from_ns(u64::from(from) * 997);
        let mut step = 0;
        while start < end {
            let to = (from + rack + step * 7) % rack + if from < rack { rack } else { 0 };
            config.flows.push(FlowSpec {
                verb: Verb::Read,
                start,
                ..FlowSpec::write(from, to, PROBE_BYTES)
            });
            start += INTERVAL;
            step = (step + 1) % 8;
        }
    }
    let probes = config.flows.len();
    let tcp = add_tcp(config);
    add_load(config);
    let mut network = Network::new(scenario.network)?;
    network.run(SETTLED);
    let before = sent(&network);
    network.run(end);
    // Later probes may still be under way.
    let last = Time::from_ps(end.as_ps() - 2_000_000_000);
    let seconds = end.since(SETTLED).as_ps() as f64 / 1e12;
    let bytes = sent(&network) - before;
    let probes: Vec<(f64, f64)> = network.flows()[..probes]
        .iter()
        .filter(|flow| flow.spec.start < last)
        .filter_map(|flow| {
            let took = flow.completion_time()?;
            Some((flow.spec.start.as_ps() as f64 / 1e9, took.as_ps() as f64 / 1e6))
        })
        .collect();
    let of = |from: Time, to: Time| {
        let (from, to) = (from.as_ps() as f64 / 1e9, to.as_ps() as f64 / 1e9);
        let within = probes.iter().filter(|probe| probe.0 >= from && probe.0 < to);
        let mut times: Vec<f64> = within.map(|probe| probe.1).collect();
        [0.99, 0.999].map(|rank| quantile(&mut times, rank))
    };
    let tail = |range: &Range<usize>, from: Time, to: Time| {
        Tail::new(&network.flows()[range.clone()], TCP_INTERVAL, (from, to), end)
    };
    let by_ms = |range: &Range<usize>| {
        let all = 0..last.as_ps() / 1_000_000_000;
        let at = |ms: u64| Time::ZERO + Span::from_ms(ms);
        all.map(|ms| (ms as f64, tail(range, at(ms), at(ms + 1)).p99())).collect()
    };
    let both = |range| [tail(range, Time::ZERO, START), tail(range, SETTLED, last)];
    let [tcp, bare] = &tcp;
    let topology = network.topology();
    let spines = (0..topology.switches.len() as u32)
        .filter(|&switch| topology.switches[switch as usize].tier == 1);
    let mut waiting: Vec<u32> =
        spines.filter_map(|spine| network.queue_bytes(0, End::Switch(spine), 3)).collect();
    waiting.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Run {
        waiting: waiting.into_iter().map(|bytes| bytes / 1_000).collect(),
        idle: of(Time::ZERO, START),
        loaded: of(SETTLED, last),
        server_gbps: bytes as f64 * 8.0 / seconds / f64::from(2 * SERVERS) / 1e9,
        drops: network.drops().total(),
        tcp: both(tcp),
        bare: both(bare),
        tcp_by_ms: by_ms(tcp),
        bare_by_ms: by_ms(bare),
        probes,
    })
}

impl Row<Run> {
    fn told(&self) -> String {
        format!(
            "{} {} and {} us at {} Gb/s",
            self.name,
            self.of(|run| run.loaded[0]),
            self.of(|run| run.loaded[1]),
            self.of(|run| run.server_gbps)
        )
    }
}

/// Where a value of the paper lies among the settings: those whose hashes it is within, or else the
/// nearest on either side. Whether there are any on both.
fn place(rows: &[Row<Run>], paper: f64, value: fn(&Run) -> f64) -> (String, bool) {
    let spreads: Vec<(&str, Spread)> = rows.iter().map(|row| (row.name, row.of(value))).collect();
    let within: Vec<&str> = spreads
        .iter()
        .filter(|(_, of)| (of.least()..=of.most()).contains(&paper))
        .map(|of| of.0)
        .collect();
    if !within.is_empty() {
        return (format!("{paper} us is within {}", within.join("; ")), true);
    }
    let below = spreads.iter().filter(|(_, of)| of.most() < paper);
    let below = below.max_by(|a, b| a.1.most().total_cmp(&b.1.most()));
    let above = spreads.iter().filter(|(_, of)| of.least() > paper);
    let above = above.min_by(|a, b| a.1.least().total_cmp(&b.1.least()));
    let name = |of: Option<&(&str, Spread)>| {
        of.map_or("nothing".to_owned(), |(name, spread)| format!("{name}: {spread}"))
    };
    let text = format!("{paper} us lies between {}, and {}", name(below), name(above));
    (text, below.is_some() && above.is_some())
}

/// The p99 of probes in each ms, of one hash.
fn by_ms(run: &Run) -> Vec<(f64, f64)> {
    let mut bins: Vec<(f64, Vec<f64>)> = Vec::new();
    let mut probes = run.probes.clone();
    probes.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, took) in probes {
        match bins.last_mut() {
            Some(last) if last.0 == at.floor() => last.1.push(took),
            _ => bins.push((at.floor(), vec![took])),
        }
    }
    bins.into_iter().map(|(at, mut times)| (at, quantile(&mut times, 0.99))).collect()
}

/// Figure 8, and what the sweep comes to.
fn figures(claim: &Claim, rows: &[Row<Run>], plain: usize) -> [Figure; 2] {
    let mut figure = Figure::new(
        "guo16-figure-8",
        "Figure 8: round trips of probes, p99 of each ms; the load starts at 10 ms",
        Mark::Line,
    )
    .axes(("time", "ms"), ("round_trip", "us"))
    .caption("Of one hash. The numbers are of all.")
    .logarithmic();
    let mut sweep = Figure::new(
        "guo16-figure-8-sweep",
        "Round trips of probes under load, by what holds the load back",
        Mark::Point,
    )
    .axes(("setting", ""), ("round_trip", "us"))
    .caption("A point for each hash.")
    .logarithmic();
    for row in rows {
        for run in &row.runs {
            sweep.point("p99", row.name, run.loaded[0]);
            sweep.point("p99.9", row.name, run.loaded[1]);
        }
        for (at, p99) in row.runs.first().map(by_ms).unwrap_or_default() {
            figure.point(row.name, at, p99);
        }
    }
    if let Some(run) = rows.get(plain).and_then(|row| row.runs.first()) {
        for (name, points) in [
            ("TCP beside PFC alone", &run.tcp_by_ms),
            ("the same without kernels", &run.bare_by_ms),
        ] {
            for &(at, p99) in points {
                figure.point(name, at, p99);
            }
        }
    }
    figure.reference("paper: p99 idle", claim.value("idle_rdma_p99_us"));
    for figure in [&mut figure, &mut sweep] {
        figure.reference("paper: p99 loaded", claim.value("loaded_rdma_p99_us"));
        figure.reference("paper: p99.9 loaded", claim.value("loaded_rdma_p999_us"));
    }
    [figure, sweep]
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let claim = context.claim(LOADED)?;
    // In quick runs there are the two that checks are about.
    let kept = |index: usize| !context.options.quick || [PLAIN, ZHU].contains(&index);
    let swept: Vec<(usize, (&str, Load))> =
        SWEEP.into_iter().enumerate().filter(|(index, _)| kept(*index)).collect();
    let draws = seeds(context.options);
    let (mut rows, mut plain) = (Vec::new(), 0);
    for (index, (name, load)) in swept {
        context.say(&format!("figure 8: {name}, {} hashes", draws.len()));
        if index == PLAIN {
            plain = rows.len();
        }
        rows.push(Row { name, runs: each(&draws, |options| measure(options, load))? });
    }
    context.say(&format!("figure 8: applications on modelled hosts, {} hashes", draws.len()));
    let on_hosts = |wait| each(&draws, |options| hosted(options, SWEEP[PLAIN].1, wait));
    let (polling, sleeping) = (on_hosts(WaitMode::Poll)?, on_hosts(WaitMode::Event)?);
    let all = &rows[plain];
    let hosted = |value: fn(&Hosted) -> f64| Spread::of(&sleeping, value);
    let polled = |value: fn(&Hosted) -> f64| Spread::of(&polling, value);
    let tcp = [all.of(|run| run.tcp[0].p99()), all.of(|run| run.tcp[1].p99())];
    let bare = [all.of(|run| run.bare[0].p99()), all.of(|run| run.bare[1].p99())];
    let sum = |value: fn(&Run) -> usize| all.runs.iter().map(value).sum::<usize>();
    let unanswered = sum(|run| run.tcp[1].unanswered() + run.bare[1].unanswered());
    let probed = sum(|run| run.tcp[1].count() + run.bare[1].count());
    let drops: u64 = rows.iter().flat_map(|row| &row.runs).map(|run| run.drops).sum();
    let paper = ["loaded_rdma_p99_us", "loaded_rdma_p999_us"].map(|name| claim.value(name));
    let places =
        [place(&rows, paper[0], |run| run.loaded[0]), place(&rows, paper[1], |run| run.loaded[1])];
    let unsaid = format!(
        "the paper says neither alpha nor control: p99 of {}; p99.9 of {}",
        places[0].0, places[1].0
    );
    let idle = "the hosts are those of another paper, and nothing else runs on them";
    Ok(vec![Outcome {
        ran: format!(
            "two ToRs of 24 servers, four uplinks each; 20 pairs with 8 queue pairs each way; READs of \
             512 bytes as probes, each server one every 50 us; beside them, in another queue, TCP probes \
             of 512 bytes, each server eight a ms, a quarter of the servers without time of kernels; as \
             many probes between applications on hosts of {TESTBED}; the median of {} hashes, \
             and between what",
            draws.len()
        ),
        scale: None,
        measured: format!(
            "p99 and p99.9 of the bare network, idle {} and {} us; loaded {}. Between applications that \
             sleep, idle {} and {} us, under PFC and 1/16 {} and {} us at {} Gb/s; between those that poll, \
             {} and {}, {} and {} us. What waits for each uplink of a ToR under \
             PFC and 1/16 with one of the hashes {:?} KB. TCP's p99 beside it, idle and loaded, {} and {} \
             us, of which what kernels take is an input, and without it {} and {} us; of {probed} loaded \
             probes over TCP {unanswered} are not back. {drops} packets dropped",
            all.of(|run| run.idle[0]),
            all.of(|run| run.idle[1]),
            rows.iter().map(Row::told).collect::<Vec<_>>().join("; "),
            hosted(|run| run.idle[0]),
            hosted(|run| run.idle[1]),
            hosted(|run| run.loaded[0]),
            hosted(|run| run.loaded[1]),
            hosted(|run| run.server_gbps),
            polled(|run| run.idle[0]),
            polled(|run| run.idle[1]),
            polled(|run| run.loaded[0]),
            polled(|run| run.loaded[1]),
            all.runs[0].waiting,
            tcp[0],
            tcp[1],
            bare[0],
            bare[1],
        ),
        checks: vec![
            Check::number(&claim, "idle_rdma_p99_us", hosted(|run| run.idle[0]).median())
                .because(idle),
            Check::number(&claim, "idle_rdma_p999_us", hosted(|run| run.idle[1]).median())
                .because(idle),
            Check::order(
                ("idle p99 of applications that poll, at most", polled(|run| run.idle[0]).most()),
                ("the paper's", claim.value("idle_rdma_p99_us")),
                "us",
            ),
            Check::order(
                ("the paper's idle p99", claim.value("idle_rdma_p99_us")),
                ("of applications that sleep, at least", hosted(|run| run.idle[0]).least()),
                "us",
            ),
            Check::number(&claim, "loaded_rdma_p99_us", hosted(|run| run.loaded[0]).median())
                .because(unsaid.as_str()),
            Check::number(&claim, "loaded_rdma_p999_us", hosted(|run| run.loaded[1]).median())
                .because(unsaid.as_str()),
            Check::event("the paper's loaded p99 is within what the sweep gives", places[0].1),
            Check::event("the paper's loaded p99.9 is, too", places[1].1),
            Check::number(&claim, "server_gbps", all.of(|run| run.server_gbps).median()),
            Check::event(
                format!(
                    "TCP's p99 is unchanged within {} % with every hash: {} us idle, {} us loaded",
                    short(UNCHANGED * 100.0),
                    tcp[0],
                    tcp[1]
                ),
                all.runs
                    .iter()
                    .all(|run| (run.tcp[1].p99() / run.tcp[0].p99() - 1.0).abs() <= UNCHANGED),
            ),
            Check::order(
                (
                    "what the load adds to TCP's p99 without kernels",
                    bare[1].median() - bare[0].median(),
                ),
                ("a hundredth of the paper's p99", claim.value("tcp_p99_us") / 100.0),
                "us",
            ),
        ],
        figures: figures(&claim, &rows, plain).into(),
        claim,
    }])
}
