//! Swift: Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter",
//! SIGCOMM 2020.
//!
//! ```text
//!   round trip  │ below the target: the window grows by ai packets in a round trip
//!   ────────────┼── target = base + what few packets in flight add
//!               │ above: it falls by beta (round trip - target) / round trip, once in a round trip
//!
//!   target
//!     ▲ ╲            fs_range
//!     │   ╲___
//!     │       ‾‾‾‾‾──────────  base target
//!     └──────────────────────► window: as 1 / root of it, from fs_min_cwnd to fs_max_cwnd
//! ```
//!
//! Flows with small windows have a longer target, so that many flows may share a queue, and so that the
//! smaller of two flows grows. A window below one packet is kept to by pacing: packets leave a round trip
//! over the window apart. That is the round trip which has just ended: with the one before, which is as old
//! as the wait, queues of many such flows swing between empty and full.
//!
//! Absent, since a RoCE NIC sees neither: the part of the delay that is the remote host's, which the paper
//! controls by a window of its own, and the number of hops, by which it scales the target. Nor does a row of
//! timeouts end at the least window: each is a loss like any other. Ours is that a window which is not used
//! does not grow.

use rdma::{Rate, Span, Time};

use super::keys::{keys, order};
use super::{Conflict, Controller, Key, Progress};
use crate::limits::SWIFT_ROUND_TRIP_TARGETS_MAX;

/// A packet, and the whole of a part.
const ONE: u64 = 1 << 16;
/// In which factors are said.
const WHOLE: u64 = 1_000;

/// What a sender is set to, under the paper's symbols. It publishes the curve of the target, and leaves the
/// rest to the deployment: beta and max_mdf are those of csg-htsim's Swift, which calls them guesses, and
/// the targets ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swift {
    /// The round trip that flows with large windows aim at (base_target).
    pub target: Span,
    /// What the smallest windows add to it (fs_range).
    pub scaling_range: Span,
    /// The window below which it grows no more, in thousandths of a packet (fs_min_cwnd).
    pub scaling_from: u32,
    /// The window above which nothing is added, in packets (fs_max_cwnd).
    pub scaling_to: u32,
    /// By how much the window grows in a round trip, in thousandths of a packet (ai).
    pub additive_increase: u32,
    /// How strongly it falls, in thousandths (beta).
    pub decrease: u16,
    /// The most that it falls at a time, in thousandths (max_mdf).
    pub decrease_most: u16,
    /// What it never falls below, in thousandths of a packet (min_cwnd).
    pub minimum_window: u32,
    /// What a flow begins with, in packets: ten, as in TCP (RFC 6928).
    pub initial_window: u32,
    /// What it never exceeds, in packets (max_cwnd).
    pub maximum_window: u32,
}

impl Swift {
    pub(super) const DEFAULT: Self = Self {
        target: Span::from_us(25),
        scaling_range: Span::from_us(50),
        scaling_from: 100,
        scaling_to: 100,
        additive_increase: 1_000,
        decrease: 800,
        decrease_most: 500,
        minimum_window: 10,
        initial_window: 10,
        maximum_window: 10_000,
    };

    pub(super) const KEYS: &'static [Key] = &keys! { Swift:
        target: "base_target_us", 1..=1_000_000, "The round trip that flows with large windows aim at.";
        scaling_range: "fs_range_us", 0..=1_000_000, "What the smallest windows add to the target.";
        scaling_from: "fs_min_cwnd_1000ths", 1..=1_000_000,
            "The window, in thousandths of a packet, below which the target grows no more.";
        scaling_to: "fs_max_cwnd_packets", 1..=1_000_000,
            "The window above which nothing is added to the target.";
        additive_increase: "ai_1000ths", 1..=1_000_000,
            "By how much the window grows in a round trip, in thousandths of a packet.";
        decrease: "beta_1000ths", 1..=1_000, "How strongly the window falls.";
        decrease_most: "max_mdf_1000ths", 1..=999, "The most that the window falls at a time.";
        minimum_window: "min_cwnd_1000ths", 1..=1_000_000,
            "What the window never falls below, in thousandths of a packet.";
        initial_window: "initial_window_packets", 1..=1_000_000,
            "The window of a flow that begins; TCP's is ten (RFC 6928).";
        maximum_window: "max_cwnd_packets", 1..=1_000_000, "What the window never exceeds.";
    };

    pub(super) fn check(&self) -> Result<(), Conflict> {
        let thousandths = |packets: u32| u64::from(packets) * WHOLE;
        let [from, least] = [self.scaling_from, self.minimum_window].map(u64::from);
        let [to, first, most] =
            [self.scaling_to, self.initial_window, self.maximum_window].map(thousandths);
        let least_said = ("min_cwnd_1000ths", least);
        let first_said = ("initial_window_packets", first / WHOLE);
        let most_said = ("max_cwnd_packets", most / WHOLE);
        order(
            from < to,
            [("fs_min_cwnd_1000ths", from), ("fs_max_cwnd_packets", to / WHOLE)],
            "below",
            "the target falls from the one window to the other, and a packet is 1000 thousandths",
        )?;
        let packet = "a packet is 1000 thousandths";
        order(least <= most, [least_said, most_said], "at most", packet)?;
        order(least <= first, [least_said, first_said], "at most", packet)?;
        let why = "a flow begins with a window that it may have";
        order(first <= most, [first_said, most_said], "at most", why)
    }
}

impl Default for Swift {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The controller of a sender. Windows are in 2^-16 packets.
#[derive(Clone, Debug)]
pub(crate) struct SwiftWindow {
    settings: Swift,
    minimum: u64,
    maximum: u64,
    window: u64,
    /// The last that was measured, as far as it counts.
    round_trip: Span,
    fallen_at: Option<Time>,
}

impl SwiftWindow {
    /// Settings that make no sense are moved to the nearest that do.
    pub(crate) fn new(settings: &Swift) -> Self {
        let minimum = (u64::from(settings.minimum_window) * ONE / WHOLE).max(1);
        let maximum = (u64::from(settings.maximum_window) * ONE).max(minimum);
        let window = (u64::from(settings.initial_window) * ONE).clamp(minimum, maximum);
        Self {
            settings: *settings,
            minimum,
            maximum,
            window,
            round_trip: settings.target,
            fallen_at: None,
        }
    }

    /// The round trip that a flow with this window aims at.
    fn target(&self) -> Span {
        let Swift { target, scaling_range, scaling_from, scaling_to, .. } = self.settings;
        // 1 / root of a window, in 2^-16.
        let inverse = |window: u64| (1_u64 << 32) / (window.max(1) << 16).isqrt();
        let least = inverse(u64::from(scaling_to.max(1)) * ONE);
        let most = inverse(u64::from(scaling_from) * ONE / WHOLE).max(least + 1);
        let part = inverse(self.window).clamp(least, most) - least;
        let added = u128::from(part) * u128::from(scaling_range.as_ps()) / u128::from(most - least);
        target + Span::from_ps(added as u64)
    }

    /// Lowers the window by `part` of itself, in 2^-16, or by the most that it may: once in a round trip.
    fn fall(&mut self, now: Time, part: u64) {
        if self.fallen_at.is_none_or(|fallen| now.since(fallen) >= self.round_trip) {
            let most = u64::from(self.settings.decrease_most).min(WHOLE) * ONE / WHOLE;
            self.fallen_at = Some(now);
            let fall = u128::from(self.window) * u128::from(part.min(most)) / u128::from(ONE);
            self.set(self.window - fall as u64);
        }
    }

    /// How long to wait after the last round trip, if the window is below one packet: packets leave a round
    /// trip over the window apart.
    fn rests(&self) -> Option<Span> {
        let missing = ONE.checked_sub(self.window).filter(|&missing| missing > 0)?;
        let rest =
            u128::from(self.round_trip.as_ps()) * u128::from(missing) / u128::from(self.window);
        Some(Span::from_ps(u64::try_from(rest).unwrap_or(u64::MAX)))
    }

    fn set(&mut self, window: u64) {
        self.window = window.clamp(self.minimum, self.maximum);
    }
}

impl Controller for SwiftWindow {
    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        None
    }

    fn on_acknowledgement(&mut self, now: Time, progress: &Progress) -> Option<Time> {
        let target = self.target();
        if let Some(took) = progress.round_trip {
            let most = target.as_ps().saturating_mul(SWIFT_ROUND_TRIP_TARGETS_MAX);
            self.round_trip = took.min(Span::from_ps(most));
        }
        let [target, took] = [target, self.round_trip].map(|span| u128::from(span.as_ps()));
        if took >= target {
            // What was measured before has had its effect.
            if progress.round_trip.is_some() {
                let beta = u128::from(self.settings.decrease) * u128::from(ONE);
                self.fall(now, (beta * (took - target) / took.max(1) / u128::from(WHOLE)) as u64);
            }
        } else if progress.is_window_full || self.window < ONE {
            let step = u64::from(self.settings.additive_increase) * ONE / WHOLE;
            // A window below one packet grows by as much as one of a packet does.
            let per_packet = step * ONE / self.window.max(ONE);
            let grown = u64::from(progress.packets).saturating_mul(per_packet);
            self.set(self.window.saturating_add(grown));
        }
        progress.round_trip.and_then(|_| self.rests()).map(|rest| now + rest)
    }

    fn on_loss(&mut self, now: Time) {
        self.fall(now, ONE);
    }

    fn window(&self, packet_bytes: u64) -> u64 {
        self.window * packet_bytes / ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const LINK_BPS: f64 = 10e9;
    const PACKET_BITS: f64 = 8_192.0;
    const BASE_US: f64 = 10.0;

    /// Flows at one link of 10 Gb/s for 200 ms, in steps of a microsecond: their windows, in packets,
    /// and the mean round trip, in microseconds, of the second half.
    fn run(count: usize) -> (Vec<f64>, f64) {
        let settings = Swift::default();
        let mut flows: Vec<SwiftWindow> = (0..count)
            .map(|index| {
                let mut flow = SwiftWindow::new(&settings);
                // They begin apart.
                flow.window = ONE * (1 + index as u64 % 10);
                flow
            })
            .collect();
        let mut arrived = std::vec![0.0; count];
        let (mut round_trip, mut sum) = (BASE_US, 0.0);
        let mut windows = std::vec![0.0; count];
        let steps = 200_000_u64;
        for step in 0..steps {
            let now = Time::ZERO + Span::from_us(step);
            for (flow, arrived) in flows.iter_mut().zip(&mut arrived) {
                *arrived += flow.window as f64 / ONE as f64 / round_trip;
                let packets = *arrived as u32;
                if packets > 0 {
                    *arrived -= f64::from(packets);
                    let progress = Progress {
                        packets,
                        round_trip: Some(Span::from_ps((round_trip * 1e6) as u64)),
                        is_window_full: true,
                        ..Progress::default()
                    };
                    flow.on_acknowledgement(now, &progress);
                }
            }
            let all: f64 = flows.iter().map(|flow| flow.window as f64 / ONE as f64).sum();
            round_trip = (all * PACKET_BITS / LINK_BPS * 1e6).max(BASE_US);
            if step >= steps / 2 {
                sum += round_trip / (steps / 2) as f64;
                for (window, flow) in windows.iter_mut().zip(&flows) {
                    *window += flow.window as f64 / ONE as f64 / (steps / 2) as f64;
                }
            }
        }
        (windows, sum)
    }

    /// The round trip at which a window of a flow's share has itself for a target: section 3.5.
    fn fixed_point(count: usize) -> f64 {
        let inverse = |window: f64| 1.0 / window.sqrt();
        let target = |window: f64| {
            let (most, least) = (inverse(0.1), inverse(100.0));
            25.0 + 50.0 * (inverse(window.clamp(0.1, 100.0)) - least) / (most - least)
        };
        let (mut low, mut high) = (1.0, 1_000.0);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            let window = LINK_BPS * middle * 1e-6 / PACKET_BITS / count as f64;
            if target(window) > middle { low = middle } else { high = middle }
        }
        low
    }

    #[test]
    fn flows_settle_at_the_target_of_their_share_which_more_flows_make_longer() {
        // Of 100 flows each has half a packet, and grows by a whole one at a time.
        for (count, off) in [(1, 0.1), (4, 0.1), (16, 0.1), (100, 0.15)] {
            let (windows, round_trip) = run(count);
            let expected = fixed_point(count);
            let is_near = (round_trip / expected - 1.0).abs() < off;
            assert!(is_near, "{count}: {round_trip} of {expected}");
            let share = windows.iter().sum::<f64>() / count as f64;
            for window in &windows {
                assert!((window / share - 1.0).abs() < 0.15, "{count}: {window} of {share}");
            }
        }
        assert!(fixed_point(100) > 1.3 * fixed_point(4));
    }

    #[test]
    fn the_target_follows_the_root_of_the_window_between_its_bounds() {
        let us = |packets: f64| {
            let mut flow = SwiftWindow::new(&Swift::default());
            flow.window = (packets * ONE as f64) as u64;
            flow.target().as_ps() as f64 / 1e6
        };
        assert_eq!((us(0.05), us(0.1), us(100.0), us(1_000.0)), (us(0.1), us(0.1), 25.0, 25.0));
        assert!((us(0.1) - 75.0).abs() < 0.1, "{}", us(0.1));
        let added = |packets: f64| us(packets) - 25.0 + 50.0 * 0.1 / (10_f64.sqrt() - 0.1);
        assert!((added(1.0) / added(4.0) - 2.0).abs() < 0.01, "{} {}", added(1.0), added(4.0));
    }

    /// At `at_us` a packet is acknowledged, after `round_trip_us` if that was measured.
    fn hear(flow: &mut SwiftWindow, at_us: u64, round_trip_us: Option<u64>) {
        let round_trip = round_trip_us.map(Span::from_us);
        let progress =
            Progress { packets: 1, round_trip, is_window_full: true, ..Progress::default() };
        flow.on_acknowledgement(Time::ZERO + Span::from_us(at_us), &progress);
    }

    fn packets(flow: &SwiftWindow) -> f64 {
        flow.window as f64 / ONE as f64
    }

    #[test]
    fn the_window_grows_by_a_packet_in_a_window_of_data_and_by_one_for_each_below_one() {
        let mut flow = SwiftWindow::new(&Swift { initial_window: 100, ..Swift::default() });
        for at_us in 0..100 {
            hear(&mut flow, at_us, Some(10));
        }
        assert!((packets(&flow) - 101.0).abs() < 0.01, "{}", packets(&flow));
        flow.window = ONE / 4;
        hear(&mut flow, 100, Some(10));
        assert_eq!(packets(&flow), 1.25);
        // One that is not used does not grow.
        let progress = Progress { packets: 9, ..Progress::default() };
        flow.on_acknowledgement(Time::ZERO, &progress);
        assert_eq!(packets(&flow), 1.25);
    }

    #[test]
    fn the_window_falls_in_proportion_to_the_overshoot_and_once_in_a_round_trip() {
        for start in [1_000.0, 0.012] {
            let mut flow = SwiftWindow::new(&Swift { minimum_window: 1, ..Swift::default() });
            flow.window = (start * ONE as f64) as u64;
            let target = flow.target().as_ps() as f64 / 1e6;
            let took = (target * 1.25) as u64;
            let left = start * (1.0 - 0.8 * (1.0 - target / took as f64));
            for at_us in [0, 1, took - 1] {
                hear(&mut flow, 1_000 + at_us, Some(took));
                assert!((packets(&flow) / left - 1.0).abs() < 0.005, "{}", packets(&flow));
            }
            // A round trip later, but not by what was measured before.
            hear(&mut flow, 1_000 + took, None);
            assert!((packets(&flow) / left - 1.0).abs() < 0.005, "{}", packets(&flow));
            hear(&mut flow, 1_000 + took, Some(took));
            assert!(packets(&flow) < 0.95 * left, "{} of {left}", packets(&flow));
        }
    }

    #[test]
    fn the_window_falls_by_a_half_at_most_however_long_a_round_trip_and_for_a_loss() {
        let mut flow = SwiftWindow::new(&Swift { initial_window: 1_000, ..Swift::default() });
        for at_us in [1_000, 1_001, 1_999] {
            hear(&mut flow, at_us, Some(1_000));
            assert_eq!(packets(&flow), 500.0);
        }
        flow.on_loss(Time::ZERO + Span::from_us(2_000));
        assert_eq!(packets(&flow), 250.0);
    }

    #[test]
    fn a_peer_that_stood_still_is_not_waited_for_a_hundred_times_as_long() {
        let rest_ms = |took: Span| {
            let mut flow = SwiftWindow::new(&Swift::default());
            flow.window = flow.minimum;
            let now = Time::ZERO + Span::from_ms(6_000);
            let progress = Progress { packets: 1, round_trip: Some(took), ..Progress::default() };
            let next = flow.on_acknowledgement(now, &progress).unwrap();
            (next.since(now).as_ps() / 1_000_000_000, flow.round_trip)
        };
        // What a queue may do is waited for in full: 99 round trips at a window of 0.01.
        assert_eq!(rest_ms(Span::from_us(4_000)), (396, Span::from_us(4_000)));
        let (rest, counted) = rest_ms(Span::from_ms(5_000));
        assert!((470..480).contains(&rest), "{rest} ms");
        assert_eq!(rest_ms(Span::from_ms(50_000)), (rest, counted));
    }

    #[test]
    fn no_setting_and_no_round_trip_lead_out_of_the_windows_there_are() {
        let none = Swift {
            target: Span::ZERO,
            scaling_from: 0,
            scaling_to: 0,
            additive_increase: 0,
            decrease: 0,
            decrease_most: 0,
            minimum_window: 0,
            initial_window: 0,
            maximum_window: 0,
            ..Swift::DEFAULT
        };
        let most = Swift {
            scaling_from: u32::MAX,
            scaling_to: u32::MAX,
            additive_increase: u32::MAX,
            decrease: u16::MAX,
            decrease_most: u16::MAX,
            minimum_window: u32::MAX,
            initial_window: u32::MAX,
            maximum_window: u32::MAX,
            ..Swift::DEFAULT
        };
        for settings in [none, most, Swift::DEFAULT] {
            let mut flow = SwiftWindow::new(&settings);
            for step in 0..1_000_u64 {
                let took = Span::from_us([0, 1, 30, 100, 1 << 40][step as usize % 5]);
                let progress = Progress {
                    packets: [0, 1, 1 << 23][step as usize % 3],
                    round_trip: Some(took),
                    is_window_full: true,
                    ..Progress::default()
                };
                flow.on_acknowledgement(Time::ZERO + Span::from_us(step * 50), &progress);
                flow.on_loss(Time::ZERO + Span::from_us(step * 50));
                assert!((flow.minimum..=flow.maximum).contains(&flow.window));
                assert!(flow.on_sent(Time::ZERO, 4_096).is_none_or(|rate| rate > Rate::ZERO));
                flow.window(4_352);
            }
        }
    }
}
