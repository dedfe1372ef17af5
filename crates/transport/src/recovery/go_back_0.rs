//! Go-back-0: a message that loses a packet begins anew (guo16, 4.1).

use rdma::Psn;

use super::{Bounds, Strategy};

pub(super) struct GoBack0;

impl Strategy for GoBack0 {
    fn resume_at(&self, message_start: Psn, _lost: Psn) -> Psn {
        message_start
    }

    fn bounds(&self, _: Bounds) -> Option<Bounds> {
        None
    }
}
