//! Multicast groups of ids: `rdma_join_multicast`, `rdma_join_multicast_ex`, `rdma_leave_multicast`.
//!
//! The kernel is told of the membership, and tells the network (IGMP, MLD). The event comes at once,
//! with the path to the group or with an error. When the program fetches it, the id's queue pair is
//! attached, unless it is only to send.

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};

use rdma::Gid;

use super::abi::{
    RDMA_CM_JOIN_MC_ATTR_ADDRESS, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, RDMA_MC_JOIN_FLAG_FULLMEMBER,
    RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, rdma_cm_id, rdma_cm_join_mc_attr_ex,
};
use super::id::{CmId, Membership};
use super::{addresses, fetch, membership};
use crate::connections::What;
use crate::errno::{Errno, minus_one};
use crate::registry;

/// Joins a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_join_multicast(
    id: *mut rdma_cm_id,
    addr: *mut libc::sockaddr,
    context: *mut c_void,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
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
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { mc_join_attr.as_ref() }.ok_or(Errno::NULL)?;
        let all = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
        if attr.comp_mask & !all != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.comp_mask != all {
            return Err(Errno::invalid(
                "comp_mask lacks RDMA_CM_JOIN_MC_ATTR_ADDRESS or RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS",
            ));
        }
        let sends_only = match attr.join_flags {
            RDMA_MC_JOIN_FLAG_FULLMEMBER => false,
            RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER => true,
            _ => return Err(Errno::invalid("join_flags is neither full member nor send only")),
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
    let device = inner
        .context
        .clone()
        .ok_or(Errno::invalid("the id has no device: resolve or bind its address first"))?;
    if !id.is_datagram() {
        return Err(Errno::invalid("only ids of RDMA_PS_UDP join groups"));
    }
    let group = Gid::from(address.ip())
        .group()
        .ok_or(Errno::invalid("the address is of no multicast group"))?;
    let is_like_us = |local: &SocketAddr| {
        local.is_ipv4() == group.ip().is_ipv4() && !local.ip().is_unspecified()
    };
    let result = match inner.local.filter(is_like_us) {
        None => Err(Errno::new(libc::EADDRNOTAVAIL)),
        Some(_) if sends_only => Ok(()),
        Some(_) => device.nic.join_group(group).map_err(Errno::from),
    };
    let status = match result {
        Ok(()) => 0,
        Err(Errno { number, .. }) => -number,
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
    fetch::complete(id)
}

/// Leaves a group; `EADDRNOTAVAIL` if the id is not in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_leave_multicast(
    id: *mut rdma_cm_id,
    addr: *mut libc::sockaddr,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a socket address.
        let address = unsafe { addresses::read(addr) }?.ip();
        let mut inner = id.lock();
        let at = inner.memberships.iter().rposition(|it| it.address == address);
        let left = inner.memberships.remove(at.ok_or(Errno::new(libc::EADDRNOTAVAIL))?);
        membership::detach(&inner, left.attached, left.group);
        drop(inner);
        membership::leave(&id, &left);
        Ok(())
    }))
}
