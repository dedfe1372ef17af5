//! Random days of a NIC, in pretended time, and what holds at every moment of them.
//!
//! The world has a progress thread, an application that posts, polls and sets timers, and threads that
//! stand in; some of these vanish. One does a step at a time, in any order: what is
//! done in one step here is done under one lock in the NIC. Who is awake may stay so for as long as
//! the processor is with others.

use proptest::prelude::*;
use transport::Flight;

use super::OnDuty::{StandIn, Thread};
use super::*;

/// One on duty, as the operating system sees it.
#[derive(Clone, Debug)]
struct Worker {
    parking: Parking,
    state: State,
    /// Whether it was woken by another since it last slept.
    is_woken: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Asleep(Sleep),
    /// It has slept, and goes on.
    Awake,
    /// It has taken so many packets.
    Looked(u64),
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Nothing, for so many us.
    Passes(u64),
    /// A packet, by a ring or by a socket.
    Arrives(bool),
    /// The application polls, or another thread looks for it.
    Polls(bool),
    Posts(u8),
    /// The application has the engine start a timer, to end in so many us.
    SetsTimer(u64),
    /// The application is told of a completion.
    IsTold,
    /// Whoever has the outbox leaves something behind.
    LeavesBehind,
    ThreadRuns,
    StandInComes(bool),
    /// The stand-in runs, and then leaves or does not.
    StandInRuns(bool),
    StandInIsCancelled,
    /// A signal's handler jumps out of the wait.
    StandInIsLost,
}

fn us() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..20_u64,
        4 => prop::sample::select(vec![40, 100, 490, 510, 990, 1_000, 1_010, 2_000, 10_000]),
        1 => prop::sample::select(vec![99_000, 101_000, 999_000, 1_000_000, 1_001_000, 1_101_000]),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => us().prop_map(Step::Passes),
        3 => any::<bool>().prop_map(Step::Arrives),
        5 => any::<bool>().prop_map(Step::Polls),
        2 => any::<u8>().prop_map(Step::Posts),
        2 => us().prop_map(Step::SetsTimer),
        1 => Just(Step::IsTold),
        1 => Just(Step::LeavesBehind),
        6 => Just(Step::ThreadRuns),
        2 => any::<bool>().prop_map(Step::StandInComes),
        5 => any::<bool>().prop_map(Step::StandInRuns),
        1 => Just(Step::StandInIsCancelled),
        1 => Just(Step::StandInIsLost),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Debug)]
struct World {
    now: Time,
    policy: Policy,
    thread: Worker,
    /// Those who have begun, by their turns. All but the last have been away for too long.
    stand_ins: Vec<(u64, Worker)>,
    /// Whether one was lost and the thread has not found out, and whether that one was woken.
    lost: Option<bool>,
    timer: Option<Time>,
    is_left_behind: bool,
    /// Packets that nobody has taken, and whether they lie in a ring.
    unread: u64,
    has_rings: bool,
}

impl Worker {
    fn new(parking: Parking) -> Self {
        Self { parking, state: State::Awake, is_woken: false }
    }

    /// When it wakes up by itself, if it sleeps.
    fn wakes_at(&self) -> Option<Time> {
        match self.state {
            State::Asleep(sleep) if !self.is_woken => Some(sleep.until),
            _ => None,
        }
    }

    fn watches(&self) -> bool {
        matches!(self.state, State::Asleep(Sleep { watch: Watch::Sockets, .. }))
    }

    /// Wakes it if it is time, it was told to, or `something` is where it watches.
    fn wake_if(&mut self, now: Time, something: bool) {
        if let State::Asleep(sleep) = self.state
            && (self.is_woken || sleep.until <= now || (something && self.watches()))
        {
            self.state = State::Awake;
        }
    }

    /// Another wakes it.
    fn is_woken(&mut self) {
        assert!(!self.is_woken, "woken twice");
        assert!(matches!(self.state, State::Asleep(_) | State::Awake), "it is at work");
        self.is_woken = true;
    }
}

impl World {
    fn new() -> Self {
        Self {
            now: Time::from_ns(5_000_000_000),
            policy: Policy::default(),
            thread: Worker::new(Parking::default()),
            stand_ins: Vec::new(),
            lost: None,
            timer: None,
            is_left_behind: false,
            unread: 0,
            has_rings: false,
        }
    }

    fn pending(&self, has_arrived: bool) -> Pending {
        let Self { timer: engine, is_left_behind, .. } = *self;
        Pending { engine, is_left_behind, has_arrived, ..Pending::default() }
    }

    fn wake(&mut self, who: OnDuty) {
        let last = self.stand_ins.last_mut();
        match (who, last, &mut self.lost) {
            (Thread, ..) => self.thread.is_woken(),
            (StandIn, _, Some(is_woken)) => assert!(!mem::replace(is_woken, true), "twice"),
            (StandIn, Some((_, worker)), None) => worker.is_woken(),
            (StandIn, None, None) => panic!("nobody stands in"),
        }
        self.settle();
    }

    /// Whoever has a reason to wake up does.
    fn settle(&mut self) {
        let (now, something) = (self.now, self.unread > 0);
        self.thread.wake_if(now, something);
        for (_, worker) in &mut self.stand_ins {
            worker.wake_if(now, something);
        }
    }

    /// The end of a call of the application.
    fn finish(&mut self) {
        self.policy.sends(self.now);
        self.is_left_behind = false;
        let pending = self.pending(false);
        if let Some(who) = self.policy.wakes(self.now, || pending) {
            self.wake(who);
        }
    }

    /// One on duty sends what the packets that it has taken have made ready, which starts a timer.
    fn gives(&mut self, packets: u64) {
        self.policy.sends(self.now);
        self.is_left_behind = false;
        if packets > 0 {
            self.timer = Some(self.now + Span::from_us(2_000));
        }
    }

    fn take(&mut self) -> u64 {
        self.policy.receives();
        self.timer = self.timer.filter(|at| *at > self.now);
        mem::take(&mut self.unread)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Passes(us) => self.now += Span::from_us(us),
            Step::Arrives(has_rings) => {
                self.has_rings = has_rings;
                self.unread += 1;
            }
            Step::Polls(is_served) => {
                let packets = if is_served { 0 } else { self.take() };
                self.policy.took(packets);
                let found = usize::from(packets > 0);
                let carrier = if self.has_rings { Carrier::Sender } else { Carrier::Kernel };
                let yields = self.policy.polled(self.now, found, is_served, carrier);
                assert!(!(yields && found > 0));
                self.finish();
            }
            Step::Posts(in_flight) => {
                let pressure = Pressure {
                    waiting: usize::from(in_flight / 4),
                    own: Flight {
                        requests: usize::from(in_flight % 8),
                        answer_due_since: self.timer.map(|_| self.now),
                        ..Flight::default()
                    },
                    ..Pressure::default()
                };
                match self.policy.posted(self.now, &pressure) {
                    Posted::Waits => assert!(self.timer.is_some(), "an answer or a timer comes"),
                    Posted::Leaves => self.finish(),
                    Posted::LooksFirst => {
                        let packets = self.take();
                        self.policy.took(packets);
                        self.finish();
                    }
                }
            }
            Step::SetsTimer(us) => {
                self.timer = Some(self.now + Span::from_us(us));
                self.finish();
            }
            Step::IsTold => {
                self.policy.told(self.now);
                self.finish();
            }
            Step::LeavesBehind => {
                self.finish();
                self.is_left_behind = true;
                let pending = self.pending(false);
                if let Some(who) = self.policy.wakes(self.now, || pending) {
                    self.wake(who);
                }
            }
            Step::ThreadRuns => self.thread_runs(),
            Step::StandInComes(another_waits) => {
                if let Some((number, parking)) = self.policy.stands_in(self.now, another_waits) {
                    assert!(!another_waits);
                    self.stand_ins.push((number, Worker::new(parking)));
                    self.lost = None;
                    self.stand_in_sleeps();
                }
            }
            Step::StandInRuns(leaves) => self.stand_ins_run(leaves),
            Step::StandInIsCancelled => {
                if self.sleeper_goes().is_some() {
                    self.stand_in_leaves(true);
                }
            }
            Step::StandInIsLost => {
                self.lost = self.sleeper_goes().map(|worker| worker.is_woken).or(self.lost);
            }
        }
        self.settle();
    }

    fn has(&self, number: u64) -> bool {
        self.policy.is_stand_in(number)
    }

    /// The present stand-in, if it sleeps, is there no more.
    fn sleeper_goes(&mut self) -> Option<Worker> {
        let policy = &self.policy;
        let sleeper = self.stand_ins.pop_if(|(number, worker)| {
            policy.is_stand_in(*number) && !matches!(worker.state, State::Looked(_))
        });
        sleeper.map(|(_, worker)| worker)
    }

    fn thread_runs(&mut self) {
        let mut thread = self.thread.clone();
        if thread.wakes_at().is_none() && !self.policy.is_held(self.now) {
            self.lost = None;
        }
        match thread.state {
            State::Asleep(_) => return,
            State::Awake => {
                thread.is_woken = false;
                let pending = self.pending(false);
                if let Some(sleep) = self.policy.relieves(self.now, || pending) {
                    thread.state = State::Asleep(sleep);
                } else if self.policy.parks(
                    Thread,
                    self.now,
                    &mut thread.parking,
                    self.is_left_behind,
                ) {
                    thread.state = State::Asleep(self.thread_rests(&thread.parking));
                } else {
                    let packets = self.take();
                    self.policy.found(self.now, packets);
                    thread.state = State::Looked(packets);
                }
            }
            State::Looked(packets) => {
                self.gives(packets);
                let more = self.policy.took_on_duty(self.now, &mut thread.parking, packets);
                assert!(!more || packets > 0);
                thread.state = State::Asleep(self.thread_rests(&thread.parking));
            }
        }
        self.thread = thread;
        if let State::Asleep(Sleep { wakes_other: true, .. }) = self.thread.state {
            self.wake(StandIn);
        }
    }

    fn thread_rests(&mut self, parking: &Parking) -> Sleep {
        let (now, pending) = (self.now, self.pending(self.unread > 0 && self.has_rings));
        let relieved = self.policy.relieves(now, || pending);
        relieved.unwrap_or_else(|| self.policy.sleeps(Thread, now, parking, pending))
    }

    fn stand_in_sleeps(&mut self) {
        let pending = self.pending(self.unread > 0 && self.has_rings);
        let Some((_, worker)) = self.stand_ins.last_mut() else { return };
        let sleep = self.policy.sleeps(StandIn, self.now, &worker.parking, pending);
        worker.state = State::Asleep(sleep);
        if sleep.wakes_other {
            self.wake(Thread);
        }
    }

    fn stand_in_leaves(&mut self, at_once: bool) {
        match self.policy.ends(self.now, at_once) {
            Some(Span::ZERO) => self.wake(Thread),
            Some(nap) => {
                let at = self.now + nap;
                let State::Asleep(sleep) = &mut self.thread.state else { return };
                assert!(at < sleep.until, "a timer that changes nothing");
                sleep.until = at;
            }
            None => {}
        }
    }

    fn stand_ins_run(&mut self, leaves: bool) {
        // Those who have been replaced find out.
        let policy = &self.policy;
        self.stand_ins.retain(|(number, worker)| {
            matches!(worker.state, State::Asleep(_)) || policy.is_stand_in(*number)
        });
        let Some((number, mut worker)) = self.stand_ins.pop() else { return };
        let goes_on = match worker.state {
            _ if !self.has(number) => true,
            State::Asleep(_) => true,
            State::Awake => {
                worker.is_woken = false;
                if self.policy.parks(StandIn, self.now, &mut worker.parking, self.is_left_behind) {
                    false
                } else {
                    worker.state = State::Looked(self.take());
                    true
                }
            }
            State::Looked(packets) => {
                self.gives(packets);
                self.policy.took_on_duty(self.now, &mut worker.parking, packets);
                false
            }
        };
        if goes_on || !leaves {
            self.stand_ins.push((number, worker));
        }
        match (goes_on, leaves) {
            (true, _) => {}
            (false, true) => self.stand_in_leaves(self.is_left_behind),
            (false, false) => self.stand_in_sleeps(),
        }
    }

    fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.stand_ins.iter().map(|(_, worker)| worker).chain([&self.thread])
    }

    fn is_anybody_awake(&self) -> bool {
        self.workers().any(|worker| worker.wakes_at().is_none())
    }

    fn earliest(&self) -> Option<Time> {
        self.workers().filter_map(Worker::wakes_at).min()
    }

    fn check(&self) {
        let Self { now, policy, .. } = self;
        // Who sleeps has said until when, and who has been woken is taken to be awake.
        match self.thread.state {
            State::Asleep(_) => assert_eq!(policy.thread.until, self.thread.wakes_at()),
            State::Looked(_) => assert_eq!(policy.thread.until, None),
            State::Awake => {}
        }
        if let Some((number, worker)) = self.stand_ins.last()
            && self.has(*number)
            && let State::Asleep(sleep) = worker.state
        {
            assert_eq!(policy.stand_in.until, worker.wakes_at());
            assert_eq!(policy.held_until, sleep.until + STAND_IN_GRACE);
        }
        if self.is_anybody_awake() {
            return;
        }
        // Nobody is awake: somebody watches, or will wake up soon, or when a lost one is missed.
        let earliest = self.earliest().expect("somebody wakes up");
        if self.lost.is_some() {
            assert!(earliest <= *now + SLEEP_MAX + STAND_IN_GRACE, "{self:?}");
            return;
        }
        let workers = self.stand_ins.iter().map(|(_, worker)| worker);
        let is_watched = workers.chain([&self.thread]).any(Worker::watches);
        let latest = *now + if is_watched { SLEEP_MAX } else { PARK_NAP };
        assert!(earliest <= latest, "nobody looks: {self:?}");
        let left_behind = self.is_left_behind.then_some(policy.sent_at);
        if let Some(deadline) = self.timer.into_iter().chain(left_behind).min() {
            let latest = (deadline + WAKE_SLACK).max(*now + PARK_NAP);
            assert!(earliest <= latest, "a deadline is missed: {self:?}");
        }
    }

    /// From now on the application does nothing, nobody leaves, and all who are awake run at once. How
    /// long it takes until a packet is taken that arrives now.
    fn found_after(mut self) -> Span {
        self.step(Step::Arrives(false));
        let arrived = self.now;
        let mut found = None;
        for _ in 0..200 {
            for _ in 0..4 {
                self.step(Step::ThreadRuns);
                self.step(Step::StandInRuns(false));
                self.check();
            }
            if self.unread == 0 {
                found = found.or(Some(self.now));
            }
            if let Some(found) = found.filter(|found| self.now >= *found + PARK_NAP * 2) {
                let parked = |worker: &Worker| match worker.state {
                    State::Asleep(sleep) => sleep.watch == Watch::Nothing,
                    _ => false,
                };
                assert!(!self.workers().any(parked), "parked for nobody: {self:?}");
                return found.since(arrived);
            }
            self.now = self.earliest().expect("somebody wakes up").max(self.now);
            self.settle();
        }
        panic!("nobody ever looks: {self:?}")
    }
}

/// How long a packet may lie at most if no thread is lost. A thread that leaves is expected back for a
/// nap. When it comes back, it may be parked for a nap more, for what the application took before.
const FOUND_MAX: Span = Span::from_ps(4 * PARK_NAP.as_ps());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn somebody_watches_or_wakes_up_in_time_and_nobody_is_woken_twice(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check();
        }
    }

    #[test]
    fn a_packet_is_found_whatever_happened_before(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        let patience = if world.lost.is_some() { SLEEP_MAX + STAND_IN_GRACE } else { Span::ZERO };
        let after = world.found_after();
        prop_assert!(after <= patience + FOUND_MAX, "{}", after);
    }

    #[test]
    fn busy_polling_ends(
        rounds in prop::collection::vec((us(), us(), 0..3_u64), 1..20), looks in 1..100_u64,
    ) {
        let mut busy_poll = BusyPoll::new(Time::ZERO, Time::ZERO);
        let (mut now, mut used, mut worked) = (Time::from_ns(1_000_000_000), Time::ZERO, Span::ZERO);
        for (waited, work, others) in rounds {
            let since = now + Span::from_us(waited);
            now = since + Span::from_us(work);
            worked = worked + now.since(since);
            used += now.since(since) * others;
            let begins = busy_poll.begins(since, now, || used);
            prop_assert!(busy_poll.until <= now + BUSY_POLL_MAX);
            prop_assert!(busy_poll.until <= now + worked * BUSY_POLL_FACTOR);
            let end = busy_poll.until;
            while begins && busy_poll.goes_on(now, || used) {
                prop_assert!(now < end);
                now += Span::from_us(looks);
            }
        }
    }
}
