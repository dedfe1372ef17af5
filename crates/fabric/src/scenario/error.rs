//! Why a scenario is refused: the line, the key, what was expected, and a remedy.

use core::fmt;

use telemetry::nearest;

use super::place::{Line, Lines, Place};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    line: Line,
    byte: usize,
    key: Option<String>,
    message: String,
    hint: Option<String>,
}

impl ScenarioError {
    /// At a line, where the message names the key.
    pub(super) fn at_line(lines: &Lines, byte: usize, message: impl Into<String>) -> Self {
        Self { line: lines.line(byte), byte, key: None, message: message.into(), hint: None }
    }

    /// Of what was handed over with the file.
    pub(super) fn of_extension(message: impl Into<String>) -> Self {
        Self { line: Line::Extensions, byte: 0, key: None, message: message.into(), hint: None }
    }

    /// What the parser says of a text that is no TOML.
    pub(super) fn no_toml(lines: &Lines, text: &str, error: &toml::de::Error) -> Self {
        let place = error.span().map_or(0, |span| span.start);
        let message = error.message().trim_end().replace('\n', "; ");
        if message.starts_with("duplicate key") {
            let is_of_key =
                |letter: &char| letter.is_ascii_alphanumeric() || "_-".contains(*letter);
            let key = text.get(place..).unwrap_or("").chars().take_while(is_of_key).collect();
            let place = Place { line: lines.line(place), byte: place, key };
            return Self::at_place(&place, "the key is there twice").hint("remove one of them");
        }
        Self::at_line(lines, place, message)
            .hint("a scenario is TOML: [table], and under it key = value")
    }

    /// At a place that is known already.
    pub(super) fn at_place(place: &Place, message: impl Into<String>) -> Self {
        let key = Some(place.key.clone());
        let (line, byte) = (place.line.clone(), place.byte);
        Self { line, byte, key, message: message.into(), hint: None }
    }

    /// The same in the second of two files, which begins behind so many lines; `None` if it is in the first.
    pub(super) fn behind(&self, lines: usize) -> Option<Self> {
        let line = self.line.number().checked_sub(lines).filter(|line| *line > 0)?;
        Some(Self { line: Line::File(line), ..self.clone() })
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The mistakes of a file. Only the first is told.
#[derive(Debug, Default)]
pub(super) struct Mistakes(Option<ScenarioError>);

impl Mistakes {
    /// What was read, if it was no mistake.
    pub(super) fn note<T>(&mut self, read: Result<T, ScenarioError>) -> Option<T> {
        let error = match read {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        if self.0.as_ref().is_none_or(|first| error.byte < first.byte) {
            self.0 = Some(error);
        }
        None
    }

    /// The mistake that stands first in the file.
    pub(super) fn first(self) -> Result<(), ScenarioError> {
        self.0.map_or(Ok(()), Err)
    }
}

/// A unit that a key may end with.
#[derive(Debug)]
pub(super) struct Unit {
    end: &'static str,
    pub(super) name: &'static str,
    hint: &'static str,
    /// Picoseconds, of a unit of time.
    pub(super) ps: Option<f64>,
}

const UNITS: [Unit; 7] = [
    Unit { end: "_bytes", name: "bytes", hint: "the unit is bytes", ps: None },
    Unit { end: "_mbps", name: "Mb/s", hint: "the unit is Mb/s: 40 for 40 Mb/s", ps: None },
    Unit { end: "_gbps", name: "Gb/s", hint: "the unit is Gb/s: 100 for 100 GbE", ps: None },
    Unit { end: "_ns", name: "ns", hint: "the unit is nanoseconds", ps: Some(1e3) },
    Unit { end: "_us", name: "us", hint: "the unit is microseconds", ps: Some(1e6) },
    Unit { end: "_ms", name: "ms", hint: "the unit is milliseconds", ps: Some(1e9) },
    Unit { end: "_m", name: "m", hint: "the unit is metres", ps: None },
];

/// What the end of a key says of its unit.
pub(super) fn unit_of(key: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|unit| key.ends_with(unit.end))
}

/// The remedy for a number that is wrong.
pub(super) fn unit_hint(key: &str) -> &'static str {
    unit_of(key).map_or("write a number of that range", |unit| unit.hint)
}

/// The remedy for a name that is none of `known`; `otherwise` if it is like none of them, either.
pub(super) fn suggestion(name: &str, known: &[&str], otherwise: impl Into<String>) -> String {
    nearest(name, known).map_or(otherwise.into(), |name| format!("did you mean {name:?}?"))
}

/// A number as people write it: 0.5, 1000000000, 1e300.
pub(super) fn plain(number: f64) -> String {
    if number.abs() < 1e16 { format!("{number}") } else { format!("{number:e}") }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.line)?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for ScenarioError {}
