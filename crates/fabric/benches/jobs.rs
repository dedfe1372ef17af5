//! The jobs on which simulators are compared, with all that a switch and a NIC do: eight priorities,
//! PFC with dynamic thresholds and headroom, ECN, DCQCN, ECMP, an acknowledgement a packet.
//!
//! ```text
//! cargo bench -p ferroce-fabric -- [JOB]... [--repeat N] [--packets N] [--threads N] [--instructions]
//! ```
//!
//! A link-hop is a packet, acknowledgements included, that crosses a link. `permutation` is job P: 128
//! hosts, 2,000 packets of 1,024 bytes a flow. `thousand` and `eight-thousand` are the same among more
//! hosts, `figure-7` is 10 ms of that of guo16, and `idle` is what hosts cost that do nothing.
//!
//! Time is that of the core, and says little on a machine that others use. With `--threads N` a job is
//! run on one thread and on N in turn, and the gain is that of the clock on the wall. `--instructions`
//! lets valgrind count: what a job takes beyond a shorter one, by the link-hops that it has more.
//! Without it they are counted by the processor, where the kernel lets one (`perf_event_open`).

use core::time::Duration;
use std::alloc::System;
use std::process::Command;
use std::time::Instant;

use fabric::random::Random;
use fabric::switch::config::{EcnConfig, Threshold};
use fabric::topology::{Cables, ClosShape, clos, fat_tree};
use fabric::workload::{FlowSpec, permutation};
use fabric::{Network, NetworkConfig, Speed, Verdict};
use perf_event::Builder;
use rdma::{Rate, Span, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use transport::congestion::{Congestion, Dcqcn};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes of the heap that are in use.
fn heap() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// A job: its name, `k` of its fat tree, and packets a flow.
const JOBS: [(&str, u32, u32); 3] =
    [("permutation", 8, 2_000), ("thousand", 16, 1_000), ("eight-thousand", 32, 200)];
const FIGURE_7: &str = "figure-7";
const IDLE: &str = "idle";

/// What instructions are counted with: packets of the shorter run, and of the longer one, among so
/// many of a job.
const SHORT: (u32, u32) = (1, 3);
const PART: u32 = 20;

#[derive(Default)]
struct Arguments {
    jobs: Vec<String>,
    repeat: usize,
    packets: Option<u32>,
    threads: u32,
    instructions: bool,
}

impl Arguments {
    fn parse() -> Result<Self, String> {
        let mut parsed = Self { repeat: 1, threads: 1, ..Self::default() };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|value| value.parse().ok());
                value.filter(|&value: &u32| value > 0).ok_or(format!("{word} takes a number"))
            };
            match word.as_str() {
                // Cargo says so to every benchmark.
                "--bench" => {}
                "--repeat" => parsed.repeat = number()? as usize,
                "--packets" => parsed.packets = Some(number()?),
                "--threads" => parsed.threads = number()?,
                "--instructions" => parsed.instructions = true,
                flag if flag.starts_with('-') => return Err(format!("there is no {flag}")),
                job => parsed.jobs.push(job.into()),
            }
        }
        if parsed.jobs.is_empty() {
            parsed.jobs = JOBS.iter().map(|job| job.0.into()).collect();
            parsed.jobs.extend([FIGURE_7.into(), IDLE.into()]);
        }
        Ok(parsed)
    }
}

fn main() -> Result<(), String> {
    let arguments = Arguments::parse()?;
    for job in &arguments.jobs {
        if job == IDLE {
            idle();
            continue;
        }
        if arguments.instructions {
            println!("{job}: {:.0} instructions a link-hop", instructions(job)?);
            continue;
        }
        for _ in 0..arguments.repeat {
            let run = |threads| {
                let (config, end) = network(job, arguments.packets)?;
                Ok::<f64, String>(measure(job, NetworkConfig { threads, ..config }, end))
            };
            let alone = run(1)?;
            if arguments.threads > 1 {
                let together = run(arguments.threads)?;
                let gain = alone / together;
                println!("{job}: {} threads are {gain:.2} times as fast as one", arguments.threads);
            }
        }
    }
    Ok(())
}

/// The network of a job, and when it ends if it has not finished.
fn network(job: &str, packets: Option<u32>) -> Result<(NetworkConfig, Time), String> {
    let mut config;
    let end;
    if job == FIGURE_7 {
        end = Time::ZERO + Span::from_ms(10);
        config = NetworkConfig::new(clos(&ClosShape::FIGURE_7));
        config.flows = figure_7(&ClosShape::FIGURE_7);
        // As scenarios/guo16/ecmp.toml has it.
        config.nic.ack_interval_packets = 16;
        config.switch.buffer_bytes = 12_000_000;
        for group in [3, 4] {
            config.switch.groups[group].threshold = Threshold::Dynamic { exponent: -4 };
        }
        config.deadlock_check = None;
    } else {
        let known = JOBS.iter().find(|known| known.0 == job);
        let names = JOBS.map(|known| known.0).join(", ");
        let &(_, k, all) =
            known.ok_or(format!("there is no job {job}: {names}, {FIGURE_7}, {IDLE}"))?;
        let rate = Rate::from_gbps(100);
        end = Time::ZERO + Span::from_ms(1_000);
        config = NetworkConfig::new(fat_tree(k, Cables::new(rate, 200)));
        let bytes = packets.unwrap_or(all) * 1_024;
        config.flows = permutation(k * k * k / 4, bytes, &mut Random::new(1));
        config.nic.congestion = Congestion::Dcqcn(Dcqcn { line_rate: rate, ..Dcqcn::paper() });
        config.switch.buffer_bytes = 32_000_000;
    }
    for queue in &mut config.switch.queues {
        queue.ecn =
            Some(EcnConfig { min_bytes: 400_000, max_bytes: 1_600_000, max_probability: 0.2 });
    }
    Ok((config, end))
}

/// Eight servers of each ToR, eight queue pairs each, to the server in the same place of the other
/// podset; PFC alone, as in the paper.
fn figure_7(shape: &ClosShape) -> Vec<FlowSpec> {
    let podset = shape.tors * shape.hosts;
    let servers =
        (0..shape.tors).flat_map(|tor| (0..8).map(move |server| tor * shape.hosts + server));
    servers
        .flat_map(|here| [(here, here + podset), (here + podset, here)])
        .flat_map(|(from, to)| [FlowSpec::write(from, to, 16 << 20).endless(); 8])
        .collect()
}

/// Runs a job, says what it cost, and returns how long it took by the clock, in seconds.
fn measure(job: &str, config: NetworkConfig, end: Time) -> f64 {
    let threads = config.threads;
    let begin = Instant::now();
    let mut network = Network::new(config).expect("the job is well formed");
    let built = begin.elapsed().as_secs_f64();
    let before = heap();
    let mut instructions = Builder::new();
    instructions.inherit(true).enabled(true);
    let instructions = instructions.build();
    let (begin, begin_core) = (Instant::now(), core_time());
    let verdict = network.run(end);
    let (wall, core) = (begin.elapsed(), core_time() - begin_core);
    let instructions = instructions.and_then(|mut counter| counter.read());
    let grown = heap().saturating_sub(before) as f64;
    assert!(matches!(verdict, Verdict::Finished | Verdict::TimeOver), "{verdict:?}");
    let packets = network.packets_at_most();
    let instructions = match instructions {
        Ok(count) => format!("{:.0} instructions each", count as f64 / network.link_hops() as f64),
        Err(_) => "instructions not counted: the kernel does not let us".to_owned(),
    };
    println!(
        "{job}: {}, {instructions}; built in {built:.2} s; {packets} packets at most, {:.1} bytes of \
         heap each; {} pause frames, {} drops",
        Speed::of(&network, if threads > 1 { wall } else { core }),
        grown / packets as f64,
        network.pause_frames(),
        network.drops().total(),
    );
    wall.as_secs_f64()
}

/// How long this thread has run on a core: others use the machine as well.
fn core_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.expect("Linux counts the time of each thread"))
}

/// What hosts cost that do nothing, with their part of all switches.
fn idle() {
    for (name, k, _) in JOBS {
        let topology = fat_tree(k, Cables::new(Rate::from_gbps(100), 200));
        let hosts = topology.hosts.len();
        let before = heap();
        let network = Network::new(NetworkConfig::new(topology)).expect("the job is well formed");
        let bytes = heap() - before;
        println!("{name}: {hosts} idle hosts, {} bytes each", bytes / hosts);
        drop(network);
    }
}

/// How many instructions a link-hop of a job takes.
fn instructions(job: &str) -> Result<f64, String> {
    let all = JOBS.iter().find(|known| known.0 == job).ok_or("only jobs of packets are counted")?.2;
    let run = |part: u32| -> Result<(f64, f64), String> {
        let packets = all * part / PART;
        let (config, end) = network(job, Some(packets))?;
        let mut network = Network::new(config).expect("the job is well formed");
        network.run(end);
        Ok((counted(job, packets)?, network.link_hops() as f64))
    };
    let (short, long) = (run(SHORT.0)?, run(SHORT.1)?);
    Ok((long.0 - short.0) / (long.1 - short.1))
}

/// The instructions of a run of this program in valgrind.
fn counted(job: &str, packets: u32) -> Result<f64, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(this)
        .args([job, "--packets", &packets.to_string()])
        .output()
        .map_err(|error| format!("cannot start valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    // ==1234== I   refs:      1,234,567
    let count = text
        .lines()
        .find_map(|line| line.split_once("refs:")?.1.trim().replace(',', "").parse().ok());
    count.ok_or_else(|| format!("valgrind counted nothing:\n{text}"))
}
