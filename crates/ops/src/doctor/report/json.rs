//! One object for scripts. Keys are only ever added.

use serde_json::{Value, json as object};

use crate::doctor::{Diagnosis, Finding, Place};

/// A diagnosis as JSON, in lines.
pub fn json(diagnosis: &Diagnosis, what: &str) -> String {
    let cluster = &diagnosis.cluster;
    let muted = diagnosis.muted.iter().map(|muted| {
        let mut value = finding(&muted.finding);
        value["reason"] = Value::from(muted.reason.as_str());
        value
    });
    let value = object!({
        "version": 1,
        "read": what,
        "switches": cluster.switches.len(),
        "hosts": cluster.hosts.len(),
        "links": cluster.links.len(),
        "findings": diagnosis.findings.iter().map(finding).collect::<Vec<_>>(),
        "muted": muted.collect::<Vec<_>>(),
        "not_judged": diagnosis.not_judged(),
    });
    format!("{value:#}\n")
}

fn finding(finding: &Finding) -> Value {
    let places: Vec<Value> = finding.places.iter().map(place).collect();
    let mut value = object!({
        "rule": finding.rule.id(),
        "title": finding.rule.title(),
        "severity": finding.severity.name().to_lowercase(),
        "device": finding.device,
        "key": finding.key,
        "text": finding.text,
        "cause": finding.rule.cause(),
        "remedy": finding.remedy,
        "commands": finding.commands,
        "places": places,
    });
    if let Some(difference) = &finding.difference {
        value["difference"] = object!({
            "key": difference.key,
            "desired": difference.desired,
            "running": difference.running,
            "since": difference.since,
        });
    }
    value
}

fn place(place: &Place) -> Value {
    object!({ "file": place.file, "line": place.line })
}
