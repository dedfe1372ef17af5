//! 5.4 and figure 6: the tails of RDMA and TCP side by side, in a service that asks many at once.
//!
//! The kernels' time is an input of the simulator. So there are two more runs: one without queries, where
//! TCP's probes measure that input alone, and one without kernel time, where they measure the network.

use core::ops::Range;

use bench::plan::WaitMode;
use fabric::counters::Drop;
use fabric::random::Random;
use fabric::scenario::Scenario;
use fabric::tcp::KernelLatency;
use fabric::workload::{FlowSpec, Queries, Service, probes, queries};
use fabric::{Network, NetworkConfig};
use rdma::{Span, Time};

use super::pingmesh::{Mesh, TESTBED};
use super::scenario;
use super::tail::Tail;
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::hosts::Hosts;
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
/// Cores of sixteen that are busy with other things: the paper's servers had a load of 20 to 30 %.
const BUSY: u32 = 4;
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
fn add(config: &mut NetworkConfig, flows: Vec<FlowSpec>) -> Range<usize> {
    let first = config.flows.len();
    config.flows.extend(flows.into_iter().map(|flow| FlowSpec { depth: 1_000, ..flow }));
    first..config.flows.len()
}

/// The two services, and their classes.
const CLASSES: [(Service, u8); 2] = [(Service::Rc, RDMA), (Service::Tcp, TCP)];

/// The scenario as a setting has it, and who probes whom.
fn network(
    options: Options,
    setting: Setting,
    random: &mut Random,
) -> Result<(Scenario, Vec<(u32, u32)>), Error> {
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
    let mut pairs = Vec::new();
    for from in 0..hosts {
        let mut others: Vec<u32> = (0..hosts).filter(|&host| host != from).collect();
        random.shuffle(&mut others);
        pairs.extend(others.into_iter().take(PEERS).map(|to| (from, to)));
    }
    Ok((scenario, pairs))
}

/// Adds what servers ask over both services. Returns where the flows are.
fn ask(
    config: &mut NetworkConfig,
    setting: Setting,
    every: Span,
    random: &mut Random,
) -> [Range<usize>; 2] {
    let hosts = config.topology.hosts.len() as u32;
    let queriers: Vec<u32> = (0..hosts).collect();
    CLASSES.map(|(service, dscp)| {
        let Some(answer_bytes) = setting.answer_bytes else { return 0..0 };
        let of =
            Queries { service, dscp, query_bytes: QUERY_BYTES, answer_bytes, every, count: None };
        add(config, queries(hosts, &queriers, FAN_OUT, &of, random))
    })
}

/// What is measured: from when all have begun, which is within an interval.
fn window(options: Options, every: Span, end: Time) -> (Time, Time) {
    let from = Time::ZERO + every.max(PROBE_EVERY);
    (from, if options.quick { from + every } else { from + end.since(Time::ZERO) })
}

/// p99 and p99.9 of the same probes between applications on modelled hosts, of which so many cores are
/// busy with other things, in us.
fn hosted(
    options: Options,
    setting: Setting,
    server_mbps: f64,
    (busy, wait): (u32, WaitMode),
) -> Result<[f64; 2], Error> {
    let mut random = Random::new(options.seed);
    let (scenario, _) = network(options, setting, &mut random)?;
    let mut config = scenario.network;
    let every = interval(setting.answer_bytes.unwrap_or(COMPARED), server_mbps);
    ask(&mut config, setting, every, &mut random);
    // Each is probed as often as it probes: by those at distances that are chance.
    let count = config.topology.hosts.len() as u32;
    let mut distances: Vec<u32> = (1..count).collect();
    random.shuffle(&mut distances);
    let to = |from| distances.iter().take(PEERS).map(move |far| (from, (from + far) % count));
    let pairs: Vec<(u32, u32)> = (0..count).flat_map(to).collect();
    let window = window(options, every, scenario.end);
    let hosts = Hosts::pair(TESTBED).with_hogs(busy);
    let mut mesh = Mesh::new(options, config, &hosts, &pairs, (PROBE_EVERY, wait), window.1)?;
    mesh.network.run(window.1);
    Ok(mesh.seen()?.at(window, [0.99, 0.999]))
}

fn measure(options: Options, setting: Setting, server_mbps: f64) -> Result<Run, Error> {
    let mut random = Random::new(options.seed);
    let (mut scenario, pairs) = network(options, setting, &mut random)?;
    let config = &mut scenario.network;
    let hosts = config.topology.hosts.len() as u32;
    let probed = CLASSES.map(|(service, dscp)| {
        add(config, probes(&pairs, service, dscp, PROBE_EVERY, &mut random))
    });
    let every = interval(setting.answer_bytes.unwrap_or(COMPARED), server_mbps);
    let asked = ask(config, setting, every, &mut random);
    let (from, to) = window(options, every, scenario.end);
    let now = to + REST;
    let mut network = Network::new(scenario.network)?;
    network.run(now);
    let flows = network.flows();
    let answered = |range| Tail::new(&flows[range], every, (from, to), now);
    let came: usize = asked.map(answered).iter().map(|of| of.count() - of.unanswered()).sum();
    let bits = came as f64 * f64::from(setting.answer_bytes.unwrap_or(0)) * 8.0;
    let milliseconds = to.since(from).as_ps() as f64 / 1e9;
    let drops = network.drops();
    Ok(Run {
        probes: probed.map(|range| Tail::new(&flows[range], PROBE_EVERY, (from, to), now)),
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
    context.say("figure 6: applications on modelled hosts");
    let setting = Setting { answer_bytes: Some(COMPARED), kernels: true };
    let on_hosts = |busy, wait| {
        each(&seeds(context.options), |options| hosted(options, setting, mbps, (busy, wait)))
    };
    let polling = on_hosts(0, WaitMode::Poll)?;
    let (calm, busy) = (on_hosts(0, WaitMode::Event)?, on_hosts(BUSY, WaitMode::Event)?);
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
    let tail = |runs: &[[f64; 2]], rank: usize| Spread::of(runs, |of| of[rank]);
    figure.point("RDMA, between applications", "p99", tail(&busy, 0).median());
    figure.point("RDMA, between applications", "p99.9", tail(&busy, 1).median());
    figure.reference("paper: RDMA p99", claim.value("rdma_p99_us"));
    figure.reference("paper: RDMA p99.9", claim.value("rdma_p999_us"));
    figure.reference("paper: TCP p99", claim.value("tcp_p99_us"));
    let first = &real.0[0];
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
    let unsaid = "how much comes at once, and how long hosts take, is not said in the paper; the hosts are \
                  those of another one";
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
            "{} servers, {} ms, {FAN_OUT} asked at once; and with {BUSY} of 16 cores of each host always busy, \
             which is chosen: on hosts that are idle and sleep RDMA's p99 is {} us, and the most that holds {} us",
            first.servers,
            short(first.milliseconds),
            tail(&calm, 0),
            short(claim.value("rdma_p99_us") * claim.band.unwrap_or(1.0)),
        )),
        measured: format!(
            "p99 and p99.9 of probes in us, by what comes to a server at once (packets lost by TCP): \
             {}. Over RDMA between applications on hosts of {TESTBED}, {} KB: {} and {} us if they poll, \
             {} and {} us if they sleep, and with {BUSY} of 16 cores busy {} and {} us. Of TCP's, {} and {} are there without load: what kernels take is an input, and so \
             TCP's p99 is not held against the paper's; without kernels RDMA's p99.9 is below TCP's \
             p99 at: {found}. {} RDMA packets dropped",
            told.join("; "),
            short(burst_kb(COMPARED)),
            tail(&polling, 0),
            tail(&polling, 1),
            tail(&calm, 0),
            tail(&calm, 1),
            tail(&busy, 0),
            tail(&busy, 1),
            idle.probes(1, Tail::p99),
            idle.probes(1, Tail::p999),
            all().map(|run| run.rdma_drops).sum::<u64>(),
        ),
        checks: vec![
            Check::number(&claim, "rdma_p99_us", tail(&busy, 0).median()).because(unsaid),
            Check::number(&claim, "rdma_p999_us", tail(&busy, 1).median()).because(unsaid),
            Check::order(
                ("RDMA's p99.9 between applications, at most", tail(&busy, 1).most()),
                ("TCP's p99, at least", real.probes(1, Tail::p99).least()),
                "us",
            ),
            Check::event(
                "the bare network's, with what idle servers of figure 8 take, is so whatever comes at once",
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
