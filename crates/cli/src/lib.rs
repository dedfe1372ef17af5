//! `ferroce`, the command, for programs that add to it.
//!
//! A program that has a congestion controller, a load balancer or a workload of its own is the whole command,
//! whose `sim` knows them:
//!
//! ```no_run
//! use fabric::extend::Extensions;
//!
//! let extensions = Extensions::new(); // .congestion(&...).balance(&...).workload(&...)
//! let status: std::process::ExitCode = ferroce_cli::main_with(&extensions);
//! ```
//!
//! Nothing else of the command can be called: its flags, its output and its exit statuses are what is kept.

// They panic where nobody reads; see `output`.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod args;
mod bench;
mod compare;
mod counters;
mod devices;
mod doctor;
#[cfg(test)]
mod documented;
mod export;
mod failure;
mod lab;
mod library;
mod manual;
mod output;
mod papers;
mod pingmesh;
mod program;
mod run;
mod signals;
mod sim;
mod sources;
mod values;
mod view;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use fabric::extend::Extensions;

use args::{Cli, Command};
use output::tell;

/// The command.
pub fn main() -> ExitCode {
    main_with(&Extensions::new())
}

/// The same, where scenarios that `sim` runs may name `extensions`.
pub fn main_with(extensions: &Extensions) -> ExitCode {
    let command = Cli::parse().command;
    for doubt in softnic::variables::doubts() {
        tell(&format!("warning: {doubt}"));
    }
    let result = match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Counters(arguments) => counters::show(&arguments),
        Command::Devices(arguments) => devices::list(&arguments.dev),
        Command::Sim(arguments) => sim::run(&arguments, extensions),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Lab(command) => lab::run(command),
        Command::Papers(arguments) => papers::run(&arguments),
        Command::Pingmesh(command) => pingmesh::run(&command),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Doctor(arguments) => return doctor::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(&folder),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&failure.to_string());
            failure.exit_code()
        }
    }
}
