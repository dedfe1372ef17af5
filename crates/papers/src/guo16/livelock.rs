//! 4.1: one packet in 256 is lost, and messages have four thousand.
//!
//! The IP ID that a host begins with is chance, and so which packets are lost. Beside go-back-0 stands what
//! it does if nothing is lost, and if messages are shorter than what lies between two losses.

use fabric::Network;
use fabric::counters::Drop;
use fabric::workload::Verb;
use rdma::Time;
use transport::Recovery;

use super::scenario;
use crate::draws::{Row, each, seeds};
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

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

/// A message that fits between two losses: 128 packets.
const SHORT_BYTES: u32 = 128 << 10;

/// What is otherwise than in the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum But {
    Nothing,
    NoLoss,
    ShortMessages,
}

/// The use of the link's rate, in one draw.
struct Run {
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

fn measure(options: Options, recovery: Recovery, verb: Verb, but: But) -> Result<Run, Error> {
    let mut scenario = scenario!(options, "livelock.toml")?;
    let config = &mut scenario.network;
    config.nic.recovery = recovery;
    if but == But::NoLoss {
        config.faults.clear();
    }
    let flow = &mut config.flows[0];
    flow.verb = verb;
    if but == But::ShortMessages {
        let count = flow.message_bytes / SHORT_BYTES;
        flow.message_bytes = SHORT_BYTES;
        flow.messages = flow.messages.map(|messages| messages * u64::from(count));
    }
    if verb == Verb::Read {
        // READs fetch what WRITEs push: the data goes the same way.
        (flow.source, flow.destination) = (flow.destination, flow.source);
    }
    if options.quick {
        flow.messages = flow.messages.map(|messages| messages / 5);
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
        completed: flow.bytes() as f64 / full,
        goodput: network.delivered()[0].bytes() as f64 / full,
        busy: sent as f64 / full,
        dropped,
        wasted: sent.saturating_sub(flow.bytes()) as f64 / dropped as f64,
        finished: flow.finished_at.is_some(),
        round_trip,
    })
}

/// A row for each verb.
fn rows(
    context: &mut Context<'_>,
    recovery: Recovery,
    name: &str,
    but: But,
) -> Result<Vec<Row<Run>>, Error> {
    let draws = seeds(context.options);
    let row = |(verb, said): (Verb, &'static str)| {
        context.say(&format!("livelock: {name}, {said}, {} draws", draws.len()));
        let runs = each(&draws, |options| measure(options, recovery, verb, but))?;
        Ok(Row { name: said, runs })
    };
    VERBS.into_iter().map(row).collect()
}

/// A value of all rows in words.
fn told(rows: &[Row<Run>], value: impl Fn(&Run) -> f64 + Copy) -> String {
    let values = rows.iter().map(|row| format!("{} {}", row.name, row.of(value)));
    values.collect::<Vec<_>>().join(", ")
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let mut recovered = Vec::new();
    for (recovery, name) in RECOVERIES {
        recovered.push(rows(context, recovery, name, But::Nothing)?);
    }
    let [first, second, third] = &recovered[..] else { return Ok(Vec::new()) };
    let no_loss = rows(context, Recovery::GoBack0, "go-back-0 without loss", But::NoLoss)?;
    let short = rows(context, Recovery::GoBack0, "go-back-0, 128 KB", But::ShortMessages)?;
    let mut figure = Figure::new(
        "guo16-livelock",
        "One packet in 256 is dropped: goodput by loss recovery and verb",
        Mark::Bar,
    )
    .axes(("loss_recovery", ""), ("goodput", "percent"))
    .caption("The median of all draws.");
    for (rows, (_, name)) in recovered.iter().zip(RECOVERIES) {
        for row in rows {
            figure.point(row.name, name, row.of(|run| run.goodput * 100.0).median());
        }
    }
    let zero = context.claim(GO_BACK_0)?;
    figure.reference("paper, go-back-0", zero.value("goodput_gbps"));
    let dropped: u64 = first.iter().flat_map(|row| &row.runs).map(|run| run.dropped).sum();
    let draws = first[0].runs.len();
    let none = zero.value("goodput_gbps");
    let all = |rows: &[Row<Run>], so: &dyn Fn(&Run) -> bool| {
        rows.iter().flat_map(|row| &row.runs).all(so)
    };
    let livelock = Outcome {
        ran: format!(
            "two servers, one switch, 40 Gb/s, messages of 4 MB for 40 ms with each verb; the median of \
             {draws} draws of the first IP ID, and between what"
        ),
        scale: None,
        measured: format!(
            "completed messages {} % of the link; goodput {} %, the beginning of a message, once; \
             sent {} %; {dropped} packets dropped. Goodput without loss {} %; of messages of 128 KB, \
             shorter than what lies between two losses, {} %",
            told(first, |run| run.completed * 100.0),
            told(first, |run| run.goodput * 100.0),
            told(first, |run| run.busy * 100.0),
            told(&no_loss, |run| run.goodput * 100.0),
            told(&short, |run| run.goodput * 100.0),
        ),
        checks: vec![
            Check::event(
                "no message completes, with any verb in any draw",
                all(first, &|run| run.completed == none),
            ),
            Check::event("the link is full (95 %)", all(first, &|run| run.busy > 0.95)),
            Check::event("without loss all complete", all(&no_loss, &|run| run.finished)),
            Check::event("short messages complete", all(&short, &|run| run.completed > none)),
        ],
        figures: vec![figure],
        claim: zero,
    };
    // The packet that is lost, and one that has just begun, are beyond the round trip.
    let bound = |run: &Run| run.round_trip + 2.0 * 1_106.0;
    let recovered = Outcome {
        claim: context.claim(GO_BACK_N)?,
        ran: format!("the same, until 40 messages are there; {draws} draws"),
        scale: None,
        measured: format!(
            "goodput {} % of the link; bytes wasted for each drop {}, where RTT x C is {}; selective \
             repeat would give {} %",
            told(second, |run| run.goodput * 100.0),
            told(second, |run| run.wasted),
            second[0].of(|run| run.round_trip),
            told(third, |run| run.goodput * 100.0),
        ),
        checks: second
            .iter()
            .flat_map(|row| {
                let complete = row.runs.iter().all(|run| run.finished);
                [
                    Check::event(
                        format!("{}: messages complete in every draw", row.name),
                        complete,
                    ),
                    Check::order(
                        ("wasted for each drop, at most", row.of(|run| run.wasted).most()),
                        ("RTT x C and two packets", row.of(bound).least()),
                        "bytes",
                    ),
                ]
            })
            .collect(),
        figures: Vec::new(),
    };
    Ok(vec![livelock, recovered])
}
