//! Metrics as OTLP, in the JSON that every receiver of OTLP/HTTP takes (opentelemetry-proto 1.x, "JSON Protobuf
//! Encoding"), and the request that pushes them.
//!
//! ```text
//!   Metrics ── families ──► bodies of so many points at most ── POST URL/v1/metrics ──► a collector
//!               counter ► sum, cumulative and monotonic
//!               gauge, unknown ► gauge
//! ```
//!
//! Names and labels are those that Prometheus gets. Counts say no time at which they began: whoever counts, a driver
//! or a switch, does not tell. A push that failed is not repeated: the next one says all that it would have.
//!
//! Absent: TLS. A collector of this host, or one beside it, is what OTLP is pushed to.

use core::fmt;
use core::time::Duration;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::{Family, Labels, MetricKind, MetricValue, Metrics};
use crate::limits::{OTLP_ANSWER_BYTES_MAX, OTLP_POINTS_MAX, OTLP_TIME_MAX};

/// What `temporality` is: counts since whoever counts began.
const CUMULATIVE: u8 = 2;
/// Where a receiver takes metrics, unless its URL says so already.
const PATH: &str = "/v1/metrics";

impl Metrics {
    /// Bodies of requests, each with as many points as receivers take at once. `resource` says whose they are:
    /// `service.name`, `host.name`.
    pub fn to_otlp(&self, resource: &[(&str, &str)], at: SystemTime) -> Vec<String> {
        let nanoseconds =
            at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos();
        let at = nanoseconds.to_string();
        let mut batches: Vec<Vec<Value>> = Vec::new();
        let mut room = 0;
        for (name, family) in self.told() {
            let mut points = family.samples.iter().peekable();
            while points.peek().is_some() {
                if room == 0 {
                    batches.push(Vec::new());
                    room = OTLP_POINTS_MAX;
                }
                let now = points.by_ref().take(room);
                let now: Vec<Value> =
                    now.map(|(labels, value)| point(labels, *value, &at)).collect();
                room -= now.len();
                if let Some(batch) = batches.last_mut() {
                    batch.push(metric(name, &family, now));
                }
            }
        }
        let attributes = attributes(resource.iter().copied());
        let body = |metrics: Vec<Value>| {
            json!({ "resourceMetrics": [{
                "resource": { "attributes": attributes },
                "scopeMetrics": [{
                    "scope": { "name": "ferroce", "version": env!("CARGO_PKG_VERSION") },
                    "metrics": metrics,
                }],
            }] })
            .to_string()
        };
        batches.into_iter().map(body).collect()
    }
}

fn metric(name: &str, family: &Family, points: Vec<Value>) -> Value {
    let mut metric = json!({ "name": name, "description": family.help });
    let kind = match family.kind {
        MetricKind::Counter => {
            metric["sum"] = json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true });
            "sum"
        }
        MetricKind::Gauge | MetricKind::Unknown => "gauge",
    };
    metric[kind]["dataPoints"] = points.into();
    metric
}

/// Numbers of 64 bits are texts in this JSON, and counts are signed.
fn point(labels: &Labels, value: MetricValue, at: &str) -> Value {
    let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut point = json!({ "attributes": attributes(labels), "timeUnixNano": at });
    match value {
        MetricValue::Integer(value) => match i64::try_from(value) {
            Ok(value) => point["asInt"] = value.to_string().into(),
            Err(_) => point["asDouble"] = (value as f64).into(),
        },
        MetricValue::Float(value) if value.is_nan() => point["asDouble"] = "NaN".into(),
        MetricValue::Float(value) if value.is_infinite() => {
            point["asDouble"] = if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
        }
        MetricValue::Float(value) => point["asDouble"] = value.into(),
    }
    point
}

fn attributes<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let one = |(name, value)| json!({ "key": name, "value": { "stringValue": value } });
    labels.map(one).collect()
}

/// Why a push failed.
#[derive(Debug)]
pub enum OtlpError {
    /// The URL is none of HTTP.
    Url(String),
    /// The receiver cannot be reached, or does not answer.
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// The receiver refuses.
    Refused {
        /// Its URL.
        url: String,
        /// The status of HTTP, and what it says.
        why: String,
    },
    /// The receiver has taken some points, and not others.
    Rejected {
        /// How many it has not taken.
        points: u64,
        /// Why.
        why: String,
    },
}

impl fmt::Display for OtlpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => write!(f, "{url} is no URL of OTLP/HTTP: http://HOST:PORT"),
            Self::Unreachable { url, why } => write!(f, "{url} cannot be reached: {why}"),
            Self::Refused { url, why } => write!(f, "{url} refuses: {why}"),
            Self::Rejected { points, why } => write!(f, "{points} points were rejected: {why}"),
        }
    }
}

impl core::error::Error for OtlpError {}

/// Where metrics are pushed to.
#[derive(Clone, Debug)]
pub struct OtlpReceiver {
    url: String,
    agent: ureq::Agent,
}

impl OtlpReceiver {
    /// That of a URL such as `http://127.0.0.1:4318`.
    ///
    /// # Errors
    /// It is no URL of HTTP.
    pub fn new(url: &str) -> Result<Self, OtlpError> {
        let base = url.trim_end_matches('/');
        let is_http = base.strip_prefix("http://").is_some_and(|rest| !rest.is_empty());
        if !is_http || base.parse::<ureq::http::Uri>().is_err() {
            return Err(OtlpError::Url(url.to_owned()));
        }
        let url = if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(OTLP_TIME_MAX))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        Ok(Self { url, agent: config.into() })
    }

    /// Where that is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Pushes bodies of [`Metrics::to_otlp`].
    ///
    /// # Errors
    /// One was not taken; those behind it were not sent.
    pub fn push(&self, bodies: &[String]) -> Result<(), OtlpError> {
        bodies.iter().try_for_each(|body| self.push_one(body))
    }

    fn push_one(&self, body: &str) -> Result<(), OtlpError> {
        let unreachable = |why: ureq::Error| OtlpError::Unreachable {
            url: self.url.clone(),
            why: why.to_string(),
        };
        let request = self.agent.post(&self.url).content_type("application/json");
        let mut answer = request.send(body).map_err(unreachable)?;
        let status = answer.status();
        let said = answer.body_mut().with_config().limit(OTLP_ANSWER_BYTES_MAX).read_to_string();
        let said = said.map_err(unreachable)?;
        if !status.is_success() {
            let line = said.lines().next().unwrap_or_default();
            let why = format!("{status}: {}", line.chars().take(200).collect::<String>());
            return Err(OtlpError::Refused { url: self.url.clone(), why });
        }
        rejected(&said)
    }
}

/// What a receiver says that it has not taken (OTLP, "Partial Success").
fn rejected(said: &str) -> Result<(), OtlpError> {
    let Ok(answer) = serde_json::from_str::<Value>(said) else { return Ok(()) };
    let partial = &answer["partialSuccess"];
    let points = &partial["rejectedDataPoints"];
    let points = points.as_u64().or_else(|| points.as_str()?.parse().ok()).unwrap_or(0);
    if points == 0 {
        return Ok(());
    }
    let why = partial["errorMessage"].as_str().unwrap_or("it does not say why").to_owned();
    Err(OtlpError::Rejected { points, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_sums_and_gauges_with_their_labels() {
        let mut metrics = Metrics::new();
        let labels = [("device", "mlx5_0"), ("priority", "3")];
        metrics.add("pauses_total", MetricKind::Counter, "Pauses.", &labels, 17);
        metrics.add("pauses_total", MetricKind::Counter, "Pauses.", &[], u64::MAX);
        metrics.add("rate", MetricKind::Gauge, "", &[], f64::NAN);
        metrics.add("whatever", MetricKind::Unknown, "", &[], 0.5);
        let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001);
        let bodies = metrics.to_otlp(&[("host.name", "h1")], at);
        let [body] = &bodies[..] else { panic!("{bodies:?}") };
        let body: Value = serde_json::from_str(body).unwrap();
        let text = |key, value| json!([{ "key": key, "value": { "stringValue": value } }]);
        let resource = &body["resourceMetrics"][0];
        assert_eq!(resource["resource"]["attributes"], text("host.name", "h1"));
        let time = "1700000000000000001";
        let expected = json!([
            { "name": "pauses_total", "description": "Pauses.", "sum": {
                "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [
                    { "attributes": [], "timeUnixNano": time, "asDouble": u64::MAX as f64 },
                    { "attributes": [
                        { "key": "device", "value": { "stringValue": "mlx5_0" } },
                        { "key": "priority", "value": { "stringValue": "3" } },
                    ], "timeUnixNano": time, "asInt": "17" },
                ] } },
            { "name": "rate", "description": "", "gauge": { "dataPoints": [
                { "attributes": [], "timeUnixNano": time, "asDouble": "NaN" },
            ] } },
            { "name": "whatever", "description": "", "gauge": { "dataPoints": [
                { "attributes": [], "timeUnixNano": time, "asDouble": 0.5 },
            ] } },
        ]);
        assert_eq!(resource["scopeMetrics"][0]["metrics"], expected);
    }

    #[test]
    fn no_body_has_more_points_than_a_receiver_takes_and_none_is_lost() {
        let mut metrics = Metrics::new();
        let most = OTLP_POINTS_MAX;
        for (name, count) in [("a", most - 1), ("b", most + 3), ("c", 5)] {
            for number in 0..count {
                let number = number.to_string();
                metrics.add(name, MetricKind::Gauge, "", &[("number", &number)], 1);
            }
        }
        let bodies = metrics.to_otlp(&[], SystemTime::now());
        let points: Vec<usize> = bodies.iter().map(|body| body.matches("asInt").count()).collect();
        assert_eq!(points, [most, most, 7]);
        assert!(Metrics::new().to_otlp(&[], SystemTime::now()).is_empty());
    }

    #[test]
    fn urls_get_the_path_of_metrics_once_and_others_are_refused() {
        for (url, expected) in [
            ("http://127.0.0.1:4318", Some("http://127.0.0.1:4318/v1/metrics")),
            ("http://[::1]:4318/", Some("http://[::1]:4318/v1/metrics")),
            ("http://c/otlp/v1/metrics", Some("http://c/otlp/v1/metrics")),
            ("https://c", None),
            ("127.0.0.1:4318", None),
            ("http://", None),
            ("http://a b", None),
        ] {
            let receiver = OtlpReceiver::new(url).ok();
            assert_eq!(receiver.as_ref().map(OtlpReceiver::url), expected, "{url}");
        }
    }

    #[test]
    fn what_a_receiver_rejects_is_an_error() {
        for (said, points) in [
            ("{}", 0),
            ("", 0),
            (r#"{"partialSuccess":{}}"#, 0),
            (r#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"old"}}"#, 3),
            (r#"{"partialSuccess":{"rejectedDataPoints":4}}"#, 4),
        ] {
            let rejected = match rejected(said) {
                Err(OtlpError::Rejected { points, .. }) => points,
                _ => 0,
            };
            assert_eq!(rejected, points, "{said}");
        }
    }
}
