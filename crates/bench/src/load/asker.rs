//! Who asks by requests that end in their order: its completions say how far each queue pair is.

use std::collections::VecDeque;

use rdma::app::{Verbs, Wait, Woke, poll_or_arm};
use rdma::{Completion, CompletionStatus, Operation, SendFlags, Sge, Time, WorkRequest};
use smallvec::SmallVec;

use super::{CQ, DATA, Found, Pace, Record, Shape, Task, Times, failed, fill, is_filled, qp};
use crate::limits::{DRAIN, POLL_BATCH};
use crate::plan::{Verb, WaitMode};

/// Bits of a request's number that are its operation's.
const SEQUENCE_BITS: u32 = 32;
const SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

/// A queue pair.
#[derive(Debug, Default)]
struct Lane {
    /// Operations begun.
    begun: u64,
    /// Operations ended.
    ended: u64,
    /// When those between were due.
    due: VecDeque<Time>,
    /// Operations up to this one are known to end with a completion.
    signaled: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Asker {
    task: Task,
    shape: Shape,
    lanes: Vec<Lane>,
    /// Where to look for room next, if there is a rate.
    turn: usize,
    pace: Pace,
    times: Option<Times>,
    record: Option<Record>,
    /// Payloads of a list that is posted inline.
    inline: Vec<u8>,
    scratch: Vec<u8>,
    found: Found,
}

impl Asker {
    pub(super) fn new(task: Task, shape: Shape) -> Self {
        let lanes = (0..shape.lanes).map(|_| Lane::default()).collect();
        let pace = Pace::new(&task.flow, Time::ZERO);
        let size = task.flow.size_bytes as usize;
        let inline = if task.flow.inline {
            vec![0; size * task.flow.post_list as usize]
        } else {
            Vec::new()
        };
        let scratch = if task.verify { vec![0; size] } else { Vec::new() };
        let (times, record, found) = (None, None, Found::default());
        Self { task, shape, lanes, turn: 0, pace, times, record, inline, scratch, found }
    }

    pub(super) fn found(mut self) -> Found {
        self.found.record = self.record;
        self.found.begun = self.lanes.iter().map(|lane| lane.begun).sum();
        self.found.ended = self.lanes.iter().map(|lane| lane.ended).sum();
        self.found
    }

    pub(super) fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        let times = match self.times {
            Some(times) => times,
            None => return self.start(verbs),
        };
        if woke == Woke::Deadline
            && self.times.is_some_and(|times| verbs.now() >= times.end + DRAIN)
        {
            let late: u64 =
                self.lanes.iter().map(|lane| lane.signaled - lane.ended.min(lane.signaled)).sum();
            if late > 0 {
                let what =
                    format!("{late} operations had not ended {DRAIN} after the end of the flow");
                self.found.error.get_or_insert(what);
                return Wait::done();
            }
        }
        let is_new = self.lanes.iter().all(|lane| lane.begun == 0);
        if is_new {
            self.post_all(verbs, &times);
        }
        let asleep = self.task.flow.wait == WaitMode::Event;
        let mut some = [Completion::NOTHING; POLL_BATCH];
        loop {
            let count = match asleep {
                true => poll_or_arm(verbs, CQ, &mut some),
                false if is_new => 0,
                false => verbs.poll(CQ, &mut some),
            };
            let now = verbs.now();
            let mut touched: SmallVec<[u64; POLL_BATCH]> = SmallVec::new();
            for completion in &some[..count] {
                let lane = completion.id >> (SEQUENCE_BITS + 8);
                self.take(verbs, completion, now);
                if !touched.contains(&lane) {
                    touched.push(lane);
                }
            }
            if self.found.error.is_some() {
                return Wait::done();
            }
            // Later than the completions were seen, by what looks and work took.
            let now = verbs.now();
            if self.pace.interval.is_some() {
                self.post_all(verbs, &times);
            } else if now < times.end {
                for lane in touched {
                    self.post_lane(verbs, lane, now);
                }
            }
            if self.found.error.is_some() {
                return Wait::done();
            }
            if count == 0 || (!asleep && count < some.len()) {
                break;
            }
        }
        self.wait(verbs, &times)
    }

    fn start(&mut self, verbs: &mut dyn Verbs) -> Wait {
        let times = Times::new(&self.task, verbs);
        self.pace = Pace::new(&self.task.flow, times.begin);
        self.record = Some(Record::new(&self.task, times.measured));
        self.times = Some(times);
        let mut payload = vec![0; self.task.flow.size_bytes as usize];
        fill(&mut payload, 0);
        if !self.task.flow.verb.is_atomic() {
            for lane in 0..self.shape.lanes {
                for slot in 0..self.shape.near {
                    verbs.store(DATA, self.shape.near_at(lane, slot), &payload);
                }
            }
        }
        for part in self.inline.chunks_mut(payload.len()) {
            part.copy_from_slice(&payload);
        }
        if times.begin > verbs.now() { Wait::at(times.begin) } else { Wait::turn() }
    }

    fn wait(&self, verbs: &mut dyn Verbs, times: &Times) -> Wait {
        let now = verbs.now();
        let waits = self.lanes.iter().any(|lane| lane.signaled > lane.ended);
        let wait = match self.task.flow.wait {
            WaitMode::Event => Wait::event(CQ),
            _ => Wait::poll(CQ),
        };
        if now >= times.end {
            return if waits { wait.or_at(times.end + DRAIN) } else { Wait::done() };
        }
        let has_room = || {
            let window = u64::from(self.task.flow.window);
            self.lanes.iter().any(|lane| lane.begun - lane.ended < window)
        };
        let wait = if waits { wait } else { Wait::at(times.end) };
        match self.pace.until() {
            Some(next) if has_room() => wait.or_at(next.min(times.end)),
            _ => wait.or_at(times.end + DRAIN),
        }
    }

    /// Begins what is due, wherever there is room.
    fn post_all(&mut self, verbs: &mut dyn Verbs, times: &Times) {
        let now = verbs.now();
        if now >= times.end {
            return;
        }
        if self.pace.interval.is_none() {
            for lane in 0..self.shape.lanes {
                self.post_lane(verbs, lane, now);
            }
            return;
        }
        let window = u64::from(self.task.flow.window);
        let count = self.lanes.len();
        while self.pace.next <= now {
            let room = (0..count).map(|step| (self.turn + step) % count);
            let free = room.into_iter().find(|&lane| {
                let lane = &self.lanes[lane];
                lane.begun - lane.ended < window
            });
            let Some(lane) = free else { return };
            self.turn = (lane + 1) % count;
            let Some(due) = self.pace.take(now) else { return };
            if self.post(verbs, lane as u64, 1, due).is_err() {
                return;
            }
        }
    }

    /// Fills the window of a queue pair.
    fn post_lane(&mut self, verbs: &mut dyn Verbs, lane: u64, now: Time) {
        let Some(state) = self.lanes.get(lane as usize) else { return };
        let mut room = u64::from(self.task.flow.window) - (state.begun - state.ended);
        while room > 0 {
            let count = room.min(self.task.flow.post_list.into());
            if self.post(verbs, lane, count, now).is_err() {
                return;
            }
            room -= count;
        }
    }

    /// Begins `count` operations on a queue pair, as one list.
    fn post(&mut self, verbs: &mut dyn Verbs, lane: u64, count: u64, due: Time) -> Result<(), ()> {
        let first = self.lanes[lane as usize].begun;
        if self.task.verify && !self.task.flow.verb.is_atomic() && self.task.flow.verb != Verb::Read
        {
            self.make_payloads(verbs, lane, first, count);
        }
        if self.task.flow.touch && self.task.flow.verb.has_source() {
            for sequence in first..first + count {
                let at = self.shape.near_at(lane, sequence);
                verbs.touch(DATA, at, self.task.flow.size_bytes.into());
            }
        }
        let every = u64::from(self.task.flow.signal_every);
        let requests = (first..first + count).map(|sequence| Request {
            lane,
            sequence,
            stage: 0,
            is_signaled: (sequence + 1).is_multiple_of(every),
            inline: self.task.flow.inline.then_some((sequence - first) as usize),
        });
        let requests: SmallVec<[Request; 4]> = requests.collect();
        self.send(verbs, lane, &requests)?;
        let state = &mut self.lanes[lane as usize];
        state.begun += count;
        state.due.extend((0..count).map(|_| due));
        if let Some(last) = requests.iter().rfind(|request| request.is_signaled) {
            state.signaled = last.sequence + 1;
        }
        Ok(())
    }

    fn make_payloads(&mut self, verbs: &mut dyn Verbs, lane: u64, first: u64, count: u64) {
        let size = self.scratch.len();
        for sequence in first..first + count {
            fill(&mut self.scratch, seed(lane, sequence));
            if self.task.flow.inline {
                let at = (sequence - first) as usize * size;
                self.inline[at..at + size].copy_from_slice(&self.scratch);
            } else {
                verbs.store(DATA, self.shape.near_at(lane, sequence), &self.scratch);
            }
        }
    }

    fn send(&mut self, verbs: &mut dyn Verbs, lane: u64, requests: &[Request]) -> Result<(), ()> {
        let near = verbs.region(DATA);
        let size = self.task.flow.size_bytes as usize;
        let sges: SmallVec<[[Sge; 1]; 4]> = requests
            .iter()
            .map(|request| {
                let (at, length) = self.piece(request);
                [near.sge(at, length)]
            })
            .collect();
        let mut list: SmallVec<[WorkRequest<'_>; 4]> = SmallVec::new();
        for (request, sges) in requests.iter().zip(&sges) {
            let Some(operation) = self.operation(verbs, request) else {
                self.found
                    .error
                    .get_or_insert("the peer has not the memory of this flow".to_owned());
                return Err(());
            };
            let mut flags = SendFlags::NONE;
            if request.is_signaled {
                flags = flags | SendFlags::SIGNALED;
            }
            let inline = request.inline.map(|at| &self.inline[at * size..(at + 1) * size]);
            if inline.is_some() {
                flags = flags | SendFlags::INLINE;
            }
            list.push(WorkRequest {
                id: lane << (SEQUENCE_BITS + 8)
                    | u64::from(request.stage) << SEQUENCE_BITS
                    | (request.sequence & SEQUENCE),
                operation,
                flags,
                sges: if inline.is_some() { &[] } else { sges },
                inline,
            });
        }
        if let Err(refused) = verbs.post_send(qp(lane), &list) {
            let what = format!("{} on queue pair {lane}: {refused}", self.task.flow.verb.name());
            self.found.error.get_or_insert(what);
            return Err(());
        }
        Ok(())
    }

    /// Stages of an operation: READs that depend on each other, or a WRITE and the READ that checks it.
    fn stages(&self) -> u8 {
        match self.task.flow.verb {
            Verb::Write if self.task.verify => 2,
            _ => self.task.flow.depends as u8,
        }
    }

    /// The memory of a request, at this end.
    fn piece(&self, request: &Request) -> (u64, u32) {
        let at = self.shape.near_at(request.lane, request.sequence);
        match self.task.flow.verb {
            Verb::Write if request.stage > 0 => {
                // Behind all that is written from.
                let behind = self.shape.lanes * self.shape.near * self.shape.stride;
                (behind + at, self.task.flow.size_bytes)
            }
            // All but the last READ of several look up where the next is to read.
            Verb::Read if request.stage + 1 < self.stages() => {
                (at, self.task.flow.size_bytes.min(8))
            }
            _ => (at, self.task.flow.bytes()),
        }
    }

    fn operation(&self, verbs: &dyn Verbs, request: &Request) -> Option<Operation> {
        let Request { lane, sequence, stage, .. } = *request;
        let there = verbs.remote(qp(lane), 0, DATA)?;
        let far_lane = self.task.first_lane + lane;
        let remote_address = there.address + self.shape.far_at(far_lane, sequence);
        let r_key = there.r_key;
        let immediate = Some((sequence as u32).to_be_bytes());
        Some(match self.task.flow.verb {
            Verb::Write if stage > 0 => Operation::Read { remote_address, r_key },
            Verb::Read => Operation::Read { remote_address, r_key },
            Verb::Write => Operation::Write { remote_address, r_key, immediate: None },
            Verb::WriteImm => Operation::Write { remote_address, r_key, immediate },
            Verb::FetchAdd | Verb::CompareSwap => {
                // A word of each queue pair.
                let remote_address = there.address + self.shape.far_at(far_lane, 0);
                match self.task.flow.verb {
                    Verb::FetchAdd => Operation::FetchAdd { remote_address, r_key, add: 1 },
                    _ => Operation::CompareSwap {
                        remote_address,
                        r_key,
                        compare: sequence,
                        swap: sequence + 1,
                    },
                }
            }
            _ => Operation::Send { immediate: None, address: verbs.remote_address(qp(lane), 0) },
        })
    }

    /// A completion: the operations up to it have ended, or the next stage begins.
    fn take(&mut self, verbs: &mut dyn Verbs, completion: &Completion, now: Time) {
        let lane = completion.id >> (SEQUENCE_BITS + 8);
        let stage = (completion.id >> SEQUENCE_BITS) as u8;
        if completion.status != CompletionStatus::Success {
            let what = failed(&self.task, lane, completion.status);
            self.found.error.get_or_insert(what);
            return;
        }
        let Some(state) = self.lanes.get(lane as usize) else { return };
        let ended = ((completion.id & SEQUENCE).wrapping_sub(state.ended) & SEQUENCE) + 1;
        let sequence = state.ended + ended - 1;
        if stage + 1 < self.stages() {
            self.task.work(verbs);
            let request =
                Request { lane, sequence, stage: stage + 1, is_signaled: true, inline: None };
            // The failure is noted.
            let _ = self.send(verbs, lane, &[request]);
            return;
        }
        let flow = &self.task.flow;
        let looks = flow.touch && flow.verb == Verb::Read;
        if looks {
            // At all that has ended, of which the last alone has a completion.
            for ended in state.ended..=sequence {
                verbs.touch(DATA, self.shape.near_at(lane, ended), flow.size_bytes.into());
            }
        }
        // It may have waited for work on those before it.
        let now = if looks || flow.work_us > 0.0 { verbs.now() } else { now };
        if self.task.verify {
            self.check(verbs, lane, sequence);
        }
        let state = &mut self.lanes[lane as usize];
        let due = state.due.drain(..ended as usize).next_back().unwrap_or(now);
        state.ended += ended;
        let bytes = ended * u64::from(self.task.flow.bytes());
        if let Some(record) = &mut self.record {
            record.ended(now, ended, bytes, now.since(due));
        }
        self.task.work(verbs);
    }

    fn check(&mut self, verbs: &mut dyn Verbs, lane: u64, sequence: u64) {
        let at = self.shape.near_at(lane, sequence);
        let is_right = match self.task.flow.verb {
            Verb::FetchAdd | Verb::CompareSwap => verbs.word(DATA, at) == sequence,
            Verb::Read => {
                verbs.load(DATA, at, &mut self.scratch);
                // Else what is there next could be what was there before.
                verbs.store(DATA, at, &[0; 8]);
                is_filled(&self.scratch, self.task.first_lane + lane)
            }
            Verb::Write => {
                let behind = self.shape.lanes * self.shape.near * self.shape.stride;
                verbs.load(DATA, behind + at, &mut self.scratch);
                is_filled(&self.scratch, seed(lane, sequence))
            }
            // The receiver checks.
            _ => return,
        };
        self.found.checked += 1;
        self.found.mismatches += u64::from(!is_right);
    }
}

/// The number of a payload. Receivers know it from its first word.
fn seed(lane: u64, sequence: u64) -> u64 {
    lane << 40 | (sequence & SEQUENCE)
}

/// One request.
#[derive(Clone, Copy, Debug)]
struct Request {
    lane: u64,
    sequence: u64,
    stage: u8,
    is_signaled: bool,
    /// Which of the inline payloads it carries.
    inline: Option<usize>,
}
