//! For a terminal of 80 columns: severity, rule, device; what is, and what should be; cause, remedy, command.

use crate::doctor::finding::{Finding, Severity};
use crate::doctor::{Diagnosis, Place};

const WIDTH: usize = 80;
const INDENT: usize = 9;

/// A diagnosis; it ends with a line feed. `what` is what was read.
pub fn text(diagnosis: &Diagnosis, what: &str) -> String {
    let mut text = format!("{what}: {}\n", diagnosis.cluster.summary());
    for finding in &diagnosis.findings {
        text.push('\n');
        one(&mut text, finding);
    }
    text.push('\n');
    text += &tally(diagnosis);
    harmless(&text)
}

/// The same without what a terminal would obey: names of files and devices may hold anything.
pub(in crate::doctor) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// "2 errors, 1 warning; 3 muted", or that there is nothing.
fn tally(diagnosis: &Diagnosis) -> String {
    let of = |severity: Severity, what: &str| {
        let findings = diagnosis.findings.iter();
        let number = findings.filter(|finding| finding.severity == severity).count();
        (number > 0).then(|| format!("{number} {what}{}", if number == 1 { "" } else { "s" }))
    };
    let all = [
        of(Severity::Error, "error"),
        of(Severity::Warning, "warning"),
        of(Severity::Note, "note"),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    let mut text = match all.is_empty() {
        true => "nothing is wrong, by the rules FD001 to FD016".to_owned(),
        false => all.join(", "),
    };
    if diagnosis.desired.is_empty() {
        text += "; there is no desired.toml to compare with";
    }
    let mut lines = wrapped(&text, 0, 0);
    for why in diagnosis.not_judged() {
        lines += &wrapped(&format!("not judged: {why}"), 0, 12);
    }
    for muted in &diagnosis.muted {
        let Finding { rule, device, .. } = &muted.finding;
        let line = format!("muted: {} at {device}: {}", rule.id(), muted.reason);
        lines += &wrapped(&line, 0, 7);
    }
    if let Some(finding) = diagnosis.findings.first() {
        lines += &format!("ferroce doctor --explain {} says more\n", finding.rule.id());
    }
    lines
}

fn one(text: &mut String, finding: &Finding) {
    let head = format!(
        "{:<8} {}  {}: {}",
        finding.severity.name(),
        finding.rule.id(),
        finding.device,
        finding.rule.title()
    );
    *text += &wrapped(&head, 0, INDENT);
    *text += &wrapped(&finding.text, INDENT, INDENT);
    let mut labelled = |label: &str, words: &str| {
        *text += &wrapped(&format!("{label:<9}{words}"), INDENT, INDENT + 9);
    };
    if let Some(difference) = &finding.difference {
        labelled("desired", &format!("{} ({})", difference.desired, difference.key));
        labelled("running", &difference.running);
        if let Some(since) = &difference.since {
            labelled("since", since);
        }
    }
    if !finding.places.is_empty() {
        let places: Vec<String> = finding.places.iter().take(3).map(place).collect();
        labelled("at", &places.join(", "));
    }
    labelled("why", finding.rule.cause());
    if !finding.remedy.is_empty() {
        labelled("do", &finding.remedy);
    }
    for command in &finding.commands {
        // A command is copied: it stays in one line.
        *text += &format!("{:INDENT$}{:<9}{command}\n", "", "type");
    }
}

/// "tor-1/config_db.json, line 5".
fn place(place: &Place) -> String {
    match place.line {
        Some(line) => format!("{}:{line}", place.file),
        None => place.file.clone(),
    }
}

/// Words in lines of at most 80 columns; a longer word has a line of its own.
pub fn wrapped(words: &str, first: usize, indent: usize) -> String {
    let mut text = " ".repeat(first);
    // What stands in columns keeps its spaces.
    let mut column = first;
    let mut begun = false;
    for (at, word) in words.split(' ').enumerate() {
        let length = word.chars().count();
        if begun && column + 1 + length > WIDTH {
            while text.ends_with(' ') {
                text.pop();
            }
            text.push('\n');
            text += &" ".repeat(indent);
            column = indent;
        } else if at > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length;
        begun |= length > 0;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_a_terminal() {
        let text = wrapped(&"many words of some length ".repeat(20), 9, 18);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with(&" ".repeat(18))));
        let long = "x".repeat(100);
        assert_eq!(wrapped(&format!("a {long} b"), 0, 2), format!("a\n  {long}\n  b\n"));
        assert_eq!(wrapped("ERROR    FD001  a", 0, 9), "ERROR    FD001  a\n");
    }
}
