//! Applications of chance.

use fastrand::Rng;
use rdma::app::{
    App, Channel, Cq, CqSpec, Layout, Qp, QpSpec, Region, RegionSpec, Verbs, Wait, Woke, Words,
    poll_or_arm,
};
use rdma::completion::Attached;
use rdma::{
    Access, Completion, CompletionStatus, Operation, QpType, RecvRequest, SendFlags, Sge,
    WorkRequest,
};

/// Where sends come from and answers go to; receives go behind them.
const OWN: Region = Region(0);
/// What the peer may reach.
const SHARED: Region = Region(1);
/// Words that the peer sets: that it is ready, and that it has finished.
const FLAGS: Region = Region(2);
/// Bytes of the shared region that belong to one queue pair of the peer.
const SHARE: u64 = 1 << 15;
/// As much of each share holds words for atomics, and nothing else.
const WORDS: u64 = 64;
/// From there on a share is read and never written: a WRITE may overtake a READ that was posted before it
/// (IBTA vol 1, 10.8.3.3).
const READ_ONLY: u64 = SHARE / 2;
const MESSAGE_MAX: u64 = 9000;
/// Before a datagram: what arrives with it of its headers.
const GRH: u64 = 40;
/// A datagram of any MTU.
const DATAGRAM_MAX: u64 = 1024;
const INLINE: u32 = 128;
const DEPTH: u32 = 64;
/// Requests that an application has outstanding at most.
const WINDOW: usize = 24;

/// A completion, as far as it is the same everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) qp: u16,
    id: u64,
    status: CompletionStatus,
    pub(crate) opcode: u8,
    byte_len: u32,
    attached: Attached,
}

impl Record {
    pub(crate) fn is_receive(&self) -> bool {
        self.opcode >= 128
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Send(Option<[u8; 4]>),
    Write(Option<[u8; 4]>),
    Read,
    CompareSwap(u64, u64),
    FetchAdd(u64),
}

/// A request: of the own region at `at`, of the peer's share at `there`.
#[derive(Clone, Copy, Debug)]
struct Post {
    qp: u16,
    verb: Verb,
    at: u64,
    there: u64,
    length: u64,
    signaled: bool,
    inline: bool,
    fence: bool,
    pieces: usize,
}

impl Post {
    fn arrives(&self) -> bool {
        matches!(self.verb, Verb::Send(_) | Verb::Write(Some(_)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Begin,
    Meet,
    Work,
    Part,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Program {
    kinds: Vec<QpType>,
    regions: Vec<RegionSpec>,
    cqs: Vec<CqSpec>,
    qps: Vec<QpSpec>,
    posts: Vec<Post>,
    /// Lengths of what arrives at each queue pair.
    arrivals: Vec<Vec<u64>>,
    bytes: Vec<u8>,
    choices: Rng,
    phase: Phase,
    next: usize,
    /// By queue pair, the requests that are under way; those without a signal end with the next that has one.
    under_way: Vec<Vec<bool>>,
    to_come: usize,
    /// What it has seen.
    pub(crate) records: Vec<Record>,
    /// All of its memory at the end.
    pub(crate) memory: Vec<Vec<u8>>,
}

impl Program {
    /// Two that belong together.
    pub(crate) fn pair(seed: u64) -> [Self; 2] {
        let mut random = Rng::with_seed(seed);
        let others = [QpType::Rc, QpType::Uc, QpType::Ud];
        let more = random.usize(0..4);
        // The first is reliable: flags go by it.
        let mut kinds = vec![QpType::Rc];
        kinds.extend((0..more).map(|_| *random.choice(&others).unwrap()));
        let mut posts = [0, 1].map(|_| posts(&kinds, &mut random));
        let arrivals = posts.each_ref().map(|posts| arrivals(posts, kinds.len()));
        let queues = random.u16(1..3);
        let [second, first] = arrivals;
        let [mine, yours] = posts.each_mut().map(core::mem::take);
        [(mine, first), (yours, second)]
            .map(|(posts, arrivals)| Self::new(&kinds, queues, posts, arrivals, &mut random))
    }

    fn new(
        kinds: &[QpType],
        queues: u16,
        posts: Vec<Post>,
        arrivals: Vec<Vec<u64>>,
        random: &mut Rng,
    ) -> Self {
        let sent: u64 = posts.iter().map(|post| post.at + post.length).max().unwrap_or(0);
        let received: u64 = arrivals.iter().flatten().map(|length| GRH + length).sum();
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let all = rights | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let share = SHARE * kinds.len() as u64;
        let regions = [(sent + received + 8, Access::LOCAL_WRITE), (share, all), (64, all)]
            .map(|(length, access)| RegionSpec { length, access })
            .to_vec();
        let qps = kinds
            .iter()
            .enumerate()
            .map(|(index, &kind)| QpSpec {
                recv_cq: Cq(index as u16 % queues),
                send_depth: DEPTH,
                recv_depth: arrivals[index].len().max(1) as u32,
                sges: 3,
                inline_bytes: INLINE,
                reads: 4,
                ..QpSpec::new(kind, Channel(index as u32), Cq(0))
            })
            .collect();
        let to_come = arrivals.iter().map(Vec::len).sum();
        Self {
            kinds: kinds.to_vec(),
            regions,
            cqs: vec![CqSpec { depth: 4096 }; queues.into()],
            qps,
            posts,
            arrivals,
            bytes: (0..sent).map(|_| random.u8(..)).collect(),
            choices: random.fork(),
            phase: Phase::Begin,
            next: 0,
            under_way: vec![Vec::new(); kinds.len()],
            to_come,
            records: Vec::new(),
            memory: Vec::new(),
        }
    }

    fn begin(&mut self, verbs: &mut dyn Verbs) {
        verbs.store(OWN, 0, &self.bytes);
        for qp in 0..self.kinds.len() as u64 {
            let filling: Vec<u8> = (READ_ONLY..SHARE).map(|at| (qp * 101 + at * 7) as u8).collect();
            verbs.store(SHARED, SHARE * qp + READ_ONLY, &filling);
        }
        let own = verbs.region(OWN);
        let mut at = self.bytes.len() as u64;
        for (qp, lengths) in self.arrivals.iter().enumerate() {
            let sges: Vec<[Sge; 1]> = lengths
                .iter()
                .map(|length| {
                    let room = GRH + length;
                    at += room;
                    [own.sge(at - room, room as u32)]
                })
                .collect();
            let requests: Vec<RecvRequest<'_>> =
                (0..).zip(&sges).map(|(id, sges)| RecvRequest { id, sges }).collect();
            verbs.post_recv(Qp(qp as u16), &requests).unwrap();
        }
        self.flag(verbs, 0);
    }

    /// Addresses are not the same in every world.
    fn forget_headers(&mut self) {
        let mut at = self.bytes.len();
        for (lengths, kind) in self.arrivals.iter().zip(&self.kinds) {
            for length in lengths {
                if *kind == QpType::Ud {
                    self.memory[0][at..at + GRH as usize].fill(0);
                }
                at += (GRH + length) as usize;
            }
        }
    }

    /// Sets a flag of the peer.
    fn flag(&mut self, verbs: &mut dyn Verbs, index: u64) {
        let there = verbs.remote(Qp(0), 0, FLAGS).unwrap();
        let request = WorkRequest {
            id: u64::MAX,
            operation: Operation::Write {
                remote_address: there.address + 8 * index,
                r_key: there.r_key,
                immediate: None,
            },
            flags: SendFlags::INLINE,
            sges: &[],
            inline: Some(&1_u64.to_ne_bytes()),
        };
        verbs.post_send(Qp(0), &[request]).unwrap();
    }

    fn await_flag(index: u64) -> Wait {
        let (offset, stride, count, idle) = (8 * index, 8, 1, 0);
        Wait::words(Words { region: FLAGS, offset, stride, count, idle })
    }

    fn outstanding(&self) -> usize {
        self.under_way.iter().map(Vec::len).sum()
    }

    /// Posts a list, all of one queue pair.
    fn post(&mut self, verbs: &mut dyn Verbs) {
        let Some(first) = self.posts.get(self.next) else { return };
        let qp = Qp(first.qp);
        let most = self.choices.usize(1..5);
        let list: Vec<(u64, Post)> = (self.next as u64..)
            .zip(&self.posts[self.next..])
            .take_while(|(_, post)| post.qp == qp.0)
            .take(most)
            .map(|(id, post)| (id, *post))
            .collect();
        let own = verbs.region(OWN);
        let sges: Vec<Vec<Sge>> = list.iter().map(|(_, post)| pieces(post, &own)).collect();
        let data: Vec<Vec<u8>> = list
            .iter()
            .map(|(_, post)| {
                let mut bytes = vec![0; if post.inline { post.length as usize } else { 0 }];
                verbs.load(OWN, post.at, &mut bytes);
                bytes
            })
            .collect();
        let requests: Vec<WorkRequest<'_>> = list
            .iter()
            .zip(sges.iter().zip(&data))
            .map(|((id, post), (sges, data))| WorkRequest {
                id: *id,
                operation: operation(post, verbs),
                flags: flags(post),
                sges: if post.inline { &[] } else { sges },
                inline: post.inline.then_some(data),
            })
            .collect();
        verbs.post_send(qp, &requests).unwrap();
        self.next += list.len();
        self.under_way[usize::from(qp.0)].extend(list.iter().map(|(_, post)| post.signaled));
    }

    /// Takes completions, and says whether there were any.
    fn take(&mut self, verbs: &mut dyn Verbs, arm: bool) -> bool {
        let mut some = [Completion::NOTHING; 5];
        let mut any = false;
        for cq in (0..self.cqs.len() as u16).map(Cq) {
            loop {
                let count = match arm {
                    true => poll_or_arm(verbs, cq, &mut some),
                    false => verbs.poll(cq, &mut some),
                };
                for completion in &some[..count] {
                    self.record(verbs, completion);
                }
                any |= count > 0;
                if count == 0 {
                    break;
                }
            }
        }
        any
    }

    fn record(&mut self, verbs: &mut dyn Verbs, completion: &Completion) {
        let qps = 0..self.kinds.len() as u16;
        let qp = qps.into_iter().find(|qp| verbs.qpn(Qp(*qp)) == completion.qpn).unwrap();
        assert_eq!(completion.status, CompletionStatus::Success, "{completion:?}");
        let record = Record {
            qp,
            id: completion.id,
            status: completion.status,
            opcode: completion.opcode as u8,
            byte_len: completion.byte_len,
            attached: completion.attached,
        };
        if record.is_receive() {
            self.to_come -= 1;
        } else {
            let queue = &mut self.under_way[usize::from(qp)];
            let ended = queue.iter().position(|signaled| *signaled).unwrap();
            queue.drain(..=ended);
        }
        self.records.push(record);
    }
}

fn operation(post: &Post, verbs: &dyn Verbs) -> Operation {
    let qp = Qp(post.qp);
    let there = verbs.remote(qp, 0, SHARED).unwrap();
    let remote_address = there.address + SHARE * u64::from(post.qp) + post.there;
    let r_key = there.r_key;
    match post.verb {
        Verb::Send(immediate) => {
            Operation::Send { immediate, address: verbs.remote_address(qp, 0) }
        }
        Verb::Write(immediate) => Operation::Write { remote_address, r_key, immediate },
        Verb::Read => Operation::Read { remote_address, r_key },
        Verb::CompareSwap(compare, swap) => {
            Operation::CompareSwap { remote_address, r_key, compare, swap }
        }
        Verb::FetchAdd(add) => Operation::FetchAdd { remote_address, r_key, add },
    }
}

fn flags(post: &Post) -> SendFlags {
    let given = [
        (post.signaled, SendFlags::SIGNALED),
        (post.inline, SendFlags::INLINE),
        (post.fence, SendFlags::FENCE),
    ];
    given.iter().filter(|(given, _)| *given).fold(SendFlags::NONE, |all, (_, flag)| all | *flag)
}

fn pieces(post: &Post, own: &rdma::app::LocalRegion) -> Vec<Sge> {
    let pieces = (post.pieces as u64).min(post.length.max(1));
    let each = post.length / pieces;
    (0..pieces)
        .map(|index| {
            let is_last = index + 1 == pieces;
            let length = if is_last { post.length - index * each } else { each };
            own.sge(post.at + index * each, length as u32)
        })
        .collect()
}

/// What one of them posts. All that ends on a queue pair that is not reliable is known to have arrived
/// when its last message has been received.
fn posts(kinds: &[QpType], random: &mut Rng) -> Vec<Post> {
    let count = random.usize(8..80);
    let mut at = 0;
    let mut posts: Vec<Post> = Vec::new();
    let mut one = |qp: usize, last: bool, random: &mut Rng| {
        let immediate = random.bool().then(|| random.u32(..).to_be_bytes());
        let verb = match (kinds[qp], random.u8(0..7)) {
            (QpType::Ud, _) | (_, 0 | 1) => Verb::Send(immediate),
            (QpType::Uc, _) if last => Verb::Send(immediate),
            (_, 2 | 3) | (QpType::Uc, _) => Verb::Write(immediate),
            (_, 4) => Verb::Read,
            (_, 5) => Verb::CompareSwap(random.u64(0..3), random.u64(0..3)),
            (_, _) => Verb::FetchAdd(random.u64(0..3)),
        };
        let is_atomic = matches!(verb, Verb::CompareSwap(..) | Verb::FetchAdd(_));
        let most = if kinds[qp] == QpType::Ud { DATAGRAM_MAX } else { MESSAGE_MAX };
        let length = match random.u8(0..3) {
            _ if is_atomic => 8,
            0 => random.u64(0..=64),
            _ => random.u64(0..=most),
        };
        let there = match is_atomic {
            true => 8 * random.u64(0..WORDS / 8),
            false if matches!(verb, Verb::Read) => READ_ONLY + random.u64(0..=READ_ONLY - length),
            false => WORDS + random.u64(0..=READ_ONLY - WORDS - length),
        };
        let is_out = matches!(verb, Verb::Send(_) | Verb::Write(_));
        let post = Post {
            qp: qp as u16,
            verb,
            at,
            there,
            length,
            signaled: last || random.u8(0..3) > 0,
            inline: is_out && length <= INLINE.into() && random.bool(),
            fence: kinds[qp] == QpType::Rc && random.u8(0..5) == 0,
            pieces: if is_atomic { 1 } else { random.usize(1..4) },
        };
        at += length.next_multiple_of(8);
        post
    };
    for _ in 0..count {
        let qp = random.usize(0..kinds.len());
        for _ in 0..random.usize(1..4) {
            posts.push(one(qp, false, random));
        }
    }
    for qp in 0..kinds.len() {
        posts.push(one(qp, true, random));
    }
    posts
}

fn arrivals(posts: &[Post], qps: usize) -> Vec<Vec<u64>> {
    let of = |qp: usize| {
        let arriving = posts.iter().filter(|post| usize::from(post.qp) == qp && post.arrives());
        arriving.map(|post| post.length).collect()
    };
    (0..qps).map(of).collect()
}

impl App for Program {
    fn layout(&self) -> Layout<'_> {
        Layout { regions: &self.regions, cqs: &self.cqs, qps: &self.qps, serves: false }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        match self.phase {
            Phase::Begin => {
                assert_eq!(woke, Woke::Start);
                self.begin(verbs);
                self.phase = Phase::Meet;
                return Self::await_flag(0);
            }
            Phase::Meet => {
                assert_eq!(woke, Woke::Word(0));
                self.phase = Phase::Work;
            }
            Phase::Work => {}
            Phase::Part => {
                assert_eq!(woke, Woke::Word(0));
                self.memory = self
                    .regions
                    .iter()
                    .zip(0..)
                    .map(|(spec, region)| {
                        let mut bytes = vec![0; spec.length as usize];
                        verbs.load(Region(region), 0, &mut bytes);
                        bytes
                    })
                    .collect();
                self.forget_headers();
                return Wait::done();
            }
        }
        let asleep = self.choices.bool();
        self.take(verbs, asleep);
        while self.next < self.posts.len() && self.outstanding() < WINDOW {
            self.post(verbs);
        }
        let all_posted = self.next == self.posts.len();
        if all_posted && self.outstanding() == 0 && self.to_come == 0 {
            self.flag(verbs, 1);
            self.phase = Phase::Part;
            return Self::await_flag(1);
        }
        // What is outstanding always ends with a signal only if all is posted, or the window is wide
        // enough; else a turn is right.
        let one_queue = self.cqs.len() == 1;
        let signaled = self.under_way.iter().flatten().any(|signaled| *signaled);
        if !one_queue || !(signaled || (all_posted && self.to_come > 0)) {
            return Wait::turn();
        }
        match asleep {
            // Whatever came since has been taken, and the queue is armed.
            true if !self.take(verbs, true) => Wait::event(Cq(0)),
            true => Wait::turn(),
            false => Wait::poll(Cq(0)),
        }
    }
}
