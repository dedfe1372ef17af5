//! 3.6 and 3.7: other cores, and another NIC.

use bench::plan::{Flow, Verb};

use super::{FIRST, LARGE, MICE, SCALE, SECOND, SMALL, bytes, elephants, mice, polls, sleeps};
use crate::figure::{Figure, Mark};
use crate::hosts::{Hosts, Seen};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const PINNED: &str = "zhang17.pinning";
const OTHER: &str = "zhang17.cx4";
pub(super) const CLAIMS: &[&str] = &[PINNED, OTHER];

/// Ratios that are anomalies: ours. A difference below that means little.
const ANOMALY: f64 = 1.1;

/// Flows on cores of their own: those of one processor, and one on each.
const PLACES: [(&str, [u32; 2]); 2] = [("one processor", [0, 0]), ("two processors", [0, 7])];

/// A flow whose application is on a core: that, and as many on as others come before it.
fn on(flow: Flow, core: u32) -> Flow {
    Flow { core: Some(core), ..flow }
}

fn gbps(seen: &Seen) -> f64 {
    seen.gbps
}

fn pinned(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let hosts = Hosts::pair(FIRST);
    let mut figure = Figure::new(
        "zhang17-pinning",
        "Anomalies with each flow on a core of its own, by where the cores are",
        Mark::Bar,
    )
    .axes(("anomaly", ""), ("ratio", ""));
    let (mut checks, mut said) = (Vec::new(), Vec::new());
    for (place, cores) in PLACES {
        context.say(&format!("3.6: cores of {place}"));
        let both = |flows: [Flow; 2]| {
            let [first, second] = flows;
            [on(first, cores[0]), on(second, cores[1])]
        };
        let write = |bytes| polls(Verb::Write, bytes);
        let flows = both([sleeps(Verb::Write, LARGE), sleeps(Verb::Write, SMALL)]);
        let share = elephants(context, hosts.clone(), &flows)?.ratio(gbps);
        let alone = mice(context, hosts.clone(), &[on(write(MICE[0]), cores[0])])?;
        let flows = both([write(MICE[0]), sleeps(Verb::Write, SMALL)]);
        let beside = elephants(context, hosts.clone(), &flows)?;
        let flows = both([write(MICE[0]), write(MICE[2])]);
        let crowd = mice(context, hosts.clone(), &flows)?;
        let base = [alone.spread(0, |seen| seen.p50_us), alone.spread(0, |seen| seen.p99_us)];
        let rows = [
            ("20 MB over 1 MB", share.median()),
            (
                "median of 10 B beside 1 MB",
                beside.spread(0, |seen| seen.p50_us).median() / base[0].median(),
            ),
            (
                "p99 of 10 B beside 1 KB",
                crowd.spread(0, |seen| seen.p99_us).median() / base[1].median(),
            ),
        ];
        for (name, value) in rows {
            figure.point(place, name, value);
            said.push(format!("{place}: {name} {}", short(value)));
            checks.push(Check::order(
                ("an anomaly", ANOMALY),
                (&format!("{place}: {name}"), value),
                "",
            ));
        }
    }
    Ok(Outcome {
        claim: context.claim(PINNED)?,
        ran:
            "the pairs of table 3, figures 6 and 7 with each flow on a core of its own; no task of \
              the model moves to another core, so there is no row without"
                .to_owned(),
        scale: Some(SCALE.to_owned()),
        measured: said.join("; "),
        checks,
        figures: vec![figure],
    })
}

fn other(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(OTHER)?;
    let hosts = Hosts::pair(SECOND);
    context.say("3.7");
    let write = |bytes| polls(Verb::Write, bytes);
    let sized = |large| [sleeps(Verb::Write, large), sleeps(Verb::Write, SMALL)];
    let share = elephants(context, hosts.clone(), &sized(LARGE))?.ratio(gbps);
    let equal = elephants(context, hosts.clone(), &sized(SMALL))?.ratio(gbps);
    let mut figure =
        Figure::new("zhang17-cx4", "3.7: mice of ConnectX-4, over what they have alone", Mark::Bar)
            .axes(("mouse", ""), ("ratio", ""));
    let (mut said, mut largest, mut tail) = (Vec::new(), 0.0_f64, 0.0_f64);
    for size in MICE {
        let alone = mice(context, hosts.clone(), &[write(size)])?;
        let beside = elephants(context, hosts.clone(), &[write(size), sleeps(Verb::Write, LARGE)])?;
        let crowd = mice(context, hosts.clone(), &[write(size), write(MICE[2])])?;
        let over = |runs: &crate::hosts::Runs, value: fn(&Seen) -> f64| {
            runs.spread(0, value).median() / alone.spread(0, value).median()
        };
        let (median, p99) = (over(&beside, |seen| seen.p50_us), over(&crowd, |seen| seen.p99_us));
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
        ran: "table 3, figures 6 and 7 with WRITEs on the second testbed".to_owned(),
        scale: Some(SCALE.to_owned()),
        measured: format!("20 MB over 1 MB {share}, 1 MB over 1 MB {equal}; {}", said.join("; ")),
        checks: vec![
            Check::number(&claim, "elephant_ratio", share.median()),
            Check::number(&claim, "median_growth_max", largest),
            Check::order(
                ("p99 of a mouse beside one of 1 KB, over alone, the largest", tail),
                ("what means little", ANOMALY),
                "",
            ),
        ],
        figures: vec![figure],
        claim,
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    Ok(vec![pinned(context)?, other(context)?])
}
