//! A NIC of this host, as another sees it: the ring to it, and the ring from it.
//!
//! ```text
//!   out:    Untried ─► Open ─► Refused    what it does not take, or what breaks: by UDP from then on
//!   from:   None ─► Open ─► Broken        by nonsense in it
//! ```
//!
//! The addresses that packets go between are said once a ring: the first packet of a way comes behind
//! a declaration of it, and each names its way by number.
//!
//! **Invariant:** neither goes back. What is not what it should be in a ring ends that ring alone; its
//! packets count as lost.

use std::io;

use rdma::{Gid, MemoryFault, Time};
use transport::{Segment, Transmit};
use wire::roce::HEADERS_MAX;

use super::ring::{Broken, Consumer, DECLARES_WAY, Entry, Producer, WITH_ICRC};
use crate::ProcessMemory;
use crate::limits::{AWAITED_MAX, RING_WAYS_MAX};
use crate::registry::Registry;
use crate::steering::Member;
use crate::train::Way;
use crate::transmit::{for_pieces, packet_length};

/// A NIC of this host.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) member: Member,
    pub(super) out: Out,
    /// What has been declared in the ring to it: source and destination of each way.
    ways: Vec<(Gid, Gid)>,
    from: From,
    /// Whether packets were built for it since the bells were last looked after.
    pub(super) touched: bool,
    /// When it may be asked again whether it lives.
    pub(super) next_check: Time,
    /// It took nothing for a while: what it has no room for is dropped.
    pub(super) given_up: bool,
    /// Something that was sent to it is missed, and may still lie in its ring.
    awaited: Option<Awaited>,
}

/// What is waited for before a packet is taken for lost that may be in a ring.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// All up to here is to be taken.
    place: u64,
    /// What had been taken when that last changed, and when it was seen to.
    taken: u64,
    since: Time,
}

/// The ring to a peer.
#[derive(Debug)]
pub(super) enum Out {
    Untried,
    Open(Producer),
    /// By UDP for as long as it lives.
    Refused,
}

/// The ring from a peer.
#[derive(Debug)]
enum From {
    None,
    Open(Consumer, Vec<Declared>),
    Broken,
}

/// A way that a peer has declared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared {
    pub(super) source: Gid,
    pub(super) destination: Gid,
    /// Whether the addresses are theirs and ours, if that could be found out yet.
    is_true: Option<bool>,
}

/// A packet of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RingPacket {
    pub(crate) source: Gid,
    pub(crate) destination: Gid,
    pub(crate) traffic_class: u8,
    /// Whether its ICRC stands behind it.
    pub(crate) with_icrc: bool,
    pub(crate) length: usize,
    /// How many of its bytes are in the buffer: all, or more than its headers.
    pub(crate) copied: usize,
    /// Where it lies in the ring.
    pub(super) place: u64,
}

/// What became of a run of packets for a ring. Those behind the ones that are told of here were left
/// alone, because there may be no room for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Written {
    /// Packets that are in.
    pub(crate) packets: u32,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// There was no room for the one behind them.
    pub(crate) is_dropped: bool,
    /// The payload of the one behind them is not mapped any more.
    pub(crate) is_faulted: bool,
}

impl Written {
    pub(super) const DROPPED: Self =
        Self { packets: 0, bytes: 0, is_dropped: true, is_faulted: false };
}

impl Peer {
    pub(super) fn new(member: Member) -> Self {
        Self {
            member,
            out: Out::Untried,
            ways: Vec::new(),
            from: From::None,
            touched: false,
            next_check: Time::ZERO,
            given_up: false,
            awaited: None,
        }
    }

    /// Whether what was sent to it, and is missed at `now`, may still be in its ring: it lives and has not
    /// taken all that was in when something was first missed.
    pub(super) fn is_awaited(&mut self, registry: &Registry, now: Time) -> bool {
        let Out::Open(ring) = &mut self.out else { return false };
        if !ring.is_untaken() || self.awaited.is_some_and(|awaited| awaited.place <= ring.taken()) {
            self.awaited = None;
            return false;
        }
        let (place, taken) = (ring.end(), ring.taken());
        let awaited = self.awaited.get_or_insert(Awaited { place, taken, since: now });
        if awaited.taken != taken {
            (awaited.taken, awaited.since) = (taken, now);
        }
        now.since(awaited.since) < AWAITED_MAX && registry.is_alive(self.member)
    }

    /// The ring to it, if there is one.
    pub(super) fn out(&mut self) -> Option<&mut Producer> {
        match &mut self.out {
            Out::Open(ring) => Some(ring),
            Out::Untried | Out::Refused => None,
        }
    }

    /// The ring from it, if there is one.
    #[inline]
    pub(super) fn from(&self) -> Option<&Consumer> {
        match &self.from {
            From::Open(ring, _) => Some(ring),
            From::None | From::Broken => None,
        }
    }

    /// Has its packets from this ring from now on. A peer has one ring in its life.
    pub(super) fn accept(&mut self, ring: Consumer) -> io::Result<()> {
        if !matches!(self.from, From::None) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.from = From::Open(ring, Vec::new());
        Ok(())
    }

    /// Takes what comes next in the ring from it, if anything does, and copies its first `most` bytes,
    /// or all, to the beginning of `buffer`. `check` says whether a way is between its address and ours.
    #[inline]
    pub(super) fn take(
        &mut self,
        (buffer, most): (&mut [u8], usize),
        check: impl Fn(&Declared) -> io::Result<bool>,
    ) -> Result<Option<Opened>, Broken> {
        let From::Open(ring, ways) = &mut self.from else { return Ok(None) };
        match ring.take(buffer, most)? {
            Some(taken) => open_entry(taken, (buffer, most), ways, check).map(Some),
            None => Ok(None),
        }
    }

    /// Takes nothing from it any more, and says so.
    pub(super) fn turn_away(&mut self) {
        if let Some(ring) = self.from() {
            ring.leave();
        }
        self.from = From::Broken;
    }

    /// Puts a packet into the ring to it. Returns whether there was room.
    pub(super) fn push(
        &mut self,
        way: &Way,
        packet: &[u8],
        with_icrc: bool,
    ) -> Result<bool, Broken> {
        let Some(way) = self.way(way)? else { return Ok(false) };
        let Some(ring) = self.out() else { return Ok(false) };
        ring.push(Entry { flags: if with_icrc { WITH_ICRC } else { 0 }, ..way }, packet)
    }

    /// Writes packets to the ring to it, from where their payload lies, as long as there is room.
    pub(super) fn write(
        &mut self,
        way: &Way,
        run: &Transmit<'_>,
        memory: &ProcessMemory,
    ) -> Result<Written, Broken> {
        let Some(way) = self.way(way)? else { return Ok(Written::DROPPED) };
        let Out::Open(ring) = &mut self.out else { return Ok(Written::DROPPED) };
        let mut headers = [0; HEADERS_MAX];
        let mut written = Written::default();
        for (psn, payload) in run.packets() {
            // The first is tried in any case. If the ring is broken, the next use of it shows that.
            if written.packets > 0 && ring.has_room() != Ok(true) {
                break;
            }
            let end = run.header.emit_as(psn, &mut headers);
            let length = packet_length((run.header, end), payload);
            let pushed = ring.push_with(way, length, |ring, guard| {
                let part = |at, length| ring.part(at, length).ok_or(MemoryFault);
                part(0, end)?.store(guard, &headers[..end])?;
                for_pieces((run.header, end), payload, |place, piece| {
                    let place = part(place.start, place.len())?;
                    match piece {
                        Segment::Memory { address, .. } => memory.load_to(address, place),
                        Segment::Bytes(bytes) => place.store(guard, bytes),
                    }
                })
            })?;
            match pushed {
                Some(Ok(())) => {
                    written.packets += 1;
                    written.bytes += length as u64;
                    continue;
                }
                Some(Err(MemoryFault)) => written.is_faulted = true,
                None => written.is_dropped = true,
            }
            break;
        }
        Ok(written)
    }

    /// What is said of packets of `way`, which is declared if it is new. `None`: there is no room.
    fn way(&mut self, way: &Way) -> Result<Option<Entry>, Broken> {
        let Out::Open(ring) = &mut self.out else { return Ok(None) };
        let addresses = (way.source, way.destination);
        let known = self.ways.iter().position(|known| *known == addresses);
        let number = known.unwrap_or(self.ways.len());
        // There are 256 ways at most.
        let entry = Entry { way: number as u8, ..Entry::default() };
        if known.is_none() {
            if number == RING_WAYS_MAX {
                return Ok(None);
            }
            let mut bytes = [0; 32];
            bytes[..16].copy_from_slice(&way.source.0);
            bytes[16..].copy_from_slice(&way.destination.0);
            if !ring.push(Entry { flags: DECLARES_WAY, ..entry }, &bytes)? {
                return Ok(None);
            }
            self.ways.push(addresses);
        }
        Ok(Some(Entry { traffic_class: way.traffic_class, ..entry }))
    }
}

/// What an entry of a ring is.
pub(super) enum Opened {
    Packet(RingPacket),
    Declaration,
    /// A packet between addresses that are not the peer's and ours.
    Untrue,
}

/// What an entry with `bytes` says.
fn open_entry(
    (entry, place): (Entry, u64),
    (bytes, most): (&[u8], usize),
    ways: &mut Vec<Declared>,
    check: impl Fn(&Declared) -> io::Result<bool>,
) -> Result<Opened, Broken> {
    if entry.flags == DECLARES_WAY {
        let (source, rest) = bytes.split_first_chunk().ok_or(Broken)?;
        let destination = rest.first_chunk().ok_or(Broken)?;
        if usize::from(entry.way) != ways.len() || entry.length != 32 {
            return Err(Broken);
        }
        let (source, destination) = (Gid(*source), Gid(*destination));
        ways.push(Declared { source, destination, is_true: None });
        return Ok(Opened::Declaration);
    }
    if entry.flags & !WITH_ICRC != 0 {
        return Err(Broken);
    }
    let way = ways.get_mut(usize::from(entry.way)).ok_or(Broken)?;
    if way.is_true.is_none() {
        // Who cannot be told now may be told at the next packet.
        way.is_true = check(way).ok();
    }
    if way.is_true != Some(true) {
        return Ok(Opened::Untrue);
    }
    Ok(Opened::Packet(RingPacket {
        source: way.source,
        destination: way.destination,
        traffic_class: entry.traffic_class,
        with_icrc: entry.flags & WITH_ICRC != 0,
        length: entry.length.into(),
        copied: if entry.flags & WITH_ICRC == 0 { most } else { usize::MAX }
            .min(entry.length.into()),
        place,
    }))
}
