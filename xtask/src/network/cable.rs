//! Two interfaces of ours and the thread that carries what is sent between them, through a hop in each direction.
//!
//! ```text
//!   host ──► segment of up to 64 KB ──► cut ──► hop: a packet at a time ──► joined ──► host
//! ```
//!
//! Network cards cut what a kernel sends (TSO, and USO for UDP), and do not interrupt it for each packet, so that it can
//! join what has come (GRO). A [`Kind::Packets`] does as they do, by the offloads of a TUN interface. A [`Kind::Frames`]
//! carries Ethernet, for bridges, and each frame alone: what a frame costs the emulator is then part of what is measured.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::{DeviceBuilder, GROTable, IDEAL_BATCH_SIZE, Layer, SyncDevice, VIRTIO_NET_HDR_LEN};

use super::hop::{Counts, Hop, Line};

/// Reads from one side before the other side is looked at.
const BATCH: usize = 32;
/// The longest that the thread sleeps without looking whether it is to end.
const GLANCE: Duration = Duration::from_millis(50);
/// A host is interrupted no sooner than this after it was last: drivers of 10 to 100 Gb/s set 8 to 50 us (`ethtool -c`,
/// rx-usecs).
const MODERATION: Duration = Duration::from_micros(50);
/// Packets that are joined, at most: kernels know no longer segments of UDP (UDP_MAX_SEGMENTS).
const JOINED: usize = 64;
/// What joined packets take at most.
const JOINED_BYTES: usize = (1 << 16) - 1;
/// Longer than any frame.
const FRAME_MAX: usize = 1 << 14;
/// Longer than any segment, with the header that says how it is to be cut.
const SEGMENT_MAX: usize = 1 << 17;
const ETHERNET_HEADER: usize = 14;

/// The names of the ends while they are made.
pub(crate) const ENDS: [&str; 2] = ["ferroce-a", "ferroce-b"];

/// What goes over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ethernet frames, one by one.
    Frames,
    /// IP packets, cut and joined as by a network card.
    Packets,
}

/// Says why there can be no such path here, if that is so.
pub(super) fn is_possible(kind: Kind) -> Result<()> {
    End::new(kind, ENDS[0]).map(drop)
}

/// The path while it is there.
pub(crate) struct Cable {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Counts>>>,
}

impl Cable {
    /// Makes both ends and begins to carry, the same in both directions.
    pub(crate) fn lay(kind: Kind, line: Line, seed: u64) -> Result<Self> {
        let ends = [End::new(kind, ENDS[0])?, End::new(kind, ENDS[1])?];
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let hops = [Hop::new(line, seed), Hop::new(line, seed.wrapping_add(1))];
        let thread = thread::Builder::new()
            .name("cable".to_owned())
            .spawn(move || carry(ends, hops, &seen))?;
        Ok(Self { ends: is_over, thread: Some(thread) })
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

/// One of its interfaces.
struct End {
    device: SyncDevice,
    /// Bytes on the wire that are not in what is read.
    beside: usize,
    moderation: Duration,
    /// When its host was last interrupted.
    interrupted_at: Duration,
    /// False while it is down, or once its host has gone: it carries nothing.
    is_there: bool,
    joins: GROTable,
    arrived: Vec<Vec<u8>>,
}

impl End {
    fn new(kind: Kind, name: &str) -> Result<Self> {
        let is_cut = kind == Kind::Packets;
        let layer = if is_cut { Layer::L3 } else { Layer::L2 };
        let device = DeviceBuilder::new().name(name).layer(layer).offload(is_cut).build_sync();
        let device = device.with_context(|| format!("cannot make the interface {name}"))?;
        if is_cut && !device.udp_gso() {
            bail!(
                "this kernel lets a TUN interface cut TCP's segments and not those of UDP\n hint: Linux 6.2 or newer"
            );
        }
        device.set_nonblocking(true)?;
        let (beside, moderation) =
            if is_cut { (ETHERNET_HEADER, MODERATION) } else { (0, Duration::ZERO) };
        let (joins, arrived) = (GROTable::new(), Vec::new());
        let interrupted_at = Duration::ZERO;
        Ok(Self { device, beside, moderation, interrupted_at, is_there: true, joins, arrived })
    }

    /// Lets a segment enter a hop, if one is there. Returns whether.
    fn send(&mut self, room: &mut Room, hop: &mut Hop, start: Instant) -> Result<bool> {
        let Room { segment, frames, lengths } = room;
        let read = self.device.recv_multiple(segment, frames, lengths, VIRTIO_NET_HDR_LEN);
        let count = match read {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if is_gone(&error) => {
                self.is_there = false;
                return Ok(false);
            }
            Err(error) => return Err(error).context("cannot read from an interface of the path"),
        };
        self.is_there = true;
        let now = start.elapsed();
        for (frame, length) in frames.iter().zip(&*lengths).take(count) {
            // Others may be joined to it where it arrives.
            let mut packet = Vec::with_capacity(JOINED_BYTES);
            packet.extend_from_slice(&frame[..VIRTIO_NET_HDR_LEN + length]);
            hop.enter(now, packet, length + self.beside);
        }
        Ok(true)
    }

    /// Takes what has arrived from a hop. Returns whether there was anything.
    fn receive(&mut self, hop: &mut Hop, now: Duration) -> Result<bool> {
        if self.due(hop).is_none_or(|due| due > now) {
            return Ok(false);
        }
        self.interrupted_at = now;
        let Self { device, joins, arrived, .. } = self;
        // What was overtaken is not joined to what has overtaken it.
        while hop.next().is_some_and(|due| due <= now) {
            arrived.clear();
            hop.leave_in_order(now, JOINED, arrived);
            match device.send_multiple(joins, arrived, VIRTIO_NET_HDR_LEN) {
                // One that is down, or whose host has gone, takes nothing.
                Err(error) if !is_gone(&error) => {
                    return Err(error).context("cannot write to an interface of the path");
                }
                _ => {}
            }
        }
        Ok(true)
    }

    /// When it takes what arrives next.
    fn due(&self, hop: &Hop) -> Option<Duration> {
        hop.next().map(|arrives| arrives.max(self.interrupted_at + self.moderation))
    }
}

/// Where a segment is read to, and what it is cut into.
struct Room {
    segment: Vec<u8>,
    frames: Vec<Vec<u8>>,
    lengths: Vec<usize>,
}

fn carry(mut ends: [End; 2], mut hops: [Hop; 2], is_over: &AtomicBool) -> Result<Counts> {
    let start = Instant::now();
    let mut room = Room {
        segment: vec![0; SEGMENT_MAX],
        frames: vec![vec![0; FRAME_MAX]; IDEAL_BATCH_SIZE],
        lengths: vec![0; IDEAL_BATCH_SIZE],
    };
    while !is_over.load(Ordering::Relaxed) && ends.iter().any(|end| end.is_there) {
        let mut has_moved = false;
        for (from, hop) in hops.iter_mut().enumerate() {
            for _ in 0..BATCH {
                if !ends[from].send(&mut room, hop, start)? {
                    break;
                }
                has_moved = true;
            }
            has_moved |= ends[1 - from].receive(hop, start.elapsed())?;
        }
        if !has_moved {
            sleep(&ends, &hops, start)?;
        }
    }
    let [there, back] = hops.map(|hop| hop.counts());
    Ok(there.plus(back))
}

/// It is down, or being moved or removed.
fn is_gone(error: &Error) -> bool {
    let number = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(number, Some(rustix::io::Errno::BADFD | rustix::io::Errno::IO))
}

/// Until a frame comes or is due.
fn sleep(ends: &[End; 2], hops: &[Hop; 2], start: Instant) -> Result<()> {
    let [there, back] = hops;
    let due = [ends[1].due(there), ends[0].due(back)].into_iter().flatten().min();
    let pause = due.map_or(GLANCE, |due| due.saturating_sub(start.elapsed()).min(GLANCE));
    let pause = Timespec::try_from(pause)?;
    let mut readable = ends.each_ref().map(|end| PollFd::new(&end.device, PollFlags::IN));
    match poll(&mut readable, Some(&pause)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for frames"),
    }
}
