//! A study in a terminal: claim, paper, measured, verdict.

use core::fmt::Write as _;

use crate::{OnSoft, Outcome, Study, Verdict};

/// Widths of the columns.
const WIDTHS: [usize; 4] = [22, 34, 44, 40];

impl Study {
    /// Every claim, what the paper says, what was measured, and the verdict.
    pub fn table(&self) -> String {
        let mut text = row(["claim", "paper", "measured (simulated)", "verdict"]);
        let rule = WIDTHS.map(|width| "-".repeat(width));
        text += &row([&rule[0], &rule[1], &rule[2], &rule[3]]);
        for outcome in &self.outcomes {
            let Outcome { claim, measured, ran, .. } = outcome;
            let id = format!("{} ({})", claim.id, claim.place);
            let measured = format!("{measured} [{ran}]");
            text += &row([&id, &claim.finding, &measured, &outcome.verdict_text()]);
            text += &row(["", "", "", ""]);
        }
        for claim in &self.later {
            let id = format!("{} ({})", claim.id, claim.place);
            let why = claim.unmeasured.as_deref().unwrap_or("later");
            text += &row([&id, &claim.finding, "", &format!("not measured here: {why}")]);
            text += &row(["", "", "", ""]);
        }
        let claims = match self.outcomes.len() + self.later.len() {
            1 => "1 claim".to_owned(),
            several => format!("{several} claims"),
        };
        let count = |verdict| self.outcomes.iter().filter(|of| of.verdict() == verdict).count();
        let _ = write!(
            text,
            "\n{claims}: {}, {} at another scale, {}; {} not measured",
            number(count(Verdict::Holds), "holds", "hold"),
            number(count(Verdict::HoldsAtAnotherScale), "holds", "hold"),
            number(count(Verdict::DoesNotHold), "does not hold", "do not hold"),
            number(self.later.len(), "is", "are")
        );
        let holds = self.outcomes.iter().filter(|of| of.verdict() != Verdict::DoesNotHold);
        match holds.filter(|of| !of.fitted().is_empty()).count() {
            0 => text.push('\n'),
            fitted => {
                let _ = writeln!(text, "\nof those that hold numbers were fitted on {fitted}");
            }
        }
        for (claim, now) in &self.unlike {
            let _ = writeln!(text, "{claim}: on record it is \"{}\"", now.text());
        }
        if let Some(soft) = &self.soft {
            text += &soft.table();
        }
        text
    }
}

impl OnSoft {
    /// Every claim, what was measured on soft NICs, and what of it is as in the paper.
    fn table(&self) -> String {
        let mut text = format!("\n\nThe same experiments on {}\n\n", self.about);
        text +=
            &row(["claim", "paper", "measured (soft NICs on this machine)", "as in the paper?"]);
        let rule = WIDTHS.map(|width| "-".repeat(width));
        text += &row([&rule[0], &rule[1], &rule[2], &rule[3]]);
        for outcome in &self.outcomes {
            let id = format!("{} ({})", outcome.claim.id, outcome.claim.place);
            text += &row([&id, &outcome.claim.finding, &outcome.measured, &outcome.likeness()]);
            text += &row(["", "", "", ""]);
        }
        for (claim, again) in &self.again {
            let _ = writeln!(text, "control: the first row of {claim} again, over itself: {again}");
        }
        let _ = match self.failed.as_slice() {
            [] => writeln!(text, "all draws could be made"),
            [first, ..] => {
                writeln!(text, "{} draws failed, the first: {first}", self.failed.len())
            }
        };
        text
    }
}

/// A number and its verb.
fn number(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// A row of a study.
fn row(cells: [&str; 4]) -> String {
    row_of(cells, WIDTHS)
}

/// A row of cells, each wrapped to its width.
pub(crate) fn row_of<const N: usize>(cells: [&str; N], widths: [usize; N]) -> String {
    let columns: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, width)| wrap(cell, width)).collect();
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..height {
        let mut whole = String::new();
        for (column, width) in columns.iter().zip(widths) {
            let cell = column.get(line).map_or("", String::as_str);
            let _ = write!(whole, "{cell:width$}  ");
        }
        text += whole.trim_end();
        text.push('\n');
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
    fn cells_are_wrapped_and_rows_are_as_high_as_their_highest_cell() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrap("guo16.slow-receiver.mtt (4.4)", 14),
            ["guo16.slow-", "receiver.mtt", "(4.4)"]
        );
        assert_eq!(wrap("", 5), [""]);
        assert_eq!([0, 1, 2].map(|n| number(n, "holds", "hold")), ["0 hold", "1 holds", "2 hold"]);
        let text = row(["a", "b", &"long ".repeat(20), "d"]);
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.len() <= 150));
    }
}
