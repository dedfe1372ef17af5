//! `cargo xtask tidy`: the rules of the house that the compiler does not check.
//!
//! | rule | where it is written |
//! |---|---|
//! | a crate depends on the rooms that its row names, and on no other | the table in docs/ARCHITECTURE.md |
//! | the sans-IO rooms are `no_std` and forbid unsafe code; unsafe lives in two crates | [`code`] |
//! | no source file outgrows a reader | [`code`] |
//! | modules of a crate do not go round in circles, but for those that are listed | [`circles`] |
//! | every dependency, and every program of others in `vendor/`, has a permissive licence | `deny.toml` |
//! | links between our documents resolve | [`links`] |
//! | every fuzz target has a corpus, and a test replays it | [`fuzz`] |
//!
//! A finding names the file, and the line where there is one. It runs in `cargo test` as well.

mod circles;
mod code;
mod finding;
mod fuzz;
mod licences;
mod links;
mod metadata;
mod rooms;
mod tree;

use anyhow::{Result, bail};
use pico_args::Arguments;

use crate::workspace;
use circles::Question;
use finding::Finding;
use metadata::Metadata;
use tree::Tree;

/// What to do besides checking.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    circles: Option<Question>,
}

impl Choice {
    /// `--circles`, with `--arrows CRATE` or without; or `--shrink`.
    pub(crate) fn parse(arguments: &mut Arguments) -> Result<Self> {
        let asks = arguments.contains("--circles");
        if arguments.contains("--shrink") {
            return Ok(Self { circles: Some(Question::Shrink) });
        }
        if !asks {
            return Ok(Self { circles: None });
        }
        let question = match arguments.opt_value_from_str("--arrows")? {
            Some(room) => Question::Arrows(room),
            None => Question::All,
        };
        Ok(Self { circles: Some(question) })
    }
}

/// Prints every finding and fails if there is one; or answers a question.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    let tree = Tree::read(workspace::root())?;
    if let Some(question) = &choice.circles {
        return circles::answer(question, &tree, &Metadata::read()?);
    }
    for note in code::long_files(&tree) {
        eprintln!("note: {note}");
    }
    let findings = check(&tree, &Metadata::read()?)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy: 1 finding"),
        count => bail!("tidy: {count} findings"),
    }
}

fn check(tree: &Tree, metadata: &Metadata) -> Result<Vec<Finding>> {
    let mut findings = rooms::check(tree, metadata)?;
    findings.extend(code::check(tree, metadata));
    findings.extend(circles::check(tree, metadata)?);
    findings.extend(licences::check(tree, metadata)?);
    findings.extend(links::check(tree));
    findings.extend(fuzz::check(tree));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let tree = Tree::read(workspace::root()).unwrap();
        let findings = check(&tree, &Metadata::read().unwrap()).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }
}
