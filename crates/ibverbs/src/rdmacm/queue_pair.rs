//! Queue pairs of ids: `rdma_create_qp`, `rdma_destroy_qp`, `rdma_create_srq`.

use core::ffi::c_int;
use core::ptr;
use std::sync::Arc;

use super::abi::rdma_cm_id;
use super::id::CmId;
use super::{devices, membership, states};
use crate::context::Context;
use crate::cq::{self, Spec};
use crate::errno::{Errno, minus_one};
use crate::qp::create::create_extended as create_extended_qp;
use crate::qp::{Qp, object};
use crate::registry::{self, Object};
use crate::{channel, srq};
use abi::{
    self, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, Plain, ibv_cq_ex, ibv_pd, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_srq_init_attr, ibv_srq_init_attr_ex,
};

/// Makes the id's queue pair, and what completion queues it lacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { qp_init_attr.as_mut() }.ok_or(Errno::NULL)?;
        create(&id, pd, attr)
    }))
}

/// As [`ferroce_rdma_create_qp`], of the extended attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    qp_init_attr: *mut ibv_qp_init_attr_ex,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { qp_init_attr.as_mut() }.ok_or(Errno::NULL)?;
        create_extended(&id, attr)
    }))
}

pub(super) fn create(id: &CmId, pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr) -> Result<(), Errno> {
    let mut extended = ibv_qp_init_attr_ex {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: abi::IBV_QP_INIT_ATTR_PD,
        pd,
        ..ibv_qp_init_attr_ex::zeroed()
    };
    create_extended(id, &mut extended)?;
    // As in the original, the program gets the completion queues that are used.
    (attr.send_cq, attr.recv_cq, attr.srq) = (extended.send_cq, extended.recv_cq, extended.srq);
    attr.cap = extended.cap;
    Ok(())
}

fn create_extended(id: &CmId, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    let inner = id.lock();
    let shown = id.shown();
    if inner.context.is_none() || !shown.qp.is_null() || shown.qp_type != attr.qp_type {
        return Err(Errno::invalid(
            "the id has no device or has a queue pair already, or qp_type does not fit its port space",
        ));
    }
    drop(inner);
    if attr.comp_mask & abi::IBV_QP_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        attr.comp_mask |= abi::IBV_QP_INIT_ATTR_PD;
        attr.pd = shown.pd;
    }
    if attr.srq.is_null() {
        attr.srq = shown.srq;
    }
    if attr.qp_type == IBV_QPT_XRC_RECV
        && (attr.comp_mask & abi::IBV_QP_INIT_ATTR_XRCD == 0 || attr.xrcd.is_null())
    {
        attr.comp_mask |= abi::IBV_QP_INIT_ATTR_XRCD;
        attr.xrcd = default_xrcd(id)?;
    }
    complete_cqs(id, attr)?;
    let made = registry::find(shown.verbs).and_then(|it| create_extended_qp(&it, attr));
    let qp = made.inspect_err(|_| destroy_cqs(id))?;
    id.show(|c| (c.qp, c.pd) = (qp.c(), attr.pd));
    drop(qp);
    let result = states::begin(id);
    if result.is_err() {
        destroy(id);
    }
    result
}

/// The XRC domain of ids that are given none.
fn default_xrcd(id: &CmId) -> Result<*mut abi::ibv_xrcd, Errno> {
    let context = id
        .lock()
        .context
        .clone()
        .ok_or(Errno::invalid("the id has no device: resolve or bind its address first"))?;
    devices::default_xrcd(&context)
}

/// Makes the completion queues that the attributes lack, each with a channel. An initiator of XRC
/// receives nothing; its target sends nothing, and what it receives completes to the queue of a
/// shared receive queue.
fn complete_cqs(id: &CmId, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    let (is_initiator, is_target) =
        (attr.qp_type == IBV_QPT_XRC_SEND, attr.qp_type == IBV_QPT_XRC_RECV);
    let result = (|| {
        if attr.recv_cq.is_null() && !is_initiator && !is_target {
            attr.recv_cq = make_recv_cq(id, attr.cap.max_recv_wr)?;
        }
        if attr.send_cq.is_null() && !is_target {
            let (channel, made) = make_cq(id, attr.cap.max_send_wr)?;
            id.show(|c| (c.send_cq_channel, c.send_cq) = (channel, made));
            attr.send_cq = made;
        }
        Ok(())
    })();
    if result.is_err() {
        destroy_cqs(id);
    }
    result
}

/// A completion queue for what the id receives.
fn make_recv_cq(id: &CmId, entries: u32) -> Result<*mut abi::ibv_cq, Errno> {
    let (channel, cq) = make_cq(id, entries)?;
    id.show(|c| (c.recv_cq_channel, c.recv_cq) = (channel, cq));
    Ok(cq)
}

/// A completion queue with a channel.
fn make_cq(
    id: &CmId,
    entries: u32,
) -> Result<(*mut abi::ibv_comp_channel, *mut abi::ibv_cq), Errno> {
    let context = registry::find::<Context>(id.shown().verbs)?;
    let channel = channel::create(&context)?;
    let spec = Spec {
        cqe: entries.clamp(1, i32::MAX.cast_unsigned()),
        // The program finds the id by it.
        cq_context: id.c().cast(),
        channel: Some(Arc::clone(&channel)),
        comp_vector: 0,
        single_threaded: false,
    };
    match cq::create(&context, spec, ibv_cq_ex::zeroed()) {
        Ok(made) => Ok((channel.c(), made.c())),
        Err(error) => {
            registry::remove(&*channel);
            Err(error)
        }
    }
}

/// Destroys the completion queues that were made for the id: those that it shows, but for one that
/// a shared receive queue still completes to.
fn destroy_cqs(id: &CmId) {
    let shown = id.shown();
    // What the program has destroyed itself is no longer found.
    let goes = |channel: *mut abi::ibv_comp_channel, cq: *mut abi::ibv_cq| {
        let is_busy = registry::find(cq).and_then(|cq| cq::destroy(&cq)) == Err(Errno::BUSY);
        if !is_busy {
            let _ = registry::find(channel).and_then(|channel| channel::destroy(&channel));
        }
        !is_busy
    };
    let none = (ptr::null_mut(), ptr::null_mut());
    if goes(shown.recv_cq_channel, shown.recv_cq) {
        id.show(|c| (c.recv_cq_channel, c.recv_cq) = none);
    }
    if goes(shown.send_cq_channel, shown.send_cq) {
        id.show(|c| (c.send_cq_channel, c.send_cq) = none);
    }
}

/// Destroys the id's queue pair, and what was made for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_destroy_qp(id: *mut rdma_cm_id) {
    if let Ok(id) = registry::find::<CmId>(id) {
        destroy(&id);
    }
}

pub(super) fn destroy(id: &CmId) {
    let qp = id.shown().qp;
    if !qp.is_null() {
        membership::detach_all(id);
        // The program may have been faster.
        let _ = registry::find::<Qp>(qp).and_then(|qp| object::destroy(&qp));
        id.show(|c| c.qp = ptr::null_mut());
    }
    destroy_cqs(id);
}

/// Makes the id's shared receive queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::NULL)?;
        let is_xrc = id.shown().qp_type == IBV_QPT_XRC_RECV;
        let mut extended = ibv_srq_init_attr_ex {
            srq_context: attr.srq_context,
            attr: attr.attr,
            comp_mask: abi::IBV_SRQ_INIT_ATTR_TYPE | abi::IBV_SRQ_INIT_ATTR_PD,
            srq_type: if is_xrc { abi::IBV_SRQT_XRC } else { abi::IBV_SRQT_BASIC },
            pd,
            ..ibv_srq_init_attr_ex::zeroed()
        };
        let result = create_srq(&id, &mut extended);
        attr.attr = extended.attr;
        result
    }))
}

/// Makes a shared receive queue. One of XRC gets the domain of ids and a completion queue of its
/// own, unless it is given others.
fn create_srq(id: &CmId, attr: &mut ibv_srq_init_attr_ex) -> Result<(), Errno> {
    let shown = id.shown();
    if !shown.srq.is_null() {
        return Err(Errno::invalid("the id has a shared receive queue already"));
    }
    if attr.comp_mask & abi::IBV_SRQ_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        attr.comp_mask |= abi::IBV_SRQ_INIT_ATTR_PD;
        attr.pd = shown.pd;
    }
    let is_xrc =
        attr.comp_mask & abi::IBV_SRQ_INIT_ATTR_TYPE != 0 && attr.srq_type == abi::IBV_SRQT_XRC;
    if is_xrc {
        if attr.comp_mask & abi::IBV_SRQ_INIT_ATTR_XRCD == 0 || attr.xrcd.is_null() {
            attr.comp_mask |= abi::IBV_SRQ_INIT_ATTR_XRCD;
            attr.xrcd = default_xrcd(id)?;
        }
        if attr.comp_mask & abi::IBV_SRQ_INIT_ATTR_CQ == 0 || attr.cq.is_null() {
            if !shown.recv_cq.is_null() {
                return Err(Errno::invalid("the id has a completion queue already"));
            }
            attr.comp_mask |= abi::IBV_SRQ_INIT_ATTR_CQ;
            attr.cq = make_recv_cq(id, attr.attr.max_wr)?;
        }
    }
    let made = registry::find(shown.verbs).and_then(|it| srq::create_extended(&it, attr));
    if made.is_err() && is_xrc {
        destroy_cqs(id);
    }
    let made = made?.c();
    id.show(|c| (c.srq, c.pd) = (made, attr.pd));
    Ok(())
}

/// As [`ferroce_rdma_create_srq`], of the extended attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_srq_ex(
    id: *mut rdma_cm_id,
    attr: *mut ibv_srq_init_attr_ex,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        create_srq(&id, unsafe { attr.as_mut() }.ok_or(Errno::NULL)?)
    }))
}

/// Destroys the id's shared receive queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_destroy_srq(id: *mut rdma_cm_id) {
    if let Ok(id) = registry::find::<CmId>(id) {
        destroy_srq(&id);
    }
}

pub(super) fn destroy_srq(id: &CmId) {
    // It fails if the id has no shared receive queue.
    let _ = registry::find(id.shown().srq).and_then(|srq| srq::destroy(&srq));
    id.show(|c| c.srq = ptr::null_mut());
    // What was made for the queue, if no queue pair uses it.
    destroy_cqs(id);
}
