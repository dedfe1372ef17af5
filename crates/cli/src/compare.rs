//! `ferroce compare`: results of simulations, side by side.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

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
    let page = arguments.output.as_deref().map(page_name);
    if let Some(path) = &page {
        fs::write(path, comparison.page()).map_err(|error| cannot_write(path, error))?;
    }
    if arguments.json {
        return print(&comparison.json());
    }
    let written = page.map_or_else(String::new, |path| format!("\nwritten  {}\n", path.display()));
    print(&(comparison.text() + &written))
}

/// The name of a page: a browser shows one whose name says nothing as its source.
fn page_name(path: &Path) -> PathBuf {
    match path.extension() {
        None if !path.is_dir() => path.with_extension("html"),
        _ => path.to_owned(),
    }
}
