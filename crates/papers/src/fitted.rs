//! What the numbers of testbeds were fitted on: it stands behind each in its file, so that a verdict cannot
//! be called a confirmation by mistake.

use bench::simulation::TESTBEDS;

/// The keys of testbeds that were fitted on a claim, each with its testbed.
pub(crate) fn fitted(claim: &str) -> Vec<String> {
    let lines = TESTBEDS.iter().flat_map(|(name, text)| text.lines().map(move |line| (name, line)));
    let is_on = |source: &str| {
        source.match_indices("fitted on ").any(|(at, words)| {
            let named = source[at + words.len()..].split([' ', ':', ',', ';']).next();
            named.is_some_and(|named| named == claim)
        })
    };
    lines
        .filter_map(|(name, line)| {
            let (key, source) = line.split_once('#')?;
            let key = key.split('=').next().unwrap_or("").trim();
            is_on(source).then(|| format!("{key} of {name}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::of_paper;

    #[test]
    fn what_was_fitted_names_claims_that_there_are() {
        let mut all = 0;
        for paper in ["le19", "zhang17", "ma16"] {
            for claim in of_paper(paper).unwrap() {
                all += fitted(&claim.id).len();
            }
        }
        let lines = TESTBEDS.iter().flat_map(|(_, text)| text.lines());
        let numbers = lines.filter(|line| !line.starts_with('#'));
        let said: usize = numbers.map(|line| line.matches(" fitted on ").count()).sum();
        assert_eq!(all, said);
        assert_eq!(fitted("zhang17.table3"), ["exit_us of cx3-56g-xeon"]);
        assert!(fitted("zhang17.fig4a").is_empty());
    }
}
