//! Files that are wrong, one by one: what is said about each names a line, a key, what was expected
//! and a remedy. None makes anything panic, or take memory or time for what is not there.

mod any;
mod config_dbs;
mod controllers;
mod extensions;
mod jobs;
mod scenarios;

use std::path::Path;

use fabric::Network;
use fabric::scenario::Scenario;
use fabric::scenario::sonic::ConfigDb;
use fabric::switch::config::SwitchConfig;
use fabric::topology::Cables;

const SCENARIO: &str = r#"
title = "small"
end_ms = 1

[topology]
shape = "single-switch"
hosts = 3
rate_gbps = 40
cable_m = 2

[switch]
alpha = "1/16"

[[workload]]
kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000
"#;

const CONFIG_DB: &str = include_str!("../../../../scenarios/sonic/td3-tor.json");

/// Everything up to a network that could run.
fn scenario(text: &str) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scenario = Scenario::parse_in(text, folder, None).map_err(|error| error.to_string())?;
    match Network::new(scenario.network) {
        Ok(_) => Ok(()),
        Err(error) => Err(scenario.origin.explain(&error).to_string()),
    }
}

/// Everything up to the settings of a switch of four ports.
fn config_db(text: &str) -> Result<(), String> {
    let link = Cables { rate: rdma::Rate::from_gbps(100), propagation: rdma::Span::from_ns(25) };
    let db = ConfigDb::parse(text).map_err(|error| error.to_string())?;
    let made = db.switch(&[link; 4], None, None, &SwitchConfig::default());
    made.map(|_| ()).map_err(|error| error.to_string())
}

/// Holds what `read` says about each case against what it should say.
fn hold(text: &str, cases: &[(&str, &str, &str)], read: fn(&str) -> Result<(), String>) {
    assert_eq!(read(text), Ok(()));
    let mut wrong = Vec::new();
    for (index, (good, bad, expected)) in cases.iter().enumerate() {
        let hostile = text.replacen(good, bad, 1);
        assert_ne!(hostile, text, "case {index} changes nothing: {good}");
        let said = read(&hostile).err().unwrap_or_else(|| "it is accepted".to_owned());
        if said != *expected {
            wrong.push(format!("case {index}, {bad}\n{said}\n"));
        }
        let complete = said.starts_with("line ") && said.contains("\nhint: ");
        assert!(complete, "a line and a remedy: {said}");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_hostile_scenario_is_refused_with_line_key_and_remedy() {
    hold(SCENARIO, scenarios::CASES, scenario);
    hold(SCENARIO, controllers::CASES, scenario);
    hold(SCENARIO, jobs::CASES, scenario);
}

#[test]
fn a_hostile_config_db_is_refused_with_line_table_key_and_remedy() {
    hold(CONFIG_DB, config_dbs::CASES, config_db);
}

/// What is said of a number beyond its bounds has its unit, and the reason where there is one.
#[test]
fn a_number_beyond_its_bounds_is_refused_with_unit_and_reason() {
    let capture = "\n[[capture]]\nnode = \"s0\"\nsnap_bytes = 64";
    let watchdog = "watchdog = { poll_ms = 0, detection_ms = 1, restoration_ms = 1 }";
    let drop = "\n[[fault]]\nkind = \"drop\"\nfrom = \"h0\"\nto = \"s0\"\nevery = 0";
    let after = "message_bytes = 100000";
    for (key, text, expected) in [
        (after, capture, "capture.snap_bytes: 64 bytes would cut through headers"),
        ("cable_m = 2", "cable_m = 40_000_001", "40000001 m is more than once around the earth"),
        ("alpha = \"1/16\"", watchdog, "poll_ms: 0 ms is less than a microsecond"),
        (
            "alpha = \"1/16\"",
            "weights = [1, 1, 1, 0, 1, 1, 1, 1]",
            "switch.weights: 0 is not a weight from 1 to 255",
        ),
        (
            after,
            "message_bytes = 2_147_483_649",
            "2147483649 bytes is more than 2147483648, the longest message",
        ),
        (after, "interval_us = 0", "0 us would begin all messages at one time"),
        (after, drop, "fault.every: 0 is not a number of packets"),
        ("end_ms = 1", "sample_us = 0", "sample_us: 0 us is no distance between samples"),
    ] {
        let kept = if text.starts_with(&key[..4]) { "" } else { key };
        let said = scenario(&SCENARIO.replacen(key, &format!("{kept}\n{text}"), 1)).unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
}

/// Of several mistakes the first in the file is told, in whichever tables they are.
#[test]
fn the_first_mistake_is_told() {
    let mistakes = [
        ("rate_gbps = 40", "rate_gbps = 0", 8),
        ("cable_m = 2", "cable = 2", 9),
        ("alpha = \"1/16\"", "alpha = \"1/15\"", 12),
        ("receiver = \"h0\"", "receiver = \"h9\"", 16),
        ("senders = 2", "sender = 2", 17),
        ("message_bytes = 100000", "message_bytes = -1", 18),
        ("\n", "\nnothing = 0", 2),
    ];
    for (index, first) in mistakes.iter().enumerate() {
        for second in &mistakes[index + 1..] {
            let text = SCENARIO.replacen(first.0, first.1, 1).replacen(second.0, second.1, 1);
            let said = scenario(&text).unwrap_err();
            let both_in_table = (first.2, second.2) == (16, 17) || (first.2, second.2) == (16, 18);
            let line = if both_in_table { second.2 } else { first.2.min(second.2) };
            let line = if second.0 == "\n" { 2 } else { line };
            assert!(said.starts_with(&format!("line {line}: ")), "{line}: {said}");
        }
    }
    // Tables stand in any order.
    let (network, workload) = SCENARIO.split_once("[[workload]]").unwrap();
    let (head, network) = network.split_once("[topology]").unwrap();
    let turned = format!("{head}[[workload]]{workload}[topology]{network}");
    let text =
        turned.replace("\"incast\"", "\"incats\"").replace("rate_gbps = 40", "rate_gbps = 0");
    assert!(scenario(&text).unwrap_err().starts_with("line 6: "), "{text}");
}

#[test]
fn what_never_happens_is_said() {
    let warnings = |text: &str| -> Vec<String> {
        let scenario = Scenario::parse(text, None).unwrap();
        assert!(scenario.notes.iter().all(|note| note.warning));
        scenario.notes.into_iter().map(|note| note.text).collect()
    };
    assert_eq!(warnings(SCENARIO), [""; 0]);
    let (idle, _) = SCENARIO.split_once("[[workload]]").unwrap();
    assert_eq!(warnings(idle), ["no application does anything: add a [[workload]]"]);
    let alone = SCENARIO.replace("hosts = 3", "hosts = 1");
    let (alone, _) = alone.split_once("kind = \"incast\"").unwrap();
    assert_eq!(
        warnings(&format!("{alone}kind = \"permutation\"\nmessage_bytes = 1\n")),
        ["line 15: workload.kind: nothing is sent, with so few hosts, or in so little time"]
    );
    let fault = "[[fault]]\nkind = \"host-dies\"\nhost = \"h0\"\nat_us = 1_001\n";
    assert_eq!(
        warnings(&format!("{SCENARIO}{fault}")),
        ["line 22: fault.at_us is after the end of the run, 1.000 ms: the fault never happens"]
    );
    let late = SCENARIO.replace("senders = 2", "senders = 2\nstart_us = 2_000");
    assert_eq!(
        warnings(&late),
        ["line 18: workload.start_us is after the end of the run, 1.000 ms: nothing of it is sent"]
    );
}

/// Nobody is there to be asked, or to ask.
const NO_HOSTS: &str = r#"
end_ms = 1

[topology]
shape = "links"
rate_gbps = 40
cable_m = 2
switch = [{ name = "s0", tier = 0 }]

[[workload]]
kind = "queries"
queriers = []
fan_out = 1
message_bytes = 100
reply_bytes = 100
interval_us = 1
"#;

#[test]
fn a_question_to_nobody_is_refused() {
    assert_eq!(
        scenario(NO_HOSTS).unwrap_err(),
        "line 13: workload.fan_out: 1 of 0 other hosts\nhint: at least 1, and not more than there are"
    );
}
