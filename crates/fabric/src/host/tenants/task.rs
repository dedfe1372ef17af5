//! An application as a task: what it waits for, and when it finds that.

use std::collections::VecDeque;
use std::sync::Arc;

use rdma::app::{On, RemoteRegion, Wait, Woke, Words, flow_label};
use rdma::{Completion, Gid, Key, QpType, Qpn, UdAddress};

use super::memory::{Change, Regions};
use super::queue::Queue;
use super::{Owner, Tenant, Tenants};
use crate::host::model::TaskId;
use crate::random::Random;

/// A peer of a queue pair.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) gid: Gid,
    pub(super) regions: Arc<[RemoteRegion]>,
    /// Where a datagram goes, and the tuple of its packets: the first of them, if the queue pair has labels.
    pub(super) datagram: Option<(UdAddress, u32)>,
}

/// A queue pair of an application.
#[derive(Debug)]
pub(super) struct OwnPair {
    pub(super) engine: usize,
    pub(super) qpn: Qpn,
    pub(super) kind: QpType,
    pub(super) traffic_class: u8,
    /// Labels that its datagrams may carry; each has a tuple of its own.
    pub(super) labels: u16,
    pub(super) send_cq: usize,
    pub(super) recv_cq: usize,
    pub(super) peers: Vec<Known>,
    /// Receives that are posted.
    pub(super) receives: u32,
    /// Lists of requests of which the NIC does not know yet, and how many requests those are.
    pub(super) held: VecDeque<u32>,
    pub(super) held_requests: usize,
}

impl OwnPair {
    pub(super) fn tuple_towards(&self, to: Gid, source_port: u16) -> Option<u32> {
        let peer = self.peers.iter().find(|peer| peer.gid == to)?;
        let (_, first) = peer.datagram?;
        let mut labels = 0..self.labels;
        let label = labels.find(|&label| transport::source_port(flow_label(label)) == source_port);
        Some(first + u32::from(label.unwrap_or(0)))
    }

    /// Takes a receive. Whether the NIC had it at hand.
    pub(super) fn takes_prefetched(&mut self, least: u32) -> bool {
        let was = self.receives;
        self.receives = was.saturating_sub(1);
        was >= least
    }
}

/// See the module. Times are in picoseconds.
pub(super) struct Task {
    /// Not there while it is stepped.
    pub(super) app: Option<Box<dyn Tenant>>,
    pub(super) core: usize,
    /// Its place in the core's run queue.
    pub(super) place: TaskId,
    pub(super) serves: bool,
    /// When it has its first step, if it has not had it.
    pub(super) begins_at: Option<u64>,
    pub(super) wait: Wait,
    pub(super) is_asleep: bool,
    /// When it finds, on its core, what it waits for.
    pub(super) found: Option<(u64, Woke)>,
    pub(super) is_over: bool,
    pub(super) failure: Option<String>,
    pub(super) began_at: u64,
    pub(super) over_at: u64,
    pub(super) queues: Vec<Queue>,
    /// Number and key of each region.
    pub(super) regions: Vec<(usize, Key)>,
    pub(super) pairs: Vec<OwnPair>,
    pub(super) random: Random,
}

impl core::fmt::Debug for Task {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut task = f.debug_struct("Task");
        task.field("core", &self.core).field("wait", &self.wait).field("found", &self.found);
        task.finish_non_exhaustive()
    }
}

impl Task {
    fn deadline(&self) -> u64 {
        self.wait.until.map_or(u64::MAX, |until| until.as_ps())
    }

    /// When it is to be woken, if it sleeps.
    pub(super) fn wakes_at(&self) -> u64 {
        if self.is_over {
            return u64::MAX;
        }
        if let Some(begins_at) = self.begins_at {
            return begins_at;
        }
        if self.failure.is_some() {
            return 0;
        }
        let event = match self.wait.on {
            On::Event(cq) => self.queues[usize::from(cq.0)].event_at(),
            _ => None,
        };
        event.unwrap_or(u64::MAX).min(self.deadline())
    }

    /// It sleeps no more, from `now` on.
    pub(super) fn wake(&mut self, now: u64) {
        self.is_asleep = false;
        if self.begins_at.take().is_some() {
            self.began_at = now;
            self.found = Some((now, Woke::Start));
            return;
        }
        self.found = Some((now, Woke::Deadline));
        if let On::Event(cq) = self.wait.on {
            let queue = &mut self.queues[usize::from(cq.0)];
            if queue.event_at().is_some_and(|at| at <= now) {
                queue.take_event();
                self.found = Some((now, Woke::Event));
            }
        }
    }

    /// When it goes on, if it has its core.
    pub(super) fn goes_on_at(&self) -> u64 {
        self.found.map_or(u64::MAX, |found| found.0).min(self.deadline())
    }

    /// Why it goes on, at `now`.
    pub(super) fn take_woke(&mut self, now: u64) -> Woke {
        let found = self.found.take().filter(|(at, _)| *at <= now);
        found.map_or(Woke::Deadline, |(_, woke)| woke)
    }

    /// It waits, on its core, from `now` on: for what is there already, or not. `empty` is how long a
    /// look takes that finds nothing.
    pub(super) fn look(&mut self, now: u64, empty: u64, regions: &mut Regions) {
        self.found = match self.wait.on {
            On::Poll(cq) => {
                let seen_at = self.queues[usize::from(cq.0)].seen_at();
                let at = seen_at.map(|at| if at > now { at + self.late(empty) } else { now });
                at.map(|at| (at, Woke::Completions))
            }
            On::Words(words) => {
                let all = 0..words.count;
                self.first_word(&words, all, regions).map(|index| (now, Woke::Word(index)))
            }
            _ => None,
        };
    }

    /// How late a loop notices what happens: up to one turn.
    fn late(&mut self, turn: u64) -> u64 {
        self.random.below(turn + 1)
    }

    /// The first of some words that is not idle.
    fn first_word(
        &self,
        words: &Words,
        mut some: core::ops::Range<u32>,
        regions: &mut Regions,
    ) -> Option<u32> {
        let (region, _) = self.regions[usize::from(words.region.0)];
        some.find(|index| {
            let offset = words.offset + u64::from(*index) * words.stride;
            *regions.bytes(region, offset, 8) != words.idle.to_ne_bytes()
        })
    }
}

impl Tenants {
    /// Bytes of a task's memory are written at `at`. Whether it has found what it waits for.
    pub(super) fn note_change(&mut self, task: usize, change: Change, at: u64) -> bool {
        let look = self.config.look.as_ps();
        let of = &mut self.tasks[task];
        let On::Words(words) = of.wait.on else { return false };
        let is_watched = of.regions[usize::from(words.region.0)].0 == change.region;
        if of.found.is_some() || of.is_over || !is_watched {
            return false;
        }
        // The words of which a byte may have been changed.
        let stride = words.stride.max(8);
        let end = change.offset + change.length;
        let from = (change.offset.saturating_sub(words.offset + 7)).div_ceil(stride);
        let to = (end.saturating_sub(words.offset)).div_ceil(stride).min(words.count.into());
        let some = from.min(to) as u32..to as u32;
        let Some(index) = of.first_word(&words, some, &mut self.regions) else { return false };
        // A look at all of them is one turn.
        let late = of.late(look * u64::from(words.count));
        of.found = Some((at + late, Woke::Word(index)));
        true
    }

    /// A completion that the NIC has written at the first of `times` is seen at the second.
    pub(super) fn note_completion(
        &mut self,
        owner: Owner,
        times: (u64, u64),
        completion: Completion,
    ) {
        let (_, seen_at) = times;
        let empty = self.config.poll_empty.as_ps();
        let task = &mut self.tasks[owner.task];
        let pair = &task.pairs[owner.qp];
        let index = if super::is_received(&completion) { pair.recv_cq } else { pair.send_cq };
        let queue = &mut task.queues[index];
        queue.push(times, completion);
        if queue.overrun {
            task.failure.get_or_insert_with(|| {
                format!("completion queue {index} was full, and a completion is lost")
            });
            task.found = Some((seen_at, Woke::Completions));
        } else if matches!(task.wait.on, On::Poll(cq) if usize::from(cq.0) == index)
            && task.found.is_none()
        {
            task.found = Some((seen_at + task.late(empty), Woke::Completions));
        }
    }
}
