//! What a call of the library has refused.

use core::fmt;
use std::io;

/// See the module.
#[derive(Debug)]
pub struct Error {
    what: String,
    source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), source: None }
    }

    /// A call that leaves `errno`.
    pub(crate) fn last(call: &str) -> Self {
        Self { what: call.to_owned(), source: Some(io::Error::last_os_error()) }
    }

    /// A call that returns an error's number.
    pub(crate) fn number(call: &str, number: i32) -> Self {
        let source = io::Error::from_raw_os_error(number.saturating_abs());
        Self { what: call.to_owned(), source: Some(source) }
    }

    /// The error's number, if the library has given one.
    pub fn errno(&self) -> Option<i32> {
        self.source.as_ref().and_then(io::Error::raw_os_error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Error {}
