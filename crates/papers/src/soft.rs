//! The same experiments on soft NICs of this machine, in real time.
//!
//! ```text
//!   round 1: every row once, and the first again ─► round 2: the same ─► ... ─► what all draws came to
//! ```
//!
//! The code is that of the simulated experiments, and so are the applications: only the world is another.
//! A row is run once a round, so that all rows see the same stretch of time; the first row is run again at
//! the end of each round, and what that differs by from itself is what other differences mean nothing
//! below. Rows of another testbed, and checks of the paper's rates and times, are left out.

use bench::Failure;
use bench::plan::Flow;
use bench::session::{self, Seats, Settings, Side};
use bench::world::{self, Outcome as Ended, Player, Stop};
use rdma::app::App;

use crate::draws::Spread;
use crate::hosts::{Hosts, Runs, Seen, Times, plan};
use crate::{Options, Outcome};

/// What is not measured at the beginning of a draw, and what is measured at least, in milliseconds.
const WARMUP_MS: f64 = 20.0;
const DRAW_MS: f64 = 60.0;
/// The same beside tasks that never wait, whose slices take milliseconds.
const HOGGED_MS: f64 = 250.0;
/// So many messages of the largest flow are measured at least, if it has this rate.
const MESSAGES: f64 = 8.0;
const SLOW_GBPS: f64 = 4.0;

/// What the experiments of a paper came to on soft NICs.
#[derive(Clone, Debug)]
pub struct OnSoft {
    /// The NICs and the machine.
    pub about: String,
    /// In the order of the claims.
    pub outcomes: Vec<Outcome>,
    /// Of each experiment, by its first claim: rates of its first row again, over those that it had.
    pub(crate) again: Vec<(String, Spread)>,
    /// Draws that could not be made, and why.
    pub failed: Vec<String>,
}

impl OnSoft {
    /// Nothing yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        let about = format!(
            "soft NICs in real time, by {}; {}, both ends in this process; {} cores, with whatever else runs here",
            settings.path(),
            settings.near.interface,
            cores()
        );
        Self { about, outcomes: Vec::new(), again: Vec::new(), failed: Vec::new() }
    }

    /// Adds an experiment, which is called by its first claim.
    pub(crate) fn add(&mut self, claim: &str, rounds: Rounds, outcomes: Vec<Outcome>) {
        if !rounds.again.is_empty() {
            self.again.push((claim.to_owned(), Spread::from(rounds.again)));
        }
        self.failed.extend(rounds.failed);
        self.outcomes.extend(outcomes.into_iter().map(Outcome::on_soft));
    }
}

/// A row, to be run again.
pub(crate) type Row = Box<dyn Fn(&Settings, Options) -> Result<Vec<Seen>, Failure>>;

/// The rounds of an experiment.
pub(crate) struct Rounds {
    pub(crate) settings: Settings,
    pub(crate) options: Options,
    /// What each row gave so far, and which is next in this round.
    rows: Vec<Vec<Vec<Seen>>>,
    next: usize,
    first: Option<Row>,
    again: Vec<f64>,
    failed: Vec<String>,
}

impl Rounds {
    pub(crate) fn new(settings: &Settings, options: Options) -> Self {
        Self {
            settings: settings.clone(),
            options,
            rows: Vec::new(),
            next: 0,
            first: None,
            again: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// The next draw of the next row: what all its draws gave so far.
    pub(crate) fn draw(&mut self, row: Row) -> Runs {
        let index = self.next;
        self.next += 1;
        if self.rows.len() == index {
            self.rows.push(Vec::new());
        }
        match row(&self.settings, self.options) {
            Ok(seen) => self.rows[index].push(seen),
            Err(failure) => self.failed.push(failure.to_string().replace('\n', "; ")),
        }
        if index == 0 {
            self.first = Some(row);
        }
        Runs::from(self.rows[index].clone())
    }

    /// Runs the first row again, and begins anew with it.
    pub(crate) fn end_round(&mut self) {
        self.next = 0;
        let rate = |seen: &[Seen]| seen.first().map_or(f64::NAN, |seen| seen.gbps);
        let before = self.rows.first().and_then(|row| row.last()).map(|seen| rate(seen));
        let again = self.first.as_ref().and_then(|row| row(&self.settings, self.options).ok());
        if let (Some(before), Some(again)) = (before, again) {
            self.again.push(rate(&again) / before);
        }
    }
}

/// Flows that run at once, with one draw.
pub(crate) fn flows(hosts: &Hosts, flows: &[Flow]) -> Row {
    let (flows, has_hogs) = (flows.to_vec(), hosts.has_hogs());
    Box::new(move |settings, options| {
        let largest = flows.iter().map(|flow| flow.size_bytes).max().unwrap_or(0);
        let least = if has_hogs { HOGGED_MS } else { DRAW_MS };
        let messages = MESSAGES * f64::from(largest) * 8.0 / (SLOW_GBPS * 1e6);
        let times = Times { warmup_ms: WARMUP_MS, length_ms: least.max(messages) };
        let hogs = if has_hogs { cores() } else { 0 };
        let plan = plan("soft NICs", times, options, &flows, hogs)?;
        Seen::of(&session::run(&plan, settings, &[], &mut ())?)
    })
}

/// Two applications, each on a NIC of its own.
pub(crate) fn pair<A: App + Send>(
    settings: &Settings,
    apps: [A; 2],
) -> Result<Vec<Ended<A>>, Failure> {
    let stop = Stop::default();
    let player = |app: A| {
        let nic = settings.nic(Side::Near)?;
        let seat = settings.seat(&nic, &app.layout(), &stop)?;
        Ok(Player { app, seat, core: None })
    };
    let players: Result<Vec<_>, Failure> = apps.into_iter().map(player).collect();
    let (outcomes, why) = world::run(players?, &stop, &mut ())?;
    why.map_or(Ok(outcomes), Err)
}

/// Cores of this machine.
fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

impl Outcome {
    /// As it is told of soft NICs: without what is about the paper's machines or the model.
    fn on_soft(mut self) -> Self {
        self.checks.retain(|check| !check.is_of_machine);
        for check in &mut self.checks {
            check.reason = None;
        }
        self.figures = self.figures.into_iter().map(crate::Figure::on_soft).collect();
        self
    }
}
