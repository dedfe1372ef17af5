//! Multicast groups: `ibv_attach_mcast`, `ibv_detach_mcast`.

use core::ffi::c_int;
use std::sync::Arc;

use rdma::Gid;

use crate::errno::{Errno, status};
use crate::qp::Qp;
use crate::registry;
use abi::{ibv_gid, ibv_qp};

/// The queue pair, and the group that C names.
///
/// # Safety
/// `gid` is NULL or readable.
unsafe fn named(qp: *mut ibv_qp, gid: *const ibv_gid) -> Result<(Arc<Qp>, Gid), Errno> {
    let qp = registry::find::<Qp>(qp)?;
    // SAFETY: the caller vouches for it.
    let gid = unsafe { gid.as_ref() }.ok_or(Errno::NULL)?;
    Ok((qp, Gid(gid.raw).group().ok_or(Errno::invalid("the GID is of no multicast group"))?))
}

/// Has a UD queue pair receive what is sent to a group, and joins the group on the device's
/// interface. A queue pair that is attached already stays so. RoCE has no LIDs: `lid` is not
/// looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: C passes NULL or a readable GID.
    status!(unsafe { named(qp, gid) }.and_then(|(qp, group)| {
        qp.context.nic.attach_multicast(qp.qpn, group)?;
        Ok(())
    }))
}

/// Takes a queue pair out of a group; `EINVAL` if it is not in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: C passes NULL or a readable GID.
    status!(unsafe { named(qp, gid) }.and_then(|(qp, group)| {
        qp.context.nic.detach_multicast(qp.qpn, group)?;
        Ok(())
    }))
}
