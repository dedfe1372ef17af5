//! What a scenario means: tables to a [`NetworkConfig`]. One file a group of tables.

mod fault;
mod nic;
mod switch;
mod topology;
mod workload;

use rdma::{Rate, Span, Time};
use toml::Spanned;

use super::{Scenario, ScenarioError, tables};
use crate::NetworkConfig;
use crate::random::Random;
use crate::topology::{End, Topology};

use fault::fault;
use nic::nic;
use switch::{lossless, switch};
use topology::topology;
use workload::workload;

type Result<T> = core::result::Result<T, ScenarioError>;

/// A table and where it begins.
struct At<'a, T> {
    text: &'a str,
    name: &'static str,
    start: usize,
    table: &'a T,
}

impl<'a, T> At<'a, T> {
    fn new(text: &'a str, name: &'static str, table: &'a Spanned<T>) -> Self {
        Self { text, name, start: table.span().start, table: table.get_ref() }
    }

    fn wrong(&self, key: &str, message: impl Into<String>) -> ScenarioError {
        ScenarioError::at_key(self.text, self.start, self.name, key, message)
    }

    /// A value that the rest of the table makes necessary.
    fn need<V>(&self, key: &str, value: Option<V>, why: &str) -> Result<V> {
        value.ok_or_else(|| self.wrong(key, format!("{why} needs it")))
    }
}

pub(super) fn scenario(text: &str, file: tables::File, seed: Option<u64>) -> Result<Scenario> {
    let topology = topology(&At::new(text, "topology", &file.topology))?;
    let mut config = NetworkConfig::new(topology);
    config.seed = seed.or(file.seed).unwrap_or(1);
    config.paranoid = file.paranoid.unwrap_or(false);
    config.share_queue_pairs = file.share_queue_pairs.unwrap_or(false);
    if let Some(every) = file.deadlock_check_us {
        config.deadlock_check = (every > 0.0).then(|| span_us(every));
    }
    if let Some(table) = &file.switch {
        config.switch = switch(&At::new(text, "switch", table), &config.switch)?;
    }
    for (name, table) in &file.switches {
        let at = At::new(text, "switches", table);
        let Some(End::Switch(index)) = config.topology.find(name) else {
            return Err(at.wrong(name, format!("there is no switch {name:?}")));
        };
        config.switches.insert(index, switch(&at, &config.switch)?);
    }
    if let Some(table) = &file.nic {
        config.nic = nic(&At::new(text, "nic", table), &config)?;
    }
    config.nic.lossless_priorities = lossless(&config.switch);
    for (name, table) in &file.nics {
        let at = At::new(text, "nics", table);
        let Some(End::Host(index)) = config.topology.find(name) else {
            return Err(at.wrong(name, format!("there is no host {name:?}")));
        };
        config.nics.insert(index, nic(&at, &config)?);
    }
    let end = Time::ZERO + span_us(file.end_ms * 1_000.0);
    let mut random = Random::new(config.seed ^ 0x5eed);
    for table in &file.workload {
        let at = At::new(text, "workload", table);
        let flows = workload(&at, &config.topology, end, &mut random)?;
        config.flows.extend(flows);
    }
    for table in &file.fault {
        let fault = fault(&At::new(text, "fault", table), &config.topology)?;
        config.faults.push(fault);
    }
    let title = file.title.unwrap_or_else(|| "untitled".to_owned());
    Ok(Scenario { title, network: config, end })
}

fn span_us(us: f64) -> Span {
    Span::from_ps((us * 1e6).max(0.0) as u64)
}

fn rate(gbps: f64) -> Rate {
    Rate::from_bps((gbps * 1e9).max(0.0) as u64)
}

fn host<T>(at: &At<'_, T>, topology: &Topology, key: &str, name: &str) -> Result<u32> {
    match topology.find(name) {
        Some(End::Host(index)) => Ok(index),
        _ => {
            let error = at.wrong(key, format!("there is no host {name:?}"));
            Err(match topology.hosts.as_slice() {
                [first, .., last] => error.hint(format!("hosts are {first} to {last}")),
                _ => error,
            })
        }
    }
}
