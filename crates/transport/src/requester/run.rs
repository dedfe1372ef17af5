//! Runs: packets of one message that leave the engine together.
//!
//! ```text
//!   first  middle middle middle middle? middle middle last?       ?: asks for an acknowledgement
//!          └────── a run ─────┘         └── a run ───┘            the others are given out singly
//! ```
//!
//! In the middle of a message packets differ only in PSN and place. The first packet of a run is
//! chosen like any other ([`Qp::next_packet`]). The run goes on as long as the choice would be the
//! same. It ends before a packet that requests an acknowledgement, because of the interval or
//! because the next one might not fit into the window, and on both sides of a packet that is sent
//! again. With pacing each packet has its own time, so a run is one packet.

use rdma::Psn;
use wire::opcode::Part;

use super::Requester;
use crate::adapter::Adapter;
use crate::limits::PACKET_OVERHEAD_BYTES;
use crate::qp::{Content, Outgoing, Qp};
use crate::timer::Timer;

impl Qp {
    /// After `first` was taken: takes up to `most` packets more that differ only in PSN and place.
    /// Returns how many.
    pub(crate) fn prolong(&mut self, first: &Outgoing, most: u32, adapter: &Adapter) -> u32 {
        if most == 0 || self.pacer.is_limited() || first.opcode.facts().part != Part::Middle {
            return 0;
        }
        match first.content {
            Content::Request { serial, packet, ack_request: false, .. } => {
                // An acknowledgement that waited for the first packet of a long message follows it.
                if self.responder.owes_anything() && !self.timers.is_running(Timer::AckDelay) {
                    return 0;
                }
                // A packet that is sent again, or behind some that arrived, is decided on singly.
                let next = self.requester.cursor_psn();
                if next != first.psn.next() || next != self.requester.top {
                    return 0;
                }
                if self.leaves_in_parts(first, self.requester.stride(serial)) {
                    return 0;
                }
                let left = self.middle_packets_after(serial, packet);
                let count = self.unquestioned(serial, next, left.min(most), adapter);
                let each = u64::from(self.requester.stride(serial)) + PACKET_OVERHEAD_BYTES;
                self.pacer.spend(adapter.now, each, count);
                self.requester.count_on(count, self.spec.kind.is_reliable());
                count
            }
            Content::Response { length, .. } if !self.leaves_in_parts(first, length) => {
                self.responder.prolong_answer(adapter.now, length, most)
            }
            _ => 0,
        }
    }

    /// Takes back the last `unsent` packets of the last run, of requests or of responses.
    pub(crate) fn put_back(&mut self, unsent: u32, is_request: bool) {
        if is_request {
            self.requester.count_back(unsent, self.spec.kind.is_reliable());
            // A run has more than one packet within a message alone.
            let serial = self.requester.cursor.serial;
            let each = u64::from(self.requester.stride(serial)) + PACKET_OVERHEAD_BYTES;
            self.pacer.take_back(each, unsent);
        } else {
            self.responder.shorten_answer(unsent);
        }
    }

    /// Packets of the request behind `packet`, but for its last.
    fn middle_packets_after(&self, serial: u64, packet: u32) -> u32 {
        self.requester.packets(serial).saturating_sub(packet + 2)
    }

    /// How many of `count` packets from `next` on, in the middle of a message, can be sent without
    /// asking for an acknowledgement: [`Qp::next_request`] has the rules.
    fn unquestioned(&self, serial: u64, next: Psn, count: u32, adapter: &Adapter) -> u32 {
        let requester = &self.requester;
        if !self.spec.kind.is_reliable() {
            return count;
        }
        let window = self.window();
        let each = u64::from(requester.stride(serial)) + PACKET_OVERHEAD_BYTES;
        let room = window.bytes.saturating_sub(requester.in_flight());
        let room = room.min(self.pacer.batch_bytes(adapter.now));
        // The one behind the last is to fit, too.
        let fitting = (room / each).saturating_sub(1);
        let in_sequence =
            window.packets.saturating_sub(next.next().distance_from(requester.unacked));
        let unasked = self.ack_interval(adapter).saturating_sub(1 + requester.unasked);
        let count = count.min(in_sequence).min(unasked);
        u64::from(count).min(fitting) as u32
    }
}

impl Requester {
    /// Bytes of payload of each packet of a request but the last.
    fn stride(&self, serial: u64) -> u32 {
        self.wqe(serial).map_or(0, |wqe| wqe.stride)
    }

    /// `count` packets from the cursor on, in the middle of a message, are sent for the first time.
    fn count_on(&mut self, count: u32, is_reliable: bool) {
        self.cursor.packet += count;
        self.top = self.top.plus(count);
        if is_reliable {
            self.unasked += count;
        }
    }

    fn count_back(&mut self, count: u32, is_reliable: bool) {
        debug_assert!(self.cursor.packet > count, "no more than the run but for its first packet");
        self.cursor.packet = self.cursor.packet.saturating_sub(count);
        self.top = self.top.minus(count);
        if is_reliable {
            self.unasked = self.unasked.saturating_sub(count);
        }
    }
}
