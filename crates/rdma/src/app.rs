//! The fourth seam: applications, and the worlds that they run in.
//!
//! An application is a state machine. A *world* steps it; in a step it posts, polls and looks, and at the
//! end it says what it waits for. So the same application runs as a thread on a soft NIC, as a task
//! of a simulated host, and over an RDMA NIC, and measurements of one world compare with the others.
//!
//! ```text
//!                  ┌────────────── Woke: why ◄──────────────┐
//!                  ▼                                        │
//!    App::step ── posts, polls, looks (Verbs) ──► Wait ──► the world: time passes here
//! ```
//!
//! An application says once what it needs ([`App::layout`]): regions, completion queues and queue pairs,
//! which it then names by their places in those lists. Queue pairs that name the same [`Channel`] are
//! connected by the world, by its own means, before the first step; each then knows the others' regions
//! and addresses. Nothing is exchanged by hand.
//!
//! # What each world does with each wait
//!
//! | wait | soft and NIC world: a thread each | simulated world: a task on a core |
//! |---|---|---|
//! | [`On::Poll`] | polls the CQ in a loop, and receives meanwhile | spins: no events; finds what came while it was on its core |
//! | [`On::Event`] | blocks on the completion channel | sleeps; an interrupt wakes it, and an idle core takes its exit time |
//! | [`On::Words`] | reads the words in a loop; a soft NIC receives meanwhile | spins, as for a CQ |
//! | [`On::Time`] | sleeps | sleeps; a timer wakes it |
//! | [`On::Turn`] | goes on, after others had a chance of the core | goes on, behind tasks that wait for the core |
//! | [`On::Done`] | the thread ends; memory and queue pairs stay until the world ends | the task ends; the same |
//!
//! A deadline ([`Wait::or_at`]) may be added to any of them. In a real world a step costs the time that it
//! takes. In a simulated one each call adds its cost in the host's model, and a post takes effect at its
//! own place in the step.
//!
//! # Rules that every world keeps
//!
//! - All regions are zero, all queue pairs connected, before the first step of any application
//!   ([`Woke::Start`]). Applications that serve have had theirs before any other has: their memory is
//!   filled, and their receives are posted.
//! - Completions of one CQ, and their order, are those of the transport: per queue pair in the order of
//!   the posts, by direction; between queue pairs as it happens.
//! - [`Verbs::arm`] and [`On::Event`] have the race of `ibv_req_notify_cq`: a completion that came
//!   before the arming raises no event. So an application that arms polls once more before it waits
//!   ([`poll_or_arm`]). An event may find nothing to poll. Waiting for an event of a queue that is not
//!   armed would never end; the world ends the application with an error instead.
//! - The world ends when all applications are [`On::Done`] but those that only serve
//!   ([`Layout::serves`]). Until then the memory and the queue pairs of those that are done stay, for
//!   their peers.
//!
//! **Invariant:** nothing here needs a thread, a descriptor or a pointer. Addresses are numbers that the
//! world gives out.
//!
//! # Example
//!
//! One end of a ping-pong by RDMA WRITE, over the last word of a message:
//!
//! ```
//! use rdma::app::{App, Channel, Cq, CqSpec, Layout, QpSpec, Qp, Region, RegionSpec, Verbs, Wait, Woke, Words};
//! use rdma::{Access, Operation, QpType, SendFlags, WorkRequest};
//!
//! struct Ping { rounds: u64, begins: bool }
//!
//! const MEMORY: [RegionSpec; 1] =
//!     [RegionSpec { length: 128, access: Access::LOCAL_WRITE.with(Access::REMOTE_WRITE) }];
//! const QUEUES: [CqSpec; 1] = [CqSpec { depth: 16 }];
//! const PAIRS: [QpSpec; 1] = [QpSpec { send_depth: 16, ..QpSpec::new(QpType::Rc, Channel(0), Cq(0)) }];
//!
//! impl App for Ping {
//!     fn layout(&self) -> Layout<'_> {
//!         Layout { regions: &MEMORY, cqs: &QUEUES, qps: &PAIRS, serves: false }
//!     }
//!
//!     fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
//!         let (here, qp) = (Region(0), Qp(0));
//!         // The peer has written our word 8, or we begin: write its word 8 from our word 0.
//!         if woke != Woke::Start || self.begins {
//!             if self.rounds == 0 {
//!                 return Wait::done();
//!             }
//!             self.rounds -= 1;
//!             let value = verbs.word(here, 64) + 1;
//!             verbs.store(here, 0, &value.to_ne_bytes());
//!             let there = verbs.remote(qp, 0, here).expect("the peer has this region");
//!             let request = WorkRequest {
//!                 id: self.rounds,
//!                 operation: Operation::Write {
//!                     remote_address: there.address + 64, r_key: there.r_key, immediate: None,
//!                 },
//!                 flags: SendFlags::NONE,
//!                 sges: &[verbs.region(here).sge(0, 8)],
//!                 inline: None,
//!             };
//!             if verbs.post_send(qp, &[request]).is_err() {
//!                 return Wait::done();
//!             }
//!         }
//!         let idle = verbs.word(here, 64);
//!         Wait::words(Words { region: here, offset: 64, stride: 8, count: 1, idle })
//!     }
//! }
//! ```

use core::fmt;

use crate::{
    Access, Completion, Key, QpType, Qpn, RecvRequest, Sge, Span, Time, UdAddress, WorkRequest,
};

/// A region of the application's memory: its place in [`Layout::regions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Region(pub u16);

/// A completion queue: its place in [`Layout::cqs`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cq(pub u16);

/// A queue pair: its place in [`Layout::qps`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Qp(pub u16);

/// The name under which queue pairs find each other, in all applications of a world: two that are
/// connected, any number of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Channel(pub u32);

/// What a world sets up before the first step. It is asked for once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout<'a> {
    /// Memory, registered.
    pub regions: &'a [RegionSpec],
    /// Completion queues.
    pub cqs: &'a [CqSpec],
    /// Queue pairs.
    pub qps: &'a [QpSpec],
    /// It has no end of its own: the world ends when all others are done.
    pub serves: bool,
}

/// Memory that an application needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSpec {
    /// In bytes, at least one.
    pub length: u64,
    /// What may be done to it.
    pub access: Access,
}

/// A completion queue that an application needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqSpec {
    /// How many completions it holds, at least. One too many is an error that ends its queue pairs.
    pub depth: u32,
}

/// A queue pair that an application needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpSpec {
    /// RC, UC or UD.
    pub kind: QpType,
    /// Whom it is connected to.
    pub channel: Channel,
    /// Where sends complete.
    pub send_cq: Cq,
    /// Where receives complete.
    pub recv_cq: Cq,
    /// Send requests that it holds.
    pub send_depth: u32,
    /// Receive requests that it holds.
    pub recv_depth: u32,
    /// Pieces of a request, at most.
    pub sges: u32,
    /// Bytes of inline data of a request, at most.
    pub inline_bytes: u32,
    /// READs and atomics outstanding, asked of the peer and by it (RC).
    pub reads: u8,
    /// DSCP and ECN bits of its packets.
    pub traffic_class: u8,
    /// How many of the labels of [`flow_label`] its datagrams may carry in their addresses, in turn, so that they
    /// take several of the paths that switches choose from. With none, the world gives each peer one label.
    pub labels: u16,
}

/// The most labels that the datagrams of a queue pair may have.
pub const LABELS_MAX: u16 = 64;

/// The flow label that has number `index`, below [`LABELS_MAX`]. Each leads to another UDP source port (IBTA
/// annex A17.3), and so, at a switch that hashes, to another choice.
pub const fn flow_label(index: u16) -> u32 {
    1 + (index % LABELS_MAX) as u32 * 251
}

impl QpSpec {
    /// With 64 requests each way of one piece, 16 READs, and no inline data.
    pub const fn new(kind: QpType, channel: Channel, cq: Cq) -> Self {
        Self {
            kind,
            channel,
            send_cq: cq,
            recv_cq: cq,
            send_depth: 64,
            recv_depth: 64,
            sges: 1,
            inline_bytes: 0,
            reads: 16,
            traffic_class: 0,
            labels: 0,
        }
    }
}

/// A region as its owner posts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalRegion {
    /// Of its first byte.
    pub address: u64,
    /// In bytes.
    pub length: u64,
    /// What local pieces name.
    pub l_key: Key,
}

impl LocalRegion {
    /// A piece of it, `offset` bytes into it.
    pub const fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { address: self.address + offset, length, l_key: self.l_key }
    }
}

/// A region as its owner's peers name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteRegion {
    /// Of its first byte.
    pub address: u64,
    /// In bytes.
    pub length: u64,
    /// What requests name.
    pub r_key: Key,
}

/// Why a request was not posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The queue holds as many as it was made for: poll, and try again (`ENOMEM`).
    Full,
    /// It is wrong for this queue pair, or the queue pair has failed (`EINVAL`).
    Invalid,
}

/// A list of which a request was not posted. Those before it were, those after it were not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Its place in the list.
    pub index: usize,
    /// Why.
    pub why: Refusal,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Refusal::Full => "the queue is full",
            Refusal::Invalid => "it is wrong for this queue pair, or the queue pair has failed",
        };
        write!(f, "request {} of the list was not posted: {why}", self.index)
    }
}

impl core::error::Error for Refused {}

/// What an application is called with: its objects, and the calls that a verbs program makes.
///
/// No call waits. A world is free to charge for each.
///
/// # Panics
/// Any call may, if a handle is not of the layout, or a range not of its region: a mistake of the
/// application.
pub trait Verbs {
    /// The world's time, from an origin of its own. In a step it advances by what the step costs.
    fn now(&mut self) -> Time;

    /// A random number, from a generator that the world has seeded for this application.
    fn random(&mut self) -> u64;

    /// What requests name as local memory.
    fn region(&self, region: Region) -> LocalRegion;

    /// The number of a queue pair, as its completions have it.
    fn qpn(&self, qp: Qp) -> Qpn;

    /// How many others share the channel of `qp`: one if it is connected. They have the numbers from
    /// 0, in an order that is the same in every world: that of the applications, and of their layouts.
    fn peers(&self, qp: Qp) -> usize;

    /// Region `region` of the application that has number `peer` on the channel of `qp`.
    fn remote(&self, qp: Qp, peer: usize, region: Region) -> Option<RemoteRegion>;

    /// Where to send a datagram for that peer; `None` if `qp` is not UD.
    fn remote_address(&self, qp: Qp, peer: usize) -> Option<UdAddress>;

    /// Posts send requests, as one list. What is sent inline is given as [`WorkRequest::inline`], and is
    /// taken before the call returns.
    ///
    /// # Errors
    /// Names the first that was not posted.
    fn post_send(&mut self, qp: Qp, requests: &[WorkRequest<'_>]) -> Result<(), Refused>;

    /// Posts receive requests, as one list.
    ///
    /// # Errors
    /// Names the first that was not posted.
    fn post_recv(&mut self, qp: Qp, requests: &[RecvRequest<'_>]) -> Result<(), Refused>;

    /// Takes the oldest completions of `cq` into `out`, and says how many.
    fn poll(&mut self, cq: Cq, out: &mut [Completion]) -> usize;

    /// The same, each with the time at which the NIC completed it, by the clock of [`Verbs::now`]. A world whose NIC
    /// does not say gives the time of the call.
    fn poll_timed(&mut self, cq: Cq, out: &mut [(Completion, Time)]) -> usize {
        let mut count = 0;
        while let Some(place) = out.get_mut(count) {
            let mut one = [Completion::NOTHING];
            if self.poll(cq, &mut one) == 0 {
                break;
            }
            *place = (one[0], self.now());
            count += 1;
        }
        count
    }

    /// Asks for one event, at the next completion of `cq`, or at the next that is solicited (or failed).
    fn arm(&mut self, cq: Cq, solicited: bool);

    /// Copies bytes of the application's own memory into `bytes`.
    fn load(&mut self, region: Region, offset: u64, bytes: &mut [u8]);

    /// Copies `bytes` into the application's own memory.
    fn store(&mut self, region: Region, offset: u64, bytes: &[u8]);

    /// Reads bytes of the application's own memory, as a program does that uses them. A model charges for
    /// memory that the NIC has written; a real world reads it.
    fn touch(&mut self, region: Region, offset: u64, length: u64);

    /// Works for so long: a model charges for it, a real world spends it on the processor.
    fn compute(&mut self, span: Span);

    /// The word at `offset`, a multiple of eight. All that a peer wrote before the word is there, too.
    fn word(&mut self, region: Region, offset: u64) -> u64 {
        let mut word = [0; 8];
        self.load(region, offset, &mut word);
        u64::from_ne_bytes(word)
    }
}

/// Words of the application's own memory that it watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// Where they are.
    pub region: Region,
    /// Of the first, a multiple of eight.
    pub offset: u64,
    /// From one to the next, a multiple of eight.
    pub stride: u64,
    /// How many, at least one.
    pub count: u32,
    /// What a word is as long as nothing has happened.
    pub idle: u64,
}

/// What an application waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// Busy, until the CQ has something to poll.
    Poll(Cq),
    /// Asleep, until there is an event of the CQ, which is armed.
    Event(Cq),
    /// Busy, until one of the words is not idle.
    Words(Words),
    /// Asleep, until the deadline. Without one it never wakes, which only fits an application that serves.
    Time,
    /// Nothing: others may have the core, and it goes on.
    Turn,
    /// It is at its end, and is not stepped again.
    Done,
}

/// What an application waits for, and for how long at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// What for.
    pub on: On,
    /// Until when, at most. A time that has passed ends the wait at once, if nothing else does.
    pub until: Option<Time>,
}

impl Wait {
    /// Polls `cq`, busy.
    pub const fn poll(cq: Cq) -> Self {
        Self { on: On::Poll(cq), until: None }
    }

    /// Sleeps until an event of `cq`: see [`poll_or_arm`].
    pub const fn event(cq: Cq) -> Self {
        Self { on: On::Event(cq), until: None }
    }

    /// Watches memory, busy.
    pub const fn words(words: Words) -> Self {
        Self { on: On::Words(words), until: None }
    }

    /// Sleeps.
    pub const fn at(time: Time) -> Self {
        Self { on: On::Time, until: Some(time) }
    }

    /// Gives others a turn, and goes on.
    pub const fn turn() -> Self {
        Self { on: On::Turn, until: None }
    }

    /// Ends.
    pub const fn done() -> Self {
        Self { on: On::Done, until: None }
    }

    /// The same, but until `time` at most.
    #[must_use]
    pub const fn or_at(self, time: Time) -> Self {
        Self { on: self.on, until: Some(time) }
    }
}

/// Why an application is stepped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woke {
    /// The world begins.
    Start,
    /// The CQ has something to poll.
    Completions,
    /// There was an event of the CQ. It may have nothing to poll any more.
    Event,
    /// This word is not idle; one of them, if several are not.
    Word(u32),
    /// The deadline has come, and nothing else has.
    Deadline,
    /// Others have had their turn, if they wanted one.
    Turn,
}

/// An application.
pub trait App {
    /// What the world sets up before the first step.
    fn layout(&self) -> Layout<'_>;

    /// One step: it posts, polls and looks, and says what it waits for. The world alone decides how much
    /// time passes in it.
    fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait;
}

impl<A: App + ?Sized> App for &mut A {
    fn layout(&self) -> Layout<'_> {
        (**self).layout()
    }

    fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        (**self).step(verbs, woke)
    }
}

/// Polls `cq`; if there is nothing, arms it and polls once more, as the man page of
/// `ibv_req_notify_cq` demands. If there is still nothing, [`Wait::event`] is right.
pub fn poll_or_arm(verbs: &mut dyn Verbs, cq: Cq, out: &mut [Completion]) -> usize {
    match verbs.poll(cq, out) {
        0 => {
            verbs.arm(cq, false);
            verbs.poll(cq, out)
        }
        found => found,
    }
}
