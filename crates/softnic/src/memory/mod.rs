//! Application memory, reached by its address in this process.

pub(crate) mod device;
pub(crate) mod guard;
pub(crate) mod map;

use core::ptr;

use rdma::{Memory, MemoryFault};

use self::guard::Guard;
use self::map::Stretch;
use crate::fork::Nics;

/// The bytes that a store to application memory makes visible last: programs poll on the end of a
/// buffer, and the longest flag that they can poll on by one load is 8 bytes.
const LAST: usize = 8;

/// The memory of this process.
///
/// The engine calls it with addresses inside regions that the application has registered, and
/// registering is the application's promise that they stay mapped until it deregisters them. If it
/// breaks the promise the engine is told, and the request fails ([`guard`](guard/mod.rs)): a peer
/// that names the address cannot end the program.
///
/// It has no public constructor: [`crate::Nic::with`] lends it to code that holds an engine.
#[derive(Debug)]
pub struct ProcessMemory(Guard);

impl ProcessMemory {
    /// # Safety
    /// Its methods may be called only with addresses that some region registered with the engine
    /// covers, or that the application has just passed in (inline data).
    pub(crate) unsafe fn new(nics: &mut Nics) -> Self {
        guard::install(nics);
        Self(Guard::new())
    }
}

/// What arrives in a packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a>(Place<'a>);

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Bytes(&'a [u8]),
    /// In a ring, where the sender may still change them: they go to their place unseen.
    Ring(Stretch<'a>),
}

impl<'a> From<&'a [u8]> for Arrived<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Place::Bytes(bytes))
    }
}

impl<'a> Arrived<'a> {
    /// The bytes of a packet in a ring.
    pub(crate) fn in_ring(stretch: Stretch<'a>) -> Self {
        Self(Place::Ring(stretch))
    }
}

/// The pointer that an application's address is.
fn pointer(address: u64) -> *mut u8 {
    // The address was made from a pointer of this process by the application, so its provenance
    // was exposed then. On a 64-bit machine nothing is cut off.
    ptr::with_exposed_provenance_mut(address as usize)
}

impl ProcessMemory {
    /// Stores what is in a ring, the end of it last.
    fn store_stretch(
        &mut self,
        address: u64,
        stretch: Stretch<'_>,
        length: usize,
    ) -> Result<(), MemoryFault> {
        let before = length - length.min(LAST);
        let mut last = [0; LAST];
        let last = &mut last[..length - before];
        stretch.part(before, last.len()).ok_or(MemoryFault)?.load(self.0, last)?;
        let mut target = pointer(address);
        for (source, length) in stretch.part(0, before).ok_or(MemoryFault)?.pieces() {
            // SAFETY: as in `store`; the source is a piece of a mapping of ours that lives as long as
            // the stretch.
            unsafe { self.0.copy(target, source, length)? };
            target = target.wrapping_add(length);
        }
        self.store(address + before as u64, last)
    }

    /// Copies the bytes at `address` to a ring.
    ///
    /// # Errors
    /// As [`Memory::load`].
    pub(crate) fn load_to(&self, address: u64, stretch: Stretch<'_>) -> Result<(), MemoryFault> {
        let mut source = pointer(address);
        for (target, length) in stretch.pieces() {
            // SAFETY: as in `load`; the target is a piece of a mapping of ours that lives as long as
            // the stretch.
            unsafe { self.0.copy(target, source, length)? };
            source = source.wrapping_add(length);
        }
        Ok(())
    }
}

impl Memory for ProcessMemory {
    type Payload<'a> = Arrived<'a>;

    fn keep(payload: Arrived<'_>, length: usize, mut put: impl FnMut(&[u8])) {
        match payload.0 {
            Place::Bytes(bytes) => put(bytes.get(..length).unwrap_or(bytes)),
            Place::Ring(stretch) => {
                let mut bytes = vec![0; length];
                // A ring that cannot be read is as full of nonsense as any.
                if let Some(stretch) = stretch.part(0, length) {
                    let _ = stretch.load(Guard::new(), &mut bytes);
                }
                put(&bytes);
            }
        }
    }

    fn recall(kept: &[u8]) -> Arrived<'_> {
        kept.into()
    }

    #[inline]
    fn write(
        &mut self,
        address: u64,
        payload: Arrived<'_>,
        offset: usize,
        length: usize,
    ) -> Result<(), MemoryFault> {
        match payload.0 {
            Place::Bytes(bytes) => {
                let bytes = offset.checked_add(length).and_then(|end| bytes.get(offset..end));
                self.store(address, bytes.ok_or(MemoryFault)?)
            }
            Place::Ring(stretch) => {
                let stretch = stretch.part(offset, length).ok_or(MemoryFault)?;
                self.store_stretch(address, stretch, length)
            }
        }
    }

    #[inline]
    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let target = pointer(address);
        let (rest, last) = bytes.split_at(bytes.len().saturating_sub(LAST));
        let end = target.wrapping_add(rest.len());
        let word = <[u8; LAST]>::try_from(last).ok().filter(|_| end.cast::<u64>().is_aligned());
        // SAFETY: the caller has found `address..address + bytes.len()` inside a registered region:
        // memory that the application allows to be written to, if it is there at all. `bytes` is
        // ours and cannot overlap it, except if the application registered our buffers, which it
        // has no address of. Other threads may read the memory at the same time; that is the
        // application's protocol, as it is with hardware.
        unsafe {
            if !rest.is_empty() {
                self.0.copy(target, rest.as_ptr(), rest.len())?;
            }
            match word {
                Some(word) => self.0.store(end.cast(), u64::from_ne_bytes(word)),
                // Byte by byte and upwards, so that the very last byte is the last to change.
                None => self.0.copy_upwards(end, last.as_ptr(), last.len()),
            }
        }
    }

    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryFault> {
        // SAFETY: as in `store`, for reading.
        unsafe { self.0.copy(bytes.as_mut_ptr(), pointer(address), bytes.len()) }
    }

    fn fetch_update(
        &mut self,
        address: u64,
        update: impl Fn(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        let word = pointer(address).cast::<u64>();
        if !word.is_aligned() {
            return Err(MemoryFault);
        }
        let mut old = 0_u64;
        // SAFETY: aligned (just checked) and inside a registered region (see `store`). Every other
        // access that is not atomic is the application's, and a race with it is the application's.
        unsafe {
            self.0.copy((&raw mut old).cast(), word.cast(), size_of::<u64>())?;
            loop {
                match self.0.compare_exchange(word, old, update(old))? {
                    previous if previous == old => return Ok(previous),
                    actual => old = actual,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn memory() -> ProcessMemory {
        // SAFETY: the tests pass addresses of their own buffers.
        unsafe { ProcessMemory::new(&mut Nics::lock()) }
    }

    fn address(bytes: &mut [u8]) -> u64 {
        bytes.as_mut_ptr().expose_provenance() as u64
    }

    #[test]
    fn every_length_and_alignment_is_stored_whole() {
        let payload: Vec<u8> = (1..=40).collect();
        for start in 0..9 {
            for length in 0..=24 {
                let mut buffer = [0u8; 40];
                memory()
                    .write(address(&mut buffer) + start, payload[..].into(), 5, length)
                    .unwrap();
                let start = start as usize;
                assert_eq!(buffer[start..start + length], payload[5..5 + length]);
                assert!(buffer[..start].iter().chain(&buffer[start + length..]).all(|&b| b == 0));
            }
        }
    }

    #[test]
    fn what_is_in_a_ring_is_stored_and_loaded_around_its_end() {
        let file = map::sealed_memory(8192).unwrap();
        let map = map::map_sealed_memory(file.as_fd(), 8192).unwrap();
        let bytes: Vec<u8> = (1..=40).collect();
        for first in 0..=40 {
            let stretch = map.stretch([(8192 - first, first), (4096, 40 - first)]);
            let mut source = bytes.clone();
            memory().load_to(address(&mut source), stretch).unwrap();
            for length in 0..=24 {
                let mut buffer = [0u8; 40];
                let payload = Arrived::in_ring(stretch);
                memory().write(address(&mut buffer) + 3, payload, 5, length).unwrap();
                assert_eq!(buffer[3..3 + length], bytes[5..5 + length]);
                assert!(buffer[..3].iter().chain(&buffer[3 + length..]).all(|&byte| byte == 0));
            }
            let mut kept = Vec::new();
            ProcessMemory::keep(Arrived::in_ring(stretch), 30, |some| kept.extend_from_slice(some));
            assert_eq!(kept, bytes[..30]);
            let over = Arrived::in_ring(stretch);
            let mut buffer = [0u8; 40];
            assert_eq!(memory().write(address(&mut buffer), over, 30, 11), Err(MemoryFault));
            assert_eq!(memory().load_to(0, stretch), Err(MemoryFault));
        }
    }

    #[test]
    fn a_length_beyond_the_payload_is_a_fault() {
        let mut buffer = [0u8; 8];
        assert_eq!(memory().write(address(&mut buffer), [1, 2][..].into(), 1, 2), Err(MemoryFault));
        assert_eq!(buffer, [0; 8]);
    }

    #[test]
    fn what_was_stored_is_loaded() {
        let mut buffer = [0u8; 16];
        memory().store(address(&mut buffer) + 3, b"message").unwrap();
        let mut read = [0; 7];
        memory().load(address(&mut buffer) + 3, &mut read).unwrap();
        assert_eq!(&read, b"message");
    }

    #[test]
    fn an_atomic_returns_the_word_before() {
        let mut word = [40u64];
        let address = word.as_mut_ptr().expose_provenance() as u64;
        assert_eq!(memory().fetch_update(address, |word| word + 2), Ok(40));
        assert_eq!(word, [42]);
        assert_eq!(memory().fetch_update(address + 1, |word| word + 2), Err(MemoryFault));
    }
}
