//! 3.7: another NIC.

use bench::plan::Verb;

use super::{LARGE, MICE, SCALE, SECOND, SMALL, bytes, elephants, mice, polls, sleeps, together};
use crate::figure::{Figure, Mark};
use crate::hosts::{Hosts, Runs, Seen};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const OTHER: &str = "zhang17.cx4";
pub(super) const CLAIMS: &[&str] = &[OTHER];

/// What differs by less means little: ours.
const LITTLE: f64 = 1.1;

fn gbps(seen: &Seen) -> f64 {
    seen.serial_gbps
}

fn other(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(OTHER)?;
    let hosts = Hosts::pair(SECOND);
    context.say("3.7");
    let write = |bytes| polls(Verb::Write, bytes);
    let sized = |large| [sleeps(Verb::Write, large), sleeps(Verb::Write, SMALL)];
    let share = elephants(context, hosts.clone(), &sized(LARGE))?.ratio(gbps);
    let equal = elephants(context, hosts.clone(), &sized(SMALL))?.ratio(gbps);
    let awake = hosts.clone().but("exit_us", "0");
    let awake = elephants(context, awake, &sized(LARGE))?.ratio(gbps);
    let prompt = hosts.clone().but("interrupt_ns", "0").but("switch_ns", "0");
    let prompt = elephants(context, prompt, &sized(LARGE))?.ratio(gbps);
    let mut figure =
        Figure::new("zhang17-cx4", "3.7: mice of ConnectX-4, over what they have alone", Mark::Bar)
            .axes(("mouse", ""), ("ratio", ""));
    let (mut said, mut largest, mut tail) = (Vec::new(), 0.0_f64, 0.0_f64);
    for size in MICE {
        let alone = together(context, hosts.clone(), &[write(size)])?;
        let pair = [write(size), sleeps(Verb::Write, LARGE)];
        let beside = together(context, hosts.clone(), &pair)?;
        let quiet = mice(context, hosts.clone(), &[write(size)])?;
        let crowd = mice(context, hosts.clone(), &[write(size), write(MICE[2])])?;
        let over = |runs: &Runs, alone: &Runs, value: fn(&Seen) -> f64| {
            runs.spread(0, value).median() / alone.spread(0, value).median()
        };
        let median = over(&beside, &alone, |seen| seen.p50_us);
        let p99 = over(&crowd, &quiet, |seen| seen.p99_us);
        let name = bytes(size);
        figure.point("median beside 20 MB", name.as_str(), median);
        figure.point("p99 beside 1 KB", name.as_str(), p99);
        said.push(format!(
            "{name}: median beside 20 MB x{}, p99 beside 1 KB x{}",
            short(median),
            short(p99)
        ));
        (largest, tail) = (largest.max(median), tail.max(p99));
    }
    Ok(Outcome {
        ran: "table 3, figures 6 and 7 with WRITEs on the second testbed; table 3 again where nap, or \
              interrupt and switch, take no time"
            .to_owned(),
        scale: Some(SCALE.to_owned()),
        measured: format!(
            "20 MB over 1 MB {share}, {awake} if nap took no time to leave, {prompt} if interrupt and switch \
             took none; 1 MB over 1 MB {equal}; {}",
            said.join("; ")
        ),
        checks: vec![
            Check::number(&claim, "elephant_ratio", share.median()),
            Check::number(&claim, "median_growth_max", largest),
            Check::order(
                ("p99 of a mouse beside one of 1 KB, over alone, the largest", tail),
                ("what means little", LITTLE),
                "",
            ),
        ],
        figures: vec![figure],
        claim,
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    Ok(vec![other(context)?])
}
