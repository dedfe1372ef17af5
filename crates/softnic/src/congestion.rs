//! Congestion control, as the user chooses it.
//!
//! `FERROCE_CC` names a controller, then settings of it, separated by commas: `none`,
//! `fixed,rate_mbps=1000`, `dcqcn`, `dcqcn,preset=connectx,rpg_ai_rate=50`. With DCQCN, data leaves
//! markable (ECT) and CNPs are obeyed; marks are answered with CNPs whatever the controller, except
//! `dctcp`, which echoes them in acknowledgements and so must be that of both ends. `hpcc` is refused: it needs
//! switches that write into packets, and sockets that show it.
//!
//! Without it there is `bbr` between hosts, but for those of a lab, and `none` within a host. Fabrics that pause (PFC) need `none`.
//!
//! | setting | of | meaning, and default |
//! |---|---|---|
//! | `rate_mbps` | `fixed` | the rate; must be given |
//! | `line_mbps` | `dcqcn`, `timely` | where flows begin; the speed of the interface, 40000 if it has none |
//! | `preset` | `dcqcn` | `scaled` to the line rate, `paper-40g` or `connectx`; `scaled` |
//! | `folder` | `dcqcn` | files as in `/sys/class/net/eth0/ecn`, which count before the preset |
//! | those of [`PARAMETERS`], by either name | `dcqcn` | what the preset has |
//! | those of [`Congestion::keys`] | `dctcp`, `timely`, `swift`, `bbr` | those of its paper |
//! | `cnp_interval_us` | all | a queue pair sends at most one CNP in this time; 50 |
//! | `cnp_dscp` | all | the DSCP of CNPs; 48 |

use core::ops::RangeInclusive;
use core::str::FromStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rdma::Rate;
use transport::Congestion;
use transport::congestion::{
    Bbr, Conflict, Folder, FolderError, Notification, PARAMETERS, Settings, read_folder,
};

use crate::SettingError;

/// What `FERROCE_CC` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CongestionSettings {
    /// How fast queue pairs send.
    pub congestion: Congestion,
    /// How senders are told of marks.
    pub notification: Notification,
    /// Whether the line rate is the interface's.
    follows_interface: bool,
    /// Whether the user has named the controller.
    is_chosen: bool,
}

impl CongestionSettings {
    /// How fast queue pairs send whose peer is on another host. Unless the user names a controller it is `bbr`: most
    /// networks drop where RoCE would have them pause.
    pub fn between_hosts(&self) -> Congestion {
        if self.is_chosen { self.congestion } else { Congestion::Bbr(Bbr::default()) }
    }

    /// Which controllers there are, and why, in one line; `is_lab` for a NIC of a lab.
    pub fn told(&self, is_lab: bool) -> String {
        let name = self.congestion.name();
        match (self.is_chosen, is_lab) {
            (true, _) => format!("{name} (FERROCE_CC says so)"),
            (false, true) => format!("{name} (a lab has what is said alone)"),
            (false, false) => {
                let other = self.between_hosts().name();
                format!(
                    "{other} to other hosts (by default: networks drop), {name} within this one (nothing is lost)"
                )
            }
        }
    }

    /// The same at an interface, whose speed counts unless a line rate was said.
    pub(crate) fn at(mut self, interface: &str) -> Result<Self, SettingError> {
        if let Some(rate) = speed(interface).filter(|_| self.follows_interface) {
            self.congestion = self.congestion.at_rate(rate);
        }
        check(&self.congestion)?;
        Ok(self)
    }
}

/// What the kernel says of an interface that is a device. What it says of others means nothing: 10 Mb/s of a
/// tunnel, 10 Gb/s of a veth.
fn speed(interface: &str) -> Option<Rate> {
    let folder = Path::new("/sys/class/net").join(interface);
    let text =
        fs::read_to_string(folder.join("speed")).ok().filter(|_| folder.join("device").exists())?;
    let mbps = text.trim().parse().ok().filter(|mbps| MBPS.contains(mbps))?;
    Some(Rate::from_mbps(mbps))
}

/// Controllers by name, `fixed` with no rate yet.
fn controllers() -> impl Iterator<Item = (&'static str, Congestion)> {
    let others = [
        ("none", Congestion::None),
        ("fixed", Congestion::Fixed(Rate::ZERO)),
        ("dcqcn", Congestion::Dcqcn(Settings::default().reaction)),
    ];
    others.into_iter().chain(Congestion::NAMED)
}

/// Refuses a controller that hears of the network what no socket tells.
fn refuse_telemetry(name: &str, congestion: &Congestion) -> Result<(), SettingError> {
    if !congestion.needs_telemetry() {
        return Ok(());
    }
    let problem = "needs what switches write into packets (INT), and a UDP socket does not show it";
    let hint = "use swift, timely, dctcp or dcqcn here, and hpcc in a scenario for `ferroce sim`";
    Err(error(name, problem, hint))
}

/// Up to ten terabits per second.
const MBPS: RangeInclusive<u64> = 1..=10_000_000;
/// Settings that controllers other than DCQCN have, too: those of the receiver.
const OF_ALL: [&str; 2] = ["cnp_interval_us", "cnp_dscp"];

/// What has been read so far.
struct Draft<'t> {
    controller: &'t str,
    congestion: Congestion,
    rate: Option<Rate>,
    line_rate: Option<Rate>,
    settings: Settings,
}

fn error(element: &str, problem: &str, hint: &str) -> SettingError {
    SettingError::new("FERROCE_CC", format!("`{element}` {problem}"), hint)
}

/// Refuses settings that contradict each other.
fn check(congestion: &Congestion) -> Result<(), SettingError> {
    let told =
        |Conflict { problem, hint, .. }: Conflict| SettingError::new("FERROCE_CC", problem, hint);
    congestion.check().map_err(told)
}

/// The number of `element`, `key=value`.
fn number(element: &str, value: &str, range: RangeInclusive<u64>) -> Result<u64, SettingError> {
    let (first, last) = range.clone().into_inner();
    let hint = format!("use a whole number from {first} to {last}");
    let value = value.parse().ok().filter(|value| range.contains(value));
    value.ok_or_else(|| error(element, "is out of range", &hint))
}

/// A folder of the file system.
struct OnDisk<'a>(&'a Path);

impl Folder for OnDisk<'_> {
    fn names(&self, folder: &str) -> Result<Option<Vec<String>>, String> {
        let why = |error: std::io::Error| error.to_string();
        let entries = match fs::read_dir(self.0.join(folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err("it is no folder".to_owned());
            }
            entries => entries.map_err(why)?,
        };
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).map_err(why)
        };
        entries.map(name).collect::<Result<_, _>>().map(Some)
    }

    fn read(&self, file: &str) -> Result<String, String> {
        fs::read_to_string(self.0.join(file)).map_err(|error| error.to_string())
    }
}

/// The settings of DCQCN that a folder has files for.
fn folder(element: &str, name: &str, settings: &mut Settings) -> Result<(), SettingError> {
    let told = read_folder(settings, &OnDisk(Path::new(name)));
    let told = told.map_err(|FolderError { file, problem, hint }| {
        let file = file.map_or(String::new(), |file| format!("{file}: "));
        error(element, &format!("cannot be used: {file}{problem}"), &hint)
    })?;
    for note in told.iter().filter(|note| note.is_warning) {
        tracing::warn!("FERROCE_CC: {element}: {}", note.text);
    }
    Ok(())
}

impl Draft<'_> {
    /// The names of what the controller has.
    fn names(&self) -> Vec<&'static str> {
        match self.controller {
            "dcqcn" => {
                let names = PARAMETERS.iter().flat_map(|parameter| [parameter.key, parameter.mlx5]);
                let mut names: Vec<&str> =
                    ["line_mbps", "preset", "folder"].into_iter().chain(names).collect();
                names.dedup();
                names
            }
            "fixed" => [&["rate_mbps"], &OF_ALL[..]].concat(),
            _ => {
                // At another rate one of these is another controller.
                let line = self.congestion.at_rate(Rate::from_bps(1)) != self.congestion;
                let names = self.congestion.keys().iter().map(|key| key.key).chain(OF_ALL);
                names.chain(line.then_some("line_mbps")).collect()
            }
        }
    }

    /// Takes `element`, `key=value`.
    fn take(&mut self, element: &str) -> Result<(), SettingError> {
        let Some((key, value)) = element.split_once('=') else {
            let hint = "write settings as in dcqcn,line_mbps=10000";
            return Err(error(element, "has no value", hint));
        };
        let (key, value) = (key.trim(), value.trim());
        if !self.names().contains(&key) {
            let problem = format!("is not a setting of {}", self.controller);
            return Err(error(element, &problem, &format!("it has {}", self.names().join(", "))));
        }
        match key {
            "rate_mbps" => self.rate = Some(Rate::from_mbps(number(element, value, MBPS)?)),
            "line_mbps" => self.line_rate = Some(Rate::from_mbps(number(element, value, MBPS)?)),
            "preset" => {
                let names = Settings::PRESETS.map(|(name, _)| name).join(", ");
                let problem = || error(element, "is no preset", &format!("there are {names}"));
                self.settings = Settings::preset(value).ok_or_else(problem)?;
            }
            "folder" => folder(element, value, &mut self.settings)?,
            _ => {
                if let Some(setting) = self.congestion.keys().iter().find(|it| it.key == key) {
                    let value = number(element, value, setting.range.clone())?;
                    setting.set(&mut self.congestion, value);
                    return Ok(());
                }
                let known =
                    |name: &str| PARAMETERS.iter().find(|it| it.key == name || it.mlx5 == name);
                let Some(parameter) = known(key) else { return Ok(()) };
                if parameter.key == key {
                    let value = number(element, value, parameter.range.clone())?;
                    parameter.set(&mut self.settings, value);
                } else {
                    let value = number(element, value, parameter.mlx5_range())?;
                    parameter.set(&mut self.settings, parameter.other(value));
                }
            }
        }
        Ok(())
    }
}

/// Refuses a setting that is said twice, be it under both of its names.
fn said_once(elements: &[&str]) -> Result<(), SettingError> {
    let setting = |element: &&str| {
        let key = element.split('=').next().unwrap_or_default().trim().to_owned();
        PARAMETERS.iter().find(|it| it.mlx5 == key).map_or(key, |it| it.key.to_owned())
    };
    for (place, element) in elements.iter().enumerate() {
        let same = |other: &&&str| setting(other) == setting(element);
        if let Some(first) = elements[..place].iter().find(same) {
            let problem = format!("says what `{first}` says already");
            return Err(error(element, &problem, "remove one of them"));
        }
    }
    Ok(())
}

/// What counts first is read first: the preset, then the folder.
fn order(element: &str) -> u8 {
    match element.split('=').next().map(str::trim) {
        Some("preset") => 0,
        Some("folder") => 1,
        _ => 2,
    }
}

impl FromStr for CongestionSettings {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut elements = text.split(',').map(str::trim);
        let name = elements.next().unwrap_or_default();
        let Some((controller, congestion)) = controllers().find(|(known, _)| *known == name) else {
            let named = Congestion::NAMED.iter().filter(|(_, it)| !it.needs_telemetry());
            let named: String = named.map(|(name, _)| format!("{name}, ")).collect();
            let hint = format!(
                "use none, dcqcn, {named}or fixed with its rate, as in fixed,rate_mbps=1000"
            );
            return Err(error(name, "is not a controller", &hint));
        };
        refuse_telemetry(name, &congestion)?;
        let settings = Settings::default();
        let mut draft = Draft { controller, congestion, rate: None, line_rate: None, settings };
        let mut elements: Vec<&str> = elements.filter(|element| !element.is_empty()).collect();
        said_once(&elements)?;
        elements.sort_by_key(|element| order(element));
        for element in elements {
            draft.take(element)?;
        }
        let Settings { mut reaction, notification } = draft.settings;
        reaction.line_rate = draft.line_rate.unwrap_or(reaction.line_rate);
        let congestion = match (controller, draft.rate) {
            ("dcqcn", _) => Congestion::Dcqcn(reaction),
            ("fixed", Some(rate)) => Congestion::Fixed(rate),
            ("fixed", None) => {
                return Err(error(name, "has no rate", "give it one, as in fixed,rate_mbps=1000"));
            }
            _ => draft.line_rate.map_or(draft.congestion, |rate| draft.congestion.at_rate(rate)),
        };
        let follows_interface = draft.line_rate.is_none();
        if follows_interface {
            // The line rate is not known yet: what is wrong at the fastest and at the slowest is wrong.
            let at = |bps: u64| check(&congestion.at_rate(Rate::from_bps(bps)));
            if at(1).is_err() {
                at(u64::MAX)?;
            }
        } else {
            check(&congestion)?;
        }
        Ok(Self { congestion, notification, follows_interface, is_chosen: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Span;
    use transport::congestion::{Dcqcn, Share};

    fn read(text: &str) -> CongestionSettings {
        text.parse().unwrap()
    }

    #[test]
    fn a_controller_and_its_settings_are_read() {
        assert_eq!(read(""), CongestionSettings::default());
        assert_eq!(read("none").congestion, Congestion::None);
        assert_eq!(read("none").between_hosts(), Congestion::None);
        assert_eq!(read("").between_hosts(), Congestion::Bbr(Bbr::default()));
        assert_eq!(read("dcqcn").congestion, Congestion::Dcqcn(Dcqcn::default()));
        let fixed = read("fixed, rate_mbps=2500,cnp_dscp=46");
        assert_eq!(fixed.congestion, Congestion::Fixed(Rate::from_mbps(2_500)));
        assert_eq!(fixed.notification, Notification { dscp: 46, ..Notification::default() });
        let named = read("dcqcn,line_mbps=1000,additive_mbps=7,dce_tcp_g=1000,preset=connectx");
        let dcqcn = Dcqcn {
            line_rate: Rate::from_mbps(1_000),
            additive_increase: Share::Fixed(Rate::from_mbps(7)),
            alpha_gain: 24,
            ..Dcqcn::connectx()
        };
        assert_eq!(named.congestion, Congestion::Dcqcn(dcqcn));
        assert_eq!(named.notification.interval, Span::from_us(4));
        assert_eq!(named.at("lo"), Ok(named));
    }

    #[test]
    fn every_setting_is_read_by_both_names() {
        let default = read("dcqcn");
        for parameter in &PARAMETERS {
            // One of the two may contradict what another setting is by default.
            let said = [*parameter.range.start(), *parameter.range.end()].map(|value| {
                let ours = format!("dcqcn,{}={value}", parameter.key);
                let theirs = format!("dcqcn,{}={}", parameter.mlx5, parameter.other(value));
                let [ours, theirs] = [ours, theirs].map(|text| text.parse::<CongestionSettings>());
                assert_eq!(ours.is_ok(), theirs.is_ok(), "{} = {value}", parameter.key);
                ours.ok().inspect(|ours| assert_eq!(Ok(ours), theirs.as_ref(), "{}", parameter.key))
            });
            assert!(said.iter().flatten().any(|said| *said != default), "{}", parameter.key);
        }
    }

    #[test]
    fn a_line_rate_is_of_controllers_that_begin_at_it() {
        let Congestion::Timely(timely) = read("timely,line_mbps=2500").congestion else {
            panic!("not that controller")
        };
        assert_eq!(timely.line_rate, Rate::from_mbps(2_500));
    }

    #[test]
    fn a_minimum_above_the_line_rate_is_refused_when_that_is_known() {
        let fast = read("timely,min_mbps=50000");
        assert_eq!(
            fast.at("lo").unwrap_err().to_string(),
            "FERROCE_CC: min_mbps = 50000 must be at most line_mbps = 40000\n\
             hint: lower min_mbps or raise line_mbps: a flow begins at the line rate, which is that of \
             its port"
        );
        let said = read("timely,min_mbps=50000,line_mbps=100000");
        assert_eq!(said.at("lo"), Ok(said));
    }

    #[test]
    fn a_maximum_is_refused_below_a_minimum_that_is_said_and_not_below_a_share_of_some_line() {
        let slow = read("dcqcn,max_mbps=1000");
        assert_eq!(slow.at("lo"), Ok(slow));
        let refused = "dcqcn,max_mbps=10,min_mbps=100".parse::<CongestionSettings>().unwrap_err();
        let said = "FERROCE_CC: min_mbps = 100 must be at most max_mbps = 10\n";
        assert!(refused.to_string().starts_with(said), "{refused}");
    }

    #[test]
    fn every_setting_of_the_other_controllers_is_read() {
        for (name, default) in Congestion::NAMED {
            if default.needs_telemetry() {
                continue;
            }
            assert_eq!(read(name).congestion, default);
            for key in default.keys() {
                // One of the two may contradict what another setting is by default.
                let said = [*key.range.start(), *key.range.end()].map(|value| {
                    let text = format!("{name},{}={value}", key.key);
                    let said = text.parse::<CongestionSettings>().ok()?.congestion;
                    assert_eq!(key.get(&said), value, "{name}.{}", key.key);
                    Some(said)
                });
                assert!(said.iter().flatten().any(|said| *said != default), "{name}.{}", key.key);
            }
        }
    }

    #[test]
    fn a_folder_is_read_after_the_preset_and_before_the_other_settings() {
        let folder = std::env::temp_dir().join(format!("ferroce-ecn-{}", std::process::id()));
        fs::create_dir_all(folder.join("roce_rp")).unwrap();
        fs::write(folder.join("roce_rp/rpg_ai_rate"), "9\n").unwrap();
        fs::write(folder.join("roce_rp/rpg_hai_rate"), "90\n").unwrap();
        let name = folder.to_str().unwrap();
        let said = read(&format!("dcqcn,hyper_mbps=91,folder={name},preset=paper-40g"));
        fs::write(folder.join("rpg_ai_rate"), "9\n").unwrap();
        let twice = format!("dcqcn,folder={name}").parse::<CongestionSettings>().unwrap_err();
        let place = "roce_rp/rpg_ai_rate: it is rpg_ai_rate too\nhint: remove one of them";
        assert!(twice.to_string().ends_with(place), "{twice}");
        fs::remove_file(folder.join("rpg_ai_rate")).unwrap();
        fs::write(folder.join("roce_rp/rpg_gd"), "fast").unwrap();
        let wrong = format!("dcqcn,folder={name}").parse::<CongestionSettings>().unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        let dcqcn = Dcqcn {
            additive_increase: Share::Fixed(Rate::from_mbps(9)),
            hyper_increase: Share::Fixed(Rate::from_mbps(91)),
            ..Dcqcn::paper()
        };
        assert_eq!(said.congestion, Congestion::Dcqcn(dcqcn));
        let expected = format!(
            "FERROCE_CC: `folder={name}` cannot be used: roce_rp/rpg_gd: \"fast\" is no such number\n\
             hint: it holds a whole number from 10 to 20"
        );
        assert_eq!(wrong.to_string(), expected);
    }

    #[test]
    fn what_says_nothing_is_refused_with_a_hint() {
        for (text, message) in [
            (
                "cubic",
                "`cubic` is not a controller\nhint: use none, dcqcn, dctcp, timely, swift, bbr",
            ),
            (
                "hpcc,t_ns=9000",
                "`hpcc` needs what switches write into packets (INT), and a UDP socket does not show it\n\
                 hint: use swift,",
            ),
            (
                "dctcp,gain_1024ths=0",
                "`gain_1024ths=0` is out of range\nhint: use a whole number from 1 to 1024",
            ),
            (
                "dctcp,line_mbps=5",
                "`line_mbps=5` is not a setting of dctcp\nhint: it has gain_1024ths,",
            ),
            (
                "timely,t_low_us=600",
                "t_low_us = 600 must be at most t_high_us = 500\nhint: lower t_low_us or raise",
            ),
            (
                "timely,line_mbps=5",
                "min_mbps = 10 must be at most line_mbps = 5\nhint: lower min_mbps or raise",
            ),
            ("fixed", "`fixed` has no rate\nhint: give it one"),
            ("dcqcn,line_mbps", "`line_mbps` has no value\nhint: "),
            (
                "dcqcn,rate_mbps=5",
                "`rate_mbps=5` is not a setting of dcqcn\nhint: it has line_mbps",
            ),
            ("none,x=5", "`x=5` is not a setting of none\nhint: it has cnp_interval_us, cnp_dscp"),
            (
                "dcqcn,preset=cx5",
                "`preset=cx5` is no preset\nhint: there are scaled, paper-40g, connectx",
            ),
            ("dcqcn,folder=/nowhere", "`folder=/nowhere` cannot be used: it has no file such as"),
            (
                "dcqcn,cnp_dscp=64",
                "`cnp_dscp=64` is out of range\nhint: use a whole number from 0 to 63",
            ),
            (
                "dcqcn,additive_mbps=5,rpg_ai_rate=6",
                "`rpg_ai_rate=6` says what `additive_mbps=5` says already\nhint: remove one of them",
            ),
            (
                "timely,cnp_dscp=6, cnp_dscp = 6",
                "`cnp_dscp = 6` says what `cnp_dscp=6` says already\nhint: remove one of them",
            ),
            (
                "dcqcn,preset=connectx,preset=scaled",
                "`preset=scaled` says what `preset=connectx` says already\nhint: remove",
            ),
            (
                "dcqcn,folder=/proc/self/status",
                "`folder=/proc/self/status` cannot be used: it is no folder\nhint: name the folder",
            ),
            ("fixed,rate_mbps=0", "`rate_mbps=0` is out of range\nhint: "),
            ("fixed,rate_mbps=fast", "`rate_mbps=fast` is out of range\nhint: "),
        ] {
            let error = text.parse::<CongestionSettings>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("FERROCE_CC: {message}")), "{error}");
        }
    }
}
