//! The network: it carries packets from node to node, and injects the faults.

use std::format;
use std::vec::Vec;

use rdma::{QpType, Qpn, Span, Time};

use wire::opcode::Service;
use wire::{icrc, roce};

use super::super::pair::emit;
use super::check::Check;
use super::marks::{CE, is_marked, may_mark};
use super::plan::Faults;
use super::random::Random;
use super::tally::Seen;
use super::world::{Happening, Packet, World, place};
use crate::{Arrival, Drop, Route, Stats};

/// Packets that wait for a node that stands still, or is slow; more are lost.
const HELD_MAX: usize = 64;
/// Packets in a row whose payload cannot be read: more than there are requests.
const FAULTS_MAX: u32 = 10_000;
/// More than there are headers before the longest payload.
const HEADERS_MAX: usize = 64;
/// The byte of the BTH that no ICRC covers.
const MASKED_BYTE: usize = 4;

/// What a node sends at once.
struct Taken {
    qpn: Qpn,
    route: Route,
    packets: Vec<(roce::Repr, Vec<u8>)>,
    /// The packet behind them, whose payload is gone.
    unreadable: Option<roce::Repr>,
}

impl Packet {
    fn arrival(&self) -> Arrival {
        Arrival {
            source: self.from,
            destination: self.to,
            traffic_class: self.traffic_class,
            hop_limit: 64,
        }
    }
}

impl World<'_> {
    pub(super) fn deliver(&mut self, to: usize, packet: &Packet) {
        let arrival = packet.arrival();
        let (header, payload) =
            roce::Repr::parse(&packet.bytes).expect("what is emitted can be parsed");
        if is_marked(packet.traffic_class) {
            self.marks.arrived(to, header.bth.destination);
        }
        let now = self.time_of_call(to);
        let node = &mut self.nodes[to];
        let length = payload.len();
        let result =
            node.endpoint.handle(now, &arrival, &header, payload, length, &mut node.ground);
        self.log.note(self.now, &place(to), "receives", || {
            format!("{header}{}", result.map_or_else(|drop| format!(" [{drop:?}]"), |()| "".into()))
        });
    }

    pub(super) fn transmit(&mut self, from: usize) -> Check {
        let mut faults = 0;
        loop {
            if self.nodes[from].next_turn > self.now {
                return Ok(());
            }
            let Some(run) = self.take_run(from) else { return Ok(()) };
            for (header, bytes) in run.packets {
                self.send(from, run.qpn, &run.route, &header, bytes)?;
            }
            if let Some(header) = run.unreadable {
                self.tally.count(Seen::TransmitFault);
                faults += 1;
                if faults > FAULTS_MAX {
                    return Err(format!("{header} cannot be read, and comes again"));
                }
            } else if self.plan.gap > Span::ZERO {
                self.nodes[from].next_turn = self.now + self.plan.gap;
                self.schedule(self.plan.gap, Happening::Turn);
            }
        }
    }

    /// Takes out what can be sent now: one packet where there is a gap between two, a run where there
    /// is none. What is not sent is put back.
    fn take_run(&mut self, from: usize) -> Option<Taken> {
        let now = self.clock(from);
        let node = &mut self.nodes[from];
        let run = node.endpoint.poll_transmit(now, self.run_packets)?;
        let wanted = if self.plan.gap > Span::ZERO { 1 } else { run.count() };
        let (qpn, route) = (run.qpn(), *run.route());
        let mut taken = Taken { qpn, route, packets: Vec::new(), unreadable: None };
        for (psn, payload) in run.packets().take(wanted as usize) {
            let mut header = *run.header();
            header.bth.psn = psn;
            let Some(bytes) = emit(&header, payload, &mut node.ground) else {
                taken.unreadable = Some(header);
                break;
            };
            taken.packets.push((header, bytes));
        }
        let sent = taken.packets.len() as u32;
        if taken.unreadable.is_some() {
            run.faulted(sent);
        } else {
            run.sent_only(sent);
        }
        Some(taken)
    }

    /// Sends a packet of a node.
    fn send(
        &mut self,
        from: usize,
        qpn: Qpn,
        route: &Route,
        header: &roce::Repr,
        bytes: Vec<u8>,
    ) -> Check {
        let body = bytes.len() - usize::from(header.bth.pad);
        self.packets += 1;
        self.log.note(self.now, &place(from), "sends", || format!("{header}"));
        let start = header.header_len();
        self.log.packet(self.now, route.source, route.destination, header, &bytes[start..body]);
        let to = self.nodes.iter().position(|node| node.gid == route.destination);
        let link = self.find(from, qpn);
        if let Some((link, side)) = link
            && self.links[link].ends[side].drain.is_some_and(|drain| drain.is_drained)
            && header.bth.opcode.is_request()
            && header.facts().service != Service::Cnp
        {
            return Err(format!("{header} leaves a send queue that is drained"));
        }
        if let (Some(to), Some((link, _))) = (to, link) {
            let traffic_class = route.traffic_class;
            let sender = (from, qpn, self.links[link].plan.kind);
            let config = &self.plan.configs[from];
            if self.marks.left(self.clock(from), sender, config, header, traffic_class)? {
                self.tally.count(Seen::Notification);
            }
            let (from_gid, to_gid) = (route.source, route.destination);
            if self.is_too_long(link, &bytes) {
                self.tally.count(Seen::TooLong);
                // An end finds out by its first timeout: what it loses so is no reason for another.
                let is_first = self.narrowed.insert((link, from));
                self.links[link].incidents += u64::from(is_first);
                return Ok(());
            }
            if header.part.is_some() {
                self.tally.count(Seen::InParts);
            }
            let packet = Packet { link, from: from_gid, to: to_gid, traffic_class, bytes };
            self.carry(from, to, packet);
        }
        Ok(())
    }

    /// Whether the path has become too narrow for such a packet by now.
    fn is_too_long(&self, link: usize, bytes: &[u8]) -> bool {
        let link = &self.links[link].plan;
        let narrowing = self.plan.faults.narrowing.filter(|_| link.kind == QpType::Rc);
        let is_narrow = narrowing.is_some_and(|from| self.now >= Time::ZERO + from);
        is_narrow && bytes.len() > self.plan.narrowed(link) + HEADERS_MAX
    }

    /// Gives a packet to the network.
    fn carry(&mut self, from: usize, to: usize, mut packet: Packet) {
        let faults = if self.stormy { self.plan.faults } else { Default::default() };
        if let Some(cause) = self.loss(&faults, from, to, &packet) {
            self.tally.count(cause);
            self.links[packet.link].incidents += 1;
            self.log.note(self.now, &place(from), "loses", || format!("{cause:?}"));
            return;
        }
        if may_mark(packet.traffic_class) && self.random.chance(faults.marks) {
            self.tally.count(Seen::Mark);
            packet.traffic_class |= CE;
        }
        if faults.misdeliveries > 0 && self.random.chance(faults.misdeliveries) {
            return self.lead_astray(to, packet);
        }
        let copies = 1 + u64::from(self.random.chance(faults.duplication));
        if copies > 1 {
            self.tally.count(Seen::Duplication);
            self.links[packet.link].incidents += 1;
        }
        for _ in 0..copies {
            let random = &mut self.random;
            let mut delay = self.plan.latency;
            delay = delay + Span::from_ps(random.below(faults.jitter.as_ps() + 1));
            if random.chance(faults.reordering) {
                self.tally.count(Seen::Reordering);
                delay = delay + Span::from_ns(random.between(1, 100_000));
            }
            let at = (self.now + delay).as_ps();
            let at = Time::from_ps(at.next_multiple_of(self.plan.grain.as_ps()));
            let latest = self.latest.entry((from, to)).or_default();
            if at < *latest {
                self.tally.count(Seen::Overtaking);
                self.links[packet.link].incidents += 1;
            }
            *latest = (*latest).max(at);
            let packet = packet.clone();
            self.schedule(at.since(self.now), Happening::Arrive { to, packet });
        }
    }

    /// A driver gives a packet to an engine that it is not for. Whoever finds it there hands it on, late,
    /// or does not.
    fn lead_astray(&mut self, to: usize, packet: Packet) {
        let others = self.nodes.len() as u64 - 1;
        let other = (to + 1 + self.random.below(others) as usize) % self.nodes.len();
        self.links[packet.link].incidents += 1;
        let latency = self.plan.latency;
        let astray = packet.clone();
        self.schedule(latency, Happening::Misdeliver { to: other, packet: astray });
        if self.random.chance(300) {
            self.tally.count(Seen::MisdeliveryLoss);
        } else {
            self.tally.count(Seen::Misdelivery);
            let late = latency + Span::from_ns(self.random.between(1, 1_000_000));
            self.schedule(late, Happening::Arrive { to, packet });
        }
    }

    /// An engine gets a packet that is for another. It drops it, and nothing else happens.
    pub(super) fn misdeliver(&mut self, to: usize, packet: &Packet) -> Check {
        if self.nodes[to].stopped.is_some() {
            return Ok(());
        }
        let (now, arrival) = (self.time_of_call(to), packet.arrival());
        let (header, payload) =
            roce::Repr::parse(&packet.bytes).expect("what is emitted can be parsed");
        let node = &mut self.nodes[to];
        let (stats, changes) = (*node.endpoint.stats(), node.ground.changes);
        let (endpoint, ground) = (&mut node.endpoint, &mut node.ground);
        let result = endpoint.handle(now, &arrival, &header, payload, payload.len(), ground);
        self.log.note(self.now, &place(to), "is given", || format!("{header}: {result:?}"));
        // What arrived is counted, whatever it was.
        let beside = |stats: Stats| Stats {
            rcvd_pkts: 0,
            rcvd_bytes: 0,
            rp_cnp_ignored: 0,
            drop_unknown_qpn: 0,
            ..stats
        };
        let is_untouched = beside(*node.endpoint.stats()) == beside(stats);
        if result != Err(Drop::UnknownQpn) || !is_untouched || ground.changes != changes {
            return Err(format!(
                "node {to} does something with {header}, which is for another: {result:?}"
            ));
        }
        Ok(())
    }

    /// Why a packet is lost, if it is.
    fn loss(&mut self, faults: &Faults, from: usize, to: usize, packet: &Packet) -> Option<Seen> {
        let random = &mut self.random;
        if random.chance(faults.burst.0) {
            self.burst_left = random.between(1, faults.burst.1);
        }
        let in_burst = self.stormy && self.burst_left > 0;
        self.burst_left = self.burst_left.saturating_sub(1);
        let is_dead =
            |&(a, b, until): &(usize, usize, Time)| (a, b) == (from, to) && self.now < until;
        if self.stormy && self.dead.iter().any(is_dead) {
            Some(Seen::Partition)
        } else if in_burst {
            Some(Seen::Burst)
        } else if random.chance(faults.loss) {
            Some(Seen::Loss)
        } else if random.chance(faults.corruption) {
            let (bytes, damage) = damaged(&packet.bytes, random);
            assert!(is_noticed(packet, &bytes), "an ICRC covers every bit: {damage:?}");
            Some(damage)
        } else {
            None
        }
    }

    /// A packet has arrived at a node, which may be slow.
    pub(super) fn arrive(&mut self, to: usize, packet: Packet) {
        let node = &mut self.nodes[to];
        let is_slow = node.slow.is_some_and(|(until, _)| self.now < until);
        if !is_slow && node.backlog == 0 {
            return self.take(to, packet);
        }
        if node.backlog >= HELD_MAX {
            return self.overflow(Seen::SlowOverflow, &packet);
        }
        let each = node.slow.map_or(Span::ZERO, |(_, each)| each);
        node.backlog += 1;
        node.free_at = node.free_at.max(self.now) + each;
        let after = node.free_at.since(self.now);
        self.tally.count(Seen::Slowed);
        self.schedule(after, Happening::Take { to, packet });
    }

    /// A node takes a packet, unless it stands still.
    pub(super) fn take(&mut self, to: usize, packet: Packet) {
        let node = &mut self.nodes[to];
        if node.stopped.is_none() {
            self.deliver(to, &packet);
        } else if node.held.len() < HELD_MAX {
            node.held.push_back(packet);
        } else {
            self.overflow(Seen::StoppedOverflow, &packet);
        }
    }

    fn overflow(&mut self, cause: Seen, packet: &Packet) {
        self.tally.count(cause);
        self.links[packet.link].incidents += 1;
    }

    /// Removes the packets of a link, as if they had died out before it is used again.
    pub(super) fn clear_packets(&mut self, link: usize) {
        let is_of = |packet: &Packet| packet.link == link;
        self.happenings
            .retain(|_, h| !matches!(h, Happening::Arrive { packet, .. } if is_of(packet)));
        for happening in self.happenings.values_mut() {
            if let Happening::Take { to, packet } = happening
                && is_of(packet)
            {
                *happening = Happening::Skip { node: *to };
            }
        }
        for node in &mut self.nodes {
            node.held.retain(|packet| !is_of(packet));
        }
    }
}

/// What the network makes of a packet that it corrupts: a bit turned over, a burst of 2 to 64 bits, or
/// words that are others. The ICRC leaves out one byte of the BTH, which switches may change; that one
/// is spared.
fn damaged(packet: &[u8], random: &mut Random) -> (Vec<u8>, Seen) {
    let mut bytes = packet.to_vec();
    let bits = 8 * bytes.len() as u64;
    let flip = |bytes: &mut [u8], bit: u64| bytes[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
    let damage = random.pick(&[Seen::CorruptBit, Seen::CorruptBurst, Seen::CorruptWords]);
    match damage {
        Seen::CorruptBurst => {
            // Its first and last bits are wrong, and those between them as it happens.
            let length = random.between(2, 64);
            let first = random.below(bits - length + 1);
            let between = random.next();
            for bit in 0..length {
                if bit == 0 || bit + 1 == length || between >> bit & 1 == 1 {
                    flip(&mut bytes, first + bit);
                }
            }
        }
        Seen::CorruptWords => {
            for _ in 0..random.between(1, 4) {
                let word = 4 * random.below(bits / 32) as usize;
                bytes[word..word + 4].copy_from_slice(&random.next().to_be_bytes()[..4]);
            }
        }
        _ => flip(&mut bytes, random.below(bits)),
    }
    bytes[MASKED_BYTE] = packet[MASKED_BYTE];
    if bytes == packet {
        flip(&mut bytes, 0);
    }
    (bytes, damage)
}

/// Whether a receiver sees that what arrives is not what was sent.
fn is_noticed(packet: &Packet, bytes: &[u8]) -> bool {
    let datagram = icrc::Datagram::between(packet.from.ip(), packet.to.ip());
    // A receiver that parses before it checks must not fall over it either.
    let _ = roce::Repr::parse(bytes);
    icrc::compute(&datagram, &packet.bytes) != icrc::compute(&datagram, bytes)
}
