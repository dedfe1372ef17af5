//! What the results of a run mean.

use core::fmt::{self, Write as _};
use std::collections::{BTreeMap, BTreeSet};

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
    /// It began, and its end was not reported.
    Begun,
}

/// Part of the reason of a test that skips itself because the machine, not the device, lacks something.
const MACHINE_LACKS: &str = "no huge pages";

/// How each test ended, and why, by its name without the leading `tests.`.
#[derive(Debug, Default)]
pub(super) struct Results(BTreeMap<String, (Outcome, String)>);

impl Results {
    /// Reads what the runner writes; a later line about a test replaces an earlier one, but a
    /// failure stays.
    pub(super) fn parse(text: &str) -> Self {
        let mut results = Self::default();
        for line in text.lines() {
            let mut words = line.splitn(3, '\t');
            let (Some(word), Some(name)) = (words.next(), words.next()) else { continue };
            let outcome = match word {
                "passed" => Outcome::Passed,
                "failed" => Outcome::Failed,
                "skipped" => Outcome::Skipped,
                "begun" => Outcome::Begun,
                _ => continue,
            };
            let name = name.strip_prefix("tests.").unwrap_or(name).to_owned();
            let reason = words.next().unwrap_or_default().to_owned();
            let entry = results.0.entry(name).or_insert((outcome, reason.clone()));
            if entry.0 != Outcome::Failed {
                *entry = (outcome, reason);
            }
        }
        results
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names that passed, as the committed list has them.
    pub(super) fn list(&self) -> String {
        self.passed().flat_map(|name| [name, "\n"]).collect()
    }

    fn passed(&self) -> impl Iterator<Item = &str> {
        let passed = self.0.iter().filter(|(_, (outcome, _))| *outcome == Outcome::Passed);
        passed.map(|(name, _)| name.as_str())
    }

    /// Counts by file of the suite.
    pub(super) fn table(&self) -> String {
        let mut files = BTreeMap::<&str, [usize; 3]>::new();
        for (name, (outcome, _)) in &self.0 {
            let column = match outcome {
                Outcome::Passed => 0,
                Outcome::Failed | Outcome::Begun => 1,
                Outcome::Skipped => 2,
            };
            files.entry(file(name)).or_default()[column] += 1;
        }
        let mut text = format!("  {:<24} {:>6} {:>6} {:>7}\n", "", "passed", "failed", "skipped");
        for (file, [passed, failed, skipped]) in files {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {file:<24} {passed:>6} {failed:>6} {skipped:>7}");
        }
        text
    }
}

/// The file that a test is in; those about one vendor's devices count together.
fn file(name: &str) -> &str {
    let file = name.split('.').next().unwrap_or(name);
    if ["test_mlx5", "test_efa"].iter().any(|vendor| file.starts_with(vendor)) {
        "test_mlx5_*, test_efa*"
    } else {
        file
    }
}

/// The results beside the list.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// How many passed, listed or not.
    pub(super) passed: usize,
    /// Names that are red, with the reason: listed and not passed, or failed.
    pub(super) red: Vec<(String, String)>,
    /// Passed, and not listed.
    fresh: Vec<String>,
    /// Listed, and skipped because this machine lacks something.
    excused: Vec<(String, String)>,
}

impl Verdict {
    /// Compares. Unless the run was of the `whole` suite, names that did not run are left out.
    pub(super) fn of(results: &Results, list: &str, whole: bool) -> Self {
        let listed: BTreeSet<&str> = list.lines().collect();
        let mut verdict = Self { passed: results.passed().count(), ..Self::default() };
        for (name, (outcome, reason)) in &results.0 {
            let must = listed.contains(name.as_str());
            let what = match outcome {
                Outcome::Passed => {
                    if !must {
                        verdict.fresh.push(name.clone());
                    }
                    continue;
                }
                Outcome::Skipped if !must => continue,
                Outcome::Skipped if reason.contains(MACHINE_LACKS) => {
                    verdict.excused.push((name.clone(), reason.clone()));
                    continue;
                }
                Outcome::Skipped => "is skipped",
                Outcome::Failed => "failed",
                Outcome::Begun => "did not end",
            };
            verdict.red.push((name.clone(), format!("{what}: {reason}")));
        }
        let ran = |name: &&&str| results.0.contains_key(**name);
        for name in listed.iter().filter(|name| whole && !ran(name)) {
            verdict.red.push(((*name).to_owned(), "did not run".to_owned()));
        }
        verdict
    }

    /// Whether names passed that are not in the list.
    pub(super) fn has_news(&self) -> bool {
        !self.fresh.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, what) in &self.red {
            writeln!(f, "  FAIL {name} {what}")?;
        }
        for (name, reason) in &self.excused {
            writeln!(f, "  skip {name}: {reason}")?;
        }
        for name in &self.fresh {
            writeln!(f, "  new  {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "begun\ttests.test_a.A.one\t\npassed\ttests.test_a.A.one\t\n\
                       begun\ttests.test_a.A.two\t\nskipped\ttests.test_a.A.two\tno device memory\n\
                       begun\ttests.test_b.B.three\t\nfailed\ttests.test_b.B.three\t1 != 2\n\
                       begun\ttests.test_b.B.four\t\n";

    #[test]
    fn a_listed_name_must_pass_and_a_failure_is_always_red() {
        let results = Results::parse(RUN);
        let red = |list, whole| {
            let verdict = Verdict::of(&results, list, whole);
            let names: Vec<String> = verdict.red.into_iter().map(|(name, _)| name).collect();
            names.join(" ")
        };
        assert_eq!(red("test_a.A.one\n", true), "test_b.B.four test_b.B.three");
        assert_eq!(red("test_a.A.two\n", true), "test_a.A.two test_b.B.four test_b.B.three");
        assert_eq!(red("test_c.gone\n", true), "test_b.B.four test_b.B.three test_c.gone");
        assert_eq!(red("test_c.gone\n", false), "test_b.B.four test_b.B.three");
    }

    #[test]
    fn what_the_machine_lacks_is_excused_and_shown() {
        let run = "skipped\ttests.t.A.x\tThere are no huge pages of size 2M allocated\n\
                   skipped\ttests.t.A.y\tno device memory\n";
        let verdict = Verdict::of(&Results::parse(run), "t.A.x\nt.A.y\n", true);
        let text = verdict.to_string();
        assert!(text.contains("FAIL t.A.y is skipped: no device memory"), "{text}");
        assert!(text.contains("skip t.A.x: There are no huge pages"), "{text}");
        assert_eq!(verdict.red.len(), 1);
    }

    #[test]
    fn what_passes_beyond_the_list_is_told_and_blessed() {
        let results = Results::parse(RUN);
        let verdict = Verdict::of(&results, "", true);
        assert_eq!((verdict.passed, verdict.fresh), (1, vec!["test_a.A.one".to_owned()]));
        assert_eq!(results.list(), "test_a.A.one\n");
    }

    #[test]
    fn a_failure_after_success_stays_a_failure() {
        let results = Results::parse("failed\ttests.t.A.x\tin tearDown\npassed\ttests.t.A.x\t\n");
        assert_eq!(results.list(), "");
    }

    #[test]
    fn tests_are_counted_by_file() {
        let table = Results::parse(RUN).table();
        assert!(table.contains("test_b                        0      2       0"), "{table}");
        assert_eq!(file("test_mlx5_dr.Dr.test"), file("test_efadv.E.test"));
    }
}
