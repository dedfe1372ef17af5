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

use super::Controller;
use crate::limits::{ADDITIVE_STEPS_LOG2, ALPHA_GAIN_DIVISOR_MAX};

/// What a reaction point is set to. The default is what the paper deploys, where it gives a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    /// Where a flow begins, and what it never exceeds: the rate of the port.
    pub line_rate: Rate,
    /// What a flow never falls below. The paper has none; 100 Mb/s is that of its authors'
    /// simulator (ns3-rdma).
    pub minimum_rate: Rate,
    /// 1 / g: the part of the way that alpha moves at a time. From 1 to [`ALPHA_GAIN_DIVISOR_MAX`].
    pub alpha_gain_divisor: u32,
    /// Without a CNP for so long, alpha falls (K; longer than the interval of CNPs).
    pub alpha_timer: Span,
    /// The rate climbs a step each time that so much time has passed (T).
    pub rate_timer: Span,
    /// And each time that so many bytes have been sent (B).
    pub byte_counter: u64,
    /// Steps of fast recovery (F).
    pub fast_recovery_steps: u32,
    /// What the target rate gains by a step of additive increase (R_AI), at least 2^-16 of the line
    /// rate.
    pub additive_increase: Rate,
    /// What it gains by the first step of hyper increase, twice that by the second, and so on
    /// (R_HAI). The paper gives no value; 200 Mb/s is that of ns3-rdma.
    pub hyper_increase: Rate,
}

impl Default for Dcqcn {
    fn default() -> Self {
        Self {
            line_rate: Rate::from_gbps(40),
            minimum_rate: Rate::from_mbps(100),
            alpha_gain_divisor: 256,
            alpha_timer: Span::from_us(55),
            rate_timer: Span::from_us(55),
            byte_counter: 10_000_000,
            fast_recovery_steps: 5,
            additive_increase: Rate::from_mbps(40),
            hyper_increase: Rate::from_mbps(200),
        }
    }
}

impl Dcqcn {
    /// The nearest settings that make sense: no rate is zero, no timer endless work.
    fn sane(mut self) -> Self {
        self.minimum_rate = self.minimum_rate.max(Rate::from_bps(1));
        self.line_rate = self.line_rate.max(self.minimum_rate);
        self.alpha_gain_divisor = self.alpha_gain_divisor.clamp(1, ALPHA_GAIN_DIVISOR_MAX);
        self.alpha_timer = self.alpha_timer.max(Span::from_ns(1));
        self.rate_timer = self.rate_timer.max(Span::from_ns(1));
        self.byte_counter = self.byte_counter.max(1);
        let least = Rate::from_bps(self.line_rate.as_bps() >> ADDITIVE_STEPS_LOG2);
        self.additive_increase = self.additive_increase.max(least).max(Rate::from_bps(1));
        self
    }
}

/// Alpha of 1.
const ONE: u64 = 1 << 32;

/// The controller of a sender.
#[derive(Clone, Debug)]
pub(crate) struct ReactionPoint {
    settings: Dcqcn,
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
}

impl ReactionPoint {
    /// At line rate, and alpha 1. Settings that make no sense are moved to the nearest that do.
    pub(crate) fn new(settings: &Dcqcn) -> Self {
        let settings = settings.sane();
        let line = settings.line_rate.as_bps();
        Self {
            settings,
            current: line,
            target: line,
            alpha: ONE,
            alpha_since: Time::ZERO,
            rate_since: Time::ZERO,
            timer_steps: 0,
            bytes: 0,
            byte_steps: 0,
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
        let divisor = u64::from(self.settings.alpha_gain_divisor);
        for _ in 0..periods(&mut self.alpha_since, now, self.settings.alpha_timer) {
            if self.alpha == 0 {
                break;
            }
            self.alpha -= self.alpha.div_ceil(divisor);
        }
        for _ in 0..periods(&mut self.rate_since, now, self.settings.rate_timer) {
            if !self.is_limited() {
                break;
            }
            self.timer_steps = self.timer_steps.saturating_add(1);
            self.climb();
        }
    }

    /// Whether it is still below what it may reach.
    fn is_limited(&self) -> bool {
        self.current < self.settings.line_rate.as_bps()
    }

    /// One step up.
    fn climb(&mut self) {
        let Dcqcn { fast_recovery_steps, line_rate, .. } = self.settings;
        let fewer = self.timer_steps.min(self.byte_steps);
        let gain = if let beyond @ 1.. = fewer.saturating_sub(fast_recovery_steps) {
            self.settings.hyper_increase.as_bps().saturating_mul(beyond.into())
        } else if self.timer_steps.max(self.byte_steps) > fast_recovery_steps {
            self.settings.additive_increase.as_bps()
        } else {
            0
        };
        self.target = self.target.saturating_add(gain).min(line_rate.as_bps());
        // Rounded up, so that it arrives.
        self.current += (self.target - self.current).div_ceil(2);
    }
}

impl Controller for ReactionPoint {
    fn on_sent(&mut self, now: Time, bytes: u64) -> Option<Rate> {
        self.advance(now);
        self.bytes += bytes;
        while self.bytes >= self.settings.byte_counter {
            if !self.is_limited() {
                self.bytes = 0;
                break;
            }
            self.bytes -= self.settings.byte_counter;
            self.byte_steps = self.byte_steps.saturating_add(1);
            self.climb();
        }
        Some(self.current_rate())
    }

    fn on_cnp(&mut self, now: Time) -> bool {
        self.advance(now);
        // The cut is by the alpha of before.
        self.target = self.current;
        // Below `current`, as alpha is 1 at most.
        let cut = ((u128::from(self.current) * u128::from(self.alpha)) >> 33) as u64;
        self.current = (self.current - cut).max(self.settings.minimum_rate.as_bps());
        let divisor = u64::from(self.settings.alpha_gain_divisor);
        self.alpha += ONE / divisor - self.alpha / divisor;
        (self.alpha_since, self.rate_since) = (now, now);
        (self.timer_steps, self.byte_steps, self.bytes) = (0, 0, 0);
        true
    }

    fn is_ecn_capable(&self) -> bool {
        true
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

/// How a receiver tells senders of marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification {
    /// A queue pair sends at most one CNP in this time (N).
    pub interval: Span,
    /// The DSCP of CNPs, so that a network can let them overtake the congestion. NICs use 48 (CS6)
    /// by default.
    pub dscp: u8,
}

impl Default for Notification {
    fn default() -> Self {
        Self { interval: Span::from_us(50), dscp: 48 }
    }
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
        let settings = Dcqcn { line_rate: Rate::from_gbps(10), ..Dcqcn::default() };
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
        let settings =
            Dcqcn { byte_counter: 50_000, rate_timer: Span::from_us(100), ..Dcqcn::default() };
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
            alpha_gain_divisor: u32::MAX,
            alpha_timer: Span::ZERO,
            rate_timer: Span::ZERO,
            byte_counter: 0,
            additive_increase: Rate::ZERO,
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
            minimum_rate: Rate::ZERO,
            alpha_gain_divisor: 0,
            alpha_timer: Span::ZERO,
            rate_timer: Span::ZERO,
            byte_counter: 0,
            fast_recovery_steps: 0,
            additive_increase: Rate::ZERO,
            hyper_increase: Rate::ZERO,
        };
        let huge = Dcqcn {
            line_rate: Rate::from_bps(u64::MAX),
            minimum_rate: Rate::from_bps(u64::MAX / 2),
            additive_increase: Rate::from_bps(u64::MAX),
            hyper_increase: Rate::from_bps(u64::MAX),
            byte_counter: 1,
            fast_recovery_steps: 0,
            ..nothing
        };
        for settings in [nothing, huge] {
            let mut flow = ReactionPoint::new(&settings);
            for at in 0..1_000 {
                flow.on_cnp(us(at));
                flow.on_cnp(us(at));
                assert!(flow.on_sent(us(at), 4_096).unwrap() >= settings.minimum_rate);
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
