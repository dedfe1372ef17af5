//! Memory regions: which keys reach which addresses, and how.

use rdma::Access;

/// What to register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSpec {
    /// Where the memory is: the address that [`rdma::Memory`] is called with.
    pub address: u64,
    /// In bytes. An empty region can be registered, and nothing in it reached.
    pub length: u64,
    /// The address by which requests name its first byte (the same as `address`, unless the
    /// application chose its own; 0 for a zero-based region).
    pub iova: u64,
    /// What may be done to it.
    pub access: Access,
}
