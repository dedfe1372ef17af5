//! The prefetch window: what a NIC has read, or is reading, ahead of the wire.
//!
//! ```text
//!   engine ─► begun ┬─ payload over the bus ─► ready ─┬─► port
//!                   └─────── inline, no payload ──────┘
//!             └────────── at most W bytes ────────────┘
//! ```
//!
//! A packet is asked for while there is room, so that its payload is there when the port is free for
//! it. So a small message waits for W / C behind a long one, and W must be C times the latency of a
//! read, and a packet, or the wire is not full. A pause holds what is in it. Acknowledgements have no
//! payload, and pass.
//!
//! **Invariant:** packets of one queue pair leave in the order in which they were begun.

use std::collections::VecDeque;

use super::Order;

/// A packet that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Planned {
    /// The packet.
    pub(crate) packet: u32,
    /// Of its payload.
    pub(crate) bytes: u32,
    /// The queue pair that sends it.
    pub(crate) qpn: u32,
    /// When its payload is there, in picoseconds.
    pub(crate) ready: u64,
    /// Its message is done when it has left.
    pub(crate) ends: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PrefetchWindow {
    limit: u64,
    order: Order,
    begun: VecDeque<Planned>,
    /// Acknowledgements.
    passing: VecDeque<u32>,
    bytes: u64,
}

impl PrefetchWindow {
    pub(crate) fn new(limit: u32, order: Order) -> Self {
        let (begun, passing) = (VecDeque::new(), VecDeque::new());
        Self { limit: limit.into(), order, begun, passing, bytes: 0 }
    }

    /// Whether a packet of `bytes` at most may be begun. One always may.
    pub(crate) fn has_room(&self, bytes: u32) -> bool {
        self.begun.is_empty() || self.bytes + u64::from(bytes) <= self.limit
    }

    /// A packet is begun.
    pub(crate) fn begin(&mut self, mut planned: Planned) {
        if self.order == Order::ByReadiness {
            let own = self.begun.iter().rfind(|other| other.qpn == planned.qpn);
            planned.ready = planned.ready.max(own.map_or(0, |other| other.ready));
        }
        self.bytes += u64::from(planned.bytes);
        self.begun.push_back(planned);
    }

    /// An acknowledgement.
    pub(crate) fn pass(&mut self, packet: u32) {
        self.passing.push_back(packet);
    }

    /// The place of the packet that is to leave next.
    fn next(&self) -> Option<usize> {
        match self.order {
            Order::InOrder => (!self.begun.is_empty()).then_some(0),
            Order::ByReadiness => {
                // The first of those that are ready together.
                let all = self.begun.iter().enumerate();
                all.min_by_key(|(_, planned)| planned.ready).map(|(place, _)| place)
            }
        }
    }

    /// Takes the packet that leaves now, if one can, and says of which queue pair a message is done by that.
    pub(crate) fn take(&mut self, now: u64) -> Option<(u32, Option<u32>)> {
        if let Some(packet) = self.passing.pop_front() {
            return Some((packet, None));
        }
        let next = self.next().filter(|&place| self.begun[place].ready <= now)?;
        let planned = self.begun.remove(next)?;
        self.bytes -= u64::from(planned.bytes);
        Some((planned.packet, planned.ends.then_some(planned.qpn)))
    }

    /// When the next packet can leave.
    pub(crate) fn ready(&self) -> Option<u64> {
        if !self.passing.is_empty() {
            return Some(0);
        }
        self.next().map(|place| self.begun[place].ready)
    }
}

#[cfg(test)]
mod tests {
    use rdma::{Rate, Span};

    use super::*;
    use crate::host::model::{Bus, StageConfig};
    use crate::rate::LineRate;

    fn planned(packet: u32, qpn: u32, ready: u64) -> Planned {
        Planned { packet, bytes: 1_000, qpn, ready, ends: qpn == 7 }
    }

    /// A flow without end keeps the window full, over a bus and a wire; another has one small message,
    /// ready at once, at `at` picoseconds. Returns bytes of the first until `end`, and how long the
    /// small one waited.
    fn race(limit: u32, order: Order, (bus, wire): (u64, u64), end: u64, at: u64) -> (u64, u64) {
        const PACKET: u64 = 2_048;
        let mut bus = Bus::new(&StageConfig {
            bus: Rate::from_gbps(bus),
            dma_read: Span::from_ns(550),
            ..StageConfig::default()
        });
        let wire = LineRate::new(Rate::from_gbps(wire));
        let mut window = PrefetchWindow::new(limit, order);
        let (mut now, mut moved, mut waited, mut is_in) = (0, 0, 0, false);
        while now < end {
            // Round robin: the small one's turn is next.
            if !is_in && now >= at {
                window.begin(Planned { packet: 1, bytes: 64, qpn: 1, ready: now, ends: false });
                is_in = true;
            }
            while window.has_room(PACKET as u32) {
                let ready = bus.read(now, PACKET);
                window.begin(Planned {
                    packet: 0,
                    bytes: PACKET as u32,
                    qpn: 0,
                    ready,
                    ends: false,
                });
            }
            now = now.max(window.ready().unwrap());
            if window.take(now) == Some((1, None)) {
                waited = now - at;
                now += wire.ps(64);
            } else {
                moved += PACKET;
                now += wire.ps(PACKET);
            }
        }
        (moved, waited)
    }

    #[test]
    fn a_small_message_waits_for_the_window_over_the_rate() {
        // The wire is slower than the bus, so the window is full.
        for (limit, order) in
            [(16 << 10, Order::InOrder), (64 << 10, Order::InOrder), (64 << 10, Order::ByReadiness)]
        {
            let (_, waited) = race(limit, order, (80, 40), 1_000_000_000, 500_000_000);
            let packets = u64::from(limit) / 2_048;
            let expected = LineRate::new(Rate::from_gbps(40)).ps(packets * 2_048);
            // By readiness it passes what is being read.
            let passed = if order == Order::ByReadiness { 550_000 } else { 0 };
            let packet = LineRate::new(Rate::from_gbps(40)).ps(2_048);
            assert!(waited.abs_diff(expected - passed) <= packet, "{limit}: {waited} {expected}");
        }
    }

    #[test]
    fn the_wire_is_full_from_the_window_on_that_covers_a_read_and_a_packet() {
        // 40 Gb/s for 550 ns are 2,750 bytes; a packet's bytes on the bus are 2,048 more, as wire and bus
        // take turns.
        let rate = |limit: u32| {
            let (moved, _) = race(limit, Order::InOrder, (80, 40), 1_000_000_000, u64::MAX);
            moved as f64 * 8.0 / 1e6
        };
        assert!(rate(4 * 2_048) > 39.9, "{}", rate(4 * 2_048));
        // One packet at a time: 2,048 bytes in 550 + 204.8 + 409.6 ns.
        let expected = 2_048.0 * 8.0 / 1_164.4;
        assert!((rate(2_048) / expected - 1.0).abs() < 0.01, "{}", rate(2_048));
    }

    #[test]
    fn the_bus_bounds_the_rate_if_it_is_the_slower() {
        let (moved, _) = race(32 << 10, Order::InOrder, (48, 100), 1_000_000_000, u64::MAX);
        let gbps = moved as f64 * 8.0 / 1e6;
        assert!((47.8..=48.0).contains(&gbps), "{gbps}");
    }

    #[test]
    fn who_is_ready_passes_another_queue_pair_and_never_its_own() {
        let mut window = PrefetchWindow::new(u32::MAX, Order::ByReadiness);
        window.begin(planned(1, 7, 100));
        window.begin(planned(2, 8, 10));
        window.begin(planned(3, 7, 20));
        let order = [(); 3].map(|()| window.take(100));
        assert_eq!(order, [Some((2, None)), Some((1, Some(7))), Some((3, Some(7)))]);
        let mut window = PrefetchWindow::new(u32::MAX, Order::InOrder);
        window.begin(planned(1, 7, 100));
        window.begin(planned(2, 8, 10));
        assert_eq!((window.take(50), window.ready()), (None, Some(100)));
        window.pass(9);
        assert_eq!((window.take(50), window.take(50)), (Some((9, None)), None));
        assert_eq!((window.take(100), window.take(100)), (Some((1, Some(7))), Some((2, None))));
    }

    #[test]
    fn a_packet_longer_than_the_window_goes_alone() {
        let mut window = PrefetchWindow::new(500, Order::InOrder);
        assert!(window.has_room(1_000));
        window.begin(planned(1, 7, 0));
        assert!(!window.has_room(1));
    }
}
