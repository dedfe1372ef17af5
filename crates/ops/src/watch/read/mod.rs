//! Readers: texts of hosts and switches become [`Raw`](super::Raw).
//!
//! They read generically: a counter that nobody has heard of is kept under its name. What does not look like the format
//! at all is a [`ReadError`]; a line in it that makes no sense is left out.

pub mod dcb;
pub mod ethtool;
pub mod rdma;
pub mod recorded;
pub mod simulated;
pub mod soft;
pub mod sonic;
pub mod sysfs;

use core::fmt;

/// Why a text is not what it was taken for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// The line, from 1; 0 if it is about the whole text.
    pub line: usize,
    /// What was expected there.
    pub expected: String,
}

impl ReadError {
    fn whole(expected: impl Into<String>) -> Self {
        Self { line: 0, expected: expected.into() }
    }

    fn json(error: &serde_json::Error) -> Self {
        Self { line: error.line(), expected: format!("no JSON: {error}") }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.expected)
    }
}

impl core::error::Error for ReadError {}

/// A count as people and programs write it: `12`, `"12"`, `1,234`, `12.0`.
fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits: String = text.chars().filter(|&c| c != ',').collect();
    digits.parse().ok().or_else(|| {
        let number: f64 = digits.parse().ok()?;
        (0.0..1.8e19).contains(&number).then_some(number as u64)
    })
}

fn json_count(value: &serde_json::Value) -> Option<u64> {
    match value {
        serde_json::Value::Number(number) => number.as_u64().or_else(|| count(&number.to_string())),
        serde_json::Value::String(text) => match text.as_str() {
            "true" => Some(1),
            "false" => Some(0),
            text => count(text),
        },
        serde_json::Value::Bool(value) => Some(u64::from(*value)),
        _ => None,
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= crate::limits::COUNTER_NAME_MAX
}
