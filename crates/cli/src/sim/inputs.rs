//! The scenarios that a command names: their texts, what is set beside them, and where their results go.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use fabric::check::Check;
use fabric::extend::Extensions;
use fabric::scenario::{Note, Scenario, sonic};

use crate::args::Sim;
use crate::failure::{Failure, Status};
use crate::output::{cannot_write, print, tell};

/// A scenario that is to run.
#[derive(Debug)]
pub(super) struct Input<'e> {
    path: PathBuf,
    text: String,
    /// Whether the file is a switch's, and `text` a scenario around it.
    switch: bool,
    /// What `--set` says.
    set: Vec<String>,
    /// What it may name beside what is ours.
    extensions: &'e Extensions,
    /// The folder of its results.
    pub(super) output: Option<PathBuf>,
}

/// All scenarios of the command, in its order.
pub(super) fn inputs<'e>(
    arguments: &Sim,
    extensions: &'e Extensions,
) -> Result<Vec<Input<'e>>, Failure> {
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
        // Some editors begin a file so.
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        let is_json = path.extension().is_some_and(|of| of.eq_ignore_ascii_case("json"));
        let switch = is_json || text.trim_start().starts_with('{');
        let text = if switch { around(path, &text)? } else { text };
        let set = arguments.set.clone();
        Ok(Input { path: path.clone(), text, switch, set, extensions, output })
    };
    arguments.scenarios.iter().map(input).collect()
}

/// A scenario around the `config_db.json` of a switch.
fn around(path: &Path, text: &str) -> Result<String, Failure> {
    let name =
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    sonic::around(text, &name)
        .map_err(|error| Failure::from_message(&format!("{}: {error}", path.display())))
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

impl Input<'_> {
    /// Reads it; `seed` takes the place of its own. Its title says what was set.
    pub(super) fn read(&self, seed: Option<u64>) -> Result<Scenario, Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let (text, set) = (&self.text, &self.set);
        let mut scenario = Scenario::parse_extended(text, folder, set, seed, self.extensions)
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
        Scenario::parse_extended(&self.text, folder, &set, seed, self.extensions).ok()
    }

    /// Says that the file is a switch's, if it is.
    pub(super) fn say_if_switch(&self) {
        if self.switch {
            let path = self.path.display();
            tell(&format!(
                "note: {path} is the configuration of a switch: this is a scenario with a host at each port, \
                 which `ferroce sim --init {path}` writes"
            ));
        }
    }

    /// Writes the scenario around a switch beside its file.
    pub(super) fn init(&self) -> Result<(), Failure> {
        let path = self.path.with_extension("toml");
        if !self.switch {
            return Err(Failure::new(format!("{} is no config_db.json", self.path.display()))
                .hint("--init takes what `show runningconfiguration all` says on a SONiC switch"));
        }
        let file = File::create_new(&path);
        let written = file.and_then(|mut file| file.write_all(self.text.as_bytes()));
        written.map_err(|error| {
            let failure = cannot_write(&path, &error);
            match error.kind() {
                ErrorKind::AlreadyExists => {
                    failure.hint("remove it, or give the JSON file another name")
                }
                _ => failure,
            }
        })?;
        let path = path.display();
        print(&format!("written {path}: see `ferroce sim --check {path}`, and change its flows\n"))
    }

    /// Refuses what looks wrong.
    pub(super) fn strictly(&self, check: &Check) -> Result<(), Failure> {
        let warnings = check.warnings();
        let Some(first) = warnings.first() else { return Ok(()) };
        let what = match warnings.len() {
            1 => "1 warning".to_owned(),
            count => format!("{count} warnings"),
        };
        Err(Failure::new(format!("{}: {what}, and --strict: {first}", self.path.display()))
            .status(Status::Missed)
            .hint(format!("`ferroce sim --check {}` says all", self.path.display())))
    }

    /// Says before a run what is likely to be a mistake: what never happens, and that there is more to read.
    pub(super) fn warn(&self, notes: &[Note], check: &Check) {
        let mut more = check.warnings().len();
        for note in notes.iter().filter(|note| note.warning) {
            tell(&format!("warning: {}", note.text));
            more -= 1;
        }
        if more > 0 {
            let what = if more == 1 { "1 setting looks" } else { &format!("{more} settings look") };
            let path = self.path.display();
            tell(&format!("warning: {what} wrong: see `ferroce sim --check {path}`"));
        }
    }

    /// What is wrong with it.
    pub(super) fn wrong(&self, error: &impl core::fmt::Display) -> Failure {
        Failure::from_message(&format!("{}: {error}", self.path.display()))
    }
}
