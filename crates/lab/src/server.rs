//! The lab itself: one thread that takes what programs send, lets the network live, and gives programs what has come.
//!
//! ```text
//!   rings ─► network ─► lives until now, in stretches ─► rings ─► doorbells ─► nothing to do? sleep
//! ```
//!
//! It sleeps while nothing is under way and no program sends (`busy_poll.rs`: not at once). Programs ring its doorbell
//! then.

use core::net::SocketAddr;
use core::num::NonZeroU64;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use fabric::fault::Fault;
use fabric::record::Samples;
use fabric::report::LabRun;
use fabric::topology::{End, LinkSpec};
use fabric::{BuildError, Network, NetworkConfig};
use rdma::{Rate, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softnic::lab::{Found, Listener};
use telemetry::{Endpoint, EndpointError, Metrics, Reach};

use crate::busy_poll::BusyPoll;
use crate::captures::Captures;
use crate::clock::{self, Clock};
use crate::factor::Choice;
use crate::journal::{Entry, Journal};
use crate::limits::{
    CONTENDED, FRAME_HEADERS, LOOK_INTERVAL, NAP_LEAST, NAP_MAX, SAMPLE_EACH, SAMPLE_LEAST, SLACK,
    STRETCH, STRETCHES_MAX, TIMER_SLACK_NS, VISITORS_MAX, WATCH_INTERVAL,
};
use crate::processors::Processors;
use crate::programs::Programs;
use crate::requests::Visitor;
use crate::scribe::Scribe;
use crate::snapshot::Snapshot;
use crate::state::{State, Told};
use crate::status;

/// What a lab is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What it is called.
    pub name: String,
    /// What its network is called.
    pub title: String,
    /// Its network.
    pub network: NetworkConfig,
    /// By how much its time is diluted; `None` for what a measurement says.
    pub factor: Option<f64>,
    /// Where Prometheus may ask for metrics, on loopback; port 0 for any that is free. `None` for nowhere.
    pub metrics: Option<SocketAddr>,
}

/// Why a lab cannot begin.
#[derive(Debug)]
pub enum LabError {
    /// The network cannot be made.
    Network(BuildError),
    /// Every host has a model, or there is none.
    NoHosts,
    /// A lab of this name runs already.
    Taken(String),
    /// Metrics cannot be served there.
    Metrics(EndpointError),
    /// A call of the kernel failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl core::fmt::Display for LabError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::NoHosts => f.write_str(
                "no host can have programs\nhint: hosts with a [host] model cannot: leave it out",
            ),
            Self::Taken(name) => write!(
                f,
                "a lab called `{name}` runs already\n\
                 hint: end it with `ferroce lab down --lab {name}`, or give this one another --name"
            ),
            Self::Metrics(error) => write!(f, "--metrics: {error}"),
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl core::error::Error for LabError {}

/// See the module.
#[derive(Debug)]
pub struct Lab {
    state: State,
    listener: Listener,
    visitors: Vec<Visitor>,
    looked_at: Duration,
    watched_at: Duration,
    busy_poll: BusyPoll,
    /// Serves metrics as long as it is there.
    endpoint: Option<Endpoint>,
}

impl Lab {
    /// Makes the network, measures what this machine carries, and listens.
    ///
    /// # Errors
    /// See [`LabError`].
    pub fn begin(settings: Settings) -> Result<Self, LabError> {
        let Settings { name, title, network, factor, metrics } = settings;
        let reroute = network.reroute;
        let io = |doing| move |error| LabError::Io { doing, error };
        crate::client::bury_the_dead();
        if softnic::lab::all().iter().any(|found| found.name == name) {
            return Err(LabError::Taken(name));
        }
        let config = NetworkConfig { partitions: Some(1), threads: 1, ..network };
        let choice = Choice::make(factor, &config).map_err(LabError::Network)?;
        let of_host = |link: &&LinkSpec| link.ends.iter().any(|end| matches!(end, End::Host(_)));
        let rates = config.topology.links.iter().filter(of_host).map(|link| link.rate);
        let fastest = rates.max().unwrap_or(Rate::ZERO);
        let frame_bytes = u64::from(config.nic.mtu.bytes()) + FRAME_HEADERS;
        let late_max = clock::late_max(fastest, frame_bytes, choice.factor);
        let hosts = config.topology.hosts.len() as u32;
        let mut network = Network::new(config).map_err(LabError::Network)?;
        if network.attach_hosts() == 0 {
            return Err(LabError::NoHosts);
        }
        let claimed = softnic::lab::claim(&name).map_err(io("opening the socket"))?;
        let Some((found, listener)) = claimed else { return Err(LabError::Taken(name)) };
        // It asks the lab as any visitor does.
        let asked = found.clone();
        let gather = move || match crate::client::look(&asked) {
            Ok(seen) => crate::metrics(&seen),
            // What Prometheus then lacks is what it is to notice.
            Err(_) => Metrics::new(),
        };
        let endpoint = metrics.map(|address| Endpoint::serve(address, Reach::Loopback, gather));
        let endpoint = endpoint.transpose().map_err(LabError::Metrics)?;
        let ports = 2 * network.topology().links.len() as u64;
        let every = (SAMPLE_EACH * ports).max(SAMPLE_LEAST);
        let state = State {
            samples: Samples::of_living(&network, every),
            scribe: Scribe::default(),
            metrics: endpoint.as_ref().map(Endpoint::address),
            heir: None,
            found,
            title,
            network,
            hosts,
            programs: Programs::default(),
            captures: Captures::default(),
            clock: Clock::new(choice.factor, late_max),
            choice,
            begin: Instant::now(),
            deadlocks: Vec::new(),
            journal: Journal::default(),
            reroute,
            processors: Processors::default(),
            told: Told::default(),
            is_over: false,
        };
        let (visitors, looked_at, watched_at) = (Vec::new(), Duration::ZERO, Duration::ZERO);
        let busy_poll = BusyPoll::default();
        Ok(Self { state, listener, visitors, looked_at, watched_at, busy_poll, endpoint })
    }

    /// Its socket, and what it is called.
    pub fn found(&self) -> &Found {
        &self.state.found
    }

    /// What it is, and how it was diluted, in one line each.
    pub fn greeting(&self) -> String {
        status::greeting(&self.state)
    }

    /// What became of it, in a few lines.
    pub fn farewell(&self) -> String {
        status::status(&self.state)
    }

    /// What is counted now.
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    /// What has happened, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Entry> {
        self.state.journal.entries()
    }

    /// How its time was diluted, and whether it kept that.
    pub fn time(&self) -> String {
        status::kept(&self.state)
    }

    /// How far links, pauses and processors were the limit, host by host: only those with programs.
    pub fn limits(&self) -> Vec<String> {
        status::all_limits(&self.state)
    }

    /// By host: packets that its programs have received.
    pub(crate) fn received(&self) -> std::collections::HashMap<u32, u64> {
        let totals = self.state.programs.totals();
        totals.into_iter().map(|(host, counts)| (host, counts.received)).collect()
    }

    /// Does faults to the network, each so long from now in the time of the model.
    ///
    /// # Errors
    /// One of a node or link that is not there; then none happens.
    pub fn happen(&mut self, faults: &[Fault]) -> Result<(), BuildError> {
        self.state.happen(faults)
    }

    /// Lives until it is told to end, or `stops` says so, which it is asked every tenth of a second at least, and
    /// whenever somebody asks the lab something.
    pub fn run(&mut self, mut stops: impl FnMut(&mut Self) -> bool) {
        self.state.begin = Instant::now();
        // Where it cannot be told, the lab is woken later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS));
        while !self.state.is_over && !stops(self) {
            let wall = self.state.begin.elapsed();
            if wall > self.watched_at + WATCH_INTERVAL {
                self.watched_at = wall;
                self.state.watch();
            }
            self.state.write_down();
            let since = self.state.begin.elapsed();
            if self.turn() {
                self.busy_poll.worked(since, self.state.begin.elapsed());
            } else {
                self.rest();
            }
            // Simulated hosts may keep the network awake while no program does.
            if self.state.begin.elapsed() > self.looked_at + LOOK_INTERVAL {
                self.look(Duration::ZERO);
            }
        }
        self.state.captures.end(&mut self.state.network);
        self.state.samples.take_last(&self.state.network);
        // Nobody answers any more.
        self.endpoint = None;
    }

    /// Its network as it is now.
    pub fn network(&self) -> &Network {
        &self.state.network
    }

    /// What it is called in full, and what a report says of it beside what its network has counted.
    pub fn told(&self) -> (&str, LabRun) {
        (&self.state.title, status::run(&self.state))
    }

    /// What was sampled.
    pub fn samples(&self) -> &Samples {
        &self.state.samples
    }

    /// The folder in which who has ended it wants to have its results.
    pub fn heir(&self) -> Option<&Path> {
        self.state.heir.as_ref().map(|(_, folder)| folder.as_path())
    }

    /// Tells whoever waits for the results that they are there, or why not.
    pub fn tell_heir(&mut self, outcome: Result<&str, &str>) {
        let Some((channel, _)) = self.state.heir.take() else { return };
        let text = match outcome {
            Ok(text) => format!("ok {text}"),
            Err(why) => format!("no {why}"),
        };
        // Whoever has gone away does not miss it.
        let _ = channel.send(text.as_bytes(), None);
    }

    /// Moves everything on to the present. Returns whether there was anything to do.
    fn turn(&mut self) -> bool {
        let wall = self.state.begin.elapsed();
        let due = self.state.network.next_event();
        if let Some(due) = due
            && self.state.clock.is_late_for(due, wall)
        {
            let (late, model) = (self.state.clock.slips().last, self.state.network.now());
            self.state.journal.slipped(wall, model, late);
        }
        // What programs send is sent at the network's present: that is not when the lab fell asleep.
        let now = self.state.clock.model(wall);
        if self.state.network.now() < now && due.is_none_or(|due| due > now) {
            self.live_until(now);
        }
        let sent = self.state.programs.send(&mut self.state.network);
        let mut received = 0;
        for _ in 0..STRETCHES_MAX {
            let now = self.state.clock.model(self.state.begin.elapsed());
            let before = self.state.network.now();
            if now <= before {
                break;
            }
            let next = self.state.network.next_event().filter(|next| *next <= now);
            self.state.samples.pass(&self.state.network, next.unwrap_or(now));
            let due = self.state.samples.due();
            let end = next.map_or(now, |next| now.min(next.max(before) + STRETCH)).min(due);
            self.live_until(end);
            if due <= end {
                self.state.samples.take(&self.state.network);
            }
            for host in 0..self.state.hosts {
                received += self.state.programs.receive(host, &mut self.state.network);
            }
            if next.is_none() {
                break;
            }
        }
        self.state.programs.left(&mut self.state.network);
        self.state.programs.ring_doorbells();
        self.state.captures.turn(&mut self.state.network, wall, false);
        sent + received > 0
    }

    /// Lets the network live, and writes down deadlocks.
    fn live_until(&mut self, end: Time) {
        for cycle in self.state.network.live_until(end) {
            if self.state.deadlocks.last().is_none_or(|(_, last)| *last != cycle) {
                let text = format!("DEADLOCK: {}", status::circle(&cycle));
                self.state.journal.note(self.state.begin.elapsed(), end, text);
                self.state.deadlocks.push((end, cycle));
            }
        }
    }

    /// Sleeps if nothing is due soon.
    fn rest(&mut self) {
        let wall = self.state.begin.elapsed();
        let due = self
            .state
            .network
            .next_event()
            .map_or(NAP_MAX, |next| self.state.clock.wall(next).saturating_sub(wall));
        let slipped = self.state.clock.slips();
        let is_contended = slipped.count > 0 && wall < slipped.last_at + CONTENDED;
        let is_polling = self.busy_poll.goes_on(wall);
        if (is_polling || due < NAP_LEAST) && !is_contended {
            std::thread::yield_now();
            return;
        }
        self.state.captures.turn(&mut self.state.network, wall, true);
        if self.state.programs.set_asleep(true) {
            self.state.programs.set_asleep(false);
            return;
        }
        let slack = if is_contended { Duration::ZERO } else { SLACK };
        self.look(due.saturating_sub(slack).min(NAP_MAX));
        self.state.programs.set_asleep(false);
        self.busy_poll.woke(self.looked_at);
    }

    /// Waits for that long until somebody has something to say, and hears it.
    fn look(&mut self, timeout: Duration) {
        let owners: Vec<u32> = self.state.programs.iter().map(|program| program.owner).collect();
        let channels = self.state.programs.iter().map(|program| program.channel.as_fd());
        let visitors = self.visitors.iter().map(|visitor| visitor.channel.as_fd());
        let fds: Vec<BorrowedFd<'_>> =
            [self.listener.as_fd()].into_iter().chain(channels).chain(visitors).collect();
        let readers: Vec<(BorrowedFd<'_>, bool)> = self.state.captures.readers().collect();
        let mut polled: Vec<PollFd<'_>> = fds
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .chain(readers.iter().map(|(fd, blocked)| {
                let room = if *blocked { PollFlags::OUT } else { PollFlags::empty() };
                PollFd::new(fd, PollFlags::IN | room)
            }))
            .collect();
        let first_reader = fds.len();
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        // A signal ends the wait as time does.
        let found = poll(&mut polled, Some(&timeout)).unwrap_or(0);
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        self.looked_at = self.state.begin.elapsed();
        if found == 0 {
            return;
        }
        self.state.captures.hear(&ready[first_reader..], &mut self.state.network);
        for (owner, _) in owners.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            if !self.state.programs.listen(*owner) {
                self.state.programs.end(*owner, &mut self.state.network);
            }
        }
        let mut visitors = core::mem::take(&mut self.visitors);
        let mut spoken = ready[1 + owners.len()..first_reader].iter();
        visitors = visitors
            .into_iter()
            .filter_map(|visitor| match spoken.next() {
                Some(true) => self.state.hear(visitor),
                _ => Some(visitor),
            })
            .collect();
        self.visitors = visitors;
        if ready[0] {
            while let Ok(channel) = self.listener.accept() {
                if self.visitors.len() < VISITORS_MAX
                    && let Some(visitor) = Visitor::admit(channel)
                {
                    self.visitors.push(visitor);
                }
            }
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.state.found.bury();
    }
}
