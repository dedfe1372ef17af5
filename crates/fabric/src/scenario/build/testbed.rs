//! A testbed: hosts, NICs, links and switches of one kind, as a paper describes them.

use rdma::Rate;

use super::Files;
use super::nic::{Nic, nic};
use super::switch::{Switch, lossless, switch};
use super::topology::{Access, Shape, metres, topology};
use crate::NetworkConfig;
use crate::model::HostConfig;
use crate::scenario::at::{At, Result};
use crate::scenario::deferred::{Deferred, deferred};
use crate::scenario::table::{Table as _, table};
use crate::scenario::value::{needed, or, otherwise, rate, text};
use crate::topology::{Cables, Topology, single_switch};

table! {
    /// A testbed.
    struct File<'a> {
        /// What it is called.
        title = needed(text("a text")) => title: String;
        /// What it is made of.
        about = or("nothing", text("a text")) => about: Option<String>;
        /// Of its links.
        rate_gbps = needed(rate()) => rate: Rate;
        /// Of its links.
        cable_m = otherwise(Access::default().cable_m, metres()) => cable_m: Option<u32>;
        /// Its switches.
        switch = deferred() => switch: Option<Deferred<'a, Switch>>;
        /// Its NICs.
        nic = deferred() => nic: Option<Deferred<'a, Nic<'a>>>;
        /// Its hosts.
        host = needed(deferred()) => host: Option<Deferred<'a, HostConfig>>;
    }
}

/// See the module.
#[derive(Clone, PartialEq, Debug)]
pub struct Testbed {
    /// What it is called.
    pub title: String,
    /// What it is made of.
    pub about: String,
    /// Its links.
    pub cables: Cables,
    config: NetworkConfig,
}

impl Testbed {
    /// So many of its hosts under one switch.
    pub fn network(&self, hosts: u32) -> NetworkConfig {
        self.on(single_switch(hosts, self.cables))
    }

    /// Its hosts and switches in the places of another network, whose links have rates of their own.
    pub fn on(&self, topology: Topology) -> NetworkConfig {
        NetworkConfig { topology, ..self.config.clone() }
    }
}

const NO_FILES: &str = "a testbed names no other file";

/// None that may be named.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str) -> core::result::Result<Option<Vec<u8>>, String> {
        Err(NO_FILES.to_owned())
    }

    fn names(&self, _: &str) -> core::result::Result<Option<Vec<String>>, String> {
        Err(NO_FILES.to_owned())
    }
}

pub(in crate::scenario) fn testbed(at: &At<'_>) -> Result<Testbed> {
    let mut file = File::default();
    file.read(at)?;
    let cables = Cables::new(file.rate, file.cable_m.unwrap_or(Access::default().cable_m));
    let mut config = NetworkConfig::new(single_switch(2, cables));
    if let Some(table) = &file.switch {
        let said = table.read()?;
        if said.config_db.is_some() {
            let hint = "say here what it says: buffer_bytes, lossless_priorities, ...";
            let error = table.at.wrong("config_db", NO_FILES);
            return Err(error.hint(hint));
        }
        config.switch = switch(table, &config.switch, &[file.rate])?;
    }
    config.nic.lossless_priorities = lossless(&config.switch);
    if let Some(table) = &file.nic {
        (config.nic, _) = nic(table, &config, file.rate, &NoFiles, &mut Vec::new())?;
    }
    let mut host = HostConfig::default();
    if let Some(table) = &file.host {
        table.read_over(&mut host)?;
    }
    config.host = Some(host);
    Ok(Testbed { title: file.title, about: file.about.unwrap_or_default(), cables, config })
}

table! {
    /// A network without anything else.
    struct Bare<'a> {
        /// What hangs on what.
        topology = needed(deferred()) => topology: Option<Deferred<'a, Shape<'a>>>;
    }
}

/// The topology of a file that has nothing else.
pub(in crate::scenario) fn bare_topology(at: &At<'_>) -> Result<Topology> {
    let mut file = Bare::default();
    file.read(at)?;
    file.topology.as_ref().map_or_else(|| Err(at.lacks("topology")), topology)
}
