//! Captures: ports whose frames are kept, and the taps that keep them.
//!
//! ```text
//!   sender ═══ link ═══► port     a tap at the receiving end sees each frame of its direction
//! ```
//!
//! A tap keeps what a frame was made of, and belongs to one port. `record/pcapng.rs` makes a file of what
//! the taps of a network have kept when it has run; `record/live.rs` streams what they keep while it lives.
//! Packets of programs outside have their own bytes; those of simulated hosts are made of numbers.
//!
//! **Invariant:** a tap holds no more than its room, in frames and in bytes, and counts what it had none for.

use wire::roce;

use crate::address::Tuple;
use crate::limits::{CAPTURE_BYTES_MAX, CAPTURE_FRAMES_MAX};
use crate::packet::{Kind, Packet, Pool};
use crate::tcp::Segment;
use crate::topology::End;

/// Ports whose frames are to be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// The node.
    pub node: End,
    /// The neighbour that the port leads to; `None` for every port of the node.
    pub neighbour: Option<End>,
    /// So many bytes of a frame are written; `None` for all.
    pub snap_bytes: Option<u32>,
    /// A bit for each priority whose frames are kept.
    pub priorities: u8,
}

impl Capture {
    /// Whether it is of the port at `at` that leads to `to`.
    pub(crate) fn covers(&self, at: End, to: End) -> bool {
        self.node == at && self.neighbour.is_none_or(|neighbour| neighbour == to)
    }
}

/// A frame that a tap has seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// When it reached its queue or engine, in picoseconds.
    pub(crate) at: u64,
    pub(crate) headers: Headers,
    pub(crate) packet: Packet,
    /// Whether the link lost it.
    pub(crate) lost: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Headers {
    Roce(roce::Repr, Tuple),
    Tcp(Segment, Tuple),
    /// The packet of a program from its IP header on, as it was on this link; perhaps only its beginning.
    Whole(Box<[u8]>, Tuple),
    Pause,
}

/// What came to one port.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    /// The capture that takes from it while the network lives; `None` for the file at the end.
    pub(crate) live: Option<u32>,
    pub(crate) seen: Vec<Seen>,
    /// Bytes of programs in `seen`.
    bytes: usize,
    room: Room,
    /// Frames that there was no room for.
    pub(crate) missed: u64,
}

/// What a tap may keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// Frames.
    pub(crate) frames: usize,
    /// Bytes of all packets of programs.
    pub(crate) bytes: usize,
    /// Bytes of each of them.
    pub(crate) snap_bytes: usize,
}

impl Room {
    /// The room of each of `taps` taps that keep until the end.
    pub(crate) fn of(taps: usize, snap_bytes: usize) -> Self {
        let taps = taps.max(1);
        Self { frames: CAPTURE_FRAMES_MAX / taps, bytes: CAPTURE_BYTES_MAX / taps, snap_bytes }
    }
}

impl Tap {
    /// One that keeps what there is `room` for.
    pub(crate) fn new(live: Option<u32>, room: Room) -> Self {
        Self { live, seen: Vec::new(), bytes: 0, room, missed: 0 }
    }

    /// A frame has come to the port, or was lost on the way there.
    pub(crate) fn see(
        &mut self,
        at: u64,
        pool: &Pool,
        index: u32,
        tuple: Option<Tuple>,
        lost: bool,
    ) {
        let packet = *pool.get(index);
        let whole = if packet.is_whole() { pool.sent_bytes(index) } else { &[] };
        let kept = whole.len().min(self.room.snap_bytes);
        if self.seen.len() >= self.room.frames || self.bytes + kept > self.room.bytes {
            self.missed += 1;
            return;
        }
        self.bytes += kept;
        let headers = match (packet.kind, tuple) {
            (Kind::Extended, Some(tuple)) if packet.is_whole() => {
                Headers::Whole(pool.whole_beginning(index, kept), tuple)
            }
            (Kind::Roce | Kind::Extended, Some(tuple)) => Headers::Roce(pool.header(index), tuple),
            (Kind::Tcp, Some(tuple)) => Headers::Tcp(pool.tcp(index).0, tuple),
            _ => Headers::Pause,
        };
        self.seen.push(Seen { at, headers, packet, lost });
    }

    /// Takes what it has kept, and how many frames it missed meanwhile.
    pub(crate) fn take(&mut self) -> (Vec<Seen>, u64) {
        self.bytes = 0;
        (core::mem::take(&mut self.seen), core::mem::take(&mut self.missed))
    }
}
