//! What doctor writes as SARIF has every field that the schema of SARIF 2.1.0 requires, and values that it allows.

use std::path::Path;

use ops::doctor::{Diagnosis, File, Folder, Rule, report};
use serde_json::Value;

fn sarif(mute: bool) -> Value {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster");
    let mut folder = Folder::read(&at).expect("the example is in the repository");
    let mut more = vec![File::new("odd #1: a folder/config_db.json", "{")];
    if mute {
        let text = "[[mute]]\nrule = \"FD001\"\nreason = \"known\"\n";
        more.push(File::new("doctor.toml", text));
    }
    folder = Folder::of(folder.files.into_iter().chain(more));
    serde_json::from_str(&report::sarif(&Diagnosis::of(&folder, None, None))).expect("JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is required: {value:#}"))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is a list: {value:#}"))
}

/// A message has a text (3.11.8), here one that is not empty.
fn message(value: &Value) {
    assert!(!text(value, "text").is_empty(), "{value:#}");
}

fn location(value: &Value) {
    let physical = &value["physicalLocation"];
    let uri = text(&physical["artifactLocation"], "uri");
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~/!$&'()*+,;=@%".contains(c);
    assert!(!uri.starts_with('/') && uri.chars().all(allowed), "a relative reference: {uri}");
    if let Some(region) = physical.get("region") {
        assert!(region["startLine"].as_u64().is_some_and(|line| line >= 1), "{region:#}");
    }
    for logical in list(value, "logicalLocations") {
        assert!(!text(logical, "fullyQualifiedName").is_empty());
    }
}

#[test]
fn sarif_has_what_its_schema_requires() {
    let log = sarif(true);
    assert_eq!(text(&log, "version"), "2.1.0");
    assert!(text(&log, "$schema").ends_with("sarif-schema-2.1.0.json"));
    let [run] = list(&log, "runs") else { panic!("one run") };
    let driver = &run["tool"]["driver"];
    assert_eq!(text(driver, "name"), "ferroce doctor");
    assert_eq!(text(run, "columnKind"), "unicodeCodePoints");
    let rules = list(driver, "rules");
    let ids: Vec<&str> = rules.iter().map(|rule| text(rule, "id")).collect();
    assert_eq!(ids, Rule::ALL.map(Rule::id), "each once, in order");
    let levels = ["none", "note", "warning", "error"];
    for rule in rules {
        message(&rule["shortDescription"]);
        message(&rule["fullDescription"]);
        message(&rule["help"]);
        assert!(text(rule, "helpUri").starts_with("https://"));
        assert!(levels.contains(&text(&rule["defaultConfiguration"], "level")));
    }
    let results = list(run, "results");
    assert_eq!(results.len(), 6);
    for result in results {
        message(&result["message"]);
        assert!(levels.contains(&text(result, "level")));
        let index = result["ruleIndex"].as_u64().expect("a number") as usize;
        assert_eq!(ids.get(index), Some(&text(result, "ruleId")));
        list(result, "locations").iter().for_each(location);
        assert_eq!(list(result, "locations").len(), 1, "one, as code hosts want it: {result:#}");
        for related in
            result.get("relatedLocations").iter().flat_map(|all| all.as_array()).flatten()
        {
            location(related);
        }
        let prints = result["partialFingerprints"].as_object().expect("an object");
        assert!(!prints.is_empty() && prints.values().all(Value::is_string));
        for suppression in
            result.get("suppressions").iter().flat_map(|all| all.as_array()).flatten()
        {
            assert!(["inSource", "external"].contains(&text(suppression, "kind")));
        }
    }
    let muted = results.iter().filter(|result| result.get("suppressions").is_some());
    assert_eq!(muted.count(), 1);
}

#[test]
fn fingerprints_tell_findings_apart_and_stay() {
    let of = |log: &Value| -> Vec<String> {
        let results = log["runs"][0]["results"].as_array().expect("a list").iter();
        results.map(|result| result["partialFingerprints"].to_string()).collect()
    };
    let (mut plain, mut muted) = (of(&sarif(false)), of(&sarif(true)));
    plain.sort();
    muted.sort();
    assert_eq!(plain, muted, "what is muted is the same finding");
    plain.dedup();
    assert_eq!(plain.len(), 6);
}
