//! The NICs of this process, and what its `fork` and `exit` do to them.
//!
//! After a `fork` the parent keeps them, and the child's copies are dead.
//!
//! The child has the parent's memory and descriptors but not its threads. If its copies of the
//! sockets stayed open, the kernel would keep them in their groups after the parent's death, and
//! keep the locks of the slots held. So they are closed before `fork` returns in the child. Calls to a
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

/// All NICs of the process. Held while one is opened or closed.
static NICS: Mutex<Vec<Weak<dyn Forks>>> = Mutex::new(Vec::new());

/// A NIC, as `fork` and `exit` see it.
pub(crate) trait Forks: Send + Sync {
    /// Takes its locks, with nobody sending or receiving, however long that takes.
    fn hold(self: Arc<Self>) -> Box<dyn Held>;

    /// The process exits. Other threads still run, and may hold a lock for ever.
    fn exit(&self);
}

/// A NIC whose locks are held while its process forks. They are given back when it goes.
pub(crate) trait Held {
    fn in_parent(self: Box<Self>);

    /// Everything that only one of the two processes may have is let go.
    fn in_child(self: Box<Self>);
}

/// The right to open or close a NIC.
pub(crate) struct Nics(MutexGuard<'static, Vec<Weak<dyn Forks>>>);

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

    pub(crate) fn add(&mut self, nic: Weak<dyn Forks>) {
        self.0.push(nic);
    }

    pub(crate) fn remove(&mut self, nic: &dyn Forks) {
        self.0.retain(|other| !core::ptr::addr_eq(other.as_ptr(), nic));
    }
}

/// What a forking thread holds. The locks of the NICs are given back before that of the list.
struct Forking {
    nics: Vec<Box<dyn Held>>,
    _list: Nics,
}

thread_local! {
    /// The three handlers run in one thread, one after the other.
    static FORKING: RefCell<Option<Forking>> = const { RefCell::new(None) };
}

extern "C" fn prepare() {
    let list = Nics::lock();
    let nics = list.0.iter().filter_map(Weak::upgrade).map(Forks::hold).collect();
    // A thread that is at its very end has no thread-local values any more. Nothing is held then,
    // and nothing closed in the child, which is all that can be done.
    let _ = FORKING.try_with(|held| *held.borrow_mut() = Some(Forking { nics, _list: list }));
}

extern "C" fn in_parent() {
    forked(Held::in_parent);
}

extern "C" fn in_child() {
    forked(Held::in_child);
}

fn forked(go_on: impl Fn(Box<dyn Held>)) {
    let held = FORKING.try_with(|held| held.borrow_mut().take()).ok().flatten();
    if let Some(Forking { nics, _list }) = held {
        nics.into_iter().for_each(go_on);
    }
}

extern "C" fn at_exit() {
    // Other threads still run, and may hold a lock for ever: then there is nothing to be done.
    let Ok(nics) = NICS.try_lock() else { return };
    for nic in nics.iter().filter_map(Weak::upgrade) {
        nic.exit();
    }
}
