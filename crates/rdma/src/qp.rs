//! Queue pair types, states and rights.

use core::fmt;
use core::ops::{BitAnd, BitOr};

/// The transport service of a queue pair (IBTA vol 1, 3.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection, the half that asks (annex A14; `IBV_QPT_XRC_SEND`). It has no
    /// receive queue.
    XrcInitiator,
    /// Extended reliable connection, the half that answers (`IBV_QPT_XRC_RECV`). It has no send
    /// queue; each request names the shared receive queue that it is for.
    XrcTarget,
}

impl QpType {
    /// Whether what is sent is acknowledged, and sent again until it is.
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::XrcInitiator | Self::XrcTarget)
    }

    /// Whether it has one peer.
    pub const fn is_connected(self) -> bool {
        !matches!(self, Self::Ud)
    }
}

/// The state of a queue pair (IBTA vol 1, 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum QpState {
    /// Made, or emptied again: nothing may be posted.
    #[default]
    Reset,
    /// Receives may be posted; nothing is sent or answered.
    Init,
    /// Ready to receive: requests are answered.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue draining, or drained.
    Sqd,
    /// Send queue error (UC and UD): sends are flushed, receives go on.
    Sqe,
    /// Everything posted is flushed.
    Error,
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Error => "ERR",
        })
    }
}

impl fmt::Display for QpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
            Self::XrcInitiator => "XRC_SEND",
            Self::XrcTarget => "XRC_RECV",
        })
    }
}

/// What may be done to a region, or through a queue pair by its peer (`enum ibv_access_flags`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access(u32);

impl Access {
    /// Nothing but local reads, which are always allowed.
    pub const NONE: Self = Self(0);
    /// Receives, READ responses and atomic results may be stored in it.
    pub const LOCAL_WRITE: Self = Self(1);
    /// The peer may WRITE.
    pub const REMOTE_WRITE: Self = Self(1 << 1);
    /// The peer may READ.
    pub const REMOTE_READ: Self = Self(1 << 2);
    /// The peer may use atomics.
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);
    /// Memory windows may be bound to it.
    pub const MW_BIND: Self = Self(1 << 4);
    /// Remote addresses count from zero.
    pub const ZERO_BASED: Self = Self(1 << 5);
    /// On-demand paging: pages need not be resident.
    pub const ON_DEMAND: Self = Self(1 << 6);
    /// The region may be backed by huge pages.
    pub const HUGETLB: Self = Self(1 << 7);

    const ALL: u32 = 0xff;
    /// Hints that a device may ignore (`IBV_ACCESS_OPTIONAL_RANGE`), relaxed ordering among them.
    const OPTIONAL: u32 = 0x3ff0_0000;

    /// The flags in `bits`; `None` if one is unknown and not optional.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !(Self::ALL | Self::OPTIONAL) != 0 {
            return None;
        }
        Some(Self(bits & Self::ALL))
    }

    /// As in `enum ibv_access_flags`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// These rights and those of `other`: `|` where a constant is wanted.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every right in `needed` is granted.
    pub const fn allows(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Whether it grants a peer the right to change memory, which needs [`Access::LOCAL_WRITE`]
    /// too (IBTA vol 1, 10.6.3.1).
    pub const fn needs_local_write(self) -> bool {
        self.0 & (Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0) != 0
    }
}

impl BitOr for Access {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitAnd for Access {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_hints_are_dropped_and_unknown_rights_refused() {
        assert_eq!(Access::from_bits(1 | 1 << 20), Some(Access::LOCAL_WRITE));
        assert_eq!(Access::from_bits(1 << 8), None);
    }
}
