//! Findings that are known, in `doctor.toml` beside the devices. Each says why, so that the next reader may judge.
//!
//! ```toml
//! [[mute]]
//! rule = "FD009"
//! devices = ["lab-*"]          # otherwise all
//! key = "Ethernet0"            # otherwise all; a part of the finding's key
//! until = "2027-01-31"         # otherwise for good
//! reason = "no traffic but ours; watchdogs come with the next image"
//! ```

use serde::Deserialize;

use super::finding::{Finding, Place, Rule};
use super::folder::File;
use crate::times::is_date;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mutes {
    mute: Vec<Mute>,
    /// The date of today, as in `2026-11-25`, by which `until` is held; empty to hold none.
    #[serde(skip)]
    pub today: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mute {
    rule: String,
    #[serde(default)]
    devices: Vec<String>,
    #[serde(default)]
    key: String,
    #[serde(default)]
    until: String,
    reason: String,
}

/// A finding that is known, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Muted {
    /// What is wrong.
    pub finding: Finding,
    /// Why that is known.
    pub reason: String,
}

impl Mutes {
    /// Reads a file.
    ///
    /// # Errors
    /// A finding with the line and a remedy.
    pub(super) fn parse(file: &File) -> Result<Self, Box<Finding>> {
        let text = file.text();
        let wrong = |line: usize, what: String| {
            let hint = "a [[mute]] has a rule and a reason, and may have devices, key and until";
            Finding::not_understood("doctor", Place::new(&file.path, line), what, hint)
        };
        let mutes: Self = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            wrong(line, format!("{}.", error.message().lines().next().unwrap_or_default()))
        })?;
        for mute in &mutes.mute {
            let line = |words: &str| {
                text.lines().position(|line| line.contains(words)).map_or(1, |at| at + 1)
            };
            if Rule::find(&mute.rule).is_none() {
                let what = format!("there is no rule {:?}.", mute.rule);
                return Err(wrong(line(&mute.rule), what).into());
            }
            if mute.reason.trim().len() < 3 {
                let what = "the reason says nothing.".to_owned();
                return Err(wrong(line("reason"), what).into());
            }
            if !mute.until.is_empty() && !is_date(&mute.until) {
                let what = format!("{:?} is no date such as 2027-01-31.", mute.until);
                return Err(wrong(line(&mute.until), what).into());
            }
        }
        Ok(mutes)
    }

    /// Takes out what is known.
    pub(super) fn apply(&self, findings: Vec<Finding>) -> (Vec<Finding>, Vec<Muted>) {
        let (mut kept, mut muted) = (Vec::new(), Vec::new());
        for finding in findings {
            match self.mute.iter().find(|mute| mute.is_of(&finding, &self.today)) {
                Some(mute) => muted.push(Muted { finding, reason: mute.reason.clone() }),
                None => kept.push(finding),
            }
        }
        (kept, muted)
    }
}

impl Mute {
    fn is_of(&self, finding: &Finding, today: &str) -> bool {
        let over = !self.until.is_empty() && !today.is_empty() && *self.until < *today;
        let device = |pattern: &String| super::desired::matches(pattern, &finding.device);
        !over
            && self.rule.eq_ignore_ascii_case(finding.rule.id())
            && (self.devices.is_empty() || self.devices.iter().any(device))
            && finding.key.contains(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Mutes, Box<Finding>> {
        Mutes::parse(&File::new("doctor.toml", text))
    }

    #[test]
    fn what_is_known_is_muted_with_its_reason_until_its_day() {
        let text = "[[mute]]\nrule = \"fd009\"\ndevices = [\"tor-*\"]\nkey = \"Ethernet0\"\nuntil = \"2027-01-31\"\n\
                    reason = \"the lab\"\n";
        let mut mutes = read(text).unwrap();
        let of = |device: &str, key: &str| {
            Finding::new(Rule::NoWatchdog, device, "no watchdog.").key(key)
        };
        let all =
            || vec![of("tor-1", "Ethernet0"), of("tor-1", "Ethernet4"), of("leaf-1", "Ethernet0")];
        let (kept, muted) = mutes.apply(all());
        assert_eq!((kept.len(), muted.len()), (2, 1));
        assert_eq!(muted[0].reason, "the lab");
        mutes.today = "2027-02-01".to_owned();
        assert_eq!(mutes.apply(all()).0.len(), 3);
    }

    #[test]
    fn a_mute_without_a_reason_is_refused() {
        for (text, line) in [
            ("[[mute]]\nrule = \"FD009\"\n", 1),
            ("[[mute]]\nrule = \"FD009\"\nreason = \" \"\n", 3),
            ("[[mute]]\nrule = \"FD999\"\nreason = \"why not\"\n", 2),
            ("[[mute]]\nrule = \"FD009\"\nuntil = \"soon\"\nreason = \"why not\"\n", 3),
            ("[[mute]\n", 1),
        ] {
            let finding = read(text).unwrap_err();
            assert_eq!(finding.places[0].line, Some(line), "{text}: {}", finding.text);
        }
    }
}
