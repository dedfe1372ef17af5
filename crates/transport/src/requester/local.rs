//! Local operations: binding a window, invalidating a key.

use rdma::{CompletionStatus, Operation};

use super::Cursor;
use crate::Blocked;
use crate::adapter::Adapter;
use crate::qp::Qp;
use crate::region::Bind;

impl Qp {
    /// Does the request at the cursor if it is a local operation, and says whether it is.
    ///
    /// Local operations are done in their turn, and complete when all before them have. A cursor
    /// that goes back over one does not do it again.
    ///
    /// # Errors
    /// Why it has to wait, or that it fails; `None` if there is none.
    pub(super) fn execute_local(&mut self, adapter: &mut Adapter) -> Result<bool, Option<Blocked>> {
        let serial = self.requester.cursor.serial;
        let wqe = self.requester.wqe(serial).ok_or(None)?;
        if !wqe.operation.is_local() {
            return Ok(false);
        }
        let operation = wqe.operation;
        if wqe.begun.is_none() {
            let holder = self.holder();
            self.prepare(serial, adapter)?;
            let done = match operation {
                Operation::BindWindow { r_key, region, address, length, access } => {
                    adapter.regions.bind(holder, &Bind { r_key, region, address, length, access })
                }
                Operation::LocalInvalidate { r_key } => adapter.regions.invalidate(r_key, holder),
                _ => Ok(()),
            };
            let failure = done.is_err().then_some(CompletionStatus::WindowBind);
            if let Some(wqe) = self.requester.wqe_mut(serial) {
                wqe.failure = failure;
            }
        }
        let failed = self.requester.wqe(serial).ok_or(None)?.failure.is_some();
        if failed {
            // Nothing after it is begun.
            self.complete_local(adapter);
            return Err(self.requester.wqe(serial).map(|_| Blocked::Failure));
        }
        self.requester.cursor = Cursor::first_of(serial + 1);
        if self.spec.kind.is_reliable() {
            self.complete_local(adapter);
        } else {
            self.requester.sent_whole += 1;
            self.finish_unreliable(adapter);
        }
        Ok(true)
    }

    /// Completes the local operations at the front of the queue.
    pub(crate) fn complete_local(&mut self, adapter: &mut Adapter) {
        while let Some(wqe) = self.requester.queue.front() {
            if !wqe.operation.is_local() || wqe.begun.is_none() {
                return;
            }
            match wqe.failure {
                Some(status) => return self.fail_oldest(status, adapter),
                None => {
                    if let Some(wqe) = self.requester.pop() {
                        self.complete_send(&wqe, CompletionStatus::Success, adapter);
                    }
                }
            }
        }
    }
}
