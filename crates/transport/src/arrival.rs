//! Where a packet came from.

use rdma::Gid;

/// What the headers below RoCE said of a packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The address of the sender.
    pub source: Gid,
    /// The address that it was sent to.
    pub destination: Gid,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// TTL as received.
    pub hop_limit: u8,
}

impl Arrival {
    /// Whether the network has marked it: CE (RFC 3168).
    pub(crate) fn is_marked(&self) -> bool {
        const CE: u8 = 3;
        self.traffic_class & CE == CE
    }
}
