//! Flows as applications: at one end those that ask, at the other those that serve.
//!
//! ```text
//!   verb                         asks                          serves
//!   read, write, atomics         Asker, ends in order          Passive: its memory is enough
//!   send, write_imm              Asker                         Receiver
//!   read with wait = memory      Caller, ends by slot          Passive
//!   write_send, send_send,       Caller                        Answerer
//!   write_write
//! ```
//!
//! Both ends compute where things lie in memory (`Shape`) from the flow alone; nothing of it is
//! exchanged.

mod answerer;
mod asker;
mod caller;
mod record;
mod server;

use core::sync::atomic::AtomicU64;
use std::sync::Arc;

use rdma::app::{
    App, Channel, Cq, CqSpec, Layout, Qp, QpSpec, Region, RegionSpec, Verbs, Wait, Woke,
    poll_or_arm,
};
use rdma::{Access, Completion, CompletionStatus, QpType, Span, Time};

use crate::limits::{CYCLE_BYTES, RECEIVES_MAX, REQUEST_BYTES};
use crate::plan::{Flow, Plan, Verb, WaitMode};
use crate::world::meeting::Service;

use answerer::Answerer;
use asker::Asker;
use caller::Caller;
pub use record::{Record, WindowRecord};
use server::{Passive, Receiver};

/// What arrives before a datagram.
const GRH_BYTES: u64 = 40;
/// Payloads: sources, targets, landing places.
const DATA: Region = Region(0);
/// Requests of compound reads.
const REQUESTS: Region = Region(1);
const CQ: Cq = Cq(0);

/// What flows have done so far, for who looks on.
#[derive(Debug, Default)]
pub struct Tally {
    /// Operations.
    pub operations: AtomicU64,
    /// Bytes of payload.
    pub bytes: AtomicU64,
}

/// What an application of a flow knows of it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) flow: Flow,
    pub(crate) verify: bool,
    pub(crate) warmup: Span,
    pub(crate) length: Span,
    pub(crate) window: Span,
    pub(crate) windows: usize,
    pub(crate) channel: u32,
    /// Queue pairs of this application.
    pub(crate) lanes: u32,
    /// Where they stand among those of the application that serves them.
    pub(crate) first_lane: u64,
    pub(crate) tally: Arc<Tally>,
}

impl Task {
    /// Does what who asks does for each completion.
    fn work(&self, verbs: &mut dyn Verbs) {
        if self.flow.work_us > 0.0 {
            verbs.compute(Span::from_ps((self.flow.work_us * 1e6) as u64));
        }
    }
}

/// An application of a flow.
#[derive(Debug)]
pub struct Load {
    /// Which flow of the plan it is of.
    pub flow: usize,
    /// Whether it serves.
    pub serves: bool,
    kind: Kind,
    layout: Objects,
}

#[derive(Debug)]
enum Kind {
    Asker(Box<Asker>),
    Caller(Box<Caller>),
    Passive(Passive),
    Receiver(Box<Receiver>),
    Answerer(Box<Answerer>),
}

#[derive(Debug, Default)]
struct Objects {
    regions: Vec<RegionSpec>,
    cqs: Vec<CqSpec>,
    qps: Vec<QpSpec>,
}

/// What an application of a flow has found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What was measured; of those that ask.
    pub record: Option<Record>,
    /// Operations begun, before and after the measured time, too; of those that ask.
    pub begun: u64,
    /// Those of them that are known to have ended.
    pub ended: u64,
    /// Messages received, in all; of those that serve.
    pub received: u64,
    /// Payloads that were not what they should have been.
    pub mismatches: u64,
    /// Payloads that were checked.
    pub checked: u64,
    /// Why it ended before its time.
    pub error: Option<String>,
}

/// The applications of a plan: those that ask, and those that serve.
pub fn applications(plan: &Plan, tallies: &[Arc<Tally>]) -> [Vec<Load>; 2] {
    let mut both = [Vec::new(), Vec::new()];
    let mut channel = 0;
    let span = |ms: f64| Span::from_ps((ms * 1e9) as u64);
    for (index, flow) in plan.flows.iter().enumerate() {
        let each = flow.threads / flow.servers();
        for thread in 0..flow.threads {
            let task = Task {
                flow: flow.clone(),
                verify: plan.verify,
                warmup: span(plan.warmup_ms),
                length: span(plan.length_ms),
                window: span(plan.window_ms),
                windows: plan.windows(),
                channel,
                lanes: flow.queue_pairs,
                first_lane: u64::from(thread % each * flow.queue_pairs),
                tally: tallies.get(index).cloned().unwrap_or_default(),
            };
            channel += flow.queue_pairs;
            if thread % each == 0 {
                let all = Task { lanes: each * flow.queue_pairs, ..task.clone() };
                both[1].push(Load::serves(index, all));
            }
            both[0].push(Load::asks(index, task));
        }
    }
    both
}

/// Where things lie in the memory of both ends, and how deep queues are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) lanes: u64,
    /// From one payload to the next.
    pub(crate) stride: u64,
    /// Payloads of a lane, where the requests of who asks begin or end.
    pub(crate) near: u64,
    /// Payloads of a lane at who serves.
    pub(crate) far: u64,
    /// Receives of a lane that are kept posted at who serves.
    pub(crate) receives: u64,
    /// Places that they go round in.
    pub(crate) landing: u64,
    /// From one of those to the next.
    pub(crate) landing_stride: u64,
}

impl Shape {
    fn of(task: &Task) -> Self {
        let flow = &task.flow;
        let window = u64::from(flow.window);
        let stride = u64::from(flow.bytes()).next_multiple_of(64);
        let cycle = (CYCLE_BYTES / stride).clamp(1, window);
        let by_slot = flow.verb.is_compound() || flow.wait == WaitMode::Memory;
        let distinct = task.verify || by_slot || flow.verb.is_atomic();
        let near = if distinct { window } else { cycle };
        let most = u64::from(RECEIVES_MAX / flow.queue_pairs.min(32)).max(16);
        let receives = match flow.verb {
            Verb::Send | Verb::WriteImm => (4 * window).clamp(16, most.max(window)),
            Verb::SendSend => window,
            _ => 0,
        };
        // Who checks what was written must have done so before it is written again: the writer cannot be
        // ahead by more than the receives.
        let far = match flow.verb {
            Verb::WriteImm if task.verify => receives + window,
            _ => near,
        };
        let landing_stride = match flow.verb {
            Verb::SendSend => REQUEST_BYTES,
            _ => (stride + GRH_BYTES).next_multiple_of(64),
        };
        let landing = match flow.verb {
            Verb::Send if !task.verify => (CYCLE_BYTES / landing_stride).clamp(1, receives),
            Verb::WriteImm => 0,
            _ => receives,
        };
        Self { lanes: task.lanes.into(), stride, near, far, receives, landing, landing_stride }
    }

    fn near_at(&self, lane: u64, slot: u64) -> u64 {
        (lane * self.near + slot % self.near) * self.stride
    }

    fn far_at(&self, lane: u64, slot: u64) -> u64 {
        (lane * self.far + slot % self.far) * self.stride
    }

    fn landing_at(&self, lane: u64, slot: u64) -> u64 {
        (lane * self.landing + slot % self.landing.max(1)) * self.landing_stride
    }
}

/// Send requests that a queue pair holds: those of compound reads end late.
fn send_depth(flow: &Flow) -> u32 {
    2 * flow.window + 2
}

impl Load {
    fn asks(index: usize, task: Task) -> Self {
        let shape = Shape::of(&task);
        let flow = &task.flow;
        let by_slot = flow.verb.is_compound() || flow.wait == WaitMode::Memory;
        let receives = match flow.verb {
            Verb::WriteSend | Verb::SendSend => u64::from(flow.window),
            _ => 0,
        };
        // What is read back for a check lies behind.
        let checks = if task.verify { 2 } else { 1 };
        let access = match flow.verb {
            Verb::WriteWrite => Access::LOCAL_WRITE | Access::REMOTE_WRITE,
            _ => Access::LOCAL_WRITE,
        };
        let lengths = [(shape.lanes * shape.near * shape.stride * checks, access)];
        let layout = Objects::new(&task, &lengths, receives);
        let kind = match by_slot {
            true => Kind::Caller(Box::new(Caller::new(task, shape))),
            false => Kind::Asker(Box::new(Asker::new(task, shape))),
        };
        Self { flow: index, serves: false, kind, layout }
    }

    fn serves(index: usize, task: Task) -> Self {
        let shape = Shape::of(&task);
        let flow = &task.flow;
        let all = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let landing = shape.lanes * shape.landing * shape.landing_stride;
        let data = match flow.verb {
            Verb::Send => landing,
            _ => shape.lanes * shape.far * shape.stride,
        };
        let requests = match flow.verb {
            Verb::SendSend => landing,
            _ => shape.lanes * u64::from(flow.window) * REQUEST_BYTES,
        };
        let layout = Objects::new(&task, &[(data, all), (requests, all)], shape.receives);
        let kind = match flow.verb {
            Verb::Send | Verb::WriteImm => Kind::Receiver(Box::new(Receiver::new(task, shape))),
            verb if verb.is_compound() => Kind::Answerer(Box::new(Answerer::new(task, shape))),
            _ => Kind::Passive(Passive::new(&task, shape)),
        };
        Self { flow: index, serves: true, kind, layout }
    }

    /// What it has found.
    pub fn found(self) -> Found {
        match self.kind {
            Kind::Asker(asker) => asker.found(),
            Kind::Caller(caller) => caller.found(),
            Kind::Passive(_) => Found::default(),
            Kind::Receiver(receiver) => receiver.found(),
            Kind::Answerer(answerer) => answerer.found(),
        }
    }
}

impl Objects {
    fn new(task: &Task, lengths: &[(u64, Access)], receives: u64) -> Self {
        let flow = &task.flow;
        let kind = match flow.transport {
            Service::Rc => QpType::Rc,
            Service::Uc => QpType::Uc,
            Service::Ud => QpType::Ud,
        };
        let regions = lengths
            .iter()
            .map(|&(length, access)| RegionSpec { length: length.max(8), access })
            .collect();
        let depth = u64::from(send_depth(flow)) + receives;
        let pair = |index: u32| QpSpec {
            send_depth: send_depth(flow),
            recv_depth: receives.max(1) as u32,
            inline_bytes: flow.inline_bytes(),
            reads: flow.rd_atomic,
            traffic_class: flow.traffic_class,
            ..QpSpec::new(kind, Channel(task.channel + index), CQ)
        };
        Self {
            regions,
            cqs: vec![CqSpec { depth: (depth * u64::from(task.lanes)) as u32 }],
            qps: (0..task.lanes).map(pair).collect(),
        }
    }
}

impl App for Load {
    fn layout(&self) -> Layout<'_> {
        let Objects { regions, cqs, qps } = &self.layout;
        Layout { regions, cqs, qps, serves: self.serves }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        match &mut self.kind {
            Kind::Asker(app) => app.step(verbs, woke),
            Kind::Caller(app) => app.step(verbs, woke),
            Kind::Passive(app) => app.step(verbs),
            Kind::Receiver(app) => app.step(verbs, woke),
            Kind::Answerer(app) => app.step(verbs, woke),
        }
    }
}

/// Word `index` of the payload with number `seed`. No word is zero, which is what memory is before.
fn word_of(seed: u64, index: u64) -> u64 {
    let mixed = (seed ^ index.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29) | 1
}

/// Makes `bytes` the payload with number `seed`: its number first, then words of chance.
fn fill(bytes: &mut [u8], seed: u64) {
    for (index, word) in (0..).zip(bytes.chunks_mut(8)) {
        let value = if index == 0 { seed.wrapping_add(1) } else { word_of(seed, index) };
        let length = word.len();
        word.copy_from_slice(&value.to_ne_bytes()[..length]);
    }
}

/// Whether `bytes` are the payload with number `seed`.
fn is_filled(bytes: &[u8], seed: u64) -> bool {
    let mut words = (0..).zip(bytes.chunks(8));
    words.all(|(index, word)| {
        let value = if index == 0 { seed.wrapping_add(1) } else { word_of(seed, index) };
        word == &value.to_ne_bytes()[..word.len()]
    })
}

/// When the next operation is due, if there is a rate.
#[derive(Clone, Copy, Debug)]
struct Pace {
    interval: Option<Span>,
    next: Time,
}

impl Pace {
    fn new(flow: &Flow, begin: Time) -> Self {
        let per_thread = flow.rate_per_s.map(|rate| rate / f64::from(flow.threads));
        let interval = per_thread.map(|rate| Span::from_ps((1e12 / rate) as u64));
        Self { interval, next: begin }
    }

    /// When the operation that is begun now was due; `None` if none is.
    fn take(&mut self, now: Time) -> Option<Time> {
        match self.interval {
            None => Some(now),
            Some(_) if now < self.next => None,
            Some(interval) => {
                let due = self.next;
                self.next = due + interval;
                Some(due)
            }
        }
    }

    /// Until when there is nothing to begin.
    fn until(&self) -> Option<Time> {
        self.interval.map(|_| self.next)
    }
}

/// When a flow begins and ends.
#[derive(Clone, Copy, Debug)]
struct Times {
    begin: Time,
    end: Time,
    measured: Time,
}

impl Times {
    /// The world begins now.
    fn new(task: &Task, verbs: &mut dyn Verbs) -> Self {
        let now = verbs.now();
        let ms = |ms: f64| Span::from_ps((ms * 1e9) as u64);
        let later = match task.flow.start_within_ms {
            0.0 => 0.0,
            most => most * (verbs.random() >> 11) as f64 / (1u64 << 53) as f64,
        };
        let begin = now + ms(task.flow.start_ms + later);
        let last = now + task.warmup + task.length;
        let end = task.flow.length_ms.map_or(last, |length| (begin + ms(length)).min(last));
        Self { begin, end, measured: now + task.warmup }
    }
}

/// Takes completions; says how many, and whether there may be more. Before a sleep, a queue that has none is
/// armed.
fn take_batch(verbs: &mut dyn Verbs, asleep: bool, batch: &mut [Completion]) -> (usize, bool) {
    let count = if asleep { poll_or_arm(verbs, CQ, batch) } else { verbs.poll(CQ, batch) };
    (count, count > 0 && (asleep || count == batch.len()))
}

/// In the id of a request, the queue pair is above 40 bits, and this bit says that it is a receive.
const RECEIVE: u64 = 1 << 63;

/// The queue pair and the lower bits of an id.
fn lane_and_slot(id: u64) -> (u64, u64) {
    ((id & !RECEIVE) >> 40, id & ((1 << 40) - 1))
}

/// What is said of a request that has failed.
fn failed(task: &Task, lane: u64, status: CompletionStatus) -> String {
    let hint = match status {
        CompletionStatus::RetryExceeded => ": the peer does not answer",
        CompletionStatus::RnrRetryExceeded => ": the peer posts no receives",
        _ => "",
    };
    format!("{} on queue pair {lane} ended with {status}{hint}", task.flow.verb.name())
}

fn qp(lane: u64) -> Qp {
    Qp(lane as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_told_from_another_in_every_byte() {
        let mut bytes = [0; 24];
        fill(&mut bytes, 5);
        assert!(is_filled(&bytes, 5) && !is_filled(&bytes, 6));
        for at in 0..bytes.len() {
            let mut other = bytes;
            other[at] ^= 1;
            assert!(!is_filled(&other, 5));
        }
        assert!(bytes.chunks(8).all(|word| word != [0; 8]));
    }

    #[test]
    fn operations_are_due_at_their_rate_however_late_they_begin() {
        let flow = Flow { rate_per_s: Some(1e6), ..Flow::new(Verb::Read) };
        let mut pace = Pace::new(&flow, Time::from_ns(5_000));
        assert_eq!(pace.take(Time::from_ns(4_999)), None);
        assert_eq!(pace.take(Time::from_ns(7_500)), Some(Time::from_ns(5_000)));
        assert_eq!(pace.take(Time::from_ns(7_500)), Some(Time::from_ns(6_000)));
        assert_eq!(pace.take(Time::from_ns(7_500)), Some(Time::from_ns(7_000)));
        assert_eq!(pace.take(Time::from_ns(7_500)), None);
        assert_eq!(pace.until(), Some(Time::from_ns(8_000)));
    }
}
