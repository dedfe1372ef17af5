//! Endpoints, which are synchronous ids: `rdma_create_ep`, `rdma_get_request`, `rdma_destroy_ep`.

use core::ffi::c_int;
use core::ptr;
use std::sync::Arc;

use super::abi::{RAI_PASSIVE, event, rdma_addrinfo, rdma_cm_id};
use super::id::{CmId, Template};
use super::{addresses, bind, create, fetch, queue_pair, resolve, told};
use crate::errno::{Errno, minus_one};
use crate::registry::{self, Object};
use abi::{ibv_pd, ibv_qp_init_attr};

/// Makes a synchronous id from the result of `rdma_getaddrinfo`: bound, or with a resolved route.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    minus_one!((|| {
        // SAFETY: C passes a writable pointer, a structure, and NULL or another.
        let (target, info, attr) = unsafe { (id.as_mut(), res.as_ref(), qp_init_attr.as_mut()) };
        let (Some(target), Some(info)) = (target, info) else { return Err(Errno::NULL) };
        let ep = create::create(ptr::null_mut(), ptr::null_mut(), info.ai_port_space as u32)?;
        let result = begin(&ep, info, pd, attr);
        match result {
            Ok(()) => *target = ep.c(),
            Err(_) => destroy(&ep),
        }
        result
    })())
}

fn begin(
    ep: &Arc<CmId>,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<(), Errno> {
    ep.show(|c| c.qp_type = info.ai_qp_type as u32);
    // SAFETY: C passes NULL or a socket address.
    let source =
        (!info.ai_src_addr.is_null()).then(|| unsafe { addresses::read(info.ai_src_addr) });
    let source = source.transpose()?;
    if info.ai_flags & RAI_PASSIVE != 0 {
        let source = source.ok_or(Errno::invalid("RAI_PASSIVE needs ai_src_addr"))?;
        let mut inner = ep.lock();
        bind::bind(ep, &mut inner, source)?;
        inner.template = attr.map(|attr| Template { pd, attr: *attr });
        return Ok(());
    }
    // SAFETY: C passes a socket address.
    let destination = unsafe { addresses::read(info.ai_dst_addr) }?;
    resolve::resolve_addr(ep, source, destination)?;
    resolve::resolve_route(ep)?;
    match attr {
        Some(attr) => {
            attr.qp_type = info.ai_qp_type as u32;
            queue_pair::create(ep, pd, attr)
        }
        None => Ok(()),
    }
}

/// Destroys an endpoint, with its queue pair and shared receive queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_destroy_ep(id: *mut rdma_cm_id) {
    if let Ok(ep) = registry::find::<CmId>(id) {
        destroy(&ep);
    }
}

fn destroy(ep: &CmId) {
    queue_pair::destroy(ep);
    if !ep.shown().srq.is_null() {
        queue_pair::destroy_srq(ep);
    }
    create::destroy(ep);
}

/// Waits for a request at a synchronous listener, and makes an id for it, with a queue pair if the
/// listener was given attributes for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_get_request(
    listen: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    minus_one!(registry::find::<CmId>(listen).and_then(|listener| {
        // SAFETY: C passes a writable pointer.
        let target = unsafe { id.as_mut() }.ok_or(Errno::NULL)?;
        *target = get_request(&listener)?.c();
        Ok(())
    }))
}

/// The id of the oldest request of a synchronous listener.
pub(super) fn get_request(listener: &CmId) -> Result<Arc<CmId>, Errno> {
    if listener.lock().own_channel.is_none() {
        return Err(Errno::invalid(
            "the listener has an event channel: take its events by rdma_get_cm_event",
        ));
    }
    fetch::complete(listener)?;
    let told = listener.shown().event;
    // SAFETY: the event that was just fetched, and is not acknowledged.
    let (kind, new) = unsafe { ((*told).event, (*told).id) };
    if kind != event::CONNECT_REQUEST {
        return Err(Errno::invalid("the event is no RDMA_CM_EVENT_CONNECT_REQUEST"));
    }
    let new = registry::find::<CmId>(new)?;
    let template = listener.lock().template;
    if let Some(Template { pd, mut attr }) = template {
        attr.qp_type = new.shown().qp_type;
        if let Err(error) = queue_pair::create(&new, pd, &mut attr) {
            told::acknowledge_own(listener);
            destroy(&new);
            return Err(error);
        }
    }
    // The new id shows the request; the listener acknowledges it.
    listener.show(|c| c.event = ptr::null_mut());
    new.show(|c| c.event = told);
    Ok(new)
}
