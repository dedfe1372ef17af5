//! What `dcb -j {pfc,app,ets,buffer} show dev INTERFACE` prints, in whichever files; a key says what it is about.
//!
//! ```text
//!   pfc     {"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,...]}
//!   app     {"default_prio":[0],"dscp_prio":[[26,3],[48,6]]}
//!   ets     {"willing":false,"ets_cap":8,"tc_bw":[..],"tc_tsa":["ets",..],"prio_tc":[0,1,..]}
//!   buffer  {"prio_buffer":[0,0,0,1,..],"buffer_size":[..],"total_size":262016}
//! ```

use serde_json::{Map, Value};

use super::{Result, Wrong};
use crate::doctor::finding::quoted;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::doctor) struct Dcb {
    pub(in crate::doctor) pfc: Option<u8>,
    /// DSCPs that have a priority of their own; the others take the default.
    pub(in crate::doctor) dscp_to_priority: Option<[u8; 64]>,
    /// Whether the table names any DSCP at all: the kernel then trusts it.
    pub(in crate::doctor) has_dscp: bool,
    pub(in crate::doctor) priority_to_tc: Option<[u8; 8]>,
    pub(in crate::doctor) priority_to_buffer: Option<[u8; 8]>,
    pub(in crate::doctor) buffers: Option<[u32; 8]>,
}

const HINT: &str = "take it again: dcb -j pfc show dev INTERFACE > dcb-pfc.INTERFACE.json, and so app, ets, buffer";

pub(in crate::doctor) fn read(text: &str) -> Result<Dcb> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        Wrong::at(error.line().max(1), format!("it is no JSON: {what}"), HINT)
    })?;
    let Some(object) = value.as_object() else {
        return Err(Wrong::whole("it is no object of dcb", HINT));
    };
    let mut said = Dcb::default();
    let known = [
        "prio_pfc",
        "dscp_prio",
        "default_prio",
        "prio_tc",
        "prio_buffer",
        "buffer_size",
        "tc_maxrate",
        "pfc_cap",
        "ets_cap",
    ];
    // An empty table of applications is an empty object.
    if !object.is_empty() && !known.iter().any(|key| object.contains_key(*key)) {
        let key = object.keys().next().map_or("", String::as_str);
        return Err(Wrong::whole(format!("{} is no key of dcb", quoted(key)), HINT));
    }
    if let Some(value) = object.get("prio_pfc") {
        let bits = array(value, "prio_pfc", |value| match value {
            Value::Bool(on) => Some(u8::from(*on)),
            Value::String(word) if word == "on" => Some(1),
            Value::String(word) if word == "off" => Some(0),
            _ => value.as_u64().filter(|&bit| bit < 2).map(|bit| bit as u8),
        })?;
        said.pfc = Some((0..8).fold(0, |mask, bit| mask | bits[bit] << bit));
    }
    let small =
        |value: &Value| value.as_u64().filter(|&number| number < 8).map(|number| number as u8);
    if let Some(value) = object.get("prio_tc") {
        said.priority_to_tc = Some(array(value, "prio_tc", small)?);
    }
    if let Some(value) = object.get("prio_buffer") {
        said.priority_to_buffer = Some(array(value, "prio_buffer", small)?);
    }
    if let Some(value) = object.get("buffer_size") {
        let size = |value: &Value| value.as_u64().and_then(|size| u32::try_from(size).ok());
        said.buffers = Some(array(value, "buffer_size", size)?);
    }
    apps(object, &mut said)?;
    Ok(said)
}

fn apps(object: &Map<String, Value>, said: &mut Dcb) -> Result<()> {
    let Some(value) = object.get("dscp_prio") else { return Ok(()) };
    let wrong = || Wrong::whole("dscp_prio is no list of pairs of a DSCP and a priority", HINT);
    let default = object.get("default_prio").and_then(Value::as_array);
    let default = match default.and_then(|all| all.first()) {
        Some(value) => value.as_u64().filter(|&priority| priority < 8).ok_or_else(|| {
            Wrong::whole(format!("default_prio has {}", quoted(&value.to_string())), HINT)
        })?,
        None => 0,
    };
    let mut map = [default as u8; 64];
    let pairs = value.as_array().ok_or_else(wrong)?;
    for pair in pairs {
        let pair = pair.as_array().filter(|pair| pair.len() == 2).ok_or_else(wrong)?;
        let dscp = pair[0].as_u64().filter(|&dscp| dscp < 64).ok_or_else(wrong)?;
        let priority = pair[1].as_u64().filter(|&priority| priority < 8).ok_or_else(wrong)?;
        map[dscp as usize] = priority as u8;
    }
    said.has_dscp = !pairs.is_empty();
    said.dscp_to_priority = Some(map);
    Ok(())
}

fn array<T: Copy + Default>(
    value: &Value,
    key: &str,
    of: impl Fn(&Value) -> Option<T>,
) -> Result<[T; 8]> {
    let mut all = [T::default(); 8];
    let values = value.as_array().filter(|values| values.len() == 8);
    let values = values.ok_or_else(|| Wrong::whole(format!("{key} is no list of eight"), HINT))?;
    for (slot, value) in all.iter_mut().zip(values) {
        let wrong = || Wrong::whole(format!("{key} has {}", quoted(&value.to_string())), HINT);
        *slot = of(value).ok_or_else(wrong)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dcb_prints_is_read() {
        let pfc = r#"{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,false]}"#;
        assert_eq!(read(pfc).unwrap().pfc, Some(0b1000));
        let app = read(r#"{"default_prio":[1],"dscp_prio":[[26,3],[48,6]]}"#).unwrap();
        let map = app.dscp_to_priority.unwrap();
        assert_eq!((map[26], map[48], map[5], app.has_dscp), (3, 6, 1, true));
        let ets = read(r#"{"willing":false,"ets_cap":8,"prio_tc":[0,1,2,3,4,5,6,7]}"#).unwrap();
        assert_eq!(ets.priority_to_tc.unwrap()[5], 5);
        let buffer = r#"{"prio_buffer":[0,0,0,1,0,0,0,0],"buffer_size":[130944,130944,0,0,0,0,0,0],"total_size":262016}"#;
        assert_eq!(read(buffer).unwrap().priority_to_buffer.unwrap()[3], 1);
        assert_eq!(read("{}").unwrap(), Dcb::default());
    }

    #[test]
    fn what_is_something_else_is_refused() {
        for text in [
            "",
            "[]",
            "{\"prio_pfc\":[true]}",
            "{\"prio_pfc\":[1,2,3,4,5,6,7,8]}",
            "{\"dscp_prio\":[[64,3]]}",
            "{\"dscp_prio\":[[26,3.5]]}",
            "{\"default_prio\":[0.5],\"dscp_prio\":[[26,3]]}",
            "{\"buffer_size\":[1000.5,0,0,0,0,0,0,0]}",
            "{\"dscp_prio\":{\"26\":3}}",
            "{\"prio_tc\":[0,1,2,3,4,5,6,9]}",
            "{\"interfaces\":{}}",
            "{\"prio_pfc\":[false,fal",
        ] {
            let wrong = read(text).unwrap_err();
            assert!(!wrong.what.is_empty() && wrong.hint == HINT, "{text}");
        }
    }
}
