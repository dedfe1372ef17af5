//! Which map of a switch sends a DSCP astray, so that the remedy changes that one: held against what sound ports of the
//! cluster make of the same DSCP.
//!
//! ```text
//!   DSCP ─ DSCP_TO_TC_MAP ─► class ─ TC_TO_PRIORITY_GROUP_MAP ─► group, in pfc_enable
//!                              └──── TC_TO_QUEUE_MAP ─► queue ◄─ MAP_PFC_PRIORITY_TO_QUEUE ─ priority of a pause
//! ```

use fabric::switch::config::Trust;

use super::{Look, alike, is_of_fabric};
use crate::doctor::cluster::{Qos, Switch};
use crate::doctor::finding::{Finding, several};
use crate::doctor::shell::{Line, typed};

/// What becomes of a DSCP at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Way {
    pub(super) class: u8,
    group: u8,
    queue: u8,
    /// Of the pauses that stop the queue.
    priority: u8,
}

impl Way {
    fn of(qos: &Qos, dscp: u8) -> Self {
        let class = qos.class(dscp);
        let group = qos.group(class);
        Self { class, group, queue: qos.queue(class), priority: qos.priority(group) }
    }

    /// Where no port is sound: by the priorities that pause, or those that do by SONiC's defaults.
    fn guessed(qos: &Qos, dscp: u8) -> Self {
        let class = qos.class(dscp);
        let mut pausing = qos.lossless().map(|group| qos.priority(group));
        let same = match pausing.next() {
            Some(first) if first != class && !pausing.any(|other| other == class) => first,
            None if class == 0 => 3,
            _ => class,
        };
        Self { class: same, group: same, queue: same, priority: same }
    }
}

/// What most ports do with a DSCP, of those that are sound.
pub(super) fn usual(look: Look<'_>, dscp: u8, is_sound: impl Fn(&Qos) -> bool) -> Option<Way> {
    let switches = look.cluster.switches.iter().enumerate();
    let ports = switches.flat_map(|(index, switch)| {
        switch.judged().filter(move |(port, _)| is_of_fabric(look, index, port))
    });
    let sound = ports.filter(|(_, qos)| qos.trust() == Trust::Dscp && is_sound(qos));
    let mut ways = alike(sound.map(|(_, qos)| (Way::of(qos, dscp), ())));
    ways.sort_by_key(|(_, of)| core::cmp::Reverse(of.len()));
    ways.first().map(|(way, _)| *way)
}

/// What is wrong at a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// An entry of a map.
    Map { of: Map, name: String, from: u8, to: u8 },
    /// Fields of `PORT_QOS_MAP` that are not there, and what they are to be, as far as other ports say it.
    Missing { of: Map, fields: Vec<(String, String)> },
    /// A priority that does not pause.
    Pfc { priority: u8, has_headroom: bool },
}

/// A map, as `PORT_QOS_MAP` refers to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Map {
    Dscp,
    Group,
    Queue,
    Stopped,
}

impl Map {
    const ALL: [Self; 4] = [Self::Dscp, Self::Group, Self::Queue, Self::Stopped];

    /// Its field, its table, and what it maps to what.
    const fn said(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Dscp => ("dscp_to_tc_map", "DSCP_TO_TC_MAP", "DSCP", "class"),
            Self::Group => ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP", "class", "group"),
            Self::Queue => ("tc_to_queue_map", "TC_TO_QUEUE_MAP", "class", "queue"),
            Self::Stopped => ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE", "priority", "queue"),
        }
    }
}

/// What is wrong at a port with a DSCP of data that should go that way.
pub(super) fn fault(switch: &Switch, port: &str, qos: &Qos, dscp: u8, way: Option<Way>) -> Fault {
    let way = way.unwrap_or_else(|| Way::guessed(qos, dscp));
    let class = qos.class(dscp);
    if class != way.class {
        return of_map(switch, port, Map::Dscp, dscp, way.class);
    }
    if qos.group(class) != way.group {
        return of_map(switch, port, Map::Group, class, way.group);
    }
    if !qos.group_config(way.group).lossless {
        let has_headroom = switch.numbered("BUFFER_PG", port, way.group).is_some();
        return Fault::Pfc { priority: qos.priority(way.group), has_headroom };
    }
    if qos.queue(class) != way.queue {
        return of_map(switch, port, Map::Queue, class, way.queue);
    }
    of_map(switch, port, Map::Stopped, way.priority, way.queue)
}

/// What is wrong at a port where answers share the queue of the data: `way` is that of the answers elsewhere, `data` that
/// of the data.
pub(super) fn fault_beside(
    switch: &Switch,
    port: &str,
    qos: &Qos,
    (dscp, way): (u8, Option<Way>),
    (data, data_way): (u8, Option<Way>),
) -> Fault {
    /// SONiC's own class for what controls the network.
    const CONTROL: u8 = 6;
    let (to, queue) = way.map_or((CONTROL, CONTROL), |way| (way.class, way.queue));
    let class = qos.class(dscp);
    if class != to {
        return of_map(switch, port, Map::Dscp, dscp, to);
    }
    if qos.queue(class) != queue {
        return of_map(switch, port, Map::Queue, class, queue);
    }
    fault(switch, port, qos, data, data_way)
}

fn of_map(switch: &Switch, port: &str, of: Map, from: u8, to: u8) -> Fault {
    let (field, table, ..) = of.said();
    let own = switch.qos_field(port, field);
    match own.and_then(|(_, field)| switch.referred(field, table)) {
        Some(map) => Fault::Map { of, name: map.key.clone(), from, to },
        None => Fault::Missing { of, fields: missing(switch, port, of) },
    }
}

/// What a port that has the map says that this one does not; the only map of the table if none has it.
fn missing(switch: &Switch, port: &str, of: Map) -> Vec<(String, String)> {
    let (field, table, ..) = of.said();
    let mut others = switch.judged().filter(|(other, _)| other.name != port);
    let whole = others.find(|(other, _)| {
        Map::ALL.iter().all(|map| switch.qos_field(&other.name, map.said().0).is_some())
    });
    let Some((other, _)) = whole else {
        return match switch.entries(table) {
            [only] => vec![(field.to_owned(), only.key.clone())],
            _ => Vec::new(),
        };
    };
    let fields = Map::ALL.iter().map(|map| map.said().0).chain(["pfc_enable"]);
    let silent = fields.filter(|field| switch.qos_field(port, field).is_none());
    silent
        .filter_map(|field| {
            let (_, said) = switch.qos_field(&other.name, field)?;
            Some((field.to_owned(), said.value.clone()))
        })
        .collect()
}

/// Ports that a finding has a command for.
const COMMANDS_MAX: usize = 8;

/// Where a fault of these ports stands, and what mends it.
pub(super) fn told(finding: Finding, switch: &Switch, ports: &[&str], fault: &Fault) -> Finding {
    let first = ports.first().copied().unwrap_or_default();
    let entry = format!("PORT_QOS_MAP|{first}");
    let line = |field: &str| switch.qos_field(first, field).map(|(_, field)| field.line);
    let of_port = switch.port(first).map_or(1, |port| port.line);
    match fault {
        Fault::Map { of, name, from, to } => {
            let (field, table, what, to_what) = of.said();
            let key = format!("{table}|{name}");
            let map = switch.entry(table, name);
            let own = map.map(|map| map.field(&from.to_string()).map_or(map.line, |own| own.line));
            finding
                .remedy(format!("map {what} {from} to {to_what} {to}"))
                .command(typed!("sonic-db-cli CONFIG_DB hset", key, from, to))
                .key(key)
                .at(switch.place(own.or(line(field)).unwrap_or(of_port)))
        }
        Fault::Missing { of, fields } => {
            let (field, ..) = of.said();
            let own = switch.entry("PORT_QOS_MAP", first).map(|entry| entry.line);
            let mut finding = finding
                .key(entry)
                .remedy(
                    "give the port the maps that the others have, and a BUFFER_PG where it pauses",
                )
                .at(switch.place(own.unwrap_or(of_port)));
            finding.text += &format!(" PORT_QOS_MAP has no {field} of {}.", several(ports));
            let ports = ports.iter().take(COMMANDS_MAX).filter(|_| !fields.is_empty());
            ports.fold(finding, |finding, port| {
                let key = format!("PORT_QOS_MAP|{port}");
                let command = typed!("sonic-db-cli CONFIG_DB hset", key);
                let words =
                    |line: Line, (field, value): &(String, String)| line.word(field).word(value);
                finding.command(fields.iter().fold(command, words))
            })
        }
        Fault::Pfc { priority, has_headroom } => {
            let headroom = match has_headroom {
                true => "",
                false => ", and a BUFFER_PG with headroom to it",
            };
            let finding = finding
                .key(entry)
                .remedy(format!("add priority {priority} to pfc_enable of the port{headroom}"))
                .at(switch.place(line("pfc_enable").unwrap_or(of_port)));
            ports.iter().take(COMMANDS_MAX).fold(finding, |finding, port| {
                finding.command(typed!("sudo config interface pfc priority", port, priority, "on"))
            })
        }
    }
}
