//! Writing to stdout, which may be a pipe that somebody has closed.

use std::io::{self, ErrorKind, Write};
use std::process;

use crate::failure::Failure;

/// Writes `text`. Whoever reads no further, as `head` does, ends the program quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => Err(Failure::new(format!("cannot write: {error}"))),
    }
}
