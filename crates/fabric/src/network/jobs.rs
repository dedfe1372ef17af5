//! The jobs of a network: their ranks are on hosts, and so in partitions.

use std::collections::BTreeMap;

use rdma::{Rate, Span};

use super::view::PortView;
use super::{BuildError, Network, NetworkConfig};
use crate::host::beginning;
use crate::limits::{JOBS_MAX, REPETITIONS_MAX};
use crate::links::EventKind;
use crate::packet::{GAP_BYTES, LOWER_BYTES, PREAMBLE_BYTES};
use crate::topology::End;
use crate::workload::{Job, JobPart, Repetition, Verb, Walk};

/// ImmDt, which ends a message with immediate data.
const IMMEDIATE_BYTES: u32 = 4;

/// A link on the path of a flow, and what has been on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkUse {
    /// The port, by its place in [`Network::ports`].
    pub(crate) port: u32,
    pub(crate) rate: Rate,
    pub(crate) at: End,
    pub(crate) to: End,
    /// How long its queue of most pauses had to wait.
    pub(crate) paused: Span,
    /// The part of the time for which it was busy.
    pub(crate) used: f64,
}

impl LinkUse {
    /// The same of a time in which it sent so many bytes.
    pub(crate) fn of_a_while(self, (bytes, paused, length): (u64, Span, Span)) -> Self {
        let used = self.rate.time_of(bytes).as_ps() as f64 / length.as_ps().max(1) as f64;
        Self { paused, used, ..self }
    }
}

/// A message alone in the network, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    /// From post to the arrival of its last bit.
    there: u64,
    /// From then on, until its sender knows.
    back: u64,
    /// For how long the links at both ends are busy with it.
    busy: [u64; 2],
}

/// Refuses jobs that could not run.
pub(super) fn check(config: &NetworkConfig) -> Result<(), BuildError> {
    if config.jobs.len() > JOBS_MAX {
        return Err(BuildError::TooMany("jobs", JOBS_MAX));
    }
    let hosts = config.topology.hosts.len();
    for (number, job) in (0..).zip(&config.jobs) {
        let index = job.first_flow as usize;
        if let Some(reason) = job.mistake(hosts) {
            return Err(BuildError::Flow { index, reason });
        }
        let repetitions = u64::from(job.repeat) * job.hosts.len() as u64;
        if repetitions > REPETITIONS_MAX {
            return Err(BuildError::TooMany("repetitions of all ranks", REPETITIONS_MAX as usize));
        }
        if !job.flows(number).eq(config.flows.iter().skip(index).take(job.connections()).copied()) {
            let reason = "the flows of a job are those that were added with it";
            return Err(BuildError::Flow { index, reason });
        }
    }
    let of_jobs: usize = config.jobs.iter().map(Job::connections).sum();
    match config.flows.iter().filter(|flow| flow.job.is_some()).count() == of_jobs {
        true => Ok(()),
        false => {
            let index = config.flows.iter().position(|flow| flow.job.is_some()).unwrap_or(0);
            Err(BuildError::Flow { index, reason: "a flow of a job comes with its job" })
        }
    }
}

impl Network {
    /// Gives the hosts of all jobs their parts, and schedules their beginnings.
    pub(super) fn add_jobs(&mut self) {
        for number in 0..self.jobs.len() as u32 {
            let job = self.jobs[number as usize].clone();
            for partition in &mut self.partitions {
                let part = JobPart { first_flow: job.first_flow, walks: BTreeMap::new() };
                partition.flows.jobs.push(part);
            }
            for (rank, &host) in (0..).zip(&job.hosts) {
                let walk = Walk::new(&job.schedule, rank, job.repeat, job.compute);
                let port = self.host_port(host);
                let partition = self.partition_mut(port);
                partition.flows.jobs[number as usize].walks.insert(host, walk);
                partition.flows.unfinished += 1;
                let start = job.start.as_ps();
                partition.links.schedule(start, EventKind::Job, port, beginning(number));
            }
        }
    }

    /// What hosts do together.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// By rank of a job: the repetitions that are over.
    pub(crate) fn repetitions(&self, job: usize) -> Vec<&[Repetition]> {
        let of = |host: &u32| {
            let flows = &self.partition(self.host_port(*host)).flows;
            flows.jobs[job].walks.get(host).map_or(&[][..], Walk::repetitions)
        };
        self.jobs[job].hosts.iter().map(of).collect()
    }

    /// What a job cannot be faster than, a repetition: the longest chain of messages and computations
    /// that wait for each other, or the bytes of the busiest link of a host.
    pub(crate) fn least_time(&self, job: usize) -> Span {
        let job = &self.jobs[job];
        let connections = job.schedule.connections();
        let mut known: BTreeMap<(u32, u32), Alone> = BTreeMap::new();
        let mut busy = vec![[0_u64; 2]; job.hosts.len()];
        let chain = job.schedule.longest_chain(|connection, bytes| {
            let of = connections[connection as usize];
            let ends = [of.source, of.destination].map(|rank| job.hosts[rank as usize]);
            let alone = *known
                .entry((connection, bytes))
                .or_insert_with(|| self.alone(ends, job.verb, bytes).unwrap_or_default());
            busy[of.source as usize][0] += alone.busy[0];
            busy[of.destination as usize][1] += alone.busy[1];
            (alone.there, alone.back)
        });
        Span::from_ps(busy.into_iter().flatten().fold(chain, u64::max))
    }

    /// A message of a job alone in the network.
    fn alone(&self, [source, destination]: [u32; 2], verb: Verb, bytes: u32) -> Option<Alone> {
        let there = self.path(source, destination, 0)?;
        let back = self.path(destination, source, 0)?;
        let mtu = self.host(source)?.config.mtu;
        let bth = wire::bth::LEN as u32;
        let count = mtu.packets(bytes);
        let mut alone = Alone::default();
        let mut free = vec![0; there.len()];
        for packet in 0..count {
            let payload = (bytes - packet * mtu.bytes()).min(mtu.bytes());
            let reth = if packet == 0 && verb != Verb::Send { wire::reth::LEN as u32 } else { 0 };
            let immediate = if packet + 1 == count { IMMEDIATE_BYTES } else { 0 };
            let frame = LOWER_BYTES + bth + reth + immediate + payload.next_multiple_of(4);
            alone.there = self.cross(&there, &mut free, 0, frame);
            for (busy, port) in alone.busy.iter_mut().zip([there.first(), there.last()]) {
                *busy += self.at(*port?).rate.ps(PREAMBLE_BYTES + u64::from(frame) + GAP_BYTES);
            }
        }
        let acknowledgement = LOWER_BYTES + bth + wire::aeth::LEN as u32;
        alone.back = self.cross(&back, &mut vec![0; back.len()], 0, acknowledgement);
        Some(alone)
    }

    /// The links on the path of a flow.
    pub(crate) fn links_of(&self, flow: u32) -> Vec<LinkUse> {
        let of = |port: u32| {
            let view = self.port_view(port, self.now);
            let paused = view.pauses.paused_ps.iter().copied().max().unwrap_or(0);
            LinkUse {
                port,
                rate: self.at(port).rate.rate(),
                at: view.at,
                to: view.to,
                paused: Span::from_ps(paused),
                used: self.used(port, &view),
            }
        };
        self.flow_ports(flow).unwrap_or_default().into_iter().map(of).collect()
    }

    /// The part of the time for which each port was busy, in the order of [`Network::ports`].
    pub(crate) fn link_uses(&self) -> impl Iterator<Item = f64> {
        let ports = self.partitions.iter().flat_map(|partition| partition.links.ports());
        ports.map(|port| self.used(port, &self.port_view(port, self.now)))
    }

    fn used(&self, port: u32, view: &PortView) -> f64 {
        let sent: u64 = view.sent_bytes.iter().sum();
        let port = self.at(port);
        // A frame counts when it begins.
        let to_come = port.free_at.saturating_sub(self.now);
        port.rate.ps(sent).saturating_sub(to_come) as f64 / self.now.max(1) as f64
    }
}
