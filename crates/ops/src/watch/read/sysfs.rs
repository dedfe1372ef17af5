//! Files below `infiniband/`, as in `/sys/class/infiniband`, of any vendor:
//!
//! ```text
//!   infiniband/mlx5_0/ports/1/counters/port_rcv_data             4-byte words, by IBTA
//!   infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent            whatever the driver has
//!   infiniband/mlx5_0/ports/1/state, phys_state, rate, link_layer, link_width
//!   infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0                  the network interface
//! ```

use super::{count, is_name};
use crate::watch::{Origin, PortName, Raw};

/// Adds what is in a file. `path` may begin anywhere above `infiniband/`; `false`: it is none of these.
pub fn read(raw: &mut Raw, host: &str, path: &str, text: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let Some(at) = parts.iter().rposition(|part| *part == "infiniband") else { return false };
    let [device, "ports", port, rest @ ..] = &parts[at + 1..] else { return false };
    let port = PortName { host: host.into(), device: (*device).into(), port: (*port).into() };
    let text = text.trim();
    match rest {
        [folder @ ("counters" | "hw_counters"), name] => {
            let Some(value) = count(text).filter(|_| is_name(name)) else { return false };
            let origin = if *folder == "counters" { Origin::Counters } else { Origin::HwCounters };
            raw.add(&port, origin, name, value);
        }
        ["gid_attrs", "ndevs", _] => {
            let netdev = &mut raw.port(&port).netdev;
            if netdev.is_empty() {
                text.clone_into(netdev);
            }
        }
        [name @ ("state" | "phys_state" | "rate" | "link_layer" | "link_width")] => {
            // `4: ACTIVE`
            let value = text.split_once(": ").map_or(text, |(_, name)| name);
            let label = if *name == "rate" { "link_speed" } else { name };
            raw.port(&port).info.insert(label.to_owned(), value.to_owned());
        }
        _ => return false,
    }
    true
}
