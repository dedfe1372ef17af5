//! Links between our own documents: the file exists, and so does the heading.

use super::finding::Finding;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md") {
        for (line, target) in links(text) {
            if let Some(message) = broken(tree, path, target) {
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

/// Why a link leads nowhere, if it does. Addresses outside the repository are not followed.
fn broken(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    if !path.is_empty() && !tree.exists(&path) {
        return Some(format!("the link to {target} leads to no file"));
    }
    if heading.is_empty() {
        return None;
    }
    let text = tree.text(&path).unwrap_or_default();
    let found = prose(text).any(|(_, line)| line.starts_with('#') && anchor(line) == heading);
    (!found).then(|| format!("{path} has no heading for #{heading}"))
}

/// `target` as seen from the folder of `from`, with `.` and `..` removed.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The lines outside code fences, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// Every `[text](target)`, with its line.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).flat_map(|(number, line)| {
        let plain = line.split('`').step_by(2);
        let targets = plain.flat_map(|part| part.split("](").skip(1));
        targets.filter_map(move |rest| Some((number, rest.split_once(')')?.0)))
    })
}

/// The name that a forge gives to a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("README.md", text),
            ("docs/MAP.md", "# Map\n\n## Where does my change go?\n"),
            ("crates/wire/src/lib.rs", ""),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_to_files_folders_headings_and_the_web_pass() {
        let text = "# Top\n[a](docs/MAP.md) [b](crates/wire/) [c](https://example.org/x)\n\
                    [d](docs/MAP.md#where-does-my-change-go) [e](#top) [f](./docs/../docs/MAP.md)\n";
        assert_eq!(findings(text), [""; 0]);
    }

    #[test]
    fn code_is_not_searched_for_links() {
        assert_eq!(findings("`x[0](gone)`\n```\n[a](gone.md)\n```\n"), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(
            findings("\n[a](gone.md) and [b](docs/MAP.md#gone)\n"),
            [
                "README.md:2: the link to gone.md leads to no file",
                "README.md:2: docs/MAP.md has no heading for #gone"
            ]
        );
    }
}
