//! One NIC port: the objects, and the five verbs of a driver.

use rdma::{Completion, Gid, Key, Memory, Qpn, RecvRequest, Time, WorkRequest};

use crate::attributes::{QpChange, QpQuery};
use crate::{
    Config, CqId, CreateError, DestroyError, Event, ModifyError, Notify, PostError, QpCapacity,
    QpSpec, RegionSpec, RegisterError, SrqAttributes, SrqId, Stats, Transmit,
};

/// A protection domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PdId(pub u32);

/// What the headers below RoCE said of a packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The address of the sender.
    pub source: Gid,
    /// The address that it was sent to.
    pub destination: Gid,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// TTL as received.
    pub hop_limit: u8,
}

/// The engine.
#[derive(Debug)]
pub struct Endpoint {}

#[allow(unused_variables, clippy::todo, missing_docs, reason = "signatures first")]
impl Endpoint {
    /// An endpoint without any object.
    pub fn new(config: Config) -> Self {
        todo!()
    }
    pub fn config(&self) -> &Config {
        todo!()
    }
    pub fn stats(&self) -> &Stats {
        todo!()
    }

    // ---- objects
    pub fn alloc_pd(&mut self) -> Result<PdId, CreateError> {
        todo!()
    }
    pub fn dealloc_pd(&mut self, pd: PdId) -> Result<(), DestroyError> {
        todo!()
    }
    /// Registers memory. The key returned is L_Key and R_Key.
    pub fn register(&mut self, pd: PdId, region: RegionSpec) -> Result<Key, RegisterError> {
        todo!()
    }
    pub fn deregister(&mut self, key: Key) -> Result<(), DestroyError> {
        todo!()
    }
    pub fn create_cq(&mut self, capacity: u32) -> Result<CqId, CreateError> {
        todo!()
    }
    /// Refused with `Limit` if more completions wait than `capacity`.
    pub fn resize_cq(&mut self, cq: CqId, capacity: u32) -> Result<(), CreateError> {
        todo!()
    }
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), DestroyError> {
        todo!()
    }
    pub fn create_srq(
        &mut self,
        pd: PdId,
        attributes: SrqAttributes,
    ) -> Result<SrqId, CreateError> {
        todo!()
    }
    /// Sets the limit (`Some`) and/or resizes (`Some`).
    pub fn modify_srq(
        &mut self,
        srq: SrqId,
        limit: Option<u32>,
        max_wr: Option<u32>,
    ) -> Result<(), CreateError> {
        todo!()
    }
    pub fn query_srq(&self, srq: SrqId) -> Option<SrqAttributes> {
        todo!()
    }
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), DestroyError> {
        todo!()
    }
    pub fn create_qp(&mut self, spec: QpSpec) -> Result<Qpn, CreateError> {
        todo!()
    }
    pub fn modify_qp(&mut self, now: Time, qpn: Qpn, change: &QpChange) -> Result<(), ModifyError> {
        todo!()
    }
    pub fn query_qp(&self, qpn: Qpn) -> Option<QpQuery> {
        todo!()
    }
    /// The capacities that the queue pair really has.
    pub fn qp_capacity(&self, qpn: Qpn) -> Option<QpCapacity> {
        todo!()
    }
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), DestroyError> {
        todo!()
    }

    // ---- work
    pub fn post_send(
        &mut self,
        now: Time,
        qpn: Qpn,
        request: &WorkRequest<'_>,
    ) -> Result<(), PostError> {
        todo!()
    }
    pub fn post_recv(
        &mut self,
        now: Time,
        qpn: Qpn,
        request: &RecvRequest<'_>,
    ) -> Result<(), PostError> {
        todo!()
    }
    pub fn post_srq_recv(
        &mut self,
        srq: SrqId,
        request: &RecvRequest<'_>,
    ) -> Result<(), PostError> {
        todo!()
    }
    /// Takes the oldest completion.
    pub fn poll_cq(&mut self, cq: CqId) -> Option<Completion> {
        todo!()
    }
    /// Arms the queue: its next (solicited) completion raises [`Event::CompletionNotify`] once.
    pub fn arm_cq(&mut self, cq: CqId, notify: Notify) -> Result<(), PostError> {
        todo!()
    }

    // ---- the five verbs of a driver
    /// A packet arrived, its ICRC checked and its headers parsed. `length` is that of `payload`.
    pub fn handle<M: Memory>(
        &mut self,
        now: Time,
        arrival: &Arrival,
        header: &wire::roce::Repr,
        payload: M::Payload<'_>,
        length: usize,
        memory: &mut M,
    ) {
        todo!()
    }
    /// The next packet to send, if any.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        todo!()
    }
    /// The driver could not read the payload of the packet that it was given: the address is gone.
    pub fn transmit_faulted(&mut self, now: Time, qpn: Qpn, header: &wire::roce::Repr) {
        todo!()
    }
    /// When to call [`Endpoint::handle_timeout`].
    pub fn poll_timeout(&mut self) -> Option<Time> {
        todo!()
    }
    pub fn handle_timeout(&mut self, now: Time) {
        todo!()
    }
    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }
}
