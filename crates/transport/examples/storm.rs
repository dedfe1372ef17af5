//! Runs storms; `cargo xtask storm` builds it for release and passes its arguments on.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;
use std::{env, fs, thread};

use transport::testing::storm::{self, Log, Report};

/// Events that a failure shows.
const SHOWN: usize = 40;

#[derive(Debug)]
struct Options {
    seeds: u64,
    first: u64,
    jobs: usize,
    trace: bool,
    pcap: Option<String>,
}

fn main() -> ExitCode {
    let options = match parse(env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("error: {text}");
            return ExitCode::FAILURE;
        }
    };
    let start = Instant::now();
    let (total, failed) = run_all(&options);
    let seconds = start.elapsed().as_secs_f64();
    let Report { packets, completions, retransmissions, tally } = total;
    if let Some(seed) = failed {
        replay(seed, &options);
        return ExitCode::FAILURE;
    }
    for (what, count) in tally.iter() {
        println!("{count:>12}  {what}");
    }
    println!(
        "{} storms clean in {seconds:.1} s: {packets} packets, {retransmissions} of them again, \
         {completions} completions",
        options.seeds
    );
    if options.trace || options.pcap.is_some() {
        replay(options.first, &options);
    }
    ExitCode::SUCCESS
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { seeds: 0, first: 0, jobs: 1, trace: false, pcap: None };
    let mut has_seed = false;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number =
            |text: String| text.parse::<u64>().map_err(|_| format!("not a number: {text}"));
        match word.as_str() {
            "--seeds" => options.seeds = number(value()?)?,
            "--seed" => {
                options.first = number(value()?)?;
                has_seed = true;
            }
            "--jobs" => options.jobs = number(value()?)?.clamp(1, 256) as usize,
            "--trace" => options.trace = true,
            "--pcap" => options.pcap = Some(value()?),
            _ => return Err(format!("unexpected argument: {word}")),
        }
    }
    if options.seeds == 0 {
        options.seeds = if has_seed { 1 } else { 1000 };
    }
    Ok(options)
}

/// Runs every seed, or until one fails. Returns the sum, and the first seed that failed.
fn run_all(options: &Options) -> (Report, Option<u64>) {
    // The panic of an engine is told once, when its seed is replayed.
    panic::set_hook(Box::new(|_| {}));
    let next = AtomicU64::new(options.first);
    let stop = AtomicBool::new(false);
    let shared = Mutex::new((Report::default(), None::<u64>));
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed - options.first >= options.seeds {
                        break;
                    }
                    let result = panic::catch_unwind(|| storm::run(seed, &mut Log::silent()));
                    let mut shared = shared.lock().expect("no one panics with the lock");
                    match result {
                        Ok(Ok(report)) => {
                            shared.0.add(&report);
                        }
                        Ok(Err(_)) | Err(_) => {
                            shared.1 = Some(shared.1.map_or(seed, |other| other.min(seed)));
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let _ = panic::take_hook();
    shared.into_inner().expect("no one panics with the lock")
}

/// Runs a seed again, and shows it.
fn replay(seed: u64, options: &Options) {
    let mut log = Log::recording();
    let result = panic::catch_unwind(AssertUnwindSafe(|| storm::run(seed, &mut log)));
    let lines = log.lines();
    let skipped = if options.trace { 0 } else { lines.len().saturating_sub(SHOWN) };
    if options.trace || !matches!(result, Ok(Ok(_))) {
        for line in &lines[skipped..] {
            println!("{line}");
        }
    }
    match result {
        Ok(Ok(_)) => {}
        Ok(Err(failure)) => eprintln!("\nFAILED {failure}"),
        Err(_) => eprintln!("\nFAILED seed {seed}: panic"),
    }
    if let Some(path) = &options.pcap {
        match fs::write(path, log.capture()) {
            Ok(()) => println!("packets: {path}"),
            Err(error) => eprintln!("error: cannot write {path}: {error}"),
        }
    } else if !options.trace {
        eprintln!("replay: cargo xtask storm --seed {seed} --trace --pcap storm.pcap");
    }
}
