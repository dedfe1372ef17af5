//! Jobs: what their ranks post and compute at this host, and what they are told of.
//!
//! ```text
//!   event (job, begin or core) ─┐
//!   message has arrived        ─┼─► Walk ─► todo ─► post, event after a time
//!   message is acknowledged    ─┘
//! ```

use rdma::completion::Attached;
use rdma::{Operation, Qpn, Time};
use transport::PostError;

use super::Host;
use crate::links::{EventKind, Links};
use crate::memory::BASE;
use crate::workload::{Flows, Op, Todo, Verb};

/// The argument of an event of a job: its number, and above which bits.
const JOB_SHIFT: u32 = 9;
/// Below them: the core that has computed, or this.
const BEGIN: u32 = (1 << JOB_SHIFT) - 1;
/// The id of a message of a job: its flow, and above these bits its operation.
const OP_SHIFT: u32 = 33;

/// The argument of the event that a rank of `job` begins.
pub(crate) const fn beginning(job: u32) -> u32 {
    job << JOB_SHIFT | BEGIN
}

impl Host {
    /// The time of an [`EventKind::Job`] has come.
    pub(crate) fn job_step(&mut self, links: &mut Links, flows: &mut Flows, argument: u32) {
        let (job, what) = (argument >> JOB_SHIFT, argument & BEGIN);
        let now = Time::from_ps(links.now());
        let Some(walk) = flows.walk(job, self.index) else { return };
        match what {
            BEGIN => walk.begin(now),
            core => walk.computed(core as u8, now),
        }
        self.do_todos(links, flows, job);
        self.kick(links);
    }

    /// A message of `job` has arrived, and its immediate data says for which operation.
    pub(super) fn job_received(
        &mut self,
        links: &mut Links,
        flows: &mut Flows,
        job: u32,
        attached: Attached,
    ) {
        let Attached::Immediate(receive) = attached else { return };
        let Some(walk) = flows.walk(job, self.index) else { return };
        walk.arrived(u32::from_be_bytes(receive), Time::from_ps(links.now()));
        self.do_todos(links, flows, job);
    }

    /// The message with this id is acknowledged.
    #[inline]
    pub(super) fn job_sent(&mut self, links: &mut Links, flows: &mut Flows, id: u64) {
        let Some(job) = flows.spec(id as u32).job else { return };
        let Some(walk) = flows.walk(job, self.index) else { return };
        walk.sent((id >> OP_SHIFT) as u32, Time::from_ps(links.now()));
        self.do_todos(links, flows, job);
    }

    fn do_todos(&mut self, links: &mut Links, flows: &mut Flows, job: u32) {
        while let Some(todo) = flows.walk(job, self.index).and_then(crate::workload::Walk::todo) {
            match todo {
                Todo::Post { op, connection, .. } => {
                    let flow = flows.jobs[job as usize].first_flow + connection;
                    let Some((engine, qpn)) = self.pair_of(flow) else { continue };
                    let id = u64::from(op) << OP_SHIFT | u64::from(flow);
                    self.post_of_job(links, flows, id, engine, qpn);
                    self.after(links, engine);
                }
                Todo::Compute { core, time } => {
                    let argument = job << JOB_SHIFT | u32::from(core);
                    links.schedule(time.as_ps(), EventKind::Job, self.port, argument);
                }
                Todo::Pause(time) => {
                    let argument = beginning(job);
                    links.schedule(time.as_ps(), EventKind::Job, self.port, argument);
                }
                Todo::Over => flows.rank_over(links.now()),
            }
        }
    }

    /// Posts the message with this id.
    pub(super) fn post_of_job(
        &mut self,
        links: &Links,
        flows: &mut Flows,
        id: u64,
        engine: usize,
        qpn: Qpn,
    ) {
        let (flow, op, now) = (id as u32, (id >> OP_SHIFT) as u32, links.now());
        let spec = *flows.spec(flow);
        let said = spec.job.and_then(|job| flows.walk(job, self.index)).map(|walk| walk.op(op));
        let Some(Op::Send { bytes, receive, .. }) = said else { return };
        self.doorbell(links);
        let at = &mut self.engines[engine];
        let index = at.index_of(qpn);
        let immediate = Some(receive.to_be_bytes());
        let operation = match spec.verb {
            Verb::Send => Operation::Send { immediate, address: None },
            _ => {
                let r_key = at.pairs[index].remote_key;
                Operation::Write { remote_address: BASE, r_key, immediate }
            }
        };
        match at.send(now, qpn, id, operation, (BASE, bytes)) {
            Ok(()) => flows.posted(flow, now),
            Err(PostError::Full) => at.pairs[index].backlog.push_back(id),
            Err(_) => flows.failed(flow, now),
        }
    }
}
