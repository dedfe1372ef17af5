//! Handles, by which an application names its objects. Each is an index that the endpoint gives out.

use rdma::Qpn;

/// A protection domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PdId(pub u32);

impl PdId {
    /// The domain of an XRC target alone: its requests act in that of a shared receive queue.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CqId(pub u32);

impl CqId {
    /// What an XRC target completes to: nothing.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// A shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SrqId(pub u32);

impl SrqId {
    /// The number by which a peer names it (annex A14). There is no number 0.
    pub(crate) fn number(self) -> Qpn {
        Qpn::new(self.0 + 1)
    }

    pub(crate) fn of_number(number: Qpn) -> Option<Self> {
        number.value().checked_sub(1).map(Self)
    }
}

/// An XRC domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct XrcdId(pub u32);
