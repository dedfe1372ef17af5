//! A study as a page: the table of verdicts, then each claim with its checks and figures.

use telemetry::{Block, Cell, Page, Table};

use crate::{Check, Figure, OnSoft, Outcome, Study, Verdict};

/// What stands under the title, behind "Simulated".
const MODEL: &str = "packet by packet, with the transport engine of the soft NIC in every server. \
                     What the paper says is drawn as dashed lines.";

impl Study {
    /// One HTML file with everything in it; `paper` is the name of the paper.
    pub fn page(&self, paper: &str) -> String {
        let title = format!("{} ({paper})", crate::title(paper));
        let mut page = Page::simulated(&title, MODEL);
        page.section("Verdicts");
        let mut table = Table::new("verdicts")
            .texts("claim")
            .texts("where")
            .texts("what_the_paper_says")
            .texts("verdict");
        for outcome in &self.outcomes {
            let claim = &outcome.claim;
            let verdict = outcome.verdict().text();
            let row = [claim.id.as_str(), &claim.place, &claim.finding, verdict];
            table.push(row.map(Cell::Text));
        }
        for claim in &self.later {
            let why = claim.unmeasured.as_deref().unwrap_or("later");
            let verdict = format!("not measured here: {why}");
            let row = [claim.id.as_str(), &claim.place, &claim.finding, &verdict];
            table.push(row.map(Cell::Text));
        }
        page.add(&Block::Text(&format!("{}.", self.count())));
        page.add(&Block::Table(&table, ""));
        for outcome in &self.outcomes {
            add(&mut page, outcome);
            let same = |of: &&Outcome| of.claim.id == outcome.claim.id;
            let soft = self.soft.iter().flat_map(|soft| &soft.outcomes);
            if let (Some(on_soft), Some(soft)) = (soft.clone().find(same), &self.soft) {
                add_soft(&mut page, on_soft, soft);
            }
        }
        page.to_html()
    }
}

fn add(page: &mut Page, outcome: &Outcome) {
    let Outcome { claim, ran, scale, measured, checks, figures } = outcome;
    page.section(&format!("{}: {}", claim.id, outcome.verdict().text()));
    page.add(&Block::Text(&format!(
        "The paper ({}, {}): {}. Its setup: {}.",
        claim.place,
        claim.kind.text(),
        claim.finding,
        claim.setup
    )));
    let smaller = scale.as_ref().map_or_else(String::new, |scale| format!(" Scale: {scale}."));
    page.add(&Block::Text(&format!("Run: {ran}.{smaller}")));
    page.add(&Block::Text(&format!("Measured: {measured}.")));
    let fitted = outcome.fitted();
    if !fitted.is_empty() {
        let text = format!("No confirmation, as numbers were fitted on it: {}.", fitted.join(", "));
        page.add(&Block::Text(&text));
    }
    add_checks(page, checks);
    if outcome.verdict() == Verdict::DoesNotHold {
        page.add(&Block::Notice(&outcome.verdict_text()));
    }
    add_figures(page, figures);
}

/// The same on soft NICs.
fn add_soft(page: &mut Page, outcome: &Outcome, soft: &OnSoft) {
    page.add(&Block::Text(&format!(
        "The same experiment, measured on {}: {}. As in the paper? {}.",
        soft.about,
        outcome.measured,
        outcome.likeness()
    )));
    add_checks(page, &outcome.checks);
    add_figures(page, &outcome.figures);
}

fn add_checks(page: &mut Page, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    let fails = checks.iter().any(|check| check.reason.is_some());
    let mut table = Table::new("checks").texts("check").texts("holds");
    if fails {
        table = table.texts("why_not");
    }
    for check in checks {
        let holds = Cell::Text(if check.holds { "yes" } else { "no" });
        let row = [Cell::Text(&check.text), holds, check.reason.as_deref().into()];
        table.push(row.into_iter().take(if fails { 3 } else { 2 }));
    }
    page.add(&Block::Table(&table, ""));
}

fn add_figures(page: &mut Page, figures: &[Figure]) {
    for figure in figures {
        let table = figure.table();
        page.add(&Block::Figure(&figure.draw(&table)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::of_paper;
    use crate::draws::Spread;
    use crate::figure::Mark;

    #[test]
    fn a_page_says_what_the_paper_says_and_what_does_not_hold() {
        let mut claims = of_paper("guo16").unwrap();
        let mut figure = Figure::new("f", "a picture", Mark::Line);
        figure.point("a", 1.0, 2.0);
        let outcome = Outcome {
            claim: claims.remove(0),
            ran: "nothing".to_owned(),
            scale: None,
            measured: "a <b>".to_owned(),
            checks: vec![Check::event("it moves", false).because("it is broken")],
            figures: vec![figure],
        };
        let on_soft = Outcome { measured: "a soft one".to_owned(), ..outcome.clone() };
        let soft = OnSoft {
            about: "soft NICs of a test".to_owned(),
            outcomes: vec![on_soft],
            again: vec![("guo16.first".to_owned(), Spread::from(vec![1.5]))],
            failed: Vec::new(),
        };
        let unlike = vec![("guo16.first".to_owned(), Verdict::Holds)];
        let study = Study { outcomes: vec![outcome], later: claims, soft: Some(soft), unlike };
        let table = study.table();
        for text in [
            "soft NICs of a test",
            "0 of 1 checks",
            "guo16.first again, over itself: 1.50",
            "guo16.first: on record it is \"holds\"\n",
        ] {
            assert!(table.contains(text), "{text} in {table}");
        }
        let page = study.page("guo16");
        assert!(page.contains("<h1>RDMA over Commodity Ethernet at Scale (guo16)</h1>"));
        assert!(page.contains("measured on soft NICs of a test: a soft one"));
        for text in ["goodput is zero while", "a &lt;b&gt;", "it is broken", "a picture", "later"] {
            assert!(page.contains(text), "{text}");
        }
    }
}
