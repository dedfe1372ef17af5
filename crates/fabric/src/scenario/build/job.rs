//! `[[workload]]` of kinds that are jobs: what several hosts do together.

use rdma::{Span, Time};
use transport::limits::MESSAGE_BYTES_MAX;

use super::{Files, NOT_THERE, ScenarioError, host};
use crate::limits::{REPETITIONS_MAX, TRACES_BYTES_MAX};
use crate::scenario::at::{At, Result};
use crate::scenario::table::table;
use crate::scenario::value::{
    Value, at_least, choice, list, named, needed, or, otherwise, text, time, within,
};
use crate::topology::Topology;
use crate::workload::{
    Algorithm, Collective as Made, Job, Misfit, Operation, Size, Verb, chakra, goal,
};

const REPEAT: u32 = 1;
const CHANNELS: u32 = 1;
/// As many as anybody has queue pairs between two hosts.
const CHANNELS_MAX: u32 = 256;
/// More than all memory of any cluster.
const BYTES_MAX: u64 = 1 << 50;
const DSCP: u8 = 3;
const LONGEST: &str = "the longest message has 2147483648";

table! {
    /// How often, and by what messages.
    struct Turns {
        /// Who takes part, rank by rank.
        hosts = or("all, in their order, or as many as there are ranks", list(text("a host"))) => hosts: Option<Vec<String>>;
        /// How often each rank does its part.
        repeat = otherwise(REPEAT, at_least(1, "1 for once")) => repeat: Option<u32>;
        /// How long a rank computes before it does its part again.
        compute_us = time() => compute: Span;
        /// When every rank begins.
        start_us = time() => start: Span;
        /// DSCP of the packets.
        dscp = otherwise(DSCP, within(0, 63, "a DSCP has six bits")) => dscp: Option<u8>;
        /// How messages are sent: RDMA WRITE with immediate data, or SEND.
        verb = otherwise(Verb::WriteImmediate, verb()) => verb: Option<Verb>;
    }
}

/// What takes a receive.
fn verb<'a>() -> Value<'a, Verb> {
    named([("write-immediate", Verb::WriteImmediate), ("send", Verb::Send)])
}

table! {
    /// See [`Workload`](super::workload::Workload).
    struct Collective {
        /// What is done together.
        operation = needed(choice()) => operation: Operation;
        /// From rank to rank in a ring; up and down two trees; by halves, quarters and so on, and back; in
        /// rings inside groups, between them and inside again; or all at once.
        algorithm = or("ring, and direct of all-to-all, gather and scatter", choice()) => algorithm: Option<Algorithm>;
        /// The whole buffer of a rank, S of nccl-tests.
        bytes = needed(within(1, BYTES_MAX, "a byte at least, and a pebibyte at most"))
            => bytes: u64;
        /// Messages have at most as many, and are passed on one by one.
        chunk_bytes = or("as long as they come",
            within(1, MESSAGE_BYTES_MAX, LONGEST)) => chunk: Option<u32>;
        /// Among so many queue pairs from rank to rank the bytes are divided.
        channels = otherwise(CHANNELS, within(1, CHANNELS_MAX, "1 for a queue pair"))
            => channels: Option<u32>;
        /// Ranks of a group, for hierarchical.
        group_hosts = or("see algorithm", at_least(2, "a group has two ranks at least"))
            => group: Option<u32>;
        ..turns: Turns;
    }
    check only_groups_are_grouped;
}

fn only_groups_are_grouped(of: &Collective, at: &At<'_>) -> Result<()> {
    let grouped = of.algorithm == Some(Algorithm::Hierarchical);
    match of.group {
        Some(_) if !grouped => {
            let wrong = at.wrong("group_hosts", "only a hierarchy has groups");
            Err(wrong.hint("remove it, or write algorithm = \"hierarchical\""))
        }
        None if grouped => {
            let wrong = at.wrong("algorithm", "a hierarchy is of groups");
            Err(wrong.hint("add group_hosts, as many as hosts have a fast network among them"))
        }
        _ => Ok(()),
    }
}

impl Collective {
    pub(super) fn job(&self, at: &At<'_>, topology: &Topology) -> Result<Job> {
        let hosts = self.turns.hosts(at, topology, topology.hosts.len())?;
        let made = Made {
            operation: self.operation,
            algorithm: self.algorithm.unwrap_or(self.operation.usual()),
            // Hosts are fewer than 2^32.
            ranks: hosts.len() as u32,
            bytes: self.bytes,
        };
        let plain = Size::default();
        let size = Size {
            chunk_bytes: self.chunk.unwrap_or(plain.chunk_bytes),
            channels: self.channels.unwrap_or(CHANNELS),
            group: self.group.unwrap_or(plain.group),
        };
        let schedule = made.schedule(size).map_err(|misfit| {
            let ranks = hosts.len();
            match misfit {
                Misfit::Algorithm(known) => at
                    .wrong("algorithm", "this operation is not done so")
                    .hint(format!("it is done by {known}")),
                Misfit::NoPowerOfTwo => at
                    .wrong("algorithm", format!("{ranks} ranks cannot be halved to one"))
                    .hint("take 2, 4, 8, ... hosts, or another algorithm"),
                Misfit::Groups => at
                    .wrong(
                        "group_hosts",
                        format!("{ranks} ranks are not several groups of as many"),
                    )
                    .hint("give a divisor of the number of hosts, and less than all"),
                Misfit::TooMany(operations) => {
                    let most = crate::limits::OPERATIONS_MAX;
                    let message = format!(
                        "these would be {operations:.0} operations, and there is room for {most}"
                    );
                    at.wrong("bytes", message).hint("take fewer hosts, or longer chunks")
                }
            }
        })?;
        let name = format!("{made}, {ranks} ranks", ranks = hosts.len());
        let job = Job { collective: Some(made), ..Job::new(name, schedule, hosts) };
        Ok(self.turns.of(job))
    }
}

table! {
    /// See [`Workload`](super::workload::Workload).
    struct Goal {
        /// The schedule, as text.
        file = needed(text("a file")) => file: String;
        ..turns: Turns;
    }
}

impl Goal {
    pub(super) fn job(&self, at: &At<'_>, topology: &Topology, files: &dyn Files) -> Result<Job> {
        let name = &self.file;
        let text = at.open("file", name, files)?;
        let schedule = goal(&text).map_err(|error| at.wrong_in("file", name, error))?;
        let ranks = schedule.ranks() as usize;
        let hosts = self.turns.hosts(at, topology, ranks)?;
        if hosts.len() != ranks {
            let key = if self.turns.hosts.is_some() { "hosts" } else { "file" };
            let message = format!("{name} has {ranks} ranks, for {} hosts", hosts.len());
            return Err(at.wrong(key, message).hint("a rank has a host of its own"));
        }
        Ok(self.turns.of(Job::new(job_name(name, ranks), schedule, hosts)))
    }
}

table! {
    /// See [`Workload`](super::workload::Workload).
    struct Chakra {
        /// The traces are PREFIX.0.et, PREFIX.1.et and so on, one for each rank.
        prefix = needed(text("the beginning of the files' names")) => prefix: String;
        /// Messages of collectives have at most as many, and are passed on one by one.
        chunk_bytes = or("as long as they come",
            within(1, MESSAGE_BYTES_MAX, LONGEST)) => chunk: Option<u32>;
        ..turns: Turns;
    }
}

impl Chakra {
    pub(super) fn job(&self, at: &At<'_>, topology: &Topology, files: &dyn Files) -> Result<Job> {
        let prefix = &self.prefix;
        let file = |rank: usize| format!("{prefix}.{rank}.et");
        let most = self.turns.hosts.as_ref().map_or(topology.hosts.len(), Vec::len);
        let mut traces = Vec::new();
        let mut room = TRACES_BYTES_MAX;
        while traces.len() < most {
            let name = file(traces.len());
            let read = files.read(&name).map_err(|error| cannot_read(at, &name, &error));
            let Some(bytes) = read? else { break };
            room = room.checked_sub(bytes.len()).ok_or_else(|| {
                let message = format!("with {name} there are more than {TRACES_BYTES_MAX} bytes");
                at.wrong("prefix", message).hint("cut the traces in pieces")
            })?;
            traces.push(bytes);
        }
        let ranks = traces.len();
        if ranks < most.min(2) {
            return Err(cannot_read(at, &file(ranks), NOT_THERE));
        }
        let hosts = self.turns.hosts(at, topology, ranks)?;
        if hosts.len() != ranks {
            return Err(cannot_read(at, &file(ranks), NOT_THERE));
        }
        let chunk_bytes = self.chunk.unwrap_or(MESSAGE_BYTES_MAX);
        let schedule = chakra(&traces, chunk_bytes).map_err(|error| {
            let message = format!("{}: {}", file(error.rank), error.message);
            at.wrong("prefix", message).hint(error.hint)
        })?;
        Ok(self.turns.of(Job::new(job_name(prefix, ranks), schedule, hosts)))
    }
}

/// A job of a file: the folder that it is in says nothing about it.
fn job_name(file: &str, ranks: usize) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    format!("{name}, {ranks} ranks")
}

fn cannot_read(at: &At<'_>, name: &str, why: &str) -> ScenarioError {
    let wrong = at.wrong("prefix", format!("cannot read {name:?}: {why}"));
    wrong.hint("the path is relative to the scenario, and each rank has a file")
}

impl Turns {
    /// Who takes part: the first `ranks` hosts, unless they are named.
    fn hosts(&self, at: &At<'_>, topology: &Topology, ranks: usize) -> Result<Vec<u32>> {
        let hosts = match &self.hosts {
            // Hosts are fewer than 2^32.
            None => (0..topology.hosts.len().min(ranks) as u32).collect(),
            Some(names) => {
                let named = names.iter().map(|name| host(at, topology, "hosts", name));
                named.collect::<Result<Vec<u32>>>()?
            }
        };
        let mut seen = vec![false; topology.hosts.len()];
        for &host in &hosts {
            if core::mem::replace(&mut seen[host as usize], true) {
                let name = &topology.hosts[host as usize];
                let wrong = at.wrong("hosts", format!("{name:?} is there twice"));
                return Err(wrong.hint("a host has one rank"));
            }
        }
        if hosts.len() < 2 {
            let wrong = at.wrong("hosts", format!("{} of them do nothing together", hosts.len()));
            return Err(wrong.hint("name two or more, or leave it out for all"));
        }
        let turns = u64::from(self.repeat.unwrap_or(REPEAT)) * hosts.len() as u64;
        if turns > REPETITIONS_MAX {
            let message = format!("{turns} parts of all ranks are more than {REPETITIONS_MAX}");
            return Err(at.wrong("repeat", message).hint("repeat it less often"));
        }
        Ok(hosts)
    }

    /// The job, as often and by such messages.
    fn of(&self, job: Job) -> Job {
        Job {
            start: Time::ZERO + self.start,
            repeat: self.repeat.unwrap_or(REPEAT),
            compute: self.compute,
            dscp: self.dscp.unwrap_or(DSCP),
            verb: self.verb.unwrap_or(Verb::WriteImmediate),
            ..job
        }
    }
}
