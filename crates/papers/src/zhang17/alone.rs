//! 3.1 and 3.2, figures 1 to 3: one flow.

use bench::plan::Verb;

use super::{FIRST, VERBS, bytes, polls, sleeps};
use crate::figure::{Figure, Mark};
use crate::hosts::{Hosts, Runs};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const KINDS: &str = "zhang17.fig1-2.mouse-elephant";
const CPU: &str = "zhang17.fig3.cpu";
pub(super) const CLAIMS: &[&str] = &[KINDS, CPU];

const SIZES: [u32; 7] = [10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Medians that are alike, which figure 1 shows on a logarithmic axis: our number.
const ALIKE: f64 = 2.0;
/// The part of the largest bandwidth from which a flow is bound by it: ours.
const BOUND: f64 = 0.9;
/// Cores that are a whole one, and next to none: ours.
const WHOLE: f64 = 0.95;
const NEXT_TO_NONE: f64 = 0.1;

/// Long enough for some messages at 40 Gb/s.
fn length_ms(context: &Context<'_>, size: u32) -> f64 {
    let messages = if context.options.quick { 4.0 } else { 16.0 };
    (messages * f64::from(size) * 8.0 / 40e6).max(0.5)
}

fn alone(context: &mut Context<'_>, hosts: &Hosts, flow: bench::plan::Flow) -> Result<Runs, Error> {
    let hosts = hosts.clone().for_ms(length_ms(context, flow.size_bytes));
    context.runs(&hosts, &[flow])
}

/// Bandwidth of WRITEs, where that of the bus is another.
fn with_bus(context: &mut Context<'_>, size: u32, gbps: &str) -> Result<f64, Error> {
    let hosts = Hosts::pair(FIRST).but("bus_gbps", gbps);
    let runs = alone(context, &hosts, polls(Verb::Write, size))?;
    Ok(runs.spread(0, |seen| seen.gbps).median())
}

fn kinds(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(KINDS)?;
    let x = ("message", "");
    let mut latency = Figure::new(
        "zhang17-figure-1",
        "Figure 1: median latency of one flow, by verb and size of message",
        Mark::Line,
    )
    .axes(x, ("latency", "us"))
    .logarithmic();
    let mut bandwidth = Figure::new(
        "zhang17-figure-2",
        "Figure 2: bandwidth of one flow, by verb and size of message",
        Mark::Line,
    )
    .axes(x, ("bandwidth", "gbps"))
    .logarithmic();
    let hosts = Hosts::pair(FIRST);
    let (mut checks, mut said) = (Vec::new(), Vec::new());
    let of_mouse = claim.value("mouse_kb") * 1e3;
    let of_elephant = claim.value("elephant_mb") * 1e6;
    for (verb, name) in VERBS {
        context.say(&format!("figures 1 and 2: {name}"));
        let mut seen = Vec::new();
        for size in SIZES {
            let runs = alone(context, &hosts, polls(verb, size))?;
            let [us, gbps] = [runs.spread(0, |seen| seen.p50_us), runs.spread(0, |seen| seen.gbps)];
            latency.point(name, bytes(size).as_str(), us.median());
            bandwidth.point(name, bytes(size).as_str(), gbps.median());
            seen.push((f64::from(size), us, gbps));
        }
        let at = |size: f64| seen.iter().find(|of| of.0 == size).unwrap_or(&seen[0]);
        let (least, mouse, elephant) = (&seen[0], at(of_mouse), at(of_elephant));
        let largest = seen.iter().map(|of| of.2.median()).fold(0.0, f64::max);
        said.push(format!(
            "{name} {} us at 10 B, {} at 1 KB, {} Gb/s at 1 MB",
            least.1, mouse.1, elephant.2
        ));
        checks.push(Check::order(
            (&format!("{name}: median at 1 KB"), mouse.1.median()),
            ("twice that at 10 B", ALIKE * least.1.median()),
            "us",
        ));
        checks.push(Check::order(
            (&format!("{name}: nine tenths of the most"), BOUND * largest),
            ("bandwidth at 1 MB", elephant.2.least()),
            "Gb/s",
        ));
        checks.push(Check::order(
            (&format!("{name}: bandwidth at 1 KB"), mouse.2.most()),
            ("half of the most", largest / 2.0),
            "Gb/s",
        ));
    }
    if context.is_simulated() {
        context.say("figures 1 and 2: another bus");
        let [mouse, elephant] = [1_000, 1_000_000].map(|size| with_bus(context, size, "24.4"));
        let (mouse, elephant) = (short(mouse?), short(elephant?));
        said.push(format!(
            "with half of the bus WRITEs of 1 KB have {mouse} Gb/s, and those of 1 MB {elephant}"
        ));
    }
    Ok(Outcome {
        claim,
        ran: "one flow, busy polling, WRITEs, READs, SENDs and WRITEs with immediate of 10 B to 10 MB; \
              WRITEs again with half of the bus"
            .to_owned(),
        scale: None,
        measured: said.join("; "),
        checks,
        figures: vec![latency, bandwidth],
    })
}

fn cpu(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let mut figure = Figure::new(
        "zhang17-figure-3",
        "Figure 3: processor time of one flow of WRITEs, by size of message",
        Mark::Line,
    )
    .axes(("message", ""), ("processor", "percent"));
    let hosts = Hosts::pair(FIRST);
    context.say("figure 3");
    // A flow begins within 0.1 ms, and sleeps until then.
    let length = |context: &Context<'_>, size| length_ms(context, size).max(10.0);
    let (mut busy, mut asleep) = (Vec::new(), Vec::new());
    for size in SIZES {
        for (name, flow, rows) in [
            ("busy polling", polls(Verb::Write, size), &mut busy),
            ("event-triggered", sleeps(Verb::Write, size), &mut asleep),
        ] {
            let hosts = hosts.clone().for_ms(length(context, size));
            let runs = context.runs(&hosts, &[flow])?;
            let cores = runs.spread(0, |seen| seen.cores);
            figure.point(name, bytes(size).as_str(), cores.median() * 100.0);
            rows.push((size, cores));
        }
    }
    let least = busy.iter().map(|row| row.1.least()).fold(f64::INFINITY, f64::min);
    let large = asleep.iter().filter(|row| row.0 >= 1_000_000);
    let most = large.map(|row| row.1.most()).fold(0.0, f64::max);
    let percent = |rows: &[(u32, crate::draws::Spread)]| {
        let all = rows.iter().map(|row| short(row.1.median() * 100.0));
        all.collect::<Vec<_>>().join(", ")
    };
    Ok(Outcome {
        claim: context.claim(CPU)?,
        ran: "one flow of WRITEs of 10 B to 10 MB, waiting in both ways".to_owned(),
        scale: None,
        measured: format!(
            "percent of a core by size: busy polling {}; event-triggered {}",
            percent(&busy),
            percent(&asleep)
        ),
        checks: vec![
            Check::order(("95 % of a core", WHOLE), ("busy polling, the least", least), "cores"),
            Check::order(
                ("event-triggered from 1 MB on, the most", most),
                ("a tenth", NEXT_TO_NONE),
                "cores",
            ),
            Check::order(
                ("event-triggered at 1 MB, the most", most),
                ("at 10 B, the least", asleep[0].1.least()),
                "cores",
            ),
        ],
        figures: vec![figure],
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    Ok(vec![kinds(context)?, cpu(context)?])
}
