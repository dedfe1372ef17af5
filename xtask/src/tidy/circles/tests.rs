//! Made-up crates, with circles and without.

use super::super::metadata::testing::room;
use super::*;

const NO_LIST: (&str, &str) = (ALLOWED, "");

/// What is found in a crate `wire` of these files, named as below `crates/wire/src`.
fn findings(list: &str, files: &[(&str, &str)]) -> Vec<String> {
    let tree = tree(list, files);
    let found = check(&tree, &Metadata { packages: vec![room("wire", &[])] }).unwrap();
    found.iter().map(ToString::to_string).collect()
}

fn tree(list: &str, files: &[(&str, &str)]) -> Tree {
    let paths: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("crates/wire/src/{path}"), *text)).collect();
    let mut all: Vec<(&str, &str)> = vec![NO_LIST, (ALLOWED, list)];
    all.extend(paths.iter().map(|(path, text)| (path.as_str(), *text)));
    Tree::of(&all)
}

/// The arrows among the files of that crate, as `from -> to`.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let modules = Modules::read(&tree("", files), "crates/wire/src/lib.rs").unwrap();
    let short = |path: &str| within("crates/wire/src", path).to_owned();
    let mut arrows: Vec<String> = arrows::of(modules)
        .iter()
        .map(|arrow| format!("{} -> {}", short(&arrow.from), short(&arrow.to)))
        .collect();
    arrows.sort();
    arrows.dedup();
    arrows
}

#[test]
fn a_circle_is_found_and_drawn_with_its_lines() {
    let found = findings(
        "",
        &[
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "use crate::b::B;\n\npub struct A(B);\n"),
            ("b.rs", "pub struct B;\n\nfn f() {\n    super::a::g();\n}\n"),
        ],
    );
    assert_eq!(found.len(), 2, "files and folders: {found:?}");
    assert!(found[0].starts_with("crates/wire/src: `wire`: circles among files grow"), "{found:?}");
    assert!(found[0].contains("a.rs -> b.rs   crates/wire/src/a.rs:1 crate::b::B"), "{found:?}");
    assert!(found[0].contains("b.rs -> a.rs   crates/wire/src/b.rs:4 super::a::g"), "{found:?}");
}

#[test]
fn a_reexport_does_not_hide_an_arrow() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub(crate) use b::*;\n"),
        ("a.rs", "use crate::B;\npub struct A;\n"),
        ("b.rs", "pub struct B;\nimpl From<crate::A> for B {}\n"),
    ];
    assert_eq!(arrows(&files), ["a.rs -> b.rs", "b.rs -> a.rs"]);
}

#[test]
fn a_reexport_makes_no_arrow() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "pub(crate) use crate::b::B;\npub struct A;\n"),
        ("b.rs", "use crate::a::A;\npub struct B;\n"),
    ];
    assert_eq!(arrows(&files), ["b.rs -> a.rs"]);
}

#[test]
fn a_module_that_uses_what_it_reexports_makes_an_arrow() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "pub(crate) use crate::b::B;\npub struct A(B);\n"),
        ("b.rs", "pub struct B;\n"),
    ];
    assert_eq!(arrows(&files), ["a.rs -> b.rs"]);
}

#[test]
fn reexports_that_go_round_end() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("a.rs", "pub use crate::b::X;\npub use crate::b::*;\n"),
        ("b.rs", "pub use crate::a::X;\npub use crate::a::*;\n"),
        ("c.rs", "use crate::a::X;\nuse crate::b::Y;\n"),
    ];
    assert_eq!(arrows(&files), ["c.rs -> a.rs", "c.rs -> b.rs"]);
}

#[test]
fn what_only_tests_compile_does_not_count() {
    let test_only = "\
pub struct B;

#[cfg(test)]
use crate::a::A;

#[cfg(all(test, feature = \"storm\"))]
impl B {
    fn of(_: crate::a::A) {}
}

impl B {
    #[cfg(test)]
    fn with(_: crate::a::A) {}
}

fn f() {
    #[cfg(test)]
    let a = crate::a::A;
}

#[cfg(test)]
mod helpers {
    use crate::a::A;
}

#[cfg(test)]
mod elsewhere;

#[cfg(test)]
mod tests {
    use crate::a::A;
}
";
    let a = ("a.rs", "use crate::b::B;\npub struct A;\n");
    let lib = ("lib.rs", "mod a;\nmod b;\n");
    assert_eq!(arrows(&[lib, a, ("b.rs", test_only)]), ["a.rs -> b.rs"]);
    for also_without in ["#[cfg(not(test))]", "#[cfg(any(test, feature = \"testing\"))]"] {
        let b = format!("pub struct B;\n\n{also_without}\nfn f() {{\n    crate::a::A;\n}}\n");
        assert_eq!(arrows(&[lib, a, ("b.rs", &b)]), ["a.rs -> b.rs", "b.rs -> a.rs"]);
    }
}

#[test]
fn what_follows_the_tests_counts() {
    let b = "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n\nuse crate::a::A;\n";
    let files = [("lib.rs", "mod a;\nmod b;\n"), ("a.rs", "pub struct A;\n"), ("b.rs", b)];
    assert_eq!(arrows(&files), ["b.rs -> a.rs"]);
}

#[test]
fn a_path_counts_however_it_is_written() {
    let files = |text: &'static str| {
        let lib = ("lib.rs", "mod a;\nmod b;\nmod wide;\n");
        let wide = ("wide.rs", "pub use crate::a::*;\n");
        [lib, ("a.rs", "pub enum A { One }\npub fn run() {}\n"), ("b.rs", text), wide]
    };
    for written in [
        "use crate::{a::{self}, b};\nfn f() { a::run() }\n",
        "use crate::a as other;\nfn f(_: &dyn Fn(other::A)) {}\n",
        "fn f() { use crate::a; let _ = a::A::One; }\n",
        "fn f() { use super::a::A::*; let _ = One; }\n",
        "fn f() { assert_eq!(1, Some(super::a::run)); }\n",
        "fn f() { many! { use crate::{a::{A, run}}; } }\n",
        "macro_rules! m { () => { $crate::a::run() } }\n",
        "#[serde(with = \"crate::a\", default = \"crate::a::run\")]\nstruct S;\n",
        "use crate::wide::*;\nfn f(_: A) {}\n",
        "use crate::wide::*;\nfn f() { run() }\n",
        "mod inline {\n    fn f() { super::super::a::run() }\n}\n",
        "impl crate::a::A { fn f() {} }\n",
    ] {
        assert_eq!(arrows(&files(written)), ["b.rs -> a.rs"], "{written}");
    }
}

#[test]
fn what_is_no_path_to_an_item_does_not_count() {
    let files = |text: &'static str| {
        let lib = ("lib.rs", "mod a;\nmod b;\npub use other::a::*;\n");
        [lib, ("a.rs", "pub struct A;\npub fn run() {}\n"), ("b.rs", text)]
    };
    for written in [
        "use crate::a;\n",
        "pub(in crate::a) struct B;\n",
        "//! See [`A`](crate::a::A).\n\n/// As [`crate::a::A`].\nstruct B;\n",
        "use other::a::A;\n",
        "use ::a::A;\n",
        "use crate::Unknown;\n",
        "fn f() { println!(\"crate::a::A\", x.a::<u8>()); }\n",
        "fn f(run: u8) -> u8 { run }\n",
    ] {
        assert_eq!(arrows(&files(written)), [""; 0], "{written}");
    }
}

#[test]
fn a_module_may_use_its_own_children_and_they_it() {
    let files = [
        ("lib.rs", "mod a;\npub struct Root(a::A);\n"),
        (
            "a/mod.rs",
            "mod child;\nuse child::Child;\npub struct A(Child, crate::a::child::Child);\n",
        ),
        ("a/child.rs", "use super::A;\nuse crate::Root;\npub struct Child;\n"),
    ];
    assert_eq!(arrows(&files), ["a/child.rs -> a/mod.rs", "a/child.rs -> lib.rs"]);
    assert_eq!(findings("", &files), [""; 0]);
}

#[test]
fn folders_go_round_where_no_file_does() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "mod low;\nmod high;\n"),
        ("a/low.rs", "pub struct Low;\n"),
        ("a/high.rs", "use crate::b::B;\n"),
        ("b.rs", "use crate::a::low::Low;\npub struct B;\n"),
    ];
    let found = findings("", &files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("circles among folders grow: the largest has 2"), "{found:?}");
    assert!(found[0].contains("a -> b   crates/wire/src/a/high.rs:1 crate::b::B"), "{found:?}");
}

const TWO: [(&str, &str); 3] = [
    ("lib.rs", "mod a;\nmod b;\n"),
    ("a.rs", "use crate::b::B;\npub struct A;\n"),
    ("b.rs", "use crate::a::A;\npub struct B;\n"),
];

#[test]
fn a_circle_that_is_listed_passes_until_it_grows() {
    assert_eq!(findings("| wire | files | 2 | 2 |\n| wire | folders | 2 | 2 |\n", &TWO), [""; 0]);
    let mut grown = vec![("c.rs", "use crate::a::A;\npub struct C;\n"), TWO[1], TWO[2]];
    grown.push(("lib.rs", "mod a;\nmod b;\nmod c;\nfn f() {}\n"));
    let list = "| wire | files | 2 | 2 |\n| wire | folders | 2 | 2 |\n";
    assert_eq!(findings(list, &grown), [""; 0], "it uses the circle and is not in it");
    grown[1] = ("a.rs", "use crate::b::B;\nuse crate::c::C;\npub struct A;\n");
    let found = findings(list, &grown);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with(&format!("{ALLOWED}:1: ")), "{found:?}");
    assert!(
        found[0].contains("the largest has 3, all together 3; allowed are 2 and 2"),
        "{found:?}"
    );
}

#[test]
fn a_second_circle_is_no_smaller_than_the_first() {
    let mut files = TWO.to_vec();
    files[0] = ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n");
    files.push(("c.rs", "use crate::d::D;\npub struct C;\n"));
    files.push(("d.rs", "use crate::c::C;\npub struct D;\n"));
    let found = findings("| wire | files | 2 | 2 |\n| wire | folders | 2 | 4 |\n", &files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("the largest has 2, all together 4"), "{found:?}");
}

#[test]
fn a_row_that_allows_more_than_there_is_fails() {
    for row in ["| wire | files | 3 | 3 |", "| wire | files | 2 | 3 |"] {
        let found = findings(&format!("{row}\n| wire | folders | 2 | 2 |\n"), &TWO);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("{ALLOWED}:1: `wire`: the largest")), "{found:?}");
        assert!(found[0].contains("`cargo xtask tidy --shrink`"), "{found:?}");
    }
}

#[test]
fn a_row_whose_circles_are_gone_fails() {
    let tree_shaped = [("lib.rs", "mod a;\n"), ("a.rs", "pub struct A;\n")];
    let found = findings("| wire | files | 2 | 2 |\n", &tree_shaped);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with(&format!("{ALLOWED}:1: `wire` has no circle among files")),
        "{found:?}"
    );
    assert_eq!(findings("| gone | files | 2 | 2 |\n", &tree_shaped).len(), 1);
}

#[test]
fn shrinking_writes_less_and_never_more() {
    let crates = crates(&tree("", &TWO), &Metadata { packages: vec![room("wire", &[])] }).unwrap();
    let list = "# Circles\n\n| wire | files | 9 | 12 |\n| wire | folders | 1 | 1 |\n| gone | files | 2 | 2 |\n";
    let expected = "# Circles\n\n| wire | files | 2 | 2 |\n| wire | folders | 1 | 1 |\n";
    assert_eq!(shrunk(list, &crates), expected);
}
