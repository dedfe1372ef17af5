//! Figures 1 and 3: one access at a time between two servers, with idle cores and with busy ones.

use super::{ABOUT, FRAMES, Method, TESTBED, bytes, one, one_in_step};
use crate::draws::Spread;
use crate::figure::{Figure, Mark};
use crate::hosts::Hosts;
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const READ_POLL: &str = "le19.fig1.read-poll";
const WRITE_SEND: &str = "le19.fig1.write-send";
const SEND_SEND: &str = "le19.fig1.send-send";
const LARGE: &str = "le19.fig1.large";
const CONTENDED: &str = "le19.fig3.contention-latency";
pub(super) const CLAIMS: &[&str] = &[READ_POLL, WRITE_SEND, SEND_SEND, LARGE, CONTENDED];

const METHODS: [Method; 4] =
    [Method::ReadIntr(1), Method::ReadPoll, Method::WriteSendPoll, Method::SendSendIntr];
const SIZES: [u32; 5] = [8, 64, 256, 1_024, 4_096];
/// Payloads that are small, those that are not large yet, and those that are inlined.
const SMALL: [u32; 2] = [8, 64];
const NOT_LARGE: [u32; 4] = [8, 64, 256, 1_024];
const INLINED: [u32; 3] = [8, 64, 256];
/// Where slices that begin together are tried.
const STEP_BYTES: u32 = 64;
/// Halves are from 0.4 to 0.6: ours.
const HALF: [f64; 2] = [0.4, 0.6];

/// Average latencies of all methods and sizes, in microseconds.
struct Latencies(Vec<(Method, u32, Spread)>);

impl Latencies {
    fn measure(context: &mut Context<'_>, is_contended: bool) -> Result<Self, Error> {
        let mut all = Vec::new();
        for method in METHODS {
            let figure = if is_contended { 3 } else { 1 };
            context.say(&format!("figure {figure}: {}", method.name()));
            for size in SIZES {
                let runs = one(context, method.flow(size), is_contended)?;
                all.push((method, size, runs.spread(0, |seen| seen.mean_us)));
            }
        }
        Ok(Self(all))
    }

    fn at(&self, method: Method, size: u32) -> Option<&Spread> {
        self.0.iter().find(|row| (row.0, row.1) == (method, size)).map(|row| &row.2)
    }

    fn of(&self, method: Method, size: u32) -> f64 {
        self.at(method, size).map_or(f64::NAN, Spread::median)
    }

    fn ratio(&self, over: Method, under: Method, size: u32) -> f64 {
        self.of(over, size) / self.of(under, size)
    }

    fn told(&self) -> String {
        let one = |method: Method| {
            let rows = self.0.iter().filter(|row| row.0 == method);
            let sizes = rows.map(|row| row.2.to_string()).collect::<Vec<_>>().join(", ");
            format!("{} {sizes}", method.name())
        };
        format!("us at 8, 64, 256, 1,024 and 4,096 B: {}", METHODS.map(one).join("; "))
    }

    fn figure(&self, name: &'static str, title: &str) -> Figure {
        let axes = (("payload", ""), ("latency", "us"));
        let mut figure = Figure::new(name, title, Mark::Line).axes(axes.0, axes.1).logarithmic();
        for (method, size, spread) in &self.0 {
            figure.point(method.name(), bytes(*size).as_str(), spread.median());
        }
        figure
    }

    /// The ratio of two methods is within a range at every size of some.
    fn within(&self, [over, under]: [Method; 2], sizes: &[u32], [least, most]: [f64; 2]) -> Check {
        let ratios: Vec<f64> = sizes.iter().map(|&size| self.ratio(over, under, size)).collect();
        let said = ratios.iter().map(|ratio| short(*ratio)).collect::<Vec<_>>().join(", ");
        let text = format!(
            "{} over {} is {} to {} at {sizes:?} B: {said}",
            over.name(),
            under.name(),
            short(least),
            short(most)
        );
        Check::event(text, ratios.iter().all(|ratio| (least..=most).contains(ratio)))
    }
}

const RAN: &str = "one access at a time between two servers, average latency";

fn idle(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let all = Latencies::measure(context, false)?;
    let [intr, poll, write, send] = METHODS;
    let outcome = |context: &Context<'_>, id, checks, figures| {
        let claim = context.claim(id)?;
        let (ran, measured) = (format!("{RAN}, idle cores; {FRAMES}"), all.told());
        Ok::<_, Error>(Outcome { claim, ran, scale: None, measured, checks, figures })
    };
    let halves = [intr, write].into_iter().flat_map(|other| SMALL.map(|size| (other, size)));
    let halves = halves.map(|(other, size)| {
        Check::order(
            (&format!("READ-Poll at {size} B"), all.of(poll, size)),
            (&format!("half of {}", other.name()), all.of(other, size) / 2.0),
            "us",
        )
    });
    let wire = context.claim(LARGE)?.value("wire_us");
    let limit = ("1.3 times the wire's time", ABOUT * wire);
    let growth = |method| all.of(method, 4_096) - all.of(method, 8);
    let grows = |method: Method| {
        let what = format!("{} grows from 8 to 4,096 B by", method.name());
        match method {
            Method::ReadIntr(_) => Check::order((&what, growth(method)), limit, "us"),
            _ => Check::order(limit, (&what, growth(method)), "us"),
        }
    };
    let mut large = Vec::from(METHODS.map(grows));
    if context.is_simulated() {
        let long_frames = in_long_frames(context)?;
        let growth = ("READ-Intr in frames of 4,096 B grows by", long_frames);
        large.push(Check::order(growth, limit, "us"));
    }
    let large = large.into_iter().map(Check::of_machine).collect();
    let figure =
        all.figure("le19-figure-1", "Figure 1: latency of one access at a time, idle cores");
    Ok(vec![
        outcome(context, READ_POLL, halves.collect(), vec![figure])?,
        outcome(
            context,
            WRITE_SEND,
            vec![all.within([write, intr], &INLINED, [1.0 / ABOUT, ABOUT])],
            Vec::new(),
        )?,
        outcome(
            context,
            SEND_SEND,
            vec![all.within([send, write], &NOT_LARGE, [2.0 / ABOUT, 2.0 * ABOUT])],
            Vec::new(),
        )?,
        outcome(context, LARGE, large, Vec::new())?,
    ])
}

/// By how many microseconds READ-Intr grows from 8 to 4,096 B in frames of that size. A switch that stores a
/// frame before it forwards it takes more time for them.
fn in_long_frames(context: &mut Context<'_>) -> Result<f64, Error> {
    let mut us = |size| {
        let hosts = Hosts::of(TESTBED, 2).but("mtu_bytes", "4_096").for_ms(4.0);
        let runs = context.runs(&hosts, &[Method::ReadIntr(1).flow(size)])?;
        Ok::<_, Error>(runs.spread(0, |seen| seen.mean_us).median())
    };
    Ok(us(4_096)? - us(8)?)
}

/// Latencies at 64 B of the two methods with two ends, where the slices of both hosts begin together.
fn in_step(context: &mut Context<'_>) -> Result<[Spread; 2], Error> {
    context.say("figure 3: slices in lockstep");
    let mut us = |method: Method| {
        let runs = one_in_step(context, method.flow(STEP_BYTES))?;
        Ok::<_, Error>(runs.spread(0, |seen| seen.mean_us))
    };
    let [.., write, send] = METHODS;
    Ok([us(write)?, us(send)?])
}

/// Why a method that polls at both ends is slow beside a solver: a reason, and what came of it where it would
/// make less of a difference. It stands if every draw there is faster than all others, falls if none is, and
/// is undecided where the draws overlap.
fn slices(apart: &Spread, together: &Spread) -> String {
    let reason = "both processes must have their cores: with slices that do not know of each other that \
                  is a quarter of the time, and half of it with one process";
    let seen = format!(
        "with slices that begin together WRITE/SEND-Poll takes {together} us at {STEP_BYTES} B, and {apart} \
         otherwise"
    );
    match (together.most() < apart.least(), together.least() >= apart.most()) {
        (true, _) => format!("{reason}; tried: {seen}"),
        (false, true) => format!("tried, and not so: that {reason}; {seen}"),
        (false, false) => format!("tried, and undecided: that {reason}; {seen}"),
    }
}

fn contended(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let all = Latencies::measure(context, true)?;
    let [intr, poll, write, send] = METHODS;
    let (mut otherwise, mut reason) = (String::new(), String::new());
    if context.is_simulated() {
        let [of_write, of_send] = in_step(context)?;
        otherwise = format!(
            "; at {STEP_BYTES} B, if the slices of both hosts begin together, {} {of_write} and {} {of_send}",
            write.name(),
            send.name()
        );
        if let Some(apart) = all.at(write, STEP_BYTES) {
            reason = slices(apart, &of_write);
        }
    }
    let about = [1.0 / ABOUT, ABOUT];
    let large = |method| all.of(method, 4_096);
    let lowest = [poll, write, send].map(|other| {
        Check::order(("READ-Intr at 4,096 B", large(intr)), (other.name(), large(other)), "us")
    });
    let mut checks = vec![
        all.within([poll, intr], &SMALL, about),
        all.within([write, send], &SMALL, about).because(&*reason),
        all.within([intr, send], &SMALL, HALF),
        all.within([poll, write], &SMALL, HALF).because(&*reason),
    ];
    checks.extend(lowest);
    checks.push(all.within([send, intr], &[4_096], [4.0 / ABOUT, 4.0 * ABOUT]));
    checks.push(Check::order(
        ("SEND/SEND-Intr at 4,096 B", large(send)),
        ("WRITE/SEND-Poll", large(write)),
        "us",
    ));
    Ok(Outcome {
        claim: context.claim(CONTENDED)?,
        ran: format!("{RAN}, a task that never waits on every core; 0.7 s; {FRAMES}"),
        scale: Some("0.7 s instead of 10".to_owned()),
        measured: all.told() + &otherwise,
        checks,
        figures: vec![
            all.figure("le19-figure-3", "Figure 3: latency of one access at a time, busy cores"),
        ],
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let mut outcomes = idle(context)?;
    outcomes.push(contended(context)?);
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_printed_as_what_its_row_makes_of_it() {
        let apart = Spread::from(vec![20.0, 25.0, 42.0]);
        let said = |draws: [f64; 3]| slices(&apart, &Spread::from(draws.into()));
        assert!(said([15.0, 16.0, 19.0]).starts_with("both processes must have their cores: "));
        assert!(said([15.0, 16.0, 21.0]).starts_with("tried, and undecided: that both "));
        let overlaps = said([16.0, 37.0, 258.0]);
        assert!(overlaps.starts_with("tried, and undecided: that both "), "{overlaps}");
        assert!(overlaps.ends_with("takes 37 (16 to 258) us at 64 B, and 25 (20 to 42) otherwise"));
        let slower = said([42.0, 43.0, 44.0]);
        assert!(slower.starts_with("tried, and not so: that both "), "{slower}");
    }
}
