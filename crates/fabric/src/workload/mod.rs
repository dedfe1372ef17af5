//! Flows: what the applications of a simulation ask their NICs for.
//!
//! A flow is a queue pair between two hosts and the messages that one of them posts to it, never more
//! than `depth` at a time:
//!
//! ```text
//!   Write, Send   source ── message ──► destination          done when acknowledged
//!   Read          source ── request ──► destination ── message ──► source
//!   reply         source ── message ──► destination ── SEND of reply_bytes ──► source
//! ```
//!
//! An unreliable message (UC, UD) is done when it has left; whether it came is known to its receiver
//! ([`crate::Network::received`]).
//!
//! A flow with an interval posts by the clock, as probes and services do; one without posts when the message
//! before is done. Flows of one `round` proceed together: the next message of each is posted when all have
//! completed theirs, as in a bulk-synchronous application. Flows of a [`Job`] post what the job says, when it
//! says so, and their messages have lengths of their own.

mod custom;
mod files;
mod job;
mod probes;
mod queries;
mod shapes;

use rdma::{Span, Time};
use serde::Deserialize;

use crate::random::{Random, of_seed, split_mix};

pub use custom::{HostList, Refusal, Scene, Traffic, WorkloadKind};
pub(crate) use files::{Trace, trace};
pub use job::{Algorithm, Collective, Job, OpId, Operation, Plan, Schedule, Unfit};
pub(crate) use job::{JobPart, Misfit, Op, Repetition, Size, Todo, Walk, chakra, goal};
pub use probes::{PROBE_BYTES, probes};
pub use queries::{Queries, queries};
pub(crate) use shapes::all_to_all;
pub use shapes::{SizeDistribution, incast, permutation, poisson, ring};

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// RDMA WRITE.
    #[default]
    Write,
    /// RDMA WRITE with immediate data, which takes a posted receive.
    WriteImmediate,
    /// SEND into a posted receive.
    Send,
    /// RDMA READ: the data flows from destination to source.
    Read,
    /// Compare and swap, of eight bytes.
    CompareSwap,
    /// Fetch and add, of eight bytes.
    FetchAdd,
}

impl Verb {
    /// Whether each message takes a receive at the destination.
    pub(crate) const fn takes_receive(self) -> bool {
        matches!(self, Self::Send | Self::WriteImmediate)
    }

    /// Whether it is a verb of `service`.
    pub(crate) const fn is_of(self, service: Service) -> bool {
        match service {
            Service::Rc => true,
            Service::Uc => matches!(self, Self::Write | Self::WriteImmediate | Self::Send),
            Service::Ud | Service::Tcp => matches!(self, Self::Send),
        }
    }
}

/// When a flow posts, if not when the message before is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// From one message to the next, on average.
    pub mean: Span,
    /// Whether intervals are exponential, as of independent arrivals, and not all the same.
    pub exponential: bool,
}

impl Interval {
    /// A message every `mean`.
    pub const fn every(mean: Span) -> Self {
        Self { mean, exponential: false }
    }

    /// From message `number` of `flow` to the next, in picoseconds, in a network of `seed`.
    pub(crate) fn sample(&self, seed: u64, flow: u32, number: u64) -> u64 {
        let mean = self.mean.as_ps();
        if !self.exponential {
            return mean.max(1);
        }
        let mut random = Random::new(split_mix(u64::from(flow) ^ of_seed(seed)) ^ number);
        ((random.exponential() * mean as f64) as u64).max(1)
    }
}

/// What carries messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Reliable connections.
    #[default]
    Rc,
    /// Unreliable connections: WRITE, WRITE with immediate data and SEND.
    Uc,
    /// Datagrams: SENDs of one packet.
    Ud,
    /// TCP: see [`crate::tcp`]. Needs [`Verb::Send`].
    Tcp,
}

/// A flow, as a scenario asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpec {
    /// The host that posts.
    pub source: u32,
    /// The host at the other end.
    pub destination: u32,
    /// What carries it.
    pub service: Service,
    /// What is posted.
    pub verb: Verb,
    /// The length of a message in bytes.
    pub message_bytes: u32,
    /// How many messages; `None` for as many as the time allows.
    pub messages: Option<u64>,
    /// Messages posted at a time, at least one.
    pub depth: u32,
    /// When the first is posted.
    pub start: Time,
    /// DSCP of its packets.
    pub dscp: u8,
    /// The destination answers each message by a SEND of so many bytes, and the next is posted when
    /// the answer has come. Needs [`Verb::Send`].
    pub reply_bytes: Option<u32>,
    /// Flows of one number, all of one source, proceed together.
    pub round: Option<u32>,
    /// When messages are posted; a message that is due while `depth` are under way is left out.
    pub interval: Option<Interval>,
    /// Each message is of another place, taken at random, of so many bytes of the destination's
    /// memory; all flows to a host walk the same memory. Without it all are of one place. Not for
    /// [`Verb::Send`].
    pub spread_bytes: Option<u64>,
    /// Messages are those of a connection of this job, of `message_bytes` at most.
    pub job: Option<u32>,
}

impl FlowSpec {
    /// One WRITE of `message_bytes` at time zero, in the lossless priority 3.
    pub const fn write(source: u32, destination: u32, message_bytes: u32) -> Self {
        Self {
            source,
            destination,
            service: Service::Rc,
            verb: Verb::Write,
            message_bytes,
            messages: Some(1),
            depth: 1,
            start: Time::ZERO,
            dscp: 3,
            reply_bytes: None,
            round: None,
            interval: None,
            spread_bytes: None,
            job: None,
        }
    }

    /// The same flow without an end, two messages at a time.
    #[must_use]
    pub fn endless(mut self) -> Self {
        self.messages = None;
        self.depth = 2;
        self
    }
}

/// How a flow fares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// What was asked for.
    pub spec: FlowSpec,
    /// Messages posted.
    pub posted: u64,
    /// Messages completed: acknowledged, read, or answered.
    pub completed: u64,
    /// Messages that ended in an error; the queue pair is then in error, and the flow over.
    pub failed: u64,
    /// When the last message completed.
    pub finished_at: Option<Time>,
    /// From post to completion, in picoseconds, of each message in order.
    pub latencies_ps: Vec<u64>,
    /// When those that are outstanding were posted, the oldest first.
    outstanding: std::collections::VecDeque<u64>,
    /// How often its interval has passed.
    pub(crate) ticks: u64,
}

impl Flow {
    pub(crate) fn new(spec: FlowSpec) -> Self {
        Self {
            spec,
            posted: 0,
            completed: 0,
            failed: 0,
            finished_at: None,
            latencies_ps: Vec::new(),
            outstanding: std::collections::VecDeque::new(),
            ticks: 0,
        }
    }

    /// Whether every message has ended, well or not.
    pub fn is_over(&self) -> bool {
        self.failed > 0 || self.spec.messages.is_some_and(|all| self.completed >= all)
    }

    /// Bytes of messages completed.
    pub fn bytes(&self) -> u64 {
        self.completed * u64::from(self.spec.message_bytes)
    }

    /// For how long messages that are outstanding at `now` have been so, in picoseconds, the oldest first.
    pub fn waiting_ps(&self, now: Time) -> impl Iterator<Item = u64> + '_ {
        self.outstanding.iter().map(move |posted| now.as_ps().saturating_sub(*posted))
    }

    /// From the first post to the last completion, if it is over.
    pub fn completion_time(&self) -> Option<Span> {
        Some(self.finished_at?.since(self.spec.start))
    }

    /// How many messages may be posted now.
    pub(crate) fn room(&self) -> u64 {
        if self.failed > 0 {
            return 0;
        }
        let depth = u64::from(self.spec.depth.max(1));
        let room = depth.saturating_sub(self.posted - self.completed);
        let room = if self.spec.interval.is_some() { room.min(1) } else { room };
        match self.spec.messages {
            Some(all) => room.min(all.saturating_sub(self.posted)),
            None => room,
        }
    }

    /// Where in the destination's memory the next message of this flow, number `flow`, is, in a network
    /// of `seed`. Places are as far apart as messages are long.
    pub(crate) fn place(&self, seed: u64, flow: u32) -> u64 {
        let length = u64::from(self.spec.message_bytes.max(1));
        let places = self.spec.spread_bytes.unwrap_or(0) / length;
        let chance = split_mix(self.posted ^ split_mix(u64::from(flow) ^ of_seed(seed)));
        ((u128::from(chance) * u128::from(places)) >> 64) as u64 * length
    }

    /// Its interval, if it is to pass once more; that is counted.
    pub(crate) fn next_tick(&mut self) -> Option<Interval> {
        let interval = self.spec.interval?;
        self.ticks += 1;
        // The tick at hand posts one of them.
        let last = self.spec.messages.is_some_and(|all| self.posted + 1 >= all);
        (!last || self.room() == 0).then_some(interval)
    }

    pub(crate) fn note_post(&mut self, now: u64) {
        self.posted += 1;
        self.outstanding.push_back(now);
    }

    pub(crate) fn note_completion(&mut self, now: u64) {
        self.completed += 1;
        if let Some(posted) = self.outstanding.pop_front() {
            self.latencies_ps.push(now - posted);
        }
        if self.spec.messages == Some(self.completed) {
            self.finished_at = Some(Time::from_ps(now));
        }
    }
}

/// Flows that proceed together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) flows: Vec<u32>,
    pub(crate) outstanding: usize,
}

/// The flows that start in one partition of the network, and what was asked for with all of them.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    pub(crate) specs: std::sync::Arc<[FlowSpec]>,
    /// By flow: its place in the `flows` of its partition.
    pub(crate) places: std::sync::Arc<[u32]>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) rounds: std::collections::BTreeMap<u32, Round>,
    /// Flows with an end that have not reached it.
    pub(crate) unfinished: usize,
    /// When the last of those reached it, or failed, in picoseconds.
    pub(crate) over_at: u64,
    /// Flows whose destination could not answer, and which are still to be told.
    pub(crate) unanswered: Vec<u32>,
    /// By job: those of its ranks that are here.
    pub(crate) jobs: Vec<JobPart>,
}

impl Flows {
    /// What was asked for with `flow`.
    pub(crate) fn spec(&self, flow: u32) -> &FlowSpec {
        &self.specs[flow as usize]
    }

    /// How `flow` fares, which starts at a host of ours.
    pub(crate) fn flow(&mut self, flow: u32) -> &mut Flow {
        &mut self.flows[self.places[flow as usize] as usize]
    }

    /// The flows that may post after one message of `flow` has completed.
    pub(crate) fn next_of(&mut self, flow: u32) -> Vec<u32> {
        let spec = self.spec(flow);
        if spec.interval.is_some() || spec.job.is_some() {
            return Vec::new();
        }
        let Some(number) = spec.round else { return vec![flow] };
        let Some(round) = self.rounds.get_mut(&number) else { return vec![flow] };
        round.outstanding = round.outstanding.saturating_sub(1);
        if round.outstanding > 0 {
            return Vec::new();
        }
        round.flows.clone()
    }

    /// A message of `flow` was posted.
    pub(crate) fn posted(&mut self, flow: u32, now: u64) {
        let state = self.flow(flow);
        state.note_post(now);
        let round = state.spec.round;
        if let Some(round) = round.and_then(|number| self.rounds.get_mut(&number)) {
            round.outstanding += 1;
        }
    }

    /// A message of `flow` has completed.
    pub(crate) fn completed(&mut self, flow: u32, now: u64) {
        let state = self.flow(flow);
        let was_over = state.is_over();
        state.note_completion(now);
        let is_over = !was_over && state.is_over();
        self.note_over(is_over, now);
    }

    /// A message of `flow` has failed.
    pub(crate) fn failed(&mut self, flow: u32, now: u64) {
        let state = self.flow(flow);
        let was_over = state.is_over();
        state.failed += 1;
        let is_over = !was_over && state.spec.messages.is_some();
        self.note_over(is_over, now);
    }

    /// The part of `job` that `host` does.
    pub(crate) fn walk(&mut self, job: u32, host: u32) -> Option<&mut Walk> {
        self.jobs.get_mut(job as usize)?.walks.get_mut(&host)
    }

    /// A rank has done its part.
    pub(crate) fn rank_over(&mut self, now: u64) {
        self.note_over(true, now);
    }

    fn note_over(&mut self, is_over: bool, now: u64) {
        if is_over {
            self.unfinished -= 1;
            self.over_at = self.over_at.max(now);
        }
    }
}
