//! `ferroce devices`: what a program finds when it asks for RDMA devices.

use softnic::DeviceInfo;

use crate::failure::Failure;
use crate::output::print;

pub(crate) fn list() -> Result<(), Failure> {
    let devices = softnic::devices().map_err(|error| Failure::from_message(&error))?;
    print(&devices.iter().map(described).collect::<String>())
}

fn described(device: &DeviceInfo) -> String {
    let DeviceInfo { name, interface, mtu, .. } = device;
    let link = if device.link_up { "up" } else { "down" };
    let path_mtu = device.active_mtu.bytes();
    let mut text = format!("{name}: {interface}, link {link}, MTU {mtu}, path MTU {path_mtu}\n");
    if let Some(shortcomings) = device.shortcomings() {
        text.push_str(&format!("    {shortcomings}\n"));
    }
    for entry in &device.gids {
        let note = if entry.usable { "" } else { " (the interface has no such address)" };
        text.push_str(&format!("    GID {}: {}{note}\n", entry.index, entry.gid));
    }
    text
}
