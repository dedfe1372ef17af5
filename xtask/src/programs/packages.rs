//! A program that a row runs is installed by `scripts/setup`, and not by chance.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::matrix::{self, Kind};
use crate::workspace;

const SETUP: &str = "scripts/setup";

/// The programs of others that the rows run.
fn programs() -> BTreeSet<&'static str> {
    let mut programs = BTreeSet::new();
    for row in matrix::rows().iter().filter(|row| row.example().is_none()) {
        programs.insert(row.words[0]);
        if let Kind::Cm { client: [program, ..], .. } = row.kind {
            programs.insert(program);
        }
    }
    programs
}

fn found(program: &str) -> Option<PathBuf> {
    // The one that rows run comes with python3-pyverbs; others may be on the path.
    let path = if program == "python3" { "/usr/bin".into() } else { env::var_os("PATH")? };
    let candidates = env::split_paths(&path).map(|folder| folder.join(program));
    candidates.filter_map(|candidate| fs::canonicalize(candidate).ok()).next()
}

/// The package that a file is of.
fn package(file: &Path) -> Option<String> {
    let said = workspace::output(Command::new("dpkg-query").arg("--search").arg(file)).ok()?;
    Some(said.split([':', ',']).next()?.to_owned())
}

#[test]
fn each_program_of_a_row_is_installed_by_the_setup() {
    if found("dpkg-query").is_none() {
        eprintln!("not checked: {SETUP} sets up Debian and Ubuntu alone");
        return;
    }
    let setup = fs::read_to_string(workspace::root().join(SETUP)).unwrap();
    let installed: BTreeSet<&str> = setup
        .split_inclusive(['\n', ' ', '(', ')'])
        .map(|word| word.trim_end_matches(['\n', ' ', '(', ')']))
        .collect();
    let programs = programs();
    assert!(programs.contains("ib_write_bw") && programs.contains("rdma_client"), "{programs:?}");
    for program in programs {
        let file =
            found(program).unwrap_or_else(|| panic!("{program}: not found; run {SETUP} test"));
        let Some(package) = package(&file) else {
            panic!(
                "{program}: {} is of no package, and {SETUP} does not install it",
                file.display()
            );
        };
        // What is needed by one that is named comes with it.
        let comes_with = package.starts_with("python3");
        assert!(
            comes_with || installed.contains(package.as_str()),
            "{program}: {SETUP} does not install {package}"
        );
    }
}
