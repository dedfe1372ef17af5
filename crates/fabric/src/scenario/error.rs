//! Why a scenario is refused: the line, the key, what was expected, and a remedy.

use core::fmt;

use super::origin::Place;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    line: usize,
    key: Option<String>,
    message: String,
    hint: Option<String>,
}

impl ScenarioError {
    /// At a place of `text`, in bytes.
    pub(super) fn at(text: &str, place: usize, message: impl Into<String>) -> Self {
        let line = line_of(text, place);
        Self { line, key: None, message: message.into(), hint: None }
    }

    /// At a place that is known already.
    pub(super) fn at_place(place: &Place, message: impl Into<String>) -> Self {
        let key = Some(place.key.clone());
        Self { line: place.line.max(1), key, message: message.into(), hint: None }
    }

    pub(super) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The line of a place of `text`, in bytes.
fn line_of(text: &str, place: usize) -> usize {
    let before = text.as_bytes().iter().take(place);
    before.filter(|&&byte| byte == b'\n').count() + 1
}

/// Where `key` of the table that begins at `start` is; the table itself if the key is not written.
pub(super) fn place_of(text: &str, start: usize, table: &str, key: &str) -> Place {
    let rest = text.get(start..).unwrap_or("");
    let mut place = start;
    let mut found = None;
    for (index, line) in rest.split_inclusive('\n').enumerate() {
        let trimmed = line.trim_start();
        if index > 0 && trimmed.starts_with('[') {
            break;
        }
        let named = trimmed.strip_prefix(key).map(str::trim_start);
        if named.is_some_and(|rest| rest.starts_with('=')) {
            found = Some(place);
            break;
        }
        place += line.len();
    }
    let key = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
    Place { line: line_of(text, found.unwrap_or(start)), key }
}

/// What the end of a key says of its unit.
pub(super) fn unit_hint(key: &str) -> &'static str {
    let units = [
        ("_bytes", "the unit is bytes"),
        ("_gbps", "the unit is Gb/s: 100 for 100 GbE"),
        ("_ns", "the unit is nanoseconds"),
        ("_us", "the unit is microseconds"),
        ("_ms", "the unit is milliseconds"),
        ("_m", "the unit is metres"),
    ];
    let found = units.iter().find(|(end, _)| key.ends_with(end));
    found.map_or("write a number of that range", |(_, hint)| hint)
}

/// A number as people write it: 0.5, 1000000000, 1e300.
pub(super) fn plain(number: f64) -> String {
    if number.abs() < 1e16 { format!("{number}") } else { format!("{number:e}") }
}

/// The name that somebody who wrote `unknown` is likely to have meant.
pub(super) fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    if unknown.is_empty() {
        return None;
    }
    let close = known.iter().map(|name| (distance(unknown, name), *name)).min();
    let within = |most: usize| {
        close.filter(|(letters, _)| *letters <= most && *letters < unknown.len()).map(|at| at.1)
    };
    let stem = |name: &&&str| name.starts_with(unknown) || unknown.starts_with(**name);
    within(1).or_else(|| known.iter().find(stem).copied()).or_else(|| within(2))
}

/// How many letters have to be changed, added or taken away (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, &other) in b.iter().enumerate() {
            let change = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        assert_eq!(distance("leafs", "leaves"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(nearest("leafs", &["spines", "leaves"]), Some("leaves"));
        assert_eq!(nearest("rate", &["hosts", "rate_gbps"]), Some("rate_gbps"));
        assert_eq!(nearest("colour", &["hosts", "rate_gbps"]), None);
    }
}
