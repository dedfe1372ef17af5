//! `ferroce`, the command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferroce_cli::main()
}
