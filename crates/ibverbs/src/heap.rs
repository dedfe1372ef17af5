//! The heap of this library, which is not the program's.
//!
//! `malloc` may not be called in a signal handler, and programs do it: perftest's reads `/proc/cpuinfo` when its time
//! is over. Over hardware nothing comes of it, as `ibv_poll_cq` and `ibv_post_send` take no memory there. Ours take
//! some where packets are lost, and a handler that interrupts them there would wait for the C library's lock, which the
//! thread that it runs on holds.

use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static HEAP: GlobalDlmalloc = GlobalDlmalloc;

/// The heap's lock is free in the child of a `fork`. This is registered when the library is loaded: before the handlers of
/// ours that take memory, so that what they do before a fork comes before its lock is taken.
#[used]
#[unsafe(link_section = ".init_array")]
static GUARD_FORKS: extern "C" fn() = {
    extern "C" fn guard() {
        // SAFETY: only says that what runs now takes no memory meanwhile; no thread of this library runs yet.
        unsafe { dlmalloc::enable_alloc_after_fork() };
    }
    guard
};
