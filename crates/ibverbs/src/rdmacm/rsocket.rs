//! The names of rsocket calls. There are no rsockets: programs that link the calls load and are
//! refused a socket, and `rpoll` and `rselect` work on ordinary descriptors.

use core::ffi::c_int;

use crate::errno::{Errno, minus_one};

/// Every call that makes or uses an rsocket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rsocket_absent() -> isize {
    minus_one(Err(Errno::UNSUPPORTED)) as isize
}

/// `rpoll`: `poll`, as every descriptor is an ordinary one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rpoll(
    fds: *mut libc::pollfd,
    nfds: libc::nfds_t,
    timeout: c_int,
) -> c_int {
    // SAFETY: C passes what it would pass to poll.
    unsafe { libc::poll(fds, nfds, timeout) }
}

/// `rselect`: `select`, as every descriptor is an ordinary one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rselect(
    nfds: c_int,
    readfds: *mut libc::fd_set,
    writefds: *mut libc::fd_set,
    exceptfds: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    // SAFETY: C passes what it would pass to select.
    unsafe { libc::select(nfds, readfds, writefds, exceptfds, timeout) }
}
