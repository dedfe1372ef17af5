//! `ferroce pingmesh load`: stands in for many agents, and says how the collector takes what they say. They probe nobody:
//! what they have seen is made up, of the size that it would have.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use fabric::topology::End;
use ops::pingmesh::exchange::{Address, Aim, Answer, Say, VERSION};
use ops::pingmesh::limits::RAW_SAMPLED_MAX;
use ops::pingmesh::raw::{Outcome, Raw, Times};
use ops::pingmesh::window::{Counts, Latency, OfLabel, Pair, Window};
use rdma::Span;

use super::arguments::Load;
use super::clock::wall_ns;
use super::collect::topology;
use super::line::{Line, Secret, read_key};
use crate::failure::Failure;
use crate::output::print;

/// What loses its line says it again, as an agent does: after so long, and so often.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
const AGAIN_MAX: usize = 5;

/// What the collector's answers were.
#[derive(Debug, Default)]
struct Seen {
    kept: AtomicU64,
    not_kept: AtomicU64,
    /// From the attempt to connect to the answer.
    took: Mutex<Latency>,
    /// How far the last delivery was behind its time.
    late_ms: AtomicU64,
    /// Lines that were lost, or refused as its address had too many, and what was said by others.
    again: AtomicU64,
}

pub(super) fn run(arguments: &Load) -> Result<(), Failure> {
    let key = Secret::Key(read_key(&arguments.key)?);
    let topology = topology(&arguments.topology)?;
    let hosts = arguments.hosts.unwrap_or(topology.hosts.len()).min(topology.hosts.len());
    let names: Vec<String> =
        (0..hosts as u32).map(|host| topology.name(End::Host(host)).to_owned()).collect();
    let seen = Seen::default();
    // All say hello before anybody has seen anything, so that targets are there.
    let begin = Instant::now();
    let first = each(arguments, &names, &seen.again, |host, name| {
        hello(arguments, &key, host, name).map(|(_, length_ms, _)| seen.late_ms(0, length_ms))
    });
    let window_ms = match (first, seen.late_ms.swap(0, Ordering::Relaxed)) {
        (Err(why), _) => return Err(why),
        (Ok(()), window_ms) => window_ms.max(1),
    };
    let greeted = begin.elapsed().as_secs_f64();
    print(&format!(
        "{hosts} agents have said hello in {greeted:.1} s; windows are {window_ms} ms\n"
    ))?;
    for number in 1..=arguments.windows {
        // From the next window's end on, spread over one window.
        let end_ms = (wall_ns() / 1_000_000 / window_ms + 1) * window_ms;
        let begin_ns = end_ms * 1_000_000;
        let start_ns = begin_ns - window_ms * 1_000_000;
        each(arguments, &names, &seen.again, |host, name| {
            let due_ns = begin_ns + u64::from(host) * window_ms * 1_000_000 / names.len() as u64;
            if let Some(wait) = due_ns.checked_sub(wall_ns()) {
                thread::sleep(Duration::from_nanos(wait));
            }
            seen.late_ms(due_ns / 1_000_000, wall_ns() / 1_000_000);
            let begin = Instant::now();
            let is_kept = deliver(arguments, &key, host, name, (start_ns, window_ms))?;
            let to = if is_kept { &seen.kept } else { &seen.not_kept };
            to.fetch_add(1, Ordering::Relaxed);
            let took = Span::from_ns(begin.elapsed().as_nanos() as u64);
            seen.took.lock().unwrap_or_else(PoisonError::into_inner).record(took);
            Ok(())
        })?;
        let took = core::mem::take(&mut *seen.took.lock().unwrap_or_else(PoisonError::into_inner));
        let ms = |rank| took.us(rank).unwrap_or(0.0) / 1e3;
        let [kept, not_kept, late_ms, again] =
            [&seen.kept, &seen.not_kept, &seen.late_ms, &seen.again]
                .map(|count| count.swap(0, Ordering::Relaxed));
        let again = if again > 0 { format!("; {again} said again") } else { String::new() };
        print(&format!(
            "window {number}: {kept} kept, {not_kept} not; answered after {:.1} ms (p50), {:.1} ms (p99); at most \
             {late_ms} ms behind{again}\n",
            ms(0.5),
            ms(0.99)
        ))?;
    }
    Ok(())
}

impl Seen {
    fn late_ms(&self, due_ms: u64, now_ms: u64) {
        self.late_ms.fetch_max(now_ms.saturating_sub(due_ms), Ordering::Relaxed);
    }
}

/// Does something for each host, on several threads. A failure that another line does not mend ends it.
fn each(
    arguments: &Load,
    names: &[String],
    again: &AtomicU64,
    act: impl Fn(u32, &str) -> io::Result<()> + Sync,
) -> Result<(), Failure> {
    let act = |host: u32, name: &str| {
        for _ in 0..AGAIN_MAX {
            match act(host, name) {
                Err(error) if is_lost(&error) => {
                    again.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(AGAIN_AFTER);
                }
                done => return done,
            }
        }
        act(host, name)
    };
    let next = AtomicU64::new(0);
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                loop {
                    let host = next.fetch_add(1, Ordering::Relaxed);
                    let Some(name) = names.get(host as usize) else { break };
                    if let Err(error) = act(host as u32, name) {
                        next.store(names.len() as u64, Ordering::Relaxed);
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some(format!("{name}: {error}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), |why| {
        Err(Failure::new(why).hint("has the collector the same topology and key?"))
    })
}

/// Whether it is the line that failed.
fn is_lost(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::UnexpectedEof
    )
}

/// What becomes of a line whose other end is closed.
fn hung_up() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the collector has hung up")
}

/// A line with the collector, how long windows are in milliseconds, and whom to probe.
fn hello(
    arguments: &Load,
    key: &Secret,
    host: u32,
    name: &str,
) -> io::Result<(Line, u64, Vec<Aim>)> {
    let mut line = Line::connect(arguments.collector, key)?;
    let mut gid = [0; 16];
    gid[0] = 0xfd;
    gid[12..].copy_from_slice(&host.to_be_bytes());
    let address = Some(Address { gid, qpn: 17, tcp: None });
    line.say(&Say::Hello { version: VERSION, host: name.to_owned(), address })?;
    match line.hear()? {
        Some(Answer::Targets { window_ms, targets, .. }) => Ok((line, window_ms, targets)),
        Some(Answer::Refused { why } | Answer::Later { why }) => Err(io::Error::other(why)),
        Some(Answer::Kept) | None => Err(hung_up()),
    }
}

/// Delivers what a host could have seen. Whether the collector has kept it.
fn deliver(
    arguments: &Load,
    key: &Secret,
    host: u32,
    name: &str,
    (start_ns, window_ms): (u64, u64),
) -> io::Result<bool> {
    let (mut line, _, targets) = hello(arguments, key, host, name)?;
    let pairs: Vec<Pair> = targets.iter().map(|aim| pair(host, aim, window_ms)).collect();
    let sent: u64 = pairs.iter().map(|pair| pair.counts.sent).sum();
    let mut window = Window::new(host, start_ns, window_ms * 1_000_000);
    (0..sent).for_each(|number| window.prober.record(Span::from_us(3 + number % 5)));
    window.raw = singles(&targets, &window, sent);
    window.pairs = pairs;
    line.say(&Say::Window(Box::new(window)))?;
    match line.hear()? {
        Some(Answer::Kept) => Ok(true),
        Some(Answer::Refused { why }) => Err(io::Error::other(why)),
        _ => Ok(false),
    }
}

/// As many single probes as an agent remembers of a window without a fault, or all of them.
fn singles(targets: &[Aim], window: &Window, sent: u64) -> Vec<Raw> {
    let many = sent.min(RAW_SAMPLED_MAX as u64).min(targets.len() as u64);
    let single = |number: u64| {
        let aim = &targets[number as usize];
        let posted_ns = window.start_ns + number * window.length_ns / many;
        let times = Some(Times::new(Span::from_us(20), Span::from_us(8), Span::from_us(5)));
        let outcome = Outcome::Answered;
        Raw { target: aim.host, scope: aim.scope, label: 0, posted_ns, outcome, times }
    };
    (0..many).map(single).collect()
}

/// Round trips of 10 to 30 us, with a tail of ten times that.
fn pair(host: u32, aim: &Aim, window_ms: u64) -> Pair {
    let sent = (window_ms * 1_000 / aim.every_us.max(1)).max(1);
    let mut pair = Pair::new(aim.host, aim.scope, aim.labels);
    pair.counts = Counts { sent, answered: sent, ..Counts::default() };
    pair.labels = vec![OfLabel::default(); usize::from(aim.labels.max(1))];
    for number in 0..sent {
        let mix = (u64::from(host) * 31 + u64::from(aim.host) * 17 + number * 7) % 101;
        let us = if mix == 0 { 300 } else { 10 + mix / 5 };
        pair.network.record(Span::from_us(us));
        pair.responder.record(Span::from_us(5 + mix % 7));
        let place = (number % pair.labels.len() as u64) as usize;
        pair.labels[place].sent += 1;
    }
    pair
}
