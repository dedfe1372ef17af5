//! The soft NICs of a run: which interfaces, and how packets get from one to the other.

use std::thread;

use bench::session::Settings;
use clap::Args;
use softnic::{DeviceInfo, Link, Options};

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct Common {
    /// Interfaces of those that ask and of those that serve, such as lo/127.0.0.1,lo/127.0.0.2;
    /// otherwise those of FERROCE_DEV, or loopback
    #[arg(long, value_name = "INTERFACE,...", value_delimiter = ',')]
    pub(super) dev: Vec<String>,

    /// Which way packets take to NICs of the same host (FERROCE_LINK)
    #[arg(long, value_parser = ["shm", "shm,icrc", "udp"])]
    pub(super) link: Option<String>,
}

pub(super) fn settings(common: &Common) -> Result<Settings, Failure> {
    let mut options = Options::from_environment().map_err(|error| Failure::from_message(&error))?;
    match common.link.as_deref() {
        Some("udp") => options.link = Link::Udp,
        Some("shm,icrc") => options.link = Link::SharedMemoryWithIcrc,
        Some(_) => options.link = Link::SharedMemory,
        None => {}
    }
    let devices: Result<Vec<DeviceInfo>, _> = match common.dev.as_slice() {
        [] => softnic::devices(),
        named => (0..).zip(named).map(|(index, name)| DeviceInfo::find(name, index)).collect(),
    };
    let devices = devices.map_err(|error| Failure::from_message(&error))?;
    let near = devices.first().cloned().ok_or_else(|| {
        Failure::new("there is no device").hint("name an interface with --dev, such as lo")
    })?;
    let far = devices.get(1).unwrap_or(&near).clone();
    Ok(Settings { near, far, options })
}

/// What the world consists of.
pub(super) fn about(settings: &Settings, address: Option<&str>) -> String {
    let Settings { near, far, options } = settings;
    let by = match options.link {
        _ if options.exact => "UDP, one packet a datagram",
        Link::Udp => "UDP",
        Link::SharedMemory => "shared memory where the host is the same, else UDP",
        Link::SharedMemoryWithIcrc => {
            "shared memory with ICRCs where the host is the same, else UDP"
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let where_to = match address {
        Some(address) => format!("{} to the server at {address}", near.interface),
        None if near == far => format!("{}, both ends in this process", near.interface),
        None => format!("{} to {}, both ends in this process", near.interface, far.interface),
    };
    format!("soft NICs in real time, by {by}; {where_to}; {cores} cores")
}
