//! Extended reliable connection (IBTA vol 1, annex A14).
//!
//! ```text
//!   initiator ── requests, each with the number of a queue ──► target ─┬─► XRC queue 1 ─► its CQ
//!             ◄───────────── answers ─────────────────────────         └─► XRC queue 2 ─► its CQ
//! ```
//!
//! A process has one target for each initiator that sends to it, and any number of shared receive
//! queues, all in one domain. A target has neither a protection domain nor a completion queue: a
//! request names a queue, and that queue has both.

use alloc::boxed::Box;

use rdma::{QpType, Qpn, Time, WorkRequest};

use super::Endpoint;
use crate::limits::XRCDS_MAX;
use crate::qp::Qp;
use crate::{
    CqId, CreateError, DestroyError, PdId, PostError, QpCapacity, QpSpec, SrqAttributes, SrqId,
    XrcdId,
};

impl Endpoint {
    /// Makes an XRC domain.
    ///
    /// # Errors
    /// [`CreateError::Exhausted`].
    pub fn alloc_xrcd(&mut self) -> Result<XrcdId, CreateError> {
        self.xrcds.insert(0, XRCDS_MAX).map(XrcdId).ok_or(CreateError::Exhausted)
    }

    /// Ends an XRC domain.
    ///
    /// # Errors
    /// [`DestroyError::InUse`] while a target or a queue belongs to it.
    pub fn dealloc_xrcd(&mut self, xrcd: XrcdId) -> Result<(), DestroyError> {
        self.xrcds.end(xrcd.0)
    }

    /// Makes a shared receive queue for the targets of `xrcd`: messages are stored in memory of
    /// `pd` and complete to `cq`.
    ///
    /// # Errors
    /// As [`Endpoint::create_srq`].
    pub fn create_xrc_srq(
        &mut self,
        pd: PdId,
        xrcd: XrcdId,
        cq: CqId,
        attributes: SrqAttributes,
    ) -> Result<SrqId, CreateError> {
        if self.xrcds.get(xrcd.0).is_none() || self.adapter.cqs.get(cq.0).is_none() {
            return Err(CreateError::NotFound);
        }
        let id = self.create_srq(pd, attributes)?;
        if let Some(srq) = self.adapter.srqs.get_mut(id.0) {
            srq.xrc = Some((xrcd, cq));
        }
        self.xrcds.join(xrcd.0);
        if let Some(queue) = self.adapter.cqs.get_mut(cq.0) {
            queue.users += 1;
        }
        Ok(id)
    }

    /// The number by which peers name an XRC queue; `None` for any other.
    pub fn srq_number(&self, srq: SrqId) -> Option<Qpn> {
        self.adapter.srqs.get(srq.0)?.xrc.map(|_| srq.number())
    }

    /// Makes the answering half of an XRC connection, in RESET.
    ///
    /// # Errors
    /// [`CreateError::NotFound`], [`CreateError::Exhausted`].
    pub fn create_xrc_target(&mut self, xrcd: XrcdId) -> Result<Qpn, CreateError> {
        if self.xrcds.get(xrcd.0).is_none() {
            return Err(CreateError::NotFound);
        }
        let (index, qpn) = self.free_qpn()?;
        self.xrcds.join(xrcd.0);
        let spec = QpSpec {
            kind: QpType::XrcTarget,
            pd: PdId::NONE,
            send_cq: CqId::NONE,
            recv_cq: CqId::NONE,
            srq: None,
            capacity: QpCapacity::default(),
            signal_all: false,
        };
        let qp = Qp::new(qpn, spec, &self.adapter.config);
        self.qps[index as usize] = Some(Box::new(Qp { domain: Some(xrcd), ..qp }));
        Ok(qpn)
    }

    /// The domain of a target; `None` for any other queue pair.
    pub fn target_xrcd(&self, qpn: Qpn) -> Option<XrcdId> {
        self.qp(qpn)?.domain
    }

    /// Posts a request of an initiator, for the peer's queue with the number `srq`.
    ///
    /// # Errors
    /// See [`PostError`]; the request is then not posted.
    pub fn post_send_xrc(
        &mut self,
        now: Time,
        qpn: Qpn,
        srq: Qpn,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        self.post(now, qpn, request, Some(srq).filter(|_| !request.operation.is_local()))
    }
}
