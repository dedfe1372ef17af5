//! The two text formats of metrics.
//!
//! ```text
//!   Prometheus 0.0.4                     OpenMetrics 1.0.0
//!   # HELP p_total Pauses.               # HELP p Pauses.
//!   # TYPE p_total counter               # TYPE p counter
//!   p_total{port="1"} 3                  p_total{port="1"} 3
//!                                        # EOF
//! ```
//!
//! The crate prometheus-client renders OpenMetrics alone, from metrics that a program holds. Ours are read anew at each
//! scrape, under names that drivers choose, and node exporter's older names need the older format.

use core::fmt::{self, Write};

use super::{Family, MetricKind, MetricValue, Metrics};

/// What a scraper understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Prometheus' own text, version 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What a scraper that sends this `Accept` gets: `OpenMetrics` if it knows it.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

pub(super) fn render(metrics: &Metrics, format: Format) -> String {
    let mut text = String::new();
    for (name, family) in metrics.told() {
        // Writing to a string cannot fail.
        let _ = write_family(&mut text, name, &family, format);
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn write_family(text: &mut String, name: &str, family: &Family, format: Format) -> fmt::Result {
    let (described, kind) = match (format, family.kind, name.strip_suffix("_total")) {
        (Format::Prometheus, MetricKind::Counter, _) => (name, "counter"),
        (Format::Prometheus, MetricKind::Unknown, _) => (name, "untyped"),
        (Format::OpenMetrics, MetricKind::Counter, Some(stem)) => (stem, "counter"),
        // OpenMetrics knows no counter without the ending.
        (Format::OpenMetrics, MetricKind::Counter | MetricKind::Unknown, _) => (name, "unknown"),
        (_, MetricKind::Gauge, _) => (name, "gauge"),
    };
    if !family.help.is_empty() {
        writeln!(
            text,
            "# HELP {described} {}",
            Escaped(&family.help, format == Format::OpenMetrics)
        )?;
    }
    writeln!(text, "# TYPE {described} {kind}")?;
    for (labels, value) in &family.samples {
        text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            write!(text, "{before}{label}=\"{}\"", Escaped(value, true))?;
        }
        text.push_str(if labels.is_empty() { " " } else { "} " });
        match value {
            MetricValue::Integer(value) => writeln!(text, "{value}")?,
            MetricValue::Float(value) if value.is_nan() => text.push_str("NaN\n"),
            MetricValue::Float(value) if value.is_infinite() => {
                text.push_str(if *value > 0.0 { "+Inf\n" } else { "-Inf\n" });
            }
            MetricValue::Float(value) => writeln!(text, "{value}")?,
        }
    }
    Ok(())
}

/// Text on one line, without the quotes around it.
struct Escaped<'a>(&'a str, bool);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '"' if self.1 => f.write_str("\\\"")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        let mut metrics = Metrics::new().labelled(&[("lab", "a\"b")]);
        metrics.add(
            "p_total",
            MetricKind::Counter,
            "Of \"peers\".\nTwo lines",
            &[("port", "1")],
            3,
        );
        metrics.add("p_total", MetricKind::Counter, "", &[("port", "2")], u64::MAX);
        metrics.add("node_ethtool_x", MetricKind::Unknown, "X", &[], 0.5);
        metrics.add("g", MetricKind::Gauge, "", &[("path", "C:\\\n")], f64::INFINITY);
        metrics
    }

    #[test]
    fn prometheus_text_has_help_type_and_escaped_labels() {
        let text = "\
# TYPE g gauge
g{lab=\"a\\\"b\",path=\"C:\\\\\\n\"} +Inf
# HELP node_ethtool_x X
# TYPE node_ethtool_x untyped
node_ethtool_x{lab=\"a\\\"b\"} 0.5
# HELP p_total Of \"peers\".\\nTwo lines
# TYPE p_total counter
p_total{lab=\"a\\\"b\",port=\"1\"} 3
p_total{lab=\"a\\\"b\",port=\"2\"} 18446744073709551615
";
        assert_eq!(metrics().to_text(Format::Prometheus), text);
    }

    #[test]
    fn openmetrics_describes_counters_without_their_ending_and_says_where_it_ends() {
        let text = metrics().to_text(Format::OpenMetrics);
        assert!(text.contains("# TYPE p counter\np_total{"), "{text}");
        assert!(text.contains("# HELP p Of \\\"peers\\\".\\nTwo lines\n"), "{text}");
        assert!(text.contains("# TYPE node_ethtool_x unknown\n") && text.ends_with("# EOF\n"));
    }
}
