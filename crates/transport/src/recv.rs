//! Receive requests: their queues, and scattering a message into one.

use alloc::collections::VecDeque;

use rdma::{Access, Memory, RecvRequest};

use crate::arrival::Carried;
use crate::failure::Fault;
use crate::mutation::{Mutation, mutated};
use crate::region::{self, Epoch, RegionTable, SgeList};
use crate::{CqId, PdId, PostError, SrqId};

/// Where the receives of a request come from and complete, and in which protection domain it acts.
/// For XRC the shared receive queue that the request names decides; for others, the queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) pd: PdId,
    pub(crate) srq: Option<SrqId>,
    pub(crate) cq: CqId,
}

/// A receive request that waits for, or takes, a message.
#[derive(Clone, Debug)]
pub(crate) struct RecvWqe {
    pub(crate) id: u64,
    list: SgeList,
    /// What the list holds, in bytes.
    pub(crate) capacity: u64,
    /// The list in addresses of memory, and how old that is.
    resolved: Option<(Epoch, SgeList)>,
}

/// A message could not be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScatterError {
    /// It is longer than the list.
    Length,
    /// A key, bound or right of the list does not fit, or memory is gone.
    Protection,
}

impl RecvWqe {
    fn new(request: &RecvRequest<'_>) -> Self {
        Self {
            id: request.id,
            list: request.sges.into(),
            capacity: request.sges.iter().map(|sge| u64::from(sge.length)).sum(),
            resolved: None,
        }
    }

    /// Stores `length` bytes at `offset` of the list. `put` takes an address, an offset in those
    /// bytes, and how many go there.
    fn scatter_with(
        &mut self,
        regions: &RegionTable,
        pd: PdId,
        offset: u64,
        length: usize,
        put: impl FnMut(u64, usize, usize) -> Result<(), rdma::MemoryFault>,
    ) -> Result<(), ScatterError> {
        if offset + length as u64 > self.capacity {
            return Err(ScatterError::Length);
        }
        if self.resolved.as_ref().is_none_or(|(epoch, _)| *epoch != regions.epoch()) {
            let mut resolved = self.resolved.take().map_or_else(SgeList::new, |(_, list)| list);
            regions
                .resolve_list(&self.list, pd, Access::LOCAL_WRITE, &mut resolved)
                .map_err(|_| ScatterError::Protection)?;
            self.resolved = Some((regions.epoch(), resolved));
        }
        let Some((_, resolved)) = &self.resolved else { return Err(ScatterError::Protection) };
        region::scatter(resolved, offset, length, put).map_err(|_| ScatterError::Protection)
    }

    /// What is wrong with its memory.
    #[cold]
    pub(crate) fn fault(&self, regions: &RegionTable, pd: PdId) -> Fault {
        let resolved =
            regions.resolve_list(&self.list, pd, Access::LOCAL_WRITE, &mut SgeList::new());
        resolved.err().map_or(Fault::Gone, Fault::Receive)
    }

    /// Stores a payload at `offset` of the list.
    pub(crate) fn scatter<M: Memory>(
        &mut self,
        regions: &RegionTable,
        pd: PdId,
        offset: u64,
        Carried { payload, length }: Carried<M::Payload<'_>>,
        memory: &mut M,
    ) -> Result<(), ScatterError> {
        self.scatter_with(regions, pd, offset, length, |address, from, room| {
            memory.write(address, payload, from, room)
        })
    }

    /// Stores bytes of our own making at the beginning of the list.
    pub(crate) fn scatter_bytes<M: Memory>(
        &mut self,
        regions: &RegionTable,
        pd: PdId,
        bytes: &[u8],
        memory: &mut M,
    ) -> Result<(), ScatterError> {
        self.scatter_with(regions, pd, 0, bytes.len(), |address, from, room| {
            memory.store(address, bytes.get(from..from + room).unwrap_or_default())
        })
    }
}

/// Receive requests in the order in which they were posted.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    queue: VecDeque<RecvWqe>,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
}

impl RecvQueue {
    pub(crate) fn new(max_wr: u32, max_sge: u32) -> Self {
        Self { queue: VecDeque::new(), max_wr, max_sge }
    }

    pub(crate) fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        if self.queue.len() >= self.max_wr as usize {
            return Err(PostError::Full);
        }
        if request.sges.len() > self.max_sge as usize {
            return Err(PostError::TooManySges);
        }
        self.queue.push_back(RecvWqe::new(request));
        Ok(())
    }

    pub(crate) fn take(&mut self) -> Option<RecvWqe> {
        if mutated(Mutation::ReceivesReversed) {
            return self.queue.pop_back();
        }
        self.queue.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }
}
