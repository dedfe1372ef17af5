//! Rules by which a link loses packets.

use crate::topology::{End, Topology};

/// Which packets a link loses on purpose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DropRule {
    /// Any packet, with this probability.
    Chance(f64),
    /// Every n-th packet.
    Every(u64),
    /// Packets whose IP ID ends in this byte: guo16, 4.1, with 0xff.
    IpIdEnds(u8),
    /// Packets of one host for another.
    Between {
        /// Host that sends.
        source: u32,
        /// Host that it is for.
        destination: u32,
    },
}

impl DropRule {
    /// In a few words.
    pub(crate) fn text(self, topology: &Topology) -> String {
        let name = |host: u32| topology.name(End::Host(host));
        match self {
            Self::Chance(chance) => format!("{chance} of packets"),
            Self::Every(n) => format!("one packet in {n}"),
            Self::IpIdEnds(byte) => format!("those whose IP ID ends in {byte:#04x}"),
            Self::Between { source, destination } => {
                format!("those of {} for {}", name(source), name(destination))
            }
        }
    }
}
