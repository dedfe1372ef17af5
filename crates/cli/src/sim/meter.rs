//! What a run costs of this machine.
//!
//! ```text
//!   Meter::start: the peak of memory is forgotten ─► run ─► Meter::cost: the peak, less what was there
//! ```
//!
//! Memory is that of the process as Linux counts it, not a sum of structures. Instructions are counted by
//! the processor, if the kernel lets a process count its own: in virtual machines and containers it often
//! does not.

use core::fmt::Write as _;
use core::time::Duration;
use std::fs;

use fabric::{Network, Speed};
use perf_event::{Builder, Counter};

/// With fewer packets the memory of each is not printed: pages are 4 KB.
const PACKETS_LEAST: usize = 10_000;

/// See the module.
pub(super) struct Meter {
    /// What was in memory, if the peak counts from here, in kilobytes.
    before: Option<u64>,
    instructions: std::io::Result<Counter>,
}

impl Meter {
    /// Begins to count.
    pub(super) fn start() -> Self {
        // Lets VmHWM begin anew (proc(5)).
        let forgotten = fs::write("/proc/self/clear_refs", "5").is_ok();
        // Later threads are counted as well.
        let mut instructions = Builder::new();
        instructions.inherit(true).enabled(true);
        let instructions = instructions.build();
        Self { before: memory("VmRSS:").filter(|_| forgotten), instructions }
    }

    /// What `network` has cost since the start, given the time that it took.
    pub(super) fn cost(mut self, network: &Network, took: Duration) -> String {
        let peak = memory("VmHWM:");
        let count = self.instructions.as_mut().ok().and_then(|counter| counter.read().ok());
        let mut text = format!("  speed        {}\n", Speed::of(network, took));
        let packets = network.packets_at_most();
        text += &format!("  memory       {packets} packets at most");
        if let Some((peak, before)) = peak.zip(self.before) {
            let grown = peak.saturating_sub(before);
            let _ = write!(text, "; the process grew by {grown} kB");
            if packets >= PACKETS_LEAST {
                let each = grown as f64 * 1_024.0 / packets as f64;
                let _ = write!(text, ": {each:.0} bytes each");
            }
        }
        if let Some(peak) = peak {
            let _ = write!(text, "; {peak} kB in all");
        }
        text += "\n  instructions ";
        text += &match count {
            Some(count) => {
                format!("{:.0} a link-hop", count as f64 / network.link_hops().max(1) as f64)
            }
            None => "not counted: the kernel does not let us (perf_event_open)".to_owned(),
        };
        text + "\n"
    }
}

/// What Linux says of the memory of this process, in kilobytes.
fn memory(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
