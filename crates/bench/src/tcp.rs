//! TCP of this machine's kernel over loopback, to hold the processor time of verbs against.
//!
//! ```text
//!   so many connections, each: a thread that writes at its rate ─► kernel ─► a thread that reads
//! ```
//!
//! The kernel's work on loopback is done by whichever thread it interrupts, mostly the one that writes. So what
//! counts is the processor time of the process, both ends together.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use crate::Failure;
use crate::session::process_cpu;

/// What is to be run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Connections {
    /// How many, each with a thread at either end.
    pub count: u32,
    /// Bytes of a write, and of a read at most.
    pub bytes: usize,
    /// What all of them move at most.
    pub gbps: f64,
    /// For how long.
    pub length: Duration,
}

/// What it came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moved {
    /// What was read at the other ends.
    pub gbps: f64,
    /// Processor time of the process, in cores.
    pub cores: f64,
}

impl Connections {
    /// Opens them, and moves bytes.
    ///
    /// # Errors
    /// The kernel refuses, or a connection breaks.
    pub fn run(&self) -> Result<Moved, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("TCP over loopback: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut pairs = Vec::new();
        for _ in 0..self.count {
            let near = TcpStream::connect(address).map_err(failed)?;
            let (far, _) = listener.accept().map_err(failed)?;
            pairs.push((near, far));
        }
        let (begun, before) = (Instant::now(), process_cpu());
        let ends: Vec<std::io::Result<u64>> = thread::scope(|scope| {
            let mut readers = Vec::new();
            for (near, far) in pairs {
                scope.spawn(move || self.write(near, begun));
                readers.push(scope.spawn(move || self.read(far)));
            }
            let lost = || Err(std::io::Error::other("a thread has ended"));
            readers.into_iter().map(|reader| reader.join().unwrap_or_else(|_| lost())).collect()
        });
        let (seconds, after) = (begun.elapsed().as_secs_f64(), process_cpu());
        let mut bytes = 0;
        for end in ends {
            bytes += end.map_err(failed)?;
        }
        let cores = after.since(before).as_ps() as f64 / 1e12 / seconds;
        Ok(Moved { gbps: bytes as f64 * 8.0 / seconds / 1e9, cores })
    }

    /// Writes at its rate until the time is over, and closes.
    fn write(&self, mut stream: TcpStream, begun: Instant) {
        let block = vec![1; self.bytes];
        let each = self.gbps * 1e9 / 8.0 / f64::from(self.count);
        let interval = Duration::from_secs_f64(self.bytes as f64 / each);
        let mut due = begun;
        while begun.elapsed() < self.length {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            due += interval;
            // The reader says that it has broken.
            if stream.write_all(&block).is_err() {
                return;
            }
        }
    }

    /// Reads to the end.
    fn read(&self, mut stream: TcpStream) -> std::io::Result<u64> {
        let mut block = vec![0; self.bytes];
        let mut sum = 0;
        loop {
            match stream.read(&mut block)? {
                0 => return Ok(sum),
                some => sum += some as u64,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_at_their_rate_and_take_processor_time() {
        let length = Duration::from_millis(300);
        let of = Connections { count: 2, bytes: 16 << 10, gbps: 0.5, length };
        let moved = of.run().unwrap();
        // A busy machine may be late, and never early by more than a block of each.
        assert!(moved.gbps > 0.05 && moved.gbps < 0.55, "{moved:?}");
        assert!(moved.cores > 0.0, "{moved:?}");
    }
}
