//! The routines for all other processors: the kernel copies, at the price of a call each.
//!
//! A word is asked for and then accessed, so that a mapping that goes just then is missed.

use core::sync::atomic::{AtomicU64, Ordering};

use super::{DONE, Outcome};

const FAULTED: Outcome = 1;

/// # Safety
/// As [`super::Guard::copy`].
unsafe fn copy(target: *mut u8, source: *const u8, length: usize) -> Outcome {
    let local = libc::iovec { iov_base: target.cast(), iov_len: length };
    let remote = libc::iovec { iov_base: source.cast_mut().cast(), iov_len: length };
    // SAFETY: the kernel writes to `target` as the caller allows, and finds out by itself what is
    // not accessible.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    if usize::try_from(copied) == Ok(length) { DONE } else { FAULTED }
}

/// # Safety
/// As [`super::Guard::copy_upwards`].
pub(super) unsafe fn copy_upwards(target: *mut u8, source: *const u8, length: usize) -> Outcome {
    for at in 0..length {
        // SAFETY: the caller's promise.
        if unsafe { copy(target.wrapping_add(at), source.wrapping_add(at), 1) } != DONE {
            return FAULTED;
        }
    }
    DONE
}

/// # Safety
/// As [`super::Guard::store`].
pub(super) unsafe fn store(target: *mut u64, word: u64) -> Outcome {
    if !is_writable(target) {
        return FAULTED;
    }
    // SAFETY: aligned, by the caller's promise, and just seen to be accessible.
    unsafe { AtomicU64::from_ptr(target) }.store(word, Ordering::Release);
    DONE
}

/// # Safety
/// As [`super::Guard::compare_exchange`]; `previous` may be written to.
pub(super) unsafe fn compare_exchange(
    target: *mut u64,
    old: u64,
    new: u64,
    previous: *mut u64,
) -> Outcome {
    if !is_writable(target) {
        return FAULTED;
    }
    // SAFETY: as in `store`.
    let word = unsafe { AtomicU64::from_ptr(target) };
    let found = word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
    // SAFETY: the caller's promise.
    unsafe { previous.write(found.unwrap_or_else(|found| found)) };
    DONE
}

/// Whether a word may be written to: the kernel adds nothing to half of it, atomically. (What
/// `madvise` says of a page without rights is also what an old kernel says to advice that it does
/// not know.)
fn is_writable(word: *mut u64) -> bool {
    const ADD_NOTHING: u32 = (libc::FUTEX_OP_ADD as u32) << 28;
    let nobody_waits_here = 0_u32;
    // SAFETY: both words are aligned, and whether the second is there is what is asked.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            &raw const nobody_waits_here,
            libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG,
            0,
            0,
            word,
            ADD_NOTHING,
        )
    };
    result >= 0
}

/// There is nothing to choose from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routines;

impl Routines {
    pub(super) fn detect() -> Self {
        Self
    }

    /// # Safety
    /// As [`super::Guard::copy`].
    pub(super) unsafe fn copy(self, target: *mut u8, source: *const u8, length: usize) -> Outcome {
        // SAFETY: the caller's promise.
        unsafe { copy(target, source, length) }
    }
}
