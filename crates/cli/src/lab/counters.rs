//! `ferroce lab counters`: what every port of a lab has counted, and every program.

use core::fmt::Write;
use std::collections::BTreeMap;

use fabric::counters::PortCounted;
use lab::{ProgramSeen, Seen, client};
use serde_json::{Value, json};

use crate::args::LabCounters;
use crate::failure::Failure;
use crate::output::print;

pub(super) fn run(arguments: &LabCounters) -> Result<(), Failure> {
    let found = arguments.which.find()?;
    let mut seen = client::look(&found).map_err(|error| Failure::from_message(&error))?;
    if let Some(port) = &arguments.port {
        choose(&mut seen, port)?;
    }
    print(&if arguments.json { as_json(&seen) } else { as_text(&seen) })
}

/// Leaves the ports that `name` names, and the programs of that host.
fn choose(seen: &mut Seen, name: &str) -> Result<(), Failure> {
    let names = |port: &PortCounted| {
        port.node == name || format!("{}:{}", port.node, port.neighbour) == name
    };
    if !seen.ports.iter().any(names) {
        let mut nodes: Vec<&str> = seen.ports.iter().map(|port| port.node.as_str()).collect();
        nodes.dedup();
        let hint = match telemetry::nearest(name, &nodes) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("its nodes are {}", nodes.join(", ")),
        };
        return Err(Failure::new(format!("lab `{}` has no port `{name}`", seen.lab)).hint(hint));
    }
    seen.ports.retain(names);
    let hosts: Vec<&str> = seen.ports.iter().map(|port| port.node.as_str()).collect();
    seen.programs.retain(|program| hosts.contains(&program.host.as_str()));
    Ok(())
}

/// Ports and programs one after the other, without the counters that are zero.
fn as_text(seen: &Seen) -> String {
    let mut text = String::new();
    for port in &seen.ports {
        let down = if port.is_down { ", LINK DOWN" } else { "" };
        let rate = port.rate_bps as f64 / 1e9;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} to {} ({} port, {rate} Gb/s{down})",
            port.node,
            port.neighbour,
            port.kind()
        );
        write_counters(&mut text, &port.named());
    }
    for program in &seen.programs {
        let ProgramSeen { host, process, command, counters, .. } = program;
        let _ = writeln!(text, "{command} (process {process}) on {host}");
        let counters: Vec<(String, u64)> = counters.clone().into_iter().collect();
        write_counters(&mut text, &counters);
    }
    text
}

fn write_counters(text: &mut String, counters: &[(String, u64)]) {
    let counted = counters.iter().filter(|(_, value)| *value > 0);
    for (name, value) in counted.clone() {
        let _ = writeln!(text, "    {name:<58} {value:>14}");
    }
    let zero = counters.len() - counted.count();
    let _ = writeln!(text, "    {:<58} {zero:>14}", "(counters that are zero)");
}

/// Everything, on one line.
fn as_json(seen: &Seen) -> String {
    let port = |port: &PortCounted| {
        let counters: BTreeMap<String, u64> = port.named().into_iter().collect();
        let paused: Vec<u8> = (0..8).filter(|queue| port.paused >> queue & 1 != 0).collect();
        json!({
            "node": port.node,
            "neighbour": port.neighbour,
            "kind": port.kind(),
            "rate_bps": port.rate_bps,
            "is_down": port.is_down,
            "paused_queues": paused,
            "queue_bytes": port.queue_bytes,
            "counters": counters,
        })
    };
    let ports: Vec<Value> = seen.ports.iter().map(port).collect();
    let value = json!({
        "lab": seen.lab,
        "title": seen.title,
        "factor": seen.factor,
        "wall_ns": seen.wall_ns,
        "model_ps": seen.model_ps,
        "slips": seen.slips,
        "slipped_ns": seen.slipped_ns,
        "drops": seen.drops,
        "deadlocks": seen.deadlocks,
        "link_hops": seen.link_hops,
        "ports": ports,
        "programs": seen.programs,
    });
    format!("{value}\n")
}
