//! A capture of a network that lives: a pcapng file that grows while frames are seen.
//!
//! ```text
//!   taps ─► wait until nothing earlier can come ─► blocks of the file ─► whoever reads
//! ```
//!
//! An outbound frame is seen when it has come to the other end, and is stamped with the moment when it left. So what
//! was seen waits as long as the longest link takes, and the file is in the order of time.
//!
//! **Invariant:** a frame that was seen is written, or counted as missed; unless the capture was full before. What
//! is captured changes nothing in the network.

use rdma::Time;
use wire::pcapng::{self, Direction};

use super::pcapng::{last_bit, priorities, write_frame, write_interface};
use crate::capture::{Capture, Room, Seen};
use crate::limits::{LIVE_BYTES_MAX, LIVE_FRAMES_MAX};
use crate::network::PortEnd;
use crate::{BuildError, Network};

/// Where a capture ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaptureLimits {
    /// After so many frames; `None` for never.
    pub frames: Option<u64>,
    /// Before the file has more bytes; `None` for never.
    pub bytes: Option<u64>,
}

/// What a capture came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CaptureTally {
    /// Frames that were written.
    pub frames: u64,
    /// Bytes that were written, of blocks and all.
    pub bytes: u64,
    /// Frames that were seen, and not written because nobody took those before them in time.
    pub missed: u64,
}

/// See the module.
#[derive(Debug)]
pub struct LiveCapture {
    number: u32,
    interfaces: Vec<Interface>,
    taps: Vec<Tapped>,
    waiting: Vec<Waiting>,
    /// The longest time from when a frame leaves until it is seen, in picoseconds.
    delay: u64,
    limits: CaptureLimits,
    tally: CaptureTally,
    is_full: bool,
}

/// A captured port.
#[derive(Debug)]
struct Interface {
    capture: Capture,
    seen: u64,
    missed: u64,
}

/// A port with a tap.
#[derive(Debug)]
struct Tapped {
    /// The ports that send to it, and it.
    ends: [PortEnd; 2],
    /// Whose frames they are.
    of: Vec<(u32, Direction)>,
}

#[derive(Debug)]
struct Waiting {
    at: u64,
    interface: u32,
    direction: Direction,
    seen: Seen,
    ends: [PortEnd; 2],
}

impl LiveCapture {
    /// Begins to capture ports of `network`, and appends the beginning of the file: `application` writes it, and
    /// `remark` is about the whole.
    ///
    /// # Errors
    /// A capture is of no port.
    pub fn begin(
        network: &mut Network,
        captures: &[Capture],
        limits: CaptureLimits,
        [application, remark]: [&str; 2],
        file: &mut Vec<u8>,
    ) -> Result<Self, BuildError> {
        let before = file.len();
        let ports: Vec<PortEnd> = network.port_ends().collect();
        let (mut interfaces, mut taps) = (Vec::new(), Vec::<Tapped>::new());
        let mut blocks = Vec::new();
        for capture in captures {
            let count = interfaces.len();
            for port in ports.iter().filter(|port| capture.covers(port.at, port.to)) {
                let interface = interfaces.len() as u32;
                write_interface(&mut blocks, network.topology(), port, capture.snap_bytes);
                interfaces.push(Interface { capture: *capture, seen: 0, missed: 0 });
                let peer = &ports[port.peer as usize];
                for (ends, direction) in
                    [([peer, port], Direction::Inbound), ([port, peer], Direction::Outbound)]
                {
                    let of = (interface, direction);
                    match taps.iter_mut().find(|tap| tap.ends[1].port == ends[1].port) {
                        Some(tap) => tap.of.push(of),
                        None => taps.push(Tapped { ends: ends.map(|end| *end), of: vec![of] }),
                    }
                }
            }
            if interfaces.len() == count {
                return Err(BuildError::NoSuchNode("a capture".to_owned()));
            }
        }
        pcapng::write_section(file, application, remark);
        file.append(&mut blocks);
        let snaps = captures.iter().map(|it| it.snap_bytes.map_or(usize::MAX, |b| b as usize));
        let each = taps.len().max(1);
        let room = Room {
            frames: LIVE_FRAMES_MAX / each,
            bytes: LIVE_BYTES_MAX / each,
            snap_bytes: snaps.max().unwrap_or(0),
        };
        let tapped: Vec<u32> = taps.iter().map(|tap| tap.ends[1].port).collect();
        let delay = taps.iter().map(|tap| tap.ends[0].delays.0.max(tap.ends[0].delays.1)).max();
        Ok(Self {
            number: network.begin_taps(&tapped, room),
            interfaces,
            taps,
            waiting: Vec::new(),
            delay: delay.unwrap_or(0),
            limits,
            tally: CaptureTally { bytes: (file.len() - before) as u64, ..CaptureTally::default() },
            is_full: false,
        })
    }

    /// Whether it has as many frames or bytes as it may have.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// What it has come to so far.
    pub fn tally(&self) -> CaptureTally {
        self.tally
    }

    /// Appends the frames of which the order is known to `file`. Once that has `room` bytes, they are missed.
    pub fn take(&mut self, network: &mut Network, file: &mut Vec<u8>, room: usize) {
        let settled = network.now().as_ps().saturating_sub(self.delay);
        self.collect(network);
        self.write(network, file, room, settled);
    }

    /// Ends it: appends all that was seen and, for each port, how many frames that were and how many were missed.
    pub fn end(mut self, network: &mut Network, file: &mut Vec<u8>, room: usize) -> CaptureTally {
        self.collect(network);
        self.write(network, file, room, u64::MAX);
        network.end_taps(self.taps.iter().map(|tap| tap.ends[1].port), self.number);
        let before = file.len();
        for (number, interface) in (0..).zip(&self.interfaces) {
            let Interface { seen, missed, .. } = *interface;
            pcapng::write_statistics(file, number, network.now(), seen, missed);
        }
        self.tally.bytes += (file.len() - before) as u64;
        self.tally
    }

    /// Takes what the taps have.
    fn collect(&mut self, network: &mut Network) {
        for tap in &self.taps {
            let (seen, missed) = network.take_seen(tap.ends[1].port, self.number);
            for &(interface, direction) in &tap.of {
                let of = &mut self.interfaces[interface as usize];
                of.seen += missed;
                of.missed += missed;
                self.tally.missed += missed;
                for seen in &seen {
                    let there = direction == Direction::Outbound || !seen.lost;
                    if there && priorities(seen, network) & of.capture.priorities != 0 {
                        let at = last_bit(seen, &tap.ends[0], direction);
                        let (seen, ends) = (seen.clone(), tap.ends);
                        self.waiting.push(Waiting { at, interface, direction, seen, ends });
                    }
                }
            }
        }
        self.waiting.sort_by_key(|it| (it.at, it.interface, it.direction as u8));
    }

    /// Writes what was seen before `settled`.
    fn write(&mut self, network: &Network, file: &mut Vec<u8>, room: usize, settled: u64) {
        let count = self.waiting.partition_point(|it| it.at < settled);
        // What is said at the end belongs to the size, too.
        let last = (STATISTICS_BYTES * self.interfaces.len()) as u64;
        for frame in self.waiting.drain(..count) {
            if self.is_full {
                break;
            }
            let of = &mut self.interfaces[frame.interface as usize];
            of.seen += 1;
            if file.len() >= room {
                of.missed += 1;
                self.tally.missed += 1;
                continue;
            }
            let before = file.len();
            let snap = of.capture.snap_bytes.map_or(usize::MAX, |bytes| bytes as usize);
            let to = (frame.interface, Time::from_ps(frame.at), frame.direction);
            let [from, at] = &frame.ends;
            write_frame(file, to, &frame.seen, network, [from, at], snap);
            let bytes = self.tally.bytes + (file.len() - before) as u64;
            if self.limits.bytes.is_some_and(|most| bytes + last > most) {
                file.truncate(before);
                self.is_full = true;
                break;
            }
            self.tally.bytes = bytes;
            self.tally.frames += 1;
            self.is_full = self.limits.frames.is_some_and(|most| self.tally.frames >= most);
        }
        if self.is_full {
            self.waiting.clear();
        }
    }
}

/// Bytes of a block of statistics.
const STATISTICS_BYTES: usize = 52;
