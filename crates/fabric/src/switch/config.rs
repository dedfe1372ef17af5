//! What can be set on a switch. A scenario, a `config_db.json` and a test all end in a [`SwitchConfig`]; there
//! is nothing else to set.
//!
//! ```text
//!   DSCP or PCP ─► traffic class ─┬─► priority group (ingress: buffer, XOFF/XON) ─► PFC priority sent
//!                                 └─► queue (egress: schedule, ECN, tail drop) ◄─ PFC priority received
//! ```
//!
//! The names in brackets are those of SONiC's tables and of SAI.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use rdma::Span;
use serde::Deserialize;

use super::cell::Cell;
use super::custom::CustomBalance;
use crate::pfc::{PRIORITIES, PfcConfig, default_dscp_map};

/// The settings of one switch.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchConfig {
    /// Which field says a packet's class.
    pub trust: Trust,
    /// Class by DSCP (`DSCP_TO_TC_MAP`).
    pub dscp_to_class: [u8; 64],
    /// Class by PCP (`DOT1P_TO_TC_MAP`); untagged packets are of class 0 under [`Trust::Pcp`].
    pub pcp_to_class: [u8; PRIORITIES],
    /// Priority group by class (`TC_TO_PRIORITY_GROUP_MAP`).
    pub class_to_group: [u8; PRIORITIES],
    /// Queue by class (`TC_TO_QUEUE_MAP`).
    pub class_to_queue: [u8; PRIORITIES],
    /// The queue that a received pause of a priority stops (`MAP_PFC_PRIORITY_TO_QUEUE`).
    pub priority_to_queue: [u8; PRIORITIES],
    /// The priority of the pauses that a group sends [PFC_PRIORITY_TO_PRIORITY_GROUP_MAP, which is
    /// the other way round].
    pub group_to_priority: [u8; PRIORITIES],
    /// The shared packet buffer in bytes, reserves and headroom included.
    pub buffer_bytes: u32,
    /// The unit in which it is given out. Limits and occupancies are in bytes of cells.
    pub cell: Cell,
    /// The part of it that all headrooms share (`xoff` of a `BUFFER_POOL`); `None` gives each its own.
    pub headroom_pool_bytes: Option<u32>,
    /// By priority group, of every port that has no settings of its own.
    pub groups: [GroupConfig; PRIORITIES],
    /// By queue, of every port that has no settings of its own.
    pub queues: [QueueConfig; PRIORITIES],
    /// Ports with settings of their own, by number. Ports count in the order of the topology's links.
    pub ports: BTreeMap<u16, PortConfig>,
    /// Pause frames.
    pub pfc: PfcConfig,
    /// How long a packet takes from its last bit to its queue; from its head, where it is cut through.
    pub latency: Span,
    /// Whether a packet that need not wait leaves when its head is here, by ports that are not faster than
    /// that by which it came; what waits is stored.
    pub cut_through: bool,
    /// Which of several next hops a packet takes.
    pub balance: Balance,
    /// Makes the ECMP choices of this switch differ from those of others.
    pub ecmp_seed: u64,
    /// Whether it chooses as every other polarised switch does: what one has divided, the next does not
    /// divide again.
    pub polarised: bool,
    /// Whether a next hop is chosen as often as what can flow on by it, and not as often as the others.
    pub weighted: bool,
    /// ARP and MAC addresses of the servers below.
    pub tables: TableConfig,
    /// When packets are marked.
    pub ecn_mark: EcnMark,
    /// Against servers that pause without end; `None` to let them.
    pub watchdog: Option<WatchdogConfig>,
    /// Whether packets leave with a VLAN tag towards servers.
    pub server_ports: PortMode,
}

/// The VLAN mode of ports towards servers (guo16, 3). What comes in is taken with and without a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortMode {
    /// Packets leave untagged.
    Access,
    /// Packets leave with a tag, whose PCP is their priority. A NIC that has not been told of VLANs
    /// drops them.
    Trunk,
}

/// The settings of one port, in the place of the switch's.
#[derive(Clone, PartialEq, Debug)]
pub struct PortConfig {
    /// By priority group.
    pub groups: [GroupConfig; PRIORITIES],
    /// By queue.
    pub queues: [QueueConfig; PRIORITIES],
    /// What its watchdog does; `None` to let the port pause. How often it looks is the switch's.
    pub watchdog: Option<WatchdogConfig>,
}

/// Which of several equal next hops a packet takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Balance {
    /// The packets of a flow all take one, by the hash of their five-tuple.
    #[default]
    Flow,
    /// Each packet takes one by itself. Packets overtake each other.
    Packet,
    /// A flow may change after a gap: none of its packets came for so long.
    Flowlet {
        /// The gap. Longer than what two paths can differ by, packets do not overtake each other.
        gap: Span,
    },
    /// One that is not of this crate decides.
    Custom(CustomBalance),
}

impl Balance {
    /// One of each kind of ours, without a gap.
    pub(crate) const ALL: [Self; 3] = [Self::Flow, Self::Packet, Self::Flowlet { gap: Span::ZERO }];

    /// What a scenario calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Packet => "packet",
            Self::Flowlet { .. } => "flowlet",
            Self::Custom(custom) => custom.name(),
        }
    }

    /// Whether packets of one flow may take several paths, so that they may overtake each other.
    pub(crate) fn may_reorder(&self) -> bool {
        match self {
            Self::Flow => false,
            Self::Packet | Self::Flowlet { .. } => true,
            Self::Custom(custom) => !custom.keeps_order(),
        }
    }
}

/// Which field says a packet's class (guo16, 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// DSCP of the IP header: survives routing.
    Dscp,
    /// PCP of the VLAN tag: lost where a packet is routed, as its tag is.
    Pcp,
}

/// How much of the shared buffer one priority group or queue may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// `2^exponent` times what is still free (`dynamic_th`): guo16's alpha.
    Dynamic {
        /// From -8 (1/256) to 7 (128).
        exponent: i8,
    },
    /// So many bytes (`static_th`).
    Static {
        /// In bytes.
        bytes: u32,
    },
}

impl Threshold {
    /// What a group holds of `shared` bytes when XOFF is due and `k` groups in all fill together.
    pub fn xoff_bytes(self, shared: u64, k: usize) -> u64 {
        match self {
            Self::Static { bytes } => u64::from(bytes).min(shared),
            Self::Dynamic { exponent } => {
                let alpha = 2f64.powi(i32::from(exponent));
                (alpha * shared as f64 / (1.0 + k as f64 * alpha)) as u64
            }
        }
    }
}

/// The exponents of the alphas that there are: 1/256 to 128.
pub(crate) const ALPHA_EXPONENTS: RangeInclusive<i8> = -8..=7;

/// 2^`exponent` in words: 1/16, or 8.
pub fn alpha_of(exponent: i8) -> String {
    let power = 1_u32 << exponent.unsigned_abs().min(31);
    if exponent < 0 { format!("1/{power}") } else { power.to_string() }
}

/// A priority group of a port (`BUFFER_PG` with its `BUFFER_PROFILE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupConfig {
    /// Whether it pauses before it drops.
    pub lossless: bool,
    /// Bytes that it has for itself (`size`).
    pub reserve_bytes: u32,
    /// Its share of the rest; XOFF is sent when it is reached.
    pub threshold: Threshold,
    /// Bytes for what arrives after XOFF, lossless groups only (`xoff`). `None` computes it from rate,
    /// cable and MTU of each port: [`headroom_bytes`](crate::switch::headroom_bytes), and two frames.
    pub headroom_bytes: Option<u32>,
    /// XON is sent when the group is so far below its threshold (`xon_offset`), or empty.
    pub xon_offset_bytes: u32,
    /// XON is sent as well when no more than so much of shared memory is taken (`xon`).
    pub xon_bytes: u32,
}

/// An egress queue of a port (`QUEUE` with `SCHEDULER` and `WRED_PROFILE`, and `BUFFER_QUEUE`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueConfig {
    /// Who goes first.
    pub schedule: Schedule,
    /// How long it may grow, for packets of lossy groups alone.
    pub limit: Option<Threshold>,
    /// When to mark.
    pub ecn: Option<EcnConfig>,
}

/// Who goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// Before every queue that is not strict, and every strict one of a lower number.
    Strict,
    /// Deficit round robin among its like, by this weight, which is not zero.
    Weighted(u8),
}

/// WRED on the length of a queue, for packets that may be marked.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct EcnConfig {
    /// Nothing is marked up to here.
    pub min_bytes: u32,
    /// Everything is marked from here on.
    pub max_bytes: u32,
    /// The probability just before that.
    pub max_probability: f64,
}

/// Which length of its queue decides whether a packet is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EcnMark {
    /// That at its departure, itself included: shared-buffer switches do so (Zhu et al., "ECN or
    /// Delay", CoNEXT 2016), and the mark says how long the queue is now.
    #[default]
    Departure,
    /// That which it finds at its arrival: the mark is as old as the queue is long, and DCQCN, which
    /// is close to swinging, swings.
    Arrival,
}

/// ARP and MAC tables (guo16, 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableConfig {
    /// How long the MAC address of a server that answers no ARP request stays known.
    pub arp_timeout: Span,
    /// How long the port of a server that sends nothing stays known.
    pub mac_timeout: Span,
    /// What becomes of a packet whose MAC address is known and whose port is not.
    pub incomplete: Incomplete,
}

/// What becomes of a packet of a lossless class whose ARP entry is incomplete. Lossy ones are
/// flooded, as the standard has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Incomplete {
    /// It is flooded to every other port, as the standard has it.
    Flood,
    /// It is dropped: guo16's remedy.
    Drop,
    /// It goes to the CPU of the switch, which drops it and counts.
    Cpu,
}

/// A watchdog over ports whose other end pauses without end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchdogConfig {
    /// When it finds a storm.
    pub rule: WatchdogRule,
    /// What it does about one.
    pub action: WatchdogAction,
    /// How often it looks (`POLL_INTERVAL`).
    pub poll: Span,
    /// A storm has lasted so long (`detection_time`).
    pub detection: Span,
    /// It is over when no pause has come for so long (`restoration_time`).
    pub restoration: Span,
}

/// When a watchdog finds a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchdogRule {
    /// guo16, 4.3: a queue towards a server is paused, holds packets and sends none. The whole port
    /// loses its lossless mode.
    Guo16,
    /// SONiC on Broadcom, of each lossless queue of any port: pause frames came since the last look,
    /// the queue was paused then and is now, and it did not become so in between.
    Broadcom,
    /// SONiC on Mellanox: a lossless queue of any port holds packets, sent none since the last look,
    /// and was paused for more than 0.99 of the time.
    Mellanox,
}

/// What a watchdog does about a storm (`action`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchdogAction {
    /// Pauses are ignored, and packets for the queue and from its priority group are dropped.
    Drop,
    /// Pauses are ignored.
    Forward,
    /// It is counted.
    Alert,
}

impl Default for SwitchConfig {
    /// A shallow-buffer switch of guo16's kind: 12 MB, priorities 3 and 4 lossless under alpha
    /// 1/16, DSCP i to priority i.
    fn default() -> Self {
        let identity = [0, 1, 2, 3, 4, 5, 6, 7];
        let mut groups = [GroupConfig::LOSSY; PRIORITIES];
        groups[3] = GroupConfig::LOSSLESS;
        groups[4] = GroupConfig::LOSSLESS;
        Self {
            trust: Trust::Dscp,
            dscp_to_class: default_dscp_map(),
            pcp_to_class: identity,
            class_to_group: identity,
            class_to_queue: identity,
            priority_to_queue: identity,
            group_to_priority: identity,
            buffer_bytes: 12_000_000,
            cell: Cell::BYTE,
            headroom_pool_bytes: None,
            groups,
            queues: [QueueConfig::default(); PRIORITIES],
            ports: BTreeMap::new(),
            pfc: PfcConfig::default(),
            latency: Span::ZERO,
            cut_through: false,
            balance: Balance::default(),
            ecmp_seed: 0,
            polarised: false,
            weighted: false,
            tables: TableConfig::default(),
            ecn_mark: EcnMark::default(),
            watchdog: None,
            server_ports: PortMode::Access,
        }
    }
}

impl SwitchConfig {
    /// The priority groups of port `local`.
    pub(crate) fn groups_of(&self, local: u16) -> &[GroupConfig; PRIORITIES] {
        self.ports.get(&local).map_or(&self.groups, |port| &port.groups)
    }

    /// The queues of port `local`.
    pub(crate) fn queues_of(&self, local: u16) -> &[QueueConfig; PRIORITIES] {
        self.ports.get(&local).map_or(&self.queues, |port| &port.queues)
    }

    /// The exponents of all its dynamic thresholds.
    pub(crate) fn alpha_exponents(&self) -> impl Iterator<Item = i8> {
        let ports = self.ports.values();
        let groups = self.groups.iter().chain(ports.clone().flat_map(|port| &port.groups));
        let queues = self.queues.iter().chain(ports.flat_map(|port| &port.queues));
        let thresholds =
            groups.map(|group| group.threshold).chain(queues.filter_map(|it| it.limit));
        thresholds.filter_map(|threshold| match threshold {
            Threshold::Dynamic { exponent } => Some(exponent),
            Threshold::Static { .. } => None,
        })
    }

    /// Whether it says how large the headroom of any group is.
    pub(crate) fn sets_headroom(&self) -> bool {
        let of_ports = self.ports.values().flat_map(|port| &port.groups);
        let mut groups = self.groups.iter().chain(of_ports);
        self.headroom_pool_bytes.is_some() || groups.any(|group| group.headroom_bytes.is_some())
    }

    /// Whether any port is watched.
    pub(crate) fn has_watchdog(&self) -> bool {
        self.watchdog.is_some() || self.ports.values().any(|port| port.watchdog.is_some())
    }

    /// What its watchdogs do about storms.
    pub(crate) fn watchdog_actions(&self) -> impl Iterator<Item = WatchdogAction> {
        let of_ports = self.ports.values().filter_map(|port| port.watchdog.as_ref());
        self.watchdog.iter().chain(of_ports).map(|watchdog| watchdog.action)
    }

    /// The watchdog of port `local`.
    pub(crate) fn watchdog_of(&self, local: u16) -> Option<&WatchdogConfig> {
        self.ports.get(&local).map_or(self.watchdog.as_ref(), |port| port.watchdog.as_ref())
    }
}

impl GroupConfig {
    /// Drops when it is full.
    pub const LOSSY: Self = Self {
        lossless: false,
        reserve_bytes: 0,
        threshold: Threshold::Dynamic { exponent: 0 },
        headroom_bytes: None,
        xon_offset_bytes: 0,
        xon_bytes: 0,
    };

    /// Pauses at alpha 1/16, guo16's default, and resumes two long packets below.
    pub const LOSSLESS: Self = Self {
        lossless: true,
        reserve_bytes: 0,
        threshold: Threshold::Dynamic { exponent: -4 },
        headroom_bytes: None,
        xon_offset_bytes: 4_608,
        xon_bytes: 0,
    };
}

impl Default for QueueConfig {
    /// One share of the link, no marks, no limit of its own.
    fn default() -> Self {
        Self { schedule: Schedule::Weighted(1), limit: None, ecn: None }
    }
}

impl Default for TableConfig {
    /// The times of guo16: four hours and five minutes; flooding.
    fn default() -> Self {
        Self {
            arp_timeout: Span::from_ms(4 * 3_600_000),
            mac_timeout: Span::from_ms(5 * 60_000),
            incomplete: Incomplete::Flood,
        }
    }
}

impl Default for WatchdogConfig {
    /// A few hundred milliseconds to detect, 200 ms to restore (guo16, 4.3).
    fn default() -> Self {
        Self {
            rule: WatchdogRule::Guo16,
            action: WatchdogAction::Drop,
            poll: Span::from_ms(50),
            detection: Span::from_ms(200),
            restoration: Span::from_ms(200),
        }
    }
}
