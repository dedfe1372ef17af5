//! Signals during a call that waits.
//!
//! For programs `ibv_get_cq_event` is a `read`, which goes on after a handler that was installed with
//! `SA_RESTART`, and else fails with `EINTR`. `ppoll` fails in either case, and does not say which
//! handler ran.

use core::ffi::c_int;
use core::mem;
use core::ptr;

/// Signals of a fault, which a sleeping thread does not get.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// The highest signal.
const LAST: c_int = 64;

/// Whether a `read` would have gone on after the handler that has just interrupted this thread: all
/// handlers that may have run have `SA_RESTART`.
pub(crate) fn restart() -> bool {
    // SAFETY: an all-zero signal set is a valid place for one.
    let mut blocked: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: fills a live set, and changes nothing.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut blocked) };
    (1..=LAST).filter(|signal| !FAULTS.contains(signal)).all(|signal| {
        // SAFETY: all zeros are a valid sigaction.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: fills a live structure. The C library refuses signals of its own, which stay
        // zero: no handler.
        unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
        let is_handled =
            action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
        // SAFETY: a live set and the number of a signal.
        let is_blocked = unsafe { libc::sigismember(&raw const blocked, signal) } == 1;
        !is_handled || is_blocked || action.sa_flags & libc::SA_RESTART != 0
    })
}
