//! A NIC of this host, as another sees it: the ring to it, and the ring from it.
//!
//! ```text
//!   out:    Untried ─► Open ─► Refused    what it does not take, or what breaks: by UDP from then on
//!   from:   None ─► Open ─► Broken        by nonsense in it
//! ```
//!
//! The addresses that packets go between are said once a ring: the first packet between two comes
//! behind a declaration of the pair, and each names its pair by number.
//!
//! **Invariant:** neither goes back. What is not what it should be in a ring ends that ring alone; its
//! packets count as lost.

use std::io;

use rdma::{Gid, MemoryFault, Time};
use transport::{Run, Segment};
use wire::roce::HEADERS_MAX;

use super::ring::{Broken, Consumer, DECLARES_PAIR, Entry, Found, Producer, WITH_ICRC};
use crate::ProcessMemory;
use crate::host::registry::Registry;
use crate::host::steering::Member;
use crate::limits::{AWAITED_MAX, RING_PAIRS_MAX};
use crate::packet::{Begun, Flow};

/// A NIC of this host.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) member: Member,
    pub(super) out: Out,
    /// What has been declared in the ring to it: source and destination of each pair.
    pairs: Vec<(Gid, Gid)>,
    from: From,
    /// Whether packets were built for it since the doorbells were last looked after.
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

/// A pair that a peer has declared.
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
            pairs: Vec::new(),
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

    /// Whether a packet of any length fits into the ring to it.
    pub(super) fn has_room(&mut self) -> Result<bool, Broken> {
        self.out().map_or(Ok(true), Producer::has_room)
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
    /// or all, to the beginning of `buffer`. `check` says whether a pair is between its address and ours.
    #[inline]
    pub(super) fn next(
        &mut self,
        buffer: &mut [u8],
        most: usize,
        check: impl Fn(&Declared) -> io::Result<bool>,
    ) -> Result<Option<Opened>, Broken> {
        let From::Open(ring, pairs) = &mut self.from else { return Ok(None) };
        match ring.next(buffer, most)? {
            Some(found) => open_entry(found, buffer, most, pairs, check).map(Some),
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

    /// Puts a packet, with its ICRC, into the ring to it. Returns whether there was room.
    pub(super) fn push(&mut self, flow: &Flow, packet: &[u8]) -> Result<bool, Broken> {
        let Some(pair) = self.pair(flow)? else { return Ok(false) };
        let Some(ring) = self.out() else { return Ok(false) };
        ring.push(Entry { flags: WITH_ICRC, ..pair }, packet)
    }

    /// Writes packets to the ring to it, from where their payload lies, as long as there is room.
    pub(super) fn write(
        &mut self,
        flow: &Flow,
        run: &Run<'_>,
        memory: &ProcessMemory,
    ) -> Result<Written, Broken> {
        let Some(pair) = self.pair(flow)? else { return Ok(Written::DROPPED) };
        let Out::Open(ring) = &mut self.out else { return Ok(Written::DROPPED) };
        let mut headers = [0; HEADERS_MAX];
        let mut written = Written::default();
        for (psn, payload) in run.packets() {
            // The first is tried in any case. If the ring is broken, the next use of it shows that.
            if written.packets > 0 && ring.has_room() != Ok(true) {
                break;
            }
            let packet = Begun::new(run.header(), psn, payload, &mut headers);
            let (end, length) = (packet.headers(), packet.len());
            let pushed = ring.push_with(pair, length, |ring, guard| {
                let part = |at, length| ring.part(at, length).ok_or(MemoryFault);
                part(0, end)?.store(guard, &headers[..end])?;
                packet.for_pieces(|place, piece| {
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

    /// What is said of packets of `pair`, which is declared if it is new. `None`: there is no room.
    fn pair(&mut self, flow: &Flow) -> Result<Option<Entry>, Broken> {
        let Out::Open(ring) = &mut self.out else { return Ok(None) };
        let addresses = (flow.source, flow.destination);
        let known = self.pairs.iter().position(|known| *known == addresses);
        let number = known.unwrap_or(self.pairs.len());
        // There are 256 pairs at most.
        let entry = Entry { pair: number as u8, ..Entry::default() };
        if known.is_none() {
            if number == RING_PAIRS_MAX {
                return Ok(None);
            }
            let mut bytes = [0; 32];
            bytes[..16].copy_from_slice(&flow.source.0);
            bytes[16..].copy_from_slice(&flow.destination.0);
            if !ring.push(Entry { flags: DECLARES_PAIR, ..entry }, &bytes)? {
                return Ok(None);
            }
            self.pairs.push(addresses);
        }
        Ok(Some(Entry { traffic_class: flow.traffic_class, ..entry }))
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
    Found { entry, place }: Found,
    bytes: &[u8],
    most: usize,
    pairs: &mut Vec<Declared>,
    check: impl Fn(&Declared) -> io::Result<bool>,
) -> Result<Opened, Broken> {
    if entry.flags == DECLARES_PAIR {
        let (source, rest) = bytes.split_first_chunk().ok_or(Broken)?;
        let destination = rest.first_chunk().ok_or(Broken)?;
        if usize::from(entry.pair) != pairs.len() || entry.length != 32 {
            return Err(Broken);
        }
        let (source, destination) = (Gid(*source), Gid(*destination));
        pairs.push(Declared { source, destination, is_true: None });
        return Ok(Opened::Declaration);
    }
    if entry.flags & !WITH_ICRC != 0 {
        return Err(Broken);
    }
    let pair = pairs.get_mut(usize::from(entry.pair)).ok_or(Broken)?;
    if pair.is_true.is_none() {
        // Who cannot be told now may be told at the next packet.
        pair.is_true = check(pair).ok();
    }
    if pair.is_true != Some(true) {
        return Ok(Opened::Untrue);
    }
    Ok(Opened::Packet(RingPacket {
        source: pair.source,
        destination: pair.destination,
        traffic_class: entry.traffic_class,
        with_icrc: entry.flags & WITH_ICRC != 0,
        length: entry.length.into(),
        copied: if entry.flags & WITH_ICRC == 0 { most } else { usize::MAX }
            .min(entry.length.into()),
        place,
    }))
}
