//! Protection domains, and memory that is registered in them.

use core::ffi::c_int;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use std::sync::Arc;

use abi::{ibv_mr, ibv_pd};
use rdma::{Access, Key};

use crate::{Context, Error};

/// A protection domain.
#[derive(Debug)]
pub struct Pd {
    pub(crate) context: Arc<Context>,
    pub(crate) raw: NonNull<ibv_pd>,
}

/// Memory that the device reads and writes.
#[derive(Debug)]
pub struct Region {
    pd: Arc<Pd>,
    raw: NonNull<ibv_mr>,
    /// The device may write it until the region is gone.
    words: Arc<Box<[AtomicU64]>>,
}

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for Pd {}
// SAFETY: the same.
unsafe impl Sync for Pd {}
// SAFETY: the same; the memory is atomic words.
unsafe impl Send for Region {}
// SAFETY: the same.
unsafe impl Sync for Region {}

impl Pd {
    /// Makes one.
    ///
    /// # Errors
    /// The device has none left.
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, Error> {
        // SAFETY: a live context.
        let raw = unsafe { (context.library.calls.ibv_alloc_pd)(context.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_alloc_pd"))?;
        Ok(Arc::new(Self { context: Arc::clone(context), raw }))
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: all that was made in the domain keeps it.
        unsafe { (self.context.library.calls.ibv_dealloc_pd)(self.raw.as_ptr()) };
    }
}

impl Region {
    /// Registers the first `length` bytes of `range`, in words, of `words`.
    ///
    /// # Errors
    /// The device refuses, for example for want of `ulimit -l`.
    ///
    /// # Panics
    /// The range is not within the words, or shorter than `length`.
    pub fn register(
        pd: &Arc<Pd>,
        words: &Arc<Box<[AtomicU64]>>,
        range: Range<usize>,
        length: usize,
        access: Access,
    ) -> Result<Self, Error> {
        let part = &words[range];
        assert!(length <= size_of_val(part), "the words are fewer than the bytes");
        let address = part.as_ptr().cast_mut().cast();
        let calls = &pd.context.library.calls;
        // SAFETY: the range is within words that live as long as the region, and may change at any time.
        let raw =
            unsafe { (calls.ibv_reg_mr)(pd.raw.as_ptr(), address, length, access.bits() as c_int) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_reg_mr"))?;
        Ok(Self { pd: Arc::clone(pd), raw, words: Arc::clone(words) })
    }

    /// What local pieces name.
    pub fn l_key(&self) -> Key {
        // SAFETY: a live region, whose keys do not change.
        Key(unsafe { (*self.raw.as_ptr()).lkey })
    }

    /// What peers name.
    pub fn r_key(&self) -> Key {
        // SAFETY: a live region, whose keys do not change.
        Key(unsafe { (*self.raw.as_ptr()).rkey })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: a live region.
        let result = unsafe { (self.pd.context.library.calls.ibv_dereg_mr)(self.raw.as_ptr()) };
        if result != 0 {
            // The device may still write: the memory must stay for ever.
            core::mem::forget(Arc::clone(&self.words));
        }
    }
}
