//! Where something stands in the text of a scenario, or in what is set beside it.
//!
//! ```text
//!   the file               switch.alpha = "1/8"   nic.congestion = "none"
//!   │ line 1, line 2, ...  │ --set                │ --set
//!   └ byte 0               └ behind the file, so that it comes last where the first mistake is told
//! ```

use core::fmt;

/// A table, or a key of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    pub(super) line: Line,
    /// Where in the text, in bytes.
    pub(super) byte: usize,
    pub(super) key: String,
}

/// A line of the file, or what is set beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line {
    File(usize),
    Set(String),
    /// Nothing of it: what is wrong are the extensions that were handed over with it.
    Extensions,
}

impl Default for Line {
    fn default() -> Self {
        Self::File(1)
    }
}

impl Line {
    /// Its number; zero of what is set beside the file.
    pub(super) fn number(&self) -> usize {
        match self {
            Self::File(line) => *line,
            Self::Set(_) | Self::Extensions => 0,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(line) => write!(f, "line {line}"),
            Self::Set(written) => write!(f, "--set {written}"),
            Self::Extensions => f.write_str("extensions"),
        }
    }
}

/// Where the lines of a text begin, and what is set behind it.
#[derive(Debug)]
pub(super) struct Lines {
    starts: Vec<usize>,
    /// Where the text of each begins, and how it is written.
    set: Vec<(usize, String)>,
}

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = core::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { starts, set: Vec::new() }
    }

    /// What begins at `place`, behind all others, is `written`.
    pub(super) fn set(&mut self, place: usize, written: &str) {
        self.set.push((place, written.to_owned()));
    }

    /// The line of a place of the text, in bytes.
    pub(super) fn line(&self, place: usize) -> Line {
        match self.set.iter().rev().find(|(start, _)| *start <= place) {
            Some((_, written)) => Line::Set(written.clone()),
            None => Line::File(self.starts.partition_point(|&start| start <= place).max(1)),
        }
    }
}
