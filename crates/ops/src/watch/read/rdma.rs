//! `rdma -j statistic show` and `rdma -j statistic qp show` of iproute2: optional counters, which are in no file, and
//! queue pairs in sets of a type.

use serde_json::{Map, Value};

use super::{ReadError, is_name, json_count};
use crate::watch::{Origin, PortName, Raw};

/// What stands in an entry beside counters.
const NO_COUNTERS: [&str; 12] = [
    "ifindex",
    "ifname",
    "port",
    "cntn",
    "qp-type",
    "qp_type",
    "lqpn",
    "pid",
    "comm",
    "hw_counters",
    "kcomm",
    "mode",
];

/// Adds the counters of every link that it tells of. `host` is of [`PortName::host`].
///
/// # Errors
/// It is no JSON, or no list of links.
pub fn read(raw: &mut Raw, host: &str, text: &str) -> Result<(), ReadError> {
    let value: Value = serde_json::from_str(text).map_err(|error| ReadError::json(&error))?;
    let entries = value.as_array().ok_or_else(|| ReadError::whole("expected a list of links"))?;
    for entry in entries.iter().filter_map(Value::as_object) {
        let Some(device) = entry.get("ifname").and_then(Value::as_str) else { continue };
        let port = entry.get("port").and_then(json_count).unwrap_or(1);
        let port = PortName { host: host.into(), device: device.into(), port: port.to_string() };
        let kind = entry.get("qp-type").or_else(|| entry.get("qp_type")).and_then(Value::as_str);
        let is_set = entry.contains_key("cntn") || entry.contains_key("lqpn");
        let nested = entry.get("hw_counters").and_then(Value::as_object);
        for (name, value) in counters(entry).chain(nested.into_iter().flat_map(counters)) {
            if is_set {
                // Sets of one type are one series.
                let name = format!("{}:{name}", kind.unwrap_or("unknown"));
                raw.add(&port, Origin::QueuePairs, &name, value);
            } else if raw
                .ports()
                .get(&port)
                .is_none_or(|at| at.get(Origin::HwCounters, name).is_none())
            {
                raw.add(&port, Origin::Optional, name, value);
            }
        }
    }
    Ok(())
}

fn counters(entry: &Map<String, Value>) -> impl Iterator<Item = (&str, u64)> {
    let named =
        entry.iter().filter(|(name, _)| !NO_COUNTERS.contains(&name.as_str()) && is_name(name));
    named.filter_map(|(name, value)| Some((name.as_str(), json_count(value)?)))
}
