//! Who serves without an answer: by its memory alone, or by receiving.

use rdma::app::{On, Verbs, Wait, Woke};
use rdma::completion::Attached;
use rdma::{Completion, CompletionStatus, RecvRequest, Sge, Span};
use smallvec::SmallVec;

use super::{CQ, DATA, Found, GRH_BYTES, Shape, Task, failed, fill, is_filled, qp, take_batch};
use crate::limits::POLL_BATCH;
use crate::plan::{Verb, WaitMode};
use crate::world::meeting::Service;

/// Its memory is read and written, and it does nothing.
#[derive(Debug)]
pub(super) struct Passive {
    shape: Shape,
    size: u64,
    is_read: bool,
}

impl Passive {
    pub(super) fn new(task: &Task, shape: Shape) -> Self {
        let is_read = task.flow.verb == Verb::Read;
        Self { shape, size: task.flow.bytes().into(), is_read }
    }

    pub(super) fn step(&mut self, verbs: &mut dyn Verbs) -> Wait {
        if self.is_read {
            let mut payload = vec![0; self.size as usize];
            for lane in 0..self.shape.lanes {
                fill(&mut payload, lane);
                for slot in 0..self.shape.far {
                    verbs.store(DATA, self.shape.far_at(lane, slot), &payload);
                }
            }
        }
        Wait { on: On::Time, until: None }
    }
}

/// It receives.
#[derive(Debug)]
pub(super) struct Receiver {
    task: Task,
    shape: Shape,
    found: Found,
    scratch: Vec<u8>,
    service: Span,
    has_begun: bool,
}

impl Receiver {
    pub(super) fn new(task: Task, shape: Shape) -> Self {
        let scratch = if task.verify { vec![0; task.flow.size_bytes as usize] } else { Vec::new() };
        let service = Span::from_ps((task.flow.service_us * 1e6) as u64);
        Self { task, shape, found: Found::default(), scratch, service, has_begun: false }
    }

    pub(super) fn found(self) -> Found {
        self.found
    }

    pub(super) fn step(&mut self, verbs: &mut dyn Verbs, _: Woke) -> Wait {
        if !self.has_begun {
            self.has_begun = true;
            for lane in 0..self.shape.lanes {
                let slots: Vec<u64> = (0..self.shape.receives).collect();
                self.post(verbs, lane, &slots);
            }
        }
        let asleep = self.task.flow.wait == WaitMode::Event;
        let mut some = [Completion::NOTHING; POLL_BATCH];
        loop {
            let (count, is_more) = take_batch(verbs, asleep, &mut some);
            // Those of one queue pair that follow each other are posted as one list.
            let mut again: SmallVec<[u64; POLL_BATCH]> = SmallVec::new();
            let mut of = 0;
            for completion in &some[..count] {
                let (lane, slot) = (completion.id >> 32, completion.id & 0xffff_ffff);
                if lane != of {
                    self.post(verbs, of, &again);
                    again.clear();
                    of = lane;
                }
                self.take(verbs, completion, lane, slot);
                again.push(slot);
            }
            self.post(verbs, of, &again);
            if self.found.error.is_some() {
                return Wait::done();
            }
            if !is_more {
                break;
            }
        }
        if asleep { Wait::event(CQ) } else { Wait::poll(CQ) }
    }

    fn take(&mut self, verbs: &mut dyn Verbs, completion: &Completion, lane: u64, slot: u64) {
        if completion.status != CompletionStatus::Success {
            let what = failed(&self.task, lane, completion.status);
            self.found.error.get_or_insert(what);
            return;
        }
        self.found.received += 1;
        if self.service > Span::ZERO {
            verbs.compute(self.service);
        }
        if self.task.flow.touch {
            let at = match self.task.flow.verb {
                Verb::WriteImm => self.shape.far_at(lane, slot),
                _ => self.shape.landing_at(lane, slot) + self.header(),
            };
            verbs.touch(DATA, at, self.task.flow.size_bytes.into());
        }
        if !self.task.verify {
            return;
        }
        let at = match (self.task.flow.verb, completion.attached) {
            (Verb::WriteImm, Attached::Immediate(sequence)) => {
                self.shape.far_at(lane, u32::from_be_bytes(sequence).into())
            }
            _ => self.shape.landing_at(lane, slot) + self.header(),
        };
        verbs.load(DATA, at, &mut self.scratch);
        let mut first = [0; 8];
        first.copy_from_slice(&self.scratch[..8]);
        let seed = u64::from_ne_bytes(first).wrapping_sub(1);
        let near_lane = lane % u64::from(self.task.flow.queue_pairs);
        let is_right = is_filled(&self.scratch, seed) && seed >> 40 == near_lane;
        self.found.checked += 1;
        self.found.mismatches += u64::from(!is_right);
    }

    fn header(&self) -> u64 {
        if self.task.flow.transport == Service::Ud { GRH_BYTES } else { 0 }
    }

    fn post(&mut self, verbs: &mut dyn Verbs, lane: u64, slots: &[u64]) {
        if slots.is_empty() || self.found.error.is_some() {
            return;
        }
        let data = verbs.region(DATA);
        let length = (u64::from(self.task.flow.size_bytes) + self.header()) as u32;
        let has_data = self.task.flow.verb == Verb::Send;
        let sges: SmallVec<[[Sge; 1]; POLL_BATCH]> = slots
            .iter()
            .map(|slot| [data.sge(self.shape.landing_at(lane, *slot), length)])
            .collect();
        let requests: SmallVec<[RecvRequest<'_>; POLL_BATCH]> = slots
            .iter()
            .zip(&sges)
            .map(|(slot, sges)| RecvRequest {
                id: lane << 32 | slot,
                sges: if has_data { sges } else { &[] },
            })
            .collect();
        if let Err(refused) = verbs.post_recv(qp(lane), &requests) {
            self.found.error.get_or_insert(format!("a receive of queue pair {lane}: {refused}"));
        }
    }
}
