//! Application memory of simulated hosts: there is none, only lengths.

use rdma::{Memory, MemoryFault};

/// Memory in which every address is mapped, nothing is kept, and a payload is its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lengths;

/// The first address of every host's region.
pub(crate) const BASE: u64 = 1 << 32;
/// The length of every host's region.
pub(crate) const LENGTH: u64 = 1 << 40;

impl Memory for Lengths {
    type Payload<'a> = u32;

    fn keep(payload: u32, _length: usize, mut put: impl FnMut(&[u8])) {
        put(&payload.to_ne_bytes());
    }

    fn recall(kept: &[u8]) -> u32 {
        kept.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn write(
        &mut self,
        _address: u64,
        payload: u32,
        offset: usize,
        length: usize,
    ) -> Result<(), MemoryFault> {
        debug_assert!(offset + length <= payload as usize, "the engine stays within the payload");
        Ok(())
    }

    fn store(&mut self, _address: u64, _bytes: &[u8]) -> Result<(), MemoryFault> {
        Ok(())
    }

    fn load(&mut self, _address: u64, bytes: &mut [u8]) -> Result<(), MemoryFault> {
        bytes.fill(0);
        Ok(())
    }

    fn fetch_update(
        &mut self,
        _address: u64,
        update: impl Fn(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        update(0);
        Ok(0)
    }
}
