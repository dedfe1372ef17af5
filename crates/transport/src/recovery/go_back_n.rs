//! Go-back-N: everything from the lost packet on is sent again (IBTA vol 1, 9.7.5.1).

use rdma::Psn;

use super::{Bounds, Strategy};

pub(super) struct GoBackN;

impl Strategy for GoBackN {
    fn resume_at(&self, _message_start: Psn, lost: Psn) -> Psn {
        lost
    }

    fn bounds(&self, _: Bounds) -> Option<Bounds> {
        None
    }
}
