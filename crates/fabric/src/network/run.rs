//! The loop: how the parts of a network live side by side, and yet as if they were one.
//!
//! ```text
//!            lookahead: the shortest link between parts, 1 us for instance
//!   part 0   │▓▓▓ window ▓▓▓│ meet │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│ meet │        on one thread in turn, so that what
//!   part 1   │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│      │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│      │        a part touches stays in the cache;
//!   part 2   │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│      │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│      │        or on several at once
//! ```
//!
//! Whatever a part does to another takes a link to get there. So for the time that the shortest such
//! link takes no part needs to know of the others: each lives through that window, and then they
//! hand over what they have sent each other.
//!
//! **The results do not depend on how a network is divided, or among how many threads.** Two things
//! make it so. Events of one time happen in an order of their own ([`crate::events`]), not in that of
//! their making, and every chance is taken from a generator of the switch or link that takes it; so a
//! node lives through the same whoever its neighbours share a queue with. And what concerns several
//! nodes at once happens between windows, at times that are the same in every division: faults, the
//! search for deadlocks, and, every [`STEP`], the question whether all flows are over.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use rdma::{Span, Time};

use super::part::Part;
use super::{Network, Verdict};
use crate::plant::Mailbox;

/// The end of a run is looked for at multiples of this.
pub const STEP: Span = Span::from_us(10);

impl Network {
    /// Lets the network live until `end`, that moment included, or until every flow with an end has
    /// reached it. What is under way then goes on until the [`STEP`] is over.
    pub fn run(&mut self, end: Time) -> Verdict {
        self.exchange_flows();
        let verdict = self.run_until(end.as_ps());
        self.exchange_flows();
        if cfg!(debug_assertions) {
            self.check_conservation();
        }
        verdict
    }

    fn run_until(&mut self, mut end: u64) -> Verdict {
        loop {
            if self.finite && self.parts.iter().all(|part| part.flows.unfinished == 0) {
                let step = self.past.next_multiple_of(STEP.as_ps());
                if step == self.past {
                    let over_at = self.parts.iter().map(|part| part.flows.over_at).max();
                    self.now = over_at.unwrap_or(self.past);
                    return Verdict::Finished;
                }
                // Wherever the run was to end: a run in stretches is a run in one.
                end = step - 1;
            }
            if self.past > end {
                self.now = end;
                return Verdict::TimeOver;
            }
            let fault_at = self.faults.get(self.faults_done).map(|fault| fault.at.as_ps());
            let Some(next) = self.next_at().into_iter().chain(fault_at).min() else {
                if self.flows.is_empty() {
                    self.past = end.saturating_add(1);
                    continue;
                }
                self.now = self.parts.iter().map(|part| part.plant.now()).max().unwrap_or(0);
                return Verdict::Stalled;
            };
            let step = (next.max(self.past) / STEP.as_ps() + 1) * STEP.as_ps();
            let check_at = self.deadlock_check.map(|_| self.check_at);
            let stop = [Some(step), Some(end.saturating_add(1)), fault_at, check_at];
            let stop = stop.into_iter().flatten().min().unwrap_or(step);
            self.live(stop);
            self.past = stop;
            self.now = stop;
            if let Some(verdict) = self.between() {
                return verdict;
            }
        }
    }

    /// A time before which nothing happens anywhere; `None` if nothing is to happen.
    fn next_at(&self) -> Option<u64> {
        self.parts.iter().filter_map(|part| part.plant.next_at()).min()
    }

    /// What concerns several nodes and is due now.
    fn between(&mut self) -> Option<Verdict> {
        while let Some(fault) = self.faults.get(self.faults_done)
            && fault.at.as_ps() <= self.past
        {
            let kind = fault.kind;
            self.faults_done += 1;
            self.apply(kind);
        }
        if self.past.is_multiple_of(STEP.as_ps()) {
            self.tell_unanswered();
        }
        let every = self.deadlock_check.filter(|_| self.check_at <= self.past)?;
        self.check_at = self.past + every.as_ps().max(1);
        let circle = self.detector.look(&self.parts)?;
        Some(Verdict::Deadlock(circle.named(&self.parts, &self.topology)))
    }

    /// Tells the sources of flows that their destination could not answer.
    fn tell_unanswered(&mut self) {
        let mut told: Vec<u32> =
            self.parts.iter_mut().flat_map(|part| part.flows.unanswered.drain(..)).collect();
        told.sort_unstable();
        for flow in told {
            let source = self.flow_source(flow);
            let part = self.part_of(source);
            self.parts[part].flows.failed(flow, self.past);
        }
    }

    /// Lets all parts live through everything before `stop`.
    fn live(&mut self, stop: u64) {
        if let [only] = self.parts.as_mut_slice() {
            only.run(stop - 1);
        } else if self.next_at().is_some_and(|next| next < stop) {
            self.live_in_windows(stop);
        }
        for part in &mut self.parts {
            part.plant.advance(stop);
        }
    }

    fn live_in_windows(&mut self, stop: u64) {
        let each = self.parts.len().div_ceil(self.threads.clamp(1, self.parts.len()));
        let threads = self.parts.len().div_ceil(each);
        let meeting = Meeting {
            lookahead: self.lookahead,
            stop,
            start: self.next_at().unwrap_or(stop).max(self.past),
            boxes: self.parts.iter().map(|_| Mutex::default()).collect(),
            next: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            barrier: Barrier::new(threads),
        };
        let mut crews = self.parts.chunks_mut(each);
        let Some(own) = crews.next() else { return };
        thread::scope(|scope| {
            let mut first = each;
            for (thread, crew) in (1..).zip(crews) {
                let meeting = &meeting;
                let begin = first;
                first += crew.len();
                scope.spawn(move || meeting.attend(thread, begin, crew));
            }
            meeting.attend(0, 0, own);
        });
    }

    /// Hands the flows to the parts that they start in, or takes them back.
    fn exchange_flows(&mut self) {
        if let [only] = self.parts.as_mut_slice() {
            return core::mem::swap(&mut self.flows, &mut only.flows.flows);
        }
        for index in 0..self.flows.len() {
            let part = self.part_of(self.flow_source(index as u32));
            let flows = &mut self.parts[part].flows;
            let place = flows.places[index] as usize;
            core::mem::swap(&mut self.flows[index], &mut flows.flows[place]);
        }
    }

    fn check_conservation(&self) {
        let sum = |of: fn(&Part) -> u64| self.parts.iter().map(of).sum::<u64>();
        let inside = sum(|part| (part.plant.pool.in_use() - part.plant.pfc_in_flight) as u64);
        let outside = sum(|part| part.plant.delivered + part.plant.drops.total());
        let created = sum(|part| part.plant.created);
        assert_eq!(created, outside + inside, "a packet is nowhere, or twice");
        for switch in self.parts.iter().flat_map(|part| &part.switches) {
            let (groups, queues) = switch.held();
            let flooded = switch.floods();
            assert!(
                groups == queues || flooded && groups < queues,
                "{:?} holds {groups} bytes in groups and {queues} in queues",
                switch.node()
            );
        }
    }
}

/// Where the threads meet between windows.
struct Meeting {
    lookahead: u64,
    /// No window reaches beyond.
    stop: u64,
    /// When the first one begins.
    start: u64,
    /// By part: what the others have for it.
    boxes: Vec<Mutex<Vec<Mailbox>>>,
    /// By thread: when its parts have something to do next.
    next: Vec<AtomicU64>,
    barrier: Barrier,
}

impl Meeting {
    /// Lets `crew`, the parts of one thread, of which the first has number `first`, live until `stop`.
    fn attend(&self, thread: usize, first: usize, crew: &mut [Part]) {
        let mut start = self.start;
        let mut spare: Vec<Mailbox> = Vec::new();
        while start < self.stop {
            let end = start.saturating_add(self.lookahead).min(self.stop);
            for part in &mut *crew {
                part.run(end - 1);
                self.send(part, &mut spare);
            }
            self.barrier.wait();
            let mut next = u64::MAX;
            for (part, number) in crew.iter_mut().zip(first..) {
                let mut letters = self.letters(number);
                part.plant.collect(&mut letters);
                spare.append(&mut letters);
                next = next.min(part.plant.next_at().unwrap_or(u64::MAX));
            }
            self.next[thread].store(next, Ordering::Relaxed);
            self.barrier.wait();
            // Nobody stores again before everybody has loaded, which is before the next meeting.
            let next = self.next.iter().map(|next| next.load(Ordering::Relaxed)).min();
            start = next.unwrap_or(u64::MAX).max(end);
        }
    }

    /// Posts what a part has for others.
    fn send(&self, part: &mut Part, spare: &mut Vec<Mailbox>) {
        for (mailbox, to) in part.plant.outbox.iter_mut().zip(&self.boxes) {
            if !mailbox.is_empty() {
                let full = core::mem::replace(mailbox, spare.pop().unwrap_or_default());
                to.lock().unwrap_or_else(PoisonError::into_inner).push(full);
            }
        }
    }

    /// What has been posted for a part.
    fn letters(&self, part: usize) -> Vec<Mailbox> {
        let mut waiting = self.boxes[part].lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::take(&mut waiting)
    }
}
