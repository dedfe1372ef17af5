//! Neighbours: `lldpctl -f json` of lldpd, or `show lldp table` of SONiC.

use serde_json::Value;

use super::{Result, Wrong};
use crate::doctor::finding::quoted;
use crate::doctor::limits::NEIGHBOURS_MAX;

/// What is at the other end of a local port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::doctor) struct Neighbour {
    /// The local port or interface.
    pub(in crate::doctor) local: String,
    /// The name of the neighbour.
    pub(in crate::doctor) device: String,
    /// What it calls its port: an identifier, and a description.
    pub(in crate::doctor) ports: Vec<String>,
    /// From 1, if it is known.
    pub(in crate::doctor) line: Option<usize>,
}

/// Reads either.
pub(in crate::doctor) fn read(text: &str) -> Result<Vec<Neighbour>> {
    if text.trim_start().starts_with('{') { json(text) } else { table(text) }
}

fn json(text: &str) -> Result<Vec<Neighbour>> {
    let hint = "take it again: lldpctl -f json > lldp.json";
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        Wrong::at(error.line().max(1), format!("it is no JSON: {what}"), hint)
    })?;
    let lldp = value.get("lldp").and_then(Value::as_object);
    let lldp = lldp.ok_or_else(|| Wrong::whole("it has no \"lldp\"", hint))?;
    let mut found = Vec::new();
    // One interface is an object, several are a list of objects.
    let mut each = |interfaces: &Value| {
        for (local, about) in interfaces.as_object().into_iter().flatten() {
            let chassis = about.get("chassis").and_then(Value::as_object);
            // A chassis without a name has its fields where others have their names.
            let named = chassis
                .into_iter()
                .flatten()
                .find(|(_, value)| value.is_object() && value.get("id").is_some());
            let Some((device, _)) = named else { continue };
            let port = about.get("port");
            let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
            let id = text(port.and_then(|port| port.get("id")).and_then(|id| id.get("value")));
            let descr = text(port.and_then(|port| port.get("descr")));
            let ports = id.into_iter().chain(descr).collect();
            if found.len() < NEIGHBOURS_MAX {
                let (local, device) = (local.clone(), device.clone());
                found.push(Neighbour { local, device, ports, line: None });
            }
        }
    };
    match lldp.get("interface") {
        Some(Value::Array(all)) => all.iter().for_each(&mut each),
        Some(one) => each(one),
        None => {}
    }
    // Lines are those that name the interface, where there is only one such.
    for neighbour in &mut found {
        let name = format!("\"{}\"", neighbour.local);
        let mut lines = text.lines().enumerate().filter(|(_, line)| line.contains(&name));
        neighbour.line = lines.next().map(|(number, _)| number + 1);
    }
    Ok(found)
}

fn table(text: &str) -> Result<Vec<Neighbour>> {
    let hint = "take it again: show lldp table > lldp.txt, or lldpctl -f json > lldp.json";
    if text.trim().is_empty() {
        return Err(Wrong::whole("it is empty", hint));
    }
    let mut lines = text.lines().enumerate();
    if !lines.any(|(_, line)| line.trim_start().starts_with("LocalPort")) {
        let what =
            "it is neither JSON of lldpctl nor a table with a row that begins with LocalPort";
        return Err(Wrong::whole(what, hint));
    }
    let mut found = Vec::new();
    let mut rows = 0;
    for (number, line) in lines {
        if let Some(total) = line.trim().strip_prefix("Total entries displayed:") {
            if total.trim().parse() != Ok(rows) {
                let what = format!("it has {rows} of {} rows", quoted(total.trim()));
                return Err(Wrong::at(number + 1, what, hint));
            }
            return Ok(found);
        }
        let mut words = line.split_whitespace();
        let (Some(local), Some(device), Some(port)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if local.starts_with('-') {
            continue;
        }
        rows += 1;
        let descr: Vec<&str> = words.skip(1).collect();
        let ports = vec![port.to_owned(), descr.join(" ")];
        if found.len() < NEIGHBOURS_MAX {
            let (local, device) = (local.to_owned(), device.to_owned());
            found.push(Neighbour { local, device, ports, line: Some(number + 1) });
        }
    }
    Err(Wrong::whole("it is cut: its last line, \"Total entries displayed\", is missing", hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(local: &str, device: &str, ports: &[&str], line: usize) -> Neighbour {
        let ports = ports.iter().map(|port| (*port).to_owned()).collect();
        Neighbour { local: local.into(), device: device.into(), ports, line: Some(line) }
    }

    #[test]
    fn both_forms_are_read() {
        let text = "\
Capability codes: (R) Router, (B) Bridge, (O) Other
LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr
-----------  --------------  --------------  ------------  -----------------
Ethernet112  leaf-1          etp5            BR            Ethernet16
Ethernet0    h0              0c:42:a1:88:0a:1c  R          Interface   8 as eth2
--------------------------------------------------
Total entries displayed:  2
";
        assert_eq!(
            read(text).unwrap(),
            [
                neighbour("Ethernet112", "leaf-1", &["etp5", "Ethernet16"], 4),
                neighbour("Ethernet0", "h0", &["0c:42:a1:88:0a:1c", "Interface 8 as eth2"], 5),
            ]
        );
        let one = "{\n \"lldp\": {\n  \"interface\": {\n   \"eth2\": {\n    \"via\": \"LLDP\",\n    \"chassis\": {\"tor-1\": \
                   {\"id\": {\"type\": \"mac\", \"value\": \"aa\"}}},\n    \"port\": {\"id\": {\"type\": \"local\", \
                   \"value\": \"etp1\"}, \"descr\": \"Ethernet0\"}}}}}";
        assert_eq!(read(one).unwrap(), [neighbour("eth2", "tor-1", &["etp1", "Ethernet0"], 4)]);
        let many = r#"{"lldp":{"interface":[{"eth2":{"chassis":{"a":{"id":{}}},"port":{}}},{"eth3":{"chassis":{"id":{}}}}]}}"#;
        assert_eq!(read(many).unwrap(), [neighbour("eth2", "a", &[], 1)]);
        assert_eq!(read("{\"lldp\":{}}").unwrap(), []);
    }

    #[test]
    fn something_else_is_refused() {
        for text in ["", "{}", "{\"lldp\":[]}", "eth0 is up", "{\"lldp\":{\"interface\""] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
