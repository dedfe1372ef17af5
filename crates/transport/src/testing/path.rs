//! A path between the nodes of a [`Pair`](super::Pair): in each direction a port with a rate and a queue in
//! front of it, then a line that delays, loses, reorders and duplicates.
//!
//! ```text
//!   node ──► ▒▒▒▒▒▒ queue ──► port ──► line ──► node         the same back
//!             full: dropped    rate     delay, chance
//! ```
//!
//! It is given to a pair as its rule ([`Path::rule`]). A CUBIC flow may share the port of one direction: what
//! it does is caught up with whenever a packet comes, so the order of what happens is that of time.

use std::sync::{Arc, Mutex, PoisonError};

use rdma::{Rate, Span, Time};

use super::cubic::Cubic;
use super::storm::random::Random;
use super::{Verdict, Wire, on_wire};

/// Chances are parts of a million.
pub const MILLION: u64 = 1_000_000;

/// What a path is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Of the port, by bytes of Ethernet.
    pub rate: Rate,
    /// One way.
    pub delay: Span,
    /// By how much each packet is late, at most: by chance, and each for itself, so that packets overtake each other.
    pub jitter: Span,
    /// What may wait before the port; a packet that finds more is dropped.
    pub queue_bytes: u64,
    /// Packets that chance loses, of a million.
    pub lost: u64,
    /// Packets that come late, after others that left behind them, of a million.
    pub reordered: u64,
    /// By how much they are late, at most.
    pub late: Span,
    /// Packets that nothing but the port holds up: they overtake others that left before them, of a million.
    pub ahead: u64,
    /// Packets that come twice, of a million.
    pub duplicated: u64,
    /// A packet that finds so much in the queue is marked, if it allows that.
    pub marks_from: Option<u64>,
}

impl Path {
    /// One that only has a rate, a delay and a queue of half a megabyte.
    pub const fn new(rate: Rate, delay: Span) -> Self {
        Self {
            rate,
            delay,
            jitter: Span::ZERO,
            queue_bytes: 512_000,
            lost: 0,
            reordered: 0,
            late: Span::from_us(200),
            ahead: 0,
            duplicated: 0,
            marks_from: None,
        }
    }

    /// The rule of a pair that talks over such a path, and what it counts.
    pub fn rule(self, seed: u64) -> (impl FnMut(&Wire) -> Verdict + 'static, Shared) {
        self.rule_beside(seed, None)
    }

    /// The same, and a TCP flow shares the port of what this node sends.
    pub fn rule_beside(
        self,
        seed: u64,
        tcp_from: Option<usize>,
    ) -> (impl FnMut(&Wire) -> Verdict + 'static, Shared) {
        let ports = [seed, !seed].map(|seed| Port {
            path: self,
            chance: Random::new(seed),
            idle_at: Time::ZERO,
            tcp: None,
        });
        let counts = Shared::default();
        let (mut ports, shared) = (ports, counts.clone());
        if let Some(node) = tcp_from {
            ports[node].tcp = Some(Cubic::new(seed));
        }
        let rule = move |packet: &Wire| {
            let port = &mut ports[packet.from];
            let mut counts = shared.lock();
            port.catch_up_with_tcp(packet.at, &mut counts);
            port.pass(packet.at, on_wire(packet.bytes.len()), &mut counts)
        };
        (rule, counts)
    }
}

/// What has become of packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// By chance.
    pub lost: u64,
    /// The queue was full.
    pub dropped: u64,
    /// They have arrived.
    pub passed: u64,
    /// With a mark.
    pub marked: u64,
    /// Of the TCP flow: bytes of payload that have arrived.
    pub tcp_bytes: u64,
}

/// Counts that the rule and a test share.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Counts>>);

impl Shared {
    /// What has been counted so far.
    pub fn get(&self) -> Counts {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One direction.
struct Port {
    path: Path,
    chance: Random,
    /// When it has sent all that it was given.
    idle_at: Time,
    tcp: Option<Cubic>,
}

impl Port {
    fn pass(&mut self, now: Time, bytes: u64, counts: &mut Counts) -> Verdict {
        let Path { rate, delay, jitter, queue_bytes, late, .. } = self.path;
        let waits = self.idle_at.since(now);
        if waits > rate.time_of(queue_bytes) {
            counts.dropped += 1;
            return Verdict::Drop;
        }
        self.idle_at = self.idle_at.max(now) + rate.time_of(bytes);
        let mut happens = |parts: u64| parts > 0 && self.chance.below(MILLION) < parts;
        if happens(self.path.lost) {
            counts.lost += 1;
            return Verdict::Drop;
        }
        let is_late = happens(self.path.reordered);
        let copies = 1 + u64::from(happens(self.path.duplicated));
        let is_ahead = happens(self.path.ahead);
        // A path without one of these draws nothing for it.
        let mut up_to = |most: Span| Span::from_ps(self.chance.below(most.as_ps()));
        let late = if is_late { up_to(late) } else { Span::ZERO };
        let jitter = if jitter > Span::ZERO { up_to(jitter) } else { Span::ZERO };
        let line = if is_ahead { Span::ZERO } else { delay + jitter + late };
        let marks = self.path.marks_from.is_some_and(|from| waits >= rate.time_of(from));
        counts.passed += 1;
        counts.marked += u64::from(marks);
        Verdict::Arrive { after: self.idle_at.since(now) + line, copies, marks }
    }

    /// Lets the TCP flow do all that it does until `now`.
    fn catch_up_with_tcp(&mut self, now: Time, counts: &mut Counts) {
        let Some(mut tcp) = self.tcp.take() else { return };
        while let Some(at) = tcp.next().filter(|&at| at <= now) {
            while let Some(bytes) = tcp.send(at) {
                let back = self.path.delay;
                match self.pass(at, bytes, counts) {
                    Verdict::Arrive { after, .. } => tcp.arrives(at + after + back),
                    // What comes behind it tells of it a little later.
                    _ => tcp.is_lost(self.idle_at.max(at) + back * 2),
                }
            }
            counts.tcp_bytes = tcp.delivered_bytes();
        }
        self.tcp = Some(tcp);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// 1,000 bytes take 8 us.
    const PATH: Path = Path {
        queue_bytes: 100_000_000,
        ..Path::new(Rate::from_mbps(1_000), Span::from_us(1_000))
    };

    fn port(path: Path, seed: u64) -> Port {
        Port { path, chance: Random::new(seed), idle_at: Time::ZERO, tcp: None }
    }

    /// By how much each of so many packets of 1,000 bytes that come at once is late after port and delay; in us.
    fn lateness(port: &mut Port, packets: u64) -> Vec<i64> {
        let mut counts = Counts::default();
        let late = (1..=packets).map(|number| {
            let Verdict::Arrive { after, .. } = port.pass(Time::ZERO, 1_000, &mut counts) else {
                panic!("the path loses nothing");
            };
            after.as_ps() as i64 / 1_000_000 - 8 * number as i64 - 1_000
        });
        late.collect()
    }

    #[test]
    fn jitter_makes_each_packet_late_by_any_part_of_it() {
        let path = Path { jitter: Span::from_us(400), ..PATH };
        let late = lateness(&mut port(path, 1), 10_000);
        for quarter in 0..4 {
            let part = late.iter().filter(|&&us| us / 100 == quarter).count();
            assert!((2_300..2_700).contains(&part), "{part} in quarter {quarter}");
        }
        assert!(late.iter().all(|us| (0..400).contains(us)));
        // The next one left 8 us later.
        let overtaken = late.windows(2).filter(|pair| pair[1] + 8 < pair[0]).count();
        assert!((4_500..5_000).contains(&overtaken), "{overtaken}");
        assert_ne!(late, lateness(&mut port(path, 2), 10_000));
    }

    #[test]
    fn what_is_ahead_waits_for_the_port_alone() {
        let path = Path {
            ahead: MILLION / 100,
            jitter: Span::from_us(400),
            reordered: MILLION / 2,
            ..PATH
        };
        let late = lateness(&mut port(path, 1), 10_000);
        let ahead = late.iter().filter(|&&us| us == -1_000).count();
        assert!((70..130).contains(&ahead), "{ahead}");
        assert!(late.iter().all(|&us| us == -1_000 || (0..600).contains(&us)));
    }

    #[test]
    fn a_path_without_chance_draws_no_numbers() {
        let mut drawn = port(PATH, 1);
        lateness(&mut drawn, 100);
        assert_eq!(drawn.chance.below(u64::MAX), Random::new(1).below(u64::MAX));
    }
}
