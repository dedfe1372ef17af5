//! What a switch writes into packets that ask for it: in-band network telemetry (INT).
//!
//! A record is written when its packet leaves, of the port that it leaves by, and of all queues there. What
//! the port has sent includes this packet, and the preambles of frames and the gaps behind them, so that a link
//! that never rests is seen to be full.

use rdma::Time;
use transport::congestion::Hop;

use super::port::Port;
use crate::links::Links;
use crate::packet::{GAP_BYTES, PREAMBLE_BYTES};

/// Writes the record of `port`, whose number is `number`, into a packet that is out of its queue.
#[cold]
pub(super) fn observe(port: &Port, links: &mut Links, number: u32, packet: u32) {
    let (mut sent_bytes, mut queue_bytes) = (0, 0);
    for queue in port.queues() {
        sent_bytes += queue.sent_bytes + queue.sent_packets * (PREAMBLE_BYTES + GAP_BYTES);
        queue_bytes += u64::from(queue.bytes);
    }
    let at = Time::from_ps(links.now());
    let rate = links.at(number).rate.rate();
    links.pool.record(packet, number, Hop { at, sent_bytes, queue_bytes, rate });
}
