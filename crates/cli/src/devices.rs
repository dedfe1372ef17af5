//! `ferroce devices`: what a program finds when it asks for RDMA devices.

use softnic::DeviceInfo;

use crate::failure::Failure;

pub(crate) fn list() -> Result<(), Failure> {
    for device in softnic::devices().map_err(|error| Failure::from_message(&error))? {
        print(&device);
    }
    Ok(())
}

fn print(device: &DeviceInfo) {
    let DeviceInfo { name, interface, mtu, .. } = device;
    let link = if device.link_up { "up" } else { "down" };
    let path_mtu = device.active_mtu.bytes();
    println!("{name}: {interface}, link {link}, MTU {mtu}, path MTU {path_mtu}");
    for entry in &device.gids {
        let note = if entry.usable { "" } else { " (the interface has no such address)" };
        println!("    GID {}: {}{note}", entry.index, entry.gid);
    }
}
