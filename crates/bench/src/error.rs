//! Why something could not be done, for people: a message, and what to do about it.

use core::fmt;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A message without a remedy.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// From an error that may carry its own `hint:` line.
    pub fn from_message(error: &impl fmt::Display) -> Self {
        let text = error.to_string();
        match text.split_once("\nhint: ") {
            Some((message, hint)) => Self::new(message).hint(hint),
            None => Self::new(text),
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it says what to do.
    pub fn has_hint(&self) -> bool {
        self.hint.is_some()
    }

    /// Puts where it happened before the message.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Failure {}
