//! What became of jobs: how long each repetition took, who was last, and what held them up.

use core::fmt::Write as _;
use std::borrow::Cow;

use rdma::{Span, Time};
use telemetry::Table;

use super::seeds::Number;
use super::tables::micros;
use super::{Report, gbps, percentile};
use crate::limits::REPORT_JOBS;
use crate::topology::End;
use crate::workload::{Job, Op, Repetition};

/// A repetition of a job, as far as it has come.
#[derive(Clone, Debug)]
struct Turn {
    /// When the first rank began it.
    begun: Time,
    /// From then until the last rank was done, if all are.
    took: Option<Span>,
    /// Ranks that are done.
    over: usize,
    /// The rank that was last, of those that are done.
    last: usize,
    /// How much later than the median rank that was.
    late: Span,
    /// What it did last.
    end: Repetition,
}

impl Turn {
    /// Repetition `number` of the ranks; `None` if none is done with it.
    fn of(ranks: &[&[Repetition]], number: usize) -> Option<Self> {
        let done = || {
            let ranks = ranks.iter().enumerate();
            ranks.filter_map(|(rank, of)| Some((rank, of.get(number)?)))
        };
        let begun = done().map(|(_, of)| of.begun).min()?;
        let mut ends: Vec<Time> = done().map(|(_, of)| of.over).collect();
        ends.sort_unstable();
        // Of several the first.
        let (last, end) = done().rev().max_by_key(|(_, of)| of.over)?;
        let all = ends.len() == ranks.len();
        Some(Self {
            begun,
            took: all.then(|| end.over.since(begun)),
            over: ends.len(),
            last,
            late: end.over.since(percentile(&ends, 50)?),
            end: *end,
        })
    }
}

impl Report<'_> {
    /// Every repetition of every job, a row each. `least` is what the job cannot be faster than in this
    /// network, alone; bandwidths are those of nccl-tests; `held_up_by` is, on the path of the last message of
    /// the rank that was last, the link that was paused for longest or, if none was, used most: in the time of
    /// the repetition, as nearly as it was sampled, and in the whole run if it was not.
    pub fn jobs(&self) -> Option<Table> {
        if self.network.jobs().is_empty() {
            return None;
        }
        let mut table = Table::new("jobs")
            .integers("seed", "")
            .integers("job", "")
            .texts("name")
            .integers("ranks", "")
            .integers("repetition", "")
            .integers("ranks_done", "")
            .integers("begun", "ps")
            .integers("took", "ps")
            .integers("least", "ps")
            .floats("algorithm_bandwidth", "gbps")
            .floats("bus_bandwidth", "gbps")
            .texts("last")
            .integers("late", "ps")
            .texts("held_up_by");
        for (index, job) in self.network.jobs().iter().enumerate() {
            let least = self.network.least_time(index).as_ps();
            for (number, turn) in self.turns(index, job).into_iter().enumerate() {
                let bandwidth = turn.took.and_then(|took| bandwidths(job, took)).unzip();
                let host = self.network.topology().name(End::Host(job.hosts[turn.last]));
                let held = self.held_up(job, &turn);
                table.push([
                    self.network.seed().into(),
                    index.into(),
                    job.name.as_str().into(),
                    job.hosts.len().into(),
                    number.into(),
                    turn.over.into(),
                    turn.begun.as_ps().into(),
                    turn.took.map(Span::as_ps).into(),
                    least.into(),
                    bandwidth.0.into(),
                    bandwidth.1.into(),
                    host.into(),
                    turn.late.as_ps().into(),
                    held.as_str().into(),
                ]);
            }
        }
        Some(table)
    }

    /// The figures of all jobs.
    pub(super) fn job_figures(&self) -> Vec<(&'static str, String)> {
        let jobs = self.network.jobs();
        let mut figures = Vec::new();
        for (index, job) in jobs.iter().enumerate().take(REPORT_JOBS) {
            self.figures_of_job(index, job, &mut figures);
        }
        if jobs.len() > REPORT_JOBS {
            let text = format!("{} more: see jobs.parquet", jobs.len() - REPORT_JOBS);
            figures.push(("jobs", text));
        }
        figures
    }

    /// For each job how long its median repetition took; nothing of one that was never complete.
    pub(super) fn job_numbers(&self) -> impl Iterator<Item = Number> {
        let jobs = self.network.jobs().iter().enumerate().take(REPORT_JOBS);
        jobs.map(|(index, job)| {
            let median = percentile(&times(&self.turns(index, job)), 50);
            let took = median.map(|took| micros(took.as_ps()));
            (Cow::Owned(format!("job_{index}")), "us", took)
        })
    }

    /// The repetitions that have begun to end, in their order.
    fn turns(&self, index: usize, job: &Job) -> Vec<Turn> {
        let ranks = self.network.repetitions(index);
        (0..job.repeat as usize).map_while(|number| Turn::of(&ranks, number)).collect()
    }

    fn figures_of_job(&self, index: usize, job: &Job, figures: &mut Vec<(&'static str, String)>) {
        let turns = self.turns(index, job);
        let took = times(&turns);
        let mut text = format!("{}: ", job.name);
        // Writing to a string cannot fail.
        let _ = match (took.as_slice(), percentile(&took, 50)) {
            ([only], _) if job.repeat == 1 => write!(text, "{only}"),
            ([least, .., most], Some(median)) => {
                let count = took.len();
                write!(text, "{count} times, {least} to {most}, median {median}")
            }
            ([only], _) => write!(text, "once, {only}"),
            _ => write!(text, "never complete"),
        };
        if took.len() < job.repeat as usize {
            let over = turns.get(took.len()).map_or(0, |turn| turn.over);
            let all = job.hosts.len();
            let _ = write!(text, "; UNFINISHED: {over} of {all} ranks have done number ");
            let _ = write!(text, "{} of {}", took.len() + 1, job.repeat);
        }
        figures.push(("job", text));
        if let Some(median) = percentile(&took, 50) {
            let least = self.network.least_time(index);
            let times = median.as_ps() as f64 / least.as_ps().max(1) as f64;
            let mut text = format!("{times:.3} x the least possible, {least}");
            if let Some((algorithm, bus)) = bandwidths(job, median) {
                let _ =
                    write!(text, "; algorithm bandwidth {algorithm:.3} Gb/s, bus {bus:.3} Gb/s");
            }
            figures.push(("median", text));
        }
        let slowest = turns.iter().filter(|turn| turn.took.is_some()).max_by_key(|turn| turn.took);
        if let Some(turn) = slowest {
            let host = self.network.topology().name(End::Host(job.hosts[turn.last]));
            let text = format!(
                "rank {} ({host}), {} after the median rank: {}",
                turn.last,
                turn.late,
                self.held_up(job, turn)
            );
            figures.push(("last", text));
        }
    }

    /// What held up the rank that was last.
    fn held_up(&self, job: &Job, turn: &Turn) -> String {
        let schedule = &job.schedule;
        let send = match turn.end.last.map(|op| schedule.op(op)) {
            None => return "it had nothing to do".to_owned(),
            Some(Op::Calc { .. }) => return "it computed".to_owned(),
            Some(Op::Receive { send }) => schedule.op(send),
            Some(send @ Op::Send { .. }) => send,
        };
        let Op::Send { connection, .. } = send else { return String::new() };
        let mut links = self.network.links_of(job.first_flow + connection);
        let when = match self.samples {
            Some(samples) => {
                for link in &mut links {
                    let did = samples.between(link.port, turn.begun, turn.end.over);
                    *link = link.of_a_while(did);
                }
                ""
            }
            None => " in the whole run",
        };
        let name = |end: End| self.network.topology().name(end);
        let paused = links.iter().rev().max_by_key(|link| link.paused);
        if let Some(link) = paused.filter(|link| link.paused > Span::ZERO) {
            let (at, to) = (name(link.at), name(link.to));
            return format!("{at} to {to}, paused for {}{when}", link.paused);
        }
        let used = links.iter().rev().max_by(|a, b| a.used.total_cmp(&b.used));
        used.map_or_else(String::new, |link| {
            let (at, to) = (name(link.at), name(link.to));
            format!("{at} to {to}, used to {:.1} %{when}", 100.0 * link.used)
        })
    }
}

/// How long those took that are complete, in the order of lengths.
fn times(turns: &[Turn]) -> Vec<Span> {
    let mut took: Vec<Span> = turns.iter().filter_map(|turn| turn.took).collect();
    took.sort_unstable();
    took
}

/// Algorithm and bus bandwidth in Gb/s, if a collective took so long.
fn bandwidths(job: &Job, took: Span) -> Option<(f64, f64)> {
    let collective = job.collective?;
    let algorithm = gbps(collective.bytes, took);
    Some((algorithm, algorithm * collective.bus_factor()))
}
