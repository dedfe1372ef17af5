//! Fork: no page is pinned, so nothing has to be kept from the child.
//!
//! What the child cannot have is the device: its threads and sockets stay with the parent ([`softnic`] closes the child's
//! copies). A message that the child posted would never leave, so what needs the engine is refused with `EIO`, and the first
//! refusal says why. Objects can be destroyed and the device closed, of which the parent notices nothing.
//!
//! The data path asks nothing for it: in the child the marks of what it looks at are others (`registry::Mark`).

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Once};

use crate::cq::Cq;
use crate::qp::Qp;
use crate::registry::{self, Hot};
use crate::srq::Srq;

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

/// Makes every later fork leave the child without a data path. The tables are free in the child: their guard came first.
pub(crate) fn guard() {
    extern "C" fn in_child() {
        inherit::<Qp>();
        inherit::<Cq>();
        inherit::<Srq>();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        registry::guard_forks();
        // SAFETY: the handler stores into live objects and does not unwind.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

fn inherit<T: Hot>() {
    let _none: Option<()> = registry::search(|object: &Arc<T>| {
        object.mark().inherit();
        None
    });
}
