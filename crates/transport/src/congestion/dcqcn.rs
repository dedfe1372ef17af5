//! DCQCN: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015.
//!
//! ```text
//!   R_C ┐ CNP: R_T = R_C, R_C falls by alpha / 2            R_T + i R_HAI  ╱ hyper
//!       │            ________ R_T   R_T + R_AI each _______---------------╱
//!       │      __----  five halvings of the gap    additive increase
//!       └─────┘  fast recovery
//! ```
//!
//! **Reaction point** ("RP algorithm"). A CNP cuts the current rate R_C and raises alpha,
//! the estimate of how often the network marks; a span without a CNP lowers alpha. After a cut the
//! rate climbs, one step each time that the rate timer or the byte counter expires: F steps halve the
//! gap to the target rate R_T that was left; the steps after those raise R_T by R_AI first; once the
//! timer *and* the counter have each made more than F, by a growing multiple of R_HAI.
//!
//! **Notification point** ("NP algorithm"). A marked packet is answered with a CNP at once, unless
//! one was sent within the interval; then one follows at the end of the interval.
//!
//! Rates are whole bits per second and alpha is a 32-bit fraction, so a curve is the same
//! everywhere. No timer runs: the next packet or CNP catches up with what would have expired. The
//! two timers are independent until a cut, so their order does not matter.

use rdma::{Rate, Span, Time};

use super::keys::order;
use super::parameters::Field;
use super::settings::Dcqcn;
use super::{Conflict, Controller};
use crate::limits::{ADDITIVE_STEPS_LOG2, LOSS_GAIN_DIVISOR};

/// Alpha of 1.
const ONE: u64 = 1 << 32;

/// Settings at a line rate: no rate is zero, no timer endless work.
#[derive(Clone, Debug)]
struct Numbers {
    line: u64,
    minimum: u64,
    first: Option<u64>,
    byte_counter: u64,
    additive: u64,
    hyper: u64,
    /// In 2^-10.
    alpha_gain: u64,
    alpha_timer: Span,
    rate_timer: Span,
}

impl Numbers {
    /// The nearest settings that make sense.
    fn of(settings: &Dcqcn) -> Self {
        let port = settings.line_rate;
        let minimum = settings.minimum_rate.at(port).as_bps().max(1);
        let line = settings.reach().as_bps().max(minimum);
        let additive = settings.additive_increase.at(port).as_bps();
        Self {
            line,
            minimum,
            first: settings.first_rate.map(|rate| rate.as_bps().clamp(minimum, line)),
            byte_counter: settings.byte_counter.at(port).max(1),
            additive: additive.max(line >> ADDITIVE_STEPS_LOG2).max(1),
            hyper: settings.hyper_increase.at(port).as_bps(),
            alpha_gain: u64::from(settings.alpha_gain).clamp(1, 1 << 10),
            alpha_timer: settings.alpha_timer.max(Span::from_ns(1)),
            rate_timer: settings.rate_timer.max(Span::from_ns(1)),
        }
    }
}

impl Dcqcn {
    /// What a flow reaches at most: the line rate, or less.
    pub fn reach(&self) -> Rate {
        self.maximum_rate.unwrap_or(self.line_rate).min(self.line_rate)
    }

    pub(super) fn check(&self) -> Result<(), Conflict> {
        let (least, most) = (self.minimum_rate.at(self.line_rate), self.reach());
        let key = if most < self.line_rate { "max_mbps" } else { "line_mbps" };
        let mbps = |rate: Rate| rate.number(self.line_rate);
        order(
            least <= most,
            [("min_mbps", mbps(least)), (key, mbps(most))],
            "at most",
            "a flow never falls below the one, and never exceeds the other",
        )
    }

    /// How long a flow that always sends takes, after `cnps` CNPs in a row, to be at 99 % of what it
    /// may reach; `None` for more than ten seconds.
    pub fn recovery_time(&self, cnps: u32) -> Option<Span> {
        const PATIENCE: Span = Span::from_ms(10_000);
        let mut flow = ReactionPoint::new(self);
        // With time to climb in between they would not be in a row.
        let between = self.cut_interval.max(Span::from_ns(1));
        let mut now = Time::ZERO;
        for _ in 0..cnps {
            now += between;
            flow.on_cnp(now);
        }
        let (cut, step) = (now, flow.numbers.rate_timer.max(Span::from_us(8)).as_ps() / 8);
        let enough = flow.numbers.line - flow.numbers.line / 100;
        while flow.current < enough {
            now += Span::from_ps(step);
            if now.since(cut) > PATIENCE {
                return None;
            }
            let bits = u128::from(flow.current) * u128::from(step) / 1_000_000_000_000;
            flow.on_sent(now, u64::try_from(bits / 8).unwrap_or(u64::MAX));
        }
        Some(now.since(cut))
    }
}

/// How a flow climbs after a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterLoss {
    /// There was none, or CNPs came after it.
    No,
    /// Not at all: what was lost has not arrived, and time says nothing of the network.
    Stands,
    /// By a part of the rate that is left: whatever dropped the packets is slower than the port, whose
    /// steps may be all that it has.
    Slowly,
}

/// The controller of a sender.
#[derive(Clone, Debug)]
pub(crate) struct ReactionPoint {
    settings: Dcqcn,
    numbers: Numbers,
    /// R_C, in bits per second.
    current: u64,
    /// R_T.
    target: u64,
    /// In 2^-32.
    alpha: u64,
    /// When the alpha timer began its period.
    alpha_since: Time,
    /// When the rate timer did.
    rate_since: Time,
    /// Steps that it has made since the cut.
    timer_steps: u32,
    /// Bytes since the byte counter expired.
    bytes: u64,
    /// Steps that it has made since the cut.
    byte_steps: u32,
    /// When the rate was last cut.
    cut_at: Option<Time>,
    /// Whether there was a CNP.
    has_heard: bool,
    /// What a loss has led to.
    after_loss: AfterLoss,
}

impl ReactionPoint {
    /// At line rate. Settings that make no sense are moved to the nearest that do.
    pub(crate) fn new(settings: &Dcqcn) -> Self {
        let numbers = Numbers::of(settings);
        Self {
            settings: *settings,
            current: numbers.line,
            target: numbers.line,
            numbers,
            alpha: ONE,
            alpha_since: Time::ZERO,
            rate_since: Time::ZERO,
            timer_steps: 0,
            bytes: 0,
            byte_steps: 0,
            cut_at: None,
            has_heard: false,
            after_loss: AfterLoss::No,
        }
    }

    /// R_C as of the last packet or CNP.
    pub(crate) fn current_rate(&self) -> Rate {
        Rate::from_bps(self.current)
    }

    /// R_T as of the last packet or CNP.
    #[cfg(test)]
    pub(crate) fn target_rate(&self) -> Rate {
        Rate::from_bps(self.target)
    }

    /// Alpha as of the last packet or CNP, in parts of a million.
    #[cfg(test)]
    pub(crate) fn alpha_ppm(&self) -> u32 {
        // At most a million.
        ((self.alpha * 1_000_000) >> 32) as u32
    }

    /// Catches up with timers that have expired since the last call.
    fn advance(&mut self, now: Time) {
        let gain = self.numbers.alpha_gain;
        for _ in 0..periods(&mut self.alpha_since, now, self.numbers.alpha_timer) {
            if self.alpha == 0 {
                break;
            }
            self.alpha -= (self.alpha * gain).div_ceil(1 << 10);
        }
        for _ in 0..periods(&mut self.rate_since, now, self.numbers.rate_timer) {
            if !self.is_limited() || self.after_loss == AfterLoss::Stands {
                break;
            }
            self.timer_steps = self.timer_steps.saturating_add(1);
            self.climb();
        }
    }

    /// Whether it is still below what it may reach.
    fn is_limited(&self) -> bool {
        self.current < self.numbers.line
    }

    /// One step up.
    fn climb(&mut self) {
        let fast_recovery_steps = self.settings.fast_recovery_steps;
        let fewer = self.timer_steps.min(self.byte_steps);
        let gain = if let beyond @ 1.. = fewer.saturating_sub(fast_recovery_steps) {
            self.numbers.hyper.saturating_mul(beyond.into())
        } else if self.timer_steps.max(self.byte_steps) > fast_recovery_steps {
            self.numbers.additive
        } else {
            0
        };
        let gain = match self.after_loss {
            AfterLoss::Slowly => gain.min(self.current / LOSS_GAIN_DIVISOR + 1),
            _ => gain,
        };
        self.target = self.target.saturating_add(gain).min(self.numbers.line);
        // Rounded up, so that it arrives.
        self.current += (self.target - self.current).div_ceil(2);
    }

    /// Cuts the rate by the alpha of before this CNP.
    fn cut(&mut self, now: Time, is_first: bool) {
        let Dcqcn { clamp_target, clamp_target_after_timer, .. } = self.settings;
        let has_climbed = self.byte_steps > 0 || clamp_target_after_timer && self.timer_steps > 0;
        if clamp_target || has_climbed || is_first {
            self.target = self.current;
        }
        self.fall(now, self.alpha);
        if let Some(first) = self.numbers.first.filter(|_| is_first) {
            self.current = first.min(self.target);
            self.target = self.current;
        }
    }

    /// Lowers the rate by `alpha`.
    fn fall(&mut self, now: Time, alpha: u64) {
        let shift = 22 + u32::from(self.settings.cut_log2);
        let cut = (u128::from(self.current) * u128::from(alpha)).unbounded_shr(shift);
        let percent = u128::from(self.settings.cut_floor_percent.min(100));
        let floor = (u128::from(self.current) * percent / 100) as u64;
        let left = self.current.saturating_sub(u64::try_from(cut).unwrap_or(u64::MAX));
        self.lower(now, left.max(floor));
    }

    /// Lowers the rate to `left`, if that is not too low; steps up are counted anew.
    fn lower(&mut self, now: Time, left: u64) {
        self.current = left.max(self.numbers.minimum);
        (self.cut_at, self.rate_since) = (Some(now), now);
        (self.timer_steps, self.byte_steps, self.bytes) = (0, 0, 0);
    }
}

impl Controller for ReactionPoint {
    fn rate(&self) -> Option<Rate> {
        Some(self.current_rate())
    }

    fn on_sent(&mut self, now: Time, bytes: u64) -> Option<Rate> {
        self.advance(now);
        self.bytes = self.bytes.saturating_add(bytes);
        while self.bytes >= self.numbers.byte_counter {
            if !self.is_limited() || self.after_loss == AfterLoss::Stands {
                self.bytes = 0;
                break;
            }
            self.bytes -= self.numbers.byte_counter;
            self.byte_steps = self.byte_steps.saturating_add(1);
            self.climb();
        }
        Some(self.current_rate())
    }

    fn on_cnp(&mut self, now: Time) -> bool {
        self.advance(now);
        let is_first = !core::mem::replace(&mut self.has_heard, true);
        if let Some(alpha) = self.settings.initial_alpha.filter(|_| is_first) {
            self.alpha = u64::from(alpha.min(1 << 10)) << 22;
        }
        let interval = self.settings.cut_interval;
        if self.cut_at.is_none_or(|cut| now.since(cut) >= interval) {
            self.cut(now, is_first);
            self.after_loss = AfterLoss::No;
        }
        let gain = self.numbers.alpha_gain;
        self.alpha += ((ONE * gain) >> 10) - ((self.alpha * gain) >> 10);
        self.alpha_since = now;
        true
    }

    /// Halves the rate, and the target falls too: what is above the rate did not fit. Losses
    /// that come within a step of the timer are of what was sent before the cut.
    fn on_loss(&mut self, now: Time) {
        let interval = self.settings.cut_interval.max(self.numbers.rate_timer);
        if !self.settings.cut_on_loss {
            return;
        }
        self.advance(now);
        if self.cut_at.is_none_or(|cut| now.since(cut) >= interval) {
            self.lower(now, self.current / 2);
            self.target = self.current;
        }
        self.after_loss = AfterLoss::Stands;
    }

    fn on_progress(&mut self, now: Time) {
        if self.after_loss == AfterLoss::Stands {
            self.advance(now);
            (self.after_loss, self.rate_since) = (AfterLoss::Slowly, now);
        }
    }
}

/// How many periods of a timer have ended by `now`. `since` moves to the beginning of the next.
fn periods(since: &mut Time, now: Time, period: Span) -> u64 {
    let passed = now.since(*since);
    if passed < period {
        // Nearly always so, and a division takes longer than the rest of this function.
        return 0;
    }
    let count = passed.as_ps() / period.as_ps();
    *since += period * count;
    count
}

/// The receiver's side of one queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NotificationPoint {
    /// When the CNP that is owed leaves.
    due: Option<Time>,
    /// No CNP leaves before this.
    not_before: Time,
}

impl NotificationPoint {
    /// A marked packet has come.
    pub(crate) fn marked(&mut self, now: Time) {
        if self.due.is_none() {
            self.due = Some(now.max(self.not_before));
        }
    }

    /// When a CNP is to leave.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Whether one leaves now.
    pub(crate) fn notify(&mut self, now: Time, interval: Span) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.due = None;
        self.not_before = now + interval;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{Share, Volume};
    use core::fmt::Write;
    use std::string::String;
    use std::vec::Vec;

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// R_C, R_T and alpha of a flow that sends as fast as it may, with a CNP at each of `cnps_us`; a
    /// line for every `every_us`.
    fn curve(settings: &Dcqcn, cnps_us: &[u64], every_us: u64, lines: u64) -> String {
        let mut flow = ReactionPoint::new(settings);
        let mut text = String::from("us R_C R_T alpha_ppm\n");
        let mut cnps = cnps_us.iter().map(|&at| us(at)).peekable();
        let mut now = Time::ZERO;
        for line in 0..lines {
            let until = us(line * every_us);
            while now <= until {
                while let Some(at) = cnps.next_if(|&at| at <= now) {
                    assert!(flow.on_cnp(at));
                }
                let rate = flow.on_sent(now, 1_000).unwrap();
                assert_eq!(rate, flow.current_rate());
                now += rate.time_of(1_000);
            }
            let (current, target) = (flow.current_rate(), flow.target_rate());
            writeln!(text, "{} {current} {target} {}", line * every_us, flow.alpha_ppm()).unwrap();
        }
        text
    }

    #[test]
    fn a_cut_is_recovered_in_five_halvings_then_in_small_steps() {
        let curve = curve(&Dcqcn::default(), &[10, 60], 55, 14);
        let expected = "\
            us R_C R_T alpha_ppm\n\
            0 40.000 Gb/s 40.000 Gb/s 1000000\n\
            55 20.000 Gb/s 40.000 Gb/s 1000000\n\
            110 10.000 Gb/s 20.000 Gb/s 1000000\n\
            165 15.000 Gb/s 20.000 Gb/s 996093\n\
            220 17.500 Gb/s 20.000 Gb/s 992202\n\
            275 18.750 Gb/s 20.000 Gb/s 988326\n\
            330 19.375 Gb/s 20.000 Gb/s 984466\n\
            385 19.687 Gb/s 20.000 Gb/s 980620\n\
            440 19.863 Gb/s 20.040 Gb/s 976790\n\
            495 19.971 Gb/s 20.080 Gb/s 972974\n\
            550 20.045 Gb/s 20.120 Gb/s 969173\n\
            605 20.102 Gb/s 20.160 Gb/s 965388\n\
            660 20.151 Gb/s 20.200 Gb/s 961617\n\
            715 20.195 Gb/s 20.240 Gb/s 957860\n";
        assert_eq!(curve, expected);
    }

    #[test]
    fn cnps_without_end_lead_down_to_the_minimum_and_no_further() {
        let settings = Dcqcn { line_rate: Rate::from_gbps(10), ..Dcqcn::paper() };
        let cnps: Vec<u64> = (1..20).map(|count| 50 * count).collect();
        let curve = curve(&settings, &cnps, 100, 12);
        let expected = "\
            us R_C R_T alpha_ppm\n\
            0 10.000 Gb/s 10.000 Gb/s 1000000\n\
            100 2.500 Gb/s 5.000 Gb/s 1000000\n\
            200 1.250 Gb/s 2.500 Gb/s 1000000\n\
            300 312.500 Mb/s 625.000 Mb/s 1000000\n\
            400 100.000 Mb/s 156.250 Mb/s 1000000\n\
            500 100.000 Mb/s 100.000 Mb/s 1000000\n\
            600 100.000 Mb/s 100.000 Mb/s 1000000\n\
            700 100.000 Mb/s 100.000 Mb/s 1000000\n\
            800 100.000 Mb/s 100.000 Mb/s 1000000\n\
            900 100.000 Mb/s 100.000 Mb/s 1000000\n\
            1000 100.000 Mb/s 100.000 Mb/s 1000000\n\
            1100 100.000 Mb/s 100.000 Mb/s 992202\n";
        assert_eq!(curve, expected);
    }

    #[test]
    fn the_byte_counter_climbs_as_the_timer_does_and_both_together_faster() {
        let settings = Dcqcn {
            byte_counter: Volume::Fixed(50_000),
            rate_timer: Span::from_us(100),
            ..Dcqcn::default()
        };
        let curve = curve(&settings, &[5, 60, 115], 100, 12);
        let expected = "\
            us R_C R_T alpha_ppm\n\
            0 40.000 Gb/s 40.000 Gb/s 1000000\n\
            100 32.830 Gb/s 37.500 Gb/s 996109\n\
            200 34.620 Gb/s 35.165 Gb/s 988372\n\
            300 35.524 Gb/s 35.565 Gb/s 980665\n\
            400 35.925 Gb/s 35.965 Gb/s 973019\n\
            500 36.325 Gb/s 36.365 Gb/s 969218\n\
            600 36.725 Gb/s 36.765 Gb/s 961661\n\
            700 37.165 Gb/s 37.205 Gb/s 954162\n\
            800 38.845 Gb/s 39.045 Gb/s 946723\n\
            900 39.998 Gb/s 40.000 Gb/s 939341\n\
            1000 39.999 Gb/s 40.000 Gb/s 932016\n\
            1100 40.000 Gb/s 40.000 Gb/s 928376\n";
        assert_eq!(curve, expected);
    }

    #[test]
    fn steps_of_another_rate_take_long_and_those_of_the_port_as_long_at_each() {
        let us = |settings: Dcqcn, gbps| {
            let settings = Dcqcn { line_rate: Rate::from_gbps(gbps), ..settings };
            [2, 16]
                .map(|cnps| settings.recovery_time(cnps).map_or(0, |time| time.as_ps() / 1_000_000))
        };
        let at = |settings| [10, 40, 100, 400].map(|gbps| us(settings, gbps));
        let of = [Dcqcn::scaled(), Dcqcn::paper(), Dcqcn::connectx()].map(at);
        let expected = [
            [[19_910, 39_490]; 4],
            [[7_095, 13_805], [19_910, 39_490], [13_695, 44_254], [7_865, 50_311]],
            [[300, 525], [112, 375], [75, 337], [37, 337]],
        ];
        assert_eq!(of, expected);
    }

    #[test]
    fn cnps_in_a_row_have_one_target_unless_it_is_clamped() {
        let after = |settings: Dcqcn, cnps_us: &[u64]| {
            let mut flow = ReactionPoint::new(&settings);
            for &at in cnps_us {
                flow.on_cnp(us(at));
            }
            (flow.current_rate(), flow.target_rate())
        };
        let loose = Dcqcn { clamp_target: false, ..Dcqcn::default() };
        let by_bytes = Dcqcn { clamp_target_after_timer: false, ..loose };
        let gbps = |current, target| (Rate::from_gbps(current), Rate::from_gbps(target));
        assert_eq!(after(Dcqcn::default(), &[1, 2, 3]), gbps(5, 10));
        assert_eq!(after(loose, &[1, 2, 3]), gbps(5, 40));
        // The timer has made a step in between: from 20 to 30 Gb/s.
        assert_eq!(after(loose, &[1, 60]).1, Rate::from_gbps(30));
        assert_eq!(after(by_bytes, &[1, 60]).1, Rate::from_gbps(40));
    }

    #[test]
    fn a_cut_is_as_deep_and_as_frequent_as_it_is_set() {
        let after = |settings: Dcqcn, cnps_us: &[u64]| {
            let mut flow = ReactionPoint::new(&settings);
            for &at in cnps_us {
                flow.on_cnp(us(at));
            }
            flow.current_rate()
        };
        let plain = Dcqcn::default();
        assert_eq!(after(Dcqcn { cut_log2: 12, ..plain }, &[1]), Rate::from_gbps(30));
        assert_eq!(after(Dcqcn { cut_floor_percent: 80, ..plain }, &[1]), Rate::from_gbps(32));
        assert_eq!(after(Dcqcn { initial_alpha: Some(256), ..plain }, &[1]), Rate::from_gbps(35));
        assert_eq!(
            after(Dcqcn { cut_interval: Span::from_us(4), ..plain }, &[1, 2, 4]),
            Rate::from_gbps(20)
        );
        let first = Dcqcn { first_rate: Some(Rate::from_gbps(8)), ..plain };
        assert_eq!(after(first, &[1]), Rate::from_gbps(8));
        assert_eq!(after(first, &[1, 2]), Rate::from_gbps(4));
        let most = Dcqcn { maximum_rate: Some(Rate::from_gbps(10)), ..plain };
        assert_eq!(after(most, &[]), Rate::from_gbps(10));
    }

    #[test]
    fn a_loss_halves_rate_and_target_once_in_a_step_of_the_timer() {
        let after = |settings: Dcqcn, losses_us: &[u64]| {
            let mut flow = ReactionPoint::new(&settings);
            for &at in losses_us {
                flow.on_loss(us(at));
            }
            (flow.current_rate(), flow.target_rate())
        };
        let both = |gbps| (Rate::from_gbps(gbps), Rate::from_gbps(gbps));
        assert_eq!(after(Dcqcn::scaled(), &[1]), both(20));
        assert_eq!(after(Dcqcn::scaled(), &[1, 2, 55]), both(20));
        assert_eq!(after(Dcqcn::scaled(), &[1, 56]), both(10));
        assert_eq!(after(Dcqcn::paper(), &[1]), both(40));
    }

    #[test]
    fn a_flow_that_rests_finds_what_its_timers_would_have_done() {
        let flow = || {
            let mut flow = ReactionPoint::new(&Dcqcn::default());
            for at in [10, 60, 110, 160] {
                flow.on_cnp(us(at));
            }
            flow
        };
        for rest in [1, 54, 55, 1_000, 10_000, 200_000] {
            let (mut rested, mut watched) = (flow(), flow());
            for at in 160..=160 + rest {
                watched.on_sent(us(at), 0);
            }
            rested.on_sent(us(160 + rest), 0);
            let state = |flow: &ReactionPoint| (flow.current, flow.target, flow.alpha);
            assert_eq!(state(&rested), state(&watched), "after {rest} us");
        }
    }

    #[test]
    fn half_a_year_of_rest_is_caught_up_with_at_once() {
        let slow = Dcqcn {
            line_rate: Rate::from_gbps(400),
            alpha_gain: 1,
            alpha_timer: Span::ZERO,
            rate_timer: Span::ZERO,
            byte_counter: Volume::Fixed(0),
            additive_increase: Share::Fixed(Rate::ZERO),
            ..Dcqcn::default()
        };
        let mut flow = ReactionPoint::new(&slow);
        for at in 0..100 {
            flow.on_cnp(us(at));
        }
        let late = Time::MAX;
        assert_eq!(flow.on_sent(late, 4_096), Some(Rate::from_gbps(400)));
        assert_eq!(flow.alpha_ppm(), 0);
        assert!(flow.on_cnp(late));
    }

    #[test]
    fn no_setting_leads_to_a_rate_of_nothing() {
        let nothing = Dcqcn {
            line_rate: Rate::ZERO,
            maximum_rate: Some(Rate::ZERO),
            minimum_rate: Share::Fixed(Rate::ZERO),
            first_rate: Some(Rate::ZERO),
            initial_alpha: Some(0),
            alpha_gain: 0,
            alpha_timer: Span::ZERO,
            cut_log2: 0,
            cut_floor_percent: 0,
            cut_interval: Span::ZERO,
            clamp_target: false,
            clamp_target_after_timer: false,
            cut_on_loss: true,
            rate_timer: Span::ZERO,
            byte_counter: Volume::Fixed(0),
            fast_recovery_steps: 0,
            additive_increase: Share::Fixed(Rate::ZERO),
            hyper_increase: Share::Fixed(Rate::ZERO),
        };
        let most = Rate::from_bps(u64::MAX);
        let huge = Dcqcn {
            line_rate: most,
            maximum_rate: Some(most),
            minimum_rate: Share::Fixed(Rate::from_bps(u64::MAX / 2)),
            first_rate: Some(most),
            initial_alpha: Some(u16::MAX),
            alpha_gain: u16::MAX,
            cut_log2: u8::MAX,
            cut_floor_percent: u8::MAX,
            additive_increase: Share::Fixed(most),
            hyper_increase: Share::Fixed(most),
            byte_counter: Volume::Fixed(1),
            ..nothing
        };
        for settings in [nothing, huge] {
            let mut flow = ReactionPoint::new(&settings);
            for at in 0..1_000 {
                flow.on_cnp(us(at));
                flow.on_cnp(us(at));
                flow.on_loss(us(at));
                let least = settings.minimum_rate.at(settings.line_rate);
                assert!(flow.on_sent(us(at), 4_096).unwrap() >= least);
                assert!(flow.current_rate() > Rate::ZERO);
            }
        }
    }

    #[test]
    fn marks_are_answered_at_once_then_once_an_interval() {
        let interval = Span::from_us(50);
        let mut point = NotificationPoint::default();
        let mut sent = Vec::new();
        // Packets at every microsecond; those from 10 on and before 130 are marked.
        for at in 0..400 {
            if (10..130).contains(&at) {
                point.marked(us(at));
            }
            if point.notify(us(at), interval) {
                sent.push(at);
            }
        }
        // The last reports marks between 110 and 130.
        assert_eq!(sent, [10, 60, 110, 160]);
        assert_eq!(point.due(), None);
    }
}
