//! What queue pairs bring over pretended paths, as parts of the path's rate:
//! `cargo run --release -p ferroce-transport --features testing --example path`.
//!
//! ```text
//! --mbps N      rate of the path                 --qps N     queue pairs
//! --ms N        time that is measured, twice     --tcp       beside a TCP flow, whose part is told, too
//! --filter T    of the table, rows whose name contains T
//! --trials N    so many trials instead, from --seed N on: the slowest are told
//! ```

use std::process::ExitCode;

use rdma::{Mtu, Rate, Span};
use transport::Congestion;
use transport::congestion::Bbr;
use transport::testing::load::{Load, Program, Verb, config};
use transport::testing::path::Path;
use transport::testing::trial::Trial;

/// Trials that are told.
const TOLD: usize = 10;
const PATIENCE: Span = Span::from_ms(60_000);

struct Options {
    mbps: u64,
    ms: u64,
    qps: u64,
    trials: u64,
    seed: u64,
    has_tcp: bool,
    filter: String,
}

fn main() -> ExitCode {
    let done = parse().and_then(|options| match options.trials {
        0 => table(&options),
        _ => try_all(&options),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Options, String> {
    let mut options = Options {
        mbps: 2_000,
        ms: 1_000,
        qps: 1,
        trials: 0,
        seed: 1,
        has_tcp: false,
        filter: String::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = match word.as_str() {
            "--tcp" => {
                options.has_tcp = true;
                continue;
            }
            "--filter" => {
                options.filter = words.next().ok_or("--filter needs a text")?;
                continue;
            }
            "--mbps" => &mut options.mbps,
            "--ms" => &mut options.ms,
            "--qps" => &mut options.qps,
            "--trials" => &mut options.trials,
            "--seed" => &mut options.seed,
            _ => return Err(format!("unexpected argument: {word}")),
        };
        let value = words.next().and_then(|value| value.parse().ok());
        *number = value.ok_or(format!("{word} needs a number"))?;
    }
    Ok(options)
}

/// Each MTU with each delay, and with each of them each loss, and reordering.
fn table(options: &Options) -> Result<(), String> {
    println!("{:<44}{:>10}{:>10}{:>10}", "", "WRITE", "SEND", "READ");
    for mtu in [Mtu::B1024, Mtu::B4096] {
        for delay_us in [100, 1_000, 10_000] {
            for (lost, reordered) in [(0, 0), (1_000, 0), (10_000, 0), (0, 10_000)] {
                let path = Path::new(Rate::from_mbps(options.mbps), Span::from_us(delay_us));
                let path = Path { lost, reordered, ..path };
                let [delay, lost, late] =
                    [(delay_us, 1e3), (lost, 1e4), (reordered, 1e4)].map(|it| it.0 as f64 / it.1);
                let bytes = mtu.bytes();
                let name = format!("MTU {bytes}, {delay} ms, {lost} % lost, {late} % reordered");
                if !name.contains(&options.filter) {
                    continue;
                }
                print!("{name:<44}");
                for verb in Verb::ALL {
                    print!("{:>10}", measure(options, Load::new(verb, mtu), path)?);
                }
                println!();
            }
        }
    }
    Ok(())
}

fn measure(options: &Options, load: Load, path: Path) -> Result<String, String> {
    let (qps, span) = (options.qps.max(1), Span::from_ms(options.ms));
    let load = Load { qps: qps as usize, depth: (load.depth / qps).max(2), ..load };
    let tcp_from = options.has_tcp.then_some(usize::from(load.verb == Verb::Read));
    let control = config(Congestion::Bbr(Bbr::default()));
    let mut program = Program::new(control, load, path, options.seed, tcp_from);
    program.go_on_for(span)?;
    let before = program.counts();
    let parts = program.go_on_for(span)?;
    let whole = span.as_ps() as f64 / 1e12 * path.rate.as_bps() as f64 / 8.0;
    let sum: u64 = parts.iter().sum();
    let mut text = format!("{:.3}", sum as f64 / whole);
    if options.has_tcp {
        let bytes = program.counts().tcp_bytes - before.tcp_bytes;
        text.push_str(&format!("/{:.3}", bytes as f64 / whole));
    } else if qps > 1 {
        // Jain's index.
        let squares: f64 = parts.iter().map(|part| (*part as f64).powi(2)).sum();
        text.push_str(&format!("/{:.3}", (sum as f64).powi(2) / squares / qps as f64));
    }
    Ok(text)
}

fn try_all(options: &Options) -> Result<(), String> {
    let mut slow = Vec::new();
    for seed in options.seed..options.seed + options.trials {
        let trial = Trial::new(seed);
        let control = Congestion::Bbr(Bbr::default());
        let took = trial.run(control, PATIENCE).map_err(|error| format!("{trial}: {error}"))?;
        slow.push((took.as_ps() / trial.ideal().as_ps().max(1), took, trial));
    }
    slow.sort_by_key(|(times, took, _)| core::cmp::Reverse((*times, *took)));
    for (times, took, trial) in slow.iter().take(TOLD) {
        println!("{times} times as long: {took}, {trial}");
    }
    Ok(())
}
