//! Multicast groups of ids: `rdma_join_multicast`, `rdma_join_multicast_ex`, `rdma_leave_multicast`.
//!
//! To join is to say so to the kernel, which says so to the network (IGMP, MLD). The event comes at
//! once, and brings the way to the group, or says why there is none. When the program fetches it, the id's queue pair is
//! attached, unless it is only to send.

use core::ffi::{c_int, c_void};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use rdma::{Gid, Qpn};

use super::abi::{
    RDMA_CM_JOIN_MC_ATTR_ADDRESS, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, RDMA_MC_JOIN_FLAG_FULLMEMBER,
    RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, RDMA_UDP_QKEY, event, rdma_cm_id,
    rdma_cm_join_mc_attr_ex, rdma_ud_param,
};
use super::addresses;
use super::channel;
use super::dispatch::What;
use super::id::{CmId, Inner};
use super::queue_pair;
use crate::abi::Plain;
use crate::context::Context;
use crate::errno::{Errno, minus_one};
use crate::registry;

/// A group that an id has joined, or is only to send to.
#[derive(Debug)]
pub(super) struct Membership {
    /// Tells it from others in an event.
    number: u64,
    address: IpAddr,
    group: Gid,
    /// The program's own word, which events bring back.
    context: usize,
    sends_only: bool,
    /// Where the group was joined, if it was.
    joined: Option<Arc<Context>>,
    /// The queue pair that was attached.
    attached: Option<Qpn>,
}

/// Joins a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_join_multicast(
    id: *mut rdma_cm_id,
    addr: *mut libc::sockaddr,
    context: *mut c_void,
) -> c_int {
    minus_one(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a socket address.
        let address = unsafe { addresses::read(addr) }?;
        join(&id, address, context, false)
    }))
}

/// Joins a group, or is only to send to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_join_multicast_ex(
    id: *mut rdma_cm_id,
    mc_join_attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
) -> c_int {
    minus_one(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { mc_join_attr.as_ref() }.ok_or(Errno::INVALID)?;
        let all = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
        if attr.comp_mask & !all != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.comp_mask != all {
            return Err(Errno::INVALID);
        }
        let sends_only = match attr.join_flags {
            RDMA_MC_JOIN_FLAG_FULLMEMBER => false,
            RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER => true,
            _ => return Err(Errno::INVALID),
        };
        // SAFETY: the mask says that there is a socket address.
        let address = unsafe { addresses::read(attr.addr) }?;
        join(&id, address, context, sends_only)
    }))
}

fn join(
    id: &CmId,
    address: SocketAddr,
    context: *mut c_void,
    sends_only: bool,
) -> Result<(), Errno> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut inner = id.lock();
    let device = inner.context.clone().ok_or(Errno::INVALID)?;
    if !id.is_datagram() {
        return Err(Errno::INVALID);
    }
    let group = Gid::from(address.ip()).group().ok_or(Errno::INVALID)?;
    let is_like_us = |local: &SocketAddr| {
        local.is_ipv4() == group.ip().is_ipv4() && !local.ip().is_unspecified()
    };
    let result = match inner.local.filter(is_like_us) {
        None => Err(Errno(libc::EADDRNOTAVAIL)),
        Some(_) if sends_only => Ok(()),
        Some(_) => device.nic.join_group(group).map_err(Errno::from),
    };
    let status = match result {
        Ok(()) => 0,
        Err(Errno(number)) => -number,
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    inner.memberships.push(Membership {
        number,
        address: address.ip(),
        group,
        context: context.expose_provenance(),
        sends_only,
        joined: (status == 0 && !sends_only).then_some(device),
        attached: None,
    });
    drop(inner);
    id.mailbox.post(What::Joined(number, status));
    channel::complete(id)
}

/// What the program is told of a membership, unless it has left meanwhile: event, status and way.
pub(super) fn joined(id: &CmId, number: u64, status: c_int) -> Option<(u32, c_int, rdma_ud_param)> {
    let mut inner = id.lock();
    let at = inner.memberships.iter().position(|it| it.number == number)?;
    let context = core::ptr::with_exposed_provenance(inner.memberships[at].context);
    let param = rdma_ud_param { private_data: context, ..rdma_ud_param::zeroed() };
    let result = match status {
        0 => attach(id, &mut inner, at),
        status => Err(Errno(-status)),
    };
    Some(match result {
        Ok(ah_attr) => {
            let (qp_num, qkey) = (Qpn::MULTICAST.value(), RDMA_UDP_QKEY);
            (event::MULTICAST_JOIN, 0, rdma_ud_param { ah_attr, qp_num, qkey, ..param })
        }
        Err(Errno(number)) => (event::MULTICAST_ERROR, -number, param),
    })
}

/// Attaches the id's queue pair, if it has one that is to receive; and says how to send.
fn attach(id: &CmId, inner: &mut Inner, at: usize) -> Result<crate::abi::ibv_ah_attr, Errno> {
    let device = inner.context.clone().ok_or(Errno::INVALID)?;
    let source = inner.local.ok_or(Errno::INVALID)?.ip().into();
    let traffic_class = inner.settings.traffic_class;
    let membership = &mut inner.memberships[at];
    let way = queue_pair::path_to(&device, source, membership.group, traffic_class)?;
    // SAFETY: a queue pair that was made for the id, and that the program has not destroyed.
    let qp = unsafe { id.shown().qp.as_ref() }.filter(|_| !membership.sends_only);
    if let Some(qp) = qp {
        let qpn = Qpn::new(qp.qp_num);
        device.nic.attach_multicast(qpn, membership.group)?;
        membership.attached = Some(qpn);
    }
    Ok(way)
}

/// Leaves a group; `EADDRNOTAVAIL` if the id is not in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_leave_multicast(
    id: *mut rdma_cm_id,
    addr: *mut libc::sockaddr,
) -> c_int {
    minus_one(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a socket address.
        let address = unsafe { addresses::read(addr) }?.ip();
        let mut inner = id.lock();
        let at = inner.memberships.iter().rposition(|it| it.address == address);
        let left = inner.memberships.remove(at.ok_or(Errno(libc::EADDRNOTAVAIL))?);
        detach(&inner, left.attached, left.group);
        drop(inner);
        leave(&id, &left);
        Ok(())
    }))
}

/// Leaves every group of an id.
pub(super) fn leave_all(id: &CmId) {
    detach_all(id);
    let left = core::mem::take(&mut id.lock().memberships);
    left.iter().for_each(|membership| leave(id, membership));
}

/// Takes the id's queue pair out of every group, so that it can be destroyed.
pub(super) fn detach_all(id: &CmId) {
    let mut inner = id.lock();
    for at in 0..inner.memberships.len() {
        let attached = inner.memberships[at].attached.take();
        detach(&inner, attached, inner.memberships[at].group);
    }
}

fn detach(inner: &Inner, attached: Option<Qpn>, group: Gid) {
    // The queue pair stays as long as another membership of the group has attached it.
    let is_it = |it: &Membership| it.attached == attached && it.group == group;
    if let (Some(device), Some(qpn)) = (&inner.context, attached)
        && !inner.memberships.iter().any(is_it)
    {
        // The program may have been faster.
        let _ = device.nic.detach_multicast(qpn, group);
    }
}

/// Takes back what joining has done, but for the queue pair.
fn leave(id: &CmId, left: &Membership) {
    if let Some(device) = &left.joined {
        device.nic.leave_group(left.group);
    }
    let is_its = |what: &What| matches!(what, What::Joined(number, _) if *number == left.number);
    let queue = id.mailbox.queue();
    drop(queue.take(|raw| is_its(&raw.what)));
}
