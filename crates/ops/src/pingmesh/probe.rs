//! The application that probes, and answers: the same on simulated hosts, soft NICs and RDMA devices.
//!
//! ```text
//!   targets, each due at a time ─► probe ─► under way ─► answered: round trip and delays ─┐
//!                                              │ no answer in time, refused, clocks ──────┤► window ─► Results
//!   probe of another ─► answer ─► when it has left: report
//! ```
//!
//! Datagrams have a queue pair for each group ([`super::pinglist`]). It sleeps between probes, and
//! an event wakes it; so what its processor takes is what any application there would wait.
//!
//! **Invariants:** no packet makes it panic, or remember more: what is under way has
//! [`OUTSTANDING`] places, and answers have as many as there are receives. A probe is counted under exactly one outcome.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdma::app::{
    App, Channel, Cq, CqSpec, LABELS_MAX, Layout, Qp, QpSpec, Region, RegionSpec, Verbs, Wait,
    Woke, flow_label,
};
use rdma::completion::NetworkHeader;
use rdma::{
    Access, Completion, CompletionOpcode, CompletionStatus, Gid, Operation, QKey, QpType,
    RecvRequest, SendFlags, Span, Time, UdAddress, WorkRequest,
};

use super::limits::{
    OUTSTANDING, PATIENCE, PROBE_BYTES, RECEIVES, ROUND_TRIP_MAX, TARGETS_LOOK, WINDOW,
    WINDOWS_HELD,
};
use super::message::{HEAD, Kind, Message};
use super::pinglist::Pinglist;
use super::raw::{Draw, Outcome, Raw, Times};
use super::scope::Scope;
use super::window::{Pair, Window};

/// Of a datagram, before its payload: the header in which it came.
const GRH: u64 = 40;
/// A place for a message, sent or received.
const PLACE: u64 = 576;
/// Completions that are taken at once.
const BATCH: usize = 16;
/// Probes that are posted in one step, at most, so that answers do not wait for long.
const POSTS: usize = 8;
const MEMORY: Region = Region(0);
const QUEUE: Cq = Cq(0);

/// What is told to a prober once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// How long a window is.
    pub window: Span,
    /// How long an answer may take.
    pub patience: Span,
    /// A round trip of the network beyond this is slow.
    pub slow: Span,
    /// The clock of windows at the zero of the world's, in nanoseconds.
    pub epoch_ns: u64,
    /// DSCP and ECN bits of its packets.
    pub traffic_class: u8,
    /// Receives of each queue pair.
    pub receives: u32,
    /// Completions say when the NIC had them. Where they do not, that is when they are polled, and what is posted counts as
    /// sent at once: a poll may find an answer before the completion of what was asked.
    pub nic_times: bool,
    /// It polls all the time and never sleeps: a core for it alone, and no awakening in any delay.
    pub polls: bool,
    /// When it sends its last probe. It waits for what is under way, and answers others for as long as they do.
    /// `None` if it serves as long as its world lives.
    pub until: Option<Time>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: WINDOW,
            patience: PATIENCE,
            // R-Pingmesh's agreement: p99 of 500 us.
            slow: Span::from_us(500),
            epoch_ns: 0,
            traffic_class: 3 << 2,
            receives: RECEIVES,
            nic_times: true,
            polls: false,
            until: None,
        }
    }
}

/// Where a target is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The peer of that number, on the channel of the queue pair.
    Peer(usize),
    /// An address that somebody has told.
    Address(UdAddress),
}

/// A target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Target {
    /// Its index in the topology.
    pub host: u32,
    /// How far away it is.
    pub scope: Scope,
    /// The queue pair by which it is probed.
    pub qp: Qp,
    /// Where it is there.
    pub place: Place,
    /// From one probe to the next.
    pub every: Span,
    /// Labels that its probes carry in turn.
    pub labels: u16,
}

/// What a prober hands on, and is told meanwhile. Clones are of the same one.
#[derive(Clone, Debug, Default)]
pub struct Results(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    windows: VecDeque<Window>,
    /// Windows that nobody took in time.
    overrun: u64,
    targets: Option<Vec<Target>>,
    is_over: bool,
}

impl Results {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The finished windows, the oldest first.
    pub fn take(&self) -> Vec<Window> {
        self.lock().windows.drain(..).collect()
    }

    /// Windows that were dropped because nobody took them.
    pub fn overrun(&self) -> u64 {
        self.lock().overrun
    }

    /// Whether nothing is under way any more, and nothing more will be.
    pub fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Other targets, from the next step on.
    pub fn retarget(&self, targets: Vec<Target>) {
        self.lock().targets = Some(targets);
    }
}

/// A target, and when its next probe is due.
#[derive(Clone, Debug)]
struct Aim {
    target: Target,
    due: Time,
    label: u16,
}

/// A probe that is under way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    sequence: u64,
    /// Of [`Prober::aims`], as they were when it was posted.
    host: u32,
    scope: Scope,
    label: u16,
    labels: u16,
    /// T1, T2, T5 and T6.
    posted: Time,
    left: Option<Time>,
    arrived: Option<(Time, Time)>,
    /// T4 - T3.
    delay: Option<Span>,
}

/// An answer that has not left yet.
#[derive(Clone, Copy, Debug)]
struct Owed {
    to: UdAddress,
    qp: Qp,
    label: u16,
    sequence: u64,
    /// T3.
    arrived: Time,
    posted: Time,
}

/// Which request a completion is of: kind above, place below. A probe has its sequence, because a place may have been
/// given up, and taken by another, before the NIC has sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Id {
    Probe(u64),
    Answer(usize),
    Report(usize),
    Receive(usize),
}

impl Id {
    fn pack(self) -> u64 {
        let (kind, place) = match self {
            Self::Probe(sequence) => (0, sequence),
            Self::Answer(place) => (1, place as u64),
            Self::Report(place) => (2, place as u64),
            Self::Receive(place) => (3, place as u64),
        };
        kind << 62 | place & (u64::MAX >> 2)
    }

    fn unpack(id: u64) -> Self {
        let below = id & (u64::MAX >> 2);
        let place = below as usize;
        match id >> 62 {
            0 => Self::Probe(below),
            1 => Self::Answer(place),
            2 => Self::Report(place),
            _ => Self::Receive(place),
        }
    }
}

/// A window that is not finished.
#[derive(Clone, Debug)]
struct Open {
    window: Window,
    draw: Draw,
}

impl Open {
    fn end(self) -> Window {
        Window { raw: self.draw.end(), ..self.window }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Prober {
    host: u32,
    settings: Settings,
    results: Results,
    regions: [RegionSpec; 1],
    cqs: [CqSpec; 1],
    qps: Vec<QpSpec>,
    aims: Vec<Aim>,
    flights: Vec<Option<Flight>>,
    /// Answers by place; places that are free.
    owed: Vec<Option<Owed>>,
    free: Vec<usize>,
    next_sequence: u64,
    /// The windows that are not finished, the oldest first: at most two and those that patience spans.
    windows: VecDeque<Open>,
    /// Of the datagrams of its world, once it has sent one.
    q_key: QKey,
    /// How long it may sleep at most: nobody wakes it for other targets.
    looks_every: Option<Span>,
}

impl Prober {
    /// The prober of a host that is in no group: it answers, and is told its targets by and by.
    /// `q_key` is that of the datagrams of its world.
    pub fn alone(host: u32, settings: Settings, results: Results, q_key: QKey) -> Self {
        let qp = QpSpec { labels: LABELS_MAX, ..QpSpec::new(QpType::Ud, Channel(0), QUEUE) };
        let looks_every = Some(TARGETS_LOOK);
        Self { q_key, looks_every, ..Self::new(host, settings, results, vec![qp], Vec::new()) }
    }

    /// The prober of a host with a pinglist: a queue pair for each of its groups, on the channel of that number.
    pub fn of(list: &Pinglist, settings: Settings, results: Results) -> Self {
        let qp = |duty: &super::pinglist::Duty| QpSpec {
            labels: duty.labels,
            ..QpSpec::new(QpType::Ud, Channel(duty.group), QUEUE)
        };
        let qps = list.duties.iter().map(qp).collect();
        let targets = (0..).zip(&list.duties).flat_map(|(qp, duty)| {
            duty.targets.iter().map(move |&peer| Target {
                host: duty.peers[peer],
                scope: duty.scope,
                qp: Qp(qp),
                place: Place::Peer(peer),
                every: duty.every,
                labels: duty.labels,
            })
        });
        Self::new(list.host, settings, results, qps, targets.collect())
    }

    fn new(
        host: u32,
        settings: Settings,
        results: Results,
        mut qps: Vec<QpSpec>,
        targets: Vec<Target>,
    ) -> Self {
        let receives = settings.receives.max(1);
        for qp in &mut qps {
            qp.traffic_class = settings.traffic_class;
            qp.send_depth = OUTSTANDING as u32 + 2 * receives;
            qp.recv_depth = receives;
        }
        let all = receives * qps.len() as u32;
        let places = u64::from(all) + OUTSTANDING as u64 + 2 * u64::from(all);
        let depth = 2 * places as u32;
        let answers = all as usize;
        let aim = |target| Aim { target, due: Time::ZERO, label: 0 };
        Self {
            host,
            settings,
            results,
            regions: [RegionSpec { length: places * PLACE, access: Access::LOCAL_WRITE }],
            cqs: [CqSpec { depth }],
            qps,
            aims: targets.into_iter().map(aim).collect(),
            flights: vec![None; OUTSTANDING],
            owed: vec![None; answers],
            free: (0..answers).rev().collect(),
            next_sequence: 0,
            windows: VecDeque::new(),
            q_key: QKey::default(),
            looks_every: None,
        }
    }

    /// What it hands on.
    pub fn results(&self) -> &Results {
        &self.results
    }

    // ---- places of messages in memory: receives, probes, answers, reports

    fn receives(&self) -> usize {
        self.owed.len()
    }

    fn at(&self, id: Id) -> u64 {
        let receives = self.receives();
        let place = match id {
            Id::Receive(place) => place,
            Id::Probe(sequence) => receives + slot_of(sequence),
            Id::Answer(place) => receives + OUTSTANDING + place,
            Id::Report(place) => 2 * receives + OUTSTANDING + place,
        };
        place as u64 * PLACE
    }

    fn qp_of(&self, receive: usize) -> Qp {
        Qp((receive / self.settings.receives.max(1) as usize) as u16)
    }

    // ---- time

    /// The time of windows.
    fn clock_ns(&self, at: Time) -> u64 {
        self.settings.epoch_ns.saturating_add(at.as_ns())
    }

    /// The window of a probe that was posted at `at`.
    fn window(&mut self, at: Time) -> &mut Open {
        let length_ns = (self.settings.window.as_ps() / 1_000).max(1);
        let now_ns = self.clock_ns(at);
        let start_ns = now_ns - now_ns % length_ns;
        let place = match self.windows.iter().position(|open| open.window.start_ns >= start_ns) {
            Some(place) if self.windows[place].window.start_ns == start_ns => place,
            found => {
                let place = found.unwrap_or(self.windows.len());
                let window = Window::new(self.host, start_ns, length_ns);
                let draw = Draw::new(self.host, start_ns);
                self.windows.insert(place, Open { window, draw });
                place
            }
        };
        &mut self.windows[place]
    }

    fn pair(&mut self, flight: &Flight) -> &mut Pair {
        let Flight { host, scope, labels, posted, .. } = *flight;
        let pairs = &mut self.window(posted).window.pairs;
        let place = match pairs.iter().position(|pair| pair.target == host && pair.scope == scope) {
            Some(place) => place,
            None => {
                pairs.push(Pair::new(host, scope, labels));
                pairs.len() - 1
            }
        };
        let pair = &mut pairs[place];
        let labels = pair.labels.len().max(usize::from(flight.label) + 1);
        pair.labels.resize(labels, Default::default());
        pair
    }

    /// What became of a probe: counted, and remembered if it is drawn.
    fn over(&mut self, flight: &Flight, outcome: Outcome, times: Option<Times>) -> &mut Pair {
        let Flight { host: target, scope, label, posted, .. } = *flight;
        let posted_ns = self.clock_ns(posted);
        let probe = Raw { target, scope, label, posted_ns, outcome, times };
        self.window(posted).draw.put(probe);
        let pair = self.pair(flight);
        pair.counts.end(outcome);
        pair
    }

    // ---- probes

    /// Posts those that are due. Returns when the next is.
    fn probe(&mut self, verbs: &mut dyn Verbs) -> Time {
        for _ in 0..POSTS {
            let now = verbs.now();
            let due = self.aims.iter().enumerate().min_by_key(|(_, aim)| aim.due);
            let Some((place, aim)) = due else { return Time::MAX };
            if aim.due > now {
                return aim.due;
            }
            let Target { host, scope, qp, place: to, every, labels } = aim.target;
            let label = aim.label;
            let aim = &mut self.aims[place];
            aim.label = (label + 1) % labels.max(1);
            // Those that were missed are not made up for.
            let late = now.since(aim.due).as_ps() / every.as_ps().max(1);
            aim.due += every * (late + 1);
            let address = match to {
                Place::Peer(peer) => verbs.remote_address(qp, peer),
                Place::Address(address) => Some(address),
            };
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            let flight = Flight {
                sequence,
                host,
                scope,
                label,
                labels,
                posted: now,
                left: None,
                arrived: None,
                delay: None,
            };
            self.pair(&flight).counts.sent += 1;
            let slot = slot_of(sequence);
            let is_free = self.flights[slot].is_none();
            let posted = address.filter(|_| is_free).is_some_and(|address| {
                self.q_key = address.q_key;
                let message = Message { kind: Kind::Probe, label, sequence };
                self.send(verbs, (qp, Id::Probe(sequence)), address, message, PROBE_BYTES)
            });
            if posted {
                self.flights[slot] = Some(flight);
            } else {
                self.over(&flight, Outcome::Refused, None);
            }
        }
        Time::ZERO
    }

    fn send(
        &self,
        verbs: &mut dyn Verbs,
        (qp, id): (Qp, Id),
        to: UdAddress,
        message: Message,
        length: u32,
    ) -> bool {
        let at = self.at(id);
        verbs.store(MEMORY, at, &message.emit());
        // A world that knows of no labels does what it does.
        let to = UdAddress { flow_label: flow_label(message.label), ..to };
        let request = WorkRequest {
            id: id.pack(),
            operation: Operation::Send { immediate: None, address: Some(to) },
            flags: SendFlags::SIGNALED,
            sges: &[verbs.region(MEMORY).sge(at, length)],
            inline: None,
        };
        verbs.post_send(qp, &[request]).is_ok()
    }

    /// The flight of a sequence, if it is under way.
    fn flight(&mut self, sequence: u64) -> Option<&mut Flight> {
        let flight = self.flights[slot_of(sequence)].as_mut();
        flight.filter(|flight| flight.sequence == sequence)
    }

    /// A flight that has all of its times is over.
    fn settle(&mut self, slot: usize) {
        let Some(flight) = self.flights[slot] else { return };
        let (Some(left), Some((arrived, seen)), Some(delay)) =
            (flight.left, flight.arrived, flight.delay)
        else {
            return;
        };
        self.flights[slot] = None;
        let around = arrived.since(left);
        let slow = self.settings.slow;
        let is_valid = arrived >= left && around >= delay && around <= ROUND_TRIP_MAX;
        if !is_valid {
            self.over(&flight, Outcome::Clocks, None);
            return;
        }
        let network = minus(around, delay);
        let own = minus(seen.since(flight.posted), around);
        let is_slow = network > slow;
        let outcome = if is_slow { Outcome::Slow } else { Outcome::Answered };
        let pair = self.over(&flight, outcome, Some(Times::new(network, delay, own)));
        pair.network.record(network);
        pair.responder.record(delay);
        let of_label = &mut pair.labels[usize::from(flight.label)];
        of_label.sent += 1;
        of_label.slow += u64::from(is_slow);
        self.window(flight.posted).window.prober.record(own);
    }

    /// Gives up what has waited for too long. Returns when the next has.
    fn expire(&mut self, now: Time) -> Time {
        let mut next = Time::MAX;
        for slot in 0..self.flights.len() {
            let Some(flight) = self.flights[slot] else { continue };
            let ends = flight.posted + self.settings.patience;
            if ends > now {
                next = next.min(ends);
                continue;
            }
            self.flights[slot] = None;
            let outcome = match (flight.left, flight.arrived) {
                // Our own NIC has not sent it: the network has had no part in that.
                (None, _) => Outcome::NotSent,
                (Some(_), None) => Outcome::NoAnswer,
                (Some(_), Some(_)) => Outcome::NoReport,
            };
            let pair = self.over(&flight, outcome, None);
            if outcome == Outcome::NotSent {
                continue;
            }
            let of_label = &mut pair.labels[usize::from(flight.label)];
            of_label.sent += 1;
            of_label.lost += 1;
        }
        next
    }

    // ---- what comes

    fn take(&mut self, verbs: &mut dyn Verbs, (completion, at): (Completion, Time)) {
        let times = self.settings.nic_times;
        let is_good = completion.status == CompletionStatus::Success;
        match Id::unpack(completion.id) {
            Id::Probe(sequence) => {
                let Some(flight) = self.flight(sequence) else { return };
                if is_good {
                    let left = if times { at } else { flight.posted };
                    flight.left.get_or_insert(left);
                    return self.settle(slot_of(sequence));
                }
                let flight = *flight;
                self.flights[slot_of(sequence)] = None;
                self.over(&flight, completion.status.into(), None);
            }
            Id::Answer(place) => {
                let Some(owed) = self.owed.get(place).copied().flatten() else { return };
                let left = if times { at } else { owed.posted };
                let delay = left.since(owed.arrived);
                let Owed { to, qp, label, sequence, .. } = owed;
                let message = Message { kind: Kind::Report { delay }, label, sequence };
                let is_told =
                    is_good && self.send(verbs, (qp, Id::Report(place)), to, message, HEAD as u32);
                if !is_told {
                    self.release(place);
                }
            }
            Id::Report(place) => self.release(place),
            Id::Receive(place) => {
                if place < self.receives() {
                    if is_good && completion.opcode == CompletionOpcode::Recv {
                        self.receive(verbs, place, &completion, at);
                    }
                    self.post_receive(verbs, place);
                }
            }
        }
    }

    fn release(&mut self, place: usize) {
        if self.owed.get_mut(place).and_then(Option::take).is_some() {
            self.free.push(place);
        }
    }

    fn post_receive(&self, verbs: &mut dyn Verbs, place: usize) {
        let id = Id::Receive(place);
        let sges = [verbs.region(MEMORY).sge(self.at(id), PLACE as u32)];
        // A queue pair that has failed takes none, and there is nothing to be done about that here.
        let _ = verbs.post_recv(self.qp_of(place), &[RecvRequest { id: id.pack(), sges: &sges }]);
    }

    fn receive(&mut self, verbs: &mut dyn Verbs, place: usize, completion: &Completion, at: Time) {
        let from = self.at(Id::Receive(place));
        if u64::from(completion.byte_len) < GRH + HEAD as u64 {
            return;
        }
        let mut head = [0; HEAD];
        verbs.load(MEMORY, from + GRH, &mut head);
        verbs.touch(MEMORY, from + GRH, HEAD as u64);
        let Some(Message { kind, label, sequence }) = Message::parse(&head) else { return };
        let slot = slot_of(sequence);
        match kind {
            Kind::Probe => {
                let mut header = [0; GRH as usize];
                verbs.load(MEMORY, from, &mut header);
                let Some((gid, source_gid)) = ends(completion.network_header, &header) else {
                    return;
                };
                let Some(owed) = self.free.pop() else { return };
                let qp = self.qp_of(place);
                let q_key = match verbs.remote_address(qp, 0) {
                    Some(address) => address.q_key,
                    None => self.q_key,
                };
                let to = UdAddress {
                    gid,
                    source_gid,
                    traffic_class: self.settings.traffic_class,
                    hop_limit: 64,
                    flow_label: 0,
                    qpn: completion.source_qpn,
                    q_key,
                };
                let posted = if self.settings.nic_times { at } else { verbs.now() };
                self.owed[owed] = Some(Owed { to, qp, label, sequence, arrived: at, posted });
                let message = Message { kind: Kind::Answer, label, sequence };
                if !self.send(verbs, (qp, Id::Answer(owed)), to, message, PROBE_BYTES) {
                    self.release(owed);
                }
            }
            Kind::Answer => {
                let seen = verbs.now();
                if let Some(flight) = self.flight(sequence) {
                    flight.arrived.get_or_insert((at, seen));
                    self.settle(slot);
                }
            }
            Kind::Report { delay } => {
                if let Some(flight) = self.flight(sequence) {
                    flight.delay.get_or_insert(delay);
                    self.settle(slot);
                }
            }
        }
    }

    // ---- windows

    /// Hands on the windows of which no probe is under way any more.
    fn finish(&mut self, now: Time) {
        let patience_ns = self.settings.patience.as_ps() / 1_000;
        let over_ns = self.clock_ns(now).saturating_sub(patience_ns);
        while self.windows.front().is_some_and(|open| open.window.end_ns() <= over_ns) {
            let Some(open) = self.windows.pop_front() else { return };
            let mut shared = self.results.lock();
            if shared.windows.len() >= WINDOWS_HELD {
                shared.windows.pop_front();
                shared.overrun += 1;
            }
            shared.windows.push_back(open.end());
        }
    }

    /// When the oldest window can be handed on.
    fn finishes_at(&self) -> Time {
        let patience_ns = self.settings.patience.as_ps() / 1_000;
        let ends = |window: &Window| {
            window.end_ns() + patience_ns - self.settings.epoch_ns.min(window.end_ns())
        };
        self.windows.front().map_or(Time::MAX, |open| Time::from_ns(ends(&open.window) + 1))
    }

    /// Takes other targets, if it was told some. What they share with those before goes on.
    fn retarget(&mut self, verbs: &mut dyn Verbs) {
        let Some(targets) = self.results.lock().targets.take() else { return };
        let mut aims = Vec::with_capacity(targets.len());
        for target in targets {
            let known = self.aims.iter().find(|aim| aim.target == target);
            aims.push(known.cloned().unwrap_or_else(|| aim(verbs, target)));
        }
        self.aims = aims;
    }
}

/// The place of a probe among those under way.
fn slot_of(sequence: u64) -> usize {
    (sequence % OUTSTANDING as u64) as usize
}

/// What is left of a span, or nothing.
fn minus(span: Span, of: Span) -> Span {
    Span::from_ps(span.as_ps().saturating_sub(of.as_ps()))
}

/// A target whose first probe is due at a moment of its own.
fn aim(verbs: &mut dyn Verbs, target: Target) -> Aim {
    let phase = Span::from_ps(verbs.random() % target.every.as_ps().max(1));
    let label = (verbs.random() % u64::from(target.labels.max(1))) as u16;
    Aim { target, due: verbs.now() + phase, label }
}

/// Who sent a datagram, and to which of our addresses.
fn ends(header: NetworkHeader, bytes: &[u8; GRH as usize]) -> Option<(Gid, Gid)> {
    let gid = |at: usize| bytes.get(at..at + 16)?.try_into().ok().map(Gid);
    let ipv4 = |at: usize| {
        let octets: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(Gid::from(core::net::Ipv4Addr::from(octets)))
    };
    match header {
        NetworkHeader::Ipv4 => Some((ipv4(32)?, ipv4(36)?)),
        NetworkHeader::Ipv6 => Some((gid(8)?, gid(24)?)),
        // Some devices do not say. An IPv4 header begins with its version and length.
        NetworkHeader::None if bytes[20] == 0x45 => Some((ipv4(32)?, ipv4(36)?)),
        NetworkHeader::None => Some((gid(8)?, gid(24)?)),
    }
}

impl App for Prober {
    fn layout(&self) -> Layout<'_> {
        let serves = self.settings.until.is_none();
        Layout { regions: &self.regions, cqs: &self.cqs, qps: &self.qps, serves }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        if woke == Woke::Start {
            for place in 0..self.receives() {
                self.post_receive(verbs, place);
            }
            let targets: Vec<Target> = self.aims.iter().map(|aim| aim.target).collect();
            self.aims = targets.into_iter().map(|target| aim(verbs, target)).collect();
        }
        self.retarget(verbs);
        let mut batch = [(Completion::NOTHING, Time::ZERO); BATCH];
        let mut is_armed = false;
        loop {
            let mut count = verbs.poll_timed(QUEUE, &mut batch);
            if count == 0 && !is_armed {
                let now = verbs.now();
                let patience = self.expire(now);
                let until = self.settings.until.unwrap_or(Time::MAX);
                let due = if now < until { self.probe(verbs).min(until) } else { Time::MAX };
                self.finish(now);
                let ends = until + self.settings.patience;
                if now >= ends {
                    self.end();
                    return Wait::done();
                }
                if now >= until && self.flights.iter().all(Option::is_none) {
                    self.end();
                }
                let look = self.looks_every.map_or(Time::MAX, |every| now + every);
                let next = due.min(patience).min(self.finishes_at()).min(ends).min(look);
                if self.settings.polls {
                    return Wait::poll(QUEUE).or_at(next);
                }
                verbs.arm(QUEUE, false);
                is_armed = true;
                count = verbs.poll_timed(QUEUE, &mut batch);
                if count == 0 {
                    return match next {
                        Time::MAX => Wait::event(QUEUE),
                        next => Wait::event(QUEUE).or_at(next),
                    };
                }
            }
            for &taken in &batch[..count] {
                self.take(verbs, taken);
            }
            if count == 0 {
                // Armed, and something came since: once more around.
                is_armed = false;
            }
        }
    }
}

impl Prober {
    /// Hands on all that it has. What is still under way has an outcome that nobody knows.
    fn end(&mut self) {
        for slot in 0..self.flights.len() {
            if let Some(flight) = self.flights[slot].take() {
                self.over(&flight, Outcome::Unknown, None);
            }
        }
        let mut shared = self.results.lock();
        shared.windows.extend(self.windows.drain(..).map(Open::end));
        shared.is_over = true;
    }
}
