//! Selective repeat: the lost packet alone is sent again (Mittal et al. 2018, 3).
//!
//! The responder keeps packets behind a gap and executes them in order, so a peer cannot tell it
//! from in-order delivery. It answers each such packet with a NAK that lists what has arrived. The
//! requester likewise keeps responses behind a gap, and requests the missing ones.
//!
//! Two deviations from the paper: nothing is placed in memory before its turn, and a requester
//! whose timer expires forgets what it was told about packets behind the gap. So a peer that lies,
//! or that had to drop what it kept, costs one timeout.

use rdma::Psn;

use super::{Bounds, Strategy};

pub(super) struct SelectiveRepeat;

impl Strategy for SelectiveRepeat {
    fn resume_at(&self, _message_start: Psn, lost: Psn) -> Psn {
        lost
    }

    fn bounds(&self, offers: Bounds) -> Option<Bounds> {
        Some(offers)
    }
}
