//! The live objects: each one that C has a pointer to.
//!
//! A handle is the address of the C structure inside an `Arc`. Each room owns the [`Table`] of its
//! objects. A call of the control path finds its objects there by their address, so that a NULL,
//! stale or foreign handle is an error and not a wild access. The data path follows the pointer
//! after a look at its [`Mark`].
//!
//! **Invariant:** a table is locked for a look-up only, never while anything else is called, and
//! inside one gate for all tables. A fork takes the gate, so the child finds every table free.

use core::cell::{RefCell, UnsafeCell};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Once};

use crate::errno::Errno;
use crate::sync::lock;

/// Held while a table is locked.
static GATE: Mutex<()> = Mutex::new(());

/// The objects of one kind, by the address of their C structure.
pub(crate) struct Table<T>(Mutex<BTreeMap<usize, Arc<T>>>);

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn with<R>(&self, f: impl FnOnce(&mut BTreeMap<usize, Arc<T>>) -> R) -> R {
        let _gate = lock(&GATE);
        f(&mut lock(&self.0))
    }
}

/// Something that C has a pointer to.
pub(crate) trait Object: Send + Sync + Sized + 'static {
    /// The structure that C knows.
    type C;

    /// Where objects of this kind are kept.
    fn table() -> &'static Table<Self>;

    /// The C structure inside.
    fn c(&self) -> *mut Self::C;
}

/// Makes a type with a field `c: Shared<_>`, whose structure is a `$c` or begins with one, an
/// [`Object`] with a table of its own; with a mark, and a field `mark` for it, a [`Hot`] one.
macro_rules! object {
    ($object:ident, $c:ty, $mark:literal) => {
        $crate::registry::object!($object, $c);

        // SAFETY: `c` comes first, and is or begins with a `$c`.
        unsafe impl $crate::registry::Hot for $object {
            const KIND: u32 = {
                assert!(core::mem::offset_of!($object, c) == 0);
                u32::from_be_bytes(*$mark)
            };

            fn mark(&self) -> &$crate::registry::Mark {
                &self.mark
            }
        }
    };
    ($object:ident, $c:ty) => {
        impl $crate::registry::Object for $object {
            type C = $c;

            fn table() -> &'static $crate::registry::Table<Self> {
                static LIVE: $crate::registry::Table<$object> = $crate::registry::Table::new();
                &LIVE
            }

            fn c(&self) -> *mut $c {
                self.c.get().cast()
            }
        }
    };
}
pub(crate) use object;

/// Makes `object` known and returns its handle.
pub(crate) fn insert<T: Object>(object: Arc<T>) -> *mut T::C {
    let handle = object.c();
    T::table().with(|live| live.insert(handle.addr(), object));
    handle
}

/// The object behind `handle`.
pub(crate) fn find<T: Object>(handle: *const T::C) -> Result<Arc<T>, Errno> {
    T::table().with(|live| live.get(&handle.addr()).cloned()).ok_or(Errno::invalid(
        "a handle is of no living object of its kind (NULL, destroyed, or foreign)",
    ))
}

/// The object behind `handle`, unless that is NULL.
pub(crate) fn find_unless_null<T: Object>(handle: *const T::C) -> Result<Option<Arc<T>>, Errno> {
    if handle.is_null() { Ok(None) } else { find(handle).map(Some) }
}

/// The handles of `objects` in an array that ends with NULL, for `free`: C frees it by a call of ours
/// that does not know its length.
pub(crate) fn list<T: Object>(objects: &[Arc<T>]) -> Result<*mut *mut T::C, Errno> {
    // SAFETY: zeroed memory for the pointers and the NULL behind them.
    let list = unsafe { libc::calloc(objects.len() + 1, size_of::<*mut T::C>()) };
    let list = list.cast::<*mut T::C>();
    if list.is_null() {
        return Err(Errno::NO_MEMORY);
    }
    for (at, object) in objects.iter().enumerate() {
        // SAFETY: the allocation has room for them.
        unsafe { *list.add(at) = object.c() };
    }
    Ok(list)
}

/// The first answer of `f` among the objects of a kind. It runs under the lock.
pub(crate) fn search<T: Object, R>(f: impl FnMut(&Arc<T>) -> Option<R>) -> Option<R> {
    T::table().with(|live| live.values().find_map(f))
}

/// Forgets `object`: its handle is stale from now on.
pub(crate) fn remove<T: Object>(object: &T) {
    // The last reference is dropped after the lock is released.
    let _removed = T::table().with(|live| live.remove(&object.c().addr()));
}

/// Forgets the object behind `handle`.
pub(crate) fn forget<T: Object>(handle: *const T::C) -> Result<(), Errno> {
    find::<T>(handle).map(|object| remove(&*object))
}

/// Forgets the objects for which `goes` holds, and returns them.
pub(crate) fn remove_all<T: Object>(goes: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
    T::table().with(|live| {
        let objects = core::mem::take(live).into_iter();
        let (gone, left): (BTreeMap<_, _>, _) = objects.partition(|(_, object)| goes(object));
        *live = left;
        gone.into_values().collect()
    })
}

/// Fails if anything but the registry and the caller refers to `object`.
pub(crate) fn check_unused<T: Object>(object: &Arc<T>) -> Result<(), Errno> {
    if Arc::strong_count(object) > 2 {
        Err(Errno::BUSY.because("something still refers to it"))
    } else {
        Ok(())
    }
}

thread_local! {
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Makes every later fork wait for the gate, so that parent and child find it free.
pub(crate) fn guard_forks() {
    extern "C" fn before() {
        // A thread whose local storage is destroyed forks without the lock.
        let _held = HELD.try_with(|held| held.replace(Some(lock(&GATE))));
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

impl<T: Default> Default for Shared<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.get(), f)
    }
}

/// What the marks of a forked child's objects hold.
const INHERITED: u32 = u32::from_be_bytes(*b"fcFK");

/// One word that tells a live object of the data path from a stale or foreign one, in most cases.
#[derive(Debug)]
pub(crate) struct Mark(AtomicU32);

impl Mark {
    pub(crate) const fn new(kind: u32) -> Self {
        Self(AtomicU32::new(kind))
    }

    fn is(&self, kind: u32) -> bool {
        self.0.load(Ordering::Relaxed) == kind
    }

    /// In a forked child: the object is alive, and its engine is the parent's.
    pub(crate) fn inherit(&self) {
        self.0.store(INHERITED, Ordering::Relaxed);
    }

    /// Why it is not what it should be.
    #[cold]
    fn refusal(&self) -> Errno {
        if self.is(INHERITED) {
            return Errno::of_child();
        }
        Errno::invalid("a handle is of no living object of its kind (destroyed, or foreign)")
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
        return Err(Errno::invalid("a handle is NULL or no pointer to an object"));
    }
    // SAFETY: the caller vouches for it, and `Hot` for the position of the C structure.
    let object = unsafe { &*object };
    if object.mark().is(T::KIND) { Ok(object) } else { Err(object.mark().refusal()) }
}
