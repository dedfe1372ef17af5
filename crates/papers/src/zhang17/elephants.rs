//! 3.3: elephants beside elephants. Who sleeps between two messages leaves the link to who does not.

use bench::plan::{Flow, Verb};

use super::{FIRST, LARGE, SCALE, SMALL, VERBS, bytes, elephants, polls, sleeps};
use crate::draws::Spread;
use crate::figure::{Figure, Mark};
use crate::hosts::Hosts;
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const TABLE: &str = "zhang17.table3";
const SIZES: &str = "zhang17.fig4a";
const WAITS: &str = "zhang17.fig4b";
pub(super) const CLAIMS: &[&str] = &[TABLE, SIZES, WAITS];

/// What the second flow gets is no more than this over what the first does, if that is mild: ours.
const MILD: f64 = 1.15;
/// A ratio that grows no more has this part of its largest excess over one: ours.
const FLAT: f64 = 0.9;

/// Bandwidth of the first flow over that of the second.
fn ratio(context: &mut Context<'_>, hosts: Hosts, flows: [Flow; 2]) -> Result<Spread, Error> {
    Ok(elephants(context, hosts, &flows)?.ratio(|seen| seen.serial_gbps))
}

/// The least and the most of the medians of some rows.
fn range(rows: &[(String, Spread)]) -> [f64; 2] {
    let medians = || rows.iter().map(|row| row.1.median());
    [medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max)]
}

fn told(rows: &[(String, Spread)]) -> String {
    rows.iter().map(|(name, spread)| format!("{name} {spread}")).collect::<Vec<_>>().join(", ")
}

/// The ratio of WRITEs where C3 takes no longer to leave than C1E, and where the bus has half its rate.
fn other_hosts(context: &mut Context<'_>) -> Result<[Spread; 2], Error> {
    context.say("table 3: a faster C3");
    let writes = [sleeps(Verb::Write, LARGE), sleeps(Verb::Write, SMALL)];
    let awake = Hosts::pair(FIRST).but("exit_us", "10");
    let awake = ratio(context, awake, writes.clone())?;
    let half = ratio(context, Hosts::pair(FIRST).but("bus_gbps", "24.4"), writes)?;
    Ok([awake, half])
}

fn table(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(TABLE)?;
    let mut figure = Figure::new(
        "zhang17-table-3",
        "Table 3: bandwidth of one event-triggered elephant over that of another",
        Mark::Point,
    )
    .axes(("pair", ""), ("bandwidth_ratio", ""));
    let (mut unequal, mut equal) = (Vec::new(), Vec::new());
    for (index, (left, left_name)) in VERBS.into_iter().enumerate() {
        context.say(&format!("table 3: {left_name}"));
        for (top, (verb, top_name)) in VERBS.into_iter().enumerate() {
            let name = format!("{left_name}, {top_name}");
            let pair = |sizes: [u32; 2]| [sleeps(left, sizes[0]), sleeps(verb, sizes[1])];
            let large = ratio(context, Hosts::pair(FIRST), pair([LARGE, SMALL]))?;
            figure.point("20 MB over 1 MB", name.as_str(), large.median());
            unequal.push((name.clone(), large));
            for size in [SMALL, LARGE].into_iter().filter(|_| top <= index) {
                let both = ratio(context, Hosts::pair(FIRST), pair([size, size]))?;
                let series = format!("{0} over {0}", bytes(size));
                figure.point(series, name.as_str(), both.median());
                equal.push((format!("{name} of {}", bytes(size)), both));
            }
        }
    }
    let otherwise = if context.is_simulated() { Some(other_hosts(context)?) } else { None };
    figure.reference("paper: least", claim.value("large_over_small_min"));
    figure.reference("paper: most", claim.value("large_over_small_max"));
    let unequal_names = ["large_over_small_min", "large_over_small_max"];
    let equal_names = ["equal_min", "equal_max"];
    let checks = |what: &str, rows: &[(String, Spread)], names: [&str; 2]| {
        let ends = range(rows);
        let one = |word: &str, measured| {
            Check::between(&claim, &format!("{what}, {word} of all pairs"), measured, names)
        };
        [one("the least", ends[0]), one("the most", ends[1])]
    };
    let mut all = Vec::from(checks("20 MB over 1 MB", &unequal, unequal_names));
    all.extend(checks("equal sizes", &equal, equal_names));
    let mut measured = format!(
        "20 MB over 1 MB: {}; equal sizes {} to {}",
        told(&unequal),
        short(range(&equal)[0]),
        short(range(&equal)[1])
    );
    if let Some([awake, half]) = otherwise {
        all.push(Check::order(
            ("WRITEs, 20 MB over 1 MB, if C3 took no longer to leave than C1E", awake.most()),
            ("half of what they have over 1 MB otherwise", f64::midpoint(1.0, range(&unequal)[0])),
            "",
        ));
        measured += &format!(
            "; WRITEs of 20 MB over 1 MB {awake} if C3 takes no longer to leave than C1E, {half} with half of \
             the bus"
        );
    }
    Ok(Outcome {
        ran: "two flows of one message at a time, event-triggered, every verb beside every other; \
              WRITEs again where C3 takes no longer to leave than C1E, and with half of the bus"
            .to_owned(),
        scale: Some(SCALE.to_owned()),
        measured,
        checks: all,
        figures: vec![figure],
        claim,
    })
}

/// Base sizes in MB, and the multiples of each that run beside it.
const BASES: [(u32, &[u32]); 4] =
    [(1, &[1, 2, 3, 5, 10, 20, 100]), (5, &[1, 2, 3, 5]), (10, &[1, 2, 3, 5]), (100, &[1, 2])];

fn sizes(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(SIZES)?;
    let mut figure = Figure::new(
        "zhang17-figure-4a",
        "Figure 4a: bandwidth of the larger message over that of the base flow",
        Mark::Line,
    )
    .axes(("size_ratio", ""), ("bandwidth_ratio", ""));
    let saturates = claim.value("saturates_at");
    // Of larger messages a window on soft NICs would hold too few.
    let is_short = context.options.quick || !context.is_simulated();
    let mut rows = Vec::new();
    for (base, multiples) in BASES {
        context.say(&format!("figure 4a: base {base} MB"));
        let multiples = multiples.iter().filter(|times| !is_short || base * **times <= 20);
        for &times in multiples {
            let flows = [base * times, base].map(|mb| sleeps(Verb::Write, mb * SMALL));
            let spread = ratio(context, Hosts::pair(FIRST), flows)?;
            figure.point(format!("{base} MB"), format!("x{times}").as_str(), spread.median());
            rows.push((base, f64::from(times), spread));
        }
    }
    let of = |base: u32| rows.iter().filter(move |row| row.0 == base);
    let least = of(1).collect::<Vec<_>>();
    let mut checks: Vec<Check> = least
        .windows(2)
        .filter(|pair| pair[1].1 <= saturates)
        .map(|pair| {
            Check::order(
                (&format!("base 1 MB: ratio at {} times its size", pair[0].1), pair[0].2.median()),
                (&format!("at {} times", pair[1].1), pair[1].2.median()),
                "",
            )
        })
        .collect();
    let last = least.last().map_or(f64::NAN, |row| row.2.median());
    let there = least.iter().find(|row| row.1 == saturates);
    let there = there.map_or(f64::NAN, |row| row.2.median());
    checks.push(Check::order(
        ("base 1 MB: nine tenths of what the largest size has over 1", FLAT * (last - 1.0)),
        (&format!("what {saturates} times has"), there - 1.0),
        "",
    ));
    let mild = rows.iter().filter(|row| row.0 >= 5).map(|row| row.2.median()).fold(0.0, f64::max);
    checks.push(Check::order(
        ("base 5 MB and more, the largest ratio", mild),
        ("what is mild", MILD),
        "",
    ));
    let said = BASES.map(|(base, _)| {
        let row = of(base).map(|row| format!("x{} {}", row.1, row.2));
        format!("base {base} MB: {}", row.collect::<Vec<_>>().join(", "))
    });
    Ok(Outcome {
        ran:
            "two flows of WRITEs, event-triggered; the first base has sizes up to 100 MB beside it"
                .to_owned(),
        scale: Some("messages of 100 MB at most".to_owned()),
        measured: said.join("; "),
        checks,
        figures: vec![figure],
        claim,
    })
}

fn waits(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let claim = context.claim(WAITS)?;
    context.say("figure 4b");
    let (busy, event) = (|bytes| polls(Verb::Write, bytes), |bytes| sleeps(Verb::Write, bytes));
    let rows = [
        ("20 MB busy, 1 MB busy", [busy(LARGE), busy(SMALL)], "equal"),
        ("1 MB busy, 20 MB event", [busy(SMALL), event(LARGE)], "equal"),
        ("1 MB busy, 1 MB event", [busy(SMALL), event(SMALL)], "busy_over_event"),
        ("1 MB event, 1 MB event", [event(SMALL), event(SMALL)], "equal"),
    ];
    let mut figure = Figure::new(
        "zhang17-figure-4b",
        "Figure 4b: bandwidth of one elephant over that of another, by how they wait",
        Mark::Bar,
    )
    .axes(("pair", ""), ("bandwidth_ratio", ""));
    let (mut checks, mut said) = (Vec::new(), Vec::new());
    for (name, flows, value) in rows {
        let spread = ratio(context, Hosts::pair(FIRST), flows)?;
        figure.point("first over second", name, spread.median());
        said.push(format!("{name}: {spread}"));
        checks.push(Check::between(&claim, name, spread.median(), [value, value]));
    }
    figure.reference("paper: 1 MB busy, 1 MB event", claim.value("busy_over_event"));
    Ok(Outcome {
        ran:
            "two flows of WRITEs, each busy polling or event-triggered; the last row is the control"
                .to_owned(),
        scale: Some(SCALE.to_owned()),
        measured: said.join("; "),
        checks,
        figures: vec![figure],
        claim,
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    Ok(vec![table(context)?, sizes(context)?, waits(context)?])
}
