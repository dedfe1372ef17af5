//! Memory of an application that a NIC of this process reads and writes at any time.
//!
//! It is made of atomic words, so that application and NIC may look at it at the same time.
//! The first byte is at the beginning of a page, as programs have it that ask for pages.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::Arc;

use crate::Failure;
use crate::limits::REGION_BYTES_MAX;

const WORD: usize = 8;
const PAGE: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Memory {
    words: Arc<Box<[AtomicU64]>>,
    /// The first word that counts.
    first: usize,
    length: usize,
}

impl Memory {
    /// Zeros.
    pub(super) fn new(length: u64) -> Result<Self, Failure> {
        let wanted = usize::try_from(length).ok().filter(|_| length <= REGION_BYTES_MAX);
        let length = wanted.ok_or_else(|| {
            Failure::new(format!("a region of {length} bytes is too long"))
                .hint(format!("a region may have {REGION_BYTES_MAX} bytes"))
        })?;
        let count = length.div_ceil(WORD) + PAGE / WORD;
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| {
            Failure::new(format!("there is no memory for a region of {length} bytes"))
        })?;
        words.resize_with(count, || AtomicU64::new(0));
        let words = Arc::new(words.into_boxed_slice());
        let first = words.as_ptr().align_offset(PAGE).min(PAGE / WORD);
        Ok(Self { words, first, length })
    }

    /// Of the first byte, for the NIC.
    pub(super) fn address(&self) -> u64 {
        self.words[self.first..].as_ptr().expose_provenance() as u64
    }

    /// The words, and which of them are its own: for a device that keeps them as long as it may write.
    pub(super) fn words(&self) -> (&Arc<Box<[AtomicU64]>>, Range<usize>) {
        (&self.words, self.first..self.first + self.length.div_ceil(WORD))
    }

    pub(super) fn length(&self) -> u64 {
        self.length as u64
    }

    /// The words of a range, and where in the first it begins.
    fn range(&self, offset: u64, length: usize) -> (&[AtomicU64], usize) {
        let start = usize::try_from(offset).ok().filter(|start| *start <= self.length);
        let start = start.filter(|start| length <= self.length - start);
        let start = start.unwrap_or_else(|| {
            panic!("{length} bytes at {offset} are not in a region of {}", self.length)
        });
        let words = &self.words[self.first + start / WORD..];
        (&words[..(start % WORD + length).div_ceil(WORD)], start % WORD)
    }

    /// The word at `offset`, and with it all that the NIC wrote before.
    pub(super) fn word(&self, offset: u64) -> u64 {
        let (words, within) = self.range(offset, WORD);
        assert_eq!(within, 0, "words lie at multiples of eight");
        words[0].load(Ordering::Acquire)
    }

    pub(super) fn load(&self, offset: u64, bytes: &mut [u8]) {
        let (words, mut within) = self.range(offset, bytes.len());
        let mut rest = bytes;
        for word in words {
            let value = word.load(Ordering::Relaxed).to_ne_bytes();
            let count = rest.len().min(WORD - within);
            rest[..count].copy_from_slice(&value[within..within + count]);
            rest = &mut rest[count..];
            within = 0;
        }
        fence(Ordering::Acquire);
    }

    pub(super) fn store(&self, offset: u64, bytes: &[u8]) {
        let (words, mut within) = self.range(offset, bytes.len());
        let mut rest = bytes;
        for word in words {
            let count = rest.len().min(WORD - within);
            if count == WORD {
                let mut value = [0; WORD];
                value.copy_from_slice(&rest[..WORD]);
                word.store(u64::from_ne_bytes(value), Ordering::Release);
            } else {
                // The NIC may write the bytes beside.
                let change = |value: u64| {
                    let mut value = value.to_ne_bytes();
                    value[within..within + count].copy_from_slice(&rest[..count]);
                    Some(u64::from_ne_bytes(value))
                };
                let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, change);
            }
            rest = &rest[count..];
            within = 0;
        }
    }

    /// Reads every word of a range.
    pub(super) fn touch(&self, offset: u64, length: u64) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (words, _) = self.range(offset, length);
        let all = words.iter().fold(0_u64, |sum, word| sum ^ word.load(Ordering::Relaxed));
        core::hint::black_box(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_loaded_at_every_place_and_length() {
        let bytes: Vec<u8> = (1..=40).collect();
        for offset in 0..9 {
            for length in 0..=24 {
                let memory = Memory::new(40).unwrap();
                memory.store(offset, &bytes[..length]);
                let mut all = [0; 40];
                memory.load(0, &mut all);
                let mut expected = [0; 40];
                expected[offset as usize..][..length].copy_from_slice(&bytes[..length]);
                assert_eq!(all, expected);
                let mut part = vec![0; length];
                memory.load(offset, &mut part);
                assert_eq!(part, bytes[..length]);
            }
        }
    }

    #[test]
    fn it_begins_with_a_page_and_a_word_is_a_word() {
        let memory = Memory::new(17).unwrap();
        assert_eq!((memory.address() % 4096, memory.length()), (0, 17));
        memory.store(8, &7_u64.to_ne_bytes());
        assert_eq!((memory.word(0), memory.word(8)), (0, 7));
    }

    #[test]
    #[should_panic(expected = "8 bytes at 10 are not in a region of 17")]
    fn a_range_beyond_the_end_is_the_applications_mistake() {
        Memory::new(17).unwrap().load(10, &mut [0; 8]);
    }

    #[test]
    fn no_region_is_longer_than_the_bound() {
        assert!(Memory::new(REGION_BYTES_MAX + 1).is_err());
    }
}
