//! Which attributes of a queue pair a call names.

use core::fmt;
use core::ops::BitOr;

/// A set of attributes, bit for bit `enum ibv_qp_attr_mask`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mask(pub u32);

impl Mask {
    /// No attribute.
    pub const NONE: Self = Self(0);
    /// The state.
    pub const STATE: Self = Self(1);
    /// The state that the caller takes the queue pair to be in.
    pub const CURRENT_STATE: Self = Self(1 << 1);
    /// Whether to raise an event when the send queue is drained.
    pub const SQD_NOTIFY: Self = Self(1 << 2);
    /// Remote rights.
    pub const ACCESS: Self = Self(1 << 3);
    /// Index of the P_Key.
    pub const PKEY_INDEX: Self = Self(1 << 4);
    /// The port.
    pub const PORT: Self = Self(1 << 5);
    /// The Q_Key.
    pub const QKEY: Self = Self(1 << 6);
    /// The address vector.
    pub const PATH: Self = Self(1 << 7);
    /// The path MTU.
    pub const PATH_MTU: Self = Self(1 << 8);
    /// The local ACK timeout.
    pub const TIMEOUT: Self = Self(1 << 9);
    /// The retry count.
    pub const RETRY_COUNT: Self = Self(1 << 10);
    /// The RNR retry count.
    pub const RNR_RETRY: Self = Self(1 << 11);
    /// The PSN expected first.
    pub const RQ_PSN: Self = Self(1 << 12);
    /// READs and atomics outstanding as requester.
    pub const MAX_RD_ATOMIC: Self = Self(1 << 13);
    /// An alternate path.
    pub const ALTERNATE_PATH: Self = Self(1 << 14);
    /// The RNR timer.
    pub const MIN_RNR_TIMER: Self = Self(1 << 15);
    /// The PSN sent first.
    pub const SQ_PSN: Self = Self(1 << 16);
    /// READs and atomics outstanding as responder.
    pub const MAX_DEST_RD_ATOMIC: Self = Self(1 << 17);
    /// Path migration.
    pub const PATH_MIGRATION: Self = Self(1 << 18);
    /// Capacities.
    pub const CAPACITY: Self = Self(1 << 19);
    /// The peer's queue pair.
    pub const DESTINATION: Self = Self(1 << 20);

    /// Both sets together.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every attribute of `other` is in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The attributes of `self` that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The names of the bits in `infiniband/verbs.h`, from the lowest.
const NAMES: [&str; 21] = [
    "IBV_QP_STATE",
    "IBV_QP_CUR_STATE",
    "IBV_QP_EN_SQD_ASYNC_NOTIFY",
    "IBV_QP_ACCESS_FLAGS",
    "IBV_QP_PKEY_INDEX",
    "IBV_QP_PORT",
    "IBV_QP_QKEY",
    "IBV_QP_AV",
    "IBV_QP_PATH_MTU",
    "IBV_QP_TIMEOUT",
    "IBV_QP_RETRY_CNT",
    "IBV_QP_RNR_RETRY",
    "IBV_QP_RQ_PSN",
    "IBV_QP_MAX_QP_RD_ATOMIC",
    "IBV_QP_ALT_PATH",
    "IBV_QP_MIN_RNR_TIMER",
    "IBV_QP_SQ_PSN",
    "IBV_QP_MAX_DEST_RD_ATOMIC",
    "IBV_QP_PATH_MIG_STATE",
    "IBV_QP_CAP",
    "IBV_QP_DEST_QPN",
];

/// As a C program writes it.
impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        for (at, (_, name)) in named.enumerate() {
            write!(f, "{}{name}", if at > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}

impl BitOr for Mask {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}
