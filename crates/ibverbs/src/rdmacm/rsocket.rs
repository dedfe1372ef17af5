//! The names of rsocket calls. There are no rsockets: programs that link the calls load and are
//! refused a socket, and `rpoll` and `rselect` work on ordinary descriptors.

use core::ffi::c_int;

use crate::errno::{Errno, minus_one};

/// Every call that makes or uses an rsocket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rsocket_absent() -> isize {
    minus_one!(Err(Errno::UNSUPPORTED)) as isize
}

/// `repoll_create`: `epoll_create1`, as every descriptor is an ordinary one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_repoll_create(flags: c_int) -> c_int {
    // SAFETY: a plain system call.
    unsafe { libc::epoll_create1(flags) }
}

/// `repoll_ctl`: `epoll_ctl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_repoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    // SAFETY: C passes what it would pass to epoll_ctl.
    unsafe { libc::epoll_ctl(epfd, op, fd, event) }
}

/// `repoll_wait`: `epoll_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_repoll_wait(
    epfd: c_int,
    events: *mut libc::epoll_event,
    maxevents: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: C passes what it would pass to epoll_wait.
    unsafe { libc::epoll_wait(epfd, events, maxevents, timeout) }
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
