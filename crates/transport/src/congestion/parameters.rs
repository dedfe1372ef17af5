//! The settings of DCQCN by name: as the paper has them, and as mlx5 does.
//!
//! Whatever reads settings, be it a scenario, the environment or a folder such as
//! `/sys/class/net/eth0/ecn`, reads them by this table.

use alloc::format;
use alloc::string::String;
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
    theirs: Theirs,
}

/// How mlx5's number for a setting is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Theirs {
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

/// Why a file of a folder is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderError {
    /// The file; none if the folder has nothing that is known.
    pub file: Option<String>,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub hint: String,
}

/// The folders of a port's `ecn`: of the reaction point, and of the notification point. Files may
/// also lie side by side.
const FOLDERS: [&str; 3] = ["roce_rp/", "roce_np/", ""];

/// Takes the settings that a folder has files for, by mlx5's names; `read` has the text of a file, or
/// nothing if it is not there. `rpg_max_rate` and `rate_to_set_on_first_cnp` of 0 are the port's rate
/// and none.
///
/// # Errors
/// A file that cannot be read or says no number of its range, or no file at all.
pub fn read_folder(
    settings: &mut Settings,
    read: &dyn Fn(&str) -> Result<Option<String>, String>,
) -> Result<(), FolderError> {
    let mut found = 0;
    for parameter in &PARAMETERS {
        for folder in FOLDERS {
            let file = format!("{folder}{}", parameter.mlx5);
            let (first, last) = parameter.mlx5_range().into_inner();
            let error = |problem| {
                let hint = format!("it holds a whole number from {first} to {last}");
                FolderError { file: Some(file.clone()), problem, hint }
            };
            let Some(text) = read(&file).map_err(error)? else { continue };
            let value = text.trim().parse().ok().filter(|value| (first..=last).contains(value));
            let Some(value) = value else {
                let start: String = text.trim().chars().take(20).collect();
                return Err(error(format!("{start:?} is no such number")));
            };
            found += 1;
            // Where a NIC chooses for itself, what was set before stays.
            if parameter.theirs != Theirs::OwnChoice || value > 0 {
                parameter.set(settings, parameter.other(value));
            }
        }
    }
    if found > 0 {
        return Ok(());
    }
    Err(FolderError {
        file: None,
        problem: "it has no file such as roce_rp/rpg_ai_rate".into(),
        hint: "name the folder that holds roce_rp and roce_np: /sys/class/net/eth0/ecn".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

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

    #[test]
    fn the_preset_of_a_connectx_is_what_its_folder_holds() {
        // `mlxconfig query`, and the device's own interval of CNPs.
        let files = |name: &str| {
            let value = match name.strip_prefix("roce_rp/").or(name.strip_prefix("roce_np/"))? {
                "clamp_tgt_rate" | "rpg_max_rate" | "rate_to_set_on_first_cnp" => 0,
                "clamp_tgt_rate_after_time_inc" | "rpg_threshold" => 1,
                "rpg_min_rate" | "dce_tcp_rtt" => 1,
                "rpg_time_reset" => 300,
                "rpg_byte_reset" => 32_767,
                "rpg_ai_rate" => 5,
                "rpg_hai_rate" | "rpg_min_dec_fac" => 50,
                "rpg_gd" => 11,
                "dce_tcp_g" => 1_019,
                "rate_reduce_monitor_period" | "min_time_between_cnps" => 4,
                "initial_alpha_value" => 1_023,
                "cnp_dscp" => 48,
                _ => return None,
            };
            Some(format!("{value}\n"))
        };
        let mut settings = Settings::default();
        read_folder(&mut settings, &|name| Ok(files(name))).unwrap();
        assert_eq!(Some(settings), Settings::preset("connectx"));
    }

    #[test]
    fn an_interval_of_the_nics_own_choice_changes_nothing() {
        let mut settings = Settings::default();
        read_folder(&mut settings, &|name| {
            Ok((name == "roce_np/min_time_between_cnps").then(|| "0".into()))
        })
        .unwrap();
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_folder_with_a_mistake_names_its_file() {
        let refused = |file: &'static str, text: &'static str| {
            let read = move |name: &str| Ok((name == file).then(|| text.to_string()));
            read_folder(&mut Settings::default(), &read)
                .map_err(|error| (error.file.unwrap_or_default(), error.problem, error.hint))
        };
        assert_eq!(refused("dce_tcp_g", "1023"), Ok(()));
        for (file, text, problem, hint) in [
            ("dce_tcp_g", "1024", "\"1024\" is no such number", "from 0 to 1023"),
            ("roce_rp/rpg_gd", "9", "\"9\" is no such number", "from 10 to 20"),
            ("roce_np/cnp_dscp", "cs6", "\"cs6\" is no such number", "from 0 to 63"),
            ("roce_rp/rpg_ai_rate", "", "\"\" is no such number", "from 1 to 10000000"),
        ] {
            let (named, said, remedy) = refused(file, text).unwrap_err();
            assert_eq!((named.as_str(), said.as_str()), (file, problem));
            assert!(remedy.ends_with(hint), "{remedy}");
        }
        let (named, said, _) = refused("README", "1").unwrap_err();
        assert_eq!(
            (named.as_str(), said.as_str()),
            ("", "it has no file such as roce_rp/rpg_ai_rate")
        );
    }
}
