//! Faults on the shipped cluster, in the simulator.

use std::path::Path;

use ops::doctor::what_if::{Draw, Trial, WhatIf, json, text};
use ops::doctor::{Diagnosis, Folder};

fn folder(name: &str) -> Folder {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    Folder::read(&at).expect("the example is in the repository")
}

fn drawn(folder: &Folder, what: WhatIf, at: Option<&str>, draws: u64) -> (Trial, Vec<Draw>) {
    let trial = Trial::new(&Diagnosis::of(folder, None, None), what, at, draws).expect("a network");
    let all = (0..draws).map(|number| trial.draw(number).expect("a draw")).collect();
    (trial, all)
}

fn victims(draw: &Draw, column: usize) -> usize {
    draw.outcomes[column].hosts.iter().flatten().filter(|fate| fate.is_victim()).count()
}

/// guo16, 6.2: at 1/64 a ToR pauses for bursts that it has room for at 1/16, and messages of others take longer.
#[test]
fn the_tor_with_the_small_alpha_pauses_where_the_desired_one_does_not() {
    let (trial, draws) = drawn(&folder("cluster"), WhatIf::Incast, Some("h7"), 3);
    let told = text(&trial, &draws, "examples/cluster");
    let of_tor_4 = |column: usize| draws.iter().map(move |draw| draw.outcomes[column].pauses[11]);
    assert!(told.contains("tor-4  "), "{told}");
    assert!(of_tor_4(0).all(|[with, without]| with > 0 && without == 0), "{told}");
    assert!(of_tor_4(1).all(|[with, _]| with == 0), "{told}");
    let all = |column| draws.iter().map(|draw| victims(draw, column)).sum::<usize>();
    assert!(all(0) > all(1), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    // The same again, to the byte.
    let (_, again) = drawn(&folder("cluster"), WhatIf::Incast, Some("h7"), 3);
    assert_eq!(draws, again);
    let value: serde_json::Value = serde_json::from_str(&json(&trial, &draws, "it")).expect("JSON");
    assert_eq!(value["draws"][0]["at"], "h7");
    assert_eq!(value["draws"][0]["outcomes"][1]["configuration"], "desired");
}

/// guo16, 4.3 and 6.2: without watchdogs one NIC stops others for good; with them it does not.
#[test]
fn watchdogs_end_a_storm_and_who_has_none_stands_still() {
    let mut without = folder("cluster-healthy");
    for file in without.files.iter_mut().filter(|file| file.path.ends_with("config_db.json")) {
        let mut value: serde_json::Value = serde_json::from_slice(&file.bytes).expect("JSON");
        value.as_object_mut().expect("an object").remove("PFC_WD");
        file.bytes = value.to_string().into_bytes();
    }
    // What is desired has watchdogs.
    let (trial, draws) = drawn(&without, WhatIf::Storm, None, 4);
    let told = text(&trial, &draws, "cluster");
    for draw in &draws {
        assert_eq!(draw.outcomes[0].detected, 0, "{told}");
        assert!(draw.outcomes[1].detected > 0, "{told}");
    }
    let all = |column| draws.iter().map(|draw| victims(draw, column)).sum::<usize>();
    assert!(all(0) > 0, "{told}");
    let hosts: std::collections::BTreeSet<u32> = draws.iter().map(|draw| draw.at).collect();
    assert_eq!(hosts.len(), 4, "each draw takes another server");
}

#[test]
fn a_dead_server_is_simulated_as_well_and_without_a_desired_file() {
    let mut folder = folder("cluster-healthy");
    folder.files.retain(|file| file.path != "desired.toml");
    let (trial, draws) = drawn(&folder, WhatIf::DeadServer, Some("h2"), 1);
    assert_eq!(draws[0].outcomes.len(), 1);
    assert_eq!(draws[0].outcomes[0].hosts[2], None, "it is no victim of its own");
    let told = text(&trial, &draws, "cluster");
    assert!(told.contains("assumed: there is no desired.toml"), "{told}");
}

#[test]
fn what_cannot_be_simulated_is_said_with_a_hint() {
    let mut alone = folder("cluster-healthy");
    alone.files.retain(|file| file.path.starts_with("tor-1/"));
    let diagnosis = Diagnosis::of(&alone, None, None);
    let error = Trial::new(&diagnosis, WhatIf::Storm, None, 8).unwrap_err().to_string();
    assert!(
        error.starts_with("0 hosts have a link") && error.contains("\nhint: add lldp.json"),
        "{error}"
    );
    let diagnosis = Diagnosis::of(&folder("cluster-healthy"), None, None);
    let error = Trial::new(&diagnosis, WhatIf::Storm, Some("h99"), 8).unwrap_err().to_string();
    assert!(error.contains("\"h99\"") && error.contains("hint: there are h0, h1"), "{error}");
}

/// What of a switch is not understood is assumed, and said.
#[test]
fn a_switch_that_is_not_understood_is_assumed_and_said() {
    for (old, new, words) in [
        (
            "\"pfc_enable\": \"3,4\"",
            "\"pfc_enable\": \"3-4\"",
            "assumed: tor-1: Ethernet0 cannot be",
        ),
        ("\"AZURE_LOSSLESS\"\n", "\"NOPE\"\n", "assumed: tor-1: ECN marks of Ethernet0"),
        ("pg_lossless_100000_5m_profile\"\n", "NOPE\"\n", "assumed: tor-1: buffers of Ethernet0"),
    ] {
        let mut folder = folder("cluster-healthy");
        let file = folder.files.iter_mut().find(|file| file.path == "tor-1/config_db.json");
        let file = file.expect("it is there");
        let config = String::from_utf8(file.bytes.clone()).expect("ours are UTF-8");
        assert!(config.contains(old), "{old}");
        file.bytes = config.replacen(old, new, 1).into();
        let (trial, draws) = drawn(&folder, WhatIf::Storm, Some("h2"), 1);
        let told = text(&trial, &draws, "cluster");
        assert!(told.contains(words) && told.contains("(FD000)"), "{told}");
    }
}
