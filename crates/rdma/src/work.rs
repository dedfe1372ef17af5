//! Work requests: what an application posts.

use core::ops::BitOr;

use crate::{Access, Gid, Key, QKey, Qpn};

/// One piece of a scatter-gather list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// The address as the region knows it.
    pub address: u64,
    /// In bytes.
    pub length: u32,
    /// The region.
    pub l_key: Key,
}

/// How a send request is treated (`enum ibv_send_flags`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendFlags(u32);

impl SendFlags {
    /// None.
    pub const NONE: Self = Self(0);
    /// Not before every earlier READ and atomic of this queue has completed.
    pub const FENCE: Self = Self(1);
    /// A completion is written on success too.
    pub const SIGNALED: Self = Self(1 << 1);
    /// The receiver's completion raises a solicited event.
    pub const SOLICITED: Self = Self(1 << 2);
    /// The data is taken before the post returns, and needs no L_Key.
    pub const INLINE: Self = Self(1 << 3);
    /// The IP checksum is offloaded: accepted, as verbs programs set it blindly on UD.
    pub const IP_CSUM: Self = Self(1 << 4);

    /// The flags in `bits`; `None` if one is unknown.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !0x1f != 0 { None } else { Some(Self(bits)) }
    }

    /// The flags as bits, as `enum ibv_send_flags` has them.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether every flag in `flags` is set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for SendFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Where a datagram goes: what an address handle holds (`struct ibv_ah_attr`), and the destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdAddress {
    /// The destination's GID.
    pub gid: Gid,
    /// The sender's GID, one of the port's table.
    pub source_gid: Gid,
    /// DSCP and ECN bits of the IP header.
    pub traffic_class: u8,
    /// TTL.
    pub hop_limit: u8,
    /// IPv6 flow label; on RoCE v2 it also seeds the UDP source port.
    pub flow_label: u32,
    /// The destination QP.
    pub qpn: Qpn,
    /// The key that the destination expects.
    pub q_key: QKey,
}

/// What a send request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// SEND, with immediate data if given, to the address if the QP is UD.
    Send {
        /// Carried to the receiver's completion, in network byte order as given.
        immediate: Option<[u8; 4]>,
        /// UD only.
        address: Option<UdAddress>,
    },
    /// SEND that invalidates a key of the receiver (RC only).
    SendInvalidate {
        /// The receiver's R_Key.
        r_key: Key,
    },
    /// RDMA WRITE, with immediate data if given.
    Write {
        /// Where to, in the peer's region.
        remote_address: u64,
        /// The peer's region.
        r_key: Key,
        /// Consumes a receive request at the peer.
        immediate: Option<[u8; 4]>,
    },
    /// RDMA READ (RC only).
    Read {
        /// Where from, in the peer's region.
        remote_address: u64,
        /// The peer's region.
        r_key: Key,
    },
    /// Compare and swap of an aligned 64-bit word (RC only).
    CompareSwap {
        /// The word, in the peer's region.
        remote_address: u64,
        /// The peer's region.
        r_key: Key,
        /// What the word must be.
        compare: u64,
        /// What it becomes then.
        swap: u64,
    },
    /// Fetch and add on an aligned 64-bit word (RC only).
    FetchAdd {
        /// The word, in the peer's region.
        remote_address: u64,
        /// The peer's region.
        r_key: Key,
        /// What is added.
        add: u64,
    },
    /// A WRITE of an aligned 64-bit word that is seen all at once (RC only).
    AtomicWrite {
        /// The word, in the peer's region.
        remote_address: u64,
        /// The peer's region.
        r_key: Key,
        /// The word's bytes, in the order of memory, if the request has neither pieces nor inline
        /// data.
        bytes: [u8; 8],
    },
    /// Binds a memory window to a part of a region, or a type 1 window to nothing (RC and UC).
    /// Nothing is sent.
    BindWindow {
        /// The key that the window is to have: its index tells which window.
        r_key: Key,
        /// The region's L_Key.
        region: Key,
        /// The first byte, as the region knows it.
        address: u64,
        /// In bytes; none unbinds a window of type 1.
        length: u64,
        /// What a peer may do through the window.
        access: Access,
    },
    /// Invalidates the R_Key of a type 2 window (RC and UC). Nothing is sent.
    LocalInvalidate {
        /// The key.
        r_key: Key,
    },
}

impl Operation {
    /// Whether it is done at this end alone.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::BindWindow { .. } | Self::LocalInvalidate { .. })
    }
}

/// A send request (`struct ibv_send_wr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkRequest<'a> {
    /// The application's own, returned in the completion.
    pub id: u64,
    /// What to do.
    pub operation: Operation,
    /// How.
    pub flags: SendFlags,
    /// The local data: source of SEND and WRITE, target of READ and atomics.
    pub sges: &'a [Sge],
    /// With [`SendFlags::INLINE`], the data itself, already gathered; otherwise `None`.
    pub inline: Option<&'a [u8]>,
}

/// A receive request (`struct ibv_recv_wr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecvRequest<'a> {
    /// The application's own, returned in the completion.
    pub id: u64,
    /// Where the message is scattered to.
    pub sges: &'a [Sge],
}
