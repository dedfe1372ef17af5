//! 5.4 and figure 7: how much of a three-tier Clos can be used with ECMP.
//!
//! Four ways in which the queue pairs may depend on each other, each over several hashes:
//!
//! - hungry: each always has more to send than can be in flight;
//! - 128 KB each: the same, with at most so much in flight;
//! - by server: a server posts the next messages when all eight of its queue pairs have completed;
//! - all together: all wait for the slowest, as if each had the rate of the fullest link.

use std::collections::BTreeMap;

use fabric::Network;
use fabric::scenario::Scenario;
use fabric::topology::{ClosShape, End, clos};
use fabric::workload::FlowSpec;
use rdma::{Span, Time};

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coupling {
    Hungry,
    Bounded,
    ByServer,
    Together,
}

const COUPLINGS: [(Coupling, &str); 4] = [
    (Coupling::Hungry, "hungry"),
    (Coupling::Bounded, "128 KB each"),
    (Coupling::ByServer, "by server"),
    (Coupling::Together, "all together"),
];

struct Run {
    /// In Tb/s, in frames of the paper.
    aggregate: f64,
    /// Queue pairs on the Leaf-Spine link that has the most.
    most: usize,
    drops: u64,
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
    }
    let tors = topology.switches.iter().filter(|switch| switch.tier == 0).count() as u32 / 2;
    let hosts = topology.hosts.len() as u32 / tors / 2;
    Ok((scenario, Shape { tors, hosts }))
}

fn measure(options: Options, coupling: Coupling) -> Result<Run, Error> {
    let (mut scenario, Shape { tors, hosts }) = network(options)?;
    if options.quick {
        scenario.end = WARM + Span::from_ms(2);
    }
    let config = &mut scenario.network;
    let podset = config.topology.hosts.len() as u32 / 2;
    for tor in 0..tors {
        for server in 0..SERVERS {
            let here = tor * hosts + server;
            for (from, to) in [(here, here + podset), (here + podset, here)] {
                let flow = match coupling {
                    Coupling::Hungry => FlowSpec::write(from, to, 16 << 20).endless(),
                    Coupling::Bounded => FlowSpec::write(from, to, 64 << 10).endless(),
                    Coupling::ByServer => FlowSpec {
                        round: Some(from),
                        depth: 1,
                        ..FlowSpec::write(from, to, 64 << 10).endless()
                    },
                    Coupling::Together => FlowSpec::write(from, to, 256 << 10),
                };
                config.flows.extend(core::iter::repeat_n(flow, QUEUE_PAIRS as usize));
            }
        }
    }
    // Pauses follow valleys here; there is no circle to look for.
    config.deadlock_check = None;
    let mut network = Network::new(scenario.network)?;
    let bytes = |network: &Network| -> u64 {
        let hosts = 0..network.topology().hosts.len() as u32;
        hosts.flat_map(|host| network.host_stats(host)).map(|stats| stats.sent_bytes).sum()
    };
    let (bytes, time) = if coupling == Coupling::Together {
        network.run(Time::ZERO + Span::from_ms(100));
        (bytes(&network), network.now().since(Time::ZERO))
    } else {
        // What is on its way is about the same at both ends, and nothing is lost.
        network.run(WARM);
        let before = bytes(&network);
        network.run(scenario.end);
        (bytes(&network) - before, scenario.end.since(WARM))
    };
    let payload = bytes as f64 * 8.0 / (time.as_ps() as f64 / 1e12) / 1e12;
    Ok(Run {
        aggregate: payload * FRAME.0 / FRAME.1,
        most: most_on_a_link(&network),
        drops: network.drops().total(),
    })
}

/// How many flows cross the Leaf-Spine link that most of them cross, in one direction.
fn most_on_a_link(network: &Network) -> usize {
    let tier = |end: End| match end {
        End::Switch(index) => network.topology().switches[index as usize].tier,
        End::Host(_) => 0,
    };
    let mut counts: BTreeMap<(u32, End), usize> = BTreeMap::new();
    for flow in 0..network.flows().len() as u32 {
        for (switch, next) in network.flow_path(flow).unwrap_or_default() {
            if tier(End::Switch(switch)).max(tier(next)) == 2 {
                *counts.entry((switch, next)).or_default() += 1;
            }
        }
    }
    counts.into_values().max().unwrap_or(0)
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
    let mut told = Vec::new();
    let mut medians = Vec::new();
    let mut drops = 0;
    for (coupling, name) in COUPLINGS {
        let draws = seeds(context.options);
        context.say(&format!("figure 7: {name}, {} hashes", draws.len()));
        let runs = each(&draws, |options| measure(options, coupling))?;
        let used = |run: &Run| run.aggregate * part / capacity * 100.0;
        for (hash, run) in runs.iter().enumerate() {
            scatter.point(name, run.most as f64, run.aggregate * part);
            spread.point(name, hash as f64, used(run));
            drops += run.drops;
        }
        let used = Spread::of(&runs, used);
        told.push(format!("{name} {used} %"));
        medians.push(used.median());
    }
    let (hungry, together) = (medians[0], medians[3]);
    let tbps = |percent: f64| percent / 100.0 * capacity;
    scatter.reference("paper: 3.0 Tb/s", claim.value("aggregate_tbps"));
    let gbps = |percent: f64| tbps(percent) / part / servers * 1e3;
    let scale = quick.then(|| "a quarter of ToRs and Spines".to_owned());
    Ok(vec![Outcome {
        ran: format!(
            "the topology and pairing of figure 7, {servers} servers of those that are there; the \
             median of {} hashes, and between what",
            seeds(context.options).len()
        ),
        scale,
        measured: format!(
            "of {capacity} Tb/s: {}; hungry {} Tb/s and {} Gb/s a server, all together {} Tb/s \
             and {} Gb/s; {drops} packets dropped",
            told.join(", "),
            short(tbps(hungry)),
            short(gbps(hungry)),
            short(tbps(together)),
            short(gbps(together)),
        ),
        checks: vec![
            Check::number(&claim, "aggregate_tbps", tbps(hungry)).because(format!(
                "hungry queue pairs use what the fullest links leave to others; only with one rate \
                 for all, that of the fullest link, it is {} Tb/s, and the paper does not say what \
                 its queue pairs waited for",
                short(tbps(together))
            )),
            Check::number(&claim, "aggregate_tbps", tbps(together)),
            Check::number(&claim, "server_gbps", gbps(together)),
            Check::event("no packet is dropped", drops == 0),
        ],
        figures: vec![scatter, spread],
        claim,
    }])
}
