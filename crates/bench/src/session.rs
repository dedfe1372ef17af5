//! A run of a plan in real time: both ends in this process, or one here and one elsewhere.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rdma::app::{App, Layout};
use rdma::{Span, Time};
use rustix::time::{ClockId, clock_gettime};
use softnic::{DeviceInfo, Options};

use crate::Failure;
use crate::limits::{BUSY_AFTER, GLANCE, HELLO_PATIENCE, TOLD_MAX, TOLD_READ_BYTES};
use crate::link::{Frame, Link, Remote, VERSION};
use crate::load::{self, Found, Load, Record, Tally};
pub use crate::outcome::{DeviceCounts, Served, Watcher};
use crate::plan::Plan;
use crate::world::nic::{Device, NicSeat};
use crate::world::soft::{Host, SoftSeat};
use crate::world::{self, Bystander, Ended, Hogs, Outcome, Player, Seat, Stop};

/// Gives the applications of a run their seats.
pub trait Seats {
    /// What they sit on.
    type Nic;
    /// What it gives.
    type Seat: Seat;

    /// The NIC of the next application of a side.
    ///
    /// # Errors
    /// It cannot be opened.
    fn nic(&self, side: Side) -> Result<Self::Nic, Failure>;

    /// A seat on it.
    ///
    /// # Errors
    /// It has no room for what `layout` asks for.
    fn seat(
        &self,
        nic: &Self::Nic,
        layout: &Layout<'_>,
        stop: &Stop,
    ) -> Result<Self::Seat, Failure>;
}

/// The two ends of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Those that ask, or all of a process that only serves.
    Near,
    /// Those that serve, if they are in the same process.
    Far,
}

/// Soft NICs, one for each application.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of those that ask.
    pub near: DeviceInfo,
    /// Of those that serve, if they are in this process.
    pub far: DeviceInfo,
    /// How NICs send.
    pub options: Options,
}

impl Settings {
    /// The NICs that the environment names (`FERROCE_DEV` and others), loopback without it.
    ///
    /// # Errors
    /// There are none, or a variable makes no sense.
    pub fn of_environment() -> Result<Self, Failure> {
        let options = Options::from_environment().map_err(|error| Failure::from_message(&error))?;
        let devices = softnic::devices().map_err(|error| Failure::from_message(&error))?;
        Self::of(devices, options)
    }

    /// The first of some devices asks, and the second serves; one does both.
    ///
    /// # Errors
    /// There are none.
    pub fn of(devices: Vec<DeviceInfo>, options: Options) -> Result<Self, Failure> {
        let mut devices = devices.into_iter();
        let near = devices.next().ok_or_else(|| {
            Failure::new("there is no device").hint("name an interface with --dev, such as lo")
        })?;
        let far = devices.next().unwrap_or_else(|| near.clone());
        Ok(Self { near, far, options })
    }

    /// The same without shared memory.
    #[must_use]
    pub fn by_udp(&self) -> Self {
        let options = Options { path: softnic::PathChoice::Udp, ..self.options.clone() };
        Self { options, ..self.clone() }
    }

    /// How packets go, in words.
    pub fn path(&self) -> &'static str {
        match self.options.path {
            _ if self.options.exact => "UDP, one packet a datagram",
            softnic::PathChoice::Udp => "UDP",
            softnic::PathChoice::SharedMemory => {
                "shared memory where the host is the same, else UDP"
            }
            softnic::PathChoice::SharedMemoryWithIcrc => {
                "shared memory with ICRCs where the host is the same, else UDP"
            }
        }
    }
}

impl Seats for Settings {
    type Nic = Arc<Host>;
    type Seat = SoftSeat;

    fn nic(&self, side: Side) -> Result<Arc<Host>, Failure> {
        Host::open(if side == Side::Near { &self.near } else { &self.far }, &self.options)
    }

    fn seat(&self, nic: &Arc<Host>, layout: &Layout<'_>, stop: &Stop) -> Result<SoftSeat, Failure> {
        SoftSeat::new(nic, layout, stop, fastrand::u64(..))
    }
}

/// Devices of the system, each shared by the applications of its side.
#[derive(Clone, Debug)]
pub struct Devices {
    /// Of those that ask.
    pub near: Arc<Device>,
    /// Of those that serve, if they are in this process.
    pub far: Arc<Device>,
}

impl Seats for Devices {
    type Nic = Arc<Device>;
    type Seat = NicSeat;

    fn nic(&self, side: Side) -> Result<Arc<Device>, Failure> {
        Ok(Arc::clone(if side == Side::Near { &self.near } else { &self.far }))
    }

    fn seat(
        &self,
        nic: &Arc<Device>,
        layout: &Layout<'_>,
        stop: &Stop,
    ) -> Result<NicSeat, Failure> {
        NicSeat::new(nic, layout, stop, fastrand::u64(..))
    }
}

/// What was measured of a flow.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Operations and latencies.
    pub record: Record,
    /// Operations begun in the whole run.
    pub begun: u64,
    /// Those of them that are known to have ended.
    pub ended: u64,
    /// What the devices of who asks have counted, if they say.
    pub device: Option<DeviceCounts>,
    /// Payloads checked at this end.
    pub checked: u64,
    /// Those that were wrong.
    pub mismatches: u64,
    /// Processor time of its threads, in cores.
    pub cores: f64,
    /// What went wrong.
    pub errors: Vec<String>,
    /// What the other end says; nothing if it is gone.
    pub served: Option<Served>,
}

/// What became of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What was run.
    pub plan: Plan,
    /// In the order of the plan.
    pub flows: Vec<Measured>,
    /// Why it ended before its time: its results are partial.
    pub cut_short: Option<Failure>,
    /// Processor time of this process while it ran, in cores: the NICs' own threads included, hogs not.
    pub process_cores: f64,
    /// Processor time of the hogs of this process, in cores.
    pub hog_cores: f64,
    /// Events that the simulator has handled, if it is one.
    pub events: u64,
    /// Whether the serving end was in this process.
    pub is_alone: bool,
}

impl Measured {
    fn nothing(plan: &Plan) -> Self {
        Self {
            record: Record::empty(plan),
            begun: 0,
            ended: 0,
            device: None,
            checked: 0,
            mismatches: 0,
            cores: 0.0,
            errors: Vec::new(),
            served: None,
        }
    }
}

struct Alone<'a>(&'a mut dyn Watcher);

impl Bystander for Alone<'_> {
    fn glance(&mut self) -> Option<Failure> {
        self.0.glance()
    }
}

/// Runs a plan with both ends in this process.
///
/// # Errors
/// It could not begin.
pub fn run(
    plan: &Plan,
    at: &impl Seats,
    tallies: &[Arc<Tally>],
    watcher: &mut dyn Watcher,
) -> Result<Ran, Failure> {
    let [near, far] = load::applications(plan, tallies);
    let stop = Stop::default();
    let mut players = seats(near, at, Side::Near, &stop, plan)?;
    players.extend(seats(far, at, Side::Far, &stop, plan)?);
    let played = play(players, &stop, &mut Alone(watcher), plan.hogs)?;
    let Played { outcomes, why, process_cores, hog_cores } = played;
    Ok(Ran { process_cores, hog_cores, ..both(plan, outcomes, why) })
}

/// Runs a plan against a server at `address`.
///
/// # Errors
/// There is none, it refuses, or the run could not begin.
pub fn connect(
    plan: &Plan,
    address: &str,
    at: &impl Seats,
    tallies: &[Arc<Tally>],
    watcher: &mut dyn Watcher,
) -> Result<Ran, Failure> {
    let stream = reach(address)?;
    let mut link = Link::new(stream, "server")?;
    link.send(&Frame::Hello { version: VERSION, plan: Box::new(plan.clone()) })?;
    let [near, _] = load::applications(plan, tallies);
    let stop = Stop::default();
    let players = seats(near, at, Side::Near, &stop, plan)?;
    let mut remote = Remote { link: &mut link, watcher, is_client: true };
    let played = play(players, &stop, &mut remote, plan.hogs);
    let Played { outcomes, why, process_cores, hog_cores } = match played {
        Ok(played) => played,
        Err(failure) => {
            // It may be gone itself.
            let _ = link.part(&Frame::Stopped { why: failure.to_string() });
            return Err(failure);
        }
    };
    let mut ran = asking(plan, outcomes, why);
    let mut served = None;
    match &ran.cut_short {
        Some(failure) => drop(link.part(&Frame::Stopped { why: failure.to_string() })),
        None => match link.wait(HELLO_PATIENCE) {
            Ok(Frame::Results(results)) => served = Some(results),
            Ok(_) => {}
            Err(failure) => ran.cut_short = Some(failure),
        },
    }
    for (flow, served) in ran.flows.iter_mut().zip(served.into_iter().flatten()) {
        flow.served = Some(served);
    }
    Ok(Ran { process_cores, hog_cores, is_alone: false, ..ran })
}

fn reach(address: &str) -> Result<TcpStream, Failure> {
    let hint = "start `ferroce bench serve` there first, and give its address: HOST:PORT";
    let cannot = |error: &dyn core::fmt::Display| {
        Failure::new(format!("cannot reach a server at {address}: {error}")).hint(hint)
    };
    let mut addresses = address.to_socket_addrs().map_err(|error| cannot(&error))?;
    let first = addresses.next().ok_or_else(|| cannot(&"no such host"))?;
    TcpStream::connect_timeout(&first, HELLO_PATIENCE).map_err(|error| cannot(&error))
}

/// Those who have connected and are not served.
#[derive(Debug, Default)]
struct Others {
    /// Those who may be next, and when they came.
    waiting: VecDeque<(TcpStream, SocketAddr, Instant)>,
    /// Those who were refused, and when. A connection that is closed with something unread takes the answer
    /// with it, so each is heard until it closes.
    told: VecDeque<(Link, Instant)>,
    /// Those who were refused since this was last taken.
    refused: Vec<SocketAddr>,
}

impl Others {
    fn accept(&mut self, listener: &TcpListener) -> std::io::Result<()> {
        let (stream, peer) = listener.accept()?;
        self.waiting.push_back((stream, peer, Instant::now()));
        Ok(())
    }

    /// Refuses the first of those who wait. The one who was told first makes room, if there is none.
    fn refuse(&mut self, why: &str) {
        if let Some((stream, peer, _)) = self.waiting.pop_front()
            && let Ok(mut link) = Link::new(stream, "client")
            && link.send(&Frame::Refused { why: why.to_owned() }).is_ok()
        {
            self.refused.push(peer);
            if self.told.len() == TOLD_MAX {
                self.told.pop_front();
            }
            self.told.push_back((link, Instant::now()));
        }
    }

    /// Hears those who were refused, and forgets what they say.
    fn hear(&mut self) {
        let mut some = [0; TOLD_READ_BYTES];
        self.told.retain_mut(|(link, since)| {
            link.discard(&mut some) && since.elapsed() < HELLO_PATIENCE
        });
    }

    /// Tells all who have waited for long that the server is busy, until the session with `peer` is over.
    fn attend(&mut self, listener: &TcpListener, peer: SocketAddr, is_over: &AtomicBool) {
        let why = format!("busy with a run of {peer}\nhint: try again later");
        while !is_over.load(Ordering::Relaxed) {
            // A listener that has failed fails again when the session is over.
            let _ = self.accept(listener);
            if self.waiting.front().is_some_and(|(.., came)| came.elapsed() > BUSY_AFTER) {
                self.refuse(&why);
            }
            self.hear();
            thread::sleep(GLANCE);
        }
    }

    /// Refuses all who are left, as the server ends.
    fn dismiss(&mut self, listener: &TcpListener) {
        for _ in 0..TOLD_MAX {
            if self.accept(listener).is_err() {
                break;
            }
        }
        while !self.waiting.is_empty() {
            self.refuse("it serves nobody more\nhint: start `ferroce bench serve` there again");
        }
        let began = Instant::now();
        while !self.told.is_empty() && began.elapsed() < BUSY_AFTER {
            self.hear();
            thread::sleep(GLANCE);
        }
    }
}

/// Says that a session is over when it is dropped, even if the session has panicked.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Serves one client after the other, and tells others meanwhile that it is busy, until `watcher` ends it.
/// `tell` is told what happens.
///
/// # Errors
/// The listener has failed.
pub fn serve(
    listener: &TcpListener,
    at: &impl Seats,
    sessions: Option<u64>,
    watcher: &mut dyn Watcher,
    tell: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let cannot = |error| Failure::new(format!("cannot listen: {error}"));
    listener.set_nonblocking(true).map_err(cannot)?;
    let mut left = sessions.unwrap_or(u64::MAX);
    let mut others = Others::default();
    while left > 0 && watcher.glance().is_none() {
        others.hear();
        if others.waiting.is_empty()
            && let Err(error) = others.accept(listener)
        {
            match error.kind() {
                std::io::ErrorKind::WouldBlock => thread::sleep(GLANCE),
                std::io::ErrorKind::Interrupted => {}
                _ => return Err(cannot(error)),
            }
        }
        let Some((stream, peer, _)) = others.waiting.pop_front() else { continue };
        left -= 1;
        let is_over = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            let _over = Over(&is_over);
            scope.spawn(|| others.attend(listener, peer, &is_over));
            session(stream, at, watcher, &mut |text| tell(&format!("{peer}: {text}")))
        });
        match ended {
            Ok(()) => tell(&format!("{peer}: done")),
            Err(failure) => tell(&format!("{peer}: {}", failure.to_string().replace('\n', "; "))),
        }
        for other in others.refused.drain(..) {
            tell(&format!("{other}: refused, as {peer} was served"));
        }
    }
    others.dismiss(listener);
    for other in others.refused {
        tell(&format!("{other}: refused, as nobody more is served"));
    }
    Ok(())
}

fn session(
    stream: TcpStream,
    at: &impl Seats,
    watcher: &mut dyn Watcher,
    tell: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let mut link = Link::new(stream, "client")?;
    let plan = match link.wait(HELLO_PATIENCE)? {
        Frame::Hello { version: VERSION, plan } => plan.vetted(),
        Frame::Hello { version, .. } => Err(Failure::new(format!(
            "this server speaks version {VERSION} of the protocol, and the client {version}"
        ))
        .hint("run the same version of ferroce at both ends")),
        _ => Err(Failure::new("the client does not say what it wants")),
    };
    if link.is_closed() {
        return Err(Failure::new("it has left before it was served"));
    }
    let stop = Stop::default();
    let prepared = plan.and_then(|plan| {
        let [_, far] = load::applications(&plan, &[]);
        let players = seats(far, at, Side::Near, &stop, &plan)?;
        Ok((plan, players))
    });
    let (plan, players) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => {
            link.part(&Frame::Refused { why: failure.to_string() })?;
            return Err(failure);
        }
    };
    let names: Vec<String> = plan.flows.iter().map(|flow| format!("{:?}", flow.name)).collect();
    tell(&format!("flows {}", names.join(", ")));
    let mut remote = Remote { link: &mut link, watcher, is_client: false };
    let Played { outcomes, why, .. } = match play(players, &stop, &mut remote, plan.hogs) {
        Ok(played) => played,
        Err(failure) => {
            let _ = link.part(&Frame::Stopped { why: failure.to_string() });
            return Err(failure);
        }
    };
    let failed = outcomes.iter().find_map(|outcome| match &outcome.ended {
        Ended::Failed(failure) => Some(failure.clone()),
        _ => None,
    });
    if let Some(failure) = why.or(failed) {
        let _ = link.part(&Frame::Stopped { why: failure.to_string() });
        return Err(failure);
    }
    let served = serving(&plan, outcomes);
    let error = served.iter().flat_map(|flow| &flow.errors).next().cloned();
    link.part(&Frame::Results(served))?;
    error.map_or(Ok(()), |error| Err(Failure::new(error)))
}

/// A seat for each application.
fn seats<S: Seats>(
    apps: Vec<Load>,
    at: &S,
    side: Side,
    stop: &Stop,
    plan: &Plan,
) -> Result<Vec<Player<Load, S::Seat>>, Failure> {
    let mut threads = vec![0; plan.flows.len()];
    let one = |app: Load| {
        let flow = &plan.flows[app.flow];
        let thread = threads[app.flow];
        threads[app.flow] += 1;
        let seat = at.seat(&at.nic(side)?, &app.layout(), stop);
        let seat = seat.map_err(|failure| within(failure, &flow.name))?;
        let core = flow.core.filter(|_| !app.serves).map(|core| core as usize + thread);
        Ok(Player { app, seat, core })
    };
    apps.into_iter().map(one).collect()
}

fn within(failure: Failure, flow: &str) -> Failure {
    let failure = failure.within(format!("flow {flow:?}"));
    if failure.has_hint() {
        return failure;
    }
    failure
        .hint("fewer queue_pairs, a smaller window or size_bytes, or more threads, each with a NIC")
}

/// What became of the applications of this process.
struct Played {
    outcomes: Vec<Outcome<Load>>,
    why: Option<Failure>,
    process_cores: f64,
    hog_cores: f64,
}

fn play(
    players: Vec<Player<Load, impl Seat>>,
    stop: &Stop,
    bystander: &mut impl Bystander,
    hogs: u32,
) -> Result<Played, Failure> {
    let before = process_cpu();
    let hogs = Hogs::start(hogs)?;
    let (outcomes, why) = world::run(players, stop, bystander)?;
    let of_hogs = hogs.end();
    let wall = outcomes.iter().map(|outcome| outcome.wall).max().unwrap_or(Span::ZERO);
    let cores = |cpu| share(cpu, wall);
    let all = process_cpu().since(before);
    let process_cores = (cores(all) - cores(of_hogs)).max(0.0);
    Ok(Played { outcomes, why, process_cores, hog_cores: cores(of_hogs) })
}

pub(crate) fn process_cpu() -> Time {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Time::from_ns(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

pub(crate) fn share(cpu: Span, wall: Span) -> f64 {
    cpu.as_ps() as f64 / wall.as_ps().max(1) as f64
}

/// Adds what another device has counted.
fn add(sum: &mut Option<DeviceCounts>, device: Option<DeviceCounts>) {
    if let Some(device) = device {
        *sum.get_or_insert_default() += device;
    }
}

/// What an outcome has found, and what went wrong.
fn unpack(outcome: Outcome<Load>) -> (Found, f64, Option<String>) {
    let cores = share(outcome.cpu, outcome.wall);
    let mut found = outcome.app.found();
    let error = match outcome.ended {
        Ended::Failed(failure) => Some(failure.to_string().replace('\n', "; ")),
        Ended::Done | Ended::Stopped => found.error.take(),
    };
    (found, cores, error)
}

/// What the applications at both ends say.
pub(crate) fn both(plan: &Plan, outcomes: Vec<Outcome<Load>>, why: Option<Failure>) -> Ran {
    let (near, far) = outcomes.into_iter().partition(|outcome| !outcome.app.serves);
    let mut ran = asking(plan, near, why);
    for (flow, served) in ran.flows.iter_mut().zip(serving(plan, far)) {
        flow.served = Some(served);
    }
    Ran { is_alone: true, ..ran }
}

fn serving(plan: &Plan, outcomes: Vec<Outcome<Load>>) -> Vec<Served> {
    let mut all = vec![Served::default(); plan.flows.len()];
    for outcome in outcomes {
        let served = &mut all[outcome.app.flow];
        add(&mut served.device, outcome.device);
        let (found, cores, error) = unpack(outcome);
        served.received += found.received;
        served.checked += found.checked;
        served.mismatches += found.mismatches;
        served.cores += cores;
        served.errors.extend(error);
    }
    all
}

fn asking(plan: &Plan, outcomes: Vec<Outcome<Load>>, why: Option<Failure>) -> Ran {
    let mut flows = vec![Measured::nothing(plan); plan.flows.len()];
    let mut cut_short = why;
    for outcome in outcomes {
        let flow = outcome.app.flow;
        let is_whole = outcome.ended == Ended::Done;
        let measured = &mut flows[flow];
        add(&mut measured.device, outcome.device);
        let (found, cores, error) = unpack(outcome);
        if let Some(error) = &error {
            cut_short
                .get_or_insert(Failure::new(format!("flow {:?}: {error}", plan.flows[flow].name)));
        } else if !is_whole {
            cut_short.get_or_insert(Failure::new("the run was stopped"));
        }
        if let Some(record) = &found.record {
            measured.record.add(record);
        }
        measured.begun += found.begun;
        measured.ended += found.ended;
        measured.checked += found.checked;
        measured.mismatches += found.mismatches;
        measured.cores += cores;
        measured.errors.extend(error);
    }
    let plan = plan.clone();
    let (process_cores, hog_cores, events, is_alone) = (0.0, 0.0, 0, true);
    Ran { plan, flows, cut_short, process_cores, hog_cores, events, is_alone }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;

    use super::*;
    use crate::plan::{Flow, Verb};

    /// Holds each session until the test ends it, and panics if there is no test any more.
    struct Held {
        begun: Sender<()>,
        end: Receiver<()>,
    }

    impl Seats for Held {
        type Nic = Infallible;
        type Seat = SoftSeat;

        fn nic(&self, _: Side) -> Result<Infallible, Failure> {
            self.begun.send(()).unwrap();
            self.end.recv().unwrap();
            Err(Failure::new("held"))
        }

        fn seat(&self, nic: &Infallible, _: &Layout<'_>, _: &Stop) -> Result<SoftSeat, Failure> {
            match *nic {}
        }
    }

    /// A server of so many sessions: what it says, whose sessions have begun, and their ends.
    type Holding = (JoinHandle<Vec<String>>, Receiver<()>, Sender<()>);

    fn holding(listener: TcpListener, sessions: u64) -> Holding {
        let (begun, begins) = channel();
        let (ends, end) = channel();
        let server = thread::spawn(move || {
            let mut said = Vec::new();
            let tell = &mut |text: &str| said.push(text.to_owned());
            serve(&listener, &Held { begun, end }, Some(sessions), &mut (), tell).unwrap();
            said
        });
        (server, begins, ends)
    }

    fn hello(address: SocketAddr) -> Link {
        let mut link = Link::new(TcpStream::connect(address).unwrap(), "server").unwrap();
        let plan = Plan { flows: vec![Flow::new(Verb::Read)], ..Plan::default() };
        link.send(&Frame::Hello { version: VERSION, plan: Box::new(plan) }).unwrap();
        link
    }

    fn refusal(mut link: Link) -> String {
        link.wait(HELLO_PATIENCE).unwrap_err().to_string()
    }

    #[test]
    fn who_says_more_before_it_is_refused_is_told_why() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (server, _begins, _ends) = holding(listener, 1);
        let mut link = Link::new(TcpStream::connect(address).unwrap(), "server").unwrap();
        let flow = Flow { service_us: 1e9, ..Flow::new(Verb::Read) };
        let plan = Plan { flows: vec![flow], ..Plan::default() };
        link.send(&Frame::Hello { version: VERSION, plan: Box::new(plan) }).unwrap();
        for _ in 0..3 {
            // The server knows by now that it will not.
            thread::sleep(10 * GLANCE);
            link.send(&Frame::Introductions(Vec::new())).unwrap();
        }
        let why = refusal(link);
        assert!(why.contains("service_us: expected a number from 0 to 1000000"), "{why}");
        assert!(server.join().unwrap()[0].contains("service_us"));
    }

    #[test]
    fn all_who_come_shortly_before_the_end_of_a_session_are_answered() {
        for sessions in [1, 2] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (server, begins, ends) = holding(listener, sessions);
            let first = hello(address);
            begins.recv_timeout(HELLO_PATIENCE).unwrap();
            let [second, third] = [hello(address), hello(address)];
            // Both are accepted, and are not refused yet.
            thread::sleep(BUSY_AFTER / 4);
            ends.send(()).unwrap();
            assert!(refusal(first).contains(": held"));
            if sessions == 1 {
                for other in [second, third] {
                    let why = refusal(other);
                    assert!(why.starts_with("the server: it serves nobody more\nhint: "), "{why}");
                }
            } else {
                let why = refusal(third);
                assert!(why.starts_with("the server: busy with a run of 127.0.0.1:"), "{why}");
                ends.send(()).unwrap();
                assert!(refusal(second).contains(": held"));
            }
            let said = server.join().unwrap();
            let refused = said.iter().filter(|line| line.contains(": refused, as ")).count();
            assert_eq!(refused as u64, 3 - sessions, "{said:?}");
        }
    }

    #[test]
    fn few_of_those_who_were_refused_are_heard_at_once_and_each_until_it_closes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut others = Others::default();
        let mut clients: Vec<Link> = Vec::new();
        for _ in 0..TOLD_MAX + 4 {
            clients.push(hello(address));
            others.accept(&listener).unwrap();
            others.refuse("busy");
            others.hear();
        }
        assert_eq!((others.refused.len(), others.told.len()), (TOLD_MAX + 4, TOLD_MAX));
        for client in clients.split_off(4) {
            assert_eq!(refusal(client), "the server: busy");
        }
        let began = Instant::now();
        while !others.told.is_empty() {
            others.hear();
            assert!(began.elapsed() < HELLO_PATIENCE / 2);
        }
    }

    #[test]
    fn a_session_that_panics_does_not_hang() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = hello(listener.local_addr().unwrap());
        let (server, begins, ends) = holding(listener, 1);
        begins.recv_timeout(HELLO_PATIENCE).unwrap();
        drop(ends);
        let began = Instant::now();
        while !server.is_finished() {
            assert!(began.elapsed() < HELLO_PATIENCE);
            thread::sleep(GLANCE);
        }
        assert!(server.join().is_err());
        drop(client);
    }

    #[test]
    fn a_client_that_has_left_before_its_turn_is_not_served() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        drop(hello(listener.local_addr().unwrap()));
        let mut said = Vec::new();
        let tell = &mut |text: &str| said.push(text.to_owned());
        let settings = Settings::of_environment().unwrap();
        serve(&listener, &settings, Some(1), &mut (), tell).unwrap();
        let [only] = &said[..] else { panic!("{said:?}") };
        assert!(only.ends_with(": it has left before it was served"), "{only}");
    }
}
