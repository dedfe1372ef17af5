//! Applications of [`rdma::app`] on a modelled host: tasks on its cores.
//!
//! ```text
//!   Tenant ─ step ─► Seat: calls cost time, posts ring doorbells ─► NIC (stages.rs) ─► link
//!     ▲                                                                                  │
//!     └─ core: run queue, idle exit, interrupt ◄─ queue, words ◄─ bus ◄─ engine ◄────────┘
//! ```
//!
//! A step is called at one moment of the model, and takes what its calls cost: the core is busy until
//! then. Each post takes effect at its own place in the step. A step is not preempted; its slice ends
//! with it.
//!
//! Bytes lie in memory when the engine has handled their packet; completions, and words that are watched,
//! are seen when the bus has written them.
//!
//! | | |
//! |---|---|
//! | `memory.rs` | regions, and how engines reach them |
//! | `queue.rs` | completion queues, and when what is in them is seen |
//! | `task.rs` | what an application waits for, and when it finds that |
//! | `cores.rs` | who runs when |
//! | `seat.rs` | the calls of an application |
//! | `connect.rs` | its objects, before the first event |
//!
//! **Invariant:** all of it is its host's, and chance comes from a generator of each application. So the
//! results do not depend on how the network is divided.

mod connect;
mod cores;
mod memory;
mod queue;
mod seat;
mod task;

use core::any::Any;
use core::fmt;

use rdma::app::App;
use rdma::{Completion, CompletionOpcode, Gid, Qpn, Span};
use transport::{CqId, Payload};

use super::Host;
use super::model::CpuConfig;
use crate::links::{EventKind, Links};
use crate::nic::Contexts;
use crate::slots::Slots;

pub(crate) use connect::{Introduction, Peer};
use cores::Core;
use memory::{Bytes, Regions};
use seat::Post;
use task::Task;

/// An application that can live in a simulation, and be had back afterwards.
pub trait Tenant: App + Any + Send {}

impl<A: App + Any + Send> Tenant for A {}

/// An application, and where it lives.
pub struct Placed {
    /// The host, by index.
    pub host: u32,
    /// The core of that host.
    pub core: u32,
    /// The application.
    pub app: Box<dyn Tenant>,
}

impl fmt::Debug for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut placed = f.debug_struct("Placed");
        placed.field("host", &self.host).field("core", &self.core).finish_non_exhaustive()
    }
}

/// What has become of an application.
pub struct TenantEnd {
    /// The application.
    pub app: Box<dyn Tenant>,
    /// Whether it has come to its end by itself.
    pub is_done: bool,
    /// Why it could not go on, if it could not.
    pub failure: Option<String>,
    /// Processor time.
    pub cpu: Span,
    /// From its first step to its end, or to the present.
    pub wall: Span,
}

impl fmt::Debug for TenantEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut end = f.debug_struct("TenantEnd");
        end.field("is_done", &self.is_done).field("failure", &self.failure);
        end.field("cpu", &self.cpu).field("wall", &self.wall).finish_non_exhaustive()
    }
}

/// Whose queue pair it is.
#[derive(Clone, Copy, Debug)]
struct Owner {
    task: usize,
    qp: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tenants {
    config: CpuConfig,
    regions: Regions,
    /// By region: the task that has it.
    region_tasks: Vec<usize>,
    tasks: Vec<Task>,
    cores: Vec<Core>,
    /// By engine: where the queue pairs of tasks complete.
    cqs: Vec<CqId>,
    /// By engine and place of the queue pair.
    owners: Vec<Vec<Option<Owner>>>,
    /// Lists of requests of which the NIC does not know yet.
    posts: Slots<Post>,
}

impl Tenants {
    /// The memory of the host, for an engine.
    pub(super) fn memory<'a>(&'a mut self, contexts: Option<&'a mut Contexts>) -> Bytes<'a> {
        Bytes { regions: &mut self.regions, contexts, stored: 0 }
    }

    /// Appends the bytes of a payload to `out`.
    pub(super) fn gather(&self, payload: Payload<'_>, out: &mut Vec<u8>) {
        self.regions.gather(payload, out);
    }

    /// The tuple of a datagram from the queue pair at `index` of `engine`; `None` if that is connected.
    pub(super) fn tuple_towards(
        &self,
        (engine, index): (usize, usize),
        to: Gid,
        source_port: u16,
    ) -> Option<u32> {
        let owner = self.owner(engine, index)?;
        self.tasks[owner.task].pairs[owner.qp].tuple_towards(to, source_port)
    }

    fn owner(&self, engine: usize, index: usize) -> Option<Owner> {
        *self.owners.get(engine)?.get(index)?
    }
}

impl Host {
    /// Tells applications what a call of an engine has changed, in which a payload came.
    #[inline(never)]
    pub(super) fn tell_tenants(&mut self, links: &mut Links, engine: usize, payload: u32) {
        let now = links.now();
        let (Some(tenants), Some(stages)) = (&mut self.tenants, &mut self.stages) else { return };
        let Some(&cq) = tenants.cqs.get(engine) else { return };
        let written = stages.bus.write(now, payload.into());
        let changes = tenants.regions.changes();
        for change in &changes {
            let task = tenants.region_tasks[change.region];
            if tenants.note_change(task, *change, written) {
                tenants.plan(links, self.port, tenants.tasks[task].core);
            }
        }
        tenants.regions.recycle(changes);
        let seen_at = written + stages.config.cqe.as_ps();
        let fetch = stages.config.dma_read.as_ps();
        while let Some((completion, at)) = self.engines[engine].endpoint.poll_cq_timed(cq) {
            let index = self.engines[engine].index_of(completion.qpn);
            let Some(owner) = tenants.owner(engine, index) else { continue };
            let is_fetched = is_received(&completion)
                && !tenants.tasks[owner.task].pairs[owner.qp]
                    .takes_prefetched(stages.config.recv_prefetch);
            let seen_at = seen_at + if is_fetched { fetch } else { 0 };
            tenants.note_completion(owner, (at.as_ps(), seen_at), completion);
            tenants.plan(links, self.port, tenants.tasks[owner.task].core);
        }
    }

    /// A doorbell has rung, or the work requests behind it have been read.
    #[inline(never)]
    pub(crate) fn doorbell_rings(&mut self, links: &mut Links, post: u32) {
        let now = links.now();
        let (Some(tenants), Some(stages)) = (&mut self.tenants, &mut self.stages) else { return };
        let of = tenants.posts.get_mut(post);
        if !core::mem::replace(&mut of.is_here, true) {
            let at = stages.fetch_work(now, of.bytes);
            links.schedule(at - now, EventKind::Doorbell, self.port, post);
            return;
        }
        of.is_ready = true;
        let (task, qp) = (of.task, of.qp);
        let pair = &mut tenants.tasks[task].pairs[qp];
        let (engine, qpn): (usize, Qpn) = (pair.engine, pair.qpn);
        // Those of a queue pair in their order.
        while let Some(&first) = pair.held.front()
            && tenants.posts.get(first).is_ready
        {
            pair.held.pop_front();
            let of = tenants.posts.get_mut(first);
            pair.held_requests -= of.requests.len();
            self.engines[engine].post_kept(now, qpn, &mut of.requests);
            tenants.posts.free(first);
        }
        // If the queue pair has failed they are flushed.
        self.tell_tenants(links, engine, 0);
        self.after(links, engine);
        self.kick(links);
    }
}

fn is_received(completion: &Completion) -> bool {
    matches!(completion.opcode, CompletionOpcode::Recv | CompletionOpcode::RecvWriteImmediate)
}
