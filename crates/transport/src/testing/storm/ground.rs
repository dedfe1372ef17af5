//! Memory that knows what may happen to it.
//!
//! The engine changes memory only through [`Memory`], so every change passes here, and is held
//! against what was offered: a receive, the target of a WRITE or of a READ. An atomic is told from
//! its operands, which are unique, and may be executed once. What does not fit becomes a complaint.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use rdma::{Memory, MemoryFault};

/// Eight bytes of the pattern `seed`, the `index`th.
fn pattern_word(seed: u64, index: u64) -> [u8; 8] {
    let word = (seed ^ index << 40).wrapping_add(index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word ^ word >> 31).to_le_bytes()
}

/// `length` bytes from `offset` on of the pattern `seed`. No two seeds share one.
pub(super) fn pattern(seed: u64, offset: u64, length: usize) -> impl Iterator<Item = u8> {
    (offset..offset + length as u64).map(move |at| pattern_word(seed, at / 8)[(at % 8) as usize])
}

/// Whether `bytes` are those of the pattern from `offset` on.
pub(super) fn is_pattern(seed: u64, offset: u64, bytes: &[u8]) -> bool {
    pattern(seed, offset, bytes.len()).eq(bytes.iter().copied())
}

/// A message's worth of memory that the engine was offered.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Where its pieces are; lengths are not zero.
    pub(super) pieces: Vec<(u64, u32)>,
    /// What must be written, if that is known beforehand.
    pub(super) seed: Option<u64>,
    /// How many bytes have been written. A reliable service writes each once, in order.
    pub(super) written: u64,
    /// Whether order is kept.
    pub(super) in_order: bool,
    /// Whether it may begin anew.
    pub(super) restarts: bool,
    /// Whether it is a word that must be written all at once.
    pub(super) at_once: bool,
}

/// An atomic that was posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atomic {
    pub(super) address: u64,
    /// Compared with; `None` for an addition.
    pub(super) compare: Option<u64>,
    /// Swapped in or added: unique.
    pub(super) operand: u64,
    /// What the word was when it was executed.
    pub(super) original: Option<u64>,
}

/// One node's memory.
#[derive(Debug)]
pub(super) struct Ground {
    bytes: Vec<u8>,
    /// The next address that is not given out.
    next: u64,
    /// Pieces of open targets by their first address: end, target, and offset in it.
    windows: BTreeMap<u64, (u64, u64, u64)>,
    targets: BTreeMap<u64, Target>,
    pub(super) atomics: Vec<Atomic>,
    /// First and last address of what the application has unmapped.
    unmapped: Vec<(u64, u64)>,
    /// How often the engine has changed something.
    pub(super) changes: u64,
    /// What should not have happened.
    pub(super) complaint: Option<String>,
}

impl Ground {
    /// The first address.
    pub(super) const BASE: u64 = 0x7f00_0000_0000;
    /// The word that most atomics are about.
    pub(super) const WORD: u64 = Self::BASE + Self::GUARD;
    /// What lies between two pieces, at least, and at both ends.
    const GUARD: u64 = 64;

    pub(super) fn new(length: usize) -> Self {
        Self {
            bytes: vec![0; length],
            next: Self::WORD + 8 + Self::GUARD,
            windows: BTreeMap::new(),
            targets: BTreeMap::new(),
            atomics: Vec::new(),
            unmapped: Vec::new(),
            changes: 0,
            complaint: None,
        }
    }

    /// Gives out `length` bytes, aligned to words.
    pub(super) fn allocate(&mut self, length: u64) -> Option<u64> {
        let address = self.next;
        let next = (address + length + Self::GUARD).next_multiple_of(8);
        let end = Self::BASE + self.bytes.len() as u64 - Self::GUARD;
        (next <= end).then(|| {
            self.next = next;
            address
        })
    }

    /// Lets the engine write `target`, which others call `id`.
    pub(super) fn open(&mut self, id: u64, target: Target) {
        let mut offset = 0;
        for &(address, length) in &target.pieces {
            self.windows.insert(address, (address + u64::from(length), id, offset));
            offset += u64::from(length);
        }
        self.targets.insert(id, target);
    }

    /// The application gives pieces of memory back to the system.
    pub(super) fn unmap(&mut self, pieces: &[(u64, u32)]) {
        let range = |&(address, length): &(u64, u32)| (address, address + u64::from(length) - 1);
        self.unmapped.extend(pieces.iter().map(range));
    }

    /// From now on the engine must not write it. It is remembered.
    pub(super) fn close(&mut self, id: u64) {
        let Some(target) = self.targets.get(&id) else { return };
        for (address, _) in &target.pieces {
            self.windows.remove(address);
        }
    }

    /// Closes it and forgets it.
    pub(super) fn take(&mut self, id: u64) -> Option<Target> {
        self.close(id);
        self.targets.remove(&id)
    }

    pub(super) fn written(&self, id: u64) -> Option<u64> {
        self.targets.get(&id).map(|target| target.written)
    }

    pub(super) fn target(&self, id: u64) -> Option<&Target> {
        self.targets.get(&id)
    }

    /// The first `length` bytes of `target`.
    pub(super) fn gather(&self, target: &Target, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(address, piece) in &target.pieces {
            bytes.extend_from_slice(self.view(address, piece as usize));
        }
        bytes.truncate(length);
        bytes
    }

    pub(super) fn view(&self, address: u64, length: usize) -> &[u8] {
        let start = (address - Self::BASE) as usize;
        &self.bytes[start..start + length]
    }

    /// The application writes.
    pub(super) fn fill(&mut self, address: u64, bytes: impl Iterator<Item = u8>) {
        let start = (address - Self::BASE) as usize;
        for (to, byte) in self.bytes[start..].iter_mut().zip(bytes) {
            *to = byte;
        }
    }

    fn complain(&mut self, text: String) {
        self.complaint.get_or_insert(text);
    }

    fn range(&self, address: u64, length: usize) -> Result<core::ops::Range<usize>, MemoryFault> {
        let last = address.saturating_add(length as u64).saturating_sub(1);
        if length > 0 && self.unmapped.iter().any(|&(a, b)| address <= b && a <= last) {
            return Err(MemoryFault);
        }
        let start = address.checked_sub(Self::BASE).ok_or(MemoryFault)? as usize;
        let end = start.checked_add(length).filter(|&end| end <= self.bytes.len());
        Ok(start..end.ok_or(MemoryFault)?)
    }

    /// The engine writes.
    fn change(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let range = self.range(address, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.changes += 1;
        let length = bytes.len() as u64;
        let window = self.windows.range(..=address).next_back();
        let window = window
            .map(|(&start, &window)| (start, window))
            .filter(|&(_, (end, ..))| address + length <= end);
        let Some((start, (_, id, first))) = window else {
            self.complain(format!("{length} bytes at {address:#x} changed, which nobody offered"));
            return Ok(());
        };
        let offset = first + (address - start);
        let Some(target) = self.targets.get_mut(&id) else { return Ok(()) };
        let again = target.restarts && offset <= target.written;
        let in_order = !target.in_order || offset == target.written || again;
        let fits = target.seed.is_none_or(|seed| is_pattern(seed, offset, bytes));
        let written = target.written;
        let torn = target.at_once && length != 8;
        target.written = if target.in_order { offset + length } else { written + length };
        self.bytes[range].copy_from_slice(bytes);
        if !in_order {
            self.complain(format!("request {id}: byte {offset} written after {written} bytes"));
        } else if torn {
            self.complain(format!("request {id}: {length} bytes of a word"));
        } else if !fits {
            self.complain(format!("request {id}: wrong data at byte {offset}"));
        }
        Ok(())
    }
}

impl Memory for Ground {
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
        self.change(address, payload.get(offset..offset + length).ok_or(MemoryFault)?)
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.change(address, bytes)
    }

    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryFault> {
        bytes.copy_from_slice(&self.bytes[self.range(address, bytes.len())?]);
        Ok(())
    }

    fn fetch_update(
        &mut self,
        address: u64,
        update: impl Fn(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        let range = self.range(address, 8)?;
        self.changes += 1;
        let word = u64::from_ne_bytes(self.bytes[range.clone()].try_into().expect("8 bytes"));
        let is_meant = |atomic: &Atomic| match atomic.compare {
            Some(compare) => update(compare) == atomic.operand && update(!compare) == !compare,
            None => update(0) == atomic.operand && update(7) == atomic.operand.wrapping_add(7),
        };
        let found = self.atomics.iter_mut().find(|a| a.address == address && is_meant(a));
        match found {
            Some(Atomic { original: original @ None, .. }) => *original = Some(word),
            Some(_) => self.complain(format!("an atomic on {address:#x} was executed twice")),
            None => self.complain(format!("an atomic on {address:#x} that nobody posted")),
        }
        self.bytes[range].copy_from_slice(&update(word).to_ne_bytes());
        Ok(word)
    }
}
