//! What all queue pairs of an endpoint share: regions, completion queues, shared receive queues,
//! events and counters.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use rdma::{Completion, CompletionStatus, Qpn, Time};

use crate::congestion::Telemetry;
use crate::cq::Cq;
use crate::limits::EVENTS_MAX;
use crate::recv::{Place, RecvWqe};
use crate::region::RegionTable;
use crate::secret::Secret;
use crate::slab::Slab;
use crate::srq::Srq;
use crate::{Config, CqId, Event, SrqId, Stats, XrcdId};

#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) config: Config,
    /// The `now` of the latest call that had one.
    pub(crate) now: Time,
    pub(crate) regions: RegionTable,
    pub(crate) cqs: Slab<Cq>,
    pub(crate) srqs: Slab<Srq>,
    pub(crate) stats: Stats,
    pub(crate) events: VecDeque<Event>,
    /// Completion queues that have just lost a completion. Their queue pairs are about to fail.
    pub(crate) overrun: Vec<CqId>,
    /// What the acknowledgement that was given out last tells of switches.
    pub(crate) echo: Option<Telemetry>,
}

impl Adapter {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            now: Time::ZERO,
            regions: RegionTable::new(Secret::new(config.seed)),
            cqs: Slab::default(),
            srqs: Slab::default(),
            stats: Stats::default(),
            events: VecDeque::new(),
            overrun: Vec::new(),
            echo: None,
            config,
        }
    }

    /// Tells the driver. A driver that never listens loses the newest.
    pub(crate) fn raise(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }

    /// Writes a completion.
    pub(crate) fn complete(&mut self, cq: CqId, completion: Completion) {
        if completion.status == CompletionStatus::Flushed {
            self.stats.cqe_flush_error += 1;
        }
        let event = self.cqs.get_mut(cq.0).and_then(|queue| queue.push(cq, completion, self.now));
        if let Some(event) = event {
            if matches!(event, Event::CqError(_)) {
                self.overrun.push(cq);
            }
            self.raise(event);
        }
    }

    /// Where receives of the shared receive queue with this number complete; `None` if `domain` has
    /// no such queue.
    pub(crate) fn xrc_place(&self, domain: XrcdId, number: Qpn) -> Option<Place> {
        let id = SrqId::of_number(number)?;
        let queue = self.srqs.get(id.0)?;
        let (_, cq) = queue.xrc.filter(|(of, _)| *of == domain)?;
        Some(Place { pd: queue.pd, srq: Some(id), cq })
    }

    /// Takes the oldest request of a shared receive queue.
    pub(crate) fn take_shared(&mut self, srq: SrqId) -> Option<RecvWqe> {
        let (wqe, event) = self.srqs.get_mut(srq.0)?.take(srq);
        if let Some(event) = event {
            self.raise(event);
        }
        wqe
    }
}
