//! 1 and 5.4: processor time of RDMA and of TCP.
//!
//! In the model hosts pay for verbs, and no TCP stack takes time: what stands for one is a copy of every byte at
//! either end, which is the least that it does. On soft NICs the kernel's TCP and software RDMA move the
//! same bytes at the same rate; the NIC's work is in the process there.

use core::time::Duration;

use bench::plan::{Flow, Verb, WaitMode};
use bench::session::{self, Settings};
use bench::tcp::Connections;

use crate::draws::Spread;
use crate::figure::{Figure, Mark};
use crate::hosts::{Hosts, Runs, Seen, Times, plan};
use crate::study::Context;
use crate::{Check, Error, Outcome};

const CPU: &str = "guo16.cpu";
pub(super) const CLAIMS: &[&str] = &[CPU];

/// Xeons of two sockets, as zhang17 froze them.
const TESTBED: &str = "cx3-56g-xeon";
const MESSAGE: u32 = 65_536;
/// Close to none of all cores: ours.
const NEXT_TO_NONE: f64 = 1.0;
/// What both move on soft NICs, which is less than either can.
const SOFT_GBPS: f64 = 4.0;
const SOFT_MS: (f64, f64) = (50.0, 250.0);

/// Eight queue pairs that together have a rate.
fn flow(queue_pairs: u32, gbps: f64, wait: WaitMode) -> Flow {
    let rate = gbps * 1e9 / 8.0 / f64::from(MESSAGE);
    Flow {
        size_bytes: MESSAGE,
        queue_pairs,
        window: 4,
        rate_per_s: Some(rate),
        wait,
        ..Flow::new(Verb::Send)
    }
}

/// Percent of so many cores that sending, and receiving, take.
fn percent(runs: &Runs, cores: f64) -> [Spread; 2] {
    let part = move |of: f64| 100.0 * of / cores;
    [
        runs.spread(0, move |seen| part(seen.cores)),
        runs.spread(0, move |seen| part(seen.all_cores - seen.cores)),
    ]
}

fn simulated(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(CPU)?;
    let [connections, cores, tcp_gbps, rdma_gbps] =
        ["connections", "cores", "tcp_gbps", "rdma_gbps"].map(|name| claim.value(name));
    let asleep = |gbps| flow(connections as u32, gbps, WaitMode::Event);
    let rows = [
        ("RDMA at 8 Gb/s", rdma_gbps, asleep(rdma_gbps)),
        ("RDMA at 40 Gb/s", tcp_gbps, asleep(tcp_gbps)),
        ("the same busy polling", tcp_gbps, flow(connections as u32, tcp_gbps, WaitMode::Poll)),
        ("with a copy at either end", tcp_gbps, Flow { touch: true, ..asleep(tcp_gbps) }),
    ];
    let mut figure = Figure::new(
        "guo16-cpu",
        "1 and 5.4: processor time of all cores, by what is moved and how",
        Mark::Bar,
    )
    .axes(("row", ""), ("processor", "percent"));
    let hosts = Hosts::pair(TESTBED).after_ms(2.0).for_ms(10.0);
    let (mut said, mut checks) = (Vec::new(), Vec::new());
    for (name, gbps, flow) in rows {
        context.say(&format!("processor time: {name}"));
        let runs = context.runs(&hosts, &[flow])?;
        let moved = runs.spread(0, |seen| seen.gbps);
        let [send, receive] = percent(&runs, cores);
        figure.point("send", name, send.median());
        figure.point("receive", name, receive.median());
        said.push(format!("{name} {send} % to send and {receive} % to receive, {moved} Gb/s"));
        let reached = format!("{name}: nine tenths of its rate");
        checks.push(Check::order((&reached, 0.9 * gbps), ("what it moves", moved.least()), "Gb/s"));
        if gbps == rdma_gbps {
            for (what, part) in [("send", &send), ("receive", &receive)] {
                checks.push(Check::order(
                    (&format!("{name}, to {what}, the most"), part.most()),
                    ("close to none of all cores", NEXT_TO_NONE),
                    "%",
                ));
            }
        }
    }
    figure.reference("paper: TCP, to send", claim.value("tcp_send_percent"));
    figure.reference("paper: TCP, to receive", claim.value("tcp_receive_percent"));
    Ok(Outcome {
        claim,
        ran: "SENDs of 64 KB over eight queue pairs between Xeons, paced, event-triggered; percent of the \
              paper's 32 cores"
            .to_owned(),
        scale: Some(
            "RDMA's half alone: no TCP stack takes time in the model, and a copy at either end is the least \
             that one does"
                .to_owned(),
        ),
        measured: said.join("; "),
        checks,
        figures: vec![figure],
    })
}

/// Microseconds of processor time for a megabyte, both ends together.
fn per_megabyte(seen: &Seen) -> f64 {
    seen.all_cores * 8e3 / seen.gbps
}

fn rdma(
    settings: &Settings,
    options: crate::Options,
    queue_pairs: u32,
) -> Result<Vec<Seen>, bench::Failure> {
    let times = Times { warmup_ms: SOFT_MS.0, length_ms: SOFT_MS.1 };
    let flow = flow(queue_pairs, SOFT_GBPS, WaitMode::Event);
    let plan = plan("soft NICs", times, options, &[flow], 0)?;
    Seen::of(&session::run(&plan, settings, &[], &mut ())?)
}

fn tcp(count: u32) -> Result<Vec<Seen>, bench::Failure> {
    let length = Duration::from_secs_f64((SOFT_MS.0 + SOFT_MS.1) / 1e3);
    let of = Connections { count, bytes: MESSAGE as usize, gbps: SOFT_GBPS, length };
    let moved = of.run()?;
    Ok(vec![Seen { gbps: moved.gbps, all_cores: moved.cores, ..Seen::NOTHING }])
}

fn on_soft(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(CPU)?;
    let count = claim.value("connections") as u32;
    let nothing = |_| Ok(Vec::new());
    let kernel = context.draws(nothing, Box::new(move |_, _| tcp(count)))?;
    let shared = context
        .draws(nothing, Box::new(move |settings, options| rdma(settings, options, count)))?;
    let by_udp = context.draws(
        nothing,
        Box::new(move |settings, options| rdma(&settings.by_udp(), options, count)),
    )?;
    let rows = [("TCP", kernel), ("RDMA", shared), ("RDMA by UDP", by_udp)];
    let us = |runs: &Runs| runs.spread(0, per_megabyte);
    let told = rows.iter().map(|(name, runs)| {
        format!("{name} {} us at {} Gb/s", us(runs), runs.spread(0, |seen| seen.gbps))
    });
    let told: Vec<String> = told.collect();
    let [(_, kernel), others @ ..] = &rows;
    let least = us(kernel).least();
    let checks = others.iter().map(|(name, runs)| {
        Check::order(
            (&format!("{name}, the most"), us(runs).most()),
            ("TCP, the least", least),
            "us a megabyte",
        )
    });
    let checks = checks.collect();
    let mut figure = Figure::new(
        "guo16-cpu",
        "1 and 5.4: processor time of TCP and of software RDMA, both ends together",
        Mark::Bar,
    )
    .axes(("by", ""), ("processor", "us_per_megabyte"));
    for (name, runs) in &rows {
        figure.point("both ends", *name, us(runs).median());
    }
    Ok(Outcome {
        claim,
        ran: "64 KB messages over eight connections or queue pairs at 4 Gb/s, asleep between them"
            .to_owned(),
        scale: None,
        measured: format!("processor time for a megabyte, both ends together: {}", told.join("; ")),
        checks,
        figures: vec![figure],
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    Ok(vec![if context.is_simulated() { simulated(context)? } else { on_soft(context)? }])
}
