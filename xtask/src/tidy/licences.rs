//! The licence of every dependency against the list in `deny.toml`.
//!
//! cargo-deny reads the same list; this check needs no tool to be installed.

use anyhow::{Result, bail};

use super::Finding;
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
    Ok(findings)
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
}
