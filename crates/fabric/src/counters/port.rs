//! Everything that one port has counted, of a switch or of a NIC: what results, labs and exporters are made of.

use serde::{Deserialize, Serialize};

use super::{PauseCounters, PortCounters};
use crate::pfc::PRIORITIES;

/// Frames and their bytes, check sequences included, by priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Frames.
    pub packets: [u64; PRIORITIES],
    /// Bytes.
    pub bytes: [u64; PRIORITIES],
}

impl Traffic {
    pub(crate) fn add(&mut self, priority: u8, bytes: u64) {
        let priority = usize::from(priority) % PRIORITIES;
        self.packets[priority] += 1;
        self.bytes[priority] += bytes;
    }
}

/// What a NIC has counted. Its transport engines count in [`transport::Stats`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NicCounters {
    /// What it has received (`rx_prio#_packets`, `rx_prio#_bytes` of `ethtool -S`). Of a simulated host: what its
    /// switch sent it.
    pub rx: Traffic,
    /// What it has sent (`tx_prio#_packets`, `tx_prio#_bytes`). Of a simulated host: what its switch received of it.
    pub tx: Traffic,
    /// Packets that its receive buffer had no room for (`rx_prio#_discards`).
    pub rx_discards: [u64; PRIORITIES],
    /// Frames that were damaged on the link (`rx_crc_errors_phy`).
    pub rx_errors: u64,
    /// Pauses.
    pub pause: PauseCounters,
    /// How often its watchdog has given up pausing (`tx_pause_storm_error_events` of mlx5).
    pub storms: u64,
    /// Of all its engines, in the order of [`transport::Stats::NAMES`]; empty where programs have them.
    pub engines: Vec<u64>,
}

impl NicCounters {
    /// Every counter with the name that Linux gives it: `hw_counters`, and `ethtool -S` of mlx5, where durations
    /// are in microseconds.
    pub fn named(&self) -> Vec<(String, u64)> {
        let names = transport::Stats::NAMES.iter().map(|&name| name.to_owned());
        let mut named: Vec<(String, u64)> = names.zip(self.engines.iter().copied()).collect();
        let pause = &self.pause;
        for priority in 0..PRIORITIES {
            let mut put = |what: &str, value| {
                named.push((what.replace('#', &priority.to_string()), value));
            };
            put("rx_prio#_pause", pause.received[priority] + pause.received_resume[priority]);
            put("rx_prio#_pause_duration", pause.paused_ps[priority] / 1_000_000);
            put("rx_prio#_pause_transition", pause.transitions[priority]);
            put("tx_prio#_pause", pause.sent[priority] + pause.sent_resume[priority]);
            put("rx_prio#_packets", self.rx.packets[priority]);
            put("rx_prio#_bytes", self.rx.bytes[priority]);
            put("tx_prio#_packets", self.tx.packets[priority]);
            put("tx_prio#_bytes", self.tx.bytes[priority]);
            put("rx_prio#_discards", self.rx_discards[priority]);
        }
        named.push(("rx_crc_errors_phy".to_owned(), self.rx_errors));
        named.push(("tx_pause_storm_error_events".to_owned(), self.storms));
        named
    }
}

/// One port, how it stands, and what it has counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortCounted {
    /// The host or switch that has it.
    pub node: String,
    /// Where it leads to.
    pub neighbour: String,
    /// Bits per second.
    pub rate_bps: u64,
    /// Whether its link is down.
    pub is_down: bool,
    /// A bit for each queue, or priority of a host, that the neighbour has paused now.
    pub paused: u8,
    /// What waits now, by queue, or by priority of a host.
    pub queue_bytes: [u64; PRIORITIES],
    /// What it has counted.
    pub counters: Counters,
}

/// The counters of a port, by what has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counters {
    /// A switch.
    Switch(Box<PortCounters>),
    /// A host's NIC.
    Nic(Box<NicCounters>),
}

impl PortCounted {
    /// `switch` or `nic`.
    pub fn kind(&self) -> &'static str {
        match self.counters {
            Counters::Switch(_) => "switch",
            Counters::Nic(_) => "nic",
        }
    }

    /// Every counter with its name: of SAI for switches, of Linux for NICs.
    pub fn named(&self) -> Vec<(String, u64)> {
        match &self.counters {
            Counters::Switch(of) => of.named(),
            Counters::Nic(of) => of.named(),
        }
    }

    /// Bytes of frames that it has sent.
    pub fn sent_bytes(&self) -> u64 {
        match &self.counters {
            Counters::Switch(of) => of.queue_bytes.iter().sum(),
            Counters::Nic(of) => of.tx.bytes.iter().sum(),
        }
    }

    /// Packets that it has marked. NICs mark none.
    pub fn marked(&self) -> u64 {
        match &self.counters {
            Counters::Switch(of) => of.queue_marked.iter().sum(),
            Counters::Nic(_) => 0,
        }
    }

    /// Packets that were dropped here, whether they came in by it or were to leave by it.
    pub fn dropped(&self) -> u64 {
        match &self.counters {
            Counters::Switch(of) => {
                of.queue_dropped.iter().chain(&of.group_dropped).sum::<u64>() + of.in_errors
            }
            Counters::Nic(of) => of.rx_discards.iter().sum::<u64>() + of.rx_errors,
        }
    }

    /// Its pauses.
    pub fn pause(&self) -> &PauseCounters {
        match &self.counters {
            Counters::Switch(of) => &of.pause,
            Counters::Nic(of) => &of.pause,
        }
    }

    /// How long the priority that was paused longest was, in picoseconds.
    pub fn paused_ps(&self) -> u64 {
        self.pause().paused_ps.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_nics_carry_the_names_of_linux() {
        let mut of = NicCounters { storms: 4, rx_errors: 5, ..NicCounters::default() };
        of.pause.received[3] = 2;
        of.pause.received_resume[3] = 1;
        of.pause.paused_ps[3] = 7_999_999;
        of.tx.add(3, 1_082);
        let named = of.named();
        let value = |name: &str| named.iter().find(|(key, _)| key == name).map(|&(_, value)| value);
        assert_eq!(value("rx_prio3_pause"), Some(3));
        assert_eq!(value("rx_prio3_pause_duration"), Some(7));
        assert_eq!((value("tx_prio3_packets"), value("tx_prio3_bytes")), (Some(1), Some(1_082)));
        assert_eq!(value("tx_pause_storm_error_events"), Some(4));
        assert_eq!(value("rx_crc_errors_phy"), Some(5));
        assert_eq!(value(transport::Stats::NAMES[0]), None, "engines are elsewhere");
        of.engines = vec![9; transport::Stats::NAMES.len()];
        assert!(of.named().contains(&(transport::Stats::NAMES[0].to_owned(), 9)));
    }

    #[test]
    fn a_port_that_was_written_is_read() {
        let mut counters = PortCounters::default();
        counters.queue_dropped[3] = 7;
        counters.group_dropped[0] = 1;
        let port = PortCounted {
            node: "leaf0".to_owned(),
            neighbour: "h3".to_owned(),
            rate_bps: 1_000_000_000,
            is_down: false,
            paused: 8,
            queue_bytes: [1; PRIORITIES],
            counters: Counters::Switch(Box::new(counters)),
        };
        let text = serde_json::to_string(&port).unwrap();
        assert_eq!(serde_json::from_str::<PortCounted>(&text).unwrap(), port);
        assert_eq!((port.dropped(), port.kind()), (8, "switch"));
    }
}
