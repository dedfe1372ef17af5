//! Jobs: what several hosts do together, step by step, such as a collective operation.
//!
//! ```text
//!   collective, GOAL ─► Plan ─► Schedule (shared) ─► Job (on hosts) ─► a Walk for each rank
//! ```
//!
//! The messages of a job are posted to flows of its own, a queue pair for each connection, and take a
//! receive at the other end: the immediate data names the operation that receives. So the receiver knows
//! what has come, as an application over verbs would.

mod chakra;
mod collective;
mod goal;
mod matching;
mod schedule;
mod walk;
mod wire_format;

use std::collections::BTreeMap;
use std::sync::Arc;

use rdma::{Span, Time};

pub(crate) use chakra::chakra;
pub use collective::{Algorithm, Collective, Operation};
pub(crate) use collective::{Misfit, Size};
pub(crate) use goal::goal;
pub(crate) use schedule::Op;
pub use schedule::{OpId, Plan, Schedule, Unfit};
pub(crate) use walk::{Repetition, Todo, Walk};

use super::{FlowSpec, Verb};

/// A schedule on hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// What reports call it.
    pub name: String,
    /// What every rank does.
    pub schedule: Arc<Schedule>,
    /// By rank: its host. No host has two ranks.
    pub hosts: Vec<u32>,
    /// When every rank begins.
    pub start: Time,
    /// How often each rank does its part.
    pub repeat: u32,
    /// How long a rank computes between two repetitions.
    pub compute: Span,
    /// DSCP of its packets.
    pub dscp: u8,
    /// [`Verb::WriteImmediate`] or [`Verb::Send`].
    pub verb: Verb,
    /// What its bandwidth is reckoned from, if it is a collective.
    pub collective: Option<Collective>,
    /// The flow of its first connection; those of the others follow.
    pub(crate) first_flow: u32,
}

impl Job {
    /// `schedule` on `hosts`, once, from time zero, in the lossless priority 3.
    pub fn new(name: impl Into<String>, schedule: Arc<Schedule>, hosts: Vec<u32>) -> Self {
        Self {
            name: name.into(),
            schedule,
            hosts,
            start: Time::ZERO,
            repeat: 1,
            compute: Span::ZERO,
            dscp: 3,
            verb: Verb::WriteImmediate,
            collective: None,
            first_flow: 0,
        }
    }

    /// The flows of its connections, if it is job number `job`.
    pub(crate) fn flows(&self, job: u32) -> impl Iterator<Item = FlowSpec> {
        let host = |rank: u32| self.hosts.get(rank as usize).copied().unwrap_or(u32::MAX);
        self.schedule.connections().iter().map(move |of| FlowSpec {
            verb: self.verb,
            messages: Some(u64::from(of.messages) * u64::from(self.repeat)),
            start: self.start,
            dscp: self.dscp,
            job: Some(job),
            ..FlowSpec::write(host(of.source), host(of.destination), of.longest)
        })
    }

    /// How many flows it has.
    pub(crate) fn connections(&self) -> usize {
        self.schedule.connections().len()
    }

    /// What is wrong with it in a network of so many hosts.
    pub(crate) fn mistake(&self, hosts: usize) -> Option<&'static str> {
        let mut seen = vec![false; hosts];
        let free = |host: &u32| {
            let seen = seen.get_mut(*host as usize);
            seen.is_some_and(|seen| !core::mem::replace(seen, true))
        };
        if self.hosts.len() != self.schedule.ranks() as usize {
            Some("a job has a host for each of its ranks")
        } else if !self.hosts.iter().all(free) {
            Some("the ranks of a job are on different hosts of the network")
        } else if !self.verb.takes_receive() {
            Some("the messages of a job take a receive: write-immediate or send")
        } else {
            None
        }
    }
}

/// The ranks of a job that are in one partition of the network, by host.
#[derive(Debug, Default)]
pub(crate) struct JobPart {
    pub(crate) first_flow: u32,
    pub(crate) walks: BTreeMap<u32, Walk>,
}
