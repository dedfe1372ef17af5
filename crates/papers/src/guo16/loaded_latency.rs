//! 5.4 and figure 8: what load does to the latency of probes.

use core::ops::Range;

use fabric::random::Random;
use fabric::switch::config::EcnConfig;
use fabric::tcp::KernelLatency;
use fabric::topology::End;
use fabric::workload::{FlowSpec, Service, Verb, probes};
use fabric::{Network, NetworkConfig};
use rdma::{Span, Time};
use transport::congestion::{Congestion, Dcqcn};

use super::scenario;
use super::tail::Tail;
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::stats::quantile;
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

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

/// The most that a queue pair has in flight, and its congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    /// As much as the network holds back.
    Hungry,
    /// The same under DCQCN, with the marking of its paper.
    Dcqcn,
}

const LOADS: [(Load, &str); 2] = [(Load::Hungry, "PFC alone"), (Load::Dcqcn, "DCQCN")];

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

fn measure(options: Options, load: Load) -> Result<Run, Error> {
    let mut scenario = scenario!(options, "loaded-latency.toml")?;
    let config = &mut scenario.network;
    let end = if options.quick { SETTLED + Span::from_ms(4) } else { scenario.end };
    config.deadlock_check = None;
    if load == Load::Dcqcn {
        config.nic.congestion = Congestion::Dcqcn(Dcqcn::paper());
        for queue in &mut config.switch.queues {
            queue.ecn =
                Some(EcnConfig { min_bytes: 5_000, max_bytes: 200_000, max_probability: 0.01 });
        }
    }
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
    let mut network = Network::new(scenario.network)?;
    let sent = |network: &Network| -> u64 {
        let stats = (0..hosts).flat_map(|host| network.host_stats(host));
        stats.map(|stats| stats.sent_bytes).sum()
    };
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

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let claim = context.claim(LOADED)?;
    let mut figure = Figure::new(
        "guo16-figure-8",
        "Figure 8: round trips of probes, p99 of each ms; the load starts at 10 ms",
        Mark::Line,
    )
    .axes(("time", "ms"), ("round_trip", "us"))
    .logarithmic();
    let mut runs = Vec::new();
    for (load, name) in LOADS {
        let draws = seeds(context.options);
        context.say(&format!("figure 8: {name}, {} hashes", draws.len()));
        let drawn = each(&draws, |options| measure(options, load))?;
        // The figure is of one hash, the numbers are of all.
        let run = &drawn[0];
        let mut bins: Vec<(f64, Vec<f64>)> = Vec::new();
        let mut probes = run.probes.clone();
        probes.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, took) in probes {
            match bins.last_mut() {
                Some(last) if last.0 == at.floor() => last.1.push(took),
                _ => bins.push((at.floor(), vec![took])),
            }
        }
        for (at, mut times) in bins {
            figure.point(name, at, quantile(&mut times, 0.99));
        }
        runs.push(drawn);
    }
    let (all, dcqcn) = (&runs[0], &runs[1]);
    let plain = &all[0];
    let of = |runs: &[Run], value: fn(&Run) -> f64| Spread::of(runs, value);
    let idle = [of(all, |run| run.idle[0]), of(all, |run| run.idle[1])];
    let loaded = [of(all, |run| run.loaded[0]), of(all, |run| run.loaded[1])];
    let spared = [of(dcqcn, |run| run.loaded[0]), of(dcqcn, |run| run.loaded[1])];
    let rates = [of(all, |run| run.server_gbps), of(dcqcn, |run| run.server_gbps)];
    for (name, points) in [
        ("TCP beside PFC alone", &plain.tcp_by_ms),
        ("the same without kernels", &plain.bare_by_ms),
    ] {
        for &(at, p99) in points {
            figure.point(name, at, p99);
        }
    }
    let tcp = [of(all, |run| run.tcp[0].p99()), of(all, |run| run.tcp[1].p99())];
    let bare = [of(all, |run| run.bare[0].p99()), of(all, |run| run.bare[1].p99())];
    let sum = |value: fn(&Run) -> usize| all.iter().map(value).sum::<usize>();
    let unanswered = sum(|run| run.tcp[1].unanswered() + run.bare[1].unanswered());
    let probed = sum(|run| run.tcp[1].count() + run.bare[1].count());
    let drops: u64 = runs.iter().flatten().map(|run| run.drops).sum();
    figure.reference("paper: p99 idle", claim.value("idle_rdma_p99_us"));
    figure.reference("paper: p99 loaded", claim.value("loaded_rdma_p99_us"));
    let hosts =
        "there is no time of hosts in a simulated probe: it is the network's round trip alone";
    let fullest = "under PFC alone hungry queue pairs fill what alpha grants of the buffer, more than \
                   half of it waits for the uplink with the most of them, and a round trip meets two \
                   such queues; DCQCN keeps them short";
    Ok(vec![Outcome {
        ran: "two ToRs of 24 servers, four uplinks each; 20 pairs with 8 queue pairs each way; READs of \
              512 bytes as probes, each server one every 50 us; beside them, in another queue, TCP probes \
              of 512 bytes, each server eight a ms, a quarter of the servers without time of kernels; the median of \
              eight hashes, and between what"
            .to_owned(),
        scale: None,
        measured: format!(
            "p99 and p99.9, idle {} and {} us; loaded {} and {} us at {} Gb/s a server under PFC \
             alone, {} and {} us at {} Gb/s under DCQCN; what waits for each uplink of a ToR under \
             PFC alone with one of the hashes {:?} KB. TCP's p99 beside PFC alone, idle and loaded, {} and {} us, of which what \
             kernels take is an input, and without it {} and {} us; of {} loaded probes over TCP {} \
             are not back. {} packets dropped",
            idle[0],
            idle[1],
            loaded[0],
            loaded[1],
            rates[0],
            spared[0],
            spared[1],
            rates[1],
            plain.waiting,
            tcp[0],
            tcp[1],
            bare[0],
            bare[1],
            probed,
            unanswered,
            drops,
        ),
        checks: vec![
            Check::number(&claim, "idle_rdma_p99_us", idle[0].median()).because(hosts),
            Check::number(&claim, "idle_rdma_p999_us", idle[1].median()).because(hosts),
            Check::number(&claim, "loaded_rdma_p99_us", loaded[0].median()).because(fullest),
            Check::number(&claim, "loaded_rdma_p999_us", loaded[1].median()).because(fullest),
            Check::number(&claim, "server_gbps", rates[0].median()),
            Check::event(
                format!(
                    "TCP's p99 is unchanged within {} % with every hash: {} us idle, {} us loaded",
                    short(UNCHANGED * 100.0),
                    tcp[0],
                    tcp[1]
                ),
                all.iter().all(|run| {
                    (run.tcp[1].p99() / run.tcp[0].p99() - 1.0).abs() <= UNCHANGED
                }),
            ),
            Check::order(
                ("what the load adds to TCP's p99 without kernels", bare[1].median() - bare[0].median()),
                ("a hundredth of the paper's p99", claim.value("tcp_p99_us") / 100.0),
                "us",
            ),
        ],
        figures: vec![figure],
        claim,
    }])
}
