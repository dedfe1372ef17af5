//! `ibv_bind_mw`: a memory window is bound by a request.

use core::ffi::c_int;

use rdma::{Key, SendFlags, WorkRequest};

use crate::errno::{Errno, status};
use crate::memory::mw::{Mw, bind};
use crate::qp::Qp;
use crate::registry::{self, Object};
use abi::{self, ibv_mw, ibv_mw_bind, ibv_qp};

/// `ibv_bind_mw`, for windows of type 1: posts the request, and leaves the key that the window
/// will have in it.
pub(crate) unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind_request: *mut ibv_mw_bind,
) -> c_int {
    status!(registry::find::<Qp>(qp).and_then(|qp| {
        let found = registry::find::<Mw>(mw)?;
        // SAFETY: C passes a readable structure, and a window that no other thread binds.
        let (request, c) =
            unsafe { (bind_request.as_ref().ok_or(Errno::NULL)?, &mut *found.c()) };
        if c.kind != abi::IBV_MW_TYPE_1 {
            return Err(Errno::invalid("ibv_bind_mw is for windows of IBV_MW_TYPE_1; those of type 2 are bound by a request"));
        }
        let old = Key(c.rkey);
        let new = Key::from_parts(old.index(), old.tag().wrapping_add(1));
        // SAFETY: C passes a live region.
        let operation = unsafe { bind(mw, new.0, &request.bind_info)? };
        let flags = SendFlags::from_bits(request.send_flags).ok_or(Errno::invalid("send_flags has bits that are not known"))?;
        let request = WorkRequest { id: request.wr_id, operation, flags, sges: &[], inline: None };
        qp.context.nic.with(|endpoint, _, now| endpoint.post_send(now, qp.qpn, &request))?;
        c.rkey = new.0;
        Ok(())
    }))
}
