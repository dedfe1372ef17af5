//! Who answers the requests of compound reads.

use std::collections::VecDeque;

use rdma::app::{Verbs, Wait, Woke, Words};
use rdma::{Completion, CompletionStatus, Operation, RecvRequest, SendFlags, Span, WorkRequest};

use super::caller::Sent;
use super::{
    CQ, DATA, Found, RECEIVE, REQUESTS, Shape, Task, failed, fill, lane_and_slot, qp, take_batch,
};
use crate::limits::{POLL_BATCH, REQUEST_BYTES};
use crate::plan::{Verb, WaitMode};

/// A request that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Request {
    lane: u64,
    slot: u64,
    sequence: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Answerer {
    task: Task,
    shape: Shape,
    window: u64,
    sent: Vec<Sent>,
    pending: VecDeque<Request>,
    payload: Vec<u8>,
    service: Span,
    found: Found,
    has_begun: bool,
}

impl Answerer {
    pub(super) fn new(task: Task, shape: Shape) -> Self {
        let mut payload = vec![0; task.flow.size_bytes as usize];
        fill(&mut payload, 0);
        let service = Span::from_ps((task.flow.service_us * 1e6) as u64);
        Self {
            window: task.flow.window.into(),
            sent: vec![Sent::default(); shape.lanes as usize],
            pending: VecDeque::new(),
            task,
            shape,
            payload,
            service,
            found: Found::default(),
            has_begun: false,
        }
    }

    pub(super) fn found(self) -> Found {
        self.found
    }

    fn words(&self) -> Words {
        let count = (self.shape.lanes * self.window) as u32;
        Words { region: REQUESTS, offset: 8, stride: REQUEST_BYTES, count, idle: 0 }
    }

    pub(super) fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        if !self.has_begun {
            self.has_begun = true;
            self.begin(verbs);
        }
        let is_received = self.task.flow.verb == Verb::SendSend;
        let asleep = is_received && self.task.flow.wait == WaitMode::Event;
        if let Woke::Word(first) = woke {
            self.look(verbs, first.into());
        }
        let is_high = self.sent.iter().any(|sent| sent.is_high(self.window));
        if is_received || is_high {
            self.drain(verbs, asleep);
        } else {
            self.answer(verbs);
        }
        if self.found.error.is_some() {
            return Wait::done();
        }
        match (is_received, asleep) {
            (true, true) => Wait::event(CQ),
            (true, false) => Wait::poll(CQ),
            _ if !self.pending.is_empty() => Wait::poll(CQ),
            _ => Wait::words(self.words()),
        }
    }

    fn begin(&mut self, verbs: &mut dyn Verbs) {
        for lane in 0..self.shape.lanes {
            for slot in 0..self.shape.far {
                verbs.store(DATA, self.shape.far_at(lane, slot), &self.payload);
            }
            for slot in 0..self.shape.receives {
                self.receive(verbs, lane, slot);
            }
        }
    }

    fn receive(&mut self, verbs: &mut dyn Verbs, lane: u64, slot: u64) {
        let at = self.shape.landing_at(lane, slot);
        let sges = [verbs.region(REQUESTS).sge(at, REQUEST_BYTES as u32)];
        let request = RecvRequest { id: RECEIVE | lane << 40 | slot, sges: &sges };
        if let Err(refused) = verbs.post_recv(qp(lane), &[request]) {
            self.found.error.get_or_insert(format!("a receive of queue pair {lane}: {refused}"));
        }
    }

    /// Takes requests that were written into memory.
    fn look(&mut self, verbs: &mut dyn Verbs, first: u64) {
        for index in first..self.shape.lanes * self.window {
            let at = index * REQUEST_BYTES;
            if verbs.word(REQUESTS, at + 8) != 0 {
                // Before the answer, after which the slot is used again.
                verbs.store(REQUESTS, at + 8, &[0; 8]);
                let (lane, slot) = (index / self.window, index % self.window);
                let sequence = verbs.word(REQUESTS, at);
                self.pending.push_back(Request { lane, slot, sequence });
            }
        }
    }

    /// Takes completions, and answers.
    fn drain(&mut self, verbs: &mut dyn Verbs, asleep: bool) {
        let mut some = [Completion::NOTHING; POLL_BATCH];
        loop {
            let (count, is_more) = take_batch(verbs, asleep, &mut some);
            for completion in &some[..count] {
                let (lane, low) = lane_and_slot(completion.id);
                if completion.status != CompletionStatus::Success {
                    let what = failed(&self.task, lane, completion.status);
                    self.found.error.get_or_insert(what);
                    return;
                }
                if completion.id & RECEIVE == 0 {
                    self.sent[lane as usize].retire(low);
                    continue;
                }
                let at = self.shape.landing_at(lane, low);
                let (sequence, slot) = (verbs.word(REQUESTS, at), verbs.word(REQUESTS, at + 8));
                self.receive(verbs, lane, low);
                if (1..=self.window).contains(&slot) {
                    self.pending.push_back(Request { lane, slot: slot - 1, sequence });
                }
            }
            self.answer(verbs);
            if !is_more || self.found.error.is_some() {
                return;
            }
        }
    }

    fn answer(&mut self, verbs: &mut dyn Verbs) {
        while let Some(request) = self.pending.front().copied() {
            let sent = &mut self.sent[request.lane as usize];
            let Some(is_signaled) = sent.next(self.window) else { return };
            let id = request.lane << 40 | sent.post();
            self.pending.pop_front();
            self.found.received += 1;
            if self.service > Span::ZERO {
                verbs.compute(self.service);
            }
            if self.task.flow.touch {
                let at = self.shape.far_at(request.lane, request.slot);
                verbs.touch(DATA, at, self.task.flow.size_bytes.into());
            }
            self.send(verbs, &request, id, is_signaled);
            if self.found.error.is_some() {
                return;
            }
        }
    }

    fn send(&mut self, verbs: &mut dyn Verbs, request: &Request, id: u64, is_signaled: bool) {
        let Request { lane, slot, sequence } = *request;
        let at = self.shape.far_at(lane, slot);
        if self.task.verify {
            fill(&mut self.payload, sequence);
            if !self.task.flow.inline {
                verbs.store(DATA, at, &self.payload);
            }
        }
        let operation = match self.task.flow.verb {
            Verb::WriteWrite => {
                let Some(there) = verbs.remote(qp(lane), 0, DATA) else {
                    self.found
                        .error
                        .get_or_insert("the peer has not the memory of this flow".to_owned());
                    return;
                };
                let near_lane = lane % u64::from(self.task.flow.queue_pairs);
                let place = (near_lane * self.window + slot) * self.shape.stride;
                let remote_address = there.address + place;
                Operation::Write { remote_address, r_key: there.r_key, immediate: None }
            }
            _ => Operation::Send { immediate: Some((slot as u32).to_be_bytes()), address: None },
        };
        let inline = self.task.flow.inline;
        let mut flags = if is_signaled { SendFlags::SIGNALED } else { SendFlags::NONE };
        if inline {
            flags = flags | SendFlags::INLINE;
        }
        let sges = [verbs.region(DATA).sge(at, self.task.flow.size_bytes)];
        let request = WorkRequest {
            id,
            operation,
            flags,
            sges: if inline { &[] } else { &sges },
            inline: inline.then_some(&self.payload),
        };
        if let Err(refused) = verbs.post_send(qp(lane), &[request]) {
            let what = format!("an answer on queue pair {lane}: {refused}");
            self.found.error.get_or_insert(what);
        }
    }
}
