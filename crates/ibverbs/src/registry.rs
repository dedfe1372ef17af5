//! What is alive: every object that C has a pointer to.
//!
//! A handle is the address of the C structure inside an `Arc`. A call of the control path finds
//! its objects here by their address, so that a NULL, stale or foreign handle is an error and not
//! a wild access. The data path follows the pointer after a look at its [`Mark`].
//!
//! **Invariant:** the one lock is held for a look-up only, never while anything else is called. A
//! fork waits for it, so that the child finds it free.

use core::cell::{RefCell, UnsafeCell};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use crate::ah::Ah;
use crate::channel::Channel;
use crate::context::Context;
use crate::cq::Cq;
use crate::device::Device;
use crate::dm::Dm;
use crate::errno::Errno;
use crate::mr::Mr;
use crate::mw::Mw;
use crate::pd::{Pd, Td};
use crate::qp::Qp;
use crate::rdmacm::{CmId, EventChannel, Told};
use crate::srq::Srq;
use crate::xrcd::Xrcd;

/// The objects of one kind, by the address of their C structure.
pub(crate) type Table<T> = BTreeMap<usize, Arc<T>>;

/// Every table.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) devices: Table<Device>,
    pub(crate) contexts: Table<Context>,
    pub(crate) pds: Table<Pd>,
    pub(crate) tds: Table<Td>,
    pub(crate) mrs: Table<Mr>,
    pub(crate) dms: Table<Dm>,
    pub(crate) mws: Table<Mw>,
    pub(crate) channels: Table<Channel>,
    pub(crate) cqs: Table<Cq>,
    pub(crate) qps: Table<Qp>,
    pub(crate) srqs: Table<Srq>,
    pub(crate) ahs: Table<Ah>,
    pub(crate) cm_channels: Table<EventChannel>,
    pub(crate) cm_events: Table<Told>,
    pub(crate) cm_ids: Table<CmId>,
    pub(crate) xrcds: Table<Xrcd>,
}

static LIVE: Mutex<Live> = Mutex::new(Live {
    devices: BTreeMap::new(),
    contexts: BTreeMap::new(),
    pds: BTreeMap::new(),
    tds: BTreeMap::new(),
    mrs: BTreeMap::new(),
    dms: BTreeMap::new(),
    mws: BTreeMap::new(),
    channels: BTreeMap::new(),
    cqs: BTreeMap::new(),
    qps: BTreeMap::new(),
    srqs: BTreeMap::new(),
    ahs: BTreeMap::new(),
    cm_channels: BTreeMap::new(),
    cm_events: BTreeMap::new(),
    cm_ids: BTreeMap::new(),
    xrcds: BTreeMap::new(),
});

/// Something that C has a pointer to.
pub(crate) trait Object: Send + Sync + 'static {
    /// The structure that C knows.
    type C;

    /// Where objects of this kind are kept.
    fn table(live: &mut Live) -> &mut Table<Self>
    where
        Self: Sized;

    /// The C structure inside.
    fn c(&self) -> *mut Self::C;

    /// The device that the object belongs to, if it belongs to one.
    fn context(&self) -> Option<&Arc<Context>>;

    /// Ends what the object stands for in the engine, because its device is closed. Another context
    /// of the same NIC may go on.
    fn end(&self) {}
}

/// Makes `object` known and returns its handle.
pub(crate) fn insert<T: Object>(object: Arc<T>) -> *mut T::C {
    let handle = object.c();
    T::table(&mut lock()).insert(handle.addr(), object);
    handle
}

/// The object behind `handle`.
pub(crate) fn find<T: Object>(handle: *const T::C) -> Result<Arc<T>, Errno> {
    T::table(&mut lock()).get(&handle.addr()).cloned().ok_or(Errno::INVALID)
}

/// Forgets `object`: its handle is stale from now on.
pub(crate) fn remove<T: Object>(object: &T) {
    // The last reference is dropped after the lock is released.
    let _removed = T::table(&mut lock()).remove(&object.c().addr());
}

/// Forgets every object of `context`, as closing the device does.
pub(crate) fn remove_all<T: Object>(context: &Arc<Context>) {
    let is_its = |object: &T| object.context().is_some_and(|it| Arc::ptr_eq(it, context));
    let mut gone = Vec::new();
    T::table(&mut lock()).retain(|_, object| {
        let goes = is_its(object);
        if goes {
            gone.push(Arc::clone(object));
        }
        !goes
    });
    // And the last references are dropped here, after the lock is released.
    gone.iter().for_each(|object| object.end());
}

/// Fails if anything but the registry and the caller refers to `object`.
pub(crate) fn check_unused<T: Object>(object: &Arc<T>) -> Result<(), Errno> {
    if Arc::strong_count(object) > 2 { Err(Errno::BUSY) } else { Ok(()) }
}

/// Runs `f` on all tables.
pub(crate) fn with<R>(f: impl FnOnce(&mut Live) -> R) -> R {
    f(&mut lock())
}

fn lock() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static HELD: RefCell<Option<MutexGuard<'static, Live>>> = const { RefCell::new(None) };
}

/// Makes every later fork wait for the lock, so that parent and child find it free.
pub(crate) fn guard_forks() {
    extern "C" fn before() {
        // A thread that has given up its storage forks without the lock.
        let _held = HELD.try_with(|held| held.replace(Some(lock())));
    }
    extern "C" fn after() {
        let _released = HELD.try_with(|held| held.replace(None));
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers take and release a lock and do not unwind.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    });
}

/// C's part of an object: both sides read and write it by the protocol of the man pages.
#[repr(transparent)]
pub(crate) struct Shared<T>(UnsafeCell<T>);

// SAFETY: it is only reached by raw pointer, and each access states why it does not race.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) const fn get(&self) -> *mut T {
        self.0.get()
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.get(), f)
    }
}

/// Tells a live object of the data path from a stale or foreign one, as far as one word can.
#[derive(Debug)]
pub(crate) struct Mark(AtomicU32);

impl Mark {
    pub(crate) const fn new(kind: u32) -> Self {
        Self(AtomicU32::new(kind))
    }

    fn is(&self, kind: u32) -> bool {
        self.0.load(Ordering::Relaxed) == kind
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// An object of the data path: the C structure is its first field.
///
/// # Safety
/// The type is `repr(C)` and begins with a `Shared` of `C`, or of a structure that begins with it.
pub(crate) unsafe trait Hot: Object {
    /// What its mark holds.
    const KIND: u32;

    /// Its mark.
    fn mark(&self) -> &Mark;
}

/// The object behind `handle`, without a look-up.
///
/// # Safety
/// `handle` is NULL, or points to a live object of this kind that lives for `'a`, or at least to
/// as much readable memory.
pub(crate) unsafe fn hot<'a, T: Hot>(handle: *mut T::C) -> Result<&'a T, Errno> {
    let object = handle.cast::<T>();
    if object.is_null() || !object.is_aligned() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller vouches for it, and `Hot` for the position of the C structure.
    let object = unsafe { &*object };
    if object.mark().is(T::KIND) { Ok(object) } else { Err(Errno::INVALID) }
}

/// A lock that is taken in one call from C and released in another.
#[derive(Debug, Default)]
pub(crate) struct Latch(core::sync::atomic::AtomicBool);

impl Latch {
    pub(crate) fn acquire(&self) {
        while self.0.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    pub(crate) fn release(&self) {
        self.0.store(false, Ordering::Release);
    }
}
