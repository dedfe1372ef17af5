//! Counters of SONiC switches: what `show pfc counters` and `show interfaces counters` print, and COUNTERS_DB as
//! `redis-dump`, `sonic-db-dump` or gNMI give it in JSON.
//!
//! ```text
//!     Port Rx    PFC0    PFC1 ...        COUNTERS_PORT_NAME_MAP   Ethernet0   -> oid:0x1000000000012
//!   ---------  ------  ------            COUNTERS_QUEUE_NAME_MAP  Ethernet0:3 -> oid:0x15000000000a4
//!   Ethernet0       0   1,024            COUNTERS:oid:0x1000...   SAI_PORT_STAT_PFC_3_RX_PKTS -> 1024
//! ```
//!
//! All become SAI's names: `SAI_QUEUE_STAT_PACKETS:3` is that of queue 3.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{ReadError, count, is_name, json_count};
use crate::limits::JSON_DEPTH_MAX;
use crate::watch::{Origin, PRIORITIES, PortName, Raw, Role};

/// The columns of `show interfaces counters`.
const INTERFACE: [(&str, &str); 6] = [
    ("RX_OK", "SAI_PORT_STAT_IF_IN_UCAST_PKTS"),
    ("RX_ERR", "SAI_PORT_STAT_IF_IN_ERRORS"),
    ("RX_DRP", "SAI_PORT_STAT_IF_IN_DISCARDS"),
    ("TX_OK", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS"),
    ("TX_ERR", "SAI_PORT_STAT_IF_OUT_ERRORS"),
    ("TX_DRP", "SAI_PORT_STAT_IF_OUT_DISCARDS"),
];

/// Adds what a `show` command printed on `switch`.
///
/// # Errors
/// No table in it is one of those above, or a line has other columns than its table; the other lines are added.
pub fn read_text(raw: &mut Raw, switch: &str, text: &str) -> Result<(), ReadError> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut any, mut odd) = (false, None);
    for (at, rule) in lines.iter().enumerate().skip(1) {
        if !rule.trim_start().starts_with("---") {
            continue;
        }
        let names = cells(lines[at - 1]);
        let Some(counters) = known(&names) else { continue };
        any = true;
        for (number, line) in lines.iter().enumerate().skip(at + 1) {
            let values = cells(line);
            if values.first().is_none_or(|interface| interface.starts_with("--")) {
                break;
            }
            if values.len() != names.len() {
                odd = odd.or(Some((number + 1, values.len(), names.len())));
                continue;
            }
            let port = PortName::new(switch, values[0]);
            raw.port(&port).role = Role::Switch;
            for (column, counter) in &counters {
                if let Some(value) = count(values[*column]) {
                    raw.add(&port, Origin::Sai, counter, value);
                }
            }
        }
    }
    match odd {
        _ if !any => Err(ReadError::whole(
            "expected the tables of show pfc counters or show interfaces counters",
        )),
        Some((line, has, of)) => {
            let expected = format!("expected {of} columns, as the table has, and there are {has}");
            Err(ReadError { line, expected })
        }
        None => Ok(()),
    }
}

/// Which column is which counter, of a table that is known.
fn known(names: &[&str]) -> Option<Vec<(usize, String)>> {
    let direction = match *names.first()? {
        "Port Rx" => Some("RX"),
        "Port Tx" => Some("TX"),
        "IFACE" => None,
        _ => return None,
    };
    let counter = |name: &&str| match direction {
        Some(direction) => {
            let priority: usize = name.strip_prefix("PFC")?.parse().ok()?;
            (priority < PRIORITIES)
                .then(|| format!("SAI_PORT_STAT_PFC_{priority}_{direction}_PKTS"))
        }
        None => {
            INTERFACE.iter().find(|(column, _)| column == name).map(|(_, sai)| (*sai).to_owned())
        }
    };
    Some(
        names
            .iter()
            .enumerate()
            .skip(1)
            .filter_map(|(at, name)| Some((at, counter(name)?)))
            .collect(),
    )
}

/// The cells of a line: two blanks stand between them, and one in some, as in `Port Rx` and `0.00 B/s`. Not by the
/// dashes below the names: where an editor or a paste has moved a line, a part of a number would be taken for all of it.
fn cells(line: &str) -> Vec<&str> {
    let parts = line.split("  ").flat_map(|part| part.split('\t'));
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Adds a COUNTERS_DB of `switch`: every key of it, in any nesting that dumps have (`{"value": {...}}`,
/// `{"COUNTERS_DB": {...}}`), or ports by name, as gNMI answers `COUNTERS/Ethernet*`.
///
/// # Errors
/// It is no JSON, or has no counters of ports.
pub fn read_json(raw: &mut Raw, switch: &str, text: &str) -> Result<(), ReadError> {
    let value: Value = serde_json::from_str(text).map_err(|error| ReadError::json(&error))?;
    let mut found = Found::default();
    found.look(&value, 0);
    let mut any = false;
    for (oid, counters) in &found.counters {
        let Some((port, queue)) = found.name(oid) else { continue };
        let port = PortName::new(switch, port);
        for (name, value) in counters.iter() {
            // Watermarks and states that are words are not counts.
            let Some(value) = json_count(value).filter(|_| is_name(name)) else { continue };
            any = true;
            raw.port(&port).role = Role::Switch;
            match queue {
                Some(queue) if queue < PRIORITIES => {
                    raw.add(&port, Origin::Sai, &format!("{name}:{queue}"), value);
                }
                Some(_) => {}
                None => raw.add(&port, Origin::Sai, name, value),
            }
        }
    }
    if any {
        Ok(())
    } else {
        Err(ReadError::whole(
            "expected COUNTERS_DB: COUNTERS:oid:... with COUNTERS_PORT_NAME_MAP, or ports by name",
        ))
    }
}

#[derive(Default)]
struct Found<'a> {
    /// From object to port, queue or priority group.
    names: BTreeMap<&'a str, &'a str>,
    /// Counters by object or name.
    counters: BTreeMap<&'a str, &'a Map<String, Value>>,
}

impl<'a> Found<'a> {
    fn look(&mut self, value: &'a Value, depth: usize) {
        let Value::Object(entries) = value else { return };
        if depth > JSON_DEPTH_MAX {
            return;
        }
        for (key, value) in entries {
            let value = value.get("value").filter(|value| value.is_object()).unwrap_or(value);
            let Value::Object(fields) = value else { continue };
            match key.as_str() {
                "COUNTERS_PORT_NAME_MAP" | "COUNTERS_QUEUE_NAME_MAP" | "COUNTERS_PG_NAME_MAP" => {
                    let names = fields
                        .iter()
                        .filter_map(|(name, oid)| Some((oid.as_str()?, name.as_str())));
                    self.names.extend(names);
                }
                key if fields
                    .keys()
                    .any(|name| name.starts_with("SAI_") || name.starts_with("PFC_WD_")) =>
                {
                    self.counters.insert(key.strip_prefix("COUNTERS:").unwrap_or(key), fields);
                }
                _ => self.look(value, depth + 1),
            }
        }
    }

    /// The port of an object, and its queue or group.
    fn name(&self, oid: &'a str) -> Option<(&'a str, Option<usize>)> {
        let name = match self.names.get(oid) {
            Some(name) => name,
            None if oid.starts_with("Ethernet") => oid,
            None => return None,
        };
        match name.split_once(':') {
            Some((port, queue)) => Some((port, Some(queue.parse().ok()?))),
            None => Some((name, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PFC: &str = "
  Port Rx    PFC0    PFC1    PFC2     PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  -------  ------  ------  ------  ------
Ethernet0       0       0       0    1,024       0       0       0       0
Ethernet4     N/A       0       0        7       0       0       0       0

  Port Tx    PFC0    PFC1    PFC2     PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  -------  ------  ------  ------  ------
Ethernet0       0       0       0        5       0       0       0       0
";

    const INTERFACES: &str = "
    IFACE    STATE    RX_OK     RX_BPS    RX_UTIL    RX_ERR    RX_DRP    RX_OVR    TX_OK     TX_BPS
---------  -------  -------  ---------  ---------  --------  --------  --------  -------  ---------
Ethernet0        U    1,500   0.00 B/s      0.00%         0        12         0      900  10.00 B/s
";

    fn value(raw: &Raw, port: &str, name: &str) -> Option<u64> {
        raw.ports().get(&PortName::new("tor0", port))?.get(Origin::Sai, name)
    }

    #[test]
    fn tables_of_show_are_read_by_their_columns() {
        let mut raw = Raw::default();
        read_text(&mut raw, "tor0", PFC).unwrap();
        read_text(&mut raw, "tor0", INTERFACES).unwrap();
        for (port, name, expected) in [
            ("Ethernet0", "SAI_PORT_STAT_PFC_3_RX_PKTS", Some(1_024)),
            ("Ethernet0", "SAI_PORT_STAT_PFC_3_TX_PKTS", Some(5)),
            ("Ethernet4", "SAI_PORT_STAT_PFC_0_RX_PKTS", None),
            ("Ethernet4", "SAI_PORT_STAT_PFC_3_RX_PKTS", Some(7)),
            ("Ethernet0", "SAI_PORT_STAT_IF_IN_DISCARDS", Some(12)),
            ("Ethernet0", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", Some(900)),
        ] {
            assert_eq!(value(&raw, port, name), expected, "{port} {name}");
        }
        assert!(read_text(&mut raw, "tor0", "Ethernet0 up\n").is_err());
    }

    #[test]
    fn lines_that_were_moved_are_read_and_those_with_other_columns_are_told() {
        let moved = PFC.replace("\nEthernet", "\n Ethernet").replace("  Port", "Port");
        let (mut as_it_was, mut raw) = (Raw::default(), Raw::default());
        read_text(&mut as_it_was, "tor0", PFC).unwrap();
        read_text(&mut raw, "tor0", &moved).unwrap();
        assert_eq!(raw, as_it_was);

        // Half of a number is no number, and the lines above are read all the same.
        let mut raw = Raw::default();
        let end =
            PFC.find("Ethernet4").unwrap() + "Ethernet4     N/A       0       0        7".len();
        let error = read_text(&mut raw, "tor0", &PFC[..end]).unwrap_err();
        assert_eq!(error.line, 5, "{error}");
        assert_eq!(value(&raw, "Ethernet0", "SAI_PORT_STAT_PFC_3_RX_PKTS"), Some(1_024));
        assert_eq!(value(&raw, "Ethernet4", "SAI_PORT_STAT_PFC_3_RX_PKTS"), None);
    }

    #[test]
    fn a_dump_of_counters_db_is_read_whatever_wraps_it() {
        let plain = r#"{
            "COUNTERS_PORT_NAME_MAP": {"Ethernet0": "oid:0x1"},
            "COUNTERS_QUEUE_NAME_MAP": {"Ethernet0:3": "oid:0x15", "Ethernet0:9": "oid:0x16"},
            "COUNTERS:oid:0x1": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "12"},
            "COUNTERS:oid:0x15": {"SAI_QUEUE_STAT_PACKETS": "99", "SAI_QUEUE_ATTR_PAUSE_STATUS": "true"},
            "COUNTERS:oid:0x16": {"SAI_QUEUE_STAT_PACKETS": "1"},
            "COUNTERS:oid:0xff": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "7"}
        }"#;
        let wrapped = r#"{"2": {
            "COUNTERS_PORT_NAME_MAP": {"type": "hash", "value": {"Ethernet0": "oid:0x1"}},
            "COUNTERS_QUEUE_NAME_MAP": {"type": "hash", "value": {"Ethernet0:3": "oid:0x15"}},
            "COUNTERS:oid:0x1": {"type": "hash", "value": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "12"}},
            "COUNTERS:oid:0x15": {"type": "hash", "value":
                {"SAI_QUEUE_STAT_PACKETS": "99", "SAI_QUEUE_ATTR_PAUSE_STATUS": "true"}}
        }}"#;
        for text in [plain, wrapped] {
            let mut raw = Raw::default();
            read_json(&mut raw, "tor0", text).unwrap();
            assert_eq!(value(&raw, "Ethernet0", "SAI_PORT_STAT_PFC_3_RX_PKTS"), Some(12));
            assert_eq!(value(&raw, "Ethernet0", "SAI_QUEUE_STAT_PACKETS:3"), Some(99));
            let queue = raw.sample().ports[&PortName::new("tor0", "Ethernet0")].queues[3];
            assert_eq!((queue.pauses_received, queue.paused), (Some(12), Some(true)));
        }
        let mut raw = Raw::default();
        read_json(&mut raw, "tor0", r#"{"Ethernet8": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "4"}}"#)
            .unwrap();
        assert_eq!(value(&raw, "Ethernet8", "SAI_PORT_STAT_PFC_3_RX_PKTS"), Some(4));
        for hostile in ["", "[", "[]", "{}", "17", r#"{"COUNTERS:oid:0x1": {"SAI_X": "1"}}"#] {
            assert!(read_json(&mut raw, "tor0", hostile).is_err(), "{hostile}");
        }
    }
}
