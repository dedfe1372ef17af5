//! Switches of one role that share their buffers differently: FD007, the incident of guo16, 6.2.

use std::collections::BTreeMap;

use fabric::switch::config::{Threshold, alpha_of};

use super::{Look, alike};
use crate::doctor::cluster::{Node, Part, Switch};
use crate::doctor::finding::{Finding, Place, Rule, several};
use crate::doctor::shell::typed;

/// How a switch gives buffer to a lossless group: at ports towards hosts, and at the others.
type Share = (u8, bool, Vec<Threshold>);
/// A switch with what it has, what most have, the group, and how many those are.
type Odd<'a> = (&'a Switch, Vec<Threshold>, Vec<Threshold>, u8, usize);

pub(super) fn check(look: Look<'_>, findings: &mut Vec<Finding>) {
    let mut roles: BTreeMap<&str, Vec<(usize, &Switch)>> = BTreeMap::new();
    for (index, switch) in look.cluster.switches.iter().enumerate() {
        // Where the desired alpha is known, the difference from it is the finding.
        let said = look.is_desired(switch, |settings| settings.alpha.is_some());
        if !switch.role.is_empty() && !said {
            roles.entry(&switch.role).or_default().push((index, switch));
        }
    }
    for (role, switches) in roles {
        let shares = switches.iter().flat_map(|&(index, switch)| {
            shares(look, index, switch)
                .into_iter()
                .map(move |(group, serves, at)| ((group, serves), (at, switch)))
        });
        let mut odd: Vec<Odd<'_>> = Vec::new();
        for ((group, _), of) in alike(shares) {
            let mut ways = alike(of);
            // The larger part is right, or the larger alpha where parts are alike.
            ways.sort_by_key(|(at, who)| {
                (core::cmp::Reverse(who.len()), core::cmp::Reverse(rank(at)))
            });
            let Some(((usual, many), others)) = ways.split_first() else { continue };
            for (at, who) in others {
                for switch in who {
                    let known =
                        odd.iter().any(|(other, own, ..)| other.name == switch.name && own == at);
                    if !known {
                        odd.push((switch, at.clone(), usual.clone(), group, many.len()));
                    }
                }
            }
        }
        for (switch, own, usual, group, many) in odd {
            let place = place(switch, group, &own);
            let text = format!(
                "its lossless group {group} has {}; {} of role {role} {} {}.",
                words(&own),
                match many {
                    1 => "the other one".to_owned(),
                    _ => format!("{many} others"),
                },
                if many == 1 { "has" } else { "have" },
                words(&usual)
            );
            let mut finding = Finding::new(Rule::AlphaDiffers, &switch.name, text)
                .key(
                    place
                        .as_ref()
                        .map_or(String::new(), |(key, ..)| format!("BUFFER_PROFILE|{key}")),
                )
                .remedy(
                    "give it the alpha of its peers, or say in desired.toml that its type differs",
                );
            if let (Some((key, at)), Some(Threshold::Dynamic { exponent })) = (place, usual.first())
            {
                let command = typed!("sudo mmuconfig -p", key, "-a", exponent);
                finding = finding.command(command).at(at);
            }
            findings.push(finding);
        }
    }
}

fn rank(all: &[Threshold]) -> i64 {
    all.iter()
        .map(|at| match at {
            Threshold::Dynamic { exponent } => i64::from(*exponent),
            Threshold::Static { bytes } => i64::from(*bytes),
        })
        .max()
        .unwrap_or(0)
}

fn shares(look: Look<'_>, index: usize, switch: &Switch) -> Vec<Share> {
    let mut all: BTreeMap<(u8, bool), Vec<Threshold>> = BTreeMap::new();
    for (port, qos) in switch.judged().filter(|(_, qos)| qos.knows(Part::Buffers)) {
        let peer = look.cluster.peer(Node::Switch(index), &port.name);
        let serves = peer.is_some_and(|end| matches!(end.node, Node::Host(_)));
        for group in qos.lossless() {
            // Without a BUFFER_PG, or with one of a lossy profile, it has no share of its own; FD003 says that.
            let without = switch.numbered("BUFFER_PG", &port.name, group).is_none();
            if without || qos.group_config(group).headroom_bytes == Some(0) {
                continue;
            }
            let at = all.entry((group, serves)).or_default();
            let own = qos.group_config(group).threshold;
            if !at.contains(&own) {
                at.push(own);
            }
        }
    }
    all.into_iter().map(|((group, serves), at)| (group, serves, at)).collect()
}

/// "alpha 1/64 (dynamic_th -6)".
pub(super) fn words(all: &[Threshold]) -> String {
    let of = |at: &Threshold| match at {
        Threshold::Dynamic { exponent } => {
            format!("alpha {} (dynamic_th {exponent})", alpha_of(*exponent))
        }
        Threshold::Static { bytes } => {
            format!("a limit of {} bytes", super::bytes(u64::from(*bytes)))
        }
    };
    let said: Vec<String> = all.iter().map(of).collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    several(&said)
}

/// The profile that gives a group such a share, and the line that says so.
pub(super) fn place(switch: &Switch, group: u8, own: &[Threshold]) -> Option<(String, Place)> {
    for (port, qos) in switch.judged().filter(|(_, qos)| qos.knows(Part::Buffers)) {
        let has = qos.group_config(group);
        if !has.lossless || !own.contains(&has.threshold) {
            continue;
        }
        let (_, profile) = switch.buffer("BUFFER_PG", &port.name, group)?;
        let field = profile.field("dynamic_th").or_else(|| profile.field("static_th"));
        let line = field.map_or(profile.line, |field| field.line);
        return Some((profile.key.clone(), switch.place(line)));
    }
    None
}
