//! Addresses of both ends: `rgetsockname`, `rgetpeername`.

use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ptr;

use super::super::addresses;
use super::socket;
use crate::errno::{Errno, minus_one};

/// Every address of the family of a socket, and no port.
pub(super) fn any(domain: c_int) -> SocketAddr {
    let ip: IpAddr = match domain {
        libc::AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

fn length(domain: c_int) -> usize {
    match domain {
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => size_of::<libc::sockaddr_in>(),
    }
}

/// Reads an address. One of IPv4 may be written as one of IPv6.
///
/// # Safety
/// `address` is NULL, or has `given` readable bytes.
pub(super) unsafe fn read(
    address: *const libc::sockaddr,
    given: libc::socklen_t,
) -> Result<SocketAddr, Errno> {
    let short = Errno::invalid("the address is shorter than its family's");
    if address.is_null() {
        return Err(Errno::FAULT.because("the address is NULL"));
    }
    if (given as usize) < size_of::<libc::sa_family_t>() {
        return Err(short);
    }
    // SAFETY: as many bytes are readable as a family has.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    if (given as usize) < length(family.into()) {
        return Err(short);
    }
    // SAFETY: as long as the family demands.
    let address = unsafe { addresses::read(address) }?;
    Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
        .map(|canonical| if address.is_ipv6() && canonical.is_ipv6() { address } else { canonical })
}

/// Writes an address as a socket of `domain` has it, cut to the room that C has.
///
/// # Safety
/// `given` is NULL or holds how many bytes are writable at `target`.
pub(super) unsafe fn write(
    address: Option<SocketAddr>,
    domain: c_int,
    target: *mut libc::sockaddr,
    given: *mut libc::socklen_t,
) -> Result<(), Errno> {
    let address = match address.unwrap_or(any(domain)) {
        SocketAddr::V4(v4) if domain == libc::AF_INET6 => {
            let ip = if v4.ip().is_unspecified() {
                Ipv6Addr::UNSPECIFIED
            } else {
                v4.ip().to_ipv6_mapped()
            };
            SocketAddr::new(ip.into(), v4.port())
        }
        other => other,
    };
    let storage = addresses::storage(&address);
    let family = if address.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
    let whole = length(family);
    // SAFETY: the caller vouches for it.
    let given = unsafe { given.as_mut() };
    let given = given.ok_or(Errno::FAULT.because("the length of the address is NULL"))?;
    let room = whole.min(*given as usize);
    if room > 0 && target.is_null() {
        return Err(Errno::FAULT.because("the address is NULL"));
    }
    if room > 0 {
        // SAFETY: as many bytes of the storage, and room for as many.
        unsafe { ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), target.cast(), room) };
    }
    *given = whole as libc::socklen_t;
    Ok(())
}

/// Our address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rgetsockname(
    socket: c_int,
    addr: *mut libc::sockaddr,
    addrlen: *mut libc::socklen_t,
) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| {
        let domain = socket.lock().options.domain;
        let local = socket.id.lock().local;
        // SAFETY: C passes room for an address, and its length.
        unsafe { write(local, domain, addr, addrlen) }
    }))
}

/// The peer's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rgetpeername(
    socket: c_int,
    addr: *mut libc::sockaddr,
    addrlen: *mut libc::socklen_t,
) -> c_int {
    minus_one!(socket::find(socket).and_then(|socket| {
        let domain = socket.lock().options.domain;
        let remote = socket.id.lock().remote.ok_or(Errno::NOT_CONNECTED)?;
        // SAFETY: C passes room for an address, and its length.
        unsafe { write(Some(remote), domain, addr, addrlen) }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(address: &str, domain: c_int, room: u32) -> (libc::socklen_t, Option<SocketAddr>) {
        // SAFETY: all zeros are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
        let (target, mut length) = ((&raw mut storage).cast(), room);
        // SAFETY: room for every address.
        unsafe {
            write(address.parse().ok(), domain, target, &raw mut length).unwrap();
            (length, addresses::read(target).ok())
        }
    }

    #[test]
    fn a_socket_of_ipv6_has_addresses_of_ipv6() {
        let as_v6 = |text| written(text, libc::AF_INET6, 128).1.unwrap().to_string();
        assert_eq!(as_v6("127.0.0.1:7"), "[::ffff:127.0.0.1]:7");
        assert_eq!(as_v6("0.0.0.0:7"), "[::]:7");
        assert_eq!(as_v6(""), "[::]:0");
        assert_eq!(
            written("127.0.0.1:7", libc::AF_INET, 128).1.unwrap().to_string(),
            "127.0.0.1:7"
        );
    }

    #[test]
    fn an_address_is_cut_to_its_room_and_its_length_is_told() {
        let (length, address) = written("127.0.0.1:7", libc::AF_INET, 4);
        assert_eq!((length, address.unwrap().to_string().as_str()), (16, "0.0.0.0:7"));
        let mut length = 0;
        // SAFETY: no room is no byte.
        let result = unsafe { write(None, libc::AF_INET6, ptr::null_mut(), &raw mut length) };
        assert_eq!((result, length), (Ok(()), 28));
        // SAFETY: NULL is checked for.
        let result = unsafe { write(None, libc::AF_INET, ptr::null_mut(), ptr::null_mut()) };
        assert_eq!(result, Err(Errno::FAULT));
    }

    #[test]
    fn addresses_are_read_as_far_as_they_are_given() {
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:9".parse().unwrap();
        let storage = addresses::storage(&mapped);
        let at = (&raw const storage).cast();
        // SAFETY: a storage that holds an address, and NULL.
        unsafe {
            assert_eq!(read(at, 28), Ok("127.0.0.1:9".parse().unwrap()));
            assert_eq!(read(at, 16), Err(Errno::INVALID));
            assert_eq!(read(at, 0), Err(Errno::INVALID));
            assert_eq!(read(ptr::null(), 16), Err(Errno::FAULT));
        }
    }
}
