//! A piece of device memory, which handles and regions share.

use std::sync::Arc;

use softnic::Nic;

/// A piece of the NIC's own memory, given back when neither a handle nor a region is left.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(super) nic: Arc<Nic>,
    pub(super) address: u64,
    pub(super) length: u64,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.nic.give_back_device_memory(self.address, self.length);
    }
}

impl Piece {
    /// Which piece of the pool it is: that has fewer than 2^32 bytes.
    pub(super) fn number(&self) -> u32 {
        self.address as u32
    }

    /// The address of `length` bytes at `offset`, if they are inside.
    pub(super) fn range(&self, offset: u64, length: u64) -> Option<u64> {
        let end = offset.checked_add(length)?;
        (end <= self.length).then(|| self.address + offset)
    }
}
