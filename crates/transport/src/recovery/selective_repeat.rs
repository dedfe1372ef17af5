//! Selective repeat: the lost packet alone is sent again (Mittal et al. 2018, 3).
//!
//! The responder keeps what comes behind a gap and executes it in its turn, so nothing can be told
//! from delivery in order. Each such packet is answered with a NAK that says what has arrived. The
//! requester keeps responses that come before their turn likewise, and asks for the missing ones.
//!
//! Two deviations from the paper: nothing is placed in memory before its turn, and a requester whose
//! timer expires believes nothing that it was told about packets behind the gap. So a peer that
//! lies, or that has had to drop what it kept, costs a timeout and no more.

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
