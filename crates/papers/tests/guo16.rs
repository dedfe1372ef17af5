//! Every experiment of guo16 at its small scale, with its verdicts there.

use papers::{Options, Verdict, guo16};

/// Claims that do not hold, at the small scale: docs/book/guo16.md says why.
const DO_NOT_HOLD: &[&str] = &["guo16.fig7.ecmp-throughput", "guo16.fig8.latency-under-load"];

/// Runs the experiments about `names`, and compares what does not hold.
fn check(names: &[&str]) {
    let options = Options { quick: true, ..Options::default() };
    for name in names {
        let study = guo16::run(Some(name), options, &mut |_| {}).unwrap();
        let text = study.table();
        assert!(!study.outcomes.is_empty() && study.later.is_empty(), "{name}: {text}");
        for outcome in &study.outcomes {
            let holds = outcome.verdict() != Verdict::DoesNotHold;
            assert_eq!(holds, !DO_NOT_HOLD.contains(&outcome.claim.id.as_str()), "{text}");
            for figure in &outcome.figures {
                assert!(!figure.table().is_empty(), "{}", figure.table().name());
            }
        }
    }
}

// Side by side, so that they take less time together.

#[test]
fn verdicts_about_livelock_deadlock_buffers_and_counters_are_those_of_the_book() {
    check(&["livelock", "deadlock", "slow-receiver", "dscp", "headroom", "counters", "config"]);
}

#[test]
fn verdicts_about_probes_are_those_of_the_book() {
    check(&["pingmesh"]);
}

#[test]
fn verdicts_about_storms_are_those_of_the_book() {
    check(&["storm"]);
}

#[test]
fn verdicts_about_alpha_and_latency_are_those_of_the_book() {
    check(&["buffer", "fig6", "fig8"]);
}

#[test]
fn verdicts_about_throughput_are_those_of_the_book() {
    check(&["fig7"]);
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let run = || {
        let options = Options { quick: true, seed: 7, soft: false };
        let study = guo16::run(Some("counters"), options, &mut |_| {}).unwrap();
        study.page("guo16")
    };
    assert_eq!(run(), run());
}
