//! SARIF 2.1.0 (OASIS, errata 01), which code hosts and editors show beside the line.

use serde_json::{Value, json};

use crate::doctor::explain::explain;
use crate::doctor::{Diagnosis, Finding, Rule, Severity};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
const PAGE: &str = "https://github.com/ferroce/ferroce/blob/main/docs/book/doctor-rules.md";

/// A diagnosis as SARIF, in lines. Files are relative to the folder.
pub fn sarif(diagnosis: &Diagnosis) -> String {
    let rules: Vec<Value> = Rule::ALL.into_iter().map(rule).collect();
    let results = diagnosis.findings.iter().map(|finding| result(finding, None));
    let muted =
        diagnosis.muted.iter().map(|muted| result(&muted.finding, Some(muted.reason.as_str())));
    let value = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "ferroce doctor",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": "https://github.com/ferroce/ferroce",
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results.chain(muted).collect::<Vec<_>>(),
        }],
    });
    format!("{value:#}\n")
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn rule(rule: Rule) -> Value {
    // Headings of the page are "## FD003 a lossless class ...".
    let heading = explain(rule).lines().next().unwrap_or_default().to_lowercase();
    let kept = |c: char| c.is_alphanumeric() || c == ' ' || c == '-';
    let anchor: String = heading.chars().filter(|&c| kept(c)).collect();
    json!({
        "id": rule.id(),
        "shortDescription": { "text": rule.title() },
        "fullDescription": { "text": rule.cause() },
        "help": { "text": explain(rule), "markdown": explain(rule) },
        "helpUri": format!("{PAGE}#{}", anchor.replace(' ', "-")),
        "defaultConfiguration": { "level": level(rule.severity()) },
    })
}

fn result(finding: &Finding, muted: Option<&str>) -> Value {
    let index = Rule::ALL.iter().position(|rule| *rule == finding.rule);
    let mut message = format!("{}: {}", finding.device, finding.text);
    if let Some(difference) = &finding.difference {
        message += &format!(" Desired: {}; running: {}.", difference.desired, difference.running);
    }
    if !finding.remedy.is_empty() {
        message += &format!(" Remedy: {}.", finding.remedy);
    }
    for command in &finding.commands {
        message += &format!(" Type: {command}");
    }
    let places = finding.places.iter().map(|place| {
        let mut physical = json!({ "artifactLocation": { "uri": uri(&place.file) } });
        if let Some(line) = place.line {
            physical["region"] = json!({ "startLine": line.max(1) });
        }
        json!({
            "physicalLocation": physical,
            "logicalLocations": [{ "fullyQualifiedName": format!("{}/{}", finding.device, finding.key) }],
        })
    });
    let mut places = places.collect::<Vec<_>>();
    let others = places.split_off(places.len().min(1));
    let mut value = json!({
        "ruleId": finding.rule.id(),
        "ruleIndex": index,
        "level": level(finding.severity),
        "message": { "text": message },
        "locations": places,
        "partialFingerprints": {
            "finding/v1": format!("{}/{}/{}", finding.rule.id(), finding.device, finding.key),
        },
    });
    if !others.is_empty() {
        value["relatedLocations"] = Value::from(others);
    }
    if let Some(reason) = muted {
        value["suppressions"] = json!([{ "kind": "external", "justification": reason }]);
    }
    value
}

/// A path as a relative reference: what a URI may not have is escaped.
fn uri(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=@".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text += &format!("%{byte:02X}");
        }
    }
    text
}
