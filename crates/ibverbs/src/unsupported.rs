//! What no soft NIC has: imported objects, device memory, ECE, multicast.
//!
//! Each answer is `EOPNOTSUPP`, the number by which test suites know to skip.

use core::ffi::{c_int, c_void};

use crate::abi::{ibv_context, ibv_ece, ibv_gid, ibv_mr, ibv_pd, ibv_qp};
use crate::errno::{Errno, pointer, status};

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

/// There are no vendor-specific connection extensions to negotiate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(_: *mut ibv_qp, _: *mut ibv_ece) -> c_int {
    status(Err(Errno::UNSUPPORTED))
}

/// There are no vendor-specific connection extensions to negotiate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(_: *mut ibv_qp, _: *mut ibv_ece) -> c_int {
    status(Err(Errno::UNSUPPORTED))
}

/// An engine lives in its process: its objects cannot be shared by a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(_: c_int) -> *mut ibv_context {
    pointer(Err(Errno::UNSUPPORTED))
}

/// See [`ibv_import_device`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_pd(_: *mut ibv_context, _: u32) -> *mut ibv_pd {
    pointer(Err(Errno::UNSUPPORTED))
}

/// See [`ibv_import_device`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_pd(_: *mut ibv_pd) {}

/// See [`ibv_import_device`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_mr(_: *mut ibv_pd, _: u32) -> *mut ibv_mr {
    pointer(Err(Errno::UNSUPPORTED))
}

/// See [`ibv_import_device`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_mr(_: *mut ibv_mr) {}

/// There is no memory on the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_dm(_: *mut ibv_context, _: u32) -> *mut c_void {
    pointer(Err(Errno::UNSUPPORTED))
}

/// There is no memory on the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_dm(_: *mut c_void) {}
