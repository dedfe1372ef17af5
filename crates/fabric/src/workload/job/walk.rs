//! How far a rank has come with its part of a schedule.
//!
//! ```text
//!   begin ─► operations that wait for nothing start ─► todo: post, compute
//!   arrived, sent, computed ─► an operation is complete ─► its followers start ─► ...
//!   all are complete ─► a repetition is over ─► todo: pause, after which the next one begins
//! ```
//!
//! No clock, no network: what happens is told, and what is to be done is asked for. A rank goes on to its
//! next repetition when its own part is complete, whatever the others do. So a message may come before
//! its repetition has begun, and counts then. Messages of one connection arrive in order, so it is known
//! which repetition each belongs to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rdma::{Span, Time};

use super::schedule::{Op, Schedule};

/// What a rank wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Todo {
    /// A message is to be posted to a connection.
    Post { op: u32, connection: u32 },
    /// [`Walk::computed`] is to be called after so long.
    Compute { core: u8, time: Span },
    /// [`Walk::begin`] is to be called after so long.
    Pause(Span),
    /// All repetitions are over.
    Over,
}

/// A repetition of a rank that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repetition {
    pub(crate) begun: Time,
    pub(crate) over: Time,
    /// The operation that took time and was complete last; none of a rank that has none.
    pub(crate) last: Option<u32>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    schedule: Arc<Schedule>,
    rank: u32,
    /// The first operation of the rank.
    first: u32,
    repeat: u32,
    pause: Span,
    /// By operation: for how many others it still waits, with [`ARRIVED`].
    waits: Vec<u32>,
    /// Operations that are not complete.
    left: usize,
    /// When the present repetition began, if one has.
    begun: Option<Time>,
    /// Of it the operation that took time and was complete last.
    last: Option<u32>,
    over: Vec<Repetition>,
    /// Messages that are ahead of their repetition, by the operation that takes them.
    ahead: BTreeMap<u32, u32>,
    /// By core: computations, of which the first has begun.
    cores: BTreeMap<u8, VecDeque<u32>>,
    /// May start.
    ready: VecDeque<u32>,
    todo: VecDeque<Todo>,
}

/// The message of a receive is there.
const ARRIVED: u32 = 1 << 31;

impl Walk {
    /// The part of `rank`, `repeat` times, with a pause in between.
    pub(crate) fn new(schedule: &Arc<Schedule>, rank: u32, repeat: u32, pause: Span) -> Self {
        Self {
            schedule: Arc::clone(schedule),
            rank,
            first: schedule.ops_of(rank).start,
            repeat,
            pause,
            waits: Vec::new(),
            left: 0,
            begun: None,
            last: None,
            over: Vec::new(),
            ahead: BTreeMap::new(),
            cores: BTreeMap::new(),
            ready: VecDeque::new(),
            todo: VecDeque::new(),
        }
    }

    /// The repetitions that are over.
    pub(crate) fn repetitions(&self) -> &[Repetition] {
        &self.over
    }

    /// What an operation of the schedule is.
    pub(crate) fn op(&self, op: u32) -> Op {
        self.schedule.op(op)
    }

    /// What is to be done next.
    pub(crate) fn todo(&mut self) -> Option<Todo> {
        self.todo.pop_front()
    }

    /// The next repetition begins.
    pub(crate) fn begin(&mut self, now: Time) {
        debug_assert!(self.begun.is_none());
        self.begun = Some(now);
        self.last = None;
        self.waits.clear();
        self.waits.extend_from_slice(self.schedule.waits_of(self.rank));
        self.left = self.waits.len();
        if self.left == 0 {
            return self.end(now);
        }
        let (waits, first) = (&mut self.waits, self.first);
        self.ahead.retain(|op, count| {
            waits[(op - first) as usize] |= ARRIVED;
            *count -= 1;
            *count > 0
        });
        let waits = (first..).zip(&self.waits);
        self.ready.extend(waits.filter(|(_, waits)| **waits & !ARRIVED == 0).map(|(op, _)| op));
        self.go_on(now);
    }

    /// The message that `op` receives has arrived.
    pub(crate) fn arrived(&mut self, op: u32, now: Time) {
        let waits = self.waits.get_mut((op - self.first) as usize);
        match waits.filter(|waits| self.begun.is_some() && **waits & ARRIVED == 0) {
            Some(waits) => {
                *waits |= ARRIVED;
                if *waits == ARRIVED {
                    self.complete(op, now);
                    self.go_on(now);
                }
            }
            None => *self.ahead.entry(op).or_default() += 1,
        }
    }

    /// The message of `op` is acknowledged.
    pub(crate) fn sent(&mut self, op: u32, now: Time) {
        self.complete(op, now);
        self.go_on(now);
    }

    /// The first computation of a core is over.
    pub(crate) fn computed(&mut self, core: u8, now: Time) {
        let Some(queue) = self.cores.get_mut(&core) else { return };
        let Some(op) = queue.pop_front() else { return };
        let next = queue.front().copied();
        self.complete(op, now);
        if let Some(next) = next {
            self.compute(next, core);
        }
        self.go_on(now);
    }

    fn compute(&mut self, op: u32, core: u8) {
        self.todo.push_back(Todo::Compute { core, time: self.schedule.op(op).time() });
        self.passed(op, true);
    }

    /// Starts what can start.
    fn go_on(&mut self, now: Time) {
        while let Some(op) = self.ready.pop_front() {
            match self.schedule.op(op) {
                Op::Send { connection, .. } => {
                    self.todo.push_back(Todo::Post { op, connection });
                    self.passed(op, true);
                }
                Op::Receive { .. } => {
                    self.passed(op, true);
                    if self.waits[(op - self.first) as usize] & ARRIVED != 0 {
                        self.complete(op, now);
                    }
                }
                calc @ Op::Calc { .. } if calc.time() == Span::ZERO => {
                    self.passed(op, true);
                    self.ended(op, now);
                }
                Op::Calc { core, .. } => {
                    let queue = self.cores.entry(core).or_default();
                    queue.push_back(op);
                    if queue.len() == 1 {
                        self.compute(op, core);
                    }
                }
            }
        }
    }

    /// Tells those that wait for the start of `op`, or for its end.
    fn passed(&mut self, op: u32, at_start: bool) {
        for follower in self.schedule.followers(op, at_start) {
            let waits = &mut self.waits[(follower - self.first) as usize];
            *waits -= 1;
            if *waits & !ARRIVED == 0 {
                self.ready.push_back(follower);
            }
        }
    }

    /// An operation that took time is complete.
    fn complete(&mut self, op: u32, now: Time) {
        self.last = Some(op);
        self.ended(op, now);
    }

    fn ended(&mut self, op: u32, now: Time) {
        self.passed(op, false);
        self.left -= 1;
        if self.left == 0 {
            self.end(now);
        }
    }

    fn end(&mut self, over: Time) {
        let begun = self.begun.take().unwrap_or(over);
        let last = self.last;
        self.over.push(Repetition { begun, over, last });
        self.todo.push_back(match self.over.len() < self.repeat as usize {
            true => Todo::Pause(self.pause),
            false => Todo::Over,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Plan;
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn todos(walk: &mut Walk) -> Vec<Todo> {
        core::iter::from_fn(|| walk.todo()).collect()
    }

    fn compute(core: u8, us: u64) -> Todo {
        Todo::Compute { core, time: Span::from_us(us) }
    }

    #[test]
    fn computations_of_one_core_follow_each_other_and_those_of_two_do_not() {
        let mut plan = Plan::new(1);
        let first = plan.calc(0, 0, Span::from_us(1));
        plan.calc(0, 0, Span::from_us(2));
        plan.calc(0, 1, Span::from_us(3));
        let last = plan.calc(0, 0, Span::from_us(4));
        plan.requires_start(last, first);
        let mut walk = Walk::new(&plan.finish().unwrap(), 0, 1, Span::ZERO);
        walk.begin(at(0));
        assert_eq!(todos(&mut walk), [compute(0, 1), compute(1, 3)]);
        walk.computed(0, at(1));
        assert_eq!(todos(&mut walk), [compute(0, 2)]);
        walk.computed(0, at(3));
        assert_eq!(todos(&mut walk), [compute(0, 4)]);
        walk.computed(1, at(3));
        walk.computed(0, at(7));
        assert_eq!(todos(&mut walk), [Todo::Over]);
        assert_eq!(walk.repetitions()[0].over, at(7));
    }

    #[test]
    fn a_message_counts_in_its_own_repetition() {
        let mut plan = Plan::new(2);
        let (_, receive) = plan.message((0, 1), 0, 10);
        let then = plan.calc(1, 0, Span::from_us(1));
        plan.requires(then, receive);
        let schedule = plan.finish().unwrap();
        let receive = schedule.ops_of(1).start;
        let mut walk = Walk::new(&schedule, 1, 3, Span::from_us(5));
        // Before the first has begun, and two ahead.
        walk.arrived(receive, at(0));
        walk.begin(at(1));
        assert_eq!(todos(&mut walk), [compute(0, 1)]);
        walk.arrived(receive, at(1));
        walk.computed(0, at(2));
        walk.arrived(receive, at(2));
        assert_eq!(todos(&mut walk), [Todo::Pause(Span::from_us(5))]);
        for begun in [7, 13] {
            walk.begin(at(begun));
            assert_eq!(todos(&mut walk), [compute(0, 1)]);
            walk.computed(0, at(begun + 1));
            assert_eq!(todos(&mut walk).len(), 1);
        }
        assert_eq!(walk.repetitions().len(), 3);
        assert_eq!(walk.repetitions()[2].begun, at(13));
    }

    #[test]
    fn what_takes_no_time_is_not_what_was_complete_last() {
        let mut plan = Plan::new(2);
        let (_, receive) = plan.message((0, 1), 0, 10);
        let all = plan.calc(1, 0, Span::ZERO);
        plan.requires(all, receive);
        let schedule = plan.finish().unwrap();
        let receive = schedule.ops_of(1).start;
        let mut walk = Walk::new(&schedule, 1, 1, Span::ZERO);
        walk.begin(at(0));
        walk.arrived(receive, at(2));
        assert_eq!(todos(&mut walk), [Todo::Over]);
        let over = Repetition { begun: at(0), over: at(2), last: Some(receive) };
        assert_eq!(walk.repetitions(), [over]);
    }
}
