//! The network interfaces of this host, as the kernel reports them.

use core::ffi::CStr;
use core::iter::successors;
use core::mem;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::sys;

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    pub(crate) loopback: bool,
    pub(crate) offloads: Offloads,
    pub(crate) addresses: Vec<IpAddr>,
}

/// What spares a system call for each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offloads {
    /// UDP GSO: a batch of packets is sent by one call, and the interface computes checksums, without which
    /// many kernels cut no batches.
    pub segmentation: bool,
    /// UDP GRO: a batch is received by one call.
    pub coalescing: bool,
}

/// Whether anybody here may send from any address, as hosts that take over others' addresses let them do.
pub(crate) fn bind_any(is_ipv4: bool) -> bool {
    let family = if is_ipv4 { "ipv4" } else { "ipv6" };
    let setting = fs::read(format!("/proc/sys/net/{family}/ip_nonlocal_bind"));
    setting.is_ok_and(|value| !value.starts_with(b"0"))
}

/// The addresses of all interfaces.
pub(crate) fn addresses() -> io::Result<Vec<IpAddr>> {
    let list = List::read()?;
    // SAFETY: the address of an entry is null, or a sockaddr of the family that it names.
    Ok(list.entries().filter_map(|entry| unsafe { ip(entry.ifa_addr) }).collect())
}

/// What getifaddrs has made: an entry for each address, and one for the link.
struct List(*mut libc::ifaddrs);

impl List {
    fn read() -> io::Result<Self> {
        let mut head: *mut libc::ifaddrs = ptr::null_mut();
        // SAFETY: `head` is a valid place for the list's address.
        sys::check(unsafe { libc::getifaddrs(&raw mut head) })?;
        Ok(Self(head))
    }

    fn entries(&self) -> impl Iterator<Item = &libc::ifaddrs> {
        // SAFETY: an entry that is not null is one of the list, which lives as long as `self`.
        let at = |entry: *const libc::ifaddrs| unsafe { entry.as_ref() };
        successors(at(self.0), move |entry| at(entry.ifa_next))
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: it came from getifaddrs, and nothing refers to it any more.
        unsafe { libc::freeifaddrs(self.0) };
    }
}

/// All interfaces, in the kernel's order.
pub(crate) fn all() -> io::Result<Vec<Interface>> {
    // It has no address: loopback's cannot be had while loopback is down, and on any other it would receive.
    let socket = sys::udp_socket(true)?;
    let kernel = Offloads {
        segmentation: knows(&socket, libc::UDP_SEGMENT),
        coalescing: knows(&socket, libc::UDP_GRO),
    };
    let mut interfaces: Vec<Interface> = Vec::new();
    for entry in List::read()?.entries() {
        // SAFETY: every entry has a name that ends in NUL and lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let known = interfaces.iter().position(|interface| interface.name == name);
        let at = known.unwrap_or_else(|| {
            let flags = entry.ifa_flags.cast_signed();
            let query = Query { socket: &socket, name: &name };
            interfaces.push(Interface {
                // SAFETY: as above; the call only reads the name.
                index: unsafe { libc::if_nametoindex(entry.ifa_name) },
                mac: [0; 6],
                mtu: query.mtu().unwrap_or(1500),
                offloads: Offloads {
                    segmentation: kernel.segmentation && query.has(ETHTOOL_GTXCSUM),
                    coalescing: kernel.coalescing && query.has(ETHTOOL_GGRO),
                },
                up: flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0,
                loopback: flags & libc::IFF_LOOPBACK != 0,
                addresses: Vec::new(),
                name,
            });
            interfaces.len() - 1
        });
        // SAFETY: the address of an entry is null, or a sockaddr of the family that it names.
        unsafe {
            interfaces[at].addresses.extend(ip(entry.ifa_addr));
            if let Some(mac) = mac(entry.ifa_addr) {
                interfaces[at].mac = mac;
            }
        }
    }
    Ok(interfaces)
}

/// The IP address, if it is one.
///
/// # Safety
/// `address` is null or points to a socket address as long as its family demands.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: not null, so it has a family; each cast below is to the type of that family.
    unsafe {
        match i32::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// The MAC address, if it is one.
///
/// # Safety
/// As for [`ip`].
unsafe fn mac(address: *const libc::sockaddr) -> Option<[u8; 6]> {
    // SAFETY: as there.
    unsafe {
        if i32::from(address.as_ref()?.sa_family) != libc::AF_PACKET {
            return None;
        }
        let link = address.cast::<libc::sockaddr_ll>().read_unaligned();
        if link.sll_halen == 6 { link.sll_addr[..6].try_into().ok() } else { None }
    }
}

/// Whether the kernel has a socket option of UDP that is a number, and may be 0.
fn knows(socket: &OwnedFd, option: libc::c_int) -> bool {
    sys::set_option::<libc::c_int>(socket.as_fd(), libc::SOL_UDP, option, 0).is_ok()
}

/// `linux/sockios.h`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// `linux/ethtool.h`: whether check sums are computed for what is sent, and whether coalescing is on.
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GGRO: u32 = 0x2b;

/// Asks about an interface, through any socket: `/sys` need not be of our network namespace.
struct Query<'a> {
    socket: &'a OwnedFd,
    name: &'a str,
}

impl Query<'_> {
    fn mtu(&self) -> io::Result<u32> {
        let mut request = self.request();
        self.ask(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has just filled this field of the union.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Whether a feature is on, by the command that asks for it. A driver that does not say is taken
    /// to have it: what the kernel refuses later is noticed then.
    fn has(&self, command: u32) -> bool {
        // `struct ethtool_value`: the command, and the answer.
        let mut value = [command, 0];
        let mut request = self.request();
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        self.ask(SIOCETHTOOL, &mut request).is_err() || value[1] != 0
    }

    fn request(&self) -> libc::ifreq {
        // SAFETY: an all-zero ifreq is valid.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        let length = request.ifr_name.len() - 1;
        for (target, byte) in request.ifr_name[..length].iter_mut().zip(self.name.bytes()) {
            *target = byte as libc::c_char;
        }
        request
    }

    fn ask(&self, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        // SAFETY: the request is an ifreq whose name ends in NUL, which is what both calls take, and
        // what `ifr_data` points to, if anything, lives through the call.
        sys::check(unsafe { libc::ioctl(fd, what as libc::Ioctl, ptr::from_mut(request)) })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_namespace;

    #[test]
    fn loopback_is_found_with_its_address_and_mtu() {
        let interfaces = all().unwrap();
        let loopback = interfaces.iter().find(|interface| interface.loopback).unwrap();
        assert!(loopback.addresses.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(loopback.index > 0 && loopback.mtu >= 1500 && loopback.up);
        assert!(loopback.offloads.segmentation && loopback.offloads.coalescing);
    }

    #[test]
    fn interfaces_are_listed_where_loopback_is_down() {
        // The kernel has routes there, but none to loopback. It notices in its own time that there is a carrier.
        let script = "ip link add eth0 type veth peer name eth1 && ip link set eth1 up && \
                      ip link set eth0 up && ip address add 10.0.0.1/24 dev eth0 && \
                      for _ in $(seq 500); do ip link show eth0 | grep -q 'state UP' && break; sleep 0.01; done";
        if !in_namespace(
            "host::interfaces::tests::interfaces_are_listed_where_loopback_is_down",
            script,
        ) {
            return;
        }
        let interfaces = all().unwrap();
        let up = |loopback| interfaces.iter().find(|i| i.loopback == loopback).map(|i| i.up);
        assert_eq!((up(true), up(false)), (Some(false), Some(true)));
    }
}
