//! 5.1 and 6.2: differences between configurations as they run and as they are desired, and the two incidents.
//!
//! ```text
//!   examples/cluster-healthy ─┬─ as it is                     ─► nothing is found: the control
//!                             ├─ settings changed by chance   ─► doctor names device and key of each, and no other
//!                             ├─ tor-4 at alpha 1/64          ─► doctor, and an incast in its simulator
//!                             └─ switches without watchdogs   ─► doctor, before a NIC storms
//! ```

use std::collections::BTreeSet;

use fabric::random::Random;
use ops::doctor::what_if::{Draw as Incast, Trial, WhatIf};
use ops::doctor::{Diagnosis, File, Folder};

use crate::draws::{Spread, each, seeds};
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const CONFIG: &str = "guo16.config-monitoring";
pub(super) const CLAIMS: &[&str] = &[CONFIG];

/// Files of the example, which the program carries with it.
macro_rules! files {
    ($($device:literal: $($name:literal),+;)+) => {
        &[$($((concat!($device, "/", $name),
            include_str!(concat!("../../../../examples/cluster-healthy/", $device, "/", $name)))),+),+]
    };
}

/// Four racks of two hosts below a Clos of two switch types.
const CLUSTER: &[(&str, &str)] = files![
    "tor-1": "config_db.json", "lldp.txt", "version.txt";
    "tor-2": "config_db.json", "lldp.txt", "version.txt";
    "tor-3": "config_db.json", "lldp.txt", "version.txt";
    "tor-4": "config_db.json", "lldp.txt", "version.txt";
    "leaf-1": "config_db.json", "lldp.txt", "version.txt";
    "leaf-2": "config_db.json", "lldp.txt", "version.txt";
    "leaf-3": "config_db.json", "lldp.txt", "version.txt";
    "leaf-4": "config_db.json", "lldp.txt", "version.txt";
    "spine-1": "config_db.json", "lldp.txt", "version.txt";
    "spine-2": "config_db.json", "lldp.txt", "version.txt";
    "spine-3": "config_db.json", "lldp.txt", "version.txt";
    "spine-4": "config_db.json", "lldp.txt", "version.txt";
    "h0": "mlnx_qos.eth2.txt", "sysfs.txt", "env.train.txt", "ethtool-i.eth2.txt";
    "h1": "mlnx_qos.eth2.txt", "sysfs.txt", "env.train.txt", "ethtool-i.eth2.txt";
    "h2": "mlnx_qos.eth2.txt", "sysfs.txt", "env.train.txt", "ethtool-i.eth2.txt";
    "h3": "mlnx_qos.eth2.txt", "sysfs.txt", "env.train.txt", "ethtool-i.eth2.txt";
    "h4": "mlnx_qos.eth2.txt", "sysfs.txt", "env.train.txt", "ethtool-i.eth2.txt";
    "h5": "mlnx_qos.eth2.txt", "sysfs.txt", "env.train.txt", "ethtool-i.eth2.txt";
    "h6": "mlnx_qos.eth2.txt", "sysfs.txt", "env.train.txt", "ethtool-i.eth2.txt";
    "h7": "mlnx_qos.eth2.txt", "sysfs.txt", "env.train.txt", "ethtool-i.eth2.txt";
];

/// What is desired of them: a role each for ToRs, leaves, spines and servers; and what a switch type and a firmware have
/// otherwise.
fn desired() -> String {
    let variants = r#"
env = { NCCL_IB_TIMEOUT = "22" }
[[roles.server.variants]]
firmware = "26."
env = { NCCL_IB_TIMEOUT = "20" }
[[roles.ToRRouter.variants]]
hwsku = "ACS-MSN3700"
ecn_min_bytes = 200_000
"#;
    format!(
        "{}{variants}",
        include_str!("../../../../examples/cluster-healthy/desired.toml").trim_end()
    )
}

/// What files say where a variant is desired.
const VARIANTS: [(&str, &str, &str, &str); 5] = [
    (
        "tor-4",
        "config_db.json",
        "\"green_min_threshold\": \"150000\"",
        "\"green_min_threshold\": \"200000\"",
    ),
    ("h6", "ethtool-i.eth2.txt", "28.39.1002", "26.35.1012"),
    ("h6", "env.train.txt", "NCCL_IB_TIMEOUT=22", "NCCL_IB_TIMEOUT=20"),
    ("h7", "ethtool-i.eth2.txt", "28.39.1002", "26.35.1012"),
    ("h7", "env.train.txt", "NCCL_IB_TIMEOUT=22", "NCCL_IB_TIMEOUT=20"),
];

/// A difference: which devices it may be at, the key of what is desired, the file, what stands in it, and what may stand
/// there instead.
struct Change {
    devices: &'static str,
    key: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static [&'static str],
}

const SWITCH: &str = "config_db.json";
const TOR: &str = "tor-";
const LEAF: &str = "leaf-";
const SPINE: &str = "spine-";
const HOST: &str = "h";

/// The alpha that a new type has by default (guo16, 6.2), and others.
const ALPHA: &[&str] = &[
    "\"dynamic_th\": \"-6\"",
    "\"dynamic_th\": \"-5\"",
    "\"dynamic_th\": \"-3\"",
    "\"dynamic_th\": \"0\"",
];
const ACTION: &[&str] = &["\"action\": \"alert\"", "\"action\": \"forward\""];
const PFC: &[&str] =
    &["\"pfc_enable\": \"3\"", "\"pfc_enable\": \"4\"", "\"pfc_enable\": \"2,3,4\""];

/// All of these are settings that somebody changes by hand, or that a new type has by default.
const CHANGES: [Change; 19] = [
    change(TOR, "alpha", SWITCH, "\"dynamic_th\": \"-4\"", ALPHA),
    change(LEAF, "alpha", SWITCH, "\"dynamic_th\": \"-4\"", ALPHA),
    change(SPINE, "alpha", SWITCH, "\"dynamic_th\": \"-4\"", ALPHA),
    change(TOR, "watchdog", SWITCH, "\"action\": \"drop\"", ACTION),
    change(LEAF, "watchdog", SWITCH, "\"action\": \"drop\"", ACTION),
    change(SPINE, "watchdog", SWITCH, "\"action\": \"drop\"", ACTION),
    change(TOR, "lossless_priorities", SWITCH, "\"pfc_enable\": \"3,4\"", PFC),
    change(LEAF, "lossless_priorities", SWITCH, "\"pfc_enable\": \"3,4\"", PFC),
    change(SPINE, "lossless_priorities", SWITCH, "\"pfc_enable\": \"3,4\"", PFC),
    change(
        TOR,
        "mtu_bytes",
        SWITCH,
        "\"mtu\": \"9100\"",
        &["\"mtu\": \"9000\"", "\"mtu\": \"1500\""],
    ),
    // A digit too many; of either type.
    change(
        TOR,
        "ecn_min_bytes",
        SWITCH,
        "\"green_min_threshold\": \"",
        &["\"green_min_threshold\": \"1"],
    ),
    change(TOR, "dscp_to_class.26", SWITCH, "\"26\": \"3\"", &["\"26\": \"1\"", "\"26\": \"4\""]),
    change(TOR, "dscp_to_class.48", SWITCH, "\"48\": \"6\"", &["\"48\": \"5\"", "\"48\": \"3\""]),
    change(HOST, "trust", "mlnx_qos.eth2.txt", "state: dscp", &["state: pcp"]),
    change(HOST, "dscp_to_priority.26", "mlnx_qos.eth2.txt", ",26,25,24,", &[",25,24,"]),
    change(HOST, "mtu_bytes", "sysfs.txt", "eth2/mtu:9000", &["eth2/mtu:4200", "eth2/mtu:1500"]),
    change(HOST, "cnp_dscp", "sysfs.txt", "cnp_dscp:48", &["cnp_dscp:26", "cnp_dscp:0"]),
    change(HOST, "notifies", "sysfs.txt", "roce_rp/enable/3:1", &["roce_rp/enable/3:0"]),
    change(
        HOST,
        "env.NCCL_IB_TIMEOUT",
        "env.train.txt",
        "NCCL_IB_TIMEOUT=",
        &["NCCL_IB_TIMEOUT=1"],
    ),
];
/// How many of them a draw has, over twenty devices.
const CHANGED: usize = 12;

const fn change(
    devices: &'static str,
    key: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static [&'static str],
) -> Change {
    Change { devices, key, file, from, to }
}

/// What is changed: at which device, what, and to which of the values.
type Changed = Vec<(&'static str, &'static Change, &'static str)>;

fn folder(changed: &Changed) -> Folder {
    let files = CLUSTER.iter().map(|(path, text)| {
        let (device, name) = path.split_once('/').unwrap_or_default();
        let mut text = (*text).to_owned();
        let variants = VARIANTS.iter().filter(|(of, file, ..)| (*of, *file) == (device, name));
        variants.for_each(|(.., from, to)| text = text.replace(from, to));
        let own = changed.iter().filter(|(of, change, _)| (*of, change.file) == (device, name));
        own.for_each(|(_, change, to)| text = text.replace(change.from, to));
        File::new(*path, text)
    });
    Folder::of(files.chain([File::new("desired.toml", desired())]))
}

/// Every device, once.
fn devices() -> Vec<&'static str> {
    let mut all: Vec<&str> =
        CLUSTER.iter().filter_map(|(path, _)| path.split('/').next()).collect();
    all.dedup();
    all
}

fn by_chance(seed: u64) -> Changed {
    let mut random = Random::new(seed);
    let mut any = |of: usize| random.below(of as u64) as usize;
    let mut changed = Changed::new();
    while changed.len() < CHANGED {
        let change = &CHANGES[any(CHANGES.len())];
        let all: Vec<&str> =
            devices().into_iter().filter(|name| name.starts_with(change.devices)).collect();
        let (device, to) = (all[any(all.len())], change.to[any(change.to.len())]);
        // Two of one key at one device are one difference.
        if !changed.iter().any(|(other, of, _)| *other == device && of.key == change.key) {
            changed.push((device, change, to));
        }
    }
    changed
}

/// Of a draw: differences that were made and named, and that were named and not made, as device and key.
struct Told {
    found: usize,
    missed: Vec<String>,
    others: Vec<String>,
}

fn told(seed: u64) -> Told {
    let changed = by_chance(seed);
    let named = |device: &str, key: &str| format!("{device} {key}");
    let made: BTreeSet<String> =
        changed.iter().map(|(device, change, _)| named(device, change.key)).collect();
    let diagnosis = Diagnosis::of(&folder(&changed), None, None);
    let said = diagnosis.findings.iter().filter_map(|finding| {
        // After "roles" and the role.
        let key = finding.difference.as_ref()?.key.splitn(3, '.').nth(2)?;
        Some(named(&finding.device, key))
    });
    let said: BTreeSet<String> = said.collect();
    Told {
        found: made.intersection(&said).count(),
        missed: made.difference(&said).cloned().collect(),
        others: said.difference(&made).cloned().collect(),
    }
}

/// tor-4 with the default of the new type, as in 6.2.
fn incident() -> Changed {
    vec![("tor-4", &CHANGES[0], ALPHA[0])]
}

/// Switches whose watchdogs are not there yet, as before 6.2.
fn without_watchdogs() -> Folder {
    let mut folder = folder(&Changed::new());
    for file in folder.files.iter_mut().filter(|file| file.path.ends_with("config_db.json")) {
        // The key of a table that no reader knows.
        let text = String::from_utf8_lossy(&file.bytes).replace("\"PFC_WD\"", "\"PFC_WD_UNUSED\"");
        file.bytes = text.into_bytes();
    }
    folder
}

/// In brackets, if there are any.
fn listed(all: &[&str]) -> String {
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// Index of tor-4 among switches, in the order of their names.
const TOR_4: usize = 11;

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let draws = seeds(context.options);
    context.say(&format!("config-monitoring: {CHANGED} differences, {} seeds", draws.len()));
    let healthy = Diagnosis::of(&folder(&Changed::new()), None, None).findings.len();
    let all = each(&draws, |options| Ok(told(options.seed)))?;
    let diagnosis = Diagnosis::of(&folder(&incident()), None, None);
    let alphas: Vec<&str> = diagnosis
        .findings
        .iter()
        .map(|finding| if finding.rule.id() == "FD007" { finding.device.as_str() } else { "other" })
        .collect();
    let warned = Diagnosis::of(&without_watchdogs(), None, None);
    let warned = warned.findings.iter().filter(|finding| finding.rule.id() == "FD009").count();
    context.say(&format!("config-monitoring: an incast at tor-4, {} seeds", draws.len()));
    let number = draws.len() as u64;
    let trial = Trial::new(&diagnosis, WhatIf::Incast, Some("h7"), number);
    let trial = trial.map_err(|error| Error::Files(error.to_string()))?;
    let numbered: Vec<Options> =
        (0..number).map(|seed| Options { seed, ..context.options }).collect();
    let incasts = each(&numbered, |options| {
        trial.draw(options.seed).map_err(|error| Error::Files(error.to_string()))
    })?;
    let pauses = |column: usize| {
        Spread::of(&incasts, |draw: &Incast| draw.outcomes[column].pauses[TOR_4][0] as f64)
    };
    let victims = |draw: &Incast, column: usize| {
        draw.outcomes[column].hosts.iter().flatten().filter(|fate| fate.is_victim()).count()
    };
    let (running, desired) = (pauses(0), pauses(1));
    let found: usize = all.iter().map(|draw| draw.found).sum();
    let of = |list: fn(&Told) -> &[String]| -> Vec<&str> {
        all.iter().flat_map(list).map(String::as_str).collect()
    };
    let (missed, others) = (of(|draw| &draw.missed), of(|draw| &draw.others));
    let made = CHANGED * all.len();
    let fewer = incasts.iter().all(|draw| victims(draw, 1) <= victims(draw, 0));
    Ok(vec![Outcome {
        claim: context.claim(CONFIG)?,
        ran: format!(
            "ferroce doctor on twelve switches of two types and eight servers of two firmwares, {CHANGED} settings of {} \
             kinds changed by chance in each of {} draws; tor-4 at 1/64, in files and in its simulator with 2 MiB a millisecond to one of \
             its servers; switches without watchdogs",
            CHANGES.len(),
            all.len()
        ),
        scale: None,
        measured: format!(
            "{found} of {made} differences named with device and key{}, {} named that were not made{}, {healthy} \
             findings where nothing was changed; at 1/64 tor-4 sends {running} pauses, at the desired 1/16 \
             {desired}; {warned} switches are said to have no watchdog before a NIC storms",
            listed(&missed),
            others.len(),
            listed(&others),
        ),
        checks: vec![
            Check::event("where nothing was changed nothing is found", healthy == 0),
            Check::event("every difference is named with device and key", found == made),
            Check::event("and no other", others.is_empty()),
            Check::event(
                "of the alpha incident tor-4 is named, and nothing else, at the first look at its file",
                alphas == ["tor-4"],
            ),
            Check::event(
                "in the simulator tor-4 pauses at 1/64 with every seed, and not at 1/16",
                running.least() > 0.0 && desired.most() == 0.0,
            ),
            Check::event("and no fewer servers suffer at 1/64, with every seed", fewer),
            Check::event("switches without a watchdog are named before the storm", warned == 12),
        ],
        figures: Vec::new(),
    }])
}
