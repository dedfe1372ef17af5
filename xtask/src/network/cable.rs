//! Two TAP interfaces and the thread that carries frames between them, through a hop in each direction.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::ErrorKind;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use super::hop::{Counts, Hop, Line};

/// Frames that are read from one side before the other side is looked at.
const BATCH: usize = 32;
/// The longest that the thread sleeps without looking whether it is to end.
const GLANCE: Duration = Duration::from_millis(50);
/// Longer than any frame.
const FRAME_MAX: usize = 1 << 16;

/// The names of the ends while they are made.
pub(crate) const ENDS: [&str; 2] = ["ferroce-a", "ferroce-b"];

/// The path while it is there.
pub(crate) struct Cable {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Counts>>>,
}

impl Cable {
    /// Makes both ends and begins to carry frames, the same in both directions.
    pub(crate) fn lay(line: Line, seed: u64) -> Result<Self> {
        let taps = [tap(ENDS[0])?, tap(ENDS[1])?];
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let hops = [Hop::new(line, seed), Hop::new(line, seed.wrapping_add(1))];
        let thread = thread::Builder::new()
            .name("cable".to_owned())
            .spawn(move || carry(&taps, hops, &seen))?;
        Ok(Self { ends, thread: Some(thread) })
    }

    /// Takes the path away, and says what became of the frames of both directions.
    pub(crate) fn take_away(mut self) -> Result<Counts> {
        self.ends.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the cable was taken away before")?;
        thread.join().map_err(|_| anyhow::anyhow!("the cable's thread has panicked"))?
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// An interface without segmentation offloads, so that each frame comes by itself.
fn tap(name: &str) -> Result<SyncDevice> {
    let tap = DeviceBuilder::new().name(name).layer(Layer::L2).offload(false).build_sync();
    let tap = tap.with_context(|| format!("cannot make the TAP interface {name}"))?;
    tap.set_nonblocking(true)?;
    Ok(tap)
}

fn carry(taps: &[SyncDevice; 2], mut hops: [Hop; 2], ends: &AtomicBool) -> Result<Counts> {
    let start = Instant::now();
    let mut frame = vec![0; FRAME_MAX];
    // An end whose host has gone carries nothing any more.
    let mut is_there = [true; 2];
    while !ends.load(Ordering::Relaxed) && is_there != [false; 2] {
        let mut has_moved = false;
        for (from, hop) in hops.iter_mut().enumerate() {
            for _ in 0..BATCH {
                let length = match taps[from].recv(&mut frame) {
                    Ok(length) => length,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // It is down, or being moved or removed.
                    Err(error) if is_gone(&error) => {
                        is_there[from] = false;
                        break;
                    }
                    Err(error) => return Err(error).context("cannot read from a TAP interface"),
                };
                is_there[from] = true;
                hop.enter(start.elapsed(), &frame[..length]);
                has_moved = true;
            }
            while let Some(frame) = hop.leave(start.elapsed()) {
                // An interface that is down, or whose host has gone, takes nothing.
                let _ = taps[1 - from].send(&frame);
                has_moved = true;
            }
        }
        if !has_moved {
            sleep(taps, &hops, start)?;
        }
    }
    let [there, back] = hops.map(|hop| hop.counts());
    Ok(there.plus(back))
}

fn is_gone(error: &std::io::Error) -> bool {
    let number = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(number, Some(rustix::io::Errno::BADFD | rustix::io::Errno::IO))
}

/// Until a frame comes or is due.
fn sleep(taps: &[SyncDevice; 2], hops: &[Hop; 2], start: Instant) -> Result<()> {
    let due = hops.iter().filter_map(Hop::next).min();
    let pause = due.map_or(GLANCE, |due| due.saturating_sub(start.elapsed()).min(GLANCE));
    let pause = Timespec::try_from(pause)?;
    let mut readable = taps.each_ref().map(|tap| PollFd::new(tap, PollFlags::IN));
    match poll(&mut readable, Some(&pause)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for frames"),
    }
}
