//! Names: `rdma_getaddrinfo`, `rdma_freeaddrinfo`.

use core::ffi::{c_char, c_int};
use core::mem;
use core::ptr;

use wire::cm::ip::PortSpace;

use super::abi::{RAI_FAMILY, RAI_NUMERICHOST, RAI_PASSIVE, rdma_addrinfo};
use crate::errno::{Errno, minus_one};
use abi::{IBV_QPT_RC, IBV_QPT_UD, Plain};

/// Translates names to addresses, as `getaddrinfo` does. What the names resolve to is the source if
/// `RAI_PASSIVE` is set, and else the destination.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> c_int {
    // SAFETY: C passes texts or NULL, NULL or a structure, and a writable pointer.
    minus_one!(unsafe { resolve(node, service, hints.as_ref(), res) })
}

/// # Safety
/// As the man page asks.
unsafe fn resolve(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
    res: *mut *mut rdma_addrinfo,
) -> Result<(), Errno> {
    // SAFETY: the caller vouches for it.
    let target = unsafe { res.as_mut() }.ok_or(Errno::NULL)?;
    let mut info = hints.map_or_else(rdma_addrinfo::zeroed, |hints| rdma_addrinfo {
        ai_flags: hints.ai_flags,
        ai_family: hints.ai_family,
        ai_qp_type: hints.ai_qp_type,
        ai_port_space: hints.ai_port_space,
        ..rdma_addrinfo::zeroed()
    });
    complete_kind(&mut info);
    let passive = info.ai_flags & RAI_PASSIVE != 0;
    let no_name = node.is_null() && service.is_null();
    if no_name
        && hints.is_none_or(|hints| hints.ai_src_addr.is_null() && hints.ai_dst_addr.is_null())
    {
        return Err(Errno::invalid("neither a node, a service nor addresses are given"));
    }
    if !no_name {
        // SAFETY: the caller vouches for the texts.
        let (address, length) = unsafe { look_up(node, service, &info) }?;
        if passive {
            (info.ai_src_addr, info.ai_src_len) = (address, length);
        } else {
            (info.ai_dst_addr, info.ai_dst_len) = (address, length);
        }
    }
    // What the names do not say, the hints may.
    if let Some(hints) = hints {
        // SAFETY: C passes NULL or addresses as long as it says.
        unsafe {
            if info.ai_src_addr.is_null() && !hints.ai_src_addr.is_null() {
                info.ai_src_addr = copy(hints.ai_src_addr, hints.ai_src_len)?;
                info.ai_src_len = hints.ai_src_len;
            }
            if info.ai_dst_addr.is_null() && !hints.ai_dst_addr.is_null() {
                info.ai_dst_addr = copy(hints.ai_dst_addr, hints.ai_dst_len)?;
                info.ai_dst_len = hints.ai_dst_len;
            }
        }
    }
    let named = if info.ai_src_addr.is_null() { info.ai_dst_addr } else { info.ai_src_addr };
    // SAFETY: an address that was just copied.
    info.ai_family = unsafe { i32::from((*named).sa_family) };
    // SAFETY: memory for one structure, which is plain data.
    unsafe {
        let place = libc::malloc(size_of::<rdma_addrinfo>()).cast::<rdma_addrinfo>();
        if place.is_null() {
            release(&info);
            return Err(Errno::NO_MEMORY);
        }
        place.write(info);
        *target = place;
    }
    Ok(())
}

/// Port space and type of queue pair follow from each other.
fn complete_kind(info: &mut rdma_addrinfo) {
    let [tcp, udp] = [PortSpace::TCP, PortSpace::UDP].map(|space| c_int::from(space.0));
    if info.ai_port_space == 0 {
        let is_datagram = info.ai_qp_type == IBV_QPT_UD.cast_signed();
        info.ai_port_space = if is_datagram { udp } else { tcp };
    }
    if info.ai_qp_type == 0 {
        let is_datagram = info.ai_port_space == udp;
        info.ai_qp_type = if is_datagram { IBV_QPT_UD } else { IBV_QPT_RC }.cast_signed();
    }
}

/// The first address of a name.
///
/// # Safety
/// `node` and `service` are NULL or texts.
unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    info: &rdma_addrinfo,
) -> Result<(*mut libc::sockaddr, libc::socklen_t), Errno> {
    // SAFETY: all zeros are a valid addrinfo.
    let mut hints: libc::addrinfo = unsafe { mem::zeroed() };
    let has = |flag: c_int| info.ai_flags & flag != 0;
    hints.ai_flags = if has(RAI_PASSIVE) { libc::AI_PASSIVE } else { 0 }
        | if has(RAI_NUMERICHOST) { libc::AI_NUMERICHOST } else { 0 };
    hints.ai_family = if has(RAI_FAMILY) { info.ai_family } else { libc::AF_UNSPEC };
    let [udp, tcp] = [libc::SOCK_DGRAM, libc::SOCK_STREAM];
    let is_datagram = info.ai_port_space == c_int::from(PortSpace::UDP.0);
    hints.ai_socktype = if is_datagram { udp } else { tcp };
    let mut found: *mut libc::addrinfo = ptr::null_mut();
    // SAFETY: the caller vouches for the texts; the other places are ours.
    let result = unsafe { libc::getaddrinfo(node, service, &raw const hints, &raw mut found) };
    match result {
        0 => {}
        libc::EAI_SYSTEM => return Err(Errno::last()),
        libc::EAI_MEMORY => return Err(Errno::NO_MEMORY),
        libc::EAI_NONAME => return Err(Errno::NO_DEVICE),
        _ => return Err(Errno::invalid("node or service cannot be resolved")),
    }
    // SAFETY: a list that getaddrinfo has made, and that is freed once.
    unsafe {
        // IPv4 first, where any will do: so are the devices of most machines found.
        let mut best = found;
        let mut next = found;
        while !next.is_null() && !has(RAI_FAMILY) {
            if (*next).ai_family == libc::AF_INET {
                best = next;
                break;
            }
            next = (*next).ai_next;
        }
        let copied = copy((*best).ai_addr, (*best).ai_addrlen);
        let length = (*best).ai_addrlen;
        libc::freeaddrinfo(found);
        copied.map(|address| (address, length))
    }
}

/// A copy that `free` takes back.
///
/// # Safety
/// `address` has `length` readable bytes.
unsafe fn copy(
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<*mut libc::sockaddr, Errno> {
    let length = length as usize;
    // SAFETY: the caller vouches for the source; the copy has as many bytes.
    unsafe {
        let place = libc::malloc(length.max(size_of::<libc::sockaddr>()));
        if place.is_null() {
            return Err(Errno::NO_MEMORY);
        }
        ptr::copy_nonoverlapping(address.cast::<u8>(), place.cast::<u8>(), length);
        Ok(place.cast())
    }
}

/// # Safety
/// The pointers of `info` are NULL or from `malloc`.
unsafe fn release(info: &rdma_addrinfo) {
    // SAFETY: the caller vouches for it.
    unsafe {
        libc::free(info.ai_src_addr.cast());
        libc::free(info.ai_dst_addr.cast());
        libc::free(info.ai_src_canonname.cast());
        libc::free(info.ai_dst_canonname.cast());
        libc::free(info.ai_route);
        libc::free(info.ai_connect);
    }
}

/// Frees what `rdma_getaddrinfo` has found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
    let mut next = res;
    while !next.is_null() {
        // SAFETY: a list that we have made, of which each member is freed once.
        unsafe {
            let info = next.read();
            release(&info);
            libc::free(next.cast());
            next = info.ai_next;
        }
    }
}

/// `rdma_resolve_addrinfo` and `rdma_query_addrinfo`, which resolve names by the subnet administrator
/// too: `rdma_getaddrinfo` does what RoCE can.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_addrinfo_absent() -> c_int {
    minus_one!(Err(Errno::UNSUPPORTED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdmacm::addresses;

    fn found(
        node: Option<&core::ffi::CStr>,
        flags: c_int,
        space: PortSpace,
    ) -> Result<(rdma_addrinfo, String), c_int> {
        let hints = rdma_addrinfo {
            ai_flags: flags,
            ai_port_space: space.0.into(),
            ..rdma_addrinfo::zeroed()
        };
        let node = node.map_or(ptr::null(), core::ffi::CStr::as_ptr);
        let mut res = ptr::null_mut();
        // SAFETY: texts, a structure, and a writable pointer; the list is freed once.
        unsafe {
            if ferroce_rdma_getaddrinfo(node, c"7174".as_ptr(), &raw const hints, &raw mut res) != 0
            {
                return Err(Errno::last().number);
            }
            let info = res.read();
            let address =
                if info.ai_dst_addr.is_null() { info.ai_src_addr } else { info.ai_dst_addr };
            let text = addresses::read(address).unwrap().to_string();
            ferroce_rdma_freeaddrinfo(res);
            Ok((info, text))
        }
    }

    #[test]
    fn a_name_is_a_destination_or_a_source() {
        let (info, text) = found(Some(c"127.0.0.1"), 0, PortSpace::TCP).unwrap();
        assert_eq!(text, "127.0.0.1:7174");
        assert!(info.ai_src_addr.is_null() && info.ai_qp_type == IBV_QPT_RC.cast_signed());
        let (info, text) = found(None, RAI_PASSIVE, PortSpace::UDP).unwrap();
        assert_eq!(text, "0.0.0.0:7174");
        assert!(info.ai_dst_addr.is_null() && info.ai_qp_type == IBV_QPT_UD.cast_signed());
    }

    #[test]
    fn a_name_that_is_none_is_an_error() {
        let error = found(Some(c"not an address"), RAI_NUMERICHOST, PortSpace::TCP);
        assert_eq!(error.err(), Some(libc::ENODEV));
    }
}
