//! The run queue of a core: who runs, for how long, and who takes the core from whom.
//!
//! ```text
//!   asleep ─ wake ─► waits ─ the least runtime ─► runs ─ slice over, or another is owed more ─► waits
//!      ▲                                            └─ sleep ─► asleep
//! ```
//!
//! As Linux's completely fair scheduler does it, with equal weights: of those that wait, the one that has
//! run least is next, for a slice of the latency that all share. Who wakes is placed no further
//! behind the others than a credit, and takes the core from one that is ahead of it by more than the
//! granularity. So a task that needs less than half of a core is never kept waiting.
//!
//! Times are in picoseconds; those that are passed never decrease.

use super::CpuConfig;

/// A task of a core: its place.
pub(crate) type TaskId = usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Asleep,
    Waits,
    Runs,
}

#[derive(Debug)]
struct Task {
    /// What it has run, as the queue counts it.
    runtime: u64,
    /// What it has run.
    cpu: u64,
    state: State,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RunQueue {
    latency: u64,
    slice_min: u64,
    granularity: u64,
    credit: u64,
    tasks: Vec<Task>,
    running: Option<TaskId>,
    /// Until when the running task's time is counted.
    counted: u64,
    /// Since when it runs.
    since: u64,
    /// What it had of its slice before that.
    had: u64,
    /// No task that waits or runs is behind it.
    least: u64,
    waiting: usize,
}

impl RunQueue {
    pub(crate) fn new(config: &CpuConfig) -> Self {
        Self {
            latency: config.latency.as_ps(),
            slice_min: config.slice_min.as_ps(),
            granularity: config.granularity.as_ps(),
            credit: config.credit.as_ps(),
            tasks: Vec::new(),
            running: None,
            counted: 0,
            since: 0,
            had: 0,
            least: 0,
            waiting: 0,
        }
    }

    /// One more task, asleep.
    pub(crate) fn add(&mut self) -> TaskId {
        self.tasks.push(Task { runtime: 0, cpu: 0, state: State::Asleep });
        self.tasks.len() - 1
    }

    pub(crate) fn running(&self) -> Option<TaskId> {
        self.running
    }

    /// The running task has had `ran` more than its time says, of its slice too.
    pub(crate) fn has_run(&mut self, ran: u64) {
        if let Some(running) = self.running {
            self.tasks[running].runtime += ran;
            self.had = ran;
        }
    }

    /// What a task has run until `now`.
    pub(crate) fn cpu(&self, task: TaskId, now: u64) -> u64 {
        let more = if self.running == Some(task) { now.saturating_sub(self.counted) } else { 0 };
        self.tasks[task].cpu + more
    }

    /// A task has something to do. Whether it has the core now.
    pub(crate) fn wake(&mut self, now: u64, task: TaskId) -> bool {
        self.count(now);
        if self.tasks[task].state != State::Asleep {
            return false;
        }
        let place = self.least.saturating_sub(self.credit);
        let at = &mut self.tasks[task];
        at.runtime = at.runtime.max(place);
        at.state = State::Waits;
        self.waiting += 1;
        let ahead = |running: TaskId| self.tasks[running].runtime;
        let takes = match self.running {
            None => true,
            Some(running) => ahead(running) > self.tasks[task].runtime + self.granularity,
        };
        if takes {
            self.put_on(now, task);
        }
        takes
    }

    /// A task that sleeps has the core now, whoever had it.
    pub(crate) fn seize(&mut self, now: u64, task: TaskId) {
        if !self.wake(now, task) && self.tasks[task].state == State::Waits {
            self.put_on(now, task);
        }
    }

    /// The running task sleeps. Returns who runs now.
    pub(crate) fn sleep(&mut self, now: u64) -> Option<TaskId> {
        self.count(now);
        if let Some(running) = self.running.take() {
            self.tasks[running].state = State::Asleep;
        }
        self.run_next(now, None)
    }

    /// The running task lets others go first. Returns who runs now, if it is another.
    pub(crate) fn give_way(&mut self, now: u64) -> Option<TaskId> {
        self.count(now);
        let running = self.running.filter(|_| self.waiting > 0)?;
        self.run_next(now, Some(running))
    }

    /// When the running task's slice is over, if another waits.
    pub(crate) fn slice_end(&self) -> Option<u64> {
        (self.waiting > 0 && self.running.is_some()).then(|| {
            let tasks = 1 + self.waiting as u64;
            let slice = (self.latency / tasks).max(self.slice_min);
            self.since + slice.saturating_sub(self.had)
        })
    }

    /// The slice is over. Returns who runs now, if it is another.
    pub(crate) fn expire(&mut self, now: u64) -> Option<TaskId> {
        self.count(now);
        let running = self.running.filter(|_| self.waiting > 0)?;
        let next = self.run_next(now, None);
        next.filter(|&next| next != running)
    }

    /// Gives the core to the one that has run least, other than `but` if there is another.
    fn run_next(&mut self, now: u64, but: Option<TaskId>) -> Option<TaskId> {
        let all = self.tasks.iter().enumerate();
        let able = all.filter(|(id, task)| task.state != State::Asleep && Some(*id) != but);
        let (next, _) = able.min_by_key(|(_, task)| task.runtime)?;
        self.put_on(now, next);
        Some(next)
    }

    fn put_on(&mut self, now: u64, task: TaskId) {
        if let Some(running) = self.running.replace(task) {
            self.tasks[running].state = State::Waits;
            self.waiting += 1;
        }
        if self.tasks[task].state == State::Waits {
            self.waiting -= 1;
        }
        self.tasks[task].state = State::Runs;
        (self.since, self.counted, self.had) = (now, now, 0);
    }

    /// Counts what the running task has run.
    fn count(&mut self, now: u64) {
        if let Some(running) = self.running {
            let ran = now.saturating_sub(self.counted);
            self.tasks[running].runtime += ran;
            self.tasks[running].cpu += ran;
        }
        self.counted = self.counted.max(now);
        let awake = self.tasks.iter().filter(|task| task.state != State::Asleep);
        if let Some(least) = awake.map(|task| task.runtime).min() {
            self.least = self.least.max(least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    fn queue(tasks: usize) -> RunQueue {
        let mut queue = RunQueue::new(&CpuConfig::default());
        for _ in 0..tasks {
            let task = queue.add();
            queue.wake(0, task);
        }
        queue
    }

    /// Lives until `end`. Returns who ran, and for how long each time.
    fn live(queue: &mut RunQueue, end: u64) -> Vec<(TaskId, u64)> {
        let (mut begun, mut ran) = (0, Vec::new());
        while let Some(at) = queue.slice_end().filter(|&at| at <= end) {
            let task = queue.running().unwrap();
            if queue.expire(at).is_some() {
                ran.push((task, at - begun));
                begun = at;
            }
        }
        ran
    }

    #[test]
    fn tasks_that_never_wait_have_slices_of_the_latency_in_turn() {
        for (tasks, slice) in [(2, 12), (3, 8), (8, 3), (12, 3)] {
            let mut queue = queue(tasks);
            let ran = live(&mut queue, 20 * tasks as u64 * slice * MS);
            assert!(ran.iter().all(|&(_, length)| length == slice * MS), "{tasks}: {ran:?}");
            let order: Vec<TaskId> = ran.iter().map(|(task, _)| *task).collect();
            assert!(order.chunks(tasks).all(|turn| turn == &order[..turn.len()]), "{order:?}");
            let shares: Vec<u64> =
                (0..tasks).map(|task| queue.cpu(task, queue.counted) / MS).collect();
            assert!(shares.iter().all(|share| share.abs_diff(shares[0]) <= slice), "{shares:?}");
        }
    }

    #[test]
    fn who_has_had_a_part_of_a_slice_has_the_rest() {
        let mut queue = queue(2);
        queue.has_run(5 * MS);
        let ran = live(&mut queue, 50 * MS);
        assert_eq!(ran, [(0, 7 * MS), (1, 12 * MS), (0, 12 * MS), (1, 12 * MS)]);
    }

    #[test]
    fn one_alone_has_no_end_of_its_slice() {
        assert_eq!(queue(1).slice_end(), None);
        assert_eq!(queue(0).running(), None);
    }

    #[test]
    fn who_needs_less_than_half_of_a_core_has_it_at_once() {
        // A hog, and a task that runs for 2 of every 10 ms.
        let mut queue = queue(1);
        let light = queue.add();
        let mut ran = 0;
        for round in 1..200 {
            let at = round * 10 * MS;
            assert!(queue.wake(at, light), "round {round}");
            queue.sleep(at + 2 * MS);
            ran += 2;
        }
        assert_eq!(queue.cpu(light, 2_000 * MS), ran * MS);
        assert_eq!(queue.cpu(0, 2_000 * MS), (2_000 - ran) * MS);
    }

    #[test]
    fn who_has_run_as_much_waits_for_the_slice() {
        // Each sleeps a moment only, so neither is owed the core.
        let mut queue = queue(2);
        assert_eq!(queue.running(), Some(0));
        assert_eq!(queue.sleep(5 * MS), Some(1));
        assert!(!queue.wake(6 * MS, 0), "1 has run 1 ms, 0 has run 5");
        assert_eq!(queue.slice_end(), Some(17 * MS));
        assert_eq!(queue.expire(17 * MS), Some(0));
    }

    #[test]
    fn who_gives_way_runs_again_after_the_other() {
        let (mut queue, mut alone) = (queue(2), queue(1));
        assert_eq!(queue.give_way(MS), Some(1));
        assert_eq!(queue.expire(13 * MS), Some(0));
        assert_eq!(alone.give_way(MS), None);
        assert_eq!(alone.running(), Some(0));
    }

    #[test]
    fn a_core_is_idle_when_all_sleep() {
        let mut queue = queue(1);
        assert_eq!(queue.sleep(3 * MS), None);
        assert_eq!((queue.running(), queue.cpu(0, 9 * MS)), (None, 3 * MS));
        assert!(queue.wake(9 * MS, 0));
    }
}
