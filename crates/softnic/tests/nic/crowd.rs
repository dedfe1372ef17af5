//! Many processes of one address, each connected to each other, of which some stop, get hardly any
//! processor or are killed. What the others send each other must not wait for those.
//!
//! ```text
//!   parent ── starts ──► members: connect ─► talk, all to all ─► calm ─► disturbed ─► calm ─► … ─► end
//!      │                    │                                     └── a WRITE at a time, each timed ──┘
//!      └─ signals, phases ──┴─ board: memory of all, with queue pairs, keys and results
//! ```
//!
//! The seed picks who is disturbed, and how. Calm phases are the control: the same processes and writes on
//! the same machine, in turn with those that are disturbed. `cargo xtask crowd` runs more of them, and then
//! holds the difference to a bound: its median, as a machine that others share may halt in any phase.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use core::time::Duration;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{env, thread};

use fastrand::Rng;
use rdma::{Completion, CompletionStatus, Key, Operation, QpType, Qpn};

use crate::support::{Host, Mapping, PAGE, options};

/// How many processes there are, if not the usual number. Then they have the machine for themselves.
const PROCESSES: &str = "FERROCE_CROWD_PROCESSES";
const SEED: &str = "FERROCE_CROWD_SEED";
/// Tells this test binary which member it is, and where the board is.
const MEMBER: &str = "FERROCE_CROWD_MEMBER";
const BOARD: &str = "FERROCE_CROWD_BOARD";

const PROCESSES_BY_DEFAULT: usize = 8;
/// Messages that each sends to each other before the phases, if not the usual number.
const ROUNDS: &str = "FERROCE_CROWD_ROUNDS";
const ROUNDS_BY_DEFAULT: usize = 5;
/// Between two timed writes of a member, for each member: together they leave the machine half idle.
const INTERVAL: Duration = Duration::from_micros(400);
/// A write is late after this.
const LATE: Duration = Duration::from_millis(20);
/// So many of a thousand writes may be late beyond what is late in calm.
const LATE_PER_THOUSAND_MAX: i64 = 10;
/// What is sent to one that is disturbed, and how much of it may wait: more than a ring holds.
const HEAVY: usize = 16 << 10;
const HEAVY_WAITING_MAX: usize = 24;
/// How often calm and disturbed phases follow each other.
const PAIRS: usize = 8;
/// How long all may take to come to a place.
const MEETING_MAX: Duration = Duration::from_secs(120);
/// A stopped process stops and runs for so long in turn.
const STOPPED: Duration = Duration::from_millis(300);
/// One that is throttled runs for one of so many ticks.
const TICK: Duration = Duration::from_millis(2);
const TICKS: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Well,
    Stopped,
    Throttled,
    Killed,
}

/// Who is disturbed: an eighth each is stopped and throttled, a sixteenth killed.
fn roles(processes: usize, seed: u64) -> Vec<Role> {
    let share = |part: usize| (processes / part).max(1);
    let mut roles = vec![Role::Well; processes];
    let disturbed =
        [(Role::Stopped, share(8)), (Role::Throttled, share(8)), (Role::Killed, share(16))];
    let each = disturbed.into_iter().flat_map(|(role, count)| core::iter::repeat_n(role, count));
    roles.iter_mut().zip(each).for_each(|(place, role)| *place = role);
    Rng::with_seed(seed).shuffle(&mut roles);
    roles
}

/// Phases by number: calm and disturbed in turn, then the end.
fn calm(pair: usize) -> u64 {
    2 * pair as u64
}

fn disturbed(pair: usize) -> u64 {
    calm(pair) + 1
}

const END: u64 = 2 * PAIRS as u64;

/// Latencies by powers of two of a microsecond; the last are those that are late.
#[derive(Clone, Default)]
struct Latencies([u64; Self::BUCKETS + 1]);

impl Latencies {
    const BUCKETS: usize = 28;

    fn bucket(latency: Duration) -> usize {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        (u64::BITS - us.leading_zeros()).min(Self::BUCKETS as u32 - 1) as usize
    }

    fn count(&self) -> u64 {
        self.0[..Self::BUCKETS].iter().sum()
    }

    fn late(&self) -> u64 {
        self.0[Self::BUCKETS]
    }

    /// How many of a thousand are late.
    fn late_per_thousand(&self) -> u64 {
        self.late() * 1_000 / self.count().max(1)
    }

    fn sum<'a>(of: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for some in of {
            sum.0.iter_mut().zip(some.0).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    /// Which latency so many of ten thousand are below.
    fn below(&self, of_ten_thousand: u64) -> Duration {
        let (mut left, mut bucket) = (self.count() * of_ten_thousand / 10_000, 0);
        while bucket + 1 < Self::BUCKETS && left > self.0[bucket] {
            left -= self.0[bucket];
            bucket += 1;
        }
        Duration::from_micros(1 << bucket)
    }
}

impl core::fmt::Display for Latencies {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [half, most, nearly, all] = [5_000, 9_900, 9_990, 10_000].map(|part| self.below(part));
        let (count, late) = (self.count(), self.late());
        write!(
            f,
            "{count} writes, 50 % below {half:?}, 99 % below {most:?}, 99.9 % below {nearly:?}, "
        )?;
        write!(f, "all below {all:?}; {late} above {LATE:?}")
    }
}

/// What those that are well have measured in one calm phase and in the disturbed one after it.
struct Pair {
    calm: Latencies,
    disturbed: Latencies,
}

impl Pair {
    /// How many more of a thousand are late than in calm.
    fn later(&self) -> i64 {
        let [calm, disturbed] = [&self.calm, &self.disturbed].map(Latencies::late_per_thousand);
        disturbed as i64 - calm as i64
    }
}

/// What the processes know of each other: memory that they share.
struct Board {
    memory: Mapping,
    processes: usize,
}

impl Board {
    /// Words that belong to all: how many have come to each place, and the phase.
    const COMMON: usize = 8;
    const PHASE: usize = 7;
    /// Words of each process: where its memory is, its key, how many of its writes have failed, and the
    /// latencies of all phases.
    const EACH: usize = 3 + END as usize * (Latencies::BUCKETS + 1);

    fn pages(processes: usize) -> usize {
        let words = Self::COMMON + processes * (Self::EACH + processes);
        (words * size_of::<u64>()).div_ceil(PAGE)
    }

    fn open(file: &File, processes: usize) -> Self {
        Self { memory: Mapping::of(file, Self::pages(processes)), processes }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.memory.length() / size_of::<u64>());
        let address = self.memory.address() as usize + at * size_of::<u64>();
        // SAFETY: inside the mapping, which lives as long as this, and aligned; all use it as an atomic.
        unsafe { AtomicU64::from_ptr(core::ptr::with_exposed_provenance_mut(address)) }
    }

    fn phase(&self) -> &AtomicU64 {
        self.word(Self::PHASE)
    }

    fn of(&self, process: usize, word: usize) -> &AtomicU64 {
        self.word(Self::COMMON + process * Self::EACH + word)
    }

    fn address(&self, process: usize) -> &AtomicU64 {
        self.of(process, 0)
    }

    fn key(&self, process: usize) -> &AtomicU64 {
        self.of(process, 1)
    }

    fn failed(&self, process: usize) -> &AtomicU64 {
        self.of(process, 2)
    }

    fn latency(&self, process: usize, phase: u64, bucket: usize) -> &AtomicU64 {
        self.of(process, 3 + phase as usize * (Latencies::BUCKETS + 1) + bucket)
    }

    /// The queue pair that one has for another.
    fn qpn(&self, of: usize, to: usize) -> &AtomicU64 {
        self.word(Self::COMMON + self.processes * (Self::EACH + of) + to)
    }

    /// Comes to a place.
    fn come(&self, place: usize) {
        self.word(place).fetch_add(1, SeqCst);
    }

    /// Waits until so many have come to a place.
    fn wait_for(&self, place: usize, members: usize) {
        let began = Instant::now();
        while self.word(place).load(SeqCst) < members as u64 {
            assert!(began.elapsed() < MEETING_MAX, "others do not come to place {place}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// What those that are well have measured in a phase.
    fn latencies(&self, roles: &[Role], phase: u64) -> Latencies {
        let mut sum = Latencies::default();
        for (process, _) in roles.iter().enumerate().filter(|(_, role)| **role == Role::Well) {
            for (bucket, count) in sum.0.iter_mut().enumerate() {
                *count += self.latency(process, phase, bucket).load(SeqCst);
            }
        }
        sum
    }
}

/// One of the processes.
struct Member {
    host: Host,
    board: Board,
    own: usize,
    /// By process; its own is none.
    qpns: Vec<Qpn>,
    /// Writes by process that have not ended.
    waiting: Vec<usize>,
}

impl Member {
    /// Connected to all others.
    fn connected(board: Board, own: usize) -> Self {
        let path = options().path;
        let address = format!("127.0.{}.1", 91 + u8::from(path == softnic::PathChoice::Udp));
        let host = Host::open_with(&address, QpType::Rc, 2 * HEAVY, &options());
        board.address(own).store(host.address(), SeqCst);
        board.key(own).store(host.key.0.into(), SeqCst);
        let qpns: Vec<Qpn> = (0..board.processes).map(|_| host.create_qp(QpType::Rc)).collect();
        for (other, qpn) in qpns.iter().enumerate() {
            board.qpn(own, other).store(qpn.value().into(), SeqCst);
        }
        board.come(0);
        board.wait_for(0, board.processes);
        for (other, qpn) in qpns.iter().enumerate().filter(|(other, _)| *other != own) {
            let peer = board.qpn(other, own).load(SeqCst);
            host.connect_qp(*qpn, host.gid().gid, Qpn::new(peer as u32));
        }
        let waiting = vec![0; qpns.len()];
        Self { host, board, own, qpns, waiting }
    }

    fn post(&mut self, to: usize, length: usize) {
        let remote_address = self.board.address(to).load(SeqCst);
        let r_key = Key(self.board.key(to).load(SeqCst) as u32);
        let write = Operation::Write { remote_address, r_key, immediate: None };
        self.host.post_on(self.qpns[to], to as u64, write, self.host.sge(HEAVY, length));
        self.waiting[to] += 1;
    }

    /// Sleeps until nothing that was sent to `peers` is waited for. Returns how many writes have failed.
    fn wait_for(&mut self, peers: &[usize]) -> u64 {
        let mut failed = 0;
        loop {
            self.host.arm();
            let mut some = [Completion::NOTHING; 64];
            let found = self.host.nic.poll_cq(self.host.cq, &mut some);
            for completion in &some[..found] {
                let from = completion.id as usize;
                self.waiting[from] -= 1;
                if peers.contains(&from) && completion.status != CompletionStatus::Success {
                    let stats = self.host.nic.with(|endpoint, _, _| *endpoint.stats());
                    let (own, counts) = (self.own, self.host.nic.counts());
                    eprintln!("crowd: {own} to {from}: {completion:?}\n{counts:?}\n{stats}");
                    failed += 1;
                }
            }
            if peers.iter().all(|peer| self.waiting[*peer] == 0) {
                return failed;
            }
            if found == 0 {
                self.host.stand_in().unwrap();
            }
        }
    }

    /// Writes to all others, and again when all of that has ended.
    fn talk(&mut self, rounds: usize) -> u64 {
        let others: Vec<usize> = (0..self.qpns.len()).filter(|other| *other != self.own).collect();
        let mut failed = 0;
        for _ in 0..rounds {
            others.iter().for_each(|other| self.post(*other, 8));
            failed += self.wait_for(&others);
        }
        failed
    }

    /// Writes to one that is well, time after time, and keeps something on the way to those that are not.
    fn go_on(&mut self, roles: &[Role], rng: &mut Rng) -> u64 {
        let is = |well: bool| move |(_, role): &(usize, &Role)| (**role == Role::Well) == well;
        let others = || roles.iter().enumerate().filter(|(other, _)| *other != self.own);
        let well: Vec<usize> = others().filter(is(true)).map(|(other, _)| other).collect();
        let disturbed: Vec<usize> = others().filter(is(false)).map(|(other, _)| other).collect();
        let mut failed = 0;
        loop {
            let phase = self.board.phase().load(SeqCst);
            if phase == END {
                return failed;
            }
            // Always the same, so that a few send much to each: more would keep the processors busy with it.
            let heavy = disturbed[self.own % disturbed.len()];
            let is_connected = self.host.state(self.qpns[heavy]) == rdma::QpState::Rts;
            if is_connected && self.waiting[heavy] < HEAVY_WAITING_MAX {
                self.post(heavy, HEAVY);
            }
            let peer = well[rng.usize(..well.len())];
            let began = Instant::now();
            self.post(peer, 8);
            failed += self.wait_for(&[peer]);
            let latency = began.elapsed();
            let count = |bucket| {
                self.board.latency(self.own, phase, bucket).fetch_add(1, SeqCst);
            };
            count(Latencies::bucket(latency));
            if latency > LATE {
                count(Latencies::BUCKETS);
            }
            thread::sleep(INTERVAL * self.qpns.len() as u32 * rng.u32(50..150) / 100);
        }
    }
}

/// Not a test: what a member runs.
#[test]
#[ignore = "run by the test below, as a process of its own"]
fn member() {
    let number = |name: &str| env::var(name).unwrap().parse::<usize>().unwrap();
    let (processes, own, seed) = (number(PROCESSES), number(MEMBER), number(SEED) as u64);
    let file = File::options().read(true).write(true).open(env::var(BOARD).unwrap()).unwrap();
    let mut member = Member::connected(Board::open(&file, processes), own);
    member.board.come(1);
    member.board.wait_for(1, processes);
    let failed = member.talk(number(ROUNDS));
    member.board.failed(own).fetch_add(failed, SeqCst);
    member.board.come(2);
    member.board.wait_for(2, processes);
    let mut rng = Rng::with_seed(seed ^ (own as u64) << 32);
    let roles = roles(processes, seed);
    let failed = member.go_on(&roles, &mut rng);
    member.board.failed(own).fetch_add(failed, SeqCst);
    // Somebody may wait for an answer of ours.
    member.board.come(3);
    member.board.wait_for(3, roles.iter().filter(|role| **role != Role::Killed).count());
}

/// The processes, which are killed with this.
struct Crowd {
    members: Vec<Child>,
    roles: Vec<Role>,
}

impl Crowd {
    fn start(path: &str, processes: usize, rounds: usize, seed: u64) -> Self {
        let start = |own: usize| {
            Command::new(env::current_exe().unwrap())
                .args(["crowd::member", "--exact", "--ignored", "--nocapture"])
                .env(PROCESSES, processes.to_string())
                .env(ROUNDS, rounds.to_string())
                .env(SEED, seed.to_string())
                .env(MEMBER, own.to_string())
                .env(BOARD, path)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let members = (0..processes).map(start).collect();
        Self { members, roles: roles(processes, seed) }
    }

    fn signal(&self, role: Role, which: impl Fn(usize) -> bool, signal: libc::c_int) {
        let members = self.members.iter().zip(&self.roles).enumerate();
        for (number, (member, _)) in members.filter(|(_, (_, its))| **its == role) {
            if which(number) {
                // SAFETY: a plain system call; the child has not been waited for.
                assert_eq!(unsafe { libc::kill(member.id() as libc::pid_t, signal) }, 0);
            }
        }
    }

    /// Disturbs those that are to be for so long. Some are killed in each pair of phases.
    fn disturb(&self, pair: usize, span: Duration) {
        let killed: Vec<usize> =
            (0..self.roles.len()).filter(|number| self.roles[*number] == Role::Killed).collect();
        self.signal(
            Role::Killed,
            |number| killed.iter().skip(pair).step_by(PAIRS).any(|its| *its == number),
            libc::SIGKILL,
        );
        let began = Instant::now();
        for tick in 0.. {
            let elapsed = began.elapsed();
            if elapsed >= span {
                break;
            }
            // One half stops while the other runs.
            let turn = pair + (elapsed.as_millis() / STOPPED.as_millis()) as usize;
            let stops = |number: usize| (number + turn).is_multiple_of(2);
            self.signal(Role::Stopped, stops, libc::SIGSTOP);
            self.signal(Role::Stopped, |number| !stops(number), libc::SIGCONT);
            // Not all at once.
            let runs = |number: usize| number % TICKS == tick % TICKS;
            self.signal(Role::Throttled, runs, libc::SIGCONT);
            self.signal(Role::Throttled, |number| !runs(number), libc::SIGSTOP);
            thread::sleep(TICK);
        }
        for role in [Role::Stopped, Role::Throttled] {
            self.signal(role, |_| true, libc::SIGCONT);
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

#[test]
fn what_processes_send_each_other_does_not_wait_for_those_that_stop() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let alone = number(PROCESSES);
    let processes = alone.map_or(PROCESSES_BY_DEFAULT, |number| number as usize);
    let rounds = number(ROUNDS).map_or(ROUNDS_BY_DEFAULT, |number| number as usize);
    let seed = number(SEED).unwrap_or_else(|| fastrand::u64(..1 << 32));
    let span = Duration::from_secs(if alone.is_some() { 5 } else { 1 }) / PAIRS as u32;
    let path = env::temp_dir().join(format!("ferroce-crowd-{}", std::process::id()));
    let path = path.to_str().unwrap();
    let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    file.set_len((Board::pages(processes) * PAGE) as u64).unwrap();
    let board = Board::open(&file, processes);

    let began = Instant::now();
    let mut crowd = Crowd::start(path, processes, rounds, seed);
    board.wait_for(0, processes);
    std::fs::remove_file(path).unwrap();
    board.wait_for(1, processes);
    let connected = began.elapsed();
    board.wait_for(2, processes);
    let talked = began.elapsed() - connected;
    for pair in 0..PAIRS {
        board.phase().store(calm(pair), SeqCst);
        thread::sleep(span);
        board.phase().store(disturbed(pair), SeqCst);
        crowd.disturb(pair, span);
    }
    board.phase().store(END, SeqCst);
    for (member, role) in crowd.members.iter_mut().zip(&crowd.roles) {
        let status = member.wait().unwrap();
        assert!(status.success() || *role == Role::Killed, "{role:?}: {status}");
    }
    let failed: u64 = (0..processes).map(|process| board.failed(process).load(SeqCst)).sum();
    let measured = |phase| board.latencies(&crowd.roles, phase);
    let pairs: Vec<Pair> = (0..PAIRS)
        .map(|pair| Pair { calm: measured(calm(pair)), disturbed: measured(disturbed(pair)) })
        .collect();
    let calm = Latencies::sum(pairs.iter().map(|pair| &pair.calm));
    let disturbed = Latencies::sum(pairs.iter().map(|pair| &pair.disturbed));
    let mut later: Vec<i64> = pairs.iter().map(Pair::later).collect();
    later.sort_unstable();
    println!(
        "crowd: {processes} processes, seed {seed}, {:?}: connected in {connected:.1?}, {rounds} rounds \
         in {talked:.1?}, {failed} writes failed\ncrowd: calm:      {calm}\ncrowd: disturbed: {disturbed}\n\
         crowd: later than in calm, of a thousand, in each of {PAIRS} pairs: {later:?}",
        options().path
    );
    assert_eq!(failed, 0);
    assert!(calm.count() > 0 && disturbed.count() > 0);
    // Beside other tests anybody may be late.
    assert!(alone.is_none() || later[PAIRS / 2] <= LATE_PER_THOUSAND_MAX);
}
