//! `ferroce devices`: what a program finds when it asks for RDMA devices.

use softnic::{DeviceInfo, Options, SourcePorts};

use crate::failure::Failure;
use crate::output::{fitted, print};

/// The devices of these interfaces; without any, of those that the environment names.
pub(crate) fn of(interfaces: &[String]) -> Result<Vec<DeviceInfo>, Failure> {
    let devices = if interfaces.is_empty() {
        softnic::devices()
    } else {
        (0..).zip(interfaces).map(|(index, name)| DeviceInfo::find(name, index)).collect()
    };
    devices.map_err(|error| Failure::from_message(&error))
}

pub(crate) fn list(interfaces: &[String]) -> Result<(), Failure> {
    let devices = of(interfaces)?;
    let options = Options::from_environment().map_err(|error| Failure::from_message(&error))?;
    let told: String = devices.iter().map(|device| described(device, &options)).collect();
    print(&fitted(&told))
}

fn described(device: &DeviceInfo, options: &Options) -> String {
    let DeviceInfo { name, interface, mtu, .. } = device;
    let link = if device.link_up { "up" } else { "down" };
    let path_mtu = device.active_mtu.bytes();
    let mut text = format!("{name}: {interface}, link {link}, MTU {mtu}, path MTU {path_mtu}\n");
    if let Some(shortcomings) = device.shortcomings() {
        text.push_str(&format!("    {shortcomings}\n"));
    }
    let control = options.congestion.told(device.lab.is_some());
    text.push_str(&format!("    congestion control: {control}\n"));
    text.push_str(&format!("    recovery: {}\n", options.recovery_told()));
    if interface != "lo" {
        text.push_str(&format!("    {}\n", between_hosts(device, options)));
    }
    for entry in &device.gids {
        let note = if entry.usable { "" } else { " (the interface has no such address)" };
        text.push_str(&format!("    GID {}: {}{note}\n", entry.index, entry.gid));
    }
    text
}

/// How it talks to other hosts.
fn between_hosts(device: &DeviceInfo, options: &Options) -> String {
    let ports = match options.source_ports {
        SourcePorts::ByFlow => "49152 to 65535, one of each flow",
        SourcePorts::One => "4791",
    };
    let stride = device.stride.filter(|_| options.signs);
    let longer = stride.map_or(String::new(), |bytes| {
        format!("packets to soft NICs on other hosts: up to {bytes} bytes where the path takes them\n    ")
    });
    format!("{longer}UDP source ports to other hosts: {ports}")
}
