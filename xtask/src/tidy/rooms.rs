//! The table of rooms in docs/ARCHITECTURE.md against what the crates really depend on.
//!
//! A row is `` | `room` | what is in it | rooms it may depend on | ``; the last cell is a list,
//! `-` for none or `all`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::finding::Finding;
use super::metadata::Metadata;
use super::tree::Tree;

const DOCUMENT: &str = "docs/ARCHITECTURE.md";
const HEADING: &str = "## Rooms";

#[derive(Debug, PartialEq, Eq)]
struct Row {
    line: usize,
    may_use: MayUse,
}

#[derive(Debug, PartialEq, Eq)]
enum MayUse {
    All,
    These(Vec<String>),
}

impl MayUse {
    fn includes(&self, room: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(rooms) => rooms.iter().any(|listed| listed == room),
        }
    }
}

pub(super) fn check(tree: &Tree, metadata: &Metadata) -> Result<Vec<Finding>> {
    let table = parse(tree.text(DOCUMENT)?)?;
    let mut findings = Vec::new();
    for package in metadata.ours() {
        let room = package.room();
        let Some(row) = table.get(room) else {
            let message = format!("the table of rooms has no row for `{room}`");
            findings.push(Finding::new(DOCUMENT, None, message));
            continue;
        };
        for used in package.rooms_used().filter(|used| !row.may_use.includes(used)) {
            let folder = package.folder();
            let message = format!(
                "`{room}` may not depend on `{used}`, but {folder}/Cargo.toml does: \
                 remove it there, or allow it on this line"
            );
            findings.push(Finding::new(DOCUMENT, row.line, message));
        }
    }
    for (room, row) in &table {
        if !metadata.ours().any(|package| package.room() == room) {
            let message = format!("`{room}` has a row, but no crate of the workspace is called so");
            findings.push(Finding::new(DOCUMENT, row.line, message));
        }
    }
    Ok(findings)
}

fn parse(document: &str) -> Result<BTreeMap<String, Row>> {
    let rows = document
        .lines()
        .enumerate()
        .skip_while(|(_, text)| text.trim() != HEADING)
        .skip(1)
        .take_while(|(_, text)| !text.starts_with("## "))
        .filter_map(|(index, text)| row(index + 1, text));
    let table: BTreeMap<String, Row> = rows.collect();
    if table.is_empty() {
        bail!("{DOCUMENT} has no table of rooms under \"{HEADING}\"");
    }
    Ok(table)
}

fn row(line: usize, text: &str) -> Option<(String, Row)> {
    let cells: Vec<&str> = text.trim().trim_matches('|').split('|').map(str::trim).collect();
    let [room, _, may_use] = cells.as_slice() else { return None };
    let room = room.strip_prefix('`')?.strip_suffix('`')?;
    let may_use = match *may_use {
        "all" => MayUse::All,
        "-" => MayUse::These(Vec::new()),
        list => MayUse::These(list.split(',').map(|room| room.trim().into()).collect()),
    };
    Some((room.into(), Row { line, may_use }))
}

#[cfg(test)]
mod tests {
    use super::super::metadata::testing::room;
    use super::*;

    const TABLE: &str = "\
# Map

## Rooms

| room | what is in it | may depend on |
|---|---|---|
| `rdma` | words | - |
| `wire` | bytes | rdma |
| `cli` | the binary | all |
";

    fn findings(packages: Vec<super::super::metadata::Package>) -> Vec<String> {
        let tree = Tree::of(&[(DOCUMENT, TABLE)]);
        let found = check(&tree, &Metadata { packages }).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn crates_that_keep_to_their_row_pass() {
        let packages =
            vec![room("rdma", &[]), room("wire", &["rdma"]), room("cli", &["wire", "rdma"])];
        assert_eq!(findings(packages), [""; 0]);
    }

    #[test]
    fn a_dependency_outside_the_row_names_the_line_to_edit() {
        let packages = vec![room("rdma", &["wire"]), room("wire", &["rdma"]), room("cli", &[])];
        let found = findings(packages);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("docs/ARCHITECTURE.md:7: `rdma` may not depend on `wire`"),
            "{found:?}"
        );
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let found = findings(vec![room("rdma", &[]), room("cli", &[]), room("lab", &[])]);
        assert!(found[0].contains("no row for `lab`"), "{found:?}");
        assert!(found[1].starts_with("docs/ARCHITECTURE.md:8: `wire` has a row"), "{found:?}");
    }

    #[test]
    fn a_document_without_the_table_is_an_error() {
        assert!(parse("# Map\n\n| `rdma` | words | - |\n").is_err());
    }
}
