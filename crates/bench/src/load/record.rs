//! What is measured of a flow: operations and bytes by window, and latencies.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use hdrhistogram::Histogram;
use rdma::{Span, Time};

use super::{Tally, Task};
use crate::plan::Plan;

/// Significant digits of latencies over the whole time, and in a window.
const DIGITS: u8 = 3;
const WINDOW_DIGITS: u8 = 2;

/// What happened in a window.
#[derive(Clone, Debug)]
pub struct WindowRecord {
    /// Operations that ended in it.
    pub operations: u64,
    /// Bytes of payload that they moved.
    pub bytes: u64,
    /// Their latencies in nanoseconds.
    pub latency: Histogram<u64>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Record {
    begin: Time,
    window: Span,
    end: Time,
    /// All windows, in order.
    pub windows: Vec<WindowRecord>,
    /// Latencies in nanoseconds of all of them.
    pub latency: Histogram<u64>,
    /// Until when it was measured, since the beginning of the measured time.
    pub measured: Span,
    tally: Arc<Tally>,
}

impl WindowRecord {
    fn new() -> Self {
        Self { operations: 0, bytes: 0, latency: histogram(WINDOW_DIGITS) }
    }
}

fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new(digits).expect("the number of digits is one that the library knows")
}

impl Record {
    pub(crate) fn new(task: &Task, begin: Time) -> Self {
        Self {
            begin,
            window: task.window,
            end: begin + task.length,
            windows: vec![WindowRecord::new(); task.windows],
            latency: histogram(DIGITS),
            measured: Span::ZERO,
            tally: Arc::clone(&task.tally),
        }
    }

    /// Of a flow that has not begun.
    pub(crate) fn empty(plan: &Plan) -> Self {
        Self {
            begin: Time::ZERO,
            window: Span::ZERO,
            end: Time::ZERO,
            windows: vec![WindowRecord::new(); plan.windows()],
            latency: histogram(DIGITS),
            measured: Span::ZERO,
            tally: Arc::default(),
        }
    }

    /// `operations` have ended at `now`, and moved `bytes`. One of them took `latency`.
    pub(crate) fn ended(&mut self, now: Time, operations: u64, bytes: u64, latency: Span) {
        self.tally.operations.fetch_add(operations, Ordering::Relaxed);
        self.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
        if now < self.begin || now >= self.end {
            return;
        }
        self.measured = now.since(self.begin);
        let index = self.measured.as_ps() / self.window.as_ps().max(1);
        let Some(window) = self.windows.get_mut(index as usize) else { return };
        window.operations += operations;
        window.bytes += bytes;
        let ns = (latency.as_ps() / 1_000).max(1);
        // They grow as they must: a number of nanoseconds in 64 bits always fits.
        let _ = window.latency.record(ns).and_then(|()| self.latency.record(ns));
    }

    /// Takes in what another thread of the flow has measured.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.windows.iter_mut().zip(&other.windows) {
            ours.operations += theirs.operations;
            ours.bytes += theirs.bytes;
            // Both are of the same digits, and grow as they must.
            let _ = ours.latency.add(&theirs.latency);
        }
        let _ = self.latency.add(&other.latency);
        self.measured = self.measured.max(other.measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Flow, Verb};

    fn task() -> Task {
        Task {
            flow: Flow::new(Verb::Read),
            verify: false,
            warmup: Span::ZERO,
            length: Span::from_ms(40),
            window: Span::from_ms(10),
            windows: 4,
            channel: 0,
            lanes: 1,
            first_lane: 0,
            tally: Arc::default(),
        }
    }

    #[test]
    fn what_ends_is_counted_in_its_window_and_a_latency_is_kept_to_a_thousandth() {
        let begin = Time::from_ns(1_000_000);
        let mut record = Record::new(&task(), begin);
        record.ended(begin - Span::from_us(1), 1, 8, Span::from_us(5));
        record.ended(begin, 1, 8, Span::from_us(5));
        record.ended(begin + Span::from_ms(15), 2, 16, Span::from_ms(70));
        record.ended(begin + Span::from_ms(40), 1, 8, Span::from_us(5));
        let operations: Vec<u64> = record.windows.iter().map(|window| window.operations).collect();
        assert_eq!(operations, [1, 2, 0, 0]);
        assert_eq!((record.latency.min(), record.latency.len()), (5_000, 2));
        let longest = record.latency.max();
        assert!(longest.abs_diff(70_000_000) <= 70_000, "{longest}");
        let mut twice = record.clone();
        twice.add(&record);
        assert_eq!((twice.windows[1].operations, twice.latency.len()), (4, 4));
    }
}
