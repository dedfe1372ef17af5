//! `dcb -j -s pfc show dev INTERFACE`: an object with `requests` and `indications`, a number for each priority.
//!
//! In the words of 802.1Q a *request* is a pause that this end sent, an *indication* one that it received.

use serde_json::Value;

use super::{ReadError, json_count};
use crate::watch::{Origin, PRIORITIES, PortName, Raw};

/// Adds the pauses of the interface `port`.
///
/// # Errors
/// It is no JSON, or has neither.
pub fn read(raw: &mut Raw, port: &PortName, text: &str) -> Result<(), ReadError> {
    let value: Value = serde_json::from_str(text).map_err(|error| ReadError::json(&error))?;
    let value = match &value {
        Value::Array(items) => items.first().unwrap_or(&value),
        value => value,
    };
    let value = value.get("pfc").unwrap_or(value);
    let mut any = false;
    raw.port(port);
    for key in ["requests", "indications"] {
        let Some(values) = value.get(key) else { continue };
        any = true;
        for priority in 0..PRIORITIES {
            let at = match values {
                Value::Array(values) => values.get(priority),
                values => values.get(priority.to_string()),
            };
            if let Some(count) = at.and_then(json_count) {
                raw.add(port, Origin::Dcb, &format!("{key}:{priority}"), count);
            }
        }
    }
    if any {
        Ok(())
    } else {
        Err(ReadError::whole(
            "expected requests and indications, as dcb -j -s pfc show prints them (mind -s)",
        ))
    }
}
