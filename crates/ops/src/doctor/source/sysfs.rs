//! Files of sysfs: `grep -R . /sys/class/...` (a line is `PATH:VALUE`), or a tree of files as `cp -r` leaves it.
//!
//! ```text
//!   class/infiniband/DEV/fw_ver                                 class/net/IF/mtu, address, speed
//!   class/infiniband/DEV/tc/PORT/traffic_class                  class/net/IF/ecn/roce_np/enable/PRIORITY
//!   class/infiniband/DEV/ports/PORT/gids/N                      class/net/IF/ecn/roce_rp/enable/PRIORITY
//!   class/infiniband/DEV/ports/PORT/gid_attrs/{types,ndevs}/N   class/net/IF/ecn/roce_np/cnp_dscp
//! ```
//!
//! Whatever else is there is passed over: devices of all vendors have files of their own.

use super::Said;
use super::env::number;

/// A file of sysfs, as far as it matters here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::doctor) enum Fact {
    Firmware { device: String, version: String },
    TrafficClass { device: String, value: u8 },
    Gid { device: String, index: usize, value: String },
    GidType { device: String, index: usize, value: String },
    GidDevice { device: String, index: usize, interface: String },
    Mtu { interface: String, bytes: u32 },
    Address { interface: String, mac: String },
    Speed { interface: String, mbps: u64 },
    Notifies { interface: String, priority: u8, on: bool },
    Reacts { interface: String, priority: u8, on: bool },
    CnpDscp { interface: String, dscp: u8 },
}

/// What a file says, by its path from `/sys/` on or from what is after it.
pub(in crate::doctor) fn fact(path: &str, value: &str) -> Option<Fact> {
    let path = path.trim_start_matches('/');
    let path = path.strip_prefix("sys/").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').collect();
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    let index = |text: &str| text.parse::<usize>().ok();
    match parts.as_slice() {
        ["class", "infiniband", device, rest @ ..] => {
            let device = (*device).to_owned();
            let value = value.to_owned();
            Some(match rest {
                ["fw_ver"] => Fact::Firmware { device, version: value },
                ["tc", _, "traffic_class"] => {
                    // "Global tclass=106", or the number alone.
                    let digits = value.rsplit('=').next().unwrap_or_default().trim();
                    let value = u8::try_from(number(digits)?).ok()?;
                    Fact::TrafficClass { device, value }
                }
                ["ports", _, "gids", at] => Fact::Gid { device, index: index(at)?, value },
                ["ports", _, "gid_attrs", "types", at] => {
                    Fact::GidType { device, index: index(at)?, value }
                }
                ["ports", _, "gid_attrs", "ndevs", at] => {
                    Fact::GidDevice { device, index: index(at)?, interface: value }
                }
                _ => return None,
            })
        }
        ["class", "net", interface, rest @ ..] => {
            let interface = (*interface).to_owned();
            let priority = |text: &str| text.parse().ok().filter(|priority| *priority < 8_u8);
            Some(match rest {
                ["mtu"] => Fact::Mtu { interface, bytes: value.parse().ok()? },
                ["address"] => Fact::Address { interface, mac: value.to_lowercase() },
                ["speed"] => Fact::Speed { interface, mbps: value.parse().ok()? },
                ["ecn", "roce_np", "enable", at] => {
                    Fact::Notifies { interface, priority: priority(at)?, on: value == "1" }
                }
                ["ecn", "roce_rp", "enable", at] => {
                    Fact::Reacts { interface, priority: priority(at)?, on: value == "1" }
                }
                ["ecn", "roce_np", "cnp_dscp"] => {
                    let dscp = value.parse().ok().filter(|dscp| *dscp < 64_u8)?;
                    Fact::CnpDscp { interface, dscp }
                }
                _ => return None,
            })
        }
        _ => None,
    }
}

/// The facts of a text of `PATH:VALUE` lines, and whether any line was one.
pub(in crate::doctor) fn read(text: &str) -> (Vec<Said<Fact>>, bool) {
    let mut facts = Vec::new();
    let mut any = false;
    for (number, line) in text.lines().enumerate() {
        let Some(at) = line.find("sys/").filter(|&at| at <= 1) else { continue };
        let Some((path, value)) = line[at..].split_once(':') else { continue };
        any = true;
        facts.extend(fact(path, value).map(|value| Said { value, line: number + 1 }));
    }
    (facts, any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_grep_are_facts() {
        let text = "\
/sys/class/infiniband/mlx5_0/ports/1/gids/3:0000:0000:0000:0000:0000:ffff:c0a8:0102
/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3:RoCE v2
/sys/class/infiniband/mlx5_0/tc/1/traffic_class:Global tclass=106
/sys/class/net/eth2/mtu:9000
/sys/class/net/eth2/ecn/roce_np/cnp_dscp:48
/sys/class/net/eth2/ecn/roce_np/enable/3:1
/sys/class/net/eth2/ecn/roce_np/enable/9:1
/sys/class/infiniband/rxe0/hw_counters/sent_pkts:12
";
        let (facts, any) = read(text);
        assert!(any);
        let facts: Vec<Fact> = facts.into_iter().map(|said| said.value).collect();
        let device = || "mlx5_0".to_owned();
        let interface = || "eth2".to_owned();
        let value = "0000:0000:0000:0000:0000:ffff:c0a8:0102".to_owned();
        assert_eq!(
            facts,
            [
                Fact::Gid { device: device(), index: 3, value },
                Fact::GidType { device: device(), index: 3, value: "RoCE v2".into() },
                Fact::TrafficClass { device: device(), value: 106 },
                Fact::Mtu { interface: interface(), bytes: 9000 },
                Fact::CnpDscp { interface: interface(), dscp: 48 },
                Fact::Notifies { interface: interface(), priority: 3, on: true },
            ]
        );
        assert!(!read("hello: world\n").1);
    }
}
