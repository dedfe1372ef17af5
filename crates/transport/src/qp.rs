//! Queue pairs.

use rdma::QpType;

use crate::{CqId, PdId, SrqId};

/// How much a queue pair holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpCapacity {
    /// Send requests.
    pub send_wr: u32,
    /// Receive requests.
    pub recv_wr: u32,
    /// Pieces of a send request.
    pub send_sge: u32,
    /// Pieces of a receive request.
    pub recv_sge: u32,
    /// Bytes of inline data of a send request.
    pub inline: u32,
}

/// What queue pair to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpSpec {
    /// The transport service.
    pub kind: QpType,
    /// Its protection domain.
    pub pd: PdId,
    /// Where sends complete.
    pub send_cq: CqId,
    /// Where receives complete.
    pub recv_cq: CqId,
    /// Where receives come from, if not from a queue of its own.
    pub srq: Option<SrqId>,
    /// Its sizes.
    pub capacity: QpCapacity,
    /// Whether every send request completes visibly, signalled or not.
    pub signal_all: bool,
}
