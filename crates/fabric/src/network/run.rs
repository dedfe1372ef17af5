//! The loop: how the partitions of a network live side by side, and yet as if they were one.
//!
//! ```text
//!                 lookahead: the shortest link between partitions, 1 us for instance
//!   partition 0   │▓▓▓ window ▓▓▓│ meet │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│ meet │   one after the other on one thread, so
//!   partition 1   │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│      │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│      │   that what a partition touches stays in
//!   partition 2   │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│      │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│      │   the cache; or several at once
//! ```
//!
//! Whatever a partition does to another crosses a link. So for as long as the shortest such link takes, no
//! partition needs to know of the others: each lives through that window, and then they hand over what
//! they have sent each other.
//!
//! **The results do not depend on how a network is divided, or among how many threads.** Two things
//! make it so. First, the order of events of one time follows from the events ([`crate::events`]), not
//! from when they were made, and each switch and link draws from a generator of its own. Second, what
//! concerns several nodes at once happens between windows, at times that are the same in every division:
//! faults, the search for deadlocks and, every [`STEP`], the question whether all flows are over.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::panic;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use rdma::{Span, Time};

use super::partition::Partition;
use super::{Network, Verdict};
use crate::links::Mailbox;
use crate::switch::Switch;

/// The end of a run is looked for at multiples of this.
pub const STEP: Span = Span::from_us(10);

impl Network {
    /// Begins the watermarks of all switches anew, as an operator clears them to see what comes next.
    pub fn clear_watermarks(&mut self) {
        let switches = self.partitions.iter_mut().flat_map(|partition| &mut partition.switches);
        switches.for_each(Switch::clear_watermarks);
    }

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
            if self.finite
                && self.partitions.iter().all(|partition| partition.flows.unfinished == 0)
            {
                let step = self.past.next_multiple_of(STEP.as_ps());
                if step == self.past {
                    let over_at =
                        self.partitions.iter().map(|partition| partition.flows.over_at).max();
                    self.now = over_at.unwrap_or(self.past);
                    return Verdict::Finished;
                }
                // Whatever `end` was asked for, so that a run in stretches ends where a run in one does.
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
                self.now = self
                    .partitions
                    .iter()
                    .map(|partition| partition.links.now())
                    .max()
                    .unwrap_or(0);
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
    pub(super) fn next_at(&self) -> Option<u64> {
        self.partitions.iter().filter_map(|partition| partition.links.next_at()).min()
    }

    /// Does what concerns several nodes and is due now.
    pub(super) fn between(&mut self) -> Option<Verdict> {
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
        let circle = self.detector.look(&self.partitions)?;
        Some(Verdict::Deadlock(circle.named(&self.partitions, &self.topology)))
    }

    /// Tells the sources of flows that their destination could not answer.
    fn tell_unanswered(&mut self) {
        let mut told: Vec<u32> = self
            .partitions
            .iter_mut()
            .flat_map(|partition| partition.flows.unanswered.drain(..))
            .collect();
        told.sort_unstable();
        for flow in told {
            let source = self.flow_source(flow);
            let partition = self.partition_of(source);
            self.partitions[partition].flows.failed(flow, self.past);
        }
    }

    /// Lets all partitions live through everything before `stop`.
    pub(super) fn live(&mut self, stop: u64) {
        if let [only] = self.partitions.as_mut_slice() {
            only.run(stop - 1);
        } else if self.next_at().is_some_and(|next| next < stop) {
            self.live_in_windows(stop);
        }
        for partition in &mut self.partitions {
            partition.links.advance(stop);
        }
    }

    fn live_in_windows(&mut self, stop: u64) {
        let each = self.partitions.len().div_ceil(self.threads.clamp(1, self.partitions.len()));
        let threads = self.partitions.len().div_ceil(each);
        let meeting = Meeting {
            lookahead: self.lookahead,
            stop,
            start: self.next_at().unwrap_or(stop).max(self.past),
            boxes: self.partitions.iter().map(|_| Mutex::default()).collect(),
            next: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            panicked: AtomicBool::new(false),
            barrier: Barrier::new(threads),
        };
        let mut crews = self.partitions.chunks_mut(each);
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

    /// Hands the flows to the partitions that they start in, or takes them back.
    pub(super) fn exchange_flows(&mut self) {
        if let [only] = self.partitions.as_mut_slice() {
            return core::mem::swap(&mut self.flows, &mut only.flows.flows);
        }
        for index in 0..self.flows.len() {
            let partition = self.partition_of(self.flow_source(index as u32));
            let flows = &mut self.partitions[partition].flows;
            let place = flows.places[index] as usize;
            core::mem::swap(&mut self.flows[index], &mut flows.flows[place]);
        }
    }

    fn check_conservation(&self) {
        let sum = |of: fn(&Partition) -> u64| self.partitions.iter().map(of).sum::<u64>();
        let inside =
            sum(|partition| (partition.links.pool.in_use() - partition.links.pfc_in_flight) as u64);
        let outside = sum(|partition| partition.links.delivered + partition.links.drops.total());
        let created = sum(|partition| partition.links.created);
        assert_eq!(created, outside + inside, "a packet is nowhere, or twice");
        for switch in self.partitions.iter().flat_map(|partition| &partition.switches) {
            let (groups, queues) = switch.held();
            let flooded = switch.floods();
            assert!(
                groups == queues || flooded && groups < queues,
                "switch {} holds {groups} bytes in groups and {queues} in queues",
                switch.index
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
    /// By partition: what the others have for it.
    boxes: Vec<Mutex<Vec<Mailbox>>>,
    /// By thread: when its partitions have something to do next.
    next: Vec<AtomicU64>,
    /// Whether a thread has: the run is over for all.
    panicked: AtomicBool,
    barrier: Barrier,
}

impl Meeting {
    /// Lets `crew`, the partitions of one thread, live until `stop`. The first has the number `first`.
    fn attend(&self, thread: usize, first: usize, crew: &mut [Partition]) {
        let mut start = self.start;
        let mut spare: Vec<Mailbox> = Vec::new();
        while start < self.stop {
            let end = start.saturating_add(self.lookahead).min(self.stop);
            // One that panicked, as an extension may, would keep the others waiting for ever.
            let lived = panic::catch_unwind(AssertUnwindSafe(|| {
                for partition in &mut *crew {
                    partition.run(end - 1);
                    self.send(partition, &mut spare);
                }
            }));
            if lived.is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.barrier.wait();
            if let Err(cause) = lived {
                panic::resume_unwind(cause);
            }
            if self.panicked.load(Ordering::Relaxed) {
                return;
            }
            let mut next = u64::MAX;
            for (partition, number) in crew.iter_mut().zip(first..) {
                let mut letters = self.letters(number);
                partition.links.collect(&mut letters);
                spare.append(&mut letters);
                next = next.min(partition.links.next_at().unwrap_or(u64::MAX));
            }
            self.next[thread].store(next, Ordering::Relaxed);
            self.barrier.wait();
            // No thread stores again before all have loaded, because they meet in between.
            let next = self.next.iter().map(|next| next.load(Ordering::Relaxed)).min();
            start = next.unwrap_or(u64::MAX).max(end);
        }
    }

    /// Posts what a partition has for others.
    fn send(&self, partition: &mut Partition, spare: &mut Vec<Mailbox>) {
        for (mailbox, to) in partition.links.outbox.iter_mut().zip(&self.boxes) {
            if !mailbox.is_empty() {
                let full = core::mem::replace(mailbox, spare.pop().unwrap_or_default());
                to.lock().unwrap_or_else(PoisonError::into_inner).push(full);
            }
        }
    }

    /// What has been posted for a partition.
    fn letters(&self, partition: usize) -> Vec<Mailbox> {
        let mut waiting = self.boxes[partition].lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::take(&mut waiting)
    }
}
