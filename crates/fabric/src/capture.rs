//! Captures: ports whose frames are kept, and the taps that keep them.
//!
//! ```text
//!   sender ═══ link ═══► port     a tap at the receiving end sees each frame of its direction
//! ```
//!
//! A tap keeps what a frame was made of, and belongs to one port. `record/pcapng.rs` makes a file of what
//! the taps of a network have kept.

use wire::roce;

use crate::address::Tuple;
use crate::limits::CAPTURE_FRAMES_MAX;
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
    Pause,
}

/// What came to one port.
#[derive(Clone, Debug)]
pub(crate) struct Tap {
    pub(crate) seen: Vec<Seen>,
    room: usize,
    /// Frames that there was no room for.
    pub(crate) missed: u64,
}

impl Tap {
    /// One that keeps at most `room` frames.
    pub(crate) fn new(room: usize) -> Self {
        Self { seen: Vec::new(), room, missed: 0 }
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
        if self.seen.len() >= self.room {
            self.missed += 1;
            return;
        }
        let headers = match (packet.kind, tuple) {
            (Kind::Roce | Kind::Extended, Some(tuple)) => Headers::Roce(pool.header(index), tuple),
            (Kind::Tcp, Some(tuple)) => Headers::Tcp(pool.tcp(index).0, tuple),
            _ => Headers::Pause,
        };
        self.seen.push(Seen { at, headers, packet, lost });
    }
}

/// The room of each of `taps` taps.
pub(crate) fn room_of(taps: usize) -> usize {
    CAPTURE_FRAMES_MAX / taps.max(1)
}
