//! Switches whose settings are a SONiC `config_db.json`, and the keys beside it.

use rdma::Rate;

use super::switch::{Switch, switch};
use super::{Deferred, Files, Note, Result};
use crate::NetworkConfig;
use crate::scenario::sonic::ConfigDb;
use crate::switch::config::SwitchConfig;
use crate::topology::{Cables, End, Topology};

/// `[switch]`: the file is about every switch.
pub(super) fn all_from_config_db(
    table: &Deferred<'_, Switch>,
    said: &Switch,
    config: &mut NetworkConfig,
    files: &dyn Files,
    notes: &mut Vec<Note>,
) -> Result<()> {
    let db = load(table, said, files)?;
    let base = config.switch.clone();
    by_cables(config, |links| settings_of(table, said, &db, links, &base, notes))
}

/// Gives every switch what `settings_of` says of one with its links.
pub(super) fn by_cables(
    config: &mut NetworkConfig,
    mut settings_of: impl FnMut(&[Cables]) -> Result<SwitchConfig>,
) -> Result<()> {
    let cables = cables(&config.topology);
    // Switches with the same links have the same settings.
    let mut made: Vec<(&[Cables], SwitchConfig)> = Vec::new();
    let mut settings = Vec::new();
    for links in &cables {
        let known = made.iter().find(|(same, _)| *same == links.as_slice());
        let own = match known {
            Some((_, own)) => own.clone(),
            None => {
                let own = settings_of(links)?;
                made.push((links, own.clone()));
                own
            }
        };
        settings.push(own);
    }
    let Some(first) = settings.first().cloned() else { return Ok(()) };
    for (index, own) in settings.into_iter().enumerate() {
        if own != first {
            config.switches.insert(index as u32, own);
        }
    }
    config.switch = first;
    Ok(())
}

/// `[switches.NAME]`: the file is about one.
pub(super) fn one_from_config_db(
    table: &Deferred<'_, Switch>,
    said: &Switch,
    config: &NetworkConfig,
    index: u32,
    files: &dyn Files,
    notes: &mut Vec<Note>,
) -> Result<SwitchConfig> {
    let db = load(table, said, files)?;
    let cables = cables(&config.topology);
    let links = cables.get(index as usize).map_or(&[][..], Vec::as_slice);
    settings_of(table, said, &db, links, &SwitchConfig::default(), notes)
}

fn load(table: &Deferred<'_, Switch>, said: &Switch, files: &dyn Files) -> Result<ConfigDb> {
    let at = &table.at;
    let name = said.config_db.as_deref().unwrap_or_default();
    let text = at.open("config_db", name, files)?;
    ConfigDb::parse(&text).map_err(|error| at.wrong_in("config_db", name, error))
}

fn settings_of(
    table: &Deferred<'_, Switch>,
    said: &Switch,
    db: &ConfigDb,
    links: &[Cables],
    base: &SwitchConfig,
    notes: &mut Vec<Note>,
) -> Result<SwitchConfig> {
    let name = said.config_db.as_deref().unwrap_or_default();
    let ports = said.config_db_ports.as_deref();
    let (own, told) = db
        .switch(links, ports, said.buffer_bytes(), base)
        .map_err(|error| table.at.wrong_in("config_db", name, error))?;
    let named = |note: Note| Note { text: format!("{name}: {}", note.text), ..note };
    notes.extend(told.into_iter().map(named));
    let rates: Vec<Rate> = links.iter().map(|link| link.rate).collect();
    switch(table, &own, &rates)
}

/// The links of every switch, in their order.
pub(super) fn cables(topology: &Topology) -> Vec<Vec<Cables>> {
    let mut cables = vec![Vec::new(); topology.switches.len()];
    for link in &topology.links {
        for end in link.ends {
            if let End::Switch(index) = end
                && let Some(links) = cables.get_mut(index as usize)
            {
                links.push(Cables { rate: link.rate, propagation: link.propagation });
            }
        }
    }
    cables
}
