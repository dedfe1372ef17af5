//! What happens at a fault: ours are answered, all others go to whoever handled them before.
//!
//! ```text
//!   SIGSEGV ──► handler 1 ──► theirs, put there after us ──► handler 0 ──► what was there before us
//! ```
//!
//! A program may put a handler in the place of ours, and hand on to ours what it does not know, or
//! not. When memory is registered we look, and put another of our handlers on top of theirs. Each of
//! ours remembers whom it displaced, and each is another function: theirs may hand on to the one that
//! it displaced, which must not come back to theirs.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::exports::way_out;
use crate::fork::Nics;
use crate::limits::FAULT_HANDLERS_MAX;

/// What an access to memory that is not there, or beyond the end of a mapped file, raises.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

const HANDLERS: [Handler; FAULT_HANDLERS_MAX] = [handle::<0>, handle::<1>, handle::<2>];

/// Whom the handlers have displaced, and how many handlers there are. What is displaced is never
/// freed: a handler may be running.
struct Chain {
    displaced: [AtomicPtr<libc::sigaction>; FAULT_HANDLERS_MAX],
    count: AtomicUsize,
}

static CHAINS: [Chain; SIGNALS.len()] = [const {
    Chain {
        displaced: [const { AtomicPtr::new(ptr::null_mut()) }; FAULT_HANDLERS_MAX],
        count: AtomicUsize::new(0),
    }
}; SIGNALS.len()];

/// Puts a handler on top, for both signals, unless one of ours is there. Nobody else does, because
/// only one can hold `_nics`.
pub(crate) fn install(_nics: &mut Nics) {
    for (signal, chain) in SIGNALS.into_iter().zip(&CHAINS) {
        let Some(current) = exchange(signal, None) else { continue };
        if HANDLERS.iter().any(|handler| *handler as usize == current.sa_sigaction) {
            continue;
        }
        let level = chain.count.load(Ordering::Relaxed);
        let Some(&handler) = HANDLERS.get(level) else {
            tracing::debug!(signal, "the program handles faults itself");
            continue;
        };
        // SAFETY: all zeros are a valid sigaction, with an empty mask.
        let mut ours: libc::sigaction = unsafe { mem::zeroed() };
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // A signal that somebody sends interrupts calls of the kernel only if it did before.
        ours.sa_flags |= current.sa_flags & libc::SA_RESTART;
        // It must be there before the first fault.
        chain.displaced[level].store(Box::into_raw(Box::new(current)), Ordering::Release);
        if exchange(signal, Some(&ours)).is_some() {
            chain.count.store(level + 1, Ordering::Relaxed);
        }
    }
}

/// The action of a signal, which `new` replaces if it is given. It cannot fail for these signals.
fn exchange(signal: c_int, new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    // SAFETY: all zeros are a valid sigaction.
    let mut old: libc::sigaction = unsafe { mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: pointers to live actions, or null.
    let result = unsafe { libc::sigaction(signal, new, &raw mut old) };
    (result == 0).then_some(old)
}

/// Only calls what may be called in a handler.
extern "C" fn handle<const LEVEL: usize>(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO, and so does whoever hands on.
    let (is_fault, is_ours) = unsafe {
        // Signals that somebody has sent have codes of zero and below.
        let is_fault = (*info).si_code > 0;
        (is_fault, is_fault && way_out(&mut *context.cast::<libc::ucontext_t>()))
    };
    if is_ours {
        return;
    }
    let displaced = SIGNALS.iter().zip(&CHAINS).find(|(other, _)| **other == signal);
    let Some((_, chain)) = displaced else { return };
    let displaced = chain.displaced[LEVEL].load(Ordering::Acquire);
    // SAFETY: set before the handler was installed, and never freed.
    let Some(displaced) = (unsafe { displaced.as_ref() }) else { return };
    match displaced.sa_sigaction {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => end(signal, is_fault),
        handler => call(handler, displaced, signal, info, context),
    }
}

/// Does what happens without any handler: the program ends, with the state of the fault in its core
/// dump.
fn end(signal: c_int, is_fault: bool) {
    // SAFETY: all zeros are the default action.
    let default: libc::sigaction = unsafe { mem::zeroed() };
    exchange(signal, Some(&default));
    // A fault comes again when the instruction does.
    if !is_fault {
        // SAFETY: a plain system call.
        unsafe { libc::raise(signal) };
    }
}

/// Calls a handler as the kernel would have.
fn call(
    handler: usize,
    action: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let mut mask = action.sa_mask;
    // SAFETY: a live set. The kernel takes the mask back when our handler returns. `handler` is what
    // the program gave to the kernel for a function of this type.
    unsafe {
        if action.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, ptr::null_mut());
        if action.sa_flags & libc::SA_SIGINFO == 0 {
            mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
        } else {
            mem::transmute::<usize, Handler>(handler)(signal, info, context);
        }
    }
}
