//! `ferroce sim --seeds`: one scenario with many seeds, on all cores.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use fabric::check::Check;
use fabric::report::{Report, Seeds};
use fabric::{Network, Verdict, record};

use super::inputs::Input;
use super::watch::{Interrupt, Watch};
use crate::args::Sim;
use crate::failure::{Failure, Status};
use crate::output::{cannot_write, make_folder, print, write_table};

/// Runs a scenario with `count` seeds.
pub(super) fn run(
    arguments: &Sim,
    input: &Input<'_>,
    count: u32,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let first = input.read(arguments.seed)?;
    let check = Check::new(&first);
    if arguments.strict {
        input.strictly(&check)?;
    }
    input.warn(&first.notes, &check);
    if let Some(folder) = &input.output {
        make_folder(folder)?;
    }
    let watch = Watch::new(first.end, interrupt);
    let from = first.network.seed;
    in_range(from, count)?;
    let next = AtomicU64::new(0);
    let seeds = Mutex::new(Seeds::default());
    let one = |seed: u64| -> Result<(), Failure> {
        let scenario = input.read(Some(seed))?;
        let mut network = Network::new(scenario.network)
            .map_err(|error| input.wrong(&scenario.origin.explain(&error)))?;
        let mut own = watch.beside();
        let end = scenario.end;
        let verdict = record::run(&mut network, end, None, |network| own.next(network));
        // What was not run to its end is no draw like the others.
        if verdict != Verdict::Interrupted
            && let Ok(mut seeds) = seeds.lock()
        {
            let report = Report::new(&scenario.title, &network, &verdict);
            seeds.add(&report, input.output.is_some());
            watch.show_part(seeds.len() as f64 / f64::from(count));
        }
        Ok(())
    };
    let work = || -> Result<(), Failure> {
        loop {
            let draw = next.fetch_add(1, Ordering::Relaxed);
            if draw >= u64::from(count) || watch.is_interrupted() {
                return Ok(());
            }
            one(from + draw)?;
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(count as usize);
    let done: Vec<Result<(), Failure>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|ended| ended.unwrap_or_else(|_| Err(Failure::new("a run has failed")))).collect()
    });
    let interrupted = watch.is_interrupted();
    watch.end();
    done.into_iter().collect::<Result<(), _>>()?;
    let seeds = seeds.into_inner().unwrap_or_default();
    if !seeds.is_empty() {
        // First the files, whatever stdout is; what was seen is printed, whatever the disk is.
        let written = input.output.as_ref().map_or(Ok(()), |folder| write(folder, &seeds));
        print(&if arguments.json { seeds.json() } else { seeds.summary() })?;
        written?;
    }
    match seeds.deadlocks() {
        _ if interrupted => {
            Err(Failure::new("interrupted: not all seeds were run").status(Status::Interrupted))
        }
        0 => Ok(()),
        number => Err(Failure::new(format!("the network is deadlocked with {number} seeds"))
            .status(Status::Deadlock)),
    }
}

/// Refuses seeds beyond the last that there is.
fn in_range(from: u64, count: u32) -> Result<(), Failure> {
    let others = u64::from(count.saturating_sub(1));
    if from.checked_add(others).is_some() {
        return Ok(());
    }
    let last = u64::MAX - others;
    let failure = Failure::new(format!("{count} seeds from {from} on go beyond {}", u64::MAX));
    Err(failure.hint(format!("begin at {last} or before, by --seed or by seed in the scenario")))
}

fn write(folder: &Path, seeds: &Seeds) -> Result<(), Failure> {
    for (name, text) in [("report.html", seeds.page()), ("summary.txt", seeds.summary())] {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| cannot_write(&path, error))?;
    }
    for table in [Some(seeds.table()), seeds.flows(), seeds.jobs()].iter().flatten() {
        write_table(folder, table, &seeds.about())?;
    }
    Ok(())
}
