//! Two results, held against each other: ratios, with an interval each.
//!
//! The interval is a bootstrap over the windows of both (Efron, Ann. Statist. 7, 1979): windows are drawn
//! again, with repetition, and the ratio of their means is taken, a thousand times; what 95 % of them lie
//! in is told. The draws are the same each time, so the same files give the same interval.

use core::fmt;

use fastrand::Rng;

use super::text::table;
use super::{FlowResult, Report, WindowResult};
use crate::Failure;

const DRAWS: usize = 1000;
const SEED: u64 = 0x00fe_44ce;

/// A ratio, and what it lies in with 95 %.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Of the means: the second over the first.
    pub ratio: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A flow that is in both.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its run, if there are several, and its name.
    pub name: String,
    /// By bandwidth; where nothing was measured there is none.
    pub bandwidth: Option<Ratio>,
    /// By median latency.
    pub p50: Option<Ratio>,
    /// By the 99th percentile.
    pub p99: Option<Ratio>,
}

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// What differs beside the numbers.
    pub notes: Vec<String>,
    /// Flows that are in both.
    pub rows: Vec<Row>,
}

/// Holds `second` against `first`.
///
/// # Errors
/// They have no flow in common.
pub fn compare(first: &Report, second: &Report) -> Result<Comparison, Failure> {
    let mut notes = Vec::new();
    if first.world != second.world {
        notes.push(format!("the worlds differ: {} and {}", first.world, second.world));
    }
    for (name, report) in [("first", first), ("second", second)] {
        if let Some(why) = report.partial() {
            notes.push(format!("the {name} is partial: {why}"));
        }
    }
    let mut rows = Vec::new();
    let mut missing = 0;
    for run in &first.runs {
        let other = second.runs.iter().find(|other| other.at == run.at);
        for flow in &run.flows {
            let of = other.and_then(|other| other.flows.iter().find(|of| of.name == flow.name));
            let Some(of) = of else {
                missing += 1;
                continue;
            };
            let label = run.label();
            let name =
                if label.is_empty() { flow.name.clone() } else { format!("{} {label}", flow.name) };
            rows.push(Row {
                name,
                bandwidth: ratio(flow, of, |window| Some(window.bandwidth_gbps)),
                p50: ratio(flow, of, |window| (window.operations > 0).then_some(window.p50_us)),
                p99: ratio(flow, of, |window| (window.operations > 0).then_some(window.p99_us)),
            });
        }
    }
    if rows.is_empty() {
        return Err(Failure::new("the two have no flow in common").hint(
            "compare results of the same plan: flows are found by name, runs by what was swept",
        ));
    }
    if missing > 0 {
        notes.push(format!("{missing} flows of the first are not in the second"));
    }
    Ok(Comparison { notes, rows })
}

fn ratio(
    first: &FlowResult,
    second: &FlowResult,
    value: impl Fn(&WindowResult) -> Option<f64>,
) -> Option<Ratio> {
    let values = |flow: &FlowResult| flow.windows.iter().filter_map(&value).collect::<Vec<f64>>();
    let (first, second) = (values(first), values(second));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let whole = mean(&second) / mean(&first);
    if first.is_empty() || second.is_empty() || !whole.is_finite() {
        return None;
    }
    let mut random = Rng::with_seed(SEED);
    let mut draw = |values: &[f64]| {
        let drawn: f64 = (0..values.len()).map(|_| values[random.usize(..values.len())]).sum();
        drawn / values.len() as f64
    };
    let mut ratios: Vec<f64> = (0..DRAWS)
        .map(|_| draw(&second) / draw(&first))
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at =
        |part: f64| ratios.get((ratios.len() as f64 * part) as usize).copied().unwrap_or(whole);
    Some(Ratio { ratio: whole, low: at(0.025), high: at(0.975) })
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ratio, low, high } = self;
        write!(f, "{ratio:.3} ({low:.3} to {high:.3})")
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note      {note}")?;
        }
        let cell = |ratio: &Option<Ratio>| ratio.map_or("-".to_owned(), |ratio| ratio.to_string());
        let column = |title: &str, cells: &dyn Fn(&Row) -> String| {
            core::iter::once(title.to_owned()).chain(self.rows.iter().map(cells)).collect()
        };
        let columns: [Vec<String>; 4] = [
            column("flow", &|row| row.name.clone()),
            column("bandwidth", &|row| cell(&row.bandwidth)),
            column("latency p50", &|row| cell(&row.p50)),
            column("latency p99", &|row| cell(&row.p99)),
        ];
        table(f, &columns)?;
        writeln!(f, "\nsecond over first, with what 95 % of redrawn windows lie in")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Run, Together};
    use super::*;
    use crate::plan::Plan;

    fn report(name: &str, gbps: &[f64]) -> Report {
        let windows = gbps
            .iter()
            .map(|gbps| WindowResult {
                operations: 1,
                bandwidth_gbps: *gbps,
                p50_us: 5.0,
                p99_us: 9.0,
            })
            .collect();
        let flow = FlowResult {
            name: name.to_owned(),
            operations: 1,
            bytes: 1,
            seconds: 1.0,
            bandwidth_gbps: 1.0,
            window_gbps_min: 1.0,
            rate_per_s: 1.0,
            latency_us: Default::default(),
            histogram_ns: Vec::new(),
            windows,
            cores: 0.0,
            counted_bytes: None,
            miscounts: Vec::new(),
            checked: 0,
            mismatches: 0,
            errors: Vec::new(),
            served: None,
        };
        let run = Run {
            at: Default::default(),
            partial: None,
            plan: Plan::default(),
            flows: vec![flow],
            together: Together::default(),
            misses: Vec::new(),
        };
        Report { runs: vec![run], ..Report::measured("soft", "a test") }
    }

    #[test]
    fn the_interval_holds_the_ratio_and_is_as_wide_as_the_windows_differ() {
        let even = compare(&report("a", &[2.0; 8]), &report("a", &[3.0; 8])).unwrap();
        assert_eq!(even.rows[0].bandwidth, Some(Ratio { ratio: 1.5, low: 1.5, high: 1.5 }));
        let first = report("a", &[1.0, 3.0, 2.0, 2.0]);
        let ragged = compare(&first, &report("a", &[2.0, 6.0, 4.0, 4.0])).unwrap();
        let Ratio { ratio, low, high } = ragged.rows[0].bandwidth.unwrap();
        assert!(low < ratio && ratio < high && ratio == 2.0, "{low} {ratio} {high}");
        assert_eq!(ragged.rows[0].p50.unwrap().ratio, 1.0);
    }

    #[test]
    fn what_is_not_in_both_cannot_be_compared() {
        assert!(compare(&report("a", &[1.0]), &report("b", &[1.0])).is_err());
        let nothing = compare(&report("a", &[0.0]), &report("a", &[1.0])).unwrap();
        assert_eq!(nothing.rows[0].bandwidth, None);
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = report("a", &[1.0, 2.5]);
        assert_eq!(Report::read(&report.to_json()).unwrap(), report);
        let said = Report::read("{\"format\": 1}").unwrap_err().to_string();
        assert!(said.contains("\nhint: give files"), "{said}");
    }
}
