//! The links of a partition, alive: its ports, the packets under way, and the events that are due.
//!
//! ```text
//!   transmit(port, packet)
//!     t                       the first bit leaves; the port is busy
//!     t + (8 + frame) bytes   + propagation [+ latency of a switch]: Arrive at the other end
//!     t + (8 + frame + 12) bytes: the port is free again
//! ```
//!
//! A switch that cuts through begins earlier than that: [`head_start`]. Its packets arrive as all others
//! do, with their last bit, and a port that was free meanwhile takes them as if from their first.
//!
//! A port that has nothing more to send schedules no event for the end of its frame. It remembers until
//! when it is busy; if more work comes sooner, an [`EventKind::Sent`] is scheduled then. So an uncongested
//! hop is one event.
//!
//! Hosts and switches act on the network through [`Links`] alone: they read the time, schedule events, send
//! packets, and drop them.
//!
//! Port numbers are unique in the whole network, and those of a partition follow each other. What is sent
//! to a port of another partition waits in a [`Mailbox`] until the partitions meet.

mod event;
mod filter;
mod mail;
mod pauses;

use std::sync::Arc;

use prefetch_index::prefetch_index;
use rdma::Rate;

use crate::address::Tuple;
use crate::capture::{Seen, Tap};
use crate::counters::{Drop, Drops};
use crate::events::{Events, Meaning};
use crate::packet::{GAP_BYTES, PREAMBLE_BYTES, Pool};
use crate::pfc::{PRIORITIES, PfcConfig};
use crate::random::split_mix;
use crate::rate::LineRate;
use crate::topology::End;
use pauses::PauseState;

use event::is_of_packet;
pub(crate) use event::{Event, EventKind};
pub(crate) use filter::Down;
use filter::Filter;
pub(crate) use mail::Mailbox;

/// One end of a link, in one cache line: each hop of a packet touches two.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// When the next frame may be sent: the end of the last one, and the gap behind it.
    pub(crate) free_at: u64,
    /// From the last bit sent to the packet's arrival at its queue or engine.
    delay: u64,
    pub(crate) rate: LineRate,
    /// The port at the other end.
    pub(crate) peer: u32,
    /// The partition of the network that it is in.
    pub(crate) peer_partition: u16,
    /// Its number at its node.
    pub(crate) local: u16,
    /// Queues that have packets (switches only).
    pub(crate) occupied: u8,
    /// Queues, or priorities of a host, that the other end has paused.
    pub(crate) paused: u8,
    /// Priorities that this end has told the other to stop.
    pub(crate) off: u8,
    /// Priorities that a pause frame is still to be sent for.
    pub(crate) pending: u8,
    /// An [`EventKind::Sent`] is scheduled.
    pub(crate) armed: bool,
    /// An [`EventKind::Renew`] is scheduled.
    renewing: bool,
    /// It has a filter.
    pub(crate) filtered: bool,
    /// Queues from which the switch's watchdog has taken the lossless mode.
    pub(crate) stormed: u8,
    /// Queues that obey no pauses, because of a watchdog.
    pub(crate) deaf: u8,
    /// Of a host's port: the host is not dead.
    pub(crate) alive: bool,
    /// Queues that go before all others (switches only).
    pub(crate) strict: u8,
    /// What is at the other end (switches only).
    pub(crate) class: PortClass,
    /// The host or switch that has it.
    pub(crate) node: End,
    /// The place of its node among those of its partition.
    pub(crate) slot: u32,
    pub(crate) pauses: Box<PauseSettings>,
}

/// What is at the other end of a port of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PortClass(u8);

impl PortClass {
    const SERVES: u8 = 1;
    const TRUNK: u8 = 2;

    pub(crate) fn new(serves: bool, is_trunk: bool) -> Self {
        Self(if serves { Self::SERVES } else { 0 } | if is_trunk { Self::TRUNK } else { 0 })
    }

    /// A server.
    #[inline]
    pub(crate) fn serves(self) -> bool {
        self.0 & Self::SERVES != 0
    }

    /// Packets leave with a VLAN tag.
    #[inline]
    pub(crate) fn is_trunk(self) -> bool {
        self.0 & Self::TRUNK != 0
    }
}

/// The settings of a port that only pauses need.
#[derive(Clone, Debug)]
pub(crate) struct PauseSettings {
    /// From the last bit sent to a pause frame's arrival.
    delay: u64,
    pub(crate) pfc: PfcConfig,
    /// The queue that each priority's pauses stop.
    pub(crate) priority_to_queue: [u8; PRIORITIES],
}

impl Port {
    /// A port that is not connected yet.
    pub(crate) fn new(node: End, local: u16, rate: Rate, pfc: PfcConfig) -> Self {
        Self {
            free_at: 0,
            delay: 0,
            rate: LineRate::new(rate),
            peer: u32::MAX,
            peer_partition: 0,
            local,
            occupied: 0,
            paused: 0,
            off: 0,
            pending: 0,
            armed: false,
            renewing: false,
            filtered: false,
            stormed: 0,
            deaf: 0,
            alive: true,
            strict: 0,
            class: PortClass::default(),
            node,
            slot: 0,
            pauses: Box::new(PauseSettings {
                delay: 0,
                pfc,
                priority_to_queue: [0, 1, 2, 3, 4, 5, 6, 7],
            }),
        }
    }

    /// Connects it to `peer`, over a link of `propagation` picoseconds. `latency` is what the node there
    /// takes to bring a packet to its queue.
    pub(crate) fn connect(&mut self, peer: u32, propagation: u64, latency: u64) {
        self.peer = peer;
        self.delay = propagation + latency;
        self.pauses.delay = propagation;
    }

    /// Of a switch's port: whether it is free, a packet of `queue` may leave, and nothing else could.
    #[inline]
    pub(crate) fn is_idle_for(&self, queue: usize, now: u64) -> bool {
        let busy = self.armed || self.free_at > now || self.pending != 0;
        let others = self.occupied & !self.paused;
        !busy && others == 0 && (self.occupied | self.paused) >> queue & 1 == 0
    }

    /// When a frame of `bytes` that begins to leave at `at` arrives, and when the port is free for the
    /// next.
    pub(crate) fn hop(&self, at: u64, bytes: u64) -> (u64, u64) {
        let arrives = at + self.rate.ps(PREAMBLE_BYTES + bytes) + self.delay;
        (arrives, at + self.rate.ps(PREAMBLE_BYTES + bytes + GAP_BYTES))
    }

    /// From the last bit of a packet that it sends to the queue or engine at the other end, and the
    /// same of a pause frame, in picoseconds.
    pub(crate) fn delays(&self) -> (u64, u64) {
        (self.delay, self.pauses.delay)
    }

    /// Shorter than the time from any event here to its effect at the other end.
    pub(crate) fn lookahead(&self) -> u64 {
        self.pauses.delay + self.rate.ps(PREAMBLE_BYTES)
    }
}

/// What a switch that cuts through has seen of a packet when it sends its first bit on: the shortest frame of
/// Ethernet (IEEE 802.3, 3.2.8), in which all addresses are.
const HEAD_BYTES: u64 = 64;

/// How long before the last bit of a frame of `bytes` has come in at a rate its first may leave at another. A
/// faster port would run out of bits: it waits for the last.
#[inline]
pub(crate) fn head_start(ingress: LineRate, egress: LineRate, bytes: u64) -> u64 {
    if egress.rate() > ingress.rate() {
        return 0;
    }
    ingress.ps(bytes.saturating_sub(HEAD_BYTES))
}

/// Fetches the ports and packets of the next events from memory before they happen.
struct Prefetcher<'a> {
    ports: &'a [Port],
    pool: &'a Pool,
    first_port: u32,
}

impl Prefetcher<'_> {
    /// Nothing is fetched if there is no such port.
    #[inline]
    fn fetch_port(&self, port: u32) {
        prefetch_index(self.ports, port.wrapping_sub(self.first_port) as usize);
    }
}

impl Meaning for Prefetcher<'_> {
    #[inline]
    fn event(&self, kind: u8, number: u32) -> u64 {
        Event::of(kind, number, |packet| self.pool.port_of(packet)).0
    }

    #[inline]
    fn is_soon(&self, kind: u8, number: u32) {
        if is_of_packet(kind) {
            // Of ports there are few, and each has many packets.
            self.pool.fetch(number);
        } else {
            self.fetch_port(Event::of(kind, number, |_| 0).port());
        }
    }

    #[inline]
    fn is_next(&self, event: u64) {
        let event = Event(event);
        self.fetch_port(event.port());
        // If the argument is no packet, nothing is fetched.
        self.pool.fetch(event.argument());
    }
}

/// What all partitions of a network know, and none changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    /// The seed of everything that is random.
    pub(crate) seed: u64,
    pub(crate) tuples: Arc<[Tuple]>,
    /// By host: its port.
    pub(crate) host_ports: Arc<[u32]>,
    /// By host: the switch that it hangs on, `u32::MAX` for none.
    pub(crate) racks: Arc<[u32]>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) common: Common,
    /// The number of this partition.
    partition: u16,
    /// The number of the first of its ports.
    first_port: u32,
    ports: Vec<Port>,
    /// By port, once it has been paused or has paused.
    pauses: Vec<Option<Box<PauseState>>>,
    /// By receiving port, where there is one.
    filters: Vec<Option<Box<Filter>>>,
    events: Events,
    pub(crate) pool: Pool,
    /// By partition: what goes there.
    pub(crate) outbox: Vec<Mailbox>,
    pub(crate) drops: Drops,
    /// Packets (pauses not counted) that were put on a link.
    pub(crate) link_hops: u64,
    /// Packets made by engines, and copies made by flooding.
    pub(crate) created: u64,
    /// Packets taken by engines.
    pub(crate) delivered: u64,
    pub(crate) pfc_frames: u64,
    /// Pause frames that are on a link, or not obeyed yet.
    pub(crate) pfc_in_flight: usize,
}

impl Links {
    /// The links of partition `partition` of `partitions`. The first of its `ports` has the number
    /// `first_port`.
    pub(crate) fn new(
        common: Common,
        (partition, partitions): (u16, u16),
        first_port: u32,
        ports: Vec<Port>,
    ) -> Self {
        Self {
            common,
            partition,
            first_port,
            pauses: ports.iter().map(|_| None).collect(),
            filters: ports.iter().map(|_| None).collect(),
            ports,
            events: Events::default(),
            pool: Pool::default(),
            outbox: (0..partitions).map(|_| Mailbox::default()).collect(),
            drops: Drops::default(),
            link_hops: 0,
            created: 0,
            delivered: 0,
            pfc_frames: 0,
            pfc_in_flight: 0,
        }
    }

    /// Its ports.
    pub(crate) fn ports(&self) -> core::ops::Range<u32> {
        self.first_port..self.first_port + self.ports.len() as u32
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.events.now()
    }

    /// Schedules an event of a port, `delay` picoseconds from now.
    #[inline]
    pub(crate) fn schedule(&mut self, delay: u64, kind: EventKind, port: u32, argument: u32) {
        let event = Event::new(kind, port, argument);
        match event.number() {
            Some(number) => self.events.push_short(delay, event.code(), number, || event.0),
            None => self.events.push(delay, event.0),
        }
    }

    /// Takes the next event, if it is due at `end` or before. What the events soon after it touch is fetched
    /// from memory meanwhile: there are more packets than any cache holds.
    #[inline]
    pub(crate) fn next(&mut self, end: u64) -> Option<Event> {
        let Self { events, ports, pool, first_port, .. } = self;
        events.pop(end, &Prefetcher { ports, pool, first_port: *first_port }).map(Event)
    }

    /// A time before which nothing happens; `None` if nothing is to happen.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.events.next_at()
    }

    /// Moves the time on to `at`, before which nothing happens.
    pub(crate) fn advance(&mut self, at: u64) {
        self.events.advance(at);
    }

    /// Shorter than the time from any event here to its effect in another partition;
    /// `None` if no link leads to one.
    pub(crate) fn lookahead(&self) -> Option<u64> {
        let leaving = self.ports.iter().filter(|port| port.peer_partition != self.partition);
        leaving.map(Port::lookahead).min()
    }

    /// Where a port stands in its vectors.
    #[inline]
    fn place(&self, port: u32) -> usize {
        port.wrapping_sub(self.first_port) as usize
    }

    /// A port of this partition.
    #[inline]
    pub(crate) fn at(&self, port: u32) -> &Port {
        &self.ports[(port - self.first_port) as usize]
    }

    /// A port of this partition.
    #[inline]
    pub(crate) fn port(&mut self, port: u32) -> &mut Port {
        &mut self.ports[(port - self.first_port) as usize]
    }

    /// The port of a host, which is of this partition.
    #[inline]
    pub(crate) fn host_port(&self, host: u32) -> &Port {
        self.at(self.common.host_ports[host as usize])
    }

    /// Sends a packet from a port that is free.
    // One copy of it, which stays in the cache.
    #[inline(never)]
    pub(crate) fn transmit(&mut self, port: u32, packet: u32) {
        self.link_hops += 1;
        self.put_on_link(port, packet, EventKind::Arrive, 0, |at| at.delay);
    }

    /// Sends a packet from a port that is free, through a switch that cuts through: what has come in by
    /// `ingress` has been leaving since its head was here, or since the frame before it was gone.
    #[inline(never)]
    pub(crate) fn transmit_through(&mut self, ingress: u32, port: u32, packet: u32) {
        let bytes = u64::from(self.pool.get(packet).bytes);
        let (from, to) = (self.at(ingress).rate, self.at(port));
        let free_for = self.now() - to.free_at;
        let sent = head_start(from, to.rate, bytes).min(free_for);
        self.link_hops += 1;
        self.put_on_link(port, packet, EventKind::Arrive, sent, |at| at.delay);
    }

    /// `sent` picoseconds ago it began.
    #[inline(always)]
    fn put_on_link(
        &mut self,
        port: u32,
        packet: u32,
        kind: EventKind,
        sent: u64,
        delay: impl FnOnce(&Port) -> u64,
    ) {
        let now = self.events.now();
        let at = &mut self.ports[(port - self.first_port) as usize];
        let of = self.pool.get_mut(packet);
        debug_assert!(at.free_at <= now, "a port sends one frame at a time");
        let bytes = u64::from(of.bytes);
        let (peer, partition) = (at.peer, at.peer_partition);
        of.next = peer;
        let delay = at.rate.ps(PREAMBLE_BYTES + bytes) + delay(at) - sent;
        at.free_at = now + at.rate.ps(PREAMBLE_BYTES + bytes + GAP_BYTES) - sent;
        if partition == self.partition {
            let event = || Event::new(kind, peer, packet).0;
            self.events.push_short(delay, kind as u8, packet, event);
        } else {
            self.post(usize::from(partition), now + delay, packet);
        }
    }

    /// Asks for an [`EventKind::Sent`] when the port is free, unless one is on its way.
    #[inline]
    pub(crate) fn arm(&mut self, port: u32) {
        let now = self.events.now();
        let at = self.port(port);
        if !at.armed {
            at.armed = true;
            let delay = at.free_at.saturating_sub(now);
            let (number, event) = Event::of_port(EventKind::Sent, port);
            self.events.push_short(delay, EventKind::Sent as u8, number, || event.0);
        }
    }

    /// Drops a packet, and counts why.
    pub(crate) fn drop_packet(&mut self, packet: u32, cause: Drop) {
        self.drops.add(cause);
        self.pool.free(packet);
    }

    /// Lets a filter judge a packet that arrives at `port`.
    #[cold]
    pub(crate) fn judge(&mut self, port: u32, packet: u32) -> Option<Drop> {
        let of = self.pool.get(packet);
        let tuple = self.common.tuples.get(of.tuple as usize);
        let place = self.place(port);
        let filter = self.filters[place].as_mut()?;
        let lost = filter.judge(of, tuple);
        for tap in &mut filter.taps {
            tap.see(self.events.now(), &self.pool, packet, tuple.copied(), lost.is_some());
        }
        if lost.is_none()
            && let Some(random) = filter.corrupts()
        {
            self.pool.corrupt(packet, random);
        }
        lost
    }

    /// The tap that records what arrives at `port`, for a capture that lives or for the file at the end.
    pub(crate) fn tap(&self, port: u32, live: Option<u32>) -> Option<&Tap> {
        self.filters[self.place(port)].as_ref()?.taps.iter().find(|tap| tap.live == live)
    }

    /// Frames that were damaged on the link to `port`, and whether it is down.
    pub(crate) fn damage(&self, port: u32) -> (u64, bool) {
        let filter = self.filters[self.place(port)].as_ref();
        filter.map_or((0, false), |filter| (filter.damaged, filter.down != 0))
    }

    /// Puts a tap at `port`.
    pub(crate) fn install(&mut self, port: u32, tap: Tap) {
        self.filter(port).taps.push(tap);
    }

    /// What the tap of a live capture at `port` has seen, and how many frames it missed.
    pub(crate) fn take_seen(&mut self, port: u32, live: u32) -> (Vec<Seen>, u64) {
        let place = self.place(port);
        let taps = self.filters[place].iter_mut().flat_map(|filter| &mut filter.taps);
        let tap = taps.into_iter().find(|tap| tap.live == Some(live));
        tap.map(Tap::take).unwrap_or_default()
    }

    /// Removes the tap of a live capture from `port`. What a filter remembers stays with it.
    pub(crate) fn uninstall(&mut self, port: u32, live: u32) {
        let place = self.place(port);
        let Some(filter) = &mut self.filters[place] else { return };
        filter.taps.retain(|tap| tap.live != Some(live));
        let idle = filter.is_idle();
        self.port(port).filtered = !idle;
    }

    /// The filter of what arrives at `port`, made if there is none yet.
    pub(crate) fn filter(&mut self, port: u32) -> &mut Filter {
        self.port(port).filtered = true;
        let seed = split_mix(self.common.seed ^ split_mix(u64::from(port)));
        let place = self.place(port);
        self.filters[place].get_or_insert_with(|| Box::new(Filter::new(seed)))
    }
}
