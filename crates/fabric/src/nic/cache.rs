//! A small cache of entries that a NIC keeps in its server's memory.
//!
//! ```text
//!   key ─► set = key mod sets ─► ways, the latest used first ─► hit, or the last way gives way
//! ```
//!
//! Set-associative, least recently used within a set: a NIC compares a handful of tags at a time, not
//! two thousand. Keys that follow each other fall into different sets, so a contiguous range as large
//! as the cache fits whole, and what is beyond it shows at once.

/// Tags only: what an entry says is of no interest here.
#[derive(Debug)]
pub(crate) struct Cache {
    /// By set, the latest used first; a key plus one, or 0.
    tags: Box<[u64]>,
    ways: usize,
    pub(crate) lookups: u64,
    pub(crate) misses: u64,
}

impl Cache {
    /// Room for `entries`, in sets of `ways`. Both are at least one, and a last set that is not whole
    /// is left out.
    pub(crate) fn new(entries: u32, ways: u32) -> Self {
        let ways = ways.clamp(1, entries.max(1)) as usize;
        let sets = (entries as usize / ways).max(1);
        Self { tags: vec![0; sets * ways].into_boxed_slice(), ways, lookups: 0, misses: 0 }
    }

    /// Whether the entry of `key` was there; it is now.
    pub(crate) fn touch(&mut self, key: u64) -> bool {
        self.lookups += 1;
        let sets = (self.tags.len() / self.ways) as u64;
        let first = (key % sets) as usize * self.ways;
        let set = &mut self.tags[first..first + self.ways];
        let tag = key.wrapping_add(1);
        let found = set.iter().position(|&other| other == tag);
        let last = set.len() - 1;
        set[..=found.unwrap_or(last)].rotate_right(1);
        set[0] = tag;
        self.misses += u64::from(found.is_none());
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_as_large_as_the_cache_fits_and_one_entry_more_does_not() {
        for (entries, ways) in [(2_048, 8), (2_048, 1), (64, 64)] {
            for (range, fits) in [(u64::from(entries), true), (u64::from(entries) + 1, false)] {
                let mut cache = Cache::new(entries, ways);
                for key in (0..range).chain(0..range) {
                    cache.touch(key);
                }
                assert_eq!(cache.misses == range, fits, "{entries} {ways}: {}", cache.misses);
            }
        }
    }

    #[test]
    fn the_least_recently_used_of_a_set_gives_way() {
        let mut cache = Cache::new(4, 2);
        // 0, 2, 4 and 6 fall into the first of two sets.
        let hits = [0, 2, 0, 4, 0, 2, 4].map(|key| cache.touch(key));
        assert_eq!(hits, [false, false, true, false, true, false, false]);
        assert_eq!((cache.lookups, cache.misses), (7, 5));
    }

    #[test]
    fn a_cache_of_nothing_holds_one_entry() {
        let mut cache = Cache::new(0, 0);
        assert_eq!([3, 3, 4].map(|key| cache.touch(key)), [false, true, false]);
    }
}
