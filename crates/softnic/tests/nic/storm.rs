//! Storms over a path: two NICs, whose applications post, poll, doze and wait at random, and memory that
//! must be what was asked for, byte for byte.
//!
//! ```text
//!   seed ─► plan: queue pairs, and what each end asks of them ─► what memory must be in the end
//!             │
//!             ▼
//!   two applications, a thread each: post, post the receives, poll, doze, sleep until an event
//!             │
//!             ▼
//!   completions in order and good, memory as planned, every queue pair destroyed
//! ```
//!
//! The path is that of the environment (`FERROCE_LINK`). A seed decides what is done, but not when, so a
//! failed seed may pass the next time. `cargo xtask storm --link` runs many. The transport's own storms are
//! stricter, in pretended time; these try what they leave out: sockets, rings, threads and wake-ups.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Barrier;
use std::time::Instant;
use std::{env, thread};

use fastrand::Rng;
use rdma::completion::Attached;
use rdma::{
    Completion, CompletionOpcode, CompletionStatus, Operation, QpType, Qpn, RecvRequest, SendFlags,
    Sge, WorkRequest,
};
use softnic::Options;
use transport::{Event, Recovery};

use crate::support::{Host, LOSSY, PATIENCE, options, pattern};

/// How many storms there are, and the first of them (`cargo xtask storm --link`).
const SEEDS: &str = "FERROCE_STORM_SEEDS";
const FIRST: &str = "FERROCE_STORM_FIRST";
/// The default.
const SEEDS_BY_DEFAULT: u64 = 400;
/// Storms over the same two NICs, which are a camp.
const SEEDS_OF_A_CAMP: u64 = 40;
/// One camp in so many loses packets, each loss of which may take a timeout.
const FAULTY_CAMPS: u64 = 8;
const FAULTS: &str = "loss=0.01,reorder=0.02,duplicate=0.02,corrupt=0.01";

/// The source of every message, at the beginning of memory.
const SOURCE: usize = 256 << 10;
/// A word that is only added to.
const SUM: usize = SOURCE;
/// Where messages of the peer go, and what was asked of the peer.
const INBOX: usize = SOURCE + 64;
const INBOX_BYTES: usize = 2 << 20;
const RESULTS: usize = INBOX + INBOX_BYTES;
const RESULTS_BYTES: usize = 1 << 20;
const MEMORY: usize = RESULTS + RESULTS_BYTES;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Send,
    Write,
    WriteImmediate,
    Read,
    FetchAdd(u64),
    /// Of a word that is zero.
    Swap(u64),
    /// A WRITE beyond the peer's memory.
    Trespass,
}

/// Something that an application asks for.
#[derive(Clone, Copy, Debug)]
struct Task {
    what: What,
    qp: usize,
    /// In the source of the side that has the data.
    from: usize,
    length: usize,
    /// In the peer's inbox or in our own results: a place for this task alone.
    to: usize,
}

/// A receive that is due, for a message of so many bytes.
#[derive(Clone, Copy, Debug)]
struct Due {
    qp: usize,
    to: usize,
    length: usize,
    is_write: bool,
}

/// What an end does.
#[derive(Default, Debug)]
struct Part {
    tasks: Vec<Task>,
    receives: Vec<Due>,
}

struct Plan {
    parts: [Part; 2],
    /// Queue pairs of each end.
    qps: usize,
    /// The one that ends in an error.
    doomed: Option<usize>,
}

impl Plan {
    fn new(rng: &mut Rng, is_faulty: bool) -> Self {
        let qps = rng.usize(1..=3);
        let mut parts = [Part::default(), Part::default()];
        let mut inboxes = [0; 2];
        let mut results = [0; 2];
        for side in [0, 1] {
            for _ in 0..rng.usize(0..=24) {
                let qp = rng.usize(..qps);
                let what = match rng.u8(..16) {
                    0..4 => What::Send,
                    4..8 => What::Write,
                    8..10 => What::WriteImmediate,
                    10..13 => What::Read,
                    13..15 => What::FetchAdd(rng.u64(1..)),
                    _ => What::Swap(rng.u64(1..)),
                };
                let length = match what {
                    What::FetchAdd(_) | What::Swap(_) => 8,
                    // Short ones, those of a packet or so, and long ones.
                    _ => {
                        let longest = rng.choice([64, 5_000, 5_000, 150_000]).unwrap_or(0);
                        rng.usize(..=longest)
                    }
                };
                let from = rng.usize(..=SOURCE - length);
                let used = match what {
                    What::Read | What::FetchAdd(_) => &mut results[side],
                    _ => &mut inboxes[1 - side],
                };
                let place = *used;
                // Every place begins at a word, and has a gap behind it.
                *used += (length + 9).next_multiple_of(8);
                if inboxes[1 - side] > INBOX_BYTES - 16 || results[side] > RESULTS_BYTES / 2 {
                    break;
                }
                let base = match what {
                    What::Read | What::FetchAdd(_) => RESULTS,
                    _ => INBOX,
                };
                let task = Task { what, qp, from, length, to: base + place };
                parts[side].tasks.push(task);
                if matches!(what, What::Send | What::WriteImmediate) {
                    let is_write = what == What::WriteImmediate;
                    parts[1 - side].receives.push(Due { qp, to: task.to, length, is_write });
                }
            }
        }
        // The side that refuses a request enters the error state, and does not repeat its NAK if that is lost.
        let doomed = !is_faulty && rng.u8(..5) == 0;
        if doomed {
            // On a queue pair of its own, before another request, which ends with it.
            let to = INBOX + INBOX_BYTES - 16;
            let task = Task { what: What::Write, qp: qps, from: 0, length: 8, to };
            let trespass = Task { what: What::Trespass, ..task };
            parts[0].tasks.extend([task, trespass, Task { to: to + 8, ..task }]);
        }
        Self { parts, qps: qps + usize::from(doomed), doomed: doomed.then_some(qps) }
    }

    /// How a task ends.
    fn status(&self, side: usize, task: usize) -> CompletionStatus {
        let tasks = &self.parts[side].tasks;
        if Some(tasks[task].qp) != self.doomed {
            return CompletionStatus::Success;
        }
        match tasks.len() - task {
            3 => CompletionStatus::Success,
            2 => CompletionStatus::RemoteAccess,
            _ => CompletionStatus::Flushed,
        }
    }

    /// What the memory of an end must be, without the results and the sums of FETCH AND ADD.
    fn memory(&self, side: usize, sources: [&[u8]; 2]) -> Vec<u8> {
        let mut memory = vec![0; MEMORY];
        memory[..SOURCE].copy_from_slice(sources[side]);
        for owner in [0, 1] {
            for (index, task) in self.parts[owner].tasks.iter().enumerate() {
                if self.status(owner, index) != CompletionStatus::Success {
                    continue;
                }
                let is_here = match task.what {
                    What::Read => owner == side,
                    _ => owner != side,
                };
                let bytes = match task.what {
                    _ if !is_here => continue,
                    What::FetchAdd(_) | What::Trespass => continue,
                    What::Swap(swap) => &swap.to_ne_bytes()[..],
                    What::Read => &sources[1 - owner][task.from..][..task.length],
                    _ => &sources[owner][task.from..][..task.length],
                };
                memory[task.to..][..task.length].copy_from_slice(bytes);
            }
        }
        memory
    }
}

/// An end, and what its application knows.
struct Application<'a> {
    host: &'a Host,
    peer: &'a Host,
    qpns: &'a [Qpn],
    plan: &'a Plan,
    side: usize,
    rng: Rng,
    posted: usize,
    received: usize,
    /// What has not ended, by queue pair.
    sends: Vec<VecDeque<usize>>,
    receives: Vec<VecDeque<usize>>,
}

impl Application<'_> {
    fn part(&self) -> &Part {
        &self.plan.parts[self.side]
    }

    fn under_way(&self) -> usize {
        self.sends.iter().chain(&self.receives).map(VecDeque::len).sum()
    }

    fn run(&mut self) {
        let started = Instant::now();
        loop {
            let left = self.part().tasks.len() - self.posted;
            let due = self.part().receives.len() - self.received;
            if left + due + self.under_way() == 0 {
                return;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{left} to post, {due} to receive, {} under way: {:?}\n{}",
                self.under_way(),
                self.host.nic.counts(),
                self.host.nic.with(|endpoint, _, _| *endpoint.stats())
            );
            match self.rng.u8(..8) {
                0..2 if left > 0 => self.post(1),
                2 if left > 0 => self.post(left),
                3..5 if due > 0 => self.post_receive(),
                5 if self.rng.u8(..4) == 0 => {
                    thread::sleep(Duration::from_micros(self.rng.u64(..200)));
                }
                6 if left + due == 0 => self.wait(started),
                _ => {
                    self.poll();
                }
            }
        }
    }

    fn post(&mut self, count: usize) {
        for _ in 0..count {
            let id = self.posted;
            let Task { what, qp, from, length, to } = self.part().tasks[id];
            let at = |offset: usize| self.peer.address() + offset as u64;
            let (remote_address, r_key) = (at(to), self.peer.key);
            let immediate = Some((id as u32).to_be_bytes());
            let (operation, local) = match what {
                What::Send => (Operation::Send { immediate, address: None }, from),
                What::Write => (Operation::Write { remote_address, r_key, immediate: None }, from),
                What::WriteImmediate => {
                    (Operation::Write { remote_address, r_key, immediate }, from)
                }
                What::Trespass => {
                    let remote_address = at(MEMORY - 4);
                    (Operation::Write { remote_address, r_key, immediate: None }, from)
                }
                What::Read => (Operation::Read { remote_address: at(from), r_key }, to),
                What::FetchAdd(add) => {
                    (Operation::FetchAdd { remote_address: at(SUM), r_key, add }, to)
                }
                // The word that was there, a zero, goes to the end of the results.
                What::Swap(swap) => {
                    (Operation::CompareSwap { remote_address, r_key, compare: 0, swap }, MEMORY - 8)
                }
            };
            let pieces = self.pieces(local, length);
            let request = WorkRequest {
                id: id as u64,
                operation,
                flags: SendFlags::SIGNALED,
                sges: &pieces,
                inline: None,
            };
            let qpn = self.qpns[qp];
            self.host
                .nic
                .post(qpn, |endpoint, _, now| endpoint.post_send(now, qpn, &request))
                .unwrap();
            self.sends[qp].push_back(id);
            self.posted += 1;
        }
    }

    /// One or two pieces of memory.
    fn pieces(&mut self, at: usize, length: usize) -> Vec<Sge> {
        let first = if self.rng.bool() { length } else { self.rng.usize(..=length) };
        let rest = self.host.sge(at + first, length - first);
        let mut pieces = vec![self.host.sge(at, first)];
        pieces.extend((first < length).then_some(rest));
        pieces
    }

    fn post_receive(&mut self) {
        let id = self.received;
        let Due { qp, to, length, is_write } = self.part().receives[id];
        // What comes with a WRITE is elsewhere.
        let pieces = if is_write { Vec::new() } else { self.pieces(to, length) };
        let request = RecvRequest { id: id as u64, sges: &pieces };
        let qpn = self.qpns[qp];
        self.host.nic.with(|endpoint, _, _| endpoint.post_recv(qpn, &request)).unwrap();
        self.receives[qp].push_back(id);
        self.received += 1;
    }

    fn poll(&mut self) -> usize {
        let mut some = [Completion::NOTHING; 16];
        let found = self.host.nic.poll_cq(self.host.cq, &mut some);
        for completion in &some[..found] {
            self.completed(completion);
        }
        found
    }

    fn completed(&mut self, completion: &Completion) {
        let qp = self.qpns.iter().position(|&qpn| qpn == completion.qpn).unwrap();
        let id = completion.id as usize;
        let is_receive = matches!(
            completion.opcode,
            CompletionOpcode::Recv | CompletionOpcode::RecvWriteImmediate
        );
        if is_receive {
            assert_eq!(self.receives[qp].pop_front(), Some(id), "{completion:?}");
            assert_eq!(completion.status, CompletionStatus::Success, "{completion:?}");
            let due = self.part().receives[id];
            assert_eq!(completion.byte_len as usize, due.length);
            let Attached::Immediate(bytes) = completion.attached else { panic!("{completion:?}") };
            let task = self.plan.parts[1 - self.side].tasks[u32::from_be_bytes(bytes) as usize];
            assert_eq!((task.to, task.qp), (due.to, qp));
        } else {
            assert_eq!(self.sends[qp].pop_front(), Some(id), "{completion:?}");
            assert_eq!(completion.status, self.plan.status(self.side, id), "{completion:?}");
        }
    }

    /// Sleeps until there is an event, and leaves all work to the progress thread, or does its work.
    fn wait(&mut self, started: Instant) {
        self.host.arm();
        if self.poll() > 0 {
            return;
        }
        if self.rng.bool() {
            self.host.stand_in().unwrap();
        }
        while !self.host.was_told(Event::CompletionNotify(self.host.cq)) {
            assert!(
                started.elapsed() < PATIENCE,
                "{} under way, and no event: {:?}",
                self.under_way(),
                self.host.nic.counts()
            );
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Says which seed it was, if this thread panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if thread::panicking() {
            let link = env::var("FERROCE_LINK").unwrap_or_else(|_| "shm".to_owned());
            eprintln!("replay: cargo xtask storm --link {link} --seed {}", self.0);
        }
    }
}

/// Whether packets are lost in the camp of a storm.
fn is_faulty(seed: u64) -> bool {
    seed / SEEDS_OF_A_CAMP % FAULTY_CAMPS == FAULTY_CAMPS - 1
}

/// Two NICs for the storms from `first` on.
fn camp(first: u64) -> [Host; 2] {
    let number = first / SEEDS_OF_A_CAMP;
    let is_faulty = is_faulty(first);
    let faults = is_faulty.then(|| format!("{FAULTS},seed={number}").parse().unwrap());
    let recovery =
        if number.is_multiple_of(2) { Recovery::GoBackN } else { Recovery::SelectiveRepeat };
    let options = Options { faults, recovery, ..options() };
    ["127.0.88.1", "127.0.88.2"].map(|address| {
        let mut host = Host::open_with(address, QpType::Rc, MEMORY, &options);
        if is_faulty {
            host.timeout = LOSSY;
        }
        host
    })
}

fn storm(seed: u64, hosts: &mut [Host; 2]) {
    let _named = Named(seed);
    let mut rng = Rng::with_seed(seed);
    let plan = Plan::new(&mut rng, is_faulty(seed));
    for host in &mut *hosts {
        pattern(&mut host.memory[..SOURCE], rng.u64(..));
        host.memory[SOURCE..].fill(0);
    }
    let [a, b] = &*hosts;
    let sources = [a, b].map(|host| host.memory[..SOURCE].to_vec());
    let qpns =
        [a, b].map(|host| (0..plan.qps).map(|_| host.create_qp(QpType::Rc)).collect::<Vec<_>>());
    for (&ours, &theirs) in qpns[0].iter().zip(&qpns[1]) {
        a.connect_qp(ours, b.gid().gid, theirs);
        b.connect_qp(theirs, a.gid().gid, ours);
    }
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for (side, (host, peer)) in [(a, b), (b, a)].into_iter().enumerate() {
            let mut application = Application {
                host,
                peer,
                qpns: &qpns[side],
                plan: &plan,
                side,
                rng: rng.fork(),
                posted: 0,
                received: 0,
                sends: vec![VecDeque::new(); plan.qps],
                receives: vec![VecDeque::new(); plan.qps],
            };
            let barrier = &barrier;
            scope.spawn(move || {
                let _named = Named(seed);
                barrier.wait();
                application.run();
            });
        }
    });
    for (side, host) in [a, b].into_iter().enumerate() {
        for &qpn in &qpns[side] {
            host.nic.with(|endpoint, _, _| endpoint.destroy_qp(qpn)).unwrap();
        }
        let sources = [&sources[0][..], &sources[1][..]];
        let mut expected = plan.memory(side, sources);
        let word = |host: &Host, at| u64::from_ne_bytes(host.memory[at..][..8].try_into().unwrap());
        // Each addition found what others had added, in some order that leaves out nothing.
        let peer = [b, a][side];
        let adds = plan.parts[1 - side].tasks.iter().filter_map(|task| match task.what {
            What::FetchAdd(add) => Some((word(peer, task.to), add)),
            _ => None,
        });
        let mut adds: BTreeMap<u64, u64> = adds.collect();
        let mut sum = 0_u64;
        while let Some(add) = adds.remove(&sum) {
            sum = sum.wrapping_add(add);
        }
        assert!(adds.is_empty(), "found by nobody else: {adds:x?}");
        assert_eq!(word(host, SUM), sum);
        for at in plan.parts[side].tasks.iter().filter_map(|task| match task.what {
            What::FetchAdd(_) => Some(task.to),
            _ => None,
        }) {
            expected[at..at + 8].copy_from_slice(&host.memory[at..at + 8]);
        }
        expected[SUM..SUM + 8].copy_from_slice(&sum.to_ne_bytes());
        if let Some(at) = (0..MEMORY).find(|&at| host.memory[at] != expected[at]) {
            panic!("byte {at:#x} of side {side} is not what was asked for: {:?}", plan.parts);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

#[test]
fn memory_is_what_was_asked_for_after_any_storm() {
    let first = number(FIRST).unwrap_or(0);
    let end = first + number(SEEDS).unwrap_or(SEEDS_BY_DEFAULT);
    let mut seed = first;
    while seed < end {
        let mut hosts = camp(seed);
        let next = (seed + 1).next_multiple_of(SEEDS_OF_A_CAMP).min(end);
        for seed in seed..next {
            storm(seed, &mut hosts);
        }
        seed = next;
    }
}
