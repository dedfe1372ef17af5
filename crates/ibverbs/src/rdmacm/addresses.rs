//! Socket addresses between C and Rust.

use core::mem;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::errno::Errno;

/// Reads a socket address; `EAFNOSUPPORT` for any family but IPv4 and IPv6.
///
/// # Safety
/// `address` is NULL, or points to a socket address as long as its family demands.
pub(super) unsafe fn read(address: *const libc::sockaddr) -> Result<SocketAddr, Errno> {
    if address.is_null() {
        return Err(Errno::NULL);
    }
    // SAFETY: not null, so it has a family; each cast below is to the type of that family.
    unsafe {
        match i32::from(address.read_unaligned().sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => Err(Errno::new(libc::EAFNOSUPPORT)),
        }
    }
}

/// A socket address as C has it.
pub(super) fn storage(address: &SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: all zeros are a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage is large enough and aligned for every family.
            let name = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
            name.sin_family = libc::AF_INET as libc::sa_family_t;
            name.sin_port = v4.port().to_be();
            name.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let name = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
            name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            name.sin6_port = v6.port().to_be();
            name.sin6_flowinfo = v6.flowinfo();
            name.sin6_addr.s6_addr = v6.ip().octets();
            name.sin6_scope_id = v6.scope_id();
        }
    }
    storage
}

/// The wildcard address of the family of `like`.
pub(super) fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_way_to_c_and_back() {
        for text in ["127.0.0.1:7174", "[fe80::1%3]:9", "[::1]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let there = storage(&address);
            // SAFETY: a storage that holds an address.
            assert_eq!(unsafe { read((&raw const there).cast()) }, Ok(address));
        }
    }

    #[test]
    fn a_family_that_is_not_ip_is_refused() {
        // SAFETY: all zeros are a valid sockaddr_storage; its family is AF_UNSPEC.
        let nothing: libc::sockaddr_storage = unsafe { mem::zeroed() };
        // SAFETY: a storage, and NULL.
        unsafe {
            assert_eq!(read((&raw const nothing).cast()), Err(Errno::new(libc::EAFNOSUPPORT)));
            assert_eq!(read(core::ptr::null()), Err(Errno::INVALID));
        }
    }
}
