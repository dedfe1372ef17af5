//! Scenario files: a network, its settings, what its applications do, and what goes wrong, in TOML.
//!
//! ```text
//!   text ─► TOML, with places ─► tables (build: what may be written, and what it means) ─► NetworkConfig, end
//! ```
//!
//! A key is declared once (`table.rs`), with its unit, bounds and default, and what may be written as
//! its value (`value.rs`); what is refused and what [`reference()`] says follow from that.
//!
//! Numbers end with their unit. A key that is not known, a name that names nothing and a value that
//! makes no sense are refused with the line, the key, what was expected, and a remedy where there is
//! one; nothing misspelt falls back to a default. Of several mistakes the first in the file is told.

mod at;
mod build;
mod error;
mod origin;
mod part;
mod place;
mod reference;
pub mod sonic;
mod table;
mod testbed;
mod value;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use rdma::{Span, Time};
use toml::de::DeTable;

use crate::NetworkConfig;
use crate::limits::FILE_BYTES_MAX;

pub use build::Testbed;
pub use error::ScenarioError;
pub use origin::Origin;
pub use reference::{KeyText, TableText, page};
pub use sonic::Note;
pub use testbed::topology;

use at::At;
use place::Lines;

/// Reads a file that a scenario names. Errors are a few words.
pub(crate) type Files<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// A scenario that is ready to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// What it is called.
    pub title: String,
    /// Everything that the network is made of.
    pub network: NetworkConfig,
    /// When the run ends at the latest.
    pub end: Time,
    /// What is to be known about it, warnings first.
    pub notes: Vec<Note>,
    /// Where it says what.
    pub origin: Origin,
    /// The distance of samples; `None` for as many as a report needs.
    pub sample_interval: Option<Span>,
}

impl Scenario {
    /// Reads a scenario; files that it names are beside it, in the present folder. `seed` takes the
    /// place of the file's.
    ///
    /// # Errors
    /// [`ScenarioError`], with line and key.
    pub fn parse(text: &str, seed: Option<u64>) -> Result<Self, ScenarioError> {
        Self::parse_in(text, Path::new("."), seed)
    }

    /// The same for a scenario in `folder`.
    ///
    /// # Errors
    /// [`ScenarioError`], with line and key.
    pub fn parse_in(text: &str, folder: &Path, seed: Option<u64>) -> Result<Self, ScenarioError> {
        Self::parse_with(text, &|name| read(&folder.join(name)), seed)
    }

    pub(crate) fn parse_with(
        text: &str,
        files: &Files<'_>,
        seed: Option<u64>,
    ) -> Result<Self, ScenarioError> {
        let lines = Lines::of(text);
        let written =
            DeTable::parse(text).map_err(|error| ScenarioError::no_toml(&lines, text, &error))?;
        build::scenario(&At::file(&lines, written.get_ref()), seed, files)
    }
}

/// Every key that may be written, table by table.
pub fn reference() -> Vec<TableText> {
    build::reference()
}

/// The text of a file, which is one, and not too long.
fn read(path: &Path) -> Result<String, String> {
    let why = |error: std::io::Error| error.to_string();
    // A pipe or a device may never end, and not even open.
    if !fs::metadata(path).map_err(why)?.is_file() {
        return Err("it is no file".to_owned());
    }
    let file = File::open(path).map_err(why)?;
    let mut text = String::new();
    let bytes = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(why)?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {} MiB", FILE_BYTES_MAX >> 20));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
title = "two"
end_ms = 1

[topology]
shape = "single-switch"
hosts = 3
rate_gbps = 40
cable_m = 2

[switch]
alpha = "1/16"

[[workload]]
kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000
"#;

    fn refused(text: &str) -> String {
        Scenario::parse(text, None).unwrap_err().to_string()
    }

    #[test]
    fn a_small_scenario_runs() {
        let scenario = Scenario::parse(SMALL, Some(9)).unwrap();
        assert_eq!((scenario.title.as_str(), scenario.network.seed), ("two", 9));
        let mut network = crate::Network::new(scenario.network).unwrap();
        assert_eq!(network.run(scenario.end), crate::Verdict::Finished);
        assert_eq!(network.flows().len(), 2);
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_line_and_the_likely_one() {
        assert_eq!(
            refused(&SMALL.replace("senders = 2", "sender = 2")),
            "line 17: unknown key `sender`\nhint: did you mean `senders`?"
        );
        assert_eq!(
            refused(&SMALL.replace("rate_gbps = 40", "rate = 40")),
            "line 8: unknown key `rate`\nhint: did you mean `rate_gbps`?"
        );
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named_with_its_line() {
        assert_eq!(
            refused(&SMALL.replace("\"h0\"", "\"h7\"")),
            "line 16: workload.receiver: there is no host \"h7\"\nhint: hosts are h0 to h2"
        );
        assert_eq!(
            refused(&SMALL.replace("\"1/16\"", "\"1/15\"")),
            "line 12: switch.alpha: \"1/15\" is no power of two from 1/256 to 128\n\
             hint: write \"1/16\", \"1\" or \"8\", for instance"
        );
        assert_eq!(
            refused(&SMALL.replace("hosts = 3", "")),
            "line 5: topology.hosts: shape \"single-switch\" needs it\nhint: add hosts to this table"
        );
        assert_eq!(
            refused(&SMALL.replace("hosts = 3", "hosts = 3\nk = 4")),
            "line 8: topology.k: shape \"single-switch\" does not have it\n\
             hint: its keys are hosts, rate_gbps, cable_m"
        );
        assert_eq!(
            refused(&SMALL.replace("senders = 2", "senders = 3")),
            "line 17: workload.senders: 3 of 2 other hosts\n\
             hint: at least one; queue_pairs gives each several flows"
        );
    }

    #[test]
    fn sizes_and_traces_come_from_files_beside_the_scenario() {
        let files = |name: &str| match name {
            "sizes.csv" => Ok("bytes,cumulative\n1000,0.5\n3000,1\n".to_owned()),
            "trace.csv" => Ok("start_us,source,destination,bytes\n7,h2,h0,300\n".to_owned()),
            _ => Err("it is not there".to_owned()),
        };
        let flows = |workload: &str| {
            let head = SMALL.split("kind").next().unwrap();
            let text = format!("{head}{workload}");
            let made = Scenario::parse_with(&text, &files, None).map_err(|error| error.to_string());
            made.map(|scenario| scenario.network.flows)
        };
        let poisson = "kind = \"poisson\"\nload = 0.5\n";
        let sizes = flows(&format!("{poisson}distribution_file = \"sizes.csv\"")).unwrap();
        // Half of three hosts' 5 MB in a millisecond, 1,500 bytes at a time.
        assert!((4_500..5_500).contains(&sizes.len()), "{}", sizes.len());
        assert!(sizes.iter().all(|flow| (1_000..=3_000).contains(&flow.message_bytes)));
        assert!(flows(&format!("{poisson}distribution = \"hadoop\"")).is_ok());
        assert_eq!(
            flows(&format!("{poisson}distribution = \"websearch\"")).unwrap_err(),
            "line 17: workload.distribution: there is no distribution \"websearch\"\n\
             hint: web-search, hadoop, memcached, or distribution_file = \"sizes.csv\""
        );
        let trace = "kind = \"trace\"\ndscp = 4\nstart_us = 2\ntrace_file = ";
        let traced = flows(&format!("{trace}\"trace.csv\"")).unwrap();
        let expected = crate::workload::FlowSpec {
            dscp: 4,
            start: Time::ZERO + Span::from_us(9),
            ..crate::workload::FlowSpec::write(2, 0, 300)
        };
        assert_eq!(traced, [expected]);
        assert_eq!(
            flows(&format!("{trace}\"race.csv\"")).unwrap_err(),
            "line 18: workload.trace_file: cannot read \"race.csv\": it is not there\n\
             hint: the path is relative to the scenario"
        );
    }

    #[test]
    fn captures_name_ports_that_are_there() {
        let with = |table: &str| Scenario::parse(&format!("{SMALL}\n[[capture]]\n{table}\n"), None);
        let scenario = with("node = \"s0\"\nneighbour = \"h1\"\npriorities = [3]").unwrap();
        let capture = scenario.network.captures[0];
        assert_eq!((capture.priorities, capture.snap_bytes), (8, None));
        let wrong = |table: &str| with(table).unwrap_err().to_string();
        assert_eq!(
            wrong("node = \"h0\"\nneighbour = \"h1\""),
            "line 22: capture.neighbour: no link joins h0 and h1\nhint: h0 is linked to s0"
        );
        assert_eq!(
            wrong("node = \"s0\"\npriorities = [8]"),
            "line 22: capture.priorities: 8 is not from 0 to 7\nhint: leave it out for all priorities"
        );
        assert_eq!(
            wrong("node = \"tor\""),
            "line 21: capture.node: there is no host or switch \"tor\"\n\
             hint: names are such as h0 and s0"
        );
        assert_eq!(
            wrong("node = \"s0\"\nsnap_bytes = 64"),
            "line 22: capture.snap_bytes: 64 bytes would cut through headers\n\
             hint: 90 bytes hold all headers; leave it out for whole frames"
        );
    }

    #[test]
    fn every_scenario_of_the_repository_can_be_made() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        let mut seen = 0;
        let mut paths = vec![std::path::PathBuf::from(folder)];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            if path.extension().is_none_or(|end| end != "toml") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let scenario = Scenario::parse_in(&text, path.parent().unwrap(), None);
            let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let network = crate::Network::new(scenario.network).unwrap();
            // Some flows of experiments are made by the experiment.
            let complete = !network.flows().is_empty() || path.parent().unwrap().ends_with("guo16");
            assert!(complete, "{}", path.display());
            seen += 1;
        }
        assert!(seen >= 5);
    }

    #[test]
    fn what_is_no_toml_is_said_where() {
        let message = refused(&SMALL.replace("hosts = 3", "hosts = = 3"));
        assert!(message.starts_with("line 7: "), "{message}");
    }
}
