//! A window after BBR: Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016.
//!
//! ```text
//!   rate at which packets arrive           round trip
//!     ▲        ________ bottleneck           ▲          ╱
//!     │      ╱                               │        ╱   a queue
//!     │    ╱                                 │______╱
//!     └────┴──────────► window               └──────┴─────────► window
//!          bandwidth-delay product                  bandwidth-delay product
//!
//!   window = gain x most arrived in a while x shortest round trip of late + what a host is late by
//! ```
//!
//! A loss by itself says nothing of a queue: a path may lose packets by chance. So a window does not fall for one; it gets
//! a ceiling where packets that meet a queue are lost more often than others (`ceiling.rs`). A flow begins as TCP's do: its
//! window doubles in each round trip, until three in a row have brought no more than a quarter more.
//!
//! A window of twice the bandwidth-delay product holds a queue. So that its round trips are not taken for the
//! shortest, the window is a half for one round trip, every few seconds.
//!
//! Packets leave at the rate at which they arrive, and in one round of eight at a quarter more, to find out whether
//! the path has become wider; in the next round at a quarter less, so that the queue drains which that has made
//! (BBR's cycle of gains).

use rdma::{Rate, Span, Time};

use super::ceiling::{Ceiling, Round};
use super::jitter::Jitter;
use super::keys::{keys, order};
use super::{Conflict, Controller, Key, Progress};
use crate::limits::{
    BBR_DRAIN_INTERVAL, BBR_DRAIN_ROUNDS, BBR_EVEN_FROM, BBR_FLAT_ROUNDS, BBR_GROWTH_DIVISOR,
    BBR_HOST_LATENESS, BBR_PACE_PERCENT, BBR_PACE_PERCENT_AT_START, BBR_RATE_ROUNDS, BBR_RECENT,
    BBR_SPARE_PACKETS, PACED_BATCH_BYTES, PACED_BATCH_MOST, SHORTEST_ROUND_TRIP_KNOWN,
};
use crate::of_late::{Shortest, Usual};

/// The whole of a part.
const WHOLE: u64 = 1_000;

/// What a sender is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bbr {
    /// What the window is over the bandwidth-delay product, in thousandths (cwnd_gain).
    pub gain: u16,
    /// The part of the packets, in thousandths, that may be lost where no queue is seen.
    pub loss: u16,
    /// The window of a flow that begins, in packets: ten in TCP (RFC 6928).
    pub initial_window: u32,
    /// What the window does not fall below, in packets, but after a timeout.
    pub minimum_window: u32,
    /// What it never exceeds, in packets.
    pub maximum_window: u32,
}

impl Bbr {
    pub(crate) const DEFAULT: Self = Self {
        gain: 2_000,
        loss: 30,
        initial_window: 10,
        minimum_window: 2,
        maximum_window: 8_192,
    };

    pub(super) const KEYS: &'static [Key] = &keys! { Bbr:
        gain: "gain_1000ths", 1_000..=10_000,
            "What the window is over the bandwidth-delay product, in thousandths.";
        loss: "loss_1000ths", 1..=999,
            "The part of the packets, in thousandths, that may be lost where no queue is seen before the window gets a ceiling.";
        initial_window: "initial_window_packets", 1..=8_192,
            "The window of a flow that begins; TCP's is ten (RFC 6928).";
        minimum_window: "min_window_packets", 1..=1_000_000, "What the window never falls below.";
        maximum_window: "max_window_packets", 1..=1_000_000, "What the window never exceeds.";
    };

    pub(super) fn check(&self) -> Result<(), Conflict> {
        let least = ("min_window_packets", self.minimum_window.into());
        let first = ("initial_window_packets", self.initial_window.into());
        let most = ("max_window_packets", self.maximum_window.into());
        let why = "a flow begins with a window that it may have";
        order(least.1 <= first.1, [least, first], "at most", why)?;
        order(first.1 <= most.1, [first, most], "at most", why)
    }
}

impl Default for Bbr {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The controller of a sender. Windows are in packets, rates in packets of 1,024 seconds.
#[derive(Clone, Debug)]
pub(crate) struct BbrWindow {
    settings: Bbr,
    window: u64,
    /// What it was before a timeout, until it is that again.
    before_timeout: u64,
    /// Packets that have arrived since the window last grew.
    earned: u64,
    usual: Usual,
    shortest: Shortest,
    /// Of the last second or two: where others hold a queue that never drains, the path is as long as that.
    recent: Shortest,
    /// What a batch takes on the wire, at most: at the highest rate of late.
    batch: Shortest,
    /// The highest rates of this stretch of rounds and of the one before.
    rates: [u64; 2],
    /// Rounds of this stretch.
    rounds: u32,
    /// A round ends when a packet arrives that was sent after so many had.
    round_end: u64,
    /// Whether the window was full in this round.
    was_full: bool,
    is_starting: bool,
    /// While it is starting: the rate to be exceeded, and rounds in a row in which it was not.
    exceeded: u64,
    flat_rounds: u32,
    ceiling: Ceiling,
    jitter: Jitter,
    /// All that had arrived when this was last heard.
    delivered: u64,
    is_draining: bool,
    drained_at: Time,
    /// The round of the cycle of gains.
    phase: usize,
    cruise: usize,
}

impl BbrWindow {
    /// Settings that make no sense are moved to the nearest that do.
    pub(crate) fn new(settings: &Bbr) -> Self {
        let mut settings = *settings;
        settings.minimum_window = settings.minimum_window.max(1);
        settings.maximum_window = settings.maximum_window.max(settings.minimum_window);
        let first = settings.initial_window;
        Self {
            window: first.clamp(settings.minimum_window, settings.maximum_window).into(),
            settings,
            before_timeout: 0,
            earned: 0,
            usual: Usual::default(),
            shortest: Shortest::default(),
            recent: Shortest::default(),
            batch: Shortest::default(),
            rates: [0; 2],
            rounds: 0,
            round_end: 0,
            was_full: false,
            is_starting: true,
            exceeded: 0,
            flat_rounds: 0,
            ceiling: Ceiling::default(),
            jitter: Jitter::default(),
            delivered: 0,
            is_draining: false,
            drained_at: Time::ZERO,
            phase: 0,
            cruise: 0,
        }
    }

    fn rate(&self) -> u64 {
        self.rates[0].max(self.rates[1])
    }

    /// Packets that arrive in such a time.
    fn packets_in(&self, span: Span) -> u64 {
        let packets = u128::from(self.rate()) * u128::from(span.as_ps()) / (1_024 * PS_PER_SECOND);
        u64::try_from(packets).unwrap_or(u64::MAX)
    }

    /// How long a batch takes that leaves at once, at the rate at which packets arrive.
    fn batch_time(&self, packet_bytes: u64) -> Span {
        let rate = in_bits(self.rate().into(), packet_bytes, 100);
        rate.map_or(Span::ZERO, |rate| rate.time_of(PACED_BATCH_BYTES).min(PACED_BATCH_MOST))
    }

    /// The bandwidth-delay product.
    fn product(&self) -> u64 {
        self.recent.get().map_or(0, |shortest| self.packets_in(shortest))
    }

    fn heard(&mut self, now: Time, progress: &Progress) {
        let news = progress.delivered.saturating_sub(self.delivered);
        self.delivered = progress.delivered;
        self.ceiling.arrived(news);
        self.was_full |= progress.is_window_full;
        let is_used = self.was_full;
        if let Some(took) = progress.round_trip {
            if let Some(told) = self.shortest.told_by(took, progress.oldest_round_trip) {
                let usual = self.usual.measured(told);
                self.shortest.measured(now, usual, SHORTEST_ROUND_TRIP_KNOWN);
                self.recent.measured(now, usual, BBR_RECENT);
            }
            let shortest = self.shortest.get().unwrap_or(took);
            if !progress.is_last_of_many {
                self.jitter.measured(now, took, progress.late_by);
                let more = self.batch.get().unwrap_or(took).max(self.jitter.spread());
                self.ceiling.measured(took, shortest, more);
            }
            let packets = progress.delivered.saturating_sub(progress.delivered_when_sent);
            // An acknowledgement that has overtaken others tells of packets before their time.
            let is_ahead = progress.oldest_round_trip.is_some_and(|oldest| oldest * 2 > took * 3);
            let span = if is_ahead { took.max(shortest) } else { took };
            let rate =
                u128::from(packets) * 1_024 * PS_PER_SECOND / u128::from(span.as_ps().max(1));
            self.rates[0] = self.rates[0].max(u64::try_from(rate).unwrap_or(u64::MAX));
            // A READ that waits at the responder for one that was lost is acknowledged, and delivers nothing yet.
            if packets > 0 && progress.delivered_when_sent >= self.round_end {
                self.round_end = progress.delivered;
                let batch = self.batch_time(progress.packet_bytes);
                self.batch.measured(now, batch, SHORTEST_ROUND_TRIP_KNOWN);
                self.end_round(now);
            }
        }
        let target = if self.is_starting {
            // As long as it is used, it grows with what arrives.
            self.window + if is_used { news } else { 0 }
        } else {
            let product = self.product();
            let gained = product.saturating_mul(self.settings.gain.into()) / WHOLE;
            let wanted = gained + self.packets_in(BBR_HOST_LATENESS) + BBR_SPARE_PACKETS;
            let wanted = if self.is_draining { product / 2 } else { wanted };
            let is_short = self.window < product;
            self.earned += if is_short { news * BBR_GROWTH_DIVISOR } else { news };
            let grown = self.window + self.earned / BBR_GROWTH_DIVISOR;
            self.earned %= BBR_GROWTH_DIVISOR;
            wanted.min(grown)
        };
        let Bbr { minimum_window, maximum_window, .. } = self.settings;
        let most = self.ceiling.packets().min(maximum_window.into()).max(minimum_window.into());
        self.window = target.clamp(minimum_window.into(), most);
        if self.window >= self.before_timeout.min(most) {
            self.before_timeout = 0;
        }
    }

    fn end_round(&mut self, now: Time) {
        if self.is_starting && self.was_full {
            if self.rate() / 5 >= self.exceeded / 4 {
                (self.exceeded, self.flat_rounds) = (self.rate(), 0);
            } else {
                self.flat_rounds += 1;
            }
            self.is_starting = self.flat_rounds < BBR_FLAT_ROUNDS;
        }
        self.phase += 1;
        if self.phase >= 6 + self.cruise {
            // Flows of one path do not find out together.
            self.phase = 0;
            self.cruise = (now.as_ps() / 1_000) as usize % 4;
        }
        let shortest = self.shortest.get().unwrap_or(Span::ZERO);
        let round = Round {
            now,
            window: self.window.max(self.before_timeout),
            product: self.product(),
            least_product: self.packets_in(shortest),
            shortest: self.recent.get().unwrap_or(shortest),
            spread: self.jitter.spread(),
            loss: self.settings.loss,
            is_starting: self.is_starting,
            is_draining: self.is_draining,
            is_even: self.phase >= BBR_EVEN_FROM,
        };
        let is_lossy = self.ceiling.is_lossy(self.settings.loss);
        self.is_starting &= !self.ceiling.end_round(&round);
        // A rate that was not asked for is not forgotten. Where very much is lost, it is what was asked for.
        self.rounds += u32::from(self.was_full || is_lossy);
        if self.rounds >= BBR_RATE_ROUNDS {
            (self.rates, self.rounds) = ([0, self.rates[0]], 0);
        }
        self.was_full = false;
        // All flows of a host do so at once: one alone would see the queue of the others.
        let interval = BBR_DRAIN_INTERVAL.max(shortest * BBR_DRAIN_ROUNDS).as_ps();
        let interval = interval.checked_next_power_of_two().unwrap_or(u64::MAX);
        let is_due = now.as_ps() / interval != self.drained_at.as_ps() / interval;
        self.is_draining = is_due && !self.is_starting;
        if is_due {
            self.drained_at = now;
        }
    }
}

impl Controller for BbrWindow {
    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        None
    }

    fn on_acknowledgement(&mut self, now: Time, progress: &Progress) -> Option<Time> {
        self.heard(now, progress);
        None
    }

    fn on_arrival_behind_a_gap(&mut self, now: Time, progress: &Progress) {
        self.heard(now, progress);
    }

    fn on_repetition(&mut self, packets: u32) {
        if self.shortest.get().is_none() {
            // They may be on their way over a path that is longer than the timeout.
            return;
        }
        self.ceiling.lost(packets.into());
        self.is_starting = self.is_starting && !self.ceiling.has_lost_many(self.settings.loss);
    }

    fn on_late(&mut self, packets: u32) {
        self.ceiling.were_late(packets.into());
    }

    /// One packet, as in TCP (RFC 5681): many flows that begin at once, or have lost all that was under way, do not
    /// lose it again.
    fn on_timeout(&mut self) {
        self.before_timeout = self.before_timeout.max(self.window);
        self.window = 1;
        self.ceiling.timed_out();
    }

    fn window(&self, packet_bytes: u64) -> u64 {
        self.window * packet_bytes
    }

    fn pace(&self, packet_bytes: u64) -> Option<Rate> {
        let percent = match self.is_starting {
            true => BBR_PACE_PERCENT_AT_START,
            false => BBR_PACE_PERCENT.get(self.phase).copied().unwrap_or(100),
        };
        // A flow that has sent little of late is not held back for that, and one that begins not at all.
        let first = self.ceiling.packets().min(self.settings.initial_window.into());
        let least = if self.is_starting { self.window } else { first };
        let shortest = u128::from(self.shortest.get()?.as_ps().max(1));
        let least = u128::from(least) * 1_024 * PS_PER_SECOND / shortest;
        let rate = least.max(self.rate().into());
        in_bits(rate, packet_bytes, percent)
    }
}

/// So many hundredths of a rate in packets of 1,024 seconds, if that is any.
fn in_bits(packets: u128, packet_bytes: u64, percent: u64) -> Option<Rate> {
    let bits = packets * u128::from(packet_bytes) * 8 * u128::from(percent) / (1_024 * 100);
    (bits > 0).then(|| Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX)))
}

const PS_PER_SECOND: u128 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    /// A bottleneck: a packet leaves it each 10 us.
    #[derive(Clone, Copy)]
    struct Link {
        round_trip_us: u64,
        queue: usize,
        /// Lost by chance, of 1,000.
        loss: u64,
        seconds: u64,
    }

    const LINK: Link = Link { round_trip_us: 4_000, queue: 400, loss: 0, seconds: 4 };
    const PACKET_US: u64 = 10;

    struct Packet {
        flow: usize,
        sent: Time,
        delivered: u64,
    }

    /// What flows have brought over a link in the second half of the time, as parts of what it can carry; and
    /// what part of all packets found the queue full.
    fn run(count: usize, link: Link) -> (Vec<f64>, f64) {
        let mut flows: Vec<_> = (0..count).map(|_| BbrWindow::new(&Bbr::default())).collect();
        let (mut in_flight, mut delivered) = (std::vec![0; count], std::vec![0_u64; count]);
        let (mut queue, mut flying) = (VecDeque::new(), VecDeque::new());
        let mut gone: VecDeque<(u64, usize)> = VecDeque::new();
        let mut due = std::vec![Time::ZERO; count];
        let (mut dropped, mut passed, mut half) = (0_u64, 0_u64, std::vec![0; count]);
        let (steps, mut chance) = (link.seconds * 1_000_000 / PACKET_US, 1_u64);
        for step in 0..steps {
            let us = step * PACKET_US;
            let now = Time::ZERO + Span::from_us(us);
            if step == steps / 2 {
                half.clone_from(&delivered);
            }
            // Who is first differs.
            for index in (0..count).map(|index| (index + step as usize) % count) {
                let pace = flows[index].pace(1_280);
                while in_flight[index] < flows[index].window
                    && pace.is_none_or(|_| due[index] <= now + Span::from_us(200))
                {
                    in_flight[index] += 1;
                    if let Some(pace) = pace {
                        due[index] = due[index].max(now) + pace.time_of(1_280);
                    }
                    if queue.len() < link.queue {
                        let (flow, sent) = (index, now);
                        queue.push_back(Packet { flow, sent, delivered: delivered[index] });
                    } else {
                        dropped += 1;
                        gone.push_back((us + link.round_trip_us, index));
                    }
                }
            }
            if let Some(packet) = queue.pop_front() {
                passed += 1;
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let due = us + link.round_trip_us;
                if (chance >> 33) % 1_000 < link.loss {
                    gone.push_back((due, packet.flow));
                } else {
                    flying.push_back((due, packet));
                }
            }
            while gone.front().is_some_and(|(due, _)| *due <= us) {
                let Some((_, flow)) = gone.pop_front() else { break };
                in_flight[flow] -= 1;
                flows[flow].on_repetition(1);
            }
            while flying.front().is_some_and(|(due, _)| *due <= us) {
                let Some((_, packet)) = flying.pop_front() else { break };
                let Packet { flow, sent, delivered: when_sent } = packet;
                in_flight[flow] -= 1;
                delivered[flow] += 1;
                let progress = Progress {
                    packets: 1,
                    delivered: delivered[flow],
                    delivered_when_sent: when_sent,
                    round_trip: Some(now.since(sent)),
                    oldest_round_trip: Some(now.since(sent)),
                    is_window_full: true,
                    ..Progress::default()
                };
                flows[flow].on_acknowledgement(now, &progress);
            }
        }
        let parts = delivered.iter().zip(half).map(|(all, half)| all - half);
        let parts = parts.map(|packets| packets as f64 * 2.0 / steps as f64).collect();
        (parts, dropped as f64 / (dropped + passed) as f64)
    }

    fn jain(parts: &[f64]) -> f64 {
        let sum: f64 = parts.iter().sum();
        sum * sum / parts.len() as f64 / parts.iter().map(|part| part * part).sum::<f64>()
    }

    #[test]
    fn one_flow_fills_a_path_whatever_its_delay_its_queue_and_its_losses() {
        for round_trip_us in [200, 2_000, 20_000] {
            for (queue, loss, least) in
                [(400, 0, 0.95), (400, 1, 0.95), (400, 10, 0.93), (5_000, 0, 0.95), (40, 10, 0.85)]
            {
                let (parts, dropped) = run(1, Link { round_trip_us, queue, loss, ..LINK });
                let told = (round_trip_us, queue, loss, dropped);
                // Where the queue is a fifth of what the path holds, the window falls below that when it was full, as a TCP's.
                let least = if round_trip_us == 20_000 { f64::min(least, 0.87) } else { least };
                assert!(parts[0] >= least, "{:.3} over {told:?}", parts[0]);
                assert!(dropped < if queue == 40 { 0.08 } else { 0.05 }, "{told:?}");
            }
        }
    }

    #[test]
    fn eight_flows_share_a_path_evenly() {
        for link in [LINK, Link { loss: 10, ..LINK }, Link { queue: 40, ..LINK }] {
            let mut indices = Vec::new();
            for draw in 0..8 {
                let round_trip_us = link.round_trip_us + 10 * draw;
                let (parts, _) = run(8, Link { seconds: 8, round_trip_us, ..link });
                assert!(parts.iter().sum::<f64>() > 0.9, "{parts:.3?}");
                indices.push(jain(&parts));
            }
            indices.sort_by(f64::total_cmp);
            let (least, median) = (indices[0], indices[4]);
            let told = (link.loss, link.queue);
            assert!(median > 0.95 && least > 0.9, "{told:?}: {indices:.3?}");
        }
    }

    /// READ requests that wait at the responder for a lost one are acknowledged before anything is delivered.
    #[test]
    fn what_delivers_nothing_makes_no_round_and_no_rate_is_forgotten_for_it() {
        let mut flow = BbrWindow::new(&Bbr::default());
        let mut hear = |ms: u64, delivered, delivered_when_sent| {
            let progress = Progress {
                delivered,
                delivered_when_sent,
                round_trip: Some(Span::from_ms(20)),
                is_window_full: true,
                ..Progress::default()
            };
            flow.on_acknowledgement(Time::ZERO + Span::from_ms(ms), &progress);
            (flow.rate(), flow.window)
        };
        for round in 1..20 {
            hear(20 * round, 1_000 * round, 1_000 * (round - 1));
        }
        let before = hear(400, 20_000, 19_000);
        for waiting in 0..100 {
            assert_eq!(hear(401 + waiting / 10, 20_000, 20_000), before);
        }
    }

    /// Packets behind a lost one have arrived long before; what answers its repetition ends rounds of very few.
    #[test]
    fn after_a_timeout_a_loss_is_not_measured_by_the_window_of_one_packet() {
        let mut flow = BbrWindow::new(&Bbr::default());
        let mut delivered = 0;
        let mut hear = |flow: &mut BbrWindow, ms: u64, packets, took| {
            let progress = Progress {
                packets: packets as u32,
                delivered: delivered + packets,
                delivered_when_sent: delivered,
                round_trip: Some(Span::from_ms(took)),
                oldest_round_trip: Some(Span::from_ms(took)),
                is_window_full: true,
                ..Progress::default()
            };
            delivered += packets;
            flow.on_acknowledgement(Time::ZERO + Span::from_ms(ms), &progress);
        };
        for round in 1..40 {
            hear(&mut flow, 30 * round, 1_000, if round > 30 { 30 } else { 20 });
        }
        let before = flow.window;
        assert!(before > 500, "{before}");
        flow.on_timeout();
        flow.on_repetition(1);
        for round in 40..70 {
            let packets = flow.window;
            hear(&mut flow, 30 * round, packets, 30);
        }
        // Seven tenths of what the path holds.
        assert!(flow.window > 466, "{} of {before}", flow.window);
    }

    #[test]
    fn a_flow_that_does_not_fill_its_window_has_no_larger_one() {
        let mut flow = BbrWindow::new(&Bbr::default());
        for delivered in 1..1_000 {
            let progress = Progress { packets: 1, delivered, ..Progress::default() };
            flow.on_acknowledgement(Time::ZERO, &progress);
        }
        assert_eq!(flow.window, 10);
    }

    #[test]
    fn no_setting_and_no_packets_lead_out_of_range() {
        for number in [0, u32::MAX] {
            let mut flow = BbrWindow::new(&Bbr {
                gain: number as u16,
                loss: number as u16,
                initial_window: number,
                minimum_window: number,
                maximum_window: number,
            });
            for step in 0..10_000_u64 {
                let now = Time::ZERO + Span::from_us(step * (step % 5));
                let progress = Progress {
                    delivered: step * 1_000_003,
                    delivered_when_sent: (step % 11) * 1_000,
                    round_trip: Some(Span::from_ps(step % 7)),
                    is_window_full: step % 3 > 0,
                    ..Progress::default()
                };
                flow.on_acknowledgement(now, &progress);
                flow.on_repetition((step % 13) as u32);
                assert!(flow.window >= 1 && flow.window <= u64::from(number.max(1)));
            }
        }
    }
}
