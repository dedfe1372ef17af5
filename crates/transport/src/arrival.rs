//! Where a packet came from, and what it carries.

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

/// What a packet carries. Which bytes are there is known only to the memory that they lie in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried<P> {
    pub(crate) payload: P,
    /// In bytes.
    pub(crate) length: usize,
}

impl Arrival {
    /// Whether the network has marked it: CE (RFC 3168).
    pub(crate) fn is_marked(&self) -> bool {
        const CE: u8 = 3;
        self.traffic_class & CE == CE
    }
}
