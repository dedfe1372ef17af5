//! A sample: what detectors need of the counters of all ports at one time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::port::{PRIORITIES, PortName, Role};

/// A priority of a port, or the queue of that number. What nobody counts is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueSample {
    /// Pause frames that came in: the other end stopped this port.
    pub pauses_received: Option<u64>,
    /// Pause frames that went out: this port stopped the other end.
    pub pauses_sent: Option<u64>,
    /// How long it had to wait because of them, in microseconds.
    pub paused_us: Option<u64>,
    /// How long the other end had to, in microseconds.
    pub pausing_us: Option<u64>,
    /// Times that it went from sending to paused.
    pub transitions: Option<u64>,
    /// Whether it is paused now.
    pub paused: Option<bool>,
    /// Packets that left.
    pub sent_packets: Option<u64>,
    /// Bytes that left.
    pub sent_bytes: Option<u64>,
    /// Bytes that came in.
    pub received_bytes: Option<u64>,
    /// Bytes that wait to leave now.
    pub waiting_bytes: Option<u64>,
    /// Packets dropped.
    pub dropped: Option<u64>,
    /// Packets marked with ECN.
    pub marked: Option<u64>,
    /// The most that the priority group of that number has held of the buffer, headroom apart.
    pub group_peak_bytes: Option<u64>,
}

/// A port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortSample {
    /// What it is of.
    pub role: Role,
    /// The device that it leads to, and what that is, if known.
    pub peer: Option<(String, Role)>,
    /// By priority.
    pub queues: [QueueSample; PRIORITIES],
    /// Bytes that left, where priorities are not told apart.
    pub sent_bytes: Option<u64>,
    /// Bytes that came in.
    pub received_bytes: Option<u64>,
    /// Packets with ECN marks that came in.
    pub marked: Option<u64>,
    /// Congestion notifications that it sent.
    pub cnps_sent: Option<u64>,
    /// Congestion notifications that slowed it down.
    pub cnps_handled: Option<u64>,
    /// Packets sent again, or reasons to, where the NIC counts those.
    pub retransmissions: Option<u64>,
    /// Packets dropped, whatever their priority.
    pub dropped: Option<u64>,
    /// Storms that the device itself has noticed.
    pub storm_events: Option<u64>,
}

impl PortSample {
    /// Bytes that left, of all priorities if the port has no sum.
    pub fn all_sent_bytes(&self) -> Option<u64> {
        self.sent_bytes.or_else(|| self.sum(|queue| queue.sent_bytes))
    }

    /// Bytes that came in.
    pub fn all_received_bytes(&self) -> Option<u64> {
        self.received_bytes.or_else(|| self.sum(|queue| queue.received_bytes))
    }

    /// Packets that were dropped, with those of a priority.
    pub fn all_dropped(&self) -> Option<u64> {
        self.dropped.max(self.sum(|queue| queue.dropped))
    }

    /// Packets that were marked, or came in marked.
    pub fn all_marked(&self) -> Option<u64> {
        self.marked.or_else(|| self.sum(|queue| queue.marked))
    }

    fn sum(&self, of: impl Fn(&QueueSample) -> Option<u64>) -> Option<u64> {
        self.queues.iter().filter_map(of).reduce(u64::saturating_add)
    }
}

/// The memory that the priority groups of a switch share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PoolSample {
    /// How much there is.
    pub size_bytes: Option<u64>,
    /// The most that was used.
    pub peak_bytes: Option<u64>,
}

/// All ports at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// The ports.
    pub ports: BTreeMap<PortName, PortSample>,
    /// By switch.
    pub pools: BTreeMap<String, PoolSample>,
}
