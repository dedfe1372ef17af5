//! Memory of applications: real bytes, at addresses that the host gives out.
//!
//! ```text
//!   [BASE, ...)   flows: every address is mapped, nothing is kept
//!   [FIRST, ...)  regions of applications, a page apart
//! ```

use rdma::{Memory, MemoryFault};
use transport::{Payload, Segment};

use crate::memory::{BASE, LENGTH};
use crate::nic::Contexts;

/// Where regions begin.
const FIRST: u64 = BASE + LENGTH;
const PAGE: u64 = 4_096;

/// A region.
#[derive(Debug)]
struct Held {
    address: u64,
    bytes: Vec<u8>,
}

/// What a packet has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Change {
    /// The region, as [`Regions::add`] has numbered it.
    pub(super) region: usize,
    /// Of its first byte.
    pub(super) offset: u64,
    /// In bytes.
    pub(super) length: u64,
}

/// The regions of a host, in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Regions {
    held: Vec<Held>,
    /// By what is handled at the moment.
    changes: Vec<Change>,
}

impl Regions {
    /// A region of zeros. Returns its number and its address.
    pub(super) fn add(&mut self, length: u64) -> Option<(usize, u64)> {
        let end = self.held.last().map_or(FIRST, |last| last.address + last.bytes.len() as u64);
        let address = (end + 1).next_multiple_of(PAGE);
        let count = usize::try_from(length).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count).ok()?;
        bytes.resize(count, 0);
        self.held.push(Held { address, bytes });
        Some((self.held.len() - 1, address))
    }

    /// The bytes of a region.
    ///
    /// # Panics
    /// A range beyond its end: a mistake of the application.
    pub(super) fn bytes(&mut self, region: usize, offset: u64, length: u64) -> &mut [u8] {
        let bytes = &mut self.held[region].bytes;
        let all = bytes.len();
        let begin = usize::try_from(offset).ok();
        let end = begin.zip(usize::try_from(length).ok());
        let end = end.and_then(|(begin, length)| begin.checked_add(length));
        begin
            .zip(end)
            .and_then(|(begin, end)| bytes.get_mut(begin..end))
            .unwrap_or_else(|| panic!("{length} bytes at {offset} are not in a region of {all}"))
    }

    /// Of the first byte of a region, and how many it has.
    pub(super) fn place(&self, region: usize) -> (u64, u64) {
        let held = &self.held[region];
        (held.address, held.bytes.len() as u64)
    }

    /// The region and the offset of `length` bytes at `address`; `None` if they are flows'.
    fn find(&self, address: u64, length: u64) -> Result<Option<(usize, u64)>, MemoryFault> {
        if address < FIRST {
            return Ok(None);
        }
        let after = self.held.partition_point(|held| held.address <= address);
        let region = after.checked_sub(1).ok_or(MemoryFault)?;
        let held = &self.held[region];
        let offset = address - held.address;
        let is_inside =
            offset.checked_add(length).is_some_and(|end| end <= held.bytes.len() as u64);
        if is_inside { Ok(Some((region, offset))) } else { Err(MemoryFault) }
    }

    /// Appends the bytes of a payload to `out`; flows' are zeros.
    pub(super) fn gather(&self, payload: Payload<'_>, out: &mut Vec<u8>) {
        for segment in payload.segments() {
            match segment {
                Segment::Bytes(bytes) => out.extend_from_slice(bytes),
                Segment::Memory { address, length } => {
                    let length = length as usize;
                    match self.find(address, length as u64) {
                        Ok(Some((region, offset))) => {
                            let from = offset as usize;
                            out.extend_from_slice(&self.held[region].bytes[from..from + length]);
                        }
                        // Regions stay as long as their host: a fault is flows' memory at most.
                        Ok(None) | Err(MemoryFault) => out.resize(out.len() + length, 0),
                    }
                }
            }
        }
    }

    /// What has been changed since the last call.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.changes)
    }

    /// Gives the list back, to be used again.
    pub(super) fn recycle(&mut self, mut changes: Vec<Change>) {
        changes.clear();
        self.changes = changes;
    }
}

/// The memory of a host as an engine reaches it.
#[derive(Debug)]
pub(crate) struct Bytes<'a> {
    pub(super) regions: &'a mut Regions,
    /// The caches of the NIC, if it has any.
    pub(super) contexts: Option<&'a mut Contexts>,
    /// Bytes of messages that were stored.
    pub(crate) stored: u32,
}

impl Bytes<'_> {
    /// The bytes at an address; none if they are flows'.
    fn at(&mut self, address: u64, length: u64) -> Result<Option<&mut [u8]>, MemoryFault> {
        if let Some(contexts) = &mut self.contexts {
            contexts.memory(address, length);
        }
        let Some((region, offset)) = self.regions.find(address, length)? else { return Ok(None) };
        Ok(Some(self.regions.bytes(region, offset, length)))
    }

    fn changed(&mut self, address: u64, length: u64) -> Result<Option<&mut [u8]>, MemoryFault> {
        if let Some((region, offset)) = self.regions.find(address, length)? {
            self.regions.changes.push(Change { region, offset, length });
        }
        self.at(address, length)
    }
}

impl Memory for Bytes<'_> {
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
        self.stored += length as u32;
        let into = self.changed(address, length as u64)?;
        // What comes from a host without applications is a length.
        if let Some((into, from)) = into.zip(payload.get(offset..offset + length)) {
            into.copy_from_slice(from);
        }
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        if let Some(into) = self.changed(address, bytes.len() as u64)? {
            into.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryFault> {
        match self.at(address, bytes.len() as u64)? {
            Some(from) => bytes.copy_from_slice(from),
            None => bytes.fill(0),
        }
        Ok(())
    }

    fn fetch_update(
        &mut self,
        address: u64,
        update: impl Fn(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        let Some(word) = self.changed(address, 8)? else {
            update(0);
            return Ok(0);
        };
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        let before = u64::from_ne_bytes(bytes);
        word.copy_from_slice(&update(before).to_ne_bytes());
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_holds_what_is_written_and_nothing_beyond() {
        let mut regions = Regions::default();
        let (first, address) = regions.add(10).unwrap();
        let (_, behind) = regions.add(8).unwrap();
        assert!(address.is_multiple_of(PAGE) && behind >= address + 10);
        let mut memory = Bytes { regions: &mut regions, contexts: None, stored: 0 };
        assert_eq!(memory.write(address + 7, &[1, 2, 3, 4], 1, 3), Ok(()));
        assert_eq!(memory.write(address + 8, &[1, 2, 3, 4], 1, 3), Err(MemoryFault));
        assert_eq!(memory.fetch_update(behind, |word| word + 5), Ok(0));
        assert_eq!(memory.fetch_update(behind, |word| word + 5), Ok(5));
        // Flows' memory takes everything, and keeps nothing.
        assert_eq!(
            (memory.write(BASE, &[], 0, 4), memory.fetch_update(BASE, |_| 9)),
            (Ok(()), Ok(0))
        );
        assert_eq!(regions.bytes(first, 6, 4), [0, 2, 3, 4]);
        let change = |region, offset, length| Change { region, offset, length };
        assert_eq!(regions.changes(), [change(0, 7, 3), change(1, 0, 8), change(1, 0, 8)]);
    }

    #[test]
    #[should_panic(expected = "8 bytes at 10 are not in a region of 17")]
    fn a_range_beyond_the_end_is_the_applications_mistake() {
        let mut regions = Regions::default();
        regions.add(17).unwrap();
        regions.bytes(0, 10, 8);
    }
}
