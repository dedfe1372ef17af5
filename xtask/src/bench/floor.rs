//! What the machine itself costs: two pinned threads that throw a value to and fro.
//!
//! The cache-line marker says how near the two cores are at the moment. A virtual machine may be moved,
//! and figures from rounds with different markers cannot be compared.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::median::median;

const CACHE_LINE_ROUND_TRIPS: u64 = 200_000;
const UDP_ROUND_TRIPS: usize = 20_000;
/// The size of the payload that the programs are measured with.
const UDP_BYTES: usize = 8;
/// How long a datagram is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A cache line to and fro, in nanoseconds.
pub(super) fn cache_line_ns() -> Result<f64> {
    let (ball, back) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let partner = scope.spawn(|| -> Result<()> {
            pin(0)?;
            for turn in 1..=CACHE_LINE_ROUND_TRIPS {
                wait_for(&ball, turn);
                back.store(turn, Ordering::Release);
            }
            Ok(())
        });
        let player = scope.spawn(|| -> Result<f64> {
            pin(1)?;
            let start = Instant::now();
            for turn in 1..=CACHE_LINE_ROUND_TRIPS {
                ball.store(turn, Ordering::Release);
                wait_for(&back, turn);
            }
            Ok(start.elapsed().as_nanos() as f64 / CACHE_LINE_ROUND_TRIPS as f64)
        });
        join(partner)?;
        join(player)
    })
}

fn wait_for(place: &AtomicU64, turn: u64) {
    while place.load(Ordering::Acquire) != turn {
        spin_loop();
    }
}

/// A datagram to and fro between two sockets: the lower bound of everything over UDP. Both poll without
/// sleeping, or both sleep until it is there. The median, in microseconds.
pub(super) fn datagram_us(asleep: bool) -> Result<f64> {
    let (near, far) = (socket(asleep)?, socket(asleep)?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    thread::scope(|scope| {
        let partner = scope.spawn(|| -> Result<()> {
            pin(0)?;
            for _ in 0..UDP_ROUND_TRIPS {
                receive(&far)?;
                far.send(&[0; UDP_BYTES])?;
            }
            Ok(())
        });
        let player = scope.spawn(|| -> Result<f64> {
            pin(1)?;
            let mut times = Vec::with_capacity(UDP_ROUND_TRIPS);
            for _ in 0..UDP_ROUND_TRIPS {
                let start = Instant::now();
                near.send(&[0; UDP_BYTES])?;
                receive(&near)?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            median(&mut times).context("no datagram came back")
        });
        join(partner)?;
        join(player)
    })
}

fn socket(asleep: bool) -> Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0").context("no UDP socket on loopback")?;
    socket.set_nonblocking(!asleep)?;
    // Loopback may lose a datagram, and the other side would wait for ever.
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Waits until a datagram is there, as the socket does: spinning or asleep.
fn receive(socket: &UdpSocket) -> Result<()> {
    let mut buffer = [0; UDP_BYTES];
    let start = Instant::now();
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if start.elapsed() > PATIENCE {
                    bail!("a datagram was lost on loopback");
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot use core {core} alone"))
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().expect("a measuring thread does not panic")
}
