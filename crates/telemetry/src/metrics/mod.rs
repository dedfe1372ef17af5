//! Metrics: families of samples, as Prometheus scrapes them.
//!
//! ```text
//!   Metrics ─┬─ Family  name, kind, help           rdma_roce_pfc_pause_frames_total, a counter
//!            │    └─ sample  labels, value         {device="mlx5_0",direction="rx",priority="3"} 17
//!            ├─ to_text ─► Prometheus text 0.0.4, or OpenMetrics 1.0.0 ─► Endpoint ─► a scraper
//!            └─ to_otlp ─► JSON of OTLP/HTTP ─► OtlpReceiver ─► a collector of OpenTelemetry
//! ```
//!
//! Ports, priorities and directions are labels, never parts of a name: a query then asks for all of them at once.
//!
//! # What holds
//!
//! - What is rendered is valid, whatever was added: other characters in names become `_`, values of labels are
//!   escaped, a series that is there already keeps its first value, and what comes under a known name with another
//!   kind is left out.
//! - The number of series has a bound ([`Metrics::bounded`]). What is beyond it is left out and counted
//!   ([`Metrics::left_out`]); what is rendered says so in a sample of its own.
//! - The same samples give the same bytes, in whatever order they were added.
//!
//! Absent: histograms, exemplars, and times of samples, which Prometheus advises exporters against.

mod endpoint;
mod otlp;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

pub use endpoint::{Endpoint, EndpointError, Reach};
pub use otlp::{OtlpError, OtlpReceiver};
pub use text::Format;

use crate::limits::{LABEL_VALUE_CHARS_MAX, METRIC_SERIES_MAX};

/// What a number means over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricKind {
    /// It only grows, until whoever counts starts anew. Its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Nobody has said, as of what drivers count under names of their own.
    Unknown,
}

/// The value of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MetricValue {
    /// A count, written with all digits; Prometheus keeps 53 bits of it.
    Integer(u64),
    /// A measurement.
    Float(f64),
}

impl From<u64> for MetricValue {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

const LEFT_OUT: &str = "ferroce_metrics_left_out";
const LEFT_OUT_HELP: &str = "Samples of this scrape that are not in it: beyond the bound on series, \
                             twice the same series, or of another kind than their family.";

/// Name and value of each label, by name.
type Labels = Vec<(String, String)>;

#[derive(Clone, Debug)]
struct Family {
    kind: MetricKind,
    help: String,
    samples: BTreeMap<Labels, MetricValue>,
}

/// Families of samples. See the module.
///
/// ```
/// use telemetry::{Format, MetricKind, Metrics};
///
/// let mut metrics = Metrics::new();
/// let labels = [("device", "mlx5_0"), ("priority", "3")];
/// metrics.add("pauses_total", MetricKind::Counter, "Pause frames received.", &labels, 17);
/// let text = metrics.to_text(Format::Prometheus);
/// assert!(text.ends_with("pauses_total{device=\"mlx5_0\",priority=\"3\"} 17\n"), "{text}");
/// ```
#[derive(Clone, Debug)]
pub struct Metrics {
    families: BTreeMap<String, Family>,
    series: usize,
    series_max: usize,
    left_out: u64,
    common: Labels,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// None yet, with room for as many series as a cluster of a thousand hosts in a simulation has.
    pub fn new() -> Self {
        Self::bounded(METRIC_SERIES_MAX)
    }

    /// None yet, and `series_max` series at most.
    pub fn bounded(series_max: usize) -> Self {
        let (families, common) = Default::default();
        Self { families, series: 0, series_max, left_out: 0, common }
    }

    /// Gives every sample that is added from now on these labels too, such as the name of a lab.
    #[must_use]
    pub fn labelled(mut self, labels: &[(&str, &str)]) -> Self {
        self.common = labels.iter().map(|&(name, value)| label(name, value)).collect();
        self
    }

    /// Adds a sample. `help` is of the family, and its first one stays; it says which direction means what.
    pub fn add(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        labels: &[(&str, &str)],
        value: impl Into<MetricValue>,
    ) {
        let mut all = self.common.clone();
        all.extend(labels.iter().map(|&(name, value)| label(name, value)));
        all.sort();
        all.dedup_by(|a, b| a.0 == b.0);
        let full = self.series >= self.series_max;
        let family = match self.families.entry(clean(name, true)) {
            Entry::Occupied(family) => family.into_mut(),
            Entry::Vacant(_) if full => {
                self.left_out += 1;
                return;
            }
            Entry::Vacant(place) => {
                place.insert(Family { kind, help: help.to_owned(), samples: BTreeMap::new() })
            }
        };
        match family.samples.entry(all) {
            Entry::Vacant(place) if !full && family.kind == kind => {
                place.insert(value.into());
                self.series += 1;
            }
            _ => self.left_out += 1,
        }
    }

    /// How many series there are.
    pub fn len(&self) -> usize {
        self.series
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.series == 0
    }

    /// How many samples had no room, were there already, or contradicted their family.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Names of families with the names of all labels that their samples have.
    pub fn names(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.families.iter().map(|(name, family)| {
            let labels = family.samples.keys().flatten().map(|(name, _)| name.as_str());
            let mut labels: Vec<&str> = labels.collect();
            labels.sort_unstable();
            labels.dedup();
            (name.as_str(), labels)
        })
    }

    /// The value of a sample, by its labels in any order.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<MetricValue> {
        let mut labels: Labels = labels.iter().map(|&(name, value)| label(name, value)).collect();
        labels.sort();
        self.families.get(name)?.samples.get(&labels).copied()
    }

    /// All families, and one that says how many samples were left out, if any were.
    fn told(&self) -> impl Iterator<Item = (&str, Cow<'_, Family>)> {
        let left_out = (self.left_out > 0).then(|| {
            let samples = [(Labels::new(), MetricValue::Integer(self.left_out))].into();
            let help = LEFT_OUT_HELP.to_owned();
            (LEFT_OUT, Cow::Owned(Family { kind: MetricKind::Gauge, help, samples }))
        });
        let families = self.families.iter();
        families.map(|(name, family)| (name.as_str(), Cow::Borrowed(family))).chain(left_out)
    }

    /// What a scraper reads.
    pub fn to_text(&self, format: Format) -> String {
        text::render(self, format)
    }
}

fn label(name: &str, value: &str) -> (String, String) {
    (clean(name, false), value.chars().take(LABEL_VALUE_CHARS_MAX).collect())
}

/// `text` as a name of a metric, which may have colons, or of a label, which may not.
fn clean(text: &str, colons: bool) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':');
    let mut name: String = text.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_bound_is_counted_and_told() {
        let mut metrics = Metrics::bounded(3);
        for port in 0..10 {
            metrics.add("p", MetricKind::Gauge, "", &[("port", &port.to_string())], 1);
        }
        metrics.add("q", MetricKind::Gauge, "", &[], 1);
        assert_eq!((metrics.len(), metrics.left_out()), (3, 8));
        let text = metrics.to_text(Format::Prometheus);
        assert!(text.contains("ferroce_metrics_left_out 8\n") && !text.contains("q "), "{text}");
    }

    #[test]
    fn a_series_keeps_its_first_value_and_a_family_its_first_kind() {
        let mut metrics = Metrics::new();
        metrics.add("n", MetricKind::Counter, "first", &[("b", "1"), ("a", "2")], 1);
        metrics.add("n", MetricKind::Counter, "second", &[("a", "2"), ("b", "1")], 2);
        metrics.add("n", MetricKind::Gauge, "", &[], 3);
        assert_eq!((metrics.len(), metrics.left_out()), (1, 2));
        assert_eq!(metrics.get("n", &[("a", "2"), ("b", "1")]), Some(MetricValue::Integer(1)));
    }

    #[test]
    fn names_and_labels_are_made_valid() {
        for (text, metric, label) in [
            ("rx_prio3_pause", "rx_prio3_pause", "rx_prio3_pause"),
            ("rx-drops [0]", "rx_drops__0_", "rx_drops__0_"),
            ("1st", "_1st", "_1st"),
            ("a:b", "a:b", "a_b"),
            ("", "_", "_"),
            ("é", "_", "_"),
        ] {
            assert_eq!((clean(text, true), clean(text, false)), (metric.into(), label.into()));
        }
    }
}
