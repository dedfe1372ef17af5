//! The files of an experiment: itself, and the scenario that it may name, as one text.

use std::path::Path;

use toml::de::DeTable;

use super::at::At;
use super::build;
use super::experiment::{Experiment, Row};
use super::place::Lines;
use super::{Beside, Files, ScenarioError, TableText, text_of};
use crate::BuildError;
use crate::extend::Extensions;

impl Experiment {
    /// Reads an experiment in `folder`; files that it names are beside it.
    ///
    /// # Errors
    /// What is wrong in which file, with line and key.
    pub fn parse_in(text: &str, folder: &Path, seed: Option<u64>) -> Result<Self, String> {
        Self::parse_with(text, &Beside(folder), seed)
    }

    fn parse_with(text: &str, files: &dyn Files, seed: Option<u64>) -> Result<Self, String> {
        let lines = Lines::of(text);
        let written = DeTable::parse(text)
            .map_err(|error| ScenarioError::no_toml(&lines, text, &error).to_string())?;
        let whole = At::file(&lines, written.get_ref(), Extensions::none());
        let named = written.get_ref().get("scenario").and_then(|it| it.get_ref().as_str());
        let Some(name) = named.map(str::to_owned) else {
            let base = DeTable::new();
            return build::experiment(&whole, &base, seed, files)
                .map_err(|error| error.to_string());
        };
        let bytes =
            files.read(&name).and_then(|bytes| bytes.ok_or_else(|| "it is not there".to_owned()));
        let scenario = bytes.and_then(text_of).map_err(|error| {
            let wrong = whole.wrong("scenario", format!("cannot read {name:?}: {error}"));
            wrong.hint("the path is relative to the experiment").to_string()
        })?;
        // Behind the experiment, of which blanks and line ends are left.
        let blank = |byte: u8| if byte == b'\n' { '\n' } else { ' ' };
        let mut behind: String = text.bytes().map(blank).collect();
        behind.push('\n');
        let first_line = Lines::of(&behind).line(behind.len()).number() - 1;
        behind += &scenario;
        let lines = Lines::of(&format!("{text}\n{scenario}"));
        let behind_it = (first_line, name);
        let in_file = |error: ScenarioError| in_file(&error, Some(&behind_it));
        let base = DeTable::parse(&behind)
            .map_err(|error| in_file(ScenarioError::no_toml(&lines, &behind, &error)))?;
        let whole = At::file(&lines, written.get_ref(), Extensions::none());
        let made = build::experiment(&whole, base.get_ref(), seed, files).map_err(in_file)?;
        Ok(Self { behind: Some(behind_it), ..made })
    }

    /// Says of an error of [`crate::Network::new`] where the experiment is to be changed.
    pub fn explain(&self, row: &Row, error: &BuildError) -> String {
        in_file(&row.scenario.origin.explain(error), self.behind.as_ref())
    }
}

/// An error of two files, of which the second begins behind a line.
fn in_file(error: &ScenarioError, behind: Option<&(usize, String)>) -> String {
    let second = behind.and_then(|(lines, name)| Some((name, error.behind(*lines)?)));
    second.map_or_else(|| error.to_string(), |(name, error)| format!("{name}: {error}"))
}

/// Every key that may be written, table by table, besides those of scenarios.
pub fn reference() -> Vec<TableText> {
    build::experiment_reference()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::experiment::{Bound, End, What};
    use super::*;
    use crate::fault::FaultKind;

    const NETWORK: &str = "end_ms = 1\n[topology]\nshape = \"single-switch\"\nhosts = 3\n\
                           rate_gbps = 1\ncable_m = 2\n[switch]\nalpha = \"1/8\"\n";

    const EXPERIMENT: &str = r#"title = "two"
scenario = "net.toml"
set = { seconds = "3" }

[[row]]
name = "plain"

[[row]]
name = "other"
set = { seconds = "1" }
scenario.switch = { alpha = "1/16" }

[[program]]
each = ["1", "2"]
name = "client{each}"
host = "h{each}"
command = "ib_write_bw -p {port:{each}} -D {seconds} 'in one' a{2}"
numbers = [{ name = "gbps", pattern = '^x{2} (\d+)' }]

[[program]]
name = "last"
rows = ["other"]
command = "true"
after = ["client1"]
at_ms = 5
ends = "stays"

[[event]]
after = ["client1"]
fault = { kind = "nic-stuck", host = "h0", at_us = 7 }

[[event]]
name = "gone"
signal = "KILL"
program = "client2"

[[expect]]
measure = "sum client*.gbps"
rows = ["other"]
from = "gone"
than_row = "plain"
within_percent = 15
"#;

    fn parse(text: &str) -> Result<Experiment, String> {
        let files = |name: &str| match name {
            "net.toml" => Ok(Some(NETWORK.into())),
            _ => Ok(None),
        };
        Experiment::parse_with(text, &files, None)
    }

    #[test]
    fn rows_say_what_they_say_over_the_scenario_and_the_names() {
        let made = parse(EXPERIMENT).unwrap();
        let [plain, other] = &made.rows[..] else { panic!("two rows") };
        let names = |row: &Row| row.programs.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(plain), ["client1", "client2"]);
        assert_eq!(names(other), ["client1", "client2", "last"]);
        let words = |row: &Row| row.programs[1].words.join("|");
        assert_eq!(words(plain), "ib_write_bw|-p|{port:2}|-D|3|in one|a{2}");
        assert_eq!(words(other), "ib_write_bw|-p|{port:2}|-D|1|in one|a{2}");
        let last = &other.programs[2];
        assert_eq!((&last.start.ready[..], last.end), (&["client1".to_owned()][..], End::Stays));
        assert_eq!(last.start.delay, Duration::from_millis(5));
        let alpha = |row: &Row| row.scenario.network.switch.groups[3].threshold;
        assert_ne!(alpha(plain), alpha(other));
        let What::Faults(faults) = &plain.events[0].what else { panic!("a fault") };
        assert_eq!(faults[0].kind, FaultKind::NicStuck { host: 0 });
        assert_eq!(plain.events[0].name, "nic-stuck");
        let [expected] = &made.expectations[..] else { panic!("one") };
        assert_eq!(expected.rows, ["other"]);
        let row = "plain".to_owned();
        assert_eq!(expected.bound, Bound::Times { row, any_draw: false, least: 0.85, most: 1.15 });
    }

    #[test]
    fn what_is_wrong_is_said_in_its_file_with_line_key_and_remedy() {
        let wrong = |old: &str, new: &str| parse(&EXPERIMENT.replace(old, new)).unwrap_err();
        for (old, new, told) in [
            (
                "seconds = \"3\"",
                "second = \"3\"",
                "line 17: program.command: nothing is called {seconds}\nhint: there are each, second, port, address, run, folder, here",
            ),
            ("\"1/16\"", "\"1/15\"", "line 11: switch.alpha: \"1/15\" is no power of two"),
            (
                "h{each}",
                "x{each}",
                "line 16: program.host: there is no host \"x1\"\nhint: hosts are h0 to h2",
            ),
            (
                "rows = [\"other\"]\ncommand",
                "rows = [\"others\"]\ncommand",
                "line 22: program.rows: there is no row \"others\"\nhint: rows are plain, other",
            ),
            (
                "program = \"client2\"",
                "program = \"clien\"",
                "line 35: event.program: there is no program \"clien\"",
            ),
            ("than_row = \"plain\"\n", "", "than_row is missing"),
            ("from = \"gone\"", "from = \"go\"", "line 40: expect.from: there is no event \"go\""),
            ("ends = \"stays\"", "ends = \"stay\"", "did you mean \"stays\"?"),
            ("'in one'", "'in one", "the quote ' is not closed"),
            (
                "net.toml",
                "nets.toml",
                "line 2: scenario: cannot read \"nets.toml\": it is not there",
            ),
            (
                "[[expect]]",
                "[[expects]]",
                "line 37: unknown key `expects`\nhint: did you mean `expect`?",
            ),
        ] {
            let error = wrong(old, new);
            assert!(error.contains(told), "{error}\n  is not\n{told}");
        }
        // In the scenario's own file its own lines count.
        let files = |_: &str| Ok(Some(NETWORK.replace("hosts = 3", "host = 3").into_bytes()));
        let error = Experiment::parse_with(EXPERIMENT, &files, None).unwrap_err();
        assert_eq!(
            error,
            "net.toml: line 4: topology.host: shape \"single-switch\" does not have it\n\
             hint: its keys are hosts, rate_gbps, cable_m"
        );
        let files = |_: &str| Ok(Some(b"a = = 1".to_vec()));
        let error = Experiment::parse_with(EXPERIMENT, &files, None).unwrap_err();
        assert!(error.starts_with("net.toml: line 1: "), "{error}");
    }

    #[test]
    fn a_scenario_may_stand_in_the_experiment() {
        let network = NETWORK
            .replace("[topology]", "[scenario.topology]")
            .replace("[switch]", "[scenario.switch]");
        let network = network.replace("end_ms = 1", "[scenario]\nend_ms = 1");
        let text = EXPERIMENT.replace("scenario = \"net.toml\"\n", "") + &network;
        let made = parse(&text).unwrap();
        assert_eq!(made.rows.len(), 2);
        let error = parse(&text.replace("hosts = 3", "host = 3")).unwrap_err();
        assert!(error.starts_with("line 46: topology.host: "), "{error}");
    }
}
