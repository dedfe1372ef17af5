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
use crate::Config;
use crate::limits::{OUT_OF_ORDER_BYTES_MAX, OUT_OF_ORDER_PACKETS_MAX};

pub(super) struct SelectiveRepeat;

impl Strategy for SelectiveRepeat {
    fn resume_at(&self, _message_start: Psn, lost: Psn) -> Psn {
        lost
    }

    fn bounds(&self, config: &Config) -> Option<Bounds> {
        Some(Bounds {
            packets: config.out_of_order_packets.min(OUT_OF_ORDER_PACKETS_MAX),
            bytes: config.out_of_order_bytes.min(OUT_OF_ORDER_BYTES_MAX),
        })
    }
}
