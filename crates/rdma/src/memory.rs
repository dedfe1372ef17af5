//! The third seam: application memory.
//!
//! The engine owns none. It checks keys, bounds and rights, and hands absolute addresses to its driver:
//! raw pointers in the soft NIC, a vector in a test, a pattern checker in a simulation.

/// The address that the engine was about to touch is not there any more: the application unmapped
/// it under a live region. The engine turns it into a protection or access error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryFault;

/// Memory that registered regions lie in.
///
/// Addresses are those given at registration: what an application calls a pointer. The caller has
/// checked key, bounds, protection domain and rights before each call.
pub trait Memory {
    /// What arrives in a packet to be stored: bytes on a wire, a length and a tag in a fast
    /// simulation.
    type Payload<'a>: Copy;

    /// Gives `put` the bytes that [`Memory::recall`] makes the payload from again: those of the
    /// payload itself, or what a simulation has in their place. A packet that arrives before its
    /// turn waits in that form.
    fn keep(payload: Self::Payload<'_>, length: usize, put: impl FnMut(&[u8]));

    /// The payload that [`Memory::keep`] has kept.
    fn recall(kept: &[u8]) -> Self::Payload<'_>;

    /// Stores `length` bytes of `payload`, beginning at its byte `offset`, at `address`.
    ///
    /// The last bytes become visible last, because programs poll on the end of a buffer.
    ///
    /// # Errors
    /// [`MemoryFault`] if the address is not mapped; a part may have been written.
    fn write(
        &mut self,
        address: u64,
        payload: Self::Payload<'_>,
        offset: usize,
        length: usize,
    ) -> Result<(), MemoryFault>;

    /// Stores `bytes` of the engine's own making (a GRH, an atomic's original value) at `address`.
    ///
    /// # Errors
    /// [`MemoryFault`] if the address is not mapped.
    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault>;

    /// Reads the bytes at `address` into `bytes` (inline data, gathered before the post returns).
    ///
    /// # Errors
    /// [`MemoryFault`] if the address is not mapped.
    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryFault>;

    /// Replaces the aligned native-endian 64-bit word at `address` by `update(word)`, atomically
    /// as seen by the processor, and returns the word that was there.
    ///
    /// # Errors
    /// [`MemoryFault`] if the address is not mapped.
    fn fetch_update(
        &mut self,
        address: u64,
        update: impl Fn(u64) -> u64,
    ) -> Result<u64, MemoryFault>;
}
