//! Older files of a device: `history/STAMP.json` and `history/STAMP/...`, where a stamp begins with a date.

use std::collections::BTreeMap;

use super::Named;
use crate::doctor::finding::{Finding, Place, Severity, quoted};
use crate::doctor::limits::SNAPSHOTS_MAX;
use crate::times::is_date;

/// Files by stamp, the newest last.
pub(super) type Snapshots<'a> = Vec<(String, Named<'a>)>;

/// The files of now, and those of each snapshot; one of no date, or of one after `latest`, is said and left out.
pub(super) fn by_time<'a>(
    device: &str,
    files: &Named<'a>,
    latest: &str,
    findings: &mut Vec<Finding>,
) -> (Named<'a>, Snapshots<'a>) {
    let mut now = Vec::new();
    let mut then: BTreeMap<String, Named<'a>> = BTreeMap::new();
    for &(path, file) in files {
        let Some(rest) = path.strip_prefix("history/") else {
            now.push((path, file));
            continue;
        };
        match rest.split_once('/') {
            Some((stamp, path)) => then.entry(stamp.to_owned()).or_default().push((path, file)),
            None => {
                let stamp = rest.trim_end_matches(".json").trim_end_matches(".config_db");
                then.entry(stamp.to_owned()).or_default().push(("config_db.json", file));
            }
        }
    }
    then.retain(|stamp, files| {
        let why = match date(stamp) {
            None => format!("{} is no date, such as 2026-11-18", quoted(stamp)),
            Some(date) if !latest.is_empty() && date > latest => "it is of the future".to_owned(),
            Some(_) => return true,
        };
        let path = files.first().map_or("", |(_, file)| file.path.as_str());
        findings.push(no_evidence(device, Place::of(path), &why));
        false
    });
    let too_many = then.len().saturating_sub(SNAPSHOTS_MAX);
    (now, then.into_iter().skip(too_many).collect())
}

/// What is wrong with a snapshot, if that makes it none.
pub(super) fn unread(device: &str, findings: Vec<Finding>) -> Option<Finding> {
    let first = findings.into_iter().find(|finding| finding.severity == Severity::Error)?;
    let place = first.places.into_iter().next().unwrap_or_default();
    let why = first.text.strip_prefix(&format!("{}: ", place.file)).unwrap_or(&first.text);
    let why = why.trim_end_matches('.').to_owned();
    Some(no_evidence(device, place, &why))
}

fn no_evidence(device: &str, place: Place, why: &str) -> Finding {
    let text = format!("{} does not tell since when anything is so: {why}.", place.file);
    let hint = "take it out of history/, or put there what was meant; its name is its date";
    Finding::not_understood(device, place, text, hint).severity(Severity::Note)
}

/// The date that a stamp begins with; a time may be behind it.
fn date(stamp: &str) -> Option<&str> {
    let (date, rest) = stamp.split_at_checked(10)?;
    let is_time = rest.is_empty() || rest.starts_with(['T', 't', '_', '-', ' ', '.']);
    (is_time && is_date(date)).then_some(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_begins_with_a_date() {
        for good in ["2026-11-18", "2024-02-29", "2026-11-18T04-16", "2026-11-18_noon"] {
            assert_eq!(date(good), Some(&good[..10]));
        }
        for bad in [
            "foo",
            "2026-13-45",
            "2026-02-29",
            "2026-11-00",
            "20261118",
            "2026-11-181",
            "",
            "+026-11-18",
            "2026_11_18",
        ] {
            assert_eq!(date(bad), None, "{bad}");
        }
    }
}
