//! The scenarios that a command names: their texts, what is set beside them, and where their results go.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fabric::check::Check;
use fabric::scenario::{Note, Scenario};

use crate::args::Sim;
use crate::failure::Failure;

/// A scenario that is to run.
#[derive(Debug)]
pub(super) struct Input {
    path: PathBuf,
    text: String,
    /// What `--set` says.
    set: Vec<String>,
    /// The folder of its results.
    pub(super) output: Option<PathBuf>,
}

/// All scenarios of the command, in its order.
pub(super) fn inputs(arguments: &Sim) -> Result<Vec<Input>, Failure> {
    let mut names = BTreeSet::new();
    let several = arguments.scenarios.len() > 1;
    let input = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", path.display())).hint(
                "a scenario is a TOML file, such as those in the folder scenarios of Ferroce's source",
            )
        })?;
        let output = arguments.output.as_ref().map(|folder| match several {
            true => folder.join(own_name(path, &mut names)),
            false => folder.clone(),
        });
        Ok(Input { path: path.clone(), text, set: arguments.set.clone(), output })
    };
    arguments.scenarios.iter().map(input).collect()
}

/// The name of a file, or it with a number if `names` has that already.
fn own_name(path: &Path, names: &mut BTreeSet<String>) -> String {
    let stem =
        path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let mut name = stem.clone();
    let mut number = 1;
    while !names.insert(name.clone()) {
        number += 1;
        name = format!("{stem}-{number}");
    }
    name
}

impl Input {
    /// Reads it; `seed` takes the place of its own. Its title says what was set.
    pub(super) fn read(&self, seed: Option<u64>) -> Result<Scenario, Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut scenario = Scenario::parse_set(&self.text, folder, &self.set, seed)
            .map_err(|error| self.wrong(&error))?;
        if !self.set.is_empty() {
            scenario.title += &format!(", {}", self.set.join(", "));
        }
        Ok(scenario)
    }

    /// Reads it once more, with more set; `None` if it cannot be set so.
    pub(super) fn read_with(&self, seed: Option<u64>, set: &[String]) -> Option<Scenario> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let set = [&self.set[..], set].concat();
        Scenario::parse_set(&self.text, folder, &set, seed).ok()
    }

    /// Says before a run what is likely to be a mistake: what never happens, and that there is more to read.
    pub(super) fn warn(&self, notes: &[Note], check: &Check) {
        let mut more = check.warnings().len();
        for note in notes.iter().filter(|note| note.warning) {
            eprintln!("warning: {}", note.text);
            more -= 1;
        }
        if more > 0 {
            let what = if more == 1 { "1 setting looks" } else { &format!("{more} settings look") };
            let path = self.path.display();
            eprintln!("warning: {what} wrong: see `ferroce sim --check {path}`");
        }
    }

    /// What is wrong with it.
    pub(super) fn wrong(&self, error: &impl core::fmt::Display) -> Failure {
        Failure::from_message(&format!("{}: {error}", self.path.display()))
    }
}
