//! Flows and sizes from CSV files.
//!
//! ```text
//!   sizes   bytes,cumulative                      the probability of a message of at most as many bytes
//!   trace   start_us,source,destination,bytes     one message a line; also dscp and verb, if they are named
//! ```
//!
//! The first line that is not a comment (`#`) names the columns, in any order. Fields have no quotes.

use rdma::{Span, Time};

use super::{FlowSpec, SizeDistribution, Verb};
use crate::limits::{FLOWS_MAX, SECONDS_MAX};
use crate::mistake::FileError;

/// Distributions that are shipped, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("web-search", include_str!("sizes/web-search.csv")),
    ("hadoop", include_str!("sizes/hadoop.csv")),
    ("memcached", include_str!("sizes/memcached.csv")),
];

/// A file as rows of named columns.
struct Rows<'a> {
    /// By column of the caller, its place in a row.
    places: Vec<Option<usize>>,
    width: usize,
    rows: Vec<(usize, Vec<&'a str>)>,
}

impl<'a> Rows<'a> {
    /// Reads a file whose columns are among `known`. The first `needed` of these must be there.
    fn read(
        text: &'a str,
        known: &[&str],
        needed: usize,
        hint: &'static str,
    ) -> Result<Self, FileError> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let wrong = |line, message| Err(FileError::new(line, message).hint(hint));
        let Some((line, head)) = lines.next() else {
            return wrong(1, "the file is empty".to_owned());
        };
        let names: Vec<&str> = head.split(',').map(str::trim).collect();
        for (index, name) in names.iter().enumerate() {
            if !known.contains(name) {
                return wrong(line, format!("there is no column {name:?}"));
            }
            if names[..index].contains(name) {
                return wrong(line, format!("column {name:?} is there twice"));
            }
        }
        let places: Vec<Option<usize>> =
            known.iter().map(|name| names.iter().position(|other| other == name)).collect();
        if let Some(missing) = places.iter().take(needed).position(Option::is_none) {
            return wrong(line, format!("column {:?} is missing", known[missing]));
        }
        let mut rows = Vec::new();
        for (line, text) in lines {
            if rows.len() >= FLOWS_MAX {
                let message = format!("there is room for {FLOWS_MAX} lines");
                return Err(FileError::new(line, message).hint("split the file"));
            }
            let fields: Vec<&str> = text.split(',').map(str::trim).collect();
            if fields.len() != names.len() {
                let (found, columns) = (fields.len(), names.len());
                return wrong(line, format!("{found} fields in {columns} columns"));
            }
            rows.push((line, fields));
        }
        Ok(Self { places, width: names.len(), rows })
    }

    fn field(&self, row: &[&'a str], column: usize) -> Option<&'a str> {
        let place = self.places.get(column).copied().flatten()?;
        debug_assert_eq!(row.len(), self.width);
        row.get(place).copied()
    }
}

const SIZES_HINT: &str = "columns are bytes,cumulative; both rise, the second to 1";

impl SizeDistribution {
    /// One that is shipped: `web-search`, `hadoop` or `memcached`. The files name their sources.
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = SHIPPED.iter().find(|(other, _)| *other == name)?;
        Self::from_csv(text).ok()
    }

    /// The names of those that are shipped.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`], with its line.
    pub(crate) fn from_csv(text: &str) -> Result<Self, FileError> {
        let rows = Rows::read(text, &["bytes", "cumulative"], 2, SIZES_HINT)?;
        let mut points: Vec<(u32, f64)> = Vec::new();
        let mut last_line = 1;
        for (line, row) in &rows.rows {
            let wrong = |what: &str| FileError::new(*line, what).hint(SIZES_HINT);
            let bytes = rows.field(row, 0).and_then(|text| text.parse::<u32>().ok());
            let bytes = bytes.ok_or_else(|| wrong("bytes is no number from 0 to 4294967295"))?;
            let part = rows.field(row, 1).and_then(|text| text.parse::<f64>().ok());
            let part = part.filter(|part| (0.0..=1.0).contains(part));
            let part = part.ok_or_else(|| wrong("cumulative is no number from 0 to 1"))?;
            if points.last().is_some_and(|last| last.0 > bytes || last.1 > part) {
                return Err(wrong("it falls below the line before"));
            }
            points.push((bytes, part));
            last_line = *line;
        }
        let short = FileError::new(last_line, "the last line is not cumulative 1");
        Self::new(points).ok_or(short.hint(SIZES_HINT))
    }
}

const TRACE_HINT: &str =
    "columns are start_us,source,destination,bytes, and dscp and verb if you need them";

/// The flows of a trace.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Trace {
    /// One a line.
    pub(crate) flows: Vec<FlowSpec>,
    /// A column says what each flow posts; otherwise it is [`Verb::Write`].
    pub(crate) verbs: bool,
    /// A column says the DSCP of each; otherwise it is 3.
    pub(crate) dscps: bool,
}

/// Reads a trace. `host` finds a host by its name.
///
/// # Errors
/// [`FileError`], with its line.
pub(crate) fn trace(text: &str, host: &dyn Fn(&str) -> Option<u32>) -> Result<Trace, FileError> {
    let columns = ["start_us", "source", "destination", "bytes", "dscp", "verb"];
    let rows = Rows::read(text, &columns, 4, TRACE_HINT)?;
    let mut flows = Vec::with_capacity(rows.rows.len());
    for (line, row) in &rows.rows {
        let wrong = |message: String| FileError::new(*line, message).hint(TRACE_HINT);
        let text = |column: usize| rows.field(row, column).unwrap_or_default();
        let start = text(0).parse::<f64>().ok();
        let start = start.filter(|us| (0.0..=SECONDS_MAX * 1e6).contains(us));
        let start = start.ok_or_else(|| wrong(format!("start_us {:?} is no time", text(0))))?;
        let end = |column: usize| {
            let name = text(column);
            host(name).ok_or_else(|| wrong(format!("{} {name:?} is no host", columns[column])))
        };
        let (source, destination) = (end(1)?, end(2)?);
        if source == destination {
            return Err(wrong("source and destination are the same host".to_owned()));
        }
        let bytes = text(3).parse::<u32>().ok();
        let bytes = bytes.filter(|&bytes| bytes <= transport::limits::MESSAGE_BYTES_MAX);
        let bytes = bytes.ok_or_else(|| {
            let most = transport::limits::MESSAGE_BYTES_MAX;
            wrong(format!("bytes {:?} is no number from 0 to {most}", text(3)))
        })?;
        let start = Time::ZERO + Span::from_ps((start * 1e6) as u64);
        let mut flow = FlowSpec { start, ..FlowSpec::write(source, destination, bytes) };
        if let Some(dscp) = rows.field(row, 4) {
            let value = dscp.parse::<u8>().ok().filter(|&dscp| dscp < 64);
            flow.dscp = value.ok_or_else(|| wrong(format!("dscp {dscp:?} is not from 0 to 63")))?;
        }
        if let Some(verb) = rows.field(row, 5) {
            flow.verb = match verb {
                "write" => Verb::Write,
                "send" => Verb::Send,
                "read" => Verb::Read,
                _ => return Err(wrong(format!("verb {verb:?} is none of write, send, read"))),
            };
        }
        flows.push(flow);
    }
    let there = |column: usize| rows.places[column].is_some();
    Ok(Trace { flows, verbs: there(5), dscps: there(4) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Option<u32> {
        name.strip_prefix('h')?.parse().ok().filter(|&host| host < 4)
    }

    fn read(text: &str) -> Result<Trace, FileError> {
        trace(text, &host)
    }

    #[test]
    fn what_is_shipped_has_the_means_of_its_sources() {
        let mean = |name| SizeDistribution::named(name).unwrap().mean();
        // The generalized Pareto has sigma / (1 - k) = 329 bytes; between points it is a little more.
        assert!((1.5e6..1.8e6).contains(&mean("web-search")), "{}", mean("web-search"));
        assert!((1.0e5..1.4e5).contains(&mean("hadoop")), "{}", mean("hadoop"));
        assert!((320.0..350.0).contains(&mean("memcached")), "{}", mean("memcached"));
        assert_eq!(SizeDistribution::names().count(), 3);
        assert_eq!(SizeDistribution::named("video"), None);
    }

    #[test]
    fn a_trace_is_one_message_a_line() {
        let Trace { flows, verbs, dscps } = read(
            "# made by hand\nsource,destination,start_us,bytes,verb\n\nh1,h2,1.5,1000,send\n\
             h3,h0,0,7,read\n",
        )
        .unwrap();
        assert_eq!((flows.len(), verbs, dscps), (2, true, false));
        let first = FlowSpec {
            verb: Verb::Send,
            start: Time::ZERO + Span::from_ns(1_500),
            ..FlowSpec::write(1, 2, 1_000)
        };
        assert_eq!(flows[0], first);
        assert_eq!((flows[1].source, flows[1].verb, flows[1].dscp), (3, Verb::Read, 3));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let head = "start_us,source,destination,bytes\n";
        let wrong = [
            ("", "line 1: the file is empty"),
            ("start_ms,source\n", "line 1: there is no column \"start_ms\""),
            ("start_us,start_us\n", "line 1: column \"start_us\" is there twice"),
            ("start_us,source,bytes\n", "line 1: column \"destination\" is missing"),
            (&format!("{head}0,h0,h1\n"), "line 2: 3 fields in 4 columns"),
            (&format!("{head}0,h0,h1,5\n-1,h0,h1,5"), "line 3: start_us \"-1\" is no time"),
            (&format!("{head}nan,h0,h1,5"), "line 2: start_us \"nan\" is no time"),
            (&format!("{head}0,h0,h9,5"), "line 2: destination \"h9\" is no host"),
            (&format!("{head}0,h1,h1,5"), "line 2: source and destination are the same host"),
            (
                &format!("{head}0,h0,h1,5KB"),
                "line 2: bytes \"5KB\" is no number from 0 to 2147483648",
            ),
        ];
        for (text, complaint) in wrong {
            assert_eq!(read(text).unwrap_err().parts().0, complaint);
        }
        let sizes = |text| SizeDistribution::from_csv(text).unwrap_err().parts().0;
        assert_eq!(sizes("bytes,cumulative\n1,0.5\n"), "line 2: the last line is not cumulative 1");
        assert_eq!(sizes("bytes,cumulative\n5,0.5\n4,1"), "line 3: it falls below the line before");
        assert_eq!(
            sizes("bytes,cumulative\n5,50\n"),
            "line 2: cumulative is no number from 0 to 1"
        );
    }
}
