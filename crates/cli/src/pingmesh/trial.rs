//! `ferroce pingmesh trial`: how often the verdict is right.

use std::thread;

use ops::pingmesh::trial::{Fault, Trial, Tried, named, scores};

use super::arguments;
use crate::failure::Failure;
use crate::output::print;

pub(super) fn run(arguments: &arguments::Trial) -> Result<(), Failure> {
    let is_meant =
        |fault: &Fault| arguments.fault.as_deref().is_none_or(|text| fault.name().contains(text));
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(is_meant).collect();
    if faults.is_empty() {
        let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        return Err(Failure::new("no fault has such a name").hint(names.join(", ")));
    }
    let seeds = arguments.seed..arguments.seed + arguments.seeds;
    let jobs: Vec<(Fault, u64)> =
        faults.iter().flat_map(|fault| seeds.clone().map(|seed| (*fault, seed))).collect();
    let mut tried = Vec::with_capacity(jobs.len());
    // As many at a time as there are cores; told in their order.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for some in jobs.chunks(cores) {
        let done: Vec<_> = thread::scope(|scope| {
            let start = |&(fault, seed): &(Fault, u64)| {
                scope.spawn(move || Trial::new(fault, seed).and_then(Trial::run))
            };
            let threads: Vec<_> = some.iter().map(start).collect();
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        for (&(fault, seed), one) in some.iter().zip(done) {
            let one = one.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let one = one.map_err(|failure| Failure::from_message(&failure))?;
            tell(&one, fault, seed, arguments.explain)?;
            tried.push(one);
        }
    }
    let mut table = format!(
        "\n{:<24} {:>6} {:>6} {:>7} {:>10}\n",
        "fault", "trials", "right", "recall", "precision"
    );
    for (fault, score) in scores(&tried) {
        table += &format!(
            "{:<24} {:>6} {:>6} {:>5.0} % {:>8.0} %\n",
            fault.name(),
            score.injected,
            score.right,
            score.recall() * 100.0,
            score.precision() * 100.0
        );
    }
    let probes: u64 = tried.iter().map(|one| one.probes).sum();
    table += &format!("{probes} probes in {} simulated networks\n", tried.len());
    print(&table)
}

fn tell(one: &Tried, fault: Fault, seed: u64, explain: bool) -> Result<(), Failure> {
    let said = if one.is_right() { "right" } else { "WRONG" };
    let truth = named(&one.truth);
    print(&format!("{:<24} seed {seed:<4} {truth:<24} {said}\n", fault.name()))?;
    match explain || !one.is_right() {
        true => print(&one.verdict.text(&Trial::topology()).to_string()),
        false => Ok(()),
    }
}
