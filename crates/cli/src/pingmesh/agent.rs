//! `ferroce pingmesh agent`: probes of this host, by a soft NIC or an RDMA device.
//!
//! ```text
//!   collector ─ targets ─► prober (a thread of its own) ─ windows ─► spool ─► collector
//! ```

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bench::world::{Ended, Q_KEY, Stop, soft};
use ops::pingmesh::exchange::{Address, Aim, Answer, Say, VERSION};
use ops::pingmesh::probe::{Place, Prober, Results, Settings, Target};
use ops::pingmesh::window::Counts;
use rdma::app::Qp;
use rdma::{Gid, Qpn, Span, UdAddress};

use super::arguments::Agent;
use super::clock::wall_ns;
use super::counting::Counting;
use super::line::{Line, Secret};
use super::nic::Nic;
use super::spool::Spool;
use super::tcp::{Beside, ip};
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
    let secret = arguments.secret()?;
    let spool = Spool::open(&arguments.spool()?)?;
    let ends = crate::signals::stopper()?;
    let nic = Nic::open(arguments)?;
    let name = arguments.host()?;
    let mut teller = Teller::default();
    let Some(duty) = begin(arguments, &secret, &name, &ends, &mut teller)? else { return Ok(()) };
    let mut running = start(arguments, &nic, &duty)?;
    let (device, interface) = nic.counted();
    let length_ns = duty.window.as_ps() / 1_000;
    let counting = Counting::start(arguments.sysfs.clone(), device, interface, length_ns)?;
    let tcp = beside(arguments, running.address.gid, &duty)?;
    eprintln!("{name} probes by {}, and tells {}", nic.label(), arguments.collector);
    let mut asked: Option<Instant> = None;
    while !ends.load(Ordering::Relaxed) {
        thread::sleep(LOOK_INTERVAL);
        if running.thread.is_finished() {
            return Err(ended(running.thread));
        }
        if wall_ns().abs_diff(running.epoch_ns + soft::now().as_ns()) > JUMP_NS {
            eprintln!("warning: the clock of this host has jumped; windows begin anew");
            running.end();
            running = start(arguments, &nic, &duty)?;
            asked = None;
        }
        let mut is_new = false;
        for mut window in running.results.take() {
            is_new = true;
            window.counted = counting.of(&window);
            window.tcp = tcp.as_ref().map(|tcp| tcp.take(window.start_ns)).unwrap_or_default();
            told(&window.counts(), arguments.verbose);
            match spool.put(&window) {
                Ok(0) => {}
                Ok(over) => teller.warn(&format!("the spool is full: {over} old windows are gone")),
                Err(error) => teller.warn(&format!("a window cannot be kept: {error}")),
            }
        }
        if is_new || asked.is_none_or(|at| at.elapsed() > ASK_INTERVAL) {
            asked = Some(Instant::now());
            let address = Address { tcp: tcp.as_ref().map(Beside::port), ..running.address };
            match deliver(arguments, &secret, &name, address, &spool, &mut teller) {
                Ok(targets) => {
                    teller.well(&format!("{} targets", targets.len()));
                    let of = |aim: &Aim| target(aim, &running, arguments.traffic_class());
                    running.results.retarget(targets.iter().map(of).collect());
                    if let Some(tcp) = &tcp {
                        tcp.retarget(&targets);
                    }
                }
                Err(error) => teller.warn(&unreachable(arguments, &error)),
            }
        }
    }
    running.end();
    Ok(())
}

/// TCP probes from the address that RDMA's come from.
fn beside(arguments: &Agent, gid: [u8; 16], duty: &Duty) -> Result<Option<Beside>, Failure> {
    match ip(gid) {
        _ if arguments.no_tcp => Ok(None),
        Some(own) => Beside::start(own, arguments.tcp_port, duty.window.as_ps() / 1_000).map(Some),
        None => {
            eprintln!("warning: its address is of its link alone: there are no TCP probes");
            Ok(None)
        }
    }
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
    secret: &Secret,
    name: &str,
    ends: &AtomicBool,
    teller: &mut Teller,
) -> Result<Option<Duty>, Failure> {
    while !ends.load(Ordering::Relaxed) {
        let asked = Line::connect(arguments.collector, secret).and_then(|mut line| {
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
                "the collector {} has hung up: has it another key, or wants it TLS?",
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

fn start(arguments: &Agent, nic: &Nic, duty: &Duty) -> Result<Running, Failure> {
    let epoch_ns = wall_ns().saturating_sub(soft::now().as_ns());
    let settings = Settings {
        window: duty.window,
        slow: Span::from_us(arguments.slow_us),
        epoch_ns,
        traffic_class: arguments.traffic_class(),
        nic_times: nic.has_times(),
        ..Settings::default()
    };
    let (results, stop) = (Results::default(), Stop::default());
    let prober = Prober::alone(duty.host, settings, results.clone(), Q_KEY);
    let (address, thread) = nic.start(prober, &stop, epoch_ns)?;
    Ok(Running { results, stop, thread, address, gid: Gid(address.gid), epoch_ns })
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
    secret: &Secret,
    name: &str,
    address: Address,
    spool: &Spool,
    teller: &mut Teller,
) -> io::Result<Vec<Aim>> {
    let mut line = Line::connect(arguments.collector, secret)?;
    let address = Some(address);
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
