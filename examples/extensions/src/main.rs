//! The command `ferroce`, with the extensions of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferroce_cli::main_with(&extensions::all())
}
