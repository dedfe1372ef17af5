//! `[topology]`.

use std::collections::BTreeMap;

use super::{At, Result, tables};
use crate::limits::{ALL_PORTS_MAX, CABLE_M_MAX, HOSTS_MAX, PORTS_MAX, SWITCHES_MAX};
use crate::link::propagation;
use crate::topology::{
    Cables, ClosShape, End, StaticRoute, Topology, back_to_back, clos, fat_tree, leaf_spine,
    parking_lot, single_switch,
};
use tables::Shape;

/// The most of anything that a shape is given.
const SIZE_MAX: u32 = 1 << 16;

pub(super) fn topology(at: &At<'_, tables::Topology>) -> Result<Topology> {
    let table = at.table;
    let (why, keys): (&str, &[&str]) = match table.shape {
        Shape::BackToBack => ("shape \"back-to-back\"", &[]),
        Shape::SingleSwitch => ("shape \"single-switch\"", &["hosts"]),
        Shape::LeafSpine => ("shape \"leaf-spine\"", &["leaves", "spines", "hosts"]),
        Shape::Clos => ("shape \"clos\"", &["podsets", "tors", "leaves", "spines", "hosts"]),
        Shape::FatTree => ("shape \"fat-tree\"", &["k"]),
        Shape::ParkingLot => ("shape \"parking-lot\"", &["switches"]),
        Shape::Links => ("shape \"links\"", &[]),
    };
    let sizes = [
        ("hosts", table.hosts),
        ("leaves", table.leaves),
        ("spines", table.spines),
        ("podsets", table.podsets),
        ("tors", table.tors),
        ("switches", table.switches),
        ("k", table.k),
    ];
    for (key, value) in sizes {
        if keys.contains(&key) {
            let size = at.need(key, value, why)?;
            if size == 0 || size > SIZE_MAX {
                let message = format!("{size} is not from 1 to {SIZE_MAX}");
                return Err(at
                    .wrong(key, message)
                    .hint("large networks are of layers: shape = \"clos\", for instance"));
            }
        } else if value.is_some() {
            let all: Vec<&str> = keys.iter().copied().chain(["rate_gbps", "cable_m"]).collect();
            let hint = format!("its keys are {}", all.join(", "));
            return Err(at.wrong(key, format!("{why} does not have it")).hint(hint));
        }
    }
    let of_layers = matches!(table.shape, Shape::LeafSpine | Shape::Clos);
    let of_links = matches!(table.shape, Shape::Links);
    let others = [
        ("uplink_rate_gbps", table.uplink_rate_gbps.is_some(), of_layers),
        ("uplink_cable_m", table.uplink_cable_m.is_some(), of_layers),
        ("spine_cable_m", table.spine_cable_m.is_some(), table.shape == Shape::Clos),
        ("switch", !table.switch.is_empty(), of_links),
        ("host", !table.host.is_empty(), of_links),
        ("link", !table.link.is_empty(), of_links),
        ("route", !table.route.is_empty(), of_links),
    ];
    if let Some((key, ..)) = others.iter().find(|(_, there, known)| *there && !known) {
        return Err(at.wrong(key, format!("{why} does not have it")).hint("remove it"));
    }
    let size = |value: Option<u32>| value.unwrap_or(0);
    let rate = at.rate("rate_gbps", at.need("rate_gbps", table.rate_gbps, why)?)?;
    let up_rate = match table.uplink_rate_gbps {
        Some(gbps) => at.rate("uplink_rate_gbps", gbps)?,
        None => rate,
    };
    let lengths = [
        ("cable_m", table.cable_m),
        ("uplink_cable_m", table.uplink_cable_m),
        ("spine_cable_m", table.spine_cable_m),
    ];
    for (key, metres) in lengths {
        check_length(at, key, metres)?;
    }
    let cable = table.cable_m.unwrap_or(2);
    let uplink = table.uplink_cable_m.unwrap_or(cable);
    let down = Cables::new(rate, cable);
    let up = Cables::new(up_rate, uplink);
    let top = Cables::new(up_rate, table.spine_cable_m.unwrap_or(uplink));
    check_sizes(at)?;
    Ok(match table.shape {
        Shape::BackToBack => back_to_back(down),
        Shape::SingleSwitch => single_switch(size(table.hosts), down),
        Shape::LeafSpine => {
            leaf_spine(size(table.leaves), size(table.spines), size(table.hosts), down, up)
        }
        Shape::Clos => {
            let (leaves, spines) = (size(table.leaves), size(table.spines));
            if !spines.is_multiple_of(leaves) {
                let message = format!("{spines} spines cannot be dealt out to {leaves} leaves");
                return Err(at.wrong("spines", message).hint("make it a multiple of leaves"));
            }
            clos(&ClosShape {
                podsets: size(table.podsets),
                tors: size(table.tors),
                leaves,
                spines,
                hosts: size(table.hosts),
                host_cables: down,
                tor_cables: up,
                spine_cables: top,
            })
        }
        Shape::FatTree => {
            let k = size(table.k);
            if k < 2 || k % 2 != 0 || k > 128 {
                return Err(at
                    .wrong("k", format!("{k} is no even number from 2 to 128"))
                    .hint("k is the number of ports of every switch"));
            }
            fat_tree(k, down)
        }
        Shape::ParkingLot => parking_lot(size(table.switches), down),
        Shape::Links => links(at, down)?,
    })
}

fn check_length<T>(at: &At<'_, T>, key: &str, metres: Option<u32>) -> Result<()> {
    match metres.filter(|&metres| metres > CABLE_M_MAX) {
        Some(metres) => Err(at
            .wrong(key, format!("{metres} m is more than once around the earth"))
            .hint("the unit is metres")),
        None => Ok(()),
    }
}

/// Refuses what there is no room for, before anything of it is made.
fn check_sizes(at: &At<'_, tables::Topology>) -> Result<()> {
    let table = at.table;
    let size = |value: Option<u32>| u64::from(value.unwrap_or(0));
    let (hosts, leaves, spines) = (size(table.hosts), size(table.leaves), size(table.spines));
    let (podsets, tors) = (size(table.podsets), size(table.tors));
    // Hosts, switches, links, and the ports of the largest switch.
    let sums = match table.shape {
        Shape::SingleSwitch => [hosts, 1, hosts, hosts],
        Shape::LeafSpine => [
            leaves * hosts,
            leaves + spines,
            leaves * hosts + leaves * spines,
            (hosts + spines).max(leaves),
        ],
        Shape::Clos => {
            let racks = podsets * tors;
            let each = spines / leaves.max(1);
            [
                racks.saturating_mul(hosts),
                podsets * (tors + leaves) + spines,
                racks.saturating_mul(hosts + leaves).saturating_add(podsets * spines),
                (hosts + leaves).max(tors + each).max(podsets),
            ]
        }
        Shape::BackToBack | Shape::FatTree | Shape::ParkingLot | Shape::Links => return Ok(()),
    };
    let most = [
        ("hosts", HOSTS_MAX),
        ("switches", SWITCHES_MAX),
        ("links", ALL_PORTS_MAX / 2),
        ("ports of one switch", PORTS_MAX),
    ];
    for (sum, (what, most)) in sums.into_iter().zip(most) {
        if sum > most as u64 {
            let message = format!("these are {sum} {what}, and there is room for {most}");
            return Err(at.wrong("shape", message).hint("make one of the sizes smaller"));
        }
    }
    Ok(())
}

fn links(at: &At<'_, tables::Topology>, cables: Cables) -> Result<Topology> {
    let mut topology = Topology::default();
    let mut ends: BTreeMap<&str, End> = BTreeMap::new();
    let mut name = |key: &str, name, end| match ends.insert(name, end) {
        Some(_) => Err(at
            .wrong(key, format!("{name:?} is there twice"))
            .hint("hosts and switches have names of their own")),
        None => Ok(()),
    };
    for switch in &at.table.switch {
        let index = topology.add_switch(switch.name.clone(), switch.tier);
        name("switch", switch.name.as_str(), End::Switch(index))?;
    }
    for host in &at.table.host {
        let index = topology.add_host(host.clone());
        name("host", host.as_str(), End::Host(index))?;
    }
    let mut ports: BTreeMap<u32, usize> = BTreeMap::new();
    for link in &at.table.link {
        let at = At::new(at.text, "topology.link", link);
        let end = |key: &str, name: &str| {
            let missing = || {
                at.wrong(key, format!("there is no host or switch {name:?}"))
                    .hint("add it to switch or host, or change the link")
            };
            ends.get(name).copied().ok_or_else(missing)
        };
        let (from, to) = (end("from", &at.table.from)?, end("to", &at.table.to)?);
        if from == to {
            return Err(at
                .wrong("to", format!("{:?} is at both ends", at.table.to))
                .hint("a link is between two nodes"));
        }
        for end in [from, to] {
            if let End::Host(host) = end {
                *ports.entry(host).or_default() += 1;
            }
        }
        let own = match at.table.rate_gbps {
            Some(gbps) => at.rate("rate_gbps", gbps)?,
            None => cables.rate,
        };
        check_length(&at, "cable_m", at.table.cable_m)?;
        let length = at.table.cable_m.map_or(cables.propagation, propagation);
        topology.link(from, to, own, length);
    }
    for (index, host) in at.table.host.iter().enumerate() {
        let links = ports.get(&(index as u32)).copied().unwrap_or(0);
        if links != 1 {
            let message = format!("host {host:?} has {links} links, and one port");
            return Err(at.wrong("host", message).hint("give it one link, to a switch or a host"));
        }
    }
    for route in &at.table.route {
        let at = At::new(at.text, "topology.route", route);
        let switch = |key: &str, name: &str| match topology.find(name) {
            Some(End::Switch(index)) => Ok(index),
            _ => Err(at
                .wrong(key, format!("there is no switch {name:?}"))
                .hint("a route is from a switch to another, by switches between them")),
        };
        let via = at.table.via.iter().map(|name| switch("via", name)).collect::<Result<_>>()?;
        let route =
            StaticRoute { at: switch("at", &at.table.at)?, to: switch("to", &at.table.to)?, via };
        topology.routes.push(route);
    }
    Ok(topology)
}
