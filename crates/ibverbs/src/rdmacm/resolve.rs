//! Addresses of others: `rdma_resolve_addr`, `rdma_resolve_route`, `rdma_get_devices`.
//!
//! On RoCE there is little to resolve: the kernel routes every packet. The outcome is known at once, but
//! still comes as an event, because programs wait for one.

use core::ffi::c_int;
use core::net::SocketAddr;
use std::sync::Arc;

use super::abi::{event, rdma_cm_id};
use super::addresses;
use super::bind;
use super::devices::{self, Place};
use super::fetch;
use super::id::{CmId, Inner};
use crate::connections::What;
use crate::errno::{Errno, minus_one, pointer};
use crate::registry;
use abi::ibv_context;

/// Finds the device, and our address, by which `dst_addr` is reached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_resolve_addr(
    id: *mut rdma_cm_id,
    src_addr: *mut libc::sockaddr,
    dst_addr: *mut libc::sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a socket address, and NULL or another.
        let (source, destination) = unsafe {
            let source = (!src_addr.is_null()).then(|| addresses::read(src_addr)).transpose()?;
            (source, addresses::read(dst_addr)?)
        };
        resolve_addr(&id, source, destination)
    }))
}

pub(super) fn resolve_addr(
    id: &Arc<CmId>,
    source: Option<SocketAddr>,
    destination: SocketAddr,
) -> Result<(), Errno> {
    let mut inner = id.lock();
    if !inner.listeners.is_empty() || inner.conversation.is_some() {
        return Err(Errno::invalid("the id listens or connects already"));
    }
    if let Some(source) = source
        && inner.local.is_none()
    {
        bind::bind(id, &mut inner, source)?;
    }
    let outcome = find_path(id, &mut inner, destination);
    drop(inner);
    id.mailbox.post(match outcome {
        Ok(()) => What::Local(event::ADDR_RESOLVED, 0),
        Err(Errno { number, .. }) => What::Local(event::ADDR_ERROR, -number),
    });
    fetch::complete(id)
}

fn find_path(id: &CmId, inner: &mut Inner, destination: SocketAddr) -> Result<(), Errno> {
    inner.remote = Some(destination);
    let wildcard = inner.local.filter(|local| local.ip().is_unspecified());
    match (&inner.context, wildcard) {
        // Bound to an address already.
        (Some(_), _) => {
            id.show_addresses(inner);
            Ok(())
        }
        // Bound to a port at every address.
        (None, Some(local)) => {
            let Place { context, address: source } = devices::toward(destination)?;
            inner.local = Some(SocketAddr::new(source, local.port()));
            id.attach(inner, &context)
        }
        (None, None) => {
            let Place { address: source, .. } = devices::toward(destination)?;
            bind::bind(id, inner, SocketAddr::new(source, 0))
        }
    }
}

/// Resolves the route, which only the kernel needs to know.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_resolve_route(
    id: *mut rdma_cm_id,
    _timeout_ms: c_int,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| resolve_route(&id)))
}

pub(super) fn resolve_route(id: &Arc<CmId>) -> Result<(), Errno> {
    let inner = id.lock();
    if inner.context.is_none() || inner.remote.is_none() {
        return Err(Errno::invalid(
            "the id has no device or no destination: call rdma_resolve_addr first",
        ));
    }
    drop(inner);
    id.mailbox.post(What::Local(event::ROUTE_RESOLVED, 0));
    fetch::complete(id)
}

/// Every device, open, in an array that ends with NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_get_devices(
    num_devices: *mut c_int,
) -> *mut *mut ibv_context {
    let contexts = devices::all();
    // SAFETY: C passes NULL or a writable integer.
    if let Some(count) = unsafe { num_devices.as_mut() } {
        *count = contexts.as_ref().map_or(0, |contexts| contexts.len() as c_int);
    }
    pointer!(contexts.and_then(|contexts| registry::list(&contexts)))
}

/// Frees a list. The devices in it stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: made by `calloc` in `rdma_get_devices`, or NULL.
    unsafe { libc::free(list.cast()) };
}
