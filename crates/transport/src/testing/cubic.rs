//! A TCP flow as far as it concerns those who share its bottleneck: CUBIC's window (RFC 9438), one segment a
//! packet, an acknowledgement a segment, and losses that are noticed a round trip later, as SACK does. Segments leave in bursts, as
//! Linux lets a network card cut them: a queue that is nearly full drops more of a burst than of a paced flow.
//!
//! Absent: timeouts, for a window never falls below two segments, and HyStart.

use std::collections::BTreeMap;

use rdma::{Span, Time};

use super::storm::random::Random;

/// Payload of a segment, and its bytes of Ethernet.
const PAYLOAD: u64 = 1_448;
const FRAME: u64 = 1_538;
/// RFC 9438: C, and what a loss leaves of the window.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Linux gives its network card to cut what it would send in this time (sk_pacing_shift), at most 64 KiB.
const BURST_TIME: Span = Span::from_ms(1);
const BURST_MAX: u64 = 44;

/// See the module.
#[derive(Debug)]
pub(super) struct Cubic {
    window: f64,
    threshold: f64,
    /// The window at the last loss, and when that was.
    most: f64,
    lost_at: Time,
    /// What Reno's window would be by now.
    reno: f64,
    in_flight: u64,
    /// Segments left of the one that is cut.
    burst: u64,
    delivered: u64,
    /// What is heard when: of a segment that was sent then, and whether it is lost.
    heard: BTreeMap<(Time, u64), (Time, bool)>,
    number: u64,
    sent_at: Time,
    /// Losses of segments that were sent before are of one event.
    recovers_until: Time,
    shortest: Option<Span>,
    starts: Time,
}

/// When a flow begins is left to chance.
const STARTS_WITHIN_NS: u64 = 10_000_000;

impl Cubic {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            window: 10.0,
            threshold: f64::MAX,
            most: 0.0,
            lost_at: Time::ZERO,
            reno: 0.0,
            in_flight: 0,
            burst: 0,
            delivered: 0,
            heard: BTreeMap::new(),
            number: 0,
            sent_at: Time::ZERO,
            recovers_until: Time::ZERO,
            shortest: None,
            starts: Time::from_ns(1 + Random::new(seed).below(STARTS_WITHIN_NS)),
        }
    }

    /// When it has something to do.
    pub(super) fn next(&self) -> Option<Time> {
        match self.heard.keys().next() {
            Some(&(at, _)) => Some(at),
            None if self.number == 0 => Some(self.starts),
            None => None,
        }
    }

    /// The bytes of its next packet, if it may send one at `now`, when it has heard what there is to hear.
    pub(super) fn send(&mut self, now: Time) -> Option<u64> {
        while let Some(entry) = self.heard.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (sent, is_lost) = entry.remove();
            self.in_flight -= 1;
            if is_lost { self.lose(now, sent) } else { self.acknowledge(now, sent) }
        }
        let room = (self.window.floor() as u64).saturating_sub(self.in_flight);
        if self.burst == 0 {
            let burst = self.burst_size();
            self.burst = if room >= burst.min(self.window as u64 / 3).max(1) { burst } else { 0 };
        }
        if self.burst == 0 || room == 0 {
            return None;
        }
        self.burst -= 1;
        self.in_flight += 1;
        self.number += 1;
        self.sent_at = now;
        Some(FRAME)
    }

    /// What was sent last is acknowledged then.
    pub(super) fn arrives(&mut self, at: Time) {
        self.heard.insert((at, self.number), (self.sent_at, false));
    }

    /// It is known to be lost then.
    pub(super) fn is_lost(&mut self, at: Time) {
        self.heard.insert((at, self.number), (self.sent_at, true));
    }

    pub(super) fn delivered_bytes(&self) -> u64 {
        self.delivered * PAYLOAD
    }

    /// Segments that leave at once.
    fn burst_size(&self) -> u64 {
        let Some(shortest) = self.shortest else { return 2 };
        let part = BURST_TIME.as_ps() as f64 / shortest.as_ps().max(1) as f64;
        ((self.window * 1.2 * part) as u64).clamp(2, BURST_MAX)
    }

    fn acknowledge(&mut self, now: Time, sent: Time) {
        self.delivered += 1;
        let took = now.since(sent);
        self.shortest = Some(self.shortest.map_or(took, |it| it.min(took)));
        if sent < self.recovers_until {
            return;
        }
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let seconds = now.since(self.lost_at).as_ps() as f64 / 1e12;
        let k = (self.most * (1.0 - BETA) / C).cbrt();
        let round = took.as_ps() as f64 / 1e12;
        let wanted = C * (seconds + round - k).powi(3) + self.most;
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / self.window;
        if wanted > self.window {
            self.window += (wanted - self.window).min(self.window / 2.0) / self.window;
        }
        self.window = self.window.max(self.reno);
    }

    fn lose(&mut self, now: Time, sent: Time) {
        if sent < self.recovers_until {
            return;
        }
        self.recovers_until = now;
        // Fast convergence.
        self.most =
            if self.window < self.most { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(2.0);
        (self.threshold, self.reno, self.lost_at) = (self.window, self.window, now);
    }
}
