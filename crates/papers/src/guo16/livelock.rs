//! 4.1: one packet in 256 is lost, and messages have four thousand.

use fabric::Network;
use fabric::counters::Drop;
use fabric::workload::Verb;
use rdma::Time;
use transport::Recovery;

use super::scenario;
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const GO_BACK_0: &str = "guo16.livelock.go-back-0";
const GO_BACK_N: &str = "guo16.livelock.go-back-n";
pub(super) const CLAIMS: &[&str] = &[GO_BACK_0, GO_BACK_N];

const RECOVERIES: [(Recovery, &str); 3] = [
    (Recovery::GoBack0, "go-back-0"),
    (Recovery::GoBackN, "go-back-N"),
    (Recovery::SelectiveRepeat, "selective repeat"),
];
const VERBS: [(Verb, &str); 3] =
    [(Verb::Send, "SEND"), (Verb::Write, "WRITE"), (Verb::Read, "READ")];

/// The use of the link's rate with one recovery and verb.
struct Run {
    recovery: Recovery,
    verb: &'static str,
    /// Bytes of completed messages, bytes delivered in order, and bytes sent, over what the link carries
    /// in that time.
    completed: f64,
    goodput: f64,
    busy: f64,
    dropped: u64,
    /// Bytes sent beyond those of use, for each packet dropped.
    wasted: f64,
    /// Every message completed.
    finished: bool,
    /// What the link carries from a packet's first bit to its acknowledgement's last.
    round_trip: f64,
}

fn measure(
    context: &Context<'_>,
    recovery: Recovery,
    verb: (Verb, &'static str),
) -> Result<Run, Error> {
    let mut scenario = scenario!(context, "livelock.toml")?;
    let config = &mut scenario.network;
    config.nic.recovery = recovery;
    let flow = &mut config.flows[0];
    flow.verb = verb.0;
    if verb.0 == Verb::Read {
        // READs fetch what WRITEs push: the data goes the same way.
        (flow.source, flow.destination) = (flow.destination, flow.source);
    }
    if context.options.quick {
        flow.messages = Some(8);
    }
    let (mtu, rate) = (config.nic.mtu.bytes(), config.topology.links[0].rate);
    let mut network = Network::new(scenario.network)?;
    network.run(scenario.end);
    let flow = &network.flows()[0];
    let ended = flow.finished_at.unwrap_or_else(|| network.now());
    let seconds = ended.since(Time::ZERO).as_ps() as f64 / 1e12;
    // A frame has 62 bytes of headers and checks, and 20 of preamble and gap.
    let payload = f64::from(mtu);
    let full = rate.as_bps() as f64 * payload / (payload + 82.0) * seconds / 8.0;
    let sent: u64 = network.host_stats(0).iter().map(|stats| stats.sent_bytes).sum();
    let dropped = network.drops().of(Drop::Rule);
    let round_trip = network
        .unloaded(0, 1, mtu)
        .map_or(f64::NAN, |span| span.as_ps() as f64 / 1e12 * rate.as_bps() as f64 / 8.0);
    Ok(Run {
        recovery,
        verb: verb.1,
        completed: flow.bytes() as f64 / full,
        goodput: network.delivered()[0].bytes() as f64 / full,
        busy: sent as f64 / full,
        dropped,
        wasted: sent.saturating_sub(flow.bytes()) as f64 / dropped as f64,
        finished: flow.finished_at.is_some(),
        round_trip,
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let mut runs = Vec::new();
    for (recovery, name) in RECOVERIES {
        for verb in VERBS {
            context.say(&format!("livelock: {name}, {}", verb.1));
            runs.push(measure(context, recovery, verb)?);
        }
    }
    let mut figure = Figure::new(
        "guo16-livelock",
        "One packet in 256 is dropped: goodput by loss recovery and verb",
        Mark::Bar,
    )
    .axes(("loss_recovery", ""), ("goodput", "percent"));
    for run in &runs {
        let name = RECOVERIES.iter().find(|of| of.0 == run.recovery).map_or("", |of| of.1);
        figure.point(run.verb, name, run.goodput * 100.0);
    }
    let of = |recovery: Recovery| -> Vec<&Run> {
        runs.iter().filter(|run| run.recovery == recovery).collect()
    };
    let each = |runs: &[&Run], value: fn(&Run) -> f64| {
        let values = runs.iter().map(|run| format!("{} {}", run.verb, short(value(run))));
        values.collect::<Vec<_>>().join(", ")
    };
    let zero = context.claim(GO_BACK_0)?;
    let first = of(Recovery::GoBack0);
    figure.reference("paper, go-back-0", zero.value("goodput_gbps"));
    let dropped: u64 = first.iter().map(|run| run.dropped).sum();
    let livelock = Outcome {
        ran: "two servers, one switch, 40 Gb/s, messages of 4 MB for 40 ms with each verb"
            .to_owned(),
        scale: None,
        measured: format!(
            "completed messages {} % of the link; goodput {} %, the beginning of a message, once; \
             sent {} %; {dropped} packets dropped",
            each(&first, |run| run.completed * 100.0),
            each(&first, |run| run.goodput * 100.0),
            each(&first, |run| run.busy * 100.0),
        ),
        checks: first
            .iter()
            .flat_map(|run| {
                let none = run.completed == zero.value("goodput_gbps");
                [
                    Check::event(format!("{}: no message completes", run.verb), none),
                    Check::event(format!("{}: the link is full (95 %)", run.verb), run.busy > 0.95),
                ]
            })
            .collect(),
        figures: vec![figure],
        claim: zero,
    };
    let (second, third) = (of(Recovery::GoBackN), of(Recovery::SelectiveRepeat));
    // The packet that is lost, and one that has just begun, are beyond the round trip.
    let bound = |run: &Run| run.round_trip + 2.0 * 1_106.0;
    let recovered = Outcome {
        claim: context.claim(GO_BACK_N)?,
        ran: "the same, until 40 messages are there".to_owned(),
        scale: None,
        measured: format!(
            "goodput {} % of the link; bytes wasted for each drop {}, where RTT x C is {}; selective \
             repeat would give {} %",
            each(&second, |run| run.goodput * 100.0),
            each(&second, |run| run.wasted),
            second.first().map_or_else(String::new, |run| short(run.round_trip)),
            each(&third, |run| run.goodput * 100.0),
        ),
        checks: second
            .iter()
            .flat_map(|run| {
                [
                    Check::event(format!("{}: messages complete", run.verb), run.finished),
                    Check::order(
                        ("wasted for each drop", run.wasted),
                        ("RTT x C and two packets", bound(run)),
                        "bytes",
                    ),
                ]
            })
            .collect(),
        figures: Vec::new(),
    };
    Ok(vec![livelock, recovered])
}
