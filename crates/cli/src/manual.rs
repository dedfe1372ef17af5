//! What the command says of itself to shells and to `man`.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::{cannot_write, make_folder, print};

/// `ferroce completions SHELL`.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ferroce", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// `ferroce man FOLDER`: a page for the command and one for each of its commands.
pub(crate) fn pages(folder: &Path) -> Result<(), Failure> {
    make_folder(folder)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(|error| cannot_write(folder, error))
}
