//! Experiments without verbs: programs of the shell, events and simulated rows; and that nothing is left of them.

use core::cell::Cell;
use std::path::PathBuf;

use fabric::scenario::experiment::Experiment;
use lab::experiment::{self, Orders, Report, Verdict};

const NETWORK: &str = r#"
[scenario]
end_ms = 2
topology = { shape = "single-switch", hosts = 2, rate_gbps = 1, cable_m = 2 }
lab = { factor = 1 }
workload = [{ kind = "flow", from = "h0", to = "h1", message_bytes = 100_000 }]
"#;

fn run(text: &str, stop_after: u32) -> Report {
    run_rows(text, &[], stop_after)
}

fn run_rows(text: &str, rows: &[&str], stop_after: u32) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("title = \"a test\"\nlimit_s = 20\n{text}\n{NETWORK}");
    let made =
        Experiment::parse_in(&text, folder.path(), None).unwrap_or_else(|error| panic!("{error}"));
    let orders = Orders {
        // Programs here are no hosts.
        ferroce: PathBuf::from("/nonexistent"),
        quick: false,
        draws: None,
        rows: rows.iter().map(ToString::to_string).collect(),
        here: folder.path().to_owned(),
        folder: folder.path().to_owned(),
    };
    let asked = Cell::new(0);
    let stops = || {
        asked.set(asked.get() + 1);
        asked.get() > stop_after
    };
    experiment::run(&made, &orders, &mut |_| {}, &stops).unwrap_or_else(|error| panic!("{error}"))
}

fn problems(report: &Report) -> String {
    report.runs.iter().flat_map(|run| run.problems.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn programs_start_in_their_order_and_their_numbers_are_read_and_bounded() {
    let report = run(
        r#"
[[program]]
name = "second"
after_end = ["first"]
command = "sh -c 'cat {folder}/told; echo rate 7 {port:a}'"
prints = ["^hello$"]
numbers = [{ name = "rate", pattern = '^rate (\d+)' }]

[[program]]
name = "first"
command = "sh -c 'echo hello > {folder}/told'"

[[expect]]
measure = "second.rate"
at_least = 7
at_most = 7

[[expect]]
measure = "second.rate"
at_least = 8

[[expect]]
measure = "drops"
equals = 0
"#,
        u32::MAX,
    );
    assert_eq!(problems(&report), "");
    let verdicts: Vec<Verdict> = report.judged.iter().map(|judged| judged.verdict).collect();
    assert_eq!(verdicts, [Verdict::Met, Verdict::Missed, Verdict::Met]);
    assert!(!report.is_met());
    let text = report.to_string();
    assert!(text.contains("expected at least 8, seen 7"), "{text}");
    assert!(text.contains("1 of 3 expectations were MISSED"), "{text}");
}

#[test]
fn what_does_not_end_as_it_was_to_is_told() {
    let report = run(
        r#"
[[program]]
name = "fails"
command = "sh -c 'echo why >&2; exit 3'"

[[program]]
name = "was to fail"
command = "true"
ends = "failure"

[[program]]
name = "is killed"
command = "sleep 60"
ends = "killed"

[[program]]
name = "stays"
command = "sleep 60"
ends = "stays"

[[program]]
name = "says nothing"
command = "true"
prints = ["^something"]

[[program]]
name = "is not there"
command = "/nonexistent/program"

[[event]]
at_ms = 20
signal = "KILL"
program = "is killed"
"#,
        u32::MAX,
    );
    let problems = problems(&report);
    for told in [
        "fails ended with status 3, and not with status 0\n      | why",
        "was to fail ended with status 0, and was to fail",
        "says nothing has printed no line like \"^something\"",
        "is not there: cannot start /nonexistent/program",
    ] {
        assert!(problems.contains(told), "{problems}");
    }
    assert!(!problems.contains("stays") && !problems.contains("is killed"), "{problems}");
}

#[test]
fn what_has_left_its_process_group_ends_with_the_run() {
    let report = run(
        r#"
[[program]]
name = "leaves"
command = "sh -c 'setsid sh -c \"setsid sleep 60 & echo inner \\$!; wait\" & echo outer $!; sleep 0.5'"
numbers = [
    { name = "outer", pattern = '^outer (\d+)' },
    { name = "inner", pattern = '^inner (\d+)' },
]
"#,
        u32::MAX,
    );
    assert_eq!(problems(&report), "");
    let processes = &report.runs[0].numbers;
    assert_eq!(processes.len(), 2, "{report}");
    for (name, process) in processes {
        let entry = format!("/proc/{process}");
        assert!(!std::path::Path::new(&entry).exists(), "{name} lives on as {process}");
    }
}

#[test]
fn who_waits_for_what_never_comes_is_not_waited_for() {
    let report = run(
        r#"
[[program]]
name = "server"
command = "true"
ready_port = "{port:never}"

[[program]]
name = "client"
after = ["server"]
command = "true"
"#,
        u32::MAX,
    );
    assert!(
        problems(&report).contains("client waits for server, which has ended before it was ready")
    );
    let report = run("[[program]]\nname = \"long\"\ncommand = \"sleep 60\"\n", 50);
    assert!(report.runs.is_empty(), "what was interrupted says nothing: {}", problems(&report));
}

#[test]
fn a_simulated_row_is_held_against_others_and_events_happen_in_it() {
    let report = run(
        r#"
draws = 3

[[row]]
name = "whole"
simulated = true

[[row]]
name = "lossy"
simulated = true

[[event]]
rows = ["lossy"]
at_ms = 0.2
fault = { kind = "drop", from = "h0", to = "s0", every = 10 }

[[expect]]
measure = "drops rule"
rows = ["lossy"]
at_least = 3

[[expect]]
measure = "port s0:h1 SAI_QUEUE_STAT_PACKETS:*"
rows = ["lossy"]
than_row = "whole"
at_least = 0.5

[[expect]]
measure = "drops"
rows = ["whole"]
to_ms = 1
equals = 0
"#,
        u32::MAX,
    );
    assert!(report.is_met(), "{report}\n{}", problems(&report));
    assert_eq!(report.runs.len(), 6);
    assert!(report.to_string().contains("in 3 draws"), "{report}");
}

#[test]
fn what_is_not_to_happen_happens_in_no_draw() {
    let report = run(
        r#"
draws = 3

[[program]]
name = "counts"
command = "sh -c 'echo first >> {here}/draws; echo lost $(test $(wc -l < {here}/draws) = 2; echo $((1 - $?)))'"
numbers = [{ name = "lost", pattern = '^lost (\d+)' }]

[[expect]]
measure = "counts.lost"
equals = 0

[[expect]]
measure = "counts.lost"
at_most = 0

[[expect]]
measure = "counts.lost"
at_most = 0.5
"#,
        u32::MAX,
    );
    let verdicts: Vec<Verdict> = report.judged.iter().map(|judged| judged.verdict).collect();
    assert_eq!(verdicts, [Verdict::Missed, Verdict::Missed, Verdict::Met], "{report}");
    let text = report.to_string();
    let told = "expected 0 in every draw, seen 0 (0 to 1 in 3 draws), met by 2 of them";
    assert!(text.contains(told), "{text}");
}

#[test]
fn expectations_of_rows_that_were_not_run_are_counted() {
    let text = r#"
[[row]]
name = "one"
simulated = true

[[row]]
name = "two"
simulated = true

[[expect]]
rows = ["one"]
measure = "port s0:h1 SAI_QUEUE_STAT_PACKETS:*"
than_row = "two"
at_least = 0.5

[[expect]]
measure = "drops"
rows = ["one"]
equals = 0
"#;
    let verdict = |rows: &[&str]| {
        let report = run_rows(text, rows, u32::MAX);
        assert!(report.is_met(), "{report}");
        let report = report.to_string();
        report[report.find("a test: ").unwrap()..].to_owned()
    };
    assert_eq!(verdict(&[]), "a test: all 2 expectations were met\n");
    assert_eq!(
        verdict(&["one"]),
        "a test: 1 of 2 expectations were judged, and met; rows of the others were not run\n"
    );
    assert_eq!(
        verdict(&["two"]),
        "a test: none of 2 expectations was judged: rows of theirs were not run\n"
    );
}

#[test]
fn a_measure_or_an_expression_that_is_none_is_told_with_its_line() {
    let refused = |text: &str| {
        let text = format!("{text}\n{NETWORK}");
        let made = Experiment::parse_in(&text, std::path::Path::new("."), None).unwrap();
        experiment::check(&made).unwrap_err().to_string()
    };
    let expect =
        "[[program]]\nname = \"a\"\ncommand = \"true\"\n[[expect]]\nequals = 1\nmeasure = ";
    let error = refused(&format!("{expect}\"drop\""));
    assert_eq!(
        error,
        "line 6: expect.measure: there is no measure \"drop\"\nhint: did you mean drops?"
    );
    let error = refused("[[program]]\nname = \"a\"\ncommand = \"true\"\nprints = [\"(\"]");
    assert!(error.starts_with("line 3: program a: \"(\" is no expression"), "{error}");
}
