//! Rules over source files: size, `no_std`, where unsafe code may stand, and examples in their docs.

use super::finding::Finding;
use super::metadata::Metadata;
use super::tree::Tree;

/// A file that passes this is two rooms; tidy mentions it.
const LINES_NOTED: usize = 800;
/// A file that passes this is refused.
const LINES_REFUSED: usize = 1000;

/// Rooms where a socket, a clock or a raw pointer must not compile.
const SANS_IO: [&str; 3] = ["rdma", "wire", "transport"];
/// Rooms that meet the system and C, and are allowed unsafe code for it.
const MEETS_C: [&str; 4] = ["softnic", "ibverbs", "abi", "verbs"];

pub(super) fn check(tree: &Tree, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, lines) in sizes(tree).filter(|&(_, lines)| lines > LINES_REFUSED) {
        let message = format!("{lines} lines; the most is {LINES_REFUSED}: make it two files");
        findings.push(Finding::new(path, None, message));
    }
    findings.extend(examples_not_compiled(tree));
    for package in metadata.ours() {
        let (room, folder) = (package.room(), package.folder());
        findings.extend(shares_lints(tree, &folder));
        if SANS_IO.contains(&room) {
            findings.extend(is_sans_io(tree, &folder));
        }
        if !MEETS_C.contains(&room) {
            findings.extend(lifts_the_ban_on_unsafe(tree, &folder));
        }
    }
    findings
}

/// Files that are on their way to being too long.
pub(super) fn long_files(tree: &Tree) -> Vec<Finding> {
    sizes(tree)
        .filter(|&(_, lines)| lines > LINES_NOTED && lines <= LINES_REFUSED)
        .map(|(path, lines)| Finding::new(path, None, format!("{lines} lines")))
        .collect()
}

fn sizes(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    ["rs", "c", "h", "sh"]
        .into_iter()
        .flat_map(|extension| tree.with_extension(extension))
        .map(|(path, text)| (path, text.lines().count()))
}

/// `cargo test` compiles every example in the docs of a library, but for those marked otherwise.
fn examples_not_compiled(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("rs") {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let fence = doc.and_then(|doc| doc.trim_start().strip_prefix("```"));
            let mut words = fence.unwrap_or_default().split([',', ' ']);
            if words.any(|word| word == "ignore" || word.starts_with("ignore-")) {
                let message = "an example that is not compiled: drop `ignore`, or say `text`";
                findings.push(Finding::new(path, index + 1, message.to_owned()));
            }
        }
    }
    findings
}

/// The workspace's lints hold only in crates that ask for them.
fn shares_lints(tree: &Tree, folder: &str) -> Option<Finding> {
    let manifest = format!("{folder}/Cargo.toml");
    let shared = tree.text(&manifest).is_ok_and(|text| text.contains("[lints]\nworkspace = true"));
    (!shared)
        .then(|| Finding::new(manifest, None, "lacks `[lints]` with `workspace = true`".to_owned()))
}

fn is_sans_io(tree: &Tree, folder: &str) -> Vec<Finding> {
    let path = format!("{folder}/src/lib.rs");
    let text = tree.text(&path).unwrap_or_default();
    ["#![no_std]", "#![forbid(unsafe_code)]"]
        .into_iter()
        .filter(|attribute| !text.lines().any(|line| line == *attribute))
        .map(|attribute| Finding::new(path.clone(), None, format!("lacks `{attribute}`")))
        .collect()
}

/// The workspace denies unsafe code; only an attribute can lift that.
fn lifts_the_ban_on_unsafe(tree: &Tree, folder: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.below(folder).filter(|(path, _)| path.ends_with(".rs")) {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let attribute = line.starts_with("#[") || line.starts_with("#![");
            if attribute && line.contains("unsafe_code") && !line.contains("forbid") {
                let rooms = MEETS_C.join(", ");
                let message = format!("unsafe code is for {rooms} alone");
                findings.push(Finding::new(path, index + 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::metadata::testing::room;
    use super::*;

    const MANIFEST: &str = "[package]\n\n[lints]\nworkspace = true\n";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let packages = vec![room("wire", &[]), room("softnic", &[])];
        let mut all = vec![
            ("crates/wire/Cargo.toml", MANIFEST),
            ("crates/wire/src/lib.rs", "#![no_std]\n#![forbid(unsafe_code)]\n"),
            ("crates/softnic/Cargo.toml", MANIFEST),
        ];
        all.extend_from_slice(files);
        let found = check(&Tree::of(&all), &Metadata { packages });
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unsafe_code_passes_where_the_system_begins() {
        let attribute = "#![allow(unsafe_code, reason = \"sockets\")]\n";
        assert_eq!(findings(&[("crates/softnic/src/lib.rs", attribute)]), [""; 0]);
    }

    #[test]
    fn unsafe_code_is_found_elsewhere() {
        let attribute = "//! Bytes.\n#![allow(unsafe_code, reason = \"speed\")]\n";
        assert_eq!(
            findings(&[("crates/wire/src/bth.rs", attribute)]),
            ["crates/wire/src/bth.rs:2: unsafe code is for softnic, ibverbs, abi, verbs alone"]
        );
    }

    #[test]
    fn an_example_that_is_not_compiled_is_found() {
        let docs = "/// ```text\n/// a picture\n/// ```\n/// ```\n/// f();\n/// ```\nfn f() {}\n";
        assert_eq!(findings(&[("crates/softnic/src/a.rs", docs)]), [""; 0]);
        let ignored = docs.replace("/// ```\n/// f", "/// ```rust,ignore\n/// f");
        assert_eq!(
            findings(&[("crates/softnic/src/a.rs", &ignored)]),
            [
                "crates/softnic/src/a.rs:4: an example that is not compiled: drop `ignore`, or say `text`"
            ]
        );
    }

    #[test]
    fn a_room_that_could_reach_std_is_found() {
        assert_eq!(
            findings(&[("crates/wire/src/lib.rs", "#![forbid(unsafe_code)]\n")]),
            ["crates/wire/src/lib.rs: lacks `#![no_std]`"]
        );
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        assert_eq!(
            findings(&[("crates/softnic/Cargo.toml", "[package]\n")]),
            ["crates/softnic/Cargo.toml: lacks `[lints]` with `workspace = true`"]
        );
    }

    #[test]
    fn a_long_file_is_noted_and_a_longer_one_refused() {
        let (long, longer) = ("\n".repeat(LINES_NOTED + 1), "\n".repeat(LINES_REFUSED + 1));
        let tree = Tree::of(&[("a.rs", &long), ("b.rs", &longer)]);
        let noted: Vec<String> = long_files(&tree).into_iter().map(|note| note.path).collect();
        assert_eq!(noted, ["a.rs"]);
        assert_eq!(
            findings(&[("b.rs", &longer)]),
            ["b.rs: 1001 lines; the most is 1000: make it two files"]
        );
    }
}
