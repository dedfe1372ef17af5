//! Fork: no page is pinned, so nothing has to be kept from the child.

use core::ffi::{c_int, c_void};

/// `enum ibv_fork_status`: the preparation is not needed.
const IBV_FORK_UNNEEDED: c_int = 2;

/// Prepares for forks: nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// Says that no preparation is needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> c_int {
    IBV_FORK_UNNEEDED
}

/// Keeps a range from the child: not needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_: *mut c_void, _: usize) -> c_int {
    0
}

/// Gives a range to the child again: not needed.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_: *mut c_void, _: usize) -> c_int {
    0
}
