//! Expectations, held against what runs came to.

use fabric::scenario::experiment::{Anchor, Bound, Expectation, Experiment, Row};

use super::output;
use super::report::{Judged, Report, Seen, Verdict};
use super::{Point, Run};
use crate::snapshot::{self, is_like};

/// The measure that is the time of the network.
const MODEL: &str = "model_seconds";

/// How several numbers of programs are one.
const TOGETHER: [&str; 4] = ["sum", "mean", "least", "most"];

/// What a measure names.
enum Measure<'m> {
    /// Of programs: how several are one, and whose of which name.
    Program(&'m str, &'m str),
    /// Of a snapshot.
    Counted(&'m str),
}

impl<'m> Measure<'m> {
    fn of(text: &'m str, row: &Row) -> Self {
        let (together, name) = match text.split_once(' ') {
            Some((word, rest)) if TOGETHER.contains(&word) => (word, rest),
            _ => ("sum", text),
        };
        let is_program = row.programs.iter().any(|program| {
            program
                .numbers
                .iter()
                .any(|number| is_like(&format!("{}.{}", program.name, number.name), name))
        });
        if is_program { Self::Program(together, name) } else { Self::Counted(text) }
    }
}

/// What is wrong with expressions and measures, with its line.
pub(super) fn check(experiment: &Experiment) -> Result<(), String> {
    for program in experiment.rows.iter().flat_map(|row| &row.programs) {
        for (line, expression) in
            program.numbers.iter().map(|number| (number.line, &number.pattern)).chain(
                program.prints.iter().chain(&program.ready_line).map(|line| (program.line, line)),
            )
        {
            output::check(expression).map_err(|error| {
                format!("line {line}: program {}: {error}\nhint: letters such as ( and . mean themselves behind a \\", program.name)
            })?;
        }
    }
    for expected in &experiment.expectations {
        let mut other = None;
        if let Bound::Times { row, .. } = &expected.bound {
            other = Some(row);
        }
        for name in expected.rows.iter().chain(other) {
            let Some(row) = experiment.rows.iter().find(|row| row.name == *name) else { continue };
            if let Measure::Counted(measure) = Measure::of(&expected.measure, row) {
                snapshot::check(measure, &row.scenario.network.topology).map_err(|error| {
                    let (what, hint) = error.split_once('\n').unwrap_or((&error, ""));
                    let numbers: Vec<String> = row
                        .programs
                        .iter()
                        .flat_map(|it| {
                            it.numbers.iter().map(|number| format!("{}.{}", it.name, number.name))
                        })
                        .collect();
                    let also = if numbers.is_empty() {
                        String::new()
                    } else {
                        format!("; row {name:?} has {}", numbers.join(", "))
                    };
                    format!("line {}: expect.measure: {what}\n{hint}{also}", expected.line)
                })?;
            }
        }
    }
    Ok(())
}

/// The points in time at which a row is to be looked at.
pub(super) fn points(experiment: &Experiment, row: &Row) -> Vec<Point> {
    let mut points = vec![Point::End];
    let is_compared = |expected: &Expectation| match &expected.bound {
        Bound::Times { row: other, .. } => *other == row.name,
        Bound::Between(..) => false,
    };
    for expected in &experiment.expectations {
        if !expected.rows.contains(&row.name) && !is_compared(expected) {
            continue;
        }
        points.extend([point(&expected.from, true), point(&expected.to, false)]);
    }
    let mut only: Vec<Point> = Vec::new();
    for point in points {
        if !only.contains(&point) {
            only.push(point);
        }
    }
    only
}

fn point(anchor: &Option<Anchor>, begins: bool) -> Point {
    match anchor {
        None if begins => Point::After(None, core::time::Duration::ZERO),
        None => Point::End,
        Some(anchor) => Point::After(anchor.event.clone(), anchor.delay),
    }
}

/// What an expectation is about, in a run.
fn value(expected: &Expectation, row: &Row, run: &Run) -> Option<f64> {
    let value = match Measure::of(&expected.measure, row) {
        Measure::Program(together, name) => {
            let all: Vec<f64> = run
                .numbers
                .iter()
                .filter(|(of, _)| is_like(of, name))
                .map(|(_, value)| *value)
                .collect();
            let count = all.len() as f64;
            match together {
                _ if all.is_empty() => None,
                "least" => all.into_iter().reduce(f64::min),
                "most" => all.into_iter().reduce(f64::max),
                "mean" => Some(all.iter().sum::<f64>() / count),
                _ => Some(all.iter().sum()),
            }
        }
        Measure::Counted(measure) => {
            let at =
                |point: Point| run.snapshots.iter().find(|(at, _)| *at == point).map(|(_, it)| it);
            let from = at(point(&expected.from, true))?;
            let to = at(point(&expected.to, false))?;
            // A share and a time are what they are at the end.
            let difference = if measure == "slipped_percent" {
                to.sum(measure)
            } else {
                to.sum(measure) - from.sum(measure)
            };
            // Of the time of the network: how the lab was diluted, or fell behind, does not matter.
            let seconds = (to.sum(MODEL) - from.sum(MODEL)).max(1e-9);
            Some(if expected.per_second { difference / seconds } else { difference })
        }
    }?;
    Some(value * expected.scale)
}

/// The values of a row, of every draw that has one, in order.
fn values(expected: &Expectation, row: &Row, runs: &[Run]) -> Vec<f64> {
    let of_row = runs.iter().filter(|run| run.row == row.name);
    let mut values: Vec<f64> = of_row.filter_map(|run| value(expected, row, run)).collect();
    values.sort_by(f64::total_cmp);
    values
}

pub(super) fn judge(experiment: &Experiment, rows: &[&Row], runs: Vec<Run>) -> Report {
    let row_of = |name: &str| rows.iter().copied().find(|row| row.name == name);
    let (mut judged, mut left_out) = (Vec::new(), 0);
    for expected in &experiment.expectations {
        for name in &expected.rows {
            let Some(row) = row_of(name) else {
                left_out += 1;
                continue;
            };
            let of_row = values(expected, row, &runs);
            let (other, bounds) = match &expected.bound {
                Bound::Between(least, most) => (None, Some((*least, *most))),
                Bound::Times { row, any_draw, least, most } => {
                    // A row that was not run is no yardstick.
                    let Some(than) = row_of(row) else {
                        left_out += 1;
                        continue;
                    };
                    let than = Seen::of(values(expected, than, &runs));
                    let bounds = than.median.map(|by| {
                        let (below, above) = if *any_draw { than.range } else { (by, by) };
                        (least * below, most * above)
                    });
                    (Some((row.clone(), than)), bounds)
                }
            };
            let meets = |value: f64| {
                bounds.is_some_and(|(least, most)| {
                    // What is counted is whole, and what was divided may be off by a hair.
                    let hair = 1e-9 * value.abs();
                    value >= least - hair && value <= most + hair
                })
            };
            let met_alone = of_row.iter().filter(|value| meets(**value)).count();
            let seen = Seen::of(of_row);
            let is_met = if expected.bound.is_of_every_draw() {
                met_alone == seen.draws && seen.draws > 0
            } else {
                seen.median.is_some_and(meets)
            };
            let verdict = if is_met { Verdict::Met } else { Verdict::Missed };
            judged.push(Judged {
                row: row.name.clone(),
                expectation: expected.clone(),
                seen,
                other,
                verdict,
                met_alone,
            });
        }
    }
    Report { title: experiment.title.clone(), judged, left_out, runs }
}
