//! RDMA path MTUs.

/// How many bytes of payload one packet carries at most: one of five sizes (IBTA vol 1, 9.3.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mtu {
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes: the largest that fits an Ethernet frame of 1500.
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes: needs jumbo frames.
    B4096,
}

/// The bytes around the payload of the longest data packet: IPv6 40, UDP 8, BTH 12, DETH 8 or
/// RETH 16 with ImmDt 4, ICRC 4.
pub const HEADROOM: u32 = 40 + 8 + 12 + 16 + 4 + 4;

impl Mtu {
    /// From smallest to largest.
    pub const ALL: [Self; 5] = [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];

    /// The payload in bytes.
    pub const fn bytes(self) -> u32 {
        256 << self as u32
    }

    /// The code of `enum ibv_mtu` and of the CM MADs: 1 for 256 up to 5 for 4096.
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }

    /// The MTU with code `code`, if it is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.code() == code)
    }

    /// The largest RDMA MTU whose packets fit an interface MTU of `bytes`, 256 at the least.
    pub fn fitting(bytes: u32) -> Self {
        Self::ALL
            .into_iter()
            .rev()
            .find(|mtu| mtu.bytes() + HEADROOM <= bytes)
            .unwrap_or(Self::B256)
    }

    /// How many packets a message of `length` bytes takes; an empty one takes one.
    pub const fn packets(self, length: u32) -> u32 {
        packets(length, self.bytes())
    }
}

/// The same of packets with so many bytes of payload `each`.
pub const fn packets(length: u32, each: u32) -> u32 {
    if length == 0 { 1 } else { length.div_ceil(each) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_that_of_verbs() {
        assert_eq!(Mtu::from_code(3), Some(Mtu::B1024));
        assert_eq!(Mtu::B4096.code(), 5);
        assert_eq!((Mtu::from_code(0), Mtu::from_code(6)), (None, None));
    }

    #[test]
    fn interfaces_get_the_largest_mtu_that_fits() {
        assert_eq!(Mtu::fitting(1500), Mtu::B1024);
        assert_eq!(Mtu::fitting(9000), Mtu::B4096);
        assert_eq!(Mtu::fitting(65536), Mtu::B4096);
        assert_eq!(Mtu::fitting(4096), Mtu::B2048);
        assert_eq!(Mtu::fitting(68), Mtu::B256);
    }

    #[test]
    fn a_message_of_two_gibibytes_fits_the_sequence_space() {
        assert_eq!(Mtu::B256.packets(1 << 31), 1 << 23);
        assert_eq!(Mtu::B1024.packets(0), 1);
        assert_eq!(Mtu::B1024.packets(1025), 2);
    }
}
