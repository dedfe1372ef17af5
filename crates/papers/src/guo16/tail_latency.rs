//! 5.4 and figure 6: the tails of RDMA and TCP side by side, in a service that asks many at once.
//!
//! The kernels' time is an input of the simulator. So there are two more runs: one without queries, where
//! TCP's probes measure that input alone, and one without kernel time, where they measure the network.

use fabric::counters::Drop;
use fabric::random::Random;
use fabric::tcp::KernelLatency;
use fabric::workload::{FlowSpec, Queries, Service, probes, queries};
use fabric::{Network, NetworkConfig};
use rdma::{Span, Time};

use super::scenario;
use super::tail::Tail;
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const TAIL: &str = "guo16.fig6.tail-latency";
pub(super) const CLAIMS: &[&str] = &[TAIL];

/// How many a server asks at once, and by how much. The paper does not say.
const FAN_OUT: u32 = 64;
const QUERY_BYTES: u32 = 200;
/// Lengths of answers: at a given load, longer ones come in larger bursts and less often.
const ANSWERS: [u32; 4] = [2_048, 8_192, 16_384, 32_768];
/// The length that is compared with the paper's numbers: the middle one.
const COMPARED: u32 = 8_192;
/// Servers that each server probes, and how often each.
const PEERS: usize = 8;
const PROBE_EVERY: Span = Span::from_ms(4);
/// After the last probe that counts: those that are not back by then were lost.
const REST: Span = Span::from_ms(5);
/// The classes of RDMA and TCP.
const RDMA: u8 = 3;
const TCP: u8 = 0;

const RANKS: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Setting {
    /// The length of answers; `None` for servers that do not ask.
    answer_bytes: Option<u32>,
    /// Whether kernels take time.
    kernels: bool,
}

struct Run {
    /// Of RDMA and of TCP.
    probes: [Tail; 2],
    servers: u32,
    /// How long was measured.
    milliseconds: f64,
    /// Answers that a server received, in Mb/s.
    server_mbps: f64,
    /// Packets that were lost in the lossy class, and all others.
    tcp_drops: u64,
    rdma_drops: u64,
}

/// From one query of a server to the next: half the load is answers over RDMA, half over TCP.
fn interval(answer_bytes: u32, server_mbps: f64) -> Span {
    let bits = f64::from(FAN_OUT) * f64::from(answer_bytes) * 8.0;
    Span::from_us((bits / (server_mbps / 2.0)) as u64)
}

/// Adds flows, of which none waits for what it has posted before. Returns where they are.
fn add(config: &mut NetworkConfig, flows: Vec<FlowSpec>) -> core::ops::Range<usize> {
    let first = config.flows.len();
    config.flows.extend(flows.into_iter().map(|flow| FlowSpec { depth: 1_000, ..flow }));
    first..config.flows.len()
}

fn measure(options: Options, setting: Setting, server_mbps: f64) -> Result<Run, Error> {
    let mut scenario = scenario!(options, "tail-latency.toml")?;
    let config = &mut scenario.network;
    config.deadlock_check = None;
    // Where RDMA's class pauses, TCP's drops.
    config.switch.groups[usize::from(TCP)].threshold =
        config.switch.groups[usize::from(RDMA)].threshold;
    if !setting.kernels {
        config.nic.tcp.kernel = KernelLatency { floor: Span::ZERO, mean: Span::ZERO };
    }
    let hosts = config.topology.hosts.len() as u32;
    let mut random = Random::new(config.seed);
    let mut pairs = Vec::new();
    for from in 0..hosts {
        let mut others: Vec<u32> = (0..hosts).filter(|&host| host != from).collect();
        random.shuffle(&mut others);
        pairs.extend(others.into_iter().take(PEERS).map(|to| (from, to)));
    }
    let classes = [(Service::Rc, RDMA), (Service::Tcp, TCP)];
    let probed = classes.map(|(service, dscp)| {
        add(config, probes(&pairs, service, dscp, PROBE_EVERY, &mut random))
    });
    let every = interval(setting.answer_bytes.unwrap_or(COMPARED), server_mbps);
    let queriers: Vec<u32> = (0..hosts).collect();
    let asked = classes.map(|(service, dscp)| {
        let Some(answer_bytes) = setting.answer_bytes else { return 0..0 };
        let of =
            Queries { service, dscp, query_bytes: QUERY_BYTES, answer_bytes, every, count: None };
        add(config, queries(hosts, &queriers, FAN_OUT, &of, &mut random))
    });
    // Within an interval all have begun.
    let from = Time::ZERO + every.max(PROBE_EVERY);
    let to = if options.quick { from + every } else { from + scenario.end.since(Time::ZERO) };
    let now = to + REST;
    let mut network = Network::new(scenario.network)?;
    network.run(now);
    let flows = network.flows();
    let window = (from, to);
    let answered = |range| Tail::new(&flows[range], every, window, now);
    let came: usize = asked.map(answered).iter().map(|of| of.count() - of.unanswered()).sum();
    let bits = came as f64 * f64::from(setting.answer_bytes.unwrap_or(0)) * 8.0;
    let milliseconds = to.since(from).as_ps() as f64 / 1e9;
    let drops = network.drops();
    Ok(Run {
        probes: probed.map(|range| Tail::new(&flows[range], PROBE_EVERY, window, now)),
        servers: hosts,
        milliseconds,
        server_mbps: bits / f64::from(hosts) / milliseconds / 1e3,
        tcp_drops: drops.of(Drop::Buffer),
        rdma_drops: drops.total() - drops.of(Drop::Buffer),
    })
}

/// The draws of one setting.
struct Draws(Vec<Run>);

impl Draws {
    fn measure(context: &Context<'_>, setting: Setting, mbps: f64) -> Result<Self, Error> {
        let draws = seeds(context.options);
        Ok(Self(each(&draws, |options| measure(options, setting, mbps))?))
    }

    /// Of the probes over RDMA (0) or TCP (1).
    fn probes(&self, over: usize, value: impl Fn(&Tail) -> f64) -> Spread {
        Spread::of(&self.0, |run| value(&run.probes[over]))
    }

    fn lost_by_tcp(&self) -> Spread {
        Spread::of(&self.0, |run| run.tcp_drops as f64)
    }
}

/// Bytes that come to a server at once, in KB.
fn burst_kb(answer_bytes: u32) -> f64 {
    f64::from(FAN_OUT) * f64::from(answer_bytes) / 1e3
}

/// RDMA's tail and TCP's by how much comes to a server at once.
fn bursts(runs: &[(u32, [Draws; 2])]) -> Figure {
    let mut figure = Figure::new(
        "guo16-figure-6-bursts",
        "Round trips of probes by what comes to a server at once, at the same load",
        Mark::Line,
    )
    .axes(("burst", "KB"), ("round_trip", "us"))
    .caption("How long the answers of the paper's service were is not said.")
    .logarithmic();
    for &(answer, [ref real, ref bare]) in runs {
        let burst = burst_kb(answer);
        figure.point("RDMA p99", burst, real.probes(0, Tail::p99).median());
        figure.point("RDMA p99.9", burst, real.probes(0, Tail::p999).median());
        figure.point("TCP p99", burst, real.probes(1, Tail::p99).median());
        figure.point("TCP p99.9", burst, real.probes(1, Tail::p999).median());
        figure.point("TCP p99, no kernels", burst, bare.probes(1, Tail::p99).median());
        figure.point("TCP p99.9, no kernels", burst, bare.probes(1, Tail::p999).median());
    }
    figure
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let claim = context.claim(TAIL)?;
    let host_us = context.claim("guo16.fig8.latency-under-load")?.value("idle_rdma_p999_us");
    let mbps = claim.value("server_mbps");
    context.say("figure 6: servers that do not ask");
    let idle = Draws::measure(context, Setting { answer_bytes: None, kernels: true }, mbps)?;
    let mut runs = Vec::new();
    for answer in ANSWERS {
        if context.options.quick && answer != COMPARED {
            continue;
        }
        context.say(&format!("figure 6: answers of {answer} bytes"));
        let answer_bytes = Some(answer);
        let real = Draws::measure(context, Setting { answer_bytes, kernels: true }, mbps)?;
        let bare = Draws::measure(context, Setting { answer_bytes, kernels: false }, mbps)?;
        runs.push((answer, [real, bare]));
    }
    let Some((_, [real, bare])) = runs.iter().find(|run| run.0 == COMPARED) else {
        return Ok(Vec::new());
    };
    let mut figure = Figure::new(
        "guo16-figure-6",
        format!(
            "Figure 6: round trips of probes while servers ask {FAN_OUT} at once, {} KB of answers",
            short(burst_kb(COMPARED))
        ),
        Mark::Line,
    )
    .axes(("percentile", ""), ("round_trip", "us"))
    .caption(
        "What TCP takes without load is what kernels were given to take: an input. A probe over \
         RDMA has no host in it.",
    )
    .logarithmic();
    for (name, rank) in RANKS {
        figure.point("RDMA", name, real.probes(0, |tail| tail.at(rank)).median());
        figure.point("TCP", name, real.probes(1, |tail| tail.at(rank)).median());
        figure.point("TCP without load", name, idle.probes(1, |tail| tail.at(rank)).median());
        figure.point("TCP without kernels", name, bare.probes(1, |tail| tail.at(rank)).median());
    }
    figure.reference("paper: RDMA p99", claim.value("rdma_p99_us"));
    figure.reference("paper: RDMA p99.9", claim.value("rdma_p999_us"));
    figure.reference("paper: TCP p99", claim.value("tcp_p99_us"));
    let (rdma, first) = (|value: fn(&Tail) -> f64| real.probes(0, value), &real.0[0]);
    let told: Vec<String> = runs
        .iter()
        .map(|&(answer, [ref real, ref bare])| {
            format!(
                "{} KB RDMA {} and {}, TCP {} and {} ({} lost), without kernels {} and {} ({})",
                short(burst_kb(answer)),
                real.probes(0, Tail::p99),
                real.probes(0, Tail::p999),
                real.probes(1, Tail::p99),
                real.probes(1, Tail::p999),
                real.lost_by_tcp(),
                bare.probes(1, Tail::p99),
                bare.probes(1, Tail::p999),
                bare.lost_by_tcp(),
            )
        })
        .collect();
    // Where the order is so although kernels take nothing.
    let found: Vec<String> = runs
        .iter()
        .filter(|(_, [_, bare])| {
            bare.0.iter().all(|run| run.probes[0].p999() < run.probes[1].p99())
        })
        .map(|&(answer, _)| format!("{} KB", short(burst_kb(answer))))
        .collect();
    let found = if found.is_empty() { "nowhere".to_owned() } else { found.join(", ") };
    let all = || runs.iter().flat_map(|(_, pair)| pair).flat_map(|draws| &draws.0);
    let hosts = "there is no time of hosts in a simulated probe over RDMA, of which the paper's idle \
                 servers take 50 us (p99) and 80 us (p99.9) in figure 8, and its network's part hangs \
                 on how much comes at once, which the paper does not say";
    Ok(vec![Outcome {
        ran: format!(
            "four ToRs of 24 servers and four Leafs at 40 Gb/s; every server asks {FAN_OUT} at once \
             over RDMA, and as many over TCP, and receives {} Mb/s; TCP is dropped where RDMA would \
             pause, alpha 1/16; 512 bytes there and back as probes over both, {} of each; \
             the median of {} seeds, and between what",
            short(first.server_mbps),
            first.probes[0].count(),
            real.0.len(),
        ),
        scale: Some(format!(
            "{} servers, {} ms, {FAN_OUT} asked at once",
            first.servers,
            short(first.milliseconds)
        )),
        measured: format!(
            "p99 and p99.9 of probes in us, by what comes to a server at once (packets lost by TCP): \
             {}. Of TCP's, {} and {} are there without load: what kernels take is an input, and so \
             TCP's p99 is not held against the paper's; without kernels RDMA's p99.9 is below TCP's \
             p99 at: {found}. {} RDMA packets dropped",
            told.join("; "),
            idle.probes(1, Tail::p99),
            idle.probes(1, Tail::p999),
            all().map(|run| run.rdma_drops).sum::<u64>(),
        ),
        checks: vec![
            Check::number(&claim, "rdma_p99_us", rdma(Tail::p99).median()).because(hosts),
            Check::number(&claim, "rdma_p999_us", rdma(Tail::p999).median()).because("the same"),
            Check::order(
                (
                    "RDMA's p99.9, with what idle servers of figure 8 take, at most",
                    rdma(Tail::p999).most() + host_us,
                ),
                ("TCP's p99, at least", real.probes(1, Tail::p99).least()),
                "us",
            ),
            Check::event(
                "so it is whatever comes at once",
                runs.iter()
                    .flat_map(|(_, [real, _])| &real.0)
                    .all(|run| run.probes[0].p999() + host_us < run.probes[1].p99()),
            ),
            Check::event(
                "no RDMA packet is dropped, and every probe over RDMA comes back",
                all().all(|run| run.rdma_drops == 0 && run.probes[0].unanswered() == 0),
            ),
        ],
        figures: vec![figure, bursts(&runs)],
        claim,
    }])
}
