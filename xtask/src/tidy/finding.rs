//! A violation of a rule of the house.

use core::fmt;

/// One violation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) path: String,
    line: Option<usize>,
    message: String,
}

impl Finding {
    pub(super) fn new(
        path: impl Into<String>,
        line: impl Into<Option<usize>>,
        message: String,
    ) -> Self {
        Self { path: path.into(), line: line.into(), message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}
