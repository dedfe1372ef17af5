//! The bus between a NIC and its host's memory: reads have a latency and share a rate, writes are posted.
//!
//! ```text
//!   read    asked ─► in turn ──► bytes / rate ──► latency ──► there
//!   write   given ─► in turn ──► bytes / rate ──► latency ──► seen
//! ```
//!
//! Latencies overlap: what is asked for behind a read waits for its bytes, not for its latency. The two
//! directions do not disturb each other.

use crate::rate::LineRate;

use super::StageConfig;

/// See the module. Times are in picoseconds.
#[derive(Debug)]
pub(crate) struct Bus {
    rate: LineRate,
    read: u64,
    write: u64,
    reads_until: u64,
    writes_until: u64,
}

impl Bus {
    pub(crate) fn new(config: &StageConfig) -> Self {
        Self {
            rate: LineRate::new(config.bus),
            read: config.dma_read.as_ps(),
            write: config.dma_write.as_ps(),
            reads_until: 0,
            writes_until: 0,
        }
    }

    /// Reads `bytes`, asked for at `at`. Returns when they are there.
    pub(crate) fn read(&mut self, at: u64, bytes: u64) -> u64 {
        self.reads_until = at.max(self.reads_until) + self.rate.ps(bytes);
        self.reads_until + self.read
    }

    /// Writes `bytes` at `at`. Returns when a processor sees them.
    pub(crate) fn write(&mut self, at: u64, bytes: u64) -> u64 {
        self.writes_until = at.max(self.writes_until) + self.rate.ps(bytes);
        self.writes_until + self.write
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use rdma::{Rate, Span};

    use super::*;

    /// 48 Gb/s, 550 ns to read, 300 ns to write.
    fn bus() -> Bus {
        Bus::new(&StageConfig {
            bus: Rate::from_gbps(48),
            dma_read: Span::from_ns(550),
            dma_write: Span::from_ns(300),
            ..StageConfig::default()
        })
    }

    #[test]
    fn a_read_takes_its_latency_and_its_bytes() {
        // 3000 bytes at 6 bytes a nanosecond.
        assert_eq!(bus().read(1_000, 3_000), 1_000 + 500_000 + 550_000);
        assert_eq!(bus().write(1_000, 3_000), 1_000 + 500_000 + 300_000);
    }

    #[test]
    fn reads_asked_for_at_once_take_the_rate_and_one_latency() {
        let mut bus = bus();
        let last = (0..1_000).map(|_| bus.read(0, 2_048)).last();
        assert_eq!(last, Some(1_000 * LineRate::new(Rate::from_gbps(48)).ps(2_048) + 550_000));
    }

    #[test]
    fn writes_do_not_delay_reads() {
        let mut bus = bus();
        bus.write(0, 1 << 20);
        assert_eq!(bus.read(0, 6), 1_000 + 550_000);
    }

    /// Little's law: with N reads outstanding, each of b bytes, a read comes every
    /// max(b / C, (latency + b / C) / N).
    #[test]
    fn reads_outstanding_over_their_time_are_the_rate_until_the_bus_is_full() {
        for (outstanding, bytes) in [(1, 64), (4, 64), (16, 64), (64, 64), (2, 4_096), (16, 4_096)]
        {
            let mut bus = bus();
            let mut under_way: VecDeque<u64> =
                (0..outstanding).map(|_| bus.read(0, bytes)).collect();
            let mut last = 0;
            let rounds = 10_000;
            for _ in 0..rounds {
                last = under_way.pop_front().unwrap();
                under_way.push_back(bus.read(last, bytes));
            }
            let service = bytes as f64 / 6.0;
            let expected = service.max((550.0 + service) / f64::from(outstanding));
            let each = last as f64 / 1_000.0 / f64::from(rounds);
            assert!(
                (each / expected - 1.0).abs() < 0.01,
                "{outstanding} {bytes}: {each} {expected}"
            );
        }
    }
}
