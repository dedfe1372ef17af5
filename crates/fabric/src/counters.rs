//! The counters, and the names under which operators know them.

mod port;

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::pfc::PRIORITIES;

pub use port::{Counters, NicCounters, PortCounted, Traffic};

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Drop { $($(#[$doc])* $name,)* }

        impl Drop {
            /// Every cause.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The cause in a few words.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

causes! {
    /// A lossless packet found its headroom full: the headroom is too small, or the sender does not
    /// obey pauses.
    Headroom = "headroom full (lossless)",
    /// A lossy packet found its group at its threshold, or the shared buffer full.
    Buffer = "buffer full (lossy)",
    /// A lossy packet found its egress queue at its limit.
    QueueLimit = "egress queue full (lossy)",
    /// The hop limit was reached.
    HopLimit = "hop limit reached",
    /// No route to the destination.
    NoRoute = "no route",
    /// The frame was damaged on the link.
    Damaged = "damaged on the link",
    /// A drop rule of the scenario.
    Rule = "drop rule",
    /// The link was down.
    LinkDown = "link down",
    /// The switch knows the MAC address and not the port, and is told to drop then.
    IncompleteArp = "incomplete ARP entry",
    /// The same, sent to the CPU of the switch.
    SwitchCpu = "sent to the switch CPU",
    /// The switch knows no MAC address of the destination.
    NoArp = "no ARP entry",
    /// A flooded copy that came to somebody else.
    NotForMe = "flooded copy, not for the receiver",
    /// The switch's watchdog has taken the lossless mode from the port.
    Watchdog = "watchdog",
    /// The receive buffer of the NIC was full.
    ReceiveBuffer = "NIC receive buffer full",
    /// The frame had a VLAN tag, and the NIC has not been told of VLANs.
    Tagged = "VLAN tag, NIC without VLAN",
    /// The host was dead.
    DeadHost = "host dead",
    /// Its bytes were changed on the way, and its ICRC said so.
    Icrc = "corrupted on the way (ICRC)",
    /// It was in a switch that restarted.
    Restart = "in a switch that restarted",
    /// The engine refused it; its own counters say why.
    Refused = "refused by the transport engine",
}

/// Packets dropped, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    counts: [u64; Drop::ALL.len()],
}

impl Drops {
    pub(crate) fn add(&mut self, cause: Drop) {
        self.counts[cause as usize] += 1;
    }

    /// These and those.
    #[must_use]
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self
    }

    /// How many for `cause`.
    pub fn of(&self, cause: Drop) -> u64 {
        self.counts[cause as usize]
    }

    /// How many in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The causes that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Drop, u64)> {
        Drop::ALL.iter().map(|&cause| (cause, self.of(cause))).filter(|&(_, count)| count > 0)
    }
}

impl fmt::Display for Drop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Pauses of one port, by priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PauseCounters {
    /// Frames sent, each once, whatever priorities it stops or resumes.
    pub sent_frames: u64,
    /// Frames received, each once.
    pub received_frames: u64,
    /// Frames sent that stop the priority (`SAI_PORT_STAT_PFC_n_TX_PKTS` counts these and those that
    /// resume).
    pub sent: [u64; PRIORITIES],
    /// Frames received that stop the priority.
    pub received: [u64; PRIORITIES],
    /// Frames sent that resume it.
    pub sent_resume: [u64; PRIORITIES],
    /// Frames received that resume it.
    pub received_resume: [u64; PRIORITIES],
    /// Times that it went from sending to paused (`SAI_PORT_STAT_PFC_n_ON2OFF_RX_PKTS`).
    pub transitions: [u64; PRIORITIES],
    /// How long it was paused, in picoseconds (`SAI_PORT_STAT_PFC_n_RX_PAUSE_DURATION_US`).
    pub paused_ps: [u64; PRIORITIES],
}

/// What the watchdog of a switch has found and done at one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WatchdogCounters {
    /// Storms found (`PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED` of SONiC).
    pub detected: u64,
    /// Storms found to be over (`PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED`).
    pub restored: u64,
    /// Packets for the port that were dropped meanwhile (`PFC_WD_QUEUE_STATS_TX_DROPPED_PACKETS`).
    pub tx_dropped: u64,
    /// Packets that came in by it and were dropped (`PFC_WD_QUEUE_STATS_RX_DROPPED_PACKETS`).
    pub rx_dropped: u64,
}

impl WatchdogCounters {
    /// These and those.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            detected: self.detected + other.detected,
            restored: self.restored + other.restored,
            tx_dropped: self.tx_dropped + other.tx_dropped,
            rx_dropped: self.rx_dropped + other.rx_dropped,
        }
    }

    /// Packets dropped while there was a storm.
    pub const fn dropped(&self) -> u64 {
        self.tx_dropped + self.rx_dropped
    }
}

/// The memory that the groups of a switch share.
pub const POOL_SIZE: &str = "SAI_BUFFER_POOL_ATTR_SIZE";
/// The most that was used of it.
pub const POOL_PEAK: &str = "SAI_BUFFER_POOL_STAT_WATERMARK_BYTES";

/// What one port of a switch has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PortCounters {
    /// By queue: packets sent (`SAI_QUEUE_STAT_PACKETS`).
    pub queue_packets: [u64; PRIORITIES],
    /// By queue: bytes sent (`SAI_QUEUE_STAT_BYTES`).
    pub queue_bytes: [u64; PRIORITIES],
    /// By queue: packets dropped (`SAI_QUEUE_STAT_DROPPED_PACKETS`).
    pub queue_dropped: [u64; PRIORITIES],
    /// By queue: packets marked (`SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS`).
    pub queue_marked: [u64; PRIORITIES],
    /// By queue: the longest (`SAI_QUEUE_STAT_WATERMARK_BYTES`).
    pub queue_peak_bytes: [u64; PRIORITIES],
    /// By group: packets received (`SAI_INGRESS_PRIORITY_GROUP_STAT_PACKETS`).
    pub group_packets: [u64; PRIORITIES],
    /// By group: bytes received (`SAI_INGRESS_PRIORITY_GROUP_STAT_BYTES`).
    pub group_bytes: [u64; PRIORITIES],
    /// By group: packets dropped (`SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS`).
    pub group_dropped: [u64; PRIORITIES],
    /// By group: the most in reserve and shared memory
    /// (`SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES`).
    pub group_peak_bytes: [u64; PRIORITIES],
    /// By group: the most in headroom
    /// (`SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES`).
    pub group_peak_headroom_bytes: [u64; PRIORITIES],
    /// Frames that were damaged on the link to it (`SAI_PORT_STAT_IF_IN_ERRORS`).
    pub in_errors: u64,
    /// Pauses.
    pub pause: PauseCounters,
    /// The watchdog, if the port is watched.
    pub watchdog: WatchdogCounters,
}

impl PortCounters {
    /// Every counter with the name that SAI gives it, in SAI's order of things: queues, priority
    /// groups, PFC; and the watchdog's, under SONiC's names.
    pub fn named(&self) -> Vec<(String, u64)> {
        let families: [(&str, &[u64; PRIORITIES]); 10] = [
            ("SAI_QUEUE_STAT_PACKETS", &self.queue_packets),
            ("SAI_QUEUE_STAT_BYTES", &self.queue_bytes),
            ("SAI_QUEUE_STAT_DROPPED_PACKETS", &self.queue_dropped),
            ("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", &self.queue_marked),
            ("SAI_QUEUE_STAT_WATERMARK_BYTES", &self.queue_peak_bytes),
            ("SAI_INGRESS_PRIORITY_GROUP_STAT_PACKETS", &self.group_packets),
            ("SAI_INGRESS_PRIORITY_GROUP_STAT_BYTES", &self.group_bytes),
            ("SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS", &self.group_dropped),
            ("SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES", &self.group_peak_bytes),
            (
                "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES",
                &self.group_peak_headroom_bytes,
            ),
        ];
        let mut named = Vec::new();
        for (name, values) in families {
            for (index, &value) in values.iter().enumerate() {
                named.push((format!("{name}:{index}"), value));
            }
        }
        named.push(("SAI_PORT_STAT_IF_IN_ERRORS".to_owned(), self.in_errors));
        let pause = &self.pause;
        for priority in 0..PRIORITIES {
            let mut put = |rest: &str, value| {
                named.push((format!("SAI_PORT_STAT_PFC_{priority}_{rest}"), value));
            };
            put("TX_PKTS", pause.sent[priority] + pause.sent_resume[priority]);
            put("RX_PKTS", pause.received[priority] + pause.received_resume[priority]);
            put("ON2OFF_RX_PKTS", pause.transitions[priority]);
            put("RX_PAUSE_DURATION_US", pause.paused_ps[priority] / 1_000_000);
        }
        let WatchdogCounters { detected, restored, tx_dropped, rx_dropped } = self.watchdog;
        named.extend(
            [
                ("DEADLOCK_DETECTED", detected),
                ("DEADLOCK_RESTORED", restored),
                ("TX_DROPPED_PACKETS", tx_dropped),
                ("RX_DROPPED_PACKETS", rx_dropped),
            ]
            .map(|(name, value)| (format!("PFC_WD_QUEUE_STATS_{name}"), value)),
        );
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_counted_by_itself_and_named() {
        let mut drops = Drops::default();
        for &cause in Drop::ALL {
            drops.add(cause);
        }
        drops.add(Drop::Headroom);
        assert_eq!((drops.of(Drop::Headroom), drops.of(Drop::Rule)), (2, 1));
        assert_eq!(drops.total(), Drop::ALL.len() as u64 + 1);
        assert_eq!(drops.iter().count(), Drop::ALL.len());
    }

    #[test]
    fn counters_carry_the_names_of_sai() {
        let mut counters = PortCounters::default();
        counters.pause.received[3] = 2;
        counters.pause.received_resume[3] = 1;
        counters.pause.paused_ps[3] = 7_999_999;
        let named = counters.named();
        let value = |name: &str| named.iter().find(|(key, _)| key == name).map(|&(_, value)| value);
        assert_eq!(value("SAI_PORT_STAT_PFC_3_RX_PKTS"), Some(3));
        assert_eq!(value("SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US"), Some(7));
        assert_eq!(value("SAI_QUEUE_STAT_DROPPED_PACKETS:7"), Some(0));
    }
}
