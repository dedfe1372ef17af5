//! The project's own commands. `cargo xtask` alone lists them.

mod abi;
mod dist;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};
use pico_args::Arguments;

const USAGE: &str = "\
cargo xtask <command>

  tidy                          what the compiler does not check: rooms, sizes, licences, links
  dist                          build target/dist: bin/ferroce and lib/ferroce/libibverbs.so.1
  abi                           compare the library's exported symbols with the committed list
";

fn main() -> ExitCode {
    match dispatch(Arguments::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(mut arguments: Arguments) -> Result<()> {
    let Some(command) = arguments.subcommand()? else {
        print!("{USAGE}");
        return Ok(());
    };
    match command.as_str() {
        "tidy" => finish(arguments).and_then(|()| tidy::run()),
        "dist" => finish(arguments).and_then(|()| dist::run()),
        "abi" => finish(arguments).and_then(|()| abi::run()),
        other => bail!("no such command: {other}\n\n{USAGE}"),
    }
}

/// Refuses what no command has taken.
fn finish(arguments: Arguments) -> Result<()> {
    match arguments.finish().first() {
        None => Ok(()),
        Some(extra) => bail!("unexpected argument: {}", extra.to_string_lossy()),
    }
}
