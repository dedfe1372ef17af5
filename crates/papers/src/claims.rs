//! `studies/claims.toml`: what the papers report, as statements that can be checked.
//!
//! The file is part of the program, so that no paper's number is copied by hand: an experiment asks for it
//! by its name in `values`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::verdict::Verdict;

/// The file.
const TEXT: &str = include_str!("../../../studies/claims.toml");

/// How a finding can be compared with a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A value with a unit, to be met within the claim's band.
    Number,
    /// A ranking between measured lines.
    Order,
    /// Something that must happen, or must not.
    Event,
}

impl Kind {
    /// In a word.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Order => "order",
            Self::Event => "event",
        }
    }
}

/// One finding of a paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Paper, experiment and what it is about, with dots between them.
    pub id: String,
    /// Section, figure or table.
    #[serde(rename = "where")]
    pub place: String,
    /// How it can be checked.
    pub kind: Kind,
    /// The conditions for a comparison.
    pub setup: String,
    /// The result in the paper's own numbers.
    pub finding: String,
    /// For [`Kind::Number`]: a measurement may be off by this factor on either side.
    pub band: Option<f64>,
    /// Why no experiment is about it, if none can be.
    pub unmeasured: Option<String>,
    /// On record: the verdict of the first run, whatever became of it.
    pub first_run: Option<Verdict>,
    /// On record: the verdict of the last whole run.
    pub now: Option<Verdict>,
    /// On record: what was changed in the experiment since the first run, or chosen.
    pub mended: Option<String>,
    /// On record: why it says less than that no number was fitted on it.
    pub weak: Option<String>,
    /// Numbers of setup and finding, by name and unit.
    #[serde(default)]
    values: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    claim: Vec<Claim>,
}

impl Claim {
    /// A number of the paper. `NaN`, with which no check holds, if the claim has none of that name.
    pub fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(f64::NAN)
    }
}

/// The claims of one paper, such as "guo16", in the order of the file.
///
/// # Errors
/// What is wrong with the file, and where.
pub fn of_paper(paper: &str) -> Result<Vec<Claim>, toml::de::Error> {
    let file: File = toml::from_str(TEXT)?;
    let of = |claim: &Claim| claim.id.split('.').next() == Some(paper);
    Ok(file.claim.into_iter().filter(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_claim_has_a_name_of_its_own_and_a_band_where_it_is_a_number() {
        let file: File = toml::from_str(TEXT).unwrap();
        let mut ids: Vec<&str> = file.claim.iter().map(|claim| claim.id.as_str()).collect();
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!((ids.len(), count), (count, file.claim.len()));
        assert!(count > 45);
        for claim in &file.claim {
            assert_eq!(claim.band.is_some(), claim.kind == Kind::Number, "{}", claim.id);
        }
    }

    #[test]
    fn values_are_numbers_that_stand_in_the_text() {
        let file: File = toml::from_str(TEXT).unwrap();
        let mut seen = 0;
        for claim in &file.claim {
            let text = format!("{} {}", claim.setup, claim.finding);
            let number = |word: &str| word.parse().ok();
            let numbers: Vec<f64> = text
                .split(|of: char| !of.is_ascii_digit() && of != '.')
                .filter_map(|word| number(word.trim_end_matches('.')))
                .chain(text.contains("goodput is zero").then_some(0.0))
                .collect();
            for (name, value) in &claim.values {
                assert!(numbers.contains(value), "{}: {name} = {value}", claim.id);
                seen += 1;
            }
        }
        assert!(seen > 15);
        assert!(file.claim[0].value("no such").is_nan());
    }
}
