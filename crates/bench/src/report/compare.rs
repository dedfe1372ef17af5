//! Results held against each other: ratios, with an interval each.
//!
//! The interval is a bootstrap (Efron, Ann. Statist. 7, 1979): parts of both sides are drawn again, with
//! repetition, and the ratio of their means is taken, a thousand times; what 95 % of them lie in is told. The
//! draws are the same each time, so the same files give the same interval. With several results on each side the
//! parts are whole runs; otherwise they are the windows of one, and what changes from one run to the next is not
//! in the interval. Comparisons say which.

use core::fmt;

use fastrand::Rng;

use super::text::table;
use super::{FlowResult, Report, Run, WindowResult};
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
    /// Flows that are in all.
    pub rows: Vec<Row>,
    /// How many runs either side has, if those are what intervals are made of.
    pub runs: Option<[usize; 2]>,
}

/// Holds the results `second` against `first`: each side one run of a plan, or several of the same.
///
/// # Errors
/// They have no flow in common.
pub fn compare(first: &[Report], second: &[Report]) -> Result<Comparison, Failure> {
    let Some(base) = first.first() else { return Err(nothing_in_common()) };
    let mut notes = notes(base, first, second);
    let mut rows = Vec::new();
    let mut missing = 0;
    let by_runs = first.len() > 1 && second.len() > 1;
    for run in &base.runs {
        for flow in &run.flows {
            let of = [first, second].map(|side| all(side, run, flow));
            if of[0].len() < first.len() || of[1].len() < second.len() || second.is_empty() {
                missing += 1;
                continue;
            }
            let label = run.label();
            let name =
                if label.is_empty() { flow.name.clone() } else { format!("{} {label}", flow.name) };
            let ended = |window: &WindowResult| window.operations > 0;
            rows.push(Row {
                name,
                bandwidth: ratio(&of, by_runs, |window| Some(window.bandwidth_gbps)),
                p50: ratio(&of, by_runs, |window| ended(window).then_some(window.p50_us)),
                p99: ratio(&of, by_runs, |window| ended(window).then_some(window.p99_us)),
            });
        }
    }
    if rows.is_empty() {
        return Err(nothing_in_common());
    }
    if missing > 0 {
        notes.push(format!("{missing} flows of the first are not in all the others"));
    }
    let runs = by_runs.then_some([first.len(), second.len()]);
    Ok(Comparison { notes, rows, runs })
}

fn nothing_in_common() -> Failure {
    Failure::new("the two have no flow in common")
        .hint("compare results of the same plan: flows are found by name, runs by what was swept")
}

/// A flow in each of some results.
fn all<'a>(side: &'a [Report], run: &Run, flow: &FlowResult) -> Vec<&'a FlowResult> {
    let of = |report: &'a Report| {
        let run = report.runs.iter().find(|other| other.at == run.at)?;
        run.flows.iter().find(|other| other.name == flow.name)
    };
    side.iter().filter_map(of).collect()
}

/// What would explain a ratio: worlds, plans, and runs that were cut short.
fn notes(base: &Report, first: &[Report], second: &[Report]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: String| {
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    for (is_second, side) in [(false, first), (true, second)] {
        let whom = if is_second { "" } else { " within the first side" };
        for report in side {
            if report.world != base.world {
                note(format!("the worlds differ{whom}: {} and {}", base.world, report.world));
            } else if report.about != base.about {
                note(format!("the worlds differ{whom}: {:?} and {:?}", base.about, report.about));
            }
            for run in &base.runs {
                let Some(other) = report.runs.iter().find(|other| other.at == run.at) else {
                    continue;
                };
                for differs in run.plan.differences(&other.plan) {
                    note(format!("the plans differ{whom}: {differs}"));
                }
            }
            if let Some(why) = report.partial() {
                let name = if is_second { "second" } else { "first" };
                note(format!("the {name} is partial: {why}"));
            }
        }
    }
    notes
}

fn ratio(
    sides: &[Vec<&FlowResult>; 2],
    by_runs: bool,
    value: impl Fn(&WindowResult) -> Option<f64>,
) -> Option<Ratio> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let values = |side: &Vec<&FlowResult>| {
        let runs = side.iter().map(|flow| flow.windows.iter().filter_map(&value).collect());
        let mut runs: Vec<Vec<f64>> = runs.collect();
        runs.retain(|windows| !windows.is_empty());
        match by_runs {
            true => runs.iter().map(|windows| mean(windows)).collect(),
            false => runs.concat(),
        }
    };
    let [first, second]: [Vec<f64>; 2] = [values(&sides[0]), values(&sides[1])];
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
        write!(f, "\nsecond over first, with what 95 % of redrawn ")?;
        match self.runs {
            Some([first, second]) => writeln!(f, "runs lie in: {first} and {second} of them"),
            None => writeln!(
                f,
                "windows lie in: what changes from run to run is not in it (give several of each side)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Together;
    use super::*;
    use crate::plan::{Flow, Plan, Verb, WaitMode};

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
            plan: Plan {
                flows: vec![Flow { name: name.to_owned(), ..Flow::new(Verb::Read) }],
                ..Plan::default()
            },
            flows: vec![flow],
            together: Together::default(),
            misses: Vec::new(),
        };
        Report { runs: vec![run], ..Report::measured("soft", "a test") }
    }

    /// One result on either side.
    fn pair(first: &Report, second: &Report) -> Result<Comparison, Failure> {
        compare(core::slice::from_ref(first), core::slice::from_ref(second))
    }

    #[test]
    fn results_of_a_plan_that_could_not_run_are_refused() {
        let text = report("a", &[1.0]).to_json();
        assert!(Report::read(&text).is_ok());
        let none = text.replacen("\"rd_atomic\": 16", "\"rd_atomic\": 0", 1);
        assert_ne!(none, text);
        let refused = Report::read(&none).unwrap_err().to_string();
        assert!(refused.contains("run 0: flow \"a\": rd_atomic: "), "{refused}");
    }

    #[test]
    fn plans_that_differ_are_told_by_key() {
        let first = report("a", &[2.0, 2.0]);
        assert_eq!(pair(&first, &first).unwrap().notes, [""; 0]);
        let mut second = report("a", &[2.0, 2.0]);
        let plan = &mut second.runs[0].plan;
        plan.hogs = 2;
        plan.title = "another".to_owned();
        plan.flows[0] = Flow {
            size_bytes: 65_536,
            wait: WaitMode::Event,
            rate_per_s: Some(5.0),
            ..plan.flows[0].clone()
        };
        let said = pair(&first, &second).unwrap().to_string();
        assert!(said.starts_with("note      the plans differ: hogs 0 and 2\n"), "{said}");
        let of_flow = "note      the plans differ: a: size_bytes 4096 and 65536, wait poll and event, \
                       rate_per_s none and 5\n";
        assert!(said.contains(of_flow), "{said}");
        second.about = "another".to_owned();
        let notes = pair(&first, &second).unwrap().notes;
        assert_eq!(notes[0], "the worlds differ: \"a test\" and \"another\"");
        let within = compare(&[first.clone(), second], &[first]).unwrap().notes;
        assert!(within[1].starts_with("the plans differ within the first side: "), "{within:?}");
    }

    #[test]
    fn several_runs_of_a_side_make_an_interval_of_what_differs_between_them() {
        let runs = |means: [f64; 3]| means.map(|mean| report("a", &[mean; 8]));
        let (first, second) = (runs([1.0, 2.0, 3.0]), runs([3.0, 4.0, 5.0]));
        let alone = pair(&first[1], &second[1]).unwrap();
        assert_eq!(alone.rows[0].bandwidth, Some(Ratio { ratio: 2.0, low: 2.0, high: 2.0 }));
        assert!(alone.to_string().contains("what changes from run to run is not in it"));
        let all = compare(&first, &second).unwrap();
        let Ratio { ratio, low, high } = all.rows[0].bandwidth.unwrap();
        assert!(ratio == 2.0 && low < 1.5 && high > 2.5, "{low} {ratio} {high}");
        assert!(all.to_string().ends_with("redrawn runs lie in: 3 and 3 of them\n"), "{all}");
    }

    #[test]
    fn the_interval_holds_the_ratio_and_is_as_wide_as_the_windows_differ() {
        let even = pair(&report("a", &[2.0; 8]), &report("a", &[3.0; 8])).unwrap();
        assert_eq!(even.rows[0].bandwidth, Some(Ratio { ratio: 1.5, low: 1.5, high: 1.5 }));
        let first = report("a", &[1.0, 3.0, 2.0, 2.0]);
        let ragged = pair(&first, &report("a", &[2.0, 6.0, 4.0, 4.0])).unwrap();
        let Ratio { ratio, low, high } = ragged.rows[0].bandwidth.unwrap();
        assert!(low < ratio && ratio < high && ratio == 2.0, "{low} {ratio} {high}");
        assert_eq!(ragged.rows[0].p50.unwrap().ratio, 1.0);
    }

    #[test]
    fn what_is_not_in_both_cannot_be_compared() {
        assert!(pair(&report("a", &[1.0]), &report("b", &[1.0])).is_err());
        let nothing = pair(&report("a", &[0.0]), &report("a", &[1.0])).unwrap();
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
