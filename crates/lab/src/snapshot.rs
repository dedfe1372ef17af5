//! What a network has counted at one moment, by name: what expectations are held against.
//!
//! ```text
//!   port leaf0:h3 SAI_PORT_STAT_PFC_3_TX_PKTS     a port of a switch, by its neighbour; names of SAI and SONiC
//!   nic h3 rx_prio3_pause                         the NIC of a host; names of mlx5 where it has them
//!   drops link-down                               all packets that were dropped, or those of a cause
//!   deadlocks      retransmitted      slipped_percent      watchdog detected
//! ```
//!
//! What is zero is not kept.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

use fabric::Network;
use fabric::counters::{Drop, PortCounters};
use fabric::topology::End;
use rdma::{Span, Time};

use crate::journal::seconds;
use crate::programs::Counts;

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// On the wall's clock, since the lab began; in a simulation, in its own time.
    pub at: Duration,
    values: BTreeMap<String, f64>,
}

/// Counters of a NIC, besides those of each priority.
const NIC: [&str; 7] = [
    "tx_packets",
    "rx_packets",
    "retransmitted_packets",
    "refused_packets",
    "waiting_bytes",
    "pause_storms",
    "processor_wait_ms",
];
/// Counters of a NIC for each priority: as mlx5 names them, in microseconds the last two.
const NIC_PRIORITY: [&str; 4] =
    ["tx_prio#_pause", "rx_prio#_pause", "rx_prio#_pause_duration", "rx_prio#_pause_transition"];
/// What the whole network has.
const NETWORK: [&str; 8] = [
    "drops",
    "deadlocks",
    "retransmitted",
    "pauses",
    "unclaimed",
    "slips",
    "slipped_percent",
    "model_seconds",
];
const WATCHDOG: [&str; 2] = ["watchdog detected", "watchdog restored"];

impl Snapshot {
    /// What a network has counted, whoever drives it.
    pub(crate) fn of(network: &Network, at: Duration) -> Self {
        let mut snapshot = Self { at, values: BTreeMap::new() };
        let topology = network.topology();
        for switch in 0..topology.switches.len() as u32 {
            let name = topology.name(End::Switch(switch));
            for (neighbour, counters) in network.switch_counters(switch) {
                let to = topology.name(neighbour);
                for (counter, value) in counters.named() {
                    snapshot.add(&format!("port {name}:{to} {counter}"), value as f64);
                }
            }
            if let Some(watchdog) = network.watchdog_counters(switch) {
                snapshot.add(WATCHDOG[0], watchdog.detected as f64);
                snapshot.add(WATCHDOG[1], watchdog.restored as f64);
            }
        }
        for host in 0..topology.hosts.len() as u32 {
            let name = topology.name(End::Host(host));
            if let Some(pauses) = network.host_pauses(host) {
                for priority in 0..pauses.sent.len() {
                    let values = [
                        pauses.sent[priority] as f64,
                        pauses.received[priority] as f64,
                        pauses.paused_ps[priority] as f64 / 1e6,
                        pauses.transitions[priority] as f64,
                    ];
                    for (counter, value) in NIC_PRIORITY.into_iter().zip(values) {
                        let counter = counter.replace('#', &priority.to_string());
                        snapshot.add(&format!("nic {name} {counter}"), value);
                    }
                }
            }
            let waiting: u64 = network.frames_waiting(host).iter().sum();
            snapshot.add(&format!("nic {name} waiting_bytes"), waiting as f64);
            let storms = network.nic_storms(host).unwrap_or(0);
            snapshot.add(&format!("nic {name} pause_storms"), storms as f64);
            let again =
                network.host_stats(host).iter().map(|it| it.retransmitted_pkts).sum::<u64>();
            snapshot.add(&format!("nic {name} retransmitted_packets"), again as f64);
            snapshot.add("retransmitted", again as f64);
        }
        let drops = network.drops();
        for (cause, count) in drops.iter() {
            snapshot.add(&format!("drops {}", slug(cause)), count as f64);
        }
        snapshot.add("drops", drops.total() as f64);
        snapshot.add("pauses", network.pause_frames() as f64);
        snapshot.add("model_seconds", seconds(network.now().since(Time::ZERO)));
        snapshot
    }

    /// The same of programs.
    pub(crate) fn add_programs(&mut self, network: &Network, totals: &HashMap<u32, Counts>) {
        for (host, counts) in totals {
            let name = network.topology().name(End::Host(*host)).to_owned();
            for (counter, value) in [
                ("tx_packets", counts.sent),
                ("rx_packets", counts.received),
                ("retransmitted_packets", counts.again),
                ("refused_packets", counts.refused),
            ] {
                self.add(&format!("nic {name} {counter}"), value as f64);
            }
            self.add("retransmitted", counts.again as f64);
        }
    }

    pub(crate) fn add(&mut self, name: &str, value: f64) {
        if value != 0.0 {
            *self.values.entry(name.to_owned()).or_default() += value;
        }
    }

    /// The sum of all that a measure names; `*` stands for any part of a name.
    pub fn sum(&self, measure: &str) -> f64 {
        if !measure.contains('*') {
            return self.values.get(measure).copied().unwrap_or(0.0);
        }
        let beginning = measure.split('*').next().unwrap_or("");
        let all = self.values.range(beginning.to_owned()..);
        let all = all.take_while(|(name, _)| name.starts_with(beginning));
        all.filter(|(name, _)| is_like(name, measure)).map(|(_, value)| value).sum()
    }
}

/// Whether a measure is one that snapshots of this network have.
///
/// # Errors
/// What it should be like.
pub(crate) fn check(measure: &str, topology: &fabric::topology::Topology) -> Result<(), String> {
    let words: Vec<&str> = measure.split(' ').collect();
    let like_any =
        |names: &mut dyn Iterator<Item = String>, like: &str| -> Result<(), Vec<String>> {
            let names: Vec<String> = names.collect();
            if names.iter().any(|name| is_like(name, like)) { Ok(()) } else { Err(names) }
        };
    let nearest = |like: &str, names: &[String]| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match telemetry::nearest(like, &names) {
            Some(name) => format!("hint: did you mean {name}?"),
            None => format!("hint: there are {}", names[..names.len().min(12)].join(", ")),
        }
    };
    let missing = |what: &str, like: &str, names: Vec<String>| {
        format!("there is no {what} {like:?}\n{}", nearest(like, &names))
    };
    match words[..] {
        ["port", port, counter] => {
            let name = |end: End| topology.name(end).to_owned();
            let mut ports = topology.links.iter().flat_map(|link| {
                let [a, b] = link.ends;
                [(a, b), (b, a)]
            });
            let mut ports = ports
                .by_ref()
                .filter(|(at, _)| matches!(at, End::Switch(_)))
                .map(|(at, to)| format!("{}:{}", name(at), name(to)));
            like_any(&mut ports, port).map_err(|names| missing("port", port, names))?;
            let mut counters = PortCounters::default().named().into_iter().map(|(name, _)| name);
            like_any(&mut counters, counter).map_err(|names| missing("counter", counter, names))
        }
        ["nic", host, counter] => {
            let mut hosts = topology.hosts.iter().cloned();
            like_any(&mut hosts, host).map_err(|names| missing("host", host, names))?;
            let of_priorities = (0..8).flat_map(|priority: u8| {
                NIC_PRIORITY.map(|name| name.replace('#', &priority.to_string()))
            });
            let mut counters = NIC.into_iter().map(str::to_owned).chain(of_priorities);
            like_any(&mut counters, counter).map_err(|names| missing("counter", counter, names))
        }
        ["drops", cause] => {
            let mut causes = Drop::ALL.iter().map(|cause| slug(*cause));
            like_any(&mut causes, cause).map_err(|names| missing("cause", cause, names))
        }
        _ => {
            let mut all = NETWORK.into_iter().chain(WATCHDOG).map(str::to_owned);
            like_any(&mut all, measure).map_err(|mut names| {
                names.extend(
                    ["port SWITCH:NEIGHBOUR COUNTER", "nic HOST COUNTER"].map(str::to_owned),
                );
                names.push("drops CAUSE".to_owned());
                missing("measure", measure, names)
            })
        }
    }
}

/// A cause as measures name it: link-down.
pub(crate) fn slug(cause: Drop) -> String {
    let name = format!("{cause:?}");
    let mut slug = String::new();
    for (place, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && place > 0 {
            slug.push('-');
        }
        slug.push(letter.to_ascii_lowercase());
    }
    slug
}

/// Whether a name is like a pattern, in which `*` stands for any part.
pub(crate) fn is_like(name: &str, pattern: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut rest) = name.strip_prefix(before) else { return false };
    let mut parts: Vec<&str> = behind.split('*').collect();
    let last = parts.pop().unwrap_or("");
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// A time of the model as one of the wall, for simulations.
pub(crate) fn as_wall(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps() / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::topology::{Cables, single_switch};
    use rdma::Rate;

    #[test]
    fn stars_stand_for_any_part() {
        for (name, pattern, like) in [
            ("port s0:h1 X:3", "port s0:* X:3", true),
            ("port s0:h1 X:3", "port *:h1 *", true),
            ("port s0:h1 X:3", "port *:h2 *", false),
            ("aba", "a*ba", true),
            ("aba", "ab*ba", false),
            ("drops", "drops", true),
            ("drops buffer", "drops", false),
        ] {
            assert_eq!(is_like(name, pattern), like, "{name} {pattern}");
        }
        let mut snapshot = Snapshot::default();
        snapshot.add("nic h0 rx_packets", 2.0);
        snapshot.add("nic h1 rx_packets", 3.0);
        snapshot.add("nic h1 tx_packets", 9.0);
        assert_eq!(snapshot.sum("nic * rx_packets"), 5.0);
        assert_eq!(snapshot.sum("nic h0 rx_packets"), 2.0);
        assert_eq!(snapshot.sum("nic h7 rx_packets"), 0.0);
    }

    #[test]
    fn a_measure_that_is_none_is_told_what_it_may_have_meant() {
        let topology = single_switch(2, Cables::new(Rate::from_gbps(1), 2));
        for fine in [
            "port s0:h1 SAI_PORT_STAT_PFC_3_RX_PKTS",
            "port s0:* SAI_QUEUE_STAT_BYTES:*",
            "nic h0 rx_prio3_pause",
            "nic * tx_packets",
            "drops",
            "drops headroom",
            "deadlocks",
            "watchdog restored",
        ] {
            assert_eq!(check(fine, &topology), Ok(()), "{fine}");
        }
        for (wrong, told) in [
            ("port s0:h7 SAI_QUEUE_STAT_BYTES:0", "there is no port \"s0:h7\"\nhint: did you mean"),
            ("port s0:h1 SAI_QUEUE_STAT_BYTE:0", "hint: did you mean SAI_QUEUE_STAT_BYTES:0?"),
            ("nic h0 rx_prio3_pauses", "hint: did you mean rx_prio3_pause?"),
            ("drops headrom", "hint: did you mean headroom?"),
            ("deadlock", "hint: did you mean deadlocks?"),
        ] {
            let error = check(wrong, &topology).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        assert_eq!(slug(Drop::IncompleteArp), "incomplete-arp");
    }
}
