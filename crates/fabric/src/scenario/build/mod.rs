//! What a scenario means: tables to a [`NetworkConfig`]. One file a group of tables.

mod capture;
mod fault;
mod files;
mod kinds;
mod nic;
mod sizes;
mod switch;
mod topology;
mod workload;

use rdma::{Rate, Span, Time};
use toml::Spanned;

use super::error::{place_of, plain, unit_hint};
use super::origin::{Origin, Place};
use super::{Files, Note, Scenario, ScenarioError, tables};
use crate::NetworkConfig;
use crate::limits::{RATE_GBPS_MAX, SECONDS_MAX};
use crate::nic::NicConfig;
use crate::random::Random;
use crate::topology::{End, Topology};

use capture::capture;
use fault::fault;
use files::{all_from_config_db, one_from_config_db};
use nic::nic;
use switch::{lossless, switch};
use topology::topology;
use workload::workload;

/// Microseconds of a microsecond.
const US: f64 = 1.0;
/// Microseconds of a millisecond.
const MS: f64 = 1_000.0;
/// Microseconds of a nanosecond.
const NS: f64 = 0.001;

type Result<T> = core::result::Result<T, ScenarioError>;

/// A table and where it begins.
struct At<'a, T> {
    text: &'a str,
    name: &'a str,
    start: usize,
    table: &'a T,
}

impl<'a, T> At<'a, T> {
    fn new(text: &'a str, name: &'a str, table: &'a Spanned<T>) -> Self {
        Self { text, name, start: table.span().start, table: table.get_ref() }
    }

    /// The name of a table in this one.
    fn under(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    fn wrong(&self, key: &str, message: impl Into<String>) -> ScenarioError {
        ScenarioError::at_place(&self.place(key), message)
    }

    fn place(&self, key: &str) -> Place {
        place_of(self.text, self.start, self.name, key)
    }

    /// A time of `value` units of `unit_us` microseconds.
    fn span(&self, key: &str, value: f64, unit_us: f64) -> Result<Span> {
        let us = value * unit_us;
        if (0.0..=SECONDS_MAX * 1e6).contains(&us) {
            return Ok(Span::from_ps((us * 1e6) as u64));
        }
        let most = SECONDS_MAX * 1e6 / unit_us;
        Err(self
            .wrong(key, format!("{} is not a time from 0 to {}", plain(value), plain(most)))
            .hint(unit_hint(key)))
    }

    /// The same for times that may be left out.
    fn span_of(&self, key: &str, value: Option<f64>, unit_us: f64) -> Result<Option<Span>> {
        value.map(|value| self.span(key, value, unit_us)).transpose()
    }

    /// A rate, above zero.
    fn rate(&self, key: &str, gbps: f64) -> Result<Rate> {
        if gbps > 0.0 && gbps <= RATE_GBPS_MAX && gbps * 1e9 >= 1.0 {
            return Ok(Rate::from_bps((gbps * 1e9) as u64));
        }
        let message =
            format!("{} is not a rate above 0, of at most {RATE_GBPS_MAX} Gb/s", plain(gbps));
        Err(self.wrong(key, message).hint(unit_hint(key)))
    }

    /// The text of a file that the table names.
    fn open(&self, key: &str, name: &str, files: &Files<'_>) -> Result<String> {
        files(name).map_err(|error| {
            self.wrong(key, format!("cannot read {name:?}: {error}"))
                .hint("the path is relative to the scenario")
        })
    }

    /// A value that the rest of the table makes necessary.
    fn need<V>(&self, key: &str, value: Option<V>, why: &str) -> Result<V> {
        value.ok_or_else(|| {
            self.wrong(key, format!("{why} needs it")).hint(format!("add {key} to this table"))
        })
    }
}

pub(super) fn scenario(
    text: &str,
    file: tables::File,
    seed: Option<u64>,
    files: &Files<'_>,
) -> Result<Scenario> {
    let at = At::new(text, "topology", &file.topology);
    let topology = topology(&at)?;
    let mut origin = Origin { topology: at.place("shape"), ..Origin::default() };
    let mut config = NetworkConfig::new(topology);
    config.seed = seed.or(file.seed).unwrap_or(1);
    config.paranoid = file.paranoid.unwrap_or(false);
    config.share_queue_pairs = file.share_queue_pairs.unwrap_or(false);
    let whole = At { text, name: "", start: 0, table: &() };
    if let Some(every) = whole.span_of("deadlock_check_us", file.deadlock_check_us, US)? {
        config.deadlock_check = (every > Span::ZERO).then_some(every);
    }
    config.reroute = whole.span_of("reroute_us", file.reroute_us, US)?;
    let mut notes = Vec::new();
    if let Some(table) = &file.switch {
        let at = At::new(text, "switch", table);
        origin.switch = Some(buffer_of(&at));
        match &table.get_ref().config_db {
            Some(_) => all_from_config_db(&at, &mut config, files, &mut notes)?,
            None => config.switch = switch(&at, &config.switch)?,
        }
    }
    for (name, table) in &file.switches {
        let path = format!("switches.{name}");
        let at = At::new(text, &path, table);
        let Some(End::Switch(index)) = config.topology.find(name) else {
            return Err(missing(&at, "switch", name, |index| {
                config.topology.switches.get(index).map(|switch| switch.name.as_str())
            }));
        };
        let own = match &table.get_ref().config_db {
            Some(_) => one_from_config_db(&at, &config, index, files, &mut notes)?,
            None => switch(&at, config.switches.get(&index).unwrap_or(&config.switch))?,
        };
        config.switches.insert(index, own);
        origin.switches.insert(name.clone(), buffer_of(&at));
    }
    if let Some(table) = &file.nic {
        config.nic = nic(&At::new(text, "nic", table), &config)?;
    }
    config.nic.lossless_priorities = lossless(&config.switch);
    for (name, table) in &file.nics {
        let path = format!("nics.{name}");
        let at = At::new(text, &path, table);
        let Some(End::Host(index)) = config.topology.find(name) else {
            return Err(missing(&at, "host", name, |index| {
                config.topology.hosts.get(index).map(String::as_str)
            }));
        };
        config.nics.insert(index, nic(&at, &config)?);
    }
    let end = Time::ZERO + whole.span("end_ms", file.end_ms, MS)?;
    let mut random = Random::new(config.seed ^ 0x5eed);
    for table in &file.workload {
        let at = At::new(text, "workload", table);
        origin.workloads.push((config.flows.len(), at.place("kind")));
        let flows = workload(&at, &config.topology, end, &mut random, files)?;
        config.flows.extend(flows);
    }
    for table in &file.fault {
        config.faults.extend(fault(&At::new(text, "fault", table), &config.topology)?);
    }
    for table in &file.capture {
        let capture = capture(&At::new(text, "capture", table), &config.topology)?;
        config.captures.push(capture);
    }
    let title = file.title.unwrap_or_else(|| "untitled".to_owned());
    lossless_of_racks(&mut config);
    notes.sort();
    notes.dedup();
    notes.sort_by_key(|note: &Note| !note.warning);
    let sample_interval = whole.span_of("sample_us", file.sample_us, US)?;
    if sample_interval == Some(Span::ZERO) {
        let wrong = whole.wrong("sample_us", "samples are some time apart");
        return Err(wrong.hint("leave it out for as many as a report needs"));
    }
    Ok(Scenario { title, network: config, end, notes, sample_interval, origin })
}

/// The key to which a switch owes what its ports reserve.
fn buffer_of(at: &At<'_, tables::Switch>) -> Place {
    let table = at.table;
    let keys = [
        ("headroom_bytes", table.headroom_bytes.is_some()),
        ("reserve_bytes", table.reserve_bytes.is_some()),
        ("buffer_bytes", table.buffer_bytes.is_some()),
        ("config_db", table.config_db.is_some()),
    ];
    at.place(keys.iter().find(|(_, there)| *there).map_or("buffer_bytes", |(key, _)| key))
}

/// A NIC pauses what the switch at the other end of its link pauses.
fn lossless_of_racks(config: &mut NetworkConfig) {
    if config.switches.is_empty() {
        return;
    }
    for link in &config.topology.links {
        let (host, own) = match link.ends {
            [End::Host(host), End::Switch(index)] | [End::Switch(index), End::Host(host)] => {
                (host, config.switches.get(&index))
            }
            _ => continue,
        };
        let Some(own) = own else { continue };
        let mask = lossless(own);
        let nic = config.nics.get(&host).unwrap_or(&config.nic);
        if nic.lossless_priorities != mask {
            let nic = NicConfig { lossless_priorities: mask, ..nic.clone() };
            config.nics.insert(host, nic);
        }
    }
}

/// A table about a node that is not there. `known` has the names of those that are.
fn missing<'a, T>(
    at: &At<'_, T>,
    what: &str,
    name: &str,
    known: impl Fn(usize) -> Option<&'a str>,
) -> ScenarioError {
    let place = Place { line: at.place("").line, key: at.name.to_owned() };
    let names: Vec<&str> = (0..4).map_while(&known).collect();
    let more = if known(names.len()).is_some() { ", ..." } else { "" };
    let error = ScenarioError::at_place(&place, format!("there is no {what} {name:?}"));
    match names.as_slice() {
        [] => error.hint("remove the table"),
        names => error.hint(format!("names are {}{more}", names.join(", "))),
    }
}

fn host<T>(at: &At<'_, T>, topology: &Topology, key: &str, name: &str) -> Result<u32> {
    match topology.find(name) {
        Some(End::Host(index)) => Ok(index),
        _ => {
            let error = at.wrong(key, format!("there is no host {name:?}"));
            Err(match topology.hosts.as_slice() {
                [first, .., last] => error.hint(format!("hosts are {first} to {last}")),
                _ => error.hint("hosts are those of the topology"),
            })
        }
    }
}
