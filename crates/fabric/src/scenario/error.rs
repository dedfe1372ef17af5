//! Why a scenario is refused: the line, the key, what was expected, and a remedy.

use core::fmt;

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
        let before = text.as_bytes().iter().take(place);
        let line = before.filter(|&&byte| byte == b'\n').count() + 1;
        Self { line, key: None, message: message.into(), hint: None }
    }

    /// At `key` of the table that begins at `start`; at the table itself if the key is not written.
    pub(super) fn at_key(
        text: &str,
        start: usize,
        table: &str,
        key: &str,
        message: impl Into<String>,
    ) -> Self {
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
        let mut error = Self::at(text, found.unwrap_or(start), message);
        error.key = Some(if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") });
        error
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What the parser says, in our words where a key is unknown.
    pub(super) fn of_toml(text: &str, error: &toml::de::Error) -> Self {
        let place = error.span().map_or(0, |span| span.start);
        let message = error.message();
        let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        match (message.strip_prefix("unknown field"), names.split_first()) {
            (Some(_), Some((unknown, known))) => {
                let error = Self::at(text, place, format!("unknown key `{unknown}`"));
                match nearest(unknown, known) {
                    Some(name) => error.hint(format!("did you mean `{name}`?")),
                    None => error.hint(format!("the keys here are {}", known.join(", "))),
                }
            }
            _ => Self::at(text, place, message.trim_end().replace('\n', "; ")),
        }
    }
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
