//! Queue pairs of ids: `rdma_create_qp`, `rdma_destroy_qp`, `rdma_create_srq`, and the states that a
//! connection leads through.

use core::ffi::c_int;
use core::ptr;

use rdma::Gid;
use transport::AddressVector;
use wire::aeth::rnr_delay;

use super::abi::{RDMA_UDP_QKEY, rdma_cm_id};
use super::connect::{RETRIES, ack_timeout, local_gid};
use super::devices;
use super::id::{CmId, Inner};
use super::multicast;
use crate::abi::{
    self, IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, Plain, ibv_pd, ibv_qp_attr,
    ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_srq_init_attr, ibv_srq_init_attr_ex,
};
use crate::ah;
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::context::Context;
use crate::cq::{ibv_create_cq, ibv_destroy_cq};
use crate::errno::{Errno, minus_one};
use crate::port::PORT;
use crate::qp::{create_qp_ex, ibv_destroy_qp, ibv_modify_qp};
use crate::qp_attr::{mask, state_number};
use crate::registry;
use crate::srq::{create_srq_ex, ibv_destroy_srq};

/// The local ACK timeout of queue pairs whose program names none.
pub(super) const LOCAL_ACK_TIMEOUT: u8 = 14;
/// The RNR timer of queue pairs whose peer never gives up: 0.64 ms.
const MIN_RNR_TIMER: u8 = 12;
/// The longest, 655.36 ms, and what Linux has all queue pairs of RDMA CM ask for.
const LONGEST_RNR_TIMER: u8 = 0;
/// WRITE, READ and atomics: a connection's regions say more.
const REMOTE_RIGHTS: u32 = 1 << 1 | 1 << 2 | 1 << 3;

/// Makes the id's queue pair, and what completion queues it lacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    minus_one(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { qp_init_attr.as_mut() }.ok_or(Errno::INVALID)?;
        create(&id, pd, attr)
    }))
}

/// As [`ferroce_rdma_create_qp`], of the extended attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    qp_init_attr: *mut ibv_qp_init_attr_ex,
) -> c_int {
    minus_one(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { qp_init_attr.as_mut() }.ok_or(Errno::INVALID)?;
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
    // As the original does it, the program learns what its queue pair uses.
    (attr.send_cq, attr.recv_cq, attr.srq) = (extended.send_cq, extended.recv_cq, extended.srq);
    attr.cap = extended.cap;
    Ok(())
}

fn create_extended(id: &CmId, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    let inner = id.lock();
    let shown = id.shown();
    if inner.context.is_none() || !shown.qp.is_null() || shown.qp_type != attr.qp_type {
        return Err(Errno::INVALID);
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
    // SAFETY: a live context, and a structure of ours or C's.
    let qp = unsafe { create_qp_ex(shown.verbs, attr) };
    if qp.is_null() {
        let error = Errno::last();
        destroy_cqs(id);
        return Err(error);
    }
    id.show(|c| (c.qp, c.pd) = (qp, attr.pd));
    let result = begin(id);
    if result.is_err() {
        destroy(id);
    }
    result
}

/// The XRC domain of ids that are given none.
fn default_xrcd(id: &CmId) -> Result<*mut abi::ibv_xrcd, Errno> {
    let context = id.lock().context.clone().ok_or(Errno::INVALID)?;
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
            let (channel, cq) = make_cq(id, attr.cap.max_send_wr)?;
            id.show(|c| (c.send_cq_channel, c.send_cq) = (channel, cq));
            attr.send_cq = cq;
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
    let verbs = id.shown().verbs;
    // SAFETY: a live context; whoever makes a completion queue passes its channel.
    unsafe {
        let channel = ibv_create_comp_channel(verbs);
        if channel.is_null() {
            return Err(Errno::last());
        }
        let entries = c_int::try_from(entries.max(1)).unwrap_or(c_int::MAX);
        let cq = ibv_create_cq(verbs, entries, id_context(id), channel, 0);
        if cq.is_null() {
            let error = Errno::last();
            ibv_destroy_comp_channel(channel);
            return Err(error);
        }
        Ok((channel, cq))
    }
}

/// The context of an id's completion queues: the id.
fn id_context(id: &CmId) -> *mut core::ffi::c_void {
    registry::Object::c(id).cast()
}

/// Destroys the completion queues that were made for the id: those that it shows, but for one that
/// a shared receive queue still completes to.
fn destroy_cqs(id: &CmId) {
    let shown = id.shown();
    // SAFETY: handles of ours; NULL and stale ones are refused.
    let goes = |channel, cq: *mut abi::ibv_cq| unsafe {
        let is_busy = !cq.is_null() && ibv_destroy_cq(cq) == libc::EBUSY;
        if !is_busy && !<*mut abi::ibv_comp_channel>::is_null(channel) {
            ibv_destroy_comp_channel(channel);
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
        multicast::detach_all(id);
        // SAFETY: a handle of ours; a stale one is refused.
        unsafe { ibv_destroy_qp(qp) };
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
    minus_one(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::INVALID)?;
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
        return Err(Errno::INVALID);
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
                return Err(Errno::INVALID);
            }
            attr.comp_mask |= abi::IBV_SRQ_INIT_ATTR_CQ;
            attr.cq = make_recv_cq(id, attr.attr.max_wr)?;
        }
    }
    // SAFETY: a live context, and a structure of ours or C's.
    let srq = unsafe { create_srq_ex(shown.verbs, attr) };
    if srq.is_null() {
        let error = Errno::last();
        if is_xrc {
            destroy_cqs(id);
        }
        return Err(error);
    }
    id.show(|c| (c.srq, c.pd) = (srq, attr.pd));
    Ok(())
}

/// As [`ferroce_rdma_create_srq`], of the extended attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_srq_ex(
    id: *mut rdma_cm_id,
    attr: *mut ibv_srq_init_attr_ex,
) -> c_int {
    minus_one(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        create_srq(&id, unsafe { attr.as_mut() }.ok_or(Errno::INVALID)?)
    }))
}

/// Destroys the id's shared receive queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_destroy_srq(id: *mut rdma_cm_id) {
    if let Ok(id) = registry::find::<CmId>(id) {
        // SAFETY: a handle of ours; NULL and stale ones are refused.
        unsafe { ibv_destroy_srq(id.shown().srq) };
        id.show(|c| c.srq = ptr::null_mut());
        // What was made for the queue, if no queue pair uses it.
        destroy_cqs(&id);
    }
}

// ---- states

fn number(state: rdma::QpState) -> u32 {
    state_number(state)
}

/// The attributes that take the id's queue pair to `state`, and which they are.
pub(super) fn attributes(
    id: &CmId,
    inner: &Inner,
    state: u32,
) -> Result<(ibv_qp_attr, c_int), Errno> {
    use rdma::QpState::{Init, Rtr, Rts};
    let context = inner.context.as_ref().ok_or(Errno::INVALID)?;
    let mut attr = ibv_qp_attr { qp_state: state, ..ibv_qp_attr::zeroed() };
    let datagram = id.is_datagram();
    let kind = id.shown().qp_type;
    let answers = kind == IBV_QPT_RC || kind == IBV_QPT_XRC_RECV;
    let asks = kind == IBV_QPT_RC || kind == IBV_QPT_XRC_SEND;
    let bits = if state == number(Init) {
        attr.port_num = PORT;
        if datagram {
            attr.qkey = RDMA_UDP_QKEY;
            mask::PKEY_INDEX | mask::PORT | mask::QKEY
        } else {
            attr.qp_access_flags = REMOTE_RIGHTS;
            mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS
        }
    } else if state == number(Rtr) && datagram {
        0
    } else if state == number(Rts) && datagram {
        mask::SQ_PSN
    } else if state == number(Rtr) {
        let peer = inner.peer.ok_or(Errno::INVALID)?;
        attr.ah_attr = path(context, inner)?;
        attr.path_mtu = peer.mtu.into();
        attr.dest_qp_num = peer.qpn.value();
        // Each side says with which PSN the other is to begin.
        attr.rq_psn = inner.psn.value();
        attr.max_dest_rd_atomic = peer.responder_resources;
        attr.min_rnr_timer = min_rnr_timer(peer.rnr_retry);
        let all = mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
        if answers { all | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER } else { all }
    } else if state == number(Rts) {
        let peer = inner.peer.ok_or(Errno::INVALID)?;
        attr.sq_psn = peer.psn.value();
        attr.timeout = ack_timeout(inner);
        attr.retry_cnt = peer.retry_count;
        attr.rnr_retry = peer.rnr_retry;
        attr.max_rd_atomic = peer.initiator_depth;
        let asking = mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
        match (answers, asks) {
            (_, true) => mask::SQ_PSN | mask::TIMEOUT | asking,
            (true, false) => mask::SQ_PSN | mask::TIMEOUT,
            (false, false) => mask::SQ_PSN,
        }
    } else {
        return Err(Errno::INVALID);
    };
    Ok((attr, (bits | mask::STATE).cast_signed()))
}

/// How long the peer is to wait before it sends again what there was no receive for, which it does
/// `retries` times: 7 is for ever (IBTA vol 1, 9.7.5.2.8). A program is written for the patience of
/// Linux, where a single retry comes after 655 ms; so all of them together take as long, and each no
/// longer than that needs.
fn min_rnr_timer(retries: u8) -> u8 {
    if retries == RETRIES {
        return MIN_RNR_TIMER;
    }
    let is_patient =
        |timer: &u8| rnr_delay(*timer) * u64::from(retries) >= rnr_delay(LONGEST_RNR_TIMER);
    (MIN_RNR_TIMER..=31).find(is_patient).unwrap_or(LONGEST_RNR_TIMER)
}

/// The path to the peer.
fn path(context: &Context, inner: &Inner) -> Result<abi::ibv_ah_attr, Errno> {
    let remote = inner.remote.ok_or(Errno::INVALID)?;
    path_to(context, local_gid(inner)?, remote.ip().into(), inner.settings.traffic_class)
}

/// The path between two addresses, of which the first is ours.
pub(super) fn path_to(
    context: &Context,
    source: Gid,
    destination: Gid,
    traffic_class: u8,
) -> Result<abi::ibv_ah_attr, Errno> {
    let mut gids = context.nic.device().gids.iter();
    let ours = gids.find(|entry| entry.gid == source).ok_or(Errno::INVALID)?;
    Ok(ah::attributes(&AddressVector {
        gid: destination,
        source_gid: source,
        source_gid_index: ours.index,
        traffic_class,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }))
}

/// Takes the id's queue pair, if it has one, to `state`.
fn advance(id: &CmId, inner: &Inner, state: rdma::QpState) -> Result<(), Errno> {
    let qp = id.shown().qp;
    if qp.is_null() {
        return Ok(());
    }
    let (mut attr, bits) = attributes(id, inner, number(state))?;
    // SAFETY: a handle, and a structure of ours.
    match unsafe { ibv_modify_qp(qp, &raw mut attr, bits) } {
        0 => Ok(()),
        error => Err(Errno(error)),
    }
}

/// Takes a new queue pair as far as it can go without a peer.
fn begin(id: &CmId) -> Result<(), Errno> {
    let inner = id.lock();
    advance(id, &inner, rdma::QpState::Init)?;
    if id.shown().qp_type == IBV_QPT_UD {
        advance(id, &inner, rdma::QpState::Rtr)?;
        advance(id, &inner, rdma::QpState::Rts)?;
    }
    Ok(())
}

/// Takes the id's queue pair to where it can be used, now that the peer is known.
pub(super) fn make_ready(id: &CmId, inner: &Inner) -> Result<(), Errno> {
    advance(id, inner, rdma::QpState::Rtr)?;
    advance(id, inner, rdma::QpState::Rts)
}

/// Flushes the id's queue pair, if it has one.
pub(super) fn end(id: &CmId) -> Result<(), Errno> {
    let qp = id.shown().qp;
    if qp.is_null() {
        return Ok(());
    }
    let mut attr = ibv_qp_attr { qp_state: number(rdma::QpState::Error), ..ibv_qp_attr::zeroed() };
    // SAFETY: a handle, and a structure of ours.
    match unsafe { ibv_modify_qp(qp, &raw mut attr, mask::STATE.cast_signed()) } {
        0 => Ok(()),
        error => Err(Errno(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, SocketAddr};

    use rdma::{Psn, Qpn};

    use crate::rdmacm::devices;
    use crate::rdmacm::id::{self, Peer};

    #[test]
    fn a_peer_that_gives_up_is_as_patient_as_under_linux() {
        assert_eq!(min_rnr_timer(7), 12);
        for retries in 1..7 {
            let each = rnr_delay(min_rnr_timer(retries));
            assert!(each * u64::from(retries) >= rnr_delay(0), "{retries} retries of {each}");
        }
        // 163.84 ms and 327.68 ms; and one who never tries again does not wait.
        assert_eq!([5, 2, 1, 0].map(min_rnr_timer), [28, 30, 0, 0]);
    }

    #[test]
    fn each_side_says_with_which_psn_the_other_begins() {
        let localhost = Ipv4Addr::LOCALHOST.into();
        let context = devices::having(localhost).unwrap();
        let id = id::create(ptr::null_mut(), ptr::null_mut(), 0x0106).unwrap();
        let mut inner = id.lock();
        inner.local = Some(SocketAddr::new(localhost, 1));
        inner.remote = Some(SocketAddr::new(localhost, 2));
        inner.psn = Psn::new(100);
        inner.peer = Some(Peer {
            qpn: Qpn::new(7),
            psn: Psn::new(200),
            mtu: 5,
            responder_resources: 3,
            initiator_depth: 4,
            retry_count: 7,
            rnr_retry: 6,
        });
        id.attach(&mut inner, &context).unwrap();
        let (rtr, _) = attributes(&id, &inner, number(rdma::QpState::Rtr)).unwrap();
        assert_eq!((rtr.rq_psn, rtr.dest_qp_num, rtr.max_dest_rd_atomic), (100, 7, 3));
        let (rts, _) = attributes(&id, &inner, number(rdma::QpState::Rts)).unwrap();
        assert_eq!((rts.sq_psn, rts.max_rd_atomic, rts.rnr_retry), (200, 4, 6));
    }
}
