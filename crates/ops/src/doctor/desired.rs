//! What every device should be, in one file: `desired.toml`.
//!
//! ```toml
//! [traffic]                        # which DSCPs carry what
//! data_dscp = [26]
//! cnp_dscp = 48
//!
//! [roles.ToRRouter]                # the "type" of DEVICE_METADATA, or what `devices` says
//! lossless_priorities = [3, 4]
//! alpha = "1/16"
//! [[roles.ToRRouter.variants]]     # a switch type or a firmware may differ
//! hwsku = "ACS-MSN2700"
//! alpha = "1/8"
//!
//! [roles.server]
//! devices = ["h*"]
//! trust = "dscp"
//! dscp_to_priority = { 26 = 3, 48 = 6 }
//! ```
//!
//! What is not said is not compared.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::cluster::Host;
use super::finding::{Finding, Place};
use super::folder::File;

/// See the module.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Desired {
    /// Which DSCPs carry what.
    pub(super) traffic: Traffic,
    /// By role.
    pub(super) roles: BTreeMap<String, Settings>,
    /// The file that it is from.
    #[serde(skip)]
    pub(super) file: String,
    /// The line of each role, as far as it has one of its own.
    #[serde(skip)]
    lines: BTreeMap<String, usize>,
}

/// Which DSCPs carry what.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Traffic {
    pub(super) data_dscp: Vec<u8>,
    pub(super) cnp_dscp: Option<u8>,
    pub(super) ack_dscp: Option<u8>,
    pub(super) lossless_mtu_bytes: Option<u32>,
}

/// Settings; those that are not said are not compared.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    /// Names of devices, of which each may hold a star; otherwise a role is that of the metadata.
    pub(super) devices: Vec<String>,
    /// What some of them should be instead: those of `devices`, of an `hwsku`, a `platform`, or a `firmware` that
    /// begins so. In variants alone.
    pub(super) variants: Vec<Settings>,
    pub(super) hwsku: Option<String>,
    pub(super) platform: Option<String>,
    pub(super) firmware: Option<String>,
    // Switches.
    pub(super) alpha: Option<String>,
    pub(super) dscp_to_class: Option<BTreeMap<String, u8>>,
    pub(super) headroom_bytes: Option<u32>,
    pub(super) ecn_min_bytes: Option<u32>,
    pub(super) ecn_max_bytes: Option<u32>,
    pub(super) ecn_percent: Option<u32>,
    pub(super) watchdog: Option<String>,
    pub(super) watchdog_detection_ms: Option<u64>,
    pub(super) watchdog_restoration_ms: Option<u64>,
    pub(super) watchdog_poll_ms: Option<u64>,
    // Both.
    pub(super) lossless_priorities: Option<Vec<u8>>,
    pub(super) trust: Option<String>,
    pub(super) mtu_bytes: Option<u32>,
    pub(super) firmware_is: Option<String>,
    // Servers.
    pub(super) dscp_to_priority: Option<BTreeMap<String, u8>>,
    pub(super) cnp_dscp: Option<u8>,
    pub(super) notifies: Option<bool>,
    pub(super) env: BTreeMap<String, String>,
    // Any field of a config_db.json, as "TABLE|key|field".
    pub(super) raw: BTreeMap<String, String>,
}

impl Settings {
    /// A key that switches alone have, if there is one.
    pub(super) fn of_switches(&self) -> Option<&'static str> {
        let keys = [
            ("alpha", self.alpha.is_some()),
            ("dscp_to_class", self.dscp_to_class.is_some()),
            ("headroom_bytes", self.headroom_bytes.is_some()),
            ("ecn_min_bytes", self.ecn_min_bytes.is_some()),
            ("ecn_max_bytes", self.ecn_max_bytes.is_some()),
            ("ecn_percent", self.ecn_percent.is_some()),
            ("watchdog", self.watchdog.is_some()),
            ("watchdog_detection_ms", self.watchdog_detection_ms.is_some()),
            ("watchdog_restoration_ms", self.watchdog_restoration_ms.is_some()),
            ("watchdog_poll_ms", self.watchdog_poll_ms.is_some()),
            ("raw", !self.raw.is_empty()),
        ];
        keys.into_iter().find(|(_, said)| *said).map(|(key, _)| key)
    }

    /// The same, with what `other` says in the place of it.
    fn over(&mut self, other: &Self) {
        macro_rules! take {
            ($($field:ident),*) => {
                $(if other.$field.is_some() { self.$field.clone_from(&other.$field); })*
            };
        }
        take!(
            alpha,
            dscp_to_class,
            headroom_bytes,
            ecn_min_bytes,
            ecn_max_bytes,
            ecn_percent,
            watchdog,
            watchdog_detection_ms,
            watchdog_restoration_ms,
            watchdog_poll_ms,
            lossless_priorities,
            trust,
            mtu_bytes,
            firmware_is,
            dscp_to_priority,
            cnp_dscp,
            notifies
        );
        self.env.extend(other.env.clone());
        self.raw.extend(other.raw.clone());
    }
}

/// What is known of a device when its settings are looked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About<'a> {
    pub(super) name: &'a str,
    pub(super) role: &'a str,
    pub(super) hwsku: &'a str,
    pub(super) platform: &'a str,
    pub(super) firmware: &'a str,
}

impl Desired {
    /// Reads a file.
    ///
    /// # Errors
    /// A finding with the line, the key and a remedy.
    pub(super) fn parse(file: &File) -> Result<Self, Box<Finding>> {
        let text = file.text();
        let mut desired: Self = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            let what = error.message().lines().next().unwrap_or_default().to_owned();
            let hint = "docs/book/doctor.md has every key of desired.toml";
            Finding::not_understood(
                "desired",
                Place::new(&file.path, line),
                format!("{what}."),
                hint,
            )
        })?;
        desired.file.clone_from(&file.path);
        for (number, line) in (1..).zip(text.lines()) {
            let inner = line.trim().trim_start_matches('[').strip_prefix("roles.");
            let Some(name) = inner.and_then(|inner| inner.split([']', '.']).next()) else {
                continue;
            };
            let name = name.trim().trim_matches(['"', '\'']).to_owned();
            desired.lines.entry(name).or_insert(number);
        }
        desired.check().map_err(|(key, what)| {
            let line = text.lines().position(|line| line.contains(&key)).map_or(1, |at| at + 1);
            let hint = "docs/book/doctor.md has the values that each key may have";
            Finding::not_understood("desired", Place::new(&file.path, line), what, hint)
        })?;
        Ok(desired)
    }

    /// Refuses values that nothing could ever have.
    fn check(&self) -> Result<(), (String, String)> {
        let wrong = |key: &str, what: String| Err((key.to_owned(), what));
        let settings = self.roles.values().flat_map(|role| role.variants.iter().chain([role]));
        if self.roles.values().any(|role| role.variants.iter().any(|of| !of.variants.is_empty())) {
            return wrong("variants", "a variant has no variants of its own.".to_owned());
        }
        for own in settings {
            if let Some(alpha) = &own.alpha
                && exponent(alpha).is_none()
            {
                return wrong(
                    "alpha",
                    format!("alpha {alpha:?} is no power of two from 1/256 to 128."),
                );
            }
            for (name, map, most) in [
                ("dscp_to_class", &own.dscp_to_class, 7),
                ("dscp_to_priority", &own.dscp_to_priority, 7),
            ] {
                for (dscp, value) in map.iter().flatten() {
                    if dscp.parse::<u8>().is_ok_and(|dscp| dscp < 64) && *value <= most {
                        continue;
                    }
                    return wrong(
                        name,
                        format!("{name}: {dscp} = {value} is no DSCP and a number up to 7."),
                    );
                }
            }
            if own.lossless_priorities.iter().flatten().any(|&priority| priority > 7) {
                return wrong(
                    "lossless_priorities",
                    "lossless_priorities are from 0 to 7.".to_owned(),
                );
            }
            if let Some(trust) = &own.trust
                && !["dscp", "pcp"].contains(&trust.as_str())
            {
                return wrong("trust", format!("trust {trust:?} is neither \"dscp\" nor \"pcp\"."));
            }
            if let Some(action) = &own.watchdog
                && !["drop", "forward", "alert", "none"].contains(&action.as_str())
            {
                let what = format!("watchdog {action:?} is none of drop, forward, alert, none.");
                return wrong("watchdog", what);
            }
            if let Some(key) = own.raw.keys().find(|key| raw(key).is_none()) {
                return wrong(key, format!("{key:?} is not \"TABLE|key|field\"."));
            }
        }
        let dscps = self.traffic.data_dscp.iter();
        let mut dscps = dscps.chain(&self.traffic.cnp_dscp).chain(&self.traffic.ack_dscp);
        match dscps.find(|dscp| **dscp > 63) {
            Some(dscp) => wrong("dscp", format!("{dscp} is no DSCP: they are below 64.")),
            None => Ok(()),
        }
    }

    /// The role of a device, and what it should be.
    pub(super) fn of(&self, about: About<'_>) -> Option<(&str, Settings)> {
        let named = |role: &Settings| role.devices.iter().any(|of| matches(of, about.name));
        let by_name = self.roles.iter().find(|(_, role)| named(role));
        let by_role = || {
            let mut unnamed = self.roles.iter().filter(|(_, role)| role.devices.is_empty());
            unnamed.find(|(name, _)| name.eq_ignore_ascii_case(about.role))
        };
        let (name, role) = by_name.or_else(by_role)?;
        let mut settings = role.clone();
        for variant in &role.variants {
            let is = |wanted: &Option<String>, has: &str| {
                wanted.as_ref().is_none_or(|wanted| wanted == has)
            };
            let named = variant.devices.is_empty()
                || variant.devices.iter().any(|of| matches(of, about.name));
            let begins = variant.firmware.as_ref();
            let firmware = begins.is_none_or(|begin| about.firmware.starts_with(begin.as_str()));
            if named
                && firmware
                && is(&variant.hwsku, about.hwsku)
                && is(&variant.platform, about.platform)
            {
                settings.over(variant);
            }
        }
        Some((name, settings))
    }

    /// The role of a host, and what it should be.
    pub(super) fn of_host(&self, host: &Host) -> Option<(&str, Settings)> {
        let firmware = host.firmware().unwrap_or_default();
        self.of(About { name: &host.name, role: "server", firmware: &firmware, ..About::default() })
    }

    /// Its roles, with their lines.
    pub(super) fn roles(&self) -> impl Iterator<Item = (&str, Option<usize>)> {
        self.roles.keys().map(|role| (role.as_str(), self.lines.get(role).copied()))
    }

    /// Whether anything is said at all.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }
}

/// A name with at most one star.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, end)) => {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        }
    }
}

/// The parts of "TABLE|key|field"; the key may have a bar itself.
pub(super) fn raw(key: &str) -> Option<(&str, &str, &str)> {
    let (table, rest) = key.split_once('|')?;
    let (entry, field) = rest.rsplit_once('|')?;
    Some((table, entry, field))
}

/// The power of two that an alpha is: "1/16" or "8".
pub(super) fn exponent(alpha: &str) -> Option<i8> {
    (-8..=7).find(|&exponent| fabric::switch::config::alpha_of(exponent) == alpha.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[traffic]
data_dscp = [26]
cnp_dscp = 48

[roles.ToRRouter]
alpha = "1/16"
lossless_priorities = [3, 4]
[[roles.ToRRouter.variants]]
hwsku = "ACS-MSN2700"
alpha = "1/8"
[roles.server]
devices = ["h*"]
dscp_to_priority = { 26 = 3 }
"#;

    fn read(text: &str) -> Result<Desired, Box<Finding>> {
        Desired::parse(&File::new("desired.toml", text))
    }

    #[test]
    fn a_variant_overrides_its_role_and_names_come_before_roles() {
        let desired = read(TEXT).unwrap();
        let about = About { name: "tor-1", role: "ToRRouter", ..About::default() };
        let (role, settings) = desired.of(about).unwrap();
        assert_eq!((role, settings.alpha.as_deref()), ("ToRRouter", Some("1/16")));
        let about = About { hwsku: "ACS-MSN2700", ..about };
        let (_, settings) = desired.of(about).unwrap();
        assert_eq!(settings.alpha.as_deref(), Some("1/8"));
        assert_eq!(settings.lossless_priorities, Some(vec![3, 4]));
        let host = About { name: "h5", ..About::default() };
        assert_eq!(desired.of(host).unwrap().0, "server");
        assert_eq!(desired.of(About { name: "gpu-1", ..About::default() }), None);
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line() {
        for (good, bad, line) in [
            ("alpha = \"1/16\"", "alpha = \"1/15\"", 7),
            ("alpha = \"1/16\"", "alfa = \"1/16\"", 7),
            ("{ 26 = 3 }", "{ 64 = 3 }", 14),
            ("data_dscp = [26]", "data_dscp = [99]", 3),
            ("[roles.server]", "[roles.server", 12),
        ] {
            let finding = read(&TEXT.replace(good, bad)).unwrap_err();
            assert_eq!(finding.places[0].line, Some(line), "{bad}: {}", finding.text);
            assert!(!finding.remedy.is_empty());
        }
    }

    #[test]
    fn alphas_are_powers_of_two() {
        assert_eq!(exponent("1/64"), Some(-6));
        assert_eq!(exponent("1"), Some(0));
        assert_eq!(exponent("128"), Some(7));
        assert_eq!(exponent("1/3"), None);
    }
}
