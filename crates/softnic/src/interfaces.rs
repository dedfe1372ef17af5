//! The network interfaces of this host, as the kernel tells of them.

use core::ffi::CStr;
use core::mem;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ptr;
use std::io;

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    pub(crate) loopback: bool,
    pub(crate) addresses: Vec<IpAddr>,
}

/// All interfaces, in the kernel's order.
pub(crate) fn all() -> io::Result<Vec<Interface>> {
    let mut head: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `head` is a valid place for the list's address.
    if unsafe { libc::getifaddrs(&raw mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut next = head;
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list that getifaddrs made and that is freed below.
        let entry = unsafe { &*next };
        // SAFETY: every entry has a name that ends in NUL and lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let known = interfaces.iter().position(|interface| interface.name == name);
        let at = known.unwrap_or_else(|| {
            let flags = entry.ifa_flags.cast_signed();
            interfaces.push(Interface {
                // SAFETY: as above; the call only reads the name.
                index: unsafe { libc::if_nametoindex(entry.ifa_name) },
                mac: [0; 6],
                mtu: mtu(&name).unwrap_or(1500),
                up: flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0,
                loopback: flags & libc::IFF_LOOPBACK != 0,
                addresses: Vec::new(),
                name,
            });
            interfaces.len() - 1
        });
        // SAFETY: the address of an entry is null, or a sockaddr of the family that it names.
        unsafe { take_address(&mut interfaces[at], entry.ifa_addr) };
        next = entry.ifa_next;
    }
    // SAFETY: `head` came from getifaddrs, and nothing refers to the list any more.
    unsafe { libc::freeifaddrs(head) };
    Ok(interfaces)
}

/// Adds what one entry of the list says.
///
/// # Safety
/// `address` is null or points to a socket address as long as its family demands.
unsafe fn take_address(interface: &mut Interface, address: *const libc::sockaddr) {
    if address.is_null() {
        return;
    }
    // SAFETY: not null, so it has a family; each cast below is to the type of that family.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                let octets = v4.sin_addr.s_addr.to_ne_bytes();
                interface.addresses.push(Ipv4Addr::from(octets).into());
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                interface.addresses.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
            }
            libc::AF_PACKET => {
                let link = address.cast::<libc::sockaddr_ll>().read_unaligned();
                if link.sll_halen == 6 {
                    interface.mac.copy_from_slice(&link.sll_addr[..6]);
                }
            }
            _ => {}
        }
    }
}

/// The MTU of an interface, from any socket: `/sys` need not be of our network namespace.
fn mtu(name: &str) -> io::Result<u32> {
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let length = request.ifr_name.len() - 1;
    for (target, byte) in request.ifr_name[..length].iter_mut().zip(name.bytes()) {
        *target = byte as libc::c_char;
    }
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // SAFETY: the request is an ifreq whose name ends in NUL, which is what SIOCGIFMTU takes.
    let result = unsafe {
        libc::ioctl(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            libc::SIOCGIFMTU as libc::Ioctl,
            &raw mut request,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SIOCGIFMTU has just filled this field of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_with_its_address_and_mtu() {
        let interfaces = all().unwrap();
        let loopback = interfaces.iter().find(|interface| interface.loopback).unwrap();
        assert!(loopback.addresses.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(loopback.index > 0 && loopback.mtu >= 1500 && loopback.up);
    }
}
