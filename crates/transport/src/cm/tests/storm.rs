//! Connection managers on a network that loses, repeats and reorders their messages.

use alloc::vec::Vec;

use rdma::{Span, Time};
use wire::cm::{brief, rej};

use super::{SERVICE, arrival, gid, manager, reply, request, route};
use crate::cm::{CmEvent, CommId, Manager, Outgoing};

/// A small generator: the same numbers for the same seed everywhere (Steele's SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// How a conversation ended, as its application knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Open,
    Established,
    Over,
}

struct World {
    random: Random,
    now: Time,
    managers: [Manager; 2],
    /// Arrival time, order, destination, message.
    flying: Vec<(Time, u64, usize, Outgoing)>,
    sent: u64,
    connected: u32,
    loss: u64,
    duplication: u64,
    /// What became of each conversation, by its own number, and which is its peer.
    fates: [alloc::collections::BTreeMap<CommId, Fate>; 2],
    pairs: Vec<(CommId, CommId)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let (loss, duplication) = (random.next() % 31, random.next() % 31);
        let managers = [manager(0, random.next()), manager(1, random.next())];
        let mut world = Self {
            random,
            now: Time::from_ns(1),
            managers,
            flying: Vec::new(),
            sent: 0,
            connected: 0,
            loss,
            duplication,
            fates: Default::default(),
            pairs: Vec::new(),
        };
        for host in &mut world.managers {
            host.listen(SERVICE, None, 64).unwrap();
        }
        world
    }

    fn flush(&mut self) {
        for host in 0..2 {
            while let Some(outgoing) = self.managers[host].poll_transmit() {
                if self.random.chance(self.loss) {
                    continue;
                }
                for _ in 0..=u64::from(self.random.chance(self.duplication)) {
                    // Up to two seconds: later than repetitions, and out of order.
                    let delay = if self.random.chance(10) { 2_000_000 } else { 500 };
                    let at = self.now + Span::from_us(1 + self.random.next() % delay);
                    self.sent += 1;
                    self.flying.push((at, self.sent, 1 - host, outgoing));
                }
            }
            while let Some(event) = self.managers[host].poll_event() {
                self.react(host, event);
            }
        }
    }

    fn react(&mut self, host: usize, event: CmEvent) {
        let now = self.now;
        let fates = &mut self.fates[host];
        match event {
            CmEvent::Request { id, request, .. } => {
                fates.insert(id, Fate::Open);
                self.pairs.push(if host == 1 {
                    (CommId(request.local_id), id)
                } else {
                    (id, CommId(request.local_id))
                });
                // The peer may have taken it back already, which the next event says.
                match self.random.next() % 10 {
                    0 => {
                        let private = [0; rej::PRIVATE_LEN];
                        let reason = rej::Reason::CONSUMER;
                        if self.managers[host].reject(now, id, reason, private).is_ok() {
                            fates.insert(id, Fate::Over);
                        }
                    }
                    1 => {
                        self.managers[host].forget(now, id);
                        fates.insert(id, Fate::Over);
                    }
                    _ => {
                        let _ = self.managers[host].accept(now, id, reply(id.0 * 2), 0);
                    }
                }
            }
            CmEvent::Reply { id, .. } => {
                if self.managers[host].confirm(id, [0; brief::RTU_PRIVATE_LEN]).is_ok() {
                    fates.insert(id, Fate::Established);
                }
            }
            CmEvent::Established(id) => {
                assert_eq!(fates.get(&id), Some(&Fate::Open));
                fates.insert(id, Fate::Established);
            }
            CmEvent::Rejected { id, .. } | CmEvent::Unreachable(id) => {
                assert_ne!(fates.get(&id), Some(&Fate::Over), "told twice");
                fates.insert(id, Fate::Over);
            }
            CmEvent::Disconnected(id) => {
                fates.insert(id, Fate::Over);
            }
            CmEvent::Closed(id) => assert_eq!(fates.get(&id), Some(&Fate::Over)),
            CmEvent::DatagramRequest { .. } | CmEvent::DatagramReply { .. } => {
                panic!("nobody has asked")
            }
        }
    }

    /// Connects, or ends something.
    fn act(&mut self) {
        let host = (self.random.next() % 2) as usize;
        if self.random.chance(60) {
            // Queue pairs of the active side are odd, those of the passive side are not.
            self.connected += 1;
            let qpn = self.connected * 2 + 1;
            let way = route(host, 1 - host);
            let id = self.managers[host].connect(self.now, way, request(qpn), 0).unwrap();
            self.fates[host].insert(id, Fate::Open);
            return;
        }
        let some = self.random.next() as usize % self.fates[host].len().max(1);
        let Some((&id, &fate)) = self.fates[host].iter().nth(some) else { return };
        if fate == Fate::Established {
            let private = [0; brief::DREQ_PRIVATE_LEN];
            self.managers[host].disconnect(self.now, id, private).unwrap_or_default();
        } else if self.random.chance(20) {
            self.managers[host].forget(self.now, id);
            self.fates[host].insert(id, Fate::Over);
        }
    }

    /// Goes on to what happens next. Returns whether anything does.
    fn step(&mut self) -> bool {
        self.flush();
        let timers = self.managers.iter().filter_map(Manager::poll_timeout);
        let arrivals = self.flying.iter().map(|(at, ..)| *at);
        let Some(next) = timers.chain(arrivals).min() else { return false };
        self.now = self.now.max(next);
        for host in &mut self.managers {
            host.handle_timeout(self.now);
        }
        let mut due: Vec<_> = self.flying.extract_if(.., |(at, ..)| *at <= self.now).collect();
        due.sort_by_key(|(at, order, ..)| (*at, *order));
        for (_, _, to, Outgoing { route, mad }) in due {
            assert_eq!(route.destination, gid(to));
            let _ =
                self.managers[to].handle(self.now, &arrival(1 - to, to), || None, &mad.to_bytes());
        }
        true
    }
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..60 {
        world.act();
        for _ in 0..world.random.next() % 8 {
            world.step();
        }
    }
    // The faults stop, and everything comes to an end.
    (world.loss, world.duplication) = (0, 0);
    let mut steps = 0;
    while world.step() {
        steps += 1;
        assert!(steps < 100_000, "seed {seed}: no end");
    }
    let in_use = |host: usize, id: CommId| world.fates[host].get(&id) == Some(&Fate::Established);
    for &(a, b) in &world.pairs {
        assert_eq!(in_use(0, a), in_use(1, b), "seed {seed}: {a:?} and {b:?}");
    }
    for host in 0..2 {
        let open = world.fates[host].values().filter(|fate| **fate == Fate::Open).count();
        assert_eq!(open, 0, "seed {seed}: host {host} still waits");
        let in_use = world.fates[host].values().filter(|fate| **fate == Fate::Established).count();
        assert_eq!(world.managers[host].len(), in_use, "seed {seed}: host {host} remembers");
    }
}

#[test]
fn both_sides_agree_after_any_storm() {
    for seed in 0..400 {
        run(seed);
    }
}

#[test]
fn no_datagram_makes_a_manager_panic() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut world = World::new(seed);
        let mut seen: Vec<(usize, [u8; 256])> = Vec::new();
        for _ in 0..40 {
            world.act();
            world.flush();
            for (_, _, to, outgoing) in &world.flying {
                seen.push((*to, outgoing.mad.to_bytes()));
            }
            world.step();
            for _ in 0..20 {
                let Some((to, bytes)) = seen.get(random.next() as usize % seen.len().max(1)) else {
                    continue;
                };
                let mut bytes = *bytes;
                // Anywhere, or where the numbers are.
                for _ in 0..random.next() % 4 {
                    let room = if random.chance(50) { 256 } else { 40 };
                    bytes[random.next() as usize % room] = random.next() as u8;
                }
                let length = if random.chance(5) { random.next() as usize % 257 } else { 256 };
                let from = if random.chance(10) { 5 } else { 1 - to };
                let arrival = arrival(from, *to);
                let _ = world.managers[*to].handle(world.now, &arrival, || None, &bytes[..length]);
                // The applications hear nothing of it: what they would say is the other test's.
                for host in &mut world.managers {
                    while host.poll_event().is_some() {}
                    while host.poll_transmit().is_some() {}
                }
            }
        }
    }
}
