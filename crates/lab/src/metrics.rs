//! What is seen of a lab as metrics of Prometheus.
//!
//! Switches have SAI's names and NICs those of Linux, in small letters, with priority, queue and priority group as
//! labels: `SAI_PORT_STAT_PFC_3_RX_PKTS` of leaf0 towards h3 is
//! `sai_port_stat_pfc_rx_pkts_total{switch="leaf0",neighbour="h3",priority="3"}`, `rx_prio3_pause` of h3
//! `ethtool_rx_prio_pause_total{host="h3",priority="3"}`. What a program counts itself (`hw_counters`) is
//! `hw_counters_retransmitted_pkts_total{host="h3",process="4711",program="ib_write_bw"}`.

use fabric::counters::Counters;
use telemetry::{MetricKind, Metrics};

use crate::seen::Seen;

/// The metrics of what was seen.
pub fn metrics(seen: &Seen) -> Metrics {
    let mut metrics = Metrics::new().labelled(&[("lab", &seen.lab)]);
    clock(&mut metrics, seen);
    for port in &seen.ports {
        let names = match port.counters {
            Counters::Switch(_) => [("switch", &*port.node), ("neighbour", &*port.neighbour)],
            Counters::Nic(_) => [("host", &*port.node), ("neighbour", &*port.neighbour)],
        };
        for (name, value) in port.named() {
            let named = Named::of(&name, port.kind());
            let mut labels = names.to_vec();
            labels.extend(named.label.iter().map(|(name, value)| (*name, value.as_str())));
            metrics.add(&named.family, named.kind, named.help, &labels, value);
        }
        for (queue, bytes) in port.queue_bytes.iter().enumerate() {
            let queue = queue.to_string();
            let mut labels = names.to_vec();
            labels.push(("queue", &queue));
            metrics.add(
                "ferroce_lab_queue_bytes",
                MetricKind::Gauge,
                "What waits now.",
                &labels,
                *bytes,
            );
            let paused = u64::from(port.paused >> (queue.as_bytes()[0] - b'0') & 1);
            let help = "Whether the neighbour has paused it now.";
            metrics.add("ferroce_lab_queue_paused", MetricKind::Gauge, help, &labels, paused);
        }
        let up = u64::from(!port.is_down);
        metrics.add(
            "ferroce_lab_link_up",
            MetricKind::Gauge,
            "Whether the link is up.",
            &names,
            up,
        );
    }
    for program in &seen.programs {
        let process = program.process.to_string();
        let labels =
            [("host", &*program.host), ("process", &*process), ("program", &*program.command)];
        for (name, value) in &program.counters {
            let family = format!("hw_counters_{name}_total");
            let help = "What the NIC of the program counts, under the name of Linux.";
            metrics.add(&family, MetricKind::Counter, help, &labels, *value);
        }
        for (direction, value) in [("sent", program.sent), ("received", program.received)] {
            let [host, process, program] = labels;
            let labels = [host, process, program, ("direction", direction)];
            let help = "Packets that the lab has passed on.";
            metrics.add(
                "ferroce_lab_program_packets_total",
                MetricKind::Counter,
                help,
                &labels,
                value,
            );
        }
    }
    metrics
}

fn clock(metrics: &mut Metrics, seen: &Seen) {
    let mut add = |name: &str, kind, help: &str, value: f64| {
        metrics.add(&format!("ferroce_lab_{name}"), kind, help, &[], value);
    };
    let (counter, gauge) = (MetricKind::Counter, MetricKind::Gauge);
    add("factor", gauge, "How many times slower than the wall's its time goes.", seen.factor);
    let seconds = seen.wall_ns as f64 / 1e9;
    add("wall_seconds_total", counter, "How long it has lived on the wall.", seconds);
    let seconds = seen.model_ps as f64 / 1e12;
    add("model_seconds_total", counter, "How long it has lived in the model.", seconds);
    add("slips_total", counter, "How often its clock has slipped.", seen.slips as f64);
    let seconds = seen.slipped_ns as f64 / 1e9;
    add("slipped_seconds_total", counter, "By how much its clock has slipped.", seconds);
    add("deadlocks_total", counter, "Deadlocks found.", seen.deadlocks as f64);
    add("programs", gauge, "Programs that run.", seen.programs.len() as f64);
    for (cause, count) in &seen.drops {
        let help = "Packets dropped in the whole network.";
        metrics.add("ferroce_lab_drops_total", counter, help, &[("cause", cause)], *count);
    }
}

/// A counter as a metric.
struct Named {
    family: String,
    kind: MetricKind,
    help: &'static str,
    label: Option<(&'static str, String)>,
}

impl Named {
    /// Of a counter that a port has under `name`.
    fn of(name: &str, kind: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let (name, label) = if let Some((name, index)) = name.split_once(':') {
            let what = if name.contains("priority_group") { "priority_group" } else { "queue" };
            (name.to_owned(), Some((what, index.to_owned())))
        } else {
            match numbered(&name, "pfc_").or_else(|| numbered(&name, "prio")) {
                Some((name, priority)) => (name, Some(("priority", priority))),
                None => (name, None),
            }
        };
        let is_gauge = name.contains("watermark");
        let ethtool = if kind == "nic" { "ethtool_" } else { "" };
        let total = if is_gauge { "" } else { "_total" };
        Self {
            family: format!("{ethtool}{name}{total}"),
            kind: if is_gauge { MetricKind::Gauge } else { MetricKind::Counter },
            help: match kind {
                "nic" => "What the NIC of a host counts, under the name of ethtool -S.",
                _ => "What a port of a switch counts, under the name of SAI or SONiC.",
            },
            label,
        }
    }
}

/// A name without the digit behind `before`, and that digit.
fn numbered(name: &str, before: &str) -> Option<(String, String)> {
    let at = name.find(before)? + before.len();
    let digit = name[at..].chars().next().filter(char::is_ascii_digit)?;
    let rest = name[at + 1..].strip_prefix('_')?;
    let begin = name[..at].trim_end_matches('_');
    Some((format!("{begin}_{rest}"), digit.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sai_and_linux_have_their_numbers_as_labels() {
        for (name, kind, family, label) in [
            (
                "SAI_PORT_STAT_PFC_3_RX_PKTS",
                "switch",
                "sai_port_stat_pfc_rx_pkts_total",
                "priority 3",
            ),
            ("SAI_QUEUE_STAT_PACKETS:5", "switch", "sai_queue_stat_packets_total", "queue 5"),
            (
                "SAI_QUEUE_STAT_WATERMARK_BYTES:0",
                "switch",
                "sai_queue_stat_watermark_bytes",
                "queue 0",
            ),
            (
                "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS:1",
                "switch",
                "sai_ingress_priority_group_stat_dropped_packets_total",
                "priority_group 1",
            ),
            (
                "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED",
                "switch",
                "pfc_wd_queue_stats_deadlock_detected_total",
                "",
            ),
            ("rx_prio3_pause", "nic", "ethtool_rx_prio_pause_total", "priority 3"),
            ("tx_pause_storm_error_events", "nic", "ethtool_tx_pause_storm_error_events_total", ""),
        ] {
            let named = Named::of(name, kind);
            let said =
                named.label.map_or_else(String::new, |(name, value)| format!("{name} {value}"));
            assert_eq!((named.family.as_str(), said.as_str()), (family, label), "{name}");
        }
    }
}
