//! What runs have come to: numbers, for people, for files, and held against thresholds.
//!
//! A [`Report`] is what the JSON holds, neither more nor less: whatever is printed or drawn is made of
//! it, so that what was written yesterday can be compared with what is measured today ([`compare`]).

mod compare;
mod counted;
mod page;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::load::Record;
use crate::plan::{Flow, Plan, Point};
use crate::session::{Measured, Ran, Served};

pub use compare::{Comparison, compare};
use counted::Counted;
pub use page::{page, tables};

/// What the file is, for whoever reads it.
pub const FORMAT: &str = "ferroce-bench/1";

/// One or several runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// Where the time passed: `soft`, `nic` or `sim`.
    pub world: String,
    /// Whether the numbers are a model's.
    pub simulated: bool,
    /// What the world consists of, in words.
    pub about: String,
    /// All, in their order.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What it differs in from the others of a sweep.
    pub at: BTreeMap<String, String>,
    /// Why its results are partial, if they are.
    pub partial: Option<String>,
    /// What was asked for.
    pub plan: Plan,
    /// In the order of the plan.
    pub flows: Vec<FlowResult>,
    /// All flows together.
    pub together: Together,
    /// Thresholds that were not reached, and payloads that were wrong.
    pub misses: Vec<String>,
}

/// What a flow came to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowResult {
    /// What it is called.
    pub name: String,
    /// Operations that ended in the measured time.
    pub operations: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// How much of the measured time it was there.
    pub seconds: f64,
    /// Payload.
    pub bandwidth_gbps: f64,
    /// Payload in its worst window.
    pub window_gbps_min: f64,
    /// Operations.
    pub rate_per_s: f64,
    /// From the post, or the time at which it was due, to the end that the application sees.
    pub latency_us: Latency,
    /// Upper ends of buckets in nanoseconds, with how many latencies are in each.
    pub histogram_ns: Vec<(u64, u64)>,
    /// By window.
    pub windows: Vec<WindowResult>,
    /// Processor time of the threads that ask, in cores.
    pub cores: f64,
    /// Payload bytes that its devices have counted, both ways; nothing if they do not say.
    #[serde(default)]
    pub counted_bytes: Option<u64>,
    /// Counts of its devices that do not agree with what its applications did.
    #[serde(default)]
    pub miscounts: Vec<String>,
    /// Payloads checked at either end.
    pub checked: u64,
    /// Those that were wrong.
    pub mismatches: u64,
    /// What went wrong.
    pub errors: Vec<String>,
    /// What the serving end says; nothing if it is gone.
    pub served: Option<Served>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "percentiles are called so")]
pub struct Latency {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    pub max: f64,
}

/// What a flow came to in a window.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WindowResult {
    /// Operations that ended in it.
    pub operations: u64,
    /// Payload.
    pub bandwidth_gbps: f64,
    /// Median latency in microseconds; zero if nothing ended.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

/// All flows of a run together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Together {
    /// Payload.
    pub bandwidth_gbps: f64,
    /// Operations.
    pub rate_per_s: f64,
    /// Jain's index of the flows' bandwidths: 1 if all have the same, 1/n if one has all.
    pub fairness: f64,
    /// Processor time of this process, the NICs' threads included, in cores; of applications, if simulated.
    pub process_cores: f64,
    /// Processor time of the hogs of this process, in cores.
    #[serde(default)]
    pub hog_cores: f64,
    /// Events that the simulator has handled from the beginning on; zero if it is none.
    #[serde(default)]
    pub events: u64,
    /// The same for each operation that ended since then.
    #[serde(default)]
    pub events_per_operation: f64,
    /// Of each flow to the first: bandwidth.
    pub ratios: Vec<f64>,
}

/// Jain's fairness index (Jain, Chiu, Hawe, DEC-TR-301, 1984); 1 for nothing.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

impl Report {
    /// Of a real world, without runs.
    pub fn measured(world: &str, about: &str) -> Self {
        Self {
            format: FORMAT.to_owned(),
            world: world.to_owned(),
            simulated: false,
            about: about.to_owned(),
            runs: Vec::new(),
        }
    }

    /// Of simulated hosts, without runs.
    pub fn simulated(about: &str) -> Self {
        Self { simulated: true, ..Self::measured("sim", about) }
    }

    /// Adds what became of a point.
    pub fn add(&mut self, point: &Point, ran: &Ran) {
        let at = point.at.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        self.runs.push(Run::new(at, ran));
    }

    /// What a file holds.
    ///
    /// # Errors
    /// It is not of this format.
    pub fn read(text: &str) -> Result<Self, Failure> {
        let wrong = |why: String| {
            Failure::new(format!("not results of ferroce bench: {why}"))
                .hint("give files that `ferroce bench ... --json FILE` has written")
        };
        let report: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if report.format != FORMAT {
            return Err(wrong(format!("the format is {:?}, and not {FORMAT:?}", report.format)));
        }
        for (index, run) in report.runs.iter().enumerate() {
            run.plan.check().map_err(|failure| failure.within(format!("run {index}")))?;
        }
        Ok(report)
    }

    /// One JSON document.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("numbers, texts and lists");
        text.push('\n');
        text
    }

    /// Whether a threshold was not reached or a payload wrong.
    pub fn misses(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().flat_map(|run| &run.misses).map(String::as_str)
    }

    /// Why the last run is partial, if it is.
    pub fn partial(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.partial.as_deref())
    }
}

impl Run {
    fn new(at: BTreeMap<String, String>, ran: &Ran) -> Self {
        let Ran { plan, cut_short, process_cores, hog_cores, events, .. } = ran;
        let ended: u64 = ran.flows.iter().map(|measured| measured.ended).sum();
        let is_partial = cut_short.is_some();
        let flows: Vec<FlowResult> = plan
            .flows
            .iter()
            .zip(&ran.flows)
            .map(|(flow, measured)| FlowResult::new(plan, flow, measured, is_partial))
            .collect();
        let shares: Vec<f64> = flows.iter().map(|flow| flow.bandwidth_gbps).collect();
        let first = shares.first().copied().filter(|first| *first > 0.0);
        let together = Together {
            bandwidth_gbps: shares.iter().sum(),
            rate_per_s: flows.iter().map(|flow| flow.rate_per_s).sum(),
            fairness: jain(&shares),
            process_cores: *process_cores,
            hog_cores: *hog_cores,
            events: *events,
            events_per_operation: *events as f64 / ended.max(1) as f64,
            ratios: first
                .map_or_else(Vec::new, |first| shares.iter().map(|share| share / first).collect()),
        };
        let mut misses: Vec<String> =
            plan.flows.iter().zip(&flows).flat_map(|(flow, result)| result.misses(flow)).collect();
        if let Some(least) = plan.fairness_min
            && together.fairness < least
        {
            misses.push(format!("fairness {:.3} is below {least}", together.fairness));
        }
        let partial = cut_short.as_ref().map(|failure| failure.to_string().replace('\n', "; "));
        Self { at, partial, plan: plan.clone(), flows, together, misses }
    }

    /// As `size_bytes=64, window=4`; empty if there is but one.
    pub fn label(&self) -> String {
        let one = |(key, value): (&String, &String)| format!("{key}={value}");
        self.at.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// When a flow is there, in milliseconds of the measured time.
fn presence(plan: &Plan, flow: &Flow) -> (f64, f64) {
    let begin = (flow.start_ms - plan.warmup_ms).max(0.0);
    let end = flow.length_ms.map_or(f64::MAX, |length| flow.start_ms + length - plan.warmup_ms);
    (begin, end.clamp(begin, plan.length_ms))
}

impl FlowResult {
    fn new(plan: &Plan, flow: &Flow, measured: &Measured, is_partial: bool) -> Self {
        let Record { windows, latency, measured: until, .. } = &measured.record;
        let (begin, mut end) = presence(plan, flow);
        if is_partial {
            end = end.min((until.as_ps() as f64 / 1e9).max(begin));
        }
        let seconds = (end - begin) / 1e3;
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let operations = windows.iter().map(|window| window.operations).sum();
        let bytes: u64 = windows.iter().map(|window| window.bytes).sum();
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile: f64| us(latency.value_at_quantile(quantile));
        // Only windows in which the flow was there throughout count for the worst.
        let is_whole = |index: usize| {
            let from = index as f64 * plan.window_ms;
            from >= begin && from + plan.window_ms <= end + 1e-9
        };
        let window_results: Vec<WindowResult> = windows
            .iter()
            .map(|window| WindowResult {
                operations: window.operations,
                bandwidth_gbps: window.bytes as f64 * 8.0 / (plan.window_ms * 1e6),
                p50_us: us(window.latency.value_at_quantile(0.5)),
                p99_us: us(window.latency.value_at_quantile(0.99)),
            })
            .collect();
        let whole = window_results.iter().enumerate().filter(|(index, _)| is_whole(*index));
        let worst = whole.map(|(_, window)| window.bandwidth_gbps).fold(f64::INFINITY, f64::min);
        let counted = if is_partial { None } else { Counted::of(plan.verify, flow, measured) };
        let served = measured.served.clone();
        let theirs = served.clone().unwrap_or_default();
        let latency_us = match latency.is_empty() {
            true => Latency::default(),
            false => Latency {
                min: us(latency.min()),
                mean: latency.mean() / 1e3,
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                p999: at(0.999),
                p9999: at(0.9999),
                max: us(latency.max()),
            },
        };
        Self {
            name: flow.name.clone(),
            operations,
            bytes,
            seconds,
            bandwidth_gbps: per_second(bytes as f64 * 8.0 / 1e9),
            window_gbps_min: if worst.is_finite() { worst } else { 0.0 },
            rate_per_s: per_second(operations as f64),
            latency_us,
            histogram_ns: latency
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
            windows: window_results,
            cores: measured.cores,
            counted_bytes: counted.as_ref().map(Counted::bytes),
            miscounts: counted.map_or_else(Vec::new, |counted| counted.miscounts()),
            checked: measured.checked + theirs.checked,
            mismatches: measured.mismatches + theirs.mismatches,
            errors: measured.errors.clone(),
            served,
        }
    }

    fn misses(&self, flow: &Flow) -> Vec<String> {
        let bounds = &flow.at_least;
        let least = [
            ("bandwidth_gbps", self.bandwidth_gbps, bounds.bandwidth_gbps_min),
            ("window_gbps_min", self.window_gbps_min, bounds.window_gbps_min),
            ("rate_per_s", self.rate_per_s, bounds.rate_per_s_min),
        ];
        let most = [
            ("latency_p50_us", self.latency_us.p50, bounds.latency_p50_us_max),
            ("latency_p99_us", self.latency_us.p99, bounds.latency_p99_us_max),
            ("latency_p999_us", self.latency_us.p999, bounds.latency_p999_us_max),
        ];
        let mut misses = Vec::new();
        let name = &self.name;
        for (what, value, bound) in least {
            if let Some(bound) = bound.filter(|bound| value < *bound) {
                misses.push(format!("{name}: {what} {value:.3} is below {bound}"));
            }
        }
        for (what, value, bound) in most {
            // Nothing that ended is no low latency.
            if let Some(bound) = bound.filter(|bound| value > *bound || self.operations == 0) {
                misses.push(format!("{name}: {what} {value:.3} is above {bound}"));
            }
        }
        misses.extend(self.miscounts.iter().map(|miscount| format!("{name}: {miscount}")));
        if self.mismatches > 0 {
            misses.push(format!(
                "{name}: {} of {} payloads were wrong",
                self.mismatches, self.checked
            ));
        }
        misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_between_one_of_n_and_one() {
        assert_eq!(jain(&[2.0, 2.0, 2.0, 2.0]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!((jain(&[]), jain(&[0.0])), (1.0, 1.0));
    }
}
