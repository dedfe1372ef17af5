//! Shared receive queues.

/// A shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SrqId(pub u32);

/// Its sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqAttributes {
    /// Requests that it holds.
    pub max_wr: u32,
    /// Pieces of a request's scatter list.
    pub max_sge: u32,
    /// When fewer requests than this are left, [`crate::Event::SrqLimitReached`] is raised once;
    /// 0 disarms.
    pub limit: u32,
}
