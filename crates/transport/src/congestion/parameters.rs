//! The settings of DCQCN by name: as the paper has them, and as mlx5 does.
//!
//! Whatever reads settings, be it a scenario, the environment or a folder such as
//! `/sys/class/net/eth0/ecn`, reads them by this table.

use core::ops::RangeInclusive;

use rdma::{Rate, Span};

use super::settings::{Settings, Share, Volume};

/// One setting.
#[derive(Debug)]
pub struct Parameter {
    /// What we call it; its end is its unit.
    pub key: &'static str,
    /// What mlx5 calls it, in the same unit.
    pub mlx5: &'static str,
    /// What it is, and its symbol in the paper.
    pub about: &'static str,
    /// What it may be.
    pub range: RangeInclusive<u64>,
    get: fn(&Settings) -> u64,
    set: fn(&mut Settings, u64),
    pub(super) theirs: Theirs,
}

/// How mlx5's number for a setting is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Theirs {
    /// It is the same as ours.
    Same,
    /// It is 1024 less ours.
    Rest,
    /// It is the same as ours, but a NIC that chooses for itself shows 0.
    OwnChoice,
}

/// Up to ten terabits per second.
const MBPS: RangeInclusive<u64> = 1..=10_000_000;

/// The same, or nothing.
const MBPS_OR_NONE: RangeInclusive<u64> = 0..=10_000_000;

/// Up to a minute.
const US: RangeInclusive<u64> = 1..=60_000_000;

const US_OR_NONE: RangeInclusive<u64> = 0..=60_000_000;

const FLAG: RangeInclusive<u64> = 0..=1;

/// 2^10, in which alpha is said.
const WHOLE: u64 = 1_024;

/// A field of the settings as the number that is written for it.
pub(super) trait Field {
    fn of(number: u64) -> Self;

    /// The number, rounded down, at a port of rate `line`.
    fn number(self, line: Rate) -> u64;
}

macro_rules! fields {
    ($($field:ty: |$number:ident| $of:expr, |$it:ident, $line:tt| $shown:expr;)+) => { $(
        impl Field for $field {
            fn of($number: u64) -> Self {
                $of
            }

            fn number(self, $line: Rate) -> u64 {
                let $it = self;
                $shown
            }
        }
    )+ };
}

const PER_MBPS: u64 = 1_000_000;

// Numbers are of ranges that their types hold.
fields! {
    Share: |mbps| Self::Fixed(Rate::from_mbps(mbps)), |it, line| it.at(line).as_bps() / PER_MBPS;
    // 0 is none.
    Option<Rate>: |mbps| (mbps > 0).then(|| Rate::from_mbps(mbps)),
        |it, _| it.map_or(0, |rate| rate.as_bps() / PER_MBPS);
    Volume: |bytes| Self::Fixed(bytes), |it, line| it.at(line);
    Span: |us| Self::from_us(us), |it, _| it.as_ps() / 1_000_000;
    // None is the whole.
    Option<u16>: |part| Some(part as u16), |it, _| it.map_or(WHOLE, u64::from);
    bool: |flag| flag == 1, |it, _| it.into();
    u8: |number| number as Self, |it, _| it.into();
    u16: |number| number as Self, |it, _| it.into();
    u32: |number| number as Self, |it, _| it.into();
    u64: |number| number, |it, _| it;
    Rate: |mbps| Self::from_mbps(mbps), |it, _| it.as_bps() / PER_MBPS;
}

/// Rows of the table: field, our name, mlx5's, range, and what it is.
macro_rules! parameters {
    ($($end:ident.$field:ident: $key:literal, $theirs:ident $mlx5:literal, $range:expr,
        $about:literal;)*) => {
        [$(Parameter {
            key: $key,
            mlx5: $mlx5,
            about: $about,
            range: $range,
            get: |it| it.$end.$field.number(it.reaction.line_rate),
            set: |it, number| it.$end.$field = Field::of(number),
            theirs: Theirs::$theirs,
        }),*]
    };
}

/// Every setting of DCQCN but the line rate, which is the port's.
pub static PARAMETERS: [Parameter; 19] = parameters! {
    reaction.additive_increase: "additive_mbps", Same "rpg_ai_rate", MBPS,
        "Gain of a step of additive increase (R_AI).";
    reaction.hyper_increase: "hyper_mbps", Same "rpg_hai_rate", MBPS,
        "Gain of the first step of hyper increase, of which the others are multiples (R_HAI).";
    reaction.rate_timer: "rate_timer_us", Same "rpg_time_reset", US,
        "The rate climbs a step each time that so much time has passed (T).";
    reaction.byte_counter: "byte_counter_bytes", Same "rpg_byte_reset", 1..=u64::MAX,
        "It also climbs a step each time that so much was sent (B).";
    reaction.fast_recovery_steps: "fast_recovery_steps", Same "rpg_threshold", 0..=1_000,
        "Steps that halve the way back to the target, before the target grows (F).";
    reaction.minimum_rate: "min_mbps", Same "rpg_min_rate", MBPS,
        "What a flow never falls below; the paper has none.";
    reaction.maximum_rate: "max_mbps", Same "rpg_max_rate", MBPS_OR_NONE,
        "What a flow never exceeds; 0 is the rate of the port.";
    reaction.first_rate: "first_mbps", Same "rate_to_set_on_first_cnp", MBPS_OR_NONE,
        "What the first CNP of a flow sets its rate to; 0 for a cut like any other.";
    reaction.initial_alpha: "initial_alpha_1024ths", Same "initial_alpha_value", 0..=WHOLE,
        "Alpha at the first CNP of a flow; if not said, what is left of 1 since the flow began.";
    reaction.alpha_gain: "alpha_gain_1024ths", Rest "dce_tcp_g", 1..=WHOLE,
        "What of alpha is new at each step (g); mlx5 says what is kept, 1024 less this.";
    reaction.alpha_timer: "alpha_timer_us", Same "dce_tcp_rtt", US,
        "Alpha falls a step each time that no CNP came for so long (K).";
    reaction.cut_log2: "cut_log2", Same "rpg_gd", 10..=20,
        "A CNP cuts the rate by alpha x 2^10 / 2^this: 11 is the paper's half of alpha.";
    reaction.cut_floor_percent: "cut_floor_percent", Same "rpg_min_dec_fac", 0..=100,
        "The least that a cut leaves of the rate.";
    reaction.cut_interval: "cut_interval_us", Same "rate_reduce_monitor_period", US_OR_NONE,
        "CNPs that come sooner after a cut do not cut.";
    reaction.clamp_target: "clamp_target", Same "clamp_tgt_rate", FLAG,
        "Whether each cut makes the rate before it the target (R_T); 0 is the first after a step up.";
    reaction.clamp_target_after_timer: "clamp_target_after_timer", Same
        "clamp_tgt_rate_after_time_inc", FLAG,
        "Whether that is also after a step of the timer, and not of the byte counter alone.";
    reaction.cut_on_loss: "cut_on_loss", Same "cut_on_loss", FLAG,
        "Whether a loss halves rate and target, once in a step of the timer. mlx5 has no such file.";
    notification.interval: "cnp_interval_us", OwnChoice "min_time_between_cnps", US_OR_NONE,
        "A queue pair sends at most one CNP in this time (N).";
    notification.dscp: "cnp_dscp", Same "cnp_dscp", 0..=63,
        "The DSCP of CNPs.";
};

impl Parameter {
    /// What settings have for it, in its unit, rounded down. Needs their line rate.
    pub fn get(&self, settings: &Settings) -> u64 {
        (self.get)(settings)
    }

    /// Sets it, to a value of its range.
    pub fn set(&self, settings: &mut Settings, value: u64) {
        (self.set)(settings, value);
    }

    /// The value of our name for the `value` of mlx5's, and of that for ours.
    pub fn other(&self, value: u64) -> u64 {
        if self.theirs == Theirs::Rest { WHOLE.saturating_sub(value) } else { value }
    }

    /// What may be written for mlx5's name.
    pub fn mlx5_range(&self) -> RangeInclusive<u64> {
        if self.theirs == Theirs::Rest {
            self.other(*self.range.end())..=self.other(*self.range.start())
        } else {
            self.range.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_its_own_and_comes_back_as_it_was_set() {
        for parameter in &PARAMETERS {
            let (first, last) = parameter.range.clone().into_inner();
            for value in [first, last, first.midpoint(last)] {
                let mut settings = Settings::default();
                parameter.set(&mut settings, value);
                assert_eq!(parameter.get(&settings), value, "{}", parameter.key);
                let other = |it: &&Parameter| it.key != parameter.key;
                for other in PARAMETERS.iter().filter(other) {
                    let before = other.get(&Settings::default());
                    assert_eq!(other.get(&settings), before, "{} by {}", other.key, parameter.key);
                }
            }
        }
    }
}
