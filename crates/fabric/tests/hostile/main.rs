//! Files that are wrong, one by one: what is said about each names a line, a key, what was expected
//! and a remedy. None makes anything panic, or take memory or time for what is not there.

mod any;
mod config_dbs;
mod scenarios;

use std::path::Path;

use fabric::Network;
use fabric::scenario::Scenario;
use fabric::scenario::sonic::{Cable, ConfigDb};
use fabric::switch::config::SwitchConfig;

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
    let link = Cable { rate: rdma::Rate::from_gbps(100), propagation: rdma::Span::from_ns(25) };
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
}

#[test]
fn a_hostile_config_db_is_refused_with_line_table_key_and_remedy() {
    hold(CONFIG_DB, config_dbs::CASES, config_db);
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
