//! What is wrong with a file that a scenario names.

use core::fmt;

/// The line of the file, what was expected there, and a remedy where there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    line: usize,
    message: String,
    hint: Option<String>,
}

impl FileError {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into(), hint: None }
    }

    /// At a table, a key or a field of the line.
    pub(crate) fn at(line: usize, place: impl fmt::Display, message: impl fmt::Display) -> Self {
        Self::new(line, format!("{place}: {message}"))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The line, from 1.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// What was expected, without the line, and the remedy.
    pub fn words(&self) -> (&str, Option<&str>) {
        (&self.message, self.hint.as_deref())
    }

    /// Everything but the remedy, and the remedy.
    pub(crate) fn parts(self) -> (String, Option<String>) {
        (format!("line {}: {}", self.line, self.message), self.hint)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (complaint, hint) = self.clone().parts();
        f.write_str(&complaint)?;
        hint.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl core::error::Error for FileError {}
