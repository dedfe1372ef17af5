//! What the tables say, each by itself. Fields that a table does not have are refused, but for those
//! of `PORT` and `DEVICE_METADATA`, which are many and mostly not about buffers.

use std::collections::BTreeMap;

use super::json::{Entry, Field, Table};
use super::notes::Notes;
use crate::mistake::FileError;
use crate::pfc::PRIORITIES;
use crate::scenario::error::suggestion;
use crate::switch::config::{EcnConfig, Schedule, Threshold, WatchdogAction, WatchdogRule};

type Result<T> = core::result::Result<T, FileError>;

impl Entry {
    /// Where it is, as in `PORT|Ethernet0`.
    pub fn place(&self) -> String {
        format!("{}|{}", self.table, self.key)
    }

    pub(super) fn wrong(&self, message: impl core::fmt::Display) -> FileError {
        FileError::at(self.line, self.place(), message)
    }

    /// Something is wrong with a field that is there.
    pub(super) fn wrong_field(&self, field: &Field, message: impl core::fmt::Display) -> FileError {
        FileError::at(field.line, format!("{}, {}", self.place(), field.name), message)
    }

    /// Refuses fields that are not `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        let Some(field) = self.fields.iter().find(|field| !known.contains(&field.name.as_str()))
        else {
            return Ok(());
        };
        let all = format!("the fields here are {}", known.join(", "));
        let wrong = self.wrong_field(field, "there is no such field");
        Err(wrong.hint(suggestion(&field.name, known, all)))
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    fn need(&self, name: &str) -> Result<&Field> {
        self.field(name).ok_or_else(|| {
            self.wrong(format!("{name:?} is missing")).hint(format!("add {name:?}: \"...\""))
        })
    }

    fn number_of(&self, field: &Field, least: i64, most: i64) -> Result<i64> {
        let number = field.value.trim().parse::<i64>().ok();
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let message = format!("{:?} is not a number from {least} to {most}", field.value);
            self.wrong_field(field, message).hint("plain digits, without a unit")
        })
    }

    /// A number of bytes, if it is there.
    fn bytes(&self, name: &str) -> Result<Option<u32>> {
        let Some(field) = self.field(name) else { return Ok(None) };
        let bytes = self.number_of(field, 0, i64::from(u32::MAX))?;
        Ok(Some(bytes as u32))
    }

    pub(super) fn number(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>> {
        self.field(name).map(|field| self.number_of(field, least, most)).transpose()
    }

    /// One of several words.
    fn word<T: Copy>(&self, field: &Field, words: &[(&str, T)]) -> Result<T> {
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&field.value));
        found.map(|&(_, value)| value).ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
            let error = self.wrong_field(field, format!("{:?} is not known", field.value));
            error.hint(format!("write one of {}", all.join(", ")))
        })
    }

    fn switch(&self, name: &str) -> Result<bool> {
        let words = [("true", true), ("false", false), ("enable", true), ("disable", false)];
        self.field(name).map_or(Ok(false), |field| self.word(field, &words))
    }

    /// What a field refers to: `name`, or `[TABLE|name]` as it was written before 2021.
    pub(super) fn reference(&self, field: &Field, table: &str) -> Result<String> {
        let text = field.value.trim();
        let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
            return Ok(text.to_owned());
        };
        match inner.split_once('|') {
            Some((named, key)) if named == table => Ok(key.to_owned()),
            _ => Err(self
                .wrong_field(field, format!("{text:?} does not refer to {table}"))
                .hint(format!("write \"name\", or \"[{table}|name]\""))),
        }
    }
}

/// Finds a table.
pub(super) fn table<'a>(tables: &'a [Table], name: &str) -> Option<&'a Table> {
    tables.iter().find(|table| table.name == name)
}

pub(super) fn entries<'a>(tables: &'a [Table], name: &str) -> &'a [Entry] {
    table(tables, name).map_or(&[], |table| table.entries.as_slice())
}

/// A `BUFFER_POOL`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pool {
    pub(super) ingress: bool,
    /// `None` where the switch computes it while it runs.
    pub(super) size: Option<u32>,
    pub(super) xoff: Option<u32>,
}

/// Every `BUFFER_POOL` by name.
pub(super) fn pools(tables: &[Table]) -> Result<BTreeMap<String, Pool>> {
    let mut pools = BTreeMap::new();
    for entry in entries(tables, "BUFFER_POOL") {
        entry.only(&["type", "mode", "size", "xoff", "percentage"])?;
        let directions = [("ingress", true), ("egress", false), ("both", true)];
        // Whether a threshold is dynamic is said by each profile, too.
        entry.word(entry.need("mode")?, &[("dynamic", ()), ("static", ())])?;
        let pool = Pool {
            ingress: entry.word(entry.need("type")?, &directions)?,
            size: entry.bytes("size")?,
            xoff: entry.bytes("xoff")?.filter(|&bytes| bytes > 0),
        };
        entry.number("percentage", 0, 255)?;
        pools.insert(entry.key.clone(), pool);
    }
    Ok(pools)
}

/// A `BUFFER_PROFILE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Profile {
    pub(super) pool: String,
    pub(super) size: u32,
    pub(super) xon: u32,
    pub(super) xon_offset: Option<u32>,
    pub(super) xoff: Option<u32>,
    pub(super) threshold: Threshold,
}

/// Every `BUFFER_PROFILE` by name.
pub(super) fn profiles(
    tables: &[Table],
    pools: &BTreeMap<String, Pool>,
    notes: &mut Notes,
) -> Result<BTreeMap<String, Profile>> {
    let mut profiles = BTreeMap::new();
    for entry in entries(tables, "BUFFER_PROFILE") {
        entry.only(&[
            "pool",
            "size",
            "xon",
            "xon_offset",
            "xoff",
            "dynamic_th",
            "static_th",
            "headroom_type",
            "packet_discard_action",
        ])?;
        let field = entry.need("pool")?;
        find(entry, field, "BUFFER_POOL", pools)?;
        let threshold = match (entry.number("dynamic_th", -8, 7)?, entry.bytes("static_th")?) {
            (Some(_), Some(_)) => {
                return Err(entry
                    .wrong("dynamic_th and static_th exclude each other")
                    .hint("keep the one that the mode of the pool says"));
            }
            (Some(exponent), None) => Threshold::Dynamic { exponent: exponent as i8 },
            (None, Some(bytes)) => Threshold::Static { bytes },
            (None, None) => {
                let computed = entry.field("headroom_type").is_some();
                if !computed {
                    return Err(entry
                        .wrong("it has no threshold")
                        .hint("add \"dynamic_th\" (alpha is 2 to its power) or \"static_th\""));
                }
                Threshold::Dynamic { exponent: 0 }
            }
        };
        if entry.field("packet_discard_action").is_some_and(|field| field.value == "trim") {
            notes
                .warn(format!("BUFFER_PROFILE|{} trims packets; here they are dropped", entry.key));
        }
        let profile = Profile {
            pool: entry.reference(field, "BUFFER_POOL")?,
            size: entry.bytes("size")?.unwrap_or(0),
            xon: entry.bytes("xon")?.unwrap_or(0),
            xon_offset: entry.bytes("xon_offset")?,
            xoff: entry.bytes("xoff")?,
            threshold,
        };
        profiles.insert(entry.key.clone(), profile);
    }
    Ok(profiles)
}

/// What a field refers to.
pub(super) fn find<'a, T>(
    entry: &Entry,
    field: &Field,
    table: &str,
    known: &'a BTreeMap<String, T>,
) -> Result<&'a T> {
    let named = entry.reference(field, table)?;
    known.get(&named).ok_or_else(|| {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        missing(entry, field, table, &named, &names)
    })
}

/// A reference to something that is not there.
pub(super) fn missing(
    entry: &Entry,
    field: &Field,
    table: &str,
    name: &str,
    names: &[&str],
) -> FileError {
    let otherwise = match names {
        [] => format!("the file has no {table} at all: add it"),
        names => format!("{table} has {}", names.join(", ")),
    };
    let wrong = entry.wrong_field(field, format!("there is no {table} {name:?}"));
    wrong.hint(suggestion(name, names, otherwise))
}

/// The maps of one table by name. What a map does not say is `None`.
pub(super) fn maps<const N: usize>(
    tables: &[Table],
    name: &str,
) -> Result<BTreeMap<String, [Option<u8>; N]>> {
    let mut maps = BTreeMap::new();
    for entry in entries(tables, name) {
        let mut map = [None; N];
        for field in &entry.fields {
            let index = field.name.parse::<usize>().ok().filter(|&index| index < N);
            let Some(index) = index else {
                let most = N - 1;
                return Err(entry
                    .wrong_field(field, format!("{:?} is not from 0 to {most}", field.name))
                    .hint("a map is from numbers to numbers: { \"3\": \"4\" }"));
            };
            map[index] = Some(entry.number_of(field, 0, PRIORITIES as i64 - 1)? as u8);
        }
        maps.insert(entry.key.clone(), map);
    }
    Ok(maps)
}

/// Every `SCHEDULER` by name.
pub(super) fn schedulers(
    tables: &[Table],
    notes: &mut Notes,
) -> Result<BTreeMap<String, Schedule>> {
    let mut schedulers = BTreeMap::new();
    for entry in entries(tables, "SCHEDULER") {
        let known = ["type", "weight", "priority", "meter_type", "cir", "cbs", "pir", "pbs"];
        entry.only(&known)?;
        let strict = entry
            .word(entry.need("type")?, &[("DWRR", false), ("WRR", false), ("STRICT", true)])?;
        let schedule = if strict {
            Schedule::Strict
        } else {
            let field = entry.need("weight")?;
            Schedule::Weighted(entry.number_of(field, 1, 255)? as u8)
        };
        if entry.field("type").is_some_and(|field| field.value.eq_ignore_ascii_case("WRR")) {
            let key = &entry.key;
            notes
                .warn(format!("SCHEDULER|{key} counts packets (WRR); here it counts bytes (DWRR)"));
        }
        if ["cir", "pir"].iter().any(|name| entry.field(name).is_some()) {
            let key = &entry.key;
            notes.warn(format!("SCHEDULER|{key} limits the rate of a queue; here it does not"));
        }
        schedulers.insert(entry.key.clone(), schedule);
    }
    Ok(schedulers)
}

/// Every `WRED_PROFILE` by name: what green packets meet, if they are marked.
pub(super) fn wreds(
    tables: &[Table],
    notes: &mut Notes,
) -> Result<BTreeMap<String, Option<EcnConfig>>> {
    let mut profiles = BTreeMap::new();
    for entry in entries(tables, "WRED_PROFILE") {
        let mut known = vec!["ecn".to_owned()];
        for colour in ["green", "yellow", "red"] {
            known.extend([
                format!("wred_{colour}_enable"),
                format!("{colour}_min_threshold"),
                format!("{colour}_max_threshold"),
                format!("{colour}_drop_probability"),
            ]);
        }
        entry.only(&known.iter().map(String::as_str).collect::<Vec<_>>())?;
        let words = [
            ("ecn_none", false),
            ("ecn_green", true),
            ("ecn_yellow", false),
            ("ecn_red", false),
            ("ecn_green_yellow", true),
            ("ecn_green_red", true),
            ("ecn_yellow_red", false),
            ("ecn_all", true),
        ];
        for colour in ["green", "yellow", "red"] {
            entry.bytes(&format!("{colour}_min_threshold"))?;
            entry.bytes(&format!("{colour}_max_threshold"))?;
            entry.number(&format!("{colour}_drop_probability"), 0, 100)?;
        }
        let marks = entry.field("ecn").map_or(Ok(false), |field| entry.word(field, &words))?;
        let drops = entry.switch("wred_green_enable")?;
        if !marks && drops {
            notes.warn(format!(
                "WRED_PROFILE|{} drops packets and does not mark them (ecn); here it does neither",
                entry.key
            ));
        }
        let ecn = if marks {
            let (least, most) = ("green_min_threshold", "green_max_threshold");
            entry.need(least)?;
            let field = entry.need(most)?;
            let min_bytes = entry.bytes(least)?.unwrap_or(0);
            let max_bytes = entry.bytes(most)?.unwrap_or(0);
            if min_bytes > max_bytes {
                return Err(entry
                    .wrong_field(field, format!("{max_bytes} is below {least}, {min_bytes}"))
                    .hint("marks begin at the minimum, and are certain at the maximum"));
            }
            let percent = entry.need("green_drop_probability")?;
            let percent = entry.number_of(percent, 0, 100)?;
            let max_probability = percent as f64 / 100.0;
            Some(EcnConfig { min_bytes, max_bytes, max_probability })
        } else {
            None
        };
        profiles.insert(entry.key.clone(), ecn);
    }
    Ok(profiles)
}

/// What `PFC_WD` says about a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PortWatchdog {
    pub(super) action: WatchdogAction,
    pub(super) detection_ms: u64,
    pub(super) restoration_ms: u64,
}

/// `PFC_WD`: how often it looks, in milliseconds, if it is said, and what it does at each port.
#[derive(Clone, Debug, Default)]
pub(super) struct Watchdogs {
    pub(super) poll_ms: Option<u64>,
    pub(super) ports: BTreeMap<String, PortWatchdog>,
}

pub(super) fn watchdogs(tables: &[Table], notes: &mut Notes) -> Result<Watchdogs> {
    let mut watchdogs = Watchdogs::default();
    let hour = 3_600_000;
    for entry in entries(tables, "PFC_WD") {
        if entry.key == "GLOBAL" {
            entry.only(&["POLL_INTERVAL", "BIG_RED_SWITCH"])?;
            let poll = entry.number("POLL_INTERVAL", 1, hour)?;
            watchdogs.poll_ms = poll.map(|ms| ms as u64);
            if entry.switch("BIG_RED_SWITCH")? {
                notes.warn("PFC_WD has BIG_RED_SWITCH; here it is off");
            }
            continue;
        }
        entry.only(&["action", "detection_time", "restoration_time", "pfc_stat_history"])?;
        let actions = [
            ("drop", WatchdogAction::Drop),
            ("forward", WatchdogAction::Forward),
            ("alert", WatchdogAction::Alert),
        ];
        let action = match entry.field("action") {
            Some(field) => entry.word(field, &actions)?,
            None => {
                notes.warn_port(&entry.key, "PFC_WD names no action: SONiC drops");
                WatchdogAction::Drop
            }
        };
        let ms = |name| entry.number_of(entry.need(name)?, 1, hour);
        let (detection, restoration) = (ms("detection_time")?, ms("restoration_time")?);
        for (name, value, most) in
            [("detection_time", detection, 5_000), ("restoration_time", restoration, 60_000)]
        {
            if !(100..=most).contains(&value) {
                let text = format!("PFC_WD, {name}: SONiC takes 100 to {most} ms, not {value}");
                notes.warn_port(&entry.key, text);
            }
        }
        let port = PortWatchdog {
            action,
            detection_ms: detection as u64,
            restoration_ms: restoration as u64,
        };
        for name in entry.key.split(',') {
            watchdogs.ports.insert(name.trim().to_owned(), port);
        }
    }
    Ok(watchdogs)
}

/// Whose detector the switch runs, and by what one knows.
pub(super) fn watchdog_rule(tables: &[Table]) -> (WatchdogRule, Option<String>) {
    let metadata = entries(tables, "DEVICE_METADATA").iter().find(|entry| entry.key == "localhost");
    let of = |name| metadata.and_then(|entry| entry.field(name)).map(|field| field.value.clone());
    let named = of("hwsku").or_else(|| of("platform"));
    let lower = named.as_deref().unwrap_or_default().to_lowercase();
    let mellanox = ["mellanox", "mlnx", "nvidia", "msn2", "msn3", "msn4", "sn5"];
    if mellanox.iter().any(|word| lower.contains(word)) {
        (WatchdogRule::Mellanox, named)
    } else {
        (WatchdogRule::Broadcom, named)
    }
}

/// A port of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Port {
    pub(super) name: String,
    /// In Mb/s.
    pub(super) speed: Option<u64>,
    /// In metres.
    pub(super) cable: Option<u32>,
}

/// The ports by the number in their names.
pub(super) fn ports(tables: &[Table]) -> Result<Vec<Port>> {
    let mut cables = BTreeMap::new();
    for entry in entries(tables, "CABLE_LENGTH") {
        for field in &entry.fields {
            let metres = field.value.trim().strip_suffix('m').and_then(|text| text.parse().ok());
            let metres = metres.filter(|&metres: &u32| metres <= crate::limits::CABLE_M_MAX);
            let Some(metres) = metres else {
                return Err(entry
                    .wrong_field(field, format!("{:?} is not a length", field.value))
                    .hint("whole metres with their unit, such as \"5m\""));
            };
            cables.insert(field.name.as_str(), metres);
        }
    }
    let mut ports = Vec::new();
    for entry in entries(tables, "PORT") {
        let speed = entry.number("speed", 1, 100_000_000)?.map(|speed| speed as u64);
        let cable = cables.get(entry.key.as_str()).copied();
        ports.push(Port { name: entry.key.clone(), speed, cable });
    }
    let number = |name: &str| {
        let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        digits.parse::<u64>().unwrap_or(u64::MAX)
    };
    ports.sort_by_key(|port| (number(&port.name), port.name.clone()));
    Ok(ports)
}

/// What `table` says about priority groups or queues: the entry by port and number. Keys are
/// `Ethernet0|3-4`, `Ethernet0,Ethernet4|3`. Queues above 7 are of multicast, and are left out.
pub(super) fn by_port_and_number<'a>(
    tables: &'a [Table],
    name: &str,
    notes: &mut Notes,
) -> Result<BTreeMap<(&'a str, usize), &'a Entry>> {
    let mut found = BTreeMap::new();
    for entry in entries(tables, name) {
        let wrong = || {
            entry
                .wrong("the key is not a port and a number")
                .hint("write \"Ethernet0|3\" or \"Ethernet0|3-4\"")
        };
        let (ports, numbers) = entry.key.rsplit_once('|').ok_or_else(wrong)?;
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&number| number < 64);
        let (Some(first), Some(last)) = (number(first), number(last)) else { return Err(wrong()) };
        if first > last {
            return Err(wrong());
        }
        if last >= PRIORITIES {
            notes.info(format!("{name}: numbers above 7 are not simulated"));
        }
        for port in ports.split(',') {
            for number in first..=last.min(PRIORITIES - 1) {
                if let Some(other) = found.insert((port.trim(), number), entry) {
                    return Err(entry
                        .wrong(format!("{number} is said by {:?} as well", other.key))
                        .hint("keep one of them"));
                }
            }
        }
    }
    Ok(found)
}

/// What `PORT_QOS_MAP` says, by port; `global` is for ports that do not say it themselves.
pub(super) fn qos_maps(tables: &[Table], notes: &mut Notes) -> Result<Vec<(Vec<String>, Entry)>> {
    let mut maps = Vec::new();
    for entry in entries(tables, "PORT_QOS_MAP") {
        entry.only(&[
            "dscp_to_tc_map",
            "dot1p_to_tc_map",
            "tc_to_pg_map",
            "tc_to_queue_map",
            "pfc_to_queue_map",
            "pfc_to_pg_map",
            "pfc_enable",
            "pfcwd_sw_enable",
            "scheduler",
            "tc_to_dot1p_map",
            "tc_to_dscp_map",
            "dscp_to_fc_map",
            "exp_to_fc_map",
        ])?;
        for name in
            ["scheduler", "tc_to_dot1p_map", "tc_to_dscp_map", "dscp_to_fc_map", "exp_to_fc_map"]
        {
            if entry.field(name).is_some() {
                notes.warn_port(&entry.key, format!("PORT_QOS_MAP, {name}: it is not simulated"));
            }
        }
        let ports = entry.key.split(',').map(|name| name.trim().to_owned()).collect();
        maps.push((ports, entry.clone()));
    }
    Ok(maps)
}

/// "3,4" as a mask.
pub(super) fn priorities(entry: &Entry, name: &str) -> Result<Option<u8>> {
    let Some(field) = entry.field(name) else { return Ok(None) };
    if field.value.starts_with('[') {
        let written: String =
            field.value.chars().filter(|letter| matches!(letter, '0'..='9' | ',')).collect();
        let written = if written.is_empty() { "3,4" } else { &written };
        let message = format!("it is a list, which SONiC keeps as \"{name}@\" and never looks at");
        return Err(entry
            .wrong_field(field, message)
            .hint(format!("write it as one text: \"{written}\"")));
    }
    let mut mask = 0;
    for text in field.value.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let priority = text.parse::<u8>().ok().filter(|&priority| priority < 8);
        let Some(priority) = priority else {
            return Err(entry
                .wrong_field(field, format!("{text:?} is not a priority from 0 to 7"))
                .hint("write \"3,4\""));
        };
        mask |= 1 << priority;
    }
    Ok(Some(mask))
}
