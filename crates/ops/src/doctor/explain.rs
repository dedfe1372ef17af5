//! What a rule is about: its section of the book, which is in the program.

use super::finding::Rule;

const PAGE: &str = include_str!("../../../../docs/book/doctor-rules.md");

/// The section about a rule, without its heading's marks.
pub fn explain(rule: Rule) -> &'static str {
    let heading = format!("## {}: ", rule.id());
    let from = PAGE.find(&heading).map_or("", |at| &PAGE[at + 3..]);
    from.find("\n## ").map_or(from, |end| &from[..end]).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_section_with_its_title_cause_incident_and_remedy() {
        for rule in Rule::ALL {
            let text = explain(rule);
            let heading = text.lines().next().unwrap_or_default();
            assert_eq!(
                heading.to_lowercase(),
                format!("{}: {}", rule.id(), rule.title()).to_lowercase()
            );
            for part in ["**Looks at**", "**Why**", "**Incident**", "**Remedy**"] {
                assert!(text.contains(part), "{}: {part}", rule.id());
            }
        }
    }
}
