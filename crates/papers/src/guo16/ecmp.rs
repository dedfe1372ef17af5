//! 5.4 and figure 7: how much of a three-tier Clos can be used with ECMP.
//!
//! The paper does not say what its queue pairs waited for, nor what control they had. So there is a row for
//! each way, over several hashes:
//!
//! - saturating: each always has more to send than can be in flight, under PFC alone;
//! - DCQCN: the same, with marks and rates as in its paper;
//! - 128 KB each: saturating, with at most so much in flight;
//! - paced: all have one rate, 1 Gb/s (the paper's 8 Gb/s a server) or 1.25 Gb/s;
//! - barrier of a server: it posts the next messages when all eight of its queue pairs have completed;
//! - barrier of all: all post the next when the slowest has completed, again and again;
//! - polarised: saturating, and all switches choose by the same hash.

use std::collections::BTreeMap;

use fabric::Network;
use fabric::random::Random;
use fabric::scenario::Scenario;
use fabric::switch::config::EcnConfig;
use fabric::topology::{ClosShape, End, clos};
use fabric::workload::{FlowSpec, Interval};
use rdma::{Span, Time};
use transport::congestion::{Congestion, Dcqcn};

use super::scenario;
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const ECMP: &str = "guo16.fig7.ecmp-throughput";
pub(super) const CLAIMS: &[&str] = &[ECMP];

/// Servers of a ToR that take part, and queue pairs of each in each direction.
const SERVERS: u32 = 8;
const QUEUE_PAIRS: u32 = 8;
/// The frame that the paper counts in, and its payload.
const FRAME: (f64, f64) = (1_086.0, 1_024.0);
/// From when on throughput is measured.
const WARM: Time = Time::from_ps(3_000_000_000);
/// A message of those that are paced: four packets.
const PACED_BYTES: u32 = 4 << 10;
/// A message of those that wait for each other, and how often all do.
const ROUND_BYTES: u32 = 128 << 10;
const ROUNDS: u64 = 4;
/// A paced queue pair has its rate if it gets so much of it.
const WHOLE: f64 = 0.95;
/// What a link carries, in Gb/s.
const LINK_GBPS: f64 = 40.0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Coupling {
    Saturating,
    Dcqcn,
    Bounded,
    /// In Gb/s of the paper's frames.
    Paced(f64),
    ByServer,
    Together,
    Polarised,
}

const COUPLINGS: [(Coupling, &str); 8] = [
    (Coupling::Saturating, "saturating"),
    (Coupling::Dcqcn, "DCQCN"),
    (Coupling::Bounded, "128 KB each"),
    (Coupling::Paced(1.0), "paced at 1 Gb/s"),
    (Coupling::Paced(1.25), "paced at 1.25 Gb/s"),
    (Coupling::ByServer, "barrier of a server"),
    (Coupling::Together, "barrier of all"),
    (Coupling::Polarised, "polarised"),
];

struct Run {
    /// In Tb/s, in frames of the paper.
    aggregate: f64,
    /// Queue pairs on the Leaf-Spine link that has the most.
    most: usize,
    /// Pause frames that servers received.
    pauses: u64,
    drops: u64,
    /// Of paced queue pairs, in per cent: those that do not get their rate, and of these those that
    /// cross no link which more are paced for than it carries.
    short: f64,
    victims: f64,
}

/// The shape of the network, as far as the pairing needs it.
struct Shape {
    tors: u32,
    hosts: u32,
}

/// The network of the scenario; in quick runs one with a quarter of its ToRs and Spines.
fn network(options: Options) -> Result<(Scenario, Shape), Error> {
    let mut scenario = scenario!(options, "ecmp.toml")?;
    let topology = &mut scenario.network.topology;
    if options.quick {
        let ClosShape { tors, spines, .. } = ClosShape::FIGURE_7;
        let small = ClosShape { tors: tors / 4, spines: spines / 4, ..ClosShape::FIGURE_7 };
        *topology = clos(&small);
        scenario.end = WARM + Span::from_ms(2);
    }
    let tors = topology.switches.iter().filter(|switch| switch.tier == 0).count() as u32 / 2;
    let hosts = topology.hosts.len() as u32 / tors / 2;
    // Pauses follow valleys here; there is no circle to look for.
    scenario.network.deadlock_check = None;
    Ok((scenario, Shape { tors, hosts }))
}

/// From one message of a paced queue pair to the next.
fn pace(gbps: f64) -> Span {
    let bits = f64::from(PACED_BYTES) * FRAME.0 / FRAME.1 * 8.0;
    Span::from_ps((bits / gbps * 1e3) as u64)
}

/// What a queue pair from one host to another does.
fn flow(coupling: Coupling, from: u32, to: u32, random: &mut Random) -> FlowSpec {
    match coupling {
        Coupling::Saturating | Coupling::Dcqcn | Coupling::Polarised => {
            FlowSpec::write(from, to, 16 << 20).endless()
        }
        Coupling::Bounded => FlowSpec::write(from, to, 64 << 10).endless(),
        Coupling::Paced(gbps) => FlowSpec {
            messages: None,
            depth: 1_000,
            interval: Some(Interval::every(pace(gbps))),
            start: Time::ZERO + Span::from_ps(random.below(pace(gbps).as_ps())),
            ..FlowSpec::write(from, to, PACED_BYTES)
        },
        Coupling::ByServer => FlowSpec {
            round: Some(from),
            depth: 1,
            ..FlowSpec::write(from, to, ROUND_BYTES).endless()
        },
        Coupling::Together => FlowSpec::write(from, to, ROUND_BYTES),
    }
}

/// The scenario with the queue pairs of all.
fn paired(options: Options, coupling: Coupling) -> Result<Scenario, Error> {
    let (mut scenario, Shape { tors, hosts }) = network(options)?;
    let config = &mut scenario.network;
    config.switch.polarised = coupling == Coupling::Polarised;
    if coupling == Coupling::Dcqcn {
        config.nic.congestion = Congestion::Dcqcn(Dcqcn::paper());
        for queue in &mut config.switch.queues {
            queue.ecn = Some(DCQCN_MARKS);
        }
    }
    let mut random = Random::new(options.seed);
    let podset = config.topology.hosts.len() as u32 / 2;
    for tor in 0..tors {
        for server in 0..SERVERS {
            let here = tor * hosts + server;
            for (from, to) in [(here, here + podset), (here + podset, here)] {
                for _ in 0..QUEUE_PAIRS {
                    config.flows.push(flow(coupling, from, to, &mut random));
                }
            }
        }
    }
    Ok(scenario)
}

/// The saturating queue pairs of the whole network, as workloads of a scenario.
pub(super) fn workloads() -> String {
    let ClosShape { tors, hosts, .. } = ClosShape::FIGURE_7;
    let podset = tors * hosts;
    let servers = (0..tors).flat_map(|tor| (0..SERVERS).map(move |server| tor * hosts + server));
    let pairs = servers.flat_map(|here| [(here, here + podset), (here + podset, here)]);
    let workload = |(from, to): (u32, u32)| {
        format!(
            "\n[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h{to}\"\n\
             message_bytes = 16_777_216\nendless = true\nqueue_pairs = {QUEUE_PAIRS}\n"
        )
    };
    pairs.map(workload).collect()
}

/// The marks of DCQCN's paper: 5 KB, 200 KB, 1 %.
pub(super) const DCQCN_MARKS: EcnConfig =
    EcnConfig { min_bytes: 5_000, max_bytes: 200_000, max_probability: 0.01 };

fn sent(network: &Network) -> u64 {
    let hosts = 0..network.topology().hosts.len() as u32;
    hosts.flat_map(|host| network.host_stats(host)).map(|stats| stats.sent_bytes).sum()
}

fn measure(options: Options, coupling: Coupling) -> Result<Run, Error> {
    let scenario = paired(options, coupling)?;
    if coupling == Coupling::Together {
        return together(scenario);
    }
    let end = scenario.end;
    let mut network = Network::new(scenario.network)?;
    network.run(WARM);
    // What is on its way is about the same at both ends, and nothing is lost.
    let (before, done) = (sent(&network), completed(&network));
    network.run(end);
    let time = end.since(WARM);
    let run = seen(&network, sent(&network) - before, time);
    let Coupling::Paced(gbps) = coupling else { return Ok(run) };
    let links = links(&network);
    let due = time.as_ps() as f64 / pace(gbps).as_ps() as f64 * WHOLE;
    let (mut short, mut victims) = (0, 0);
    for (flow, (now, before)) in completed(&network).iter().zip(&done).enumerate() {
        if (now - before) as f64 >= due {
            continue;
        }
        short += 1;
        let too_many = |link: &(u32, End)| links[link] as f64 * gbps > LINK_GBPS;
        victims += usize::from(!crossed(&network, flow as u32).iter().any(too_many));
    }
    let all = network.flows().len() as f64;
    let part = |count: usize| count as f64 / all * 100.0;
    Ok(Run { short: part(short), victims: part(victims), ..run })
}

/// By queue pair.
fn completed(network: &Network) -> Vec<u64> {
    network.flows().iter().map(|flow| flow.completed).collect()
}

/// All begin a message at once, and the next when the slowest may be done: as late as it was in a
/// round by itself.
fn together(scenario: Scenario) -> Result<Run, Error> {
    let most = Time::ZERO + Span::from_ms(100);
    let mut first = Network::new(scenario.network.clone())?;
    first.run(most);
    let round = first.now().since(Time::ZERO);
    let mut config = scenario.network;
    for flow in &mut config.flows {
        flow.messages = Some(ROUNDS);
        flow.interval = Some(Interval::every(round));
    }
    let mut network = Network::new(config)?;
    network.run(most);
    Ok(seen(&network, sent(&network), network.now().since(Time::ZERO)))
}

/// What `bytes` of payload within `time` come to.
fn seen(network: &Network, bytes: u64, time: Span) -> Run {
    let payload = bytes as f64 * 8.0 / (time.as_ps() as f64 / 1e12) / 1e12;
    let hosts = 0..network.topology().hosts.len() as u32;
    let pauses = hosts.filter_map(|host| network.host_pauses(host));
    Run {
        aggregate: payload * FRAME.0 / FRAME.1,
        most: links(network).into_values().max().unwrap_or(0),
        pauses: pauses.map(|pauses| pauses.received[3]).sum(),
        drops: network.drops().total(),
        short: 0.0,
        victims: 0.0,
    }
}

/// The Leaf-Spine links, each in one direction, that a queue pair crosses.
fn crossed(network: &Network, flow: u32) -> Vec<(u32, End)> {
    let tier = |end: End| match end {
        End::Switch(index) => network.topology().switches[index as usize].tier,
        End::Host(_) => 0,
    };
    let mut path = network.flow_path(flow).unwrap_or_default();
    path.retain(|&(switch, next)| tier(End::Switch(switch)).max(tier(next)) == 2);
    path
}

/// How many queue pairs cross each.
fn links(network: &Network) -> BTreeMap<(u32, End), usize> {
    let mut counts = BTreeMap::new();
    for flow in 0..network.flows().len() as u32 {
        for link in crossed(network, flow) {
            *counts.entry(link).or_default() += 1;
        }
    }
    counts
}

/// The draws of a row.
struct Row {
    coupling: Coupling,
    name: &'static str,
    runs: Vec<Run>,
    /// In per cent of what the network has.
    used: Spread,
}

impl Row {
    fn of(&self, value: fn(&Run) -> f64) -> Spread {
        Spread::of(&self.runs, value)
    }

    fn told(&self) -> String {
        let pauses = match self.of(|run| run.pauses as f64) {
            none if none.most() == 0.0 => "no server is paused".to_owned(),
            some => format!("servers receive {some} pauses"),
        };
        let short = match self.coupling {
            Coupling::Paced(_) => format!(
                ", {} % of the queue pairs do not get their rate, {} % though all their links have room",
                self.of(|run| run.short),
                self.of(|run| run.victims)
            ),
            _ => String::new(),
        };
        format!("{} {} %{short}, {pauses}", self.name, self.used)
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let claim = context.claim(ECMP)?;
    let quick = context.options.quick;
    let part = if quick { 4.0 } else { 1.0 };
    let capacity = claim.value("capacity_tbps");
    let servers = f64::from(network(context.options)?.1.tors * SERVERS * 2);
    let mut scatter = Figure::new(
        "guo16-figure-7",
        "Figure 7: aggregate throughput by the queue pairs on the fullest Leaf-Spine link",
        Mark::Point,
    )
    .axes(("queue_pairs_on_the_fullest_link", ""), ("aggregate", "Tbps"))
    .caption(
        "A point for each hash. 40 on the fullest link are 1 Gb/s each, and the paper's 60 %.",
    );
    let mut spread = Figure::new(
        "guo16-figure-7-spread",
        "Figure 7: utilisation over hashes",
        Mark::Distribution,
    )
    .axes(("hash", ""), ("utilisation", "percent"));
    let mut rows = Vec::new();
    for (coupling, name) in COUPLINGS {
        let draws = seeds(context.options);
        context.say(&format!("figure 7: {name}, {} hashes", draws.len()));
        let runs = each(&draws, |options| measure(options, coupling))?;
        let used = Spread::of(&runs, |run| run.aggregate * part / capacity * 100.0);
        for (hash, (run, &percent)) in runs.iter().zip(used.draws()).enumerate() {
            scatter.point(name, run.most as f64, run.aggregate * part);
            spread.point(name, hash as f64, percent);
        }
        rows.push(Row { coupling, name, runs, used });
    }
    scatter.reference("paper: 3.0 Tb/s", claim.value("aggregate_tbps"));
    let tbps = |row: &Row| row.used.median() / 100.0 * capacity;
    let gbps = |row: &Row| tbps(row) / part / servers * 1e3;
    let (paper, band) = (claim.value("aggregate_tbps"), claim.band.unwrap_or(1.0));
    let near: Vec<&str> = rows
        .iter()
        .filter(|row| (paper / band..=paper * band).contains(&tbps(row)))
        .map(|row| row.name)
        .collect();
    let near = if near.is_empty() { "none".to_owned() } else { near.join(", ") };
    let [saturating, dcqcn, .., fast, _, _, _] = &rows[..] else { return Ok(Vec::new()) };
    let drops: u64 = rows.iter().flat_map(|row| &row.runs).map(|run| run.drops).sum();
    let scale = quick.then(|| "a quarter of ToRs and Spines".to_owned());
    let unsaid = format!(
        "what the queue pairs of the paper waited for is not said; rows within its band: {near}"
    );
    Ok(vec![Outcome {
        ran: format!(
            "the topology and pairing of figure 7, {servers} servers of those that are there; from {} ms \
             on, or {ROUNDS} rounds; the median of {} hashes, and between what",
            WARM.as_ps() / 1_000_000_000,
            saturating.runs.len()
        ),
        scale,
        measured: format!(
            "of {capacity} Tb/s: {}; saturating {} Gb/s a server, DCQCN {}; within the paper's band: {near}; \
             {drops} packets dropped",
            rows.iter().map(Row::told).collect::<Vec<_>>().join("; "),
            short(gbps(saturating)),
            short(gbps(dcqcn)),
        ),
        checks: vec![
            Check::number(&claim, "aggregate_tbps", tbps(saturating)).because(unsaid.as_str()),
            Check::number(&claim, "server_gbps", gbps(saturating)).because(unsaid.as_str()),
            Check::number(&claim, "aggregate_tbps", tbps(dcqcn)).because(unsaid.as_str()),
            Check::number(&claim, "server_gbps", gbps(dcqcn)).because(unsaid.as_str()),
            Check::order(
                (
                    "queue pairs that are short of 1.25 Gb/s though all their links have room",
                    fast.of(|run| run.victims).median(),
                ),
                (
                    "those that cross a link with too many",
                    fast.of(|run| run.short - run.victims).median(),
                ),
                "%",
            ),
            Check::event("no packet is dropped", drops == 0),
        ],
        figures: vec![scatter, spread],
        claim,
    }])
}
