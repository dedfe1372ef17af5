//! What NICs and ports of switches have counted, as far as a verdict looks at it: the same of a simulation's counters and
//! of those that `ferroce export` reads.
//!
//! ```text
//!   Raw: sysfs, ethtool -S, dcb, soft NICs ─► Reading ─┬─ minus the one before ─► HostDelta   (an agent's own device)
//!        SONiC's COUNTERS_DB, show pfc ...             └────────────────────────► PortDelta   (switches)
//!   fabric::counters ────────────────────────────────────────────────────────────► both
//! ```
//!
//! A counter that has fallen since has begun anew: nothing is concluded from it.

use std::collections::BTreeMap;

use fabric::counters::{PauseCounters, PortCounters};
use serde::{Deserialize, Serialize};

use super::node::Node;
use crate::watch::{
    Origin, PRIORITIES, PoolSample, PortName, PortSample, QueueSample, Raw, Sample,
};

/// What a port of a switch has counted in an interval; zero is also what nobody counts. Names in brackets are SAI's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PortDelta {
    /// Pause frames that it received: its neighbour stopped it (`PFC_n_RX_PKTS`).
    pub rx_pause: u64,
    /// Pause frames that it sent: it stopped its neighbour (`PFC_n_TX_PKTS`).
    pub tx_pause: u64,
    /// For how long it was stopped, of the priority that was longest (`PFC_n_RX_PAUSE_DURATION_US`).
    pub paused_us: u64,
    /// Packets dropped, at either side of its buffer.
    pub dropped: u64,
    /// By queue: packets sent (`SAI_QUEUE_STAT_PACKETS`).
    pub queue_packets: [u64; 8],
    /// Packets received (`SAI_INGRESS_PRIORITY_GROUP_STAT_PACKETS`); `None` if nobody counts them.
    pub rx_packets: Option<u64>,
    /// By priority group.
    #[serde(default)]
    pub groups: [GroupDelta; PRIORITIES],
    /// The memory of its switch, which is the same at each of its ports.
    #[serde(default)]
    pub pool: PoolSample,
}

/// What a priority group of a port has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GroupDelta {
    /// Pause frames that it sent in the interval.
    pub pauses: u64,
    /// The most that it has held by its end (`SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES`); `None` if nobody
    /// says so.
    pub peak_bytes: Option<u64>,
}

impl PortDelta {
    /// What has been counted from one reading to the next.
    pub fn between(before: &PortCounters, after: &PortCounters) -> Self {
        let sum = |of: &PortCounters| {
            let PortCounters { queue_dropped, group_dropped, .. } = of;
            queue_dropped.iter().chain(group_dropped).sum::<u64>()
        };
        let mut queue_packets = [0; 8];
        for (queue, packets) in queue_packets.iter_mut().enumerate() {
            *packets = after.queue_packets[queue].saturating_sub(before.queue_packets[queue]);
        }
        let frames = |of: fn(&PauseCounters) -> &[u64; 8]| {
            let sum = |counters| of(counters).iter().sum::<u64>();
            sum(&after.pause).saturating_sub(sum(&before.pause))
        };
        let (rx_pause, tx_pause) = (frames(|of| &of.received), frames(|of| &of.sent));
        let paused_us = longest_us(&before.pause, &after.pause);
        let dropped = sum(after).saturating_sub(sum(before));
        let received = |of: &PortCounters| of.group_packets.iter().sum::<u64>();
        let rx_packets = Some(received(after).saturating_sub(received(before)));
        let groups = core::array::from_fn(|group| {
            let sent = |of: &PortCounters| of.pause.sent[group];
            let pauses = sent(after).saturating_sub(sent(before));
            GroupDelta { pauses, peak_bytes: Some(after.group_peak_bytes[group]) }
        });
        let pool = PoolSample::default();
        Self { rx_pause, tx_pause, paused_us, dropped, queue_packets, rx_packets, groups, pool }
    }
}

/// What the NIC of a host has counted in an interval; `None` is what nobody counts. Names in brackets are mlx5's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostDelta {
    /// Pause frames that it received: the network stopped it (`rx_prioN_pause`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_pause: Option<u64>,
    /// Pause frames that it sent: it stopped the network (`tx_prioN_pause`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_pause: Option<u64>,
    /// For how long it was stopped, of the priority that was longest (`rx_prioN_pause_duration`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_us: Option<u64>,
    /// For how long it stopped the network, likewise (`tx_prioN_pause_duration`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pausing_us: Option<u64>,
    /// Packets that it dropped, for want of buffers or because they made no sense (`out_of_buffer`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Packets that it sent again, and reasons to (`packet_seq_err`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmitted: Option<u64>,
    /// Wrong check sums and symbols of its link, and times that it went down (`rx_crc_errors_phy`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_errors: Option<u64>,
}

impl HostDelta {
    /// What has been counted from one reading to the next.
    pub fn between(before: &PauseCounters, after: &PauseCounters) -> Self {
        let sum = |of: &[u64; 8]| of.iter().sum::<u64>();
        Self {
            rx_pause: Some(sum(&after.received).saturating_sub(sum(&before.received))),
            tx_pause: Some(sum(&after.sent).saturating_sub(sum(&before.sent))),
            paused_us: Some(longest_us(before, after)),
            ..Self::default()
        }
    }

    /// This and what another port of the host has counted meanwhile.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        Self {
            rx_pause: sum(self.rx_pause, other.rx_pause),
            tx_pause: sum(self.tx_pause, other.tx_pause),
            paused_us: self.paused_us.max(other.paused_us),
            pausing_us: self.pausing_us.max(other.pausing_us),
            dropped: sum(self.dropped, other.dropped),
            retransmitted: sum(self.retransmitted, other.retransmitted),
            link_errors: sum(self.link_errors, other.link_errors),
        }
    }
}

/// How long a port was stopped from one reading to the next, of the priority that was longest.
fn longest_us(before: &PauseCounters, after: &PauseCounters) -> u64 {
    let paused = after.paused_ps.iter().zip(before.paused_ps);
    let longest = paused.map(|(after, before)| after.saturating_sub(before)).max();
    longest.unwrap_or(0) / 1_000_000
}

/// A port of a switch, what it leads to, and what it has counted.
pub type OfPort = ((u32, Node), PortDelta);

/// Counters of `ethtool -S` and of `counters` that tell of a bad link, whatever driver has them.
const LINK_ERRORS: [&str; 9] = [
    "rx_crc_errors_phy",
    "rx_symbol_err_phy",
    "rx_pcs_symbol_err_phy",
    "link_down_events_phy",
    "rx_crc_errors",
    "rx_fcs_errors",
    "symbol_error",
    "link_downed",
    "port_rcv_errors",
];

/// What some ports say at a time, since they began to count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    ports: BTreeMap<PortName, (PortSample, Option<u64>)>,
    /// By switch.
    pools: BTreeMap<String, PoolSample>,
}

impl Reading {
    /// Of the ports that `is_wanted`.
    pub fn of(raw: &Raw, is_wanted: impl Fn(&PortName) -> bool) -> Self {
        let Sample { ports: mut samples, pools } = raw.sample();
        let wanted = raw.ports().iter().filter(|(name, _)| is_wanted(name));
        let ports = wanted.filter_map(|(name, port)| {
            let of_link = port.counters().filter(|(origin, counter, _)| {
                matches!(origin, Origin::Ethtool | Origin::Counters)
                    && LINK_ERRORS.contains(counter)
            });
            let errors = of_link.map(|(_, _, value)| value).reduce(u64::saturating_add);
            Some((name.clone(), (samples.remove(name)?, errors)))
        });
        Self { ports: ports.collect(), pools }
    }

    /// Whether nobody counts anything.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// What all of its ports together have counted since another reading, as those of one host.
    pub fn host_since(&self, before: &Self) -> HostDelta {
        let both =
            self.ports.iter().filter_map(|(name, after)| Some((before.ports.get(name)?, after)));
        both.fold(HostDelta::default(), |sum, (before, after)| sum.and(host_delta(before, after)))
    }

    /// What each port has counted since another reading, and where it is and leads to.
    pub fn ports_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (&'a PortName, Option<&'a str>, PortDelta)> {
        self.ports.iter().filter_map(|(name, (after, _))| {
            let (before, _) = before.ports.get(name)?;
            let peer = after.peer.as_ref().map(|(peer, _)| peer.as_str());
            let pool = self.pools.get(&name.device).copied().unwrap_or_default();
            Some((name, peer, PortDelta { pool, ..port_delta(before, after) }))
        })
    }
}

/// `None` if nobody counts it, or if it has begun anew.
fn rise(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

type OfQueue = fn(&QueueSample) -> Option<u64>;

/// What the priorities have counted, each by itself.
fn rises<'a>(
    before: &'a PortSample,
    after: &'a PortSample,
    of: OfQueue,
) -> impl Iterator<Item = u64> + 'a {
    let both = before.queues.iter().zip(&after.queues);
    both.filter_map(move |(before, after)| rise(of(before), of(after)))
}

fn host_delta(before: &(PortSample, Option<u64>), after: &(PortSample, Option<u64>)) -> HostDelta {
    let ((before, errors_before), (after, errors_after)) = (before, after);
    let sum = |of: OfQueue| rises(before, after, of).reduce(u64::saturating_add);
    HostDelta {
        rx_pause: sum(|queue| queue.pauses_received),
        tx_pause: sum(|queue| queue.pauses_sent),
        paused_us: rises(before, after, |queue| queue.paused_us).max(),
        pausing_us: rises(before, after, |queue| queue.pausing_us).max(),
        dropped: rise(before.all_dropped(), after.all_dropped()),
        retransmitted: rise(before.retransmissions, after.retransmissions),
        link_errors: rise(*errors_before, *errors_after),
    }
}

fn port_delta(before: &PortSample, after: &PortSample) -> PortDelta {
    let sum = |of: OfQueue| rises(before, after, of).fold(0, u64::saturating_add);
    let mut queue_packets = [0; 8];
    for (queue, packets) in queue_packets.iter_mut().enumerate() {
        let of = |sample: &PortSample| sample.queues[queue].sent_packets;
        *packets = rise(of(before), of(after)).unwrap_or(0);
    }
    PortDelta {
        rx_pause: sum(|queue| queue.pauses_received),
        tx_pause: sum(|queue| queue.pauses_sent),
        paused_us: rises(before, after, |queue| queue.paused_us).max().unwrap_or(0),
        dropped: rise(before.all_dropped(), after.all_dropped()).unwrap_or(0),
        queue_packets,
        // The readers know no counter of packets that came in.
        rx_packets: None,
        groups: core::array::from_fn(|group| {
            let (before, after) = (&before.queues[group], &after.queues[group]);
            let pauses = rise(before.pauses_sent, after.pauses_sent).unwrap_or(0);
            GroupDelta { pauses, peak_bytes: after.group_peak_bytes }
        }),
        pool: PoolSample::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{ethtool, sonic};

    fn of_host(text: &str) -> Reading {
        let mut raw = Raw::default();
        ethtool::read(&mut raw, &PortName::new("eth0", ""), text).unwrap();
        ethtool::read(&mut raw, &PortName::new("eth1", ""), "rx_prio3_pause: 99").unwrap();
        Reading::of(&raw, |name| name.device == "eth0")
    }

    #[test]
    fn what_a_nic_has_counted_is_the_rise_of_its_counters_and_no_other_s() {
        let before = of_host(
            "rx_prio3_pause: 5\ntx_prio3_pause: 7\ntx_prio3_pause_duration: 100\ntx_prio4_pause_duration: 10\n\
             rx_crc_errors_phy: 3\nlink_down_events_phy: 1\nrx_discards_phy: 50",
        );
        let after = of_host(
            "rx_prio3_pause: 5\ntx_prio3_pause: 17\ntx_prio3_pause_duration: 160\ntx_prio4_pause_duration: 90\n\
             rx_crc_errors_phy: 9\nlink_down_events_phy: 1\nrx_discards_phy: 2",
        );
        let expected = HostDelta {
            rx_pause: Some(0),
            tx_pause: Some(10),
            // The priority that was longest, and not both.
            pausing_us: Some(80),
            link_errors: Some(6),
            // It has fallen, and begun anew.
            dropped: None,
            ..HostDelta::default()
        };
        assert_eq!(after.host_since(&before), expected);
        assert_eq!(after.host_since(&Reading::default()), HostDelta::default());
        let text = serde_json::to_string(&expected).unwrap();
        assert_eq!(serde_json::from_str::<HostDelta>(&text).unwrap(), expected);
        assert!(!text.contains("dropped"), "{text}");
    }

    #[test]
    fn what_a_port_of_a_switch_has_counted_is_the_rise_of_its_counters() {
        let read = |pauses: u64| {
            let text = format!(
                "  Port Rx    PFC0    PFC3\n---------  ------  ------\nEthernet0       1   {pauses}\n"
            );
            let mut raw = Raw::default();
            sonic::read_text(&mut raw, "tor0", &text).unwrap();
            Reading::of(&raw, |_| true)
        };
        let (before, after) = (read(10), read(40));
        let all: Vec<_> = after.ports_since(&before).collect();
        let [(name, None, delta)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((name.device.as_str(), name.port.as_str()), ("tor0", "Ethernet0"));
        assert_eq!(*delta, PortDelta { rx_pause: 30, ..PortDelta::default() });
    }
}
