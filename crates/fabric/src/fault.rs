//! Faults: what goes wrong in a simulation, and when.

use rdma::{Span, Time};

use crate::topology::End;

/// Something that happens to the network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fault {
    /// When; at zero it is so from before the first packet.
    pub at: Time,
    /// What.
    pub kind: FaultKind,
}

/// See [`Fault`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FaultKind {
    /// From now on one direction of a link loses packets by a rule.
    LinkRule {
        /// Who sends.
        from: End,
        /// Who receives.
        to: End,
        /// Which packets.
        rule: DropRule,
    },
    /// From now on frames of one direction of a link are damaged.
    LinkDamage {
        /// Who sends.
        from: End,
        /// Who receives.
        to: End,
        /// Of each frame.
        probability: f64,
    },
    /// Nothing that is sent arrives, in either direction. Routes stay as they are until
    /// [`FaultKind::RoutesFollow`]; see [`crate::NetworkConfig::reroute`].
    LinkDown {
        /// The link's ends.
        ends: [End; 2],
    },
    /// The link is well again.
    LinkUp {
        /// The link's ends.
        ends: [End; 2],
    },
    /// Routing has noticed which links are down and which are not: all switches go round them.
    RoutesFollow,
    /// The host neither sends nor receives any more.
    HostDies {
        /// Which.
        host: u32,
        /// It died long ago: the MAC entry of its switch has aged, the ARP entry has not.
        mac_aged: bool,
    },
    /// The host is as it was: what its engines had to send is sent, and what they missed is sent to
    /// them again.
    HostReturns {
        /// Which.
        host: u32,
    },
    /// From now on the lossless priority groups of a switch have another alpha, as after a change of its
    /// configuration (guo16, 6.2). It counts from the next packet on.
    AlphaChanges {
        /// Which.
        switch: u32,
        /// Of two: -4 is 1/16.
        exponent: i8,
    },
    /// The NIC's receive pipeline stands still, and the NIC pauses its switch (guo16, 4.3).
    NicStuck {
        /// Of which host.
        host: u32,
    },
    /// The host was rebooted, and its NIC receives again.
    NicRepaired {
        /// Of which host.
        host: u32,
    },
}

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

impl FaultKind {
    /// Whether it changes which links are there.
    pub(crate) fn is_of_link(self) -> bool {
        matches!(self, Self::LinkDown { .. } | Self::LinkUp { .. })
    }
}

impl Fault {
    /// A link that fails at `at` and every `every` after, `times` times, for `down` each.
    pub fn flaps(ends: [End; 2], at: Time, down: Span, every: Span, times: u32) -> Vec<Self> {
        let flap = |number: u32| {
            let at = at + every * u64::from(number);
            let fails = Self { at, kind: FaultKind::LinkDown { ends } };
            [fails, Self { at: at + down, kind: FaultKind::LinkUp { ends } }]
        };
        (0..times).flat_map(flap).collect()
    }
}
