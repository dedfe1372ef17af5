//! Readers: texts of hosts and switches become [`Raw`](super::Raw).
//!
//! They read generically: a counter that nobody has heard of is kept under its name. What does not look like the format
//! at all is a [`ReadError`]; a line in it that makes no sense is left out.

pub mod dcb;
pub mod ethtool;
pub mod rdma;
pub mod recorded;
pub mod simulated;
pub mod soft;
pub mod sonic;
pub mod sysfs;

use core::fmt;

/// Why a text is not what it was taken for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// The line, from 1; 0 if it is about the whole text.
    pub line: usize,
    /// What was expected there.
    pub expected: String,
}

impl ReadError {
    fn whole(expected: impl Into<String>) -> Self {
        Self { line: 0, expected: expected.into() }
    }

    fn json(error: &serde_json::Error) -> Self {
        Self { line: error.line(), expected: format!("no JSON: {error}") }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.expected)
    }
}

impl core::error::Error for ReadError {}

/// A count as people and programs write it: `12`, `"12"`, `1,234`, `12.0`.
fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits: String = text.chars().filter(|&c| c != ',').collect();
    digits.parse().ok().or_else(|| {
        let number: f64 = digits.parse().ok()?;
        (0.0..1.8e19).contains(&number).then_some(number as u64)
    })
}

fn json_count(value: &serde_json::Value) -> Option<u64> {
    match value {
        serde_json::Value::Number(number) => number.as_u64().or_else(|| count(&number.to_string())),
        serde_json::Value::String(text) => match text.as_str() {
            "true" => Some(1),
            "false" => Some(0),
            text => count(text),
        },
        serde_json::Value::Bool(value) => Some(u64::from(*value)),
        _ => None,
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= crate::limits::COUNTER_NAME_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{PortName, Raw};

    /// Texts of every format, whole.
    const TEXTS: [&str; 7] = [
        "NIC statistics:\n     rx_prio3_pause: 17\n     [0]: rx_ucast_packets: 5\n",
        r#"[{"pfc-cap":8,"requests":[0,1,2,3,4,5,6,7],"indications":[0,0,0,9,0,0,0,0]}]"#,
        r#"[{"ifname":"mlx5_0","port":1,"cntn":1,"qp-type":"RC","rx_write_requests":3,"lqpn":[17]}]"#,
        "\n  Port Rx    PFC0    PFC1\n---------  ------  ------\nEthernet0       0   1,024\n",
        r#"{"COUNTERS_PORT_NAME_MAP":{"Ethernet0":"oid:0x1"},"COUNTERS:oid:0x1":{"SAI_PORT_STAT_PFC_3_RX_PKTS":"1"}}"#,
        r#"{"at_us":1,"ports":[{"device":"a","port":"1","peer":["b","nic"],"counters":{"ethtool":{"rx_prio3_pause":1}}}]}"#,
        "18446744073709551616\n",
    ];

    fn read_all(text: &str) {
        let mut raw = Raw::default();
        let port = PortName::new("eth0", "");
        let _ = ethtool::read(&mut raw, &port, text);
        let _ = dcb::read(&mut raw, &port, text);
        let _ = rdma::read(&mut raw, "", text);
        let _ = sonic::read_text(&mut raw, "tor0", text);
        let _ = sonic::read_json(&mut raw, "tor0", text);
        let _ = recorded::read(text, 1);
        sysfs::read(&mut raw, "", &format!("infiniband/{text}"), text);
        sysfs::read(&mut raw, "", "infiniband/a/ports/1/hw_counters/x", text);
        raw.join_interfaces();
        raw.sample();
        let mut metrics = telemetry::Metrics::new();
        crate::watch::metrics(&raw, &mut metrics);
        metrics.to_text(telemetry::Format::OpenMetrics);
    }

    #[test]
    fn cut_and_garbled_texts_are_read_or_refused() {
        let mut state = 1u64;
        let mut chance = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below.max(1)
        };
        for text in TEXTS {
            for (cut, _) in text.char_indices() {
                read_all(&text[..cut]);
            }
            for _ in 0..300 {
                let mut characters: Vec<char> = text.chars().collect();
                for _ in 0..=chance(4) {
                    let at = chance(characters.len());
                    characters[at] =
                        ['\u{0}', '9', '-', ':', 'é', '\u{1f600}', '{', '/'][chance(8)];
                }
                read_all(&characters.into_iter().collect::<String>());
            }
        }
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        let mut raw = Raw::default();
        let port = PortName { host: "h".into(), device: "tor0".into(), port: "Ethernet0".into() };
        sonic::read_text(&mut raw, "tor0", TEXTS[3]).unwrap();
        ethtool::read(&mut raw, &port, TEXTS[0]).unwrap();
        raw.port(&port).peer = Some(("h0".into(), crate::watch::Role::Nic));
        raw.port(&port).info.insert("state".into(), "ACTIVE".into());
        let line = recorded::write(&raw, core::time::Duration::from_millis(3));
        let (at, read) = recorded::read(&line, 1).unwrap();
        assert_eq!((at.as_millis(), read), (3, raw));
        for (cut, _) in line.trim_end().char_indices() {
            assert!(recorded::read(&line[..cut], 1).is_err() && recorded::is_cut(&line[..cut]));
        }
        let negative = line.replace("1024", "-1024");
        assert!(negative != line && !recorded::is_cut(&negative));
        let error = recorded::read(&negative, 7).unwrap_err().to_string();
        assert_eq!(
            error,
            "line 7: SAI_PORT_STAT_PFC_1_RX_PKTS of tor0/Ethernet0 is no count: -1024"
        );
    }
}
