//! How applications run where time passes by itself: a thread each.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rdma::app::{App, Layout, On, Wait, Woke, Words};
use rdma::{Span, Time};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::meeting::meet;
use super::{Introduction, Seat};
use crate::Failure;
use crate::limits::{GLANCE, LOOKS_BEFORE_YIELD};
use crate::outcome::DeviceCounts;

/// That a world is over, and what wakes its applications then. Clones are of the same world.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    sleepers: Mutex<Vec<OwnedFd>>,
}

impl Stop {
    /// A descriptor that is readable once the world is over.
    ///
    /// # Errors
    /// The system has none left.
    pub fn descriptor(&self) -> Result<OwnedFd, Failure> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let made = made.and_then(|fd| Ok((rustix::io::fcntl_dupfd_cloexec(&fd, 0)?, fd)));
        let (ours, fd) =
            made.map_err(|error| Failure::new(format!("opening an eventfd: {error}")))?;
        let mut sleepers = self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        sleepers.push(ours);
        if self.is_over() {
            wake(fd.as_fd());
        }
        Ok(fd)
    }

    /// Ends the world.
    pub fn stop(&self) {
        let sleepers = self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.stopped.store(true, Ordering::Release);
        sleepers.iter().for_each(|sleeper| wake(sleeper.as_fd()));
    }

    /// Whether it has been ended.
    pub fn is_over(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }
}

/// Adds one to an eventfd. A full counter is as readable as any other.
pub(super) fn wake(eventfd: BorrowedFd<'_>) {
    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
}

/// How an application has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By itself.
    Done,
    /// With the world.
    Stopped,
    /// It could not go on.
    Failed(Failure),
}

/// An application and its seat.
#[derive(Debug)]
pub struct Player<A, S> {
    /// The application.
    pub app: A,
    /// Where it sits.
    pub seat: S,
    /// The core that its thread is bound to.
    pub core: Option<usize>,
}

/// What became of an application.
#[derive(Debug)]
pub struct Outcome<A> {
    /// The application.
    pub app: A,
    /// How it has ended.
    pub ended: Ended,
    /// The processor time of its thread.
    pub cpu: Span,
    /// From its first step to its last.
    pub wall: Span,
    /// What its device has counted, if no other application has had it.
    pub device: Option<DeviceCounts>,
}

/// Who looks on while a world runs, and may end it.
pub trait Bystander {
    /// Asked every now and then; `Some` ends the world.
    fn glance(&mut self) -> Option<Failure> {
        None
    }

    /// Introduces our applications to those of other processes. Returns all, in the order of the
    /// world, and which are ours.
    ///
    /// # Errors
    /// The others are not there, or say nothing sensible.
    fn introduce(
        &mut self,
        ours: Vec<Introduction>,
    ) -> Result<(Vec<Introduction>, core::ops::Range<usize>), Failure> {
        let count = ours.len();
        Ok((ours, 0..count))
    }

    /// All of ours are connected, and those that serve have had their first step; returns when that is so
    /// in other processes, too.
    ///
    /// # Errors
    /// The others are gone.
    fn begin(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// All of ours are done, but those that serve. Whether those of other processes are, too; if not
    /// it is asked again.
    ///
    /// # Errors
    /// The others are gone.
    fn may_end(&mut self) -> Result<bool, Failure> {
        Ok(true)
    }
}

impl Bystander for () {}

/// Steps an application until it is done, the world is over, or it cannot go on. `begun` is called after
/// its first step.
pub fn drive<A: App + ?Sized, S: Seat>(app: &mut A, seat: &mut S, begun: impl FnOnce()) -> Ended {
    let stop = seat.stop().clone();
    let mut woke = Woke::Start;
    let mut begun = Some(begun);
    loop {
        let wait = app.step(seat, woke);
        if let Some(begun) = begun.take() {
            begun();
        }
        if wait.on == On::Done {
            return Ended::Done;
        }
        if stop.is_over() {
            return Ended::Stopped;
        }
        match pass(seat, wait, &stop) {
            Ok(Some(why)) => woke = why,
            Ok(None) => return Ended::Stopped,
            Err(failure) => return Ended::Failed(failure),
        }
        if let Some(failure) = seat.fault() {
            return Ended::Failed(failure);
        }
    }
}

/// Waits. `None` if the world ends meanwhile.
fn pass<S: Seat>(seat: &mut S, wait: Wait, stop: &Stop) -> Result<Option<Woke>, Failure> {
    let Wait { on, until } = wait;
    loop {
        let found = match on {
            On::Poll(cq) => seat.look(cq).then_some(Woke::Completions),
            On::Event(cq) => seat.sleep_for_event(cq, until)?.then_some(Woke::Event),
            On::Words(words) => watch(seat, &words, stop, until).map(Woke::Word),
            On::Time => {
                seat.sleep(until);
                None
            }
            On::Turn => {
                thread::yield_now();
                Some(Woke::Turn)
            }
            On::Done => None,
        };
        if found.is_some() {
            return Ok(found);
        }
        if stop.is_over() {
            return Ok(None);
        }
        if until.is_some_and(|until| seat.now() >= until) {
            return Ok(Some(Woke::Deadline));
        }
    }
}

/// Watches words for a while.
fn watch<S: Seat>(seat: &mut S, words: &Words, stop: &Stop, until: Option<Time>) -> Option<u32> {
    for _ in 0..LOOKS_BEFORE_YIELD {
        for index in 0..words.count {
            let offset = words.offset + u64::from(index) * words.stride;
            if seat.word(words.region, offset) != words.idle {
                return Some(index);
            }
        }
        if stop.is_over() || until.is_some_and(|until| seat.now() >= until) {
            return None;
        }
        seat.progress();
    }
    thread::yield_now();
    None
}

/// Runs the applications of a world until it ends.
///
/// # Errors
/// They could not be connected. What happens afterwards is said in the outcomes, and why a world was
/// ended before its time in the second value.
pub fn run<A: App + Send, S: Seat>(
    mut players: Vec<Player<A, S>>,
    stop: &Stop,
    bystander: &mut impl Bystander,
) -> Result<(Vec<Outcome<A>>, Option<Failure>), Failure> {
    let ours = players.iter().map(|player| player.seat.introduction()).collect();
    let (all, own) = bystander.introduce(ours)?;
    let all: Vec<Arc<Introduction>> = all.into_iter().map(Arc::new).collect();
    let met = meet(&all, own)?;
    for (player, peers) in players.iter_mut().zip(met) {
        player.seat.connect(peers)?;
    }
    let serving: Vec<bool> = players.iter().map(|player| player.app.layout().serves).collect();
    let busy = serving.iter().filter(|serves| !**serves).count();
    let gate = Gate::default();
    let (tell, told) = mpsc::channel();
    let mut why = None;
    // The seats stay until all threads have ended: peers reach the memory of those that are done.
    let ended: Vec<(Ended, Span, Span)> = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(players.len());
        for (index, player) in players.iter_mut().enumerate() {
            let serves = serving[index];
            let mut end = End { tell: tell.clone(), index, has_failed: true, gate: Some(&gate) };
            let Player { app, seat, core } = player;
            let core = *core;
            let body = move || {
                if let Some(core) = core {
                    bind(core);
                }
                if !serves {
                    end.arrive();
                }
                let (began, cpu) = (seat.now(), thread_cpu());
                let ended = match seat.stop().is_over() {
                    true => Ended::Stopped,
                    false => drive(app, seat, || end.arrive()),
                };
                let (cpu, wall) = (thread_cpu().since(cpu), seat.now().since(began));
                end.has_failed = matches!(ended, Ended::Failed(_));
                (ended, cpu, wall)
            };
            let thread = thread::Builder::new().name(format!("app{index}"));
            threads.push(thread.spawn_scoped(scope, body));
        }
        drop(tell);
        why = match threads.iter().any(Result::is_err) {
            true => Some(too_many(threads.len())),
            false => gate.all_arrive(threads.len(), bystander).or_else(|| bystander.begin().err()),
        };
        if why.is_some() {
            stop.stop();
        }
        gate.open();
        if why.is_none() {
            why = attend(&told, &serving, busy, bystander);
        }
        stop.stop();
        let result = |thread: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => (Ended::Stopped, Span::ZERO, Span::ZERO),
        };
        threads.into_iter().map(result).collect()
    });
    let outcome = |(player, (ended, cpu, wall)): (Player<A, S>, (Ended, Span, Span))| {
        let device = player.seat.device_counts();
        let outcome = Outcome { app: player.app, ended, cpu, wall, device };
        (player.seat, outcome)
    };
    let (seats, outcomes): (Vec<S>, Vec<Outcome<A>>) =
        players.into_iter().zip(ended).map(outcome).unzip();
    drop(seats);
    Ok((outcomes, why))
}

/// Where applications wait until all may begin: those that serve after their first step, the others
/// before it.
#[derive(Debug, Default)]
struct Gate {
    /// How many have arrived, and whether it is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, (usize, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more; returns when it is open, if it is to wait.
    fn arrive(&self, wait: bool) {
        let mut state = self.lock();
        state.0 += 1;
        self.changed.notify_all();
        while wait && !state.1 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `count` have arrived, or the bystander has seen enough.
    fn all_arrive(&self, count: usize, bystander: &mut impl Bystander) -> Option<Failure> {
        let mut state = self.lock();
        while state.0 < count {
            let waited = self.changed.wait_timeout(state, GLANCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(failure) = bystander.glance() {
                return Some(failure);
            }
        }
        None
    }

    fn open(&self) {
        self.lock().1 = true;
        self.changed.notify_all();
    }
}

/// Says that an application has ended, in whatever way.
struct End<'a> {
    tell: mpsc::Sender<(usize, bool)>,
    index: usize,
    has_failed: bool,
    /// Until it has arrived there.
    gate: Option<&'a Gate>,
}

impl End<'_> {
    fn arrive(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.arrive(true);
        }
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.arrive(false);
        }
        // Nobody listens any more when the world is over.
        let _ = self.tell.send((self.index, self.has_failed));
    }
}

fn too_many(threads: usize) -> Failure {
    Failure::new(format!("the system does not allow {threads} threads"))
        .hint("have fewer threads, with more queue pairs each; or raise `ulimit -u`")
}

/// Waits until the world may end. Returns why it ends before its time.
fn attend(
    told: &mpsc::Receiver<(usize, bool)>,
    serving: &[bool],
    mut busy: usize,
    bystander: &mut impl Bystander,
) -> Option<Failure> {
    loop {
        if busy == 0 {
            match bystander.may_end() {
                Ok(true) => return None,
                Ok(false) => {}
                Err(failure) => return Some(failure),
            }
        }
        if let Some(failure) = bystander.glance() {
            return Some(failure);
        }
        match told.recv_timeout(GLANCE) {
            // What has failed may be waited for in vain by the others. Its outcome says why.
            Ok((_, true)) => return None,
            Ok((index, false)) => busy -= usize::from(!serving[index]),
            Err(RecvTimeoutError::Timeout) => {}
            // All have ended, with the other side still busy.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(GLANCE),
        }
    }
}

/// Binds this thread to a core. Whether there is one of that number.
pub(super) fn bind(core: usize) -> bool {
    let mut set = CpuSet::new();
    if core >= CpuSet::MAX_CPU {
        return false;
    }
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

/// The processor time of this thread, on a clock of its own.
pub(super) fn thread_cpu() -> Time {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let span = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32);
    Time::from_ns(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 1_000))
}

/// Whether a layout is one that a world can set up.
pub(super) fn check(layout: &Layout<'_>) -> Result<(), Failure> {
    let cqs = layout.cqs.len();
    let fits =
        |qp: &rdma::app::QpSpec| usize::from(qp.send_cq.0) < cqs && usize::from(qp.recv_cq.0) < cqs;
    match layout.qps.iter().position(|qp| !fits(qp)) {
        Some(index) => {
            Err(Failure::new(format!("queue pair {index} completes to a queue that is not there")))
        }
        None => Ok(()),
    }
}
