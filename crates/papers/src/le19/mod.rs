//! On the Impact of Cluster Configuration on RoCE Application Design (APNet 2019).
//!
//! | file | section | claims |
//! |---|---|---|
//! | `latency` | 4.1 and 4.2, figures 1 and 3 | one access at a time, with and without a solver on every core |
//! | `throughput` | 4.1 and 4.2, figures 2 and 4 | sixteen clients and one server, the same |
//! | `sharing` | 4.2 and 4.3, figure 5 | beside large transfers; large frames |
//!
//! Queue pairs are RC throughout: the paper has unreliable ones where it can, and does not say where. Each
//! client has one, to one of the server's eight processes: with more, Little's law would contradict the
//! latencies of figure 2b.

mod latency;
mod sharing;
mod throughput;

use bench::plan::{Flow, Verb, WaitMode};

use crate::hosts::{Hosts, Runs};
use crate::study::{self, Context, Experiment, Step};
use crate::{Error, Options, Study};

pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment { claims: latency::CLAIMS, run: latency::run },
    Experiment { claims: throughput::CLAIMS, run: throughput::run },
    Experiment { claims: sharing::CLAIMS, run: sharing::run },
];

/// The same on soft NICs: with fewer clients.
const ON_SOFT: &[Experiment] = EXPERIMENTS;

const TESTBED: &str = "cx3-10g-arm";
/// The testbed's.
const FRAMES: &str = "RDMA MTU 1,024";
/// Servers have as many processes as cores, and there are so many clients with so much outstanding.
const CORES: u32 = 8;
const CLIENTS: u32 = 16;
const WINDOW: u32 = 16;
/// The longest payload that is posted inline.
const INLINE_BYTES: u32 = 256;
/// What a server does to find an object, in microseconds: an estimate, fitted with [`TESTBED`]'s
/// interrupts on le19.fig1.
const LOOK_UP_US: f64 = 0.7;
/// "About" and "little" are within this factor: ours.
const ABOUT: f64 = 1.3;
/// From one turn of who shares a core to the next, in milliseconds: the phases that there are.
pub(crate) const TURN_MS: f64 = 24.0;

/// How an object is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// So many READs one after the other, each ended by an interrupt.
    ReadIntr(u32),
    /// The same, each seen by polling the CQ, which the paper does not have.
    ReadCq(u32),
    /// A READ whose end is seen in memory.
    ReadPoll,
    WriteSendPoll,
    SendSendIntr,
    SendSendPoll,
}

impl Method {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadCq(1) => "READ-Poll of the CQ",
            Self::ReadCq(2) => "READ-Poll-2",
            Self::ReadCq(_) => "READ-Poll-3",
            Self::ReadIntr(1) => "READ-Intr",
            Self::ReadIntr(2) => "READ-Intr-2",
            Self::ReadIntr(_) => "READ-Intr-3",
            Self::ReadPoll => "READ-Poll",
            Self::WriteSendPoll => "WRITE/SEND-Poll",
            Self::SendSendIntr => "SEND/SEND-Intr",
            Self::SendSendPoll => "SEND/SEND-Poll",
        }
    }

    /// Objects of so many bytes. Who is told by the NIC that a READ has ended hands the object on without
    /// looking at it; who polls memory, and who copies a message, looks at all of it.
    pub(crate) fn flow(self, bytes: u32) -> Flow {
        let (verb, wait) = match self {
            Self::ReadIntr(_) => (Verb::Read, WaitMode::Event),
            Self::ReadCq(_) => (Verb::Read, WaitMode::Poll),
            Self::ReadPoll => (Verb::Read, WaitMode::Memory),
            Self::WriteSendPoll => (Verb::WriteSend, WaitMode::Poll),
            Self::SendSendIntr => (Verb::SendSend, WaitMode::Event),
            Self::SendSendPoll => (Verb::SendSend, WaitMode::Poll),
        };
        let is_compound = verb.is_compound();
        Flow {
            size_bytes: bytes,
            wait,
            depends: if let Self::ReadIntr(reads) | Self::ReadCq(reads) = self { reads } else { 1 },
            inline: is_compound && bytes <= INLINE_BYTES,
            touch: !matches!(self, Self::ReadIntr(_) | Self::ReadCq(_)),
            service_us: if is_compound { LOOK_UP_US } else { 0.0 },
            ..Flow::new(verb)
        }
    }

    /// The same of all clients at once.
    pub(crate) fn clients(self, crowd: Crowd, bytes: u32) -> Flow {
        let Crowd { clients, servers } = crowd;
        Flow { threads: clients, servers: Some(servers), window: WINDOW, ..self.flow(bytes) }
    }
}

/// How many clients there are, and processes of their server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) clients: u32,
    pub(crate) servers: u32,
}

impl Crowd {
    /// The paper's; on soft NICs, whose clients and server share the cores of one machine, a quarter of it.
    pub(crate) fn of(context: &Context<'_>) -> Self {
        let of = if context.is_simulated() { 1 } else { 4 };
        Self { clients: CLIENTS / of, servers: CORES / of }
    }
}

/// Runs every experiment, or those about the claim or figure `only`. `progress` is told what is being
/// run.
///
/// # Errors
/// [`Error::NoSuchClaim`]; the others mean that a file of ours is not as it should be.
pub fn run(
    only: Option<&str>,
    options: Options,
    progress: &mut dyn FnMut(&Step<'_>),
) -> Result<Study, Error> {
    study::run("le19", EXPERIMENTS, ON_SOFT, only, options, progress)
}

/// One access at a time, with or without a solver on every core.
fn one(context: &mut Context<'_>, flow: Flow, is_contended: bool) -> Result<Runs, Error> {
    if !is_contended {
        return context.runs(&Hosts::of(TESTBED, 2).for_ms(4.0), &[flow]);
    }
    let hosts = beside_solvers(context);
    context.runs(&hosts, &[Flow { start_within_ms: TURN_MS, ..flow }])
}

/// One access at a time, with a solver on every core of both hosts, whose slices begin together.
fn one_in_step(context: &mut Context<'_>, flow: Flow) -> Result<Runs, Error> {
    let hosts = beside_solvers(context).but("slices", "\"in-step\"");
    context.runs(&hosts, &[flow])
}

/// Two hosts with a solver on every core, for as many turns as one access at a time is measured.
fn beside_solvers(context: &Context<'_>) -> Hosts {
    let length_ms = if context.options.quick { 10.0 } else { 30.0 } * TURN_MS;
    Hosts::of(TESTBED, 2).with_hogs(CORES).after_ms(2.0 * TURN_MS).for_ms(length_ms)
}

/// All clients at once, the same.
fn all(context: &mut Context<'_>, flow: Flow, is_contended: bool) -> Result<Runs, Error> {
    let hosts = Hosts::of(TESTBED, CLIENTS + 1);
    if !is_contended {
        let hosts = hosts.after_ms(1.0).for_ms(if context.options.quick { 2.0 } else { 4.0 });
        return context.runs(&hosts, &[flow]);
    }
    let turns = if context.options.quick { 2.0 } else { 4.0 };
    let hosts = hosts.with_hogs(CORES).after_ms(2.0 * TURN_MS).for_ms(turns * TURN_MS);
    context.runs(&hosts, &[Flow { start_within_ms: TURN_MS, ..flow }])
}

/// A size in words.
fn bytes(size: u32) -> String {
    format!("{size} B")
}
