//! What both ends of a run tell each other of it, and who looks on.

use serde::{Deserialize, Serialize};

use crate::Failure;

/// Who looks on while a plan runs.
pub trait Watcher {
    /// Asked every now and then; `Some` ends the run, whose results are partial.
    fn glance(&mut self) -> Option<Failure>;
}

impl Watcher for () {
    fn glance(&mut self) -> Option<Failure> {
        None
    }
}

/// What a device has counted since it was opened, under its own names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceCounts {
    /// Payload bytes sent, again and again included.
    pub sent_bytes: u64,
    /// Payload bytes received by a queue pair.
    pub rcvd_bytes: u64,
    /// Atomic requests executed.
    pub rx_atomic_requests: u64,
    /// Packets sent a second time or more.
    pub retransmitted_pkts: u64,
    /// Requests received again, or ahead of their turn.
    pub disordered: u64,
}

impl core::ops::AddAssign for DeviceCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent_bytes += other.sent_bytes;
        self.rcvd_bytes += other.rcvd_bytes;
        self.rx_atomic_requests += other.rx_atomic_requests;
        self.retransmitted_pkts += other.retransmitted_pkts;
        self.disordered += other.disordered;
    }
}

/// What the serving end of a flow has to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Messages received.
    pub received: u64,
    /// Payloads checked.
    pub checked: u64,
    /// Those that were wrong.
    pub mismatches: u64,
    /// Processor time of its threads, in cores.
    pub cores: f64,
    /// What its devices have counted, if they say.
    pub device: Option<DeviceCounts>,
    /// What went wrong.
    pub errors: Vec<String>,
}
