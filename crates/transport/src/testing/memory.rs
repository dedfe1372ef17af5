//! Application memory in a vector.

use std::vec;
use std::vec::Vec;

use rdma::{Memory, MemoryFault};

/// Bytes at addresses from [`TestMemory::BASE`] on; everything else is not mapped.
#[derive(Clone, Debug)]
pub struct TestMemory {
    bytes: Vec<u8>,
}

impl TestMemory {
    /// The first address.
    pub const BASE: u64 = 0x10_0000;

    /// `length` zero bytes.
    pub fn new(length: usize) -> Self {
        Self { bytes: vec![0; length] }
    }

    /// The bytes at `address`.
    ///
    /// # Panics
    /// If they are not mapped: a mistake of the test.
    pub fn at(&mut self, address: u64, length: usize) -> &mut [u8] {
        self.range(address, length).expect("the test names mapped memory")
    }

    fn range(&mut self, address: u64, length: usize) -> Result<&mut [u8], MemoryFault> {
        let start = address.checked_sub(Self::BASE).and_then(|start| usize::try_from(start).ok());
        let start = start.ok_or(MemoryFault)?;
        let end = start.checked_add(length).ok_or(MemoryFault)?;
        self.bytes.get_mut(start..end).ok_or(MemoryFault)
    }
}

impl Memory for TestMemory {
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
        let source = payload.get(offset..offset + length).ok_or(MemoryFault)?;
        self.range(address, length)?.copy_from_slice(source);
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.range(address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryFault> {
        bytes.copy_from_slice(self.range(address, bytes.len())?);
        Ok(())
    }

    fn fetch_update(
        &mut self,
        address: u64,
        update: impl Fn(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        let word = self.range(address, 8)?;
        let original = u64::from_ne_bytes(word.try_into().map_err(|_| MemoryFault)?);
        word.copy_from_slice(&update(original).to_ne_bytes());
        Ok(original)
    }
}
