//! The results of an experiment, compared with its claim.
//!
//! ```text
//!   measurements ─► checks, each of which holds or not ─► verdict
//! ```
//!
//! A verdict is computed and never written: all checks hold, or one does not and says why.

use crate::claims::Claim;
use crate::figure::Figure;
use crate::fitted::fitted;
use crate::verdict::Verdict;

/// One statement of a claim, and whether it holds.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// What was expected, and what was measured.
    pub text: String,
    /// Whether they agree.
    pub holds: bool,
    /// What is known of the reason, if they do not.
    pub reason: Option<String>,
    /// Whether it is about the rates and times of the paper's machines, which others need not have.
    pub is_of_machine: bool,
}

impl Check {
    /// Something that the paper says happens, or does not.
    pub fn event(text: impl Into<String>, so: bool) -> Self {
        Self { text: text.into(), holds: so, reason: None, is_of_machine: false }
    }

    /// `small` is to be below `large`.
    pub fn order(small: (&str, f64), large: (&str, f64), unit: &str) -> Self {
        let space = if unit.is_empty() { "" } else { " " };
        let text = format!(
            "{} {}{space}{unit} < {} {}{space}{unit}",
            small.0,
            short(small.1),
            large.0,
            short(large.1)
        );
        Self { text, holds: small.1 < large.1, reason: None, is_of_machine: false }
    }

    /// The claim's value `name` is to be met within the claim's band.
    pub fn number(claim: &Claim, name: &str, measured: f64) -> Self {
        let (paper, band) = (claim.value(name), claim.band.unwrap_or(f64::NAN));
        let factor = measured / paper;
        let text = format!(
            "{name}: {} where the paper has {}, {} times as much",
            short(measured),
            short(paper),
            short(factor)
        );
        Self {
            text,
            holds: (1.0 / band..=band).contains(&factor),
            reason: None,
            is_of_machine: false,
        }
    }

    /// The claim's value `name` is a bound that is not to be passed. It has no band.
    pub fn at_most(claim: &Claim, name: &str, measured: f64) -> Self {
        let paper = claim.value(name);
        let text =
            format!("{name}: {} where the paper has at most {}", short(measured), short(paper));
        Self { text, holds: measured <= paper, reason: None, is_of_machine: false }
    }

    /// A value is to lie between two of the paper's, within the claim's band on either side.
    pub fn between(claim: &Claim, what: &str, measured: f64, names: [&str; 2]) -> Self {
        let ([least, most], band) =
            (names.map(|name| claim.value(name)), claim.band.unwrap_or(1.0));
        let text = format!(
            "{what}: {} where the paper has {} to {}, within a factor of {band}",
            short(measured),
            short(least),
            short(most)
        );
        let holds = (least / band..=most * band).contains(&measured);
        Self { text, holds, reason: None, is_of_machine: false }
    }

    /// It is about the rates and times of the paper's machines.
    #[must_use]
    pub fn of_machine(self) -> Self {
        Self { is_of_machine: true, ..self }
    }

    /// What is known of the reason, if it does not hold.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        if !self.holds {
            self.reason = Some(reason.into());
        }
        self
    }
}

/// A number with three significant digits.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if value == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The results of an experiment about one claim.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The claim.
    pub claim: Claim,
    /// What was run.
    pub ran: String,
    /// How it is smaller or shorter than the paper's, if it is.
    pub scale: Option<String>,
    /// What was measured, in a sentence.
    pub measured: String,
    /// What the claim says, one by one.
    pub checks: Vec<Check>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

impl Outcome {
    /// Whether the claim is met. A claim without a check is not.
    pub fn verdict(&self) -> Verdict {
        let checked = !self.checks.is_empty() && self.checks.iter().all(|check| check.holds);
        match (checked, &self.scale) {
            (false, _) => Verdict::DoesNotHold,
            (true, None) => Verdict::Holds,
            (true, Some(_)) => Verdict::HoldsAtAnotherScale,
        }
    }

    /// The verdict, with what does not hold and why.
    pub fn verdict_text(&self) -> String {
        let mut text = self.verdict().text().to_owned();
        if let (Verdict::HoldsAtAnotherScale, Some(scale)) = (self.verdict(), &self.scale) {
            text += &format!(": {scale}");
        }
        let mut failed = self.checks.iter().filter(|check| !check.holds).peekable();
        while let Some(check) = failed.next() {
            text += &format!("; not so: {}", check.text);
            // A reason that several have is said behind the last.
            let is_said_again = failed.peek().is_some_and(|next| next.reason == check.reason);
            if let (Some(reason), false) = (&check.reason, is_said_again) {
                text += &format!(" ({reason})");
            }
        }
        let fitted = self.fitted();
        if !fitted.is_empty() {
            text += &format!("; no confirmation, as it was fitted: {}", fitted.join(", "));
        }
        text
    }

    /// What of the claim is so on soft NICs, whose verdict says nothing of the paper.
    pub fn likeness(&self) -> String {
        let so = self.checks.iter().filter(|check| check.holds).count();
        match self.checks.len() {
            0 => "it is about rates and times of the paper's machines".to_owned(),
            all if so == all => format!("yes, all {all} checks"),
            all => {
                let failed = self.checks.iter().filter(|check| !check.holds);
                let failed: Vec<&str> = failed.map(|check| check.text.as_str()).collect();
                format!("{so} of {all} checks; not so: {}", failed.join("; not so: "))
            }
        }
    }

    /// The numbers of testbeds that were fitted on the claim. If there are any it says nothing of the
    /// model that it holds.
    pub fn fitted(&self) -> Vec<String> {
        fitted(&self.claim.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::of_paper;

    fn outcome(checks: Vec<Check>, scale: Option<&str>) -> Outcome {
        Outcome {
            claim: of_paper("guo16").unwrap().remove(0),
            ran: String::new(),
            scale: scale.map(str::to_owned),
            measured: String::new(),
            checks,
            figures: Vec::new(),
        }
    }

    #[test]
    fn one_check_that_fails_is_a_claim_that_does_not_hold_with_its_reason() {
        let mut of_fitted = outcome(vec![Check::event("it moves", true)], None);
        of_fitted.claim = of_paper("zhang17").unwrap().remove(3);
        let text = of_fitted.verdict_text();
        assert!(text.starts_with("holds; no confirmation, as it was fitted: exit_us of"), "{text}");
        let good = Check::event("it moves", true).because("never said");
        let bad = Check::order(("a", 3.0), ("b", 2.0), "us").because("b is broken");
        assert_eq!(outcome(vec![good.clone()], None).verdict(), Verdict::Holds);
        assert_eq!(
            outcome(vec![good.clone()], Some("8 servers")).verdict_text(),
            "holds at another scale: 8 servers"
        );
        assert_eq!(
            outcome(vec![good, bad], Some("8 servers")).verdict_text(),
            "does not hold; not so: a 3.00 us < b 2.00 us (b is broken)"
        );
        let twice = ["c", "d"].map(|text| Check::event(text, false).because("e"));
        assert_eq!(
            outcome(twice.into(), None).verdict_text(),
            "does not hold; not so: c; not so: d (e)"
        );
        assert_eq!(outcome(Vec::new(), None).verdict(), Verdict::DoesNotHold);
    }

    #[test]
    fn a_number_is_met_within_its_band_and_one_that_is_not_there_never() {
        let claims = of_paper("guo16").unwrap();
        let claim = claims.iter().find(|claim| claim.id == "guo16.fig6.tail-latency").unwrap();
        for (measured, holds) in [(44.0, false), (46.0, true), (179.0, true), (181.0, false)] {
            assert_eq!(Check::number(claim, "rdma_p99_us", measured).holds, holds, "{measured}");
        }
        for (measured, holds) in [(0.0, true), (90.0, true), (90.1, false), (f64::NAN, false)] {
            assert_eq!(Check::at_most(claim, "rdma_p99_us", measured).holds, holds, "{measured}");
        }
        assert!(!Check::at_most(claim, "no such", 1.0).holds);
        assert!(!Check::number(claim, "no such", 1.0).holds);
        assert!(!Check::number(claim, "rdma_p99_us", f64::NAN).holds);
    }
}
