//! `ferroce bench isolation`: the matrix of flows beside flows, as a gate.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bench::isolation::{self, DRAW_MS, Limits, Matrix, ROUNDS_MIN, Results};
use bench::load::Tally;
use clap::Args;

use super::nics::{Common, Nics};
use super::watch::Watch;
use super::write_files;
use crate::failure::{Failure, Status};
use crate::output::{cannot_write, make_folder, print};

const ENDS: &str = "\
A limit is held against the median of the draws.

Exit status: 0 when all was measured; 1 when a limit was missed; 125 when the
run could not begin, or was cut short; 130 when it was interrupted.";

#[derive(Debug, Args)]
#[command(after_help = ENDS)]
pub(crate) struct Isolation {
    /// WRITEs and READs that wait for events only: a minute or so
    #[arg(long)]
    quick: bool,

    /// Rounds, in each of which every cell is measured once
    #[arg(long, value_name = "NUMBER", default_value_t = ROUNDS_MIN,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// How long is measured in a draw
    #[arg(long, value_name = "MILLISECONDS", default_value_t = DRAW_MS as u32,
          value_parser = clap::value_parser!(u32).range(5..=60_000))]
    draw_ms: u32,

    /// How many times the bandwidth of another elephant one may have
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    share_max: Option<f64>,

    /// How many times its median latency alone a mouse may have beside others
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    p50_max: Option<f64>,

    /// How many times its 99th percentile alone a mouse may have beside others
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    p99_max: Option<f64>,

    /// Jain's index at least of the bandwidths of flows that are alike
    #[arg(long, value_name = "INDEX", value_parser = ratio)]
    fairness_min: Option<f64>,

    /// Write all draws as one JSON document; - for stdout, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// A folder for report.html, results.json, the summary, and tables as Parquet
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    #[command(flatten)]
    common: Common,
}

fn ratio(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err("must be above 0".to_owned()) }
}

pub(super) fn run(arguments: &Isolation) -> Result<(), Failure> {
    let nics = Nics::open(&arguments.common)?;
    if let Some(folder) = &arguments.output {
        make_folder(folder)?;
    }
    let make = if arguments.quick { Matrix::quick } else { Matrix::full };
    let matrix = make(arguments.rounds, arguments.draw_ms.into());
    crate::output::tell(&format!("{} draws: about {:.0} s", matrix.draws(), matrix.seconds()));
    let mut results =
        Results::new(matrix.clone(), arguments.common.world.name(), &nics.about(None));
    let mut watch = Watch::new(matrix.draws())?;
    'all: for _ in 0..matrix.rounds {
        for (index, cell) in matrix.cells.iter().enumerate() {
            let plan = matrix.plan(*cell);
            let tallies: Vec<Arc<Tally>> = plan.flows.iter().map(|_| Arc::default()).collect();
            watch.begin(&plan, &plan.title, &tallies);
            let ran = nics.run(&plan, &tallies, &mut watch)?;
            if let Some(why) = &ran.cut_short {
                results.partial =
                    Some(format!("{}: {}", plan.title, why.to_string().replace('\n', "; ")));
                break 'all;
            }
            results.add(index, &ran);
        }
    }
    let interrupted = watch.is_interrupted();
    watch.end();
    let Isolation { share_max, p50_max, p99_max, fairness_min, .. } = *arguments;
    let misses = results.misses(&Limits { share_max, p50_max, p99_max, fairness_min });
    tell(arguments, &results, &misses)?;
    if interrupted {
        let message = "interrupted: the results are partial";
        return Err(Failure::new(message).status(Status::Interrupted));
    }
    if let Some(why) = &results.partial {
        return Err(Failure::new(format!("the results are partial: {why}")));
    }
    match misses.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} limits were missed")).status(Status::Missed)),
    }
}

fn tell(arguments: &Isolation, results: &Results, misses: &[String]) -> Result<(), Failure> {
    let missed: String = misses.iter().map(|miss| format!("MISSED    {miss}\n")).collect();
    let text = format!("{results}{missed}");
    match arguments.json.as_deref() {
        Some(path) if path == Path::new("-") => print(&results.to_json())?,
        Some(path) => {
            print(&text)?;
            fs::write(path, results.to_json()).map_err(|error| cannot_write(path, error))?;
        }
        None => print(&text)?,
    }
    let Some(folder) = &arguments.output else { return Ok(()) };
    let texts = [
        ("report.html", isolation::page(results, misses)),
        ("results.json", results.to_json()),
        ("summary.txt", text),
    ];
    let tables = isolation::tables(results);
    write_files(folder, &texts, &tables, &[("world", results.world), ("about", &results.about)])
}
