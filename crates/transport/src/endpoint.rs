//! One NIC port: its objects, and what is posted to them. Its driver's verbs are in `drive.rs`, and its
//! driver's questions in `ask.rs`.

mod ask;
mod control;
mod drive;
mod multicast;
mod run;
mod xrc;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use rdma::{
    Completion, CompletionStatus, Gid, Key, QpState, QpType, Qpn, RecvRequest, Time, WorkRequest,
};

use crate::adapter::Adapter;
use crate::attributes::{QpChange, QpQuery};
use crate::cq::Cq;
use crate::failure::{Cause, Failure};
use crate::limits::{
    CQE_MAX, CQS_MAX, DEADLINES_SPARE, INLINE_MAX, PDS_MAX, QPS_MAX, SGE_MAX, SRQ_WR_MAX, SRQS_MAX,
    WR_MAX,
};
use crate::mutation::{Mutation, mutated};
use crate::qp::{Call, Outgoing, Qp};
use crate::secret::Secret;
use crate::slab::Slab;
use crate::srq::Srq;
use crate::transmit::Written;
use crate::{
    BringUp, Config, CqId, CreateError, DestroyError, Event, ModifyError, Notify, PdId, PostError,
    QpSpec, RegionSpec, RegisterError, SrqAttributes, SrqId, WindowKind,
};

pub use control::Control;
pub use run::Run;

/// The engine.
///
/// A driver calls [`Endpoint::handle`] with what arrives and [`Endpoint::handle_timeout`] when a
/// deadline has come. After any call it takes out packets ([`Endpoint::poll_transmit`]) and events
/// ([`Endpoint::poll_event`]) until there are none.
#[derive(Debug)]
pub struct Endpoint {
    adapter: Adapter,
    /// How many objects belong to each protection domain.
    pds: Slab<u32>,
    /// How many objects belong to each XRC domain.
    xrcds: Slab<u32>,
    /// By QPN, less the first of the range.
    qps: Vec<Option<Box<Qp>>>,
    /// Where to look for the next free QPN.
    next_qp: u32,
    /// Queue pairs that may have something to send, in the order of their turns.
    ready: VecDeque<Qpn>,
    /// Queue pairs that are ready, but for room at their destinations.
    paused: Vec<Qpn>,
    /// Final acknowledgements: those of queue pairs that have since been reset, failed or
    /// destroyed.
    final_acknowledgements: VecDeque<(Qpn, Written)>,
    /// The headers of the packet that was taken out last.
    written: Written,
    /// In debug builds: whether the driver has still to say what became of that packet's run.
    is_run_open: bool,
    /// The members of each multicast group.
    groups: BTreeMap<Gid, Vec<Qpn>>,
    /// Packets that the front of `ready` has sent in its turn.
    burst: u32,
    /// Since [`Endpoint::poll_transmit`] last had nothing more.
    posted: Posted,
    /// The last queue pair that asked for an acknowledgement.
    asked: Option<Qpn>,
    /// Deadlines. An entry counts only if its queue pair remembers it (`Qp::scheduled`).
    deadlines: BinaryHeap<Reverse<(Time, u32)>>,
}

/// What has been posted.
#[derive(Clone, Copy, Debug, Default)]
struct Posted {
    requests: usize,
    /// Of their messages.
    bytes: u64,
}

impl Endpoint {
    /// An endpoint without any object.
    pub fn new(config: Config) -> Self {
        Self {
            adapter: Adapter::new(config),
            pds: Slab::default(),
            xrcds: Slab::default(),
            qps: Vec::new(),
            next_qp: 0,
            ready: VecDeque::new(),
            paused: Vec::new(),
            final_acknowledgements: VecDeque::new(),
            written: Written::NOTHING,
            is_run_open: false,
            groups: BTreeMap::new(),
            burst: 0,
            posted: Posted::default(),
            asked: None,
            deadlines: BinaryHeap::new(),
        }
    }

    // ---- protection domains and regions

    /// Makes a protection domain.
    ///
    /// # Errors
    /// [`CreateError::Exhausted`].
    pub fn alloc_pd(&mut self) -> Result<PdId, CreateError> {
        self.pds.insert(0, PDS_MAX).map(PdId).ok_or(CreateError::Exhausted)
    }

    /// Ends a protection domain.
    ///
    /// # Errors
    /// [`DestroyError::InUse`] while anything belongs to it.
    pub fn dealloc_pd(&mut self, pd: PdId) -> Result<(), DestroyError> {
        self.pds.end(pd.0)
    }

    /// Registers memory. The key returned is L_Key and R_Key.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn register(&mut self, pd: PdId, region: RegionSpec) -> Result<Key, RegisterError> {
        self.pds.get(pd.0).ok_or(RegisterError::NotFound)?;
        let key = self.adapter.regions.register(pd, region)?;
        self.pds.join(pd.0);
        Ok(key)
    }

    /// Deregisters a region. Requests that need it from now on fail.
    ///
    /// # Errors
    /// [`DestroyError::NotFound`]; [`DestroyError::InUse`] while a window is bound to it.
    pub fn deregister(&mut self, key: Key) -> Result<(), DestroyError> {
        let pd = self.adapter.regions.deregister(key)?;
        self.pds.leave(pd.0);
        Ok(())
    }

    /// Changes a region's protection domain, memory and rights, and keeps its key. If it fails the
    /// region stays as it was.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn reregister(
        &mut self,
        key: Key,
        pd: PdId,
        region: RegionSpec,
    ) -> Result<(), RegisterError> {
        self.pds.get(pd.0).ok_or(RegisterError::NotFound)?;
        let before = self.adapter.regions.reregister(key, pd, region)?;
        self.pds.join(pd.0);
        self.pds.leave(before.0);
        Ok(())
    }

    /// A region's protection domain and its specification.
    pub fn query_region(&self, key: Key) -> Option<(PdId, RegionSpec)> {
        self.adapter.regions.query(key)
    }

    /// Makes a memory window, bound to nothing. Requests bind it, which gives it another key:
    /// [`rdma::Operation::BindWindow`].
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn alloc_window(&mut self, pd: PdId, kind: WindowKind) -> Result<Key, RegisterError> {
        self.pds.get(pd.0).ok_or(RegisterError::NotFound)?;
        let key = self.adapter.regions.alloc_window(pd, kind)?;
        self.pds.join(pd.0);
        Ok(key)
    }

    /// Ends a memory window, bound or not. Any of its keys, past or present, names it.
    ///
    /// # Errors
    /// [`DestroyError::NotFound`].
    pub fn dealloc_window(&mut self, key: Key) -> Result<(), DestroyError> {
        let pd = self.adapter.regions.dealloc_window(key)?;
        self.pds.leave(pd.0);
        Ok(())
    }

    // ---- completion queues

    /// Makes a completion queue for `capacity` completions.
    ///
    /// # Errors
    /// [`CreateError::Limit`] for none or too many, [`CreateError::Exhausted`].
    pub fn create_cq(&mut self, capacity: u32) -> Result<CqId, CreateError> {
        if !(1..=CQE_MAX).contains(&capacity) {
            return Err(CreateError::Limit);
        }
        let index = self.adapter.cqs.insert(Cq::new(capacity), CQS_MAX);
        index.map(CqId).ok_or(CreateError::Exhausted)
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// [`CreateError::Limit`] if more completions wait than would fit, or for none or too many.
    pub fn resize_cq(&mut self, cq: CqId, capacity: u32) -> Result<(), CreateError> {
        let queue = self.adapter.cqs.get_mut(cq.0).ok_or(CreateError::NotFound)?;
        if !(1..=CQE_MAX).contains(&capacity) || !queue.resize(capacity) {
            return Err(CreateError::Limit);
        }
        Ok(())
    }

    /// Ends a completion queue.
    ///
    /// # Errors
    /// [`DestroyError::InUse`] while a queue pair or an XRC receive queue completes to it.
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), DestroyError> {
        match self.adapter.cqs.get(cq.0) {
            None => Err(DestroyError::NotFound),
            Some(queue) if queue.users > 0 => Err(DestroyError::InUse),
            Some(_) => {
                self.adapter.cqs.remove(cq.0);
                Ok(())
            }
        }
    }

    /// Takes the oldest completion.
    pub fn poll_cq(&mut self, cq: CqId) -> Option<Completion> {
        self.poll_cq_timed(cq).map(|(completion, _)| completion)
    }

    /// Takes the oldest completion, with the time at which it was written: the `now` of the latest
    /// call that had one.
    pub fn poll_cq_timed(&mut self, cq: CqId) -> Option<(Completion, Time)> {
        self.adapter.cqs.get_mut(cq.0)?.pop()
    }

    /// Arms the queue: its next (solicited) completion raises [`Event::CompletionNotify`] once. A
    /// completion that came since the last event and was not fetched raises it at once.
    ///
    /// # Errors
    /// [`PostError::NotFound`].
    pub fn arm_cq(&mut self, cq: CqId, notify: Notify) -> Result<(), PostError> {
        let told = self.adapter.cqs.get_mut(cq.0).ok_or(PostError::NotFound)?.arm(cq, notify);
        if let Some(event) = told {
            self.adapter.raise(event);
        }
        Ok(())
    }

    // ---- shared receive queues

    /// Makes a shared receive queue.
    ///
    /// # Errors
    /// [`CreateError::NotFound`], [`CreateError::Limit`], [`CreateError::Exhausted`].
    pub fn create_srq(
        &mut self,
        pd: PdId,
        attributes: SrqAttributes,
    ) -> Result<SrqId, CreateError> {
        self.pds.get(pd.0).ok_or(CreateError::NotFound)?;
        let SrqAttributes { max_wr, max_sge, limit } = attributes;
        if !(1..=SRQ_WR_MAX).contains(&max_wr) || max_sge > SGE_MAX || limit > max_wr {
            return Err(CreateError::Limit);
        }
        let index = self.adapter.srqs.insert(Srq::new(pd, attributes), SRQS_MAX);
        let srq = index.map(SrqId).ok_or(CreateError::Exhausted)?;
        self.pds.join(pd.0);
        Ok(srq)
    }

    /// Sets the limit, or the capacity, or both.
    ///
    /// # Errors
    /// [`CreateError::Limit`] if more requests wait than would fit, or a value is out of range.
    pub fn modify_srq(
        &mut self,
        srq: SrqId,
        limit: Option<u32>,
        max_wr: Option<u32>,
    ) -> Result<(), CreateError> {
        let srq = self.adapter.srqs.get_mut(srq.0).ok_or(CreateError::NotFound)?;
        let size = max_wr.unwrap_or(srq.queue.max_wr);
        let fits = (1..=SRQ_WR_MAX).contains(&size) && srq.queue.len() <= size as usize;
        if !fits || limit.is_some_and(|limit| limit > size) {
            return Err(CreateError::Limit);
        }
        srq.queue.max_wr = size;
        srq.limit = limit.unwrap_or(srq.limit);
        Ok(())
    }

    /// The sizes, and the limit if it is still armed.
    pub fn query_srq(&self, srq: SrqId) -> Option<SrqAttributes> {
        self.adapter.srqs.get(srq.0).map(Srq::attributes)
    }

    /// Ends a shared receive queue and the requests in it.
    ///
    /// # Errors
    /// [`DestroyError::InUse`] while a queue pair takes from it.
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), DestroyError> {
        let users = self.adapter.srqs.get(srq.0).map(|srq| srq.users);
        if users.ok_or(DestroyError::NotFound)? > 0 {
            return Err(DestroyError::InUse);
        }
        let gone = self.adapter.srqs.remove(srq.0).ok_or(DestroyError::NotFound)?;
        self.pds.leave(gone.pd.0);
        if let Some((xrcd, cq)) = gone.xrc {
            self.xrcds.leave(xrcd.0);
            self.release_cq(cq);
        }
        Ok(())
    }

    // ---- queue pairs

    /// Makes a queue pair, in RESET.
    ///
    /// # Errors
    /// [`CreateError::NotFound`] for a handle that names nothing, [`CreateError::Mismatch`] for a
    /// shared receive queue of another protection domain or of XRC, [`CreateError::Limit`],
    /// [`CreateError::Exhausted`].
    pub fn create_qp(&mut self, mut spec: QpSpec) -> Result<Qpn, CreateError> {
        let capacity = &mut spec.capacity;
        let within = capacity.send_wr <= WR_MAX
            && capacity.recv_wr <= WR_MAX
            && capacity.send_sge <= SGE_MAX
            && capacity.recv_sge <= SGE_MAX
            && capacity.inline <= INLINE_MAX;
        if !within {
            return Err(CreateError::Limit);
        }
        match spec.kind {
            // It takes receives from the queues of its domain: see `create_xrc_target`.
            QpType::XrcTarget => return Err(CreateError::Mismatch),
            QpType::XrcInitiator if spec.srq.is_some() => return Err(CreateError::Mismatch),
            QpType::XrcInitiator => (capacity.recv_wr, capacity.recv_sge) = (0, 0),
            QpType::Rc | QpType::Uc | QpType::Ud => {}
        }
        let cqs = [spec.send_cq, spec.recv_cq];
        let known = cqs.iter().all(|cq| self.adapter.cqs.get(cq.0).is_some());
        if !known || self.pds.get(spec.pd.0).is_none() {
            return Err(CreateError::NotFound);
        }
        if let Some(id) = spec.srq {
            let srq = self.adapter.srqs.get_mut(id.0).ok_or(CreateError::NotFound)?;
            if srq.pd != spec.pd || srq.xrc.is_some() {
                return Err(CreateError::Mismatch);
            }
            capacity.recv_wr = 0;
            capacity.recv_sge = 0;
        }
        let (index, qpn) = self.free_qpn()?;
        if let Some(srq) = spec.srq.and_then(|srq| self.adapter.srqs.get_mut(srq.0)) {
            srq.users += 1;
        }
        for cq in cqs {
            if let Some(queue) = self.adapter.cqs.get_mut(cq.0) {
                queue.users += 1;
            }
        }
        self.pds.join(spec.pd.0);
        self.qps[index as usize] = Some(Box::new(Qp::new(qpn, spec, &self.adapter.config)));
        Ok(qpn)
    }

    /// Makes a transition, or changes attributes, or both; all or nothing.
    ///
    /// # Errors
    /// See [`ModifyError`].
    pub fn modify_qp(&mut self, qpn: Qpn, change: &QpChange) -> Result<(), ModifyError> {
        if matches!(change.state, Some(QpState::Reset | QpState::Error)) {
            self.acknowledge_finally(qpn);
        }
        let (qp, adapter) = self.qp_mut(qpn).ok_or(ModifyError::NotFound)?;
        let result = qp.modify(change, adapter);
        self.settle(qpn);
        result
    }

    /// Brings a queue pair from RESET to RTS.
    ///
    /// # Errors
    /// See [`ModifyError`]; then the queue pair stays in the state before the refused change.
    pub fn bring_up(&mut self, qpn: Qpn, with: &BringUp) -> Result<(), ModifyError> {
        let kind = self.qp(qpn).ok_or(ModifyError::NotFound)?.spec.kind;
        with.changes(kind).iter().try_for_each(|change| self.modify_qp(qpn, change))
    }

    /// State, attributes, sizes and source port.
    pub fn query_qp(&self, qpn: Qpn) -> Option<QpQuery> {
        self.qp(qpn).map(Qp::query)
    }

    /// Why the queue pair left its state by itself, until it is reset.
    pub fn failure(&self, qpn: Qpn) -> Option<&Failure> {
        self.qp(qpn)?.failure.as_deref()
    }

    /// Ends a queue pair and what is posted to it, without completions. The acknowledgement that it
    /// owes still leaves.
    ///
    /// # Errors
    /// [`DestroyError::NotFound`]; [`DestroyError::InUse`] while it is attached to a multicast group.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), DestroyError> {
        if self.is_attached(qpn) {
            return Err(DestroyError::InUse);
        }
        self.acknowledge_finally(qpn);
        let slot = self.index(qpn).and_then(|index| self.qps.get_mut(index));
        let qp = slot.and_then(Option::take).ok_or(DestroyError::NotFound)?;
        self.release_cq(qp.spec.send_cq);
        self.release_cq(qp.spec.recv_cq);
        if let Some(xrcd) = qp.domain {
            self.xrcds.leave(xrcd.0);
        }
        if let Some(srq) = qp.spec.srq.and_then(|srq| self.adapter.srqs.get_mut(srq.0)) {
            srq.users -= 1;
        }
        self.pds.leave(qp.spec.pd.0);
        self.adapter.regions.release_windows(qpn);
        if qp.ready {
            self.ready.retain(|&ready| ready != qpn);
            self.paused.retain(|&paused| paused != qpn);
        }
        Ok(())
    }

    /// Before the driver ends: queues the acknowledgements that every queue pair owes, as
    /// [`Endpoint::destroy_qp`] does for one.
    pub fn release_acknowledgements(&mut self) {
        let all: Vec<Qpn> = self.qps.iter().flatten().map(|qp| qp.qpn).collect();
        for qpn in all {
            self.acknowledge_finally(qpn);
        }
    }

    // ---- work

    /// Posts a send request.
    ///
    /// # Errors
    /// See [`PostError`]; the request is then not posted.
    pub fn post_send(
        &mut self,
        now: Time,
        qpn: Qpn,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        self.post(now, qpn, request, None)
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// See [`PostError`]; the request is then not posted.
    pub fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let (qp, adapter) = self.qp_mut(qpn).ok_or(PostError::NotFound)?;
        let has_queue = !matches!(qp.spec.kind, QpType::XrcInitiator | QpType::XrcTarget);
        if qp.spec.srq.is_some() || !has_queue {
            return Err(PostError::Address);
        }
        // IBTA vol 1, 10.3.1.1: nothing may be posted in RESET.
        if qp.state == QpState::Reset {
            return Err(PostError::State);
        }
        qp.recv.post(request)?;
        if qp.state == QpState::Error {
            if let Some(wqe) = qp.recv.take() {
                qp.complete_recv_error(&wqe, qp.spec.recv_cq, CompletionStatus::Flushed, adapter);
            }
            self.settle(qpn);
        }
        Ok(())
    }

    /// Posts a receive request to a shared receive queue.
    ///
    /// # Errors
    /// See [`PostError`]; the request is then not posted.
    pub fn post_srq_recv(
        &mut self,
        srq: SrqId,
        request: &RecvRequest<'_>,
    ) -> Result<(), PostError> {
        self.adapter.srqs.get_mut(srq.0).ok_or(PostError::NotFound)?.queue.post(request)
    }

    // ---- inside

    fn index(&self, qpn: Qpn) -> Option<usize> {
        let first = self.adapter.config.qpns.start;
        if mutated(Mutation::OwnerBitsIgnored) {
            return Some(qpn.value() as usize & 0x3fff);
        }
        let offset = qpn.value().checked_sub(first)?;
        usize::try_from(offset).ok()
    }

    fn qp(&self, qpn: Qpn) -> Option<&Qp> {
        self.qps.get(self.index(qpn)?)?.as_deref()
    }

    fn qp_mut(&mut self, qpn: Qpn) -> Option<(&mut Qp, &mut Adapter)> {
        let index = self.index(qpn)?;
        let qp = self.qps.get_mut(index)?.as_deref_mut()?;
        Some((qp, &mut self.adapter))
    }

    /// Sends the acknowledgements that are owed, and repeats the last one as often as configured.
    fn acknowledge_finally(&mut self, qpn: Qpn) {
        while let Some(owed) =
            self.qp_mut(qpn).and_then(|(qp, adapter)| qp.take_owed_acknowledgement(adapter))
        {
            self.send_finally(qpn, Some(owed));
        }
        for _ in 0..self.adapter.config.final_acknowledgements {
            let last = self.qp(qpn).and_then(Qp::last_acknowledgement);
            self.send_finally(qpn, last);
        }
    }

    fn send_finally(&mut self, qpn: Qpn, acknowledgement: Option<Outgoing>) {
        if let (Some(packet), Some(qp)) = (acknowledgement, self.qp(qpn)) {
            let mut written = Written::NOTHING;
            qp.write(&packet, &mut written);
            self.final_acknowledgements.push_back((qpn, written));
        }
    }

    /// The next index without a queue pair. They are given out in turn, so that late packets for
    /// a queue pair that is gone do not soon meet a new one.
    fn free_qp_index(&mut self) -> Option<u32> {
        let range = &self.adapter.config.qpns;
        let count = range.end.saturating_sub(range.start).min(QPS_MAX);
        let secret = Secret::new(self.adapter.config.seed);
        let turns = (0..count).map(|step| (self.next_qp + step) % count);
        let (turn, index) = turns
            .map(|turn| (turn, secret.shuffled(turn, count)))
            .find(|&(_, index)| self.qps.get(index as usize).is_none_or(Option::is_none))?;
        self.next_qp = (turn + 1) % count;
        if self.qps.len() <= index as usize {
            self.qps.resize_with(index as usize + 1, || None);
        }
        Some(index)
    }

    /// The next free QPN, and its index.
    fn free_qpn(&mut self) -> Result<(u32, Qpn), CreateError> {
        let index = self.free_qp_index().ok_or(CreateError::Exhausted)?;
        Ok((index, Qpn::new(self.adapter.config.qpns.start + index)))
    }

    #[inline]
    fn post(
        &mut self,
        now: Time,
        qpn: Qpn,
        request: &WorkRequest<'_>,
        srq: Option<Qpn>,
    ) -> Result<(), PostError> {
        self.adapter.now = now;
        let (qp, adapter) = self.qp_mut(qpn).ok_or(PostError::NotFound)?;
        let length = qp.post_send(now, request, srq, adapter)?;
        self.posted.requests += 1;
        self.posted.bytes += u64::from(length);
        self.settle(qpn);
        Ok(())
    }

    fn release_cq(&mut self, cq: CqId) {
        if let Some(queue) = self.adapter.cqs.get_mut(cq.0) {
            queue.users -= 1;
        }
    }

    /// After anything happened to a queue pair: it may have something to send, and a deadline.
    fn settle(&mut self, qpn: Qpn) {
        if let Some((qp, _)) = self.qp_mut(qpn) {
            let call = qp.call();
            self.enter(qpn, call);
        }
    }

    /// Enters a queue pair as one that may have something to send, and its deadline.
    #[inline(always)]
    fn enter(&mut self, qpn: Qpn, call: Call) {
        if call.is_ready {
            self.ready.push_back(qpn);
        }
        self.enter_deadline(qpn, call.deadline);
        self.fail_overrun();
    }

    /// Enters the deadline of a queue pair, if there is one to enter.
    #[inline(always)]
    fn enter_deadline(&mut self, qpn: Qpn, deadline: Option<Time>) {
        if let Some(at) = deadline {
            self.push_deadline(qpn, at);
        }
    }

    fn push_deadline(&mut self, qpn: Qpn, at: Time) {
        self.deadlines.push(Reverse((at, qpn.value())));
        if self.deadlines.len() > 2 * self.qps.len() + DEADLINES_SPARE {
            self.forget_old_deadlines();
        }
    }

    /// Each queue pair has one deadline. An entry that an earlier one replaces would stay until its
    /// time, and a queue pair that paces its packets would leave one for each.
    #[cold]
    fn forget_old_deadlines(&mut self) {
        self.deadlines.clear();
        let qps = self.qps.iter().flatten();
        let deadlines = qps.filter_map(|qp| Some(Reverse((qp.scheduled?, qp.qpn.value()))));
        self.deadlines.extend(deadlines);
    }

    /// How many deadlines are entered.
    #[cfg(test)]
    pub(crate) fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// IBTA vol 1, 11.6.3.4: when a completion queue is overrun, its queue pairs fail.
    #[inline(always)]
    fn fail_overrun(&mut self) {
        if !self.adapter.overrun.is_empty() {
            self.fail_users_of_overrun();
        }
    }

    #[cold]
    fn fail_users_of_overrun(&mut self) {
        while let Some(cq) = self.adapter.overrun.pop() {
            for qp in self.qps.iter_mut().flatten() {
                let queue_of = |domain| {
                    let mut queues = self.adapter.srqs.iter();
                    queues.any(|srq| srq.xrc == Some((domain, cq)))
                };
                let uses = qp.spec.send_cq == cq
                    || qp.spec.recv_cq == cq
                    || qp.domain.is_some_and(queue_of);
                let uses = uses && !mutated(Mutation::OverrunHarmless);
                if uses && !matches!(qp.state, QpState::Error | QpState::Reset) {
                    qp.note_failure(QpState::Error, Cause::Overrun, &mut self.adapter);
                    self.adapter.raise(Event::QpFatal(qp.qpn));
                    qp.enter_error(false, &mut self.adapter);
                }
            }
        }
    }
}
