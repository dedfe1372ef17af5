//! Every experiment of guo16 at its small scale, with the verdicts that it comes to there.

use papers::{Options, Verdict, guo16};

/// Claims that do not hold, at the small scale: docs/book/guo16.md says why.
const DO_NOT_HOLD: &[&str] = &[
    "guo16.buffer.alpha",
    "guo16.headroom",
    "guo16.fig7.ecmp-throughput",
    "guo16.fig8.latency-under-load",
];

#[test]
fn verdicts_are_those_that_the_book_explains() {
    let options = Options { quick: true, ..Options::default() };
    let study = guo16::run(None, options, &mut |_| {}).unwrap();
    let text = study.table();
    let failed: Vec<&str> = study
        .outcomes
        .iter()
        .filter(|outcome| outcome.verdict() == Verdict::DoesNotHold)
        .map(|outcome| outcome.claim.id.as_str())
        .collect();
    assert_eq!(failed, DO_NOT_HOLD, "{text}");
    assert!(study.outcomes.len() >= 16, "{text}");
    let drawn = study.outcomes.iter().flat_map(|outcome| &outcome.figures);
    for figure in drawn {
        assert!(!figure.table().is_empty(), "{}", figure.table().name());
    }
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let run = || {
        let options = Options { quick: true, seed: 7 };
        let study = guo16::run(Some("slow-receiver"), options, &mut |_| {}).unwrap();
        study.page("guo16")
    };
    assert_eq!(run(), run());
}
