//! The network: it carries packets from node to node, and does its worst.

use std::format;
use std::vec::Vec;

use rdma::{Gid, Span, Time};

use super::super::pair::emit;
use super::world::{Happening, World, place};
use crate::Arrival;

/// A packet on its way.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) link: usize,
    pub(super) from: Gid,
    pub(super) to: Gid,
    pub(super) bytes: Vec<u8>,
}

impl World<'_> {
    pub(super) fn deliver(&mut self, to: usize, packet: &Packet) {
        let arrival = Arrival {
            source: packet.from,
            destination: packet.to,
            traffic_class: 0,
            hop_limit: 64,
        };
        let (header, payload) =
            wire::roce::Repr::parse(&packet.bytes).expect("what is emitted can be parsed");
        let node = &mut self.nodes[to];
        let length = payload.len();
        let result =
            node.endpoint.handle(self.now, &arrival, &header, payload, length, &mut node.ground);
        self.log.note(self.now, &place(to), "receives", || {
            format!("{header}{}", result.map_or_else(|drop| format!(" [{drop:?}]"), |()| "".into()))
        });
    }

    pub(super) fn transmit(&mut self, from: usize) {
        loop {
            let node = &mut self.nodes[from];
            if node.next_turn > self.now {
                return;
            }
            let Some(transmit) = node.endpoint.poll_transmit(self.now) else { return };
            let bytes = emit(&transmit, &mut node.ground).expect("memory is there");
            let (qpn, header, route) = (transmit.qpn, transmit.header, transmit.route);
            let body = bytes.len() - usize::from(header.bth.pad);
            self.packets += 1;
            self.log.note(self.now, &place(from), "sends", || format!("{header}"));
            let start = header.header_len();
            self.log.packet(
                self.now,
                route.source,
                route.destination,
                &header,
                &bytes[start..body],
            );
            let to = self.nodes.iter().position(|node| node.gid == route.destination);
            let link = self.find(from, qpn);
            if let (Some(to), Some((link, _))) = (to, link) {
                let packet = Packet { link, from: route.source, to: route.destination, bytes };
                self.carry(from, to, packet);
            }
            if self.plan.gap > Span::ZERO {
                self.nodes[from].next_turn = self.now + self.plan.gap;
                self.schedule(self.plan.gap, Happening::Turn);
            }
        }
    }

    /// Gives a packet to the network.
    fn carry(&mut self, from: usize, to: usize, packet: Packet) {
        let faults = if self.stormy { self.plan.faults } else { Default::default() };
        let random = &mut self.random;
        if random.chance(faults.burst.0) {
            self.burst_left = random.between(1, faults.burst.1);
        }
        let in_burst = self.stormy && self.burst_left > 0;
        self.burst_left = self.burst_left.saturating_sub(1);
        let dead = self.stormy
            && self.dead.iter().any(|&(a, b, until)| (a, b) == (from, to) && self.now < until);
        let lost = if dead {
            Some("partition")
        } else if in_burst || random.chance(faults.loss) {
            Some("loss")
        } else if random.chance(faults.corruption) {
            // One bit, anywhere: the ICRC no longer fits, and the packet is as good as lost.
            Some("ICRC")
        } else {
            None
        };
        if let Some(cause) = lost {
            self.links[packet.link].incidents += 1;
            self.log.note(self.now, &place(from), "loses", || cause.into());
            return;
        }
        let copies = 1 + u64::from(random.chance(faults.duplication));
        self.links[packet.link].incidents += copies - 1;
        for _ in 0..copies {
            let random = &mut self.random;
            let mut delay = self.plan.latency;
            delay = delay + Span::from_ps(random.below(faults.jitter.as_ps() + 1));
            if random.chance(faults.reordering) {
                delay = delay + Span::from_ns(random.between(1, 100_000));
            }
            let at = (self.now + delay).as_ps();
            let at = Time::from_ps(at.next_multiple_of(self.plan.grain.as_ps()));
            let latest = self.latest.entry((from, to)).or_default();
            if at < *latest {
                self.links[packet.link].incidents += 1;
            }
            *latest = (*latest).max(at);
            let packet = packet.clone();
            self.schedule(at.since(self.now), Happening::Arrive { to, packet });
        }
    }

    /// Forgets packets of a link: they have been given the time to die out.
    pub(super) fn clear_packets(&mut self, link: usize) {
        let is_of = |packet: &Packet| packet.link == link;
        self.happenings
            .retain(|_, h| !matches!(h, Happening::Arrive { packet, .. } if is_of(packet)));
        for node in &mut self.nodes {
            node.held.retain(|packet| !is_of(packet));
        }
    }
}
