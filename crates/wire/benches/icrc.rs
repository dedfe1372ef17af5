//! How long the ICRC of a packet takes.
//!
//! ```text
//! cargo bench -p ferroce-wire --bench icrc
//! ```
//!
//! Packets lie behind each other, as they do before they are sent, and are taken in turn: they come
//! from the second-level cache, not from the first. The least of several runs is printed, as all that
//! others do on the machine only adds to it.

use core::hint::black_box;
use core::net::Ipv4Addr;
use std::time::Instant;

use wire::icrc::{self, Datagram};

/// What is covered of the longest data packet besides its payload: BTH and RETH.
const HEADERS: usize = 12 + 16;
const PAYLOADS: [usize; 4] = [64, 256, 1024, 4096];
const ARENA_BYTES: usize = 256 << 10;
const RUNS: usize = 20;
const ARENAS_PER_RUN: usize = 50;

fn main() {
    let arena = vec![0x5a_u8; ARENA_BYTES];
    for payload in PAYLOADS {
        let packets = || arena.chunks_exact(HEADERS + payload);
        let count = packets().len() * ARENAS_PER_RUN;
        let run = || {
            let start = Instant::now();
            for packet in (0..ARENAS_PER_RUN).flat_map(|_| packets()) {
                black_box(icrc::compute(&datagram(), black_box(packet))).expect("it has a BTH");
            }
            start.elapsed().as_nanos() as f64 / count as f64
        };
        let least = (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min);
        let gbps = payload as f64 * 8.0 / least;
        println!("{payload} bytes of payload: {least:.1} ns, {gbps:.1} Gb/s");
    }
}

fn datagram() -> Datagram {
    let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last).into());
    Datagram::between(source, destination)
}
