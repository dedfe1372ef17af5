//! Headroom by cable, rate and MTU: FD003.
//!
//! ```text
//!   error     less than arrives between XOFF and the last packet of a peer that obeys in 60 quanta
//!   warning   less than SONiC's formula, whose peer obeys as late as its document lets it
//! ```

use fabric::pfc::PfcConfig;
use fabric::switch::{Cell, Frames, SONIC_MTU_BYTES, headroom_bytes, sonic_headroom_bytes};
use fabric::topology::propagation;
use rdma::Span;

use super::marks::{is_tiny, marks, of_pool};
use super::{Look, alike, bytes};
use crate::doctor::cluster::{Part, Port, Switch};
use crate::doctor::finding::{Finding, Rule, Severity, several};
use crate::doctor::shell::typed;

/// Ethernet, VLAN, IPv4, UDP, BTH, RETH, ICRC and FCS around a payload.
const HEADERS: u32 = 14 + 4 + 20 + 8 + 12 + 16 + 4 + 4;

/// What a port needs: what is certain to come, and what SONiC's formula says, for a rate that it names.
pub(in crate::doctor) fn needed(port: &Port, lossless_mtu: u32) -> Option<(u64, Option<u64>)> {
    let (rate, metres) = (port.rate?, port.cable_m?);
    let frames = Frames { longest_bytes: lossless_mtu.saturating_add(HEADERS), cell: Cell::BYTE };
    let cable = propagation(metres);
    let least = headroom_bytes(rate, cable, Span::ZERO, frames, &PfcConfig::default());
    let mtu = port.mtu.unwrap_or(SONIC_MTU_BYTES);
    Some((u64::from(least), sonic_headroom_bytes(rate, cable, mtu, lossless_mtu)))
}

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    for switch in &look.cluster.switches {
        small(switch, look.traffic.lossless_mtu, findings);
        early(look, switch, findings);
    }
}

/// Groups that let go as soon as they have paused: `xon` is above what one of them holds at XOFF.
fn early(look: Look<'_>, switch: &Switch, findings: &mut Vec<Finding>) {
    let Some(shared) = switch.shared_bytes else { return };
    let mut found = Vec::new();
    for (port, qos) in switch.judged().filter(|(_, qos)| qos.knows(Part::Buffers)) {
        for group in qos.lossless() {
            let own = qos.group_config(group);
            let (xon, xoff) = (u64::from(own.xon_bytes), own.threshold.xoff_bytes(shared, 1));
            let profile = switch.buffer("BUFFER_PG", &port.name, group);
            let Some((_, profile)) = profile.filter(|_| xon > xoff) else { continue };
            // A pool of nothing is what FD006 says, where a queue marks.
            if is_tiny(look, xoff) && marks(switch) {
                continue;
            }
            let of = (port.name.as_str(), profile, group);
            found.push(((profile.key.as_str(), xon, xoff), of));
        }
    }
    for ((name, xon, xoff), of) in alike(found) {
        let mut ports: Vec<&str> = of.iter().map(|(port, ..)| *port).collect();
        ports.dedup();
        let (port, profile, group) = of[0];
        let text = format!(
            "profile {name} of {} lets go (xon) at {} bytes, and one sender is paused at {} of {} \
             shared: a pause ends at once, and what goes on arriving fills the headroom.",
            several(&ports),
            bytes(xon),
            bytes(xoff),
            bytes(shared)
        );
        let line = profile.field("xon").map_or(profile.line, |field| field.line);
        let finding = Finding::new(Rule::Headroom, &switch.name, text).severity(Severity::Warning);
        if is_tiny(look, xoff) {
            findings.push(of_pool(look, switch, (port, group), finding));
            continue;
        }
        findings.push(
            finding
                .key(profile.place())
                .remedy("let go below the level at which it pauses")
                .command(typed!("sudo config buffer profile set", name, "--xon", xoff / 2))
                .at(switch.place(line)),
        );
    }
}

fn small(switch: &Switch, lossless_mtu: u32, findings: &mut Vec<Finding>) {
    let mut found = Vec::new();
    for (port, qos) in switch.judged().filter(|(_, qos)| qos.knows(Part::Buffers)) {
        for group in qos.lossless() {
            // Without a number the switch computes it, and so do we.
            let Some(own) = qos.group_config(group).headroom_bytes.map(u64::from) else { continue };
            let entry = switch.numbered("BUFFER_PG", &port.name, group);
            if own == 0 {
                let why = match entry {
                    None => "there is no BUFFER_PG for it",
                    Some(_) => "its profile has no xoff",
                };
                let key = (Severity::Error, format!("has no headroom: {why}"), 0, None);
                found.push((key, (port, group, entry)));
                continue;
            }
            let Some((least, sonic)) = needed(port, lossless_mtu) else { continue };
            let wanted = sonic.unwrap_or(least).max(least);
            if own >= wanted {
                continue;
            }
            let (rate, metres) = (port.rate.unwrap_or_default(), port.cable_m.unwrap_or_default());
            let mtu = port.mtu.unwrap_or(SONIC_MTU_BYTES);
            let of = format!("{} over {metres} m with MTU {mtu}", gbps(rate));
            let (severity, words) = match own < least {
                true => (
                    Severity::Error,
                    format!(
                        "has an xoff of {} bytes, and {} arrive after XOFF at {of}",
                        bytes(own),
                        bytes(least)
                    ),
                ),
                false => (
                    Severity::Warning,
                    format!(
                        "has an xoff of {} bytes; SONiC's formula says {} at {of}",
                        bytes(own),
                        bytes(wanted)
                    ),
                ),
            };
            found.push(((severity, words, wanted, sonic), (port, group, entry)));
        }
    }
    for ((severity, words, wanted, _), of) in alike(found) {
        let mut names: Vec<&str> = of.iter().map(|(port, ..)| port.name.as_str()).collect();
        names.dedup();
        let mut groups: Vec<u8> = of.iter().map(|(_, group, _)| *group).collect();
        groups.sort_unstable();
        groups.dedup();
        let numbers: Vec<String> = groups.iter().map(u8::to_string).collect();
        let what = if groups.len() == 1 { "group" } else { "each of groups" };
        let text = format!("{what} {} of {} {words}.", numbers.join(", "), several(&names));
        let entry = of[0].2;
        let profile = entry.and_then(|entry| entry.field("profile"));
        let referred = profile.and_then(|field| switch.referred(field, "BUFFER_PROFILE"));
        let xoff = referred.and_then(|profile| profile.field("xoff"));
        let pfc = switch.qos_field(names[0], "pfc_enable").map(|(_, field)| field.line);
        let line = xoff
            .map(|field| field.line)
            .or_else(|| referred.map(|entry| entry.line))
            .or_else(|| entry.map(|entry| entry.line))
            .or(pfc)
            .unwrap_or(1);
        let group = groups[0];
        let mut finding = Finding::new(Rule::Headroom, &switch.name, text)
            .severity(severity)
            .key(match referred {
                Some(profile) => profile.place(),
                None => format!("BUFFER_PG|{}|{group}", names[0]),
            })
            .at(switch.place(line));
        let other = xoff.and_then(|_| larger(switch, wanted));
        finding = match (referred, wanted) {
            (Some(own), 1..) if other.is_some_and(|other| other != own.key) => {
                let other = other.unwrap_or_default();
                let place = entry.map(|entry| entry.place()).unwrap_or_default();
                finding
                    .remedy(format!(
                        "give it the profile {other}, which has {} bytes or more",
                        bytes(wanted)
                    ))
                    .command(typed!("sonic-db-cli CONFIG_DB hset", place, "profile", other))
            }
            (Some(profile), 1..) => finding
                .remedy(format!("give the profile an xoff of {} bytes at least", bytes(wanted)))
                .command(typed!("sudo config buffer profile set", profile.key, "--xoff", wanted)),
            _ => finding
                .remedy("give the group a lossless profile for its rate and cable")
                .command(typed!(
                    "sudo config interface buffer priority-group lossless add",
                    names[0],
                    group
                )),
        };
        findings.push(finding);
    }
}

/// The least lossless profile that has so much headroom, if the file has one.
fn larger(switch: &Switch, wanted: u64) -> Option<&str> {
    let profiles = switch.entries("BUFFER_PROFILE").iter();
    let with = profiles.filter_map(|entry| {
        let xoff: u64 = entry.field("xoff")?.value.trim().parse().ok()?;
        (xoff >= wanted).then_some((xoff, entry.key.as_str()))
    });
    with.min().map(|(_, name)| name)
}

/// "100 Gb/s".
pub(super) fn gbps(rate: rdma::Rate) -> String {
    format!("{} Gb/s", rate.as_bps() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of SONiC's document: 9,100 + 2 x 10,000 + 57,920, and the lossless packet.
    #[test]
    fn the_document_of_sonic_computes_the_same_from_cable_rate_and_mtu() {
        let port = |gbps, metres, mtu| Port {
            name: "Ethernet0".into(),
            alias: None,
            rate: Some(rdma::Rate::from_gbps(gbps)),
            mtu: Some(mtu),
            cable_m: Some(metres),
            up: true,
            line: 1,
            qos: None,
        };
        let sonic = |gbps, metres, mtu| needed(&port(gbps, metres, mtu), 1_024).unwrap().1;
        assert_eq!(sonic(400, 40, 9_100), Some(87_020 + 1_024));
        // By hand: 9,100 + 2 x 312 (25 ns at 12.5 bytes a nanosecond) + 394 x 64 + 1,024.
        assert_eq!(sonic(100, 5, 9_100), Some(9_100 + 2 * 312 + 25_216 + 1_024));
        // A longer cable, a smaller MTU.
        assert_eq!(sonic(100, 300, 9_100), Some(9_100 + 2 * 18_750 + 25_216 + 1_024));
        assert_eq!(sonic(100, 5, 1_500), Some(1_500 + 2 * 312 + 25_216 + 1_024));
        assert_eq!(sonic(800, 5, 9_100), None);
        let (least, _) = needed(&port(800, 5, 9_100), 1_024).unwrap();
        assert!((9_000..20_000).contains(&least), "{least}");
    }
}
