//! `ferroce compare`: results of simulations, side by side.

use std::fs;
use std::panic;

use fabric::compare::{Comparison, Results};

use crate::args::Compare;
use crate::failure::Failure;
use crate::output::{cannot_write, print};

pub(crate) fn run(arguments: &Compare) -> Result<(), Failure> {
    // A damaged file is an error, and nothing else is to be said of it: see `Table::read_parquet`.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let read = arguments.folders.iter().map(|folder| Results::read(folder));
    let variants: Result<Vec<Results>, String> = read.collect();
    panic::set_hook(hook);
    let comparison = Comparison::new(variants.map_err(|error| Failure::from_message(&error))?);
    if let Some(path) = &arguments.output {
        fs::write(path, comparison.page()).map_err(|error| cannot_write(path, error))?;
    }
    print(&if arguments.json { comparison.json() } else { comparison.text() })
}
