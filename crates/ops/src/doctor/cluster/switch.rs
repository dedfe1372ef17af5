//! A switch: its `config_db.json`, and what that means for each port.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use fabric::scenario::sonic::{self, ConfigDb, Entry, Field, FileError, Table};
use fabric::switch::config::{
    GroupConfig, PortConfig, QueueConfig, SwitchConfig, Trust, WatchdogConfig,
};
use fabric::topology::{Cables, propagation};
use rdma::Rate;

use super::{unknown, vendor};
use crate::doctor::finding::{Finding, Place, Severity, quoted};
use crate::doctor::folder::File;
use crate::doctor::limits::{PORTS_MAX, UNKNOWN_FIELDS_MAX};
use crate::doctor::source::lldp::{self, Neighbour};

/// See the module.
#[derive(Clone, Debug)]
pub struct Switch {
    /// What its folder is called.
    pub name: String,
    /// The `hostname` of its metadata, by which LLDP names it; empty if it does not say.
    pub hostname: String,
    /// The `type` of its metadata, such as `ToRRouter`; empty if it does not say.
    pub role: String,
    /// The `hwsku` of its metadata.
    pub hwsku: String,
    /// The `platform` of its metadata.
    pub platform: String,
    /// What `show version` says, if that is there.
    pub firmware: Option<String>,
    /// Its `config_db.json`.
    pub file: String,
    /// When that was written.
    pub modified: Option<SystemTime>,
    /// As they are written.
    pub tables: Vec<Table>,
    /// Every port of `PORT`, in the order of their numbers.
    pub ports: Vec<Port>,
    /// What groups share, in bytes; `None` where the file does not say how large the pool is.
    pub shared_bytes: Option<u64>,
    /// Older snapshots, the newest last.
    pub history: Vec<(String, Switch)>,
    pub(in crate::doctor) neighbours: Vec<Neighbour>,
    pub(in crate::doctor) lldp_file: Option<String>,
}

/// A port of a switch.
#[derive(Clone, Debug)]
pub struct Port {
    /// Such as `Ethernet0`.
    pub name: String,
    /// Such as `etp1`.
    pub alias: Option<String>,
    /// Of its link.
    pub rate: Option<Rate>,
    /// In bytes.
    pub mtu: Option<u32>,
    /// In metres.
    pub cable_m: Option<u32>,
    /// Whether it is to be up.
    pub up: bool,
    /// The line of its key in `PORT`.
    pub line: usize,
    /// What becomes of packets; `None` where the file makes no sense.
    pub qos: Option<Qos>,
}

/// What a port makes of packets and pauses, as a simulated switch understands the file.
#[derive(Clone, Debug)]
pub struct Qos {
    config: Arc<SwitchConfig>,
    local: u16,
    /// By [`Part`], a bit for each that is not understood.
    unknown: u8,
}

/// Tables that can be left out where they make no sense, so that the others are still judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Headroom, alpha and pools.
    Buffers,
    /// Whether and when queues mark.
    Marks,
    /// PFC watchdogs.
    Watchdogs,
    /// How long queues may be, which is simulated and not judged.
    Queues,
}

impl Part {
    /// All, with their tables.
    const ALL: [(Self, &[&str]); 4] = [
        (
            Self::Buffers,
            &[
                "BUFFER_PG",
                "BUFFER_POOL",
                "BUFFER_PROFILE",
                "BUFFER_QUEUE",
                "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
            ],
        ),
        (Self::Marks, &["QUEUE", "SCHEDULER", "WRED_PROFILE"]),
        (Self::Watchdogs, &["PFC_WD"]),
        (Self::Queues, &["BUFFER_QUEUE"]),
    ];

    /// In a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Buffers => "buffers",
            Self::Marks => "ECN marks",
            Self::Watchdogs => "watchdogs",
            Self::Queues => "limits of queues",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// What a message is about, by the table that it begins with; the smallest part that has it.
    fn of(message: &str) -> Option<Self> {
        let table = message.split(['|', ',', ':']).next()?;
        let mut with = Self::ALL.iter().rev().filter(|(_, tables)| tables.contains(&table));
        with.next().map(|(part, _)| *part)
    }

    /// A file without the tables of these parts, each line where it was.
    fn without(text: &str, parts: u8) -> String {
        let left_out = Self::ALL.iter().filter(|(part, _)| parts & part.bit() != 0);
        let names = left_out.flat_map(|(_, tables)| tables.iter());
        names.fold(text.to_owned(), |text, name| {
            text.replace(&format!("\"{name}\""), &format!("\"not understood: {name}\""))
        })
    }
}

impl Qos {
    /// The settings that it is of.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Whether DSCP or PCP says the class.
    pub fn trust(&self) -> Trust {
        self.config.trust
    }

    /// The class of a DSCP; of an untagged packet, if it is the tag that is trusted.
    pub fn class(&self, dscp: u8) -> u8 {
        match self.config.trust {
            Trust::Dscp => self.config.dscp_to_class[usize::from(dscp & 63)] & 7,
            Trust::Pcp => self.config.pcp_to_class[0] & 7,
        }
    }

    /// The priority group of a class.
    pub fn group(&self, class: u8) -> u8 {
        self.config.class_to_group[usize::from(class & 7)] & 7
    }

    /// The queue of a class.
    pub fn queue(&self, class: u8) -> u8 {
        self.config.class_to_queue[usize::from(class & 7)] & 7
    }

    /// The priority of the pauses that a group sends.
    pub fn priority(&self, group: u8) -> u8 {
        self.config.group_to_priority[usize::from(group & 7)] & 7
    }

    /// The queue that a received pause of a priority stops.
    pub fn stopped(&self, priority: u8) -> u8 {
        self.config.priority_to_queue[usize::from(priority & 7)] & 7
    }

    /// Whether the tables of a part are understood.
    pub fn knows(&self, part: Part) -> bool {
        self.unknown & part.bit() == 0
    }

    /// The parts that are not.
    pub fn unknown(&self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().map(|(part, _)| part).filter(|part| !self.knows(*part))
    }

    /// The settings of a priority group.
    pub fn group_config(&self, group: u8) -> &GroupConfig {
        let own = self.own().map_or(&self.config.groups, |port| &port.groups);
        &own[usize::from(group & 7)]
    }

    /// The settings of a queue.
    pub fn queue_config(&self, queue: u8) -> &QueueConfig {
        let own = self.own().map_or(&self.config.queues, |port| &port.queues);
        &own[usize::from(queue & 7)]
    }

    /// All of these, as a simulated port has them.
    pub fn port_config(&self) -> PortConfig {
        self.own().cloned().unwrap_or_else(|| PortConfig {
            groups: self.config.groups,
            queues: self.config.queues,
            watchdog: self.config.watchdog,
        })
    }

    /// Its watchdog.
    pub fn watchdog(&self) -> Option<&WatchdogConfig> {
        self.own().map_or(self.config.watchdog.as_ref(), |port| port.watchdog.as_ref())
    }

    /// The groups that pause.
    pub fn lossless(&self) -> impl Iterator<Item = u8> {
        (0..8).filter(|&group| self.group_config(group).lossless)
    }

    fn own(&self) -> Option<&PortConfig> {
        self.config.ports.get(&self.local)
    }
}

/// The pool of a switch that computes it while it runs, to make sense of the rest.
const UNKNOWN_POOL_BYTES: u32 = 32 << 20;

impl Switch {
    pub(super) fn read(name: &str, files: &[(&str, &File)], findings: &mut Vec<Finding>) -> Self {
        let mut switch = Self {
            name: name.to_owned(),
            hostname: String::new(),
            role: String::new(),
            hwsku: String::new(),
            platform: String::new(),
            firmware: None,
            file: String::new(),
            modified: None,
            tables: Vec::new(),
            ports: Vec::new(),
            shared_bytes: None,
            history: Vec::new(),
            neighbours: Vec::new(),
            lldp_file: None,
        };
        for &(path, file) in files {
            match path {
                "config_db.json" => switch.read_config(file, findings),
                "lldp.txt" | "lldp.json" => match lldp::read(&file.text()) {
                    Ok(neighbours) => {
                        switch.neighbours = neighbours;
                        switch.lldp_file = Some(file.path.clone());
                    }
                    Err(wrong) => {
                        let place = Place { file: file.path.clone(), line: wrong.line };
                        let what = format!("{}: {}.", file.path, wrong.what);
                        findings.push(Finding::not_understood(name, place, what, wrong.hint));
                    }
                },
                "version.txt" => {
                    let text = file.text();
                    let mut lines = text.lines();
                    let version = lines.find_map(|line| line.split_once("Software Version:"));
                    switch.firmware = version.map(|(_, version)| version.trim().to_owned());
                }
                _ => findings.push(unknown(name, file)),
            }
        }
        switch.raise_ports();
        switch
    }

    /// A port that the file does not say to be up or down is up if it has a neighbour.
    fn raise_ports(&mut self) {
        let is_silent = |port: &Port| {
            let own = self.entry("PORT", &port.name);
            own.is_some_and(|entry| entry.field("admin_status").is_none())
        };
        let is_up = |port: &Port| port.up || is_silent(port) && self.seen_at(port).next().is_some();
        let up: Vec<bool> = self.ports.iter().map(is_up).collect();
        self.ports.iter_mut().zip(up).for_each(|(port, up)| port.up = up);
    }

    fn read_config(&mut self, file: &File, findings: &mut Vec<Finding>) {
        self.file = file.path.clone();
        self.modified = file.modified;
        let text = file.text();
        let foreign = vendor(&text);
        let path = &file.path;
        let wrong = |name: &str, error: &FileError| {
            if let Some(vendor) = foreign {
                let what = format!("{path} is a configuration of {vendor}.");
                let hint = "of switches, SONiC's config_db.json is read";
                return Finding::not_understood(name, Place::of(path), what, hint);
            }
            let (what, hint) = error.words();
            let what = match what.strip_prefix("the file: ") {
                Some(rest) => format!("{path}: {rest}"),
                None => what.to_owned(),
            };
            let place = Place::new(path, error.line());
            let hint = hint.unwrap_or("compare it with `show runningconfiguration all`");
            Finding::not_understood(name, place, format!("{what}."), hint)
        };
        match sonic::tables(&text) {
            Ok(tables) => self.tables = tables,
            Err(error) => return findings.push(wrong(&self.name, &error)),
        }
        let metadata = |field: &str| {
            let entry = self.entry("DEVICE_METADATA", "localhost");
            let field = entry.and_then(|entry| entry.field(field));
            field.map(|field| field.value.clone()).unwrap_or_default()
        };
        (self.role, self.hwsku, self.platform, self.hostname) =
            (metadata("type"), metadata("hwsku"), metadata("platform"), metadata("hostname"));
        let ports = self.entries("PORT").len();
        if ports > PORTS_MAX {
            let what =
                format!("{}: PORT has {ports} entries, and {PORTS_MAX} are read.", file.path);
            let hint = "a folder is one device: take the file of this switch alone";
            let place = Place::of(&file.path);
            findings.push(Finding::not_understood(&self.name, place, what, hint));
            return;
        }
        self.ports = self.read_ports();
        findings.extend(self.odd_mtus());
        for of in same(&self.understand(&text)) {
            let mut finding = wrong(&self.name, of[0]);
            if foreign.is_none() && unknown_field(of[0]).is_some() {
                finding.severity = Severity::Warning;
                finding.text += " It was left out, and the rest was judged.";
            }
            if foreign.is_none() && of.len() > 1 {
                let more = of.len() - 1;
                let places = if more == 1 { "place" } else { "places" };
                finding.text += &format!(" So it is at {more} other {places}.");
                finding.places.extend(of[1..].iter().map(|error| Place::new(path, error.line())));
            }
            findings.push(finding);
        }
    }

    fn read_ports(&self) -> Vec<Port> {
        let cables = self.entries("CABLE_LENGTH");
        let cable = |port: &str| {
            let field = cables.iter().find_map(|entry| entry.field(port))?;
            field.value.trim().strip_suffix('m')?.parse().ok()
        };
        let mut ports: Vec<Port> = Vec::new();
        for entry in self.entries("PORT") {
            let number = |name: &str| entry.field(name)?.value.trim().parse::<u64>().ok();
            let text = |name: &str| entry.field(name).map(|field| field.value.clone());
            let rate = number("speed").filter(|&mbps| (1..=100_000_000).contains(&mbps));
            ports.push(Port {
                name: entry.key.clone(),
                alias: text("alias"),
                rate: rate.map(|mbps| Rate::from_bps(mbps * 1_000_000)),
                mtu: number("mtu").and_then(|mtu| u32::try_from(mtu).ok()),
                // SONiC's minigraph gives 0 m to ports without a neighbour.
                cable_m: cable(&entry.key).filter(|metres| (1..1_000_000).contains(metres)),
                up: text("admin_status").as_deref() == Some("up"),
                line: entry.line,
                qos: None,
            });
        }
        // A file that says it of no port does not say it.
        if ports.iter().all(|port| !port.up) {
            ports.iter_mut().for_each(|port| port.up = true);
        }
        ports.sort_by_key(|port| crate::doctor::finding::natural(&port.name));
        ports
    }

    /// MTUs that are said, and are none.
    fn odd_mtus(&self) -> Option<Finding> {
        let is_odd = |of: &&Field| of.value.trim().parse::<u32>().is_err();
        let odd = self.entries("PORT").iter();
        let odd = odd.filter_map(|entry| Some((entry, entry.field("mtu").filter(is_odd)?)));
        let odd: Vec<_> = odd.collect();
        let (entry, field) = odd.first()?;
        let others = match odd.len() - 1 {
            0 => String::new(),
            more => format!(", and so at {more} more"),
        };
        let text = format!(
            "{}, mtu: {} is no whole number{others}: it was left out.",
            entry.place(),
            quoted(&field.value)
        );
        let place = self.place(field.line);
        let finding =
            Finding::not_understood(&self.name, place, text, "plain digits, without a unit");
        Some(finding.severity(Severity::Warning))
    }

    /// What the file means for each port, and what of it makes no sense.
    fn understand(&mut self, text: &str) -> Vec<FileError> {
        let base = SwitchConfig::default();
        let names: Vec<String> = self.ports.iter().map(|port| port.name.clone()).collect();
        let links: Vec<Cables> = self.ports.iter().map(cables).collect();
        let is_ingress =
            |entry: &&Entry| entry.field("type").is_some_and(|of| of.value != "egress");
        // A switch without PFC may have no pool at all.
        let mut pools = self.entries("BUFFER_POOL").iter().filter(is_ingress).peekable();
        let are_sized = pools.peek().is_some() && pools.all(|entry| entry.field("size").is_some());
        let mut errors = Vec::new();
        let mut unknown = 0;
        let mut left_out = LeftOut::new();
        let (whole, made, (known, buffer)) = loop {
            let known = are_sized && unknown & Part::Buffers.bit() == 0;
            let buffer = (!known).then_some(UNKNOWN_POOL_BYTES);
            let tried = parsed(text, unknown, &left_out).map(|db| {
                let made = db.switch(&links, Some(&names), buffer, &base);
                (made, db)
            });
            if let Ok((Err(error), _)) | Err(error) = &tried
                && leave_out(error, &mut left_out)
            {
                errors.push(error.clone());
                continue;
            }
            let error = match tried {
                Ok((made, whole)) => break (whole, made, (known, buffer)),
                Err(error) => error,
            };
            let part = Part::of(error.words().0).filter(|part| unknown & part.bit() == 0);
            errors.push(error);
            let Some(part) = part else { return errors };
            unknown |= part.bit();
        };
        match made {
            Ok((config, _)) => {
                let config = Arc::new(config);
                for (local, port) in (0..).zip(&mut self.ports) {
                    port.qos = Some(Qos { config: Arc::clone(&config), local, unknown });
                }
            }
            // A simulated switch has one set of maps; here each port may have its own.
            Err(first) => {
                let of_whole = errors.len();
                let mut dbs = BTreeMap::from([(unknown, Ok(whole))]);
                for (port, link) in self.ports.iter_mut().zip(&links) {
                    let known = (unknown, buffer, &mut left_out);
                    port.qos = alone(text, port, link, known, &mut dbs, &mut errors);
                }
                // Together they may ask for what none asks for by itself.
                let is_of_maps = first.words().0.contains("its maps differ from those of");
                let none = self.ports.iter().all(|port| port.qos.is_none());
                if (known || none) && errors.len() == of_whole && !is_of_maps {
                    errors.push(first);
                }
            }
        }
        if known {
            self.shared_bytes = self.shared();
        }
        errors
    }

    /// What groups share.
    fn shared(&self) -> Option<u64> {
        let first = self.ports.iter().find_map(|port| port.qos.as_ref())?;
        let (mut reserved, mut headrooms) = (0_u64, 0_u64);
        for qos in self.ports.iter().filter_map(|port| port.qos.as_ref()) {
            for group in (0..8).map(|group| qos.group_config(group)) {
                reserved += u64::from(group.reserve_bytes);
                let headroom = if group.lossless { group.headroom_bytes.unwrap_or(0) } else { 0 };
                headrooms += u64::from(headroom);
            }
        }
        let config = first.config();
        let headrooms = config.headroom_pool_bytes.map_or(headrooms, u64::from);
        Some(u64::from(config.buffer_bytes).saturating_sub(reserved + headrooms))
    }

    /// The entries of a table.
    pub fn entries(&self, table: &str) -> &[Entry] {
        let found = self.tables.iter().find(|known| known.name == table);
        found.map_or(&[], |table| table.entries.as_slice())
    }

    /// An entry of a table.
    pub fn entry(&self, table: &str, key: &str) -> Option<&Entry> {
        self.entries(table).iter().find(|entry| entry.key == key)
    }

    /// A field of `PORT_QOS_MAP`: the port's own, or that for all.
    pub fn qos_field(&self, port: &str, name: &str) -> Option<(&Entry, &Field)> {
        let of = |key: &str| {
            let entries = self.entries("PORT_QOS_MAP").iter();
            let mut named = entries.filter(|entry| of_ports(&entry.key).any(|port| port == key));
            named.find_map(|entry| Some((entry, entry.field(name)?)))
        };
        of(port).or_else(|| of("global"))
    }

    /// The entry about a number of a port: of `BUFFER_PG`, `QUEUE`.
    pub fn numbered(&self, table: &str, port: &str, number: u8) -> Option<&Entry> {
        self.entries(table).iter().find(|entry| {
            let Some((ports, numbers)) = entry.key.rsplit_once('|') else { return false };
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let within = first.trim().parse().ok().is_some_and(|first: u8| first <= number)
                && last.trim().parse().ok().is_some_and(|last: u8| number <= last);
            within && of_ports(ports).any(|name| name == port)
        })
    }

    /// The entry that a field of another refers to, by name or as `[TABLE|name]`.
    pub fn referred(&self, field: &Field, table: &str) -> Option<&Entry> {
        let text = field.value.trim();
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let name = match inner {
            Some(inner) => inner.split_once('|')?.1,
            None => text,
        };
        self.entry(table, name)
    }

    /// The entry of `BUFFER_PG` or `BUFFER_QUEUE` about a number of a port, and the profile that it refers to.
    pub fn buffer(&self, table: &str, port: &str, number: u8) -> Option<(&Entry, &Entry)> {
        let entry = self.numbered(table, port, number)?;
        Some((entry, self.referred(entry.field("profile")?, "BUFFER_PROFILE")?))
    }

    /// What LLDP sees at a port.
    pub(in crate::doctor) fn seen_at(&self, port: &Port) -> impl Iterator<Item = &Neighbour> {
        let is_there =
            |of: &&Neighbour| of.local == port.name || port.alias.as_ref() == Some(&of.local);
        self.neighbours.iter().filter(is_there)
    }

    /// The ports that are judged.
    pub fn judged(&self) -> impl Iterator<Item = (&Port, &Qos)> {
        let up = self.ports.iter().filter(|port| port.up);
        up.filter_map(|port| Some((port, port.qos.as_ref()?)))
    }

    /// The port of that name, or of that alias.
    pub fn port(&self, name: &str) -> Option<&Port> {
        let named = self.ports.iter().find(|port| port.name == name);
        named.or_else(|| self.ports.iter().find(|port| port.alias.as_deref() == Some(name)))
    }

    /// A line of its file.
    pub(in crate::doctor) fn place(&self, line: usize) -> Place {
        Place::new(&self.file, line)
    }
}

/// Fields that no reader knows, by their entry's place (`TABLE|key`) and their name: the rest is judged without them.
type LeftOut = BTreeSet<(String, String)>;

/// A file without the tables of some parts, and without some fields.
fn parsed(text: &str, unknown: u8, left_out: &LeftOut) -> Result<ConfigDb, FileError> {
    let is_out = |entry: &Entry| {
        let place = if left_out.is_empty() { String::new() } else { entry.place() };
        move |field: &Field| left_out.iter().any(|of| of.0 == place && of.1 == field.name)
    };
    ConfigDb::parse_without(&Part::without(text, unknown), is_out)
}

/// The field that an error says is not known, with its entry's place.
fn unknown_field(error: &FileError) -> Option<(&str, &str)> {
    error.words().0.strip_suffix(": there is no such field")?.rsplit_once(", ")
}

/// Leaves out a field that is not known; whether that is what an error is about.
fn leave_out(error: &FileError, left_out: &mut LeftOut) -> bool {
    let Some((place, name)) = unknown_field(error) else { return false };
    left_out.len() < UNKNOWN_FIELDS_MAX && left_out.insert((place.to_owned(), name.to_owned()))
}

/// A port by itself; what of the file makes no sense for it is left out, and said.
fn alone(
    text: &str,
    port: &Port,
    link: &Cables,
    (mut unknown, buffer, left_out): (u8, Option<u32>, &mut LeftOut),
    dbs: &mut BTreeMap<u8, Result<ConfigDb, FileError>>,
    errors: &mut Vec<FileError>,
) -> Option<Qos> {
    let (links, names) = ([*link], [port.name.clone()]);
    loop {
        let db = dbs.entry(unknown);
        let db = db.or_insert_with(|| parsed(text, unknown, left_out));
        let buffer = match unknown & Part::Buffers.bit() {
            0 => buffer,
            _ => Some(UNKNOWN_POOL_BYTES),
        };
        let made = match db {
            Ok(db) => db.switch(&links, Some(&names), buffer, &SwitchConfig::default()),
            Err(error) => Err(error.clone()),
        };
        let error = match made {
            Ok((config, _)) => return Some(Qos { config: Arc::new(config), local: 0, unknown }),
            Err(error) => error,
        };
        if leave_out(&error, left_out) {
            errors.push(error);
            // None of them knows that it is left out.
            dbs.clear();
            continue;
        }
        let part = Part::of(error.words().0).filter(|part| unknown & part.bit() == 0);
        if !errors.contains(&error) {
            errors.push(error);
        }
        unknown |= part?.bit();
    }
}

/// Errors that say the same of several places: `TABLE|key, field: what`.
fn same(errors: &[FileError]) -> Vec<Vec<&FileError>> {
    let mut all: Vec<((&str, &str), Vec<&FileError>)> = Vec::new();
    for error in errors {
        let (place, what) = error.words().0.split_once(": ").unwrap_or_default();
        let key = (place.split('|').next().unwrap_or_default(), what);
        match all.iter_mut().find(|(other, _)| !what.is_empty() && *other == key) {
            Some((_, of)) => of.push(error),
            None => all.push((key, vec![error])),
        }
    }
    all.into_iter().map(|(_, of)| of).collect()
}

/// What is at a port, as the file says: 100 Gb/s and 5 m if it does not.
pub(in crate::doctor) fn cables(port: &Port) -> Cables {
    Cables {
        rate: port.rate.unwrap_or(Rate::from_gbps(100)),
        propagation: propagation(port.cable_m.unwrap_or(5)),
    }
}

/// The ports of a key: `Ethernet0,Ethernet4`.
pub(in crate::doctor) fn of_ports(key: &str) -> impl Iterator<Item = &str> {
    key.split(',').map(str::trim)
}
