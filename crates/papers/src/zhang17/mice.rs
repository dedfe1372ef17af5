//! 3.4 and 3.5: mice beside mice, and beside elephants.

use bench::plan::{Flow, Verb};

use super::{FIRST, LARGE, MICE, SCALE, SMALL, bytes, mice, polls, sleeps, together};
use crate::draws::Spread;
use crate::figure::{Figure, Mark};
use crate::hosts::{Hosts, Runs, Seen};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const MICE_ALONE: &str = "zhang17.mouse-mouse";
const BESIDE: &str = "zhang17.elephant-mouse";
pub(super) const CLAIMS: &[&str] = &[MICE_ALONE, BESIDE];

/// A median that is kept changes by no more than this part; flows that share predictably differ by no
/// more, over draws: ours.
const KEPT: f64 = 0.1;
/// An elephant that does not notice has no more and no less bandwidth than within this factor: ours.
const UNNOTICED: f64 = 1.05;
/// What hurts slightly more does so by no more than this: ours.
const SLIGHTLY: f64 = 1.25;

const AWAKE: &str = "the polling mouse keeps their package awake, from which the elephant wakes sooner: \
                     with the mouse on the other processor it has as much as alone";
/// So many cores further on is one of the other processor.
const OTHER_PROCESSOR: u32 = 7;

/// A flow whose application is on a core: that, and as many on as others come before it.
fn on(flow: Flow, core: u32) -> Flow {
    Flow { core: Some(core), ..flow }
}

fn mouse(bytes: u32) -> Flow {
    polls(Verb::Write, bytes)
}

/// What a mouse has of a value beside another, over what it has alone: of medians of draws.
fn grown(runs: &Runs, alone: &Runs, value: fn(&Seen) -> f64) -> f64 {
    runs.spread(0, value).median() / alone.spread(0, value).median()
}

fn mice_alone(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(MICE_ALONE)?;
    let hosts = Hosts::pair(FIRST);
    context.say("figures 5 and 6");
    let mut ratios = Figure::new(
        "zhang17-figure-5",
        "Figure 5: median latency of one mouse over that of another beside it",
        Mark::Point,
    )
    .axes(("pair", ""), ("latency_ratio", ""))
    .caption("A point for each draw.");
    let mut tails = Figure::new(
        "zhang17-figure-6",
        "Figure 6: latency of WRITEs of 10 B beside another mouse",
        Mark::Bar,
    )
    .axes(("beside", ""), ("latency", "us"));
    let (mut checks, mut said) = (Vec::new(), Vec::new());
    let mut equal: Vec<(u32, Spread)> = Vec::new();
    for (index, &first) in MICE.iter().enumerate() {
        for &second in &MICE[index..] {
            let runs = mice(context, hosts.clone(), &[mouse(first), mouse(second)])?;
            let ratio = runs.ratio(|seen| seen.p50_us);
            let name = format!("{}, {}", bytes(first), bytes(second));
            for draw in ratio.draws() {
                ratios.point("first over second", name.as_str(), *draw);
            }
            said.push(format!("{name}: {ratio}"));
            if first == second {
                equal.push((first, ratio));
            } else {
                let rates = runs.ratio(|seen| seen.rate);
                let (slowest, least) = (ratio.most(), rates.least());
                let (us, rate) = (short(slowest), short(least));
                checks.push(Check::event(
                    format!("{name}: the largest ratio of medians is below 1: {us}"),
                    slowest < 1.0,
                ));
                checks.push(Check::event(
                    format!("{name}: the least ratio of rates is above 1: {rate}"),
                    least > 1.0,
                ));
            }
        }
    }
    let base = mice(context, hosts.clone(), &[mouse(MICE[0])])?;
    let mut rows = vec![("alone".to_owned(), base.clone())];
    for size in MICE {
        let runs = mice(context, hosts.clone(), &[mouse(MICE[0]), mouse(size)])?;
        rows.push((bytes(size), runs));
    }
    for (name, runs) in &rows {
        tails.point("p50", name.as_str(), runs.spread(0, |seen| seen.p50_us).median());
        tails.point("p99", name.as_str(), runs.spread(0, |seen| seen.p99_us).median());
    }
    let otherwise = if context.is_simulated() { other_order(context)? } else { String::new() };
    let last = &rows[rows.len() - 1].1;
    let median = grown(last, &base, |seen| seen.p50_us);
    let tail = grown(last, &base, |seen| seen.p99_us);
    let first = grown(&rows[1].1, &base, |seen| seen.p99_us);
    let most = claim.value("tail_growth_max");
    checks.push(Check::event(
        format!("beside 1 KB, 10 B keeps its median within {} %: {}", KEPT * 100.0, short(median)),
        (median - 1.0).abs() <= KEPT,
    ));
    checks.push(Check::order(
        ("p99 of 10 B beside 10 B, over alone", first),
        ("beside 1 KB", tail),
        "",
    ));
    checks.push(Check::event(
        format!("its p99 grows, and no more than {most} times: {}", short(tail)),
        tail > 1.0 + KEPT && tail <= most * (1.0 + KEPT),
    ));
    for (size, ratio) in &equal {
        let apart = ratio.most() / ratio.least();
        checks.push(
            Check::order(
                ("within a tenth, over draws", 1.0 + KEPT),
                (&format!("{0} beside {0}: the largest ratio over the least", bytes(*size)), apart),
                "",
            )
            .because(
                "two equal loops that poll share equally in the model: what made the paper's \
                 differ is not in its mechanisms, and a lottery of places would be an input",
            ),
        );
    }
    Ok(Outcome {
        ran: "two flows of WRITEs of 10 B, 100 B and 1 KB, busy polling, each on a core; medians of draws of \
              when they begin; 10 B beside 1 KB again with the other order of reading ahead"
            .to_owned(),
        scale: Some("10 ms instead of 10 million messages".to_owned()),
        measured: format!(
            "ratios of medians {}; 10 B alone p99 {} us, beside 10 B, 100 B and 1 KB {}, {} and {}{otherwise}",
            said.join("; "),
            base.spread(0, |seen| seen.p99_us),
            rows[1].1.spread(0, |seen| seen.p99_us),
            rows[2].1.spread(0, |seen| seen.p99_us),
            rows[3].1.spread(0, |seen| seen.p99_us),
        ),
        checks,
        figures: vec![ratios, tails],
        claim,
    })
}

/// The tail of 10 B where the NIC sends first what it has read first, and nothing waits for a payload that
/// was asked for before.
fn other_order(context: &mut Context<'_>) -> Result<String, Error> {
    let hosts = Hosts::pair(FIRST).but("prefetch_order", "\"by-readiness\"");
    let [small, .., large] = MICE;
    let alone = mice(context, hosts.clone(), &[mouse(small)])?;
    let beside = mice(context, hosts, &[mouse(small), mouse(large)])?;
    let [alone, beside] = [alone, beside].map(|runs| runs.spread(0, |seen| seen.p99_us));
    Ok(format!("; if the NIC read ahead by readiness, alone {alone} and beside 1 KB {beside}"))
}

fn beside(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(BESIDE)?;
    let hosts = Hosts::pair(FIRST);
    let mut figure = Figure::new(
        "zhang17-figure-7",
        "Figure 7: median latency of a mouse, alone and beside an elephant",
        Mark::Bar,
    )
    .axes(("mouse", ""), ("latency", "us"));
    let (mut checks, mut said) = (Vec::new(), Vec::new());
    context.say("figure 7: elephants");
    let mut unhurt = Vec::new();
    for large in [SMALL, LARGE] {
        let elephant = sleeps(Verb::Write, large);
        let without = together(context, hosts.clone(), core::slice::from_ref(&elephant))?;
        let without = without.spread(0, |seen| seen.serial_gbps);
        // The polling mouse is on the other processor, and keeps that awake.
        let apart = [on(mouse(MICE[0]), 0), on(elephant, OTHER_PROCESSOR)];
        let mut row = format!("the elephant of {} alone {without} Gb/s", bytes(large));
        let mut unmoved = None;
        if context.is_simulated() {
            let apart = together(context, hosts.clone(), &apart)?;
            let apart = apart.spread(1, |seen| seen.serial_gbps);
            row += &format!(", with a mouse of 10 B on the other processor {apart}");
            unmoved = Some(apart.median() / without.median());
        }
        said.push(row);
        unhurt.push((large, without, unmoved));
    }
    for size in MICE {
        context.say(&format!("figure 7: {}", bytes(size)));
        let alone = together(context, hosts.clone(), &[mouse(size)])?;
        let name = bytes(size);
        figure.point("alone", name.as_str(), alone.spread(0, |seen| seen.p50_us).median());
        let mut medians = Vec::new();
        for (large, without, unmoved) in &unhurt {
            let (large, pair) = (*large, [mouse(size), sleeps(Verb::Write, *large)]);
            let runs = together(context, hosts.clone(), &pair)?;
            let [median, rate] =
                [grown(&runs, &alone, |seen| seen.p50_us), grown(&runs, &alone, |seen| seen.rate)];
            let row = format!("beside {}", bytes(large));
            figure.point(row.as_str(), name.as_str(), runs.spread(0, |seen| seen.p50_us).median());
            let with = runs.spread(1, |seen| seen.serial_gbps);
            said.push(format!(
                "{name} {row}: median x{}, rate x{}, the elephant {with} Gb/s",
                short(median),
                short(rate)
            ));
            for (what, measured, value) in
                [("median", median, "median_growth"), ("rate", rate, "rate_left")]
            {
                let what = format!("{name} {row}: {what} over alone");
                checks.push(Check::between(&claim, &what, measured, [value, value]));
            }
            let more = with.median() / without.median();
            let is_unnoticed = |more: f64| (1.0 / UNNOTICED..=UNNOTICED).contains(&more);
            let check = Check::event(
                format!(
                    "beside {name} the elephant of {} has as much as alone: x{}",
                    bytes(large),
                    short(more)
                ),
                is_unnoticed(more),
            );
            // Its own control: no package that a neighbour keeps awake, and no more bandwidth.
            let is_awake = more > UNNOTICED && unmoved.is_some_and(is_unnoticed);
            checks.push(if is_awake { check.because(AWAKE) } else { check });
            medians.push(runs.spread(0, |seen| seen.p50_us));
        }
        let [beside_small, beside_large] = &medians[..] else { continue };
        let more = beside_large.median() / beside_small.median();
        checks.push(Check::event(
            format!(
                "{name}: 20 MB hurts slightly more than 1 MB, in every draw: medians \
                 {beside_large} and {beside_small} us"
            ),
            beside_large.least() > beside_small.most() && more <= SLIGHTLY,
        ));
    }
    Ok(Outcome {
        ran: "a mouse of WRITEs, busy polling, alone and beside an event-triggered elephant of WRITEs; \
              34 ms after 34 ms in every row"
            .to_owned(),
        scale: Some(SCALE.to_owned()),
        measured: said.join("; "),
        checks,
        figures: vec![figure],
        claim,
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    Ok(vec![mice_alone(context)?, beside(context)?])
}
