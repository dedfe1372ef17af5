//! `ferroce pingmesh agent`: probes of this host, by a soft NIC or an RDMA device.
//!
//! ```text
//!   collector ─ targets ─► prober (a thread of its own) ─ windows ─► spool ─► collector
//! ```

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
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
use super::spool::{HELD_MAX, Put, Spool};
use super::tcp::{Beside, ip};
use super::tls;
use crate::failure::Failure;
use crate::output::tell;

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
    let mut spool = Spool::open(&arguments.spool()?)?;
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
    tell(&format!("{name} probes by {}, and tells {}", nic.label(), arguments.collector));
    let mut asked: Option<Instant> = None;
    while !ends.load(Ordering::Relaxed) {
        thread::sleep(LOOK_INTERVAL);
        if running.thread.is_finished() {
            return Err(ended(running.thread));
        }
        if wall_ns().abs_diff(running.epoch_ns + soft::now().as_ns()) > JUMP_NS {
            tell("warning: the clock of this host has jumped; windows begin anew");
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
            match spool.put(window) {
                Put::Kept => {}
                Put::Over(over) => {
                    let what = format!("the spool is full: {over} old windows are gone");
                    teller.count(Topic::Spool, &what);
                }
                Put::InMemory(error) => {
                    let what = format!(
                        "a window cannot be kept in {}: {error}; in memory there is room for {HELD_MAX}",
                        spool.folder().display()
                    );
                    teller.count(Topic::Spool, &what);
                }
            }
        }
        if is_new || asked.is_none_or(|at| at.elapsed() > ASK_INTERVAL) {
            asked = Some(Instant::now());
            let address = Address { tcp: tcp.as_ref().map(Beside::port), ..running.address };
            match deliver(arguments, &secret, &name, address, &mut spool, &mut teller) {
                Ok(targets) => {
                    teller.say(Topic::Collector, &format!("{} targets", targets.len()));
                    let of = |aim: &Aim| target(aim, &running, arguments.traffic_class());
                    running.results.retarget(targets.iter().map(of).collect());
                    if let Some(tcp) = &tcp {
                        tcp.retarget(&targets);
                    }
                }
                Err(error) => {
                    let what = format!("{}; windows are kept", unreachable(arguments, &error));
                    teller.warn(Topic::Collector, &what);
                }
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
            tell("warning: its address is of its link alone: there are no TCP probes");
            Ok(None)
        }
    }
}

/// What there is to be said, again and again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Topic {
    /// Whether the collector is reached.
    Collector,
    /// Windows that it refuses.
    Refused,
    /// What the spool has no room for.
    Spool,
}

/// Says the same thing once, until it has changed; and, of what happens again and again, how often it did.
#[derive(Default)]
struct Teller {
    last: BTreeMap<Topic, String>,
    counts: BTreeMap<Topic, u64>,
}

impl Teller {
    fn warn(&mut self, topic: Topic, what: &str) {
        self.say(topic, &format!("warning: {what}"));
    }

    fn say(&mut self, topic: Topic, what: &str) {
        if let Some(line) = self.news(topic, what) {
            tell(&line);
        }
    }

    /// What is to be said, if it is anything else than before.
    fn news(&mut self, topic: Topic, what: &str) -> Option<String> {
        if self.last.get(&topic).is_some_and(|last| last == what) {
            return None;
        }
        self.last.insert(topic, what.to_owned());
        Some(what.to_owned())
    }

    /// One more time: said at first, and with its number at ten, a hundred and so on.
    fn count(&mut self, topic: Topic, what: &str) {
        if let Some(line) = self.counted(topic, what) {
            tell(&line);
        }
    }

    fn counted(&mut self, topic: Topic, what: &str) -> Option<String> {
        let count = self.counts.entry(topic).or_default();
        *count += 1;
        let is_round = *count == 10_u64.pow(count.ilog10());
        is_round.then(|| match count {
            1 => format!("warning: {what}"),
            count => format!("warning: {count} times by now: {what}"),
        })
    }
}

/// What is wrong with the way to the collector.
fn unreachable(arguments: &Agent, error: &io::Error) -> String {
    let collector = arguments.collector;
    match tls::explained(error) {
        Some(why) => format!("the collector at {collector} is there, but {why} ({error})"),
        None if matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::TimedOut
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
        ) =>
        {
            format!("no collector at {collector}: {error}")
        }
        None => format!("the collector at {collector}: {error}"),
    }
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
            Ok(Some(Answer::Later { why })) => teller.warn(Topic::Collector, &why),
            Ok(Some(Answer::Kept) | None) => teller.warn(
                Topic::Collector,
                &format!(
                    "the collector {} has hung up: has it another key, or wants it TLS?",
                    arguments.collector
                ),
            ),
            Err(error) => teller.warn(Topic::Collector, &unreachable(arguments, &error)),
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
    spool: &mut Spool,
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
    for kept in spool.all() {
        let Some(window) = spool.read(&kept)? else {
            teller.count(Topic::Spool, &format!("{kept} is no window"));
            spool.remove(&kept)?;
            continue;
        };
        line.say(&Say::Window(Box::new(window)))?;
        match line.hear()? {
            Some(Answer::Kept) => spool.remove(&kept)?,
            Some(Answer::Refused { why }) => {
                let what = format!("the collector refuses a window: {why}");
                teller.count(Topic::Refused, &what);
                spool.remove(&kept)?;
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
        tell(&format!(
            "window: {sent} probes, {answered} answered, {timeout} not in time, {send_error} not sent"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_again_and_again_is_said_now_and_then_with_its_number() {
        let mut teller = Teller::default();
        let mut said = Vec::new();
        for number in 1..=250 {
            // What else there is to be said does not make it news.
            let is_news = teller.news(Topic::Collector, "3 targets").is_some();
            assert_eq!(is_news, number == 1);
            said.extend(teller.counted(Topic::Refused, "too old"));
        }
        let expected = [
            "warning: too old",
            "warning: 10 times by now: too old",
            "warning: 100 times by now: too old",
        ];
        assert_eq!(said, expected);
        assert!(teller.news(Topic::Collector, "4 targets").is_some());
    }
}
