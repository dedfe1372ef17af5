//! 6.2 and figure 10: two ToRs of a new type come with another default.

use fabric::Network;
use fabric::random::Random;
use fabric::switch::config::Threshold;
use fabric::topology::End;
use fabric::workload::{FlowSpec, Verb};
use rdma::{Span, Time};

use super::scenario;
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::stats::quantile;
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const ALPHA: &str = "guo16.buffer.alpha";
pub(super) const CLAIMS: &[&str] = &[ALPHA];

/// Chatty servers below each of the two ToRs, and how many servers each queries how often.
const CHATTY: u32 = 8;
const QUERIED: u32 = 1_000;
const PERIOD: Span = Span::from_ms(4);
/// Lengths of answers. The paper does not say how long they were.
const ANSWERS: [u32; 4] = [1_000, 2_000, 4_000, 8_000];
/// The length at which the two are compared over time: four fifths of what the uplinks of such a ToR
/// carry. At all others only the pauses are reported.
const COMPARED: u32 = 8_000;
/// What the paper's numbers of pauses are about.
const FIVE_MINUTES: f64 = 300.0;
/// What is known of which servers the pauses reach.
const REACH: &str = "pauses of two ToRs reach servers when the Leafs above have taken what their own \
                     alpha of 1/16 allows, which hangs on chance; the paper does not say how many of \
                     their servers were chatty, nor how long answers were";
const STEP: Span = Span::from_us(500);

struct Run {
    /// Servers that received a pause, of all.
    paused_servers: usize,
    servers: usize,
    /// Pauses that the two ToRs sent, all servers received, and the one that received most.
    of_tors: u64,
    received: u64,
    most: u64,
    seconds: f64,
    /// Completion of messages of other services, in us.
    p50: f64,
    p99: f64,
    /// At each step, in ms: pauses that servers received in it.
    pauses: Vec<(f64, f64)>,
    /// When a message of another service began, in ms, and how long it took, in us.
    latencies: Vec<(f64, f64)>,
    queries: u64,
    drops: u64,
}

fn measure(options: Options, exponent: i8, answer_bytes: u32) -> Result<Run, Error> {
    let mut scenario = scenario!(options, "alpha.toml")?;
    let config = &mut scenario.network;
    let end = if options.quick { Time::ZERO + Span::from_ms(6) } else { scenario.end };
    config.deadlock_check = None;
    config.flows.retain(|flow| flow.start < end);
    let services = config.flows.len();
    // The first ToR of each podset.
    let hosts = config.topology.hosts.len() as u32;
    let podset = hosts / 2;
    let mut chatty = Vec::new();
    for first in [0, podset] {
        chatty.extend(first..first + CHATTY);
        let link = config.topology.links.iter().find_map(|link| match link.ends {
            [End::Host(host), End::Switch(tor)] | [End::Switch(tor), End::Host(host)]
                if host == first =>
            {
                Some(tor)
            }
            _ => None,
        });
        if let Some(tor) = link {
            let mut settings = config.switch.clone();
            for group in settings.groups.iter_mut().filter(|group| group.lossless) {
                group.threshold = Threshold::Dynamic { exponent };
            }
            config.switches.insert(tor, settings);
        }
    }
    let mut random = Random::new(config.seed);
    for &source in &chatty {
        let others = (0..hosts).filter(|host| !chatty.contains(host)).take(QUERIED as usize);
        let others: Vec<u32> = others.collect();
        let mut start = Time::ZERO + Span::from_ps(random.below(PERIOD.as_ps()));
        while start < end {
            config.flows.extend(others.iter().map(|&destination| FlowSpec {
                verb: Verb::Read,
                start,
                ..FlowSpec::write(source, destination, answer_bytes)
            }));
            start += PERIOD;
        }
    }
    let mut network = Network::new(scenario.network)?;
    let received = |network: &Network| -> Vec<u64> {
        (0..hosts)
            .map(|host| network.host_pauses(host).map_or(0, |pauses| pauses.received[3]))
            .collect()
    };
    let mut pauses = Vec::new();
    let mut before = 0;
    let mut now = Time::ZERO;
    while now < end {
        now += STEP;
        network.run(now);
        let all: u64 = received(&network).iter().sum();
        pauses.push((now.as_ps() as f64 / 1e9, (all - before) as f64));
        before = all;
    }
    let by_server = received(&network);
    let mut of_tors = 0;
    for (index, switch) in network.topology().switches.iter().enumerate() {
        let counters = network.switch_counters(index as u32);
        let is_one =
            counters.iter().any(|(end, _)| *end == End::Host(0) || *end == End::Host(podset));
        if switch.tier == 0 && is_one {
            of_tors += counters.iter().map(|(_, of)| of.pause.sent[3]).sum::<u64>();
        }
    }
    let mut latencies: Vec<(f64, f64)> = network.flows()[..services]
        .iter()
        .filter_map(|flow| {
            let took = flow.completion_time()?;
            Some((flow.spec.start.as_ps() as f64 / 1e9, took.as_ps() as f64 / 1e6))
        })
        .collect();
    latencies.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut times: Vec<f64> = latencies.iter().map(|of| of.1).collect();
    let queries = network.flows()[services..].iter().map(|flow| flow.completed).sum::<u64>();
    Ok(Run {
        paused_servers: by_server.iter().filter(|count| **count > 0).count(),
        servers: by_server.len(),
        of_tors,
        received: by_server.iter().sum(),
        most: by_server.iter().copied().max().unwrap_or(0),
        seconds: end.as_ps() as f64 / 1e12,
        p50: quantile(&mut times, 0.5),
        p99: quantile(&mut times, 0.99),
        pauses,
        latencies,
        queries: queries / u64::from(QUERIED),
        drops: network.drops().total(),
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let claim = context.claim(ALPHA)?;
    let alphas = [(-4, "alpha 1/16"), (-6, "alpha 1/64")];
    let mut services = Figure::new(
        "guo16-figure-10a",
        "Figure 10(a): how long messages of other services take, the slowest of each 500 us",
        Mark::Line,
    )
    .axes(("time", "ms"), ("completion", "us"))
    .logarithmic();
    let mut over_time = Figure::new(
        "guo16-figure-10b",
        "Figure 10(b): pause frames that servers receive",
        Mark::Line,
    )
    .axes(("time", "ms"), ("pause_frames_per_500_us", ""));
    let mut sweep = Figure::new(
        "guo16-figure-10-answers",
        "Pause frames that servers receive, by the length of an answer to a query",
        Mark::Line,
    )
    .axes(("answer", "bytes"), ("pause_frames_per_ms", ""))
    .caption("The paper does not say how long the answers were.");
    let mut compared = Vec::new();
    let mut told = Vec::new();
    for answer in ANSWERS {
        if context.options.quick && answer != COMPARED {
            continue;
        }
        let mut pair = Vec::new();
        for (exponent, name) in alphas {
            context.say(&format!("alpha: {name}, answers of {answer} bytes"));
            let run = measure(context.options, exponent, answer)?;
            sweep.point(name, f64::from(answer), run.received as f64 / run.seconds / 1e3);
            pair.push(run);
        }
        told.push(format!("{answer} B {} and {}", pair[0].received, pair[1].received));
        if answer == COMPARED {
            compared = pair;
        }
    }
    // Which servers pauses reach depends on chance: more often, with other seeds.
    let mut again = Vec::new();
    for (exponent, name) in alphas {
        let draws = seeds(context.options);
        context.say(&format!("alpha: {name}, {} seeds", draws.len()));
        again.push(each(&draws[1..], |options| measure(options, exponent, COMPARED))?);
    }
    for (run, (_, name)) in compared.iter().zip(alphas) {
        for &(at, count) in &run.pauses {
            over_time.point(name, at, count);
        }
        let mut slowest: Vec<(f64, f64)> = Vec::new();
        for &(at, took) in &run.latencies {
            let bin = (at * 2.0).floor() / 2.0;
            match slowest.last_mut() {
                Some(last) if last.0 == bin => last.1 = last.1.max(took),
                _ => slowest.push((bin, took)),
            }
        }
        for (at, took) in slowest {
            services.point(name, at, took);
        }
    }
    let [good, bad] = compared.as_slice() else { return Ok(Vec::new()) };
    let pairs: Vec<(&Run, &Run)> =
        core::iter::once((good, bad)).chain(again[0].iter().zip(&again[1])).collect();
    let of = |at: usize, value: fn(&Run) -> f64| {
        Spread::of(&pairs, |&(good, bad)| value(if at == 0 { good } else { bad }))
    };
    let paused = |at| of(at, |run| run.paused_servers as f64);
    let of_tors = |at| of(at, |run| run.of_tors as f64);
    let p99 = |at| of(at, |run| run.p99);
    let always = |so: fn(&Run, &Run) -> bool| pairs.iter().all(|(good, bad)| so(good, bad));
    Ok(vec![Outcome {
        ran: format!(
            "the Clos of figure 7 with {} servers; {CHATTY} chatty servers below each of two ToRs of \
             9 MB query {QUERIED} servers at once, every {} ms, answers of {COMPARED} bytes; \
             others at 350 Mb/s; {} ms; the median of {} seeds, and between what",
            good.servers,
            PERIOD.as_ps() / 1_000_000_000,
            short(good.seconds * 1e3),
            pairs.len()
        ),
        scale: Some(format!("{} ms, {} servers", short(good.seconds * 1e3), good.servers)),
        measured: format!(
            "1/16: the two ToRs send {} pauses, {} servers receive {}; others' messages take {} us \
             (p50) and {} us (p99). 1/64: {} pauses, {} servers receive {}, one of them as if {} in \
             five minutes; {} and {} us. Pauses received at other lengths of answer with one seed, \
             1/16 and 1/64: {}. {} queries, {} packets dropped",
            of_tors(0),
            paused(0),
            of(0, |run| run.received as f64),
            of(0, |run| run.p50),
            p99(0),
            of_tors(1),
            paused(1),
            of(1, |run| run.received as f64),
            of(1, |run| run.most as f64 / run.seconds * FIVE_MINUTES),
            of(1, |run| run.p50),
            p99(1),
            told.join(", "),
            pairs.iter().map(|(good, bad)| good.queries + bad.queries).sum::<u64>(),
            pairs.iter().map(|(good, bad)| good.drops + bad.drops).sum::<u64>(),
        ),
        checks: vec![
            Check::order(
                ("pauses of the ToRs at 1/16", of_tors(0).median()),
                ("at 1/64", of_tors(1).median()),
                "",
            ),
            Check::order(
                ("p99 of others at 1/16", p99(0).median()),
                ("at 1/64", p99(1).median()),
                "us",
            ),
            Check::event(
                "with every seed more servers receive pauses at 1/64, and others wait longer (p99)",
                always(|good, bad| good.paused_servers < bad.paused_servers && good.p99 < bad.p99),
            ),
            Check::event(
                "with every seed a tenth of the servers do so at 1/64",
                always(|_, bad| bad.paused_servers * 10 >= bad.servers),
            )
            .because(REACH),
            Check::event(
                "with every seed none does at 1/16",
                always(|good, _| good.paused_servers == 0),
            )
            .because(REACH),
        ],
        figures: vec![services, over_time, sweep],
        claim,
    }])
}
