//! Memory of the device itself (`ibv_alloc_dm`): a bounded pool that belongs to one NIC.
//!
//! Regions are registered over it as over application memory, and reached through the same table
//! and the same checks. But a program has no pointer to it, and copies to and from it by calls.
//!
//! **Invariants:** the pool stays where it is for as long as the NIC lives, whatever is given back,
//! so that a region that outlives its allocation reaches nothing else. Free ranges do not touch.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::alloc::{alloc_zeroed, dealloc};
use std::collections::BTreeMap;

use crate::limits::{DEVICE_MEMORY_ALIGN_MAX, DEVICE_MEMORY_BYTES};

/// What is given out begins and ends at multiples of this: a word of an atomic has a place in it.
const GRAIN: u64 = 64;

/// The pool. Its pages are taken from the system when they are first touched.
#[derive(Debug)]
struct Pool(NonNull<u8>);

// SAFETY: the memory is reached through the engine alone, under its lock.
unsafe impl Send for Pool {}

impl Pool {
    const LAYOUT: Layout = match Layout::from_size_align(
        DEVICE_MEMORY_BYTES as usize,
        DEVICE_MEMORY_ALIGN_MAX as usize,
    ) {
        Ok(layout) => layout,
        Err(_) => panic!("a pool of whole pages"),
    };

    fn new() -> Option<Self> {
        // SAFETY: the layout has a size.
        NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) }).map(Self)
    }

    fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, with this layout.
        unsafe { dealloc(self.0.as_ptr(), Self::LAYOUT) };
    }
}

/// The pool and what of it is free.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    /// Made when it is first asked for.
    pool: Option<Pool>,
    /// Lengths of free ranges by their offsets.
    free: BTreeMap<u64, u64>,
}

impl Default for DeviceMemory {
    fn default() -> Self {
        Self { pool: None, free: BTreeMap::from([(0, DEVICE_MEMORY_BYTES)]) }
    }
}

impl DeviceMemory {
    /// Takes `length` zeroed bytes whose address is a multiple of `align`, a power of two. `None`
    /// if there are no more, or not in one piece.
    pub(crate) fn take(&mut self, length: u64, align: u64) -> Option<u64> {
        if length == 0 || align > DEVICE_MEMORY_ALIGN_MAX {
            return None;
        }
        let room = length.checked_next_multiple_of(GRAIN)?;
        let align = align.max(GRAIN);
        let (start, free, at) = self.free.iter().find_map(|(&start, &free)| {
            let at = start.next_multiple_of(align);
            (at + room <= start + free).then_some((start, free, at))
        })?;
        if self.pool.is_none() {
            self.pool = Some(Pool::new()?);
        }
        let pool = self.pool.as_ref()?;
        self.free.remove(&start);
        for (offset, end) in [(start, at), (at + room, start + free)] {
            if offset < end {
                self.free.insert(offset, end - offset);
            }
        }
        // SAFETY: inside the pool, and nobody else's.
        unsafe { pool.0.as_ptr().add(at as usize).write_bytes(0, room as usize) };
        Some(pool.address() + at)
    }

    /// Gives back what [`DeviceMemory::take`] gave.
    pub(crate) fn give_back(&mut self, address: u64, length: u64) {
        let Some(pool) = &self.pool else { return };
        let offset = address.checked_sub(pool.address());
        debug_assert!(offset.is_some_and(|offset| offset + length <= DEVICE_MEMORY_BYTES));
        let Some(mut start) = offset else { return };
        let mut end = start + length.next_multiple_of(GRAIN);
        if let Some((&before, &free)) = self.free.range(..start).next_back()
            && before + free == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(free) = self.free.remove(&end) {
            end += free;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_can_be_taken_and_no_more() {
        let mut memory = DeviceMemory::default();
        let all = memory.take(DEVICE_MEMORY_BYTES, 1).unwrap();
        assert_eq!(memory.take(1, 1), None);
        memory.give_back(all, DEVICE_MEMORY_BYTES);
        assert_eq!(memory.take(DEVICE_MEMORY_BYTES + 1, 1), None);
        assert_eq!(memory.take(0, 1), None);
        assert_eq!(memory.take(4, 2 * DEVICE_MEMORY_ALIGN_MAX), None);
        assert!(memory.take(DEVICE_MEMORY_BYTES, DEVICE_MEMORY_ALIGN_MAX).is_some());
    }

    #[test]
    fn what_is_taken_is_aligned_and_apart() {
        let mut memory = DeviceMemory::default();
        let taken: Vec<(u64, u64)> = (0..=12)
            .flat_map(|shift| [(3, 1 << shift), (100, 1 << shift)])
            .map(|(length, align)| {
                let address = memory.take(length, align).unwrap();
                assert_eq!(address % align, 0);
                (address, length)
            })
            .collect();
        for (index, (address, length)) in taken.iter().enumerate() {
            let apart =
                |(other, room): &(u64, u64)| address + length <= *other || other + room <= *address;
            assert!(taken[..index].iter().all(apart));
        }
    }

    #[test]
    fn pieces_given_back_in_any_order_become_one_again() {
        let mut memory = DeviceMemory::default();
        let mut taken: Vec<u64> = (0..8).map(|_| memory.take(1000, 1).unwrap()).collect();
        for index in [3, 0, 4, 2, 0, 1, 1, 0] {
            memory.give_back(taken.remove(index), 1000);
        }
        assert_eq!(memory.free, BTreeMap::from([(0, DEVICE_MEMORY_BYTES)]));
    }

    #[test]
    fn what_is_taken_again_is_empty() {
        let mut memory = DeviceMemory::default();
        let address = memory.take(64, 1).unwrap();
        let byte = core::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: inside the pool.
        unsafe { byte.write(7) };
        memory.give_back(address, 64);
        assert_eq!(memory.take(64, 1), Some(address));
        // SAFETY: as above.
        assert_eq!(unsafe { byte.read() }, 0);
    }
}
