//! Recordings: a line of JSON for each look, so that what was seen once can be judged again.
//!
//! ```text
//!   {"at_us":1000000,"ports":[{"host":"","device":"mlx5_0","port":"1","netdev":"eth0","role":"nic","peer":null,
//!    "info":{},"counters":{"hw_counters":{"np_cnp_sent":3}}}]}
//! ```

use core::time::Duration;

use serde_json::{Map, Value, json};

use super::{ReadError, is_name, json_count};
use crate::watch::{Origin, PortName, Raw, Role};

/// The longest line that is read, and so the longest that may be written.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Whether a line that cannot be read is the beginning of one: whoever wrote it was ended.
pub fn is_cut(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_err_and(|error| error.is_eof())
}

/// The line of a look `at` so long after the first.
pub fn write(raw: &Raw, at: Duration) -> String {
    let ports = raw.ports().iter().map(|(name, port)| {
        let mut counters: Map<String, Value> = Map::new();
        for (origin, counter, value) in port.counters() {
            counters.entry(origin.name()).or_insert_with(|| json!({}))[counter] = value.into();
        }
        let peer = port.peer.as_ref().map(|(name, role)| json!([name, role_name(*role)]));
        json!({
            "host": name.host, "device": name.device, "port": name.port, "netdev": port.netdev,
            "role": role_name(port.role), "peer": peer, "info": port.info, "counters": counters,
        })
    });
    format!("{}\n", json!({ "at_us": at.as_micros() as u64, "ports": ports.collect::<Value>() }))
}

/// Reads a line.
///
/// # Errors
/// It is no line of a recording, or a counter in it is no count; `line` is its number.
pub fn read(text: &str, line: usize) -> Result<(Duration, Raw), ReadError> {
    let wrong = |expected: String| ReadError { line, expected };
    let value: Value =
        serde_json::from_str(text).map_err(|error| wrong(format!("no JSON: {error}")))?;
    let at = value
        .get("at_us")
        .and_then(json_count)
        .ok_or_else(|| wrong("expected at_us, in microseconds".into()))?;
    let ports = value
        .get("ports")
        .and_then(Value::as_array)
        .ok_or_else(|| wrong("expected ports, a list".into()))?;
    let mut raw = Raw::default();
    for port in ports {
        let text = |key: &str| port.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = PortName { host: text("host"), device: text("device"), port: text("port") };
        let at = raw.port(&name);
        (at.netdev, at.role) = (text("netdev"), role(&text("role")));
        if let Some([peer, of]) = port.get("peer").and_then(Value::as_array).map(Vec::as_slice) {
            at.peer = Some((
                peer.as_str().unwrap_or_default().into(),
                role(of.as_str().unwrap_or_default()),
            ));
        }
        for (label, value) in port.get("info").and_then(Value::as_object).into_iter().flatten() {
            at.info.insert(label.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        for (origin, counters) in
            port.get("counters").and_then(Value::as_object).into_iter().flatten()
        {
            let origin = Origin::named(origin)
                .ok_or_else(|| wrong(format!("unknown kind of counters {origin:?}")))?;
            for (counter, value) in counters.as_object().into_iter().flatten() {
                let count = json_count(value)
                    .ok_or_else(|| wrong(format!("{counter} of {name} is no count: {value}")))?;
                if is_name(counter) {
                    raw.add(&name, origin, counter, count);
                }
            }
        }
    }
    Ok((Duration::from_micros(at), raw))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Nic => "nic",
        Role::Switch => "switch",
    }
}

fn role(name: &str) -> Role {
    if name == "switch" { Role::Switch } else { Role::Nic }
}
