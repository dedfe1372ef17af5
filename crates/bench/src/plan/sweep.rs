//! Sweeps: the same plan for several values of a key.

use super::{FLOW_KEYS, PLAN_KEYS, Plan, Value, unknown};
use crate::Failure;
use crate::limits::SWEEP_POINTS_MAX;

/// The values of a key.
#[derive(Clone, PartialEq, Debug)]
pub struct Sweep {
    /// The key, as files have it.
    pub key: String,
    /// Its values, in turn.
    pub values: Vec<Value>,
}

/// A plan of a sweep, and what it differs in from the others.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Keys with their values.
    pub at: Vec<(String, Value)>,
    /// What is run.
    pub plan: Plan,
}

impl Sweep {
    /// From `key=value,value`. The unit of a key may be left out: `size=64,4096`.
    ///
    /// # Errors
    /// An unknown key, or no values.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let (key, values) = text.split_once('=').ok_or_else(|| {
            Failure::new(format!("a sweep is not {text:?}"))
                .hint("write a key and its values, such as size=64,4096")
        })?;
        let key = full(key.trim())?;
        let values: Vec<Value> = values
            .split(',')
            .map(str::trim)
            .filter(|value| !value.is_empty())
            .map(Value::of_word)
            .collect();
        if values.is_empty() {
            return Err(Failure::new(format!("a sweep over {key} needs values"))
                .hint(format!("such as {key}=1,2,4")));
        }
        Ok(Self { key, values })
    }
}

/// The key that `short` is: itself, or with its unit.
pub fn full(short: &str) -> Result<String, Failure> {
    let short = short.replace('-', "_");
    let keys = || FLOW_KEYS.iter().chain(&PLAN_KEYS).map(|(key, _)| *key);
    let units = ["", "_bytes", "_us", "_ms", "_per_s"];
    let found = units.iter().find_map(|unit| {
        let whole = format!("{short}{unit}");
        keys().find(|key| *key == whole)
    });
    match found {
        Some(key @ ("name" | "title" | "count")) => {
            Err(Failure::new(format!("{key}: is of a flow file alone"))
                .hint(format!("write it in one: {key} = ...")))
        }
        Some(key) => Ok(key.to_owned()),
        None => Err(unknown(&short, &FLOW_KEYS)),
    }
}

impl Plan {
    /// One plan for each combination of the values of `sweeps`, the last sweep running fastest. A key of
    /// flows is set in all flows.
    ///
    /// # Errors
    /// A value that its key cannot have, or too many combinations.
    pub fn points(&self, sweeps: &[Sweep]) -> Result<Vec<Point>, Failure> {
        let count =
            sweeps.iter().fold(1_usize, |all, sweep| all.saturating_mul(sweep.values.len()));
        if count > SWEEP_POINTS_MAX {
            return Err(Failure::new(format!("{count} combinations are too many")).hint(format!(
                "sweep over fewer values: {SWEEP_POINTS_MAX} combinations at most"
            )));
        }
        let mut points = vec![Point { at: Vec::new(), plan: self.clone() }];
        for sweep in sweeps {
            let with = |point: &Point, value: &Value| -> Result<Point, Failure> {
                let mut point = point.clone();
                point.at.push((sweep.key.clone(), value.clone()));
                let of_flows = FLOW_KEYS.iter().any(|(key, _)| *key == sweep.key);
                if of_flows && sweep.key != "length_ms" {
                    for flow in &mut point.plan.flows {
                        flow.set(&sweep.key, value)?;
                    }
                } else {
                    point.plan.set(&sweep.key, value)?;
                }
                Ok(point)
            };
            let all = points.iter().flat_map(|point| {
                sweep.values.iter().map(|value| with(point, value)).collect::<Vec<_>>()
            });
            points = all.collect::<Result<_, _>>()?;
        }
        for point in &points {
            point.plan.check().map_err(|failure| failure.within(point.label()))?;
        }
        Ok(points)
    }
}

impl Point {
    /// As `size_bytes=64, window=4`.
    pub fn label(&self) -> String {
        let one = |(key, value): &(String, Value)| format!("{key}={value}");
        self.at.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Flow, Verb};
    use super::*;

    #[test]
    fn every_combination_is_a_plan() {
        let plan = Plan { flows: vec![Flow::new(Verb::Write)], ..Plan::default() };
        let sweeps = ["size=64,4096", "window=1,8,16"].map(|text| Sweep::parse(text).unwrap());
        let points = plan.points(&sweeps).unwrap();
        let labels: Vec<String> = points.iter().map(Point::label).collect();
        assert_eq!(labels.len(), 6);
        assert_eq!(
            (labels[1].as_str(), points[1].plan.flows[0].window),
            ("size_bytes=64, window=8", 8)
        );
        assert_eq!(points[5].plan.flows[0].size_bytes, 4096);
    }

    #[test]
    fn a_sweep_that_says_nothing_sensible_is_refused() {
        for (text, expected) in [
            ("size", "a sweep is not \"size\""),
            ("sise=1", "unknown key `sise`\nhint: did you mean"),
            ("size=", "a sweep over size_bytes needs values"),
            ("name=a", "name: is of a flow file alone\nhint: write it in one: name = "),
        ] {
            let said = Sweep::parse(text).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
        let plan = Plan { flows: vec![Flow::new(Verb::Write)], ..Plan::default() };
        let wrong = Sweep::parse("signal-every=1,2").unwrap();
        let said = plan.points(&[wrong]).unwrap_err().to_string();
        assert!(
            said.starts_with("signal_every=2: flow \"write\": signal_every: 2 requests"),
            "{said}"
        );
    }
}
