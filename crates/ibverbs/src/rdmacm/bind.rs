//! Addresses of our own: `rdma_bind_addr`, `rdma_listen`, `rdma_get_src_port`.

use core::ffi::c_int;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rdma::Gid;
use softnic::{PortChange, PortError};

use super::abi::rdma_cm_id;
use super::addresses;
use super::devices::{self, Place};
use super::id::{CmId, Inner};
use crate::errno::{Errno, minus_one};
use crate::registry;

/// How many free ports are tried if one must be free at several addresses.
const FREE_PORT_TRIES: u32 = 16;
/// The default backlog.
const BACKLOG: u32 = 1024;

/// Binds an id to an address of ours: to its device, and to a port of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_bind_addr(
    id: *mut rdma_cm_id,
    addr: *mut libc::sockaddr,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a socket address.
        let address = unsafe { addresses::read(addr) }?;
        let mut inner = id.lock();
        bind(&id, &mut inner, address)
    }))
}

/// Takes the port of `address`, or a free one for port 0, at every address that it stands for.
pub(super) fn bind(id: &CmId, inner: &mut Inner, address: SocketAddr) -> Result<(), Errno> {
    if inner.local.is_some() {
        return Err(Errno::invalid("the id has an address already"));
    }
    let places = places(inner, address.ip())?;
    let mut tries = if address.port() == 0 { FREE_PORT_TRIES } else { 1 };
    let port = loop {
        match take(inner, &places, address.port()) {
            Err(PortError::InUse) if tries > 1 => tries -= 1,
            result => break result?,
        }
    };
    let mut local = SocketAddr::new(address.ip(), port);
    if let Some(place) = places.first().filter(|_| !address.ip().is_unspecified()) {
        local.set_ip(place.address);
    }
    inner.local = Some(local);
    if address.ip().is_unspecified() {
        id.show_addresses(inner);
        Ok(())
    } else {
        let Place { context, .. } = inner.ports.first().cloned().ok_or(Errno::NO_DEVICE)?;
        id.attach(inner, &context)
    }
}

/// Our addresses that `ip` stands for.
fn places(inner: &Inner, ip: IpAddr) -> Result<Vec<Place>, Errno> {
    if !ip.is_unspecified() {
        return match devices::having(ip) {
            // For loopback any device will do, as with the kernel: libfabric asks for it to learn
            // of one.
            Err(error) if error == Errno::NO_DEVICE && ip.is_loopback() => {
                devices::any(ip).map(|place| vec![place])
            }
            found => Ok(vec![Place { context: found?, address: ip }]),
        };
    }
    let both = ip == Ipv6Addr::UNSPECIFIED && !inner.settings.one_family;
    let mut families = vec![ip];
    if both {
        families.push(IpAddr::from([0, 0, 0, 0]));
    }
    let mut places = Vec::new();
    for context in devices::all()? {
        for family in &families {
            let own = devices::addresses_of(&context, *family);
            let place = |address| Place { context: Arc::clone(&context), address };
            places.extend(own.into_iter().map(place));
        }
    }
    if places.is_empty() { Err(Errno::NO_DEVICE) } else { Ok(places) }
}

/// Reserves one port at all of `places`, or at none.
fn take(inner: &mut Inner, places: &[Place], port: u16) -> Result<u16, PortError> {
    let (space, shared) = (inner.space, inner.settings.reuse_address);
    let mut number = port;
    for (at, Place { context, address }) in places.iter().enumerate() {
        match context.nic.change_port(*address, (space, number), PortChange::Bind { shared }) {
            Ok(taken) => number = taken,
            Err(error) => {
                for Place { context, address } in &places[..at] {
                    // What cannot be given back now is free when the process ends.
                    let release = PortChange::Release { listens: false };
                    let _ = context.nic.change_port(*address, (space, number), release);
                }
                return Err(error);
            }
        }
    }
    inner.ports = places.to_vec();
    Ok(number)
}

/// Waits for requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| listen(&id, backlog)))
}

pub(super) fn listen(id: &CmId, backlog: c_int) -> Result<(), Errno> {
    let mut inner = id.lock();
    if !inner.listeners.is_empty() || inner.remote.is_some() {
        return Err(Errno::invalid("the id listens already, or has a destination"));
    }
    if inner.local.is_none() {
        bind(id, &mut inner, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0))?;
    }
    let port = inner.local.map_or(0, |local| local.port());
    let backlog = u32::try_from(backlog).ok().filter(|backlog| *backlog > 0).unwrap_or(BACKLOG);
    let (space, ports) = (inner.space, inner.ports.clone());
    ports.iter().try_for_each(|Place { context, .. }| context.check_process())?;
    let service = space.service(port);
    let mut result = Ok(());
    let mut done = 0;
    for Place { context, address } in &ports {
        result = context
            .nic
            .change_port(*address, (space, port), PortChange::Listen)
            .map_err(Errno::from)
            .and_then(|_| {
                let gid = Gid::from(*address);
                let listener = context.nic.with_manager(|manager, _| {
                    let listener = manager.listen(service, Some(gid), backlog)?;
                    context.events.connections.listen(listener, &id.mailbox);
                    Ok::<_, Errno>(listener)
                })?;
                inner.listeners.push((Arc::clone(context), listener));
                Ok(())
            });
        if result.is_err() {
            break;
        }
        done += 1;
    }
    if result.is_err() {
        for (context, listener) in inner.listeners.drain(..) {
            context.nic.with_manager(|manager, _| {
                // It was made a moment ago.
                let _ = manager.unlisten(listener);
                context.events.connections.unlisten(listener);
            });
        }
        for Place { context, address } in &ports[..done] {
            // The port itself stays bound.
            let _ = context.nic.change_port(*address, (space, port), PortChange::Unlisten);
        }
    }
    result
}

fn port_of(storage: &libc::sockaddr_storage) -> u16 {
    // SAFETY: a storage that is zero or holds an address.
    let address = unsafe { addresses::read((&raw const *storage).cast()) };
    address.map_or(0, |address| address.port()).to_be()
}

/// Our port, in network byte order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    registry::find::<CmId>(id).map_or(0, |id| port_of(&id.shown().route.addr.src_addr))
}

/// The peer's port, in network byte order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    registry::find::<CmId>(id).map_or(0, |id| port_of(&id.shown().route.addr.dst_addr))
}
