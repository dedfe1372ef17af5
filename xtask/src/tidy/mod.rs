//! `cargo xtask tidy`: the rules of the house that the compiler does not check.
//!
//! | rule | where it is written |
//! |---|---|
//! | a crate depends on the rooms that its row names, and on no other | the table in docs/ARCHITECTURE.md |
//! | the sans-IO rooms are `no_std` and forbid unsafe code; unsafe lives in two crates | [`code`] |
//! | no source file outgrows a reader | [`code`] |
//! | every dependency, and every program of others in `vendor/`, has a permissive licence | `deny.toml` |
//! | links between our documents resolve | [`links`] |
//! | every fuzz target has a corpus, and a test replays it | [`fuzz`] |
//!
//! A finding names the file, and the line where there is one. It runs in `cargo test` as well.

mod code;
mod fuzz;
mod licences;
mod links;
mod metadata;
mod rooms;
mod tree;

use core::fmt;

use anyhow::{Result, bail};

use crate::workspace;
use metadata::Metadata;
use tree::Tree;

/// One thing that is not as the house wants it.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: impl Into<Option<usize>>, message: String) -> Self {
        Self { path: path.into(), line: line.into(), message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// Prints every finding and fails if there is one.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read(workspace::root())?;
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
