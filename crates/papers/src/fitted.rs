//! What the numbers of testbeds were fitted on: it stands behind each in its file, so that a verdict cannot
//! be called a confirmation by mistake.

use bench::simulation::TESTBEDS;

/// What was fitted on a claim, and is no key of a testbed.
const BESIDE: [(&str, &str); 1] =
    [("le19.fig1.write-send", "the 0.7 us in which a server of le19 finds an object")];

/// The keys of testbeds that were fitted on a claim, each with its testbed, and what else was.
pub(crate) fn fitted(claim: &str) -> Vec<String> {
    let lines = TESTBEDS.iter().flat_map(|(name, text)| text.lines().map(move |line| (name, line)));
    let is_on = |source: &str| {
        source.match_indices("fitted on ").any(|(at, words)| {
            let named = source[at + words.len()..].split([' ', ':', ',', ';']).next();
            named.is_some_and(|named| named == claim)
        })
    };
    let keys = lines.filter_map(|(name, line)| {
        let (key, source) = line.split_once('#')?;
        let key = key.split('=').next().unwrap_or("").trim();
        is_on(source).then(|| format!("{key} of {name}"))
    });
    let beside = BESIDE.iter().filter(|(on, _)| *on == claim).map(|(_, what)| (*what).to_owned());
    keys.chain(beside).collect()
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
        assert_eq!(all, said + BESIDE.len());
        assert_eq!(fitted("zhang17.table3"), ["exit_us of cx3-56g-xeon"]);
        assert_eq!(
            fitted("zhang17.fig4b"),
            ["package_factor of cx3-56g-xeon", "exit_us of cx3-56g-xeon"]
        );
        assert_eq!(fitted("ma16.fig7.latency"), ["blueflame of cx3-40g-xeon"]);
        assert!(fitted("zhang17.fig3.cpu").is_empty());
    }
}
