//! 6.2 and figure 10: two ToRs of a new type come with another default.
//!
//! ```text
//!   0          change (back at 1/16)      half                          end
//!   ├───────────────┼─────────────────────┼──────── what counts ─────────┤
//! ```
//!
//! Four rows, of eight seeds each: without chatty servers, 1/16, 1/64, and 1/64 that is changed back. How many
//! servers were chatty, how long answers were, how often they came and what the Leafs had is not said in
//! the paper. So there is a map over all of these, a seed a place.

use fabric::fault::{Fault, FaultKind};
use fabric::random::Random;
use fabric::switch::config::Threshold;
use fabric::topology::{End, Topology};
use fabric::workload::{Flow, FlowSpec, Interval, Verb};
use fabric::{Network, NetworkConfig};
use rdma::{Span, Time};

use super::scenario;
use crate::draws::{Row, each, seeds};
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::stats::quantile;
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const ALPHA: &str = "guo16.buffer.alpha";
pub(super) const CLAIMS: &[&str] = &[ALPHA];

/// How many servers each chatty one asks at once: "more than one thousand".
const QUERIED: u32 = 1_000;
/// A query that is a message, and not a READ.
const QUERY_BYTES: u32 = 64;
/// What the paper's numbers of pauses are about.
const FIVE_MINUTES: f64 = 300.0;
const STEP: Span = Span::from_us(500);
/// How long a place of the map is run, and a quick run.
const SHORT: Span = Span::from_ms(8);
/// What uplinks of a ToR carry, in Gb/s; places of the map that ask for more are left out.
const UPLINKS_GBPS: f64 = 160.0;

/// The alpha of the two ToRs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tors {
    /// 1/16, as everywhere.
    Wide,
    /// 1/64.
    Narrow,
    /// 1/64 until a quarter of the time, then 1/16.
    Back,
}

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    tors: Tors,
    /// Chatty servers below each of the two.
    chatty: u32,
    answer_bytes: u32,
    period: Span,
    /// Of Leafs and Spines, as a power of two.
    leaf: i8,
    /// Whether queries are messages that are answered, or READs.
    messages: bool,
}

/// What is compared: answers are four fifths of what the uplinks of such a ToR carry.
const COMPARED: Case = Case {
    tors: Tors::Wide,
    chatty: 8,
    answer_bytes: 8_000,
    period: Span::from_ms(4),
    leaf: -4,
    messages: false,
};

const ROWS: [(&str, Case); 4] = [
    ("no chatty servers, 1/64", Case { tors: Tors::Narrow, chatty: 0, ..COMPARED }),
    ("1/16", COMPARED),
    ("1/64", Case { tors: Tors::Narrow, ..COMPARED }),
    ("back at 1/16", Case { tors: Tors::Back, ..COMPARED }),
];

/// The places of the map.
fn places(quick: bool) -> Vec<Case> {
    let mut places = Vec::new();
    for chatty in [4, 8, 16] {
        for answer_bytes in [2_000, 8_000, 32_000] {
            for period_ms in [2, 4] {
                for leaf in [-4, -6] {
                    for messages in [false, true] {
                        let period = Span::from_ms(period_ms);
                        places.push(Case {
                            chatty,
                            answer_bytes,
                            period,
                            leaf,
                            messages,
                            ..COMPARED
                        });
                    }
                }
            }
        }
    }
    places.retain(|case| case.gbps() <= UPLINKS_GBPS);
    if quick {
        places.retain(|case| case.chatty == 4 && case.answer_bytes == 8_000);
    }
    places
}

impl Case {
    /// What comes to the servers below each of the two ToRs.
    fn gbps(&self) -> f64 {
        let bits = f64::from(self.chatty * QUERIED) * f64::from(self.answer_bytes) * 8.0;
        bits / (self.period.as_ps() as f64 / 1e3)
    }
}

/// What is seen in the second half of a run.
struct Run {
    /// Servers that received a pause, of all.
    paused_servers: usize,
    servers: usize,
    /// Pauses that the two ToRs sent, all servers received, and the one that received most.
    of_tors: u64,
    received: u64,
    most: u64,
    seconds: f64,
    /// How long messages of other services took that began in it, in us; one that is not over as long as
    /// it has lasted.
    p50: f64,
    p99: f64,
    /// At each step of the whole run, in ms: pauses that servers received in it.
    pauses: Vec<(f64, f64)>,
    /// When a message of another service began, in ms, and how long it took, in us.
    latencies: Vec<(f64, f64)>,
    queries: u64,
    drops: u64,
}

/// The switch above a host.
fn above(topology: &Topology, host: u32) -> Option<u32> {
    topology.links.iter().find_map(|link| match link.ends {
        [End::Host(of), End::Switch(tor)] | [End::Switch(tor), End::Host(of)] if of == host => {
            Some(tor)
        }
        _ => None,
    })
}

/// Gives lossless groups of a switch an alpha of their own.
fn set_alpha(config: &mut NetworkConfig, switch: u32, exponent: i8) {
    let mut own = config.switch.clone();
    for group in own.groups.iter_mut().filter(|group| group.lossless) {
        group.threshold = Threshold::Dynamic { exponent };
    }
    config.switches.insert(switch, own);
}

/// Adds what chatty servers ask: `queried` each, all at once, every period from a moment of its own.
fn ask(config: &mut NetworkConfig, chatty: &[u32], case: &Case, end: Time) {
    let mut random = Random::new(config.seed);
    let hosts = config.topology.hosts.len() as u32;
    let others: Vec<u32> = (0..hosts).filter(|host| !chatty.contains(host)).collect();
    let others = &others[..others.len().min(QUERIED as usize)];
    for &source in chatty {
        let mut start = Time::ZERO + Span::from_ps(random.below(case.period.as_ps()));
        if case.messages {
            config.flows.extend(others.iter().map(|&destination| FlowSpec {
                verb: Verb::Send,
                messages: None,
                depth: 1_000,
                start,
                reply_bytes: Some(case.answer_bytes),
                interval: Some(Interval::every(case.period)),
                ..FlowSpec::write(source, destination, QUERY_BYTES)
            }));
            continue;
        }
        while start < end {
            config.flows.extend(others.iter().map(|&destination| FlowSpec {
                verb: Verb::Read,
                start,
                ..FlowSpec::write(source, destination, case.answer_bytes)
            }));
            start += case.period;
        }
    }
}

fn measure(options: Options, case: &Case, is_short: bool) -> Result<Run, Error> {
    let mut scenario = scenario!(options, "alpha.toml")?;
    let config = &mut scenario.network;
    let end = if is_short { Time::ZERO + SHORT } else { scenario.end };
    let half = Time::from_ps(end.as_ps() / 2);
    config.deadlock_check = None;
    config.flows.retain(|flow| flow.start < end);
    let services = config.flows.len();
    for group in config.switch.groups.iter_mut().filter(|group| group.lossless) {
        group.threshold = Threshold::Dynamic { exponent: case.leaf };
    }
    // All ToRs have 1/16, but for the first of each podset.
    let hosts = config.topology.hosts.len() as u32;
    let firsts = [0, hosts / 2];
    let ours = firsts.map(|first| above(&config.topology, first).unwrap_or(0));
    for switch in 0..config.topology.switches.len() as u32 {
        if config.topology.switches[switch as usize].tier == 0 {
            let is_ours = ours.contains(&switch) && case.tors != Tors::Wide;
            set_alpha(config, switch, if is_ours { -6 } else { -4 });
        }
    }
    if case.tors == Tors::Back {
        let at = Time::from_ps(end.as_ps() / 4);
        let back = |switch| Fault { at, kind: FaultKind::AlphaChanges { switch, exponent: -4 } };
        config.faults.extend(ours.map(back));
    }
    let chatty: Vec<u32> =
        firsts.into_iter().flat_map(|first| first..first + case.chatty).collect();
    ask(config, &chatty, case, end);
    let mut network = Network::new(scenario.network)?;
    let received = |network: &Network| -> Vec<u64> {
        let of = |host| network.host_pauses(host).map_or(0, |pauses| pauses.received[3]);
        (0..hosts).map(of).collect()
    };
    let of_tors = |network: &Network| -> u64 {
        let counters = ours.into_iter().flat_map(|tor| network.switch_counters(tor));
        counters.map(|(_, of)| of.pause.sent[3]).sum()
    };
    let mut pauses = Vec::new();
    let (mut all_before, mut now) = (0, Time::ZERO);
    let mut at_half = (Vec::new(), 0);
    while now < end {
        now += STEP;
        network.run(now);
        let each = received(&network);
        let all: u64 = each.iter().sum();
        pauses.push((now.as_ps() as f64 / 1e9, (all - all_before) as f64));
        all_before = all;
        if now == half {
            at_half = (each, of_tors(&network));
        }
    }
    let by_server: Vec<u64> =
        received(&network).iter().zip(&at_half.0).map(|(after, before)| after - before).collect();
    let took = |flow: &Flow| {
        flow.completion_time().unwrap_or(now.since(flow.spec.start)).as_ps() as f64 / 1e6
    };
    let flows = &network.flows()[..services];
    let within = flows.iter().filter(|flow| flow.spec.start >= half);
    let mut times: Vec<f64> = within.map(took).collect();
    let mut latencies: Vec<(f64, f64)> =
        flows.iter().map(|flow| (flow.spec.start.as_ps() as f64 / 1e9, took(flow))).collect();
    latencies.sort_by(|a, b| a.0.total_cmp(&b.0));
    let answers = network.flows()[services..].iter().map(|flow| flow.completed).sum::<u64>();
    Ok(Run {
        paused_servers: by_server.iter().filter(|count| **count > 0).count(),
        servers: by_server.len(),
        of_tors: of_tors(&network) - at_half.1,
        received: by_server.iter().sum(),
        most: by_server.iter().copied().max().unwrap_or(0),
        seconds: end.since(half).as_ps() as f64 / 1e12,
        p50: quantile(&mut times, 0.5),
        p99: quantile(&mut times, 0.99),
        pauses,
        latencies,
        queries: answers / u64::from(QUERIED),
        drops: network.drops().total(),
    })
}

impl Row<Run> {
    fn told(&self) -> String {
        format!(
            "{}: the two ToRs send {} pauses, {} servers receive {}, one of them as if {} in five \
             minutes, others' messages take {} and {} us (p50, p99)",
            self.name,
            self.of(|run| run.of_tors as f64),
            self.of(|run| run.paused_servers as f64),
            self.of(|run| run.received as f64),
            self.of(|run| run.most as f64 / run.seconds * FIVE_MINUTES),
            self.of(|run| run.p50),
            self.of(|run| run.p99),
        )
    }

    /// Whether it is so with every seed, of this row and another.
    fn always(&self, other: &Self, so: fn(&Run, &Run) -> bool) -> bool {
        self.runs.iter().zip(&other.runs).all(|(run, other)| so(run, other))
    }
}

fn figures(rows: &[Row<Run>]) -> [Figure; 2] {
    let mut services = Figure::new(
        "guo16-figure-10a",
        "Figure 10(a): how long messages of other services take, the slowest of each 500 us",
        Mark::Line,
    )
    .axes(("time", "ms"), ("completion", "us"))
    .caption("The first seed. Back at 1/16 is so from a quarter of the time on.")
    .logarithmic();
    let mut over_time = Figure::new(
        "guo16-figure-10b",
        "Figure 10(b): pause frames that servers receive",
        Mark::Line,
    )
    .axes(("time", "ms"), ("pause_frames_per_500_us", ""));
    for row in rows {
        let Some(run) = row.runs.first() else { continue };
        for &(at, count) in &run.pauses {
            over_time.point(row.name, at, count);
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
            services.point(row.name, at, took);
        }
    }
    [services, over_time]
}

/// A place of the map under 1/16 and under 1/64.
struct Place {
    case: Case,
    wide: Run,
    narrow: Run,
}

impl Place {
    fn pauses_more(&self) -> bool {
        self.narrow.paused_servers > self.wide.paused_servers
    }

    fn pauses_nobody(&self) -> bool {
        self.narrow.paused_servers == 0 && self.wide.paused_servers == 0
    }
}

fn map(context: &mut Context<'_>) -> Result<Vec<Place>, Error> {
    let places = places(context.options.quick);
    context.say(&format!("alpha: a map of {} places", places.len()));
    // A draw is a place here, so that both cores have work.
    let numbered: Vec<Options> =
        (0..places.len() as u64).map(|seed| Options { seed, ..context.options }).collect();
    let options = context.options;
    each(&numbered, |place| {
        let case = places[place.seed as usize];
        let run = |tors| measure(options, &Case { tors, ..case }, true);
        Ok(Place { case, wide: run(Tors::Wide)?, narrow: run(Tors::Narrow)? })
    })
}

/// The map as a figure, and in words: by each value of each axis, at how many places 1/64 pauses more
/// servers.
fn told(places: &[Place]) -> (Figure, String) {
    let mut figure = Figure::new(
        "guo16-figure-10-map",
        "Servers that receive pauses, by what the paper does not say",
        Mark::Point,
    )
    .axes(("load_of_a_tor", "gbps"), ("paused_servers", ""))
    .caption("A point for each place of the map and each alpha of the two ToRs; one seed.");
    for place in places {
        let Case { chatty, answer_bytes, period, leaf, messages, .. } = place.case;
        let verb = if messages { "messages" } else { "READs" };
        for (alpha, run) in [("1/16", &place.wide), ("1/64", &place.narrow)] {
            let series = format!(
                "{alpha}: {chatty} chatty, {answer_bytes} B, {period}, Leafs 1/{}, {verb}",
                1 << -leaf
            );
            figure.point(series, place.case.gbps(), run.paused_servers as f64);
        }
    }
    let mut words = Vec::new();
    let mut count = |name: &str, of: &dyn Fn(&Case) -> bool| {
        let all: Vec<&Place> = places.iter().filter(|place| of(&place.case)).collect();
        if !all.is_empty() {
            let more = all.iter().filter(|place| place.pauses_more()).count();
            let nobody = all.iter().filter(|place| place.pauses_nobody()).count();
            words.push(format!("{name} {more} ({nobody} nobody) of {}", all.len()));
        }
    };
    for chatty in [4, 8, 16] {
        count(&format!("{chatty} chatty"), &|case| case.chatty == chatty);
    }
    for bytes in [2_000, 8_000, 32_000] {
        count(&format!("{bytes} B"), &|case| case.answer_bytes == bytes);
    }
    for ms in [2, 4] {
        count(&format!("{ms} ms"), &|case| case.period == Span::from_ms(ms));
    }
    for leaf in [-4, -6] {
        count(&format!("Leafs 1/{}", 1 << -leaf), &|case| case.leaf == leaf);
    }
    count("READs", &|case| !case.messages);
    count("messages", &|case| case.messages);
    count("below half of the uplinks", &|case| case.gbps() < UPLINKS_GBPS / 2.0);
    count("above", &|case| case.gbps() >= UPLINKS_GBPS / 2.0);
    (figure, words.join(", "))
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let claim = context.claim(ALPHA)?;
    let quick = context.options.quick;
    let mut rows = Vec::new();
    for (name, case) in ROWS {
        let draws = seeds(context.options);
        context.say(&format!("alpha: {name}, {} seeds", draws.len()));
        rows.push(Row { name, runs: each(&draws, |options| measure(options, &case, quick))? });
    }
    let places = map(context)?;
    let (map, of_map) = told(&places);
    let [services, over_time] = figures(&rows);
    let [none, wide, narrow, back] = &rows[..] else { return Ok(Vec::new()) };
    let sample = &wide.runs[0];
    let more = places.iter().filter(|place| place.pauses_more()).count();
    let nobody = places.iter().filter(|place| place.pauses_nobody()).count();
    let all = || rows.iter().flat_map(|row| &row.runs);
    Ok(vec![Outcome {
        ran: format!(
            "the Clos of figure 7 with {} servers; {} chatty servers below each of two ToRs of 9 MB ask \
             {QUERIED} servers at once, every {}, answers of {} bytes; others at 350 Mb/s; all rows count \
             the second {} ms; the median of {} seeds, and between what",
            sample.servers,
            COMPARED.chatty,
            COMPARED.period,
            COMPARED.answer_bytes,
            short(sample.seconds * 1e3),
            wide.runs.len()
        ),
        scale: Some(format!("{} ms, {} servers", short(sample.seconds * 1e3), sample.servers)),
        measured: format!(
            "{}. Of {} other places (chatty servers, answers, periods, alpha of Leafs, READs or messages; \
             one seed), 1/64 pauses more servers than 1/16 at {more}, neither pauses any at {nobody}: \
             {of_map}. {} rounds of queries answered, {} packets dropped",
            rows.iter().map(Row::told).collect::<Vec<_>>().join("; "),
            places.len(),
            all().map(|run| run.queries).sum::<u64>(),
            all().map(|run| run.drops).sum::<u64>(),
        ),
        checks: vec![
            Check::event(
                "without chatty servers no server receives a pause, with any seed",
                none.runs.iter().all(|run| run.received == 0),
            ),
            Check::order(
                (
                    "servers that receive pauses at 1/16",
                    wide.of(|run| run.paused_servers as f64).median(),
                ),
                ("at 1/64", narrow.of(|run| run.paused_servers as f64).median()),
                "",
            ),
            Check::event(
                "with every seed more servers receive pauses at 1/64 than at 1/16",
                narrow.always(wide, |run, other| run.paused_servers > other.paused_servers),
            ),
            Check::event(
                "and messages of others take longer (p99)",
                narrow.always(wide, |run, other| run.p99 > other.p99),
            ),
            Check::event(
                "one of them as many as in the paper",
                narrow.of(|run| run.most as f64 / run.seconds * FIVE_MINUTES).median()
                    >= claim.value("pauses_in_five_minutes"),
            ),
            Check::event(
                "back at 1/16 fewer servers receive pauses than at 1/64, with every seed",
                back.always(narrow, |run, other| run.paused_servers < other.paused_servers),
            ),
            Check::event(
                "and messages of others take less (p99)",
                back.always(narrow, |run, other| run.p99 < other.p99),
            ),
        ],
        figures: vec![services, over_time, map],
        claim,
    }])
}
