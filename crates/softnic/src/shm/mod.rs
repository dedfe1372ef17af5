//! The path by shared memory: rings of packets between NICs of one host and user.
//!
//! ```text
//!   packets for a NIC of this host that takes rings ─► ring ─► its engine
//!                                                       └─ asleep? ─► doorbell
//! ```
//!
//! The packets are the same as by UDP, headers and all, and every rule of the transport holds. They have no
//! ICRC unless somebody wants to see one: memory does not corrupt them.
//!
//! Each direction has a ring of its own ([`ring`](ring.rs)). The sender makes it and offers it
//! ([`offers`](offers.rs)); until it is taken, and if it never is, packets go by UDP ([`peer`](peer.rs)). So
//! an offer makes nobody wait. A ring that fails is left for UDP. What was in it counts as lost.
//!
//! Which addresses are of this host is known from the list of NICs ([`crate::host::registry`]), which only
//! this user can write: the NIC with the slot must stand there, and be alive. The receiver asks the same of
//! the source addresses that a sender claims. The dead cannot be asked about, so a NIC that ends waits for
//! a moment until its packets are taken.
//!
//! **Invariants:** a ring says *asleep* only while whoever watches it is about to sleep, or does. A producer
//! that finds it so rings the doorbell, once. Nothing that a peer writes, or leaves undone, makes this side
//! wait, reach other memory, or loop for ever.

mod offers;
mod peer;
pub(crate) mod ring;
#[cfg(test)]
mod tests;

use core::net::IpAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rdma::{Gid, Time};
use transport::Run;

use self::offers::{Delivery, Kind, Message, Offers};
pub(crate) use self::peer::RingPacket;
use self::peer::{Opened, Out, Peer};
use self::ring::{Broken, Consumer, Producer, State};
use crate::ProcessMemory;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::host::registry::Registry;
use crate::host::steering::{Member, is_ownable, slot_of};
use crate::limits::{
    CHOICES_MAX, OFFER_BATCH, OFFER_INTERVAL, OFFER_PAUSE, PEER_CHECK_INTERVAL, RING_BATCH,
    RING_RELEASE, RINGS_MAX, RUNS_AMONG_MAX, RUNS_BEFORE_OFFER, SLOTS,
};
use crate::packet::{Flow, Missed, Pushed};
use crate::sys;

/// The rings of a NIC.
#[derive(Debug)]
pub(crate) struct Shm {
    /// `None`: there are no rings, and no other NIC is told otherwise.
    offers: Option<Offers>,
    /// By slot.
    peers: Box<[Option<Box<Peer>>]>,
    /// The slots of peers whose rings are read.
    sources: Vec<u16>,
    /// Peers whose rings we have taken, and read once what they sent by UDP before has been read.
    newcomers: Vec<u16>,
    /// When a ring may be offered again.
    next_offer: Time,
    /// Runs of packets so far, to anybody.
    runs: u64,
    /// Where addresses are, by the slot that the packet is for.
    choices: Box<[Vec<Choice>]>,
    /// The slots of peers that packets were put into rings for since the doorbells were rung, and of those whose
    /// packets were taken since then.
    touched: Vec<u16>,
    owed: Vec<u16>,
    /// Whether whoever watches sleeps, and is to be woken by packets.
    asleep: bool,
}

/// Where an address is.
#[derive(Clone, Copy, Debug)]
struct Choice {
    destination: Gid,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Not known to be here. `runs` went there by UDP since the NIC's run number `since`.
    Unknown {
        runs: u32,
        since: u64,
    },
    /// At a NIC of this host and user.
    Here,
    Elsewhere,
}

impl Place {
    const NEW: Self = Self::Unknown { runs: 0, since: 0 };
}

impl Shm {
    /// Takes rings from now on, as the owner of `registry`'s slot, if this host and process can.
    pub(crate) fn open(registry: &Registry) -> Self {
        let offers = Producer::create(0).and_then(|(_ring, file)| {
            // Who could not make one could not take one either.
            Consumer::open(file.as_fd(), 0)?;
            Offers::bind(registry.namespace(), registry.member())
        });
        let offers = offers.inspect_err(|error| tracing::debug!(%error, "no rings"));
        Self { offers: offers.ok(), ..Self::none() }
    }

    /// No rings.
    pub(crate) fn none() -> Self {
        Self {
            offers: None,
            peers: (0..SLOTS).map(|_| None).collect(),
            sources: Vec::new(),
            newcomers: Vec::new(),
            next_offer: Time::ZERO,
            runs: 0,
            choices: (0..SLOTS).map(|_| Vec::new()).collect(),
            touched: Vec::new(),
            owed: Vec::new(),
            asleep: false,
        }
    }

    /// Whether packets to `slot` at `destination` that are built at `now` go through a ring. Where there is
    /// none, one may be offered.
    pub(crate) fn reach_or_offer(
        &mut self,
        registry: &Registry,
        destination: Gid,
        slot: u16,
        now: Time,
        counts: &mut Counts,
    ) -> bool {
        if self.offers.is_none() || !is_ownable(slot) || slot == registry.slot() {
            return false;
        }
        self.runs += 1;
        let all = self.runs;
        // Who has a slot may have a ring already, by another of its addresses: no packet may go beside it.
        let has_peer = self.peers[usize::from(slot)].is_some();
        let is_here = match &mut self.choice(destination, slot).place {
            Place::Elsewhere => false,
            Place::Here => self.is_there(registry, slot, now),
            Place::Unknown { .. } if has_peer => self.find(registry, destination, slot),
            Place::Unknown { runs, since } => {
                if all - *since > RUNS_AMONG_MAX {
                    (*runs, *since) = (0, all);
                }
                *runs += 1;
                *runs > RUNS_BEFORE_OFFER
                    && self.may_offer(now, counts)
                    && self.find(registry, destination, slot)
            }
        };
        let peer = self.peers[usize::from(slot)].as_mut().filter(|_| is_here);
        let Some(peer) = peer else { return false };
        peer.hears(now, counts);
        match &peer.out {
            Out::Open(_) => true,
            Out::None(next) if *next <= now => {
                self.offer(registry, slot, now, counts);
                false
            }
            Out::None(_) | Out::Offered(_) | Out::Closed => false,
        }
    }

    /// Looks whether a peer that leaves packets in its ring is dead.
    fn is_there(&mut self, registry: &Registry, slot: u16, now: Time) -> bool {
        let Some(peer) = &mut self.peers[usize::from(slot)] else { return false };
        let Out::Open(ring) = &mut peer.out else { return true };
        if now < peer.next_check {
            return true;
        }
        peer.next_check = now + PEER_CHECK_INTERVAL;
        if ring.is_empty() == Ok(true) || registry.is_alive(peer.member) {
            return true;
        }
        self.forget(slot);
        false
    }

    /// What is known of `slot` at `destination`, among the choices of the slot.
    #[inline]
    fn choice(&mut self, destination: Gid, slot: u16) -> &mut Choice {
        let choices = &mut self.choices[usize::from(slot)];
        let known = choices.iter().position(|choice| choice.destination == destination);
        let at = known.unwrap_or_else(|| {
            if choices.len() == CHOICES_MAX {
                // What is found out again is the same, and at once where there is a peer.
                choices.remove(0);
            }
            choices.push(Choice { destination, place: Place::NEW });
            choices.len() - 1
        });
        &mut choices[at]
    }

    /// Looks whether a NIC of this host and user has `slot` at `destination`: files are opened and read, and a
    /// lock is asked about.
    #[cold]
    fn find(&mut self, registry: &Registry, destination: Gid, slot: u16) -> bool {
        let address = destination.ip();
        let place = match registry.member_at(address, slot) {
            Ok(Some(member)) => {
                self.peer(member);
                Place::Here
            }
            // Nobody can get what is sent there now, so it may be decided again.
            Ok(None) => Place::NEW,
            Err(error) if error.kind() == io::ErrorKind::NotFound && address.is_loopback() => {
                Place::NEW
            }
            // An address of another host, or nobody can say.
            Err(error) => {
                tracing::debug!(%address, slot, %error, "by UDP");
                Place::Elsewhere
            }
        };
        self.choice(destination, slot).place = place;
        place == Place::Here
    }

    /// Whether a ring may be offered to anybody at `now`: not at once after another, nor while there are as many
    /// as there may be.
    fn may_offer(&mut self, now: Time, counts: &mut Counts) -> bool {
        if now < self.next_offer {
            return false;
        }
        let rings = self.peers.iter().flatten().filter(|peer| peer.has_ring()).count();
        if rings >= RINGS_MAX {
            self.next_offer = now + OFFER_PAUSE;
            counts.rings_refused += 1;
            return false;
        }
        true
    }

    /// Makes a ring to the peer at `slot`, and offers it, without waiting.
    fn offer(&mut self, registry: &Registry, slot: u16, now: Time, counts: &mut Counts) {
        if !self.may_offer(now, counts) {
            return;
        }
        self.next_offer = now + OFFER_INTERVAL;
        let (Some(peer), Some(offers)) = (&mut self.peers[usize::from(slot)], &self.offers) else {
            return;
        };
        if !registry.is_alive(peer.member) {
            self.forget(slot);
            return;
        }
        let made = sys::random().and_then(|nonce| {
            let (ring, file) = Producer::create(nonce)?;
            let message = Message { kind: Kind::Offer, from: registry.member(), nonce };
            offers.send(peer.member, message, Some(file.as_fd()))?;
            Ok(ring)
        });
        match made {
            Ok(ring) => peer.offer(ring, now),
            Err(error) => {
                tracing::debug!(slot, %error, "no ring, so by UDP");
                peer.offer_failed(now, counts);
            }
        }
    }

    /// The peer that `member` is.
    fn peer(&mut self, member: Member) -> &mut Peer {
        let at = usize::from(member.slot);
        if self.peers[at].as_ref().is_some_and(|peer| peer.member != member) {
            self.forget(member.slot);
        }
        self.peers[at].get_or_insert_with(|| Box::new(Peer::new(member)))
    }

    /// Forgets a peer that is dead.
    fn forget(&mut self, slot: u16) {
        self.peers[usize::from(slot)] = None;
        self.choices[usize::from(slot)].clear();
        self.sources.retain(|source| *source != slot);
        self.newcomers.retain(|newcomer| *newcomer != slot);
    }

    /// No packets to a peer by its ring any more.
    fn close(&mut self, slot: u16, counts: &mut Counts) {
        if let Some(peer) = &mut self.peers[usize::from(slot)]
            && let Out::Open(ring) = &peer.out
        {
            tracing::debug!(slot, "the ring was closed");
            // The other side takes what comes by UDP now.
            ring.leave();
            counts.rings_refused += 1;
            peer.out = Out::Closed;
        }
    }

    /// The peer at `slot`, if there is a ring to it.
    fn open_peer(&mut self, slot: u16) -> Option<&mut Peer> {
        let peer = self.peers.get_mut(usize::from(slot))?.as_deref_mut()?;
        matches!(peer.out, Out::Open(_)).then_some(peer)
    }

    /// Whether the ring to `slot` has no room for another packet of any length, and that is waited for.
    pub(crate) fn is_filled(&mut self, slot: u16, counts: &mut Counts) -> bool {
        let Some(peer) = self.open_peer(slot) else { return false };
        match peer.has_room() {
            Ok(has_room) => {
                peer.given_up &= !has_room;
                !has_room && !peer.given_up
            }
            Err(Broken) => {
                counts.rings_broken += 1;
                self.close(slot, counts);
                false
            }
        }
    }

    /// Whether the ring to `slot` has no room; `None` if there is no ring.
    pub(crate) fn is_full(&mut self, registry: &Registry, slot: u16, now: Time) -> Option<bool> {
        if !self.is_there(registry, slot, now) {
            return None;
        }
        self.open_peer(slot).map(|peer| peer.has_room() == Ok(false))
    }

    /// Whether a NIC may still take what lies in its ring.
    pub(crate) fn is_untaken(&mut self, registry: &Registry) -> bool {
        self.peers.iter_mut().flatten().any(|peer| {
            let (given_up, member) = (peer.given_up, peer.member);
            let is_untaken = |ring: &mut Producer| !given_up && ring.is_untaken();
            peer.out().is_some_and(is_untaken) && registry.is_alive(member)
        })
    }

    /// Whether what is `missed` at `now`, or its answer, may still be under way to or from a NIC of this host
    /// ([`Peer::is_awaited`]). `is_in_sockets` says whether something lies in the sockets of a slot.
    pub(crate) fn may_still_lie(
        &mut self,
        registry: &Registry,
        missed: Missed,
        now: Time,
        is_in_sockets: impl FnOnce(u16) -> bool,
    ) -> bool {
        let Missed { destination, qpn, .. } = missed;
        let slot = slot_of(qpn.value());
        if !is_ownable(slot) {
            return false;
        }
        let at = usize::from(slot);
        let is_it = |choice: &Choice| choice.destination == destination;
        let known = self.choices[at].iter().find(|choice| is_it(choice));
        if known.is_none_or(|choice| choice.place != Place::Here) {
            return false;
        }
        let Some(peer) = &mut self.peers[at] else { return false };
        peer.is_awaited(registry, missed, is_in_sockets(slot), now)
    }

    /// Gives up waiting for `slot`: what it has no room for is dropped.
    pub(crate) fn give_up(&mut self, slot: u16) {
        if let Some(peer) = self.open_peer(slot) {
            peer.given_up = true;
        }
    }

    /// Puts a packet into the ring of `flow`.
    pub(crate) fn push(&mut self, flow: &Flow, packet: &[u8], counts: &mut Counts) {
        self.send(flow.slot, counts, |peer, counts| peer.push(flow, packet, counts));
    }

    /// Writes packets to the ring of `flow`, from where their payload lies.
    pub(crate) fn write(
        &mut self,
        flow: &Flow,
        run: &Run<'_>,
        memory: &ProcessMemory,
        counts: &mut Counts,
    ) -> Pushed {
        let pushed =
            self.send(flow.slot, counts, |peer, counts| peer.write(flow, run, memory, counts));
        pushed.unwrap_or(Pushed { packets: 1, ..Pushed::default() })
    }

    /// Has `send` put packets into the ring to `slot`, whose doorbell may have to be rung then. `None`
    /// if there is no ring (any more), and a packet was dropped.
    fn send<T>(
        &mut self,
        slot: u16,
        counts: &mut Counts,
        send: impl FnOnce(&mut Peer, &mut Counts) -> Result<T, Broken>,
    ) -> Option<T> {
        let peer = self.peers[usize::from(slot)].as_deref_mut();
        let sent = peer.map(|peer| {
            if !core::mem::replace(&mut peer.touched, true) {
                self.touched.push(slot);
            }
            send(peer, counts)
        });
        if let Some(Err(Broken)) = sent {
            counts.rings_broken += 1;
            self.close(slot, counts);
        }
        let sent = sent.and_then(Result::ok);
        counts.tx_dropped += u64::from(sent.is_none());
        sent
    }

    /// What was taken so far has been answered. Wakes those that sleep, after packets were pushed.
    pub(crate) fn ring_doorbells(&mut self, registry: &Registry, counts: &mut Counts) {
        while let Some(slot) = self.owed.pop() {
            if let Some(peer) = &mut self.peers[usize::from(slot)] {
                peer.answer();
            }
        }
        while let Some(slot) = self.touched.pop() {
            let Some(peer) = &mut self.peers[usize::from(slot)] else { continue };
            peer.touched = false;
            let Out::Open(ring) = &mut peer.out else { continue };
            match ring.wakes() {
                State::Awake => {}
                State::Asleep => {
                    counts.ring_doorbells += 1;
                    let doorbell =
                        Message { kind: Kind::Doorbell, from: registry.member(), nonce: 0 };
                    let rung = self.offers.as_ref().map(|it| it.send(peer.member, doorbell, None));
                    // A queue that is full of messages wakes it as well. Where no doorbell can be rung, what
                    // goes by UDP wakes it.
                    if let Some(Err(error)) = rung
                        && error.kind() != io::ErrorKind::WouldBlock
                    {
                        tracing::debug!(slot, %error, "no doorbell");
                        self.close(slot, counts);
                    }
                }
                State::Offered | State::Gone => self.close(slot, counts),
            }
        }
    }

    /// Takes the messages that have arrived, unless they are to wake the thread: a doorbell that another
    /// takes would leave it asleep, and no second one comes.
    pub(crate) fn receive_messages(&mut self, registry: &Registry, counts: &mut Counts) {
        if self.asleep {
            return;
        }
        for _ in 0..OFFER_BATCH {
            let Some(arrived) = self.offers.as_ref().and_then(Offers::receive) else { return };
            let Some(Delivery { message, file }) = arrived else { continue };
            let Message { kind, from, nonce } = message;
            match kind {
                Kind::Doorbell => {}
                Kind::Offer => {
                    let ring = file
                        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
                        .and_then(|file| Consumer::open(file.as_fd(), nonce));
                    if let Err(error) = ring.and_then(|ring| self.accept(registry, from, ring)) {
                        tracing::debug!(slot = from.slot, %error, "an offer is refused");
                        counts.rings_refused += 1;
                    } else {
                        counts.rings_taken += 1;
                    }
                }
            }
        }
    }

    fn accept(&mut self, registry: &Registry, from: Member, ring: Consumer) -> io::Result<()> {
        let is_nic = is_ownable(from.slot) && from.slot != registry.slot();
        let taken = self.sources.len() + self.newcomers.len();
        let refused = match is_nic && registry.is_alive(from) {
            false => Some(io::ErrorKind::NotConnected),
            true if taken >= RINGS_MAX => Some(io::ErrorKind::QuotaExceeded),
            true => None,
        };
        if let Some(kind) = refused {
            ring.leave();
            return Err(kind.into());
        }
        self.peer(from).accept(ring)?;
        self.newcomers.push(from.slot);
        Ok(())
    }

    /// What becomes readable when the doorbell rings.
    pub(crate) fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.offers.as_ref().map(AsFd::as_fd)
    }

    /// Whether anything comes by rings.
    #[inline]
    pub(crate) fn has_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// The rings of `slots`.
    #[inline]
    fn rings<'a>(&'a self, slots: &'a [u16]) -> impl Iterator<Item = &'a Consumer> {
        let ring = |slot: &u16| self.peers[usize::from(*slot)].as_deref()?.from();
        slots.iter().filter_map(ring)
    }

    /// Whether something lies in a ring that is not read before all sockets have been looked at.
    #[inline]
    pub(crate) fn awaits_sockets(&self) -> bool {
        self.rings(&self.newcomers).any(|ring| !ring.is_empty())
    }

    /// A look at all sockets begins.
    pub(crate) fn before_all_sockets(&mut self) {
        for slot in &self.newcomers {
            if let Some(peer) = &mut self.peers[usize::from(*slot)] {
                peer.before_all_sockets();
            }
        }
    }

    /// A look at all sockets is over, and has found all of them empty or not. Rings whose turn it is are
    /// read from now on.
    pub(crate) fn after_all_sockets(&mut self, is_empty: bool) {
        let Self { peers, sources, newcomers, .. } = self;
        newcomers.retain(|slot| {
            let peer = peers[usize::from(*slot)].as_mut();
            let is_in_turn = peer.is_some_and(|peer| peer.is_in_turn(is_empty));
            if is_in_turn {
                sources.push(*slot);
            }
            !is_in_turn
        });
    }

    /// Whether the NIC with `slot` lives and sends packets between these addresses through its ring. One
    /// that has died since may have left its slot to another, which has no ring.
    pub(crate) fn sends_between(
        &mut self,
        registry: &Registry,
        (source, destination): (Gid, Gid),
        slot: u16,
        now: Time,
    ) -> bool {
        let Some(peer) = &mut self.peers[usize::from(slot)] else { return false };
        if !peer.sends_between(source, destination) {
            return false;
        }
        if now < peer.next_refusal_check {
            return true;
        }
        peer.next_refusal_check = now + PEER_CHECK_INTERVAL;
        let is_alive = registry.is_alive(peer.member);
        if !is_alive && peer.from().is_none_or(Consumer::is_empty) {
            self.forget(slot);
        }
        is_alive
    }

    /// Whether there is something in one that is read.
    #[inline]
    pub(crate) fn has_packets(&self) -> bool {
        self.rings(&self.sources).any(|ring| !ring.is_empty())
    }

    /// Takes what lies in the rings, some of each, and has `handle` see the packets. The first `most`
    /// bytes of each, or all, are copied to the beginning of `buffer`. `is_ours` says whether an
    /// address is this NIC's.
    pub(crate) fn receive(
        &mut self,
        (buffer, most): (&mut [u8], usize),
        registry: &Registry,
        is_ours: impl Fn(IpAddr) -> bool,
        engine: &mut Engine<'_>,
        mut handle: impl FnMut(&RingPacket<'_>, &mut Engine<'_>),
    ) {
        for &slot in &self.sources {
            let Some(peer) = &mut self.peers[usize::from(slot)] else { continue };
            let member = peer.member;
            let mut taken = 0;
            while taken < RING_BATCH {
                let next = peer.next(buffer, most, |pair| {
                    Ok(is_ours(pair.destination.ip())
                        && registry.member_at(pair.source.ip(), slot)? == Some(member))
                });
                match next {
                    Ok(None) => break,
                    Ok(Some(Opened::Packet(packet))) => handle(&packet, engine),
                    Ok(Some(Opened::Declaration)) => {}
                    Ok(Some(Opened::Untrue)) => engine.counts.ring_rx_dropped += 1,
                    Err(Broken) => {
                        tracing::warn!(slot, "a NIC of this host has written nonsense to its ring");
                        engine.counts.rings_broken += 1;
                        peer.turn_away();
                        break;
                    }
                }
                taken += 1;
                if taken.is_multiple_of(RING_RELEASE) {
                    peer.release();
                }
            }
            if !taken.is_multiple_of(RING_RELEASE) {
                peer.release();
            }
            if taken > 0 && !core::mem::replace(&mut peer.is_owed, true) {
                self.owed.push(slot);
            }
        }
    }

    /// Whoever watches goes to sleep, or has woken up. Returns whether there is something in a ring
    /// already.
    pub(crate) fn set_asleep(&mut self, asleep: bool) -> bool {
        self.asleep = asleep;
        let mut is_work_left = false;
        for ring in self.rings(&self.sources).chain(self.rings(&self.newcomers)) {
            ring.set_asleep(asleep);
            is_work_left |= !ring.is_empty();
        }
        is_work_left
    }

    /// Forgets the peers that have died, when what they have left is taken.
    pub(crate) fn bury_the_dead(&mut self, registry: &Registry) {
        for slot in 0..SLOTS {
            let Some(peer) = &self.peers[usize::from(slot)] else { continue };
            let is_empty = peer.from().is_none_or(Consumer::is_empty);
            if is_empty && !registry.is_alive(peer.member) {
                self.forget(slot);
            }
        }
    }

    /// Tells those who send that nobody will look any more.
    pub(crate) fn leave(&self) {
        for ring in self.peers.iter().flatten().filter_map(|peer| peer.from()) {
            ring.leave();
        }
    }
}
