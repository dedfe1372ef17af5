//! What no soft NIC has: multicast.
//!
//! Each answer is `EOPNOTSUPP`, the number by which test suites know to skip.

use core::ffi::c_int;

use crate::abi::{ibv_gid, ibv_qp};
use crate::errno::{Errno, status};

/// Multicast groups are not offered yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(_: *mut ibv_qp, _: *const ibv_gid, _: u16) -> c_int {
    status(Err(Errno::UNSUPPORTED))
}

/// Multicast groups are not offered yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(_: *mut ibv_qp, _: *const ibv_gid, _: u16) -> c_int {
    status(Err(Errno::UNSUPPORTED))
}
