//! What an experiment came to, in words.

use core::fmt;

use fabric::scenario::experiment::{Bound, Expectation};

use super::Run;

/// What an experiment came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// What it is called.
    pub title: String,
    /// What was expected, and what was seen.
    pub judged: Vec<Judged>,
    /// How many expectations of rows could not be judged, because a row of theirs was not run.
    pub left_out: usize,
    /// Every run.
    pub runs: Vec<Run>,
}

/// An expectation of a row, and what was seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// The row.
    pub row: String,
    /// What was expected.
    pub expectation: Expectation,
    /// What was seen.
    pub seen: Seen,
    /// The row that it was compared with.
    pub other: Option<(String, Seen)>,
    /// What that comes to.
    pub verdict: Verdict,
    /// Draws that would each have met it.
    pub met_alone: usize,
}

/// Whether it was as expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was.
    Met,
    /// It was not, or could not be seen.
    Missed,
}

/// What was seen over all draws.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seen {
    /// The middle one; `None` if nothing was seen.
    pub median: Option<f64>,
    /// In how many draws something was seen.
    pub draws: usize,
    /// The least and the most.
    pub range: (f64, f64),
}

impl Seen {
    /// Of values in order.
    pub(super) fn of(values: Vec<f64>) -> Self {
        let range = values.first().zip(values.last()).map_or((0.0, 0.0), |(a, b)| (*a, *b));
        Self { median: median(&values), draws: values.len(), range }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(median) = self.median else { return f.write_str("nothing was seen") };
        f.write_str(&plain(median))?;
        if self.draws > 1 {
            write!(
                f,
                " ({} to {} in {} draws)",
                plain(self.range.0),
                plain(self.range.1),
                self.draws
            )?;
        }
        Ok(())
    }
}

/// The middle one.
fn median(values: &[f64]) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some((values[middle] + values[values.len() / 2]) / 2.0)
}

impl Report {
    /// Whether all is as expected, and every run went as it was to.
    pub fn is_met(&self) -> bool {
        let runs_are_fine = self.runs.iter().all(|run| run.problems.is_empty());
        runs_are_fine
            && !self.runs.is_empty()
            && self.judged.iter().all(|it| it.verdict == Verdict::Met)
    }
}

/// A number as people read it.
pub(super) fn plain(number: f64) -> String {
    let size = number.abs();
    if number.fract() == 0.0 && size < 1e15 {
        format!("{number}")
    } else if size >= 1_000.0 {
        format!("{number:.0}")
    } else if size >= 10.0 {
        format!("{number:.1}")
    } else if size >= 0.01 {
        format!("{number:.3}")
    } else {
        format!("{number:.2e}")
    }
}

/// What must be so, in words.
fn wanted(bound: &Bound) -> String {
    let between = |least: f64, most: f64, unit: &str| match (least.is_finite(), most.is_finite()) {
        (true, true) if least == most => format!("{}{unit}", plain(least)),
        (true, true) => format!("{} to {}{unit}", plain(least), plain(most)),
        (true, false) => format!("at least {}{unit}", plain(least)),
        _ => format!("at most {}{unit}", plain(most)),
    };
    match bound {
        Bound::Between(least, most) => between(*least, *most, ""),
        Bound::Times { row, any_draw, least, most } => {
            let of = if *any_draw { "draws of " } else { "" };
            between(*least, *most, &format!(" x {of}{row:?}"))
        }
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Met => "met   ",
            Verdict::Missed => "MISSED",
        };
        let Expectation { why, measure, bound, from, to, per_second, .. } = &self.expectation;
        writeln!(f, "  {verdict}  {}: {}", self.row, if why.is_empty() { measure } else { why })?;
        let per_second = if *per_second { " per second" } else { "" };
        let moment = |anchor: &fabric::scenario::experiment::Anchor| {
            let delay = anchor.delay.as_millis();
            match &anchor.event {
                Some(event) if delay == 0 => event.clone(),
                Some(event) => format!("{event} + {delay} ms"),
                None => format!("{delay} ms"),
            }
        };
        let window = match (from, to) {
            (None, None) => String::new(),
            (Some(from), None) => format!(", from {}", moment(from)),
            (None, Some(to)) => format!(", until {}", moment(to)),
            (Some(from), Some(to)) => format!(", from {} to {}", moment(from), moment(to)),
        };
        writeln!(f, "          {measure}{per_second}{window}")?;
        let every =
            if self.seen.draws > 1 && bound.is_of_every_draw() { " in every draw" } else { "" };
        write!(f, "          expected {}{every}, seen {}", wanted(bound), self.seen)?;
        if self.seen.draws > 1 {
            write!(f, ", met by {} of them", self.met_alone)?;
        }
        if let Some((row, other)) = &self.other {
            write!(f, "; {row} has {other}")?;
        }
        f.write_str("\n")
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {} (draw {}): {:.1} s; {}",
            self.row,
            self.draw,
            self.took.as_secs_f64(),
            self.time
        )?;
        for problem in &self.problems {
            writeln!(f, "    WRONG   {problem}")?;
        }
        for (name, value) in &self.numbers {
            writeln!(f, "    {name:<28} {:>14}", plain(*value))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for judged in &self.judged {
            judged.fmt(f)?;
        }
        let missed = self.judged.iter().filter(|it| it.verdict == Verdict::Missed).count();
        let wrong = self.runs.iter().filter(|run| !run.problems.is_empty()).count();
        let (judged, left_out) = (self.judged.len(), self.left_out);
        let all = judged + left_out;
        write!(f, "{}: ", self.title)?;
        match (missed, wrong) {
            (0, 0) if all == 0 => writeln!(f, "nothing was expected"),
            (0, 0) if judged == 0 => {
                writeln!(f, "none of {all} expectations was judged: rows of theirs were not run")
            }
            (0, 0) if left_out > 0 => writeln!(
                f,
                "{judged} of {all} expectations were judged, and met; rows of the others were not run"
            ),
            (0, 0) => writeln!(f, "all {all} expectations were met"),
            (missed, wrong) => {
                let runs = self.runs.len();
                writeln!(
                    f,
                    "{missed} of {judged} expectations were MISSED, and {wrong} of {runs} runs went wrong"
                )?;
                if left_out > 0 {
                    writeln!(f, "  {left_out} more were not judged: rows of theirs were not run")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
    }

    #[test]
    fn bounds_and_numbers_are_said_as_people_would() {
        for (number, text) in
            [(0.0, "0"), (1234.5678, "1235"), (0.5, "0.500"), (12.34, "12.3"), (0.0001, "1.00e-4")]
        {
            assert_eq!(plain(number), text);
        }
        let infinity = f64::INFINITY;
        for (bound, text) in [
            (Bound::Between(0.0, 0.0), "0"),
            (Bound::Between(1.0, infinity), "at least 1"),
            (Bound::Between(-infinity, 2.0), "at most 2"),
            (
                Bound::Times { row: "a".to_owned(), any_draw: false, least: 0.85, most: 1.15 },
                "0.850 to 1.150 x \"a\"",
            ),
            (
                Bound::Times { row: "a".to_owned(), any_draw: true, least: 0.9, most: infinity },
                "at least 0.900 x draws of \"a\"",
            ),
        ] {
            assert_eq!(wanted(&bound), text);
        }
        let seen = Seen::of(vec![1.0, 2.0, 9.0]);
        assert_eq!(seen.to_string(), "2 (1 to 9 in 3 draws)");
    }
}
