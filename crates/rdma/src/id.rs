//! Numbers that name things: queue pairs, keys, partitions.

use core::fmt;

/// A queue pair number, 24 bits. 0 and 1 are the management QPs, 0xffffff addresses multicast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// QP1, the general services interface, where connection management MADs arrive.
    pub const GSI: Self = Self(1);
    /// The destination QPN of every multicast packet (IBTA vol 1, 10.5.1).
    pub const MULTICAST: Self = Self(0x00ff_ffff);

    /// The QPN made of the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qpn({:#08x})", self.0)
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// An L_Key or an R_Key: the upper 24 bits are an index into the table of regions and windows,
/// the low 8 the part that changes when a window is bound again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(pub u32);

impl Key {
    /// The key of table entry `index` with variant `tag`.
    pub const fn from_parts(index: u32, tag: u8) -> Self {
        Self((index << 8) | tag as u32)
    }

    /// The index into the table.
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// The variant, the part that an application may choose for memory windows.
    pub const fn tag(self) -> u8 {
        (self.0 & 0xff) as u8
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:#010x})", self.0)
    }
}

/// A partition key. The top bit tells full from limited membership (IBTA vol 1, 10.9.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PKey(pub u16);

impl PKey {
    /// The default partition, full member: the only one that RoCE devices carry.
    pub const DEFAULT: Self = Self(0xffff);

    /// Whether packets of `other` may enter this partition: the same partition, and not both
    /// limited members.
    pub const fn admits(self, other: Self) -> bool {
        self.0 & 0x7fff == other.0 & 0x7fff && (self.0 | other.0) & 0x8000 != 0
    }
}

impl Default for PKey {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A queue key, checked on every datagram (IBTA vol 1, 10.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct QKey(pub u32);

impl QKey {
    /// The well-known Q_Key of QP1.
    pub const GSI: Self = Self(0x8001_0000);

    /// Whether the key is of the controlled range: a send with it takes the QP's own key instead
    /// (IBTA vol 1, 10.2.5).
    pub const fn is_controlled(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_members_do_not_reach_each_other() {
        let (full, limited) = (PKey(0x8001), PKey(0x0001));
        assert!(full.admits(limited) && limited.admits(full) && full.admits(full));
        assert!(!limited.admits(limited));
        assert!(!full.admits(PKey::DEFAULT));
    }

    #[test]
    fn a_key_keeps_its_index_when_its_tag_changes() {
        let key = Key::from_parts(0x1234, 0xff);
        assert_eq!((key.index(), key.tag()), (0x1234, 0xff));
    }
}
