//! Faults: what goes wrong in a simulation, and when.

use rdma::{Rate, Span, Time};

use crate::switch::config::{EcnConfig, WatchdogConfig, alpha_of};
use crate::topology::{End, Topology};

pub use crate::drop_rule::DropRule;

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
    /// From now on bytes of RoCE packets in one direction of a link are changed in a way that Ethernet's check
    /// does not see, as by the memory of a switch: the receiver's ICRC does.
    LinkCorrupts {
        /// Who sends.
        from: End,
        /// Who receives.
        to: End,
        /// Of each packet.
        probability: f64,
    },
    /// From now on a link carries less, in both directions: a lane has failed, or it was negotiated anew.
    LinkDegrades {
        /// The link's ends.
        ends: [End; 2],
        /// At most its own.
        rate: Rate,
    },
    /// The link neither loses, damages nor corrupts any more, and has its own rate. If it is down, it stays so.
    LinkRepaired {
        /// The link's ends.
        ends: [End; 2],
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
    /// From now on queues of a switch mark by other thresholds, or not at all.
    EcnChanges {
        /// Which.
        switch: u32,
        /// A bit for each queue.
        queues: u8,
        /// `None` for no marks.
        ecn: Option<EcnConfig>,
    },
    /// From now on a switch, or the NIC of a host, pauses these priorities and no others, and obeys their pauses.
    /// What a switch holds of others is lossy from its next packet on.
    PfcChanges {
        /// Which.
        node: End,
        /// A bit for each priority.
        priorities: u8,
    },
    /// From now on a switch has another map from DSCP to class.
    DscpMapChanges {
        /// Which.
        switch: u32,
        /// Class by DSCP.
        dscp_to_class: [u8; 64],
    },
    /// From now on all ports of a switch have this watchdog, or none.
    WatchdogChanges {
        /// Which.
        switch: u32,
        /// `None` to let ports pause.
        watchdog: Option<WatchdogConfig>,
    },
    /// From now on the NIC of a host has this watchdog, or none.
    NicWatchdogChanges {
        /// Of which host.
        host: u32,
        /// How long its receive pipeline may stand still.
        after: Option<Span>,
    },
    /// A switch restarts: what it holds is lost, and its links are down.
    SwitchGoesDown {
        /// Which.
        switch: u32,
    },
    /// The switch is back, with the settings that it had in the beginning.
    SwitchReturns {
        /// Which.
        switch: u32,
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

impl FaultKind {
    /// Whether it changes which links are there.
    pub(crate) fn is_of_link(self) -> bool {
        matches!(
            self,
            Self::LinkDown { .. }
                | Self::LinkUp { .. }
                | Self::SwitchGoesDown { .. }
                | Self::SwitchReturns { .. }
        )
    }
}

impl FaultKind {
    /// What happens, in a few words, as a scenario names it.
    pub fn text(&self, topology: &Topology) -> String {
        let name = |end: End| topology.name(end).to_owned();
        let of_host = |host: u32| name(End::Host(host));
        let of_switch = |switch: u32| name(End::Switch(switch));
        let link = |ends: [End; 2]| ends.map(name).join(" - ");
        let hop = |from: End, to: End| format!("{} to {}", name(from), name(to));
        match *self {
            Self::LinkRule { from, to, rule } => {
                format!("drop {}: {}", hop(from, to), rule.text(topology))
            }
            Self::LinkDamage { from, to, probability } => {
                format!("damage {}: {probability} of frames", hop(from, to))
            }
            Self::LinkCorrupts { from, to, probability } => {
                format!("corrupt {}: {probability} of packets", hop(from, to))
            }
            Self::LinkDegrades { ends, rate } => format!("link-degrades {}: {rate}", link(ends)),
            Self::LinkRepaired { ends } => format!("link-repaired {}", link(ends)),
            Self::LinkDown { ends } => format!("link-down {}", link(ends)),
            Self::LinkUp { ends } => format!("link-up {}", link(ends)),
            Self::RoutesFollow => "routing has noticed which links are down".to_owned(),
            Self::HostDies { host, mac_aged } => {
                let aged = if mac_aged { ", its MAC entry has aged" } else { "" };
                format!("host-dies {}{aged}", of_host(host))
            }
            Self::HostReturns { host } => format!("host-returns {}", of_host(host)),
            Self::AlphaChanges { switch, exponent } => {
                format!("alpha {}: {}", of_switch(switch), alpha_of(exponent))
            }
            Self::EcnChanges { switch, ecn: None, .. } => format!("ecn {}: off", of_switch(switch)),
            Self::EcnChanges { switch, ecn: Some(ecn), .. } => format!(
                "ecn {}: marks from {} to {} bytes",
                of_switch(switch),
                ecn.min_bytes,
                ecn.max_bytes
            ),
            Self::PfcChanges { node, priorities } => {
                let all: Vec<u8> = (0..8).filter(|bit| priorities >> bit & 1 != 0).collect();
                format!("pfc {}: priorities {all:?}", name(node))
            }
            Self::DscpMapChanges { switch, .. } => format!("dscp-map {}", of_switch(switch)),
            Self::WatchdogChanges { switch, watchdog } => {
                let on = if watchdog.is_some() { "on" } else { "off" };
                format!("watchdog {}: {on}", of_switch(switch))
            }
            Self::NicWatchdogChanges { host, after } => {
                let on = if after.is_some() { "on" } else { "off" };
                format!("nic-watchdog {}: {on}", of_host(host))
            }
            Self::SwitchGoesDown { switch } => {
                format!("switch-reboots {}: down", of_switch(switch))
            }
            Self::SwitchReturns { switch } => format!("switch-reboots {}: back", of_switch(switch)),
            Self::NicStuck { host } => format!("nic-stuck {}", of_host(host)),
            Self::NicRepaired { host } => format!("nic-repaired {}", of_host(host)),
        }
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
