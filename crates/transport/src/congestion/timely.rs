//! TIMELY: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015; and the
//! same as patched by Zhu et al., "ECN or Delay", CoNEXT 2016.
//!
//! ```text
//!   round trip    rate, after each segment
//!   ─────────────────────────────────────────────────────────────────────────────────
//!   above T_high  falls by beta (1 - T_high / round trip)
//!      between    round trips fall: grows by delta, or by 5 delta after the fifth time
//!                 they rise: falls by beta x gradient
//!   below T_low   grows by delta
//! ```
//!
//! The gradient is by how much round trips rise, averaged, in parts of the least one. It tells nothing of
//! how long the queue is, so flows that begin at different rates stay apart, and the queue stands
//! anywhere between the two thresholds. The patch compares the round trip itself with T_low where the
//! gradient is near zero; then all flows settle at one rate, and at one queue.
//!
//! Round trips are those of requests that ask for an acknowledgement. A READ response tells its sender
//! nothing, and is paced at the rate that its requests have led to.

use rdma::{Rate, Span, Time};

use super::keys::{keys, order};
use super::parameters::Field;
use super::{Conflict, Controller, Key, Progress};

/// Parts of a thousand, in which factors are said.
const WHOLE: i128 = 1_000;
/// In which a gradient is said.
const ONE: i128 = 1 << 20;

/// What a sender is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timely {
    /// The rate of the port: where a flow begins.
    pub line_rate: Rate,
    /// What a flow never falls below. The paper has none.
    pub minimum_rate: Rate,
    /// Below this round trip the rate grows (T_low).
    pub low: Span,
    /// Above this one it falls (T_high).
    pub high: Span,
    /// Gradients are parts of this round trip (D_minRTT).
    pub minimum_round_trip: Span,
    /// The part of the averaged difference that is new, in thousandths (alpha).
    pub smoothing: u16,
    /// How strongly the rate falls, in thousandths (beta).
    pub decrease: u16,
    /// By how much it grows (delta).
    pub additive_increase: Rate,
    /// After so many falling round trips in a row it grows by five times as much.
    pub hyper_after: u32,
    /// The rate changes once for so many bytes that arrive.
    pub segment_bytes: u64,
    /// Whether it is patched.
    pub is_patched: bool,
}

impl Timely {
    /// The constants of Zhu et al. 2016, table 2, for TIMELY as published.
    pub(super) const DEFAULT: Self = Self {
        line_rate: Rate::from_gbps(40),
        minimum_rate: Rate::from_mbps(10),
        low: Span::from_us(50),
        high: Span::from_us(500),
        minimum_round_trip: Span::from_us(20),
        smoothing: 875,
        decrease: 800,
        additive_increase: Rate::from_mbps(10),
        hyper_after: 5,
        segment_bytes: 16_000,
        is_patched: false,
    };

    pub(super) const KEYS: &'static [Key] = &keys! { Timely:
        low: "t_low_us", 1..=1_000_000, "Below this round trip the rate grows (T_low).";
        high: "t_high_us", 1..=10_000_000, "Above this round trip the rate falls (T_high).";
        minimum_round_trip: "min_rtt_us", 1..=1_000_000,
            "The round trip that gradients are parts of (D_minRTT).";
        smoothing: "ewma_1000ths", 1..=1_000,
            "The part of the averaged difference of round trips that is new (alpha).";
        decrease: "beta_1000ths", 1..=1_000, "How strongly the rate falls; 8 is for the patch.";
        additive_increase: "additive_mbps", 1..=10_000_000, "By how much the rate grows (delta).";
        hyper_after: "hai_after", 1..=1_000,
            "After so many falling round trips in a row the rate grows by five times as much.";
        segment_bytes: "segment_bytes", 1..=1_000_000_000,
            "The rate changes once for so many bytes that arrive.";
        minimum_rate: "min_mbps", 1..=10_000_000, "What a flow never falls below; the paper has none.";
        is_patched: "patched", 0..=1,
            "1 for the patch of Zhu et al. 2016, which settles at one queue and equal rates.";
    };

    pub(super) fn check(&self) -> Result<(), Conflict> {
        let Self { low, high, minimum_rate, line_rate, .. } = *self;
        let number = |span: Span| span.number(line_rate);
        order(
            low <= high,
            [("t_low_us", number(low)), ("t_high_us", number(high))],
            "at most",
            "between the two the gradient decides",
        )?;
        let mbps = |rate: Rate| rate.number(line_rate);
        order(
            minimum_rate <= line_rate,
            [("min_mbps", mbps(minimum_rate)), ("line_mbps", mbps(line_rate))],
            "at most",
            "a flow begins at the line rate, which is that of its port",
        )
    }

    /// How long a flow that always sends takes from the least rate to that of its port, where nothing waits and
    /// round trips are below T_low; `None` for more than ten seconds.
    pub fn climb_time(&self) -> Option<Span> {
        const PATIENCE_PS: u128 = 10_000_000_000_000;
        let mut flow = TimelyRate::new(self);
        flow.set(0);
        // The first round trip has none before it.
        flow.change(Span::ZERO);
        let mut took = 0;
        while flow.rate < self.line_rate.as_bps() {
            let bits = u128::from(self.segment_bytes.max(1)) * 8;
            took += bits * 1_000_000_000_000 / u128::from(flow.rate);
            let before = flow.rate;
            flow.change(Span::ZERO);
            if took > PATIENCE_PS || flow.rate == before {
                return None;
            }
        }
        u64::try_from(took).ok().map(Span::from_ps)
    }

    /// By how much round trips rise from one segment to the next so that the least rate is all that is left; none of
    /// the patch, which looks at the round trip itself.
    pub fn steepest_rise(&self) -> Option<Span> {
        let parts = u64::from(self.smoothing) * u64::from(self.decrease);
        let whole = u128::from(self.minimum_round_trip.as_ps()) * 1_000_000;
        let rise = whole.checked_div(parts.into()).and_then(|rise| u64::try_from(rise).ok());
        rise.filter(|_| !self.is_patched).map(Span::from_ps)
    }
}

impl Default for Timely {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The controller of a sender.
#[derive(Clone, Debug)]
pub(crate) struct TimelyRate {
    settings: Timely,
    /// In bits per second.
    rate: u64,
    /// The last round trip that was measured.
    round_trip: Option<Span>,
    /// The one that the rate was last changed for.
    before: Option<Span>,
    /// By how much round trips rise, averaged, in picoseconds.
    difference: i128,
    /// Round trips in a row that were not longer than the one before.
    falling: u32,
    /// Bytes that have arrived since the rate was changed.
    arrived: u64,
}

impl TimelyRate {
    /// At line rate.
    pub(crate) fn new(settings: &Timely) -> Self {
        Self {
            settings: *settings,
            rate: settings.line_rate.as_bps().max(1),
            round_trip: None,
            before: None,
            difference: 0,
            falling: 0,
            arrived: 0,
        }
    }

    /// A segment has arrived, and the last round trip took `now`.
    fn change(&mut self, now: Span) {
        let Timely { low, high, minimum_round_trip, additive_increase, .. } = self.settings;
        let Some(before) = self.before.replace(now) else { return };
        let [smoothing, beta] =
            [self.settings.smoothing, self.settings.decrease].map(|part| WHOLE.min(part.into()));
        let risen = i128::from(now.as_ps()) - i128::from(before.as_ps());
        self.difference = (self.difference * (WHOLE - smoothing) + risen * smoothing) / WHOLE;
        let gradient = self.difference * ONE / i128::from(minimum_round_trip.as_ps().max(1));
        let (rate, delta) = (i128::from(self.rate), i128::from(additive_increase.as_bps()));
        let [now, low, high] = [now, low, high].map(|span| i128::from(span.as_ps()));
        self.falling = if gradient <= 0 { self.falling.saturating_add(1) } else { 0 };
        let next = if now < low {
            rate + delta
        } else if now > high {
            rate - rate * beta * (now - high) / now / WHOLE
        } else if self.settings.is_patched {
            // Zhu et al., algorithm 2: from all of the growth to all of the fall between gradients of
            // minus and plus a quarter.
            let weight = (2 * gradient + ONE / 2).clamp(0, ONE);
            let error = (now - low) * ONE / low.max(1);
            let fall = rate * beta / WHOLE * weight / ONE * error / ONE;
            rate + delta * (ONE - weight) / ONE - fall
        } else if gradient <= 0 {
            let steps = if self.falling >= self.settings.hyper_after { 5 } else { 1 };
            rate + steps * delta
        } else {
            rate - rate * beta * gradient.min(ONE * 1_000) / ONE / WHOLE
        };
        self.set(next);
    }

    fn set(&mut self, rate: i128) {
        let line = self.settings.line_rate.as_bps().max(1);
        let least = self.settings.minimum_rate.as_bps().clamp(1, line);
        self.rate = u64::try_from(rate).unwrap_or(0).clamp(least, line);
    }
}

impl Controller for TimelyRate {
    fn rate(&self) -> Option<Rate> {
        Some(Rate::from_bps(self.rate))
    }

    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        self.rate()
    }

    fn on_acknowledgement(&mut self, _: Time, progress: &Progress) -> Option<Time> {
        self.round_trip = progress.round_trip.or(self.round_trip);
        self.arrived += progress.bytes;
        if self.arrived < self.settings.segment_bytes {
            return None;
        }
        if let Some(round_trip) = self.round_trip.take() {
            self.arrived = 0;
            self.change(round_trip);
        }
        None
    }

    /// The paper's network has no losses; a half is ours.
    fn on_loss(&mut self, _: Time) {
        self.set(i128::from(self.rate / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    const LINK_BPS: f64 = 10e9;
    const BASE_US: usize = 10;

    fn patched() -> Timely {
        let line_rate = Rate::from_bps(LINK_BPS as u64);
        Timely { line_rate, decrease: 8, is_patched: true, ..Timely::DEFAULT }
    }

    /// Flows at one link of 10 Gb/s for so many milliseconds, in steps of a microsecond: the rates in
    /// the end, and the mean round trip in the last tenth, in microseconds.
    fn run(mut flows: Vec<TimelyRate>, ms: usize) -> (Vec<f64>, f64) {
        let mut queue_bits = 0.0_f64;
        let mut sent = std::vec![0.0; flows.len()];
        let mut round_trips: VecDeque<f64> = [BASE_US as f64; BASE_US].into();
        let (steps, mut sum) = (ms * 1_000, 0.0);
        for step in 0..steps {
            let heard = round_trips.pop_front().unwrap();
            for (flow, sent) in flows.iter_mut().zip(&mut sent) {
                let bits = flow.rate as f64 * 1e-6;
                *sent += bits / 8.0;
                queue_bits += bits;
                if *sent >= 16_000.0 {
                    *sent -= 16_000.0;
                    let round_trip = Some(Span::from_ps((heard * 1e6) as u64));
                    let progress = Progress { bytes: 16_000, round_trip, ..Progress::default() };
                    flow.on_acknowledgement(Time::ZERO, &progress);
                }
            }
            queue_bits = (queue_bits - LINK_BPS * 1e-6).max(0.0);
            let round_trip = BASE_US as f64 + queue_bits / LINK_BPS * 1e6;
            round_trips.push_back(round_trip);
            if step >= steps / 10 * 9 {
                sum += round_trip / (steps / 10) as f64;
            }
        }
        (flows.iter().map(|flow| flow.rate as f64).collect(), sum)
    }

    /// Flows whose rates at the beginning are 1 to 1, 2, 3 ... of one another, and fill the link.
    fn uneven(count: u64, settings: &Timely) -> Vec<TimelyRate> {
        let all = count * (count + 1) / 2;
        let flow = |part| {
            let rate = LINK_BPS as u64 * part / all;
            TimelyRate { rate, ..TimelyRate::new(settings) }
        };
        (1..=count).map(flow).collect()
    }

    /// Zhu et al. 2016, theorem 5: the patch settles where round trips are T_low (1 + N delta / (beta C)),
    /// and rates are equal.
    #[test]
    fn patched_flows_settle_at_one_queue_and_equal_rates() {
        for count in [2, 4, 10] {
            let (rates, round_trip) = run(uneven(count, &patched()), 2_000);
            let expected = 50.0 * (1.0 + count as f64 * 10e6 / (0.008 * LINK_BPS));
            assert!((round_trip / expected - 1.0).abs() < 0.05, "{count}: {round_trip} {expected}");
            for rate in &rates {
                let part = rate * count as f64 / LINK_BPS;
                assert!((part - 1.0).abs() < 0.05, "{count}: {rates:?}");
            }
        }
    }

    /// The same, theorem 4: what is published has no fixed point of its own, and rates stay as they were.
    #[test]
    fn flows_as_published_stay_as_unequal_as_they_began() {
        let settings = Timely { is_patched: false, decrease: 800, ..patched() };
        let flows = [7, 3].map(|part| TimelyRate {
            rate: LINK_BPS as u64 / 10 * part,
            ..TimelyRate::new(&settings)
        });
        let (rates, round_trip) = run(flows.into(), 200);
        assert!(rates[0] > 1.3 * rates[1], "{rates:?}");
        assert!((10.0..=500.0).contains(&round_trip), "{round_trip}");
        assert!(rates.iter().sum::<f64>() > 0.8 * LINK_BPS, "{rates:?}");
    }

    fn hear(flow: &mut TimelyRate, round_trip_us: u64) {
        let round_trip = Some(Span::from_us(round_trip_us));
        let progress = Progress { bytes: 16_000, round_trip, ..Progress::default() };
        flow.on_acknowledgement(Time::ZERO, &progress);
    }

    #[test]
    fn each_region_of_round_trips_changes_the_rate_as_the_paper_says() {
        let mbps = |flow: &TimelyRate| flow.rate as f64 / 1e6;
        let begin = |first_us| {
            let settings = Timely { line_rate: Rate::from_gbps(10), ..Timely::DEFAULT };
            let mut flow = TimelyRate { rate: 5_000_000_000, ..TimelyRate::new(&settings) };
            hear(&mut flow, first_us);
            flow
        };
        let mut flow = begin(40);
        hear(&mut flow, 45);
        assert_eq!(mbps(&flow), 5_010.0);
        // Above T_high: by 0.8 (1 - 500 / 1000).
        let mut flow = begin(1_000);
        hear(&mut flow, 1_000);
        assert_eq!(mbps(&flow), 3_000.0);
        // A gradient of 0.875 x 4 / 20.
        let mut flow = begin(100);
        hear(&mut flow, 104);
        assert!((mbps(&flow) - 5_000.0 * (1.0 - 0.8 * 0.175)).abs() < 0.1, "{}", mbps(&flow));
        // Five steps at once from the fifth falling round trip on.
        let mut flow = begin(100);
        for expected in [5_010.0, 5_020.0, 5_030.0, 5_040.0, 5_090.0] {
            hear(&mut flow, 100);
            assert_eq!(mbps(&flow), expected);
        }
        // Half a segment changes nothing.
        let half =
            Progress { bytes: 8_000, round_trip: Some(Span::from_us(9)), ..Progress::default() };
        flow.on_acknowledgement(Time::ZERO, &half);
        assert_eq!(mbps(&flow), 5_090.0);
    }

    #[test]
    fn the_climb_from_the_least_rate_and_the_way_down_are_as_they_are_told() {
        let settings = Timely { line_rate: Rate::from_gbps(100), ..Timely::DEFAULT };
        // 12.8 ms for a segment at 10 Mb/s, times 1 + 1/2 + ... + 1/9,999.
        let ms = settings.climb_time().unwrap().as_ps() as f64 / 1e9;
        assert!((125.2..125.4).contains(&ms), "{ms}");
        let faster = Timely { minimum_rate: Rate::from_gbps(10), ..settings };
        assert!(faster.climb_time().unwrap() < Span::from_ms(32));
        let never = Timely { additive_increase: Rate::ZERO, ..settings };
        assert_eq!(never.climb_time(), None);
        let rise = settings.steepest_rise().unwrap().as_ps() / 1_000_000;
        for (more, is_least) in [(rise + 1, true), (rise - 1, false)] {
            let mut flow = TimelyRate::new(&settings);
            hear(&mut flow, 100);
            hear(&mut flow, 100 + more);
            assert_eq!(flow.rate == settings.minimum_rate.as_bps(), is_least, "{}", flow.rate);
        }
        assert_eq!(patched().steepest_rise(), None);
    }

    #[test]
    fn no_setting_and_no_round_trip_lead_out_of_the_rates_there_are() {
        let wild = Timely {
            line_rate: Rate::ZERO,
            minimum_rate: Rate::from_bps(u64::MAX),
            low: Span::ZERO,
            minimum_round_trip: Span::ZERO,
            smoothing: u16::MAX,
            decrease: u16::MAX,
            additive_increase: Rate::from_bps(u64::MAX),
            segment_bytes: 0,
            is_patched: true,
            ..Timely::DEFAULT
        };
        for settings in [wild, Timely { is_patched: false, ..wild }, Timely::DEFAULT] {
            let mut flow = TimelyRate::new(&settings);
            for step in 0..1_000_u64 {
                hear(&mut flow, [0, 1, 60, 400, 1 << 40][step as usize % 5]);
                flow.on_loss(Time::ZERO);
                assert!((1..=settings.line_rate.as_bps().max(1)).contains(&flow.rate));
            }
        }
    }
}
