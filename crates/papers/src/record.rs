//! What the claims about modelled hosts came to: on the first run, and now, as `studies/claims.toml` has it.

use crate::claims::{Claim, of_paper};
use crate::fitted::fitted;
use crate::table::block;
use crate::{Error, Verdict};

/// The papers whose experiments have modelled hosts.
const PAPERS: [&str; 3] = ["zhang17", "le19", "ma16"];

/// Every claim of those papers: whether numbers were fitted on it, its first verdict, the last, and what was
/// changed between.
///
/// # Errors
/// What is wrong with the file of the claims.
pub fn table() -> Result<String, Error> {
    let mut text = String::new();
    let (mut counts, mut weak) = ([[0; 2]; 3], 0);
    for paper in PAPERS {
        for claim in of_paper(paper).map_err(|error| Error::Claims(error.to_string()))? {
            let fitted = fitted(&claim.id);
            let said = |verdict: Option<Verdict>| verdict.map_or("not measured", Verdict::text);
            let what = match (fitted.is_empty(), &claim.weak) {
                (true, None) => "held out".to_owned(),
                (true, Some(weak)) => format!("held out, but {weak}"),
                (false, _) => fitted.join(", "),
            };
            let mended = claim.mended.as_deref().unwrap_or("");
            let title = format!("{}: {}", claim.id, said(claim.now));
            let rows =
                [("first run", said(claim.first_run)), ("fitted", &what), ("changed", mended)];
            text += &block(&title, &rows);
            count(&mut counts, &claim, fitted.is_empty());
            weak += u32::from(claim.weak.is_some() && holds(claim.first_run));
        }
    }
    let [out, fit] = [0, 1].map(|place| {
        let [all, first, now] = counts.map(|count| count[place]);
        format!("of {all} that were measured {first} held on the first run, and {now} do now")
    });
    let weak = format!(
        "Of those held out that held on the first run {weak} say less than that, as said in their rows."
    );
    let sums = [format!("held out: {out}"), format!("fitted: {fit}"), weak];
    text.push('\n');
    text.extend(sums.map(|sum| block(&sum, &[])));
    Ok(text)
}

fn holds(verdict: Option<Verdict>) -> bool {
    verdict.is_some_and(|of| of != Verdict::DoesNotHold)
}

/// Counts a claim that was measured, among those that are held out or those that are fitted: all, those that
/// held on the first run, and those that hold now.
fn count(counts: &mut [[u32; 2]; 3], claim: &Claim, is_held_out: bool) {
    let place = usize::from(!is_held_out);
    counts[0][place] += u32::from(claim.now.is_some());
    counts[1][place] += u32::from(holds(claim.first_run));
    counts[2][place] += u32::from(holds(claim.now));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_that_is_measured_has_a_record_and_no_other() {
        for paper in PAPERS {
            for claim in of_paper(paper).unwrap() {
                let id = &claim.id;
                assert_eq!(claim.now.is_none(), claim.unmeasured.is_some(), "{id}");
                // What was not measured first, or changed, says why.
                let changed = claim.first_run != claim.now;
                assert!(!changed || claim.mended.is_some(), "{id}");
                // The other column says that numbers were fitted.
                assert!(claim.weak.is_none() || fitted(id).is_empty(), "{id}");
            }
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_claim_and_counts_them() {
        let text = table().unwrap();
        for id in ["zhang17.table3:", "le19.jumbo:", "ma16.fig5.rc-uc-throughput:"] {
            assert!(text.lines().any(|line| line.starts_with(id)), "{id} in {text}");
        }
        assert!(text.contains("\nheld out: of "), "{text}");
    }
}
