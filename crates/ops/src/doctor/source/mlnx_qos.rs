//! What `mlnx_qos -i INTERFACE` prints.
//!
//! ```text
//!   DCBX mode: OS controlled
//!   Priority trust state: dscp
//!   dscp2prio mapping:
//!           prio:0 dscp:07,06,05,04,03,02,01,00,
//!   Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,max_buffer_size=262016
//!   Cable len: 7
//!   PFC configuration:
//!           priority    0   1   2   3   4   5   6   7
//!           enabled     0   0   0   1   0   0   0   0
//!           buffer      0   0   0   1   0   0   0   0
//!   tc: 3 ratelimit: unlimited, tsa: ets, bw: 50%
//!            priority:  3
//! ```

use super::{Result, Said, Trusted, Wrong};
use crate::doctor::finding::quoted;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::doctor) struct MlnxQos {
    pub(in crate::doctor) os_controlled: Option<Said<bool>>,
    pub(in crate::doctor) lldpad: Option<Said<()>>,
    pub(in crate::doctor) trust: Option<Said<Trusted>>,
    pub(in crate::doctor) dscp_to_priority: Option<Said<[u8; 64]>>,
    pub(in crate::doctor) pfc: Option<Said<u8>>,
    pub(in crate::doctor) cable_m: Option<Said<u32>>,
    pub(in crate::doctor) buffers: Option<Said<[u32; 8]>>,
    pub(in crate::doctor) priority_to_buffer: Option<Said<[u8; 8]>>,
    pub(in crate::doctor) priority_to_tc: Option<Said<[u8; 8]>>,
}

const HINT: &str = "take it again: mlnx_qos -i INTERFACE > mlnx_qos.INTERFACE.txt";

pub(in crate::doctor) fn read(text: &str) -> Result<MlnxQos> {
    let mut said = MlnxQos::default();
    let mut tc = 0;
    for (number, line) in text.lines().enumerate() {
        let (number, line) = (number + 1, line.trim());
        let here = |value| Said { value, line: number };
        if line.contains("lldpad service is running") {
            said.lldpad = Some(Said { value: (), line: number });
        } else if let Some(mode) = line.strip_prefix("DCBX mode:") {
            let os = mode.to_lowercase().contains("os controlled");
            said.os_controlled = Some(Said { value: os, line: number });
        } else if let Some(state) = line.strip_prefix("Priority trust state:") {
            let value = match state.trim() {
                "dscp" => Trusted::Dscp,
                "pcp" => Trusted::Pcp,
                other => {
                    let what = format!("{} is no trust state", quoted(other));
                    return Err(Wrong::at(number, what, HINT));
                }
            };
            said.trust = Some(Said { value, line: number });
        } else if let Some((priority, dscps)) =
            line.strip_prefix("prio:").and_then(|rest| rest.split_once(" dscp:"))
        {
            let wrong = || {
                let what = format!("{} is no row of the mapping of DSCPs", quoted(line));
                Wrong::at(number, what, HINT)
            };
            let priority = priority.parse().ok().filter(|priority| *priority < 8_u8);
            let priority = priority.ok_or_else(wrong)?;
            let map = said.dscp_to_priority.get_or_insert(Said { value: [0; 64], line: number });
            for dscp in dscps.split(',').map(str::trim).filter(|text| !text.is_empty()) {
                let dscp = dscp.parse::<usize>().ok().filter(|dscp| *dscp < 64);
                map.value[dscp.ok_or_else(wrong)?] = priority;
            }
        } else if let Some(sizes) = line.strip_prefix("Receive buffer size (bytes):") {
            let mut value = [0; 8];
            for (slot, size) in value.iter_mut().zip(sizes.split(',')) {
                *slot = size
                    .trim()
                    .parse()
                    .map_err(|_| Wrong::at(number, format!("{} is no size", quoted(size)), HINT))?;
            }
            said.buffers = Some(Said { value, line: number });
        } else if let Some(length) = line.strip_prefix("Cable len:") {
            said.cable_m = length.trim().parse().ok().map(|value| Said { value, line: number });
        } else if let Some(row) = line.strip_prefix("enabled ") {
            let bits = eight(row, number, 1)?;
            let mask = (0..8).fold(0, |mask, bit| mask | bits[bit] << bit);
            said.pfc = Some(here(mask));
        } else if let Some(row) = line.strip_prefix("buffer ") {
            said.priority_to_buffer = Some(Said { value: eight(row, number, 7)?, line: number });
        } else if let Some(row) = line.strip_prefix("tc:") {
            let digits = row.split_whitespace().next().unwrap_or_default();
            tc = digits.parse().ok().filter(|tc| *tc < 8_u8).ok_or_else(|| {
                Wrong::at(number, format!("{} is no class", quoted(digits)), HINT)
            })?;
        } else if let Some(priority) = line.strip_prefix("priority:") {
            let priority = priority.trim().parse::<usize>().ok().filter(|number| *number < 8);
            if let Some(priority) = priority {
                let map = said.priority_to_tc.get_or_insert(Said { value: [0; 8], line: number });
                map.value[priority] = tc;
            }
        }
    }
    if said.pfc.is_none() {
        let what = "there is no \"PFC configuration\" with a row \"enabled\": the output is cut, or \
                    of something else";
        return Err(Wrong::whole(what, HINT));
    }
    Ok(said)
}

fn eight(row: &str, line: usize, most: u8) -> Result<[u8; 8]> {
    let mut all = [0; 8];
    let mut texts = row.split_whitespace();
    for slot in &mut all {
        let text = texts.next().unwrap_or_default();
        *slot = text.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
            let what = format!("a row of eight numbers up to {most} has {}", quoted(text));
            Wrong::at(line, what, HINT)
        })?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
\tprio:3 dscp:31,30,29,28,27,26,25,24,
\tprio:6 dscp:55,54,53,52,51,50,49,48,
Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,max_buffer_size=262016
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0   
\tbuffer      0   0   0   1   0   0   0   0   
tc: 0 ratelimit: unlimited, tsa: ets, bw: 50%
\t priority:  0
tc: 3 ratelimit: unlimited, tsa: ets, bw: 50%
\t priority:  3
";

    #[test]
    fn what_connectx_prints_is_read() {
        let said = read(TEXT).unwrap();
        assert_eq!(said.trust.unwrap(), Said { value: Trusted::Dscp, line: 2 });
        assert_eq!(said.dscp_to_priority.unwrap().value[26], 3);
        assert_eq!(said.dscp_to_priority.unwrap().value[48], 6);
        assert_eq!(said.pfc.unwrap(), Said { value: 0b1000, line: 11 });
        assert_eq!(said.cable_m.unwrap().value, 7);
        assert_eq!(said.buffers.unwrap().value[..2], [130_944, 130_944]);
        assert_eq!(said.priority_to_buffer.unwrap().value[3], 1);
        assert_eq!(said.priority_to_tc.unwrap().value[3], 3);
        assert_eq!(said.lldpad, None);
        let warned = format!(
            "****** WARNING: lldpad service is running and may overwrite your settings ******\n{TEXT}"
        );
        assert_eq!(read(&warned).unwrap().lldpad, Some(Said { value: (), line: 1 }));
    }

    #[test]
    fn what_is_cut_or_garbled_is_refused_with_its_line() {
        assert_eq!(read(&TEXT[..200]).unwrap_err().line, None);
        for (good, bad, line) in [
            ("state: dscp", "state: tos", 2),
            ("prio:3", "prio:9", 5),
            ("dscp:31", "dscp:77", 5),
            ("0   0   0   1   0   0   0   0   \n\tbuffer", "0   0   0   1\n\tbuffer", 11),
            ("130944,130944", "130944,many", 7),
        ] {
            let wrong = read(&TEXT.replace(good, bad)).unwrap_err();
            assert_eq!(wrong.line, Some(line), "{wrong:?}");
        }
    }
}
