//! What the tables mean together, for one simulated switch.

use std::collections::BTreeMap;

use rdma::Span;

use super::json::{Entry, Field};
use super::notes::{Note, Notes};
use super::tables::{self, PortWatchdog, find};
use super::{ConfigDb, Port};
use crate::mistake::FileError;
use crate::pfc::PRIORITIES;
use crate::scenario::error::suggestion;
use crate::switch::config::{
    GroupConfig, PortConfig, QueueConfig, SwitchConfig, Threshold, Trust, WatchdogConfig,
};
use crate::topology::{Cables, PS_PER_METRE};

type Result<T> = core::result::Result<T, FileError>;
type ByNumber<'a> = BTreeMap<(&'a str, usize), &'a Entry>;

/// SONiC looks so often unless it is told otherwise.
const POLL_MS: u64 = 100;

/// How a port classifies. A simulated switch has one of these for all its ports.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Maps {
    trust: Trust,
    dscp_to_class: [u8; 64],
    pcp_to_class: [u8; PRIORITIES],
    class_to_group: [u8; PRIORITIES],
    class_to_queue: [u8; PRIORITIES],
    priority_to_queue: [u8; PRIORITIES],
    priority_to_group: [u8; PRIORITIES],
}

struct Settings<'a> {
    db: &'a ConfigDb,
    qos: Vec<(Vec<String>, Entry)>,
    groups: ByNumber<'a>,
    group_profiles: Vec<String>,
    queue_entries: ByNumber<'a>,
    queue_buffers: ByNumber<'a>,
    notes: Notes,
}

pub(super) fn switch(
    db: &ConfigDb,
    links: &[Cables],
    names: Option<&[String]>,
    buffer_bytes: Option<u32>,
    base: &SwitchConfig,
) -> Result<(SwitchConfig, Vec<Note>)> {
    let mut notes = db.notes.clone();
    let ports = chosen(db, links.len(), names)?;
    compare(&ports, links, &mut notes);
    let mut settings = Settings {
        qos: tables::qos_maps(&db.tables, &mut notes)?,
        groups: tables::by_port_and_number(&db.tables, "BUFFER_PG", &mut notes)?,
        group_profiles: Vec::new(),
        queue_entries: tables::by_port_and_number(&db.tables, "QUEUE", &mut notes)?,
        queue_buffers: tables::by_port_and_number(&db.tables, "BUFFER_QUEUE", &mut notes)?,
        db,
        notes,
    };
    for entries in [&settings.groups, &settings.queue_entries, &settings.queue_buffers] {
        for (&(port, _), entry) in entries {
            check_port(db, entry, port)?;
        }
    }
    for entry in tables::entries(&db.tables, "PFC_WD").iter().filter(|at| at.key != "GLOBAL") {
        for port in entry.key.split(',').map(str::trim) {
            check_port(db, entry, port)?;
        }
    }
    settings.check_maps()?;
    let mut config = base.clone();
    let maps = settings.one_map(&ports)?;
    config.trust = maps.trust;
    config.dscp_to_class = maps.dscp_to_class;
    config.pcp_to_class = maps.pcp_to_class;
    config.class_to_group = maps.class_to_group;
    config.class_to_queue = maps.class_to_queue;
    config.priority_to_queue = maps.priority_to_queue;
    let enabled = settings.enabled(&ports)?;
    let any = enabled.iter().fold(0, |mask, port| mask | port);
    config.group_to_priority = settings.group_to_priority(&maps, any);
    let mut made = Vec::new();
    for (port, &enabled) in ports.iter().zip(&enabled) {
        made.push(PortConfig {
            groups: settings.groups_of(&port.name, &maps, enabled)?,
            queues: settings.queues_of(&port.name, &maps)?,
            watchdog: settings.watchdog_of(&port.name, enabled)?,
        });
    }
    settings.pool(&mut config, &made, buffer_bytes)?;
    config.ports.clear();
    if let Some(first) = made.first().cloned() {
        (config.groups, config.queues, config.watchdog) =
            (first.groups, first.queues, first.watchdog);
        if made.iter().any(|port| *port != first) {
            config.ports = made.into_iter().enumerate().map(|(at, of)| (at as u16, of)).collect();
        }
    }
    Ok((config, settings.notes.list()))
}

/// The ports that the links of a switch are at.
fn chosen<'a>(db: &'a ConfigDb, links: usize, names: Option<&[String]>) -> Result<Vec<&'a Port>> {
    let line = tables::table(&db.tables, "PORT").map_or(1, |table| table.line);
    if db.ports.is_empty() {
        return Err(FileError::at(line, "PORT", "the table is missing, or empty")
            .hint("add the ports: \"PORT\": { \"Ethernet0\": { \"speed\": \"100000\" } }"));
    }
    let count = names.map_or(db.ports.len(), <[String]>::len);
    if count < links {
        let hint = match names {
            Some(_) => "name a port for each link in config_db_ports",
            None => "take a file of a switch with as many ports, or a smaller topology",
        };
        let message = format!("{count} ports for the {links} links of the simulated switch");
        return Err(FileError::at(line, "PORT", message).hint(hint));
    }
    let Some(names) = names else { return Ok(db.ports.iter().take(links).collect()) };
    let find = |name: &String| {
        let found = db.ports.iter().find(|port| port.name == *name);
        let known: Vec<&str> = db.ports().collect();
        found.ok_or_else(|| {
            let hint = suggestion(name, &known, "config_db_ports names ports of this table");
            FileError::at(line, "PORT", format!("there is no port {name:?}")).hint(hint)
        })
    };
    names.iter().take(links).map(find).collect()
}

/// Refuses an entry about a port that is not there.
fn check_port(db: &ConfigDb, entry: &Entry, port: &str) -> Result<()> {
    let known: Vec<&str> = db.ports().collect();
    if known.contains(&port) {
        return Ok(());
    }
    let hint = suggestion(port, &known, "add it to PORT, or remove the key");
    Err(entry.wrong(format!("there is no port {port:?} in PORT")).hint(hint))
}

/// Says where the topology is of other rates or lengths than the file.
fn compare(ports: &[&Port], links: &[Cables], notes: &mut Notes) {
    for (port, link) in ports.iter().zip(links) {
        if let Some(speed) = port.speed.filter(|speed| speed * 1_000_000 != link.rate.as_bps()) {
            let text = format!(
                "PORT says {} Gb/s, and the topology {} Gb/s, which counts",
                speed as f64 / 1e3,
                link.rate.as_bps() as f64 / 1e9
            );
            notes.warn_port(&port.name, text);
        }
        let metres = link.propagation.as_ps() / PS_PER_METRE;
        if let Some(cable) = port.cable.filter(|&cable| u64::from(cable) < metres) {
            let text =
                format!("CABLE_LENGTH says {cable} m, and the topology {metres} m, which counts");
            notes.warn_port(&port.name, text);
        }
    }
}

/// Fields of `PORT_QOS_MAP`, and the table that each refers to.
const MAPS: [(&str, &str); 6] = [
    ("dscp_to_tc_map", "DSCP_TO_TC_MAP"),
    ("dot1p_to_tc_map", "DOT1P_TO_TC_MAP"),
    ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP"),
    ("tc_to_queue_map", "TC_TO_QUEUE_MAP"),
    ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"),
    ("pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"),
];

impl Settings<'_> {
    /// Refuses references to nothing, those of ports included that the simulated switch does not have.
    fn check_maps(&self) -> Result<()> {
        for (ports, entry) in &self.qos {
            for port in ports.iter().filter(|port| *port != "global") {
                check_port(self.db, entry, port)?;
            }
            for (name, table) in MAPS {
                let Some(field) = entry.field(name) else { continue };
                let named = entry.reference(field, table)?;
                let there = tables::entries(&self.db.tables, table).iter();
                let names: Vec<&str> = there.map(|entry| entry.key.as_str()).collect();
                if !names.contains(&named.as_str()) {
                    return Err(tables::missing(entry, field, table, &named, &names));
                }
            }
        }
        Ok(())
    }

    /// A field of `PORT_QOS_MAP`: the port's, or that for all.
    fn qos_field(&self, port: &str, name: &str) -> Option<(&Entry, &Field)> {
        let of = |key: &str| {
            let entries = self.qos.iter().filter(|(ports, _)| ports.iter().any(|port| port == key));
            entries.filter_map(|(_, entry)| Some((entry, entry.field(name)?))).next()
        };
        of(port).or_else(|| of("global"))
    }

    /// The map that a field of `PORT_QOS_MAP` refers to; `None` if there is no such field.
    fn map<const N: usize>(&self, port: &str, name: &str) -> Result<Option<[Option<u8>; N]>> {
        let Some((_, table)) = MAPS.into_iter().find(|(of, _)| *of == name) else {
            return Ok(None);
        };
        let Some((entry, field)) = self.qos_field(port, name) else { return Ok(None) };
        let maps = tables::maps::<N>(&self.db.tables, table)?;
        find(entry, field, table, &maps).map(|map| Some(*map))
    }

    fn maps_of(&mut self, port: &str) -> Result<Maps> {
        let dscp = self.map::<64>(port, "dscp_to_tc_map")?;
        let pcp = self.map(port, "dot1p_to_tc_map")?;
        let group = self.map(port, "tc_to_pg_map")?;
        let queue = self.map(port, "tc_to_queue_map")?;
        let pfc_queue = self.map(port, "pfc_to_queue_map")?;
        let pfc_group = self.map(port, "pfc_to_pg_map")?;
        let trust = if dscp.is_none() && pcp.is_some() { Trust::Pcp } else { Trust::Dscp };
        if dscp.is_none() && pcp.is_none() {
            self.notes
                .warn_port(port, "PORT_QOS_MAP has no dscp_to_tc_map: all packets are of class 0");
        }
        if let Some(dscp) = &dscp {
            let silent = dscp.iter().filter(|class| class.is_none()).count();
            if silent > 0 {
                self.notes.info(format!("DSCPs without a class, which are of class 0: {silent}"));
            }
        }
        let silent = [(group, "tc_to_pg_map", "group"), (queue, "tc_to_queue_map", "queue")];
        for (_, name, what) in silent.into_iter().filter(|(map, ..)| map.is_none()) {
            let text = format!("PORT_QOS_MAP has no {name}: every class goes to {what} 0");
            self.notes.warn_port(port, text);
        }
        let or_zero = |map: Option<[Option<u8>; PRIORITIES]>| {
            map.unwrap_or_default().map(Option::unwrap_or_default)
        };
        // Priority i is queue and group i where nothing else is said.
        let or_same = |map: Option<[Option<u8>; PRIORITIES]>| {
            let map = map.unwrap_or_default();
            core::array::from_fn(|index| map[index].unwrap_or(index as u8))
        };
        Ok(Maps {
            trust,
            dscp_to_class: dscp.unwrap_or([None; 64]).map(Option::unwrap_or_default),
            pcp_to_class: or_zero(pcp),
            class_to_group: or_zero(group),
            class_to_queue: or_zero(queue),
            priority_to_queue: or_same(pfc_queue),
            priority_to_group: or_same(pfc_group),
        })
    }

    fn one_map(&mut self, ports: &[&Port]) -> Result<Maps> {
        let mut first: Option<(String, Maps)> = None;
        for port in ports {
            let maps = self.maps_of(&port.name)?;
            match &first {
                Some((other, known)) if *known != maps => {
                    let line = self
                        .qos_field(&port.name, "dscp_to_tc_map")
                        .map_or(1, |(entry, _)| entry.line);
                    let place = format!("PORT_QOS_MAP|{}", port.name);
                    let message = format!("its maps differ from those of {other}");
                    return Err(FileError::at(line, place, message).hint(
                        "a simulated switch has one set of maps: choose its ports with \
                         config_db_ports",
                    ));
                }
                Some(_) => {}
                None => first = Some((port.name.clone(), maps)),
            }
        }
        match first {
            Some((_, maps)) => Ok(maps),
            None => Err(FileError::at(1, "PORT", "the simulated switch has no links")),
        }
    }

    /// By port, the priorities that it pauses.
    fn enabled(&mut self, ports: &[&Port]) -> Result<Vec<u8>> {
        let mut masks = Vec::new();
        for port in ports {
            let mask = match self.qos_field(&port.name, "pfc_enable") {
                Some((entry, _)) => tables::priorities(entry, "pfc_enable")?.unwrap_or(0),
                None => {
                    let text = "PORT_QOS_MAP has no pfc_enable: nothing is lossless";
                    self.notes.warn_port(&port.name, text);
                    0
                }
            };
            masks.push(mask);
        }
        Ok(masks)
    }

    /// The priority whose pauses each group sends.
    fn group_to_priority(&mut self, maps: &Maps, enabled: u8) -> [u8; PRIORITIES] {
        core::array::from_fn(|group| {
            let of = |priority: &usize| usize::from(maps.priority_to_group[*priority]) == group;
            let on = |priority: &usize| enabled >> priority & 1 != 0;
            let mut paused = (0..PRIORITIES).filter(of).filter(on);
            let first = paused.next();
            if let (Some(first), Some(second)) = (first, paused.next()) {
                self.notes.warn(format!(
                    "priorities {first} and {second} share group {group}; here it pauses {first} alone"
                ));
            }
            first.unwrap_or(group) as u8
        })
    }

    fn groups_of(
        &mut self,
        port: &str,
        maps: &Maps,
        enabled: u8,
    ) -> Result<[GroupConfig; PRIORITIES]> {
        let mut groups = [GroupConfig::LOSSY; PRIORITIES];
        for (number, group) in groups.iter_mut().enumerate() {
            let lossless = (0..PRIORITIES).any(|priority| {
                enabled >> priority & 1 != 0
                    && usize::from(maps.priority_to_group[priority]) == number
            });
            let used = maps.class_to_group.iter().any(|&group| usize::from(group) == number);
            *group = self.group(port, number, lossless, used)?;
        }
        Ok(groups)
    }

    fn group(
        &mut self,
        port: &str,
        number: usize,
        lossless: bool,
        used: bool,
    ) -> Result<GroupConfig> {
        let base = if lossless { GroupConfig::LOSSLESS } else { GroupConfig::LOSSY };
        let alpha_one = Threshold::Dynamic { exponent: 0 };
        let Some(&entry) = self.groups.get(&(port, number)) else {
            if lossless {
                let text =
                    format!("group {number} pauses and has no BUFFER_PG: it has no headroom");
                self.notes.warn_port(port, text);
                let headroom_bytes = Some(0);
                return Ok(GroupConfig { threshold: alpha_one, headroom_bytes, ..base });
            }
            if used {
                let text = format!("group {number} has no BUFFER_PG: here it is lossy at alpha 1");
                self.notes.warn_port(port, text);
            }
            return Ok(base);
        };
        let field = profile_field(entry)?;
        if entry.reference(field, "BUFFER_PROFILE")? == "NULL" {
            // SONiC's dynamic model: it computes the profile from speed, cable and MTU, and so do we.
            let threshold = self.default_alpha()?.unwrap_or(alpha_one);
            let text =
                format!("group {number} has a computed profile: here it is computed as well");
            self.notes.info(text);
            return Ok(GroupConfig { threshold, ..base });
        }
        let profile = find(entry, field, "BUFFER_PROFILE", &self.db.profiles)?;
        let pool = &self.db.pools[&profile.pool];
        if !pool.ingress {
            let named = entry.reference(field, "BUFFER_PROFILE")?;
            let text = format!("BUFFER_PROFILE {named:?} is of an egress pool, {}", profile.pool);
            return Err(entry
                .wrong_field(field, text)
                .hint("a priority group needs a profile of an ingress pool"));
        }
        if !self.group_profiles.contains(&profile.pool) {
            self.group_profiles.push(profile.pool.clone());
        }
        if !lossless {
            if profile.xoff.is_some() {
                let text = format!(
                    "group {number} has headroom (xoff) and its priority is not in pfc_enable: it \
                     never pauses"
                );
                self.notes.warn_port(port, text);
            }
            let threshold = profile.threshold;
            return Ok(GroupConfig { threshold, reserve_bytes: profile.size, ..base });
        }
        let xoff = profile.xoff.unwrap_or(0);
        if profile.xoff.is_none() && pool.xoff.is_none() {
            let text =
                format!("group {number} pauses and its profile has no xoff: it has no headroom");
            self.notes.warn_port(port, text);
        }
        let contains_headroom = pool.xoff.is_none() && profile.size >= xoff;
        Ok(GroupConfig {
            threshold: profile.threshold,
            reserve_bytes: if contains_headroom { profile.size - xoff } else { profile.size },
            // From a pool, a group that says nothing takes what it needs.
            headroom_bytes: match (profile.xoff, pool.xoff) {
                (None | Some(0), Some(all)) => Some(all),
                _ => Some(xoff),
            },
            // Without an offset, XON is due at `xon` alone.
            xon_offset_bytes: profile.xon_offset.unwrap_or(u32::MAX),
            xon_bytes: profile.xon,
            ..base
        })
    }

    /// Alpha of computed profiles.
    fn default_alpha(&self) -> Result<Option<Threshold>> {
        let table = tables::table(&self.db.tables, "DEFAULT_LOSSLESS_BUFFER_PARAMETER");
        let Some(entry) = table.and_then(|table| table.entries.first()) else { return Ok(None) };
        let exponent = entry.number("default_dynamic_th", -8, 7)?;
        Ok(exponent.map(|exponent| Threshold::Dynamic { exponent: exponent as i8 }))
    }

    fn queues_of(&mut self, port: &str, maps: &Maps) -> Result<[QueueConfig; PRIORITIES]> {
        let mut queues = [QueueConfig::default(); PRIORITIES];
        for (number, queue) in queues.iter_mut().enumerate() {
            if let Some(&entry) = self.queue_entries.get(&(port, number)) {
                entry.only(&["scheduler", "wred_profile"])?;
                if let Some(field) = entry.field("scheduler") {
                    queue.schedule = *find(entry, field, "SCHEDULER", &self.db.schedulers)?;
                }
                if let Some(field) = entry.field("wred_profile") {
                    queue.ecn = *find(entry, field, "WRED_PROFILE", &self.db.wreds)?;
                }
            } else if maps.class_to_queue.iter().any(|&queue| usize::from(queue) == number)
                && !self.queue_entries.is_empty()
            {
                let text =
                    format!("queue {number} is not in QUEUE: it has a weight of 1 and no marks");
                self.notes.warn_port(port, text);
            }
            let Some(&entry) = self.queue_buffers.get(&(port, number)) else { continue };
            let field = profile_field(entry)?;
            let profile = find(entry, field, "BUFFER_PROFILE", &self.db.profiles)?;
            queue.limit = Some(profile.threshold);
            if self.db.pools[&profile.pool].ingress {
                let text = format!(
                    "BUFFER_PROFILE {:?} is of an ingress pool, {}",
                    field.value, profile.pool
                );
                return Err(entry
                    .wrong_field(field, text)
                    .hint("a queue needs a profile of an egress pool"));
            }
            self.notes.info(
                "egress pools are not simulated: queues are limited by the ingress pool, and lossless \
                 ones by nothing",
            );
        }
        Ok(queues)
    }

    fn watchdog_of(&mut self, port: &str, enabled: u8) -> Result<Option<WatchdogConfig>> {
        let watched = match self.qos_field(port, "pfcwd_sw_enable") {
            Some((entry, _)) => tables::priorities(entry, "pfcwd_sw_enable")?,
            None => None,
        };
        let Some(&PortWatchdog { action, detection_ms, restoration_ms }) =
            self.db.watchdogs.ports.get(port)
        else {
            return Ok(None);
        };
        if enabled == 0 {
            self.notes.warn_port(port, "PFC_WD watches a port without a lossless priority");
        }
        if watched.is_some_and(|watched| watched != enabled) {
            let text = "PORT_QOS_MAP, pfcwd_sw_enable is not pfc_enable: here the watchdog looks \
                        after all of pfc_enable";
            self.notes.warn_port(port, text);
        }
        let poll_ms = self.db.watchdogs.poll_ms.unwrap_or_else(|| {
            self.notes.info(format!("PFC_WD has no POLL_INTERVAL: it looks every {POLL_MS} ms"));
            POLL_MS
        });
        for (name, time) in [("detection_time", detection_ms), ("restoration_time", restoration_ms)]
        {
            if time < poll_ms {
                let text =
                    format!("PFC_WD, {name}: {time} ms is below POLL_INTERVAL, {poll_ms} ms");
                self.notes.warn_port(port, text);
            }
        }
        Ok(Some(WatchdogConfig {
            rule: self.db.rule,
            action,
            poll: Span::from_ms(poll_ms),
            detection: Span::from_ms(detection_ms),
            restoration: Span::from_ms(restoration_ms),
        }))
    }

    /// The buffer that everything shares.
    fn pool(
        &mut self,
        config: &mut SwitchConfig,
        ports: &[PortConfig],
        buffer_bytes: Option<u32>,
    ) -> Result<()> {
        let db = self.db;
        let line = tables::table(&db.tables, "BUFFER_POOL").map_or(1, |table| table.line);
        let lossless = ports.iter().any(|port| port.groups.iter().any(|group| group.lossless));
        let mut names = self.group_profiles.clone();
        // The pool of lossless groups is the one with a name that says so, where there are several.
        names.sort_by_key(|name| !(lossless && name.contains("lossless")));
        let ingress =
            || db.pools.iter().find(|(_, pool)| pool.ingress).map(|(name, _)| name.clone());
        let Some(name) = names.first().cloned().or_else(ingress) else {
            return match buffer_bytes {
                Some(bytes) => {
                    config.buffer_bytes = bytes;
                    config.headroom_pool_bytes = None;
                    Ok(())
                }
                None => Err(FileError::at(line, "BUFFER_POOL", "there is no ingress pool")
                    .hint("add ingress_lossless_pool, or buffer_bytes to the scenario")),
            };
        };
        for other in names.iter().skip(1) {
            self.notes.warn(format!(
                "BUFFER_POOL|{other} is not simulated by itself: its groups are in {name}"
            ));
        }
        let pool = db.pools[&name];
        let missing = || {
            FileError::at(line, format!("BUFFER_POOL|{name}"), "\"size\" is missing").hint(
                "SONiC computes it while it runs: take it from `show buffer information`, or add \
                 buffer_bytes to the scenario",
            )
        };
        let size = buffer_bytes.or(pool.size).ok_or_else(missing)?;
        let whole = size.checked_add(pool.xoff.unwrap_or(0)).ok_or_else(|| {
            FileError::at(line, format!("BUFFER_POOL|{name}"), "size and xoff are above 4 GiB")
                .hint("a simulated buffer has at most 4 GiB")
        })?;
        config.buffer_bytes = whole;
        config.headroom_pool_bytes = pool.xoff;
        Ok(())
    }
}

/// The one field of a priority group or of the buffer of a queue.
fn profile_field(entry: &Entry) -> Result<&Field> {
    entry.only(&["profile"])?;
    let missing = || entry.wrong("\"profile\" is missing").hint("name a BUFFER_PROFILE");
    entry.field("profile").ok_or_else(missing)
}
