//! The licence of every dependency against the list in `deny.toml`, and of every program that stands
//! in the repository itself.
//!
//! cargo-deny reads the same list; this check needs no tool to be installed. Programs of others stand
//! in `vendor/NAME/`, each with its `LICENSE` and a row in `vendor/README.md`:
//! `| name | version | licence | .. |`.

use anyhow::{Result, bail};

use super::finding::Finding;
use super::metadata::Metadata;
use super::tree::Tree;

const LIST: &str = "deny.toml";

pub(super) fn check(tree: &Tree, metadata: &Metadata) -> Result<Vec<Finding>> {
    let allowed = allowed(tree.text(LIST)?)?;
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let subject = format!("{} {}", package.name, package.version);
        let message = match &package.license {
            None => format!("{subject} names no licence"),
            Some(licence) if permits(licence, &allowed) => continue,
            Some(licence) => format!("{subject} is under {licence}, which is not in `allow`"),
        };
        findings.push(Finding::new(LIST, None, message));
    }
    findings.extend(vendored(tree, &allowed));
    Ok(findings)
}

/// Programs of others in `vendor/` folders: each has its licence, and a row that names one we allow.
fn vendored(tree: &Tree, allowed: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, _) in tree.below("crates") {
        let Some((before, rest)) = path.split_once("/vendor/") else { continue };
        let Some((name, _)) = rest.split_once('/') else { continue };
        let folder = format!("{before}/vendor/{name}");
        if tree.below(&folder).next().map(|(first, _)| first) != Some(path) {
            continue;
        }
        if !tree.exists(&format!("{folder}/LICENSE")) {
            findings.push(Finding::new(folder.clone(), None, "lacks its LICENSE".to_owned()));
        }
        let readme = format!("{before}/vendor/README.md");
        let rows = tree.text(&readme).unwrap_or_default().lines();
        let licence = rows
            .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
            .find_map(|cells| (cells.get(1) == Some(&name)).then(|| cells.get(3).copied())?);
        let message = match licence {
            None => format!("has no row for {name}"),
            Some(licence) if permits(licence, allowed) => continue,
            Some(licence) => format!("{name} is under {licence}, which {LIST} does not allow"),
        };
        findings.push(Finding::new(readme, None, message));
    }
    findings
}

/// The strings of `allow = [...]` in the section `[licenses]`.
fn allowed(list: &str) -> Result<Vec<&str>> {
    let entries: Vec<&str> = list
        .lines()
        .skip_while(|line| line.trim() != "[licenses]")
        .skip_while(|line| !line.starts_with("allow = ["))
        .take_while(|line| line.trim() != "]")
        .filter_map(|line| line.trim().strip_prefix('"')?.split('"').next())
        .collect();
    if entries.is_empty() {
        bail!("{LIST} has no `allow` list in [licenses], one licence a line");
    }
    Ok(entries)
}

/// Whether an SPDX expression can be satisfied by allowed licences alone.
/// `/` is how crates wrote OR before SPDX.
fn permits(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut permitted = all(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        permitted |= all(rest, allowed);
    }
    permitted
}

fn all(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut permitted = one(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        permitted &= one(rest, allowed);
    }
    permitted
}

fn one(rest: &mut &[&str], allowed: &[&str]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let permitted = any(rest, allowed);
            let [")", after @ ..] = *rest else { return false };
            *rest = after;
            permitted
        }
        [licence, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, after @ ..] => {
            *rest = after;
            allowed.contains(licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::testing::external;
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("GPL-3.0-only AND MIT", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR GPL-3.0-only) AND GPL-3.0-only", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", true),
            ("GPL-2.0-only WITH Classpath-exception-2.0", false),
            ("(MIT", false),
            ("MIT MIT", false),
            ("", false),
        ] {
            assert_eq!(permits(expression, &allowed), expected, "{expression}");
        }
    }

    #[test]
    fn a_copyleft_or_unlicensed_dependency_is_found() {
        let tree = Tree::of(&[(LIST, "[licenses]\nallow = [\n    \"MIT\",\n]\n")]);
        let packages = vec![
            external("fine", Some("MIT")),
            external("viral", Some("AGPL-3.0-only")),
            external("silent", None),
        ];
        let found = check(&tree, &Metadata { packages }).unwrap();
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "deny.toml: viral 1.0.0 is under AGPL-3.0-only, which is not in `allow`",
                "deny.toml: silent 1.0.0 names no licence"
            ]
        );
    }

    #[test]
    fn a_program_in_the_repository_needs_its_licence_and_a_row() {
        let list = (LIST, "[licenses]\nallow = [\n    \"BSD-3-Clause\",\n]\n");
        let row = |licence: &str| format!("| vega | 6.4.0 | {licence} | - |\n");
        let found = |files: &[(&str, &str)]| -> Vec<String> {
            let mut all = vec![list, ("crates/a/vendor/vega/vega.min.js", "")];
            all.extend_from_slice(files);
            let none = Metadata { packages: Vec::new() };
            check(&Tree::of(&all), &none).unwrap().iter().map(ToString::to_string).collect()
        };
        let (good, bad) = (row("BSD-3-Clause"), row("GPL-3.0-only"));
        let licence = ("crates/a/vendor/vega/LICENSE", "");
        let readme = "crates/a/vendor/README.md";
        assert_eq!(found(&[licence, (readme, &good)]), [""; 0]);
        assert_eq!(found(&[(readme, &good)]), ["crates/a/vendor/vega: lacks its LICENSE"]);
        assert_eq!(found(&[licence]), ["crates/a/vendor/README.md: has no row for vega"]);
        assert_eq!(
            found(&[licence, (readme, &bad)]),
            [
                "crates/a/vendor/README.md: vega is under GPL-3.0-only, which deny.toml does not allow"
            ]
        );
    }
}
