//! Memory of a stream that is registered with its device.
//!
//! The peer may write into some of it at any time, so it is only ever copied from and to, and no
//! reference to its bytes is made.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use std::alloc::{alloc_zeroed, dealloc};
use std::sync::Arc;

use rdma::{Access, Key, Sge};
use transport::{PdId, RegionSpec};

use super::receiving::Stretches;
use crate::context::Context;
use crate::errno::Errno;

/// The longest.
pub(super) const BYTES_MAX: usize = 1 << 30;
/// Entries in it are aligned.
const ALIGN: usize = 64;

/// Memory with a key.
#[derive(Debug)]
pub(super) struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
    context: Arc<Context>,
    pub(super) key: Key,
}

// SAFETY: the memory is ours alone, and is reached by copies under the lock of its socket.
unsafe impl Send for Buffer {}

impl Buffer {
    /// `length` zeros, at least one, which the device may reach as `access` says.
    pub(super) fn new(
        context: &Arc<Context>,
        pd: PdId,
        length: usize,
        access: Access,
    ) -> Result<Self, Errno> {
        if length > BYTES_MAX {
            return Err(Errno::NO_MEMORY.because("an rsocket's buffer is longer than 1 GiB"));
        }
        let layout = Layout::from_size_align(length.max(1), ALIGN).map_err(|_| Errno::NO_MEMORY)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NO_MEMORY)?;
        let address = start.as_ptr().expose_provenance() as u64;
        let spec = RegionSpec { address, length: layout.size() as u64, iova: address, access };
        match context.nic.register(pd, spec) {
            Ok(key) => Ok(Self { start, layout, context: Arc::clone(context), key }),
            Err(error) => {
                // SAFETY: allocated above with this layout, and nobody knows it.
                unsafe { dealloc(start.as_ptr(), layout) };
                Err(error.into())
            }
        }
    }

    /// Its address, as requests name it.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Whether the stretch lies within.
    fn holds(&self, at: usize, length: usize) -> bool {
        at.checked_add(length).is_some_and(|end| end <= self.layout.size())
    }

    /// Copies `length` bytes from the program to `at`.
    ///
    /// # Safety
    /// They are readable.
    pub(super) unsafe fn put(&self, at: usize, from: *const u8, length: usize) {
        assert!(self.holds(at, length), "a stretch lies within its buffer");
        // SAFETY: within the allocation; the program's memory is another.
        unsafe { ptr::copy_nonoverlapping(from, self.start.as_ptr().add(at), length) };
    }

    /// Copies `length` bytes from `at` to the program.
    ///
    /// # Safety
    /// There is as much room.
    pub(super) unsafe fn get(&self, at: usize, to: *mut u8, length: usize) {
        assert!(self.holds(at, length), "a stretch lies within its buffer");
        // SAFETY: as above. A peer that writes where it was not allowed to harms its own bytes.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr().add(at), to, length) };
    }

    /// `N` bytes from `at` on.
    pub(super) fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: an array of as many.
        unsafe { self.get(at, bytes.as_mut_ptr(), N) };
        bytes
    }

    /// Zeros from `at` on.
    pub(super) fn clear<const N: usize>(&self, at: usize) {
        let zeros = [0; N];
        // SAFETY: an array of as many.
        unsafe { self.put(at, zeros.as_ptr(), N) };
    }

    /// Stretches of it as pieces of a request. The second may be empty.
    pub(super) fn pieces(&self, stretches: Stretches) -> [Sge; 2] {
        stretches.map(|(at, length)| Sge {
            address: self.address() + at as u64,
            length: length as u32,
            l_key: self.key,
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let key = self.key;
        let gone = self.context.nic.with(|endpoint, _, _| endpoint.deregister(key));
        if gone.is_ok() {
            // SAFETY: allocated with this layout; the device reaches it no longer.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}
