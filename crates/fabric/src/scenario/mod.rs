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
mod deferred;
mod error;
pub mod experiment;
mod experiment_file;
mod origin;
mod place;
mod reference;
mod set;
pub mod sonic;
mod table;
mod testbed;
mod value;

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use rdma::{Span, Time};
use toml::de::DeTable;

use crate::NetworkConfig;
use crate::extend::Extensions;
use crate::fault::Fault;
use crate::limits::FILE_BYTES_MAX;
use crate::topology::Topology;

pub use build::Testbed;
pub use error::ScenarioError;
pub use experiment_file::reference as experiment_reference;
pub use origin::Origin;
pub use reference::{KeyText, TableText, page};
pub use sonic::Note;
pub use testbed::topology;
pub(crate) use value::variants;

use at::At;
use place::Lines;
use set::Settings;

/// Where the files are that a scenario names. Errors are a few words.
pub(crate) trait Files {
    /// What is in a file, if it is there.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String>;

    /// What is in a folder, by name, if it is there.
    fn names(&self, folder: &str) -> Result<Option<Vec<String>>, String>;
}

/// Files without folders.
#[cfg(test)]
impl<F: Fn(&str) -> Result<Option<Vec<u8>>, String>> Files for F {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        self(name)
    }

    fn names(&self, _: &str) -> Result<Option<Vec<String>>, String> {
        Ok(None)
    }
}

/// Files of a folder.
struct Beside<'a>(&'a Path);

impl Files for Beside<'_> {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        read(&self.0.join(name))
    }

    fn names(&self, folder: &str) -> Result<Option<Vec<String>>, String> {
        let why = |error: std::io::Error| error.to_string();
        let entries = match fs::read_dir(self.0.join(folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err("it is no folder".to_owned());
            }
            entries => entries.map_err(why)?,
        };
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).map_err(why)
        };
        entries.map(name).collect::<Result<_, _>>().map(Some)
    }
}

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
    /// By how much a lab's time is diluted; `None` for what a measurement says.
    pub dilution: Option<f64>,
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
        Self::parse_set(text, folder, &[], seed)
    }

    /// The same, where `set` has keys and values, such as `switch.alpha=1/8`, that take the place of
    /// what the file says.
    ///
    /// # Errors
    /// [`ScenarioError`], with line and key, or with what was set.
    pub fn parse_set(
        text: &str,
        folder: &Path,
        set: &[String],
        seed: Option<u64>,
    ) -> Result<Self, ScenarioError> {
        Self::parse_extended(text, folder, set, seed, Extensions::none())
    }

    /// The same, where the file may name `extensions`.
    ///
    /// # Errors
    /// [`ScenarioError`], with line and key, with what was set, or with what is wrong with the extensions.
    pub fn parse_extended(
        text: &str,
        folder: &Path,
        set: &[String],
        seed: Option<u64>,
        extensions: &Extensions,
    ) -> Result<Self, ScenarioError> {
        with_file(text, set, extensions, |at| build::scenario(at, seed, &Beside(folder)))
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn parse_with(
        text: &str,
        files: &dyn Files,
        seed: Option<u64>,
    ) -> Result<Self, ScenarioError> {
        with_file(text, &[], Extensions::none(), |at| build::scenario(at, seed, files))
    }
}

/// Reads what goes wrong in `topology`, as a `[[fault]]` of a scenario says it: `text` is such a table. Times are from
/// when it is done.
///
/// # Errors
/// [`ScenarioError`], with line and key.
pub fn faults(text: &str, topology: &Topology) -> Result<Vec<Fault>, ScenarioError> {
    with_file(text, &[], Extensions::none(), |at| build::faults(at, topology))
}

/// Every key that may be written, table by table.
pub fn reference() -> Vec<TableText> {
    build::reference(Extensions::none()).unwrap_or_default()
}

/// The same, with what may be written of `extensions`.
///
/// # Errors
/// What is wrong with them.
pub fn reference_extended(extensions: &Extensions) -> Result<Vec<TableText>, ScenarioError> {
    build::reference(extensions)
}

/// Has `read` see a file, and what is set beside it.
fn with_file<T>(
    text: &str,
    set: &[String],
    extensions: &Extensions,
    read: impl FnOnce(&At<'_>) -> Result<T, ScenarioError>,
) -> Result<T, ScenarioError> {
    let mut lines = Lines::of(text);
    let mut written =
        DeTable::parse(text).map_err(|error| ScenarioError::no_toml(&lines, text, &error))?;
    let settings = Settings::of(set, text.len(), &mut lines)?;
    settings.merge(written.get_mut(), &lines)?;
    read(&At::file(&lines, written.get_ref(), extensions))
}

/// What is in a file, which is one, and not too long.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let why = |error: std::io::Error| error.to_string();
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(why)?,
    };
    // A pipe or a device may never end, and not even open.
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    let file = File::open(path).map_err(why)?;
    let mut bytes = Vec::new();
    let length = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(why)?;
    if length as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {} MiB", FILE_BYTES_MAX >> 20));
    }
    Ok(Some(bytes))
}

/// What is in a file, as text.
fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "stream did not contain valid UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Rate;
    use transport::congestion::{Congestion, Dcqcn, Share};

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
    fn a_chip_is_what_keys_beside_it_do_not_say_and_one_switch_may_have_another() {
        let of = |switch: &str| {
            let text = SMALL.replace(r#"alpha = "1/16""#, switch);
            let network = Scenario::parse(&text, None).unwrap().network;
            let own = network.switch_of(0).clone();
            (own.buffer_bytes, own.cell.bytes(), own.latency.as_ps() / 1_000)
        };
        assert_eq!(of(""), (12_000_000, 1, 0));
        assert_eq!(of(r#"model = "spectrum2""#), (42_000_000, 144, 300));
        let beside = "buffer_bytes = 9_000_000\ncell_bytes = 1\nlatency_ns = 0";
        assert_eq!(of(&format!("model = \"spectrum2\"\n{beside}")), (9_000_000, 1, 0));
        let one = "latency_ns = 500\n[switches.s0]\nmodel = \"tomahawk5\"";
        assert_eq!(of(one), (173_268_640, 254, 500));
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
            "sizes.csv" => Ok(Some("bytes,cumulative\n1000,0.5\n3000,1\n".into())),
            "trace.csv" => Ok(Some("start_us,source,destination,bytes\n7,h2,h0,300\n".into())),
            _ => Ok(None),
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
    fn dcqcn_is_what_preset_folder_and_keys_say_in_that_order() {
        let files = crate::testing::Content(
            b"folder\n\
              ecn/roce_rp/rpg_hai_rate 77\n\
              ecn/roce_rp/enable/3 0\n\
              ecn/roce_np/min_time_between_cnps 9\n\
              bad/rpg_gd much",
        );
        let read = |table: &str| {
            let text = format!("{SMALL}\n[nic]\ncongestion = \"dcqcn\"\n[nic.dcqcn]\n{table}\n");
            Scenario::parse_with(&text, &files, None)
        };
        let notes = read("folder = \"ecn\"").unwrap().notes;
        assert!(notes.iter().any(|note| {
            note.warning && note.text.starts_with("nic.dcqcn.folder ecn: roce_rp/enable/3 is 0")
        }));
        let nic = |table: &str| read(table).unwrap().network.nic;
        let said = nic("rpg_ai_rate = 6\nfolder = \"ecn\"\npreset = \"connectx\"");
        let reaction = Dcqcn {
            additive_increase: Share::Fixed(Rate::from_mbps(6)),
            hyper_increase: Share::Fixed(Rate::from_mbps(77)),
            ..Dcqcn::connectx()
        };
        assert_eq!(said.congestion, Congestion::Dcqcn(reaction));
        assert_eq!(said.notification.unwrap().interval, Span::from_us(9));
        assert_eq!(nic("").congestion, Congestion::Dcqcn(Dcqcn::scaled()));
        assert_eq!(
            read("folder = \"bad\"").unwrap_err().to_string(),
            "line 23: nic.dcqcn.folder: bad/rpg_gd: \"much\" is no such number\n\
             hint: it holds a whole number from 10 to 20"
        );
    }

    #[test]
    fn marks_are_in_proportion_to_the_rate_of_each_port_unless_they_are_said() {
        let marks = |ecn: &str| {
            let text = "end_ms = 1\n[topology]\nshape = \"leaf-spine\"\nleaves = 2\nspines = 1\n\
                        hosts = 1\nrate_gbps = 50\nuplink_rate_gbps = 200\ncable_m = 1\n\
                        uplink_cable_m = 1\n";
            let text = format!("{text}[switch]\necn = {{ {ecn} }}\n");
            let network = Scenario::parse(&text, None).unwrap().network;
            let leaf = (0..2).map(|local| network.switch_of(0).queues_of(local)[3].ecn.unwrap());
            leaf.map(|ecn| (ecn.min_bytes, ecn.max_bytes)).collect::<Vec<_>>()
        };
        assert_eq!(marks(""), [(200_000, 800_000), (800_000, 3_200_000)]);
        assert_eq!(marks("min_bytes = 5, max_bytes = 10"), [(5, 10); 2]);
        assert_eq!(marks("min_bytes = 5, max_bytes = 10, at_gbps = 100"), [(2, 5), (10, 20)]);
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
            if text.contains("[[program]]") {
                let made = experiment::Experiment::parse_in(&text, path.parent().unwrap(), None);
                made.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                continue;
            }
            let scenario = Scenario::parse_in(&text, path.parent().unwrap(), None);
            let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let network = crate::Network::new(scenario.network).unwrap();
            // Some flows of experiments are made by the experiment, or are programs, or probes.
            let by_others = ["guo16", "lab", "pingmesh"]
                .iter()
                .any(|folder| path.parent().unwrap().ends_with(folder));
            let complete = !network.flows().is_empty() || by_others;
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
