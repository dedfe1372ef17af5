//! What a device decides once, for all its queue pairs.

use core::ops::Range;

use rdma::{Mtu, Span};

use crate::Recovery;
use crate::congestion::{Congestion, Notification};
use crate::limits::{OUT_OF_ORDER_BYTES_MAX, OUT_OF_ORDER_PACKETS_MAX, READS_IN_WINDOW};
use crate::recovery::Bounds;

/// The settings of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The queue pair numbers that this endpoint may give out. Endpoints that share an address
    /// have ranges that do not meet.
    pub qpns: Range<u32>,
    /// What queue pair numbers and the tags of keys are drawn from, so that a stranger does not guess
    /// them: a random number of the system's. `None` gives them out in turn.
    pub seed: Option<u64>,
    /// The largest path MTU that the port carries.
    pub active_mtu: Mtu,
    /// What is sent again after a loss.
    pub recovery: Recovery,
    /// Selective repeat: packets, counted from the missing one, that each role of a queue pair may
    /// keep out of order.
    pub out_of_order_packets: u32,
    /// Bytes of payload of those.
    pub out_of_order_bytes: usize,
    /// Selective repeat that both applications agree on: how long packets that others have overtaken may
    /// still arrive before they count as lost, at least. `None` takes every packet that is overtaken for lost,
    /// as in a network that keeps the order of a flow.
    pub overtaken_wait_min: Option<Span>,
    /// Bytes that one queue pair may have in flight, its packets' overhead included
    /// ([`crate::limits::PACKET_OVERHEAD_BYTES`]). A socket has a receive buffer and no link-level
    /// flow control; this window keeps the peer's from overflowing. Below a packet, zero too,
    /// one packet or READ request is under way at a time. `u64::MAX` sends at once
    /// whatever is posted, as most hardware does.
    pub window_bytes: u64,
    /// A queue pair whose window is full sends again once so many bytes of it are free, so that a
    /// system call sends many packets. Half of the window is always enough; zero sends whatever
    /// fits.
    pub refill_bytes: u64,
    /// The most that one READ request asks for: a longer READ is several requests on the wire, so
    /// that its responses respect the window as well. `u32::MAX` asks for everything at once; under
    /// selective repeat, for a quarter of what may be kept.
    pub read_chunk_bytes: u32,
    /// Packets that one queue pair may send before the next has its turn.
    pub burst_packets: u32,
    /// An acknowledgement is asked for at least every so many packets.
    pub ack_interval_packets: u32,
    /// Whether an acknowledgement that waits to be sent is replaced by the next. NICs that
    /// acknowledge each request at once do not do so.
    pub coalesce_acks: bool,
    /// How long an acknowledgement may wait for a request to travel with, where the application
    /// has been seen to answer messages with messages. Zero sends each at once.
    pub ack_delay: Span,
    /// A request that finds no receive posted is sent again for so long, whatever number of RNR retries the program
    /// allows, if the peer is a soft NIC as far as is known: on the same host, or one that signs its packets. So
    /// a program that was just woken has time to post it, as it has where a network takes longer. Zero fails at once.
    pub not_ready_grace: Span,
    /// Messages of unreliable queue pairs are done when the driver says that their last packet has left
    /// ([`crate::Endpoint::departed`]), for drivers that take out packets ahead of that. Otherwise when it comes for the next
    /// packet, until when it may be reading the payload.
    pub done_on_departure: bool,
    /// How often a queue pair repeats its last acknowledgement when it is destroyed, or brought into RESET or ERROR.
    /// Otherwise a peer that lost it would ask a queue pair that does not answer, and its message would fail.
    pub final_acknowledgements: u8,
    /// How fast queue pairs may send.
    pub congestion: Congestion,
    /// How senders are told that the network has marked their packets; `None` does not tell them.
    pub notification: Option<Notification>,
    /// How late a driver may come for a paced packet without losing rate: packets that were due
    /// meanwhile leave at once. Zero if time jumps from event to event.
    pub pace_slack: Span,
    /// What is different for queue pairs whose peer is on another host, as [`crate::QpChange::between_hosts`]
    /// says; `None` makes no difference.
    pub between_hosts: Option<BetweenHosts>,
}

/// How queue pairs talk to another host, over a network that may lose, delay and reorder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BetweenHosts {
    /// How fast they may send.
    pub congestion: Congestion,
    /// What each may have in flight at most: [`Config::window_bytes`].
    pub window_bytes: u64,
    /// See [`Config::refill_bytes`].
    pub refill_bytes: u64,
    /// Whether their packets carry the sign of selective repeat, so that two which see each other's repeat
    /// selectively ([`wire::bth::Sign`]).
    pub signs: bool,
    /// What such a queue pair may keep out of order, in each role: packets, and bytes of their payload.
    pub out_of_order_packets: u32,
    /// See there.
    pub out_of_order_bytes: usize,
    /// The longest payload that a packet of the port has room for, if packets may be longer than the path MTU where both
    /// ends sign, and leave in parts where the path is too narrow; 0 keeps to the path MTU.
    pub stride_max: u32,
}

impl BetweenHosts {
    /// What is kept out of order, if it signs.
    pub(crate) fn out_of_order(&self) -> Option<Bounds> {
        self.signs.then_some(bounds(self.out_of_order_packets, self.out_of_order_bytes))
    }
}

/// At most the limits.
fn bounds(packets: u32, bytes: usize) -> Bounds {
    Bounds {
        packets: packets.min(OUT_OF_ORDER_PACKETS_MAX),
        bytes: bytes.min(OUT_OF_ORDER_BYTES_MAX),
    }
}

impl Config {
    /// How much selective repeat may keep out of order.
    pub(crate) fn out_of_order(&self) -> Bounds {
        bounds(self.out_of_order_packets, self.out_of_order_bytes)
    }

    /// The most responses of `stride` bytes that one READ request asks for. Under selective repeat
    /// several requests fit into the bounds, so that the next one is under way when the last
    /// response of one is lost.
    pub(crate) fn read_packets(&self, stride: u32, kept: Option<Bounds>) -> u32 {
        let bytes = self.read_chunk_bytes / stride;
        let packets = kept.map_or(bytes, |kept| {
            let room = kept.bytes as u32 / READS_IN_WINDOW / stride;
            bytes.min(room).min(kept.packets / READS_IN_WINDOW)
        });
        packets.max(1)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            qpns: 2..1 << 14,
            seed: None,
            active_mtu: Mtu::B4096,
            recovery: Recovery::GoBackN,
            out_of_order_packets: 1024,
            out_of_order_bytes: 1 << 20,
            overtaken_wait_min: None,
            window_bytes: 256 << 10,
            refill_bytes: 0,
            read_chunk_bytes: 128 << 10,
            burst_packets: 16,
            ack_interval_packets: 16,
            coalesce_acks: true,
            ack_delay: Span::ZERO,
            not_ready_grace: Span::ZERO,
            done_on_departure: false,
            final_acknowledgements: 0,
            congestion: Congestion::None,
            notification: Some(Notification::default()),
            pace_slack: Span::ZERO,
            between_hosts: None,
        }
    }
}
