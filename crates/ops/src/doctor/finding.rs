//! Findings, and the rules that they break.

use super::limits::WORDS_MAX;
use super::shell::Line;

/// How grave a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// To be known; nothing need be done.
    Note,
    /// It costs something, or will.
    Warning,
    /// Packets are lost, or a network can stand still.
    Error,
}

impl Severity {
    /// In capitals, as the text has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "NOTE",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// What a finding breaks. Each has a section in `docs/book/doctor-rules.md`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// `FD000`
    NotUnderstood,
    /// `FD001`
    WatchdogBelowPoll,
    /// `FD002`
    WatchdogLate,
    /// `FD003`
    Headroom,
    /// `FD004`
    Chain,
    /// `FD005`
    Trust,
    /// `FD006`
    MarksAfterPauses,
    /// `FD007`
    AlphaDiffers,
    /// `FD008`
    NoMarks,
    /// `FD009`
    NoWatchdog,
    /// `FD010`
    NotificationsAmongData,
    /// `FD011`
    EndsDiffer,
    /// `FD012`
    Lldpad,
    /// `FD013`
    Circle,
    /// `FD014`
    RnrTimer,
    /// `FD015`
    NotDesired,
    /// `FD016`
    Cabling,
}

impl Rule {
    /// All of them, in the order of their identifiers.
    pub const ALL: [Self; 17] = [
        Self::NotUnderstood,
        Self::WatchdogBelowPoll,
        Self::WatchdogLate,
        Self::Headroom,
        Self::Chain,
        Self::Trust,
        Self::MarksAfterPauses,
        Self::AlphaDiffers,
        Self::NoMarks,
        Self::NoWatchdog,
        Self::NotificationsAmongData,
        Self::EndsDiffer,
        Self::Lldpad,
        Self::Circle,
        Self::RnrTimer,
        Self::NotDesired,
        Self::Cabling,
    ];

    /// Its identifier, such as `FD003`. It never changes, and is never given to another rule.
    pub const fn id(self) -> &'static str {
        self.said().0
    }

    /// A few words: what is broken.
    pub const fn title(self) -> &'static str {
        self.said().1
    }

    /// How grave it is, unless a finding says otherwise.
    pub const fn severity(self) -> Severity {
        self.said().2
    }

    /// Why it matters, in a sentence or two.
    pub const fn cause(self) -> &'static str {
        self.said().3
    }

    /// The rule with that identifier, in capitals or not.
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.id().eq_ignore_ascii_case(id))
    }

    const fn said(self) -> (&'static str, &'static str, Severity, &'static str) {
        use Severity::{Error, Warning};
        match self {
            Self::NotUnderstood => (
                "FD000",
                "a file is not understood",
                Error,
                "What it says was not judged, so the absence of findings about this device means nothing.",
            ),
            Self::WatchdogBelowPoll => (
                "FD001",
                "a watchdog time is below its poll interval",
                Error,
                "The watchdog looks more rarely than it is to notice: it physically cannot detect, or restore.",
            ),
            Self::WatchdogLate => (
                "FD002",
                "a watchdog is late",
                Warning,
                "A storm that lives for seconds pauses the whole fabric, and outlives the timeouts of collectives.",
            ),
            Self::Headroom => (
                "FD003",
                "a lossless class has too little headroom",
                Error,
                "What the sender still sends after XOFF has no room: packets of a lossless class are dropped.",
            ),
            Self::Chain => (
                "FD004",
                "the chain from DSCP to lossless queue is broken",
                Error,
                "Where one device sees another class, packets are dropped under load or a pause stops the wrong queue.",
            ),
            Self::Trust => (
                "FD005",
                "one end trusts PCP, the other DSCP",
                Error,
                "Untagged packets carry no PCP: the end that trusts it puts them all into priority 0.",
            ),
            Self::MarksAfterPauses => (
                "FD006",
                "ECN marks come after pauses",
                Warning,
                "PFC fires before DCQCN hears anything, so congestion control is by pauses, which spread.",
            ),
            Self::AlphaDiffers => (
                "FD007",
                "alpha is not that of its peers",
                Error,
                "A switch with a smaller share of the buffer pauses far earlier: two of them stopped thousands of \
                 servers (guo16, 6.2).",
            ),
            Self::NoMarks => (
                "FD008",
                "a lossless queue does not mark, or nobody counts it",
                Warning,
                "Without marks DCQCN never slows a sender down, and every congestion becomes a pause.",
            ),
            Self::NoWatchdog => (
                "FD009",
                "PFC without a watchdog",
                Warning,
                "One NIC that pauses without end stops a data centre (guo16, 4.3 and 6.2).",
            ),
            Self::NotificationsAmongData => (
                "FD010",
                "CNPs or ACKs share the queue of the data",
                Warning,
                "The message \"slow down\" waits behind the very packets that are too many, and for their pauses.",
            ),
            Self::EndsDiffer => (
                "FD011",
                "ends differ in MTU, GID or RoCE version",
                Error,
                "Connections fail, fall back to small packets, or long packets are dropped without a trace.",
            ),
            Self::Lldpad => (
                "FD012",
                "lldpad runs beside settings made by hand",
                Warning,
                "It negotiates DCBX and writes over PFC and ETS, often long after they were set.",
            ),
            Self::Circle => (
                "FD013",
                "buffers depend on each other in a circle",
                Error,
                "When all buffers of the circle fill, each waits for the next: a deadlock that does not end by itself \
                 (guo16, 4.2).",
            ),
            Self::RnrTimer => (
                "FD014",
                "receiver-not-ready waits are 655 ms, for ever",
                Warning,
                "One receive that was posted late stalls its sender for 655 ms, with no error and no drop.",
            ),
            Self::NotDesired => (
                "FD015",
                "a setting is not the desired one",
                Warning,
                "Somebody decided otherwise: either the device or desired.toml is out of date.",
            ),
            Self::Cabling => (
                "FD016",
                "a cable is not where the configuration says",
                Warning,
                "Cable lengths, headroom and routes were computed for another neighbour.",
            ),
        }
    }
}

/// Where in which file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// Relative to the folder, with `/`.
    pub file: String,
    /// From 1, if it is known.
    pub line: Option<usize>,
}

impl Place {
    /// A line of a file.
    pub fn new(file: impl Into<String>, line: usize) -> Self {
        Self { file: file.into(), line: Some(line) }
    }

    /// A file as a whole.
    pub fn of(file: impl Into<String>) -> Self {
        Self { file: file.into(), line: None }
    }
}

/// What is, against what should be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Difference {
    /// The key of `desired.toml`.
    pub key: String,
    /// What should be.
    pub desired: String,
    /// What is.
    pub running: String,
    /// Since when, as far as files say so.
    pub since: Option<String>,
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it breaks.
    pub rule: Rule,
    /// How grave it is.
    pub severity: Severity,
    /// The device.
    pub device: String,
    /// What of it: a table and key, an interface, a port; may be empty.
    pub key: String,
    /// What was found, in whole sentences.
    pub text: String,
    /// What to do.
    pub remedy: String,
    /// What to type on the device.
    pub commands: Vec<String>,
    /// Where it stands; the first is the most telling.
    pub places: Vec<Place>,
    /// What is desired in its place, if a file says.
    pub difference: Option<Difference>,
}

impl Finding {
    /// One of a rule, as grave as that says.
    pub fn new(rule: Rule, device: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            rule,
            severity: rule.severity(),
            device: device.into(),
            key: String::new(),
            text: text.into(),
            remedy: String::new(),
            commands: Vec::new(),
            places: Vec::new(),
            difference: None,
        }
    }

    pub(super) fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    pub(super) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    pub(super) fn command(mut self, command: impl Into<Line>) -> Self {
        self.commands.push(command.into().into_text());
        self
    }

    pub(super) fn at(mut self, place: impl Into<Option<Place>>) -> Self {
        self.places.extend(place.into());
        self
    }

    /// A file that is not understood.
    pub(super) fn not_understood(
        device: impl Into<String>,
        place: Place,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::new(Rule::NotUnderstood, device, what).key(place.file.clone()).remedy(hint).at(place)
    }

    fn order(&self) -> impl Ord + '_ {
        let grave = core::cmp::Reverse(self.severity);
        (grave, natural(&self.device), self.rule, natural(&self.key), &self.text, &self.places)
    }
}

impl PartialOrd for Finding {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Finding {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// A name such that `h10` is after `h9`: its text without digits at the end, and their number.
pub(super) fn natural(name: &str) -> (String, u64, String) {
    let text = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = name[text.len()..].parse().unwrap_or(0);
    (text.to_owned(), number, name.to_owned())
}

/// Some of a file's own words, for a message: short, and without what a terminal would obey.
pub(super) fn quoted(text: &str) -> String {
    let mut words: String =
        text.chars().take(WORDS_MAX).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(WORDS_MAX).is_some() {
        words.push_str("...");
    }
    format!("{words:?}")
}

/// "Ethernet0", "Ethernet0 and Ethernet4", or "Ethernet0 to Ethernet124 (32 ports)".
pub(super) fn several(names: &[&str]) -> String {
    let mut names: Vec<&str> = names.to_vec();
    names.sort_by_key(|name| natural(name));
    names.dedup();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, two] => format!("{one} and {two}"),
        [one, two, three] => format!("{one}, {two} and {three}"),
        [first, .., last] => format!("{first} to {last} ({} of them)", names.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_in_order_and_found_in_any_letters() {
        for (number, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(rule.id(), format!("FD{number:03}"));
            assert_eq!(Rule::find(&rule.id().to_lowercase()), Some(rule));
            assert!(!rule.cause().is_empty() && rule.title().len() < 60, "{rule:?}");
        }
        assert_eq!(Rule::find("FD099"), None);
    }

    #[test]
    fn what_a_file_says_is_shown_short_and_harmless() {
        assert_eq!(quoted("a\u{1b}[2Jb"), "\"a?[2Jb\"");
        assert!(quoted(&"x".repeat(1_000)).len() < 80);
    }

    #[test]
    fn many_ports_are_a_range() {
        assert_eq!(several(&["Ethernet8", "Ethernet0"]), "Ethernet0 and Ethernet8");
        let names: Vec<String> = (0..32).map(|port| format!("Ethernet{}", port * 4)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(several(&names), "Ethernet0 to Ethernet124 (32 of them)");
    }
}
