//! `ferroce papers`: the papers' claims, compared with what the simulator measures.

mod progress;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use telemetry::words::{COLUMNS, wrapped};

use papers::{Options, Outcome, Step, Study};

use crate::args::{Paper, Papers};
use crate::failure::Failure;
use crate::output::{cannot_write, make_folder, print, write_table};
use progress::Progress;

pub(crate) fn run(arguments: &Papers) -> Result<(), Failure> {
    let Papers { quick, soft, .. } = *arguments;
    let options = Options { quick, soft, seed: arguments.seed.unwrap_or(1) };
    let is_paper = !matches!(arguments.paper, Paper::Guidance | Paper::Claims);
    if !is_paper && (soft || arguments.claim.is_some()) {
        return Err(Failure::new(
            "guidance and claims are of all papers, and of what is on record",
        )
        .hint("leave CLAIM and --soft out, or name a paper"));
    }
    if let Some(folder) = &arguments.scenarios {
        return export(arguments, folder);
    }
    if let Some(folder) = &arguments.output {
        make_folder(folder)?;
    }
    let mut shown = Progress::start();
    let mut progress = |step: &Step<'_>| shown.show(step);
    let only = arguments.claim.as_deref();
    let (name, study) = match arguments.paper {
        Paper::Guidance => {
            let guidance = papers::guidance(options, &mut progress);
            drop(shown);
            let guidance = guidance.map_err(|error| Failure::from_message(&error))?;
            return say(arguments.output.as_deref(), "guidance", &guidance.table());
        }
        Paper::Claims => {
            let record = papers::record().map_err(|error| Failure::from_message(&error))?;
            return say(arguments.output.as_deref(), "claims", &record);
        }
        Paper::Guo16 => ("guo16", papers::guo16::run(only, options, &mut progress)),
        Paper::Le19 => ("le19", papers::le19::run(only, options, &mut progress)),
        Paper::Ma16 => ("ma16", papers::ma16::run(only, options, &mut progress)),
        Paper::Zhang17 => ("zhang17", papers::zhang17::run(only, options, &mut progress)),
    };
    drop(shown);
    let study = study.map_err(|error| Failure::from_message(&error))?;
    print(&study.table())?;
    arguments.output.as_ref().map_or(Ok(()), |folder| write(folder, name, &study, options.seed))
}

/// Writes the scenarios of a paper, and runs nothing.
fn export(arguments: &Papers, folder: &Path) -> Result<(), Failure> {
    if arguments.paper != Paper::Guo16 {
        return Err(Failure::new("only guo16 is made of scenarios")
            .hint("the others run on modelled hosts: see `ferroce bench --world sim --testbed`"));
    }
    let files = papers::guo16::files(arguments.claim.as_deref());
    let files = files.map_err(|error| Failure::from_message(&error))?;
    make_folder(folder)?;
    let mut text = String::new();
    for (name, scenario) in &files {
        let path = folder.join(name);
        let file = File::create_new(&path).and_then(|mut file| file.write_all(scenario.as_bytes()));
        file.map_err(|error| cannot_write(&path, &error).hint("name a folder of no such files"))?;
        text += &format!("written {}\n", path.display());
    }
    text += "The first lines of each say what is run with it.\n";
    let besides = papers::guo16::without_files(arguments.claim.as_deref());
    for (name, why) in besides.map_err(|error| Failure::from_message(&error))? {
        text += &wrapped(&format!("{:17} ", format!("no file: {name}")), why, COLUMNS);
    }
    print(&text)
}

/// Prints a text, and keeps it where there is a folder.
fn say(folder: Option<&Path>, name: &str, text: &str) -> Result<(), Failure> {
    print(text)?;
    let Some(folder) = folder else { return Ok(()) };
    let path = folder.join(format!("{name}.txt"));
    fs::write(&path, text).map_err(|error| cannot_write(&path, error))?;
    print(&format!("\nwritten  {}\n", path.display()))
}

fn write(folder: &Path, name: &str, study: &Study, seed: u64) -> Result<(), Failure> {
    let page = format!("{name}.html");
    let mut files = vec![(format!("{name}.txt"), study.table()), (page.clone(), study.page(name))];
    let mut count = 0;
    let on_soft = study.soft.iter().flat_map(|soft| &soft.outcomes);
    let figures = |outcome: &'_ Outcome| outcome.figures.clone();
    let simulated = study.outcomes.iter().flat_map(figures).map(|figure| (figure, "true"));
    let measured = on_soft.flat_map(figures).map(|figure| (figure, "false"));
    for (figure, is_simulated) in simulated.chain(measured) {
        let table = figure.table();
        files.push((format!("{}.csv", table.name()), table.to_csv()));
        let about = [("paper", name), ("seed", &seed.to_string()), ("simulated", is_simulated)];
        write_table(folder, &table, &about)?;
        count += 1;
    }
    count += files.len();
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| cannot_write(&path, error))?;
    }
    print(&format!("\nwritten  {count} files: see {}\n", folder.join(page).display()))
}
