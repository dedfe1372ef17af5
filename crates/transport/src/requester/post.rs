//! What may be posted, and how it enters the queue.

use rdma::{CompletionStatus, Mtu, Operation, QpState, QpType, Qpn, Time, WorkRequest};
use smallvec::SmallVec;

use super::{Data, SendWqe};
use crate::PostError;
use crate::adapter::Adapter;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::qp::Qp;
use crate::region::SgeList;

impl Qp {
    /// Returns the length of the message.
    pub(crate) fn post_send(
        &mut self,
        now: Time,
        request: &WorkRequest<'_>,
        srq: Option<Qpn>,
        adapter: &mut Adapter,
    ) -> Result<u32, PostError> {
        let wqe = self.entry_of(request, srq, 0, adapter.config.active_mtu)?;
        let length = wqe.length;
        if matches!(self.state, QpState::Error | QpState::Sqe) {
            self.complete_send(&wqe, CompletionStatus::Flushed, adapter);
        } else {
            self.requester.queue.push_back(wqe);
            self.responder.note_answer(now, adapter.config.ack_delay);
        }
        Ok(length)
    }

    /// Whether [`Qp::post_send`] would take a request, if `ahead` others were posted before it.
    pub(crate) fn check_send(
        &self,
        request: &WorkRequest<'_>,
        ahead: usize,
        active_mtu: Mtu,
    ) -> Result<(), PostError> {
        self.entry_of(request, None, ahead, active_mtu).map(|_| ())
    }

    /// The entry of a request, if it may be posted with `ahead` others before it.
    // An entry is long, and not to be copied from here to the queue by way of the stack.
    #[inline(always)]
    fn entry_of(
        &self,
        request: &WorkRequest<'_>,
        srq: Option<Qpn>,
        ahead: usize,
        active_mtu: Mtu,
    ) -> Result<SendWqe, PostError> {
        // IBTA vol 1, 10.3.1: sends may be posted from RTS on, and in the error states, where they
        // are flushed.
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(PostError::State);
        }
        check_operation(self.spec.kind, request)?;
        // An XRC request names a shared receive queue of the peer, as a datagram names an address.
        let names_queue = self.spec.kind == QpType::XrcInitiator && !request.operation.is_local();
        if names_queue != srq.is_some() {
            return Err(PostError::Address);
        }
        let capacity = &self.spec.capacity;
        if self.requester.queue.len() + ahead >= capacity.send_wr as usize {
            return Err(PostError::Full);
        }
        let given =
            request.inline.is_some_and(|bytes| !bytes.is_empty()) || !request.sges.is_empty();
        let (data, length) = if let Operation::AtomicWrite { bytes, .. } = request.operation
            && !given
        {
            (Data::Inline(SmallVec::from_slice(&bytes)), bytes.len() as u64)
        } else if let Some(bytes) = request.inline {
            if bytes.len() > capacity.inline as usize {
                return Err(PostError::InlineTooLong);
            }
            (Data::Inline(SmallVec::from_slice(bytes)), bytes.len() as u64)
        } else {
            // A local operation has no data.
            let sges = if request.operation.is_local() { &[] } else { request.sges };
            if sges.len() > capacity.send_sge as usize {
                return Err(PostError::TooManySges);
            }
            let length = sges.iter().map(|sge| u64::from(sge.length)).sum();
            let posted = SgeList::from_slice(sges);
            (Data::Pieces { posted, resolved: SgeList::new(), epoch: None }, length)
        };
        let longest = match self.spec.kind {
            QpType::Ud => active_mtu.bytes(),
            _ => MESSAGE_BYTES_MAX,
        };
        let mut wqe = SendWqe {
            id: request.id,
            operation: request.operation,
            flags: request.flags,
            srq,
            data,
            length: u32::try_from(length)
                .ok()
                .filter(|&length| length <= longest)
                .ok_or(PostError::TooLong)?,
            packets: 1,
            stride: if self.is_datagram() { active_mtu.bytes() } else { self.mtu() },
            begun: None,
            faulted: false,
            stuck: false,
            failure: None,
        };
        match request.operation {
            Operation::AtomicWrite { .. } if wqe.length != 8 => return Err(PostError::Opcode),
            Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => wqe.length = 8,
            operation if operation.is_local() => (wqe.length, wqe.packets) = (0, 0),
            _ if self.is_datagram() => {}
            _ => wqe.cut(self.stride_for(wqe.length)),
        }
        Ok(wqe)
    }
}

/// Refuses what a transport does not have (zhang17, table 1; IBTA vol 1, table 37).
fn check_operation(kind: QpType, request: &WorkRequest<'_>) -> Result<(), PostError> {
    let inline = request.inline.is_some();
    let (connected, reliable) = (kind.is_connected(), kind.is_reliable());
    match request.operation {
        _ if kind == QpType::XrcTarget => Err(PostError::Opcode),
        Operation::Send { address: None, .. } if !connected => Err(PostError::Address),
        Operation::Send { .. } => Ok(()),
        Operation::Write { .. } if connected => Ok(()),
        Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
            if reliable && !inline =>
        {
            Ok(())
        }
        Operation::SendInvalidate { .. } if reliable => Ok(()),
        Operation::AtomicWrite { .. } if kind == QpType::Rc => Ok(()),
        operation if connected && operation.is_local() => Ok(()),
        _ => Err(PostError::Opcode),
    }
}
