//! 5.2: which counter of a port shows how severe congestion is.

use fabric::Network;
use fabric::fault::{Fault, FaultKind};
use fabric::topology::End;
use rdma::{Span, Time};

use super::{jitter, scenario, watched};
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::stats::agreement;
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const COUNTERS: &str = "guo16.counters";
pub(super) const CLAIMS: &[&str] = &[COUNTERS];

/// The receiver: the last host.
const RECEIVER: u32 = 3;
/// How long the NIC takes for a packet, in ns; one comes every 221 at 40 Gb/s. `None`: for ever.
const RECEIVE_NS: [Option<u64>; 9] = [
    Some(100),
    Some(225),
    Some(250),
    Some(300),
    Some(450),
    Some(900),
    Some(3_000),
    Some(12_000),
    None,
];

struct Row {
    /// The lost share of the first row's goodput, in per cent.
    lost: f64,
    goodput: f64,
    /// Pause frames that the switch port received a second.
    frames: f64,
    /// For how much of the time it was paused, in per cent.
    paused: f64,
    drops: u64,
}

/// Within what the senders begin.
const JITTER: Span = Span::from_us(100);

fn measure(options: Options, receive_ns: Option<u64>) -> Result<Row, Error> {
    let mut scenario = scenario!(options, "counters.toml")?;
    let config = &mut scenario.network;
    jitter(config, JITTER);
    match receive_ns {
        Some(time) => config.nic.receive = Span::from_ns(time),
        None => {
            let kind = FaultKind::NicStuck { host: RECEIVER };
            config.faults.push(Fault { at: Time::ZERO, kind });
        }
    }
    // Only the last host is slow.
    let slow = config.nic.clone();
    config.nic.receive = Span::ZERO;
    config.nics.insert(RECEIVER, slow);
    let mut network = Network::new(scenario.network)?;
    network.run(scenario.end);
    let seconds = scenario.end.since(Time::ZERO).as_ps() as f64 / 1e12;
    let pause = network.port_counters(0, End::Host(RECEIVER)).unwrap_or_default().pause;
    let bytes: u64 = network.delivered().into_iter().map(fabric::Delivered::bytes).sum();
    Ok(Row {
        lost: 0.0,
        goodput: bytes as f64 * 8.0 / seconds / 1e9,
        frames: (pause.received[3] + pause.received_resume[3]) as f64 / seconds,
        paused: pause.paused_ps[3] as f64 / 1e12 / seconds * 100.0,
        drops: network.drops().total(),
    })
}

/// The rows of a draw.
struct Draw {
    rows: Vec<Row>,
    /// How pause time and pause frames agree with lost goodput.
    by_time: f64,
    by_count: f64,
    /// Pause frames a second, at most and of a NIC that stands still.
    most: f64,
    last: f64,
}

impl Draw {
    fn measure(options: Options) -> Result<Self, Error> {
        let rows = RECEIVE_NS.into_iter().map(|receive_ns| measure(options, receive_ns));
        let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
        let best = rows.iter().map(|row| row.goodput).fold(0.0, f64::max);
        for row in &mut rows {
            row.lost = (1.0 - row.goodput / best) * 100.0;
        }
        let pairs = |value: fn(&Row) -> f64| -> Vec<(f64, f64)> {
            rows.iter().map(|row| (row.lost, value(row))).collect()
        };
        Ok(Self {
            by_time: agreement(&pairs(|row| row.paused)),
            by_count: agreement(&pairs(|row| row.frames)),
            most: rows.iter().map(|row| row.frames).fold(0.0, f64::max),
            last: rows.last().map_or(f64::NAN, |row| row.frames),
            rows,
        })
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    context.say("counters: receivers that are too slow");
    let draws = each(&seeds(context.options), Draw::measure)?;
    let watched = watched::run(context)?;
    // One that was not found at all is one that took for ever.
    let found = Spread::of(&watched.storms, |seen| seen.after_ms.unwrap_or(f64::INFINITY));
    let others = |all: &[watched::Seen]| all.iter().map(|seen| seen.others.len()).sum::<usize>();
    let mut figure = Figure::new(
        "guo16-counters",
        "Pause frames and pause time, by how much of the goodput is lost",
        Mark::Line,
    )
    .axes(("goodput_lost", "percent"), ("part", "percent"))
    .caption("The first draw.");
    for row in &draws[0].rows {
        figure.point("time paused", row.lost, row.paused);
    }
    for row in &draws[0].rows {
        figure.point("pause frames", row.lost, row.frames / draws[0].most * 100.0);
    }
    let drops: u64 = draws.iter().flat_map(|draw| &draw.rows).map(|row| row.drops).sum();
    let of = |value: fn(&Draw) -> f64| Spread::of(&draws, value);
    let (by_time, by_count) = (of(|draw| draw.by_time), of(|draw| draw.by_count));
    let (most, last) = (of(|draw| draw.most), of(|draw| draw.last));
    Ok(vec![Outcome {
        claim: context.claim(COUNTERS)?,
        ran: format!(
            "three servers send to one whose NIC takes 0.1 to 12 us a packet, or stands still; the \
             median of {} draws of when they begin, and between what; a NIC that storms as in 6.2, any of 64 at \
             any moment, and the same without it, under the detectors of ferroce watch with counters every 25 ms and storms of \
             100 ms",
            draws.len()
        ),
        scale: None,
        measured: format!(
            "agreement with lost goodput (Kendall's tau): pause time {by_time}, pause frames {by_count}; \
             the most frames are {most} a second, and a NIC that stands still sends {last}; {drops} RDMA \
             packets dropped. The NIC that storms is named by its counters after {found} ms; beside it {} \
             findings with the storm, {} without",
            others(&watched.storms),
            others(&watched.healthy),
        ),
        checks: vec![
            Check::event("no RDMA packet is dropped", drops == 0),
            Check::order(
                ("agreement of frames, at most", by_count.most()),
                ("agreement of time, at least", by_time.least()),
                "",
            ),
            Check::order(
                ("frames at a standstill, at most", last.most()),
                ("frames of the worst, at least", most.least()),
                "a second",
            ),
            Check::event(
                format!(
                    "with every seed the NIC that storms is named within {} ms, as the detector promises",
                    watched::PROMISED_MS
                ),
                found.most() <= watched::PROMISED_MS,
            ),
            Check::event("and nobody without a storm", others(&watched.healthy) == 0),
        ],
        figures: vec![figure],
    }])
}
