//! Access to application memory that may not be there.
//!
//! ```text
//!   copy, store, ... ──► the routines, in one piece of code ── fault ──► SIGSEGV or SIGBUS
//!        ▲                                                                 │ signals.rs: was it there?
//!        └──────────── FAULTED ◄── the routines' way out ◄──── yes ────────┤
//!                                        whoever handled it before ◄─ no ──┘
//! ```
//!
//! Registering is the application's promise that memory stays mapped. Hardware pins the pages, and
//! goes on when the promise is broken; here the processor would end the program, because a peer may
//! name the address at any time. So every access goes through a few routines of assembly, which
//! touch no stack, and whose place is known: a fault in them is not a crash but an answer.
//!
//! The kernel is not asked beforehand (the mapping may go between the question and the access), nor
//! to copy (`process_vm_readv` costs more than the copy of a packet). That is left for processors
//! that the routines are not written for.
//!
//! **Not covered:** a thread that has blocked SIGSEGV or SIGBUS is ended by the kernel if it faults,
//! whatever the handlers; and a program that puts a handler of its own in the place of ours, and
//! does not hand on what it does not know, is ended by that handler. Ours goes on top again at the
//! next registration: see [`Nic::register`](crate::Nic::register).

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod exports;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod routines;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod routines;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod signals;
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod system;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use system::{self as routines, self as exports};

use rdma::MemoryFault;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use signals::install;

use crate::fork::Nics;

/// What a routine returns.
type Outcome = u64;
const DONE: Outcome = 0;

/// Nothing is to be installed where the kernel does the copying.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn install(_: &mut Nics) {}

/// Sees to it, at every registration, that faults still come to us.
pub(crate) fn renew() {
    install(&mut Nics::lock());
}

fn result(outcome: Outcome) -> Result<(), MemoryFault> {
    if outcome == DONE { Ok(()) } else { Err(MemoryFault) }
}

/// The accesses, as this processor does them best.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard(routines::Routines);

impl Guard {
    pub(crate) fn new() -> Self {
        Self(routines::Routines::detect())
    }

    /// Copies `length` bytes. If one of the two ranges is not accessible, a part may have been
    /// copied.
    ///
    /// # Safety
    /// Each range is memory that may be accessed, or not accessible at all.
    #[inline]
    pub(crate) unsafe fn copy(
        self,
        target: *mut u8,
        source: *const u8,
        length: usize,
    ) -> Result<(), MemoryFault> {
        // SAFETY: the caller's promise.
        result(unsafe { self.0.copy(target, source, length) })
    }

    /// Copies a few bytes, the last of them last, and all of them after what was written before.
    ///
    /// # Safety
    /// As [`Guard::copy`].
    pub(crate) unsafe fn copy_upwards(
        self,
        target: *mut u8,
        source: *const u8,
        length: usize,
    ) -> Result<(), MemoryFault> {
        // SAFETY: the caller's promise.
        result(unsafe { exports::copy_upwards(target, source, length) })
    }

    /// Stores an aligned word at once, after what was written before.
    ///
    /// # Safety
    /// As [`Guard::copy`].
    #[inline]
    pub(crate) unsafe fn store(self, target: *mut u64, word: u64) -> Result<(), MemoryFault> {
        // SAFETY: the caller's promise.
        result(unsafe { exports::store(target, word) })
    }

    /// Replaces an aligned word by `new` if it is `old`, at once. Returns what it was.
    ///
    /// # Safety
    /// As [`Guard::copy`].
    pub(crate) unsafe fn compare_exchange(
        self,
        target: *mut u64,
        old: u64,
        new: u64,
    ) -> Result<u64, MemoryFault> {
        let mut previous = 0;
        // SAFETY: the caller's promise; `previous` is a live place.
        result(unsafe { exports::compare_exchange(target, old, new, &raw mut previous) })?;
        Ok(previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    /// A page, on every machine, or a multiple of one.
    const PAGE: usize = 64 << 10;

    /// Three pages, of which the one in the middle is accessible.
    struct Island(*mut u8);

    impl Island {
        fn new() -> Self {
            // SAFETY: a new mapping, and a part of it.
            unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let start = libc::mmap(ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, flags, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                let middle = start.cast::<u8>().add(PAGE);
                let rights = libc::PROT_READ | libc::PROT_WRITE;
                assert_eq!(libc::mprotect(middle.cast(), PAGE, rights), 0);
                Self(middle)
            }
        }

        fn at(&self, offset: isize) -> *mut u8 {
            self.0.wrapping_offset(offset)
        }
    }

    impl Drop for Island {
        fn drop(&mut self) {
            // SAFETY: the whole of what was mapped, of which nothing is kept.
            unsafe { libc::munmap(self.at(-(PAGE as isize)).cast(), 3 * PAGE) };
        }
    }

    fn guard() -> Guard {
        renew();
        Guard::new()
    }

    fn copy(target: *mut u8, source: *const u8, length: usize) -> Result<(), MemoryFault> {
        // SAFETY: the tests pass their own buffers and mappings, and addresses with nothing there.
        unsafe { guard().copy(target, source, length) }
    }

    #[test]
    fn every_length_is_copied_whole_and_nothing_else() {
        let source: Vec<u8> = (0..9000_u32).map(|at| (at ^ at >> 8) as u8).collect();
        let lengths = (0..400).chain([511, 1024, 2048, 3071, 3072, 4088, 4096, 4097, 8000]);
        for length in lengths {
            for (to, from) in [(0, 0), (1, 0), (22, 8), (31, 63)] {
                let mut target = vec![0xee_u8; 8100];
                let copied = copy(target[to..].as_mut_ptr(), source[from..].as_ptr(), length);
                assert_eq!(copied, Ok(()));
                assert!(target[to..to + length] == source[from..from + length], "{length}");
                assert!(target[..to].iter().chain(&target[to + length..]).all(|&b| b == 0xee));
            }
        }
    }

    #[test]
    fn a_copy_over_the_edge_is_a_fault_at_either_side_and_end() {
        let island = Island::new();
        let mut ours = vec![7_u8; 2 * PAGE];
        for length in (1..130).chain([200, 1000, 3000, 4000]) {
            let length = length as isize;
            let page = PAGE as isize;
            for (offset, fits) in
                [(0, true), (page - length, true), (-1, false), (page - length + 1, false)]
            {
                let outcome = if fits { Ok(()) } else { Err(MemoryFault) };
                let bytes = length as usize;
                assert_eq!(
                    copy(island.at(offset), ours.as_ptr(), bytes),
                    outcome,
                    "{length} bytes to {offset}"
                );
                assert_eq!(
                    copy(ours.as_mut_ptr(), island.at(offset), bytes),
                    outcome,
                    "{length} bytes from {offset}"
                );
            }
        }
    }

    #[test]
    fn words_and_tails_that_are_gone_are_faults() {
        let guard = guard();
        let island = Island::new();
        let word = |offset| island.at(offset).cast::<u64>();
        let end = PAGE as isize;
        // SAFETY: the mapping is nobody else's.
        unsafe {
            assert_eq!(guard.store(word(end - 8), 5), Ok(()));
            assert_eq!(guard.compare_exchange(word(end - 8), 5, 6), Ok(5));
            assert_eq!(guard.compare_exchange(word(end - 8), 5, 7), Ok(6));
            assert_eq!(word(end - 8).read(), 6);
            for gone in [-8, end] {
                assert_eq!(guard.store(word(gone), 5), Err(MemoryFault));
                assert_eq!(guard.compare_exchange(word(gone), 0, 6), Err(MemoryFault));
            }
            assert_eq!(guard.copy_upwards(island.at(end - 3), b"abc".as_ptr(), 3), Ok(()));
            assert_eq!(
                guard.copy_upwards(island.at(end - 2), b"abc".as_ptr(), 3),
                Err(MemoryFault)
            );
            assert_eq!(core::slice::from_raw_parts(island.at(end - 3), 3), b"aab");
        }
    }

    #[test]
    fn addresses_that_cannot_be_are_faults() {
        let guard = guard();
        let mut ours = [0_u8; 64];
        // The last is not canonical on any processor with less than 64 bits of address.
        for address in [0_usize, 8, usize::MAX - 63, 1 << 63, 0x1234 << 48] {
            let there = ptr::with_exposed_provenance_mut::<u8>(address);
            for length in [1, 8, 64] {
                assert_eq!(copy(ours.as_mut_ptr(), there, length), Err(MemoryFault));
                assert_eq!(copy(there, ours.as_ptr(), length), Err(MemoryFault));
            }
            // SAFETY: nothing is there, or it is not an address at all.
            assert_eq!(unsafe { guard.store(there.cast(), 1) }, Err(MemoryFault));
        }
    }

    #[test]
    fn the_kernel_copies_as_well() {
        let island = Island::new();
        let mut ours = [3_u8; 16];
        let end = PAGE as isize;
        let word = |offset| island.at(offset).cast::<u64>();
        let kernel = system::Routines::detect();
        // SAFETY: the mapping is nobody else's.
        unsafe {
            assert_eq!(kernel.copy(island.at(end - 16), ours.as_ptr(), 16), DONE);
            assert_eq!(kernel.copy(ours.as_mut_ptr(), island.at(0), 16), DONE);
            assert_eq!(ours, [0; 16]);
            assert_ne!(kernel.copy(island.at(end - 8), ours.as_ptr(), 16), DONE);
            assert_ne!(kernel.copy(ours.as_mut_ptr(), island.at(-8), 16), DONE);
            assert_eq!(kernel.copy(ours.as_mut_ptr(), island.at(-8), 0), DONE);
            assert_eq!(system::copy_upwards(island.at(1), b"xyz".as_ptr(), 3), DONE);
            assert_ne!(system::copy_upwards(island.at(-1), b"xyz".as_ptr(), 3), DONE);
            assert_eq!(system::store(word(8), 9), DONE);
            assert_ne!(system::store(word(end), 9), DONE);
            let mut previous = 0;
            assert_eq!(system::compare_exchange(word(8), 9, 10, &raw mut previous), DONE);
            assert_eq!((previous, word(8).read()), (9, 10));
            assert_eq!(system::compare_exchange(word(8), 9, 11, &raw mut previous), DONE);
            assert_eq!((previous, word(8).read()), (10, 10));
            assert_ne!(system::compare_exchange(word(end), 0, 1, &raw mut previous), DONE);
        }
    }

    #[test]
    #[ignore = "measures, in a release build and on a quiet machine"]
    fn copies_are_as_fast_as_those_of_the_c_library() {
        const ROUNDS: usize = 200;
        const BYTES: usize = 1 << 21;
        let guard = guard();
        let source = vec![1_u8; BYTES + 2 * PAGE];
        let mut target = vec![2_u8; BYTES + 2 * PAGE];
        // A packet is built behind its headers.
        for (length, to) in
            [8, 64, 256, 1024, 4096, 65536].map(|length| [(length, 0), (length, 22)]).concat()
        {
            // Once over memory that the processor has at hand, once over more than that.
            for span in [length, BYTES] {
                let starts: Vec<usize> = (0..(1 << 18) / length.max(64))
                    .map(|copy| copy * length.next_multiple_of(64) % span)
                    .collect();
                let mut times = [Vec::new(), Vec::new()];
                for _ in 0..ROUNDS {
                    for (which, times) in times.iter_mut().enumerate() {
                        let began = std::time::Instant::now();
                        for &start in &starts {
                            let target = target[start + to..].as_mut_ptr();
                            let source = source[start..].as_ptr();
                            // SAFETY: both buffers go on for two pages after where the last copy starts.
                            unsafe {
                                if which == 0 {
                                    libc::memcpy(target.cast(), source.cast(), length);
                                } else {
                                    guard.copy(target, source, length).unwrap();
                                }
                            }
                        }
                        times.push(began.elapsed().as_nanos());
                    }
                }
                let [theirs, ours] = times.map(|mut times| {
                    times.sort_unstable();
                    times[ROUNDS / 2] as f64 / starts.len() as f64
                });
                let ratio = theirs / ours;
                println!(
                    "{length:6} bytes to +{to:2} in {span:8}: {ours:7.1} ns, ratio {ratio:.2}"
                );
                assert!(length < 4096 || ratio >= 0.95);
            }
        }
    }
}
