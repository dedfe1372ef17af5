//! Rows of `counters.parquet`, which `ferroce sim -o` writes: of switches under SAI's names, of NICs under Linux'.

use super::is_name;
use crate::watch::{Origin, PortName, Raw, Role};

/// Adds a row.
pub fn read(raw: &mut Raw, kind: &str, node: &str, neighbour: &str, counter: &str, value: u64) {
    if !is_name(counter) {
        return;
    }
    if kind == "switch" {
        let port = PortName::new(node, neighbour);
        raw.port(&port).role = Role::Switch;
        raw.add(&port, Origin::Sai, counter, value);
        return;
    }
    let port = PortName::new(node, "1");
    let at = raw.port(&port);
    if at.info.is_empty() {
        for (label, value) in
            [("link_layer", "Ethernet"), ("state", "ACTIVE"), ("phys_state", "LinkUp")]
        {
            at.info.insert(label.to_owned(), value.to_owned());
        }
    }
    let interface = counter.starts_with("rx_prio") || counter.starts_with("tx_");
    let origin = if interface && !counter.starts_with("tx_blocked") {
        Origin::Ethtool
    } else {
        Origin::Soft
    };
    raw.add(&port, origin, counter, value);
}

/// Says what the ports of switches lead to, which the names of their neighbours tell.
pub fn join(raw: &mut Raw) {
    let switches: Vec<String> = raw
        .ports()
        .iter()
        .filter(|(_, port)| port.role == Role::Switch)
        .map(|(name, _)| name.device.clone())
        .collect();
    let names: Vec<PortName> = raw.ports().keys().cloned().collect();
    for name in names {
        let port = raw.port(&name);
        if port.role == Role::Switch {
            let role =
                if switches.binary_search(&name.port).is_ok() { Role::Switch } else { Role::Nic };
            port.peer = Some((name.port.clone(), role));
        }
    }
}
