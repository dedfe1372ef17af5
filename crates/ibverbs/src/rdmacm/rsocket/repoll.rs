//! Epoll sets, which newer releases of rdma-core have: of ordinary descriptors. An rsocket is refused,
//! as `epoll_ctl` refuses a file.

use core::ffi::c_int;

use super::socket;
use crate::errno::{Errno, minus_one};

/// `repoll_create`: `epoll_create1`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_repoll_create(flags: c_int) -> c_int {
    // SAFETY: a plain system call.
    unsafe { libc::epoll_create1(flags) }
}

/// `repoll_ctl`: `epoll_ctl`; `EPERM` for an rsocket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_repoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    if socket::known(fd).is_some() {
        let why = "an rsocket cannot be in an epoll set: use rpoll or rselect";
        return minus_one!(Err(Errno::new(libc::EPERM).because(why)));
    }
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
