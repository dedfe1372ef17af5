//! Where results go: stdout, which may be a closed pipe, and the folder of `-o`.

use core::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process;

use rustix::fs::{Access, access};

use crate::failure::Failure;

/// Writes `text`. If the reader has closed the pipe, as `head` does, the program ends quietly.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => Err(Failure::new(format!("cannot write: {error}"))),
    }
}

/// Makes the folder for results. This is done before the run, so that a bad path is an error at once.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    let made = fs::create_dir_all(folder);
    made.and_then(|()| Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)).map_err(|error| {
        cannot_write(folder, error)
            .hint("name a folder of yours; it and those above it are made if they are not there")
    })
}

pub(crate) fn cannot_write(path: &Path, error: impl Display) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}
