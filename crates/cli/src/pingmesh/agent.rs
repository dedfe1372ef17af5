//! `ferroce pingmesh agent`: probes of this host, by a soft NIC or an RDMA device.
//!
//! ```text
//!   collector ─ targets ─► prober (a thread of its own) ─ windows ─► spool ─► collector
//! ```

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bench::world::soft::{Host, SoftSeat};
use bench::world::{Ended, Q_KEY, Seat, Stop, drive, soft};
use ops::pingmesh::exchange::{Address, Aim, Answer, Say, VERSION};
use ops::pingmesh::probe::{Place, Prober, Results, Settings, Target};
use ops::pingmesh::window::Counts;
use rdma::app::{App, Qp};
use rdma::{Gid, Qpn, Span, UdAddress};
use softnic::{DeviceInfo, Options};

use super::arguments::Agent;
use super::line::{Line, read_key};
use super::spool::Spool;
use crate::failure::Failure;

/// How often the agent looks for finished windows, and whether it is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How often it asks for its targets, and how soon it tries again where the collector does not answer.
const ASK_INTERVAL: Duration = Duration::from_secs(5);
/// If the clock of the wall goes so far from that of the prober, windows begin anew.
const JUMP_NS: u64 = 1_000_000_000;

/// What the collector has said first.
struct Duty {
    host: u32,
    window: Span,
}

/// A prober at work.
struct Running {
    results: Results,
    stop: Stop,
    thread: JoinHandle<Ended>,
    address: Address,
    gid: Gid,
    epoch_ns: u64,
}

pub(super) fn run(arguments: &Agent) -> Result<(), Failure> {
    let key = read_key(&arguments.key)?;
    let spool = Spool::open(&arguments.spool()?)?;
    let ends = crate::signals::stopper()?;
    let options = Options::from_environment().map_err(|error| Failure::from_message(&error))?;
    let device = arguments.device()?;
    let name = arguments.host()?;
    let mut teller = Teller::default();
    let Some(duty) = begin(arguments, &key, &name, &ends, &mut teller)? else { return Ok(()) };
    let mut running = start(arguments, &device, &options, &duty)?;
    let path = device.interface.clone();
    eprintln!("{name} probes by {path}, and tells {}", arguments.collector);
    let mut asked: Option<Instant> = None;
    while !ends.load(Ordering::Relaxed) {
        thread::sleep(LOOK_INTERVAL);
        if running.thread.is_finished() {
            return Err(ended(running.thread));
        }
        if wall_ns().abs_diff(running.epoch_ns + soft::now().as_ns()) > JUMP_NS {
            eprintln!("warning: the clock of this host has jumped; windows begin anew");
            running.end();
            running = start(arguments, &device, &options, &duty)?;
            asked = None;
        }
        let mut is_new = false;
        for window in running.results.take() {
            is_new = true;
            told(&window.counts(), arguments.verbose);
            match spool.put(&window) {
                Ok(0) => {}
                Ok(over) => teller.warn(&format!("the spool is full: {over} old windows are gone")),
                Err(error) => teller.warn(&format!("a window cannot be kept: {error}")),
            }
        }
        if is_new || asked.is_none_or(|at| at.elapsed() > ASK_INTERVAL) {
            asked = Some(Instant::now());
            match deliver(arguments, &key, &name, &running, &spool, &mut teller) {
                Ok(targets) => {
                    teller.well(&format!("{} targets", targets.len()));
                    let of = |aim: &Aim| target(aim, &running, arguments.traffic_class());
                    running.results.retarget(targets.iter().map(of).collect());
                }
                Err(error) => teller.warn(&unreachable(arguments, &error)),
            }
        }
    }
    running.end();
    Ok(())
}

/// Says the same thing once, until it has changed.
#[derive(Default)]
struct Teller {
    last: String,
}

impl Teller {
    fn warn(&mut self, what: &str) {
        self.tell(&format!("warning: {what}"));
    }

    fn well(&mut self, what: &str) {
        self.tell(what);
    }

    fn tell(&mut self, what: &str) {
        if self.last != what {
            eprintln!("{what}");
            what.clone_into(&mut self.last);
        }
    }
}

fn unreachable(arguments: &Agent, error: &io::Error) -> String {
    format!("the collector {} does not take windows: {error}; they are kept", arguments.collector)
}

/// Asks the collector how long windows are, until it answers.
fn begin(
    arguments: &Agent,
    key: &[u8],
    name: &str,
    ends: &AtomicBool,
    teller: &mut Teller,
) -> Result<Option<Duty>, Failure> {
    while !ends.load(Ordering::Relaxed) {
        let asked = Line::connect(arguments.collector, key).and_then(|mut line| {
            line.say(&Say::Hello { version: VERSION, host: name.to_owned(), address: None })?;
            line.hear::<Answer>()
        });
        match asked {
            Ok(Some(Answer::Targets { host, window_ms, .. })) => {
                let window = Span::from_ms(window_ms.clamp(100, 3_600_000));
                return Ok(Some(Duty { host, window }));
            }
            Ok(Some(Answer::Refused { why })) => {
                return Err(Failure::new(format!("the collector refuses {name}: {why}"))
                    .hint("--host names this host as the collector's topology does"));
            }
            Ok(Some(Answer::Later { why })) => teller.warn(&why),
            Ok(Some(Answer::Kept) | None) => teller.warn(&format!(
                "the collector {} has hung up: has it another key?",
                arguments.collector
            )),
            Err(error) => teller.warn(&format!("no collector at {}: {error}", arguments.collector)),
        }
        let until = Instant::now() + ASK_INTERVAL / 5;
        while Instant::now() < until && !ends.load(Ordering::Relaxed) {
            thread::sleep(LOOK_INTERVAL);
        }
    }
    Ok(None)
}

fn start(
    arguments: &Agent,
    device: &DeviceInfo,
    options: &Options,
    duty: &Duty,
) -> Result<Running, Failure> {
    let failed = |failure: bench::Failure| Failure::from_message(&failure);
    let epoch_ns = wall_ns().saturating_sub(soft::now().as_ns());
    let settings = Settings {
        window: duty.window,
        slow: Span::from_us(arguments.slow_us),
        epoch_ns,
        traffic_class: arguments.traffic_class(),
        ..Settings::default()
    };
    let results = Results::default();
    let mut prober = Prober::alone(duty.host, settings, results.clone(), Q_KEY);
    let stop = Stop::default();
    let host = Host::open(device, options).map_err(failed)?;
    let mut seat = SoftSeat::new(&host, &prober.layout(), &stop, epoch_ns).map_err(failed)?;
    let introduction = seat.introduction();
    let end = introduction.ends.first();
    let qpn = end.ok_or_else(|| Failure::new("a prober has a queue pair"))?.qpn;
    seat.connect(vec![Vec::new()]).map_err(failed)?;
    let thread = thread::Builder::new()
        .name("prober".to_owned())
        .spawn(move || drive(&mut prober, &mut seat, || {}))
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let (gid, address) = (Gid(introduction.gid), Address { gid: introduction.gid, qpn });
    Ok(Running { results, stop, thread, address, gid, epoch_ns })
}

impl Running {
    /// What was seen since the last window has ended is not told.
    fn end(self) {
        self.stop.stop();
        let _ = self.thread.join();
    }
}

fn ended(thread: JoinHandle<Ended>) -> Failure {
    match thread.join() {
        Ok(Ended::Failed(failure)) => Failure::from_message(&failure),
        _ => Failure::new("the prober has ended"),
    }
}

/// Says hello, and delivers what there is. Returns the targets.
fn deliver(
    arguments: &Agent,
    key: &[u8],
    name: &str,
    running: &Running,
    spool: &Spool,
    teller: &mut Teller,
) -> io::Result<Vec<Aim>> {
    let mut line = Line::connect(arguments.collector, key)?;
    let address = Some(running.address);
    line.say(&Say::Hello { version: VERSION, host: name.to_owned(), address })?;
    let targets = match line.hear()? {
        Some(Answer::Targets { targets, .. }) => targets,
        Some(Answer::Refused { why } | Answer::Later { why }) => return Err(io::Error::other(why)),
        Some(Answer::Kept) | None => return Err(io::Error::other("it has hung up")),
    };
    for path in spool.all()? {
        let Some(window) = Spool::read(&path)? else {
            teller.warn(&format!("{} is no window", path.display()));
            std::fs::remove_file(&path)?;
            continue;
        };
        line.say(&Say::Window(Box::new(window)))?;
        match line.hear()? {
            Some(Answer::Kept) => std::fs::remove_file(&path)?,
            Some(Answer::Refused { why }) => {
                teller.warn(&format!("the collector refuses a window: {why}"));
                std::fs::remove_file(&path)?;
            }
            Some(Answer::Later { why }) => return Err(io::Error::other(why)),
            Some(Answer::Targets { .. }) | None => return Err(io::Error::other("it has hung up")),
        }
    }
    Ok(targets)
}

fn target(aim: &Aim, running: &Running, traffic_class: u8) -> Target {
    let to = UdAddress {
        gid: Gid(aim.address.gid),
        source_gid: running.gid,
        traffic_class,
        hop_limit: 64,
        flow_label: 0,
        qpn: Qpn::new(aim.address.qpn),
        q_key: Q_KEY,
    };
    let place = Place::Address(to);
    let labels = aim.labels.clamp(1, rdma::app::LABELS_MAX);
    Target { host: aim.host, scope: aim.scope, qp: Qp(0), place, every: aim.every(), labels }
}

fn told(counts: &Counts, verbose: bool) {
    if verbose {
        let Counts { sent, answered, timeout, send_error, .. } = counts;
        eprintln!(
            "window: {sent} probes, {answered} answered, {timeout} not in time, {send_error} not sent"
        );
    }
}

/// Nanoseconds since 1970.
pub(super) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
