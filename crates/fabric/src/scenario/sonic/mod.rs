//! Switch settings from a SONiC `config_db.json`.
//!
//! ```text
//!   text ─► json (lines) ─► tables (each by itself) ─► settings (what they mean together) ─► SwitchConfig
//! ```
//!
//! Read are `PORT`, `CABLE_LENGTH`, `PORT_QOS_MAP`, the maps between DSCP, PCP, class, priority group,
//! queue and PFC priority, `BUFFER_POOL`, `BUFFER_PROFILE`, `BUFFER_PG`, `BUFFER_QUEUE`, `SCHEDULER`,
//! `WRED_PROFILE`, `QUEUE`, `PFC_WD`, `DEFAULT_LOSSLESS_BUFFER_PARAMETER`, and of `DEVICE_METADATA` whose
//! watchdog it is. Other tables are listed as ignored. References may be names, or `[TABLE|name]`.
//!
//! A field that a table does not have, a reference to nothing and a value that makes no sense are
//! refused with line, table, key and remedy. What the file asks for and the simulated switch cannot do
//! becomes a warning: nothing is passed over in silence.
//!
//! What SONiC leaves to SAI is as SAI has it: no map means class, group or queue 0; XON is due at
//! `xon`, or `xon_offset` below the threshold, whichever is more; a pool with `xoff` keeps that beside
//! its size for all headrooms together. Where `size` of a lossless profile is at least its `xoff`, and
//! the pool has none, it contains the headroom, as on Mellanox.
//!
//! **What is deliberately absent:** egress pools (queues are limited by the ingress pool, and lossless
//! queues not at all), maps that differ between the ports of a switch, rewriting of DSCPs.

mod around;
mod json;
mod notes;
mod settings;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use crate::mistake::FileError;
pub use around::around;
pub use json::{Entry, Field, Table};
pub use notes::Note;

use notes::Notes;
use tables::{Pool, Port, Profile, Watchdogs};

use crate::switch::config::{EcnConfig, Schedule, SwitchConfig, WatchdogRule};
use crate::topology::Cables;

/// Tables that are read.
const KNOWN: [&str; 19] = [
    "BUFFER_PG",
    "BUFFER_POOL",
    "BUFFER_PROFILE",
    "BUFFER_QUEUE",
    "CABLE_LENGTH",
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER",
    "DEVICE_METADATA",
    "DOT1P_TO_TC_MAP",
    "DSCP_TO_TC_MAP",
    "MAP_PFC_PRIORITY_TO_QUEUE",
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
    "PFC_WD",
    "PORT",
    "PORT_QOS_MAP",
    "QUEUE",
    "SCHEDULER",
    "TC_TO_PRIORITY_GROUP_MAP",
    "TC_TO_QUEUE_MAP",
    "WRED_PROFILE",
];

/// Tables that say nothing about a simulated switch, and are read for those who ask ([`tables`]).
const BESIDE: [&str; 7] = [
    "DEVICE_NEIGHBOR",
    "FLEX_COUNTER_TABLE",
    "LOSSLESS_TRAFFIC_PATTERN",
    "STATIC_ROUTE",
    "VLAN",
    "VLAN_INTERFACE",
    "VLAN_MEMBER",
];

/// The tables of a file as they are written, with their lines, whether they make sense or not: those of buffers
/// and classes, and those that say who is beside a switch and what it floods.
///
/// # Errors
/// [`FileError`] if the file is no JSON, or no tables of keys and fields.
pub fn tables(text: &str) -> Result<Vec<Table>, FileError> {
    let known: Vec<&'static str> = KNOWN.into_iter().chain(BESIDE).collect();
    json::read(text, &known).map(|(tables, _)| tables)
}

/// A `config_db.json` that has been read, for one switch or many.
#[derive(Clone, Debug)]
pub struct ConfigDb {
    tables: Vec<Table>,
    ports: Vec<Port>,
    pools: BTreeMap<String, Pool>,
    profiles: BTreeMap<String, Profile>,
    schedulers: BTreeMap<String, Schedule>,
    wreds: BTreeMap<String, Option<EcnConfig>>,
    watchdogs: Watchdogs,
    rule: WatchdogRule,
    notes: Notes,
}

impl ConfigDb {
    /// Reads a file.
    ///
    /// # Errors
    /// [`FileError`], with line, table, key and remedy.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        Self::parse_without(text, |_| |_: &Field| false)
    }

    /// Reads a file as if it had not the fields that `left_out` says of each entry.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_without<F: Fn(&Field) -> bool>(
        text: &str,
        left_out: impl Fn(&Entry) -> F,
    ) -> Result<Self, FileError> {
        let (mut found, others) = json::read(text, &KNOWN)?;
        for entry in found.iter_mut().flat_map(|table| &mut table.entries) {
            let is_out = left_out(entry);
            entry.fields.retain(|field| !is_out(field));
        }
        let mut notes = Notes::default();
        if !others.is_empty() {
            notes.info(format!(
                "tables that say nothing about buffers, ignored: {}",
                others.join(", ")
            ));
        }
        let pools = tables::pools(&found)?;
        let profiles = tables::profiles(&found, &pools, &mut notes)?;
        let schedulers = tables::schedulers(&found, &mut notes)?;
        let wreds = tables::wreds(&found, &mut notes)?;
        let watchdogs = tables::watchdogs(&found, &mut notes)?;
        let (rule, named) = tables::watchdog_rule(&found);
        if !watchdogs.ports.is_empty() {
            let by = named.map_or("DEVICE_METADATA does not say more".into(), |name| {
                format!("DEVICE_METADATA says {name}")
            });
            notes.info(format!("PFC_WD: the rule is {rule:?}'s, as {by}"));
        }
        let ports = tables::ports(&found)?;
        Ok(Self {
            ports,
            pools,
            profiles,
            schedulers,
            wreds,
            watchdogs,
            rule,
            notes,
            tables: found,
        })
    }

    /// The names of its ports, by the numbers in them.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|port| port.name.as_str())
    }

    /// What it means for a simulated switch with these links. `names` says which port each link is
    /// at; otherwise the first link is at the first port, and so on. `buffer_bytes` takes the place of
    /// the size of the pool. What the file cannot say is as in `base`.
    ///
    /// # Errors
    /// [`FileError`], where tables contradict each other or something is missing.
    pub fn switch(
        &self,
        links: &[Cables],
        names: Option<&[String]>,
        buffer_bytes: Option<u32>,
        base: &SwitchConfig,
    ) -> Result<(SwitchConfig, Vec<Note>), FileError> {
        settings::switch(self, links, names, buffer_bytes, base)
    }
}
