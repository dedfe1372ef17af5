//! The figures of all variants, and each against that of the first.

use super::Results;
use super::results::Run;
use crate::report::{Interval, percentile};

/// A figure of all variants.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    /// Of each over its seeds; `None` if it has not got it.
    pub(super) values: Vec<Option<Interval>>,
    /// Of all but the first, against it.
    pub(super) against: Vec<Against>,
}

/// A figure of a variant against that of the first, over the seeds that all have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Against {
    /// It over the first's.
    pub(super) ratio: Option<Interval>,
    pub(super) so: So,
}

/// What that comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum So {
    /// The same with every seed.
    Same,
    More,
    Less,
    /// The interval of the differences has zero in it.
    Chance,
    /// There are too few seeds for an interval.
    Few,
    /// It is better for whom has completed fewer messages.
    OfFewer,
    /// One of the two has no such figure.
    Missing,
}

impl So {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::More => "more",
            Self::Less => "less",
            Self::Chance => "chance",
            Self::Few => "?",
            Self::OfFewer => "of fewer",
            Self::Missing => "-",
        }
    }
}

/// What is later than all that has happened.
const NEVER: f64 = f64::INFINITY;

/// Reads a figure off a run, given how long the runs of its seed took at most, in microseconds.
type Reading = dyn Fn(&Run, f64) -> Option<f64>;

/// A figure to be told, and how a run has it.
struct Told {
    name: String,
    /// It is of messages that are complete, or of the packets that made them so: those that miss would have
    /// changed it.
    is_of_complete: bool,
    /// Who has no such figure, as nothing came to it, is behind who has.
    is_time: bool,
    of: Box<Reading>,
}

/// All figures of which one variant has a value. `seeds` are those that all have.
pub(super) fn all(variants: &[Results], seeds: &[i64]) -> Vec<Figure> {
    let told = told(variants);
    told.iter().map(|told| figure(told, variants, seeds)).filter(has_values).collect()
}

fn has_values(figure: &Figure) -> bool {
    let is_some = |value: &Option<Interval>| value.is_some_and(|of| of.least < NEVER);
    figure.values.iter().any(is_some)
}

fn figure(told: &Told, variants: &[Results], seeds: &[i64]) -> Figure {
    let value = |variant: &Results, seed: i64| {
        let run = variant.runs.get(&seed)?;
        (told.of)(run, window(variants, seed))
    };
    let own: Vec<Vec<i64>> = match seeds {
        [] => variants.iter().map(|variant| variant.runs.keys().copied().collect()).collect(),
        seeds => vec![seeds.to_vec(); variants.len()],
    };
    let of = variants.iter().zip(own);
    let values = of.map(|(variant, mut own)| {
        if variant.is_one_draw() {
            own.truncate(1);
        }
        Interval::of(own.into_iter().filter_map(|seed| value(variant, seed)).collect())
    });
    let against = |other: &Results| match variants.first() {
        Some(first) => against(told, [first, other], seeds, value),
        None => Against { ratio: None, so: So::Missing },
    };
    Figure {
        name: told.name.clone(),
        values: values.collect(),
        against: variants.iter().skip(1).map(against).collect(),
    }
}

fn against(
    told: &Told,
    [first, other]: [&Results; 2],
    seeds: &[i64],
    value: impl Fn(&Results, i64) -> Option<f64>,
) -> Against {
    let both = |&seed: &i64| match (value(first, seed), value(other, seed)) {
        // What it cannot tell, as it never came to it, is worse than what it can.
        (Some(a), None) if told.is_time => Some((a, NEVER)),
        (None, Some(b)) if told.is_time => Some((NEVER, b)),
        (a, b) => a.zip(b),
    };
    let mut pairs: Vec<(f64, f64)> = seeds.iter().filter_map(both).collect();
    // Without chance in either, what differs is no chance.
    let is_certain = first.is_one_draw() && other.is_one_draw();
    if is_certain {
        pairs.truncate(1);
    }
    if pairs.is_empty() {
        return Against { ratio: None, so: So::Missing };
    }
    let same = |(a, b): &(f64, f64)| a.total_cmp(b).is_eq();
    let ratios = pairs.iter().map(|(a, b)| if a.total_cmp(b).is_eq() { 1.0 } else { b / a });
    let ratio = Interval::of(ratios.collect()).filter(|of| of.median.is_finite());
    let differences = pairs.iter().map(|(a, b)| if a.total_cmp(b).is_eq() { 0.0 } else { b - a });
    let likely = Interval::of(differences.collect()).map(|of| of.likely);
    let so = match likely.flatten() {
        _ if pairs.iter().all(same) => So::Same,
        None if is_certain && pairs.iter().all(|(a, b)| a < b) => So::More,
        None if is_certain => So::Less,
        None => So::Few,
        Some((low, _)) if low > 0.0 => So::More,
        Some((_, high)) if high < 0.0 => So::Less,
        Some(_) => So::Chance,
    };
    // Who has completed fewer messages may lack just the slow ones.
    let completed = |of: &Results| -> f64 {
        let runs = seeds.iter().filter_map(|seed| of.runs.get(seed)?.figure("completed_messages"));
        runs.sum()
    };
    let fewer = match so {
        So::Less => completed(other) < completed(first),
        So::More => completed(first) < completed(other),
        _ => false,
    };
    let so = if told.is_of_complete && fewer { So::OfFewer } else { so };
    Against { ratio, so }
}

/// How long the runs of a seed took, in microseconds: the longest of them.
fn window(variants: &[Results], seed: i64) -> f64 {
    let ends = variants.iter().filter_map(|of| of.runs.get(&seed)?.figure("ended_at_us"));
    ends.fold(0.0, f64::max)
}

/// What is told, in its order.
fn told(variants: &[Results]) -> Vec<Told> {
    fn own(name: &str, of: impl Fn(&Run, f64) -> Option<f64> + 'static) -> Told {
        Told { name: name.to_owned(), is_of_complete: false, is_time: false, of: Box::new(of) }
    }
    let mut told = vec![
        own("flows not finished", |run, _| {
            let ended = run.flows.iter().filter(|flow| flow.identity.asked.is_some());
            Some(ended.filter(|flow| flow.took.is_none()).count() as f64)
        }),
        own("last flow done, us", |run, _| completion(run, 100)),
        own("flow done p50, us", |run, _| completion(run, 50)),
        own("flow done p95, us", |run, _| completion(run, 95)),
        own("flow done p99, us", |run, _| completion(run, 99)),
        own("goodput, Gb/s", goodput),
    ];
    // Said above, of flows.
    let known = ["ended_at_us", "goodput_gbps", "flows_unfinished"];
    let mut labels: Vec<&String> = Vec::new();
    for label in variants.iter().flat_map(|variant| &variant.labels) {
        if !labels.contains(&label) && !known.contains(&label.as_str()) {
            labels.push(label);
        }
    }
    told.extend(labels.into_iter().map(|label| {
        let is_time = ["latency_", "slowdown_", "job_"].iter().any(|of| label.starts_with(of));
        let is_of_complete = !["completed_messages", "busiest_link_percent"].contains(&&**label);
        let own = label.clone();
        let of = move |run: &Run, _: f64| run.figure(&own);
        Told { name: spoken(label), is_of_complete, is_time, of: Box::new(of) }
    }));
    told
}

/// A label in words: `latency_p50_us` is "latency p50, us".
fn spoken(label: &str) -> String {
    let units = ["us", "gbps", "messages", "packets", "frames", "percent"];
    let (name, unit) = label.rsplit_once('_').unwrap_or((label, ""));
    match unit {
        "percent" => format!("{}, %", name.replace('_', " ")),
        unit if units.contains(&unit) => format!("{}, {unit}", name.replace('_', " ")),
        _ => label.replace('_', " "),
    }
}

/// How long `percent` of the flows with an end took at most; one that has not reached it took longer than all.
fn completion(run: &Run, percent: usize) -> Option<f64> {
    let flows = run.flows.iter().filter(|flow| flow.identity.asked.is_some());
    let mut took: Vec<f64> = flows.map(|flow| flow.took.unwrap_or(NEVER)).collect();
    took.sort_unstable_by(f64::total_cmp);
    percentile(&took, percent)
}

/// What was delivered, until the run was finished or, if it was not, until the others of its seed ended.
fn goodput(run: &Run, window: f64) -> Option<f64> {
    let end = if run.ending == "finished" { run.figure("ended_at_us")? } else { window };
    let starts = run.flows.iter().map(|flow| flow.identity.start_ps as f64 / 1e6);
    let first = starts.fold(f64::INFINITY, f64::min);
    let delivered: f64 = run.flows.iter().map(|flow| flow.delivered).sum();
    (end > first).then(|| delivered * 8e-3 / (end - first))
}
