//! Which RDMA devices there are: the interfaces that the user has named.

use core::net::{IpAddr, Ipv6Addr};
use std::env;

use rdma::Mtu;
use transport::limits::STRIDE_MAX;
use wire::bth::Stride;

use crate::host::gid::{self, GidEntry};
use crate::host::interfaces::{self, Interface, Offloads};
use crate::{OpenError, SettingError, lab};

/// One RDMA device: a network interface that the soft NIC is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// `ferroce0`, `ferroce1` and so on, in the order in which the user named them.
    pub name: String,
    /// The interface, as `lo` or `eth0`.
    pub interface: String,
    /// The interface's index, which scopes link-local addresses.
    pub interface_index: u32,
    /// Which device it is, from 0.
    pub index: u32,
    /// The MAC address. Loopback has none: it is given one of local administration that holds its
    /// IPv4 address.
    pub mac: [u8; 6],
    /// The node GUID: the EUI-64 of the MAC address.
    pub guid: u64,
    /// The interface's MTU.
    pub mtu: u32,
    /// The largest RDMA MTU that fits, or what `FERROCE_MTU` says.
    pub active_mtu: Mtu,
    /// Bytes of payload of the packets between its queue pairs and those of soft NICs on other hosts, where the path takes
    /// packets as long. `None` keeps to the path MTU, as where `FERROCE_MTU` says one.
    pub stride: Option<u32>,
    /// What the interface and the kernel do for GSO batches.
    pub offloads: Offloads,
    /// Whether the interface is up and running.
    pub link_up: bool,
    /// The GID table.
    pub gids: Vec<GidEntry>,
    /// The host of a lab that it is the NIC of, instead of an interface's.
    pub lab: Option<lab::Site>,
}

/// The devices that `FERROCE_DEV` names, or the loopback interface alone if it is not set.
///
/// The variable is a list, separated by commas. `eth0` is an interface with all its addresses;
/// `lo/127.0.0.2` is one address of an interface, so that a machine can have several NICs. Of a
/// loopback interface every address of `127.0.0.0/8` can be had.
///
/// Where `FERROCE_LAB` names a lab, there is one device, the NIC of `FERROCE_LAB_HOST` in it.
///
/// # Errors
/// An unknown interface or address, with those that exist, or an unfit `FERROCE_MTU`.
pub fn devices() -> Result<Vec<DeviceInfo>, OpenError> {
    let named = env::var("FERROCE_DEV").unwrap_or_default();
    let mtu = env::var("FERROCE_MTU").ok();
    if let Some(site) = lab::site()? {
        return Ok(vec![DeviceInfo::in_lab(&site, mtu.as_deref())?]);
    }
    list(&named, mtu.as_deref(), &interfaces()?)
}

impl DeviceInfo {
    /// The device that `selector`, one element of `FERROCE_DEV`, names; it is device `index`.
    ///
    /// # Errors
    /// As [`devices`].
    pub fn find(selector: &str, index: u32) -> Result<Self, OpenError> {
        let mtu = env::var("FERROCE_MTU").ok();
        device(selector, index, mtu.as_deref(), &interfaces()?)
    }

    /// The NIC of a host of a lab, with an MTU that is not the largest if that is said.
    ///
    /// # Errors
    /// The lab says why there is none, or cannot be asked; an unfit MTU.
    pub fn in_lab(site: &lab::Site, mtu: Option<&str>) -> Result<Self, OpenError> {
        let lab::SiteNic { address, mac, mtu: largest } = site.nic()?;
        let active_mtu = match mtu {
            None => largest,
            Some(text) => lab::mtu_of(text).filter(|mtu| *mtu <= largest).ok_or_else(|| {
                let problem = format!("`{text}` is not an RDMA MTU of this host's NIC");
                let hint = format!("use 256, 512, 1024, 2048 or 4096, up to {}", largest.bytes());
                SettingError::new("FERROCE_MTU", problem, hint)
            })?,
        };
        Ok(Self {
            name: "ferroce0".to_owned(),
            interface: site.host.clone(),
            interface_index: 1,
            index: 0,
            mac,
            guid: u64::from_be_bytes(gid::eui64(mac)),
            mtu: largest.bytes() + rdma::mtu::HEADROOM,
            active_mtu,
            stride: None,
            offloads: Offloads { segmentation: true, coalescing: true },
            link_up: true,
            gids: gid::table(mac, &[address.into()]),
            lab: Some(site.clone()),
        })
    }

    /// The interface's speed in Mb/s, 0 if it says none. Loopback, which has none, is shown as 100 Gb/s.
    pub fn speed_mbps(&self) -> u32 {
        if self.interface == "lo" {
            return 100_000;
        }
        let path = format!("/sys/class/net/{}/speed", self.interface);
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// What the interface lacks to be fast, in one line; `None` if it lacks nothing.
    pub fn shortcomings(&self) -> Option<String> {
        let mut lacks = Vec::new();
        if !self.offloads.segmentation {
            lacks.push("segmentation (GSO), so packets may be sent by a call each".to_owned());
        }
        if !self.offloads.coalescing {
            lacks.push("coalescing (GRO), so packets may be received by a call each".to_owned());
        }
        let largest = Mtu::fitting(self.mtu);
        if largest < Mtu::B4096 {
            let needed = Mtu::B4096.bytes() + rdma::mtu::HEADROOM;
            lacks.push(format!(
                "an MTU of {needed} for RDMA packets of 4096 bytes (its {} carries {})",
                self.mtu,
                largest.bytes()
            ));
        }
        (!lacks.is_empty()).then(|| format!("{} lacks {}", self.interface, lacks.join("; ")))
    }
}

fn interfaces() -> Result<Vec<Interface>, OpenError> {
    let doing = "the network interfaces could not be listed";
    interfaces::all().map_err(|error| OpenError::Io { doing, error })
}

fn list(
    named: &str,
    mtu: Option<&str>,
    interfaces: &[Interface],
) -> Result<Vec<DeviceInfo>, OpenError> {
    let mut selectors: Vec<&str> =
        named.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if selectors.is_empty() {
        // A host without loopback (a fresh network namespace has it down, but has it) has no device
        // until one is named.
        selectors.extend(interfaces.iter().find(|i| i.loopback).map(|i| i.name.as_str()));
    }
    (0..).zip(selectors).map(|(index, name)| device(name, index, mtu, interfaces)).collect()
}

fn device(
    selector: &str,
    index: u32,
    mtu: Option<&str>,
    interfaces: &[Interface],
) -> Result<DeviceInfo, OpenError> {
    let (name, address) = match selector.split_once('/') {
        Some((name, address)) => (name, Some(address)),
        None => (selector, None),
    };
    let interface = interfaces.iter().find(|interface| interface.name == name);
    let interface = interface.ok_or_else(|| {
        let existing: Vec<&str> = interfaces.iter().map(|it| it.name.as_str()).collect();
        let problem = format!("there is no network interface `{name}`");
        SettingError::new("FERROCE_DEV", problem, format!("this host has {}", existing.join(", ")))
    })?;
    let addresses = match address {
        None => interface.addresses.clone(),
        Some(text) => vec![chosen(interface, text).ok_or_else(|| no_address(interface, text))?],
    };
    let mac = match address {
        None if interface.mac != [0; 6] => interface.mac,
        _ => local_mac(&addresses),
    };
    let active_mtu = active_mtu(interface, mtu)?;
    let room = Stride::of_interface(interface.mtu).bytes().map(|bytes| bytes.min(STRIDE_MAX));
    let may = mtu.is_none() && !interface.loopback;
    let stride = room.filter(|bytes| may && *bytes >= active_mtu.bytes());
    Ok(DeviceInfo {
        name: format!("ferroce{index}"),
        interface: interface.name.clone(),
        interface_index: interface.index,
        index,
        mac,
        guid: u64::from_be_bytes(gid::eui64(mac)),
        mtu: interface.mtu,
        offloads: interface.offloads,
        active_mtu,
        stride,
        link_up: interface.up,
        gids: gid::table(mac, &addresses),
        lab: None,
    })
}

/// The address that `text` is, if the interface has it.
fn chosen(interface: &Interface, text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let has = interface.addresses.contains(&address);
    let is_local = interface.loopback && address.is_loopback() && address.is_ipv4();
    (has || is_local).then_some(address)
}

/// Says that an interface does not have the address `text`, and which ones it has.
fn no_address(interface: &Interface, text: &str) -> SettingError {
    let Interface { name, addresses, .. } = interface;
    let mut existing: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    if existing.iter().any(|address| address == "127.0.0.1") {
        existing.push("every other of 127.0.0.0/8".to_owned());
    }
    if existing.is_empty() {
        existing.push("none".to_owned());
    }
    let problem = format!("interface `{name}` does not have the address `{text}`");
    SettingError::new("FERROCE_DEV", problem, format!("it has {}", existing.join(", ")))
}

/// A locally administered MAC address for what has none of its own: two devices of one host differ
/// in it, because they differ in their first address.
fn local_mac(addresses: &[IpAddr]) -> [u8; 6] {
    let v4 = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    let low = match v4 {
        Some(IpAddr::V4(v4)) => v4.octets(),
        Some(IpAddr::V6(v6)) => fold(*v6),
        None => [0; 4],
    };
    [0x02, 0xfe, low[0], low[1], low[2], low[3]]
}

/// An IPv6 address in 32 bits.
fn fold(address: Ipv6Addr) -> [u8; 4] {
    let words = address.octets();
    let mut folded = [0; 4];
    for (at, byte) in words.into_iter().enumerate() {
        folded[at % 4] ^= byte;
    }
    folded
}

fn active_mtu(interface: &Interface, asked: Option<&str>) -> Result<Mtu, SettingError> {
    let Interface { name, mtu, .. } = interface;
    let largest = Mtu::fitting(*mtu);
    let Some(value) = asked else { return Ok(largest) };
    let bytes: Option<u32> = value.trim().parse().ok();
    let fits = |mtu: &Mtu| Some(mtu.bytes()) == bytes && *mtu <= largest;
    Mtu::ALL.into_iter().find(fits).ok_or_else(|| {
        let problem = format!("`{value}` is not an RDMA MTU that fits `{name}`");
        let largest = largest.bytes();
        let hint = format!(
            "use 256, 512, 1024, 2048 or 4096; {largest} is the largest for an interface MTU of {mtu}"
        );
        SettingError::new("FERROCE_MTU", problem, hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces() -> Vec<Interface> {
        let loopback = Interface {
            name: "lo".to_owned(),
            index: 1,
            mac: [0; 6],
            mtu: 65_536,
            up: true,
            loopback: true,
            offloads: Offloads { segmentation: true, coalescing: true },
            addresses: vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
        };
        let ethernet = Interface {
            name: "eth0".to_owned(),
            index: 2,
            mac: [2, 0xfc, 0, 0, 0, 1],
            mtu: 1500,
            loopback: false,
            addresses: vec!["10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap()],
            ..loopback.clone()
        };
        vec![loopback, ethernet]
    }

    #[test]
    fn loopback_alone_until_a_device_is_named() {
        let devices = list("", None, &interfaces()).unwrap();
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].name, "ferroce0");
        assert_eq!(devices[0].interface, "lo");
        assert_eq!(devices[0].active_mtu, Mtu::B4096);
        assert_eq!(devices[0].guid, 0x00fe_7fff_fe00_0001);
    }

    #[test]
    fn devices_are_numbered_as_they_are_named() {
        let devices = list("eth0, lo/127.0.0.2,eth0/10.0.0.3", None, &interfaces()).unwrap();
        let gids: Vec<_> = devices
            .iter()
            .map(|device| (device.name.as_str(), device.gids[1].gid.to_string()))
            .collect();
        assert_eq!(
            gids,
            [
                ("ferroce0", "::ffff:10.0.0.2".to_owned()),
                ("ferroce1", "::ffff:127.0.0.2".to_owned()),
                ("ferroce2", "::ffff:10.0.0.3".to_owned()),
            ]
        );
        assert_eq!(devices[0].active_mtu, Mtu::B1024);
        let mut guids: Vec<u64> = devices.iter().map(|device| device.guid).collect();
        guids.dedup();
        assert_eq!(guids.len(), 3);
    }

    #[test]
    fn what_an_interface_lacks_is_said_in_one_line() {
        let mut interfaces = interfaces();
        assert_eq!(list("lo", None, &interfaces).unwrap()[0].shortcomings(), None);
        let said = |interfaces: &[Interface]| {
            list("eth0", None, interfaces).unwrap()[0].shortcomings().unwrap()
        };
        let mtu = "an MTU of 4180 for RDMA packets of 4096 bytes (its 1500 carries 1024)";
        assert_eq!(said(&interfaces), format!("eth0 lacks {mtu}"));
        interfaces[1].offloads = Offloads { segmentation: false, coalescing: false };
        assert_eq!(
            said(&interfaces),
            format!(
                "eth0 lacks segmentation (GSO), so packets may be sent by a call each; \
                 coalescing (GRO), so packets may be received by a call each; {mtu}"
            )
        );
    }

    #[test]
    fn an_unknown_interface_is_named_beside_those_that_exist() {
        let error = list("lo,eth7", None, &interfaces()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "FERROCE_DEV: there is no network interface `eth7`\nhint: this host has lo, eth0"
        );
    }

    #[test]
    fn an_address_of_another_interface_is_refused() {
        for selector in ["eth0/127.0.0.2", "lo/10.0.0.2", "eth0/nonsense", "eth0/"] {
            let error = list(selector, None, &interfaces()).unwrap_err();
            let is_about = error.to_string().contains("does not have the address");
            assert!(is_about, "{selector}: {error}");
        }
        let error = list("lo/10.0.0.2", None, &interfaces()).unwrap_err();
        assert!(error.to_string().ends_with(", every other of 127.0.0.0/8"), "{error}");
    }

    #[test]
    fn an_mtu_that_does_not_fit_is_refused() {
        assert_eq!(list("lo", Some("1024"), &interfaces()).unwrap()[0].active_mtu, Mtu::B1024);
        let stride = |mtu, name| list(name, mtu, &interfaces()).unwrap()[0].stride;
        assert_eq!(stride(None, "eth0"), Some(1408));
        assert_eq!((stride(Some("1024"), "eth0"), stride(None, "lo")), (None, None));
        let mut others = interfaces();
        others.iter_mut().for_each(|interface| interface.mtu = 4_200);
        assert_eq!(list("eth0", None, &others).unwrap()[0].stride, Some(4_096));
        for value in ["1500", "4k", "", "2048"] {
            let error = list("eth0", Some(value), &interfaces()).unwrap_err();
            assert!(error.to_string().contains("1024 is the largest"), "{value}: {error}");
        }
    }
}
