//! The cores of a host: who runs when.
//!
//! ```text
//!   a sleeping task's time has come ─► [idle exit] ─► interrupt ─► run queue ─► [switch] ─► step
//!   a running task has found what it polls for ──────────────────────────────────────────► step
//!   a slice is over ─► run queue ─► switch ─► the next
//! ```
//!
//! A core has one event under way at most that matters, for the earliest of these; one that comes too
//! early finds nothing to do.

use rdma::Span;
use rdma::app::{On, Wait, Woke};

use super::{Tenant, TenantEnd, Tenants};
use crate::host::Host;
use crate::host::model::{CpuConfig, Governor, RunQueue};
use crate::links::{EventKind, Links};
use crate::workload::Flows;

use super::seat::Seat;

/// A step takes so long at least, in picoseconds, so that no task stops the time: 1 ns.
const STEP_LEAST: u64 = 1_000;

/// A core. Times are in picoseconds.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) queue: RunQueue,
    /// By place in the run queue: the task; `None` for a hog.
    tasks: Vec<Option<usize>>,
    /// It does nothing else before.
    pub(super) busy_until: u64,
    /// Since when it is idle, if it is.
    idle_since: u64,
    governor: Governor,
    /// The next [`EventKind::Core`] is due.
    scheduled: u64,
}

impl Core {
    pub(super) fn new(config: &CpuConfig) -> Self {
        Self {
            queue: RunQueue::new(config),
            tasks: Vec::new(),
            busy_until: 0,
            idle_since: 0,
            governor: Governor::default(),
            scheduled: u64::MAX,
        }
    }

    /// One more task, asleep. Returns its place.
    pub(super) fn add(&mut self, task: Option<usize>) -> usize {
        self.tasks.push(task);
        self.queue.add()
    }

    fn running(&self) -> Option<usize> {
        self.queue.running().and_then(|place| self.tasks[place])
    }
}

/// What is due on a core.
#[derive(Clone, Copy, Debug)]
enum Due {
    Nothing,
    Wake(usize),
    Slice,
    Step(usize),
}

impl Tenants {
    /// What is due next on a core, and when.
    fn next_of(&self, core: usize) -> (u64, Due) {
        let at = &self.cores[core];
        let mut next = (u64::MAX, Due::Nothing);
        let mut consider = |when: u64, what: Due| {
            if when < next.0 {
                next = (when, what);
            }
        };
        for task in at.tasks.iter().flatten().copied() {
            if self.tasks[task].is_asleep {
                consider(self.tasks[task].wakes_at(), Due::Wake(task));
            }
        }
        if let Some(end) = at.queue.slice_end() {
            consider(end.max(at.busy_until), Due::Slice);
        }
        if let Some(task) = at.running() {
            consider(self.tasks[task].goes_on_at().max(at.busy_until), Due::Step(task));
        }
        next
    }

    /// Schedules what is due next on a core.
    pub(super) fn plan(&mut self, links: &mut Links, port: u32, core: usize) {
        let (at, _) = self.next_of(core);
        let scheduled = &mut self.cores[core].scheduled;
        if at < *scheduled {
            *scheduled = at;
            let delay = at.saturating_sub(links.now());
            links.schedule(delay, EventKind::Core, port, core as u32);
        }
    }

    /// Wakes a task that sleeps: an interrupt, of a NIC or of a timer.
    fn wake(&mut self, core: usize, task: usize, now: u64) {
        let factor = self.is_package_awake(core).then_some(self.config.package_factor);
        let (interrupt, switch) = (self.config.interrupt.as_ps(), self.config.switch.as_ps());
        let at = &mut self.cores[core];
        let mut begin = now.max(at.busy_until);
        if at.queue.running().is_none() {
            let slept = begin - at.idle_since;
            begin += at.governor.wake(&self.config.idle, slept, factor);
        }
        at.busy_until = begin + interrupt;
        if at.queue.wake(at.busy_until, self.tasks[task].place) {
            at.busy_until += switch;
        }
        self.tasks[task].wake(now);
    }

    /// Whether another core of the package of `core` is awake.
    fn is_package_awake(&self, core: usize) -> bool {
        let each = self.config.cores_per_package.max(1) as usize;
        let first = core / each * each;
        let package = self.cores.iter().enumerate().skip(first).take(each);
        package.into_iter().any(|(other, at)| other != core && at.queue.running().is_some())
    }

    /// The slice of whoever runs is over.
    fn expire(&mut self, core: usize, now: u64) {
        let switch = self.config.switch.as_ps();
        let at = &mut self.cores[core];
        let now = now.max(at.busy_until);
        if at.queue.expire(now).is_some() {
            at.busy_until = now + switch;
        }
    }

    /// A task has ended a step at `now`, and waits. Whether it is over.
    fn settle(&mut self, task: usize, wait: Wait, now: u64) -> bool {
        let (interrupt, switch) = (self.config.interrupt.as_ps(), self.config.switch.as_ps());
        let empty = self.config.poll_empty.as_ps();
        let of = &mut self.tasks[task];
        let at = &mut self.cores[of.core];
        at.busy_until = now;
        of.wait = wait;
        of.found = None;
        if let On::Event(cq) = wait.on
            && !of.queues[usize::from(cq.0)].expects_event()
        {
            let number = cq.0;
            of.failure.get_or_insert_with(|| {
                format!(
                    "it waits for an event of completion queue {number}, which it has not armed"
                )
            });
        }
        let sleeps = match wait.on {
            _ if of.failure.is_some() => true,
            On::Done => true,
            On::Poll(_) | On::Words(_) => {
                of.look(now, empty, &mut self.regions);
                false
            }
            On::Event(cq) => {
                let queue = &mut of.queues[usize::from(cq.0)];
                let is_raised = queue.event_at().is_some_and(|raised| raised <= now);
                if is_raised {
                    // It was interrupted while it ran.
                    queue.take_event();
                    at.busy_until = now + interrupt;
                    of.found = Some((at.busy_until, Woke::Event));
                }
                !is_raised
            }
            On::Time => of.goes_on_at() > now,
            On::Turn => {
                of.found = Some((now, Woke::Turn));
                if at.queue.give_way(now).is_some() {
                    at.busy_until = now + switch;
                }
                false
            }
        };
        if sleeps {
            of.is_asleep = true;
            match at.queue.sleep(now) {
                Some(_) => at.busy_until = now + switch,
                None => at.idle_since = now,
            }
        }
        of.is_over = of.failure.is_some() || wait.on == On::Done;
        if of.is_over {
            of.over_at = now;
        }
        of.is_over
    }

    /// What has become of all applications, until `now`.
    pub(super) fn ends(self, now: u64) -> impl Iterator<Item = TenantEnd> {
        let Self { tasks, cores, .. } = self;
        tasks.into_iter().filter_map(move |task| {
            let over_at = if task.is_over { task.over_at } else { now };
            let cpu = cores[task.core].queue.cpu(task.place, now);
            let is_done = task.is_over && task.failure.is_none();
            let app: Box<dyn Tenant> = task.app?;
            let wall = Span::from_ps(over_at.saturating_sub(task.began_at));
            Some(TenantEnd { app, is_done, failure: task.failure, cpu: Span::from_ps(cpu), wall })
        })
    }
}

impl Host {
    /// The time of an [`EventKind::Core`] has come.
    #[inline(never)]
    pub(crate) fn core_is_due(&mut self, links: &mut Links, flows: &mut Flows, core: u32) {
        let (core, now) = (core as usize, links.now());
        let Some(tenants) = &mut self.tenants else { return };
        if tenants.cores[core].scheduled <= now {
            tenants.cores[core].scheduled = u64::MAX;
        }
        loop {
            let Some(tenants) = &mut self.tenants else { return };
            let (at, due) = tenants.next_of(core);
            if at > now {
                return tenants.plan(links, self.port, core);
            }
            match due {
                Due::Nothing => return,
                Due::Wake(task) => tenants.wake(core, task, now),
                Due::Slice => tenants.expire(core, now),
                Due::Step(task) => self.step(links, flows, task, now),
            }
        }
    }

    /// Steps a task, which has its core at `now`.
    pub(super) fn step(&mut self, links: &mut Links, flows: &mut Flows, task: usize, now: u64) {
        let Some(tenants) = &mut self.tenants else { return };
        let of = &mut tenants.tasks[task];
        let woke = of.take_woke(now);
        let Some(mut app) = of.app.take() else { return };
        let (wait, end) = if of.failure.is_some() {
            (Wait::done(), now)
        } else {
            let mut seat = Seat::new(self, links, task, now);
            let wait = app.step(&mut seat, woke);
            (wait, seat.ends_at())
        };
        let Some(tenants) = &mut self.tenants else { return };
        tenants.tasks[task].app = Some(app);
        let is_over = tenants.settle(task, wait, end.max(now + STEP_LEAST));
        if is_over && !tenants.tasks[task].serves {
            flows.unfinished -= 1;
            flows.over_at = flows.over_at.max(tenants.tasks[task].over_at);
        }
    }

    /// What has become of its applications.
    pub(crate) fn into_tenants(self, now: u64) -> Vec<TenantEnd> {
        self.tenants.map_or_else(Vec::new, |tenants| tenants.ends(now).collect())
    }
}
