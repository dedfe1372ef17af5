//! Every program that a row runs is installed by `scripts/setup`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::matrix::Kind;
use crate::workspace;

const SETUP: &str = "scripts/setup";

/// The programs of others that the rows run.
fn programs() -> BTreeSet<&'static str> {
    let mut programs = BTreeSet::new();
    for row in super::rows().iter().filter(|row| row.example().is_none()) {
        programs.insert(row.words[0]);
        if let Kind::Cm { client: [program, ..], .. } = row.kind {
            programs.insert(program);
        }
    }
    programs
}

/// The package that a file is of.
fn package(file: &Path) -> Option<String> {
    let said = workspace::output(Command::new("dpkg-query").arg("--search").arg(file)).ok()?;
    Some(said.split([':', ',']).next()?.to_owned())
}

#[test]
fn each_program_of_a_row_is_installed_by_the_setup() {
    if workspace::installed("dpkg-query").is_none() {
        eprintln!("not checked: {SETUP} sets up Debian and Ubuntu alone");
        return;
    }
    let setup = fs::read_to_string(workspace::root().join(SETUP)).unwrap();
    let list = |name| setup.split_once(name).and_then(|(_, rest)| rest.split_once(')')).unwrap().0;
    // What `make test` installs: its own list, and that of `make demo`.
    let lists = ["packages_demo=(", "packages_test=("].map(list);
    let installed: BTreeSet<&str> =
        lists.into_iter().flat_map(|list| list.split_whitespace()).collect();
    let programs = programs();
    assert!(programs.contains("ib_write_bw") && programs.contains("rdma_client"), "{programs:?}");
    for program in programs {
        // The interpreter that rows run comes with python3-pyverbs; others may be on the path.
        let path = if program == "python3" { "/usr/bin/python3" } else { program };
        let file = workspace::installed(path)
            .and_then(|file| fs::canonicalize(file).ok())
            .unwrap_or_else(|| panic!("{program}: not found; run {SETUP} test"));
        let Some(package) = package(&file) else {
            panic!(
                "{program}: {} is of no package, and {SETUP} does not install it",
                file.display()
            );
        };
        // Dependencies of a listed package come with it.
        let comes_with = package.starts_with("python3");
        assert!(
            comes_with || installed.contains(package.as_str()),
            "{program}: {SETUP} does not install {package}"
        );
    }
}
