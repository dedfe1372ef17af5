//! Congestion control, as the user chooses it.
//!
//! `FERROCE_CC` names a controller, then settings of it, separated by commas: `none`,
//! `fixed,rate_mbps=1000`, `dcqcn`, `dcqcn,line_mbps=10000,cnp_dscp=46`. With DCQCN, data leaves
//! markable (ECT) and CNPs are obeyed; marks are answered with CNPs whatever the controller.
//!
//! | setting | of | meaning, and default |
//! |---|---|---|
//! | `rate_mbps` | `fixed` | the rate; must be given |
//! | `line_mbps` | `dcqcn` | where flows begin, and their highest rate; 40000 |
//! | `min_mbps` | `dcqcn` | their lowest rate; 100 |
//! | `alpha_gain_divisor` | `dcqcn` | 1 / g; 256 |
//! | `alpha_timer_us` | `dcqcn` | without a CNP for so long, alpha falls; 55 |
//! | `rate_timer_us` | `dcqcn` | the rate climbs a step each time; 55 |
//! | `byte_counter_bytes` | `dcqcn` | and each time that so much was sent; 10000000 |
//! | `fast_recovery_steps` | `dcqcn` | steps before the rate grows beyond that of before the cut; 5 |
//! | `additive_mbps` | `dcqcn` | gain of a step after those; 40 |
//! | `hyper_mbps` | `dcqcn` | gain of a step once timer and counter have both made more; 200 |
//! | `cnp_interval_us` | all | a queue pair sends at most one CNP in this time; 50 |
//! | `cnp_dscp` | all | the DSCP of CNPs; 48 |
//!
//! The defaults are those of [`Dcqcn`] and [`Notification`], which say where they come from.

use core::ops::RangeInclusive;
use core::str::FromStr;

use rdma::{Rate, Span};
use transport::Congestion;
use transport::congestion::{Dcqcn, Notification};
use transport::limits::ALPHA_GAIN_DIVISOR_MAX;

use crate::SettingError;

/// What `FERROCE_CC` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CongestionSettings {
    /// How fast queue pairs send.
    pub congestion: Congestion,
    /// How senders are told of marks.
    pub notification: Notification,
}

/// One setting: what it is of (nothing for all), its range, and where it goes.
struct Setting {
    name: &'static str,
    of: Option<&'static str>,
    range: RangeInclusive<u64>,
    set: fn(&mut Draft, u64),
}

impl Setting {
    const fn new(
        name: &'static str,
        of: Option<&'static str>,
        range: RangeInclusive<u64>,
        set: fn(&mut Draft, u64),
    ) -> Self {
        Self { name, of, range, set }
    }

    fn is_of(&self, controller: &str) -> bool {
        self.of.is_none_or(|of| of == controller)
    }
}

/// What has been read so far.
#[derive(Default)]
struct Draft {
    rate: Option<Rate>,
    dcqcn: Dcqcn,
    notification: Notification,
}

const FIXED: Option<&str> = Some("fixed");
const DCQCN: Option<&str> = Some("dcqcn");
/// Up to ten terabits per second.
const MBPS: RangeInclusive<u64> = 1..=10_000_000;
/// Up to a minute.
const US: RangeInclusive<u64> = 1..=60_000_000;

// The ranges keep every value within its type.
static SETTINGS: [Setting; 12] = [
    Setting::new("rate_mbps", FIXED, MBPS, |it, value| it.rate = Some(Rate::from_mbps(value))),
    Setting::new("line_mbps", DCQCN, MBPS, |it, value| it.dcqcn.line_rate = Rate::from_mbps(value)),
    Setting::new("min_mbps", DCQCN, MBPS, |it, value| {
        it.dcqcn.minimum_rate = Rate::from_mbps(value);
    }),
    Setting::new("alpha_gain_divisor", DCQCN, 1..=ALPHA_GAIN_DIVISOR_MAX as u64, |it, value| {
        it.dcqcn.alpha_gain_divisor = value as u32;
    }),
    Setting::new("alpha_timer_us", DCQCN, US, |it, us| it.dcqcn.alpha_timer = Span::from_us(us)),
    Setting::new("rate_timer_us", DCQCN, US, |it, us| it.dcqcn.rate_timer = Span::from_us(us)),
    Setting::new("byte_counter_bytes", DCQCN, 1..=u64::MAX, |it, bytes| {
        it.dcqcn.byte_counter = bytes;
    }),
    Setting::new("fast_recovery_steps", DCQCN, 0..=1_000, |it, steps| {
        it.dcqcn.fast_recovery_steps = steps as u32;
    }),
    Setting::new("additive_mbps", DCQCN, MBPS, |it, value| {
        it.dcqcn.additive_increase = Rate::from_mbps(value);
    }),
    Setting::new("hyper_mbps", DCQCN, MBPS, |it, value| {
        it.dcqcn.hyper_increase = Rate::from_mbps(value);
    }),
    Setting::new("cnp_interval_us", None, 0..=60_000_000, |it, us| {
        it.notification.interval = Span::from_us(us);
    }),
    Setting::new("cnp_dscp", None, 0..=63, |it, dscp| it.notification.dscp = dscp as u8),
];

impl FromStr for CongestionSettings {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let error = |element: &str, problem: &str, hint: &str| {
            Err(SettingError::new("FERROCE_CC", format!("`{element}` {problem}"), hint))
        };
        let mut elements = text.split(',').map(str::trim);
        let name = elements.next().unwrap_or_default();
        let Some(controller) = ["none", "fixed", "dcqcn"].into_iter().find(|known| *known == name)
        else {
            let hint = "use none, dcqcn, or fixed with its rate, as in fixed,rate_mbps=1000";
            return error(name, "is not a controller", hint);
        };
        let mut draft = Draft::default();
        for element in elements.filter(|element| !element.is_empty()) {
            let Some((key, value)) = element.split_once('=') else {
                return error(
                    element,
                    "has no value",
                    "write settings as in dcqcn,line_mbps=10000",
                );
            };
            let mut settings = SETTINGS.iter().filter(|setting| setting.is_of(controller));
            let names: Vec<&str> = settings.clone().map(|setting| setting.name).collect();
            let Some(setting) = settings.find(|setting| setting.name == key.trim()) else {
                let problem = format!("is not a setting of {controller}");
                return error(element, &problem, &format!("it has {}", names.join(", ")));
            };
            match value.trim().parse() {
                Ok(value) if setting.range.contains(&value) => (setting.set)(&mut draft, value),
                _ => {
                    let (first, last) = setting.range.clone().into_inner();
                    let hint = format!("use a whole number from {first} to {last}");
                    return error(element, "is out of range", &hint);
                }
            }
        }
        let congestion = match (controller, draft.rate) {
            ("dcqcn", _) => Congestion::Dcqcn(draft.dcqcn),
            ("fixed", Some(rate)) => Congestion::Fixed(rate),
            ("fixed", None) => {
                return error(name, "has no rate", "give it one, as in fixed,rate_mbps=1000");
            }
            _ => Congestion::None,
        };
        Ok(Self { congestion, notification: draft.notification })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> CongestionSettings {
        text.parse().unwrap()
    }

    #[test]
    fn a_controller_and_its_settings_are_read() {
        assert_eq!(read(""), CongestionSettings::default());
        assert_eq!(read("none").congestion, Congestion::None);
        assert_eq!(read("dcqcn").congestion, Congestion::Dcqcn(Dcqcn::default()));
        let fixed = read("fixed, rate_mbps=2500,cnp_dscp=46");
        assert_eq!(fixed.congestion, Congestion::Fixed(Rate::from_mbps(2_500)));
        assert_eq!(fixed.notification, Notification { dscp: 46, ..Notification::default() });
        let all = read(
            "dcqcn,line_mbps=1,min_mbps=2,alpha_gain_divisor=3,alpha_timer_us=4,rate_timer_us=5,\
             byte_counter_bytes=6,fast_recovery_steps=7,additive_mbps=8,hyper_mbps=9,\
             cnp_interval_us=10",
        );
        let dcqcn = Dcqcn {
            line_rate: Rate::from_mbps(1),
            minimum_rate: Rate::from_mbps(2),
            alpha_gain_divisor: 3,
            alpha_timer: Span::from_us(4),
            rate_timer: Span::from_us(5),
            byte_counter: 6,
            fast_recovery_steps: 7,
            additive_increase: Rate::from_mbps(8),
            hyper_increase: Rate::from_mbps(9),
        };
        assert_eq!(all.congestion, Congestion::Dcqcn(dcqcn));
        assert_eq!(all.notification.interval, Span::from_us(10));
    }

    #[test]
    fn what_says_nothing_is_refused_with_a_hint() {
        for (text, message) in [
            ("dctcp", "`dctcp` is not a controller\nhint: use none, dcqcn, or fixed"),
            ("fixed", "`fixed` has no rate\nhint: give it one"),
            ("dcqcn,line_mbps", "`line_mbps` has no value\nhint: "),
            (
                "dcqcn,rate_mbps=5",
                "`rate_mbps=5` is not a setting of dcqcn\nhint: it has line_mbps",
            ),
            ("none,x=5", "`x=5` is not a setting of none\nhint: it has cnp_interval_us, cnp_dscp"),
            (
                "dcqcn,cnp_dscp=64",
                "`cnp_dscp=64` is out of range\nhint: use a whole number from 0 to 63",
            ),
            ("fixed,rate_mbps=0", "`rate_mbps=0` is out of range\nhint: "),
            ("fixed,rate_mbps=fast", "`rate_mbps=fast` is out of range\nhint: "),
        ] {
            let error = text.parse::<CongestionSettings>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("FERROCE_CC: {message}")), "{error}");
        }
    }
}
