//! What `fork` and `exit` do to the NICs of a process.
//!
//! After a `fork` the parent keeps them, and the child's copies are dead.
//!
//! The child has the parent's memory and descriptors but not its threads. Were its copies of the
//! sockets to stay open, the kernel would keep them in their groups after the parent's death, and
//! the locks of the slots held. So they are closed before `fork` returns in the child. Calls to a
//! dead NIC still reach its engine, so that the objects can be destroyed; nothing is sent.
//!
//! All locks are taken before the fork, so that no other thread holds one at that moment: it would
//! never be released in the child. Nor is any thread sending or receiving then, without the lock.
//!
//! A program that exits without closing its devices may still owe acknowledgements that wait for
//! something to travel with. They are sent from `exit`, and its counters are shown a last time.
//!
//! **Invariant:** locks are taken in this order: the list of NICs, then the NICs in its order, and of
//! each the inbox before the engine.

use core::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use crate::clock;
use crate::inbox::Inbox;
use crate::limits::{EXIT_WAIT, SENDER_WAIT};
use crate::progress::Core;
use crate::shared::Shared;
use crate::stand_in::Duty;

/// All NICs of the process. Held while one is opened or closed.
static NICS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The right to open or close a NIC.
pub(crate) struct Nics(MutexGuard<'static, Vec<Weak<Shared>>>);

impl Nics {
    pub(crate) fn lock() -> Self {
        static HANDLERS: Once = Once::new();
        // SAFETY: the handlers are functions of this library. If the library is unloaded, the C
        // library takes the handlers out itself.
        HANDLERS.call_once(|| unsafe {
            libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child));
            libc::atexit(at_exit);
        });
        Self(NICS.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&mut self, nic: &Arc<Shared>) {
        self.0.push(Arc::downgrade(nic));
    }

    pub(crate) fn remove(&mut self, nic: &Arc<Shared>) {
        self.0.retain(|other| !core::ptr::eq(other.as_ptr(), Arc::as_ptr(nic)));
    }
}

/// What a forking thread holds. Guards are released before the NICs that they are of may go.
struct Held {
    whole: Vec<(MutexGuard<'static, Core>, MutexGuard<'static, Inbox>, Arc<Shared>)>,
    _nics: Nics,
}

thread_local! {
    /// The three handlers run in one thread, one after the other.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

extern "C" fn prepare() {
    let nics = Nics::lock();
    let whole = nics
        .0
        .iter()
        .filter_map(Weak::upgrade)
        .map(|nic| {
            // The child has no thread that could bring back what another has taken out.
            let guards = nic.lock_whole();
            // SAFETY: the guards refer to the locks inside `nic`, which is kept beside them and
            // dropped after them.
            let (core, inbox): (MutexGuard<'static, Core>, MutexGuard<'static, Inbox>) =
                unsafe { core::mem::transmute(guards) };
            (core, inbox, nic)
        })
        .collect();
    // A thread that is at its very end has no thread-local values any more. Nothing is held then,
    // and nothing closed in the child, which is all that can be done.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(Held { whole, _nics: nics }));
}

extern "C" fn in_parent() {
    let Some(Held { whole, _nics }) = take() else { return };
    for (mut core, inbox, nic) in whole {
        let is_left_behind = core.is_left_behind();
        if is_left_behind {
            core.sleeps_until = rdma::Time::ZERO;
        }
        drop(core);
        drop(inbox);
        if is_left_behind {
            nic.wake_all();
        }
    }
}

extern "C" fn in_child() {
    let held = take();
    for (mut core, mut inbox, _) in held.into_iter().flat_map(|held| held.whole) {
        inbox.forget();
        if let Some(mut links) = core.links.take() {
            // What goes with it would tell the others that the parent's NIC is gone.
            core::mem::forget(links.flow.take());
        }
        core.sleeps_until = rdma::Time::ZERO;
        core.duty = Duty::default();
    }
}

extern "C" fn at_exit() {
    // Other threads still run, and may hold a lock for ever: then there is nothing to be done.
    let Ok(nics) = NICS.try_lock() else { return };
    for nic in nics.iter().filter_map(Weak::upgrade) {
        if let Some(core) = patiently(&nic) {
            let core = nic.claim(core, SENDER_WAIT);
            drop(nic.settle_debts(core));
        }
    }
}

/// The lock of a NIC, which its thread holds for microseconds at a time.
fn patiently(nic: &Shared) -> Option<MutexGuard<'_, Core>> {
    let end = clock::now() + EXIT_WAIT;
    loop {
        let core = nic.try_lock();
        if core.is_some() || clock::now() >= end {
            return core;
        }
        std::thread::yield_now();
    }
}

fn take() -> Option<Held> {
    HELD.try_with(|held| held.borrow_mut().take()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Link;
    use crate::testing::open_by;

    #[test]
    fn a_child_does_not_say_that_its_parents_nic_is_gone() {
        let nic = open_by("127.0.49.9", Link::SharedMemory);
        // SAFETY: the child ends at once.
        let child = unsafe {
            match libc::fork() {
                0 => libc::_exit(0),
                child => child,
            }
        };
        // SAFETY: no place for the status is given.
        assert_eq!(unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) }, child);
        let first = nic.with(|endpoint, _, _| endpoint.config().qpns.start);
        let slot = crate::steering::slot_of(first);
        let shared = Nics::lock().0.iter().filter_map(Weak::upgrade).find(|shared| {
            shared.lock().links.as_ref().is_some_and(|links| links.registry.slot() == slot)
        });
        let shared = shared.unwrap();
        let mut core = shared.lock();
        let flow = core.links.as_mut().unwrap().flow.as_mut().unwrap();
        // A NIC that is there has room for something, and not for everything.
        assert!(!flow.is_full(slot) && flow.plan(slot, 1 << 30));
    }
}
