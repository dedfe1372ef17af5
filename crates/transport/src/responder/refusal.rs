//! What a refused request leads to.

use rdma::{CompletionStatus, QpState};
use wire::aeth::{NakCode, Syndrome};
use wire::roce;

use super::Refusal;
use crate::Event;
use crate::adapter::Adapter;
use crate::failure::{Cause, Fault, Work};
use crate::mutation::{Mutation, mutated};
use crate::qp::Qp;
use crate::stats::Drop;

impl Qp {
    /// What a refused request leads to (9.9.3, table 60).
    pub(super) fn refuse(
        &mut self,
        refusal: Refusal,
        header: &roce::Repr,
        adapter: &mut Adapter,
    ) -> Result<(), Drop> {
        let work = || Work::received(header);
        let reliable = self.spec.kind.is_reliable();
        let recovery = self.recovery(adapter);
        match refusal {
            Refusal::Ignore(cause) => Err(cause),
            Refusal::Duplicate => Ok(()),
            Refusal::SequenceError => {
                let responder = &mut self.responder;
                if responder.nak_sent {
                    return Err(Drop::OutOfOrder);
                }
                if let Some(message) = responder.message {
                    responder.expected = recovery.resume_at(message.first_psn, responder.expected);
                    if responder.expected == message.first_psn {
                        responder.message = None;
                    }
                }
                responder.nak_sent = true;
                responder.nak(Syndrome::Nak(NakCode::SequenceError));
                adapter.stats.send_seq_err += 1;
                Ok(())
            }
            Refusal::NotReady if reliable => {
                let timer = self.attributes.min_rnr_timer;
                self.responder.nak_sent = true;
                self.responder.nak(Syndrome::RnrNak { timer });
                self.responder.forget_kept();
                adapter.stats.send_rnr_err += 1;
                if mutated(Mutation::NotReadyPassedOver) {
                    self.responder.expected = self.responder.expected.next();
                }
                Ok(())
            }
            Refusal::NotReady => {
                self.skip_unreliable();
                Err(Drop::NoReceive)
            }
            Refusal::Invalid(status, fault) if reliable => {
                let code = NakCode::InvalidRequest;
                self.fail_responder(code, status, (work(), fault), adapter);
                Ok(())
            }
            Refusal::Access(fault) if reliable => {
                adapter.stats.resp_remote_access_errors += 1;
                let (code, status) = (NakCode::RemoteAccess, CompletionStatus::Flushed);
                self.fail_responder(code, status, (work(), fault), adapter);
                Ok(())
            }
            Refusal::Local(status) if reliable => {
                let (code, fault) = (NakCode::RemoteOperation, self.receive_fault(status, adapter));
                self.fail_responder(code, status, (work(), fault), adapter);
                Ok(())
            }
            // UC: a fault of the queue pair's own receive is its error; the peer's mistakes are
            // dropped silently.
            Refusal::Local(status)
            | Refusal::Invalid(status @ CompletionStatus::LocalLength, _) => {
                let fault = match refusal {
                    Refusal::Invalid(_, fault) => fault,
                    _ => self.receive_fault(status, adapter),
                };
                let cause = Cause::Refused { work: work(), fault, told: None };
                self.note_failure(QpState::Error, cause, adapter);
                if let Some(taken) = self.responder.abandon_message() {
                    self.complete_recv_error(&taken.wqe, taken.place.cq, status, adapter);
                }
                adapter.raise(Event::QpFatal(self.qpn));
                self.enter_error(false, adapter);
                Ok(())
            }
            Refusal::Invalid(..) | Refusal::Access(_) => {
                self.skip_unreliable();
                Err(Drop::BadLength)
            }
        }
    }

    /// UC: drops the message, and expects the packet after this one.
    fn skip_unreliable(&mut self) {
        self.responder.message = None;
        self.responder.expected = self.responder.expected.next();
    }

    /// What is wrong with the receive request that the message has taken.
    #[cold]
    pub(super) fn receive_fault(&self, status: CompletionStatus, adapter: &Adapter) -> Fault {
        let taken = self.responder.taken.as_ref();
        match taken.filter(|_| status == CompletionStatus::LocalProtection) {
            Some(taken) => taken.wqe.fault(&adapter.regions, taken.place.pd),
            None => Fault::Inconsistent,
        }
    }

    /// RC: refuses with a fatal NAK. The receive in progress fails with `status`, and then the
    /// queue pair.
    pub(super) fn fail_responder(
        &mut self,
        code: NakCode,
        status: CompletionStatus,
        (work, fault): (Work, Fault),
        adapter: &mut Adapter,
    ) {
        let cause = Cause::Refused { work, fault, told: Some(told_by(code)) };
        self.note_failure(QpState::Error, cause, adapter);
        self.responder.nak(Syndrome::Nak(code));
        if let Some(taken) = self.responder.abandon_message() {
            self.complete_recv_error(&taken.wqe, taken.place.cq, status, adapter);
        }
        adapter.raise(match code {
            NakCode::RemoteAccess => Event::QpAccessError(self.qpn),
            NakCode::InvalidRequest => Event::QpRequestError(self.qpn),
            _ => Event::QpFatal(self.qpn),
        });
        self.enter_error(!mutated(Mutation::RefusalUnsaid), adapter);
    }
}

/// The status with which the peer's request completes.
pub(crate) fn told_by(code: NakCode) -> CompletionStatus {
    match code {
        NakCode::InvalidRequest => CompletionStatus::RemoteInvalidRequest,
        NakCode::RemoteAccess => CompletionStatus::RemoteAccess,
        NakCode::RemoteOperation => CompletionStatus::RemoteOperation,
        _ => CompletionStatus::BadResponse,
    }
}
