//! What TCP and RDMA have of a path while both are at work: iperf3 beside perftest's 64 KiB WRITEs, from one host to
//! the other, through one queue.

use anyhow::{Result, bail};

use super::programs::{Pair, Traffic};
use super::{Choice, Joined, Path, median, ratios, sorted, spread, told};

/// So long that who begins some tenths of a second sooner has no more for it.
const SECONDS: u32 = 8;
const MEASURED: [Traffic; 2] = [Traffic::Tcp, Traffic::Write];

pub(super) fn heading(rounds: usize) {
    println!(
        "Gb/s of goodput of both at once, and RDMA's over TCP's: medians of {rounds}, with least and most of the ratio.\n"
    );
    let [tcp, write] = MEASURED.map(Traffic::name);
    println!("  {:<28}{tcp:>6}{write:>27}", "");
}

pub(super) fn measure(path: Path, choice: &Choice) -> Result<()> {
    let [mut tcp, mut write] = [const { Vec::new() }; 2];
    for round in 0..choice.rounds {
        let joined = Joined::by(path, choice, round)?;
        // Each is the first as often as the other.
        let mut order = MEASURED;
        order.rotate_left(round % 2);
        let pairs = order.map(|it| Pair::bulk(&joined.labs, it, SECONDS, choice.events)?.start());
        for (traffic, pair) in order.into_iter().zip(pairs) {
            let values = if traffic == Traffic::Tcp { &mut tcp } else { &mut write };
            values.push(told(path, traffic, pair.and_then(|pair| pair.end())));
        }
        joined.part()?;
    }
    let ratios = ratios(&write, &tcp);
    if ratios.is_empty() {
        bail!("both were never measured at once");
    }
    let of = |values: &[Option<f64>]| median(&sorted(values.iter().flatten().copied()));
    let ours = format!("{} x{} {}", of(&write), median(&ratios), spread(&ratios));
    println!("  {:<28}{:>6}{ours:>27}", path.to_string(), of(&tcp));
    Ok(())
}
