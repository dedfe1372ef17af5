//! A study in a terminal of 80 columns: claim, paper, measured, verdict.

use core::fmt::Write as _;

use crate::{OnSoft, Outcome, Study, Verdict};

/// Columns of a line, at most.
const COLUMNS: usize = 80;
/// Columns before the text of a row: two, the longest label, and one.
const LABEL: usize = 12;

impl Study {
    /// Every claim, what the paper says, what was measured, and the verdict.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for outcome in &self.outcomes {
            let Outcome { claim, measured, ran, .. } = outcome;
            let verdict = outcome.verdict_text();
            let (verdict, why) = verdict.split_once([':', ';']).unwrap_or((&verdict, ""));
            let title = format!("{} ({}): {verdict}", claim.id, claim.place);
            let rows = [
                ("paper", claim.finding.as_str()),
                ("simulated", measured),
                ("run", ran),
                ("verdict", why),
            ];
            text += &block(&title, &rows);
            text.push('\n');
        }
        for claim in &self.later {
            let title = format!("{} ({}): not measured here", claim.id, claim.place);
            let why = claim.unmeasured.as_deref().unwrap_or("later");
            text += &block(&title, &[("paper", claim.finding.as_str()), ("why", why)]);
            text.push('\n');
        }
        text += &block(&self.count(), &[]);
        for (claim, now) in &self.unlike {
            text += &block(&format!("{claim}: on record it is \"{}\"", now.text()), &[]);
        }
        if let Some(soft) = &self.soft {
            text += &soft.table();
        }
        text
    }

    /// How many claims there are, and how many of them hold.
    pub(crate) fn count(&self) -> String {
        let measured = self.outcomes.len();
        let claims = match measured + self.later.len() {
            1 => "1 claim".to_owned(),
            several => format!("{several} claims"),
        };
        let count = |verdict| self.outcomes.iter().filter(|of| of.verdict() == verdict).count();
        let mut text = format!(
            "{claims}, {measured} measured: of these {}, {} at another scale, {}; {} not measured",
            number(count(Verdict::Holds), "holds", "hold"),
            number(count(Verdict::HoldsAtAnotherScale), "holds", "hold"),
            number(count(Verdict::DoesNotHold), "does not hold", "do not hold"),
            number(self.later.len(), "is", "are")
        );
        let holds = self.outcomes.iter().filter(|of| of.verdict() != Verdict::DoesNotHold);
        let fitted = holds.clone().filter(|of| !of.fitted().is_empty()).count();
        if fitted > 0 {
            let _ = write!(
                text,
                ". Of the {} that hold numbers were fitted on {fitted}",
                holds.count()
            );
        }
        text
    }
}

impl OnSoft {
    /// Every claim, what was measured on soft NICs, and what of it is as in the paper.
    fn table(&self) -> String {
        let mut text =
            format!("\n{}\n", block(&format!("The same experiments on {}", self.about), &[]));
        for outcome in &self.outcomes {
            let title = format!("{} ({})", outcome.claim.id, outcome.claim.place);
            let (measured, like) = (outcome.measured.as_str(), outcome.likeness());
            let finding = outcome.claim.finding.as_str();
            let rows = [("paper", finding), ("measured", measured), ("as there?", &like)];
            text += &block(&title, &rows);
            text.push('\n');
        }
        for (claim, again) in &self.again {
            let control = format!("control: the first row of {claim} again, over itself: {again}");
            text += &block(&control, &[]);
        }
        text + &match self.failed.as_slice() {
            [] => "all draws could be made\n".to_owned(),
            [first, ..] => {
                block(&format!("{} draws failed, the first: {first}", self.failed.len()), &[])
            }
        }
    }
}

/// A number and its verb.
fn number(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// A title and what belongs to it, each text behind its label; texts of nothing are left out.
pub(crate) fn block(title: &str, rows: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (line, part) in wrap(title, COLUMNS).into_iter().enumerate() {
        text += if line > 0 { "\n" } else { "" };
        text += part.trim_end();
    }
    text.push('\n');
    for (label, said) in rows.iter().filter(|(_, said)| !said.trim().is_empty()) {
        let mut label = *label;
        for line in wrap(said.trim(), COLUMNS - LABEL) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {label:<9} {line}");
            label = "";
        }
    }
    text
}

/// Words in lines of at most `width`; a longer word is cut after a dot, a hyphen or where it must.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let mut word = word;
        while word.chars().count() > width {
            if !line.is_empty() {
                lines.push(core::mem::take(&mut line));
            }
            let most = word.char_indices().nth(width).map_or(word.len(), |(at, _)| at);
            let cut = word[..most].rfind(['.', '-']).map_or(most, |at| at + 1);
            lines.push(word[..cut].to_owned());
            word = &word[cut..];
        }
        let room =
            if line.is_empty() { width } else { width.saturating_sub(line.chars().count() + 1) };
        if word.chars().count() > room {
            lines.push(core::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_longer_ones_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrap("guo16.slow-receiver.mtt (4.4)", 14),
            ["guo16.slow-", "receiver.mtt", "(4.4)"]
        );
        assert_eq!(wrap("", 5), [""]);
        assert_eq!([0, 1, 2].map(|n| number(n, "holds", "hold")), ["0 hold", "1 holds", "2 hold"]);
    }

    #[test]
    fn a_block_fits_80_columns_and_has_no_row_of_nothing() {
        let long = "long ".repeat(40);
        let text = block("claim", &[("paper", "b"), ("measured", long.trim()), ("verdict", "")]);
        assert!(text.starts_with("claim\n  paper     b\n  measured  long long"), "{text}");
        assert_eq!(text.lines().count(), 6);
        assert!(text.lines().all(|line| line.len() <= 80 && line.trim_end() == line), "{text}");
        assert_eq!(block(&"word ".repeat(17), &[]).lines().count(), 2);
    }
}
