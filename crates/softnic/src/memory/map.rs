//! Memory that processes share: a file of a fixed length, mapped by each.
//!
//! **Invariant:** no Rust reference points into it. Words are accessed as atomics, and everything else is
//! copied, because another process may be changing it.

use core::ffi::c_int;
use core::marker::PhantomData;
use core::mem;
use core::ptr;
use core::sync::atomic::AtomicU64;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rdma::MemoryFault;

use crate::memory::guard::Guard;
use crate::sys::check;

/// The seals of a shared memory file: its length is what it is for ever, so that no access to it
/// can be beyond its end.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A file in memory of `length` bytes, which nobody can change the length of.
pub(crate) fn sealed_memory(length: usize) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string; the descriptor that is returned is nobody else's.
    let file = unsafe {
        let fd = check(libc::memfd_create(c"ferroce-ring".as_ptr(), flags))?;
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: neither call takes a pointer.
    unsafe {
        check(libc::ftruncate(file.as_raw_fd(), length as libc::off_t))?;
        check(libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS))?;
    }
    Ok(file)
}

/// Maps what [`sealed_memory`] has made, perhaps in another process.
///
/// # Errors
/// `InvalidData` if it is anything else: another length, or one that could be changed.
pub(crate) fn map_sealed_memory(file: BorrowedFd<'_>, length: usize) -> io::Result<Map> {
    // SAFETY: takes no pointer.
    let seals = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
    // SAFETY: all zeros are a valid stat.
    let mut status: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: a live place for the answer.
    check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) })?;
    if seals != SEALS || status.st_size != length as libc::off_t {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Map::new(file, length)
}

/// A file in memory, shared with whoever else has it open.
#[derive(Debug)]
pub(crate) struct Map {
    start: ptr::NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is memory like any other, and it is only given out as atomics.
unsafe impl Send for Map {}

impl Map {
    /// Maps the first `length` bytes of `file`, which has as many.
    pub(crate) fn new(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = ptr::NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// The word at offset `at`.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        let end = at.checked_add(size_of::<u64>());
        assert!(
            at.is_multiple_of(align_of::<AtomicU64>()) && end.is_some_and(|end| end <= self.length),
            "a word of the mapping"
        );
        // SAFETY: inside the mapping and aligned, as was just checked (a mapping begins at a page);
        // it lives as long as `self`. Other processes use it as an atomic too.
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast().as_ptr()) }
    }

    /// Two pieces of the mapping, offset and length each, as one stretch.
    pub(crate) fn stretch(&self, pieces: [(usize, usize); 2]) -> Stretch<'_> {
        let pieces = pieces.map(|(at, length)| (self.piece(at, length), length));
        Stretch { pieces, map: PhantomData }
    }

    fn piece(&self, at: usize, length: usize) -> *mut u8 {
        let end = at.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.length), "a piece of the mapping");
        self.start.as_ptr().wrapping_add(at)
    }
}

/// A stretch of a [`Map`], in two pieces. Somebody else may be changing it: it is copied from and to,
/// and never referred to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    pieces: [(*mut u8, usize); 2],
    map: PhantomData<&'a Map>,
}

impl Stretch<'_> {
    /// `length` bytes of it from `offset` on; `None` if it has less.
    pub(crate) fn part(self, offset: usize, length: usize) -> Option<Self> {
        let [(first, first_length), (second, second_length)] = self.pieces;
        let end = offset.checked_add(length)?;
        if end > first_length + second_length {
            return None;
        }
        let (from, to) = (offset.min(first_length), end.min(first_length));
        let (from_second, to_second) = (offset - from, end - to);
        let pieces = [
            (first.wrapping_add(from), to - from),
            (second.wrapping_add(from_second), to_second - from_second),
        ];
        Some(Self { pieces, ..self })
    }

    /// Its pieces, where each begins and how long it is.
    pub(crate) fn pieces(self) -> [(*mut u8, usize); 2] {
        self.pieces
    }

    /// Copies it to `bytes`, which are as many.
    pub(crate) fn load(self, guard: Guard, bytes: &mut [u8]) -> Result<(), MemoryFault> {
        let [(first, first_length), (second, second_length)] = self.pieces;
        if first_length + second_length != bytes.len() {
            return Err(MemoryFault);
        }
        let (before, after) = bytes.split_at_mut(first_length);
        // SAFETY: pieces of a mapping that lives as long as this, and memory of ours, of the same
        // lengths.
        unsafe {
            guard.copy(before.as_mut_ptr(), first, first_length)?;
            guard.copy(after.as_mut_ptr(), second, second_length)
        }
    }

    /// Copies `bytes` to it, which are as many.
    pub(crate) fn store(self, guard: Guard, bytes: &[u8]) -> Result<(), MemoryFault> {
        let [(first, first_length), (second, second_length)] = self.pieces;
        if first_length + second_length != bytes.len() {
            return Err(MemoryFault);
        }
        let (before, after) = bytes.split_at(first_length);
        // SAFETY: as in `load`.
        unsafe {
            guard.copy(first, before.as_ptr(), first_length)?;
            guard.copy(second, after.as_ptr(), second_length)
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;
    use std::os::fd::AsFd;

    #[test]
    fn only_memory_of_a_fixed_length_is_mapped() {
        let file = sealed_memory(8192).unwrap();
        // SAFETY: takes no pointer.
        assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), 0) }, -1);
        let map = map_sealed_memory(file.as_fd(), 8192).unwrap();
        let mut read = [0; 5];
        let stretch = map.stretch([(8189, 3), (4096, 2)]);
        stretch.store(Guard::new(), b"where").unwrap();
        stretch.load(Guard::new(), &mut read).unwrap();
        assert_eq!(&read, b"where");
        for (offset, length) in (0..=5).flat_map(|at| (0..=5 - at).map(move |length| (at, length)))
        {
            let mut read = vec![0; length];
            stretch.part(offset, length).unwrap().load(Guard::new(), &mut read).unwrap();
            assert_eq!(read, b"where"[offset..offset + length]);
        }
        assert!(stretch.part(3, 3).is_none() && stretch.part(1, usize::MAX).is_none());
        assert_eq!(stretch.load(Guard::new(), &mut [0; 4]), Err(MemoryFault));
        let refused = |file: BorrowedFd<'_>, length| map_sealed_memory(file, length).is_err();
        assert!(refused(file.as_fd(), 4096) && refused(file.as_fd(), 12288));
        assert!(refused(sys::eventfd().unwrap().as_fd(), 8192));
        // SAFETY: as in `sealed_memory`.
        let unsealed = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            OwnedFd::from_raw_fd(libc::memfd_create(c"unsealed".as_ptr(), flags))
        };
        // SAFETY: takes no pointer.
        assert_eq!(unsafe { libc::ftruncate(unsealed.as_raw_fd(), 8192) }, 0);
        assert!(refused(unsealed.as_fd(), 8192));
    }
}
