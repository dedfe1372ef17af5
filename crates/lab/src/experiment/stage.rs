//! One run of a row: a lab in a thread, its programs, and what happens to them.
//!
//! ```text
//!   every few milliseconds: who has ended, who is ready ─► who may start, what is due, which snapshot ─► over?
//! ```

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep};
use std::time::Instant;

use fabric::fault::Fault;
use fabric::scenario::experiment::{End, Experiment, Program, Row, What, When};
use fabric::topology::End as Node;
use softnic::lab::Found;

use super::child::{END_WAIT, Group, is_listened_on, signal_of, words};
use super::orphans::Orphans;
use super::output::{matches_line, missing, number, tail};
use super::{CannotRun, Orders, Point, Run, folder_of};
use crate::client::OF_EXPERIMENTS;
use crate::{Lab, LabError, Settings, Snapshot, client};

/// How often everything is looked at.
const GLANCE: Duration = Duration::from_millis(4);
/// How often a lab is asked for what makes programs ready.
const ASK_INTERVAL: Duration = Duration::from_millis(20);

/// Labs that this process has had: each has a name of its own.
static LABS: AtomicU32 = AtomicU32::new(0);

/// What is asked of a lab in its own thread.
enum Order {
    Snapshot(Sender<Snapshot>),
    /// By host: packets that its programs have received.
    Received(Sender<HashMap<u32, u64>>),
    Faults(Vec<Fault>, Sender<Option<String>>),
    Stop,
}

/// What a lab says when it has ended.
struct Farewell {
    events: Vec<String>,
    time: String,
    limits: Vec<String>,
}

/// A lab in a thread, which ends with this.
struct Background {
    found: Found,
    greeting: String,
    orders: Sender<Order>,
    thread: Option<JoinHandle<Farewell>>,
}

impl Background {
    fn begin(settings: Settings) -> Result<Self, LabError> {
        let (orders, taken) = channel();
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let mut lab = match Lab::begin(settings) {
                Ok(lab) => lab,
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return Farewell {
                        events: Vec::new(),
                        time: String::new(),
                        limits: Vec::new(),
                    };
                }
            };
            // Who asked may be gone.
            let _ = tell.send(Ok((lab.found().clone(), lab.greeting())));
            lab.run(|lab| obey(lab, &taken));
            let events = lab.events().map(ToString::to_string).collect();
            Farewell { events, time: lab.time(), limits: lab.limits() }
        });
        match told.recv() {
            Ok(Ok((found, greeting))) => Ok(Self { found, greeting, orders, thread: Some(thread) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(LabError::Io {
                doing: "starting a thread",
                error: std::io::ErrorKind::Other.into(),
            }),
        }
    }

    /// Has the lab do something, and waits for what it says.
    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Option<T> {
        let (tell, told) = channel();
        self.orders.send(order(tell)).ok()?;
        // It may sleep.
        let _ = client::ask(&self.found, "greeting");
        told.recv_timeout(Duration::from_secs(10)).ok()
    }

    fn end(mut self) -> Option<Farewell> {
        self.stop()
    }

    fn stop(&mut self) -> Option<Farewell> {
        let thread = self.thread.take()?;
        let _ = self.orders.send(Order::Stop);
        let _ = client::ask(&self.found, "greeting");
        thread.join().ok()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether the lab is to end.
fn obey(lab: &mut Lab, orders: &Receiver<Order>) -> bool {
    while let Ok(order) = orders.try_recv() {
        // Who asked may be gone.
        let _ = match order {
            Order::Stop => return true,
            Order::Snapshot(tell) => tell.send(lab.snapshot()).is_ok(),
            Order::Received(tell) => tell.send(lab.received()).is_ok(),
            Order::Faults(faults, tell) => {
                tell.send(lab.happen(&faults).err().map(|error| error.to_string())).is_ok()
            }
        };
    }
    false
}

/// A program of the row, in its present state.
struct Actor<'r> {
    program: &'r Program,
    group: Option<Group>,
    ready_at: Option<Instant>,
    ended_at: Option<Instant>,
    status: Option<ExitStatus>,
}

/// See the module.
struct Stage<'r> {
    row: &'r Row,
    orders: &'r Orders,
    folder: PathBuf,
    lab: Background,
    begin: Instant,
    ports: HashMap<String, u16>,
    actors: Vec<Actor<'r>>,
    /// By event: when it happened.
    happened: Vec<Option<Instant>>,
    asked_at: Instant,
    run: Run,
}

pub(super) fn run(
    experiment: &Experiment,
    row: &Row,
    draw: u32,
    orders: &Orders,
    points: &[Point],
    stops: &dyn Fn() -> bool,
) -> Result<Run, CannotRun> {
    let mut network = row.scenario.network.clone();
    network.seed = network.seed.wrapping_add(draw.into());
    let settings = Settings {
        name: format!(
            "{OF_EXPERIMENTS}{:x}_{}",
            std::process::id(),
            LABS.fetch_add(1, Ordering::Relaxed)
        ),
        title: format!("{}: {}", experiment.title, row.name),
        network,
        factor: row.scenario.dilution,
        metrics: None,
    };
    let begin = Instant::now();
    let lab = Background::begin(settings).map_err(|error| match &error {
        LabError::Network(why) => CannotRun(experiment.explain(row, why)),
        _ => CannotRun(error.to_string()),
    })?;
    // Gone after the stage, and so after its programs.
    let orphans = Orphans::take();
    let actor =
        |program| Actor { program, group: None, ready_at: None, ended_at: None, status: None };
    let mut stage = Stage {
        folder: folder_of(orders, row, draw),
        ports: free_ports(row).map_err(|error| CannotRun(format!("no free port: {error}")))?,
        actors: row.programs.iter().map(actor).collect(),
        happened: vec![None; row.events.len()],
        run: Run { row: row.name.clone(), draw, ..Run::default() },
        begin: Instant::now(),
        asked_at: Instant::now(),
        row,
        orders,
        lab,
    };
    stage.play(points, experiment.limit, stops);
    stage.close();
    let Stage { mut run, lab, actors, .. } = stage;
    drop(actors);
    drop(orphans);
    let greeting = lab.greeting.clone();
    if let Some(Farewell { events, time, limits }) = lab.end() {
        (run.events, run.time, run.limits) = (events, time, limits);
    } else {
        run.problems.push(format!("the lab has ended badly: {greeting}"));
    }
    run.took = begin.elapsed();
    Ok(run)
}

impl Stage<'_> {
    fn play(&mut self, points: &[Point], limit: Duration, stops: &dyn Fn() -> bool) {
        let mut left: Vec<&Point> = points.iter().filter(|point| **point != Point::End).collect();
        loop {
            self.look();
            self.start_programs();
            self.let_happen();
            left.retain(|point| !self.is_reached(point));
            let busy = self
                .actors
                .iter()
                .any(|actor| actor.ended_at.is_none() && !matches!(actor.program.end, End::Stays));
            let waits = self.happened.iter().any(Option::is_none);
            if !busy && !waits && left.is_empty() {
                break;
            }
            if self.has_failed() {
                break;
            }
            if let Some(problem) = self.stuck() {
                self.run.problems.push(problem);
                break;
            }
            if stops() {
                break;
            }
            if self.begin.elapsed() > limit {
                self.run.problems.push(format!(
                    "it did not end within {} s: {}",
                    limit.as_secs(),
                    self.open()
                ));
                break;
            }
            sleep(GLANCE);
        }
        if points.contains(&Point::End) {
            self.take(&Point::End);
        }
    }

    /// What has not ended or happened.
    fn open(&self) -> String {
        let programs = self.actors.iter().filter(|actor| actor.ended_at.is_none());
        let programs = programs.map(|actor| match &actor.group {
            Some(_) => format!("{} runs", actor.program.name),
            None => format!("{} has not started", actor.program.name),
        });
        let events = self.row.events.iter().zip(&self.happened).filter(|(_, at)| at.is_none());
        let events = events.map(|(event, _)| format!("{} has not happened", event.name));
        programs.chain(events).collect::<Vec<_>>().join(", ")
    }

    /// Who has ended, and who is ready.
    fn look(&mut self) {
        let asks = self.asked_at.elapsed() > ASK_INTERVAL;
        let mut received = None;
        for index in 0..self.actors.len() {
            let actor = &mut self.actors[index];
            let Some(group) = &mut actor.group else { continue };
            if actor.ended_at.is_none()
                && let Some(status) = group.status()
            {
                (actor.status, actor.ended_at) = (Some(status), Some(Instant::now()));
            }
            if actor.ready_at.is_some() {
                continue;
            }
            let program = actor.program;
            let is_ready = if let Some(port) = &program.ready_port {
                let port = fill_ports(port, &self.ports).parse();
                port.is_ok_and(is_listened_on)
            } else if let Some(line) = &program.ready_line {
                matches_line(line, &group.printed())
            } else if let Some(packets) = program.ready_packets {
                if asks && received.is_none() {
                    received = self.lab.ask(Order::Received);
                    self.asked_at = Instant::now();
                }
                let host = program.host.as_deref().and_then(|name| self.host(name));
                let had = host.zip(received.as_ref()).and_then(|(host, all)| all.get(&host));
                had.is_some_and(|had| *had >= packets)
            } else {
                true
            };
            if is_ready {
                self.actors[index].ready_at = Some(Instant::now());
            }
        }
    }

    fn host(&self, name: &str) -> Option<u32> {
        match self.row.scenario.network.topology.find(name) {
            Some(Node::Host(host)) => Some(host),
            _ => None,
        }
    }

    fn actor(&self, name: &str) -> Option<&Actor<'_>> {
        self.actors.iter().find(|actor| actor.program.name == name)
    }

    /// When something that waits is due, if that is known.
    fn due(&self, when: &When) -> Option<Instant> {
        let ready =
            when.ready.iter().filter_map(|name| self.actor(name)).map(|actor| actor.ready_at);
        let ended =
            when.ended.iter().filter_map(|name| self.actor(name)).map(|actor| actor.ended_at);
        let last = ready.chain(ended).try_fold(self.begin, |last, at| Some(last.max(at?)))?;
        Some(last + when.delay)
    }

    fn start_programs(&mut self) {
        for index in 0..self.actors.len() {
            let actor = &self.actors[index];
            let is_open = actor.group.is_none() && actor.ended_at.is_none();
            if !is_open || self.due(&actor.program.start).is_none_or(|due| due > Instant::now()) {
                continue;
            }
            let program = actor.program;
            let started = self.command(program).and_then(|command| {
                let name = program.name.replace('/', "-");
                let group = Group::start(command, &self.folder, &name);
                group.map_err(|error| format!("cannot start {}: {error}", program.words[0]))
            });
            match started {
                Ok(group) => self.actors[index].group = Some(group),
                Err(problem) => {
                    self.run.problems.push(format!("{}: {problem}", program.name));
                    self.actors[index].ended_at = Some(Instant::now());
                }
            }
        }
    }

    fn command(&self, program: &Program) -> Result<Command, String> {
        let mut words: Vec<String> = Vec::new();
        if let Some(host) = &program.host {
            words.extend(self.as_host(host));
        }
        for word in &program.words {
            let run = word.strip_prefix("{run:").and_then(|rest| rest.strip_suffix('}'));
            match run {
                Some(host) => words.extend(self.as_host(host)),
                None => words.push(self.fill(word)?),
            }
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        for variable in &program.environment {
            let filled = self.fill(variable)?;
            let (name, value) = filled.split_once('=').unwrap_or((&filled, ""));
            command.env(name, value);
        }
        Ok(command)
    }

    /// What goes before a program that is to be a host.
    fn as_host(&self, host: &str) -> Vec<String> {
        let ferroce = self.orders.ferroce.to_string_lossy().into_owned();
        let words =
            ["lab", "run", "--with-parent", "--lab", &self.lab.found.name, "--host", host, "--"];
        core::iter::once(ferroce).chain(words.map(str::to_owned)).collect()
    }

    /// Fills in what is known only now.
    fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = fill_ports(text, &self.ports);
        filled = filled.replace("{folder}", &self.folder.to_string_lossy());
        filled = filled.replace("{here}", &self.orders.here.to_string_lossy());
        while let Some((before, rest)) = filled.split_once("{address:") {
            let (name, behind) = rest.split_once('}').ok_or("a brace is not closed")?;
            let host = self.host(name).ok_or_else(|| format!("there is no host {name:?}"))?;
            let address = core::net::Ipv4Addr::from(0x0a00_0001 + host);
            filled = format!("{before}{address}{behind}");
        }
        Ok(filled)
    }

    fn let_happen(&mut self) {
        for index in 0..self.happened.len() {
            let event = &self.row.events[index];
            let is_due = self.due(&event.when).is_some_and(|due| due <= Instant::now());
            if self.happened[index].is_some() || !is_due {
                continue;
            }
            match &event.what {
                What::Mark => {}
                What::Faults(faults) => {
                    let faults = faults.clone();
                    let refused = self.lab.ask(|tell| Order::Faults(faults, tell));
                    if let Some(problem) =
                        refused.unwrap_or(Some("the lab does not answer".to_owned()))
                    {
                        self.run.problems.push(format!("{}: {problem}", event.name));
                    }
                }
                What::Signal { program, signal } => {
                    let actor = self.actors.iter_mut().find(|it| it.program.name == *program);
                    if let Some(group) = actor.and_then(|actor| actor.group.as_mut()) {
                        group.signal(signal_of(signal));
                    }
                }
            }
            self.happened[index] = Some(Instant::now());
        }
    }

    /// Whether a point in time is reached, at which a snapshot is then taken.
    fn is_reached(&mut self, point: &Point) -> bool {
        let Point::After(event, delay) = point else { return true };
        let from = match event {
            None => Some(self.begin),
            Some(name) => {
                let index = self.row.events.iter().position(|event| event.name == *name);
                // An event of other rows never happens here.
                let Some(index) = index else { return true };
                self.happened[index]
            }
        };
        let is_reached = from.is_some_and(|from| from.elapsed() >= *delay);
        if is_reached {
            self.take(point);
        }
        is_reached
    }

    fn take(&mut self, point: &Point) {
        match self.lab.ask(Order::Snapshot) {
            Some(snapshot) => self.run.snapshots.push((point.clone(), snapshot)),
            None => self.run.problems.push("the lab does not answer".to_owned()),
        }
    }

    /// Whether a program has ended as it was not to: what comes of that would be told at length, and late.
    fn has_failed(&self) -> bool {
        self.actors.iter().any(|actor| match (actor.program.end, actor.status) {
            (_, None) => false,
            (End::Status(wanted), Some(status)) => status.code() != Some(wanted),
            (End::Stays, Some(_)) => true,
            (End::Failure | End::Killed, Some(_)) => false,
        })
    }

    /// Why it will never end, if it will not.
    fn stuck(&self) -> Option<String> {
        let waits = |what: &str, when: &When| {
            let mut ready = when.ready.iter().filter_map(|name| self.actor(name));
            let failed = ready.find(|it| it.ended_at.is_some() && it.ready_at.is_none())?;
            Some(format!(
                "{what} waits for {}, which has ended before it was ready",
                failed.program.name
            ))
        };
        let idle = self.actors.iter().filter(|it| it.group.is_none() && it.ended_at.is_none());
        let programs = idle.map(|it| (&it.program.name, &it.program.start));
        let events = self.row.events.iter().zip(&self.happened).filter(|(_, at)| at.is_none());
        let events = events.map(|(event, _)| (&event.name, &event.when));
        programs.chain(events).find_map(|(name, when)| waits(name, when))
    }

    /// Ends what still runs, and reads what programs have said.
    fn close(&mut self) {
        for group in self.actors.iter_mut().filter_map(|actor| actor.group.as_mut()) {
            group.tell_to_end();
        }
        let until = Instant::now() + END_WAIT;
        for actor in &mut self.actors {
            let Some(group) = &mut actor.group else { continue };
            group.end(until);
            let printed = group.printed();
            let program = actor.program;
            let mut problems = Vec::new();
            match (program.end, actor.status) {
                (End::Stays, None) => {}
                (End::Stays, Some(status)) => {
                    problems.push(format!("ended early, with {}", words(status)));
                }
                // That it runs is said already.
                (_, None) => {}
                (End::Status(wanted), Some(status)) => {
                    if status.code() != Some(wanted) {
                        problems.push(format!(
                            "ended with {}, and not with status {wanted}",
                            words(status)
                        ));
                    }
                }
                (End::Failure, Some(status)) => {
                    if status.success() {
                        problems.push("ended with status 0, and was to fail".to_owned());
                    }
                }
                (End::Killed, Some(status)) => {
                    if status.code().is_some() {
                        problems
                            .push(format!("ended with {}, and was to be killed", words(status)));
                    }
                }
            }
            problems.extend(
                missing(program, &printed)
                    .iter()
                    .map(|it| format!("has printed no line like {it:?}")),
            );
            for problem in problems {
                let tail = tail(&printed).replace('\n', "\n      | ");
                self.run.problems.push(format!("{} {problem}\n      | {tail}", program.name));
            }
            for of in &program.numbers {
                if let Some(value) = number(of, &printed) {
                    self.run.numbers.push((format!("{}.{}", program.name, of.name), value));
                }
            }
        }
    }
}

/// A free TCP port for each name that programs use. All are taken at once, so that they differ.
fn free_ports(row: &Row) -> std::io::Result<HashMap<String, u16>> {
    let (mut ports, mut held) = (HashMap::new(), Vec::new());
    let texts = row.programs.iter().flat_map(|program| {
        program.words.iter().chain(&program.environment).chain(&program.ready_port)
    });
    for text in texts {
        for part in text.split("{port:").skip(1) {
            let Some((name, _)) = part.split_once('}') else { continue };
            if ports.contains_key(name) {
                continue;
            }
            let listener = TcpListener::bind("127.0.0.1:0")?;
            ports.insert(name.to_owned(), listener.local_addr()?.port());
            held.push(listener);
        }
    }
    Ok(ports)
}

fn fill_ports(text: &str, ports: &HashMap<String, u16>) -> String {
    let mut filled = text.to_owned();
    for (name, port) in ports {
        filled = filled.replace(&format!("{{port:{name}}}"), &port.to_string());
    }
    filled
}
