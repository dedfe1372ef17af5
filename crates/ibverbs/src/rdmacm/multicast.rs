//! Multicast groups, which are not offered: neither is `ibv_attach_mcast`.

use core::ffi::{c_int, c_void};

use super::abi::rdma_cm_id;
use crate::errno::{Errno, minus_one};

/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_join_multicast(
    _: *mut rdma_cm_id,
    _: *mut libc::sockaddr,
    _: *mut c_void,
) -> c_int {
    minus_one(Err(Errno::UNSUPPORTED))
}

/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_join_multicast_ex(
    _: *mut rdma_cm_id,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    minus_one(Err(Errno::UNSUPPORTED))
}

/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_leave_multicast(
    _: *mut rdma_cm_id,
    _: *mut libc::sockaddr,
) -> c_int {
    minus_one(Err(Errno::UNSUPPORTED))
}
