//! A NIC of this host, as another sees it: the ring to it, and the ring from it.
//!
//! ```text
//!   out:    None ─► Offered ─► Open ─► Closed    what breaks: by UDP for as long as it lives
//!            └───────◄┘ refused, or not taken in time; later it is offered another
//!   from:   None ─► Open ─► Broken               by nonsense in it
//! ```
//!
//! Packets go by UDP until a ring has been taken. They leave together, so what is said of an offer counts
//! only when none of them can still be on its way to the kernel. The receiver reads a ring after it has seen
//! the first packet there and then found its sockets empty. So no packet overtakes another.
//!
//! The addresses that packets go between are said once a ring: the first packet between two comes
//! behind a declaration of the pair, and each names its pair by number.
//!
//! **Invariants:** a ring that nobody has taken is empty. One that is open or closed is the last to or from
//! this NIC. What is not what it should be in a ring ends that ring alone; its packets count as lost.

use std::collections::BTreeMap;
use std::io;

use rdma::{Gid, MemoryFault, Qpn, Time};
use transport::{Run, Segment};
use wire::roce::HEADERS_MAX;

use super::ring::{Broken, Consumer, DECLARES_PAIR, Entry, FoundEntry, Producer, State, WITH_ICRC};
use crate::ProcessMemory;
use crate::counts::Counts;
use crate::host::registry::Registry;
use crate::host::steering::Member;
use crate::limits::{
    AWAITED_MAX, LOOKS_BEFORE_TIMEOUT, OFFER_DOUBLINGS_MAX, OFFER_PATIENCE, OFFER_PAUSE,
    RING_PAIRS_MAX,
};
use crate::memory::map::Stretch;
use crate::packet::{Begun, Flow, Missed, Pushed};

/// A NIC of this host.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) member: Member,
    pub(super) out: Out,
    /// Offers in a row that came to nothing.
    offers_failed: u32,
    /// What has been declared in the ring to it: source and destination of each pair.
    pairs: Vec<(Gid, Gid)>,
    from: Inbound,
    /// Looks at all sockets since the first packet in the ring from it was seen.
    looks: Option<u32>,
    /// Whether packets were built for it since the doorbells were last looked after.
    pub(super) touched: bool,
    /// Whether packets were taken from its ring since then.
    pub(super) is_owed: bool,
    /// When it may be asked again whether it lives: before more is sent to it, or more is refused that came
    /// by UDP.
    pub(super) next_check: Time,
    pub(super) next_refusal_check: Time,
    /// It took nothing for a while: what it has no room for is dropped.
    pub(super) given_up: bool,
    /// What was sent to these of its queue pairs is missed, and may still lie in its ring.
    awaited: BTreeMap<Qpn, Awaited>,
}

/// What is waited for before a packet is taken for lost that has been put into a ring.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// How far a peer must get in its ring before a missing packet counts as lost.
    place: u64,
    /// How far it was when that last changed, and when that was.
    reached: Reached,
    since: Time,
}

/// How far a peer is in the ring to it.
#[derive(Clone, Copy, Debug)]
struct Reached {
    taken: u64,
    answered: u64,
}

/// The ring to a peer.
#[derive(Debug)]
pub(super) enum Out {
    /// There is none, and none is offered before this.
    None(Time),
    Offered(Offered),
    Open(Producer),
    /// By UDP for as long as it lives.
    Closed,
}

/// A ring that may be taken.
#[derive(Debug)]
pub(super) struct Offered {
    ring: Producer,
    /// When it is taken back.
    until: Time,
    /// When a packet was last built that goes by UDP.
    last_by_udp: Time,
}

/// The ring from a peer.
#[derive(Debug)]
enum Inbound {
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingPacket<'a> {
    pub(crate) source: Gid,
    pub(crate) destination: Gid,
    pub(crate) traffic_class: u8,
    /// Whether its ICRC stands behind it.
    pub(crate) with_icrc: bool,
    pub(crate) length: usize,
    /// What was copied of it: all, or more than its headers.
    pub(crate) copied: &'a [u8],
    /// All of it, which is not to be believed.
    pub(crate) whole: Stretch<'a>,
}

impl Peer {
    pub(super) fn new(member: Member) -> Self {
        Self {
            member,
            out: Out::None(Time::ZERO),
            offers_failed: 0,
            pairs: Vec::new(),
            from: Inbound::None,
            looks: None,
            touched: false,
            is_owed: false,
            next_check: Time::ZERO,
            next_refusal_check: Time::ZERO,
            given_up: false,
            awaited: BTreeMap::new(),
        }
    }

    /// Looks whether it has taken or refused the ring that it was offered, before packets are built at `now`.
    #[inline]
    pub(super) fn hears(&mut self, now: Time, counts: &mut Counts) {
        let Out::Offered(offered) = &mut self.out else { return };
        if now >= offered.until {
            // If it has been taken by now, it stays.
            offered.ring.withdraw();
        }
        // What was built at another time has been sent.
        let has_left = core::mem::replace(&mut offered.last_by_udp, now) < now;
        match offered.ring.state() {
            State::Gone => self.offer_failed(now, counts),
            State::Awake | State::Asleep if has_left => {
                if let Out::Offered(offered) = core::mem::replace(&mut self.out, Out::Closed) {
                    tracing::debug!(slot = self.member.slot, "a ring was taken");
                    counts.rings_made += 1;
                    self.out = Out::Open(offered.ring);
                }
            }
            State::Offered | State::Awake | State::Asleep => {}
        }
    }

    /// A ring has been offered to it at `now`.
    pub(super) fn offer(&mut self, ring: Producer, now: Time) {
        let until = now + OFFER_PATIENCE;
        self.out = Out::Offered(Offered { ring, until, last_by_udp: now });
    }

    /// It takes no ring now. The next is offered later, and later each time.
    pub(super) fn offer_failed(&mut self, now: Time, counts: &mut Counts) {
        let pause = OFFER_PAUSE * (1 << self.offers_failed.min(OFFER_DOUBLINGS_MAX));
        self.offers_failed += 1;
        self.out = Out::None(now + pause);
        counts.rings_refused += 1;
    }

    /// Whether there is a ring to it that it has, or may take.
    pub(super) fn has_ring(&self) -> bool {
        matches!(self.out, Out::Offered(_) | Out::Open(_))
    }

    /// Whether a missed packet, or its answer, may still be under way: the peer lives and has not answered the
    /// whole ring. While a ring is offered, its sockets are asked.
    pub(super) fn is_awaited(
        &mut self,
        registry: &Registry,
        Missed { qpn, is_first, .. }: Missed,
        is_in_sockets: bool,
        now: Time,
    ) -> bool {
        if is_first {
            self.awaited.remove(&qpn);
        }
        let ring = match &mut self.out {
            Out::Open(ring) => ring,
            Out::Offered(Offered { until, .. }) => {
                let is_awaited = now < *until && (is_in_sockets || is_first);
                return is_awaited && registry.is_alive(self.member);
            }
            Out::None(_) | Out::Closed => return false,
        };
        let place = ring.end();
        let reached = Reached { taken: ring.taken(), answered: ring.answered() };
        if !ring.is_unanswered() {
            self.awaited.clear();
            // What has come since we looked may be the answer.
            return is_first && self.from().is_some_and(|ring| !ring.is_empty());
        }
        let awaited = self.awaited.entry(qpn).or_insert(Awaited { place, reached, since: now });
        if awaited.place <= reached.answered {
            self.awaited.remove(&qpn);
            return false;
        }
        // Only what goes on counts, and no further than there is something to take: a peer may write there
        // what it likes.
        let Reached { taken, answered } = reached;
        let goes_on = taken > awaited.reached.taken || answered > awaited.reached.answered;
        if goes_on && taken.max(answered) <= place {
            (awaited.reached, awaited.since) = (reached, now);
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
            Out::None(_) | Out::Offered(_) | Out::Closed => None,
        }
    }

    /// The ring from it, if there is one.
    #[inline]
    pub(super) fn from(&self) -> Option<&Consumer> {
        match &self.from {
            Inbound::Open(ring, _) => Some(ring),
            Inbound::None | Inbound::Broken => None,
        }
    }

    /// Whether packets between these addresses come through the ring from it.
    pub(super) fn sends_between(&self, source: Gid, destination: Gid) -> bool {
        let Inbound::Open(ring, pairs) = &self.from else { return false };
        let is_it = |pair: &Declared| (pair.source, pair.destination) == (source, destination);
        !ring.is_left() && pairs.iter().any(|pair| is_it(pair) && pair.is_true == Some(true))
    }

    /// Has its packets from this ring from now on. A peer has one ring in its life.
    pub(super) fn accept(&mut self, ring: Consumer) -> io::Result<()> {
        if !matches!(self.from, Inbound::None) {
            ring.leave();
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !ring.take() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.from = Inbound::Open(ring, Vec::new());
        Ok(())
    }

    /// A look at all sockets begins.
    pub(super) fn before_all_sockets(&mut self) {
        if self.from().is_some_and(|ring| !ring.is_empty()) {
            self.looks.get_or_insert(0);
        }
    }

    /// A look at all sockets is over, and has found all of them empty or not. Returns whether the ring from
    /// it is to be read: what was sent by UDP before the first packet in it has been taken.
    pub(super) fn is_in_turn(&mut self, is_empty: bool) -> bool {
        let Some(looks) = &mut self.looks else { return false };
        *looks += 1;
        is_empty || *looks == LOOKS_BEFORE_TIMEOUT
    }

    /// Takes what comes next in the ring from it, if anything does, and copies its first `most` bytes,
    /// or all, to the beginning of `buffer`. `check` says whether a pair is between its address and ours.
    #[inline]
    pub(super) fn next<'a>(
        &'a mut self,
        buffer: &'a mut [u8],
        most: usize,
        check: impl Fn(&Declared) -> io::Result<bool>,
    ) -> Result<Option<Opened<'a>>, Broken> {
        let Inbound::Open(ring, pairs) = &mut self.from else { return Ok(None) };
        match ring.next(buffer, most)? {
            Some(found) => open_entry(found, ring, buffer, most, pairs, check).map(Some),
            None => Ok(None),
        }
    }

    /// Says that what was taken from its ring has been answered.
    #[inline]
    pub(super) fn answer(&mut self) {
        self.is_owed = false;
        if let Some(ring) = self.from() {
            ring.answer();
        }
    }

    /// Gives the room of what was taken from its ring back to it.
    #[inline]
    pub(super) fn release(&self) {
        if let Some(ring) = self.from() {
            ring.release();
        }
    }

    /// Takes nothing from it any more, and says so.
    pub(super) fn turn_away(&mut self) {
        if let Some(ring) = self.from() {
            ring.leave();
        }
        self.from = Inbound::Broken;
    }

    /// Puts a packet, with its ICRC, into the ring to it. Where there is no room it is dropped.
    pub(super) fn push(
        &mut self,
        flow: &Flow,
        packet: &[u8],
        counts: &mut Counts,
    ) -> Result<(), Broken> {
        let pair = self.pair(flow)?;
        let is_in = match (pair, &mut self.out) {
            (Some(pair), Out::Open(ring)) => {
                ring.push(Entry { flags: WITH_ICRC, ..pair }, packet)?
            }
            _ => false,
        };
        counts.sent_through_ring(is_in, packet.len());
        Ok(())
    }

    /// Writes packets to the ring to it, from where their payload lies, as long as there is room. Where
    /// there is none for the first it is dropped.
    pub(super) fn write(
        &mut self,
        flow: &Flow,
        run: &Run<'_>,
        memory: &ProcessMemory,
        counts: &mut Counts,
    ) -> Result<Pushed, Broken> {
        let mut pushed = Pushed::default();
        let pair = self.pair(flow)?;
        let (Some(pair), Out::Open(ring)) = (pair, &mut self.out) else {
            counts.sent_through_ring(false, 0);
            return Ok(Pushed { packets: 1, ..pushed });
        };
        let mut headers = [0; HEADERS_MAX];
        for (psn, payload) in run.packets() {
            // The first is tried in any case. If the ring is broken, the next use of it shows that.
            if pushed.packets > 0 && ring.has_room() != Ok(true) {
                break;
            }
            let packet = Begun::new(run.header(), psn, payload, &mut headers);
            let (end, length) = (packet.headers(), packet.len());
            let is_in = ring.push_with(pair, length, |ring, guard| {
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
            pushed.packets += 1;
            if is_in == Some(Err(MemoryFault)) {
                pushed.is_faulted = true;
                break;
            }
            counts.sent_through_ring(is_in.is_some(), length);
            if is_in.is_none() {
                break;
            }
        }
        Ok(pushed)
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
pub(super) enum Opened<'a> {
    Packet(RingPacket<'a>),
    Declaration,
    /// A packet between addresses that are not the peer's and ours.
    Untrue,
}

/// What an entry with `bytes` says.
fn open_entry<'a>(
    FoundEntry { entry, place }: FoundEntry,
    ring: &'a Consumer,
    bytes: &'a [u8],
    most: usize,
    pairs: &mut Vec<Declared>,
    check: impl Fn(&Declared) -> io::Result<bool>,
) -> Result<Opened<'a>, Broken> {
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
    let (length, with_icrc) = (usize::from(entry.length), entry.flags & WITH_ICRC != 0);
    Ok(Opened::Packet(RingPacket {
        source: pair.source,
        destination: pair.destination,
        traffic_class: entry.traffic_class,
        with_icrc,
        length,
        copied: if with_icrc { &bytes[..length] } else { &bytes[..length.min(most)] },
        whole: ring.packet(place, length),
    }))
}
