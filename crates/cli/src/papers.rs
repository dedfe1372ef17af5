//! `ferroce papers`: what the papers found, held against what the simulator measures.

use core::fmt::Display;
use std::fs::{self, File};
use std::path::Path;

use papers::{Options, Study};

use crate::args::{Paper, Papers};
use crate::failure::Failure;
use crate::output::print;

pub(crate) fn run(arguments: &Papers) -> Result<(), Failure> {
    let options = Options { quick: arguments.quick, seed: arguments.seed.unwrap_or(1) };
    let mut progress = |text: &str| eprintln!("running {text}");
    let (name, study) = match arguments.paper {
        Paper::Guo16 => {
            ("guo16", papers::guo16::run(arguments.claim.as_deref(), options, &mut progress))
        }
    };
    let study = study.map_err(|error| Failure::from_message(&error))?;
    if let Some(folder) = &arguments.output {
        write(folder, name, &study, options.seed)?;
    }
    print(&study.table())
}

fn write(folder: &Path, name: &str, study: &Study, seed: u64) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
    let mut files =
        vec![(format!("{name}.txt"), study.table()), (format!("{name}.html"), study.page(name))];
    for figure in study.outcomes.iter().flat_map(|outcome| &outcome.figures) {
        let table = figure.table();
        files.push((format!("{}.csv", table.name()), table.to_csv()));
        let path = folder.join(format!("{}.parquet", table.name()));
        let file = File::create(&path).map_err(|error| wrong(&path, error))?;
        let about = [("paper", name), ("seed", &seed.to_string()), ("simulated", "true")];
        table.write_parquet(file, &about).map_err(|error| wrong(&path, error))?;
    }
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| wrong(&path, error))?;
    }
    Ok(())
}

fn wrong(path: &Path, error: impl Display) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}
