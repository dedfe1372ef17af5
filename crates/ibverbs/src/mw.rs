//! Memory windows: not offered yet.

use core::ffi::c_int;

use crate::abi::{ibv_mw, ibv_mw_bind, ibv_pd, ibv_qp};
use crate::errno::{Errno, pointer, status};

/// `ibv_alloc_mw`.
pub(crate) unsafe extern "C" fn alloc_mw(_: *mut ibv_pd, _: u32) -> *mut ibv_mw {
    pointer(Err(Errno::UNSUPPORTED))
}

/// `ibv_bind_mw`.
pub(crate) unsafe extern "C" fn bind_mw(
    _: *mut ibv_qp,
    _: *mut ibv_mw,
    _: *mut ibv_mw_bind,
) -> c_int {
    status(Err(Errno::UNSUPPORTED))
}

/// `ibv_dealloc_mw`.
pub(crate) unsafe extern "C" fn dealloc_mw(_: *mut ibv_mw) -> c_int {
    status(Err(Errno::UNSUPPORTED))
}
