//! Counters as they are called where they are counted.

use std::collections::BTreeMap;

use super::port::{PRIORITIES, PortName, Role};
use super::sample::{PortSample, QueueSample, Sample};
use crate::limits::RAW_COUNTERS_MAX;

/// Who keeps a counter, which says what its name means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// `/sys/class/infiniband/DEVICE/ports/N/counters`.
    Counters,
    /// `hw_counters` beside it.
    HwCounters,
    /// Optional counters by `rdma statistic show`.
    Optional,
    /// Queue pairs by `rdma statistic qp show`; names begin with the type, as in `RC:rx_write_requests`.
    QueuePairs,
    /// `ethtool -S`.
    Ethtool,
    /// `dcb -s pfc show`.
    Dcb,
    /// The switch abstraction interface, as SONiC keeps it; a queue or group stands behind a colon.
    Sai,
    /// A Ferroce NIC: names of `hw_counters` where Linux has one.
    Soft,
}

impl Origin {
    const NAMES: [(Self, &'static str); 8] = [
        (Self::Counters, "counters"),
        (Self::HwCounters, "hw_counters"),
        (Self::Optional, "optional"),
        (Self::QueuePairs, "qp"),
        (Self::Ethtool, "ethtool"),
        (Self::Dcb, "dcb"),
        (Self::Sai, "sai"),
        (Self::Soft, "soft"),
    ];

    /// As in recordings.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(origin, _)| *origin == self).map_or("", |(_, name)| name)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, text)| *text == name).map(|(origin, _)| *origin)
    }
}

/// The counters of a port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RawPort {
    /// What it is of.
    pub role: Role,
    /// The network interface of an RDMA port; empty if it has none.
    pub netdev: String,
    /// What it leads to, and what that is, if known.
    pub peer: Option<(String, Role)>,
    /// State, rate and the like, under the labels of `rdma_port_info`.
    pub info: BTreeMap<String, String>,
    counters: BTreeMap<(Origin, String), u64>,
}

impl RawPort {
    /// The value of a counter.
    pub fn get(&self, origin: Origin, name: &str) -> Option<u64> {
        self.counters.get(&(origin, name.to_owned())).copied()
    }

    /// Every counter.
    pub fn counters(&self) -> impl Iterator<Item = (Origin, &str, u64)> {
        self.counters.iter().map(|((origin, name), value)| (*origin, name.as_str(), *value))
    }
}

/// Everything that was read at one time. Readers add to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Raw {
    ports: BTreeMap<PortName, RawPort>,
    count: usize,
    /// What could not be read or kept: a file, and why, a line each.
    pub notes: Vec<String>,
}

impl Raw {
    /// The ports.
    pub fn ports(&self) -> &BTreeMap<PortName, RawPort> {
        &self.ports
    }

    /// A port, which is made if it is not there.
    pub fn port(&mut self, name: &PortName) -> &mut RawPort {
        self.ports.entry(name.clone()).or_default()
    }

    /// Adds to a counter; one that is there already is a part of the same sum (programs that share a device).
    pub fn add(&mut self, port: &PortName, origin: Origin, name: &str, value: u64) {
        if self.count >= RAW_COUNTERS_MAX {
            if self.count == RAW_COUNTERS_MAX {
                self.notes.push(format!(
                    "there are more than {RAW_COUNTERS_MAX} counters: the rest is left out"
                ));
                self.count += 1;
            }
            return;
        }
        let counters = &mut self.ports.entry(port.clone()).or_default().counters;
        let counter = counters.entry((origin, name.to_owned())).or_insert_with(|| {
            self.count += 1;
            0
        });
        *counter = counter.saturating_add(value);
    }

    /// Interfaces that `ethtool` or `dcb` told about become part of the RDMA port that is on them.
    pub fn join_interfaces(&mut self) {
        let owners: Vec<(PortName, String)> = self
            .ports
            .iter()
            .filter(|(_, port)| !port.netdev.is_empty())
            .map(|(name, port)| (name.clone(), port.netdev.clone()))
            .collect();
        for (owner, netdev) in owners {
            let interface =
                PortName { host: owner.host.clone(), device: netdev, port: String::new() };
            if let Some(from) = self.ports.remove(&interface)
                && let Some(port) = self.ports.get_mut(&owner)
            {
                port.counters.extend(from.counters);
                port.peer = port.peer.take().or(from.peer);
            }
        }
        // One without an RDMA device is its own.
        for (name, port) in &mut self.ports {
            if port.role == Role::Nic && port.netdev.is_empty() && name.port.is_empty() {
                port.netdev.clone_from(&name.device);
            }
        }
    }

    /// What detectors understand of it.
    pub fn sample(&self) -> Sample {
        let ports = self.ports.iter().map(|(name, port)| (name.clone(), sampled(port)));
        Sample { ports: ports.collect(), ..Sample::default() }
    }
}

/// What a counter means, for one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pfc {
    Frames,
    Duration,
    Transitions,
}

/// PFC by `ethtool -S`, of any driver that names it: `#` is the priority.
const ETHTOOL_PFC: [(&str, bool, Pfc); 15] = [
    // mlx5
    ("rx_prio#_pause", true, Pfc::Frames),
    ("tx_prio#_pause", false, Pfc::Frames),
    ("rx_prio#_pause_duration", true, Pfc::Duration),
    ("tx_prio#_pause_duration", false, Pfc::Duration),
    ("rx_prio#_pause_transition", true, Pfc::Transitions),
    ("tx_prio#_pause_transition", false, Pfc::Transitions),
    // mlx4
    ("rx_pause_prio_#", true, Pfc::Frames),
    ("tx_pause_prio_#", false, Pfc::Frames),
    ("rx_pause_duration_prio_#", true, Pfc::Duration),
    // bnxt_en
    ("rx_pfc_ena_frames_pri#", true, Pfc::Frames),
    ("tx_pfc_ena_frames_pri#", false, Pfc::Frames),
    // ice; i40e has `port.` before and no ending
    ("rx_priority_#_xoff", true, Pfc::Frames),
    ("tx_priority_#_xoff", false, Pfc::Frames),
    // cxgb4
    ("rx_ppp#_frames", true, Pfc::Frames),
    ("tx_ppp#_frames", false, Pfc::Frames),
];

/// The priority of a counter that a pattern with `#` names.
pub(super) fn priority_in(pattern: &str, name: &str) -> Option<usize> {
    let (before, after) = pattern.split_once('#')?;
    let digit = name.strip_prefix(before)?.strip_suffix(after)?;
    match digit.as_bytes() {
        [digit @ b'0'..=b'7'] => Some(usize::from(digit - b'0')),
        _ => None,
    }
}

/// Whether it is received, what it is, and its priority.
pub(super) fn ethtool_pfc(name: &str) -> Option<(bool, Pfc, usize)> {
    let name = name.strip_prefix("port.").unwrap_or(name);
    let name = name.strip_suffix(".nic").unwrap_or(name);
    ETHTOOL_PFC
        .iter()
        .find_map(|&(pattern, received, what)| Some((received, what, priority_in(pattern, name)?)))
}

/// The queue or group behind the colon of a SAI counter.
pub(super) fn sai_index(name: &str) -> Option<(&str, usize)> {
    let (name, index) = name.rsplit_once(':')?;
    Some((name, index.parse().ok().filter(|&index: &usize| index < PRIORITIES)?))
}

fn plus(sum: &mut Option<u64>, value: u64) {
    *sum = Some(sum.unwrap_or(0).saturating_add(value));
}

fn sampled(raw: &RawPort) -> PortSample {
    let mut port = PortSample { role: raw.role, peer: raw.peer.clone(), ..PortSample::default() };
    let dcb_too = raw
        .counters()
        .any(|(origin, name, _)| origin == Origin::Ethtool && ethtool_pfc(name).is_some());
    for (origin, name, value) in raw.counters() {
        match origin {
            Origin::HwCounters | Origin::Soft => hardware(&mut port, name, value),
            Origin::Ethtool => interface(&mut port, name, value),
            Origin::Dcb if !dcb_too => {
                for (pattern, received) in [("indications:#", true), ("requests:#", false)] {
                    if let Some(priority) = priority_in(pattern, name) {
                        pfc(&mut port.queues[priority], received, Pfc::Frames, value);
                    }
                }
            }
            Origin::Sai => switch(&mut port, name, value),
            Origin::Counters => match name {
                "port_xmit_data" => plus(&mut port.sent_bytes, value.saturating_mul(4)),
                "port_rcv_data" => plus(&mut port.received_bytes, value.saturating_mul(4)),
                "port_xmit_discards" => plus(&mut port.dropped, value),
                _ => {}
            },
            _ => {}
        }
    }
    port
}

fn pfc(queue: &mut QueueSample, received: bool, what: Pfc, value: u64) {
    let counter = match (received, what) {
        (true, Pfc::Frames) => &mut queue.pauses_received,
        (false, Pfc::Frames) => &mut queue.pauses_sent,
        (true, Pfc::Duration) => &mut queue.paused_us,
        (false, Pfc::Duration) => &mut queue.pausing_us,
        (true, Pfc::Transitions) => &mut queue.transitions,
        (false, Pfc::Transitions) => return,
    };
    plus(counter, value);
}

fn hardware(port: &mut PortSample, name: &str, value: u64) {
    let counter = match name {
        "np_ecn_marked_roce_packets" => &mut port.marked,
        "np_cnp_sent" => &mut port.cnps_sent,
        "rp_cnp_handled" => &mut port.cnps_handled,
        "retransmitted_pkts"
        | "local_ack_timeout_err"
        | "packet_seq_err"
        | "rnr_nak_retry_err"
        | "roce_adp_retrans" => &mut port.retransmissions,
        "out_of_buffer" | "rx_icrc_encapsulated" => &mut port.dropped,
        "sent_bytes" => &mut port.sent_bytes,
        "rcvd_bytes" => &mut port.received_bytes,
        // Why a NIC of Ferroce let a packet go.
        name if name.starts_with("drop_") => &mut port.dropped,
        _ => return,
    };
    plus(counter, value);
}

fn interface(port: &mut PortSample, name: &str, value: u64) {
    if let Some((received, what, priority)) = ethtool_pfc(name) {
        return pfc(&mut port.queues[priority], received, what, value);
    }
    let queues = &mut port.queues;
    for pattern in ["rx_prio#_discards", "rx_prio#_buf_discard"] {
        if let Some(priority) = priority_in(pattern, name) {
            return plus(&mut queues[priority].dropped, value);
        }
    }
    if let Some(priority) = priority_in("rx_prio#_bytes", name) {
        return plus(&mut queues[priority].received_bytes, value);
    }
    if let Some(priority) = priority_in("tx_prio#_bytes", name) {
        return plus(&mut queues[priority].sent_bytes, value);
    }
    if let Some(priority) = priority_in("tx_prio#_packets", name) {
        return plus(&mut queues[priority].sent_packets, value);
    }
    match name {
        "rx_discards_phy" | "rx_out_of_buffer" => plus(&mut port.dropped, value),
        "tx_pause_storm_error_events" => plus(&mut port.storm_events, value),
        _ => {}
    }
}

fn switch(port: &mut PortSample, name: &str, value: u64) {
    if let Some((name, index)) = sai_index(name) {
        let queue = &mut port.queues[index];
        let counter = match name {
            "SAI_QUEUE_STAT_PACKETS" => &mut queue.sent_packets,
            "SAI_QUEUE_STAT_BYTES" => &mut queue.sent_bytes,
            "SAI_QUEUE_STAT_DROPPED_PACKETS"
            | "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS" => &mut queue.dropped,
            "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS" => &mut queue.marked,
            "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES" => {
                queue.group_peak_bytes = queue.group_peak_bytes.max(Some(value));
                return;
            }
            "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES" => {
                queue.waiting_bytes = Some(value);
                return;
            }
            "SAI_QUEUE_ATTR_PAUSE_STATUS" => {
                queue.paused = Some(value != 0);
                return;
            }
            "SAI_INGRESS_PRIORITY_GROUP_STAT_BYTES" => &mut queue.received_bytes,
            _ => return,
        };
        return plus(counter, value);
    }
    for (pattern, received, what) in [
        ("SAI_PORT_STAT_PFC_#_RX_PKTS", true, Pfc::Frames),
        ("SAI_PORT_STAT_PFC_#_TX_PKTS", false, Pfc::Frames),
        ("SAI_PORT_STAT_PFC_#_RX_PAUSE_DURATION_US", true, Pfc::Duration),
        ("SAI_PORT_STAT_PFC_#_TX_PAUSE_DURATION_US", false, Pfc::Duration),
        ("SAI_PORT_STAT_PFC_#_ON2OFF_RX_PKTS", true, Pfc::Transitions),
    ] {
        if let Some(priority) = priority_in(pattern, name) {
            return pfc(&mut port.queues[priority], received, what, value);
        }
    }
    match name {
        "SAI_PORT_STAT_IF_IN_DISCARDS" | "SAI_PORT_STAT_IF_OUT_DISCARDS" => {
            plus(&mut port.dropped, value);
        }
        "SAI_PORT_STAT_IF_IN_OCTETS" => plus(&mut port.received_bytes, value),
        "SAI_PORT_STAT_IF_OUT_OCTETS" => plus(&mut port.sent_bytes, value),
        "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED" => plus(&mut port.storm_events, value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_of_every_driver_are_understood() {
        for (name, means) in [
            ("rx_prio3_pause", Some((true, Pfc::Frames, 3))),
            ("tx_prio0_pause_duration", Some((false, Pfc::Duration, 0))),
            ("rx_prio7_pause_transition", Some((true, Pfc::Transitions, 7))),
            ("rx_pfc_ena_frames_pri4", Some((true, Pfc::Frames, 4))),
            ("tx_priority_3_xoff.nic", Some((false, Pfc::Frames, 3))),
            ("port.rx_priority_3_xoff", Some((true, Pfc::Frames, 3))),
            ("tx_ppp5_frames", Some((false, Pfc::Frames, 5))),
            ("rx_prio8_pause", None),
            ("rx_prio3_bytes", None),
            ("rx_prio_pause", None),
        ] {
            assert_eq!(ethtool_pfc(name), means, "{name}");
        }
    }

    #[test]
    fn an_interface_joins_the_device_that_is_on_it() {
        let mut raw = Raw::default();
        let device = PortName::new("mlx5_0", "1");
        raw.port(&device).netdev = "eth0".into();
        raw.add(&PortName::new("eth0", ""), Origin::Ethtool, "rx_prio3_pause", 5);
        raw.add(&PortName::new("eth1", ""), Origin::Ethtool, "rx_prio3_pause", 6);
        raw.join_interfaces();
        let names: Vec<String> = raw.ports().keys().map(ToString::to_string).collect();
        assert_eq!(names, ["eth1", "mlx5_0/1"]);
        assert_eq!(raw.sample().ports[&device].queues[3].pauses_received, Some(5));
    }
}
