//! Who asks, and is answered slot by slot: compound reads, and READs whose end is seen in memory.
//!
//! ```text
//!   slot: free ─ request ─► asked ─ answer: a receive that names the slot, or its last word ─► free
//! ```

use rdma::app::{Verbs, Wait, Woke, Words};
use rdma::completion::Attached;
use rdma::{Completion, CompletionStatus, Operation, RecvRequest, SendFlags, Time, WorkRequest};

use super::{
    CQ, DATA, Found, Pace, RECEIVE, REQUESTS, Record, Shape, Task, Times, failed, is_filled,
    lane_and_slot, qp, take_batch,
};
use crate::limits::{DRAIN, POLL_BATCH, REQUEST_BYTES};
use crate::plan::{Verb, WaitMode};

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Since when it was due, if it is asked.
    asked: Option<Time>,
    sequence: u64,
}

/// Requests of a queue pair that hold a place in its send queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    posted: u64,
    retired: u64,
}

impl Sent {
    /// Whether there is room for one more, and whether that is to have a completion.
    pub(super) fn next(&self, window: u64) -> Option<bool> {
        let held = self.posted - self.retired;
        (held < 2 * window + 2).then(|| (self.posted + 1).is_multiple_of(window))
    }

    pub(super) fn post(&mut self) -> u64 {
        self.posted += 1;
        self.posted
    }

    pub(super) fn retire(&mut self, until: u64) {
        self.retired = self.retired.max(until);
    }

    /// Whether it is time to look for completions.
    pub(super) fn is_high(&self, window: u64) -> bool {
        self.posted - self.retired > window
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Caller {
    task: Task,
    shape: Shape,
    window: u64,
    slots: Vec<Slot>,
    asked: u64,
    sent: Vec<Sent>,
    begun: u64,
    turn: usize,
    pace: Pace,
    times: Option<Times>,
    record: Option<Record>,
    scratch: Vec<u8>,
    found: Found,
}

impl Caller {
    pub(super) fn new(task: Task, shape: Shape) -> Self {
        let window = u64::from(task.flow.window);
        let slots = vec![Slot::default(); (shape.lanes * window) as usize];
        let sent = vec![Sent::default(); shape.lanes as usize];
        let pace = Pace::new(&task.flow, Time::ZERO);
        let scratch = if task.verify { vec![0; task.flow.size_bytes as usize] } else { Vec::new() };
        Self {
            task,
            shape,
            window,
            slots,
            asked: 0,
            sent,
            begun: 0,
            turn: 0,
            pace,
            times: None,
            record: None,
            scratch,
            found: Found::default(),
        }
    }

    pub(super) fn found(mut self) -> Found {
        self.found.record = self.record;
        (self.found.begun, self.found.ended) = (self.begun, self.begun - self.asked);
        self.found
    }

    fn watches(&self) -> bool {
        self.task.flow.wait == WaitMode::Memory
    }

    fn words(&self) -> Words {
        Words {
            region: DATA,
            offset: u64::from(self.task.flow.size_bytes) - 8,
            stride: self.shape.stride,
            count: self.slots.len() as u32,
            idle: 0,
        }
    }

    pub(super) fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        let Some(times) = self.times else { return self.start(verbs) };
        let now = verbs.now();
        if now >= times.end + DRAIN && self.asked > 0 {
            let what = format!(
                "{} operations had not ended {DRAIN} after the end of the flow",
                self.asked
            );
            self.found.error.get_or_insert(what);
        }
        if let Woke::Word(first) = woke {
            self.look(verbs, first.into());
        }
        let asleep = self.task.flow.wait == WaitMode::Event;
        let is_high = self.sent.iter().any(|sent| sent.is_high(self.window));
        if !self.watches() || is_high {
            self.drain(verbs, asleep);
        }
        self.ask(verbs, &times);
        if self.found.error.is_some() {
            return Wait::done();
        }
        self.wait(verbs, &times)
    }

    fn start(&mut self, verbs: &mut dyn Verbs) -> Wait {
        let times = Times::new(&self.task, verbs);
        self.pace = Pace::new(&self.task.flow, times.begin);
        self.record = Some(Record::new(&self.task, times.measured));
        self.times = Some(times);
        if matches!(self.task.flow.verb, Verb::WriteSend | Verb::SendSend) {
            for lane in 0..self.shape.lanes {
                for slot in 0..self.window {
                    self.receive(verbs, lane, slot);
                }
            }
        }
        if times.begin > verbs.now() { Wait::at(times.begin) } else { Wait::turn() }
    }

    fn wait(&self, verbs: &mut dyn Verbs, times: &Times) -> Wait {
        let now = verbs.now();
        if now >= times.end && self.asked == 0 {
            return Wait::done();
        }
        let full = self.sent.iter().any(|sent| sent.next(self.window).is_none());
        let wait = match self.task.flow.wait {
            // Nothing moves before the send queue does.
            WaitMode::Memory if full && self.asked == 0 => Wait::poll(CQ),
            WaitMode::Memory => Wait::words(self.words()),
            WaitMode::Event => Wait::event(CQ),
            WaitMode::Poll => Wait::poll(CQ),
        };
        let limit = times.end + DRAIN;
        match self.pace.until() {
            Some(next) if self.asked < self.slots.len() as u64 && now < times.end => {
                wait.or_at(next.min(times.end))
            }
            _ => wait.or_at(limit),
        }
    }

    /// Takes answers that are seen in memory.
    fn look(&mut self, verbs: &mut dyn Verbs, first: u64) {
        let words = self.words();
        for index in first..self.slots.len() as u64 {
            let offset = words.offset + index * words.stride;
            if self.slots[index as usize].asked.is_some() && verbs.word(DATA, offset) != 0 {
                self.answered(verbs, index, index);
                verbs.store(DATA, offset, &[0; 8]);
            }
        }
    }

    /// Takes completions: answers that are received, and the ends of requests.
    fn drain(&mut self, verbs: &mut dyn Verbs, asleep: bool) {
        let mut some = [Completion::NOTHING; POLL_BATCH];
        loop {
            let (count, is_more) = take_batch(verbs, asleep, &mut some);
            for completion in &some[..count] {
                let (lane, low) = lane_and_slot(completion.id);
                if completion.status != CompletionStatus::Success {
                    let what = failed(&self.task, lane, completion.status);
                    self.found.error.get_or_insert(what);
                } else if completion.id & RECEIVE == 0 {
                    self.sent[lane as usize].retire(low);
                } else if let Attached::Immediate(slot) = completion.attached {
                    let asked = u64::from(u32::from_be_bytes(slot));
                    let landed = lane * self.window + low;
                    if asked < self.window {
                        self.answered(verbs, lane * self.window + asked, landed);
                    }
                    self.receive(verbs, lane, low);
                }
            }
            if !is_more {
                return;
            }
        }
    }

    /// The request of a slot is answered, by the payload in another.
    fn answered(&mut self, verbs: &mut dyn Verbs, index: u64, landed: u64) {
        if self.task.flow.touch {
            let bytes = self.task.flow.size_bytes.into();
            verbs.touch(DATA, landed * self.shape.stride, bytes);
        }
        let now = verbs.now();
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(due) = slot.asked.take() else { return };
        let sequence = slot.sequence;
        self.asked -= 1;
        if self.task.verify {
            verbs.load(DATA, landed * self.shape.stride, &mut self.scratch);
            let lane = self.task.first_lane + index / self.window;
            let seed = if self.task.flow.verb == Verb::Read { lane } else { sequence };
            self.found.checked += 1;
            self.found.mismatches += u64::from(!is_filled(&self.scratch, seed));
        }
        if let Some(record) = &mut self.record {
            record.ended(now, 1, self.task.flow.bytes().into(), now.since(due));
        }
        self.task.work(verbs);
    }

    fn receive(&mut self, verbs: &mut dyn Verbs, lane: u64, slot: u64) {
        let at = (lane * self.window + slot) * self.shape.stride;
        let sges = [verbs.region(DATA).sge(at, self.task.flow.size_bytes)];
        let request = RecvRequest { id: RECEIVE | lane << 40 | slot, sges: &sges };
        if let Err(refused) = verbs.post_recv(qp(lane), &[request]) {
            self.found.error.get_or_insert(format!("a receive of queue pair {lane}: {refused}"));
        }
    }

    /// Asks for what is due, wherever a slot is free.
    fn ask(&mut self, verbs: &mut dyn Verbs, times: &Times) {
        let count = self.slots.len();
        while self.asked < count as u64 && self.found.error.is_none() {
            let now = verbs.now();
            if now >= times.end {
                return;
            }
            let mut all = (0..count).map(|step| (self.turn + step) % count);
            let window = self.window;
            let free = all.find(|&index| {
                let sent = &self.sent[index / window as usize];
                self.slots[index].asked.is_none() && sent.next(window).is_some()
            });
            let Some(index) = free else { return };
            let Some(due) = self.pace.take(now) else { return };
            self.turn = (index + 1) % count;
            self.slots[index] = Slot { asked: Some(due), sequence: self.begun };
            self.asked += 1;
            self.begun += 1;
            self.request(verbs, index as u64);
        }
    }

    fn request(&mut self, verbs: &mut dyn Verbs, index: u64) {
        let (lane, slot) = (index / self.window, index % self.window);
        let sequence = self.slots[index as usize].sequence;
        let mut bytes = [0; REQUEST_BYTES as usize];
        bytes[..8].copy_from_slice(&sequence.to_ne_bytes());
        bytes[8..].copy_from_slice(&(slot + 1).to_ne_bytes());
        let is_read = self.task.flow.verb == Verb::Read;
        let region = if is_read { DATA } else { REQUESTS };
        let Some(there) = verbs.remote(qp(lane), 0, region) else {
            self.found.error.get_or_insert("the peer has not the memory of this flow".to_owned());
            return;
        };
        let operation = match self.task.flow.verb {
            Verb::Read => Operation::Read {
                remote_address: there.address
                    + self.shape.far_at(self.task.first_lane + lane, slot),
                r_key: there.r_key,
            },
            Verb::SendSend => Operation::Send { immediate: None, address: None },
            _ => Operation::Write {
                remote_address: there.address
                    + (self.task.first_lane * self.window + index) * REQUEST_BYTES,
                r_key: there.r_key,
                immediate: None,
            },
        };
        let sent = &mut self.sent[lane as usize];
        let is_signaled = sent.next(self.window).unwrap_or(true);
        let mut flags = if is_signaled { SendFlags::SIGNALED } else { SendFlags::NONE };
        if !is_read {
            flags = flags | SendFlags::INLINE;
        }
        let sges = [verbs.region(DATA).sge(index * self.shape.stride, self.task.flow.size_bytes)];
        let request = WorkRequest {
            id: lane << 40 | sent.post(),
            operation,
            flags,
            sges: if is_read { &sges } else { &[] },
            inline: (!is_read).then_some(&bytes),
        };
        if let Err(refused) = verbs.post_send(qp(lane), &[request]) {
            let what = format!("{} on queue pair {lane}: {refused}", self.task.flow.verb.name());
            self.found.error.get_or_insert(what);
        }
    }
}
