//! What a refused request leads to.

use rdma::CompletionStatus;
use wire::aeth::{NakCode, Syndrome};

use super::Refusal;
use crate::Event;
use crate::adapter::Adapter;
use crate::mutation::{Mutation, mutated};
use crate::qp::Qp;
use crate::stats::Drop;

impl Qp {
    /// What a refused request leads to (9.9.3, table 60).
    pub(super) fn refuse(&mut self, refusal: Refusal, adapter: &mut Adapter) -> Result<(), Drop> {
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
            Refusal::Invalid(status) if reliable => {
                self.fail_responder(NakCode::InvalidRequest, status, adapter);
                Ok(())
            }
            Refusal::Access if reliable => {
                adapter.stats.resp_remote_access_errors += 1;
                self.fail_responder(NakCode::RemoteAccess, CompletionStatus::Flushed, adapter);
                Ok(())
            }
            Refusal::Local(status) if reliable => {
                self.fail_responder(NakCode::RemoteOperation, status, adapter);
                Ok(())
            }
            // UC: a fault of the queue pair's own receive is its error; the peer's mistakes are
            // dropped silently.
            Refusal::Local(status) | Refusal::Invalid(status @ CompletionStatus::LocalLength) => {
                if let Some(taken) = self.responder.abandon_message() {
                    self.complete_recv_error(&taken.wqe, taken.place.cq, status, adapter);
                }
                adapter.raise(Event::QpFatal(self.qpn));
                self.enter_error(false, adapter);
                Ok(())
            }
            Refusal::Invalid(_) | Refusal::Access => {
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

    /// RC: refuses with a fatal NAK. The receive in progress fails with `status`, and then the
    /// queue pair.
    pub(super) fn fail_responder(
        &mut self,
        code: NakCode,
        status: CompletionStatus,
        adapter: &mut Adapter,
    ) {
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
