//! What the names of `IBVERBS_PRIVATE_*` do, through which providers call libibverbs: nothing.
//!
//! Programs link stock provider libraries directly (perftest: mlx5 and EFA), and those are bound
//! when they are loaded. The names, and the version nodes that they are in, are in
//! `providers/private.S`; none is ever called for our devices.

use core::ffi::{c_int, c_void};

use crate::errno::{Errno, pointer, status};

/// A provider's command to the kernel: there is no kernel device.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_provider_refused() -> c_int {
    status!(Err(Errno::UNSUPPORTED))
}

/// A provider asks for a context of its own, or another pointer.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_provider_null() -> *mut c_void {
    pointer!(Err(Errno::UNSUPPORTED))
}

/// A provider tells something, or asks how many.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_provider_nothing() -> c_int {
    0
}
