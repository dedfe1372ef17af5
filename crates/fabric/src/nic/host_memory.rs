//! What a NIC keeps in its server's memory, and what it costs to get it from there.
//!
//! ```text
//!   packet ─► queue pair context (QPC) ─► addresses ─► translation (MTT), one for each page ─► DMA
//!                  cached, or one read over PCIe         cached, or one read over PCIe
//! ```
//!
//! guo16, 4.4: a NIC has little memory of its own. Its translation table caches 2K entries, which is
//! 8 MB of pages of 4 KB; a packet for any other page makes the receive pipeline wait for the server's
//! memory. A miss is one read; reads of one packet follow each other, as each level is found through
//! the one before it. Data itself is written and read without waiting for an answer, at the rate of
//! the bus.

use rdma::{Rate, Span};

use super::cache::Cache;
use crate::rate::LineRate;

/// The bus between a NIC and its server's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pcie {
    /// In each direction, headers of transactions included.
    pub rate: Rate,
    /// From asking for a few bytes of memory to having them.
    pub read: Span,
    /// The payload of a transaction.
    pub payload_bytes: u32,
    /// What a transaction adds to its payload.
    pub header_bytes: u32,
}

impl Default for Pcie {
    /// Gen3 x8. The rate is 8 GT/s in 8 lanes, coded 128b/130b. The rest is of Neugebauer et al.,
    /// "Understanding PCIe performance for end host networking", SIGCOMM 2018: a read of 64 bytes
    /// takes about 550 ns on a Xeon of guo16's time, a transaction has 256 bytes at most and 24
    /// around them.
    fn default() -> Self {
        Self {
            rate: Rate::from_mbps(63_015),
            read: Span::from_ns(550),
            payload_bytes: 256,
            header_bytes: 24,
        }
    }
}

/// See the module. The default is the NIC of guo16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostMemory {
    /// Of the regions that applications register: 4 KB, or 2 MB.
    pub page_bytes: u64,
    /// Translations that the NIC holds. (How it covers memory: entries times the size of a page.)
    pub mtt_entries: u32,
    /// Contexts of queue pairs that the NIC holds.
    pub qpc_entries: u32,
    /// Entries that are compared at a time; see the cache in `nic/cache.rs`.
    pub ways: u32,
    /// The bus.
    pub pcie: Pcie,
}

impl Default for HostMemory {
    fn default() -> Self {
        Self {
            page_bytes: 4_096,
            mtt_entries: 2_048,
            qpc_entries: 2_048,
            ways: 8,
            pcie: Pcie::default(),
        }
    }
}

/// How often a NIC looked for what it needs, and had to fetch it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Translations looked for: one for each page of each packet.
    pub mtt_lookups: u64,
    /// Those that were not there.
    pub mtt_misses: u64,
    /// Contexts looked for: one for each packet.
    pub qpc_lookups: u64,
    /// Those that were not there.
    pub qpc_misses: u64,
}

/// The caches of a NIC, and its bus.
#[derive(Debug)]
pub(crate) struct Contexts {
    pub(crate) config: HostMemory,
    page_shift: u32,
    translations: Cache,
    queue_pairs: Cache,
    rate: LineRate,
    /// When the bus is free for what is received, in picoseconds.
    writes_until: u64,
    /// Reads that the packet at hand has waited for.
    reads: u64,
}

impl Contexts {
    pub(crate) fn new(config: HostMemory) -> Self {
        Self {
            config,
            page_shift: config.page_bytes.max(1).ilog2(),
            translations: Cache::new(config.mtt_entries, config.ways),
            queue_pairs: Cache::new(config.qpc_entries, config.ways),
            rate: LineRate::new(config.pcie.rate),
            writes_until: 0,
            reads: 0,
        }
    }

    /// A packet of queue pair `qpn` is looked at.
    pub(crate) fn queue_pair(&mut self, qpn: u32) {
        self.reads += u64::from(!self.queue_pairs.touch(u64::from(qpn)));
    }

    /// A packet stores or fetches `length` bytes at `address`.
    pub(crate) fn memory(&mut self, address: u64, length: u64) {
        if length == 0 {
            return;
        }
        for page in address >> self.page_shift..=(address + length - 1) >> self.page_shift {
            self.reads += u64::from(!self.translations.touch(page));
        }
    }

    /// How long the packet at hand has waited, in picoseconds; the next begins anew.
    pub(crate) fn waited(&mut self) -> u64 {
        core::mem::take(&mut self.reads) * self.config.pcie.read.as_ps()
    }

    /// How long `bytes` of payload take on the bus.
    pub(crate) fn transfer(&self, bytes: u32) -> u64 {
        let pcie = &self.config.pcie;
        let transactions = bytes.div_ceil(pcie.payload_bytes.max(1));
        self.rate.ps(u64::from(bytes) + u64::from(transactions) * u64::from(pcie.header_bytes))
    }

    /// `bytes` of payload are ready to be written at `at`. Returns when the bus takes them: the one
    /// packet whose data are being written holds up the next.
    pub(crate) fn write(&mut self, at: u64, bytes: u32) -> u64 {
        let begins = at.max(self.writes_until);
        self.writes_until = begins + self.transfer(bytes);
        begins
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        CacheCounters {
            mtt_lookups: self.translations.lookups,
            mtt_misses: self.translations.misses,
            qpc_lookups: self.queue_pairs.lookups,
            qpc_misses: self.queue_pairs.misses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thousand_entries_cover_8_megabytes_of_small_pages_and_4_gigabytes_of_large_ones() {
        for (page_bytes, covered) in [(4 << 10, 8u64 << 20), (2 << 20, 4 << 30)] {
            for (range, again) in [(covered, false), (covered + page_bytes, true)] {
                let config = HostMemory { page_bytes, ..HostMemory::default() };
                let mut contexts = Contexts::new(config);
                for _ in 0..2 {
                    for address in (0..range).step_by(page_bytes as usize) {
                        contexts.memory(address, 64);
                    }
                }
                let pages = range / page_bytes;
                assert_eq!(contexts.counters().mtt_misses > pages, again, "{page_bytes} {range}");
            }
        }
    }

    #[test]
    fn a_packet_waits_for_one_read_a_miss() {
        let mut contexts = Contexts::new(HostMemory::default());
        contexts.queue_pair(7);
        contexts.memory(4_000, 1_024);
        assert_eq!(contexts.waited(), 3 * 550_000, "a context and two pages");
        contexts.queue_pair(7);
        contexts.memory(4_000, 1_024);
        contexts.memory(0, 0);
        assert_eq!(contexts.waited(), 0);
    }

    #[test]
    fn gen3_x8_takes_what_40_gigabits_bring() {
        let mut contexts = Contexts::new(HostMemory::default());
        // 1024 bytes and 4 times 24 at 63.015 Gb/s: 142.2 ns, where 1106 bytes take 221.2 to come.
        let transfer = contexts.transfer(1_024);
        assert!((142_100..142_300).contains(&transfer), "{transfer}");
        assert_eq!(contexts.write(1_000, 1_024), 1_000);
        assert_eq!(contexts.write(1_000, 1_024), 1_000 + transfer);
    }
}
