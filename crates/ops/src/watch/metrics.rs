//! Counters under the names that dashboards ask for.
//!
//! | counted as | exposed as | whose names |
//! |---|---|---|
//! | `ports/1/hw_counters/np_cnp_sent` | `rdma_np_cnp_sent_total{device,port}` and `node_infiniband_np_cnp_packets_sent_total` | `rdma_exporter`, `node_exporter` |
//! | `rx_prio3_pause`, whatever a driver calls it | `rdma_roce_pfc_pause_frames_total{device,port,netdev,direction="rx",priority="3"}` | `rdma_exporter` |
//! | `SAI_QUEUE_STAT_PACKETS:3` | `sai_queue_stat_packets_total{device,port,queue="3"}` | ours: SAI's, with labels |
//! | findings of [`Watch`](super::Watch) | `ferroce_watch_finding{kind,who,priority}` | ours |
//!
//! A name that no exporter knows follows the same rule, `rdma_NAME_total`. Names, labels and what they count are those of
//! `rdma_exporter` 0.7.1 and of `node_exporter`; a host gets a label only if several are looked at.

use telemetry::{MetricKind, Metrics};

use super::detect::Finding;
use super::port::{PortName, Role};
use super::raw::{Origin, Pfc, Raw, RawPort, ethtool_pfc, priority_in, sai_index};
use super::sample::Sample;

const RX: &str = "direction=rx: the peer stopped this port, so look at the network behind it. direction=tx: this port \
                  stopped the peer, so look at this device (buffers, PCIe, a slow host).";

/// What the counters of `ethtool -S` are called that have neither priority nor direction.
const PLAIN: [(&str, &str, &str); 9] = [
    (
        "dev_out_of_buffer",
        "rdma_netdev_dev_out_of_buffer_total",
        "Times that a queue of the device lacked receive buffers.",
    ),
    (
        "rx_out_of_buffer",
        "rdma_netdev_rx_out_of_buffer_total",
        "Times that the receive queue had no buffers of the host: the host is slow.",
    ),
    (
        "rx_discards_phy",
        "rdma_netdev_rx_discards_phy_total",
        "Packets dropped at the physical port for want of buffers: this NIC is slow, and did not pause in time.",
    ),
    (
        "outbound_pci_buffer_overflow",
        "rdma_pcie_outbound_buffer_overflow_total",
        "Packets dropped because the buffer towards the host overflowed: look at PCIe.",
    ),
    (
        "rx_corrected_bits_phy",
        "rdma_phy_rx_corrected_bits_total",
        "Bits that error correction mended on the link.",
    ),
    (
        "rx_pcs_symbol_err_phy",
        "rdma_phy_rx_pcs_symbol_err_total",
        "Symbol errors on the link that were not mended.",
    ),
    (
        "rx_bits_phy",
        "rdma_phy_rx_bits_total",
        "Bits that could have come in, to compare errors with.",
    ),
    (
        "rx_crc_errors_phy",
        "rdma_phy_rx_crc_errors_total",
        "Packets dropped because of a wrong check sum: look at cable and optics.",
    ),
    ("link_down_events_phy", "rdma_phy_link_down_events_total", "Times that the link went down."),
];

/// Patterns of `ethtool -S` with one part that becomes a label. The parts are matched in the order given.
const LABELLED: [(&str, &str, &str, &[&str], &str); 11] = [
    (
        "rx_prio#_buf_discard",
        "rdma_netdev_prio_buf_discard_total",
        "priority",
        &[],
        "Packets dropped for want of receive buffers of this host.",
    ),
    (
        "rx_prio#_cong_discard",
        "rdma_netdev_prio_cong_discard_total",
        "priority",
        &[],
        "Packets dropped because of congestion of this host.",
    ),
    (
        "rx_prio#_discards",
        "rdma_netdev_prio_discards_total",
        "priority",
        &[],
        "Packets dropped for want of receive buffers. In a lossless priority there are to be none.",
    ),
    (
        "rx_prio#_marked",
        "rdma_netdev_prio_ecn_marked_total",
        "priority",
        &[],
        "Packets that this NIC marked with ECN because of congestion of this host.",
    ),
    (
        "outbound_pci_stalled_#_events",
        "rdma_pcie_outbound_stalled_seconds_total",
        "op",
        &["rd", "wr"],
        "Seconds in which the PCIe towards the host stood still for more than 30 percent: a cause of pauses sent.",
    ),
    (
        "outbound_pci_stalled_#",
        "rdma_pcie_outbound_stalled_percent",
        "op",
        &["rd", "wr"],
        "Percentage of the last second in which the PCIe towards the host stood still.",
    ),
    (
        "#_pci_signal_integrity",
        "rdma_pcie_signal_integrity_total",
        "direction",
        &["rx", "tx"],
        "Errors of the signal on PCIe.",
    ),
    (
        "#_global_pause",
        "rdma_netdev_global_pause_frames_total",
        "direction",
        &["rx", "tx"],
        "Pause frames of 802.3x, for all priorities.",
    ),
    (
        "#_global_pause_duration",
        "rdma_netdev_global_pause_duration_total",
        "direction",
        &["rx", "tx"],
        "Microseconds of pauses of 802.3x.",
    ),
    (
        "tx_pause_storm_#_events",
        "rdma_netdev_pause_storm_events_total",
        "severity",
        &["warning", "error"],
        "Times that this NIC paused its peer for long. error: its watchdog then stopped the pauses, and packets may have been lost.",
    ),
    (
        "rx_err_lane_#_phy",
        "rdma_phy_rx_err_lane_total",
        "lane",
        &["0", "1", "2", "3", "4", "5", "6", "7"],
        "Errors of one lane before they are mended.",
    ),
];

/// The name of `node_exporter` for a counter of sysfs, without `node_infiniband_` and `_total`.
const NODE: [(&str, &str); 51] = [
    ("excessive_buffer_overrun_errors", "excessive_buffer_overrun_errors"),
    ("link_downed", "link_downed"),
    ("link_error_recovery", "link_error_recovery"),
    ("local_link_integrity_errors", "local_link_integrity_errors"),
    ("multicast_rcv_packets", "multicast_packets_received"),
    ("multicast_xmit_packets", "multicast_packets_transmitted"),
    ("port_rcv_constraint_errors", "port_constraint_errors_received"),
    ("port_xmit_constraint_errors", "port_constraint_errors_transmitted"),
    ("port_rcv_data", "port_data_received_bytes"),
    ("port_xmit_data", "port_data_transmitted_bytes"),
    ("port_rcv_discards", "port_discards_received"),
    ("port_xmit_discards", "port_discards_transmitted"),
    ("port_rcv_errors", "port_errors_received"),
    ("port_rcv_packets", "port_packets_received"),
    ("port_xmit_packets", "port_packets_transmitted"),
    ("port_xmit_wait", "port_transmit_wait"),
    ("unicast_rcv_packets", "unicast_packets_received"),
    ("unicast_xmit_packets", "unicast_packets_transmitted"),
    ("port_rcv_remote_physical_errors", "port_receive_remote_physical_errors"),
    ("port_rcv_switch_relay_errors", "port_receive_switch_relay_errors"),
    ("symbol_error", "symbol_error"),
    ("VL15_dropped", "vl15_dropped"),
    ("duplicate_request", "duplicate_requests_packets"),
    ("implied_nak_seq_err", "implied_nak_seq_errors"),
    ("local_ack_timeout_err", "local_ack_timeout_errors"),
    ("np_cnp_sent", "np_cnp_packets_sent"),
    ("np_ecn_marked_roce_packets", "np_ecn_marked_roce_packets_received"),
    ("out_of_buffer", "out_of_buffer_drops"),
    ("out_of_sequence", "out_of_sequence_packets_received"),
    ("packet_seq_err", "packet_sequence_errors"),
    ("req_cqe_error", "req_cqes_errors"),
    ("req_cqe_flush_error", "req_cqes_flush_errors"),
    ("req_remote_access_errors", "req_remote_access_errors"),
    ("req_remote_invalid_request", "req_remote_invalid_request_errors"),
    ("resp_cqe_error", "resp_cqes_errors"),
    ("resp_cqe_flush_error", "resp_cqes_flush_errors"),
    ("resp_local_length_error", "resp_local_length_errors"),
    ("resp_remote_access_errors", "resp_remote_access_errors"),
    ("rnr_nak_retry_err", "rnr_nak_retry_packets_received"),
    ("roce_adp_retrans", "roce_adp_retransmits"),
    ("roce_adp_retrans_to", "roce_adp_retransmits_timeout"),
    ("roce_slow_restart", "roce_slow_restart_used"),
    ("roce_slow_restart_cnps", "roce_slow_restart_cnps"),
    ("roce_slow_restart_trans", "roce_slow_restart"),
    ("rp_cnp_handled", "rp_cnp_packets_handled"),
    ("rp_cnp_ignored", "rp_cnp_ignored_packets_received"),
    ("rx_atomic_requests", "rx_atomic_requests"),
    ("rx_dct_connect", "rx_dct_connect_requests"),
    ("rx_read_requests", "rx_read_requests"),
    ("rx_write_requests", "rx_write_requests"),
    ("rx_icrc_encapsulated", "rx_icrc_encapsulated_errors"),
];

/// What a counter of an RDMA port means, and which direction it is of.
const MEANINGS: [(&str, &str); 30] = [
    ("port_rcv_data", "Data received, in words of 4 bytes."),
    ("port_xmit_data", "Data sent, in words of 4 bytes."),
    ("port_rcv_packets", "Packets received, faulty ones too."),
    ("port_xmit_packets", "Packets sent, faulty ones too."),
    (
        "port_xmit_wait",
        "Ticks in which there was data to send and none was sent: the network or the peer holds this port up.",
    ),
    (
        "port_xmit_discards",
        "Packets to send that were dropped because the port was down or congested.",
    ),
    ("port_rcv_errors", "Faulty packets received: look at the link."),
    ("symbol_error", "Minor errors of the link."),
    ("link_downed", "Times that the link went down."),
    ("link_error_recovery", "Times that the link recovered from an error."),
    (
        "np_ecn_marked_roce_packets",
        "Packets received with a mark: the path towards this host is congested.",
    ),
    ("np_cnp_sent", "Congestion notifications that this host sent: it asked senders to slow down."),
    (
        "rp_cnp_handled",
        "Congestion notifications received that slowed this host down: its own paths are congested.",
    ),
    (
        "rp_cnp_ignored",
        "Congestion notifications received and ignored: congestion control is off here, and on at the peer.",
    ),
    ("out_of_buffer", "Packets dropped because no receive was posted: the application is slow."),
    (
        "out_of_sequence",
        "Packets received out of order: something before them was lost or overtaken on the way here.",
    ),
    ("packet_seq_err", "NAKs received for a gap: packets from this host were lost."),
    ("rnr_nak_retry_err", "RNR NAKs received: the peer had no receive posted."),
    (
        "local_ack_timeout_err",
        "Times that no acknowledgement came in time: packets from this host, or the answers, were lost.",
    ),
    ("duplicate_request", "Requests received again: an answer of this host was lost or late."),
    (
        "implied_nak_seq_err",
        "Acknowledgements that skip an answer: an answer to this host was lost.",
    ),
    ("roce_adp_retrans", "Adaptive retransmissions by this host."),
    ("roce_adp_retrans_to", "Timeouts of adaptive retransmissions by this host."),
    ("rx_write_requests", "WRITE requests received."),
    ("rx_read_requests", "READ requests received."),
    ("rx_atomic_requests", "Atomic requests received."),
    ("rx_icrc_encapsulated", "Packets received with a wrong ICRC."),
    ("retransmitted_pkts", "Packets that this host sent again."),
    ("cc_rx_cnp_pkts", "Congestion notifications received."),
    ("cc_tx_cnp_pkts", "Congestion notifications sent."),
];

/// Adds every counter of `raw`.
pub fn metrics(raw: &Raw, into: &mut Metrics) {
    for (name, port) in raw.ports() {
        let mut at = At { into, name, port };
        at.info();
        let pfc_by_ethtool = port
            .counters()
            .any(|(origin, name, _)| origin == Origin::Ethtool && ethtool_pfc(name).is_some());
        for (origin, counter, value) in port.counters() {
            match origin {
                Origin::Counters | Origin::HwCounters => at.hardware(counter, value),
                Origin::Soft => at.soft(counter, value),
                Origin::Optional => at.optional(counter, value),
                Origin::QueuePairs => at.queue_pairs(counter, value),
                Origin::Ethtool => at.interface(counter, value),
                Origin::Dcb if !pfc_by_ethtool => at.dcb(counter, value),
                Origin::Dcb => {}
                Origin::Sai => at.sai(counter, value),
            }
        }
    }
}

struct At<'a> {
    into: &'a mut Metrics,
    name: &'a PortName,
    port: &'a RawPort,
}

impl At<'_> {
    fn add(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        labels: &[(&str, &str)],
        value: u64,
    ) {
        let mut all = vec![("device", self.name.device.as_str()), ("port", &self.name.port)];
        if self.name.port.is_empty() {
            all[1].1 = "1";
        }
        if !self.name.host.is_empty() {
            all.push(("host", &self.name.host));
        }
        all.extend(labels);
        self.into.add(name, kind, help, &all, value);
    }

    fn count(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.add(name, MetricKind::Counter, help, labels, value);
    }

    fn info(&mut self) {
        if self.port.role == Role::Switch {
            return;
        }
        let of = |label: &str| self.port.info.get(label).map_or("", String::as_str);
        let labels = [
            ("netdev", self.port.netdev.as_str()),
            ("link_layer", of("link_layer")),
            ("state", of("state")),
            ("phys_state", of("phys_state")),
            ("link_width", of("link_width")),
            ("link_speed", of("link_speed")),
            ("pci_addr", of("pci_addr")),
            ("is_vf", self.port.info.get("is_vf").map_or("false", String::as_str)),
            ("pf_device", of("pf_device")),
        ];
        let help = "A port of an RDMA device; its labels say what it is, its value is always 1.";
        self.add("rdma_port_info", MetricKind::Gauge, help, &labels, 1);
    }

    fn hardware(&mut self, counter: &str, value: u64) {
        if counter == "lifespan" {
            let help = "Two reads that are closer together than this may give the same values.";
            return self.add("rdma_lifespan_milliseconds", MetricKind::Gauge, help, &[], value);
        }
        let help = meaning(counter);
        let name = counter.to_lowercase();
        self.count(&format!("rdma_{name}_total"), help, &[], value);
        // Older kernels had `port_` before these four, and the dashboard still asks for it.
        if name.starts_with("unicast_") || name.starts_with("multicast_") {
            self.count(&format!("rdma_port_{name}_total"), help, &[], value);
        }
        if let Some((_, node)) = NODE.iter().find(|(sysfs, _)| *sysfs == counter) {
            // Words of 4 bytes there, bytes here.
            let (value, help) = match counter {
                "port_rcv_data" => (value.saturating_mul(4), "Data received, in bytes."),
                "port_xmit_data" => (value.saturating_mul(4), "Data sent, in bytes."),
                _ => (value, help),
            };
            self.count(&format!("node_infiniband_{node}_total"), help, &[], value);
        }
    }

    /// Under Linux' names already; what a port of hardware would count besides, from what there is.
    fn soft(&mut self, counter: &str, value: u64) {
        self.hardware(counter, value);
        match counter {
            "sent_bytes" => self.hardware("port_xmit_data", value / 4),
            "rcvd_bytes" => self.hardware("port_rcv_data", value / 4),
            "sent_pkts" => self.hardware("port_xmit_packets", value),
            "rcvd_pkts" => self.hardware("port_rcv_packets", value),
            _ => {}
        }
    }

    fn optional(&mut self, counter: &str, value: u64) {
        match counter.strip_prefix("rdma_") {
            Some(rest) => self.count(
                &format!("rdma_optional_{rest}_total"),
                "Of all RDMA traffic of the link, if the counter is enabled.",
                &[],
                value,
            ),
            None => self.count(&format!("rdma_{counter}_total"), meaning(counter), &[], value),
        }
        let help = "Whether an optional counter is enabled.";
        self.add(
            "rdma_optional_counter_enabled",
            MetricKind::Gauge,
            help,
            &[("counter", counter)],
            1,
        );
    }

    fn queue_pairs(&mut self, counter: &str, value: u64) {
        let Some((kind, counter)) = counter.split_once(':') else { return };
        let name = format!("rdma_qp_{}_total", counter.strip_prefix("rdma_").unwrap_or(counter));
        let help = "Of queue pairs of a type that live now, if statistics are bound to types. The counters of the port include it.";
        self.count(&name, help, &[("qp_type", kind)], value);
    }

    fn pfc(&mut self, received: bool, what: Pfc, priority: usize, value: u64) {
        let (name, help) = match what {
            Pfc::Frames => ("frames", "PFC pause frames."),
            Pfc::Duration => {
                ("duration", "Microseconds of PFC pauses; rate() / 1e6 is the part of the time.")
            }
            Pfc::Transitions => {
                ("transitions", "Times that PFC took a priority from sending to paused.")
            }
        };
        let (name, help) = (format!("rdma_roce_pfc_pause_{name}_total"), format!("{help} {RX}"));
        let direction = if received { "rx" } else { "tx" };
        let priority = priority.to_string();
        let netdev = self.port.netdev.as_str();
        let labels =
            [("netdev", netdev), ("direction", direction), ("priority", priority.as_str())];
        self.count(&name, &help, &labels, value);
    }

    fn dcb(&mut self, counter: &str, value: u64) {
        for (pattern, received) in [("indications:#", true), ("requests:#", false)] {
            if let Some(priority) = priority_in(pattern, counter) {
                self.pfc(received, Pfc::Frames, priority, value);
            }
        }
    }

    fn interface(&mut self, counter: &str, value: u64) {
        if let Some((received, what, priority)) = ethtool_pfc(counter) {
            return self.pfc(received, what, priority, value);
        }
        let netdev = ("netdev", self.port.netdev.as_str());
        if let Some((_, name, help)) = PLAIN.iter().find(|(ethtool, ..)| *ethtool == counter) {
            return self.count(name, help, &[netdev], value);
        }
        if counter == "rx_global_pause_transition" {
            let help = "Times that pauses of 802.3x took this port from sending to paused.";
            return self.count(
                "rdma_netdev_global_pause_transitions_total",
                help,
                &[netdev],
                value,
            );
        }
        for (pattern, name, label, values, help) in LABELLED {
            let Some(part) = part_in(pattern, counter) else { continue };
            let known = if label == "priority" {
                priority_in(pattern, counter).is_some()
            } else {
                values.contains(&part)
            };
            if known {
                let kind =
                    if name.ends_with("_total") { MetricKind::Counter } else { MetricKind::Gauge };
                let help =
                    if label == "direction" { format!("{help} {RX}") } else { help.to_owned() };
                return self.add(name, kind, &help, &[netdev, (label, part)], value);
            }
        }
        // {rx,tx}_vport_rdma_{unicast,multicast}_{bytes,packets}
        let vport = counter
            .split_once("_vport_rdma_")
            .and_then(|(direction, rest)| Some((direction, rest.split_once('_')?)));
        if let Some((
            direction @ ("rx" | "tx"),
            (traffic @ ("unicast" | "multicast"), unit @ ("bytes" | "packets")),
        )) = vport
        {
            let help = "RDMA traffic of this function. direction=rx: received. direction=tx: sent.";
            let labels = [netdev, ("direction", direction), ("traffic", traffic)];
            self.count(&format!("rdma_netdev_vport_rdma_{unit}_total"), help, &labels, value);
        }
    }

    fn sai(&mut self, counter: &str, value: u64) {
        for (pattern, received, what) in [
            ("SAI_PORT_STAT_PFC_#_RX_PKTS", true, Pfc::Frames),
            ("SAI_PORT_STAT_PFC_#_TX_PKTS", false, Pfc::Frames),
            ("SAI_PORT_STAT_PFC_#_RX_PAUSE_DURATION_US", true, Pfc::Duration),
            ("SAI_PORT_STAT_PFC_#_TX_PAUSE_DURATION_US", false, Pfc::Duration),
            ("SAI_PORT_STAT_PFC_#_ON2OFF_RX_PKTS", true, Pfc::Transitions),
        ] {
            if let Some(priority) = priority_in(pattern, counter) {
                return self.pfc(received, what, priority, value);
            }
        }
        let (name, index) = match sai_index(counter) {
            Some((name, index)) => (name, Some(index.to_string())),
            None => (counter, None),
        };
        let label = if name.contains("PRIORITY_GROUP") { "pg" } else { "queue" };
        let labels: Vec<(&str, &str)> = index.iter().map(|index| (label, index.as_str())).collect();
        // What is a length, a peak or a state goes down as well.
        let gauge = ["WATERMARK", "OCCUPANCY", "_ATTR_", "_LEFT", "_TIME"]
            .iter()
            .any(|part| name.contains(part));
        let kind = if gauge { MetricKind::Gauge } else { MetricKind::Counter };
        let prefix = if name.starts_with("SAI_") { "" } else { "sonic_" };
        let suffix = if gauge { "" } else { "_total" };
        let help = "As SAI and SONiC count it, for a port, queue or priority group of a switch. RX and IN: what the \
                    other end sent; TX, OUT and queues: what this port sent, or had to send.";
        self.add(&format!("{prefix}{}{suffix}", name.to_lowercase()), kind, help, &labels, value);
    }
}

fn meaning(counter: &str) -> &str {
    let known = MEANINGS.iter().find(|(name, _)| *name == counter).map(|(_, help)| *help);
    known.unwrap_or("A counter of an RDMA port, under the name that its driver gives it.")
}

fn part_in<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    let (before, after) = pattern.split_once('#')?;
    name.strip_prefix(before)?.strip_suffix(after)
}

/// Adds a sample that comes without raw counters, and what is found wrong.
pub fn sample_metrics<'a>(
    sample: &Sample,
    findings: impl Iterator<Item = &'a Finding>,
    into: &mut Metrics,
) {
    let help = "Ports that the detectors of ferroce look at.";
    into.add("ferroce_watch_ports", MetricKind::Gauge, help, &[], sample.ports.len() as u64);
    for finding in findings {
        let priority = finding.priority_list();
        let port = finding.port.to_string();
        let labels = [
            ("kind", finding.kind.name()),
            ("who", &finding.who),
            ("priority", &priority),
            ("at", &port),
        ];
        let help = "Something that is wrong now: 1 as long as it is.";
        into.add("ferroce_watch_finding", MetricKind::Gauge, help, &labels, 1);
    }
}

#[cfg(test)]
mod tests {
    use telemetry::MetricValue;

    use super::*;
    use crate::watch::PortName;

    fn value(metrics: &Metrics, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        match metrics.get(name, labels)? {
            MetricValue::Integer(value) => Some(value),
            MetricValue::Float(_) => None,
        }
    }

    #[test]
    fn counters_get_the_names_that_dashboards_ask_for() {
        let mut raw = Raw::default();
        let port = PortName::new("mlx5_0", "1");
        raw.port(&port).netdev = "eth0".into();
        for (origin, counter) in [
            (Origin::Counters, "port_rcv_data"),
            (Origin::HwCounters, "np_cnp_sent"),
            (Origin::HwCounters, "a_vendors_own"),
            (Origin::Ethtool, "rx_prio3_pause"),
            (Origin::Ethtool, "tx_prio3_pause_duration"),
            (Origin::Ethtool, "tx_pause_storm_error_events"),
            (Origin::Ethtool, "rx_vport_rdma_unicast_bytes"),
            (Origin::Ethtool, "outbound_pci_stalled_rd_events"),
            (Origin::Dcb, "indications:3"),
            (Origin::QueuePairs, "RC:rdma_rx_bytes"),
            (Origin::Optional, "rdma_tx_bytes"),
            (Origin::Optional, "cc_rx_ce_pkts"),
        ] {
            raw.add(&port, origin, counter, 7);
        }
        let switch = PortName::new("tor0", "Ethernet4");
        raw.port(&switch).role = Role::Switch;
        raw.add(&switch, Origin::Sai, "SAI_PORT_STAT_PFC_3_RX_PKTS", 7);
        raw.add(&switch, Origin::Sai, "SAI_QUEUE_STAT_PACKETS:3", 7);
        raw.add(
            &switch,
            Origin::Sai,
            "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES:3",
            7,
        );
        let mut all = Metrics::new();
        metrics(&raw, &mut all);
        let nic = [("device", "mlx5_0"), ("port", "1")];
        let with = |more: &[(&'static str, &'static str)]| [&nic[..], more].concat();
        let at_switch = |more: &[(&'static str, &'static str)]| {
            [&[("device", "tor0"), ("port", "Ethernet4")][..], more].concat()
        };
        for (name, labels) in [
            ("rdma_port_rcv_data_total", with(&[])),
            ("rdma_np_cnp_sent_total", with(&[])),
            ("rdma_a_vendors_own_total", with(&[])),
            ("node_infiniband_np_cnp_packets_sent_total", with(&[])),
            (
                "rdma_roce_pfc_pause_frames_total",
                with(&[("netdev", "eth0"), ("direction", "rx"), ("priority", "3")]),
            ),
            (
                "rdma_roce_pfc_pause_duration_total",
                with(&[("netdev", "eth0"), ("direction", "tx"), ("priority", "3")]),
            ),
            (
                "rdma_netdev_pause_storm_events_total",
                with(&[("netdev", "eth0"), ("severity", "error")]),
            ),
            (
                "rdma_netdev_vport_rdma_bytes_total",
                with(&[("netdev", "eth0"), ("direction", "rx"), ("traffic", "unicast")]),
            ),
            ("rdma_pcie_outbound_stalled_seconds_total", with(&[("netdev", "eth0"), ("op", "rd")])),
            ("rdma_qp_rx_bytes_total", with(&[("qp_type", "RC")])),
            ("rdma_optional_tx_bytes_total", with(&[])),
            ("rdma_cc_rx_ce_pkts_total", with(&[])),
            (
                "rdma_roce_pfc_pause_frames_total",
                at_switch(&[("netdev", ""), ("direction", "rx"), ("priority", "3")]),
            ),
            ("sai_queue_stat_packets_total", at_switch(&[("queue", "3")])),
            ("sai_ingress_priority_group_stat_shared_watermark_bytes", at_switch(&[("pg", "3")])),
        ] {
            assert_eq!(value(&all, name, &labels), Some(7), "{name} {labels:?}");
        }
        assert_eq!(value(&all, "node_infiniband_port_data_received_bytes_total", &nic), Some(28));
        assert_eq!(all.left_out(), 0);
    }
}
