//! A user's mistake as a message: what is wrong, and a `hint:` of what to do about it.

use core::fmt;
use std::process::ExitCode;

/// Exit statuses as `env` and `nohup` use them, so that a script can tell our failure from the
/// program's own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Status {
    /// What was measured is not what it was to be.
    Missed = 1,
    /// The simulated network is deadlocked.
    Deadlock = 3,
    /// Ferroce itself could not do what was asked.
    Ours = 125,
    /// The program is there but cannot be run.
    CannotRun = 126,
    /// There is no such program.
    NotFound = 127,
    /// Ctrl-C was pressed: 128 and the number of SIGINT, as in shells.
    Interrupted = 130,
}

/// Why `ferroce` ends without having done its job.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { status: Status::Ours, message: message.into(), hint: None }
    }

    /// From a message that may carry its own `hint:` line.
    pub(crate) fn from_message(message: &impl fmt::Display) -> Self {
        let text = message.to_string();
        match text.split_once("\nhint: ") {
            Some((message, hint)) => Self::new(message).hint(hint),
            None => Self::new(text),
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A hint, if it has none.
    pub(crate) fn or_hint(self, hint: impl Into<String>) -> Self {
        if self.hint.is_some() { self } else { self.hint(hint) }
    }

    pub(crate) fn status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// Whether it says that the simulated network is deadlocked.
    pub(crate) fn is_deadlock(&self) -> bool {
        matches!(self.status, Status::Deadlock)
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
