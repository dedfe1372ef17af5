//! NICs of Ferroce, whose counters come as names and values.

use crate::watch::{Origin, PortName, Raw};

/// Adds the counters of a NIC of a program. Programs with the same device are one sum.
pub fn read<'a>(raw: &mut Raw, device: &str, counters: impl IntoIterator<Item = (&'a str, u64)>) {
    let port = PortName::new(device, "1");
    let info = &mut raw.port(&port).info;
    for (label, value) in
        [("link_layer", "Ethernet"), ("state", "ACTIVE"), ("phys_state", "LinkUp")]
    {
        info.insert(label.to_owned(), value.to_owned());
    }
    for (name, value) in counters {
        raw.add(&port, Origin::Soft, name, value);
    }
}
