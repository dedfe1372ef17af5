//! What may be written in a scenario, and what it means: from tables to a [`NetworkConfig`]. Each group of
//! tables has a file.

mod capture;
mod controller;
mod custom;
mod dcqcn;
mod experiment;
mod fault;
mod files;
mod host;
mod job;
mod lab;
mod nic;
mod switch;
mod testbed;
mod theirs;
mod topology;
mod workload;

use std::collections::BTreeSet;

use rdma::{Rate, Span, Time};

use super::at::{At, Result};
use super::deferred::{Deferred, all_deferred, by_name, deferred};
use super::error::Mistakes;
use super::origin::Origin;
use super::place::Place;
use super::sonic::FileError;
use super::table::{Describe as _, Table as _, table};
use super::value::{TICK, flag, needed, or, otherwise, text, time, time_from, whole};
use super::{Files, Note, Scenario, ScenarioError, TableText, text_of};
use crate::NetworkConfig;
use crate::extend::Extensions;
use crate::model::HostConfig;
use crate::nic::NicConfig;
use crate::random::Random;
use crate::topology::{Cables, End, Topology};

use capture::{Capture, capture};
pub(super) use experiment::{experiment, experiment_reference};
use fault::{Fault, fault};
use files::{all_from_config_db, by_cables, cables, one_from_config_db};
use lab::Lab;
use nic::{Nic, nic};
use switch::{Switch, lossless, switch};
pub use testbed::Testbed;
pub(super) use testbed::{bare_topology, testbed};
use topology::{Shape, topology};
use workload::{Scene, Work, Workload};

table! {
    /// The file: a network, what its applications do, and what goes wrong.
    struct File<'a> {
        /// What it is called.
        title = or("untitled", text("a text")) => title: Option<String>;
        /// Of everything that is left to chance, ECMP's hashes too; --seed takes its place.
        seed = otherwise(plain().seed, whole()) => seed: Option<u64>;
        /// When the run ends at the latest.
        end_ms = needed(time_from(TICK, NO_TIME)) => end: Span;
        /// How often deadlocks are looked for; 0 for never.
        deadlock_check_us =
            otherwise(plain().deadlock_check.unwrap_or_default(), time())
            => deadlock_check: Option<Span>;
        /// The distance of samples.
        sample_us = or("as many samples as a report needs", time_from(TICK, SAMPLES))
            => sample: Option<Span>;
        /// Every packet that arrives is emitted, parsed and ICRC-checked.
        paranoid = flag() => paranoid: bool;
        /// Flows of single messages between the same two hosts, of one DSCP, share a queue pair.
        share_queue_pairs = flag() => share_queue_pairs: bool;
        /// How long routing takes to go round a link that is down, and to use it again.
        reroute_us = or("it never does", time()) => reroute: Option<Span>;
        /// What hangs on what.
        topology = needed(deferred()) => topology: Option<Deferred<'a, Shape<'a>>>;
        /// The switches.
        switch = deferred() => switch: Option<Deferred<'a, Switch>>;
        /// Single switches.
        switches = by_name() => switches: Vec<(String, Deferred<'a, Switch>)>;
        /// The NICs.
        nic = deferred() => nic: Option<Deferred<'a, Nic<'a>>>;
        /// The NICs of single hosts.
        nics = by_name() => nics: Vec<(String, Deferred<'a, Nic<'a>>)>;
        /// What the hosts cost.
        host = deferred() => host: Option<Deferred<'a, HostConfig>>;
        /// What single hosts cost.
        hosts = by_name() => hosts: Vec<(String, Deferred<'a, HostConfig>)>;
        /// What the applications do.
        workload = all_deferred() => workloads: Vec<Deferred<'a, Workload>>;
        /// What goes wrong.
        fault = all_deferred() => faults: Vec<Deferred<'a, Fault>>;
        /// Ports whose frames are kept.
        capture = all_deferred() => captures: Vec<Deferred<'a, Capture>>;
        /// Programs in the place of workloads.
        lab = deferred() => lab: Option<Deferred<'a, Lab>>;
    }
}

const SAMPLES: (&str, &str) =
    ("is no distance between samples", "leave it out for as many as a report needs");

const NO_TIME: (&str, &str) = ("is no time to run for", "the run ends at end_ms at the latest");

const NOT_THERE: &str = "it is not there";

/// A network with nothing but defaults.
fn plain() -> NetworkConfig {
    NetworkConfig::new(Topology::default())
}

/// See [`super::reference`].
pub(super) fn reference(extensions: &Extensions) -> Result<Vec<TableText>> {
    custom::sound(extensions)?;
    let mut texts = Vec::new();
    File::describe("", "", &mut texts);
    custom::describe(extensions, &mut texts);
    Ok(texts)
}

impl<'a> At<'a> {
    /// The text of a file that the table names.
    fn open(&self, key: &str, name: &str, files: &dyn Files) -> Result<String> {
        let bytes = files.read(name).and_then(|bytes| bytes.ok_or_else(|| NOT_THERE.to_owned()));
        bytes.and_then(text_of).map_err(|error| {
            self.wrong(key, format!("cannot read {name:?}: {error}"))
                .hint("the path is relative to the scenario")
        })
    }

    /// A mistake in the file `name` that the table names.
    fn wrong_in(&self, key: &str, name: &str, error: FileError) -> ScenarioError {
        let (complaint, hint) = error.parts();
        let wrong = self.wrong(key, format!("{name}, {complaint}"));
        hint.map_or(wrong.clone(), |hint| wrong.hint(hint))
    }
}

/// Of several mistakes the one that stands first in the file is told.
pub(super) fn scenario(at: &At<'_>, seed: Option<u64>, files: &dyn Files) -> Result<Scenario> {
    custom::sound(at.extensions())?;
    let (mut file, mut mistakes) = (File::default(), Mistakes::default());
    mistakes.note(file.read(at));
    let shape = match &file.topology {
        Some(shape) => mistakes.note(topology(shape)).map(|made| (shape, made)),
        None => None,
    };
    let Some((shape, topology)) = shape else {
        file.look(&mut mistakes);
        mistakes.first()?;
        return Err(at.lacks("topology"));
    };
    let mut made = Made {
        config: file.network(topology, seed),
        origin: Origin { topology: shape.at.place("shape"), ..Origin::default() },
        notes: Vec::new(),
        mistakes,
        files,
        all_say_lossless: false,
        say_lossless: BTreeSet::new(),
    };
    made.switches(&file);
    made.nics(&file);
    made.hosts(&file);
    let end = Time::ZERO + file.end;
    made.happenings(&file, end);
    let lab = file.lab.as_ref().map(Deferred::read);
    let lab = lab.and_then(|lab| made.mistakes.note(lab)).unwrap_or_default();
    let Made { mut config, origin, mut notes, mistakes, all_say_lossless, say_lossless, .. } = made;
    mistakes.first()?;
    if !all_say_lossless {
        lossless_of_racks(&mut config, &say_lossless);
    }
    notes.sort();
    notes.dedup();
    notes.sort_by_key(|note: &Note| !note.warning);
    let title = file.title.unwrap_or_else(|| "untitled".to_owned());
    let (sample_interval, dilution) = (file.sample, lab.dilution());
    Ok(Scenario { title, network: config, end, notes, sample_interval, dilution, origin })
}

/// See [`super::faults`].
pub(super) fn faults(at: &At<'_>, topology: &Topology) -> Result<Vec<crate::fault::Fault>> {
    fault(&Deferred::new(at.clone()), topology)
}

impl File<'_> {
    /// The network, but for what tables of their own say.
    fn network(&self, topology: Topology, seed: Option<u64>) -> NetworkConfig {
        let plain = NetworkConfig::new(topology);
        let checks = |every: Span| (every > Span::ZERO).then_some(every);
        NetworkConfig {
            seed: seed.or(self.seed).unwrap_or(plain.seed),
            deadlock_check: self.deadlock_check.map_or(plain.deadlock_check, checks),
            share_queue_pairs: self.share_queue_pairs,
            paranoid: self.paranoid,
            reroute: self.reroute,
            topology: plain.topology,
            switch: plain.switch,
            switches: plain.switches,
            nic: plain.nic,
            nics: plain.nics,
            host: plain.host,
            hosts: plain.hosts,
            flows: plain.flows,
            jobs: plain.jobs,
            faults: plain.faults,
            captures: plain.captures,
            // These change no result.
            partitions: plain.partitions,
            threads: plain.threads,
        }
    }

    /// Notes what is wrong whatever the topology is.
    fn look(&self, mistakes: &mut Mistakes) {
        for table in self.switch.iter().chain(self.switches.iter().map(|(_, table)| table)) {
            mistakes.note(table.look());
        }
        for table in self.nic.iter().chain(self.nics.iter().map(|(_, table)| table)) {
            mistakes.note(table.look());
        }
        for table in self.host.iter().chain(self.hosts.iter().map(|(_, table)| table)) {
            mistakes.note(table.look());
        }
        for table in &self.workloads {
            mistakes.note(custom::look(&table.at));
        }
        for table in &self.faults {
            mistakes.note(table.kind());
        }
        for table in &self.captures {
            mistakes.note(table.look());
        }
        if let Some(table) = &self.lab {
            mistakes.note(table.look());
        }
    }
}

/// What is made of a file.
struct Made<'s> {
    config: NetworkConfig,
    origin: Origin,
    notes: Vec<Note>,
    mistakes: Mistakes,
    files: &'s dyn Files,
    /// Whether `[nic]` says which priorities have PFC.
    all_say_lossless: bool,
    /// The hosts whose `[nics.NAME]` does.
    say_lossless: BTreeSet<u32>,
}

impl Made<'_> {
    fn switches(&mut self, file: &File<'_>) {
        if let Some(table) = &file.switch {
            self.origin.switch = Some(buffer_of(&table.at));
            let made = self.all_switches(table);
            self.mistakes.note(made);
        }
        for (name, table) in &file.switches {
            let made = self.switch(name, table);
            self.mistakes.note(made);
        }
    }

    fn all_switches(&mut self, table: &Deferred<'_, Switch>) -> Result<()> {
        let said = table.read()?;
        match said.config_db {
            Some(_) => {
                all_from_config_db(table, &said, &mut self.config, self.files, &mut self.notes)?;
            }
            None => {
                let base = self.config.switch.clone();
                by_cables(&mut self.config, |links| switch(table, &base, &rates_of(links)))?;
            }
        }
        Ok(())
    }

    fn switch(&mut self, name: &str, table: &Deferred<'_, Switch>) -> Result<()> {
        let (said, config) = (table.read()?, &self.config);
        let Some(End::Switch(index)) = config.topology.find(name) else {
            return Err(missing(&table.at, "switch", name, |index| {
                config.topology.switches.get(index).map(|switch| switch.name.as_str())
            }));
        };
        let own = match said.config_db {
            Some(_) => {
                one_from_config_db(table, &said, config, index, self.files, &mut self.notes)?
            }
            None => {
                let base = config.switches.get(&index).unwrap_or(&config.switch);
                let cables = cables(&config.topology);
                switch(table, base, &cables.get(index as usize).map_or(vec![], rates_of))?
            }
        };
        self.config.switches.insert(index, own);
        self.origin.switches.insert(name.to_owned(), buffer_of(&table.at));
        Ok(())
    }

    fn nics(&mut self, file: &File<'_>) {
        let rates = self.config.topology.host_rates();
        let hosts = rates.iter().zip(&self.config.topology.hosts);
        let all = hosts.filter(|(_, host)| file.nics.iter().all(|(name, _)| name != *host));
        let line = slowest(all.map(|(rate, _)| *rate));
        self.config.nic.lossless_priorities = lossless(&self.config.switch);
        let notes = &mut self.notes;
        let read = |table| nic(table, &self.config, line, self.files, notes);
        let made = file.nic.as_ref().map(read);
        let is_wrong = matches!(made, Some(Err(_)));
        if let Some((nic, says_lossless)) = made.and_then(|made| self.mistakes.note(made)) {
            self.config.nic = nic;
            self.all_say_lossless = says_lossless;
        }
        for (name, table) in &file.nics {
            // What one NIC says stands beside what all say.
            let made = if is_wrong { table.look() } else { self.nic(name, table) };
            self.mistakes.note(made);
        }
    }

    fn nic(&mut self, name: &str, table: &Deferred<'_, Nic<'_>>) -> Result<()> {
        let (config, files) = (&mut self.config, self.files);
        let index = named_host(&table.at, &config.topology, name)?;
        let line = slowest(config.topology.host_rates().get(index as usize).copied());
        let (own, says_lossless) = nic(table, config, line, files, &mut self.notes)?;
        config.nics.insert(index, own);
        if says_lossless {
            self.say_lossless.insert(index);
        }
        Ok(())
    }

    fn hosts(&mut self, file: &File<'_>) {
        let made = file.host.as_ref().map(Deferred::read);
        let is_wrong = matches!(made, Some(Err(_)));
        if let Some(made) = made {
            self.config.host = self.mistakes.note(made);
        }
        for (name, table) in &file.hosts {
            // What one host says stands beside what all say.
            let made = if is_wrong { table.look() } else { self.host(name, table) };
            self.mistakes.note(made);
        }
    }

    fn host(&mut self, name: &str, table: &Deferred<'_, HostConfig>) -> Result<()> {
        let index = named_host(&table.at, &self.config.topology, name)?;
        let mut own = self.config.host.clone().unwrap_or_default();
        table.read_over(&mut own)?;
        self.config.hosts.insert(index, own);
        Ok(())
    }

    /// What applications do, what goes wrong, and what is kept of it.
    fn happenings(&mut self, file: &File<'_>, end: Time) {
        let Self { config, origin, mistakes, files, notes, .. } = self;
        let mut random = Random::new(config.seed ^ 0x5eed);
        for table in &file.workloads {
            origin.workloads.push((config.flows.len(), table.at.place("kind")));
            let scene = Scene { topology: &config.topology, end, files: *files };
            let first = config.flows.len();
            match mistakes.note(custom::workload(table, &scene, &mut random)) {
                Some(Work::Flows(flows)) if flows.is_empty() => {
                    let Place { line, key, .. } = table.at.place("kind");
                    notes.push(warning(format!(
                        "{line}: {key}: nothing is sent, with so few hosts, or in so little time"
                    )));
                }
                Some(Work::Flows(flows)) => config.flows.extend(flows),
                Some(Work::Job(job)) => config.add_job(job),
                None => {}
            }
            let flows = &config.flows[first..];
            if !flows.is_empty() && flows.iter().all(|flow| flow.start > end) {
                let Place { line, key, .. } = table.at.place("start_us");
                notes.push(warning(format!(
                    "{line}: {key} is after the end of the run, {end}: nothing of it is sent"
                )));
            }
        }
        if file.workloads.is_empty() {
            let text = "no application does anything: add a [[workload]]".to_owned();
            notes.push(warning(text));
        }
        for table in &file.faults {
            let faults = mistakes.note(fault(table, &config.topology)).unwrap_or_default();
            if faults.first().is_some_and(|fault| fault.at > end) {
                let Place { line, key, .. } = table.at.place("at_us");
                notes.push(warning(format!(
                    "{line}: {key} is after the end of the run, {end}: the fault never happens"
                )));
            }
            config.faults.extend(faults);
        }
        for table in &file.captures {
            config.captures.extend(mistakes.note(capture(table, &config.topology)));
        }
    }
}

fn rates_of(links: &(impl AsRef<[Cables]> + ?Sized)) -> Vec<Rate> {
    links.as_ref().iter().map(|link| link.rate).collect()
}

/// The least of the rates of hosts, of those that have a link.
fn slowest(rates: impl IntoIterator<Item = Rate>) -> Rate {
    let rates = rates.into_iter().filter(|rate| *rate > Rate::ZERO);
    rates.min().unwrap_or(Rate::from_bps(u64::MAX))
}

/// Something that is likely to be a mistake.
fn warning(text: String) -> Note {
    Note { warning: true, text }
}

/// The key to which a switch owes what its ports reserve.
fn buffer_of(at: &At<'_>) -> Place {
    let keys = ["headroom_bytes", "reserve_bytes", "buffer_bytes", "config_db"];
    at.place(at.first_of(&keys).unwrap_or("buffer_bytes"))
}

/// A NIC pauses what the switch at the other end of its link pauses, unless it is one of those that `say` what.
fn lossless_of_racks(config: &mut NetworkConfig, say: &BTreeSet<u32>) {
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
        let Some(own) = own.filter(|_| !say.contains(&host)) else { continue };
        let mask = lossless(own);
        let nic = config.nics.get(&host).unwrap_or(&config.nic);
        if nic.lossless_priorities != mask {
            let nic = NicConfig { lossless_priorities: mask, ..nic.clone() };
            config.nics.insert(host, nic);
        }
    }
}

/// The host that a table is about.
fn named_host(at: &At<'_>, topology: &Topology, name: &str) -> Result<u32> {
    match topology.find(name) {
        Some(End::Host(index)) => Ok(index),
        _ => Err(missing(at, "host", name, |index| topology.hosts.get(index).map(String::as_str))),
    }
}

/// A table about a node that is not there. `known` has the names of those that are.
fn missing<'a>(
    at: &At<'_>,
    what: &str,
    name: &str,
    known: impl Fn(usize) -> Option<&'a str>,
) -> ScenarioError {
    let names: Vec<&str> = (0..4).map_while(&known).collect();
    let more = if known(names.len()).is_some() { ", ..." } else { "" };
    let error = ScenarioError::at_place(&at.itself(), format!("there is no {what} {name:?}"));
    match names.as_slice() {
        [] => error.hint("remove the table"),
        names => error.hint(format!("names are {}{more}", names.join(", "))),
    }
}

/// The node that `key` names.
fn node(at: &At<'_>, topology: &Topology, key: &str, name: &str) -> Result<End> {
    topology.find(name).ok_or_else(|| {
        let ends = topology.links.first().map(|link| link.ends);
        let [one, other] = ends.map_or([""; 2], |ends| ends.map(|end| topology.name(end)));
        let wrong = at.wrong(key, format!("there is no host or switch {name:?}"));
        wrong.hint(format!("names are such as {one} and {other}"))
    })
}

/// The host that `key` names.
fn host(at: &At<'_>, topology: &Topology, key: &str, name: &str) -> Result<u32> {
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
