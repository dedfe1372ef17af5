//! Application memory of simulated hosts. No bytes are kept: a payload is only a length, and the NIC's
//! caches are told which addresses are accessed.

use rdma::{Memory, MemoryFault};

use crate::nic::Contexts;

/// Memory in which every address is mapped, nothing is kept, and a payload is its length.
#[derive(Debug, Default)]
pub(crate) struct Lengths<'a> {
    /// The caches of the NIC that stores, if it has any.
    pub(crate) contexts: Option<&'a mut Contexts>,
    /// Bytes of messages that were stored.
    pub(crate) stored: u32,
}

impl Lengths<'_> {
    fn touch(&mut self, address: u64, length: u64) {
        if let Some(contexts) = &mut self.contexts {
            contexts.memory(address, length);
        }
    }
}

/// The first address of every host's region.
pub(crate) const BASE: u64 = 1 << 32;
/// The length of every host's region.
pub(crate) const LENGTH: u64 = 1 << 40;

impl Memory for Lengths<'_> {
    type Payload<'a> = u32;

    fn keep(payload: u32, _length: usize, mut put: impl FnMut(&[u8])) {
        put(&payload.to_ne_bytes());
    }

    fn recall(kept: &[u8]) -> u32 {
        kept.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn write(
        &mut self,
        address: u64,
        payload: u32,
        offset: usize,
        length: usize,
    ) -> Result<(), MemoryFault> {
        self.touch(address, length as u64);
        self.stored += length as u32;
        debug_assert!(offset + length <= payload as usize, "the engine stays within the payload");
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.touch(address, bytes.len() as u64);
        Ok(())
    }

    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryFault> {
        self.touch(address, bytes.len() as u64);
        bytes.fill(0);
        Ok(())
    }

    fn fetch_update(
        &mut self,
        address: u64,
        update: impl Fn(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        self.touch(address, 8);
        self.stored += 8;
        update(0);
        Ok(0)
    }
}
