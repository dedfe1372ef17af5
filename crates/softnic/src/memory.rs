//! Application memory, reached by its address in this process.

use core::ptr;

use rdma::{Memory, MemoryFault};

use crate::fork::Nics;
use crate::guard::{self, Guard};

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

/// The pointer that an application's address is.
fn pointer(address: u64) -> *mut u8 {
    // The address was made from a pointer of this process by the application, so its provenance
    // was exposed then. On a 64-bit machine nothing is cut off.
    ptr::with_exposed_provenance_mut(address as usize)
}

impl Memory for ProcessMemory {
    type Payload<'a> = &'a [u8];

    fn keep(payload: &[u8], length: usize, mut put: impl FnMut(&[u8])) {
        put(payload.get(..length).unwrap_or(payload));
    }

    fn recall(kept: &[u8]) -> &[u8] {
        kept
    }

    fn write(
        &mut self,
        address: u64,
        payload: &[u8],
        offset: usize,
        length: usize,
    ) -> Result<(), MemoryFault> {
        let bytes = offset.checked_add(length).and_then(|end| payload.get(offset..end));
        self.store(address, bytes.ok_or(MemoryFault)?)
    }

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
                memory().write(address(&mut buffer) + start, &payload, 5, length).unwrap();
                let start = start as usize;
                assert_eq!(buffer[start..start + length], payload[5..5 + length]);
                assert!(buffer[..start].iter().chain(&buffer[start + length..]).all(|&b| b == 0));
            }
        }
    }

    #[test]
    fn a_length_beyond_the_payload_is_a_fault() {
        let mut buffer = [0u8; 8];
        assert_eq!(memory().write(address(&mut buffer), &[1, 2], 1, 2), Err(MemoryFault));
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
