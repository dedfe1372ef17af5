//! What a short message takes over a path, alone and beside a load of its own kind: TCP's beside iperf3, RDMA's
//! beside perftest's bulk of the same verb, from another process. All by qperf, which sleeps until something comes.

use core::time::Duration;

use anyhow::{Context, Result, bail};

use super::programs::{Pair, Traffic};
use super::{Choice, Joined, Path, all_measured, median, ratios, sorted, spread, told};

/// What measures.
pub(super) const PROGRAM: &str = "qperf";
const SECONDS: u32 = 2;
/// How long the load takes to fill the path, and how long it lasts: so long that it still does when the short
/// messages end.
const FILLED: Duration = Duration::from_secs(2);
const LOADED_SECONDS: u32 = 8;

/// READs are left out: qperf tells their round trip, and of the others half of it.
const MEASURED: [Traffic; 3] = [Traffic::Tcp, Traffic::Write, Traffic::Send];

/// Whether there is a load.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Bulk,
}

pub(super) fn heading(rounds: usize) {
    println!(
        "One way of a message of one byte in us, and over TCP's: medians of {rounds}, with least and most of the ratio.\n"
    );
    let [tcp, write, send] = MEASURED.map(Traffic::name);
    println!("  {:<28}{tcp:>9}{write:>27}{send:>27}", "");
}

pub(super) fn measure(path: Path, choice: &Choice) -> Result<()> {
    println!("  {path}");
    for (beside, name) in [(Beside::Nothing, "alone"), (Beside::Bulk, "beside bulk")] {
        let mut all: [Vec<Option<f64>>; 3] = Default::default();
        for round in 0..choice.rounds {
            let joined = Joined::by(path, choice, round)?;
            for (traffic, values) in MEASURED.into_iter().zip(&mut all) {
                values.push(told(path, traffic, one(&joined, traffic, beside, choice.events)));
            }
            joined.part()?;
        }
        let [tcp, ours @ ..] = &all;
        let us = |values: &[Option<f64>]| {
            let values = sorted(values.iter().flatten().copied());
            values.get(values.len() / 2).map_or("-".to_owned(), |us| format!("{us:.0}"))
        };
        print!("    {name:<26}{:>9}", us(tcp));
        for ours in ours {
            let ratios = ratios(ours, tcp);
            print!("{:>27}", format!("{} x{} {}", us(ours), median(&ratios), spread(&ratios)));
        }
        println!();
        all_measured(&all)?;
    }
    Ok(())
}

fn one(joined: &Joined, traffic: Traffic, beside: Beside, events: bool) -> Result<f64> {
    let short = || Pair::short(&joined.labs, traffic, SECONDS)?.run();
    if beside == Beside::Nothing {
        return short();
    }
    let mut load = Pair::bulk(&joined.labs, traffic, LOADED_SECONDS, events)?.start()?;
    if !load.is_at_work_after(FILLED)? {
        bail!("the load has ended at once: {:?}", load.end());
    }
    let us = short()?;
    if !load.is_at_work_after(Duration::ZERO)? {
        bail!("the load ended before the short messages did");
    }
    load.end().context("the load")?;
    Ok(us)
}
