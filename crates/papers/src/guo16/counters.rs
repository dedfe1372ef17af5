//! 5.2: which counter of a port shows how severe congestion is.

use fabric::Network;
use fabric::fault::{Fault, FaultKind};
use fabric::topology::End;
use rdma::{Span, Time};

use super::scenario;
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::stats::agreement;
use crate::study::Context;
use crate::{Check, Error, Outcome};

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

fn measure(context: &Context<'_>, receive_ns: Option<u64>) -> Result<Row, Error> {
    let mut scenario = scenario!(context, "counters.toml")?;
    let config = &mut scenario.network;
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

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let mut rows: Vec<Row> = Vec::new();
    for receive_ns in RECEIVE_NS {
        context.say("counters: a receiver that is too slow");
        rows.push(measure(context, receive_ns)?);
    }
    let best = rows.iter().map(|row| row.goodput).fold(0.0, f64::max);
    for row in &mut rows {
        row.lost = (1.0 - row.goodput / best) * 100.0;
    }
    let frames: Vec<(f64, f64)> = rows.iter().map(|row| (row.lost, row.frames)).collect();
    let paused: Vec<(f64, f64)> = rows.iter().map(|row| (row.lost, row.paused)).collect();
    let most = frames.iter().map(|of| of.1).fold(0.0, f64::max);
    let mut figure = Figure::new(
        "guo16-counters",
        "Pause frames and pause time, by how much of the goodput is lost",
        Mark::Line,
    )
    .axes(("goodput_lost", "percent"), ("part", "percent"));
    for &(lost, value) in &paused {
        figure.point("time paused", lost, value);
    }
    for &(lost, value) in &frames {
        figure.point("pause frames", lost, value / most * 100.0);
    }
    let drops: u64 = rows.iter().map(|row| row.drops).sum();
    let (by_time, by_count) = (agreement(&paused), agreement(&frames));
    let last = rows.last().map_or(f64::NAN, |row| row.frames);
    Ok(vec![Outcome {
        claim: context.claim(COUNTERS)?,
        ran: "three servers send to one whose NIC takes 0.1 to 12 us a packet, or stands still"
            .to_owned(),
        scale: None,
        measured: format!(
            "agreement with lost goodput (Kendall's tau): pause time {}, pause frames {}; the most \
             frames are {} a second, and a NIC that stands still sends {}; {drops} RDMA packets \
             dropped",
            short(by_time),
            short(by_count),
            short(most),
            short(last),
        ),
        checks: vec![
            Check::event("no RDMA packet is dropped", drops == 0),
            Check::order(("agreement of frames", by_count), ("agreement of time", by_time), ""),
            Check::order(("frames at a standstill", last), ("frames at most", most), "a second"),
        ],
        figures: vec![figure],
    }])
}
