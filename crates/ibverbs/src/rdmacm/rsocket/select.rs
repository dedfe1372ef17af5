//! `rselect`, which is `rpoll` with sets of bits.

use core::ffi::c_int;
use core::time::Duration;

use super::poll::poll;
use crate::errno::{Errno, minus_one};

/// What makes a descriptor readable, writable and exceptional, as the kernel's `select` has it.
const MEANINGS: [(i16, i16); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// Waits until one of several descriptors is ready, rsockets among them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rselect(
    nfds: c_int,
    readfds: *mut libc::fd_set,
    writefds: *mut libc::fd_set,
    exceptfds: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    let mut count = 0;
    // SAFETY: C passes NULL, or sets and a time.
    let result = unsafe { select(nfds, [readfds, writefds, exceptfds], timeout) };
    let result = result.map(|ready| count = ready);
    if minus_one!(result) == 0 { count } else { -1 }
}

/// # Safety
/// The pointers are NULL, or to sets of as many bits as `nfds` says, and to a time.
unsafe fn select(
    nfds: c_int,
    sets: [*mut libc::fd_set; 3],
    timeout: *mut libc::timeval,
) -> Result<c_int, Errno> {
    if !(0..=libc::FD_SETSIZE as c_int).contains(&nfds) {
        return Err(Errno::invalid("nfds is negative or beyond FD_SETSIZE"));
    }
    // SAFETY: the caller vouches for it.
    let timeout = match unsafe { timeout.as_ref() } {
        None => None,
        Some(time) => {
            let seconds = u64::try_from(time.tv_sec).ok();
            let micros = u64::try_from(time.tv_usec).ok();
            let invalid = Errno::invalid("the timeout is negative");
            let (seconds, micros) = seconds.zip(micros).ok_or(invalid)?;
            Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
        }
    };
    let mut fds = Vec::new();
    for fd in 0..nfds {
        let mut events = 0;
        let mut is_in = false;
        for (set, (wanted, _)) in sets.iter().zip(MEANINGS) {
            // SAFETY: the caller vouches for the set, which has this bit.
            if !set.is_null() && unsafe { libc::FD_ISSET(fd, *set) } {
                (events, is_in) = (events | wanted, true);
            }
        }
        if is_in {
            fds.push(libc::pollfd { fd, events, revents: 0 });
        }
    }
    poll(&mut fds, timeout)?;
    if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
        return Err(Errno::new(libc::EBADF));
    }
    let mut count = 0;
    for (set, (wanted, means)) in sets.into_iter().zip(MEANINGS) {
        if set.is_null() {
            continue;
        }
        // SAFETY: the caller vouches for the set.
        unsafe { libc::FD_ZERO(set) };
        for fd in &fds {
            if fd.events & wanted != 0 && fd.revents & means != 0 {
                // SAFETY: as above; the bit was found in it.
                unsafe { libc::FD_SET(fd.fd, set) };
                count += 1;
            }
        }
    }
    Ok(count)
}
